"""What `torch.serialization` has: `save` and `load` of PyTorch's files, and what may be found in them.

`save` and `load` are doors that stand in `save.py`, so that nothing of this is imported before it is used;
here is what they do. No file is able to run code: see `torch_rules`.
"""

import io
import os
from enum import Enum

from flambeau.base.errors import fail
from flambeau.base.flags import torch_switch
from flambeau.tensor.legacy import TYPES as tensor_types
from flambeau.tensor.safetensors_file import is_safetensors, load_bytes, save_file
from flambeau.tensor.save import MAGIC, Reader, load
from flambeau.tensor.save import torch_save as save
from flambeau.tensor.storage import TYPES as storage_types
from flambeau.tensor.torch_load import Options, UnpicklingError, is_torch_file
from flambeau.tensor.torch_load import read as read_torch
from flambeau.tensor.torch_places import (
    default_restore_location,
    location_tag,
    register_package,
    set_setting,
    setting,
)
from flambeau.tensor.torch_save import DEFAULT_PROTOCOL, write_torch

__all__ = [
    "DEFAULT_PROTOCOL",
    "LoadEndianness",
    "SourceChangeWarning",
    "UnpicklingError",
    "add_safe_globals",
    "check_module_version_greater_or_equal",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "normalize_storage_type",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "storage_to_tensor_type",
]
_LARGEST_HEADER = 1 << 27  # bytes of the header of a safetensors file, which stand at its start
_allowed = []  # what add_safe_globals was told


class SourceChangeWarning(Warning):
    """PyTorch's warning of modules whose source has changed; never given here."""


class LoadEndianness(Enum):
    """The byte order of files that do not say it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


# ---------------------------------------------------------------------------------- the doors in save.py
def write(obj, f, protocol, zipped, byteorder):
    """What `torch_save` does."""
    if not hasattr(f, "write") and not isinstance(f, (str, bytes, os.PathLike)):
        raise AttributeError(
            f"[save] expected a path or a file object that can be written, got {type(f).__name__}"
        )
    if is_safetensors(f):
        save_file(obj, f)
        return
    if not 2 <= protocol <= 5:
        raise ValueError(f"[save] the pickle protocol must be 2 to 5, got {protocol}")
    write_torch(obj, f, protocol, zipped, byteorder)


def read(f, map_location, pickle_module, weights_only, mmap, encoding):
    """What `load` does."""
    weights_only = _weights_only(weights_only, pickle_module)
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    options = Options(map_location, weights_only, mmap, encoding, safe_names())
    if isinstance(f, (str, bytes, os.PathLike)):
        with open(f, "rb") as file:
            return _read_stream(file, os.fsdecode(f), options)
    if not hasattr(f, "read"):
        raise AttributeError(
            f"[load] expected a path or a file object that can be read, got {type(f).__name__}"
        )
    if isinstance(f.read(0), str):
        raise TypeError("[load] the file object is open for text\n  hint: open(path, 'rb'), or io.BytesIO")
    name = getattr(f, "name", None)
    return _read_stream(_seekable(f), name if isinstance(name, str) else "the given file object", options)


def _weights_only(wanted, pickle_module):
    force_off, force_on = (
        torch_switch("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"),
        torch_switch("TORCH_FORCE_WEIGHTS_ONLY_LOAD"),
    )
    if force_on and force_off:
        raise RuntimeError(
            "[load] TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD are both set\n"
            "  hint: unset one of them"
        )
    chosen = True if force_on else (not force_off if wanted is None else bool(wanted))
    if chosen and pickle_module is not None and wanted:
        raise RuntimeError(
            "[load] weights_only and a pickle_module exclude each other\n  hint: leave out pickle_module"
        )
    return chosen


def _seekable(f):
    try:
        f.seek(f.tell())
        return f
    except (AttributeError, OSError):
        return io.BytesIO(f.read())


def _read_stream(stream, name, options):
    start = stream.read(512)
    stream.seek(-len(start), io.SEEK_CUR)
    if start.startswith(MAGIC):
        return Reader(stream, name).read(options.map_location)
    if options.mmap and not start.startswith(b"PK"):
        raise RuntimeError(
            "[load] mmap can only be used with files saved in the zip format\n  hint: leave out mmap=True"
        )
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < _LARGEST_HEADER:
        return load_bytes(stream.read(), name)
    if is_torch_file(start):
        return read_torch(stream, name, options)
    if not start:
        fail(
            "load",
            f"{name}: an empty file",
            kind=EmptyFile,
            hint="it was cut off while it was written or copied",
        )
    fail(
        "load",
        f"{name}: not a file of PyTorch's, Flambeau's or safetensors",
        f"an unknown file that starts with {start[:8]!r}",
        hint="the file was damaged, or is of another kind",
        kind=UnpicklingError,
    )


class EmptyFile(UnpicklingError, EOFError):
    """A file without any bytes."""


# ---------------------------------------------------------------------------------- what a program allows
def safe_names():
    """Full name -> class or function, of what the program allows; both its own name and PyTorch's."""
    from flambeau.tensor.torch_names import torch_name

    found = {}
    for each in _allowed:
        each, names = (each[0], [each[1]]) if isinstance(each, tuple) else (each, _names_of(each))
        of_torch = torch_name(each)
        if of_torch is not None:
            names = [*names, ".".join(of_torch), f"torch.nn.functional.{of_torch[1]}"]
        found.update({name: each for name in names})
    return found


