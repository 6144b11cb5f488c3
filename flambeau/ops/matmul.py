"""Contractions: matrix products in all their ranks."""

from flambeau.base.errors import DTypeError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.kinds import Composite, Contraction, broadcast, compute_dtype
from flambeau.ops.samples import ulps
from flambeau.ops.out import with_out
from flambeau.ops.spec import op, public
from flambeau.ops.trace import current, unify
from flambeau.ops.view import expand, reshape, squeeze, transpose, unsqueeze
from flambeau.types.dtype import FLOATING, float32, float64, int8, int32, int64
from flambeau.types.shape import parse_axes, show_shape

numpy = LazyModule("numpy")


def same_dtype(name, first, *others):
    """Contractions do not promote: all operands have one dtype."""
    for other in others:
        if other is not None and other.dtype is not first.dtype:
            fail(name, "the dtypes of the operands differ", [first.dtype, other.dtype], "one dtype",
                 hint="cast one of them with .to(dtype)", kind=DTypeError)


def accumulator(dtype):
    """The dtype of the sums; integers wrap, so that the result's width or any wider one will do."""
    if dtype.kind == "f":
        return compute_dtype(dtype)
    return int32 if dtype.itemsize <= 4 else int64


@op
class Mm(Contraction):
    """Matrices (m, k) @ (k, n), or batches of them: (b, m, k) @ (b, k, n)."""

    takes_epilogue = True
    signature = "input, other"
    operands = ("input", "other")
    dtypes = FLOATING
    tolerance = ulps(256)
    axes = "... m k, ... k n -> ... m n"

    def prepare(self, values):
        values = super().prepare(values)
        same_dtype("mm", values["input"], values["other"])
        return values

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (5, 7)), rng.uniform(-1, 1, (7, 3))]

    def infer_shape(x, y):
        return parse_axes(Mm.axes).output_shape(x, y, op="matmul",
                                                unify=unify if current() is not None else None)

    def reference(input, other):
        return numpy.matmul(input, other)

    def lower(planner, inputs, outputs):
        planner.templates.product(planner, inputs[0], inputs[1], None, outputs[0])

    def derivative(grad, x, y):
        return mm(grad, transpose(y, -1, -2)), mm(transpose(x, -1, -2), grad)      # noqa: F821


@op
class Matmul(Composite):
    """The matrix product of any ranks: vectors, matrices, batches that broadcast (torch.matmul)."""

    signature = "input, other"
    operands = ("input", "other")
    dtypes = FLOATING
    tolerance = ulps(256)

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 5, 7)), rng.uniform(-1, 1, (7, 3))]

    def prepare(self, values):
        x, y = values["input"], values["other"]
        if not hasattr(y, "dtype") or not hasattr(x, "dtype"):
            fail("matmul", "both operands must be tensors", [type(x).__name__, type(y).__name__],
                 kind=TypeError)
        same_dtype("matmul", x, y)
        if x.ndim == 0 or y.ndim == 0:
            fail("matmul", "both operands need at least one axis",
                 f"{show_shape(x.shape)} @ {show_shape(y.shape)}",
                 "vectors, matrices or batches", hint="use * for a number", kind=ShapeError)
        inner, other = x.shape[-1], y.shape[-2 if y.ndim > 1 else 0]
        if isinstance(inner, int) and isinstance(other, int) and inner != other:
            fail("matmul", "inner sizes differ", f"{show_shape(x.shape)} @ {show_shape(y.shape)}",
                 f"the second operand's axis {-2 if y.ndim > 1 else 0} to have size {inner}",
                 hint=_hint(x.shape, y.shape), kind=ShapeError)
        return values

    def reference(input, other):
        return numpy.matmul(input, other)

    def compute(input, other):
        x = unsqueeze(input, 0) if input.ndim == 1 else input
        y = unsqueeze(other, 1) if other.ndim == 1 else other
        out = _batched(x, y)
        if input.ndim == 1:
            out = squeeze(out, -2)
        return squeeze(out, -1) if other.ndim == 1 else out


