"""The product of a sparse matrix, given by its parts, and a dense one."""

from flambeau.ops.elementwise import mul
from flambeau.ops.index import index_select, index_sum
from flambeau.ops.kinds import Indexed
from flambeau.ops.reduce import sum as total
from flambeau.ops.spec import op
from flambeau.ops.view import unsqueeze
from flambeau.types.dtype import float32, float64


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
