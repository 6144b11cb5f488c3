"""The sparse names of `flambeau` and of dense tensors; what they do is imported when it is first used."""

from flambeau.base.errors import fail
from flambeau.runtime import _core
from flambeau.types.device import placed
from flambeau.types.info import LAYOUTS


@placed
def sparse_coo_tensor(indices=None, values=None, size=None, *, dtype=None, device=None, requires_grad=False,
                      check_invariants=None, is_coalesced=None, pin_memory=False):
    """A sparse tensor by coordinates.

    Args:
        indices: (sparse_dim, nnz) integers: the place of each value. Places may repeat; their values are added.
        values: (nnz, ...): numbers, or dense blocks of the sizes of the last axes.
        size: the shape; by default just large enough. A size alone gives a tensor without elements.
        is_coalesced: a promise that places are in order and do not repeat.

    Raises:
        RuntimeError: if indices, values and size do not fit together.

    >>> fl.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    from flambeau.tensor import sparse_make
    return sparse_make.sparse_coo_tensor(indices, values, size, dtype=dtype, requires_grad=requires_grad,
                                         is_coalesced=is_coalesced)


@placed
def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None,
                             device=None, requires_grad=False, pin_memory=False, check_invariants=None):
    """A sparse tensor that counts along one axis and lists the other, in `layout` (CSR, CSC, BSR or BSC).

    Args:
        compressed_indices: (*batch, n + 1): where the entries of each row (column) start, and where the last end.
        plain_indices: (*batch, nnz): the column (row) of each entry.
        values: (*batch, nnz, *block, *dense).
    """
    from flambeau.tensor import sparse_make
    return sparse_make.sparse_compressed_tensor(compressed_indices, plain_indices, values, size, dtype=dtype,
                                                layout=layout, requires_grad=requires_grad)


def _compressed(form, compressed, plain):
    def make(first_indices, second_indices, values, size=None, *, dtype=None, device=None, requires_grad=False,
             pin_memory=False, check_invariants=None):
        return sparse_compressed_tensor(first_indices, second_indices, values, size, dtype=dtype,
                                        layout=LAYOUTS[form], device=device, requires_grad=requires_grad)

    def named(*args, **kwargs):
        given = [kwargs.pop(name) for name in (compressed, plain) if name in kwargs]
        return make(*args[:2 - len(given)], *given, *args[2 - len(given):], **kwargs)

    named.__name__ = named.__qualname__ = f"{form}_tensor"
    named.__doc__ = f"{form}_tensor({compressed}, {plain}, values, size=None): see `sparse_compressed_tensor`."
    return named


sparse_csr_tensor = _compressed("sparse_csr", "crow_indices", "col_indices")
sparse_csc_tensor = _compressed("sparse_csc", "ccol_indices", "row_indices")
sparse_bsr_tensor = _compressed("sparse_bsr", "crow_indices", "col_indices")
sparse_bsc_tensor = _compressed("sparse_bsc", "ccol_indices", "row_indices")


# ---------------------------------------------------------------------------------- methods of dense tensors
def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The tensor in a sparse layout: coordinates over the first `sparse_dim` axes (all), or `layout`."""
    from flambeau.tensor import sparse_make
    return sparse_make.to_sparse(self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_coo(self):
    """The tensor by coordinates."""
    return to_sparse(self)


def to_sparse_csr(self, dense_dim=None):
    """The tensor compressed by rows."""
    return to_sparse(self, layout=LAYOUTS["sparse_csr"], dense_dim=dense_dim)


def to_sparse_csc(self, dense_dim=None):
    """The tensor compressed by columns."""
    return to_sparse(self, layout=LAYOUTS["sparse_csc"], dense_dim=dense_dim)


def to_sparse_bsr(self, blocksize, dense_dim=None):
    """The tensor compressed by rows of blocks of `blocksize`."""
    return to_sparse(self, layout=LAYOUTS["sparse_bsr"], blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_bsc(self, blocksize, dense_dim=None):
    """The tensor compressed by columns of blocks of `blocksize`."""
    return to_sparse(self, layout=LAYOUTS["sparse_bsc"], blocksize=blocksize, dense_dim=dense_dim)


def sparse_mask(self, mask):
    """The elements at the places that the sparse tensor `mask` specifies, in its layout."""
    from flambeau.tensor import sparse_make
    return sparse_make.sparse_mask(self, mask)


def sparse_dim(self):
    """How many axes are sparse: none of a dense tensor."""
    return 0


def dense_dim(self):
    """How many axes are dense: all of a dense tensor."""
    return self.ndim


def smm(input, mat):
    """The product of a sparse matrix and another."""
    return input @ mat


def spmm(input, mat2):
    """The older name of the product of a sparse and a dense matrix."""
    return input @ mat2


def _only_sparse(name):
    def method(self, *args, **kwargs):
        fail(name, f"expected a sparse tensor layout but got {self.layout}", hint="use .to_sparse()")
    method.__name__ = name
    method.__doc__ = "Of sparse tensors only."
    return method


METHODS = {f.__name__: f for f in (to_sparse, to_sparse_coo, to_sparse_csr, to_sparse_csc, to_sparse_bsr, to_sparse_bsc,
                                   sparse_mask, sparse_dim, dense_dim, smm)}
METHODS |= {name: _only_sparse(name) for name in (
    "indices", "values", "_indices", "_values", "_nnz", "coalesce", "is_coalesced", "crow_indices", "col_indices",
    "ccol_indices", "row_indices", "sparse_resize_", "sparse_resize_and_clear_", "resize_as_sparse_")}


def to_padded_tensor(self, padding, output_size=None):
    """Of nested tensors only: items of different sizes as one tensor."""
    fail("to_padded_tensor", "expected a nested tensor", self.layout, hint="a plain tensor has nothing to pad")


METHODS["to_padded_tensor"] = to_padded_tensor


def resize_as_sparse_(input, the_template):
    """Give the sparse `input` the sizes of `the_template`."""
    return input.resize_as_sparse_(the_template)


def _copying(name):
    def function(self):
        return getattr(self, name)().clone()
    function.__name__ = function.__qualname__ = f"{name}_copy"
    function.__doc__ = f"A copy of `{name}()` of a sparse tensor."
    return function


NAMES = {f.__name__: f for f in (sparse_coo_tensor, sparse_compressed_tensor, sparse_csr_tensor, sparse_csc_tensor,
                                 sparse_bsr_tensor, sparse_bsc_tensor, resize_as_sparse_, smm,
                                 spmm)}
NAMES |= {f"{name}_copy": _copying(name) for name in (
    "indices", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices")}


def plain_gradient(gradient):
    """What an op's derivative takes of a gradient: a dense tensor."""
    return gradient if gradient.layout is LAYOUTS["strided"] else gradient.to_dense()


_core.set_hook("plain_gradient", plain_gradient)
