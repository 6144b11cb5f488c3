"""Memory that processes share: `share_memory_`, and how such tensors travel to other processes without a
copy.

A block is a file without a name that is mapped into memory. A forked child inherits the mapping; to any other
process the pickler of `multiprocessing` sends the file's descriptor.
"""

import mmap
import os
import weakref

from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor.copying import reduce_tensor
from flambeau.tensor.parameter import Parameter
from flambeau.tensor.save import storage_of

_BLOCKS = weakref.WeakValueDictionary()  # address -> Block


class Block:
    """Bytes that this process shares with others."""

    def __init__(self, size, descriptor=None):
        self.size = size
        self.descriptor = nameless_file(size) if descriptor is None else descriptor
        self.memory = mmap.mmap(self.descriptor, max(size, 1))
        self.address = address_of(self.memory)
        _BLOCKS[self.address] = self
        register_pickling()

    def tensor(self, dtype, shape, strides, offset):
        return _core.from_memory(self.address, self.size, self, tuple(shape), tuple(strides), offset, dtype)

    def __del__(self):
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


def nameless_file(size):
    """The descriptor of a file of that size that nobody else can open."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("flambeau")
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, max(size, 1))
    return descriptor


def address_of(memory):
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def block_of(tensor):
    """The block that holds a tensor, or None."""
    return (
        None
        if tensor.is_shape_only
        else _BLOCKS.get(tensor.data_ptr() - tensor.storage_offset() * tensor.element_size())
    )


def is_shared(self):
    """True if other processes can see the elements."""
    return block_of(self) is not None


def share_memory_(self):
    """Move the elements into memory that other processes can share; the tensor stays the same object.

    Views made before keep the old memory.
    """
    if self.is_shape_only or is_shared(self):
        return self
    source = self.detach()
    _, bytes_of_storage = storage_of(source)
    block = Block(len(bytes_of_storage))
    block.memory[: block.size] = bytes(bytes_of_storage)
    self._assign(block.tensor(self.dtype, self.shape, self.stride(), self.storage_offset()))
    return self


# ---------------------------------------------------------------------------------- to other processes
def reduce_for_processes(tensor):
    """What the pickler of multiprocessing sends of a tensor."""
    block = block_of(tensor)
    if block is None or not tensor.is_leaf:
        return tensor.__reduce_ex__(4) if type(tensor) is not Tensor else reduce_tensor(tensor, 4)
    from multiprocessing.reduction import DupFd

    return rebuild_shared, (
        type(tensor),
        DupFd(block.descriptor),
        block.size,
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.requires_grad,
    )


def rebuild_shared(kind, descriptor, size, dtype, shape, strides, offset, requires_grad):
    """The tensor on the same memory, in another process."""
    made = Block(size, descriptor.detach()).tensor(dtype, shape, strides, offset)
    return kind(made, requires_grad) if kind is Parameter else made.requires_grad_(requires_grad)


def register_pickling():
    from multiprocessing.reduction import ForkingPickler

    for kind in (Tensor, Parameter):
        ForkingPickler.register(kind, reduce_for_processes)


METHODS = {"share_memory_": share_memory_, "is_shared": is_shared}
