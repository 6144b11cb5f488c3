"""Elementwise ops on complex tensors: one kernel over the parts, recorded with a derivative in complex ops.

A formula on `Pair`s (complex_pair.py) is traced with real operands and compiled as one elementwise kernel
that reads and writes the parts where they stand, stride 2. For a function that is real on the real axis,
f(conj z) = conj f(z), the derivative of the real op holds on complex operands too: the gradient is
conj(derivative(conj(grad), z)), the conjugate Wirtinger derivative. Others state theirs.
"""

from dataclasses import dataclass

from flambeau.base.errors import fail
from flambeau.ir.graph import Literal, Value
from flambeau.ops import derive, plans, trace
from flambeau.ops.complex_pair import Pair
from flambeau.ops.kinds import contiguous_copy, promoted_dtype
from flambeau.ops.plans import Operand, Signature
from flambeau.ops.strided import Recorded, complex_parts
from flambeau.ops.wrapped import wrapped_among
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dim import symbol
from flambeau.types.dtype import (bool_, category, complex64, complex128, float16, float32, float64,
                                  get_default_dtype, scalar_dtype)
from flambeau.types.shape import broadcast_shapes

PART = {complex64: float32, complex128: float64}
WHOLE = {float32: complex64, float64: complex128, float16: complex64}


@dataclass(frozen=True)
class Formula:
    """How an elementwise op acts on Pairs. `result`: 'complex', 'real' or 'bool'.

    `derivative`: None takes the real op's; else a function(grad, out, inputs, attrs) that gives a gradient for
    each operand; `saves` says what is kept for it: 'both' (operands and result), 'inputs' or 'none'. `linear` is
    the real op that does the same on pairs.
    """

    compute: object
    result: str = "complex"
    derivative: object = None
    saves: str = "both"
    linear: object = None


_PLANS = {}         # what a kernel depends on -> PointwisePlan
_CALLS = {}         # what a call depends on -> (PointwisePlan, dtype of the result)


def part_dtype(operands):
    """The dtype of the parts in which operands are computed together."""
    stand_ins = [Value("v", o.dtype, tuple(o.shape)) if isinstance(o, Tensor) else Literal(o, scalar_dtype(o))
                 for o in operands]
    promoted = promoted_dtype(stand_ins)
    if category(promoted) < 2:
        promoted = get_default_dtype()
    return PART.get(promoted, float64 if promoted is float64 else float32)


def _kind(operand):
    """What a kernel has to know of an operand."""
    if isinstance(operand, Tensor):
        return operand.dtype
    return "complex" if isinstance(operand, complex) else "real"


def _feed(operand):
    """The real tensors and numbers that stand for an operand."""
    if isinstance(operand, Tensor):
        return complex_parts(operand) if operand.dtype.kind == "c" else [operand]
    return [operand.real, operand.imag] if isinstance(operand, complex) else [float(operand)]


def _plan(name, formula, kinds, part, unpromoted, attrs):
    key = name, kinds, part, tuple(attrs.items())
    plan = _PLANS.get(key)
    if plan is None:
        plan = _PLANS[key] = _make_plan(name, formula, kinds, part, unpromoted, attrs)
    return plan


def copy(x):
    """An output of its own."""
    from flambeau.ops.elementwise import copy as copied
    return copied(x)


def _make_plan(name, formula, kinds, part, unpromoted, attrs):
    from flambeau.ops.elementwise import cast
    tracer = trace.Tracer("complex_" + name)
    shape, described, halves = (symbol("n"),), [], []

    def read(dtype, number=False, as_part=True):
        described.append(Operand(dtype, () if number else shape, None, number))
        x = tracer.input(dtype, () if number else shape, f"x{len(described) - 1}")
        return x if dtype is part or not as_part else cast(x, part)

    with tracer:
        pairs = []
        for i, kind in enumerate(kinds):
            if isinstance(kind, str):
                pairs.append(Pair(*[read(part, True) for _ in range(2 if kind == "complex" else 1)]))
            elif kind.kind == "c":
                halves += (len(described), len(described) + 1)
                pairs.append(Pair(*[read(PART[kind]) for _ in range(2)]))
            else:
                pairs.append(Pair(read(kind, as_part=i >= unpromoted)))
        result = formula.compute(*pairs, **attrs)
        outputs = (result.re, result.y) if formula.result == "complex" else (result,)
    graph = tracer.finish(outputs)
    results = tuple((o.dtype, shape) for o in outputs)
    attrs = {"halves": (*range(len(outputs) if len(outputs) > 1 else 0), *(len(outputs) + i for i in halves))}
    return plans.compiler().pointwise(Signature(graph.name, tuple(described), attrs, results), graph)


