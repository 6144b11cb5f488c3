"""Containers, numbers, times and other plain values in PyTorch's files, made of checked arguments."""

import datetime
import importlib
import types
from collections import Counter, OrderedDict, defaultdict, deque

from flambeau.tensor.pickle_machine import PickleError


class Builder:
    """One name of the table. `make(rules, args, machine)` checks `args` and makes the object.

    trusting: only with weights_only=False.
    """

    def __init__(self, name, make, trusting=False):
        self.name, self.make, self.trusting = name, make, trusting

    def build(self, rules, args, machine):
        try:
            return self.make(rules, args, machine)
        except PickleError:
            raise
        except (
            TypeError,
            ValueError,
            KeyError,
            IndexError,
            AttributeError,
            OverflowError,
            RuntimeError,
        ) as error:
            text = str(error).partition("\n")[0]
            raise PickleError(
                f"{self.name} does not fit its arguments: {type(error).__name__}: {text}"
            ) from None


def _checked(name, kinds, make, most=3):
    """A builder of `name` whose arguments must be of `kinds`."""

    def build(rules, args, machine):
        if len(args) > most or not all(isinstance(each, kinds) for each in args):
            raise PickleError(f"{name} of {[type(each).__name__ for each in args]}")
        return make(*args)

    return build


def _ordered(kind):
    def make(rules, args, machine):
        made = kind()
        if args:
            machine.spend(len(args[0]))
            pairs = args[0].items() if type(args[0]) is dict else [tuple(pair) for pair in args[0]]
            for key, value in pairs:
                made[machine.key(key)] = value
        return made

    return make


def _default_dict(rules, args, machine):
    """The factory must be a plain container or a class that the rules trust; it is not called here."""
    factory = args[0] if args else None
    if isinstance(factory, Builder):
        factory = _FACTORIES.get(factory.name)
        if factory is None:
            raise PickleError("a defaultdict of what is no class of data")
    elif factory is not None and not (
        isinstance(factory, type) and (factory in _PLAIN_FACTORIES or id(factory) in rules.trusted)
    ):
        raise PickleError("a defaultdict of what is no class of data")
    made = defaultdict(factory)
    machine.spend(len(args[1]) if args[1:] else 0)
    for key, value in (args[1] if args[1:] else {}).items():
        made[machine.key(key)] = value
    return made


def _queue(rules, args, machine):
    items, most = (args + ((), None))[:2] if args else ((), None)
    if not isinstance(items, (list, tuple)) or not isinstance(most, (int, type(None))):
        raise PickleError("a deque of what is no list")
    machine.spend(len(items))
    return deque(items, most)


def _encode(rules, args, machine):
    """_codecs.encode(text, 'latin1'): how bytes are written in protocol 2."""
    text, coding = args if len(args) == 2 else (args[0], "utf-8")
    if type(text) is not str or coding not in ("latin1", "latin-1", "utf-8"):
        raise PickleError("bytes of what is no text")
    machine.spend(len(text))
    return text.encode(coding)


def _byte_array(rules, args, machine):
    if not args:
        return bytearray()
    machine.spend(len(args[0]) if isinstance(args[0], (bytes, bytearray, str)) else 0)
    if isinstance(args[0], (bytes, bytearray)) and len(args) == 1:
        return bytearray(args[0])
    if type(args[0]) is str and args[1:] in (("latin-1",), ("latin1",)):
        return bytearray(args[0].encode("latin1"))
    raise PickleError("a bytearray of what is no bytes")


def _listed(kind):
    def make(rules, args, machine):
        if len(args) > 1 or args and not isinstance(args[0], (list, tuple)):
            raise PickleError(f"a {kind.__name__} of what is no list")
        machine.spend(len(args[0]) if args else 0)
        made = kind(*args)
        return machine.group(made) if kind is tuple else made

    return make


def _reconstructor(rules, args, machine):
    """copyreg._reconstructor(cls, object, None): how protocols 0 and 1 write an object."""
    kind, base, state = args
    if not isinstance(base, Builder) or base.name != "builtins.object" or state is not None:
        raise PickleError("an old object of a base that is not object")
    return rules.new(kind, (), {}, machine)


def _partial(rules, args, machine):
    """functools.partial of a class or function that the rules trust; __setstate__ gives it the arguments."""
    import functools

    if len(args) != 1 or id(args[0]) not in rules.trusted:
        raise PickleError("a partial of what is neither a class nor a function of the program")
    return functools.partial(args[0])


def _fill_partial(target, state):
    function, args, kwargs, attributes = state
    if function is not target.func or type(args) is not tuple or not isinstance(kwargs, dict):
        raise PickleError("the state of a partial is that of another one")
    target.__setstate__((function, args, kwargs, attributes if isinstance(attributes, dict) else {}))


def _inner_attribute(rules, args, machine):
    """getattr(class, name): a class in another one, before protocol 4; getattr(object, name): its method."""
    owner, name = args
    if type(name) is str and isinstance(owner, type) and id(owner) in rules.trusted:
        value = vars(owner).get(name)
        if isinstance(value, type) and value.__qualname__ == f"{owner.__qualname__}.{name}":
            rules.trusted.add(id(value))
            return value
    elif type(name) is str and id(owner) in machine.made and id(type(owner)) in rules.trusted:
        function = next((vars(kind)[name] for kind in type(owner).__mro__ if name in vars(kind)), None)
        if isinstance(function, types.FunctionType):
            return types.MethodType(function, owner)
    raise PickleError(
        f"the file reads an attribute {name!r}; only classes in classes and methods of objects are"
    )


