"""Where Flambeau differs from PyTorch, and why. A difference that is gone fails too, so the list stays true.

(entry of PyTorch's test data, what is compared) -> reason
"""

OPERATORS = {}
MODULES = {}
OPTIMIZERS = {}

# what PyTorch has and Flambeau does not mean to have
SKIPPED = {
    "private": "an operator of PyTorch's inside, without a public name",
}

# results that are only unique up to signs or order: compared by magnitude, their gradients not at all
UP_TO_SIGN = {"svd", "linalg.svd", "linalg.eigh", "linalg.eig", "linalg.eigvals", "qr", "linalg.qr", "svd_lowrank",
              "pca_lowrank", "geqrf"}

# uninitialised memory
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
