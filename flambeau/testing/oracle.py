"""Every op against its oracles: NumPy reference, finite differences, compiled and interpreted forms.

A `Call` is one op with operands as arrays (their strides are the layout) and attributes; the functions here run
it in every way that there is and compare what comes out. The README here says what an op class states for it.
"""

import importlib
import pkgutil
import warnings
from dataclasses import dataclass, field


import flambeau.ops
import flambeau.tensor  # noqa: F401 - fills the runtime's tables
from flambeau.ops import plans, trace
from flambeau.ops.kinds import Composite
from flambeau.ops.spec import REGISTRY
from flambeau.runtime import _core
from flambeau.testing import stated
from flambeau.testing.arrays import LAYOUTS, stored, to_array, to_tensor, values_of
from flambeau.types import dtype as dtypes
from flambeau.types.dtype import float64
from flambeau.base.lazy import LazyModule

numpy = LazyModule("numpy")

EPSILON = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7, "float32": 2.0 ** -23, "float64": 2.0 ** -52}
SMALLEST = {"float16": 2.0 ** -24, "bfloat16": 2.0 ** -133, "float32": 2.0 ** -149, "float64": 2.0 ** -1074}


@dataclass
class Call:
    """An op with operands: `arrays` and `dtypes` follow its `operands`, lists for tuples of tensors, or None."""

    operation: object
    arrays: list
    dtypes: list
    attributes: dict = field(default_factory=dict)

    def tensors(self):
        """Fresh tensors over the arrays, nested as the operands are."""
        return [_nested(to_tensor, a, d) for a, d in zip(self.arrays, self.dtypes)]

    def run(self, tensors):
        """The results as a list."""
        return call(self.operation, tensors, self.attributes)

    def split(self, tensors):
        """(operands in order, all attributes by name) as the nodes of a graph have them."""
        args, kwargs = arguments(self.operation, tensors, self.attributes)
        return self.operation.split(self.operation.bind_arguments(args, kwargs))

    def reference(self):
        """What NumPy says, in float64 where the operands are floating point."""
        tensors = self.tensors()
        operands, attrs = self.split(tensors)
        together = zip(flat(tensors), flat(self.arrays), flat(self.dtypes))
        values = {id(t): values_of(a, d) for t, a, d in together}
        with numpy.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = self.operation.reference(*[values.get(id(o), o) for o in operands], **attrs)
        return [numpy.asarray(r) for r in (got if isinstance(got, (tuple, list)) else (got,))]

    def __str__(self):
        parts = [f"{d.short}{list(a.shape)} strides {[s // a.itemsize for s in a.strides]}"
                 for a, d in zip(flat(self.arrays), flat(self.dtypes))]
        return f"{self.operation.name}({'; '.join(parts)}; {self.attributes})"


def _nested(function, item, *rest):
    if item is None:
        return None
    if isinstance(item, (list, tuple)):
        return tuple(function(*each) for each in zip(item, *rest))
    return function(item, *rest)


def flat(nested):
    """The operands in order, those inside tuples too, without None."""
    result = []
    for o in nested:
        result.extend(flat(o) if isinstance(o, (list, tuple)) else [] if o is None else [o])
    return result


def nest(feed, like):
    """The next items of an iterator, nested as the operands `like` are."""
    def take(operand):
        if isinstance(operand, list):
            return tuple(take(o) for o in operand)
        return None if operand is None else next(feed)

    return [take(operand) for operand in like]


def arguments(operation, operands, attributes):
    """(args, kwargs) of a call: operands by position where they come first, else by name."""
    names = list(operation.operands)[:len(operands)]
    leading = 0
    if list(operation.parameters)[:len(names)] == names:
        leading = sum(name in operation.positional for name in names)
    return tuple(operands[:leading]), dict(zip(names[leading:], operands[leading:])) | attributes


def call(operation, operands, attributes):
    """Call an op; its results as a list."""
    args, kwargs = arguments(operation, operands, attributes)
    result = operation.function(*args, **kwargs)
    return list(result) if isinstance(result, (tuple, list)) else [result]


