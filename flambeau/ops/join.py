"""Joining tensors along an axis."""

from flambeau.base.errors import ArgumentError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops import plans
from flambeau.ops.create import full
from flambeau.ops.elementwise import EVERY, cast
from flambeau.ops.kinds import Op
from flambeau.ops.spec import REGISTRY, op
from flambeau.ops.shape import only_tensors, select
from flambeau.ops.view import narrow, unsqueeze
from flambeau.ops.write import write
from flambeau.runtime import _core
from flambeau.types.dtype import promote
from flambeau.types.shape import normalize_axis, show_shape

numpy = LazyModule("numpy")


def _solid(tensors):
    """Without vectors of no elements, which fit everywhere."""
    return tuple(t for t in tensors if not (len(t.shape) == 1 and t.shape[0] == 0)) or tuple(tensors[:1])


@op
class Cat(Op):
    """Tensors one behind the other along `dim`; all other sizes agree."""

    kind = "opaque"
    signature = "tensors, dim=0"
    operands = ("tensors",)
    alias_names = ("concat", "concatenate")
    dtypes = EVERY
    derivative_in_python = True

    def prepare(self, values):
        tensors = values["tensors"]
        if not isinstance(tensors, tuple) or not tensors:
            fail("cat", "expected a non-empty list of tensors", type(tensors).__name__, kind=ArgumentError)
        only_tensors("cat", tensors)
        kept = _solid(tensors)
        first = kept[0]
        if first.ndim == 0:
            fail("cat", "zero-dimensional tensor cannot be concatenated", hint="use stack()", kind=ShapeError)
        dim = normalize_axis(values["dim"], first.ndim, "cat")
        for t in kept:
            pairs = [(a, b) for i, (a, b) in enumerate(zip(t.shape, first.shape)) if i != dim]
            differ = any(a != b and isinstance(a, int) and isinstance(b, int) for a, b in pairs)
            if t.ndim != first.ndim or differ:
                fail("cat", f"sizes of tensors must match except in dimension {dim}", show_shape(t.shape),
                     show_shape(first.shape), kind=ShapeError)
        return {"tensors": tensors, "dim": dim}

    def infer(self, inputs, attrs):
        dim, total, dtype, kept = attrs["dim"], 0, inputs[0].dtype, _solid(inputs)
        for v in inputs[1:]:
            dtype = promote(dtype, v.dtype)
        for v in kept:
            total = total + v.shape[dim]
        return [(dtype, (*kept[0].shape[:dim], total, *kept[0].shape[dim + 1:]))]

    def reference(*tensors, dim=0, **attrs):
        return numpy.concatenate(tensors, dim)

    def eager(self, values):
        tensors, dim = values["tensors"], values["dim"]
        dtype, shape = self.infer(tensors, values)[0]
        if any(t.is_shape_only for t in tensors):
            return _core.shape_only(shape, dtype)
        out, at = _core.empty_strided(shape, None, dtype), 0
        for t in _solid(tensors):
            window = tuple(slice(None) for _ in range(dim)) + (slice(at, at + t.shape[dim]),)
            write(out[window], t.detach())
            at += t.shape[dim]
        out._reset_version()
        if _core.grad_mode() and any(t.requires_grad for t in tensors) and dtype.kind in "fc":
            rule = _core.BackwardRule(0, (1 << len(tensors)) - 1 if len(tensors) < 63 else -1, False, [], [],
                                      None)
            _core.record(self.native, rule, tensors, (out,), {"dim": dim}, False)
        return out

    def lower(planner, inputs, outputs, *, dim, **attrs):
        out, at = outputs[0], 0
        for source in _solid(inputs):
            offset = out.offset + at * out.strides[dim]
            planner.copy(source, planner.window(out, source.shape, out.strides, offset))
            at = at + source.shape[dim]

    def derivative(grad, *tensors, dim):
        parts, at = [], 0
        for t in tensors:
            if t.ndim != grad.ndim:
                parts.append(full((0,), 0, t.dtype))
                continue
            parts.append(cast(narrow(grad, dim, at, t.shape[dim]), t.dtype))
            at += t.shape[dim]
        return tuple(parts)


class Stack(Op):
    """A stack that the native path made in one step, for the tape; elsewhere stack is cat of unsqueezed tensors."""

    name = "stack"
    signature = "tensors, dim=0"
    operands = ("tensors",)
    derivative_in_python = True

    @staticmethod
    def derivative(grad, *tensors, dim):
        return tuple(select(grad, dim, number) for number in range(len(tensors)))


STACK = Stack()
STACK.native.joins = 2
REGISTRY["cat"].native.joins = 1


def stack(tensors, dim=0, *, out=None, axis=None):
    """Tensors of one shape as slices of a new axis."""
    dim = dim if axis is None else axis
    if out is None:
        made = _core.joined(STACK.native, tensors, dim)
        if made is not NotImplemented:
            return made
    tensors = only_tensors("stack", tensors)
    if not tensors:
        fail("stack", "expected a non-empty list of tensors", kind=RuntimeError)
    for t in tensors:
        if tuple(t.shape) != tuple(tensors[0].shape):
            fail("stack", "each tensor must have the same size", show_shape(t.shape),
                 show_shape(tensors[0].shape),
                 kind=ShapeError)
    dim = normalize_axis(dim, tensors[0].ndim + 1, "stack")
    named = {} if out is None else {"out": out}
    return cat(tuple(unsqueeze(t, dim) for t in tensors), dim, **named)       # noqa: F821


__all__ = ["stack", "plans"]
