"""Tracing: run a Python function over ops on traced tensors and keep the Graph.

Sizes are symbolic (`types.dim`). Where an op needs two symbolic sizes to be equal the tracer notes a constraint, which the
compiled plan checks at run time.
"""

import threading
import weakref

from flambeau.base.errors import fail
from flambeau.ir.graph import Graph, Literal, Node, Value
from flambeau.ops.overrides import disabled_torch_function
from flambeau.runtime._core import Size, Tensor
from flambeau.types import dtype as dtypes
from flambeau.types.dim import Dim, substitute

_local = threading.local()


def current():
    """The innermost tracer of this thread, or None."""
    stack = getattr(_local, "stack", None)
    return stack[-1] if stack else None


def unify(a, b):
    """Declare two sizes equal while tracing: the size to go on with."""
    tracer = current()
    if tracer is None:
        raise ValueError(f"sizes {a} and {b} are not known to be equal")
    return tracer.unify(a, b)


class Traced(Tensor):
    """A tensor that stands for a graph value: dtype and sizes, no elements."""

    is_traced = True
    __torch_function__ = disabled_torch_function

    @classmethod
    def make(cls, tracer, value):
        traced = cls.__new__(cls)
        traced.__dict__["tracer"] = tracer
        traced.__dict__["value"] = value
        return traced

    shape = property(lambda self: Size(self.tracer.resolve(self.value.shape)))
    dtype = property(lambda self: self.value.dtype)
    ndim = property(lambda self: len(self.value.shape))
    requires_grad = property(lambda self: False)
    is_leaf = property(lambda self: True)
    is_shape_only = property(lambda self: True)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return self.ndim

    def numel(self):
        return self.shape.numel()

    def __len__(self):
        return self.shape[0]

    def __bool__(self):
        fail("trace", "a traced tensor has no value to decide a branch on",
             hint="use where(condition, a, b) in place of a Python if")

    def item(self):
        fail("trace", "a traced tensor has no value to read", hint="keep it a tensor")

    def __repr__(self):
        return f"Traced({self.value.name}: {self.value.dtype.short}{list(self.shape)})"


class Tracer:
    """Collects nodes. `with tracer:` makes it the one that creation ops see."""

    def __init__(self, name="graph", sources=False):
        self.name, self.nodes, self.count = name, [], 0
        self.inputs, self.equal, self.constraints = [], {}, []
        self.sources = sources
        self.spans = []         # (first node, last node + 1, (op, operands, attrs, outputs)) of composites that state a derivative

    def __enter__(self):
        if not hasattr(_local, "stack"):
            _local.stack = []
        _local.stack.append(self)
        return self

    def __exit__(self, *error):
        _local.stack.pop()

    # ------------------------------------------------------------------ sizes
    def resolve(self, shape):
        if not self.equal:
            return shape
        return tuple(substitute(s, self.equal) if isinstance(s, Dim) else s for s in shape)

    def unify(self, a, b):
        a, b = self.resolve((a, b))
        if a == b:
            return a
        if not isinstance(b, Dim) or not _is_symbol(b):
            a, b = b, a
        if not isinstance(b, Dim) or not _is_symbol(b):
            raise ValueError(f"sizes {a} and {b} differ")
        self.constraints.append((a, b))
        self.equal = {k: substitute(v, {str(b): a}) if isinstance(v, Dim) else v for k, v in self.equal.items()}
        self.equal[str(b)] = a
        return a

    # ------------------------------------------------------------------ values
    def fresh(self, stem="t"):
        self.count += 1
        return f"{stem}{self.count}"

    def input(self, dtype, shape, name=None):
        """A new graph input as a traced tensor."""
        value = Value(name or self.fresh("x"), dtype, tuple(shape))
        self.inputs.append(value)
        return Traced.make(self, value)

    def operand(self, value):
        """The graph form of an operand: a Value, or a Literal for a number or a size."""
        if isinstance(value, Traced):
            if value.tracer is not self:
                fail("trace", "a traced tensor is used outside the trace that made it")
            return value.value
        if isinstance(value, Dim):
            return Literal(value, dtypes.int64)
        if isinstance(value, Tensor):
            if value.numel() == 1 and value.ndim == 0:
                return Literal(value.item(), value.dtype)
            if value.numel() == 1:
                from flambeau.ops.spec import REGISTRY
                attrs = {"size": tuple(value.shape), "fill_value": value.item(), "dtype": value.dtype}
                return self.add_node(REGISTRY["full"], [], attrs).value
            fail("trace", "a tensor from outside takes part in a trace", value, hint="make it an argument of the function")
        return Literal(value, dtypes.scalar_dtype(value))

    def add_node(self, operation, operands, attrs):
        """Append a node and return its outputs, packed as the op packs them."""
        inputs = tuple(self.operand(v) for v in operands)
        inputs = tuple(Value(v.name, v.dtype, self.resolve(v.shape)) if isinstance(v, Value) else v for v in inputs)
        with self:
            inferred = operation.infer(inputs, attrs)
        source = None
        if self.sources:
            from flambeau.base.source import user_source
            source = user_source()
        outputs = tuple(Value(self.fresh(), d, tuple(s)) for d, s in inferred)
        self.nodes.append(Node(operation.name, inputs, tuple(attrs.items()), outputs, source))
        traced = [Traced.make(self, v) for v in outputs]
        return traced[0] if operation.outputs is None else operation.pack(traced)

    def finish(self, outputs):
        """The Graph that computes `outputs`, without nodes that nothing uses."""
        results = tuple(self.operand(o) for o in outputs)
        live, nodes = {r.name for r in results if isinstance(r, Value)}, []
        for node in reversed(self.nodes):
            if any(o.name in live for o in node.outputs):
                nodes.append(node)
                live.update(i.name for i in node.inputs if isinstance(i, Value))
        graph = Graph(self.name, tuple(self.inputs), tuple(reversed(nodes)), results)
        return resolve_graph(graph, self.resolve) if self.equal else graph