# ------------------------------------------------------------------------------ making calls
def every_op():
    """The names of all ops, after importing every module of `flambeau.ops`."""
    for module in pkgutil.iter_modules(flambeau.ops.__path__):
        importlib.import_module(f"flambeau.ops.{module.name}")
    return sorted(REGISTRY)


def draw(operation, seed, shape, dtype, layouts=("contiguous",), attributes=None, broadcast=False):
    """A Call with operands from the op's `samples`; operand i has layout i of `layouts`, which repeat.

    float64 samples become `dtype`; integer and bool samples (indices, conditions) stay as they are; whole divisors
    are not 0. With `broadcast` the operands lose axes: the second keeps only its second axis, the third its last one.
    """
    attributes = dict(attributes or {})
    samples = stated.samples(operation)(numpy.random.default_rng(seed), shape)
    if len(samples) != len(operation.operands):
        raise ValueError(f"{operation.name}: samples gives {len(samples)} operands for {operation.operands}")
    arrays, kinds, position = [], [], 0
    for name, sample in zip(operation.operands, samples):
        many = isinstance(sample, (list, tuple))
        made = []
        for values in sample if many else [sample]:
            values = numpy.asarray(values)
            if broadcast:
                values = (values[:, :1], values[0, :, :1], values[0, 0])[position % 3]
            kind = dtype if values.dtype == numpy.float64 else dtypes.from_numpy(values.dtype)
            layout = LAYOUTS[layouts[position % len(layouts)]]
            values = numpy.asarray(stored(values, kind))
            if position == getattr(operation, "divisor", None) and kind.kind in "iub":
                values = numpy.where(values == 0, numpy.ones_like(values), values)      # zeros are refused
            made.append((numpy.asarray(layout(values)), kind))
            position += 1
        absent = name in attributes and attributes.pop(name) is None
        arrays.append(None if absent else [a for a, _ in made] if many else made[0][0])
        kinds.append(None if absent else [k for _, k in made] if many else made[0][1])
    return Call(operation, arrays, kinds, attributes)


# ------------------------------------------------------------------------------ comparing
def check_close(got, want, dtype, tolerance, exact_compute=True, about=""):
    """Compare an array of `dtype` with reference values; AssertionError tells the worst element.

    tolerance: ("ulps", count) relative to each element, or ("ulps", count, floor) with elements below `floor`
    judged as if they were `floor`. Half precision rounds the float32 result once (exact_compute) or at every step.
    """
    assert tuple(got.shape) == tuple(want.shape), f"{about}: shape {got.shape}, reference {want.shape}"
    if dtype.kind != "f":
        same = got == want.astype(got.dtype)
        assert same.all(), f"{about}: {_first(got, want, ~same)}"
        return
    count, floor = tolerance[1], tolerance[2] if len(tolerance) > 2 else 0.0
    rounded = values_of(stored(want, dtype), dtype)
    values, want = values_of(got, dtype), want.astype(numpy.float64)
    half = dtype.itemsize == 2
    compute = EPSILON["float32" if half and exact_compute else dtype.name]
    with numpy.errstate(all="ignore"):
        allowed = count * (compute * numpy.maximum(abs(want), floor) + SMALLEST[dtype.name])
        if half and count:
            allowed = allowed + EPSILON[dtype.name] * abs(want) + SMALLEST[dtype.name]
        both_nan = numpy.isnan(values) & numpy.isnan(rounded)
        same = (values == rounded) | both_nan | (abs(values - want) <= allowed)
    assert same.all(), f"{about}: {_first(values, want, ~same)}, tolerance {tolerance}"


def check_bits(got, want, about=""):
    """The same dtype, shape and bits; any NaN equals any NaN."""
    types = f"{got.dtype}{got.shape} and {want.dtype}{want.shape}"
    assert got.dtype == want.dtype and got.shape == want.shape, f"{about}: {types}"
    bits = numpy.dtype(f"u{got.itemsize}")
    got, want = numpy.ascontiguousarray(got), numpy.ascontiguousarray(want)
    same = got.view(bits) == want.view(bits)
    if got.dtype.kind == "f":
        same |= numpy.isnan(got) & numpy.isnan(want)
    elif got.dtype == numpy.uint16:         # bits of bfloat16
        same |= ((got & 0x7FFF) > 0x7F80) & ((want & 0x7FFF) > 0x7F80)
    assert same.all(), f"{about}: {_first(got, want, ~same)}"


