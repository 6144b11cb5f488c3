"""Sparse tensors: the places of the elements that are not zero, and their values.

A sparse tensor is a `Wrapped` value of one constant level: whatever op meets one hands its call to `LEVEL`, which looks
up a rule (`sparse_rules.py`) or says that there is none. Places and values are plain tensors, so gradients flow through
the values by the ordinary tape, and a leaf's gradient is the gradient of its values at the same places.

`CooTensor` keeps an index column for each element; `CompressedTensor` counts along one axis and lists the other (CSR,
CSC), of elements or of blocks of them (BSR, BSC).
"""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.spec import FUNCTIONS, REGISTRY
from flambeau.ops.write import check_write
from flambeau.runtime import _core
from flambeau.tensor.constants import arange, zeros
from flambeau.tensor.parts import PartedTensor
from flambeau.types.dtype import bool_, int64
from flambeau.types.info import LAYOUTS


class SparseLevel:
    """The level of all sparse tensors, below those of function transforms."""

    name, depth = "a sparse tensor", 0

    def process(self, operation, values):
        from flambeau.tensor.sparse_rules import process
        return process(operation, values)

    def assign(self, operation, target, result):
        """`target` becomes `result`, cast to its dtype."""
        if not isinstance(result, SparseTensor) or result.layout is not target.layout:
            fail(operation.name + "_", f"the result is not {target.layout}, like the tensor written to",
                 hint="use the out-of-place form")
        if tuple(result.shape) != tuple(target.shape):
            fail(operation.name + "_", "the result does not have the shape of the tensor written to",
                 tuple(result.shape), tuple(target.shape))
        check_write(operation.name + "_", target.inner)
        result = result if result.dtype is target.dtype else ops.cast(result, target.dtype)
        tracked = _core.grad_mode() and (result.requires_grad or target.requires_grad)
        if tracked or not _same_objects(result, target) or result.inner.shape != target.inner.shape:
            return target._take(result)
        target.inner.detach().copy_(result.inner)       # the same places: only the values change, where they are
        return target

    def detached(self, tensor):
        return tensor._like(tensor.inner.detach())

    def read(self, tensor, what):
        fail(what, f"not available for a tensor of layout {tensor.layout}", hint="call .to_dense() first",
             kind=NotImplementedError if what != "numpy" else TypeError)


def _same_objects(first, second):
    """True if both list their places by the same tensors."""
    return all(a is b for a, b in zip(first._parts()[:-1], second._parts()[:-1]))


LEVEL = SparseLevel()


class SparseTensor(PartedTensor):
    """What the forms share: `inner` are the values, `sizes` the shape; the flags of the tape are those of the values."""

    is_sparse = property(lambda self: False)
    is_sparse_csr = property(lambda self: False)

    T = property(lambda self: self.permute(tuple(range(self.ndim))[::-1]))
    mT = property(lambda self: self.transpose(-1, -2))

    def values_of(self, other):
        """The elements of `other` at the places of this tensor."""
        if tuple(other.shape) != tuple(self.shape):
            fail("grad", "the gradient of a sparse tensor has another shape", tuple(other.shape), tuple(self.shape))
        if isinstance(other, type(self)) and other._same_places(self):
            return other.inner
        return self._pick(other.to_dense())

    def stride(self, dim=None):
        fail("stride", "sparse tensors do not have strides")

    def is_contiguous(self, memory_format=None):
        fail("is_contiguous", "sparse tensors do not have is_contiguous")

    def to_sparse_coo(self):
        return self.to_sparse()

    def to_sparse_csr(self, dense_dim=None):
        return self.to_sparse(layout=LAYOUTS["sparse_csr"], dense_dim=dense_dim)

    def to_sparse_csc(self, dense_dim=None):
        return self.to_sparse(layout=LAYOUTS["sparse_csc"], dense_dim=dense_dim)

    def to_sparse_bsr(self, blocksize, dense_dim=None):
        return self.to_sparse(layout=LAYOUTS["sparse_bsr"], blocksize=blocksize, dense_dim=dense_dim)

    def to_sparse_bsc(self, blocksize, dense_dim=None):
        return self.to_sparse(layout=LAYOUTS["sparse_bsc"], blocksize=blocksize, dense_dim=dense_dim)

    def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
        from flambeau.tensor.sparse_make import convert
        return convert(self, sparse_dim, layout, blocksize, dense_dim)

    def zero_(self):
        """Become a tensor of zeros: no element is specified any more."""
        return self._take(self._empty(self.shape))

    def copy_(self, source, non_blocking=False):
        if not isinstance(source, SparseTensor):
            fail("copy_", "copy between a sparse and a dense tensor is not possible", hint="use to_sparse()")
        return LEVEL.assign(REGISTRY["copy"], self, source.to_sparse(layout=self.layout))

    saved_as = "sparse"

    def saved_parts(self):
        """What `save` writes: the layout, the tensors, the sizes, whether in order, whether a gradient is wanted."""
        plain = self.detach()
        return (self.layout.name, plain._parts(), self.sizes, bool(self.is_coalesced()), self.requires_grad)

    def __repr__(self):
        from flambeau.tensor.sparse_text import text
        return text(self)

    __str__ = __repr__


