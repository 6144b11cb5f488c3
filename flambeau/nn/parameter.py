"""`nn.parameter`: the public place of Parameter, which the tensor package defines, and the members of lazy
layers."""

from flambeau.tensor import Tensor, empty
from flambeau.tensor.parameter import Parameter


class _Uninitialized:
    """A member whose shape is not known yet."""

    __slots__ = ()
    _ready = False
    cls_to_become = None

    def materialize(self, shape, device=None, dtype=None):
        """Give it a shape; its elements are not set. It is the same object after, so optimizers know it."""
        self.data = empty(tuple(shape), device=device or self.device, dtype=dtype or self.dtype)
        self._ready = True
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become

    def __deepcopy__(self, memo):
        if self._ready:
            return super().__deepcopy__(memo)
        return memo.setdefault(id(self), type(self)(self.requires_grad, self.device, self.dtype))

    def __reduce_ex__(self, protocol):
        if self._ready:
            return super().__reduce_ex__(protocol)
        return type(self), (self.requires_grad, self.device, self.dtype)

    def __repr__(self):
        return super().__repr__() if self._ready else f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter whose shape the first call of a lazy layer gives."""

    __slots__ = ()          # laid out as a Parameter is, to become one
    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Parameter.__new__(cls, empty((0,), device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer whose shape the first call of a lazy layer gives."""

    __torch_function__ = Parameter.__torch_function__

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        return Tensor._make_subclass(cls, empty((0,), device=device, dtype=dtype), requires_grad)


def is_lazy(member):
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(member, _Uninitialized) and not member._ready


class Buffer(Tensor):
    """A tensor that becomes a buffer of the module it is assigned to; part of its state if `persistent`."""

    __torch_function__ = Parameter.__torch_function__

    def __new__(cls, data=None, *, persistent=True):
        made = Tensor._make_subclass(cls, empty(0) if data is None else data.detach(), False)
        made.persistent = persistent
        return made


__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]
