"""Datasets of pictures in their standard files, in the folders where torchvision keeps them."""

from flambeau.vision._lazy import lazy

_MODULES = {
    "vision": ("VisionDataset", "StandardTransform"),
    "mnist": ("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST"),
    "cifar": ("CIFAR10", "CIFAR100"),
    "svhn": ("SVHN",),
    "stl10": ("STL10",),
    "usps": ("USPS",),
    "folder": ("DatasetFolder", "ImageFolder"),
    "imagenet": ("ImageNet",),
    "fakedata": ("FakeData",),
}
_REFUSED = dict.fromkeys(("CelebA", "CocoCaptions", "CocoDetection", "VOCDetection", "VOCSegmentation",
                          "Cityscapes",
                          "LSUN", "Kinetics", "Omniglot", "Places365", "Caltech101", "Caltech256", "Food101"),
                         "read its files with ImageFolder or a Dataset of your own")

__getattr__, __dir__ = lazy(__name__, _MODULES, ("utils",), _REFUSED)
