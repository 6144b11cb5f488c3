"""Gradients of recorded calls: an op's derivative is traced once a signature, then run compiled, or op by op on the tape.

docs/decisions/0005-derivatives-are-traced-once.md says why. `backward_rule` makes what the engine runs; `derivative` is the
same graph replayed, so that it is recorded itself (create_graph).
"""

from flambeau.ir.graph import Graph, Literal, Value
from flambeau.ir.rewrite import eliminate_dead_code
from flambeau.ops import interpose, trace
from flambeau.ops.plans import Operand, Signature, compiler, operand_of
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dim import Dim, symbols


class Cotangent(trace.Traced):
    """The incoming gradient while a derivative is traced: `grad * f` is zero where grad is zero, whatever f is."""

    def __mul__(self, other):
        from flambeau.ops.elementwise import scale
        return _as_cotangent(scale(self, other))

    __rmul__ = __mul__

    def __truediv__(self, other):
        from flambeau.ops.elementwise import div
        from flambeau.ops.mathematics import reciprocal
        return self * reciprocal(other) if isinstance(other, Tensor) else _as_cotangent(div(self, other))

    def __neg__(self):
        from flambeau.ops.elementwise import neg
        return _as_cotangent(neg(self))


def _as_cotangent(traced):
    return Cotangent.make(traced.tracer, traced.value)


def backward_rule(operation, plan, mask):
    """The BackwardRule of a recorded call, for the inputs in the bit mask `mask`."""
    graph, roles, targets, constraints = trace_derivative(plan.spec["signature"], mask)
    return _rule(operation, plan, graph, roles, targets, constraints)


def _rule(operation, plan, graph, roles, targets, constraints):
    """The rule that a traced derivative makes."""
    signature = plan.spec["signature"]
    save = shape = 0
    save_output = False
    used = used_values(graph)
    for value, role in zip(graph.inputs, roles):
        if 100 <= role < 200:
            if value.name in used:
                save |= 1 << (role - 100)
            else:
                shape |= 1 << (role - 100)
        elif role >= 200:
            save_output = True
    pointwise = isinstance(plan, _core.PointwisePlan) and all(_is_elementwise(n) for n in graph.nodes)
    replayed, passes, kept = graph, (), targets
    if pointwise and len(signature.results) == 1:
        graph, kept, passes = _pass_on(graph, targets)
    described = _describe(signature, graph.inputs, roles)
    if pointwise:
        executor = _lazy_pointwise(Signature(signature.name + "_backward", tuple(described), {},
                                             tuple((o.dtype, o.shape) for o in graph.outputs)), graph)
    elif isinstance(plan, _core.PointwisePlan) or operation.large_derivative:
        executor = None             # the trace is one-dimensional or large: replay it op by op on the real shapes
    else:
        def executor(*tensors):
            operands = tuple(Operand(v.dtype, v.shape, operand_of(0, t).layout if isinstance(t, Tensor) else None,
                                     not isinstance(t, Tensor)) for v, t in zip(graph.inputs, tensors))
            results = tuple((o.dtype, getattr(o, "shape", ())) for o in graph.outputs)
            return compiler().plan(Signature(signature.name + "_backward", operands, {}, results, constraints), graph)
    rule = _core.BackwardRule(save, shape, save_output, roles, kept, executor, replayed, passes, targets)
    if len(targets) > 1:
        def narrow(mask):
            """The gradients of the inputs in `mask` alone, from the same saved values."""
            pairs = [(o, t) for o, t in zip(replayed.outputs, targets) if (mask >> t) & 1]
            part = Graph(replayed.name, replayed.inputs, replayed.nodes, tuple(o for o, _ in pairs))
            return _rule(operation, plan, eliminate_dead_code(part), roles, [t for _, t in pairs], constraints)
        rule.narrow = narrow
    return rule


def _is_elementwise(node):
    from flambeau.ops.spec import REGISTRY
    return REGISTRY[node.op].kind == "elementwise"


def _pass_on(graph, targets):
    """Split off the outputs that are the incoming gradient itself."""
    kept, passes, outputs = [], [], []
    for output, target in zip(graph.outputs, targets):
        if isinstance(output, Value) and output.name == "grad0":
            passes.append(target)
        else:
            kept.append(target)
            outputs.append(output)
    return Graph(graph.name, graph.inputs, graph.nodes, tuple(outputs)), kept, tuple(passes)


