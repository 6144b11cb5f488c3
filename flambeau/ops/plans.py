"""From a call to a plan: signatures and tracing for the compiler (derivatives: derive.py).

The compiler stands above this layer; it is installed with `install` and asked for plans of graphs.
"""

import inspect
import threading
from dataclasses import dataclass, field

from flambeau.base.errors import ArgumentError, fail
from flambeau.ir.graph import Graph, Literal, Node, Value
from flambeau.ops import trace
from flambeau.ops.meta import is_sizes_only, sizes_only
from flambeau.ops.wrapped import wrapped_among
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types import dtype as dtypes
from flambeau.types.dim import Dim, symbol

REQUIRED = inspect.Parameter.empty
_installed = {}


def install(compiler):
    """Name the compiler: an object with pointwise(signature, graph) and plan(signature, graph)."""
    _installed["compiler"] = compiler


def compiler():
    return _installed["compiler"]


@dataclass(frozen=True)
class Operand:
    """What a plan assumes of an operand: its dtype, symbolic shape, and layout on each axis.

    `layout` is None for a row-major tensor, else a class an axis: 0 zero stride, 1 unit, 2 other. `number` marks a Python number,
    which is handed over as one element of `dtype`.
    """

    dtype: object
    shape: tuple
    layout: tuple | None = None
    number: bool = False


@dataclass
class Signature:
    """Everything a plan was made for."""

    name: str
    operands: tuple                  # of Operand
    attrs: dict = field(default_factory=dict)
    results: tuple = ()              # (dtype, shape) of each output
    constraints: tuple = ()          # pairs of sizes that must be equal at run time
    operation: object = None
    sizes: tuple = ()                # (symbol, operand, axis): where each size can be read, also those that were unified


# ------------------------------------------------------------------------------ elementwise
def elementwise_plan(operation, operands, attrs):
    """The PointwisePlan of an elementwise op for these operands (Tensors and numbers)."""
    codes = tuple(_code(o) for o in operands)
    given = _core.signature_of(tuple(attrs.values()), 0, tuple(attrs))
    plan = None if given is None else operation.native.plans.get((codes, given))
    if plan is None:
        plan = _make_elementwise(operation, codes, attrs)
        if given is not None:
            operation.native.plans[codes, given] = plan
    _LAST.plans[operation] = plan
    return plan


_FLOAT, _INT, _BOOL, _ZERO_DIM = 16, 17, 18, 20
_NUMBERS = {_FLOAT: 1.0, _INT: 1, _BOOL: True}


def _code(operand):
    if isinstance(operand, Tensor):
        code = dtypes.ALL.index(operand.dtype)
        return code if operand.ndim else _ZERO_DIM + code
    return {float: _FLOAT, bool: _BOOL}.get(type(operand), _INT)


def _make_elementwise(operation, codes, attrs):
    if operation.tensor_first and codes[0] in _NUMBERS:
        fail(operation.name, f"argument '{operation.operands[0]}' must be a Tensor", "a number", kind=ArgumentError)
    n = (symbol("n"),)
    only_zero = all(c >= 16 for c in codes)
    stand_ins = []
    for c in codes:
        if c in _NUMBERS:
            stand_ins.append(Literal(_NUMBERS[c], dtypes.scalar_dtype(_NUMBERS[c])))
        elif c >= _ZERO_DIM:
            stand_ins.append(Value("z", dtypes.ALL[c - _ZERO_DIM], n if only_zero else ()))
        else:
            stand_ins.append(Value("d", dtypes.ALL[c], n))
    inner, result = operation.types(stand_ins, attrs)
    operands, inputs = [], []
    for i, (v, c) in enumerate(zip(stand_ins, inner)):
        number = isinstance(v, Literal)
        operands.append(Operand(c if number else v.dtype, () if number else v.shape, None, number))
        inputs.append(Value(f"x{i}", operands[-1].dtype, operands[-1].shape))
    out = Value("out", result, n)
    graph = Graph(operation.name, tuple(inputs), (Node(operation.name, tuple(inputs), tuple(attrs.items()), (out,)),),
                  (out,))
    signature = Signature(operation.name, tuple(operands), attrs, ((result, n),), (), operation)
    plan = compiler().pointwise(signature, graph)
    if operation.divisor is not None and all(d.kind in "iub" for d in inner):
        plan.divisor = operation.divisor
    plan.exact = operation.numbers_fit
    return plan