def _names_of(value):
    module = getattr(value, "__module__", None) or ""
    return [f"{module}.{value.__qualname__}"] if hasattr(value, "__qualname__") else []


def add_safe_globals(safe_globals):
    """Let `load(weights_only=True)` find classes and functions (or pairs of one and its name in files)."""
    for each in safe_globals:
        inner = each[0] if isinstance(each, tuple) and len(each) == 2 else each
        if not callable(inner):
            raise TypeError(f"[add_safe_globals] expected classes and functions, got {type(inner).__name__}")
        if each not in _allowed:
            _allowed.append(each)


def clear_safe_globals():
    """Allow nothing any more."""
    _allowed.clear()


def get_safe_globals():
    """The list of what is allowed."""
    return list(_allowed)


class safe_globals:
    """A block in which classes and functions may be found by `load(weights_only=True)`.

    Example::

        >>> with torch.serialization.safe_globals([MyModel]):       # doctest: +SKIP
        ...     model = torch.load("model.pt")
    """

    def __init__(self, safe_globals):
        self.safe_globals = safe_globals

    def __enter__(self):
        self._before = get_safe_globals()
        add_safe_globals(self.safe_globals)

    def __exit__(self, *error):
        _allowed[:] = self._before


def get_unsafe_globals_in_checkpoint(f):
    """Names in a zip file that `load(weights_only=True)` would refuse now; nothing is loaded."""
    from flambeau.tensor.pickle_machine import PickleError, globals_of
    from flambeau.tensor.torch_rules import Rules
    from flambeau.tensor.torch_zip import Archive

    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    stream = _seekable(f)
    if stream.read(2) != b"PK":
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    stream.seek(-2, io.SEEK_CUR)
    rules, found = Rules(None, True, safe_names()), []
    for module, name in globals_of(Archive(stream).read("data.pkl")):
        try:
            rules.find(module, name)
        except PickleError:
            found.append(f"{module}.{name}")
    return found


# ---------------------------------------------------------------------------------- settings
def get_default_load_endianness():
    """The byte order of files that do not say it; None: this machine's."""
    return setting("endianness")


def set_default_load_endianness(endianness):
    """Choose the byte order of files that do not say it: a LoadEndianness or None."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    set_setting("endianness", endianness)


def get_crc32_options():
    """Whether `save` computes checksums."""
    return setting("crc32")


def set_crc32_options(compute_crc32):
    """Whether `save` computes checksums; without them saving is quicker, and damage is not noticed."""
    set_setting("crc32", bool(compute_crc32))


def get_default_mmap_options():
    """MAP_PRIVATE or MAP_SHARED."""
    import mmap

    return setting("mmap") or mmap.MAP_PRIVATE


class set_default_mmap_options:
    """How `load(mmap=True)` maps: mmap.MAP_PRIVATE (writes stay in memory) or MAP_SHARED. Also a block."""

    def __init__(self, flags):
        import mmap

        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, "
                f"expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, got {flags}"
            )
        self._before = setting("mmap")
        set_setting("mmap", flags)

    def __enter__(self):
        return None

    def __exit__(self, *error):
        set_setting("mmap", self._before)


class skip_data:
    """A block in which `save` leaves out the bytes of storages: their records are zeros of the same size.

    Args:
        materialize_fake_tensors: accepted.
    """

    def __init__(self, materialize_fake_tensors=False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        self._before = setting("skip_data")
        set_setting("skip_data", True)

    def __exit__(self, *error):
        set_setting("skip_data", self._before)


# ---------------------------------------------------------------------------------- small questions
def normalize_storage_type(storage_type):
    """The class of storages that has this one's name."""
    return _by_name(storage_type.__name__)


def storage_to_tensor_type(storage):
    """The type of tensors on a storage, such as FloatTensor."""
    return _by_name(storage.type().rpartition(".")[2].replace("Storage", "Tensor"))


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True):
    """Whether a module's `__version__` is at least that of the tuple."""
    try:
        parts = module.__version__.split(".")
        return tuple(kind(part) for kind, part in zip(map(type, req_version_tuple), parts)) >= req_version_tuple
    except (AttributeError, ValueError) as error:
        if error_if_malformed:
            raise RuntimeError(f"'{module.__name__}' module version string is malformed: {error}") from error
        return True


def _by_name(name):
    found = storage_types.get(name) or tensor_types.get(name)
    if found is None:
        raise TypeError(f"there is no type {name!r} of storages or tensors")
    return found
