"""fl.save and fl.load: tensors and plain data in a file, never by pickle; `load` reads PyTorch's too.

Layout of a file of our own (all integers little-endian):

    64 bytes    magic "FLAMBEAU", format version (u32), 0 (u32), length of the header (u64), length of the
                whole file (u64), SHA-256 of the header (32 bytes)
    header      JSON: {"tree": ..., "tensors": [...], "storages": [{"offset", "bytes", "sha256"}]}
    storages    raw bytes, each at a multiple of 64; offsets count from the first such place after the header

Tensors that share memory share a storage, so views stay views of the same data. Of a storage only the stretch
is written that the saved tensors show, so a part of a large tensor takes the bytes of the part. Loading runs
no code from the file: the tree knows only the kinds of `saved_tree.py`, and every size is checked against the
bytes that are there.
"""

import hashlib
import io
import json
import os
import struct

from flambeau.base.cache import atomic_write
from flambeau.base.errors import fail
from flambeau.runtime._core import empty_strided, from_memory
from flambeau.tensor.parameter import Parameter
from flambeau.tensor.safetensors_file import is_safetensors
from flambeau.tensor.saved_tree import Decoder, Encoder
from flambeau.types import dtype as dtypes
from flambeau.types.device import Device

MAGIC = b"FLAMBEAU"
VERSION = 1
ALIGNMENT = 64
_PREAMBLE = struct.Struct("<8sIIQQ32s")
_CHUNK = 1 << 24


# ---------------------------------------------------------------------------------- memory of tensors

def storage_of(tensor):
    """(address, bytes) of the whole memory behind a tensor; the address tells storages apart."""
    storage = tensor.storage_
    return storage.address, _bytes_at(storage.address, len(storage))


def new_memory(size):
    """(owner, writable bytes) of fresh memory."""
    owner = empty_strided((size,), (1,), dtypes.uint8)
    return owner, _bytes_at(owner.data_ptr(), size)


def tensor_on(owner, size, dtype, shape, strides, offset):
    """A tensor on memory that `new_memory` returned; `offset` and `strides` count elements."""
    return from_memory(owner.data_ptr(), size, owner, tuple(shape), tuple(strides), offset, dtype)


def tensor_without_data(dtype, shape):
    """A tensor of device 'meta'."""
    from flambeau.tensor import empty
    return empty(tuple(shape), dtype=dtype, device="meta")


def _bytes_at(address, size):
    import ctypes
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


# ---------------------------------------------------------------------------------- save

def save(obj, f):
    """Write `obj` to a file.

    Args:
        obj: tensors and parameters in dicts, lists, tuples and so on, with None, bool, int, float, complex,
            str, bytes, dtypes and devices.
        f: a path, or a binary file object open for writing. A path is replaced at once and only when all is
            written, so an interrupted `save` leaves the old file.

    Raises:
        TypeError: naming the place in `obj` of what cannot be saved.
        OSError: if the disk is full, or the file cannot be written.

    Example::

        >>> fl.save(model.state_dict(), "model.fl")         # doctest: +SKIP
        >>> model.load_state_dict(fl.load("model.fl"))      # doctest: +SKIP
    """
    if is_safetensors(f):
        from flambeau.tensor.safetensors_file import save_file
        return save_file(obj, f)
    encoder = Encoder(storage_of)
    tree = encoder.encode(obj)
    encoder.trim()
    writer = _Writer(tree, encoder.tensors, encoder.storages)
    if hasattr(f, "write"):
        writer.write(f)
        return
    path = os.fspath(f)
    try:
        atomic_write(path, writer.write)
    except OSError as error:
        text = f"[save] could not write {writer.length} bytes ({error.strerror}); the old file is untouched"
        raise OSError(error.errno, text, path) from error


class _Writer:
    """A saved object ready to be written: preamble, header and the bytes of the storages."""

    def __init__(self, tree, tensors, storages):
        self.storages = storages
        records, offset = [], 0
        for data in storages:
            digest = hashlib.sha256(data).hexdigest()
            records.append({"offset": offset, "bytes": data.nbytes, "sha256": digest})
            offset = _aligned(offset + data.nbytes)
        header = {"tree": tree, "tensors": tensors, "storages": records}
        self.header = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
        self.start = _aligned(_PREAMBLE.size + len(self.header))
        self.length = self.start + offset

    def write(self, file):
        digest = hashlib.sha256(self.header).digest()
        file.write(_PREAMBLE.pack(MAGIC, VERSION, 0, len(self.header), self.length, digest))
        file.write(self.header)
        file.write(bytes(self.start - _PREAMBLE.size - len(self.header)))
        for data in self.storages:
            file.write(data)
            file.write(bytes(_aligned(data.nbytes) - data.nbytes))