def _lazy_pointwise(signature, graph):
    made = []

    def executor(*tensors):
        if not made:
            made.append(compiler().pointwise(signature, graph))
        return made[0]
    return executor


def used_values(graph):
    """Names of the values that some node or output reads."""
    used = {i.name for n in graph.nodes for i in n.inputs if isinstance(i, Value)}
    return used | {o.name for o in graph.outputs if isinstance(o, Value)}


def _describe(signature, inputs, roles):
    described = []
    for value, role in zip(inputs, roles):
        number = 100 <= role < 200 and signature.operands[role - 100].number
        described.append(Operand(value.dtype, value.shape, None, number))
    return described


def trace_derivative(signature, mask):
    """(graph, roles of its inputs, which operand each output is the gradient of, constraints)."""
    operation = signature.operation
    tracer = trace.Tracer(signature.name + "_backward")
    grads = [tracer.input(d, s, f"grad{i}") for i, (d, s) in enumerate(signature.results)]
    inputs = [tracer.input(o.dtype, o.shape, f"x{i}") for i, o in enumerate(signature.operands)]
    outputs = [tracer.input(d, s, f"out{i}") for i, (d, s) in enumerate(signature.results)]
    with tracer:
        inputs = _promoted(signature, inputs)
        if operation.derivative is None:
            results = compiler().differentiate(signature, grads, inputs, mask)
        else:
            results = call_derivative(operation, grads, outputs, inputs, signature.attrs)
        if not isinstance(results, tuple):
            results = (results,)
        wanted, targets = [], []
        for i, operand in enumerate(signature.operands):
            if (mask >> i) & 1 and results[i] is not None:
                wanted.append(_fit(results[i], operand))
                targets.append(i)
    graph = tracer.finish(wanted)
    return (*_prune(graph, signature, tracer), targets, tuple(tracer.constraints))


def _promoted(signature, inputs):
    """Operands of an elementwise op in the dtype that it computed in, so that its derivative is as accurate."""
    operation, dtype = signature.operation, signature.results[0][0]
    if operation.kind != "elementwise" or dtype.kind != "f" or dtype.itemsize == 2:
        return inputs
    from flambeau.ops.elementwise import cast

    def narrower(o):
        return not o.number and o.dtype.itemsize <= dtype.itemsize if o.dtype.kind == "f" else o.dtype.kind in "iu"

    return [cast(x, dtype) if i >= operation.unpromoted and o.dtype is not dtype and narrower(o) else x
            for i, (x, o) in enumerate(zip(inputs, signature.operands))]


def call_derivative(operation, grads, outputs, inputs, attrs):
    """Call an op's `derivative` statement with what its parameter names ask for."""
    wants_out, names, attribute_names = operation.derivative_roles
    several = operation.outputs is not None
    grads = [_as_cotangent(g) if type(g) is trace.Traced else g for g in grads]
    args = [tuple(grads) if several else grads[0]]
    if wants_out:
        args.append(tuple(outputs) if several else outputs[0])
    given = slots(operation, inputs, attrs)
    results = operation.derivative(*args, *given[:len(names)], **{k: attrs[k] for k in attribute_names})
    if isinstance(results, tuple) and len(results) == len(given) > len(inputs):
        return tuple(r for r, value in zip(results, given) if value is not None)
    return results


def slots(operation, inputs, attrs):
    """The operands as the op's `operands` name them: None where the call gave none."""
    names = operation.operands
    if any(isinstance(attrs.get(n), int) for n in names) or len(names) < len(inputs):
        return inputs                   # a tuple of tensors: as many as there are
    inputs = iter(inputs)
    return [None if n in attrs else next(inputs) for n in names]


def _fit(result, operand):
    """The gradient in its operand's dtype."""
    if result.dtype is not operand.dtype:
        from flambeau.ops.elementwise import cast
        return cast(result, operand.dtype)
    return result


