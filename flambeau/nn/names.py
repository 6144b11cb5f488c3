"""Names that appear in messages: the package's public name and a value's type."""

from flambeau.tensor import Tensor
from flambeau.types import dtype


def package_name():
    """'flambeau', or 'torch' where dtypes print as torch's."""
    return repr(dtype.float32).partition(".")[0]


def type_name(value):
    """The type of `value` as messages show it: `int`, `numpy.ndarray`, `flambeau.FloatTensor`."""
    if isinstance(value, Tensor):
        return value.type()
    kind = type(value)
    if kind.__module__ in ("builtins", "__main__", None):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def indent_block(text, spaces):
    """Indent every line of `text` but the first."""
    return text.replace("\n", "\n" + " " * spaces)
