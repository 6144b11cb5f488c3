"""`out=` for operations that are plain functions over ops."""

import functools
from types import SimpleNamespace

from flambeau.ops.spec import renamed, renames, write_out


def with_out(function):
    """Decorator: the function takes `out`, a tensor or a tuple of them, that its result is written to."""
    named = SimpleNamespace(name=function.__name__)
    accept = renamed if renames(function) else dict

    @functools.wraps(function)
    def call(*args, out=None, **kwargs):
        result = function(*args, **accept(kwargs)) if kwargs else function(*args)
        return result if out is None else write_out(named, out, result)
    call.takes_numpy_names = True
    return call
