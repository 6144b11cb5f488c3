"""copy.deepcopy and pickle of plain tensors, to be attached to Tensor as `__deepcopy__` and `__reduce_ex__`.

Both take the elements only, not the whole storage behind a view; neither takes the tape.
"""

import copy

from flambeau.ops.overrides import carries
from flambeau.runtime._core import Tensor
from flambeau.tensor.save import new_memory, storage_of, tensor_on


def deep_copy(tensor, memo):
    """A leaf with a copy of the data, of the gradient and of `requires_grad`."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                           "protocol at the moment; deepcopy tensor.detach() instead")
    result = tensor.detach().clone()
    memo[id(tensor)] = result
    if tensor.requires_grad:
        result.requires_grad_(True)
    if tensor.grad is not None:
        result.grad = deep_copy(tensor.grad.detach(), memo)
    if carries(type(tensor)):
        result.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
    return result


def shallow_copy(tensor):
    """Another tensor on the same memory, a leaf with the same `requires_grad` and gradient."""
    made = tensor.detach() if type(tensor) is Tensor else Tensor._make_subclass(type(tensor), Tensor.detach(tensor))
    if tensor.requires_grad:
        made.requires_grad_(True)
        made.grad = tensor.grad if tensor.is_leaf else None
    if hasattr(tensor, "__dict__"):
        made.__dict__.update(tensor.__dict__)
    return made


def reduce_tensor(tensor, protocol):
    """What pickle stores of a tensor: its elements in row-major order, dtype, shape and `requires_grad`."""
    elements = Tensor.detach(tensor).contiguous() if carries(type(tensor)) else tensor.detach().contiguous()
    _, storage = storage_of(elements)
    start = elements.storage_offset() * elements.element_size()
    size = elements.numel() * elements.element_size()
    data = bytes(storage[start:start + size])
    stored = (data, tensor.dtype, tuple(tensor.shape), tensor.requires_grad)
    if carries(type(tensor)):
        return rebuild_subclass, (type(tensor), stored, dict(tensor.__dict__))
    return rebuild_tensor, stored


def rebuild_subclass(kind, stored, attributes):
    """The inverse of `reduce_tensor` for a tensor of a subclass."""
    plain = rebuild_tensor(*stored)
    made = Tensor._make_subclass(kind, plain, plain.requires_grad)
    made.__dict__.update(attributes)
    return made


def rebuild_tensor(data, dtype, shape, requires_grad):
    """The inverse of `reduce_tensor`."""
    owner, memory = new_memory(len(data))
    memory[:] = data
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    tensor = tensor_on(owner, len(data), dtype, shape, strides[::-1], 0)
    return tensor.requires_grad_(True) if requires_grad else tensor
