"""Making sparse tensors: from places and values, from dense tensors, from one another."""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.spec import FUNCTIONS
from flambeau.ops.wrapped import is_wrapped
from flambeau.runtime._core import Tensor
from flambeau.tensor.constants import constant, tensor, zeros
from flambeau.tensor.indexing import nonzero
from flambeau.tensor.sparse import CompressedTensor, CooTensor, SparseTensor, flat_places, product
from flambeau.types.dtype import int32, int64
from flambeau.types.info import LAYOUTS

COMPRESSED = ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def _values(values, dtype, requires_grad):
    made = values if isinstance(values, Tensor) else tensor(values, dtype=dtype)
    if dtype is not None and made.dtype is not dtype:
        made = ops.cast(made, dtype)
    if is_wrapped(made):                # of a function transform, which follows it
        return made
    if not made.requires_grad or requires_grad:
        made = made.detach()            # a leaf of its own over the same memory
    return made.requires_grad_(True) if requires_grad else made


def _whole_numbers(name, what, given):
    made = constant(given, name) if isinstance(given, Tensor) else tensor(given)
    if made.numel() == 0 and made.dtype not in (int32, int64):
        made = ops.cast(made, int64)
    if not made.dtype.is_integer:
        fail(name, f"{what} must be an integer tensor", made.dtype, "int64")
    return made.detach()


# ---------------------------------------------------------------------------------- coordinates
def sparse_coo_tensor(indices, values=None, size=None, *, dtype=None, device=None, requires_grad=False,
                      check_invariants=None, is_coalesced=None, pin_memory=False):
    name = "sparse_coo_tensor"
    if indices is None and (size is None or values is not None):
        fail(name, "what it holds is missing", want="indices and values, or a size", kind=TypeError)
    if values is None or (size is None and _is_sizes(indices)):
        return _no_entries(indices if size is None else size, dtype, requires_grad)
    places, values = _whole_numbers(name, "indices", indices), _values(values, dtype, requires_grad)
    if places.ndim == 1 and places.numel() == 0:
        places = ops.reshape(places, (0 if size is None else max(len(size) - values.ndim + 1, 0), 0))
    if places.ndim != 2:
        fail(name, "indices must be sparse_dim x nnz", f"{places.ndim}-d indices")
    places = ops.cast(places, int64)
    count, nnz = places.shape
    if values.ndim == 0 and nnz == 1:
        values = ops.reshape(values, (1,))
    if values.ndim == 0 or values.shape[0] != nnz:
        fail(name, "indices and values must have the same nnz", f"indices of {nnz}, values {tuple(values.shape)}")
    if size is None:
        if nnz == 0:
            size = (0,) * count + tuple(values.shape[1:])
        else:
            size = tuple(int(n) + 1 for n in places.amax(1).tolist()) + tuple(values.shape[1:])
    size = tuple(int(n) for n in size)
    _check_coo(name, places, values, size)
    return CooTensor.of(places, values, size, bool(is_coalesced))


def _is_sizes(given):
    return not isinstance(given, Tensor) and all(isinstance(n, int) for n in given)


def _no_entries(size, dtype, requires_grad):
    size = tuple(size)
    values = zeros(0, dtype=dtype)
    return CooTensor.of(zeros(len(size), 0, dtype=int64), values.requires_grad_(requires_grad), size)


def _check_coo(name, places, values, size):
    count = places.shape[0]
    if len(size) != count + values.ndim - 1:
        fail(name, "number of dimensions must be sparse_dim + dense_dim", f"{count} + {values.ndim - 1}", len(size))
    if any(n < 0 for n in size):
        fail(name, "sizes must not be negative", size)
    if tuple(values.shape[1:]) != size[count:]:
        fail(name, "the sizes of values do not match the dense sizes", tuple(values.shape[1:]), size[count:])
    if places.numel() == 0:
        return
    for axis, (low, high) in enumerate(zip(places.amin(1).tolist(), places.amax(1).tolist())):
        if low < 0:
            fail(name, f"found negative index {low} for dim {axis}")
        if high >= size[axis]:
            fail(name, f"size is inconsistent with indices: for dim {axis}, size is {size[axis]} but found index {high}")


