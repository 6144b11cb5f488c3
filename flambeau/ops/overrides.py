"""Who takes a call in place of the house: function modes, and arguments whose type has `__torch_function__`.

The native path never looks for them: a mode closes it, and it takes no other types than Tensor and
Parameter. What it
leaves reaches `bind`, which asks `claim` here. Public operations that are plain Python functions have no
such place.
They get one when the first mode is entered or the first type with a `__torch_function__` is met: from then on
(`open_doors`) the code of each function is a door that asks `claim` and then runs what stood there before.
The
function objects stay what they are, wherever they have been imported to; a program without overrides pays
nothing.
"""

import threading
from types import FunctionType, MethodType

from flambeau.ops import interpose
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor


class _Thread(threading.local):
    handling = None  # the function that an override has in hand
    types_ask = True  # False: types are not asked (inside their default implementation)
    modes_ask = True


THREAD = _Thread()


def disabled_torch_function(func, types, args=(), kwargs=None):
    """The `__torch_function__` of a subclass that wants to be taken for a plain tensor."""
    with asking(False):
        return func(*args, **(kwargs or {}))


class asking:
    """`with asking(types, modes):` switches the questions off or on for this thread."""

    def __init__(self, types, modes=True):
        self.wanted = types, modes

    def __enter__(self):
        self.before = THREAD.types_ask, THREAD.modes_ask
        THREAD.types_ask, THREAD.modes_ask = (a and b for a, b in zip(self.before, self.wanted))
        return self

    def __exit__(self, *error):
        THREAD.types_ask, THREAD.modes_ask = self.before


# ------------------------------------------------------------------------------ who claims a call
_PLAIN = {
    Tensor,
    int,
    float,
    bool,
    complex,
    str,
    type(None),
    slice,
    type(Ellipsis),
}  # types that claim nothing
_MOST_PLAIN = 2000


def carries(kind):
    """True if the type `kind` has a `__torch_function__` of its own."""
    if kind in _PLAIN:
        return False
    found = getattr(kind, "__torch_function__", None)
    if found is not None and found is not disabled_torch_function:
        return True
    if not issubclass(kind, (tuple, list)) and len(_PLAIN) < _MOST_PLAIN:
        _PLAIN.add(kind)
    return False


def carriers(values):
    """The values, also inside lists and tuples, whose types carry an override: one a type, subclasses
    first."""
    found = []
    for value in values:
        if type(value) in _PLAIN:
            continue
        if carries(type(value)):
            _insert(found, value)
        elif isinstance(value, (tuple, list)):
            for member in value:
                if type(member) not in _PLAIN and carries(type(member)):
                    _insert(found, member)
    return found


def _insert(found, value):
    kind = type(value)
    if any(type(other) is kind for other in found):
        return
    place = next((i for i, other in enumerate(found) if issubclass(kind, type(other))), len(found))
    found.insert(place, value)


def claim(args, kwargs):
    """The arguments that take this call, an empty list if only a mode does, None if nobody does."""
    found = carriers((*args, *kwargs.values()) if kwargs else args)
    if found and not THREAD.types_ask:
        found = []
    if found or (_core.get_mode() and THREAD.modes_ask and interpose.modes()):
        return found
    return None


def hand_over(function, found, args, kwargs):
    """The result of a call that `found`, or the innermost mode, claims."""
    open_doors()
    before = THREAD.handling
    if before == function:  # `Tensor.add`, handed on, comes back as the op's function: `torch.add`
        function = before
    THREAD.handling = function
    try:
        return _asked(function, found, args, kwargs)
    finally:
        THREAD.handling = before


