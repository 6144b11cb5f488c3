"""Errors that teach: which op, what is wrong, what was given, what would work, and the user's own line.

    fail("matmul", "inner sizes differ", got="(32, 784) @ (512, 10)", hint="transpose the second operand")

raises

    RuntimeError: [matmul] inner sizes differ: got (32, 784) @ (512, 10)
      hint: transpose the second operand
      at train.py:12: loss = x @ w

Each class subclasses the type that PyTorch raises in the same case, so that `except RuntimeError` keeps
working.
"""

from flambeau.base.flags import flags
from flambeau.base.source import is_own, show_source, source_line, user_source


class ShapeError(RuntimeError):
    """Sizes that do not fit together."""


class DTypeError(RuntimeError):
    """Element types that an op does not take, or that do not fit together."""


class DeviceError(RuntimeError):
    """A device that does not exist here, or operands on different devices."""


class MissingDevice(DeviceError, AssertionError, NotImplementedError):
    """A device that PyTorch knows and that is not here; PyTorch raises one or the other of these types."""


class AxisError(IndexError):
    """An axis outside the tensor's dimensions."""


class PlaceError(IndexError, RuntimeError):
    """An index out of bounds; PyTorch raises one or the other of these types."""


class ArgumentError(TypeError):
    """An argument of a wrong Python type."""


class DivisionError(ZeroDivisionError, RuntimeError):
    """An integer divided by zero."""


class MissingExtra(ImportError):
    """An optional dependency is not installed; the message has the command that installs it."""


def message(op, problem, got=None, want=None, hint=None, source=None):
    """The text of an error; `source` is a (file, line) pair or None. None leaves a part out.

    >>> print(message("sum", "dimension out of range", got=2, want="-2 to 1"))
    [sum] dimension out of range: got 2, wanted -2 to 1
    """
    text = f"[{op}] {problem}"
    parts = []
    if got is not None:
        parts.append(f"got {got}")
    if want is not None:
        parts.append(f"wanted {want}")
    if parts:
        text += ": " + ", ".join(parts)
    if hint is not None:
        text += f"\n  hint: {hint}"
    if source is not None:
        text += f"\n  at {show_source(source)}"
        line = source_line(*source)
        if line:
            text += f": {line}"
    return text


def fail(op, problem, got=None, want=None, hint=None, kind=RuntimeError):
    """Raise `kind` with a message that teaches (see `message`), ending in the user's line."""
    raise kind(message(op, problem, got, want, hint, user_source(2)))


def trim_traceback(error):
    """Drop this package's frames from the traceback of `error` and return it, for the doors to the user:

        except Exception as error: raise trim_traceback(error)

    The flag `debug` (FLAMBEAU_DEBUG=1) keeps them.
    """
    if flags.debug:
        return error
    kept, trace = [], error.__traceback__
    while trace is not None:
        if not is_own(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    for outer, inner in zip(kept, kept[1:] + [None]):
        outer.tb_next = inner
    return error.with_traceback(kept[0] if kept else None)