def _first(got, want, wrong):
    at = tuple(int(i) for i in numpy.argwhere(wrong)[0]) if wrong.ndim else ()
    count = f"{int(wrong.sum())} of {wrong.size} elements differ"
    return f"{count}, first at {at}: got {got[at]!r}, wanted {want[at]!r}"


def tolerance_of(operation, want):
    """The op's tolerance; kinds other than Elementwise are judged against the largest element of the result."""
    tolerance = operation.tolerance or ("ulps", 16)
    plain = operation.kind == "elementwise" or len(tolerance) > 2 or tolerance[1] == 0
    if plain or want.dtype.kind != "f" or not want.size:
        return tolerance
    finite = abs(want[numpy.isfinite(want)])
    return (*tolerance[:2], float(finite.max()) if finite.size else 0.0)


def check_reference(made):
    """Run a Call eagerly and compare with its reference. Returns the results as arrays."""
    tensors = made.run(made.tensors())
    results, kinds, wanted = [to_array(t) for t in tensors], [t.dtype for t in tensors], made.reference()
    assert len(results) == len(wanted), f"{made}: {len(results)} results, reference {len(wanted)}"
    for got, want, dtype in zip(results, wanted, kinds):
        once = made.operation.kind in ("elementwise", "reduction")
        check_close(got, want, dtype, tolerance_of(made.operation, want), once, str(made))
    return results


# ------------------------------------------------------------------------------ compiled and interpreted
def compile_function(function, tensors):
    """Trace function(*tensors) into one graph and plan it: (graph, run); run(*tensors) gives the results."""
    tracer = trace.Tracer("test")
    operands = [plans.operand_of(i, t) for i, t in enumerate(tensors)]
    with tracer:
        results = function(*[tracer.input(o.dtype, o.shape) for o in operands])
    graph = tracer.finish(results if isinstance(results, (tuple, list)) else (results,))
    outputs = tuple((o.dtype, tuple(getattr(o, "shape", ()))) for o in graph.outputs)
    operands = tuple(plans.Operand(o.dtype, tracer.resolve(o.shape), o.layout, o.number) for o in operands)
    signature = plans.Signature("test", operands, {}, outputs, tuple(tracer.constraints))
    plan = plans.compiler().plan(signature, graph)
    return graph, lambda *given: list(_core.execute(plan, given))


def as_composite(function, operands, results):
    """A Composite op, in no registry, of a function of so many tensors that gives a list of `results`."""
    names = [f"x{i}" for i in range(operands)]

    def compute(**values):
        got = function(*[values[n] for n in names])
        return tuple(got) if results > 1 else got[0]

    fields = tuple(f"result{i}" for i in range(results)) if results > 1 else None
    body = {"__doc__": "A function under test.", "name": "under_test", "signature": ", ".join(names),
            "operands": tuple(names), "outputs": fields, "compute": staticmethod(compute)}
    return type("UnderTest", (Composite,), body)()


def compiled_gradients(function, tensors, cotangents):
    """What `gradients` gives, by the derivative that the compiler makes of the whole traced function."""
    inputs = [t.detach().requires_grad_(True) for t in tensors]
    results = call(as_composite(function, len(inputs), len(cotangents)), inputs, {})
    assert len(results) == len(cotangents), f"a composite of {len(cotangents)} results gave {len(results)}"
    return gradients(results, cotangents, inputs)


