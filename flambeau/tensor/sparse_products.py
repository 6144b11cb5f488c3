"""Products with sparse matrices, and the functions of `torch.sparse`.

A product with a dense matrix reads a row of it for each entry, scales it, and adds it to the row of the result, in the
order of the entries: the sum has the same order on any number of threads.
"""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.spec import FUNCTIONS, REGISTRY
from flambeau.tensor.constants import arange, zeros
from flambeau.tensor.sparse import CompressedTensor, CooTensor, SparseTensor, flat_places, product, sum_at
from flambeau.types.dtype import int64
from flambeau.types.info import LAYOUTS

SPARSE_ROWS = REGISTRY["sparse_rows"]


def _coo(sparse):
    return sparse if isinstance(sparse, CooTensor) else sparse.to_coo()


def _entries(sparse):
    """(row, column, values) of a matrix; a matrix with dense columns is not one of numbers."""
    coo = _coo(sparse)
    if coo.dense_dim():
        fail("matmul", "the sparse matrix has dense axes", coo.dense_dim(), 0, hint="call .to_dense() first",
             kind=NotImplementedError)
    return coo.places[0], coo.places[1], coo.inner


def times_dense(row, column, values, size, dense):
    """(n, m) in entries times dense (m, k): (n, k)."""
    return sum_at(ops.index_select(dense, 0, column) * ops.unsqueeze(values, 1), row, size)


def pairs(left, right, size):
    """Positions (i, j) of all pairs with left[i] == right[j], keys below `size`: ordered by i, then j."""
    order = FUNCTIONS["argsort"](right, stable=True)
    tally = FUNCTIONS["bincount"](right, minlength=size)
    start = ops.cumsum(tally, 0) - tally
    repeats = ops.index_select(tally, 0, left)
    mine = FUNCTIONS["repeat_interleave"](arange(left.shape[0]), repeats)
    first = ops.index_select(ops.index_select(start, 0, left) - ops.cumsum(repeats, 0) + repeats, 0, mine)
    return mine, ops.index_select(order, 0, first + arange(mine.shape[0]))


def times_sparse(left, right):
    """Two sparse matrices: a coalesced coordinate tensor."""
    row, inner, values = _entries(left)
    inner_right, column, values_right = _entries(right)
    mine, theirs = pairs(inner, inner_right, left.sizes[1])
    places = ops.stack((ops.index_select(row, 0, mine), ops.index_select(column, 0, theirs)))
    values = ops.index_select(values, 0, mine) * ops.index_select(values_right, 0, theirs)
    return CooTensor.of(places, values, (left.sizes[0], right.sizes[1])).coalesce()


def matmul(operation, values):
    """Matrices and vectors, at least one of them sparse; batches of sparse matrices times batches of dense ones."""
    x, y = values["input"], values["other"]
    if x.dtype is not y.dtype:
        fail(operation.name, "the dtypes differ", [x.dtype, y.dtype], "one dtype")
    if x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        fail(operation.name, "inner sizes differ", f"{tuple(x.shape)} @ {tuple(y.shape)}")
    if x.ndim == 3 and y.ndim == 3:
        return _batches(x, y)
    if x.ndim > 2 or y.ndim > 2:
        return NotImplemented
    if isinstance(x, SparseTensor) and isinstance(y, SparseTensor):
        return _both(x, y)
    if isinstance(x, SparseTensor):
        return _left(x, y)
    flipped = y.transpose(0, 1) if y.ndim == 2 else y
    if y.ndim == 1:
        return _left(x, _coo(y).to_dense()) if isinstance(x, SparseTensor) else x @ y.to_dense()
    result = _left(flipped, ops.transpose(x, 0, 1) if x.ndim == 2 else x)
    return ops.transpose(result, 0, 1) if x.ndim == 2 else result


def _left(sparse, dense):
    if sparse.ndim == 1:                                # a sparse vector
        column, values = _coo(sparse).places[0], _coo(sparse).inner
        picked = ops.index_select(dense, 0, column)
        return ops.sum(picked * (values if dense.ndim == 1 else ops.unsqueeze(values, 1)), 0)
    row, column, values = _entries(sparse)
    ends = _row_ends(sparse)
    if ends is not None and values.dtype in SPARSE_ROWS.dtypes:
        matrix = ops.unsqueeze(dense, 1) if dense.ndim == 1 else dense
        made = SPARSE_ROWS.function(ends, row, column, values, matrix)
        return ops.squeeze(made, 1) if dense.ndim == 1 else made
    if dense.ndim == 1:
        return sum_at(ops.index_select(dense, 0, column) * values, row, sparse.sizes[0])
    return times_dense(row, column, values, sparse.sizes[0], dense)


