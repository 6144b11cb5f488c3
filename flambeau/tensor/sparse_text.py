"""How sparse tensors print: PyTorch's text."""

from flambeau.tensor import printing
from flambeau.types import dtype as dtypes

_NAMES = {"sparse_coo": ("indices",), "sparse_csr": ("crow_indices", "col_indices"),
          "sparse_bsr": ("crow_indices", "col_indices"), "sparse_csc": ("ccol_indices", "row_indices"),
          "sparse_bsc": ("ccol_indices", "row_indices")}


def text(tensor):
    """The `repr` of a sparse tensor: places, values, and what cannot be seen from them."""
    prefix = "tensor("
    indent = len(prefix)
    names = (*_NAMES[tensor.layout.name], "values")
    parts = []
    for name, part in zip(names, tensor._parts()):
        start = f"{name}=tensor("
        shown = start + printing.elements_text(part.detach(), indent + len(start))
        parts.append(shown + (f", size={tuple(part.shape)}" if part.numel() == 0 else "") + ")")
    body = prefix + (",\n" + " " * indent).join(parts)
    suffixes = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    default = dtypes.get_default_dtype()
    wide = dtypes.complex128 if default is dtypes.float64 else dtypes.complex64
    if tensor.dtype not in (default, wide, dtypes.int64, dtypes.bool_):
        suffixes.append(f"dtype={tensor.dtype}")
    suffixes.append(f"layout={tensor.layout}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    if tensor.is_sparse:
        body += ",\n" + " " * indent + suffixes.pop(0)
    return printing._with_suffixes(body, suffixes, indent)
