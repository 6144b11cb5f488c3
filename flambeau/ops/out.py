"""`out=` for operations that are plain functions over ops."""

import functools
from types import SimpleNamespace

from flambeau.ops.spec import renamed, write_out


def with_out(function):
    """Decorator: the function takes `out`, a tensor or a tuple of them, that its result is written to."""
    named = SimpleNamespace(name=function.__name__)

    @functools.wraps(function)
    def call(*args, out=None, **kwargs):
        if kwargs:
            kwargs = renamed(kwargs)
        result = function(*args, **kwargs)
        return result if out is None else write_out(named, out, result)
    call.takes_numpy_names = True
    return call
