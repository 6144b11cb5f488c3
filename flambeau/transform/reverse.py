"""The level of reverse-mode transforms: a tape in Python over values of any kind.

The tape of eager code (`runtime`) records real tensors. Inside other transforms the values are batches or pairs, so this
level records calls of ops on whatever lies below it and walks them back with the ops' own derivative graphs, run
through the door again: whoever wraps the values below takes part in the backward pass.
"""

from dataclasses import dataclass, field

from flambeau.base.errors import fail
from flambeau.ops import derive, plans, trace
from flambeau.ops.elementwise import cast, full_like
from flambeau.ops.spec import REGISTRY, bind
from flambeau.ops.wrapped import wrapped_among
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.transform import forms
from flambeau.transform.batching import BatchLevel
from flambeau.transform.levels import Level, below
from flambeau.transform.window import Movable
from flambeau.types.dim import Dim, substitute


class Recorded(Movable):
    """A tensor on the tape of a reverse level: output `place` of `node`; node None for a constant made inside."""

    requires_grad = property(lambda self: self.node is not None, lambda self, value: None)
    is_leaf = property(lambda self: self.node is None or self.node.operation is None)


@dataclass(eq=False)
class Node:
    """One call: operands and results as the level below has them; `sources`: (node, place) of each operand that is on
    the tape, else None. An input of the level is a node without an operation."""

    operation: object
    operands: list
    attrs: dict
    results: tuple
    sources: list
    number: int = 0
    grads: dict = field(default_factory=dict)       # place -> gradient so far, during a backward walk


class ReverseLevel(Level):
    """Records ops on its inputs and gives gradients with respect to them."""

    name = "grad"

    def __init__(self):
        super().__init__()
        self.count = 0

    def input(self, tensor):
        """A tensor that gradients can be asked for."""
        return Recorded.make(self, tensor, node=Node(None, [], {}, (tensor,), []), place=0)

    def process(self, operation, values):
        if self.ended:
            return bind(operation, (), {name: below(self, value) for name, value in values.items()})
        if operation.recorded is not None and _core.grad_mode():
            return operation.recorded(values)
        operands, attrs = operation.split(values)
        lowered = [o.inner if isinstance(o, Recorded) and o.level is self else o for o in operands]
        result = plans.interpret(operation, lowered, plans.assemble(operation, lowered, attrs))
        results = result if isinstance(result, tuple) else (result,)
        sources = [self.source(o) for o in operands]
        node = None
        if any(s is not None for s in sources):
            if has_derivative(operation) and _core.grad_mode():
                self.count += 1
                node = Node(operation, lowered, attrs, results, sources, self.count)
            elif operation.kind != "view":
                return result
        packed = [Recorded.make(self, r, node=node if r.dtype.kind in "fc" else None, place=i)
                  for i, r in enumerate(results)]
        if operation.kind == "view":
            packed[0].__dict__["window"] = (operands[0], operation, attrs, operands[0].changes)
        return operation.pack(packed) if isinstance(result, tuple) else packed[0]

    def source(self, value):
        """(node, place) of a value that is on the tape, else None."""
        recorded = isinstance(value, Recorded) and value.level is self
        if recorded:
            value.refresh()
        return (value.node, value.place) if recorded and value.node is not None else None

    def is_constant(self, value):
        return self.source(value) is None

    def fresh(self, made):
        return Recorded.make(self, made, node=None, place=0)

    def custom_function(self, function, args, kwargs):
        from flambeau.transform import custom
        return custom.reverse(self, function, args, kwargs)

    def detached(self, tensor):
        return tensor.inner

    def read(self, tensor, what):
        return tensor.inner.detach()

    def replace(self, target, result):
        """target takes the value of `result`; what was recorded before keeps the old one."""
        source = self.source(result)
        target.__dict__["inner"] = below(self, result)
        if source is not None or _core.grad_mode():
            target.__dict__.update(node=source and source[0], place=source and source[1])

    # ------------------------------------------------------------------ backward
    def gradients(self, outputs, seeds, inputs):
        """The gradients of `inputs`, the nodes of input tensors (None where they have none), for gradients of `outputs`."""
        pending, found = {}, {}

        def add(node, place, grad):
            pending[id(node)] = node
            node.grads[place] = grad if place not in node.grads else node.grads[place] + grad

        for output, seed in zip(outputs, seeds):
            source = self.source(output)
            if source is not None and seed is not None:
                add(*source, seed)
        while pending:
            node = pending.pop(max(pending, key=lambda key: pending[key].number))
            grads = [node.grads.get(i) for i in range(len(node.results))]
            node.grads.clear()
            if node.operation is None:
                found[id(node)] = grads[0]
                continue
            for source, grad in zip(node.sources, operand_gradients(node, grads)):
                if source is not None and grad is not None:
                    add(*source, grad)
        return [found.get(id(i)) for i in inputs]


