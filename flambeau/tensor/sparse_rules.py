"""How ops run on sparse tensors: rules by name and by kind.

A rule gets (operation, prepared arguments by name). An elementwise op that keeps zero runs on the values; sums, products,
views and joins move places. Everything else is refused with the way out.
"""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.spec import FUNCTIONS, bind
from flambeau.runtime._core import Tensor
from flambeau.tensor.constants import full, zeros
from flambeau.tensor.sparse import CompressedTensor, CooTensor, SparseTensor, product
from flambeau.tensor.sparse_products import linear, matmul
from flambeau.types.dtype import int64


def process(operation, values):
    """Run a call in which sparse tensors take part."""
    rule = RULES.get(operation.name) or KINDS.get(operation.kind)
    result = NotImplemented if rule is None else rule(operation, values)
    return refuse(operation, values) if result is NotImplemented else result


def refuse(operation, values, why=None):
    given = [v.layout for v in operation.split(values)[0] if isinstance(v, Tensor)]
    fail(operation.name, why or "not available for sparse tensors", ", ".join(map(str, given)),
         hint="call .to_dense() first", kind=NotImplementedError)


def _sparse_operands(operation, values):
    return [v for v in operation.split(values)[0] if isinstance(v, SparseTensor)]


def back_in(result, layout):
    """A coordinate tensor in `layout`."""
    return result if result.layout is layout else result.to_sparse(layout=layout)


# ---------------------------------------------------------------------------------- elementwise
LINEAR = ("neg", "copy", "mul", "scale", "div", "positive", "conj", "rad2deg", "deg2rad", "real", "imag")
SUMS = {"add": 1, "sub": -1, "rsub": -1}


def elementwise(operation, values):
    sparse = _sparse_operands(operation, values)
    others = [v for v in operation.split(values)[0] if isinstance(v, Tensor) and not isinstance(v, SparseTensor)
              and v.ndim]
    if operation.name in SUMS and len(sparse) + len(others) == 2:
        return _added(operation, values)
    if len(sparse) == 1 and not others:
        return _on_values(operation, values, sparse[0])
    if operation.name in ("mul", "scale") and len(sparse) + len(others) == 2:
        return _times(operation, values)
    if operation.name == "div" and len(others) == 1 and isinstance(values["other"], SparseTensor):
        return refuse(operation, values, "a dense tensor cannot be divided by a sparse one")
    return NotImplemented


def _on_values(operation, values, sparse):
    """An op of one sparse tensor (and numbers) that maps zero to zero."""
    with_zero = {n: zeros((), dtype=sparse.dtype) if v is sparse else v for n, v in values.items()}
    structural = operation.name in ("copy", "cast", "mul", "scale") \
        or operation.name == "div" and values["input"] is sparse
    if not structural and not bool((bind(operation, (), with_zero) == 0).all()):
        return refuse(operation, values, "zeros do not stay zero")
    if operation.name not in LINEAR or operation.name == "div" and values.get("rounding_mode"):
        if isinstance(sparse, CooTensor):
            coalesced = sparse.coalesce()
            values = {n: coalesced if v is sparse else v for n, v in values.items()}
            sparse = coalesced
    return sparse._like(bind(operation, (), {n: sparse.inner if v is sparse else v for n, v in values.items()}))


def _added(operation, values):
    """Sums and differences: places of both one behind the other, or a dense tensor with more at some places."""
    first, second = values["input"], values["other"]
    if operation.name == "rsub":
        first, second = second, first
    alpha = values.get("alpha", 1) * SUMS[operation.name]
    if not (isinstance(first, Tensor) and isinstance(second, Tensor)) or not first.ndim == second.ndim:
        return refuse(operation, values, "zeros do not stay zero")
    if tuple(first.shape) != tuple(second.shape):
        fail(operation.name, "the sizes differ", [tuple(first.shape), tuple(second.shape)],
             hint="sparse tensors do not broadcast in sums")
    scaled = second if alpha == 1 else second * alpha
    if isinstance(first, SparseTensor) and isinstance(second, SparseTensor):
        layout = first.layout
        first, scaled = first.to_sparse(), scaled.to_sparse() if scaled.layout is not first.layout else scaled
        return back_in(_union(operation.name, _as_coo(first), _as_coo(scaled)), layout)
    if isinstance(first, SparseTensor):
        return _into_dense(scaled, first)
    return _into_dense(first, scaled)


def _as_coo(sparse):
    return sparse if isinstance(sparse, CooTensor) else sparse.to_coo()


