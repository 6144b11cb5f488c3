"""DLPack: tensors and arrays of other libraries on the same memory.

    array = numpy.from_dlpack(tensor)
    tensor = fl.from_dlpack(array)

A capsule holds a C record that says where the elements are and whom to call when they are no longer needed: a
`ManagedTensor`, or since version 1.0 of the protocol a `VersionedTensor`, which can also say that the memory may be
written. Who takes the record renames the capsule; a capsule that nobody took frees the record itself.
"""

import ctypes

from flambeau.base.errors import fail
from flambeau.runtime import _core
from flambeau.types import dtype as dtypes
from flambeau.types.layout import contiguous_strides

_CPU = 1
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4
_VERSION = (1, 0)


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("number", ctypes.c_int32)]


class ElementType(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Array(ctypes.Structure):
    """DLTensor: sizes and strides count elements; no strides means row-major."""

    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32),
                ("dtype", ElementType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class ManagedTensor(ctypes.Structure):
    """DLManagedTensor: `deleter(record)` is called once, by the last user."""

    _fields_ = [("array", Array), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class VersionedTensor(ctypes.Structure):
    """DLManagedTensorVersioned; bit 0 of `flags`: only for reading."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("array", Array)]


_RECORDS = {b"dltensor": ManagedTensor, b"dltensor_versioned": VersionedTensor}
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_lent = {}          # address of a record -> what must live as long as it


@_Deleter
def _give_back(address):
    _lent.pop(address, None)


@_Deleter
def _drop_capsule(capsule):
    """The capsule's destructor: it frees the record of a capsule that nobody took."""
    for name in _RECORDS:
        if _is_valid(capsule, name):
            _give_back(_pointer_in(capsule, name))


def _api(name, result, *arguments):
    function = ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))
    return function


_is_valid = _api("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_in = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_new_capsule = _api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_rename = _api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_keep = _api("Py_IncRef", None, ctypes.py_object)
_USED = {name: b"used_" + name for name in _RECORDS}      # a capsule does not copy its name
for _callback in (_give_back, _drop_capsule):       # they are called as late as while the interpreter ends
    _keep(_callback)


def to_dlpack(tensor, versioned=False):
    """A capsule with the tensor's memory; one consumer may take it.

    Args:
        tensor: the tensor; the capsule's user may write into it.
        versioned: make the record of version 1.0.

    Raises:
        BufferError: for a tensor that requires gradients, or without memory.
    """
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor.is_shape_only:
        raise BufferError("Can't export a meta tensor: it has no memory")
    dtype = tensor.dtype
    kind = _BFLOAT if dtype.name == "bfloat16" else _KINDS[dtype.kind]
    sizes = (ctypes.c_int64 * max(tensor.ndim, 1))(*tensor.shape)
    strides = (ctypes.c_int64 * max(tensor.ndim, 1))(*tensor.stride())
    array = Array(tensor.data_ptr() or None, Device(_CPU, 0), tensor.ndim,
                  ElementType(kind, 8 * dtype.itemsize, 1),
                  sizes, strides, 0)
    deleter = ctypes.cast(_give_back, ctypes.c_void_p)
    record = VersionedTensor(*_VERSION, None, deleter, 0, array) if versioned else ManagedTensor(array, None,
                                                                                                 deleter)
    address = ctypes.addressof(record)
    _lent[address] = (record, tensor.detach(), sizes, strides)
    name = b"dltensor_versioned" if versioned else b"dltensor"
    return _new_capsule(address, name, ctypes.cast(_drop_capsule, ctypes.c_void_p))


class Borrowed:
    """Another library's record; gives it back when the last tensor on its memory is gone."""

    def __init__(self, address, kind):
        self.address, self.kind = address, kind

    def __del__(self):
        deleter = self.kind.from_address(self.address).deleter
        if deleter:
            _Deleter(deleter)(self.address)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor on the memory of another library's array, or of a capsule.

    >>> import numpy
    >>> from_dlpack(numpy.arange(3.0))
    tensor([0., 1., 2.], dtype=flambeau.float64)
    """
    capsule = _capsule_of(ext_tensor) if hasattr(ext_tensor, "__dlpack__") else ext_tensor
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(f"from_dlpack(): expected an object with __dlpack__ or a capsule, got {type(ext_tensor).__name__}")
    address = id(capsule)       # CPython: the address of the object
    name = next((name for name in _RECORDS if _is_valid(address, name)), None)
    if name is None:
        fail("from_dlpack", "the capsule was used before or has no tensor",
             hint="a capsule can be taken once")
    kind, record = _RECORDS[name], _pointer_in(address, name)
    _rename(capsule, _USED[name])
    made = _on(Borrowed(record, kind), kind.from_address(record).array)
    return made.clone() if copy else made


def _capsule_of(array):
    """The capsule of the newest version that the other library knows."""
    try:
        return array.__dlpack__(max_version=_VERSION)
    except TypeError:           # from before version 1.0
        return array.__dlpack__()


def _on(owner, array):
    """A tensor on the memory that `array` describes."""
    if array.device.type != _CPU:
        fail("from_dlpack", "the array is not in the memory of the CPU", f"device type {array.device.type}",
             "1 (CPU)")
    dtype = _dtype_of(array.dtype)
    shape = tuple(array.shape[i] for i in range(array.ndim))
    strides = tuple(array.strides[i]
                    for i in range(array.ndim)) if array.strides else contiguous_strides(shape)
    if any(stride < 0 for stride in strides):
        fail("from_dlpack", "the array has negative strides", strides, "strides of 0 or more",
             hint="pass a copy",
             kind=ValueError)
    is_empty = 0 in shape
    span = 0 if is_empty else (sum((n - 1) * s for n, s in zip(shape, strides)) + 1) * dtype.itemsize
    strides = contiguous_strides(shape) if is_empty else strides
    return _core.from_memory((array.data or 0) + array.byte_offset, span, owner, shape, tuple(strides), 0,
                             dtype)


def _dtype_of(element):
    for dtype in dtypes.ALL:
        kind = _BFLOAT if dtype.name == "bfloat16" else _KINDS[dtype.kind]
        if (element.kind, element.bits, element.lanes) == (kind, 8 * dtype.itemsize, 1):
            return dtype
    fail("from_dlpack", "there is no such dtype here",
         f"kind {element.kind} of {element.bits} bits, {element.lanes} lanes",
         kind=TypeError)


def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """The capsule of the DLPack protocol; see `to_dlpack`."""
    if stream is not None:
        raise RuntimeError("stream should be None for tensors on the CPU")
    if dl_device is not None and tuple(dl_device) != (_CPU, 0):
        raise BufferError(f"the tensor is on the CPU, not on the device {dl_device}")
    return to_dlpack(self.clone() if copy else self, max_version is not None
                     and max_version[0] >= _VERSION[0])


METHODS = {"__dlpack__": _dlpack, "__dlpack_device__": lambda self: (_CPU, 0)}