def _row_ends(sparse):
    """(rows): where each row's entries end, if entries stand row by row; else None."""
    if isinstance(sparse, CompressedTensor):
        return ops.cast(sparse.counts[1:], int64) if sparse.form == "sparse_csr" else None
    if not sparse.coalesced:
        return None
    return ops.cumsum(FUNCTIONS["bincount"](sparse.places[0], minlength=sparse.sizes[0]), 0)


def _both(x, y):
    if x.ndim == 1 or y.ndim == 1:
        dense = y.to_dense() if y.ndim == 1 else x.to_dense()
        return x @ dense if y.ndim == 1 else dense @ y
    made = times_sparse(x, y)
    return made.to_sparse(layout=LAYOUTS["sparse_csr"]) if isinstance(x, CompressedTensor) else made


def _batches(x, y):
    """(b, n, m) @ (b, m, k) as one product of a block-diagonal matrix."""
    if isinstance(y, SparseTensor):
        if isinstance(x, SparseTensor):
            return NotImplemented
        return ops.transpose(_batches(y.transpose(1, 2), ops.transpose(x, 1, 2)), 1, 2)
    coo = _coo(x)
    if coo.sparse_dim() != 3 or x.shape[0] != y.shape[0]:
        return NotImplemented
    batches, rows, inner = coo.sizes
    batch, row, column = coo.places[0], coo.places[1], coo.places[2]
    flat = times_dense(batch * rows + row, batch * inner + column, coo.inner, batches * rows,
                       ops.reshape(y, (batches * inner, y.shape[2])))
    return ops.reshape(flat, (batches, rows, y.shape[2]))


def linear(operation, values):
    """input @ weight.T + bias."""
    x, weight, bias = values["input"], values["weight"], values.get("bias")
    made = x @ weight.transpose(0, 1) if weight.ndim == 2 else x @ weight
    return made if bias is None else made + bias


