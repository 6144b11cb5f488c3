"""Reading PyTorch's files: the zip format, and the older one of pickles followed by raw storages.

`pickle_machine` runs the pickle under the rules of `torch_rules`; the `Loader` here makes storages and
tensors for it. Each storage must have as many bytes in the file as its record says, each tensor must lie
within its storage, and nothing else in the file is believed either. `mmap` maps the storages of a zip file,
copy on write, so that they are read from the disk when they are used.
"""

import io
import pickle
import struct
import sys

from flambeau.base.errors import fail
from flambeau.runtime._core import from_memory
from flambeau.tensor import torch_places
from flambeau.tensor.pickle_machine import Machine, PickleError
from flambeau.tensor.save import (
    _check_extent,
    _check_numbers,
    new_memory,
    tensor_without_data,
)
from flambeau.tensor.storage import TypedStorage, UntypedStorage
from flambeau.tensor.torch_known import StorageKind, find_known
from flambeau.tensor.torch_rules import Rules, UnknownGlobal
from flambeau.tensor.torch_zip import Archive, ArchiveError
from flambeau.types import dtype as dtypes

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
_DAMAGED = (PickleError, ArchiveError, ValueError, OverflowError, MemoryError)


class UnpicklingError(pickle.UnpicklingError, RuntimeError):
    """A file is damaged, or wants what loading does not do."""


class MetaStorage:
    """A storage without memory, of tensors that go to the device 'meta'."""

    def __init__(self, dtype, size):
        self.dtype, self.size = dtype, size

    def nbytes(self):
        return self.size


class Loader:
    """Makes the storages and tensors of one file.

    fetch(key, size): a UntypedStorage with the bytes of a storage; ValueError unless the file has as many.
    """

    def __init__(self, fetch, map_location, options):
        self.fetch, self.map_location, self.options = fetch, map_location, options
        self.swapped = False  # whether the file has the other byte order than this machine
        self._swapped = set()  # addresses of the storages whose bytes are in this machine's order by now
        self._memories = {}  # key -> (UntypedStorage or MetaStorage, dtype of its elements or None)
        self._storages = {}  # (key, dtype) -> the storage object

    # ------------------------------------------------------------------ storages
    def persistent(self, identity):
        """What a persistent id stands for: a storage, or (in the older format) the class of a module."""
        if type(identity) is not tuple or len(identity) < 2:
            raise PickleError("a reference to a storage that is none")
        if identity[0] == "module":
            return identity[1]
        if identity[0] != "storage" or len(identity) not in (5, 6):
            raise PickleError(f"a reference to {identity[0]!r}, which is no storage")
        _, kind, key, place, count, *view = identity
        if not isinstance(kind, StorageKind) or type(key) is not str or type(place) is not str:
            raise PickleError("a reference to a storage that is none")
        if kind.refusal:
            raise PickleError(kind.refusal)
        if view and view[0] is not None:
            raise PickleError("views of storages, which PyTorch wrote before 0.4, are not read")
        if type(count) is not int or not 0 <= count < 1 << 60:
            raise PickleError(f"a storage of {count!r} elements")
        return self._storage(kind.dtype, key, place, count)

    def _storage(self, dtype, key, place, count):
        size = count * (dtype.itemsize if dtype else 1)
        if key not in self._memories:
            memory = self.fetch(key, size, dtype)
            placed = torch_places.placed(memory, place, self.map_location)
            self._memories[key] = MetaStorage(dtype, size) if placed is None else placed
        memory = self._memories[key]
        if memory.nbytes() != size:
            raise PickleError(
                f"the storage {key!r} has {memory.nbytes()} bytes in one place and {size} in another"
            )
        if isinstance(memory, MetaStorage) or dtype is None:
            return memory
        if (key, dtype) not in self._storages:
            self._storages[key, dtype] = TypedStorage.of(_on(memory, dtype, (count,), (1,), 0))
        return self._storages[key, dtype]

    def swap(self, memory, dtype):
        """Bring the elements of a storage into this machine's byte order."""
        width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        if self.swapped and width > 1 and memory.nbytes() and memory.data_ptr() not in self._swapped:
            self._swapped.add(memory.data_ptr())
            import numpy

            kind = {2: "uint16", 4: "uint32", 8: "uint64"}[width]
            elements = numpy.frombuffer(bytes_of(memory), kind)
            elements.byteswap(inplace=True)

    # ------------------------------------------------------------------ tensors
    def sizes(self, values):
        """Sizes from the file as a tuple of ints."""
        values = list(values)
        _check_numbers(values, low=0)
        product = 1
        for number in values:
            product *= number
        if product >= 1 << 60:
            raise PickleError(f"a tensor of {product} elements")
        return tuple(values)

    def tensor(self, storage, dtype, offset, size, stride):
        """A tensor on a storage; `dtype` None: that of the storage's elements."""
        if not isinstance(storage, (UntypedStorage, MetaStorage)):
            raise PickleError(f"a tensor on a {type(storage).__name__}")
        dtype = dtype or (storage.dtype or dtypes.uint8)
        size, stride = self.sizes(size), list(stride)
        _check_extent(dtype, list(size), stride, offset, storage.nbytes())
        if any(step < 0 for step in stride):
            raise PickleError("a tensor with a negative stride")
        if isinstance(storage, MetaStorage):
            return tensor_without_data(dtype, size)
        if self.swapped and not isinstance(storage, TypedStorage):
            self.swap(storage, dtype)
        return _on(storage, dtype, size, stride, offset)

    def meta_tensor(self, dtype, size, stride):
        """A tensor without memory."""
        size = self.sizes(size)
        _check_numbers(list(stride), low=0)
        return tensor_without_data(dtype, size)

    def inner(self, data):
        """What a file within this file holds."""
        if type(data) is not bytes or self.options.depth > 0:
            raise PickleError("a file within a file within a file")
        return read(io.BytesIO(data), "a file within the file", self.options.inside())


