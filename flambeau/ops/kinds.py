"""The kinds of ops: what each one asks an op to state, and what it derives from that."""

from flambeau.base.errors import ArgumentError, DTypeError, ShapeError, fail
from flambeau.ir.graph import Literal
from flambeau.ops import meta, plans
from flambeau.ops.spec import Op
from flambeau.ops.trace import current, unify
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types import dtype as dtypes
from flambeau.types.dtype import bool_, category, float32, get_default_dtype, int64
from flambeau.types.layout import contiguous_strides
from flambeau.types.shape import broadcast_shapes, normalize_axes


def shape_of(value):
    """The sizes of a graph operand; a literal is 0-d."""
    return () if isinstance(value, Literal) else value.shape


def broadcast(op, *shapes):
    return broadcast_shapes(*shapes, op=op, unify=unify if current() is not None else None)


def promoted_dtype(inputs):
    """PyTorch's promotion over graph operands: dimensioned, 0-d, then numbers."""
    dims = [v.dtype for v in inputs if not isinstance(v, Literal) and len(v.shape)]
    zero = [v.dtype for v in inputs if not isinstance(v, Literal) and not len(v.shape)]
    numbers = [0 if not isinstance(v.value, (bool, int, float, complex)) else v.value
               for v in inputs if isinstance(v, Literal)]
    return dtypes.result_type(dims, numbers, zero)


def compute_dtype(dtype):
    """The dtype in which arithmetic on `dtype` happens: half precision computes in float32."""
    return float32 if dtype.kind == "f" and dtype.itemsize == 2 else dtype


class Elementwise(Op):
    """One element of the result from one element of each operand.

    States `scalar(b, *elements, **attributes)`, built with `ir.loops.Builder` and total: defined for NaN, infinities, integer 0 and
    minimum. `promotion` says how dtypes combine: 'same'; 'float' (integers become the default dtype);
    'compare' (operands promoted, result bool); 'bool' (operands and result bool). `unpromoted` names how many leading operands
    keep out of promotion (a bool condition); `divisor` the operand in which integers must not be 0 (checked in eager calls); `tensor_first` refuses a number as the first operand of an eager call.
    """

    kind = "elementwise"
    divisor = None
    numbers_fit = False     # a number that its operand's dtype cannot hold is refused, not wrapped
    tensor_first = False
    numbers = True
    promotion = "same"
    unpromoted = 0
    scalar = None
    check = None        # check(promoted dtype): raise for dtypes without meaning

    def native_arity(self):
        plain = list(self.parameters) == list(self.operands)
        return len(self.operands) if len(self.operands) <= 2 and (plain or self.attributes_optional()) else 0

    def attributes_optional(self):
        return all(self.parameters[n] is not plans.REQUIRED for n in self.parameters if n not in self.operands)

    def types(self, inputs, attrs):
        """(dtype in which each operand is read into the computation, dtype of the result)."""
        if any(v.dtype.kind == "c" for v in inputs):
            fail(self.name, "a graph holds no complex numbers", [v.dtype for v in inputs],
                 hint="compute on view_as_real(x)", kind=DTypeError)
        promoted = promoted_dtype(inputs[self.unpromoted:])
        if self.promotion == "float" and category(promoted) < 2:
            promoted = get_default_dtype()
        if self.check is not None:
            self.check(promoted)
        inner = bool_ if self.promotion == "bool" else compute_dtype(promoted)
        result = bool_ if self.promotion in ("compare", "bool") else promoted
        return [bool_] * self.unpromoted + [inner] * (len(inputs) - self.unpromoted), result

    def infer(self, inputs, attrs):
        return [(self.types(inputs, attrs)[1], broadcast(self.name, *map(shape_of, inputs)))]

    def eager(self, values):
        operands, attrs = self.split(values)
        operands = [self.as_operand(o) for o in operands]
        if not any(isinstance(o, Tensor) for o in operands):
            fail(self.name, "no operand is a tensor", [type(o).__name__ for o in operands], "at least one Tensor",
                 kind=ArgumentError)
        if any(isinstance(o, Tensor) and o.is_shape_only for o in operands):
            return meta.sizes_only(self, values)
        plan = plans.elementwise_plan(self, operands, attrs)
        return _core.run_pointwise_plan(self.native, plan, operands)

    def into(self, values, target):
        """(plan, op that it is of, operands) to compute straight into the target's memory; None where its dtype or its
        shape asks for a result of its own. The operands are those that `_core.writes_directly` lets pass."""
        operands, attrs = self.split(values)
        tensors = [o for o in operands if isinstance(o, Tensor)]
        if not tensors or broadcast(self.name, *map(shape_of, tensors)) != tuple(target.shape):
            return None
        operands = [self.as_operand(o) for o in operands]
        plan = plans.elementwise_plan(self, operands, attrs)
        plans.forget(self)
        return (plan, self, operands) if plan.spec["signature"].results[0][0] is target.dtype else None

    def as_operand(self, value):
        if isinstance(value, (Tensor, bool, int, float)):
            return value
        if type(value).__module__ == "numpy":
            return value.item()
        fail(self.name, "an operand has the wrong type", type(value).__name__, "a Tensor or a number",
             kind=ArgumentError)


