"""Writes by index: elements or slices of a source put, added, multiplied or compared into named places.

Two ops do it all: `_scatter_elements`, whose index has an element for each element of the source, and
`_scatter_rows`, whose index has one for each slice. Both start from a copy of `target` and take the source in
the order of the index. The functions below check, bring operands into these forms and finish means.
"""

import threading
from contextlib import contextmanager

from flambeau.base.errors import DTypeError, PlaceError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.create import full
from flambeau.ops.elementwise import NUMBERS, cast, full_like, where
from flambeau.ops.held import check_held
from flambeau.ops.index import AlongAxis, bounds_of, check_index, gather, index_select, launch
from flambeau.ops.interpose import visible
from flambeau.ops.out import with_out
from flambeau.ops.samples import ulps
from flambeau.ops.shape import own_memory, put_view
from flambeau.ops.spec import FUNCTIONS, INPLACE, QUICK, REGISTRY, op, public
from flambeau.ops.trace import unify
from flambeau.ops.view import Slice, clone, expand, reshape, slice_
from flambeau.ops.write import write
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import bool_, int32, int64
from flambeau.types.shape import normalize_axis

numpy = LazyModule("numpy")

REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}
FEW = 4096          # places that are written without a kernel
OLD_REDUCTIONS = {"add": "add", "multiply": "mul"}


# ---------------------------------------------------------------------------------- the two ops
class Scatter(AlongAxis):
    """target with the source combined into the places of the index along `dim`.

    `mode` is set, add, mul, max or min. The gradient of max and min is shared evenly by all that equal the
    result.
    """

    signature = "target, dim, index, source, mode"
    operands = ("target", "index", "source")
    dtypes = NUMBERS
    tolerance = ulps(64)
    shapes = ((5,), (4, 5), (2, 3, 5))
    out_of_bounds = PlaceError

    def prepare(self, values):
        target = values["target"]
        same_dtype(self.name, target, values["source"])
        dim = normalize_axis(values["dim"], target.ndim, self.name)
        check_places(self.name, values["index"], target.shape[dim], self.out_of_bounds)
        return values | {"dim": dim}

    def infer_shape(target, index, source, *, dim, mode):
        return tuple(target)

    def eager(self, values):
        if values["target"].dtype.kind == "c" and values["mode"] not in ("set", "add"):
            fail(self.name, "products of complex elements are not supported here yet", values["target"].dtype,
                 kind=DTypeError)
        return AlongAxis.eager(self, values)

    def lower_with(planner, template, inputs, out, dim, mode):
        """`out`: the result; None: the target's own memory takes it."""
        target, index, source = (planner.dense(i) for i in inputs)
        if out is None:
            out = target
        else:
            planner.copy(target, out)
        kernel = template(source.dtype, index.dtype, f"scatter_{mode}", mode)
        launch(planner, kernel, [out, index, source], out, source.shape[dim], dim)

    def gradients(grad, out, target, index, source, dim, mode, take, scatter):
        """Of (target, index, source); `take` reads places, `scatter` is the op."""
        if mode == "add":
            return grad, None, take(grad, dim, index)
        zero = full_like(source, 0)
        if mode == "set":
            return scatter(grad, dim, index, zero, "set"), None, take(grad, dim, index)
        if mode == "mul":
            return _product_gradients(grad, out, target, index, source, dim, take, scatter)
        kept, chosen = target == out, source == take(out, dim, index)
        count = scatter(cast(kept, grad.dtype), dim, index, cast(chosen, grad.dtype), "add")
        share = grad / count
        return where(kept, share, 0.0), None, where(chosen, take(share, dim, index), zero)


def _product_gradients(grad, out, target, index, source, dim, take, scatter):
    """Of mode mul: products of all others, also where one factor is 0."""
    one = full_like(target, 1)
    others = scatter(where(target == 0, one, target), dim, index, source, "mul")
    mine = others / where(target == 0, one, target)
    flat = source == 0
    unit = full_like(source, 1)
    zeros = take(scatter(full_like(target, 0), dim, index, cast(flat, source.dtype), "add"), dim, index)
    single = flat & (zeros == 1)
    without = scatter(target, dim, index, where(single, unit, source), "mul")
    plain = take(grad * out, dim, index) / where(flat, unit, source)
    return grad * mine, None, where(single, take(grad * without, dim, index), plain)