def product(sizes):
    total = 1
    for size in sizes:
        total *= size
    return total


def flat_places(indices, sizes):
    """(axes, count) -> (count): the row-major number of each column of indices."""
    if len(sizes) == 0:
        return zeros(indices.shape[1], dtype=int64)
    flat = indices[0]
    for axis in range(1, len(sizes)):
        flat = flat * sizes[axis] + indices[axis]
    return flat


def columns(flat, sizes):
    """The inverse of `flat_places`."""
    found = []
    for size in reversed(sizes):
        found.append(flat % max(size, 1))
        flat = flat // max(size, 1)
    return ops.stack(found[::-1]) if found else zeros(0, flat.shape[0], dtype=int64)


def sum_at(values, places, size):
    """(count, ...) -> (size, ...): values added up at their places, in order."""
    if values.dtype is bool_:
        return sum_at(ops.cast(values, int64), places, size) > 0
    return ops.index_sum(values, 0, places, size)


class CooTensor(SparseTensor):
    """Coordinates: `places` (sparse_dim, nnz) int64 and values (nnz, *sizes of the dense axes)."""

    is_sparse = property(lambda self: True)
    layout = property(lambda self: LAYOUTS["sparse_coo"])

    @classmethod
    def of(cls, places, values, sizes, coalesced=False):
        return cls.make(LEVEL, values, places=places, sizes=tuple(int(s) for s in sizes),
                        coalesced=coalesced or values.shape[0] < 2)

    def _like(self, values):
        """The same places with other values (of any trailing shape)."""
        sizes = (*self.sizes[:self.sparse_dim()], *values.shape[1:])
        return CooTensor.of(self.places, values, sizes, self.coalesced)

    def _empty(self, sizes):
        count = self.sparse_dim()
        return CooTensor.of(zeros(count, 0, dtype=int64), zeros(0, *sizes[count:], dtype=self.dtype), sizes)

    def _parts(self):
        return self.places, self.inner

    def _facts(self):
        return {"sizes": self.sizes, "coalesced": self.coalesced}

    def _same_places(self, other):
        return self.places is other.places or (tuple(self.places.shape) == tuple(other.places.shape)
                                               and bool((self.places == other.places).all()))

    def _pick(self, dense):
        """(nnz, ...): the elements of a dense tensor at the places."""
        count = self.sparse_dim()
        flat = ops.reshape(dense, (product(self.sizes[:count]), *dense.shape[count:]))
        return ops.index_select(flat, 0, self.flat())

    def flat(self):
        """(nnz): the row-major number of each place."""
        return flat_places(self.places, self.sizes[:self.sparse_dim()])

    # ------------------------------------------------------------------ PyTorch's surface
    def sparse_dim(self):
        return self.places.shape[0]

    def dense_dim(self):
        return len(self.sizes) - self.places.shape[0]

    def _nnz(self):
        return self.places.shape[1]

    def _indices(self):
        return self.places

    def _values(self):
        return self.inner.detach()

    def indices(self):
        self._check_coalesced("indices")
        return self.places

    def values(self):
        self._check_coalesced("values")
        return self.inner

    def _check_coalesced(self, what):
        if not self.coalesced:
            fail(what, f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")

    def is_coalesced(self):
        return self.coalesced

    def _coalesced_(self, coalesced):
        self.__dict__["coalesced"] = bool(coalesced)
        return self

    def coalesce(self):
        """Each place once, in row-major order; values at the same place are added."""
        if self.coalesced:
            return self
        sizes = self.sizes[:self.sparse_dim()]
        places, number = FUNCTIONS["unique"](self.flat(), return_inverse=True)
        return CooTensor.of(columns(places, sizes), sum_at(self.inner, number, places.shape[0]), self.sizes, True)

    def to_dense(self, dtype=None, *, masked_grad=True):
        sizes = self.sizes[:self.sparse_dim()]
        dense = ops.reshape(sum_at(self.inner, self.flat(), product(sizes)), self.sizes)
        return dense if dtype is None else dense.to(dtype)

    def sparse_resize_(self, size, sparse_dim, dense_dim):
        """New sizes; the specified elements stay."""
        if sparse_dim + dense_dim != len(size):
            fail("sparse_resize_", "number of dimensions must be sparse_dim + dense_dim",
                 f"{sparse_dim} + {dense_dim}", len(size))
        if self._nnz() and (sparse_dim, dense_dim) != (self.sparse_dim(), self.dense_dim()):
            fail("sparse_resize_", "changing the number of dimensions of a non-empty sparse tensor is not supported",
                 hint="use sparse_resize_and_clear_")
        if self._nnz() and any(new < old for new, old in zip(size, self.sizes)):
            fail("sparse_resize_", "shrinking a non-empty sparse tensor is not supported", tuple(size), self.sizes)
        if not self._nnz():
            return self.sparse_resize_and_clear_(size, sparse_dim, dense_dim)
        values = self.inner
        for axis, new in enumerate(size[sparse_dim:], 1):
            if new != values.shape[axis]:
                gap = zeros(*values.shape[:axis], new - values.shape[axis], *values.shape[axis + 1:], dtype=self.dtype)
                values = ops.cat((values, gap), axis)
        return self._take(CooTensor.of(self.places, values, size, self.coalesced))

    def sparse_resize_and_clear_(self, size, sparse_dim, dense_dim):
        """New sizes, and no element specified."""
        if sparse_dim + dense_dim != len(size):
            fail("sparse_resize_and_clear_", "number of dimensions must be sparse_dim + dense_dim",
                 f"{sparse_dim} + {dense_dim}", len(size))
        return self._take(CooTensor.of(zeros(sparse_dim, 0, dtype=int64),
                                       zeros(0, *size[sparse_dim:], dtype=self.dtype), size))

    def resize_as_sparse_(self, other):
        return self.sparse_resize_(tuple(other.shape), other.sparse_dim(), other.dense_dim())


class CompressedTensor(SparseTensor):
    """Compressed along one of two axes: `counts` (*batch, n + 1), `plain` (*batch, nnz), values (*batch, nnz, *block,
    *dense). Rows are the compressed axis of CSR and BSR, columns of CSC and BSC."""

    is_sparse_csr = property(lambda self: self.form == "sparse_csr")
    layout = property(lambda self: LAYOUTS[self.form])
    by_rows = property(lambda self: self.form in ("sparse_csr", "sparse_bsr"))
    blocked = property(lambda self: self.form in ("sparse_bsr", "sparse_bsc"))

    @classmethod
    def of(cls, counts, plain, values, sizes, form):
        return cls.make(LEVEL, values, counts=counts, plain=plain, sizes=tuple(int(s) for s in sizes), form=form)

    def _like(self, values):
        made = CompressedTensor.of(self.counts, self.plain, values, self.sizes, self.form)
        made.__dict__["entries"] = self.__dict__.get("entries")
        return made

    def _empty(self, sizes):
        values = zeros(*self.plain.shape[:-1], 0, *self.inner.shape[self.plain.ndim:], dtype=self.dtype)
        plain = self.plain[..., :0]
        return CompressedTensor.of(self.counts * 0, plain, values, sizes, self.form)

    def _parts(self):
        return self.counts, self.plain, self.inner

    def _facts(self):
        return {"sizes": self.sizes, "form": self.form}

    def _same_places(self, other):
        return self.form == other.form and self.plain.shape == other.plain.shape \
            and bool((self.plain == other.plain).all()) and bool((self.counts == other.counts).all())

    def _pick(self, dense):
        coo = self.to_coo()
        return self.values_from(coo._pick(dense))

    # ------------------------------------------------------------------ PyTorch's surface
    def sparse_dim(self):
        return 2

    def dense_dim(self):
        return self.inner.ndim - self.plain.ndim - 2 * self.blocked

    def _nnz(self):
        return self.plain.shape[-1]

    def values(self):
        return self.inner

    def _values(self):
        return self.inner.detach()

    def _half(self, name, by_rows, part):
        if self.by_rows is not by_rows:
            fail(name, f"not available for a tensor of layout {self.layout}")
        return part

    def crow_indices(self):
        return self._half("crow_indices", True, self.counts)

    def col_indices(self):
        return self._half("col_indices", True, self.plain)

    def ccol_indices(self):
        return self._half("ccol_indices", False, self.counts)

    def row_indices(self):
        return self._half("row_indices", False, self.plain)

    def is_coalesced(self):
        return True

    def to_dense(self, dtype=None, *, masked_grad=True):
        return self.to_coo().to_dense(dtype)

    # ------------------------------------------------------------------ element coordinates
    def entry_places(self):
        """(batch number, compressed axis, other axis) of each entry (an element or a block), each (batches * nnz)."""
        found = self.__dict__.get("entries")
        if found is None or found[0] is not self.counts or found[1] is not self.plain:
            found = self.__dict__["entries"] = (self.counts, self.plain, self._find_entries())
        return found[2]

    def _find_entries(self):
        nnz, majors = self._nnz(), self.counts.shape[-1] - 1
        counts = ops.cast(ops.reshape(self.counts, (-1, majors + 1)), int64)
        batches = counts.shape[0]
        lengths = ops.reshape(counts[:, 1:] - counts[:, :-1], (-1,))
        number = FUNCTIONS["repeat_interleave"](arange(batches * majors), lengths)
        plain = ops.cast(ops.reshape(self.plain, (batches * nnz,)), int64)
        if batches == 1:
            return number * 0, number, plain
        return number // max(majors, 1), number % max(majors, 1), plain

    def to_coo(self):
        """The same elements as coordinates, batch axes first, in the order of the values."""
        batch, major, minor = self.entry_places()
        row, col = (major, minor) if self.by_rows else (minor, major)
        lead = self.plain.ndim - 1
        values = ops.reshape(self.inner, (batch.shape[0], *self.inner.shape[lead + 1:]))
        if self.blocked:
            high, wide = values.shape[1:3]
            grid = arange(high * wide)
            repeat = FUNCTIONS["repeat_interleave"]
            row, col, batch = (repeat(each, high * wide) for each in (row, col, batch))
            within = FUNCTIONS["repeat"](grid, row.shape[0] // max(high * wide, 1))
            row, col = row * high + within // wide, col * wide + within % wide
            values = ops.reshape(values, (row.shape[0], *values.shape[3:]))
        batch_places = columns(batch, self.sizes[:lead]) if lead else batch[:0].reshape(0, batch.shape[0])
        places = ops.cat((batch_places, ops.stack((row, col))), 0) if lead else ops.stack((row, col))
        return CooTensor.of(places, values, self.sizes, self.form == "sparse_csr")

    def values_from(self, elements):
        """Values in this tensor's arrangement from those of `to_coo`, for all blocks."""
        return ops.reshape(elements, tuple(self.inner.shape))
