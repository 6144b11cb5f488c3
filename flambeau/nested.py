"""Nested tensors: batches of items of different sizes (the names of torch.nested)."""

from flambeau.tensor.nested_make import (as_nested_tensor, masked_select, narrow, nested_tensor, nested_tensor_from_jagged,
                                         to_padded_tensor)

__all__ = ["as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor"]
