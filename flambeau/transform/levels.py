"""The stack of transforms that are running, innermost last. It belongs to the thread."""

from flambeau.ops.wrapped import Wrapped, running


def current():
    """The innermost level."""
    return running.levels[-1]


class Level:
    """One running transform: `with level:` makes it the innermost. `depth` orders levels, from 1.

    A subclass states `process(operation, values)`: run a call in which values of this level take part; values of outer
    levels among its arguments are plain tensors to it.
    """

    name = "transform"

    def __init__(self):
        self.depth = None
        self.ended = False          # after it, values that got out stand for the tensors below them

    def assign(self, operation, target, result):
        """An in-place write to a value of this level."""
        from flambeau.transform.window import assign
        return assign(operation, target, result)

    def fresh(self, made):
        """A tensor that was made inside, as a constant of this level that can be written to."""
        raise NotImplementedError

    def is_constant(self, value):
        """True if a value of the level says no more than the tensor below."""
        raise NotImplementedError

    def reinterpreted(self, value, dtype):
        """The bits of a value as another dtype, through which nothing is differentiated."""
        return self.fresh(value.inner.detach().view(dtype))

    def draws(self):
        """How many draws an example-wise random number stands for; None for one."""
        return

    def __enter__(self):
        running.levels.append(self)
        self.depth = len(running.levels)
        return self

    def __exit__(self, *error):
        running.levels.remove(self)
        self.ended = True


def below(level, value):
    """`value` as the level below has it: values of `level` unwrapped, tuples and lists of them too."""
    if isinstance(value, Wrapped):
        return value.inner if value.level is level else value
    if isinstance(value, (tuple, list)):
        return type(value)(*[below(level, v) for v in value]) if hasattr(value, "_fields") \
            else type(value)(below(level, v) for v in value)
    return value