def _hint(x, y):
    if len(y) > 1 and x[-1] == y[-1]:
        return "transpose the second operand: x @ y.mT"
    if len(x) > 1 and len(y) > 1 and x[-2] == y[-2]:
        return "transpose the first operand: x.mT @ y"
    return "check which axis is the one to sum over"


def _batched(x, y):
    rows, columns = x.shape[-2], y.shape[-1]
    one_result = isinstance(rows, int) and isinstance(columns, int) and rows == columns == 1
    if one_result and x.dtype in LinearRow.dtypes:
        return linear_row(x, transpose(y, 0, 1)) if x.ndim == y.ndim == 2 else _dots(x, y)     # noqa: F821
    if x.ndim == 2 and y.ndim == 2:
        return mm(x, y)         # noqa: F821
    if y.ndim == 2:
        rows = 1
        for s in x.shape[:-1]:
            rows = rows * s
        return reshape(mm(reshape(x, (rows, x.shape[-1])), y), (*x.shape[:-1], y.shape[-1]))      # noqa: F821
    batch = broadcast("matmul", tuple(x.shape[:-2]), tuple(y.shape[:-2]))
    count = 1
    for s in batch:
        count = count * s
    x3 = reshape(expand(x, (*batch, *x.shape[-2:])), (count, *x.shape[-2:]))
    y3 = reshape(expand(y, (*batch, *y.shape[-2:])), (count, *y.shape[-2:]))
    return reshape(mm(x3, y3), (*batch, x.shape[-2], y.shape[-1]))          # noqa: F821


@op
class IntMm(Contraction):
    """(m, k) @ (k, n) of int8, summed in int32."""

    internal = True
    signature = "input, mat2"
    operands = ("input", "mat2")
    dtypes = (int8,)
    differentiable = False

    def samples(rng, shape):
        return [rng.uniform(-128, 127, (5, 7)), rng.uniform(-128, 127, (7, 3))]

    def prepare(self, values):
        x, y = values["input"], values["mat2"]
        for tensor in (x, y):
            if tensor.dtype is not int8:
                fail("_int_mm", "the operands are of int8", tensor.dtype, kind=DTypeError)
            if tensor.ndim != 2:
                fail("_int_mm", "the operands are matrices", f"{tensor.ndim} axes", "2", kind=ShapeError)
        return values

    def infer_shape(x, y):
        return parse_axes("m k, k n -> m n").output_shape(x, y, op="_int_mm",
                                                         unify=unify if current() is not None else None)

    def infer_dtype(*dtypes):
        return int32

    def reference(input, mat2):
        return numpy.matmul(input.astype("int32"), mat2.astype("int32"))

    def lower(planner, inputs, outputs):
        planner.templates.product(planner, inputs[0], inputs[1], None, outputs[0])


@public()
def _int_mm(input, mat2, *, out=None):
    """The product of two int8 matrices in int32: (m, k), (k, n) -> (m, n).

    >>> _int_mm(fl.full((1, 2), 100, dtype=fl.int8), fl.full((2, 1), 100, dtype=fl.int8))
    tensor([[20000]], dtype=flambeau.int32)
    """
    return int_mm(input, mat2) if out is None else int_mm(input, mat2, out=out)           # noqa: F821


def _dots(x, y):
    """(..., 1, k) @ (..., k, 1): row times row, summed along k."""
    from flambeau.ops.reduce import sum as total
    return unsqueeze(total(x * transpose(y, -1, -2), (-1,)), -1)