def _is_symbol(size):
    from flambeau.types.dim import symbols
    return isinstance(size, Dim) and symbols(size) == {str(size)}


def resolve_graph(graph, resolve):
    """The same graph with every shape and size attribute passed through `resolve`."""
    def value(v):
        if isinstance(v, Literal):
            return Literal(resolve((v.value,))[0], v.dtype) if isinstance(v.value, Dim) else v
        return Value(v.name, v.dtype, tuple(resolve(v.shape)))

    def attribute(a):
        if isinstance(a, Dim):
            return resolve((a,))[0]
        return tuple(attribute(x) for x in a) if isinstance(a, tuple) else a

    nodes = tuple(Node(n.op, tuple(map(value, n.inputs)), tuple((k, attribute(a)) for k, a in n.attrs),
                       tuple(map(value, n.outputs)), n.source) for n in graph.nodes)
    return Graph(graph.name, tuple(map(value, graph.inputs)), nodes, tuple(map(value, graph.outputs)))


_STEPS = weakref.WeakKeyDictionary()        # graph -> what `replay` needs of it, prepared


def _prepared(graph):
    """(rows (input, axis, symbol), rows (op, inputs, attributes, those of them with symbols, names of outputs))."""
    found = _STEPS.get(graph)
    if found is None:
        from flambeau.ops.spec import REGISTRY
        places = [(i, d, s) for i, v in enumerate(graph.inputs) for d, s in _symbols_of(v)]
        steps = [(REGISTRY[node.op], [i.name if isinstance(i, Value) else i for i in node.inputs], dict(node.attrs),
                  [k for k, a in node.attrs if _has_size(a)], [o.name for o in node.outputs]) for node in graph.nodes]
        found = _STEPS[graph] = places, steps
    return found


def _symbols_of(value):
    return [(d, str(s)) for d, s in enumerate(value.shape) if _is_symbol(s)]


def _has_size(attribute):
    return any(map(_has_size, attribute)) if isinstance(attribute, tuple) else isinstance(attribute, Dim)


def replay(graph, tensors):
    """Run a graph op by op on tensors (real ones, recorded on the tape, or traced ones). Returns a list of outputs."""
    places, steps = _prepared(graph)
    env = {v.name: t for v, t in zip(graph.inputs, tensors)}
    sizes = {}
    for i, d, name in places:
        if name not in sizes and isinstance(tensors[i], Tensor) and d < tensors[i].ndim:   # a zero may have no axes
            sizes[name] = tensors[i].shape[d]

    def size(s):
        return substitute(s, sizes) if isinstance(s, Dim) else s

    def attribute(a):
        return tuple(map(attribute, a)) if isinstance(a, tuple) else size(a)

    for operation, inputs, attrs, symbolic, names in steps:
        operands = [env[i] if isinstance(i, str) else size(i.value) for i in inputs]
        attrs = {**attrs, **{k: attribute(attrs[k]) for k in symbolic}}
        results = operation.apply(operands, attrs)
        if isinstance(results, tuple):
            env.update(zip(names, results))
        else:
            env[names[0]] = results
    return [env[o.name] if isinstance(o, Value) else size(o.value) for o in graph.outputs]


def bind_sizes(inputs, tensors):
    """symbol -> size, read off the shapes of the operands."""
    sizes = {}
    for value, tensor in zip(inputs, tensors):
        if isinstance(tensor, Tensor):
            for d, name in _symbols_of(value):
                if d < tensor.ndim:
                    sizes.setdefault(name, tensor.shape[d])
    return sizes
