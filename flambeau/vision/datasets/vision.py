"""What all datasets of pictures have: a root folder, transforms, and a text that says so."""

import os

from flambeau.base.errors import fail
from flambeau.data import Dataset


class VisionDataset(Dataset):
    """A dataset with files below the folder `root`.

    transforms: function of (picture, target) that gives both; or transform and target_transform, functions of
    the one and of the other.
    """

    _repr_indent = 4

    def __init__(self, root=None, transforms=None, transform=None, target_transform=None):
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        separate = transform is not None or target_transform is not None
        if transforms is not None and separate:
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.transform, self.target_transform = transform, target_transform
        self.transforms = StandardTransform(transform, target_transform) if separate else transforms

    def __getitem__(self, index):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError

    def __repr__(self):
        body = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if getattr(self, "transforms", None) is not None:
            body.append(repr(self.transforms))
        indent = " " * self._repr_indent
        return "\n".join([f"Dataset {type(self).__name__}", *(indent + line for line in body)])

    def extra_repr(self):
        return ""

    def _transformed(self, picture, target):
        if self.transform is not None:
            picture = self.transform(picture)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return picture, target


class StandardTransform:
    """One function for the picture and one for the target; None leaves it as it is."""

    def __init__(self, transform=None, target_transform=None):
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, input, target):
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def __repr__(self):
        lines = [type(self).__name__]
        parts = ("Transform: ", self.transform), ("Target transform: ", self.target_transform)
        for head, transform in parts:
            if transform is not None:
                first, *rest = repr(transform).splitlines()
                lines += [head + first, *(" " * len(head) + line for line in rest)]
        return "\n".join(lines)


def not_found(dataset, folder, names, sources):
    """Raise the error for files that are missing: where they belong, their names, where they come from."""
    listed = ", ".join(names)
    fail(type(dataset).__name__, "Dataset not found or incomplete. You can use download=True to download it",
         got=f"no such files in {os.path.abspath(folder)}", want=listed,
         hint="without a network, fetch " + " ".join(sources) + " elsewhere and put the files there")


class RestrictedUnpickler:
    """Loads the pickles of CIFAR: dicts, lists, bytes, numbers and NumPy arrays; nothing in them can run
    code.
    """

    def __new__(cls, file, encoding="latin1"):
        import pickle

        class Unpickler(pickle.Unpickler):
            def find_class(self, module, name):
                return allowed(module, name)

        return Unpickler(file, encoding=encoding)


def allowed(module, name):
    """The function or class that a pickle of arrays may name; UnpicklingError for every other."""
    import _codecs
    import pickle

    import numpy

    multiarray = getattr(numpy, "_core", None) or numpy.core
    rebuild = {"_reconstruct": multiarray.multiarray._reconstruct, "scalar": multiarray.multiarray.scalar}
    table = {("numpy", "ndarray"): numpy.ndarray, ("numpy", "dtype"): numpy.dtype,
             ("_codecs", "encode"): _codecs.encode}
    for home in ("numpy.core.multiarray", "numpy._core.multiarray"):
        table |= {(home, key): function for key, function in rebuild.items()}
    if (module, name) not in table:
        raise pickle.UnpicklingError(f"a file of arrays may not name {module}.{name}")
    return table[module, name]