def _on(storage, dtype, shape, strides, offset):
    return from_memory(
        storage.data_ptr(), storage.nbytes(), storage._tensor, tuple(shape), tuple(strides), offset, dtype
    )


def bytes_of(storage):
    """The memory of a storage, writable."""
    from flambeau.tensor.save import storage_of

    return storage_of(storage._tensor)[1]


def fresh_storage(size):
    """(storage, its writable bytes) of new memory."""
    owner, data = new_memory(size)
    return UntypedStorage.of(owner), data


# ---------------------------------------------------------------------------------- a file
class Options:
    """How a file is to be read."""

    def __init__(
        self, map_location=None, weights_only=True, mmap=None, encoding="utf-8", allowed=None, script=False
    ):
        self.map_location, self.weights_only, self.mmap = map_location, weights_only, mmap
        self.encoding, self.allowed, self.script = encoding, allowed or {}, script
        self.depth = 0

    def inside(self):
        """The same for a file within the file."""
        made = Options(self.map_location, self.weights_only, None, self.encoding, self.allowed)
        made.depth = self.depth + 1
        return made


def is_torch_file(start):
    """True for the first bytes of what PyTorch writes."""
    return start.startswith((b"PK\3\4", b"\x80")) or is_tar(start)


def is_tar(start):
    return start[257:262] == b"ustar"


def read(stream, name, options):
    """The object of a file. UnpicklingError, naming the file and what is wrong with it."""
    start = stream.read(512)
    stream.seek(-len(start), io.SEEK_CUR)
    if is_tar(start):
        fail(
            "load",
            f"{name}: the tar format of PyTorch 0.1 is not read",
            kind=UnpicklingError,
            hint="load it with a PyTorch of your own and save it again",
        )
    try:
        return _read_zip(stream, name, options) if start.startswith(b"PK") else _read_legacy(stream, options)
    except torch_places.UnknownPlace:
        raise
    except UnknownGlobal as error:
        _refuse_global(name, error, options)
    except _DAMAGED as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        fail(
            "load",
            f"{name}: {reason}",
            hint="nothing of it was loaded, and nothing in it was run; copy or download the "
            "file again, or save it again with what it is said to lack",
            kind=UnpicklingError,
        )


