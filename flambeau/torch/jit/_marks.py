"""Marks on functions and classes for a script compiler. There is none, so they leave things as they are."""

import collections
import typing

Attribute = collections.namedtuple("Attribute", ["value", "type"])
Final = typing.Final


def annotate(the_type, the_value):
    """`the_value`"""
    return the_value


def _same(thing):
    """`thing` itself."""
    return thing


export = interface = script_method = unused = _overload = _overload_method = _same


def ignore(drop=False, **kwargs):
    """The function itself, or a decorator: `@ignore`, `@ignore(drop=True)`."""
    return drop if callable(drop) else _same


_builtin_isinstance = isinstance


def isinstance(obj, target_type):       # noqa: A001 - PyTorch's name
    """Whether `obj` is of a type that may be List[int], Dict[str, Tensor], Tuple[...], Optional[...] or a
    tuple of types.

    >>> import typing
    >>> isinstance([1, 2], typing.List[int]), isinstance({"a": 1.0}, typing.Dict[str, int])
    (True, False)
    """
    if _builtin_isinstance(target_type, tuple):
        return any(isinstance(obj, each) for each in target_type)
    origin, parts = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return obj is None if target_type is None else _builtin_isinstance(obj, target_type)
    if origin is typing.Union or type(target_type).__name__ == "UnionType":
        return any(isinstance(obj, each) for each in parts)
    if not _builtin_isinstance(obj, origin):
        return False
    if origin is tuple:
        parts = parts[:1] * len(obj) if parts[1:] == (...,) else parts
        return len(parts) == len(obj) and all(isinstance(each, part) for each, part in zip(obj, parts))
    if origin is dict:
        return all(isinstance(key, parts[0]) and isinstance(value, parts[1]) for key, value in obj.items())
    return all(isinstance(each, parts[0]) for each in obj)