def _combined(target, index, source, dim, mode, places):
    """NumPy's answer: `places(c)` is what the c-th element or slice of the source is combined into."""
    out = target.copy()
    combine = {"add": numpy.add, "mul": numpy.multiply, "max": numpy.maximum, "min": numpy.minimum}.get(mode)
    for at in places:
        into, value = at
        out[into] = source[value] if combine is None else combine(out[into], source[value])
    return out


def _operands(rng, shape):
    return [rng.uniform(-3, 3, shape), rng.permutation(shape[-1]), rng.uniform(-3, 3, shape)]


def _element_operands(rng, shape):
    x, index, source = _operands(rng, shape)
    return [x, numpy.broadcast_to(index, shape).copy(), source]


@op
class ScatterRows(Scatter):
    """target with slices of the source combined into the places index[c] along `dim`."""

    name = "_scatter_rows"
    samples = _operands
    cases = [{"dim": -1, "mode": m} for m in ("set", "add", "max", "mul")]

    def lower(planner, inputs, outputs, *, dim, mode):
        Scatter.lower_with(planner, planner.templates.scatter_add_rows, inputs, outputs[0], dim, mode)

    def reference(target, index, source, dim, mode):
        dim = dim % target.ndim
        lead = (slice(None),) * dim
        pairs = [((*lead, int(row)), (*lead, c)) for c, row in enumerate(index)]
        return _combined(target, index, source, dim, mode, pairs)

    def derivative(grad, out, target, index, source, *, dim, mode):
        return Scatter.gradients(grad, out, target, index, source, dim, mode, index_select, scatter_rows)


@op
class ScatterElements(Scatter):
    """target with elements of the source combined into the places that an index of its shape names."""

    name = "_scatter_elements"
    out_of_bounds = RuntimeError
    per_element = True
    samples = _element_operands
    cases = [{"dim": -1, "mode": m} for m in ("set", "add", "min", "mul")]

    def lower(planner, inputs, outputs, *, dim, mode):
        Scatter.lower_with(planner, planner.templates.scatter_add_elements, inputs, outputs[0], dim, mode)

    def reference(target, index, source, dim, mode):
        dim = dim % target.ndim
        pairs = [((*at[:dim], int(index[at]), *at[dim + 1:]), at) for at in numpy.ndindex(*index.shape)]
        return _combined(target, index, source, dim, mode, pairs)

    def derivative(grad, out, target, index, source, *, dim, mode):
        return Scatter.gradients(grad, out, target, index, source, dim, mode, gather, scatter_elements)


class Into:
    """The same as another scatter, but in the target's own memory; the result is nothing, a tensor of no elements.

    Only `_scatter` calls it, with a row-major target that shares memory with no other operand.
    """

    internal = True
    differentiable = False
    samples = None

    def infer_shape(target, index, source, *, dim, mode):
        return (0,)

@op
class ScatterRowsInto(Into, Scatter):
    """target with slices of the source combined into the places index[c] along `dim`, in place."""

    name = "_scatter_rows_into"

    def lower(planner, inputs, outputs, *, dim, mode):
        Scatter.lower_with(planner, planner.templates.scatter_add_rows, inputs, None, dim, mode)


@op
class ScatterElementsInto(Into, Scatter):
    """target with elements of the source combined into the places that an index of its shape names, in place."""

    name = "_scatter_elements_into"
    out_of_bounds = RuntimeError
    per_element = True

    def lower(planner, inputs, outputs, *, dim, mode):
        Scatter.lower_with(planner, planner.templates.scatter_add_elements, inputs, None, dim, mode)


class _Writable(threading.local):
    """The tensor of this thread whose memory scatters may write into, or None."""

    tensor = None


_WRITABLE = _Writable()


@contextmanager
def writing_into(tensor):
    """A block in which scatters into views of all of `tensor` write into its memory and return them.

    What is computed from the old values inside the block must not be read after the scatter.
    """
    before, _WRITABLE.tensor = _WRITABLE.tensor, tensor
    try:
        yield
    finally:
        _WRITABLE.tensor = before


