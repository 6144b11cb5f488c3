"""Ops by the names that dispatch modes see: `aten.add.Tensor`, and the modes themselves.

A TorchDispatchMode sees the ops of the house, one call each: a composite op (`linear`, `layer_norm`) is
one call, and what
backward kernels compute is not seen. The names are those of the house's ops under `aten`.
"""

from types import BuiltinFunctionType

from flambeau.ops.interpose import Interposer
from flambeau.ops.overrides import carries
from flambeau.ops.spec import FUNCTIONS, REGISTRY
from flambeau.runtime._core import NativeOp, Tensor


class Schema:
    """The name of an op, as `aten::add`."""

    def __init__(self, name, overload):
        self.name, self.overload_name = f"aten::{name}", "" if overload == "default" else overload

    def __str__(self):
        return f"{self.name}.{self.overload_name}" if self.overload_name else self.name


class OpOverload:
    """One form of an op: calling it runs the op."""

    namespace = "aten"

    def __init__(self, packet, overload):
        self.overloadpacket, self._overloadname = packet, overload
        self._schema = Schema(packet.__name__, overload)
        self.__name__, self.__module__ = f"{packet.__name__}.{overload}", "torch._ops.aten"

    def __call__(self, *args, **kwargs):
        return self.overloadpacket(*args, **kwargs)

    def name(self):
        """'aten::add.Tensor'."""
        return str(self._schema)

    def __str__(self):
        return f"aten.{self.__name__}"

    def __repr__(self):
        return f"<OpOverload(op='aten.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """All forms of an op: `aten.add`; its attributes are the forms."""

    def __init__(self, name, function):
        self.__name__, self._function, self._forms = name, function, {}

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __getattr__(self, overload):
        if overload.startswith("_"):
            raise AttributeError(overload)
        if overload not in self._forms:
            self._forms[overload] = OpOverload(self, overload)
        return self._forms[overload]

    def overloads(self):
        """The names of the forms that have been asked for."""
        return list(self._forms)

    def __str__(self):
        return f"aten.{self.__name__}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


_PACKETS = {}


def packet(name, function=None):
    """The packet of an op, by name; AttributeError if there is no such op."""
    if name not in _PACKETS:
        if function is None:
            function = REGISTRY[name].function if name in REGISTRY else FUNCTIONS.get(name)
        if function is None:
            function = getattr(Tensor, name, None)
        if function is None:
            raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute {name!r}")
        _PACKETS[name] = OpOverloadPacket(name, function)
    return _PACKETS[name]


def overload_of(function, args):
    """The OpOverload for a call of an op's function."""
    operation = function.__self__.python if isinstance(function, BuiltinFunctionType) else None
    name = function.__name__ if operation is None else operation.name
    form = "default"
    if (
        operation is not None
        and operation.kind == "elementwise"
        and len(operation.operands) == 2
        and len(args) > 1
    ):
        form = "Tensor" if isinstance(args[1], Tensor) else "Scalar"
    return getattr(packet(name, function), form)


def is_operation(function):
    """True for the function of an op, other than readers of attributes and the like."""
    return isinstance(function, BuiltinFunctionType) and isinstance(function.__self__, NativeOp)


class TorchDispatchMode(Interposer):
    """`with mode:` hands every op of the thread to `mode.__torch_dispatch__(func, types, args, kwargs)`.

    `func(*args, **kwargs)` runs the op. See the module for what counts as one op.
    """

    def __init__(self, _dispatch_key=None):
        pass

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def handle(self, operation, args, kwargs):
        types = tuple({type(value) for value in args if isinstance(value, Tensor) and carries(type(value))})
        return self.__torch_dispatch__(overload_of(operation.function, args), types, args, kwargs)

    @classmethod
    def push(cls, *args, **kwargs):
        """The mode, as an object for `with`."""
        return cls(*args, **kwargs)


__all__ = ["OpOverload", "OpOverloadPacket", "TorchDispatchMode"]