def _prune(graph, signature, tracer):
    """Keep the inputs that are read, and for each size that is needed one input that has it."""
    used = used_values(graph)
    needed = _needed_symbols(graph)
    count = len(signature.results)
    keep, roles, known = [], [], set()
    numbered = [(v, i) for i, v in enumerate(graph.inputs)]

    def role(i):
        if i < count:
            return i
        i -= count
        return 100 + i if i < len(signature.operands) else 200 + i - len(signature.operands)

    for value, i in numbered:
        if value.name in used:
            keep.append(i)
            known |= {str(s) for s in value.shape if isinstance(s, Dim)}
    for value, i in numbered:
        mine = {str(s) for s in value.shape if isinstance(s, Dim)}
        if i not in keep and count <= i < count + len(signature.operands) and (needed - known) & mine:
            keep.append(i)
            known |= mine
    keep.sort()
    inputs = tuple(graph.inputs[i] for i in keep)
    roles = [role(i) for i in keep]
    return Graph(graph.name, inputs, graph.nodes, graph.outputs), roles


def _needed_symbols(graph):
    needed = set()

    def add(x):
        if isinstance(x, Dim):
            needed.update(symbols(x))
        elif isinstance(x, tuple):
            for y in x:
                add(y)

    for node in graph.nodes:
        add(tuple(a for _, a in node.attrs))
        add(tuple(i.value for i in node.inputs if isinstance(i, Literal)))
        for o in node.outputs:
            add(o.shape)
    for o in graph.outputs:
        add(getattr(o, "shape", ()))
    return needed


def derivative(node, grad, rule):
    """The gradients of a node's inputs, op by op (so that they are on the tape under create_graph), by its rule or the part
    of it that is wanted."""
    operation = node.operation.python
    if getattr(operation, "wants_node", False):
        return operation.derivative_at(node, grad, **node.attributes)
    if interpose.modes():
        with interpose.without_modes():
            return _derivative_by_ops(operation, node, grad, rule)
    return _derivative_by_ops(operation, node, grad, rule)


def _derivative_by_ops(operation, node, grad, rule):
    if rule.graph is None:
        names = operation.derivative_roles[2]
        inputs, args = node.inputs(), [grad]
        if operation.derivative_roles[0]:
            args.append(node.outputs())
        got = operation.derivative(*args, *inputs, **{k: node.attributes[k] for k in names})
        return got if isinstance(got, tuple) else (got,)
    roles, targets = rule.role_list()
    inputs, outputs = node.inputs(), node.outputs()
    grads = grad if isinstance(grad, (list, tuple)) else [grad]
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    if len(grads) > 1:
        grads = [zeros_of(s) if g is None and r in roles else g
                 for r, (g, s) in enumerate(zip(grads, node.output_shapes_))]
    feed = [grads[r] if r < 100 else inputs[r - 100] if r < 200 else outputs[r - 200] for r in roles]
    feed = [as_tensor(f, v.dtype) for f, v in zip(feed, rule.graph.inputs)]
    results = trace.replay(rule.graph, feed)
    got = [None] * len(inputs)
    for target, result in zip(targets, results):
        like = inputs[target]
        if isinstance(like, Tensor) and tuple(like.shape) != tuple(result.shape):
            result = sum_to(result, like)
        got[target] = result
    return got


def as_tensor(value, dtype):
    """A saved number as a 0-d tensor, so that ops on numbers alone can be replayed."""
    if isinstance(value, Tensor):
        return value
    from flambeau.ops.write import write
    return write(_core.empty_strided((), None, dtype), value)


def sum_to(grad, like):
    """Sum a gradient over the axes that broadcasting made, to the shape of `like`."""
    from flambeau.ops.reduce import sum as total
    from flambeau.ops.view import reshape
    shape = tuple(like.shape)
    lead = grad.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(lead + i for i, s in enumerate(shape) if s == 1 and grad.shape[lead + i] != 1)
    if axes:
        grad = total(grad, axes, True)
    return reshape(grad, shape) if tuple(grad.shape) != shape else grad


def zeros_of(shape):
    """Zeros in the shape and dtype of a shape record."""
    from flambeau.ops.write import write
    return write(_core.empty_strided(tuple(shape.shape), None, shape.dtype), 0)


for _name, _function in (("sum_to", sum_to), ("backward_rule", backward_rule), ("derivative", derivative), ("zeros", zeros_of)):
    _core.set_hook(_name, _function)
