"""Tracing: run a Python function over ops on traced tensors and keep the Graph.

Sizes are symbolic (`types.dim`). Where an op needs two symbolic sizes to be equal the tracer notes a constraint, which the
compiled plan checks at run time.
"""

import threading
import weakref

from flambeau.base.errors import fail
from flambeau.ir.graph import Graph, Literal, Node, Value
from flambeau.ops.overrides import disabled_torch_function
from flambeau.runtime import _core
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


_PREPARED = weakref.WeakKeyDictionary()        # graph -> what `replay` needs of it


class _Step:
    """A node, prepared: where its operands come from, and how it is called natively, once that is known.

    slots: an operand each: the place of a value, or the Literal. symbolic: attributes that hold sizes. places: of outputs.
    """

    def __init__(self, node, place_of):
        from flambeau.ops.spec import REGISTRY
        self.operation = REGISTRY[node.op]
        self.slots = [place_of[v.name] if isinstance(v, Value) else v for v in node.inputs]
        self.attrs = dict(node.attrs)
        self.symbolic = [name for name, a in node.attrs if _has_size(a)]
        self.places = [place_of.setdefault(v.name, len(place_of)) for v in node.outputs]
        self.order = None       # names of the op's arguments by place and by name; False: it has no native call

    def arguments(self, values, sizes):
        """(operands, attributes) of this call."""
        operands = [values[s] if type(s) is int else _sized(s.value, sizes) for s in self.slots]
        if not self.symbolic:
            return operands, self.attrs
        return operands, self.attrs | {name: _sized(self.attrs[name], sizes) for name in self.symbolic}

    def run(self, values, sizes, natively):
        """Call the op and note its results among the values."""
        operands, attrs = self.arguments(values, sizes)
        if natively and self.order is None:
            self.order = _native_order(self.operation, operands, attrs)
        if natively and self.order:
            results = self.call(operands, attrs)
        else:
            results = self.operation.apply(operands, dict(attrs))
        if len(self.places) == 1 and not isinstance(results, tuple):
            values[self.places[0]] = results
        else:
            for place, result in zip(self.places, results):
                values[place] = result

    def call(self, operands, attrs):
        """The op as a program calls it: its native path knows the call by its signature."""
        positional, named = self.order
        if not attrs:
            return self.operation.function(*operands)
        following = iter(operands)
        args = [attrs[name] if name in attrs else next(following) for name in positional]
        return self.operation.function(*args, **{name: attrs[name] for name in named})


def _alike(a, b):
    """Whether two attributes are equal and of one type."""
    return type(a) is type(b) and a == b


def _native_order(operation, operands, attrs):
    """(names of arguments by place, names of arguments by name) of a call that is the same as `apply`; False if it is not:
    where `prepare` would read the prepared arguments in another way, or operands come as a tuple."""
    from flambeau.ops.plans import assemble
    if any(name in operation.operands for name in attrs) or not isinstance(attrs.get(operation.variadic, ()), tuple):
        return False
    values = assemble(operation, operands, attrs)
    try:
        again = operation.prepare(dict(values))
    except (TypeError, ValueError, RuntimeError, LookupError):
        return False
    if again.keys() != values.keys() or not all(again[k] is v or (k in attrs and _alike(again[k], v))
                                                for k, v in values.items()):
        return False
    default = {name for name, value in attrs.items() if _alike(operation.parameters[name], value)}
    given = [name for name in operation.parameters if name not in default]
    positional = [name for name in operation.positional if name in given]
    if positional != operation.positional[:len(positional)]:        # one before it has its default
        positional = list(operation.positional[:1 + operation.positional.index(positional[-1])])
    return positional, [name for name in given if name not in positional]


def _prepared(graph):
    """(rows (input, axis, symbol), steps, how many values, what the outputs are) of a graph."""
    found = _PREPARED.get(graph)
    if found is None:
        rows = [(i, d, s) for i, v in enumerate(graph.inputs) for d, s in _symbols_of(v)]
        place_of = {v.name: i for i, v in enumerate(graph.inputs)}
        steps = [_Step(node, place_of) for node in graph.nodes]
        outputs = [place_of[o.name] if isinstance(o, Value) else o for o in graph.outputs]
        found = _PREPARED[graph] = rows, steps, len(place_of), outputs
    return found


def _symbols_of(value):
    return [(d, str(s)) for d, s in enumerate(value.shape) if _is_symbol(s)]


def _has_size(attribute):
    return any(map(_has_size, attribute)) if isinstance(attribute, tuple) else isinstance(attribute, Dim)


def _sized(value, sizes):
    """A number or attribute with its sizes put in."""
    if isinstance(value, tuple):
        return tuple([_sized(v, sizes) for v in value])
    return substitute(value, sizes) if isinstance(value, Dim) else value


def replay(graph, tensors):
    """Run a graph op by op on tensors (real ones, recorded on the tape, or traced ones). Returns a list of outputs."""
    rows, steps, count, outputs = _prepared(graph)
    sizes = {}
    for i, d, name in rows:
        if name not in sizes and isinstance(tensors[i], Tensor) and d < tensors[i].ndim:   # a zero may have no axes
            sizes[name] = tensors[i].shape[d]
    values = [*tensors, *[None] * (count - len(graph.inputs))]
    natively = _core.takes_native(tensors)
    for step in steps:
        step.run(values, sizes, natively)
    return [values[o] if type(o) is int else _sized(o.value, sizes) for o in outputs]


def bind_sizes(inputs, tensors):
    """symbol -> size, read off the shapes of the operands."""
    sizes = {}
    for value, tensor in zip(inputs, tensors):
        if isinstance(tensor, Tensor):
            for d, name in _symbols_of(value):
                if d < tensor.ndim:
                    sizes.setdefault(name, tensor.shape[d])
    return sizes
