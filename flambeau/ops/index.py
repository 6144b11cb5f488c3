"""Reads and adds by index along one axis. Gather and scatter-add are each other's derivative."""

from flambeau.base.errors import DTypeError, PlaceError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops import plans
from flambeau.ops.elementwise import EVERY, NUMBERS, cast, where
from flambeau.ops.kinds import Composite, Indexed
from flambeau.ops.reduce import amax, amin
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.wrapped import elements_of
from flambeau.ops.spec import op
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import int32, int64
from flambeau.types.shape import normalize_axis, numel, show_shape

numpy = LazyModule("numpy")


@op
class IndexBounds(Composite):
    """(lowest, highest) of all elements, in one pass."""

    name = "_index_bounds"
    signature = "input"
    outputs = ("low", "high")
    dtypes = (int32, int64)
    tolerance = ulps(0)
    samples = unary_samples(0, 9)
    empty_error = True
    differentiable = False

    def compute(input):
        return amin(input), amax(input)

    def reference(input):
        return input.min(), input.max()


def bounds_of(index):
    """(lowest, highest) value of an index tensor that has elements, as ints."""
    low, high = _index_bounds(elements_of(index).detach())           # noqa: F821
    return low.item(), high.item()


def check_index(name, index, size):
    """An index tensor of int32 or int64 with values in [-size, size); negative ones count from the end."""
    if getattr(type(index), "is_traced", False):
        return index
    if index.dtype not in (int32, int64):
        fail(name, "an index must hold integers", index.dtype, "int64 or int32", kind=DTypeError)
    if index.numel() == 0 or index.is_meta:
        return index
    low, high = bounds_of(index)
    if low < -size or high >= size:
        fail(name, "an index is out of bounds", low if low < -size else high, f"values in [{-size}, {size})",
             kind=PlaceError)
    return where(index < 0, index + size, index) if low < 0 else index


class AlongAxis(Indexed):
    """An op that indexes the axis `dim`; tensors are seen as [outer, size, inner]."""

    dtypes = EVERY
    tolerance = ulps(0)
    per_element = False         # the index has the shape of the elements, not of one axis

    def prepare(self, values):
        values = super().prepare(values)
        x = values["input"]
        values["dim"] = normalize_axis(values["dim"], x.ndim, self.name)
        if x.ndim:
            index = values["index"]
            if self.per_element and isinstance(index, Tensor) and index.dtype.kind in "iu" and index.dtype.itemsize < 4:
                index = cast(index, int64)
            values["index"] = check_index(self.name, index, x.shape[values["dim"]])
        return self.verify(values)

    def verify(self, values):
        return values

    def bounds(self, values):
        """The index is checked against `size` where the op has one, else against the axis of its first operand."""
        at = self.operands.index("index")
        return ((at, -1, values["size"]) if "size" in values else (at, 0, values["dim"]),)

    def eager(self, values):
        if values[self.operands[0]].dtype.kind == "c":
            return self.on_pairs(values)
        return plans.run(self, values)

    def on_pairs(self, values):
        """Complex elements are read and written as pairs along a last axis."""
        from flambeau.ops.reinterpret import view_as_complex, view_as_real
        from flambeau.ops.view import clone, expand, reshape, unsqueeze
        if values[self.operands[0]].ndim == 0:
            return clone(values[self.operands[0]])
        pairs = {name: view_as_real(value) if name in self.operands and value.dtype.kind == "c" else value
                 for name, value in values.items()}
        if self.per_element:
            index = reshape(values["index"], tuple(values["index"].shape) or (1,))
            pairs["index"] = expand(unsqueeze(index, index.ndim), (*index.shape, 2))
        result = view_as_complex(self.eager(pairs))
        plans.forget(self)
        return reshape(result, tuple(values["index"].shape)) if self.per_element and not values["index"].ndim else result


def check_sum(values, name):
    """The index of a sum must lie inside its size."""
    values["index"] = check_index(name, values["index"], values["size"])
    return values


def sides(shape, dim):
    """(elements before the axis, elements behind it)."""
    outer = inner = 1
    for s in shape[:dim]:
        outer = outer * s
    for s in shape[dim + 1:]:
        inner = inner * s
    return outer, inner