def _scatter(name):
    """The function of a scatter, which writes in place where `writing_into` allows it and the operands do."""
    apart, into = REGISTRY[name].function, REGISTRY[name + "_into"].function

    def call(target, dim, index, source, mode):
        whole = _WRITABLE.tensor
        if whole is None or target.storage_ is not whole.storage_ or target.numel() != whole.numel() \
                or target.dtype is not whole.dtype or target.dtype.kind == "c" or not target.is_contiguous() \
                or not _core.takes_native((target, index, source)) \
                or any(t.storage_ is whole.storage_ for t in (index, source)):
            return apart(target, dim, index, source, mode)
        into(target, dim, index, source, mode)
        return target

    return call


scatter_rows, scatter_elements = _scatter("_scatter_rows"), _scatter("_scatter_elements")


# ---------------------------------------------------------------------------------- helpers
def check_places(name, index, size, kind):
    """Raise `kind` unless all values of an index tensor are in [0, size)."""
    if index.is_shape_only or index.numel() == 0:
        return
    low, high = bounds_of(index)
    if low < 0 or high >= size:
        fail(name, f"index {low if low < 0 else high} is out of bounds for dimension with size {size}",
             kind=kind)


def number_as(value, like):
    """A 0-d tensor of the dtype of `like`; tensors are cast."""
    if isinstance(value, Tensor):
        return cast(value, like.dtype) if value.dtype is not like.dtype else value
    value = check_held("fill", value, like.dtype)
    if like.dtype.kind == "c":
        return write(_core.empty_strided((), None, like.dtype), value)
    return full((), value, like.dtype)


def same_dtype(name, input, source):
    if source.dtype is not input.dtype:
        fail(name, "expected self and source to have the same dtype", source.dtype, input.dtype,
             kind=DTypeError)


def as_numbers(combine):
    """A function(target, source) with both as int32 where they hold bools, which have no sums in a kernel."""
    def function(target, source):
        if target.dtype is not bool_:
            return combine(target, source)
        return cast(combine(cast(target, int32), cast(source, int32)), bool_)
    return function


def identity_of(mode, dtype):
    """What changes nothing when combined."""
    if mode in ("add", "mul"):
        return int(mode == "mul")
    if dtype.kind == "f":
        return float("-inf") if mode == "max" else float("inf")
    if dtype.kind == "b":
        return mode == "min"
    bounds = numpy.iinfo(dtype.numpy)
    return int(bounds.min if mode == "max" else bounds.max)


def reduced(target, dim, index, source, reduce, include_self, scatter):
    """`scatter` (one of the two ops) with a named reduction.

    Without `include_self` places that are hit start anew.
    """
    mode = REDUCTIONS[reduce]
    start = target
    if not include_self:
        blank = expand(number_as(identity_of(mode, target.dtype), target), tuple(source.shape))
        start = scatter(target, dim, index, blank, "set")
    total = scatter(start, dim, index, source, mode)
    if reduce != "mean":
        return total
    wide = target.dtype if target.dtype.kind == "f" else int64
    count = expand(full((), int(include_self), wide), tuple(target.shape))
    count = scatter(count, dim, index, expand(full((), 1, wide), tuple(source.shape)), "add")
    count = where(count < 1, expand(full((), 1, wide), tuple(count.shape)), count)
    return total / count if target.dtype.kind == "f" else cast(total // count, target.dtype)


# ---------------------------------------------------------------------------------- scatter
def scattered(name, input, dim, index, source, apply):
    """`apply(target, dim, index, source)` on the part of the input that the index can reach.

    The index may be smaller than the source, and than the input along all axes but `dim`.
    """
    dim = normalize_axis(dim, input.ndim, name)
    if index.numel() == 0:
        return clone(input)
    if input.ndim == 0:
        parts = (reshape(t, (1,)) for t in (input, index, source))
        return reshape(scattered(name, *[next(parts), 0, next(parts), next(parts)], apply), ())
    index, source = (reshape(t, (1,)) if t.ndim == 0 else t for t in (index, source))
    if not index.ndim == input.ndim == source.ndim:
        fail(name, "Index tensor must have the same number of dimensions as self tensor and src",
             (tuple(index.shape), tuple(source.shape)), f"{input.ndim} dimensions")
    for axis, size in enumerate(index.shape):
        if _larger(size, source.shape[axis]) or (axis != dim and _larger(size, input.shape[axis])):
            fail(name, f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} "
                 f"apart from dimension {dim} and to be no larger than src", list(source.shape))
    if index.dtype not in (int32, int64):
        fail(name, "expected dtype int64 or int32 for index", index.dtype, kind=DTypeError)
    source = front(source, index.shape)
    reach = tuple(s if axis == dim else index.shape[axis] for axis, s in enumerate(input.shape))
    if reach == tuple(input.shape):
        return apply(input, dim, index, source)
    input = own_memory(input)
    part = apply(front(input, reach), dim, index, source)
    return put_view(input, part, Slice.view(tuple(input.shape), input.stride(), 0, _front_index(reach)))