class Reduction(Op):
    """Combines the elements along axes.

    States `combine` (an associative operation of the Loops table: add, mul, min, max, and, or), `identity(dtype)`; optionally
    `value(b, x)` (what is combined), `weight(b, count, dtype)` (a factor of it that is the same for all elements of a
    result), `finish(b, total, count)`. `accumulate` is 'same', 'sum' (bool and integers in int64) or 'float' (integers
    refused), 'bool'. `empty_error` refuses reductions over no elements.
    """

    kind = "reduction"
    signature = "input, dim=None, keepdim=False, *, dtype=None"
    accumulate = "same"
    combine = None
    identity = None
    value = None
    weight = None
    finish = None
    empty_error = False

    def prepare(self, values):
        x = values["input"]
        if not isinstance(x, Tensor):
            fail(self.name, "argument 'input' must be a Tensor", type(x).__name__, kind=ArgumentError)
        dim = values["dim"]
        if dim is not None:
            axes = normalize_axes(dim, x.ndim, self.name)
            values["dim"] = tuple(sorted(axes)) if axes else None
        values["keepdim"] = bool(values["keepdim"])
        if self.empty_error and any(x.shape[a] == 0 for a in (values["dim"] or range(x.ndim))):
            fail(self.name, "cannot reduce over no elements", tuple(x.shape),
                 "at least one element along the reduced dims", hint="check the sizes before, or pass a dim of size > 0",
                 kind=IndexError if dim is not None else ShapeError)
        return values

    def axes(self, ndim, attrs):
        dim = attrs.get("dim")
        return tuple(range(ndim)) if dim is None else dim

    def types(self, inputs, attrs):
        """(dtype the value is computed in, dtype accumulated in, dtype of the result)."""
        given = attrs.get("dtype") or inputs[0].dtype
        if self.accumulate == "bool":
            return compute_dtype(inputs[0].dtype), bool_, bool_
        if self.accumulate == "sum" and category(given) < 2:
            given = attrs.get("dtype") or int64
        if self.accumulate == "float" and category(given) < 2:
            fail(self.name, "the result would not be floating point", given, "a floating point dtype",
                 hint=f"x.float().{self.name}() or {self.name}(x, dtype=...)", kind=DTypeError)
        return compute_dtype(given), compute_dtype(given), given

    def infer(self, inputs, attrs):
        shape = shape_of(inputs[0])
        axes = self.axes(len(shape), attrs)
        if attrs.get("keepdim"):
            out = tuple(1 if i in axes else s for i, s in enumerate(shape))
        else:
            out = tuple(s for i, s in enumerate(shape) if i not in axes)
        return [(self.types(inputs, attrs)[2], out)]

    def eager(self, values):
        return plans.run(self, values)


class View(Op):
    """Another window on the same memory.

    States `view(shape, strides, offset, **attributes)` -> the same three of the result, or None where only a copy
    can have that shape. Its `derivative` is its transpose and runs op by op.
    """

    kind = "view"
    view = None
    derivative_in_python = True

    def infer(self, inputs, attrs):
        shape = shape_of(inputs[0])
        got = self.view(shape, contiguous_strides(shape), 0, **attrs)
        return [(inputs[0].dtype, tuple(got[0]))]

    def eager(self, values):
        operands, attrs = self.split(values)
        x = operands[0]
        if not isinstance(x, Tensor):
            fail(self.name, "argument 'input' must be a Tensor", type(x).__name__, kind=ArgumentError)
        got = self.view(tuple(x.shape), x.stride(), 0, **attrs)
        if got is None:
            return self.eager(values | {"input": contiguous_copy(x)})
        out = _core.view_of(x, *got)
        if x.requires_grad and _core.grad_mode():
            plans.record_python(self, (x,), out, attrs)
        return out