def launch(planner, kernel, operands, whole, index_count, dim):
    """Add a template of gather.py to the plan; `whole` is the tensor whose axis is indexed."""
    outer, inner = sides(whole.shape, dim)
    params = {"outer": outer, "size": whole.shape[dim], "count": index_count, "inner": inner}
    planner.launch_template(kernel, operands, params, 4 * outer * index_count * inner)


@op
class IndexSelect(AlongAxis):
    """out[..., c, ...] = input[..., index[c], ...] along `dim`."""

    looks_at_sizes = False
    signature = "input, dim, index"
    operands = ("input", "index")

    def verify(self, values):
        if values["index"].ndim > 1:
            fail("index_select", "the index has one axis", show_shape(values["index"].shape), "(count,)",
                 kind=IndexError)
        return values

    def infer_shape(x, index, *, dim):
        return (*x[:dim], index[0] if len(index) else 1, *x[dim + 1:]) if len(x) else ()

    def lower(planner, inputs, outputs, *, dim):
        x, index = (planner.dense(i) for i in inputs)
        if not x.shape:
            return planner.copy(x, outputs[0])
        launch(planner, planner.templates.gather_rows(x.dtype, index.dtype), [x, index, outputs[0]], x,
               outputs[0].shape[dim], dim)

    def reference(input, index, dim):
        return numpy.take(input, index, axis=dim)

    def derivative(grad, x, index, *, dim):
        return (index_sum(grad, dim, index, x.shape[dim]) if x.ndim else grad), None          # noqa: F821


class SumAt(AlongAxis):
    """Zeros with `size` along `dim` plus, in order, what input has for each index: a read transposed."""

    internal = True
    signature = "input, dim, index, size"
    operands = ("input", "index")
    dtypes = NUMBERS
    tolerance = ulps(64)

    def prepare(self, values):
        return check_sum(values, self.name)

    @staticmethod
    def infer_shape(x, index, *, dim, size):
        return (*x[:dim], size, *x[dim + 1:])


@op
class IndexSum(SumAt):
    """Zeros with `size` along `dim`, plus input's slices added at `index`, in the order of the index."""

    def lower(planner, inputs, outputs, *, dim, size):
        source, index = (planner.dense(i) for i in inputs)
        planner.fill(outputs[0], 0)
        launch(planner, planner.templates.scatter_add_rows(source.dtype, index.dtype),
               [outputs[0], index, source], outputs[0],
               source.shape[dim], dim)

    def derivative(grad, x, index, *, dim, size):
        return index_select(grad, dim, index), None         # noqa: F821


@op
class Gather(AlongAxis):
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on: the index has the shape of the result."""

    per_element = True
    signature = "input, dim, index"
    operands = ("input", "index")

    def verify(self, values):
        x, index, dim = values["input"], values["index"], values["dim"]
        if not x.ndim:
            from flambeau.ops.view import reshape
            x = values["input"] = reshape(x, (1,))
            values["index"] = check_index("gather", index, 1)
        if 0 in tuple(index.shape) and x.ndim != index.ndim:         # nothing is asked for
            from flambeau.ops.view import narrow, reshape
            empty = narrow(reshape(x, (-1,)), 0, 0, 0)
            return values | {"input": reshape(empty, tuple(index.shape)), "dim": 0}
        if x.ndim != max(index.ndim, 1):
            fail("gather", "input and index differ in rank",
                 f"{show_shape(x.shape)}, index {show_shape(index.shape)}",
                 "as many axes in both", kind=ShapeError)
        for axis, (own, asked) in enumerate(zip(x.shape, index.shape)):
            if axis != dim and isinstance(own, int) and isinstance(asked, int) and own != asked:
                if asked > own:
                    fail("gather", f"the index is larger than the input along axis {axis}",
                         show_shape(index.shape),
                         f"at most {show_shape(x.shape)} apart from dim {dim}", kind=ShapeError)
                from flambeau.ops.view import narrow
                values["input"] = narrow(values["input"], axis, 0, asked)
        return values

    def infer_shape(x, index, *, dim):
        return tuple(index)

    def lower(planner, inputs, outputs, *, dim):
        x, index = (planner.dense(i) for i in inputs)
        launch(planner, planner.templates.gather_elements(x.dtype, index.dtype), [x, index, outputs[0]], x,
               index.shape[dim] if index.shape else 1, dim)

    def reference(input, index, dim):
        return numpy.take_along_axis(input, index, axis=dim)

    def derivative(grad, x, index, *, dim):
        return gather_sum(grad, dim, index, x.shape[dim]), None         # noqa: F821


@op
class GatherSum(SumAt):
    """Zeros with `size` along `dim`, plus input's elements added at `index` (same shape), in order."""

    per_element = True

    def lower(planner, inputs, outputs, *, dim, size):
        source, index = (planner.dense(i) for i in inputs)
        planner.fill(outputs[0], 0)
        launch(planner, planner.templates.scatter_add_elements(source.dtype, index.dtype),
               [outputs[0], index, source], outputs[0],
               source.shape[dim] if source.shape else 1, dim)

    def derivative(grad, x, index, *, dim, size):
        return gather(grad, dim, index), None           # noqa: F821