def _larger(a, b):
    """Whether a > b; sizes known only when the program runs are declared equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a > b
    return a != b and unify(a, b) is None


def _front_index(shape):
    return tuple(("slice", 0, s, 1) for s in shape)


def front(x, shape):
    """The leading part of x with this shape."""
    return x if tuple(x.shape) == tuple(shape) else slice_(x, _front_index(shape))


@public(inplace=True)
def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    """A copy of input with src (a tensor or a number) at the places that the index names along `dim`.

    For dim 0 of a matrix: out[index[i][j]][j] = src[i][j]. `reduce` may be 'add' or 'multiply'. Where an
    index appears twice the last one stays.
    """
    source = value if src is None else src
    if source is None:
        fail("scatter", "argument 'src' or 'value' is missing", kind=TypeError)
    if reduce is not None and reduce not in OLD_REDUCTIONS:
        fail("scatter", "reduce argument must be either add or multiply", reduce)
    mode = "set" if reduce is None else OLD_REDUCTIONS[reduce]
    if mode == "set" and _core.writes_directly((input, index, source)) and index.numel() <= FEW:
        made = clone(input)
        if _core.put_along(made, dim, index, source):
            made._reset_version()
            return made
    if not isinstance(source, Tensor):
        source = expand(number_as(source, input), tuple(index.shape))
    same_dtype("scatter", input, source)

    def apply(target, dim, index, source):
        return as_numbers(lambda t, s: scatter_elements(t, dim, index, s, mode))(target, source)

    return scattered("scatter", input, dim, index, source, apply)


def _scattered_natively(self, dim=None, index=None, src=None, *rest, **named):
    """scatter_ of few elements, without a record; False where that is not it."""
    if rest or (named and (src is not None or tuple(named) != ("value",))) or not isinstance(index, Tensor):
        return False
    return _core.put_along(self, dim, index, named["value"] if named else src)


QUICK["scatter_"] = _scattered_natively


@public(inplace=True)
def scatter_add(input, dim, index, src):
    """input plus src's elements at the places that the index names along `dim`."""
    same_dtype("scatter_add", input, src)

    def apply(target, dim, index, source):
        return as_numbers(lambda t, s: scatter_elements(t, dim, index, s, "add"))(target, source)

    return scattered("scatter_add", input, dim, index, src, apply)


@public(inplace=True)
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """input with src's elements reduced into the places that the index names along `dim`.

    `reduce` is sum, prod, mean, amax or amin; without `include_self` the input's own elements do not take
    part at places that are named.
    """
    if reduce not in REDUCTIONS:
        fail("scatter_reduce", "reduce argument must be either sum, prod, mean, amax or amin", reduce)
    same_dtype("scatter_reduce", input, src)

    def apply(target, dim, index, source):
        return as_numbers(lambda t, s: reduced(t, dim, index, s, reduce, include_self,
                                               scatter_elements))(target, source)

    return scattered("scatter_reduce", input, dim, index, src, apply)


def _apart(function):
    """For in-place forms: the op saves a copy of the target, which is about to be written over."""
    def apart(self, *args, **kwargs):
        return function(clone(self) if self.requires_grad else self, *args, **kwargs)

    apart.__name__ = function.__name__
    return apart


