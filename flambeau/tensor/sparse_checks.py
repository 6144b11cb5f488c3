"""Checks with sparse tensors: PyTorch's switch (indices are always checked here, so it only remembers), and gradcheck."""

import functools

from flambeau.runtime._core import Tensor
from flambeau.tensor.sparse import SparseTensor


class check_sparse_tensor_invariants:       # noqa: N801 - PyTorch's name
    """Say for a block, a function or from now on whether sparse tensors are checked when made; they always are."""

    _enabled = False

    def __init__(self, enable=True):
        self.state, self.before = enable, None

    @classmethod
    def is_enabled(cls):
        """What was asked for."""
        return check_sparse_tensor_invariants._enabled

    @classmethod
    def enable(cls):
        check_sparse_tensor_invariants._enabled = True

    @classmethod
    def disable(cls):
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self):
        self.before = check_sparse_tensor_invariants._enabled
        check_sparse_tensor_invariants._enabled = self.state

    def __exit__(self, *error):
        check_sparse_tensor_invariants._enabled = self.before

    def __call__(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with type(self)(self.state):
                return function(*args, **kwargs)
        return wrapped


def as_sparse_gradcheck(gradcheck):
    """A `gradcheck` that takes functions of and to sparse tensors: the values that inputs store are the variables.

    >>> check = fl.sparse.as_sparse_gradcheck(fl.autograd.gradcheck)
    >>> x = fl.eye(3, dtype=fl.float64).to_sparse().requires_grad_()
    >>> check(lambda x: fl.sparse.mm(x, fl.ones(3, 2, dtype=fl.float64)), x)
    True
    """
    @functools.wraps(gradcheck)
    def checked(func, inputs, **options):
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        options.pop("masked", None)

        def of_values(*values):
            given = [x._like(v) if isinstance(x, SparseTensor) else v for x, v in zip(inputs, values)]
            found = func(*given)
            dense = [f.to_dense() if isinstance(f, SparseTensor) else f
                     for f in (found if isinstance(found, (tuple, list)) else (found,))]
            return tuple(dense) if isinstance(found, (tuple, list)) else dense[0]
        values = tuple(x.inner.detach().requires_grad_(x.requires_grad) if isinstance(x, SparseTensor) else x for x in inputs)
        return gradcheck(of_values, values, **options)
    return checked
