"""Transforms made of transforms."""

import random

from flambeau.nn import Module, ModuleList
from flambeau.tensor import rand


class Compose:
    """One transform after the other.

    >>> from flambeau.vision import transforms
    >>> transforms.Compose([transforms.CenterCrop(10), transforms.ToTensor()])
    Compose(
        CenterCrop(size=(10, 10))
        ToTensor()
    )
    """

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self):
        return _shown(self, self.transforms)


def _shown(self, transforms, *first):
    lines = [f"    {line}" for line in (*first, *map(str, transforms))]
    return "\n".join([f"{type(self).__name__}(", *lines, ")"])


class Lambda:
    """Any function as a transform."""

    def __init__(self, lambd):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img):
        return self.lambd(img)

    def __repr__(self):
        return f"{type(self).__name__}()"


class RandomApply(Module):
    """All of `transforms`, with probability p."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, img):
        if self.p < rand(1):
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self):
        return _shown(self, self.transforms, f"p={self.p}")


class RandomTransforms:
    """What RandomOrder and RandomChoice have in common."""

    def __init__(self, transforms):
        if not isinstance(transforms, (list, tuple, ModuleList)):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def __repr__(self):
        return _shown(self, self.transforms)


class RandomOrder(RandomTransforms):
    """All of `transforms` in a random order (drawn by Python's `random`, as torchvision does)."""

    def __call__(self, img):
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for index in order:
            img = self.transforms[index](img)
        return img


class RandomChoice(RandomTransforms):
    """One of `transforms`, with weights p (drawn by Python's `random`, as torchvision does)."""

    def __init__(self, transforms, p=None):
        super().__init__(transforms)
        if p is not None and not isinstance(p, (list, tuple)):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def __call__(self, *args):
        return random.choices(self.transforms, weights=self.p)[0](*args)

    def __repr__(self):
        return f"{super().__repr__()}(p={self.p})"
