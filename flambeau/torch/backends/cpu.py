"""torch.backends.cpu"""


def get_cpu_capability():
    """The vector code that kernels use: 'DEFAULT', 'AVX2' or 'AVX512'."""
    from flambeau.compiler import target

    features = target.current().features
    return "AVX512" if "avx512f" in features else "AVX2" if "avx2" in features else "DEFAULT"