def _refuse_global(name, error, options):
    if options.weights_only:
        module, _, last = error.name.rpartition(".")
        hint = (
            f"if you trust the class, `from {module} import {last}` and allow it by "
            f"torch.serialization.add_safe_globals([{last}]) or in a block "
            f"`with torch.serialization.safe_globals([{last}]):`; or load the file "
            "with weights_only=False, which finds classes of the program and calls nothing else"
        )
        text = (
            f"Weights only load failed: {error}. It was not an allowed global by default: GLOBAL {error.name}"
        )
    else:
        text, hint = (
            str(error),
            "loading never calls functions that a file names; save data, or objects of your own classes",
        )
    fail("load", f"{name}: {text}", hint=hint, kind=UnpicklingError)


def _read_zip(stream, name, options):
    archive = Archive(stream)
    if "data.pkl" not in archive:
        raise ArchiveError("a zip archive without data.pkl, so not one that PyTorch wrote")
    if "constants.pkl" in archive and not options.script:
        import warnings

        from flambeau.tensor.torch_script import weights_of_archive

        warnings.warn(
            f"{name} is a TorchScript archive: its weights are loaded as a state_dict, its code is not run",
            UserWarning,
            stacklevel=6,
        )
        return weights_of_archive(stream, name, archive, options.map_location)
    loader = Loader(None, options.map_location, options)
    if "byteorder" in archive:
        order = archive.read("byteorder")
        if order not in (b"little", b"big"):
            raise ArchiveError(f"the byte order {order[:20]!r} is none")
        loader.swapped = order.decode() != sys.byteorder
    else:
        loader.swapped = torch_places.assumed_byte_order() not in (None, sys.byteorder)
    mapped = _map(stream, archive, name, loader) if options.mmap else None
    loader.fetch = _from_archive(archive, loader, mapped)
    rules = options.script(loader) if options.script else Rules(loader, options.weights_only, options.allowed)
    pickled = io.BytesIO(archive.read("data.pkl"))
    made = Machine(pickled, rules, loader.persistent, options.encoding, whole=archive.length).run()
    if pickled.read(1):
        raise PickleError("bytes follow the end of the pickle")
    return made


def _from_archive(archive, loader, mapped):
    def fetch(key, size, dtype):
        name = f"data/{key}"
        if not key.isascii() or "/" in key or archive.size(name) != size:
            raise PickleError(
                f"the storage {key!r} has {archive.size(name)} bytes in the file, but its tensors want {size}"
            )
        if mapped is not None and archive.offset(name) % (dtype.itemsize if dtype else 16) == 0:
            return mapped(archive.offset(name), size)
        storage, data = fresh_storage(size)
        archive.read_into(name, data)
        if dtype is not None:
            loader.swap(storage, dtype)
        return storage

    return fetch


def _map(stream, archive, name, loader):
    """A function that makes storages on the file itself."""
    import ctypes
    import mmap

    if loader.swapped:
        fail(
            "load",
            f"{name}: a file of another byte order cannot be mapped",
            hint="leave out mmap=True",
            kind=UnpicklingError,
        )
    private = torch_places.mmap_is_private()
    file = stream if hasattr(stream, "fileno") else stream.raw
    access = mmap.ACCESS_COPY if private else mmap.ACCESS_WRITE
    memory = mmap.mmap(file.fileno(), 0, access=access)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def make(offset, size):
        return UntypedStorage.of(from_memory(address + offset, size, memory, (size,), (1,), 0, dtypes.uint8))

    return make


