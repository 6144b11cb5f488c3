"""vision: pictures as data. Datasets, transforms, models, box operations, reading and writing pictures.

The module paths are torchvision's, so that `flambeau run script.py` serves this package as `torchvision`.

    from flambeau.vision import datasets, transforms
    data = datasets.MNIST("data", transform=transforms.ToTensor())      # of data/MNIST/raw/train-images-idx3-ubyte
"""

from flambeau.vision._lazy import lazy

__version__ = "0.28.0+flambeau.0.1.0"      # the torchvision whose API is meant, and what stands behind it

__getattr__, __dir__ = lazy(__name__, {}, ("datasets", "io", "models", "ops", "transforms", "tv_tensors", "utils"))


def get_image_backend():
    """The library that reads pictures: always 'PIL'."""
    return "PIL"


def set_image_backend(backend):
    """Accepts 'PIL' only."""
    if backend != "PIL":
        raise ValueError(f"Invalid backend '{backend}'. Options are 'PIL'")


def disable_beta_transforms_warning():
    """Does nothing: there is no such warning."""


def _is_tracing():
    """Always False: there is no tracing of programs into files. (Programs ask for it by this name.)"""
    return False
