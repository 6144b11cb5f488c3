"""Where Flambeau differs from PyTorch, and why. A difference that is gone fails too, so the list stays true.

(entry of PyTorch's test data, what is compared) -> reason
"""

OPERATORS = {
    ("as_strided_scatter", "gradient"): "elements that are written over get no gradient (docs/conventions.md)",
    ("chalf", "forward"): "there is no complex32", ("chalf", "gradient"): "there is no complex32",
    ("chalf", "other dtypes"): "there is no complex32",
    ("logcumsumexp", "other dtypes"): "the imaginary part is the principal value; PyTorch's may be 2 pi k further",
    ("argsort", "other dtypes"): "places of equal elements; ours are in order",
    ("sparse.sampled_addmm", "gradient"): "the gradient of the sparse operand is sparse (docs/conventions.md)",
}
MODULES = {name: "where PyTorch's gradient of 0 ** p is NaN ours is 0 (docs/conventions.md)"
           for name in ("LPPool1d", "LPPool2d", "LPPool3d")}
OPTIMIZERS = {}

# operators of PyTorch's inside, without a public name
INSIDE = {"max_pool2d_with_indices_backward"}

# results that are only unique up to signs or order: compared by magnitude, their gradients not at all
UP_TO_SIGN = {"svd", "linalg.svd", "linalg.eigh", "linalg.eig", "linalg.eigvals", "qr", "linalg.qr", "svd_lowrank",
              "pca_lowrank", "geqrf"}

# (values, places): among equal elements the places may differ
TIES = {"topk", "sort", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin"}

# uninitialised memory
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
