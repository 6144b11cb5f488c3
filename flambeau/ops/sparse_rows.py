"""The product of a sparse matrix, given by its parts, and a dense one."""

from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import mul
from flambeau.ops.index import index_select, index_sum
from flambeau.ops.kinds import Indexed
from flambeau.ops.reduce import sum as total
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.ops.view import unsqueeze
from flambeau.types.dtype import float32, float64

numpy = LazyModule("numpy")


@op
class SparseRows(Indexed):
    """Sums over the entries of each row, in their order, of values[entry] * dense[column[entry]]: (rows, k).

    `row` and `column` (entries) say where each entry stands, rows in order; `ends` (rows) where each row's entries
    end. The places are not checked: who makes them sees to it.
    """

    internal = True
    signature = "ends, row, column, values, dense"
    operands = ("ends", "row", "column", "values", "dense")
    dtypes = (float32, float64)
    tolerance = ulps(64)

    def samples(rng, shape):
        counts = numpy.arange(shape[0] if shape else 1) % 3
        ends = numpy.cumsum(counts)
        column = rng.integers(0, 5, ends[-1] if len(ends) else 0)
        return [ends, numpy.repeat(numpy.arange(len(ends)), counts), column, rng.uniform(-1, 1, len(column)),
                rng.uniform(-1, 1, (5, 3))]

    def reference(ends, row, column, values, dense):
        out = numpy.zeros((len(ends), dense.shape[1]), dense.dtype)
        for r, (start, end) in enumerate(zip((0, *ends), ends)):
            out[r] = (values[start:end, None] * dense[column[start:end]]).sum(0)
        return out

    def infer_dtype(ends, row, column, values, dense):
        return values

    def infer_shape(ends, row, column, values, dense):
        return (ends[0], dense[1])

    def lower(planner, inputs, outputs):
        ends, _, column, values, dense = (planner.dense(i) for i in inputs)
        params = {"rows": outputs[0].shape[0], "inner": dense.shape[1]}
        work = 2 * (column.shape[0] + outputs[0].shape[0]) * dense.shape[1]
        kernel = planner.templates.sparse_rows(values.dtype, ends.dtype)
        planner.launch_template(kernel, [outputs[0], ends, column, values, dense], params, work)

    def derivative(grad, ends, row, column, values, dense):
        given = index_select(grad, 0, row)
        return (None, None, None, total(mul(given, index_select(dense, 0, column)), -1),
                index_sum(mul(given, unsqueeze(values, 1)), 0, column, dense.shape[0]))
