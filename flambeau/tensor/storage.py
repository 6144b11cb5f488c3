"""The memory behind a tensor, as an object: bytes (`untyped_storage`) or elements (`storage`,
`FloatStorage(3)`).

A storage holds a tensor on the memory, which it shares with all views of it. The typed classes have no
instances of
their own: `FloatStorage(...)` makes a TypedStorage of float32, and `isinstance` asks for that dtype.
"""

from flambeau.base.errors import fail
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor import create
from flambeau.tensor.legacy import _PREFIXES
from flambeau.types import dtype as dtypes

_detach = Tensor.detach


class UntypedStorage:
    """The bytes that a tensor and its views share. Two are equal if they are the same memory.

    Args:
        content: a number of bytes, not set, or a sequence of them.
    """

    def __init__(self, content=0, *, device=None):
        self._tensor = _made(content, dtypes.uint8, device)

    @classmethod
    def of(cls, tensor):
        """The memory of a tensor."""
        if tensor.is_shape_only:
            raise NotImplementedError("Cannot access the storage of a meta tensor")
        made = cls.__new__(cls)
        made._tensor = _detach(tensor)
        return made

    @property
    def dtype(self):
        return dtypes.uint8

    @property
    def device(self):
        return self._tensor.device

    is_cuda = is_sparse = is_hpu = False
    filename = None

    def nbytes(self):
        """The number of bytes."""
        return len(self._tensor.storage_)

    def element_size(self):
        """Bytes of one element."""
        return self.dtype.itemsize

    def size(self):
        """The number of elements."""
        return self.nbytes() // self.element_size()

    __len__ = size

    def data_ptr(self):
        """The address of the first byte."""
        return self._tensor.data_ptr() - self._tensor.storage_offset() * self._tensor.element_size()

    @property
    def _cdata(self):
        return self._tensor.storage_.address

    def elements(self):
        """All elements as a 1-d tensor on the same memory."""
        tensor = self._tensor
        if tensor.dtype is self.dtype:
            return _core.view_of(tensor, (self.size(),), (1,), -tensor.storage_offset())
        return _core.from_memory(self.data_ptr(), self.nbytes(), tensor, (self.size(),), (1,), 0, self.dtype)

    def tolist(self):
        """The elements as numbers."""
        return self.elements().tolist()

    def is_shared(self):
        """True if other processes can see the memory."""
        return self._tensor.is_shared()

    def share_memory_(self):
        """Move the elements into memory that other processes can share; tensors made before keep the old
        memory."""
        self._tensor.share_memory_()
        return self

    def fill_(self, value):
        """Set every element."""
        self.elements().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        """Take over the elements of another storage of this size."""
        self.elements().copy_(source.elements())
        return self

    def clone(self):
        """A copy."""
        return type(self)._on(self.elements().clone())

    @classmethod
    def _on(cls, elements):
        return cls.of(elements)

    def cpu(self):
        """Itself."""
        return self

    def cuda(self, *args, **kwargs):
        """Refused: there is no such device."""
        return self._tensor.cuda(*args, **kwargs)

    def pin_memory(self, device="cuda"):
        """Itself."""
        return self

    def is_pinned(self, device="cuda"):
        """False."""
        return False

    def resize_(self, size):
        """Refused unless it is the size: tensors on the memory would be left without it."""
        if size != self.size():
            fail(
                "resize_",
                "the memory of tensors keeps its size",
                size,
                self.size(),
                kind=NotImplementedError,
                hint="make a storage of the new size, and tensor.set_(storage)",
            )
        return self

    def type(self):
        """The name of the class."""
        return "torch.storage.UntypedStorage"

    def __getitem__(self, index):
        found = self.elements()[index]
        return found.item() if found.ndim == 0 else type(self).of(found.clone())

    def __setitem__(self, index, value):
        self.elements()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self):
        return hash(self.data_ptr())

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), self.clone())

    def __reduce__(self):
        return _restored, (type(self), self.elements().clone())

    def __repr__(self):
        name = f"{dtypes.repr_prefix()}.storage.{type(self).__name__}"
        return (
            "".join(f" {value}\n" for value in self.tolist())
            + f"[{name}({self._about()}) of size {self.size()}]"
        )

    def _about(self):
        return f"device={self.device}"