def _seen(operand):
    """What promotion has to know of an operand."""
    return (operand.dtype, operand.ndim > 0) if isinstance(operand, Tensor) else type(operand)


def _call(name, formula, operands, attrs, unpromoted):
    """(plan, dtype of the result) of a call."""
    key = name, tuple(map(_seen, operands)), tuple(attrs.items()), get_default_dtype()
    found = _CALLS.get(key)
    if found is None:
        part = part_dtype(operands[unpromoted:])
        dtype = {"complex": WHOLE[part], "real": part, "bool": bool_}[formula.result]
        plan = _plan(name, formula, tuple(map(_kind, operands)), part, unpromoted, attrs)
        found = _CALLS[key] = plan, dtype
    return found


def _on_pairs(operation, operands):
    """A linear op on complex tensors of one dtype, done by its real kernel on pairs; None for others."""
    dtype = getattr(operands[0], "dtype", None)
    if any(not isinstance(o, Tensor) or o.dtype is not dtype or o.is_shape_only for o in operands) \
            or dtype.kind != "c":
        return None
    return _seen_as_complex(operation(*map(seen_as_pairs, operands)), dtype)


def seen_as_pairs(x):
    """Complex elements as pairs along a last axis; nothing is recorded."""
    return _core.from_memory(x.data_ptr(), 0, x, (*x.shape, 2), (*(2 * s for s in x.stride()), 1), 0,
                             PART[x.dtype])