def _union(name, first, second):
    if first.sparse_dim() != second.sparse_dim():
        fail(name, "the numbers of sparse axes differ", [first.sparse_dim(), second.sparse_dim()])
    if first._nnz() == 0 or second._nnz() == 0:
        kept, other = (first, second) if second._nnz() == 0 else (second, first)
        from flambeau.types.dtype import promote
        return ops.cast(kept, promote(kept.dtype, other.dtype)) if kept.dtype is not other.dtype else kept
    if first.places is second.places:
        return CooTensor.of(first.places, first.inner + second.inner, first.sizes, first.coalesced)
    places = ops.cat((first.places, second.places), 1)
    made = CooTensor.of(places, ops.cat((first.inner, second.inner), 0), first.sizes)
    return made.coalesce() if first.coalesced and second.coalesced else made


def _into_dense(dense, sparse):
    coo = _as_coo(sparse)
    sizes = coo.sizes[:coo.sparse_dim()]
    flat = ops.reshape(dense, (product(sizes), *coo.sizes[coo.sparse_dim():]))
    values = coo.inner
    if values.dtype is not dense.dtype:
        from flambeau.types.dtype import promote
        common = promote(values.dtype, dense.dtype)
        flat, values = flat.to(common), values.to(common)
    return ops.reshape(FUNCTIONS["index_add"](flat, 0, coo.flat(), values), coo.sizes)


def _times(operation, values):
    first, second = values["input"], values["other"] if "other" in values else values["factor"]
    if isinstance(first, SparseTensor) and isinstance(second, SparseTensor):
        if first.sizes != second.sizes:
            fail(operation.name, "the sizes differ", [first.sizes, second.sizes])
        return back_in(_common(_as_coo(first).coalesce(), _as_coo(second).coalesce()), first.layout)
    sparse, dense = (first, second) if isinstance(first, SparseTensor) else (second, first)
    if tuple(dense.shape) != sparse.sizes:
        dense = ops.expand(dense, sparse.sizes)
    return sparse._like(sparse.inner * sparse._pick(dense))


def _common(first, second):
    """Products at the places that both have."""
    flat, other = first.flat(), second.flat()
    if other.shape[0] == 0 or flat.shape[0] == 0:
        return (first if flat.shape[0] == 0 else second) * 1
    at = ops.minimum(FUNCTIONS["searchsorted"](other, flat), other.shape[0] - 1)
    mine = FUNCTIONS["argwhere"](ops.index_select(other, 0, at) == flat)[:, 0]
    theirs = ops.index_select(at, 0, mine)
    values = ops.index_select(first.inner, 0, mine) * ops.index_select(second.inner, 0, theirs)
    return CooTensor.of(ops.index_select(first.places, 1, mine), values, first.sizes, True)


def full_like(operation, values):
    sparse, value = values["input"], values["fill_value"]
    if isinstance(value, Tensor):
        value = value.item()
    return sparse._empty(sparse.sizes) if value == 0 else full(tuple(sparse.shape), value, dtype=sparse.dtype)


# ---------------------------------------------------------------------------------- sums
def total(operation, values):
    """sum: all elements to a dense number; over sparse axes to fewer places."""
    sparse, dim = values["input"], values["dim"]
    dtype, keepdim = values.get("dtype"), values.get("keepdim")
    if dim is None:
        return ops.sum(sparse.inner, dtype=dtype)
    coo = _as_coo(sparse)
    dims = {d % sparse.ndim for d in (dim if isinstance(dim, tuple) else (dim,))} or set(range(sparse.ndim))
    count = coo.sparse_dim()
    values_dims = tuple(d - count + 1 for d in sorted(dims) if d >= count)
    inner = ops.sum(coo.inner, values_dims, bool(keepdim), dtype=dtype) if values_dims else coo.inner
    if dtype is not None or not values_dims:
        wanted = dtype or (int64 if inner.dtype.kind in "biu" else inner.dtype)
        inner = inner if inner.dtype is wanted else ops.cast(inner, wanted)
    kept = [d for d in range(count) if d not in dims]
    sizes = tuple(inner.shape[1:])
    if not kept and not keepdim:
        return ops.sum(inner, 0)
    rows = [coo.places[d] for d in range(count) if d not in dims]
    if keepdim:
        rows = [coo.places[d] * 0 if d in dims else coo.places[d] for d in range(count)]
        kept = range(count)
    own = tuple(1 if d in dims else coo.sizes[d] for d in kept)
    made = CooTensor.of(ops.stack(rows), inner, (*own, *sizes), coo.coalesced and len(rows) == count and not
                        any(d in dims for d in range(count)))
    made = made.coalesce()
    return back_in(made, sparse.layout) if keepdim and made.sparse_dim() == 2 else made


