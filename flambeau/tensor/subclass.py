"""Subclasses of Tensor: what ops make of them, and methods that hand their call to `__torch_function__`.

A subclass that states no `__torch_function__` of its own has Tensor's: run the function as if its values
were plain,
then give the results the class. Ops reach it through `bind` (ops/overrides.py). Methods and attributes of
the native
record do not come that way; a subclass gets a door of its own for each of them when it is made, so that
plain tensors
keep theirs. While a mode is entered somewhere, Tensor itself has such doors.
"""

from types import FunctionType, MethodType

from flambeau.base.errors import fail
from flambeau.ops import overrides, plans
from flambeau.ops.overrides import asking, claim, disabled_torch_function, hand_over
from flambeau.ops.strided import Recorded
from flambeau.ops.wrapped import is_wrapped
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor

_new = Tensor.__new__
_detach = Tensor.detach

# Of the record's own members: what makes tensors, and what a mode or an override does not see.
_MAKING = ("detach", "data")
_SILENT = {"storage_", "is_shape_only", "output_number"}
_SPECIAL = (
    "__len__",
    "__bool__",
    "__float__",
    "__int__",
    "__index__",
    "__contains__",
    "__repr__",
    "__format__",
)


class Alias(Recorded):
    """The same elements as a tensor of a subclass."""

    name = "alias"

    @staticmethod
    def derivative(grad, x):
        return grad


ALIAS = Alias()


def as_subclass(self, cls):
    """The same elements, and history, as a `cls`."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass(): expected a subclass of Tensor, got {cls!r}")
    if is_wrapped(self) or getattr(type(self), "is_traced", False):
        return self
    if type(self) is cls:
        return self
    made = Tensor._make_subclass(cls, _detach(self), False) if cls is not Tensor else _detach(self)
    if self.requires_grad and _core.grad_mode():
        plans.record_python(ALIAS, (self,), made, {})
    return made


def torch_function(cls, func, types, args=(), kwargs=None):
    """Tensor's own way: run `func` on the values as plain tensors; results that are tensors become a
    `cls`."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    dispatch = getattr(cls, "__torch_dispatch__", None)
    with asking(False):
        if dispatch is not None:
            from flambeau.ops.overloads import is_operation, overload_of
            if is_operation(func):
                return dispatch(overload_of(func, args), types, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        return result if cls is Tensor or func in nowrap_functions() else _converted(result, cls)


def _converted(result, cls):
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else as_subclass(result, cls)
    if isinstance(result, (tuple, list)) and any(isinstance(each, (Tensor, tuple, list)) for each in result):
        made = [_converted(each, cls) for each in result]
        return result._make(made) if hasattr(result, "_make") else type(result)(made)
    return result


_NOWRAP = set()


def nowrap_functions():
    """Functions whose results keep their type: `grad` and `_base` of a tensor."""
    if not _NOWRAP:
        _NOWRAP.update((Tensor.grad.__get__, Tensor._base.__get__))
    return _NOWRAP


def new(cls, *args, **kwargs):
    """`Tensor.__new__(cls, data)` of a subclass: an instance that holds what `Tensor(data)` would."""
    made = _new(cls)
    if args or kwargs:
        Tensor.__init__(made, *args, **kwargs)
    return made


# ------------------------------------------------------------------------------ doors
class MethodDoor:
    """A method whose calls on instances ask first who claims them; on the class it is what Tensor has."""

    def __init__(self, function, name):
        self.function, self.__name__, self.__doc__ = function, name, getattr(function, "__doc__", None)

    def __get__(self, instance, owner=None):
        return self.function if instance is None else MethodType(self, instance)

    def __call__(self, *args, **kwargs):
        found = claim(args, kwargs)
        return (
            self.function(*args, **kwargs) if found is None else hand_over(self.function, found, args, kwargs)
        )


class AttributeDoor:
    """An attribute whose reading and writing on instances asks first; on the class it is what Tensor has."""

    def __init__(self, attribute, name):
        self.attribute, self.__name__ = attribute, name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self.attribute
        read = self.attribute.__get__
        found = claim((instance,), {})
        return read(instance) if found is None else hand_over(read, found, (instance,), {})

    def __set__(self, instance, value):
        write = self.attribute.__set__
        found = claim((instance, value), {})
        return write(instance, value) if found is None else hand_over(write, found, (instance, value), {})


def _members():
    """(name, what stands in Tensor, is it an attribute) of what could need a door."""
    for name, member in vars(Tensor).items():
        if name in _SILENT or isinstance(member, (FunctionType, staticmethod, classmethod)):
            continue
        if name.startswith("_") and name not in _SPECIAL:
            continue
        if callable(getattr(member, "__set__", None)) or isinstance(member, property):
            yield name, member, True
        elif callable(getattr(Tensor, name)):
            yield name, getattr(Tensor, name), False


def _install(cls, wanted):
    """Put doors on `cls` for the members that it has from Tensor itself."""
    for name, member, is_attribute in list(_members()):
        if not wanted(name):
            continue
        owner = next(base for base in cls.__mro__ if name in vars(base))
        if owner is Tensor:
            setattr(cls, name, (AttributeDoor if is_attribute else MethodDoor)(member, name))


def _delete_attribute(self, name):
    if self.__dict__.pop(name, self) is self:
        Tensor.__delattr__(self, name)


def init_subclass(cls, **kwargs):
    """What happens when a subclass of Tensor is declared."""
    super(Tensor, cls).__init_subclass__(**kwargs)
    if cls.__torch_function__ is disabled_torch_function:
        if not hasattr(cls, "__torch_dispatch__"):
            return
        cls.__torch_function__ = classmethod(torch_function)  # which asks it
    stated = cls.__torch_function__
    overrides.open_doors()
    if cls.__delattr__ is Tensor.__delattr__:
        cls.__delattr__ = _delete_attribute
    default = getattr(stated, "__func__", None) is torch_function
    _install(cls, _MAKING.__contains__ if default else lambda name: True)


_hidden = {}  # while modes see methods: what Tensor had


def show_methods(seen):
    """Methods of Tensor that modes see, or what was there before."""
    if seen:
        overriding = [(name, member, kind) for name, member, kind in _members() if name not in _SPECIAL]
        for name, member, is_attribute in overriding:
            _hidden[name] = vars(Tensor)[name]
            _core.attach_attribute(name, (AttributeDoor if is_attribute else MethodDoor)(member, name))
    else:
        for name, member in _hidden.items():
            _core.attach_attribute(name, member)
        _hidden.clear()


def make_wrapper_subclass(cls, *args, **kwargs):
    """Refused: a tensor here has elements of its own."""
    fail(
        "Tensor._make_wrapper_subclass",
        f"a {cls.__name__} without elements of its own is not supported",
        hint="make it with torch.Tensor._make_subclass(cls, data), or write a plain class that has "
        "__torch_function__",
        kind=NotImplementedError,
    )


def attach():
    """Give Tensor the protocol."""
    _core.attach_attribute("_make_wrapper_subclass", staticmethod(make_wrapper_subclass))
    for name, value in (
        ("__torch_function__", classmethod(torch_function)),
        ("__new__", staticmethod(new)),
        ("__init_subclass__", classmethod(init_subclass)),
        ("as_subclass", as_subclass),
    ):
        _core.attach_attribute(name, value)
    overrides.set_hooks(methods=show_methods)


__all__ = ["ALIAS", "as_subclass", "attach"]
