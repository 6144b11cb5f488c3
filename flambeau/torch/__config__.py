"""torch.__config__"""


def show():
    """What Flambeau is built with, as text.

    >>> print(show().splitlines()[0])
    Flambeau 0.1.0 built with:
    """
    import sys

    from flambeau import __version__
    from flambeau.backends import get_cpu_capability
    from flambeau.compiler import target

    return "\n".join([f"Flambeau {__version__} built with:", f"  - Python {sys.version.split()[0]}",
                      f"  - kernels generated for: {target.current().name}",
                      f"  - CPU capability usage: {get_cpu_capability()}", "  - CUDA: none", ""])


def parallel_info():
    """The number of threads, as text."""
    from flambeau.runtime._core import get_num_threads

    return f"Flambeau/Parallel:\n\tget_num_threads() : {get_num_threads()}\n"
