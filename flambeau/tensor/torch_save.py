"""Writing PyTorch's files: the zip format, and the older one for programs that want it.

The object is pickled with the names under which PyTorch knows its parts (`torch_names`); tensors become the
calls that PyTorch's own files have, and their storages records of the archive. Tensors on one memory share
one record. Unlike PyTorch, a part of a large tensor takes the bytes of the part.
"""

import hashlib
import io
import os
import pickle
import struct
import sys
from collections import OrderedDict

from flambeau.base.cache import atomic_write
from flambeau.runtime._core import NativeOp, Size, Tensor
from flambeau.tensor import torch_names, torch_places
from flambeau.tensor.parameter import Parameter
from flambeau.tensor.rng import Generator
from flambeau.tensor.save import storage_of
from flambeau.tensor.storage import TypedStorage, UntypedStorage
from flambeau.tensor.torch_known import STORAGES
from flambeau.tensor.torch_load import MAGIC, PROTOCOL
from flambeau.tensor.torch_zip import ArchiveWriter
from flambeau.types import dtype as dtypes
from flambeau.types.device import Device
from flambeau.types.info import Layout

DEFAULT_PROTOCOL = 2
_ALIGNMENT = 64  # bytes: a multiple of every element's size
_WORTH_IT = 4096  # bytes: if that much of a memory is shown by no tensor, it is left out
_STORAGE_OF_DTYPE = {name: storage for storage, name in STORAGES.items()}


class MissingFolder(FileNotFoundError, RuntimeError):
    """The folder that a file is to be saved in does not exist."""


def write_torch(obj, f, protocol=DEFAULT_PROTOCOL, zipped=True, byteorder=True):
    """Write `obj` to a path, which is replaced at once when all is written, or to a file object."""
    writer = _Writer(obj, protocol, zipped, byteorder)
    if hasattr(f, "write"):
        writer.write(f, "archive")
        return
    path = os.fspath(f)
    path = os.fsdecode(path)
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise MissingFolder(2, f"Parent directory {folder} does not exist", path)
    name = os.path.splitext(os.path.basename(path))[0].replace("\\", "_").replace("\0", "_")
    try:
        atomic_write(path, lambda file: writer.write(file, name if name.strip(".") else "archive"))
    except OSError as error:
        text = f"[save] could not write {writer.size} bytes ({error.strerror}); the old file is untouched"
        raise OSError(error.errno, text, path) from error


