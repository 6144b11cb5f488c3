"""Triangles and diagonals of matrices, as masks by row and column number: what derivatives of decompositions
need.
"""

from flambeau.base.lazy import LazyModule
from flambeau.ops.create import iota
from flambeau.ops.elementwise import cast, where
from flambeau.ops.kinds import Composite
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.spec import op
from flambeau.types.dtype import FLOATING

numpy = LazyModule("numpy")


def _numbers(x):
    """Row numbers as a column, column numbers as a row."""
    rows, columns = x.shape[-2:]
    return iota((rows, 1), 0), iota((1, columns), 1)


class Masked(Composite):
    """Some elements of each matrix; the others are zero."""

    signature = "matrix, offset=0"
    operands = ("matrix",)
    dtypes = FLOATING
    tolerance = ulps(0)
    samples = unary_samples()
    shapes = ((3, 5), (2, 5, 3))
    cases = [{}, {"offset": 1}, {"offset": -1}]


@op
class LowerTriangle(Masked):
    """The elements on and below the diagonal number `offset`."""

    name = "_lower_triangle"

    def compute(matrix, offset=0):
        row, column = _numbers(matrix)
        return where(column - row <= offset, matrix, 0)

    def reference(matrix, offset=0):
        return numpy.tril(matrix, offset)

    def derivative(grad, x, *, offset):
        return _lower_triangle(grad, offset)         # noqa: F821


@op
class UpperTriangle(Masked):
    """The elements on and above the diagonal number `offset`."""

    name = "_upper_triangle"

    def compute(matrix, offset=0):
        row, column = _numbers(matrix)
        return where(column - row >= offset, matrix, 0)

    def reference(matrix, offset=0):
        return numpy.triu(matrix, offset)

    def derivative(grad, x, *, offset):
        return _upper_triangle(grad, offset)         # noqa: F821


@op
class DiagonalMatrix(Masked):
    """The elements on the diagonal number `offset`."""

    name = "_diagonal_matrix"

    def compute(matrix, offset=0):
        row, column = _numbers(matrix)
        return where(column - row == offset, matrix, 0)

    def reference(matrix, offset=0):
        return numpy.triu(numpy.tril(matrix, offset), offset)

    def derivative(grad, x, *, offset):
        return _diagonal_matrix(grad, offset)         # noqa: F821


@op
class EyeLike(Masked):
    """An identity matrix in the sizes of the last two axes."""

    name = "_eye_like"
    signature = "matrix"
    cases = [{}]
    differentiable = False

    def compute(matrix):
        row, column = _numbers(matrix)
        return cast(column == row, matrix.dtype)

    def reference(matrix):
        return numpy.eye(*matrix.shape[-2:])

    def derivative(grad, x):
        return None