def interpret_elementwise(made):
    """The result of an elementwise Call by `ir.loops_interpret`, as an array."""
    from flambeau.compiler.expand import expand_math
    from flambeau.compiler.pointwise import lower_pointwise
    from flambeau.ir import loops_interpret

    operands = [to_tensor(a, d) for a, d in zip(made.arrays, made.dtypes)]
    graph = plans.elementwise_plan(made.operation, operands, made.split(operands)[1]).spec["graph"]
    shape = numpy.broadcast_shapes(*[a.shape for a in made.arrays])
    arrays = {v.name: numpy.ascontiguousarray(numpy.broadcast_to(a, shape)).reshape(-1)
              for v, a in zip(graph.inputs, made.arrays)}
    result = numpy.empty(shape, graph.outputs[0].dtype.numpy).reshape(-1)
    kernel = expand_math(lower_pointwise(graph, (1,) * (len(arrays) + 1)))
    arrays[kernel.buffers[0].name] = result
    loops_interpret.run(kernel, arrays, {p: 1 for p in kernel.params}, 0, result.size)
    return result.reshape(shape)


# ------------------------------------------------------------------------------ derivatives
def gradients(results, cotangents, inputs, create_graph=False):
    """The gradients of sum(result * cotangent) for `inputs`; None for one on which nothing depends."""
    pairs = [(r, c) for r, c in zip(results, cotangents) if r.requires_grad]
    if not pairs:
        return [None] * len(inputs)
    roots, grads = zip(*pairs)
    return _core.run_backward(list(roots), list(grads), True, create_graph, list(inputs), False)


def check_derivatives(made, order=2, step=1e-5, tolerance=1e-6, seed=0):
    """First (and second) derivative of a float64 Call against central differences in a random direction."""
    rng = numpy.random.default_rng(seed)
    function, arrays = _as_function(made)
    directions = [rng.uniform(-1, 1, a.shape) for a in arrays]
    weights = [rng.uniform(0.5, 1, to_array(r).shape) for r in function(*map(to_tensor, arrays))]
    _check_directional(lambda *xs: _total(function(*xs), weights), function, arrays, directions, weights,
                       step, tolerance, f"{made}: first derivative")
    if order > 1:
        firsts = _gradient(function, weights, _leaves(map(to_tensor, arrays)))
        reached = [i for i, g in enumerate(firsts) if g is not None]
        seconds = [rng.uniform(-1, 1, arrays[i].shape) for i in reached]

        def gradient(*xs):
            """The gradients of the weighted results, recorded on the tape."""
            got = _gradient(function, weights, xs)
            return [got[i] for i in reached]

        _check_directional(lambda *xs: _total(gradient(*_leaves(xs)), seconds), gradient, arrays, directions,
                           seconds, step, tolerance, f"{made}: second derivative")


def _as_function(made):
    """(function of the float64 operands alone -> floating results, their arrays)."""
    flat_kinds, flat_arrays = flat(made.dtypes), flat(made.arrays)
    active = [i for i, d in enumerate(flat_kinds) if d is float64]

    def function(*xs):
        given = [to_tensor(a, d) for a, d in zip(flat_arrays, flat_kinds)]
        for i, x in zip(active, xs):
            given[i] = x
        return [r for r in made.run(nest(iter(given), made.arrays)) if r.dtype is float64]

    return function, [numpy.array(flat_arrays[i]) for i in active]


def _gradient(function, weights, inputs):
    return gradients(function(*inputs), [to_tensor(w) for w in weights], inputs, create_graph=True)


def _leaves(tensors):
    return [t.detach().requires_grad_(True) for t in tensors]


def _total(results, weights):
    return sum(float((to_array(r) * w).sum()) for r, w in zip(results, weights))


def _check_directional(value, function, arrays, directions, weights, step, tolerance, about):
    """d/dt value(x + t v) by differences against <gradient, v> by the tape."""
    ahead, behind = ([to_tensor(a + s * step * d) for a, d in zip(arrays, directions)] for s in (1, -1))
    want = (value(*ahead) - value(*behind)) / (2 * step)
    inputs = _leaves([to_tensor(a) for a in arrays])
    results = function(*inputs)
    got = gradients(results, [to_tensor(numpy.ascontiguousarray(w)) for w in weights], inputs)
    total = sum(float((to_array(g) * d).sum()) for g, d in zip(got, directions) if g is not None)
    scale = sum(float(abs(to_array(g) * d).sum()) for g, d in zip(got, directions) if g is not None)
    close = abs(total - want) <= tolerance * max(1.0, scale)
    assert close, f"{about}: got {total!r}, differences give {want!r}"