# ---------------------------------------------------------------------------------- torch.sparse
def mm(mat1, mat2, reduce=None):
    """The product of a sparse matrix and a sparse or dense one.

    Args:
        mat1: (n, m), sparse. mat2: (m, k).
        reduce: 'sum', 'mean', 'amax' or 'amin' of the products of each row (CSR times dense only).
    """
    if mat1.ndim != 2 or mat2.ndim != 2:
        fail("sparse.mm", "both operands must be matrices", [tuple(mat1.shape), tuple(mat2.shape)])
    if reduce is None or reduce == "sum":
        return REGISTRY["matmul"].function(mat1, mat2)
    if reduce not in ("mean", "amax", "amin"):
        fail("sparse.mm", "unknown reduction", repr(reduce), "'sum', 'mean', 'amax' or 'amin'")
    if not isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor):
        fail("sparse.mm", "reduce= needs a sparse and a dense matrix", [mat1.layout, mat2.layout])
    if mat1.shape[1] != mat2.shape[0]:
        fail("sparse.mm", "inner sizes differ", f"{tuple(mat1.shape)} @ {tuple(mat2.shape)}")
    row, column, values = _entries(mat1)
    products = ops.index_select(mat2, 0, column) * ops.unsqueeze(values, 1)
    start = zeros(mat1.shape[0], mat2.shape[1], dtype=products.dtype)
    return FUNCTIONS["index_reduce"](start, 0, row, products, reduce, include_self=False)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * mat + alpha * (mat1 @ mat2) with a sparse mat1."""
    return FUNCTIONS["addmm"](mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """At the places of the sparse `input` (..., n, m): beta * input + alpha * (mat1 (..., n, k) @ mat2 (..., k, m))."""
    name = "sparse.sampled_addmm"
    if not isinstance(input, CompressedTensor) or input.blocked:
        fail(name, "Expected input to be a CSR tensor", getattr(input, "layout", type(input).__name__))
    if mat1.ndim < 2 or mat2.ndim < 2 or mat1.shape[-1] != mat2.shape[-2] \
            or (*mat1.shape[:-1], mat2.shape[-1]) != tuple(input.shape) or mat1.shape[:-2] != mat2.shape[:-2]:
        fail(name, "the sizes do not fit", [tuple(t.shape) for t in (input, mat1, mat2)])
    batch, major, minor = input.entry_places()
    row, column = (major, minor) if input.by_rows else (minor, major)
    rows, columns, inner = mat1.shape[-2], mat2.shape[-1], mat1.shape[-1]
    left = ops.reshape(mat1, (product(mat1.shape[:-1]), inner))
    right = ops.reshape(ops.transpose(mat2, -1, -2), (product(mat2.shape[:-2]) * columns, inner))
    dots = ops.sum(ops.index_select(left, 0, batch * rows + row) * ops.index_select(right, 0, batch * columns + column), -1)
    values = ops.reshape(dots, tuple(input.inner.shape)) * alpha
    made = input._like(values if beta == 0 else input.inner * beta + values)
    return made if out is None else out.copy_(made)


def softmax_of(name, sparse, dim, dtype=None):
    """softmax or log_softmax along `dim` over the elements that are specified; the others count as -inf."""
    coo = _coo(sparse).coalesce()
    values = coo.inner if dtype is None else coo.inner.to(dtype)
    count, dim = coo.sparse_dim(), dim % max(sparse.ndim, 1)
    if dim >= count:
        result = getattr(ops, name)(values, dim - count + 1)
    else:
        rest = [d for d in range(count) if d != dim]
        place = flat_places(ops.stack([coo.places[d] for d in rest]), [coo.sizes[d] for d in rest]) if rest \
            else zeros(coo._nnz(), dtype=int64)
        groups, number = FUNCTIONS["unique"](place, return_inverse=True)
        start = zeros(groups.shape[0], *values.shape[1:], dtype=values.dtype)
        top = FUNCTIONS["index_reduce"](start, 0, number, values.detach(), "amax", include_self=False)
        shifted = values - ops.index_select(top, 0, number)
        weight = ops.exp(shifted)
        sums = ops.index_select(sum_at(weight, number, groups.shape[0]), 0, number)
        result = weight / sums if name == "softmax" else shifted - ops.log(sums)
    made = CooTensor.of(coo.places, result, coo.sizes, True)
    return made if isinstance(sparse, CooTensor) else made.to_sparse(layout=sparse.layout)


def softmax(input, dim, *, dtype=None):
    """Softmax along `dim` over the elements that a sparse tensor specifies."""
    _check_sparse("sparse.softmax", input)
    return softmax_of("softmax", input, dim, dtype)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of `softmax`."""
    _check_sparse("sparse.log_softmax", input)
    return softmax_of("log_softmax", input, dim, dtype)


def sum(input, dim=None, dtype=None):       # noqa: A001 - PyTorch's name
    """The sum of all elements (dense), or over the axes `dim`: sparse, or dense where no sparse axis is left."""
    _check_sparse("sparse.sum", input)
    return ops.sum(input, dim, dtype=dtype) if dtype is not None else _same_kind_sum(input, dim)


def _same_kind_sum(input, dim):
    """Sums in the tensor's own dtype, also of whole numbers."""
    made = ops.sum(input, tuple(dim) if isinstance(dim, list) else dim)
    return made if made.dtype is input.dtype or input.dtype.kind == "b" else ops.cast(made, input.dtype)


def spsolve(input, other, *, left=True):
    """The solution x of input @ x = other, for a square sparse `input`; SciPy's sparse LU (extra 'scipy')."""
    _check_sparse("sparse.spsolve", input)
    from flambeau.base.lazy import require
    from flambeau.tensor.create import from_numpy
    linalg, matrices = require("scipy.sparse.linalg", "scipy"), require("scipy.sparse", "scipy")
    row, column, values = (part.detach().numpy() for part in _entries(input))
    matrix = matrices.csc_matrix((values, (row, column)), shape=tuple(input.shape))
    return from_numpy(linalg.spsolve(matrix if left else matrix.T, other.detach().numpy()))


def _check_sparse(name, value):
    if not isinstance(value, SparseTensor):
        fail(name, "expected a sparse tensor", getattr(value, "layout", type(value).__name__),
             hint="use .to_sparse()")
