"""Files of the safetensors format, through the package of that name: a flat dict of tensors, no code, no tree."""

import os

from flambeau.base.errors import fail
from flambeau.base.lazy import require
from flambeau.ops.write import write
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types import dtype as dtypes

SUFFIX = ".safetensors"
_NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "F16": "float16",
          "BF16": "bfloat16", "F32": "float32", "F64": "float64", "U16": "uint16", "U32": "uint32", "U64": "uint64"}
_CODES = {name: code for code, name in _NAMES.items()}


def is_safetensors(file):
    """True for a path that ends in .safetensors."""
    return isinstance(file, (str, os.PathLike)) and os.fspath(file).endswith(SUFFIX)


def load_file(path):
    """The tensors of a file by name. RuntimeError, naming the file, if it is damaged."""
    with open(path, "rb") as file:
        return load_bytes(file.read(), os.fspath(path))


def load_bytes(content, name):
    """The tensors of a file's content; `name` is for errors."""
    package = require("safetensors", "safetensors")
    try:
        entries = package.deserialize(content)
    except Exception as error:
        fail("load", f"{name}: not a complete safetensors file", error)
    return {name: _tensor(entry, name) for name, entry in entries}


def _tensor(entry, name):
    if entry["dtype"] not in _NAMES:
        fail("load", f"tensor {name!r} has a dtype that Flambeau lacks", entry["dtype"], sorted(_NAMES))
    import ctypes
    out = _core.empty_strided(tuple(entry["shape"]), None, dtypes.by_name(_NAMES[entry["dtype"]]))
    ctypes.memmove(out.data_ptr(), bytes(entry["data"]), len(entry["data"]))
    return out


def save_file(tensors, path):
    """Write a dict of tensors; replaced at once and only when all is written."""
    from flambeau.base.cache import atomic_write
    package = require("safetensors", "safetensors")
    if not isinstance(tensors, dict) or not all(isinstance(t, Tensor) for t in tensors.values()):
        fail("save", "a .safetensors file holds a dict of tensors", type(tensors).__name__,
             hint="save the state_dict, or choose another file name for other data", kind=TypeError)
    entries, kept = {}, []              # kept: memory that the entries point to
    for name, tensor in tensors.items():
        dense = _core.empty_strided(tuple(tensor.shape), None, tensor.dtype)
        if dense.numel():
            write(dense, tensor.detach())
        if tensor.dtype.name not in _CODES:
            fail("save", f"tensor {name!r} has a dtype that the format lacks", tensor.dtype, kind=TypeError)
        kept.append(dense)
        entries[name] = _entry(package, dense)
    content = bytes(package.serialize(entries))
    atomic_write(os.fspath(path), lambda file: file.write(content))


def _entry(package, dense):
    """A tensor as the package wants it: by address since 0.6, as bytes before."""
    size = dense.numel() * dense.element_size()
    if hasattr(package, "TensorSpec"):
        return package.TensorSpec(dtype=dense.dtype.name, shape=list(dense.shape), data_ptr=dense.data_ptr(), data_len=size)
    import ctypes
    return {"dtype": dense.dtype.name, "shape": list(dense.shape), "data": ctypes.string_at(dense.data_ptr(), size)}
