"""The memory behind a tensor, as an object: bytes (`untyped_storage`) or elements (`storage`)."""

from flambeau.runtime._core import Tensor
from flambeau.tensor.save import storage_of
from flambeau.types import dtype as dtypes


class UntypedStorage:
    """The bytes that a tensor and its views share. Two are equal if they are the same memory."""

    def __init__(self, tensor):
        self._tensor = tensor.detach()
        if tensor.is_shape_only:
            raise NotImplementedError("Cannot access the storage of a meta tensor")
        self._owner, self._bytes = storage_of(self._tensor)

    def nbytes(self):
        """The number of bytes."""
        return len(self._bytes)

    def data_ptr(self):
        """The address of the first byte."""
        return self._tensor.data_ptr() - self._tensor.storage_offset() * self._tensor.element_size()

    def tolist(self):
        """The bytes as numbers."""
        return list(self._bytes)

    def is_shared(self):
        """True if other processes can see the bytes."""
        return self._tensor.is_shared()

    @property
    def device(self):
        return self._tensor.device

    size = __len__ = nbytes

    def __getitem__(self, index):
        return self._bytes[index]

    def __iter__(self):
        return iter(self._bytes)

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self):
        return hash(self.data_ptr())


class TypedStorage(UntypedStorage):
    """The elements that a tensor and its views share, in the order of memory."""

    @property
    def dtype(self):
        return self._tensor.dtype

    def elements(self):
        """All elements as a 1-d tensor on the same memory."""
        from flambeau.ops.strided import as_strided
        return as_strided(self._tensor, (self.size(),), (1,), 0)

    def size(self):
        """The number of elements."""
        return self.nbytes() // self._tensor.element_size()

    __len__ = size

    def untyped(self):
        """The same memory as bytes."""
        return UntypedStorage(self._tensor)

    def tolist(self):
        return self.elements().tolist()

    def __getitem__(self, index):
        found = self.elements()[index]
        return found.item() if found.ndim == 0 else found.tolist()

    def __setitem__(self, index, value):
        self.elements()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __repr__(self):
        return f"[{type(self).__name__}(dtype={dtypes.repr_prefix()}.{self.dtype.name}) of size {self.size()}]"


METHODS = {"untyped_storage": lambda self: UntypedStorage(self), "storage": lambda self: TypedStorage(self),
           "is_set_to": lambda self, tensor: isinstance(tensor, Tensor)
           and self.data_ptr() == tensor.data_ptr()
           and tuple(self.shape) == tuple(tensor.shape) and self.stride() == tensor.stride()}