class TypedStorage(UntypedStorage):
    """The elements that a tensor and its views share, in the order of memory."""

    def __init__(self, *content, dtype=None, device=None, wrap_storage=None):
        if wrap_storage is not None:
            content, self._tensor = (), wrap_storage._tensor
            dtype = dtypes.get_default_dtype() if dtype is None else dtype
            self._tensor = _core.from_memory(
                wrap_storage.data_ptr(),
                wrap_storage.nbytes(),
                wrap_storage._tensor,
                (wrap_storage.nbytes() // dtype.itemsize,),
                (1,),
                0,
                dtype,
            )
            return
        if len(content) > 1:
            raise TypeError("a storage is made of a size or of a sequence of elements")
        self._tensor = _made(
            *(content or (0,)), dtypes.get_default_dtype() if dtype is None else dtype, device
        )

    @property
    def dtype(self):
        return self._tensor.dtype

    def untyped(self):
        """The same memory as bytes."""
        return UntypedStorage.of(self._tensor)

    @property
    def _untyped_storage(self):
        return self.untyped()

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return super().__getitem__(index)

    def type(self, dtype=None):
        """'torch.FloatStorage' and the like; with a dtype the storage in it."""
        if dtype is not None:
            return TypedStorage.of(self.elements().to(dtype))
        return f"torch.{_NAMES[self.dtype.name]}Storage"

    def _about(self):
        return f"dtype={dtypes.repr_prefix()}.{self.dtype.name}, device={self.device}"


def _made(content, dtype, device):
    """A new tensor: of a number of elements, or with the elements of a sequence."""
    if (
        isinstance(content, bool)
        or isinstance(content, (Tensor, str))
        or not (hasattr(content, "__index__") or hasattr(content, "__len__"))
    ):
        raise TypeError(
            f"a storage is made of a size or of a sequence of elements, got {type(content).__name__}"
        )
    if hasattr(content, "__index__"):
        return create.empty((int(content),), dtype=dtype, device=device)
    return create.tensor(list(content), dtype=dtype, device=device)


def _restored(kind, elements):
    return kind.of(elements)


class StorageType(type):
    """The type of FloatStorage and its kin."""

    def __call__(cls, *content, device=None):
        return TypedStorage(*content, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, value):
        return isinstance(value, TypedStorage) and value.dtype is cls.dtype

    def __repr__(cls):
        return f"<class '{dtypes.repr_prefix()}.{cls.__name__}'>"


_NAMES = {name: prefix for prefix, name in _PREFIXES.items()} | {
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}
_NAMES |= {name: name.capitalize() for name in ("uint16", "uint32", "uint64")}
TYPES = {
    f"{prefix}Storage": StorageType(
        f"{prefix}Storage",
        (),
        {"dtype": dtypes.by_name(name), "__module__": "torch", "__doc__": f"Makes storages of {name}."},
    )
    for name, prefix in _NAMES.items()
    if not name.startswith("uint") or name == "uint8"
}


def _casting(name):
    def method(self):
        return TypedStorage.of(self.elements().to(dtypes.by_name(name)))

    method.__doc__ = f"The elements in {name}, as a new storage."
    return method


for _method, _dtype in (
    ("float", "float32"),
    ("double", "float64"),
    ("half", "float16"),
    ("bfloat16", "bfloat16"),
    ("long", "int64"),
    ("int", "int32"),
    ("short", "int16"),
    ("char", "int8"),
    ("byte", "uint8"),
    ("bool", "bool"),
):
    setattr(UntypedStorage, _method, _casting(_dtype))


def storage_type(tensor):
    """The type of `tensor.storage()`, such as FloatStorage."""
    return TYPES[f"{_NAMES[tensor.dtype.name]}Storage"]


METHODS = {
    "untyped_storage": lambda self: UntypedStorage.of(self),
    "storage": lambda self: TypedStorage.of(self),
    "storage_type": storage_type,
    "is_set_to": lambda self, tensor: (
        isinstance(tensor, Tensor)
        and self.data_ptr() == tensor.data_ptr()
        and tuple(self.shape) == tuple(tensor.shape)
        and self.stride() == tensor.stride()
    ),
}