class _Writer:
    """A pickled object and its storages, ready to be written."""

    def __init__(self, obj, protocol, zipped, byteorder):
        self.zipped, self.byteorder = zipped, byteorder
        stream = io.BytesIO()
        pickler = _Pickler(stream, protocol, legacy=not zipped)
        pickler.dump(obj)
        unseen = pickler.unseen()
        if unseen:  # once more, now that it is known which parts of the memories are shown
            stream = io.BytesIO()
            self.first = pickler  # keeps what it has made alive, so that an address means the same memory
            pickler = _Pickler(stream, protocol, legacy=not zipped, parts=unseen)
            pickler.dump(obj)
        self.protocol, self.pickled, self.storages, self.kept = (
            protocol,
            stream.getvalue(),
            pickler.storages,
            pickler,
        )
        self.size = len(self.pickled) + sum(data.nbytes for data, _ in self.storages)

    def write(self, file, root):
        if self.zipped:
            self._write_zip(ArchiveWriter(file, root, torch_places.setting("crc32")))
        else:
            self._write_legacy(file)

    def _write_zip(self, archive):
        archive.add("data.pkl", self.pickled)
        archive.add(".format_version", b"1")
        archive.add(".storage_alignment", b"64")
        if self.byteorder:
            archive.add("byteorder", sys.byteorder.encode())
        for number, (data, _) in enumerate(self.storages):
            archive.add(f"data/{number}", bytes(data.nbytes) if torch_places.setting("skip_data") else data)
        archive.add("version", b"3\n")
        archive.add(".data/serialization_id", _identity(archive.directory))
        archive.close()

    def _write_legacy(self, file):
        facts = {
            "protocol_version": PROTOCOL,
            "little_endian": sys.byteorder == "little",
            "type_sizes": {"short": 2, "int": 4, "long": 4},
        }
        for part in (MAGIC, PROTOCOL, facts):
            file.write(pickle.dumps(part, self.protocol))
        file.write(self.pickled)
        keys = sorted(str(number) for number in range(len(self.storages)))
        file.write(pickle.dumps(keys, self.protocol))
        for key in keys:
            data, width = self.storages[int(key)]
            file.write(struct.pack("=q", data.nbytes // width))
            file.write(data)


def _identity(directory):
    """40 digits that tell archives of other content apart."""
    digest = hashlib.sha256(repr([(name, crc, size) for name, crc, size, _ in directory]).encode()).digest()
    return f"{int.from_bytes(digest[:8], 'big'):020d}{int.from_bytes(digest[8:16], 'big'):020d}".encode()


class _Memory:
    """The memory behind a tensor that is being written; `dtype` None: as bytes."""

    def __init__(self, tensor, dtype):
        self.tensor, self.dtype = tensor, dtype


class _Name:
    """Something of PyTorch's that is written by its name only."""

    def __init__(self, module, name):
        self.module, self.__name__ = module, name

    def __call__(self):
        raise TypeError("a name in a file")


def _builder(name):
    module, _, last = name.rpartition(".")
    return _Name(module, last)


_TENSOR, _TENSOR_OF_DTYPE = (
    _builder("torch._utils._rebuild_tensor_v2"),
    _builder("torch._utils._rebuild_tensor_v3"),
)
_META, _SPARSE = (
    _builder("torch._utils._rebuild_meta_tensor_no_storage"),
    _builder("torch._utils._rebuild_sparse_tensor"),
)
_PARAMETER, _PARAMETER_WITH = (
    _builder("torch._utils._rebuild_parameter"),
    _builder("torch._utils._rebuild_parameter_with_state"),
)
_OF_TYPE, _NESTED = (
    _builder("torch._tensor._rebuild_from_type_v2"),
    _builder("torch._utils._rebuild_nested_tensor"),
)
_LAYOUT, _DEVICE, _SIZE = (
    _builder("torch.serialization._get_layout"),
    _builder("torch.device"),
    _builder("torch.Size"),
)
_GENERATOR, _UNTYPED = _builder("torch._C.Generator"), _builder("torch.storage.UntypedStorage")
_KINDS = {name: _Name("torch", storage) for name, storage in _STORAGE_OF_DTYPE.items()}


_QUICK = {
    kind: pickle._Pickler.dispatch[kind]
    for kind in (str, int, float, bool, type(None), bytes, tuple, list, dict, set)
}


class _Pickler(pickle._Pickler):
    """Python's pickler, which writes the names of this house as PyTorch's; it collects the storages."""

    def __init__(self, stream, protocol, legacy=False, parts=None):
        """parts: (address, bytes) of a memory -> (start, end) of what is written of it; None: all."""
        super().__init__(stream, protocol)
        self.legacy, self.parts = legacy, parts or {}
        self.shown = {}  # (address, bytes) of a memory -> [start, end] of what its tensors show
        self.storages = []  # (bytes, bytes of one element)
        self._keys = {}  # (address, bytes) of a memory -> (its number, the dtype that it was first saved in)
        self._alive = []  # what made the storages, so that no other memory gets their addresses
        self._names = {}

    def save(self, obj, save_persistent_id=True):
        """As the base class does, with a shorter way for the kinds of objects that plain data are made of."""
        quick = _QUICK.get(type(obj))
        if quick is None:
            super().save(obj, save_persistent_id)
            return
        self.framer.commit_frame()
        known = self.memo.get(id(obj))
        if known is None:
            quick(self, obj)
        else:
            self.write(self.get(known[0]))

    # ------------------------------------------------------------------ names
    def save_global(self, obj, name=None):
        if isinstance(obj, _Name):
            found = obj.module, obj.__name__
        elif isinstance(obj, dtypes.DType):
            found = "torch", obj.name
        else:
            if id(obj) not in self._names:
                self._names[id(obj)] = torch_names.torch_name(obj), obj
            found = self._names[id(obj)][0]
        if found is None:
            super().save_global(obj, name)
            return
        if self.proto >= 4:
            self.save(found[0])
            self.save(found[1])
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{found[0]}\n{found[1]}\n".encode())
        self.memoize(obj)

    def save_type(self, obj):
        if obj in (type(None), type(NotImplemented), type(...)):
            super().save_type(obj)
        else:
            self.save_global(obj)

    dispatch = {**pickle._Pickler.dispatch, type: save_type, type(lambda: None): save_global}

    # ------------------------------------------------------------------ storages
    def persistent_id(self, obj):
        if isinstance(obj, _Memory):
            return self._storage(obj.tensor, obj.dtype)
        if not isinstance(obj, UntypedStorage):
            return None
        address, data = storage_of(obj._tensor)
        self.shown[address, data.nbytes] = [0, data.nbytes]
        return self._storage(obj._tensor, obj.dtype if isinstance(obj, TypedStorage) else None)

    def _storage(self, tensor, dtype):
        """The persistent id of the memory behind `tensor`; `dtype` None: as bytes."""
        address, data = storage_of(tensor)
        key = address, data.nbytes
        kind = _UNTYPED if dtype is None else _KINDS[dtype.name]
        width = dtype.itemsize if dtype is not None else 1
        if key not in self._keys:
            start, end = self.parts.get(key, (0, data.nbytes))
            self._keys[key] = len(self.storages), dtype
            self.storages.append((data[start : start + (end - start) // width * width], width))
            self._alive.append(tensor)
        number = self._keys[key][0]
        identity = ("storage", kind, str(number), "cpu", self.storages[number][0].nbytes // width)
        return (*identity, None) if self.legacy else identity

    def _show(self, tensor, key):
        """Note which bytes of a memory a tensor shows; its offset from where the memory is written."""
        offset, width = int(tensor.storage_offset()), tensor.dtype.itemsize
        reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        start, end = offset * width, (offset + reach + 1) * width if tensor.numel() else offset * width
        known = self.shown.setdefault(key, [start, end])
        known[0], known[1] = min(known[0], start), max(known[1], end)
        return offset - self.parts.get(key, (0, 0))[0] // width

    def unseen(self):
        """The part to write of each memory of which much is not shown: (address, bytes) -> (start, end)."""
        parts = {}
        for key, (start, end) in self.shown.items():
            start = start // _ALIGNMENT * _ALIGNMENT
            end = max(start, min(key[1], -(-end // _ALIGNMENT) * _ALIGNMENT))
            if key[1] - (end - start) >= _WORTH_IT:
                parts[key] = start, end
        return parts

    # ------------------------------------------------------------------ objects
    def reducer_override(self, obj):
        """What is written for objects of this house; NotImplemented for the rest, which pickle knows."""
        if isinstance(obj, (_Name, dtypes.DType)):
            return obj.__name__ if isinstance(obj, _Name) else obj.name
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        if isinstance(obj, Device):
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        if type(obj) is Size:
            return _SIZE, (tuple(map(int, obj)),)
        if isinstance(obj, Layout):
            return _LAYOUT, (f"torch.{obj.name}",)
        if isinstance(obj, Generator):
            return _GENERATOR, (obj.device,), (obj.initial_seed(), None, obj.get_state())
        if isinstance(obj, NativeOp) and torch_names.torch_name(obj) is not None:
            return obj.__name__
        return NotImplemented

    def _tensor(self, tensor):
        kind = type(tensor)
        uninitialized = kind.__name__ in ("UninitializedParameter", "UninitializedBuffer")
        if uninitialized and kind.__module__.startswith("flambeau."):
            return kind, (tensor.requires_grad,)
        if hasattr(kind, "saved_parts"):
            return _with_parts(tensor)
        if kind is Parameter or issubclass(kind, Parameter) and kind.__module__.startswith("flambeau."):
            state = _attributes(tensor)
            args = (tensor.detach(), tensor.requires_grad, OrderedDict())
            return (_PARAMETER_WITH, (*args, state)) if state else (_PARAMETER, args)
        builder, args = self._plain(tensor)
        state = _attributes(tensor)
        if kind is not Tensor or state:
            return _OF_TYPE, (builder, kind, args, state)
        return builder, args

    def _plain(self, tensor):
        """(builder, arguments) of the elements alone."""
        size, requires_grad = tuple(map(int, tensor.shape)), bool(tensor.requires_grad)
        stride = tuple(map(int, tensor.stride()))
        if tensor.device.type == "meta":
            return _META, (tensor.dtype, size, stride, requires_grad)
        plain = tensor.detach() if type(tensor) is Tensor else tensor.detach().as_subclass(Tensor)
        dtype = tensor.dtype
        address, data = storage_of(plain)
        key = address, data.nbytes
        first, offset = self._keys.get(key), self._show(plain, key)
        if (
            dtype.name not in _KINDS
            or data.nbytes % dtype.itemsize
            or first is not None
            and first[1] is not dtype
        ):
            return _TENSOR_OF_DTYPE, (
                _Memory(plain, None),
                offset,
                size,
                stride,
                requires_grad,
                OrderedDict(),
                dtype,
            )
        return _TENSOR, (_Memory(plain, dtype), offset, size, stride, requires_grad, OrderedDict())


def _attributes(tensor):
    """The attributes that a program has set on a tensor, without hooks; None if there are none."""
    own = dict(getattr(tensor, "__dict__", None) or {}) if type(tensor) not in (Tensor, Parameter) else {}
    return {
        **{name: value for name, value in (tensor._extra or {}).items() if not _internal(name)},
        **own,
    } or None


def _internal(name):
    return name.startswith("__") or name in INTERNAL


INTERNAL = {"_hooks", "_accumulated_hooks"}  # what the runtime keeps among a tensor's attributes


def _with_parts(tensor):
    """Sparse and nested tensors."""
    parts = tensor.saved_parts()
    if tensor.saved_as == "sparse":
        form, inner, sizes, coalesced, _ = parts
        facts = (*inner, Size(sizes), coalesced) if form == "sparse_coo" else (*inner, Size(sizes))
        return _SPARSE, (tensor.layout, facts)
    form, inner, facts, requires_grad = parts
    if tensor.saved_as != "nested" or form != "strided":
        raise TypeError(
            f"[save] a tensor of layout {tensor.layout} has no form in PyTorch's files here\n"
            "  hint: save its values() and offsets(), or write with flambeau.save"
        )
    from flambeau.tensor.create import tensor as make

    sizes = [tuple(map(int, size)) for size in facts["item_sizes"]]
    rank = len(sizes[0]) if sizes else 0
    strides, starts, at = [], [], 0
    for size in sizes:
        step, row = 1, []
        for number in reversed(size):
            row.append(step)
            step *= max(number, 1)
        strides.append(row[::-1])
        starts.append(at)
        at += step if 0 not in size else 0
    buffer = inner[0].requires_grad_(requires_grad) if requires_grad else inner[0]
    return _NESTED, (
        buffer,
        make(sizes, dtype=dtypes.int64).reshape(len(sizes), rank),
        make(strides, dtype=dtypes.int64).reshape(len(sizes), rank),
        make(starts, dtype=dtypes.int64),
    )