# ---------------------------------------------------------------------------------- compressed
def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None,
                             device=None, requires_grad=False, pin_memory=False, check_invariants=None):
    form = getattr(layout, "name", None)
    if form not in COMPRESSED:
        fail("sparse_compressed_tensor", "expected a compressed sparse layout", layout, ", ".join(COMPRESSED))
    name = f"{form}_tensor"
    counts = _whole_numbers(name, "compressed_indices", compressed_indices)
    plain = _whole_numbers(name, "plain_indices", plain_indices)
    if plain.dtype is not counts.dtype:
        fail(name, "both index tensors must have one dtype", [counts.dtype, plain.dtype])
    values = _values(values, dtype, requires_grad)
    made = _compressed(name, counts, plain, values, size, form)
    _check_compressed(name, made)
    return made


def _compressed(name, counts, plain, values, size, form):
    """The tensor after checks of ranks; sizes are inferred where they are not given."""
    lead, blocked = plain.ndim - 1, form in ("sparse_bsr", "sparse_bsc")
    if lead < 0 or counts.ndim != plain.ndim or values.ndim < plain.ndim + 2 * blocked:
        fail(name, "ranks do not fit", f"{counts.ndim}-d compressed indices, {plain.ndim}-d plain indices, "
             f"{values.ndim}-d values")
    if counts.shape[-1] < 1:
        fail(name, "compressed indices need at least one element", tuple(counts.shape))
    if tuple(counts.shape[:-1]) != tuple(plain.shape[:-1]) or tuple(values.shape[:lead + 1]) != tuple(plain.shape):
        fail(name, "plain indices and values must have the same batch and nnz",
             [tuple(counts.shape), tuple(plain.shape), tuple(values.shape)])
    block = tuple(values.shape[lead + 1:lead + 3]) if blocked else (1, 1)
    by_rows = form in ("sparse_csr", "sparse_bsr")
    if size is None:
        major, minor = counts.shape[-1] - 1, int(plain.max()) + 1 if plain.numel() else 0
        grid = (major, minor) if by_rows else (minor, major)
        size = (*plain.shape[:-1], grid[0] * block[0], grid[1] * block[1],
                *values.shape[lead + 1 + 2 * blocked:])
    size = tuple(int(n) for n in size)
    dense = tuple(values.shape[lead + 1 + 2 * blocked:])
    if len(size) != lead + 2 + len(dense) or size[lead + 2:] != dense or size[:lead] != tuple(plain.shape[:-1]):
        fail(name, "the size does not fit the indices and values", size)
    if size[lead] % block[0] or size[lead + 1] % block[1]:
        fail(name, "the size is not a whole number of blocks", size, f"multiples of {block}")
    grid = size[lead] // block[0], size[lead + 1] // block[1]
    if counts.shape[-1] != grid[0 if by_rows else 1] + 1:
        fail(name, "compressed indices must have one element more than the compressed axis", counts.shape[-1],
             grid[0 if by_rows else 1] + 1)
    return CompressedTensor.of(counts, plain, values, size, form)


def _check_compressed(name, made):
    lead = made.plain.ndim - 1
    block = made.inner.shape[lead + 1:lead + 3] if made.blocked else (1, 1)
    across = made.sizes[lead + 1] // block[1] if made.by_rows else made.sizes[lead] // block[0]
    counts, plain = made.counts, made.plain
    if not bool((counts[..., 0] == 0).all()) or not bool((counts[..., -1] == made._nnz()).all()):
        fail(name, "compressed indices must start at 0 and end at nnz", counts.tolist(), made._nnz())
    if bool((counts[..., 1:] < counts[..., :-1]).any()):
        fail(name, "compressed indices must not decrease", counts.tolist())
    if plain.numel() and (int(plain.min()) < 0 or int(plain.max()) >= across):
        fail(name, "plain indices lie outside the axis", f"{int(plain.min())} to {int(plain.max())}",
             f"0 to {across - 1}")
    batch, major, minor = made.entry_places()
    if minor.shape[0] > 1:
        same = (major[1:] == major[:-1]) & (batch[1:] == batch[:-1])
        if bool((same & (minor[1:] <= minor[:-1])).any()):
            fail(name, "plain indices must be distinct and in order within each row or column")


