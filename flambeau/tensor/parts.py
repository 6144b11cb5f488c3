"""Tensors made of plain tensors: what sparse and nested ones share.

`inner` holds the values. The flags of the tape are those of the values, a gradient is the gradient of the values in the
same arrangement, and copying, pickling and saving go part by part.
"""

from flambeau.ops.wrapped import Wrapped
from flambeau.runtime._core import Size


class PartedTensor(Wrapped):
    """A Wrapped tensor of a constant level. A subclass states `of(*parts, **facts)`, the parts and facts, `_like(values)`
    (the same arrangement of other values) and `values_of(other)` (the elements of another tensor in this arrangement)."""

    takes_complex = True            # rules see complex calls before they are taken apart

    shape = property(lambda self: Size(self.__dict__["sizes"]))
    requires_grad = property(lambda self: self.inner.requires_grad,
                             lambda self, value: setattr(self.inner, "requires_grad", value))
    is_leaf = property(lambda self: self.inner.is_leaf)
    grad_fn = property(lambda self: self.inner.grad_fn)
    retains_grad = property(lambda self: self.inner.retains_grad)

    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: sum(0 if part is None else part.nbytes for part in self._parts()))

    @property
    def grad(self):
        found = self.inner.grad
        return None if found is None else self._like(found)

    @grad.setter
    def grad(self, value):
        self.inner.grad = None if value is None else self.values_of(value)

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        self._take(value.detach())

    def requires_grad_(self, requires_grad=True):
        self.inner.requires_grad_(requires_grad)
        return self

    def retain_grad(self):
        self.inner.retain_grad()

    def register_hook(self, hook):
        """Call hook(gradient), sparse at the same places; what it returns replaces the gradient."""
        def on_values(gradient):
            changed = hook(self._like(gradient))
            return None if changed is None else self.values_of(changed)
        return self.inner.register_hook(on_values)

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Add to .grad of every leaf that the values depend on."""
        given = None if gradient is None else self.values_of(gradient)
        self.inner.backward(given, retain_graph, create_graph, inputs)

    def detach_(self):
        self.__dict__["inner"] = self.inner.detach()
        return self

    def _take(self, other):
        self.__dict__.update({name: value for name, value in other.__dict__.items() if name != "level"})
        return self

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self.of(*[p if p is None else p.clone() for p in self.detach()._parts()], **self._facts())
            memo[id(self)].requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return rebuild, (type(self), self.detach()._parts(), self._facts(), self.requires_grad)


def rebuild(kind, parts, facts, requires_grad):
    """The inverse of pickling."""
    made = kind.of(*parts, **facts)
    return made.requires_grad_(True) if requires_grad else made
