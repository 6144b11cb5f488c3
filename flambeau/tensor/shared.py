"""Memory that processes share: `share_memory_`, and how such tensors travel to other processes without a
copy.

A block is a file without a name that is mapped into memory. A forked child inherits the mapping; to any other
process the pickler of `multiprocessing` sends the file's descriptor.
"""

import ctypes
import os
import weakref

from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor.copying import reduce_tensor
from flambeau.tensor.parameter import Parameter
from flambeau.tensor.save import storage_of

_BLOCKS = weakref.WeakValueDictionary()  # address -> Block


# ---------------------------------------------------------------------------------- files in memory
class Mapping:
    """`size` bytes of a file at `address`, for as long as this object lives; it holds no descriptor."""

    __slots__ = ("address", "size", "__weakref__")

    def __init__(self, descriptor, size):
        self.size, self.address = size, None
        self.address = map_file(descriptor, size)

    def __del__(self):
        if self.address is not None and _libc is not None:
            _libc.munmap(self.address, max(self.size, 1))


def _load_libc():
    """The C library with the types of the two functions that are called."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                             ctypes.c_long)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library


_libc = None


def map_file(descriptor, size):
    """The address at which `size` bytes of a file are mapped, shared with all who map it."""
    global _libc
    import mmap

    if _libc is None:
        _libc = _load_libc()
    flags = mmap.MAP_SHARED
    address = _libc.mmap(None, max(size, 1), mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot map {size} bytes of shared memory: {os.strerror(number)}")
    return address


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


class Block:
    """Bytes that this process shares with others, and the descriptor to hand on."""

    def __init__(self, size, descriptor=None):
        self.size = size
        self.descriptor = nameless_file(size) if descriptor is None else descriptor
        self.mapping = Mapping(self.descriptor, size)
        self.address = self.mapping.address
        _BLOCKS[self.address] = self
        register_pickling()

    def tensor(self, dtype, shape, strides, offset):
        return _core.from_memory(self.address, self.size, self, tuple(shape), tuple(strides), offset, dtype)

    def __del__(self):
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


# ---------------------------------------------------------------------------------- methods of tensors
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
    ctypes.memmove(block.address, source.storage_.address, block.size)
    self._assign(block.tensor(self.dtype, self.shape, self.stride(), self.storage_offset()))
    return self


# ---------------------------------------------------------------------------------- to other processes
def reduce_for_processes(tensor):
    """What multiprocessing sends of a tensor: it moves into shared memory, and its block travels."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("a tensor that was computed from others that require grad cannot be sent to "
                           "another process: the tape does not cross processes\n  hint: send tensor.detach()")
    if tensor.is_shape_only:
        return tensor.__reduce_ex__(4) if type(tensor) is not Tensor else reduce_tensor(tensor, 4)
    if tensor.numel() == 0:
        return rebuild_empty, (type(tensor), tensor.dtype, tuple(tensor.shape), tensor.requires_grad)
    from multiprocessing.reduction import DupFd

    block = block_of(share_memory_(tensor))
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
    return as_kind(made, kind, requires_grad)


def rebuild_empty(kind, dtype, shape, requires_grad):
    """A tensor without elements."""
    return as_kind(_core.empty_strided(shape, None, dtype), kind, requires_grad)


def as_kind(tensor, kind, requires_grad):
    """`tensor` as a Parameter or a plain tensor."""
    return kind(tensor, requires_grad) if kind is Parameter else tensor.requires_grad_(requires_grad)


def register_pickling():
    """From now on multiprocessing's queues, pipes and processes send tensors through shared memory."""
    from multiprocessing.reduction import ForkingPickler

    for kind in (Tensor, Parameter):
        ForkingPickler.register(kind, reduce_for_processes)


METHODS = {"share_memory_": share_memory_, "is_shared": is_shared}