class Create(Op):
    """A tensor from nothing: states `element(b, indices, **attributes)` for graphs and `fill` through it eagerly."""

    kind = "create"
    operands = ()
    differentiable = False

    def eager(self, values):
        return plans.run(self, values)


class Template(Op):
    """A kernel made from a Loops template: contractions, windows, indexed reads and writes.

    States `infer_shape(*shapes, **attributes)`, `lower(step, **attributes)` (which template, with which sizes) and a
    derivative in ops.
    """

    takes_epilogue = False      # elementwise nodes behind it may be computed by its kernel
    looks_at_sizes = True
    infer_shape = None
    infer_dtype = None
    lower = None

    def prepare(self, values):
        for name in self.operands:
            if values[name] is not None and not isinstance(values[name], (Tensor, tuple)):
                fail(self.name, f"argument {name!r} must be a Tensor", type(values[name]).__name__, kind=ArgumentError)
        return values

    def infer(self, inputs, attrs):
        shapes = self.infer_shape(*map(shape_of, inputs), **attrs)
        dtype = inputs[0].dtype if self.infer_dtype is None else self.infer_dtype(*[v.dtype for v in inputs], **attrs)
        if self.outputs is None:
            return [(dtype, shapes)]
        return list(zip(dtype if isinstance(dtype, tuple) else (dtype,) * len(shapes), shapes))

    def eager(self, values):
        return plans.run(self, values)


class Contraction(Template):
    """Products summed over shared axes, given by an axis string (`types.shape.parse_axes`)."""

    kind = "contraction"


class Window(Template):
    """A contraction or reduction over a sliding window: convolution and pooling."""

    kind = "window"


class Indexed(Template):
    """Reads or writes one axis at given indices; gather and scatter-add are each other's derivative."""

    kind = "indexed"


class Random(Template):
    """Values from the counter-based generator: reproducible for any number of threads."""

    kind = "random"
    differentiable = False


class Opaque(Op):
    """A host function on NumPy arrays: no fusion. States `infer` and `host(*arrays, **attributes)`.

    A `derivative` in ops names all operands that the call may have; those are saved, and `out` if it is named.
    `each_element`: an element of a result depends on that of the operands only, which are broadcast.
    """

    kind = "opaque"
    host = None
    each_element = False
    derivative_in_python = True
    remembered = False

    def eager(self, values):
        from flambeau.ops.host import run_host
        return run_host(self, values)

    @property
    def lower(self):
        """What a graph's planner calls: a step that runs the host function."""
        from functools import partial

        from flambeau.ops.host import lower
        return partial(lower, self)


class Composite(Op):
    """A Python function over ops, fused into as few kernels as can be.

    States `compute(**arguments)`; a `derivative` only where numerics or speed ask for one, else it is made from the
    derivatives of the ops inside.
    """

    kind = "composite"
    compute = None
    numbers = False
    draws = False       # random numbers by position: transforms keep the op whole

    def trace(self, tracer, values):
        start = len(tracer.nodes)
        with tracer:
            result = self.compute(**values)
        if self.derivative is not None:
            outputs = list(result) if isinstance(result, tuple) else [result]
            tracer.spans.append((start, len(tracer.nodes), (self, *self.split(values), outputs)))
        return result

    def infer(self, inputs, attrs):
        """By tracing: the graph's outputs."""
        graph = plans.trace_graph(self, inputs, attrs)
        return [(v.dtype, shape_of(v)) for v in graph.outputs]

    def eager(self, values):
        return plans.run(self, values)


def composite(samples=None, name=None, **statements):
    """Decorator: a function over ops becomes a Composite of its name, signature and docstring."""
    import inspect
    import sys

    from flambeau.ops import spec

    def declare(function):
        text = str(inspect.signature(function))[1:-1]
        names = [n for n, p in inspect.signature(function).parameters.items() if p.default is inspect.Parameter.empty]
        body = {"__doc__": function.__doc__, "__module__": function.__module__, "signature": text,
                "operands": tuple(names), "compute": staticmethod(function), "samples": samples,
                "name": name or function.__name__, **{k: staticmethod(v) if callable(v) else v for k, v in statements.items()}}
        spec.op(type(function.__name__, (Composite,), body))
        return getattr(sys.modules[function.__module__], name or function.__name__)

    return declare


def contiguous_copy(x):
    """x itself if it is row-major, else a copy that is, on the tape."""
    if x.is_contiguous():
        return x
    from flambeau.ops.strided import row_major
    return row_major(x)