# ---------------------------------------------------------------------------------- derivatives of one call
def has_derivative(operation):
    return operation.differentiable and (operation.derivative is not None or hasattr(operation, "compute"))


def operand_gradients(node, grads):
    """The gradient of each operand of a call, None where there is none, from those of its results."""
    operation = node.operation
    if operation.kind == "function":
        return operation.gradients(node, grads)
    if getattr(operation, "derivative_in_python", False) or getattr(operation, "draws", False):
        names = operation.derivative_roles[2]
        args = [grads[0] if operation.outputs is None else grads]
        if operation.derivative_roles[0]:
            args.append(node.results if operation.outputs else node.results[0])
        found = operation.derivative(*args, *node.operands, **{n: node.attrs[n] for n in names})
        return found if isinstance(found, tuple) else (found,)
    mask = sum(1 << i for i, source in enumerate(node.sources) if source is not None)
    try:
        graph, roles, targets = derivative_graph(operation, node.operands, node.attrs, mask)
    except (TypeError, ValueError):     # sizes that only the tensors know to be equal
        if not isinstance(operation, forms.Form):
            raise
        return _by_level(node, grads)
    grads = [full_like(r, 0) if g is None and i in roles else g for i, (g, r) in enumerate(zip(grads, node.results))]
    feed = [grads[r] if r < 100 else node.operands[r - 100] if r < 200 else node.results[r - 200] for r in roles]
    feed = [f if isinstance(f, Tensor) else derive.as_tensor(f, v.dtype) for f, v in zip(feed, graph.inputs)]
    found = [None] * len(node.operands)
    result = tuple(node.results[0].shape)
    spread = {t: node.operands[t] for t in targets if operation.kind == "elementwise"
              and isinstance(node.operands[t], Tensor) and tuple(node.operands[t].shape) != result}
    for target, grad in zip(targets, _replayed(operation, graph, targets, feed, spread)):
        like = node.operands[target]
        found[target] = cast(grad, like.dtype) if grad.dtype is not like.dtype else grad
    return found


def _by_level(node, grads):
    """The gradients of a derivative graph that is one op, from the ops inside it."""
    with ReverseLevel() as level:
        given = [o if source is None else level.input(o) for o, source in zip(node.operands, node.sources)]
        outputs = node.operation.compute(**dict(zip(node.operation.operands, given)))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        starts = [g.node for g, source in zip(given, node.sources) if source is not None]
        found = iter(level.gradients(outputs, grads, starts))
    return [None if source is None else next(found) for source in node.sources]


