"""The switch of PyTorch's checks of sparse tensors. Here indices are always checked, so the switch only remembers."""

import functools


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