def _seen_as_complex(pairs, dtype):
    """Dense pairs as complex elements."""
    strides = pairs.stride()
    if strides[-1] != 1 or any(s % 2 for s in strides[:-1]):
        pairs = contiguous_copy(pairs)
        strides = pairs.stride()
    return _core.from_memory(pairs.data_ptr(), pairs.element_size() * pairs.numel(), pairs, pairs.shape[:-1],
                             tuple(s // 2 for s in strides[:-1]), 0, dtype)


def run(name, formula, operands, attrs, unpromoted=0):
    """The values of an elementwise op on complex operands; nothing is recorded."""
    if formula.linear is not None:
        out = _on_pairs(formula.linear, operands)
        if out is not None:
            return out
    tensors = [o for o in operands if isinstance(o, Tensor)]
    shape = tensors[0].shape
    if any(t.shape != shape for t in tensors):
        shape = broadcast_shapes(*[tuple(t.shape) for t in tensors], op=name)
    plan, dtype = _call(name, formula, operands, attrs, unpromoted)
    if any(t.is_shape_only for t in tensors):
        return _core.shape_only(tuple(shape), dtype)
    out = _core.empty_strided(tuple(shape), None, dtype)
    places = complex_parts(out) if formula.result == "complex" else [out]
    _core.run_into_all(plan, [v for o in operands for v in _feed(o)], places)
    out._reset_version()
    return out


# ------------------------------------------------------------------------------ on the tape
class Complex(Recorded):
    """On the tape: a call of an elementwise op on complex operands."""

    wants_node = True

    def __init__(self, operation, formula):
        self.name, self.operation, self.formula = operation.name, operation, formula
        self.rules, self.graphs = {}, {}
        super().__init__()

    def record(self, operands, out, attrs):
        """Put the call on the tape if a gradient can be asked for."""
        if self.formula.result == "bool" or not _core.grad_mode():
            return
        needed = tuple(isinstance(o, Tensor) and o.requires_grad for o in operands)
        if not any(needed):
            return
        key = needed, tuple(attrs.items())
        if key not in self.rules:
            self.rules[key] = self.make_rule(operands, needed, attrs)
        rule = self.rules[key]
        _core.record(self.native, rule, tuple(operands), (out,), attrs, rule.save_output)

    def make_rule(self, operands, needed, attrs):
        count = len(operands)
        if self.formula.derivative is not None:
            every = (1 << count) - 1
            save = 0 if self.formula.saves == "none" else every
            return _core.BackwardRule(save, every & ~save, self.formula.saves == "both", [], [], None)
        graph, roles, targets = self.graph_of(count, needed, attrs)
        save = 0
        for role in roles:
            if 100 <= role < 200:
                save |= 1 << (role - 100)
        shape = ((1 << count) - 1) & ~save
        return _core.BackwardRule(save, shape, any(r >= 200 for r in roles), [], [], None)

    def graph_of(self, count, needed, attrs):
        """The real op's derivative for these inputs as a graph, what it is fed with, what it gives."""
        key = needed, tuple(attrs.items())
        if key not in self.graphs:
            shape = (symbol("n"),)
            kept = self.operation.unpromoted
            described = tuple(Operand(bool_ if i < kept else float64, shape) for i in range(count))
            signature = Signature(self.name, described, dict(attrs), ((float64, shape),), (), self.operation)
            mask = sum(1 << i for i, wanted in enumerate(needed) if wanted)
            graph, roles, targets, _ = derive.trace_derivative(signature, mask)
            self.graphs[key] = graph, roles, targets
        return self.graphs[key]

    def derivative_at(self, node, grad, **attrs):
        """The gradients of a recorded call's operands, in complex ops."""
        inputs, needed = node.inputs(), node.needs()
        out = node.outputs() if node.rule_.save_output else None
        if self.formula.derivative is not None:
            got = self.formula.derivative(grad, out, inputs, attrs)
        else:
            got = self.from_graph(grad, out, inputs, needed, attrs)
        return [fitted(g, like) if wanted and g is not None else None
                for g, like, wanted in zip(got, inputs, needed)]

    def from_graph(self, grad, out, inputs, needed, attrs):
        graph, roles, targets = self.graph_of(len(inputs), needed, attrs)
        reads = any(r >= 100 for r in roles)
        grad = conjugate(grad) if reads else grad
        feed = [grad if r < 100 else inputs[r - 100] if r < 200 else out for r in roles]
        feed = [f if isinstance(f, Tensor) else _as_tensor(f) for f in feed]
        got = [None] * len(inputs)
        for target, result in zip(targets, _replay(graph, feed)):
            got[target] = conjugate(result) if reads else result
        return got


def _as_tensor(number):
    from flambeau.ops.write import write
    like = get_default_dtype() if not isinstance(number, complex) else WHOLE[get_default_dtype()]
    return write(_core.empty_strided((), None, like), number)


def _replay(graph, tensors):
    """Run a traced derivative on complex tensors: through `bind`, so that each op finds its complex form."""
    from flambeau.ops.spec import REGISTRY
    env = {v.name: t for v, t in zip(graph.inputs, tensors)}
    for node in graph.nodes:
        operands = [env[i.name] if isinstance(i, Value) else i.value for i in node.inputs]
        operation = REGISTRY[node.op]
        if operation.name == "cast":
            env[node.outputs[0].name] = operands[0]
            continue
        values = plans.assemble(operation, operands, dict(node.attrs))
        args = {n: values.pop(n) for n in operation.positional}
        env[node.outputs[0].name] = operation.function(*args.values(), **values)
    return [env[o.name] if isinstance(o, Value) else _as_tensor(o.value) for o in graph.outputs]


def conjugate(x):
    """The complex conjugate in new memory; a real tensor itself."""
    if not isinstance(x, Tensor) or x.dtype.kind != "c":
        return x
    return apply_formula(CONJ, [x], {})


def fitted(grad, like):
    """A gradient in the dtype and shape of its operand; of a real operand the real part."""
    from flambeau.ops.elementwise import cast
    if like.dtype.kind != "c" and grad.dtype.kind == "c":
        grad = apply_formula(REAL_PART, [grad], {})
    if grad.dtype is not like.dtype:
        grad = cast(grad, like.dtype)
    return grad if tuple(grad.shape) == tuple(like.shape) else derive.sum_to(grad, like)


def apply_formula(form, operands, attrs):
    """Run and record."""
    operation = form.operation
    if wrapped_among(operands) is not None:
        return op_by_op(form.formula, operands, attrs, getattr(operation, "unpromoted", 0))
    out = run(form.name, form.formula, [o.detach() if isinstance(o, Tensor) and o.requires_grad else o
                                        for o in operands], attrs, getattr(operation, "unpromoted", 0))
    form.record(operands, out, attrs)
    return out


def op_by_op(formula, operands, attrs, unpromoted):
    """A formula on values that function transforms follow: in real ops on the parts."""
    from flambeau.ops.join import stack
    from flambeau.ops.reinterpret import view_as_complex
    from flambeau.ops.shape import broadcast_tensors
    part = part_dtype(operands[unpromoted:])
    pairs = [_pair_of(o, part) if i >= unpromoted else Pair(o) for i, o in enumerate(operands)]
    result = formula.compute(*pairs, **attrs)
    if formula.result != "complex":
        return result
    return view_as_complex(stack(list(broadcast_tensors(result.re, result.y)), -1))


def _pair_of(value, part):
    from flambeau.ops.create import full
    from flambeau.ops.elementwise import cast
    from flambeau.ops.reinterpret import view_as_real
    from flambeau.ops.shape import select
    if isinstance(value, Tensor) and value.dtype.kind == "c":
        pairs = view_as_real(value)
        halves = [select(pairs, -1, which) for which in (0, 1)]
    elif isinstance(value, complex):
        halves = [full((), value.real, part), full((), value.imag, part)]
    else:
        halves = [value if isinstance(value, Tensor) else full((), float(value), part)]
    return Pair(*[h if h.dtype is part else cast(h, part) for h in halves])


class Named:
    """What stands for an op that exists on complex numbers only."""

    unpromoted = 0

    def __init__(self, name):
        self.name = name


def _join_derivative(grad, out, inputs, attrs):
    return [apply_formula(REAL_PART, [grad], {}), apply_formula(IMAGINARY_PART, [grad], {})]


def _real_gradient(grad, out, inputs, attrs):
    return [apply_formula(JOIN, [grad, 0.0], {})]


def _imaginary_gradient(grad, out, inputs, attrs):
    return [apply_formula(JOIN, [0.0, grad], {})]


CONJ = Complex(Named("conj"), Formula(lambda z: Pair(copy(z.re), -z.im), "complex",
                                      lambda grad, *rest: [conjugate(grad)], "none"))
JOIN = Complex(Named("complex"), Formula(lambda a, b: Pair(copy(a.re), copy(b.re)), "complex",
                                         _join_derivative,
                                         "none"))
REAL_PART = Complex(Named("real"), Formula(lambda z: copy(z.re), "real", _real_gradient, "none"))
IMAGINARY_PART = Complex(Named("imag"), Formula(lambda z: copy(z.y), "real", _imaginary_gradient, "none"))


def join(re, im):
    """re + i im of two real tensors or numbers, at least one of them a tensor."""
    return apply_formula(JOIN, [re, im], {})


def parts(x):
    """(real part, imaginary part) in new memory, on the tape."""
    return apply_formula(REAL_PART, [x], {}), apply_formula(IMAGINARY_PART, [x], {})


def refuse(name, dtypes):
    """An op without a meaning on complex numbers."""
    fail(name, f'"{name}" not implemented for complex numbers', dtypes,
         hint="take the real part, the magnitude or the angle first")
