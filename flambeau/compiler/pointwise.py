"""Elementwise graphs: one kernel family over one axis, which the runtime runs over any shapes and strides."""

from flambeau.compiler import known_plans, pipeline
from flambeau.compiler.elements import convert, emit_node, has_size_literal, is_elementwise, literal
from flambeau.ir.graph import Literal, Value
from flambeau.ir.loops import BEGIN, END, Buffer, Builder, Const, Kernel, as_index, mul
from flambeau.runtime import _core
from flambeau.types import dtype as dtypes

CODES = {d: i for i, d in enumerate(dtypes.ALL)}
HEAVY = frozenset(("exp", "log", "tanh", "sin", "cos", "pow", "erf", "sigmoid", "gelu", "silu", "log1p", "expm1",
                   "tan", "lgamma", "digamma", "_polygamma", "erfinv", "_special_erfcx", "_special_ndtr",
                   "_special_log_ndtr", "_special_ndtri"))
LIGHT_GRAIN, HEAVY_GRAIN = 32768, 4096      # elements a thread takes at the least


def pointwise(signature, graph):
    """The PointwisePlan of a graph whose nodes are all elementwise."""
    pipeline.show("graph", graph)
    grain = HEAVY_GRAIN if any(n.op in HEAVY for n in graph.nodes) else LIGHT_GRAIN

    def build(classes):
        count = len(graph.inputs) + len(graph.outputs)
        strides = tuple((classes >> (2 * i)) & 3 for i in range(count))
        halves = () if 0 in strides[:len(graph.outputs)] else signature.attrs.get("halves", ())
        return known_plans.elementwise_kernel(graph, (strides, halves), lambda: lower_pointwise(graph, strides, halves))

    in_codes = [CODES[o.dtype] for o in signature.operands]
    out_codes = [CODES[o.dtype] for o in graph.outputs]
    spec = {"signature": signature, "graph": graph, "attrs": signature.attrs}
    return _core.PointwisePlan(in_codes, out_codes, grain, build, spec)


def is_pointwise(graph):
    """True if the graph is one elementwise kernel over the broadcast of its operands."""
    if not graph.nodes or any(not is_elementwise(n) or has_size_literal(n) for n in graph.nodes):
        return False
    if any(isinstance(o, Literal) for o in graph.outputs):
        return False
    if len(graph.inputs) + len(graph.outputs) > _core.MOST_OPERANDS:
        return False
    made = {o.name for n in graph.nodes for o in n.outputs}
    whole = broadcast_of(graph.inputs)
    return all(o.name in made and tuple(o.shape) == whole for o in graph.outputs)


def broadcast_of(values):
    """The broadcast shape of symbolic shapes; None where sizes are not known to agree."""
    rank = max((len(v.shape) for v in values), default=0)
    shape = [1] * rank
    for v in values:
        for i, s in enumerate(v.shape, rank - len(v.shape)):
            if s != 1 and shape[i] not in (1, s):
                return None
            shape[i] = s if s != 1 else shape[i]
    return tuple(shape)


def lower_pointwise(graph, strides, halves=()):
    """Loops for one class of strides an operand (outputs first): 0 zero, 1 unit, 2 any.

    Of the operands numbered `halves` those of any stride have mostly stride 2: the kernel has a loop for that.
    """
    operands = [*graph.outputs, *graph.inputs]
    names = [f"result{i}" for i in range(len(graph.outputs))] + [v.name for v in graph.inputs]
    buffers = tuple(Buffer(n, v.dtype, "w" if i < len(graph.outputs) else "r")
                    for i, (n, v) in enumerate(zip(names, operands)))
    params = tuple(f"stride_{n}" for n in names)
    b = Builder()
    halves = [k for k in halves if strides[k] == 2]
    known = [b.index(params[k]) if s == 2 else as_index(s) for k, s in enumerate(strides)]
    if halves:
        usual = [as_index(2) if k in halves else s for k, s in enumerate(known)]
        odd = [b.ne(b.index(params[k]), as_index(2)) for k in halves]
        while len(odd) > 1:
            odd.append(b.or_(odd.pop(0), odd.pop(0)))
        with b.branch(b.not_(odd[0])):
            _emit_loop(b, graph, names, usual)
        with b.branch(odd[0]):
            _emit_loop(b, graph, names, known)
    else:
        _emit_loop(b, graph, names, known)
    return Kernel(kernel_name(graph), buffers, params, as_index(1), b.body())


def _emit_loop(b, graph, names, steps):
    """The loop over the elements, operand k read or written at multiples of steps[k]."""
    outputs = len(graph.outputs)
    kind = "serial" if any(isinstance(s, Const) and s.value == 0 for s in steps[:outputs]) else "vector"
    with b.loop("i", BEGIN, END, 1, kind) as i:
        at = [mul(i, s) for s in steps]
        env = {v.name: b.load(v.name, at[outputs + k], v.dtype) for k, v in enumerate(graph.inputs)}
        emit_graph(b, graph, env)
        for k, o in enumerate(graph.outputs):
            value = env[o.name] if isinstance(o, Value) else literal(b, o)
            b.store(names[k], at[k], convert(b, value, o.dtype))


def emit_graph(b, graph, env):
    """Emit all nodes of an elementwise graph; `env` maps value names to elements."""
    for node in graph.nodes:
        b.source = node.source
        operands = [env[v.name] if isinstance(v, Value) else literal(b, v) for v in node.inputs]
        env[node.outputs[0].name] = emit_node(b, node, operands)


def kernel_name(graph):
    """A name that tells what the kernel does: its first ops."""
    ops = [n.op for n in graph.nodes]
    label = "_".join(ops[:4]) + (f"_{len(ops)}" if len(ops) > 4 else "") if ops else "copy"
    return f"k_{label}"