# ---------------------------------------------------------------------------------- conversions
def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """A dense tensor in a sparse layout."""
    form = "sparse_coo" if layout is None else getattr(layout, "name", layout)
    if form == "sparse_coo":
        return coo_of(self, self.ndim if sparse_dim is None else sparse_dim)
    if sparse_dim is not None:
        fail("to_sparse", "sparse_dim and layout cannot be given together")
    if form in COMPRESSED:
        return compressed_of(self, form, blocksize, dense_dim or 0)
    if form == "strided":
        return self
    fail("to_sparse", "unknown layout", layout)


def coo_of(dense, count):
    """Coordinates over the first `count` axes of what is not zero."""
    if not (0 < count <= dense.ndim or count == dense.ndim == 0):
        fail("to_sparse", "sparse_dim must lie between 1 and the number of dimensions", count, f"1 to {dense.ndim}")
    sizes = tuple(dense.shape)
    seen = dense.detach()
    filled = seen != 0
    if count < dense.ndim:
        filled = ops.any(ops.reshape(filled, (*sizes[:count], product(sizes[count:]))), -1)
    places = nonzero(filled).transpose(0, 1) if count else zeros(0, int(bool(filled)), dtype=int64)
    places = places.contiguous()
    flat = ops.reshape(dense, (product(sizes[:count]), *sizes[count:]))
    values = ops.index_select(flat, 0, flat_places(places, sizes[:count]))
    return CooTensor.of(places, values, sizes, True)


def compressed_of(dense, form, blocksize=None, dense_dim=0):
    """The last two axes before the dense ones in a compressed layout; axes in front of them are a batch."""
    blocked, lead = form in ("sparse_bsr", "sparse_bsc"), dense.ndim - 2 - dense_dim
    name = f"to_{form}"
    if lead < 0 or dense_dim < 0:
        fail(name, "needs two axes besides the dense ones", tuple(dense.shape))
    if blocked:
        dense_blocks, _ = _in_blocks(name, dense, lead, blocksize)
    elif blocksize is not None:
        fail(name, "blocksize is for the layouts sparse_bsr and sparse_bsc")
    else:
        dense_blocks = dense
    if form in ("sparse_csc", "sparse_bsc"):
        dense_blocks = ops.transpose(dense_blocks, lead, lead + 1)
    shape = tuple(dense_blocks.shape)
    batches = product(shape[:lead])
    coo = coo_of(ops.reshape(dense_blocks, (batches, *shape[lead:])), 3)
    per_batch = FUNCTIONS["bincount"](coo.places[0], minlength=batches).tolist()
    if len(set(per_batch)) > 1:
        fail(name, "all batches must have the same number of specified elements", per_batch)
    nnz = per_batch[0] if per_batch else 0
    key = coo.places[0] * shape[lead] + coo.places[1]
    tally = ops.reshape(FUNCTIONS["bincount"](key, minlength=batches * shape[lead]), (batches, shape[lead]))
    counts = ops.cat((zeros(batches, 1, dtype=int64), ops.cumsum(tally, 1)), 1)
    counts = ops.reshape(counts, (*shape[:lead], shape[lead] + 1))
    plain = ops.reshape(coo.places[2], (*shape[:lead], nnz))
    values = ops.reshape(coo.inner, (*shape[:lead], nnz, *shape[lead + 2:]))
    return CompressedTensor.of(counts, plain, values, tuple(dense.shape), form)


