"""Parameter: a tensor that a module registers as its own and an optimizer trains."""

from flambeau.ops.overrides import carries, disabled_torch_function
from flambeau.ops.wrapped import elements_of
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import get_default_dtype


class ParameterType(type(Tensor)):
    """Makes a tensor of a subclass a Parameter too, once `Parameter(tensor)` has marked it."""

    def __instancecheck__(cls, value):
        if type.__instancecheck__(cls, value):
            return True
        kind = type(value)
        return kind is not Tensor and cls is Parameter and isinstance(value, Tensor) and carries(kind) \
            and value.__dict__.get("_is_param", False)


class Parameter(Tensor, metaclass=ParameterType):
    """A leaf tensor that becomes a parameter of the `nn.Module` it is assigned to.

    Args:
        data: the tensor whose storage the parameter shares (default: an empty one).
        requires_grad: whether gradients are computed for it; only floating and complex tensors can.

    Example::

        >>> weight = nn.Parameter(fl.zeros(2, 3))
        >>> weight.requires_grad
        True
    """

    __slots__ = ()
    __torch_function__ = disabled_torch_function

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = _core.empty_strided((0,), None, get_default_dtype())
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter needs a tensor, got {type(data).__name__}; "
                            "make one with tensor(...) first")
        if hasattr(type(data), "_parts"):
            raise NotImplementedError(f"[Parameter] a parameter of layout {data.layout} is not available\n  hint: make its "
                                      "values() the parameter and the tensor of them in forward()")
        if requires_grad and not (data.is_floating_point() or data.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients; "
                               f"got {data.dtype}, pass requires_grad=False for it")
        if carries(type(data)):             # a subclass: its own kind, marked
            made = data.detach().requires_grad_(requires_grad)
            made._is_param = True
            return made
        return Tensor._make_subclass(cls, elements_of(data).detach(), requires_grad)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol):
        return rebuild_parameter, (self.detach(), self.requires_grad)


_core.set_parameter_type(Parameter)     # the one subclass that the native fast path takes for a plain tensor


def rebuild_parameter(data, requires_grad):
    """The inverse of `Parameter.__reduce_ex__`."""
    return Parameter(data, requires_grad)