def _replayed(operation, graph, targets, feed, spread):
    """The outputs of a derivative graph, one a target; as one compiled call where the values allow it.

    spread: target -> the operand that was broadcast, over whose new axes its gradient is summed.
    """
    count, summed = len(feed), tuple(spread)            # the function is kept: it must not hold the operands

    def function(*given):
        likes = dict(zip(summed, given[count:]))
        _same_sizes(graph, given)
        outputs = trace.replay(graph, given[:count])
        return tuple(derive.sum_to(grad, likes[t]) if t in likes else grad for t, grad in zip(targets, outputs))

    operands = [*feed, *spread.values()]
    top = wrapped_among(operands)
    level = None if top is None else top.level
    if (level is None or isinstance(level, BatchLevel)) and not _in_other_ops(graph, operands):
        key = operation.name, id(graph), tuple(spread)      # the graph lives as long as _GRAPHS
        found = forms.run(level, key, operation.name + "_backward", function, operands)
        if found is not NotImplemented:
            found = found if isinstance(found, tuple) else (found,)
            return found if level is None else [level.wrap(grad) for grad in found]
    call = _as_op(operation, graph, function, spread, len(operands)) if level is not None else None
    if call is None or any(o.dtype.kind == "c" or not o.numel() for o in operands):
        return function(*operands)
    try:
        found = plans.interpret(call, operands, dict(zip(call.operands, operands)))
    except ValueError:                  # more sizes or operands than one plan holds: from now on op by op
        _OPS[id(graph), tuple(spread)] = None
        return function(*operands)
    return found if isinstance(found, tuple) else (found,)


def _same_sizes(graph, given):
    """While tracing: the sizes of operands that a derivative graph knows to be equal."""
    if trace.current() is None:
        return
    sizes = trace.bind_sizes(graph.inputs, given)
    for value, tensor in zip(graph.inputs, given):
        for known, size in zip(value.shape, tensor.shape):
            known = substitute(known, sizes) if isinstance(known, Dim) else known
            if known != size:
                trace.unify(known, size)


_OPS = {}           # (id of a derivative graph, targets that are spread) -> the graph as an op, None where it cannot be one
LARGEST = 60        # nodes, and operands, of a graph that is one op
FUSED = ("elementwise", "reduction", "view", "contraction", "indexed", "window", "scan", "sort", "create")


def _as_op(operation, graph, function, spread, count):
    """A derivative graph as one op, so that other levels see one call and its own derivative is compiled as a whole."""
    key = id(graph), tuple(spread)
    if key not in _OPS:
        used = [REGISTRY[node.op] for node in graph.nodes]
        whole = 1 < len(used) <= LARGEST and count <= LARGEST and all(o.kind in FUSED and o.recorded is None and not o.large_derivative for o in used)
        names = tuple(f"x{i}" for i in range(count))

        def compute(**given):
            found = function(*given.values())
            return found if len(found) > 1 else found[0]

        _OPS[key] = forms.composite(operation.name + "_backward", f"The gradients of {operation.name}.", names,
                                    compute) if whole else None
    return _OPS[key]


def _in_other_ops(graph, operands):
    """True if some op of the graph has no derivative, but other ops that say the same have."""
    return (_core.grad_mode() and any(isinstance(o, Tensor) and o.requires_grad for o in operands)
            and any(REGISTRY[node.op].recorded is not None for node in graph.nodes))


_GRAPHS = {}


def derivative_graph(operation, operands, attrs, mask):
    """(graph, roles of its inputs, operands that its outputs are gradients of): traced once a kind of call."""
    key = (operation, tuple(map(_described, operands)), tuple(attrs.items()), mask)
    try:
        found = _GRAPHS.get(key)
    except TypeError:                   # an attribute that cannot be part of a key
        key, found = object(), None
    if found is None:
        values = plans.assemble(operation, iter(operands), attrs)
        signature, _ = plans.signature_and_graph(operation, values, operands, attrs)
        found = _GRAPHS[key] = derive.trace_derivative(signature, mask)[:3]
    return found


def _described(operand):
    if isinstance(operand, Tensor):
        return operand.dtype.name, tuple(1 if size == 1 else 0 for size in operand.shape)
    return type(operand).__name__


def check_scalar(name, output):
    """The result of a function that `grad` takes: one floating point number."""
    if not isinstance(output, Tensor) or output.ndim or output.dtype.kind != "f":
        got = f"{output.dtype} of shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        fail(name, "the function must return a floating point tensor without axes", got,
             hint="end with .sum() or .mean(), or use vjp or jacrev")