def norm(operation, values):
    if values["dim"] is not None:
        return NotImplemented
    sparse = values["input"]
    inner = (sparse.coalesce() if isinstance(sparse, CooTensor) else sparse).inner
    return bind(operation, (), {**values, "input": ops.reshape(inner, (-1,))})


def softmax(operation, values):
    from flambeau.tensor.sparse_products import softmax_of
    sparse = values["input"]
    return softmax_of(operation.name, sparse, values["dim"], values.get("dtype"))


# ---------------------------------------------------------------------------------- views
def permute(operation, values):
    sparse = values["input"]
    if operation.name == "transpose":
        order = list(range(sparse.ndim))
        a, b = values["dim0"] % max(sparse.ndim, 1), values["dim1"] % max(sparse.ndim, 1)
        order[a], order[b] = order[b], order[a]
    else:
        order = [d % sparse.ndim for d in values["dims"]]
    if order == list(range(sparse.ndim)):
        return sparse
    if isinstance(sparse, CompressedTensor):
        return _flipped(operation, values, sparse, order)
    count = sparse.sparse_dim()
    if sorted(order[:count]) != list(range(count)):
        refuse(operation, values, "sparse and dense axes cannot change places")
    places = sparse.places
    if order[:count] != list(range(count)):
        places = ops.stack([places[d] for d in order[:count]])
    inner = ops.permute(sparse.inner, (0, *[d - count + 1 for d in order[count:]]))
    return CooTensor.of(places, inner, [sparse.sizes[d] for d in order],
                        sparse.coalesced and order[:count] == list(range(count)))


_FLIPPED = {"sparse_csr": "sparse_csc", "sparse_csc": "sparse_csr", "sparse_bsr": "sparse_bsc",
            "sparse_bsc": "sparse_bsr"}


def _flipped(operation, values, sparse, order):
    """Rows and columns change their roles; nothing moves."""
    lead = sparse.plain.ndim - 1
    wanted = list(range(sparse.ndim))
    wanted[lead], wanted[lead + 1] = lead + 1, lead
    if order != wanted:
        refuse(operation, values, "only the two sparse axes of a compressed tensor can be transposed")
    inner = ops.transpose(sparse.inner, lead + 1, lead + 2) if sparse.blocked else sparse.inner
    sizes = [sparse.sizes[d] for d in order]
    return CompressedTensor.of(sparse.counts, sparse.plain, inner, sizes, _FLIPPED[sparse.form])


def unsqueeze(operation, values):
    sparse = values["input"]
    if not isinstance(sparse, CooTensor):
        return NotImplemented
    dim = values["dim"] % (sparse.ndim + 1)
    sizes, count = (*sparse.sizes[:dim], 1, *sparse.sizes[dim:]), sparse.sparse_dim()
    if dim > count:
        return CooTensor.of(sparse.places, ops.unsqueeze(sparse.inner, dim - count + 1), sizes, sparse.coalesced)
    new = zeros(1, sparse._nnz(), dtype=int64)
    return CooTensor.of(ops.cat((sparse.places[:dim], new, sparse.places[dim:]), 0), sparse.inner, sizes,
                        sparse.coalesced)


def squeeze(operation, values):
    sparse, dim = values["input"], values["dim"]
    if not isinstance(sparse, CooTensor):
        return NotImplemented
    dims = range(sparse.ndim) if dim is None else [d % sparse.ndim for d in (dim if isinstance(dim, tuple) else (dim,))]
    for d in sorted((d for d in dims if sparse.sizes[d] == 1), reverse=True):
        sparse = _one(sparse, d, 0)
    return sparse


def window(operation, values):
    """x[ints, slices, None, ...] one axis after the other."""
    sparse, axis = _as_coo(values["input"]), 0
    for item in values["index"]:
        if item is None:
            sparse = unsqueeze(operation, {"input": sparse, "dim": axis})
            axis += 1
        elif isinstance(item, int):
            sparse = _one(sparse, axis, item)
        else:
            sparse = _stretch(sparse, axis, *item[1:])
            axis += 1
        if not isinstance(sparse, CooTensor):
            break
    return sparse


def _one(sparse, axis, at):
    """The slice at an index: dense where no sparse axis is left."""
    count = sparse.sparse_dim()
    sizes = sparse.sizes[:axis] + sparse.sizes[axis + 1:]
    if axis >= count:
        return CooTensor.of(sparse.places, ops.squeeze(sparse.inner[_at(axis - count + 1, slice(at, at + 1))],
                                                       axis - count + 1), sizes, sparse.coalesced)
    mine = _where(sparse.places[axis] == at)
    values = ops.index_select(sparse.inner, 0, mine)
    if count == 1:
        return ops.sum(values, 0)
    places = ops.index_select(ops.stack([sparse.places[d] for d in range(count) if d != axis]), 1, mine)
    return CooTensor.of(places, values, sizes, sparse.coalesced)


