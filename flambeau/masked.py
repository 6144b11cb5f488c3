"""Tensors some of whose elements are masked out, and reductions and normalisations of the elements that a mask keeps.

The functions take a mask beside their input, or a masked tensor, whose own mask they take; they return plain tensors.
"""

import functools
import importlib
import inspect

from flambeau.ops.masked import __all__ as _functions
from flambeau.tensor.masked_tensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor


def _taking_masked(function):
    """`function`, which also takes masked tensors for its operands."""
    masks = {"input": "input_mask", "other": "other_mask"} if function.__name__ == "logaddexp" else {"input": "mask"}
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        if not any(isinstance(value, MaskedTensor) for value in (*args, *kwargs.values())):
            return function(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        for name, mask in masks.items():
            value = given[name]
            if isinstance(value, MaskedTensor):
                value = value.to_dense()
                given[name] = value.get_data()
                given[mask] = value.kept if given.get(mask) is None else given[mask] & value.kept
        return function(**given)
    call.__module__ = __name__
    return call


_ops = importlib.import_module("flambeau.ops.masked")        # flambeau.ops.masked is a function, too
globals().update({name: _taking_masked(getattr(_ops, name)) for name in _functions})

__all__ = [*_functions, "MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