def _asked(function, found, args, kwargs):
    types = tuple(type(value) for value in found)
    if THREAD.modes_ask and interpose.modes():
        result = _by_mode(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in found:
        override = type(value).__torch_function__
        if not isinstance(override, MethodType):
            override = value.__torch_function__  # a plain or static method
        result = override(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    if not found:
        raise TypeError(
            f"the mode returned NotImplemented for {shown(function)}, and no argument overrides it"
        )
    raise TypeError(
        f"Multiple dispatch failed for {shown(function)!r}; all __torch_function__ handlers returned "
        f"NotImplemented: no implementation found on types that implement __torch_function__: {list(types)}"
    )


def _by_mode(function, types, args, kwargs):
    modes = interpose.modes()
    top = modes.pop()
    interpose.set_mode()
    try:
        return top.__torch_function__(function, types, args, kwargs)
    finally:
        modes.append(top)
        interpose.set_mode()


def shown(function):
    """The full name of a function for a message."""
    return _HOOKS["name"](function) or getattr(function, "__name__", repr(function))


_HOOKS = {"methods": lambda seen: None, "functions": None, "name": lambda function: None}


def set_hooks(**hooks):
    """Name who stands above: `methods(seen)` shows methods of Tensor to modes or hides them
    (tensor/subclass.py),
    `functions()` lists the public Python functions, `name(function)` knows their full names."""
    _HOOKS.update(hooks)


class TorchFunctionMode:
    """`with mode:` hands every public call of the thread to `mode.__torch_function__(func, types, args,
    kwargs)`.

    The innermost mode comes first. While it handles a call it is switched off, so `func(*args, **kwargs)`
    goes on to
    the next outer mode, then to the types of the arguments, then to the house.

    Example::

        >>> from flambeau.overrides import TorchFunctionMode
        >>> class Names(TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> with Names():
        ...     total = fl.ones(2) + 1
        ones
        add
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__} is a TorchFunctionMode without a __torch_function__: "
                                  "it gets every call, and returns func(*args, **(kwargs or {})) to let it be")

    def __enter__(self):
        open_doors()
        interpose.modes().append(self)
        interpose.set_mode()
        _mode_entered(1)
        return self

    def __exit__(self, *error):
        modes = interpose.modes()
        del modes[len(modes) - 1 - modes[::-1].index(self)]
        interpose.set_mode()
        _mode_entered(-1)

    @classmethod
    def push(cls, *args, **kwargs):
        """The mode, as an object for `with`."""
        return cls(*args, **kwargs)


_ENTERED = [0, threading.Lock()]  # modes of all threads


def _mode_entered(step):
    """Methods of the record itself are seen only while there is a mode somewhere."""
    count, lock = _ENTERED
    with lock:
        _ENTERED[0] = count = _ENTERED[0] + step
        if count == max(step, 0):
            _HOOKS["methods"](count == 1)


# ------------------------------------------------------------------------------ doors of Python functions
_DOORS = []  # (function, what it ran before, do types claim it?)
_NUMBER = 123456789
_TEMPLATE = """
def outer({cells}):
    def call(*args, **kwargs):
        ({cells})
        from flambeau.ops.overrides import enter
        return enter({number}, args, kwargs)
    return call
"""
_templates = {}  # number of cells -> code of a door
_open = False


def open_doors():
    """From now on public Python functions ask too who claims their calls. Once a process."""
    global _open
    if not _open and _HOOKS["functions"] is not None:
        _open = True
        for function, by_types in _HOOKS["functions"]():
            open_door(function, by_types)


def open_door(function, by_types=True):
    """Make the code of `function` a door; attributes, signature and identity stay.

    Not `by_types`: only modes are asked, arguments of whatever type are taken for plain ones.
    """
    inside = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    inside.__kwdefaults__, inside.__qualname__ = function.__kwdefaults__, function.__qualname__
    inside.__dict__.update(function.__dict__)
    function.__wrapped__ = inside  # where inspect.signature looks
    before = function.__code__
    template = _door_code(len(before.co_freevars))
    constants = tuple(len(_DOORS) if each == _NUMBER else each for each in template.co_consts)
    _DOORS.append((function, inside, by_types))
    function.__defaults__ = function.__kwdefaults__ = None
    function.__code__ = template.replace(
        co_consts=constants,
        co_name=before.co_name,
        co_qualname=before.co_qualname,
        co_filename=before.co_filename,
        co_firstlineno=before.co_firstlineno,
    )


def _door_code(count):
    """The code of a door for a function with `count` cells."""
    if count not in _templates:
        scope = {}
        cells = "".join(f"cell_{i}, " for i in range(count))
        exec(_TEMPLATE.format(cells=cells, number=_NUMBER), scope)  # noqa: S102 - our own text
        _templates[count] = scope["outer"](*range(count)).__code__
    return _templates[count]


def enter(number, args, kwargs):
    """What a door does."""
    function, inside, by_types = _DOORS[number]
    found = claim(args, kwargs)
    if found and not by_types:
        found = claim((), {})
        if found is None:
            with asking(False):
                return inside(*args, **kwargs)
    if found is None:
        return inside(*args, **kwargs)
    return hand_over(function, found, args, kwargs)