def _pointwise_hook(operation, codes):
    if any(dtypes.ALL[c % _ZERO_DIM].kind == "c" for c in codes if c not in _NUMBERS):
        return None             # complex operands: not for the native path
    attrs = {n: d for n, d in operation.parameters.items() if n not in operation.operands}
    return _make_elementwise(operation, tuple(codes), attrs)


# ------------------------------------------------------------------------------ other kinds
def operand_of(index, tensor):
    """The Operand of a real tensor: sizes 1 stay numbers, others become symbols."""
    shape = tuple(1 if s == 1 else symbol(f"s{index}_{axis}") for axis, s in enumerate(tensor.shape))
    layout = None
    if not tensor.is_contiguous():
        layout = tuple(0 if s == 1 else st if st in (0, 1) else 2 for s, st in zip(tensor.shape, tensor.stride()))
    return Operand(tensor.dtype, shape, layout)


def run(operation, values):
    """Run an op that is looked up by signature: find or make its plan, run it, record it."""
    if any(map(is_sizes_only, values.values())):
        return sizes_only(operation, values)
    plan, operands = plan_of(operation, values)
    _LAST.plans[operation] = plan
    return _core.run_planned(operation.native, plan, operands)


def plan_of(operation, values):
    """(the plan of a call, its operands in order)."""
    operands, attrs = operation.split(values)
    canonical = []
    for value in values.values():
        canonical.extend(value if isinstance(value, tuple) and value and isinstance(value[0], Tensor) else (value,))
    key = _core.signature_of(tuple(canonical), operation.native.operand_mask)
    if key is not None:
        key = ("prepared", key)         # not a key that the native path looks up: that is for `remember` to say
    plan = None if key is None else operation.native.plans.get(key)
    if plan is None:
        plan = make_plan(operation, values, operands, attrs)
        if key is not None:
            operation.native.plans[key] = plan
    return plan, operands


def remember_view(operation, args, kwargs, values, result):
    """Let the native path find the window that a view op made (where it made one: a copy is none)."""
    if not args or type(args[0]) is not Tensor and type(args[0]).__name__ != "Parameter":
        return
    if operation.native.view_rule is None:
        operation.native.view_rule = python_rule(operation, 1)
    _, attrs = operation.split(values)
    _core.remember_view(operation.native, (*args, *kwargs.values()), tuple(kwargs) or None, args[0], result, attrs)


class _Last(threading.local):
    """This thread's plans: op -> the plan that the call in progress ran, until `remember` takes it."""

    def __init__(self):
        self.plans = {}


_LAST = _Last()


def forget(operation):
    """The plan that ran last was for another call, or for other operands than the call's: it is not to be remembered."""
    _LAST.plans.pop(operation, None)


def remember(operation, args, kwargs, values, result=None):
    """Let the native path find the plan of a call like this one next time."""
    plan = _LAST.plans.pop(operation, None)
    given = (*args, *kwargs.values())
    if plan is None or len(given) > 16:
        return
    mask = _core.mask_of_call(operation.native, len(args), tuple(kwargs))
    operands = []
    for i, g in enumerate(given):
        if isinstance(g, (tuple, list)) and g and isinstance(g[0], Tensor):
            operands.extend(g)
        elif isinstance(g, Tensor) or (mask >> i) & 1:
            operands.append(g)
    wanted, _ = operation.split(values)
    if any(isinstance(o, Tensor) and o.numel() == 0 for o in operands):
        return
    if len(operands) > len(wanted) or any(a is not b for a, b in zip(operands, wanted)):
        return
    rest = tuple(wanted[len(operands):])            # numbers that the signature of the op gives
    if not all(type(r) in (int, float, bool) and any(r is d for d in operation.parameters.values()) for r in rest):
        return
    key = _core.signature_of(given, mask, tuple(kwargs) or None)
    if key is not None:
        operation.native.plans[key] = (plan, rest) if rest else plan
        if operation.looks_at_sizes:
            plan.allow_sizes(tuple(o for o in operands if isinstance(o, Tensor)))


def make_plan(operation, values, operands, attrs):
    plan = compiler().plan(*signature_and_graph(operation, values, operands, attrs))
    rows = operation.bounds(values)
    if rows:
        plan.bounds = rows
    return plan


