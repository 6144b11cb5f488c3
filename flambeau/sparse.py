"""Sparse tensors: products, sums and softmax over the elements that are specified (the names of torch.sparse)."""

from flambeau.tensor.sparse_checks import as_sparse_gradcheck, check_sparse_tensor_invariants
from flambeau.tensor.sparse_make import spdiags
from flambeau.tensor.sparse_products import addmm, log_softmax, mm, sampled_addmm, softmax, spsolve, sum

solve = spsolve

__all__ = ["addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "solve",
           "spdiags", "spsolve", "sum"]