def _stretch(sparse, axis, start, stop, step):
    size, count = sparse.sizes[axis], sparse.sparse_dim()
    length = max(0, -(-(min(stop, size) - start) // step))
    if (start, step, length) == (0, 1, size):
        return sparse
    sizes = (*sparse.sizes[:axis], length, *sparse.sizes[axis + 1:])
    if axis >= count:
        return CooTensor.of(sparse.places, sparse.inner[_at(axis - count + 1, slice(start, stop, step))], sizes,
                            sparse.coalesced)
    row = sparse.places[axis]
    inside = (row >= start) & (row < start + length * step)
    mine = _where(inside & ((row - start) % step == 0))
    places = ops.index_select(sparse.places, 1, mine)
    moved = ops.stack([(places[d] - start) // step if d == axis else places[d] for d in range(count)])
    return CooTensor.of(moved, ops.index_select(sparse.inner, 0, mine), sizes, sparse.coalesced)


def _at(axis, item):
    return (slice(None),) * axis + (item,)


def _where(mask):
    return FUNCTIONS["argwhere"](mask)[:, 0]


# ---------------------------------------------------------------------------------- joins
def index_select(operation, values):
    sparse, dim, index = values["input"], values["dim"] % max(values["input"].ndim, 1), values["index"]
    if isinstance(sparse, CompressedTensor):
        return index_select(operation, {**values, "input": sparse.to_coo()})
    if isinstance(index, SparseTensor):
        return NotImplemented
    count, sizes = sparse.sparse_dim(), list(sparse.sizes)
    index = ops.where(index < 0, index + sizes[dim], index)
    sizes[dim] = index.shape[0]
    if dim >= count:
        return CooTensor.of(sparse.places, ops.index_select(sparse.inner, dim - count + 1, index), sizes,
                            sparse.coalesced)
    from flambeau.tensor.sparse_products import pairs
    ops.index_select(zeros(sparse.sizes[dim]), 0, index)            # checks the bounds
    which, entry = pairs(index, sparse.places[dim], sparse.sizes[dim])
    places = ops.index_select(sparse.places, 1, entry)
    places = ops.stack([which if d == dim else places[d] for d in range(count)])
    return CooTensor.of(places, ops.index_select(sparse.inner, 0, entry), sizes, sparse.coalesced and dim == 0)


def cat(operation, values):
    tensors, dim = values["tensors"], values["dim"]
    if not all(isinstance(t, CooTensor) for t in tensors):
        return NotImplemented
    count = tensors[0].sparse_dim()
    if any(t.sparse_dim() != count for t in tensors):
        fail("cat", "all tensors must have the same numbers of sparse and dense axes")
    dim = dim % max(tensors[0].ndim, 1)
    sizes = list(tensors[0].sizes)
    sizes[dim] = sum(t.sizes[dim] for t in tensors)
    parts, start, places = [], 0, []
    for t in tensors:
        if dim < count:
            places.append(ops.stack([t.places[d] + start if d == dim else t.places[d] for d in range(count)]))
            parts.append(t.inner)
        else:
            before, after = list(t.inner.shape), list(t.inner.shape)
            axis = dim - count + 1
            before[axis], after[axis] = start, sizes[dim] - start - t.sizes[dim]
            places.append(t.places)
            parts.append(ops.cat((zeros(*before, dtype=t.dtype), t.inner, zeros(*after, dtype=t.dtype)), axis))
        start += t.sizes[dim]
    in_order = dim == 0 and count > 0 and all(t.coalesced for t in tensors)
    return CooTensor.of(ops.cat(places, 1), ops.cat(parts, 0), sizes, in_order)


def composite(operation, values):
    """An op made of others, step by step: each step finds its rule or is refused."""
    if operation.compute is None or getattr(operation, "draws", False):
        return NotImplemented
    return operation.compute(**values)


RULES = {
    "full_like": full_like, "sum": total, "norm": norm, "softmax": softmax, "log_softmax": softmax,
    "permute": permute, "transpose": permute, "unsqueeze": unsqueeze, "squeeze": squeeze, "slice_": window,
    "index_select": index_select, "cat": cat, "matmul": matmul, "mm": matmul, "linear": linear,
}
KINDS = {"elementwise": elementwise, "composite": composite}
