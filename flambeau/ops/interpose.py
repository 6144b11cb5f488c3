"""Whoever wants to see every op of a block: the innermost interposer gets the calls of this thread in place of the door.

Ops come through `intercept`. A plain function over ops is seen as one call only if it is declared `visible`, and only by
interposers with `sees_functions`; to the others it is the ops that it is made of.
"""

import functools
import threading
from contextlib import contextmanager

from flambeau.runtime import _core

_local = threading.local()


def stack():
    if not hasattr(_local, "stack"):
        _local.stack = []
    return _local.stack


def modes():
    """The function modes of this thread (overrides.py), innermost last; they come before any interposer."""
    if not hasattr(_local, "modes"):
        _local.modes = []
    return _local.modes


def set_mode():
    """Close the native path of this thread if someone wants to see its calls, else open it."""
    _core.set_mode(1 if stack() or modes() else 0)


@contextmanager
def without_modes():
    """A block whose calls no function mode sees: they are none of the program's."""
    present, _local.modes = modes(), []
    set_mode()
    try:
        yield
    finally:
        _local.modes = present
        set_mode()


class Interposer:
    """`with interposer:` hands every call of an op to `handle(operation, args, kwargs)`, which returns its result.

    Inside `handle` the next outer interposer is in charge, so calling the op again runs it.
    """

    sees_functions = False      # `handle` also gets calls of `visible` functions, as (function, args, kwargs)
    sees_walks = False          # `walk(run)` is called in place of a backward pass, which is `run()`
    lasting = False             # belongs to what a function computes: away in backward passes, back when it runs again

    def handle(self, operation, args, kwargs):
        raise NotImplementedError

    def __enter__(self):
        stack().append(self)
        _core.set_mode(1)
        return self

    def __exit__(self, *error):
        stack().remove(self)
        set_mode()


def intercept(operation, args, kwargs):
    """Run a call through the innermost interposer."""
    whole = stack()
    top = whole.pop()
    set_mode()
    try:
        return top.handle(operation, args, kwargs)
    finally:
        whole.append(top)
        _core.set_mode(1)


VISIBLE = set()             # the names of visible functions


def visible(function):
    """Decorator of a plain function over ops: an interposer that `sees_functions` gets its calls whole."""
    VISIBLE.add(function.__name__)
    mode = _core.get_mode

    @functools.wraps(function)
    def call(*args, **kwargs):
        if mode() and stack():
            return _intercept_function(function, args, kwargs)
        return function(*args, **kwargs)
    return call


def _intercept_function(function, args, kwargs):
    whole = stack()
    for place in reversed(range(len(whole))):
        if whole[place].sees_functions:
            with _without(place) as found:
                return found.handle(function, args, kwargs)
    return function(*args, **kwargs)


@contextmanager
def _without(place):
    """The interposer at `place`, which is away for the block."""
    whole = stack()
    found = whole.pop(place)
    set_mode()
    try:
        yield found
    finally:
        whole.insert(place, found)
        _core.set_mode(1)


def lasting():
    """The interposers that belong to what is computed now, outermost first: to be in charge again when it runs again."""
    return [each for each in stack() if each.lasting] if _core.get_mode() else []


@contextmanager
def replaced(those):
    """A block in which `those` are the lasting interposers of this thread."""
    whole = stack()
    before = list(whole)
    whole[:] = [*those, *(each for each in before if not each.lasting)]
    set_mode()
    try:
        yield
    finally:
        whole[:] = before
        set_mode()