def signature_and_graph(operation, values, operands, attrs):
    """What the compiler is asked for: the Signature of a call and its Graph."""
    described = []
    for i, o in enumerate(operands):
        described.append(operand_of(i, o) if isinstance(o, Tensor) else Operand(_number_dtype(o, operands), (), None, True))
    tracer = trace.Tracer(operation.name)
    stand_ins = iter([tracer.input(d.dtype, d.shape) for d in described])
    traced = _replace_operands(operation, values, stand_ins)
    try:
        result = operation.trace(tracer, traced)
        outputs = result if isinstance(result, tuple) else (result,)
        graph = tracer.finish(outputs)
    except Exception:
        explain(operation, operands, attrs)
        raise
    results = tuple((o.dtype, tuple(o.shape) if isinstance(o, Value) else ()) for o in graph.outputs)
    sizes = tuple((str(s), i, axis) for i, d in enumerate(described) for axis, s in enumerate(d.shape) if isinstance(s, Dim))
    described = [Operand(d.dtype, tracer.resolve(d.shape), d.layout, d.number) for d in described]
    return Signature(operation.name, tuple(described), attrs, results, tuple(tracer.constraints), operation, sizes), graph


def _number_dtype(number, operands):
    """The dtype of a number operand: wide, as a 0-d operand does not widen a result that has axes.

    Beside 0-d tensors it takes their dtype, so that it stays as weak as a number.
    """
    if not isinstance(number, float):
        return dtypes.scalar_dtype(number)
    floating = [o.dtype for o in operands if isinstance(o, Tensor) and o.dtype.kind == "f"]
    if floating and all(o.ndim == 0 for o in operands if isinstance(o, Tensor)):
        result = floating[0]
        for d in floating[1:]:
            result = dtypes.promote(result, d)
        return dtypes.float32 if result.itemsize == 2 else result
    return dtypes.float64


def _replace_operands(operation, values, stand_ins):
    """The same arguments with each operand replaced by the next stand-in (the order is that of `Op.split`)."""
    traced = {}
    for name, value in values.items():
        if isinstance(value, tuple) and value and isinstance(value[0], Tensor):
            traced[name] = tuple(next(stand_ins) for _ in value)
        elif isinstance(value, Tensor) or (name in operation.operands and operation.numbers and value is not None):
            traced[name] = next(stand_ins)
        else:
            traced[name] = value
    return traced


def explain(operation, operands, attrs):
    """Infer with the real sizes, for an error that names them."""
    inputs = [Value(f"x{i}", o.dtype, tuple(o.shape)) for i, o in enumerate(operands) if isinstance(o, Tensor)]
    operation.infer(inputs, attrs)


def trace_graph(operation, inputs, attrs):
    """The Graph of a composite for given graph operands."""
    tracer = trace.Tracer(operation.name)
    operands = iter([tracer.input(v.dtype, v.shape) if isinstance(v, Value) else v.value for v in inputs])
    values = assemble(operation, operands, attrs)
    result = operation.trace(tracer, values)
    return tracer.finish(result if isinstance(result, tuple) else (result,))


def assemble(operation, operands, attrs):
    """The op's arguments from operands in order and attributes."""
    operands, values = iter(operands), {}
    for name in operation.parameters:
        if name not in attrs:
            values[name] = next(operands)
        elif name in operation.operands and isinstance(attrs[name], int) and not operation.numbers:
            values[name] = tuple(next(operands) for _ in range(attrs[name]))
        else:
            values[name] = attrs[name]
    return values


def apply(operation, operands, attrs):
    """Call an op with graph operands and attributes (used by replay)."""
    values = assemble(operation, operands, attrs)
    return interpret(operation, operands, values)


def interpret(operation, operands, values):
    """Run a call whose arguments are prepared."""
    wrapped = wrapped_among(operands)
    if wrapped is not None:
        return wrapped.level.process(operation, values)
    for v in operands:
        if getattr(type(v), "is_traced", False):
            return operation.trace(v.tracer, values)
    tracer = trace.current()
    if tracer is not None and not any(isinstance(v, Tensor) for v in operands):
        return operation.trace(tracer, values)
    if any(isinstance(v, Tensor) and v.dtype.kind == "c" for v in operands):
        return operation.function(**values)
    return operation.eager(values)


def python_rule(operation, count):
    """The BackwardRule of an op whose derivative runs op by op and needs only sizes of its `count` operands."""
    rule = operation.__dict__.get("python_rule")
    if rule is None:
        rule = operation.__dict__["python_rule"] = _core.BackwardRule(0, (1 << count) - 1, False, [], [], None)
    return rule


def record_python(operation, operands, out, attrs):
    """Record a call whose derivative runs op by op and needs only sizes of the operands."""
    rule = python_rule(operation, len(operands))
    _core.record(operation.native, rule, operands, (out,), attrs, False)


_core.set_hook("pointwise_plan", _pointwise_hook)
_core.set_hook("pack_results", lambda operation, results: operation.pack(results))