def _in_blocks(name, dense, lead, blocksize):
    """(batch, rows of blocks, columns of blocks, height, width, dense axes) and the size of a block."""
    if blocksize is None or len(blocksize) != 2:
        fail(name, "needs blocksize=(height, width)", blocksize)
    shape, (high, wide) = tuple(dense.shape), blocksize
    if high < 1 or wide < 1 or shape[lead] % high or shape[lead + 1] % wide:
        fail(name, "the size is not a whole number of blocks", shape[lead:lead + 2], f"multiples of {blocksize}")
    split = (*shape[:lead], shape[lead] // high, high, shape[lead + 1] // wide, wide, *shape[lead + 2:])
    order = (*range(lead), lead, lead + 2, lead + 1, lead + 3, *range(lead + 4, len(split)))
    return ops.permute(ops.reshape(dense, split), order), (high, wide)


def compress(coo, form):
    """A 2-d coordinate tensor (with dense axes) as CSR or CSC."""
    if coo.sparse_dim() != 2:
        fail(f"to_{form}", "only tensors with two sparse axes can be compressed", coo.sparse_dim())
    coo = coo.coalesce()
    major, minor, values = coo.places[0], coo.places[1], coo.inner
    size = coo.sizes[0]
    if form == "sparse_csc":
        order = FUNCTIONS["argsort"](minor, stable=True)
        major, minor = ops.index_select(minor, 0, order), ops.index_select(major, 0, order)
        values, size = ops.index_select(values, 0, order), coo.sizes[1]
    tally = FUNCTIONS["bincount"](major, minlength=size)
    counts = ops.cat((zeros(1, dtype=int64), ops.cumsum(tally, 0)), 0)
    return CompressedTensor.of(counts, minor, values, coo.sizes, form)


def convert(source, sparse_dim, layout, blocksize, dense_dim):
    """A sparse tensor in another layout, or itself."""
    form = "sparse_coo" if layout is None else getattr(layout, "name", layout)
    if form == "strided":
        return source.to_dense()
    if form == source.layout.name and blocksize is None:
        if sparse_dim is not None and sparse_dim != source.sparse_dim():
            fail("to_sparse", "the number of sparse axes cannot change", sparse_dim, source.sparse_dim())
        return source
    coo = source if isinstance(source, CooTensor) else source.to_coo()
    if form == "sparse_coo":
        return coo.coalesce()
    if form in ("sparse_csr", "sparse_csc") and coo.sparse_dim() == 2:
        return compress(coo, form)
    return compressed_of(source.to_dense(), form, blocksize, dense_dim or 0)


def sparse_mask(self, mask):
    """The elements of `self` at the places that the sparse tensor `mask` specifies."""
    if not isinstance(mask, SparseTensor):
        fail("sparse_mask", "the mask must be sparse", mask.layout)
    if tuple(mask.shape) != tuple(self.shape):
        fail("sparse_mask", "operands have different sizes", tuple(self.shape), tuple(mask.shape))
    return mask._like(mask._pick(self.to_dense()))


def spdiags(diagonals, offsets, shape, layout=None):
    """A matrix of `shape` whose diagonal offsets[i] is row i of `diagonals`; column j takes the row's element j."""
    diagonals = ops.reshape(diagonals, (1, -1)) if diagonals.ndim == 1 else diagonals
    offsets = ops.reshape(offsets, (-1,))
    name = "spdiags"
    if diagonals.ndim != 2 or len(shape) != 2:
        fail(name, "needs vector or matrix diagonals and a 2-d shape", [tuple(diagonals.shape), tuple(shape)])
    if offsets.shape[0] != diagonals.shape[0]:
        fail(name, f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets "
             f"({offsets.shape[0]})")
    starts = offsets.tolist()
    if len(set(starts)) != len(starts):
        fail(name, "Offset tensor contains duplicate values", starts)
    cells = [(k, j - start, j) for k, start in enumerate(starts)
             for j in range(max(start, 0), min(shape[1], diagonals.shape[1], shape[0] + start))]
    table = tensor(cells, dtype=int64).reshape(len(cells), 3)
    flat = ops.reshape(diagonals, (-1,))
    values = ops.index_select(flat, 0, table[:, 0] * diagonals.shape[1] + table[:, 2])
    made = CooTensor.of(table[:, 1:].transpose(0, 1).contiguous(), values, shape)
    form = "sparse_coo" if layout is None else layout.name
    if form not in ("sparse_coo", "sparse_csr", "sparse_csc"):
        fail(name, f"Only output layouts (sparse_coo, sparse_csc, sparse_csr) are supported, got {layout}")
    return made if form == "sparse_coo" else made.to_sparse(layout=LAYOUTS[form])


def from_saved(form, parts, sizes, coalesced, requires_grad):
    """A sparse tensor from what `SparseTensor.saved_parts` gave; checked, as a file may say anything."""
    if form != "sparse_coo":
        return sparse_compressed_tensor(*parts, sizes, layout=LAYOUTS[form], requires_grad=requires_grad)
    made = sparse_coo_tensor(*parts, sizes, requires_grad=requires_grad)
    flat = made.flat()
    in_order = made._nnz() < 2 or bool((flat[1:] > flat[:-1]).all())
    return made._coalesced_(bool(coalesced) and in_order)
