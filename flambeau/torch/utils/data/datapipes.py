"""torch.utils.data.datapipes: refused, name by name. PyTorch has given them up in favour of plain datasets."""

from flambeau.torch import _mirror


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise _mirror.UnsupportedError(
        f"[torch.utils.data.datapipes] {name} is not supported by Flambeau: a data pipe is an iterator over samples\n"
        "  hint: subclass torch.utils.data.IterableDataset and write __iter__ as a generator, or Dataset with "
        "__getitem__")