def _fraction(rules, args, machine):
    """Of two numbers, or of a text like '1/3': an exponent could want any number of digits."""
    if not all(
        type(each) is int or type(each) is str and each.replace("/", "", 1).lstrip("-").isdecimal()
        for each in args
    ):
        raise PickleError("a fraction of what is no number")
    return _late("fractions", "Fraction")(*args)


def _logger(rules, args, machine):
    """logging.getLogger(name): how a logger that an object keeps is written."""
    import logging

    if len(args) > 1 or not all(type(each) is str for each in args):
        raise PickleError("a logger of what is no name")
    return logging.getLogger(*args)


def _pattern(rules, args, machine):
    """re._compile(pattern, flags)"""
    import re

    pattern, flags = args
    if (
        type(pattern) not in (str, bytes)
        or len(pattern) > 10_000
        or type(flags) is not int
        or flags & re.DEBUG
    ):
        raise PickleError("a regular expression that is none, or too long")
    return re.compile(pattern, flags)


def _late(module, name):
    """A class that makes values, imported when it makes one."""
    return lambda *args: getattr(importlib.import_module(module), name)(*args)


def _uuid(rules, args, machine):
    kind = importlib.import_module("uuid").UUID
    return kind.__new__(kind)


def _fill_attributes(target, state):
    if not isinstance(state, dict) or not all(type(name) is str for name in state):
        raise PickleError(f"the state of a {type(target).__name__} is no dict")
    target.__dict__.update(state)


_PLAIN_FACTORIES = (list, dict, set, int, float, str, bool, tuple)
_NUMBERS = (int, float, str, bytes, type(None))
_FACTORIES = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "collections.deque": deque,
    "builtins.list": list,
    "builtins.tuple": tuple,
}
BUILDERS = {
    "collections.OrderedDict": _ordered(OrderedDict),
    "collections.Counter": _ordered(Counter),
    "collections.defaultdict": _default_dict,
    "collections.deque": _queue,
    "_codecs.encode": _encode,
    "builtins.bytearray": _byte_array,
    "builtins.complex": _checked("complex", (int, float), complex, 2),
    "builtins.range": _checked("range", int, range),
    "builtins.xrange": _checked("range", int, range),
    "builtins.slice": _checked("slice", (int, float, str, type(None)), slice),
    "builtins.bytes": _checked("bytes", bytes, bytes, 1),
    "builtins.object": lambda rules, args, machine: object(),
}
BUILDERS = {name: Builder(name, make) for name, make in BUILDERS.items()} | {
    "builtins.list": Builder("builtins.list", _listed(list)),
    "builtins.tuple": Builder("builtins.tuple", _listed(tuple)),
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    **{f"builtins.{kind.__name__}": kind for kind in (int, float, str, bool, dict)},
}
# What is found with weights_only=False only.
_TRUSTING = {
    "copyreg._reconstructor": _reconstructor,
    "functools.partial": _partial,
    "builtins.getattr": _inner_attribute,
    "datetime.date": _checked("date", (int, str, bytes), datetime.date),
    "datetime.time": _checked("time", _NUMBERS, datetime.time, 8),
    "datetime.datetime": _checked("datetime", (*_NUMBERS, datetime.tzinfo), datetime.datetime, 8),
    "datetime.timedelta": _checked("timedelta", int, datetime.timedelta),
    "datetime.timezone": _checked("timezone", (datetime.timedelta, str), datetime.timezone, 2),
    "decimal.Decimal": _checked("Decimal", str, _late("decimal", "Decimal"), 1),
    "fractions.Fraction": _fraction,
    "logging.getLogger": _logger,
    "re._compile": _pattern,
    "uuid.UUID": _uuid,
    "types.SimpleNamespace": lambda rules, args, machine: types.SimpleNamespace(),
    "argparse.Namespace": lambda rules, args, machine: _late("argparse", "Namespace")(),
    **{
        f"{module}.{kind}{name}": _checked("path", str, _late("pathlib", f"{kind[:4]}Path"), 1000)
        for module in ("pathlib", "pathlib._local")
        for kind, name in (
            ("", "PosixPath"),
            ("", "WindowsPath"),
            ("", "Path"),
            ("Pure", "Path"),
            ("PurePosix", "Path"),
            ("PureWindows", "Path"),
        )
    },
}
BUILDERS |= {name: Builder(name, make, trusting=True) for name, make in _TRUSTING.items()}


def _fill_uuid(target, state):
    if (
        not isinstance(state, dict)
        or set(state) - {"int", "is_safe"}
        or not isinstance(state.get("int"), int)
    ):
        raise PickleError("the state of a UUID is none")
    object.__setattr__(target, "int", state["int"])
    object.__setattr__(target, "is_safe", importlib.import_module("uuid").SafeUUID.unknown)


def _fill_dict(target, state):
    """The attributes of an OrderedDict, such as the `_metadata` of a state_dict."""
    _fill_attributes(target, state)


FILLERS = {
    OrderedDict: _fill_dict,
    "uuid.UUID": _fill_uuid,
    types.SimpleNamespace: _fill_attributes,
    "argparse.Namespace": _fill_attributes,
    "functools.partial": _fill_partial,
}
