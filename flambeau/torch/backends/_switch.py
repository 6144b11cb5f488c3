"""Switches that scripts set and read back, and that change nothing: Flambeau has one way to compute."""

from contextlib import contextmanager


class Switches:
    """Named values: each can be read and set, an unknown name cannot be read.

    >>> matmul = Switches(allow_tf32=False)
    >>> matmul.allow_tf32 = True
    >>> matmul.allow_tf32
    True
    """

    def __init__(self, **values):
        self.__dict__.update(values)


def flags_of(module, names):
    """`flags(...)` for a module: a block in which its switches `names` have the values given."""
    @contextmanager
    def flags(**given):
        """The switches for a block."""
        unknown = set(given) - set(names)
        if unknown:
            raise TypeError(
                f"flags() got an unexpected keyword argument {unknown.pop()!r}; there are: {', '.join(names)}")
        before = {name: getattr(module, name) for name in names}
        for name, value in given.items():
            setattr(module, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(module, name, value)
    return flags