class OnFirstAxes(Composite):
    """input[index, ...]: elements of the first axes by index tensors."""

    dtypes = EVERY
    tolerance = ulps(0)
    internal = True
    numbers = False

    def eager(self, values):
        if values["input"].dtype.kind == "c":
            from flambeau.ops.reinterpret import view_as_complex, view_as_real
            result = view_as_complex(self.eager(values | {"input": view_as_real(values["input"])}))
            plans.forget(self)
            return result
        return plans.run(self, values)


@op
class Rows(OnFirstAxes):
    """Slices of the first axis by an index of any shape; the slice `padding` gets no gradient."""

    name = "_rows"
    signature = "input, index, padding=None"
    operands = ("input", "index")
    shapes = ((5,), (4, 5), (2, 3, 5))

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape), rng.integers(0, shape[0], (2, 3))]

    def prepare(self, values):
        values["index"] = check_index("index", values["index"], values["input"].shape[0])
        return values

    def bounds(self, values):
        return ((1, 0, 0),)

    def compute(input, index, padding=None):
        from flambeau.ops.view import reshape
        picked = index_select(input, 0, reshape(index, (-1,)))          # noqa: F821
        return reshape(picked, (*index.shape, *input.shape[1:]))

    def reference(input, index, padding=None):
        return input[index]

    def derivative(grad, input, index, *, padding):
        from flambeau.ops.view import reshape
        count = numel(index.shape)
        slices, flat = reshape(grad, (count, *input.shape[1:])), reshape(index, (count,))
        if padding is not None:
            kept = reshape(flat != padding, (count, *(1 for _ in input.shape[1:])))
            slices = where(kept, slices, 0.0)
        return index_sum(slices, 0, flat, input.shape[0]), None         # noqa: F821


@op
class Places(OnFirstAxes):
    """input[first, second] for index tensors of one shape."""

    name = "_places"
    signature = "input, first, second"
    operands = ("input", "first", "second")
    shapes = ((4, 5), (2, 3, 5))

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape), *(rng.integers(0, size, (2, 4)) for size in shape[:2])]

    def prepare(self, values):
        for axis, name in enumerate(self.operands[1:]):
            values[name] = check_index("index", values[name], values["input"].shape[axis])
        return values

    def bounds(self, values):
        return ((1, 0, 0), (2, 0, 1))

    def compute(input, first, second):
        from flambeau.ops.view import reshape
        flat = reshape(input, (numel(input.shape[:2]), *input.shape[2:]))
        return _rows(flat, first * input.shape[1] + second)          # noqa: F821

    def reference(input, first, second):
        return input[first, second]


def embedding(index, weight, padding_idx=None):
    """Rows of `weight` by index: (...), (count, width) -> (..., width)."""
    if index.dtype not in (int32, int64):
        fail("embedding", "indices must be integers", index.dtype, "int64 or int32", kind=DTypeError)
    return _rows(weight, index, padding_idx)            # noqa: F821