def _aligned(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def torch_save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True,
               _disable_byteorder_record=False):
    """Write `obj` in PyTorch's format: what `torch.save` is.

    Args:
        obj: whatever pickle can write: tensors, containers, state_dicts, whole modules.
        f: a path, or a binary file object open for writing. A path is replaced at once and only when all is
            written, so an interrupted `save` leaves the old file.
        pickle_module: accepted; Python's own pickler writes.
        pickle_protocol: of the pickle, 2 to 5.
        _use_new_zipfile_serialization: False for the format before PyTorch 1.6.

    Raises:
        OSError: if the disk is full, or the file cannot be written.

    Example::

        >>> torch.save(model.state_dict(), "model.pt")      # doctest: +SKIP
    """
    from flambeau.tensor.serialization import write
    write(obj, f, pickle_protocol, _use_new_zipfile_serialization, not _disable_byteorder_record)


# ---------------------------------------------------------------------------------- load

def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Read a file of Flambeau's, PyTorch's (zip or older) or safetensors'; its first bytes tell which.

    Of a TorchScript archive the weights are loaded, as a state_dict.

    Args:
        f: a path, or a binary file object open for reading; it is read from where it stands.
        map_location: where tensors go: a device, a dict {saved device: device}, or a function of a storage (in
            files of Flambeau's: a tensor) and its device's name that returns another one or None; None for
            where they were.
        weights_only: True (the default): tensors, containers, numbers and arrays, and what `safe_globals`
            allow. False: also objects of classes that can be imported here or stand in the program; functions
            that a file names are not called in either case. TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 changes the
            default, TORCH_FORCE_WEIGHTS_ONLY_LOAD=1 overrules the argument.
        mmap: map the storages of PyTorch's zip file at a path instead of reading them.
        pickle_load_args: `encoding` of byte strings of Python 2.

    Raises:
        RuntimeError: naming the file and what is wrong with it (for PyTorch's a pickle.UnpicklingError too).

    Example::

        >>> model.load_state_dict(fl.load("model.pt"))      # doctest: +SKIP
    """
    from flambeau.tensor.serialization import read
    return read(f, map_location, pickle_module, weights_only, mmap, pickle_load_args.get("encoding", "utf-8"))


class Reader:
    """Reads one saved object from a stream, checking everything on the way."""

    def __init__(self, stream, name):
        self.stream = stream
        self.name = name
        self.available = _remaining(stream)

    def fail(self, problem, got=None, want=None, hint=None):
        fail("load", f"{self.name}: {problem}", got, want, hint)

    def read(self, map_location):
        header, start = self._read_header()
        position = _PREAMBLE.size + len(header)
        try:
            header = json.loads(header)
            tree, tensors, storages = header["tree"], header["tensors"], header["storages"]
            memories = self._read_storages(storages, start, position)
            tensors = [self._tensor(record, memories, map_location) for record in tensors]
            return Decoder(tensors).decode(tree)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
            self.fail("the header does not describe a saved object", got=f"{type(error).__name__}: {error}",
                      hint="the file was not written by save, or by a newer version")

    def _read_header(self):
        preamble = self._take(_PREAMBLE.size, "preamble", short=True)
        if not preamble.startswith(MAGIC):
            got = f"a file that starts with {bytes(preamble[:8])!r}"
            self.fail("not a file written by flambeau.save", got=got)
        if len(preamble) < _PREAMBLE.size:
            self._truncated(_PREAMBLE.size, len(preamble))
        _, version, _, size, length, digest = _PREAMBLE.unpack(preamble)
        if version != VERSION:
            self.fail("its format is of another version", got=version, want=VERSION,
                      hint="update Flambeau to read it")
        start = _aligned(_PREAMBLE.size + size)
        if start > length:
            self.fail("the preamble is corrupt", got=f"a header of {size} bytes in a file of {length}")
        if self.available is not None and self.available < length:
            self._truncated(length, self.available)
        header = self._take(size, "header")
        if hashlib.sha256(header).digest() != digest:
            self.fail("the header is corrupt: its checksum differs", hint="copy or download the file again")
        self.end = length
        return header, start

    def _read_storages(self, records, start, position):
        """Fresh memories with the bytes of the storages, which follow each other as in `records`."""
        memories = []
        for number, record in enumerate(records):
            place, size = start + record["offset"], record["bytes"]
            if not position <= place or not 0 <= size or place + size > self.end:
                self.fail(f"storage {number} lies outside the file", got=f"{size} bytes at {place}",
                          want=f"an end by {self.end}")
            self._take(place - position, "padding")
            position = place + size
            owner, data = new_memory(size)
            self._fill(data, f"storage {number}")
            if hashlib.sha256(data).hexdigest() != record["sha256"]:
                self.fail(f"storage {number} of {len(records)} is corrupt: its checksum differs",
                          hint="copy or download the file again")
            memories.append((owner, size))
        return memories

    def _fill(self, data, what):
        done = 0
        while done < data.nbytes:
            piece = self.stream.read(min(_CHUNK, data.nbytes - done))
            if not piece:
                self._truncated(data.nbytes, done, what)
            data[done:done + len(piece)] = piece
            done += len(piece)

    def _take(self, size, what, short=False):
        """Read `size` bytes, or fewer at the end of the file if `short`."""
        pieces, got = [], 0
        while got < size:
            piece = self.stream.read(min(_CHUNK, size - got))
            if not piece:
                if short:
                    break
                self._truncated(size, got, what)
            pieces.append(piece)
            got += len(piece)
        return b"".join(pieces)

    def _truncated(self, want, got, what="file"):
        self.fail(f"the {what} is truncated", got=f"{got} bytes", want=want,
                  hint="the file was cut off while it was written, copied or downloaded")

    def _tensor(self, record, memories, map_location):
        """The tensor that a record describes, placed by `map_location`."""
        dtype, shape = dtypes.by_name(record["dtype"]), record["shape"]
        _check_numbers(shape, low=0)
        if record["storage"] is None:
            tensor = tensor_without_data(dtype, shape)
        else:
            owner, size = memories[record["storage"]]
            strides, offset = record["strides"], record["offset"]
            _check_extent(dtype, shape, strides, offset, size)
            tensor = tensor_on(owner, size, dtype, shape, strides, offset)
        tensor = _placed(tensor, record["device"], map_location)
        if record["class"] == "Parameter":
            return Parameter(tensor, record["requires_grad"])
        return tensor.requires_grad_(True) if record["requires_grad"] else tensor


def _check_numbers(numbers, low=None):
    """ValueError unless `numbers` are at most 32 sizes or strides that fit an int64."""
    if not isinstance(numbers, list) or len(numbers) > 32:
        raise ValueError(f"not a list of at most 32 sizes: {numbers!r}")
    for number in numbers:
        if type(number) is not int or abs(number) >= 1 << 62 or (low is not None and number < low):
            raise ValueError(f"not a size or stride: {number!r}")


def _check_extent(dtype, shape, strides, offset, size):
    """ValueError if a tensor reaches outside its storage of `size` bytes."""
    _check_numbers([*strides, offset])
    if len(shape) != len(strides):
        raise ValueError(f"shape {shape} with strides {strides}")
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides)] if 0 not in shape else [0]
    first = offset + sum(step for step in reach if step < 0)
    last = offset + sum(step for step in reach if step > 0) + (0 not in shape)
    if first < 0 or last * dtype.itemsize > size:
        raise ValueError(f"a tensor of shape {shape} reaches outside its storage of {size} bytes")


def _remaining(stream):
    """The bytes from the stream's position to its end, or None if it cannot tell."""
    try:
        position = stream.tell()
        end = stream.seek(0, io.SEEK_END)
        stream.seek(position)
        return end - position
    except (AttributeError, OSError, ValueError):
        return None


def _placed(tensor, saved, map_location):
    """Move a loaded tensor to where `map_location` wants what was saved on the device `saved`."""
    if saved == "meta" or map_location is None:
        return tensor if saved in ("cpu", "meta") else tensor.to(saved)
    if callable(map_location) and not isinstance(map_location, Device):
        moved = map_location(tensor, saved)
        return tensor if moved is None else moved
    target = map_location.get(saved, saved) if isinstance(map_location, dict) else map_location
    return tensor if str(target) == "cpu" else tensor.to(target)
