"""`torch.utils.cpp_extension`: the names, for imports; there is no C++ to extend."""

from flambeau.torch import _mirror

CUDA_HOME = ROCM_HOME = None
IS_HIP_EXTENSION = False


def _refuse(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(
            f"[utils.cpp_extension.{name}] extensions in C++ or CUDA are built against PyTorch's own "
            "library, which is not here\n  hint: write the function in Python; many extensions have "
            "such a form to fall back to"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: there is no C++ library to build against."
    return refuse


globals().update(
    {
        name: _refuse(name)
        for name in (
            "BuildExtension",
            "CUDAExtension",
            "CppExtension",
            "SyclExtension",
            "include_paths",
            "library_paths",
            "load",
            "load_inline",
        )
    }
)

__getattr__, __dir__ = _mirror.mirror(__name__)