# ---------------------------------------------------------------------------------- the older format
class _Shadow(dict):
    """Stands for any object while a pickle is only searched for its storages."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class _Search:
    """Rules under which a pickle makes nothing; its persistent ids are noted: {key: (dtype, elements)}."""

    def __init__(self):
        self.storages = {}

    def find(self, module, name):
        known = find_known(f"{module}.{name}")
        return known if isinstance(known, StorageKind) else _Shadow()

    def call(self, what, args, machine):
        return _Shadow()

    def new(self, kind, args, kwargs, machine):
        return _Shadow()

    def fill(self, target, state):
        pass

    extend = set_items = fill

    def persistent(self, identity):
        if type(identity) is tuple and len(identity) == 6 and isinstance(identity[1], StorageKind):
            _, kind, key, _, count, _ = identity
            if type(key) is str and type(count) is int and 0 <= count < 1 << 60:
                self.storages.setdefault(key, (kind.dtype, count))
        return _Shadow()


def _read_legacy(stream, options):
    """Pickles of a magic number, a version, facts of the machine, the object, the keys; then the storages.

    The object is searched for its storages first, since they stand behind it and sparse tensors are checked
    as they are made.
    """
    loader = Loader(None, options.map_location, options)
    plain = Rules(loader, True, {})
    if Machine(stream, plain, limit=min(64, _left(stream))).run() != MAGIC:
        raise PickleError("a pickle, but not one that torch.save wrote (the magic number is another)")
    if Machine(stream, plain).run() != PROTOCOL:
        raise PickleError("a protocol of torch.save that is not known")
    facts = Machine(stream, plain).run()
    little = facts.get("little_endian", True) if isinstance(facts, dict) else True
    loader.swapped = (sys.byteorder == "little") != bool(little)
    start, search = stream.tell(), _Search()
    Machine(stream, search, search.persistent, options.encoding).run()
    memories = _read_storages(stream, loader, search.storages, Machine(stream, plain).run())
    end = stream.tell()

    def fetch(key, size, dtype):
        if key not in memories:
            raise PickleError(f"the file lacks the storage {key!r}")
        return memories[key]

    loader.fetch = fetch
    stream.seek(start)
    made = Machine(
        stream, Rules(loader, options.weights_only, options.allowed), loader.persistent, options.encoding
    ).run()
    stream.seek(end)
    return made


def _read_storages(stream, loader, wanted, keys):
    """{key: storage} of what follows the pickles."""
    if type(keys) is not list or not all(type(key) is str for key in keys) or len(set(keys)) != len(keys):
        raise PickleError("the list of storages is none")
    memories = {}
    for key in keys:
        if key not in wanted:
            raise PickleError(f"the file lists the storage {key!r}, which its object lacks")
        memories[key] = _read_storage(stream, loader, key, *wanted[key])
    return memories


def _read_storage(stream, loader, key, dtype, count):
    length = stream.read(8)
    if len(length) != 8:
        raise PickleError(f"the file is truncated in front of the storage {key!r}")
    listed = struct.unpack(">q" if loader.swapped and sys.byteorder == "little" else "<q", length)[0]
    size = count * (dtype.itemsize if dtype else 1)
    if listed != count or size > _left(stream):
        raise PickleError(
            f"the storage {key!r} has {listed} elements ({_left(stream)} bytes are left of the file), but "
            f"its tensors want {count} elements in {size} bytes"
        )
    storage, data = fresh_storage(size)
    done = 0
    while done < size:
        piece = stream.read(min(1 << 20, size - done))
        if not piece:
            raise PickleError(f"the storage {key!r} is truncated: {done} of {size} bytes")
        data[done : done + len(piece)] = piece
        done += len(piece)
    if dtype is not None:
        loader.swap(storage, dtype)
    return storage


def _left(stream):
    position = stream.tell()
    end = stream.seek(0, io.SEEK_END)
    stream.seek(position)
    return end - position