@op
class LinearRows(Contraction):
    """(rows, k), (n, k), bias (n) or None -> (rows, n): x @ weight.T + bias in one kernel."""

    internal = True
    takes_epilogue = True
    signature = "input, weight, bias=None"
    operands = ("input", "weight", "bias")
    dtypes = FLOATING
    tolerance = ulps(256)

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (5, 7)), rng.uniform(-1, 1, (3, 7)), rng.uniform(-1, 1, (3,))]

    def infer_shape(x, w, bias=None, **attrs):
        operands = (x, w) if bias is None else (x, w, bias)
        return parse_axes("m k, n k -> m n" if bias is None else "m k, n k, n -> m n").output_shape(
            *operands, op="linear", unify=unify if current() is not None else None)

    def reference(input, weight, bias=None):
        out = numpy.matmul(input, weight.T)
        return out if bias is None else out + bias

    def lower(planner, inputs, outputs, **attrs):
        planner.templates.product(planner, inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None,
                                  outputs[0],
                      transposed=True)

    def derivative(grad, x, w, b=None):
        from flambeau.ops.reduce import sum as total
        grads = (mm(grad, w), mm(transpose(grad, 0, 1), x))         # noqa: F821
        return grads if b is None else (*grads, total(grad, 0))


@op
class LinearRow(Composite):
    """(1, k), (n, k), bias (n) or None -> (1, n): reads each row of the weight once, at memory speed."""

    internal = True
    signature = "input, weight, bias=None"
    operands = ("input", "weight", "bias")
    dtypes = (float32, float64)
    tolerance = ulps(256)

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (1, 7)), rng.uniform(-1, 1, (3, 7)), rng.uniform(-1, 1, (3,))]

    def reference(input, weight, bias=None):
        out = numpy.matmul(input, weight.T)
        return out if bias is None else out + bias

    def compute(input, weight, bias=None):
        from flambeau.ops.reduce import sum as total
        sums = total(weight * input, (1,))
        return unsqueeze(sums if bias is None else sums + bias, 0)

    def derivative(grad, x, w, b=None):
        from flambeau.ops.reduce import sum as total
        grads = (mm(grad, w), transpose(grad, 0, 1) * x)         # noqa: F821
        return grads if b is None else (*grads, total(grad, 0))


@op
class Linear(Composite):
    """input @ weight.T + bias: (..., k), (n, k), (n) -> (..., n); a weight (k) gives (...)."""

    internal = True             # a function of nn.functional, and no method
    signature = "input, weight, bias=None"
    operands = ("input", "weight", "bias")
    dtypes = FLOATING
    tolerance = ulps(256)

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 5, 7)), rng.uniform(-1, 1, (3, 7)), rng.uniform(-1, 1, (3,))]

    def prepare(self, values):
        input, weight = values["input"], values["weight"]
        same_dtype("linear", input, weight, values["bias"])
        if input.shape[-1] != weight.shape[-1] and isinstance(input.shape[-1], int):
            fail("linear", "inner sizes differ",
                 f"{show_shape(input.shape)} with weight {show_shape(weight.shape)}",
                 f"an input whose last axis has size {weight.shape[-1]}",
                 hint="check in_features of the layer", kind=ShapeError)
        return values

    def reference(input, weight, bias=None):
        out = numpy.matmul(input, weight.T)
        return out if bias is None else out + bias

    def compute(input, weight, bias=None):
        if weight.ndim == 1:
            out = matmul(input, weight)         # noqa: F821
            return out if bias is None else out + bias
        rows = 1
        for s in input.shape[:-1]:
            rows = rows * s
        flat = input if input.ndim == 2 else reshape(input, (rows, input.shape[-1]))
        one_row = isinstance(rows, int) and rows == 1 and input.dtype in LinearRow.dtypes
        out = (linear_row if one_row else linear_rows)(flat, weight, bias)         # noqa: F821
        return out if input.ndim == 2 else reshape(out, (*input.shape[:-1], weight.shape[0]))


@with_out
def bmm(input, mat2):
    """Batches of matrices: (b, m, k) @ (b, k, n)."""
    if input.ndim != 3 or mat2.ndim != 3:
        fail("bmm", "batches of matrices have three axes",
             f"{show_shape(input.shape)}, {show_shape(mat2.shape)}",
             "(b, m, k) and (b, k, n)", kind=ShapeError)
    same_dtype("bmm", input, mat2)
    if (input.shape[1], mat2.shape[2], input.shape[0]) == (1, 1, mat2.shape[0]):
        return matmul(input, mat2)          # noqa: F821 - rows times rows, without a product of matrices
    return mm(input, mat2)          # noqa: F821