# ---------------------------------------------------------------------------------- slices by index
def rows(name, input, dim, index, source, apply):
    """`apply(target, dim, index, source)` with operands that a vector of indices can name slices of."""
    dim = normalize_axis(dim, input.ndim, name)
    if index.ndim > 1:
        fail(name, "Index should have dimension 1 or 0", tuple(index.shape), kind=IndexError)
    if index.dtype not in (int32, int64):
        fail(name, "Expected dtype int32/int64 for index but got", index.dtype)
    index = reshape(index, (1,)) if index.ndim == 0 else index
    if input.ndim == 0:
        source = reshape(source, (1,)) if source.numel() == 1 else source
        return reshape(rows(name, reshape(input, (1,)), 0, index, source, apply), ())
    if source.ndim == 0:
        source = reshape(source, (1,) * input.ndim)
    wanted = (*input.shape[:dim], index.shape[0], *input.shape[dim + 1:])
    if tuple(source.shape) != wanted and not _declared_equal(source.shape, wanted):
        aligned = source.ndim == len(wanted) and source.shape[dim] == wanted[dim]
        fail(name, "the source does not have the shape of the slices that the index names",
             tuple(source.shape), wanted,
             kind=ShapeError if aligned else IndexError)
    if input.numel() == 0:
        return clone(input)
    return as_numbers(lambda t, s: apply(t, dim, index, s))(input, source)


def _declared_equal(shape, wanted):
    """While tracing, declare sizes equal that are known only when the program runs."""
    if len(shape) != len(wanted) or all(isinstance(s, int) for s in (*shape, *wanted)):
        return False
    return all(a == b or unify(a, b) is not None for a, b in zip(shape, wanted))


@public(inplace=True)
def index_add(input, dim, index, source, *, alpha=1):
    """input plus alpha times source's slices at the places index[c] along `dim`."""
    same_dtype("index_add", input, source)
    if alpha != 1:
        alpha = check_held("index_add", alpha, source.dtype)
        if source.dtype is bool_:
            source = source & bool(alpha)
        else:
            source = source * (alpha if source.dtype.kind in "fc" else int(alpha))
    return rows("index_add", input, dim, index, source, lambda t, d, i, s: scatter_rows(t, d, i, s, "add"))


@public(inplace=True)
@visible
def index_copy(input, dim, index, source):
    """input with source's slices at the places index[c] along `dim`."""
    same_dtype("index_copy", input, source)
    return rows("index_copy", input, dim, index, source, lambda t, d, i, s: scatter_rows(t, d, i, s, "set"))


@public(inplace=True)
def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """input with source's slices reduced (prod, mean, amax, amin) into the places index[c] along `dim`."""
    if reduce not in REDUCTIONS or reduce == "sum":
        fail("index_reduce", "reduce argument must be either prod, mean, amax or amin", reduce)
    same_dtype("index_reduce", input, source)
    return rows("index_reduce", input, dim, index, source,
                lambda t, d, i, s: reduced(t, d, i, s, reduce, include_self, scatter_rows))


@public(inplace=True)
def index_fill(input, dim, index, value):
    """input with `value` (a number or a 0-d tensor) in the slices that the index names along `dim`."""
    if isinstance(value, Tensor) and value.ndim:
        fail("index_fill", "index_fill_ only supports a 0-dimensional value tensor", tuple(value.shape))
    dim = normalize_axis(dim, input.ndim, "index_fill")
    if index.ndim > 1 or index.dtype not in (int32, int64):
        fail("index_fill", "index_fill_(): Expected a vector of int64 for index", (index.dtype,
                                                                                   tuple(index.shape)))
    size = input.shape[dim] if input.ndim else 1
    index = check_index("index_fill", reshape(index, (index.numel(),)), size)
    if _WRITABLE.tensor is input and input.ndim:
        source = expand(number_as(value, input), (*input.shape[:dim], index.shape[0], *input.shape[dim + 1:]))
        return rows("index_fill", input, dim, index, source, lambda t, d, i, s: scatter_rows(t, d, i, s, "set"))
    named = scatter_rows(full((size,), 0, int32), 0, index, full((index.shape[0],), 1, int32), "set")
    shape = tuple(size if a == dim else 1 for a in range(input.ndim))
    return where(reshape(cast(named, bool_), shape), number_as(value, input), input)


for _function in (scatter, scatter_reduce, index_reduce):
    INPLACE[_function.__name__ + "_"] = _apart(_function)

for _name in ("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_reduce",
              "index_fill"):
    FUNCTIONS[_name] = with_out(FUNCTIONS[_name])
