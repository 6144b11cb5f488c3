"""The tree of a saved object as JSON: how each kind of Python value is written and read back.

None, bools, strings, small ints, finite floats and lists stand for themselves; everything else is an object
of one entry, whose key names the kind: `{"tuple": [...]}`, `{"dict": [[key, value], ...]}`, `{"tensor": 3}`.
A tensor is a number in a list of records beside the tree; the same tensor object is recorded once.
"""

import math
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict

from flambeau.runtime._core import Size, Tensor
from flambeau.tensor.parameter import Parameter
from flambeau.types import dtype as dtypes
from flambeau.types.device import Device

_EXACT_INTEGER = 1 << 53        # beyond, other JSON readers would round
_MAPPINGS = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
_SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "Size": Size}
_ALIGNMENT = 64             # bytes: a multiple of every element's size
_KINDS = {kind: name for name, kind in (_MAPPINGS | _SEQUENCES).items()}


class Encoder:
    """Turns an object into a JSON tree; collects records of its tensors and the bytes of their storages.

    `storage_of(tensor)` returns (identity, bytes) of the memory behind a tensor.
    """

    def __init__(self, storage_of):
        self._storage_of = storage_of
        self.tensors, self.storages = [], []
        self._numbers = {}          # id of a tensor -> (its record's number, the tensor kept alive)
        self._storage_numbers = {}
        self._open = set()          # ids of the containers around the present value

    def encode(self, value, path=""):
        """The JSON form of `value`; `path` is where it stands, for messages."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            return value if abs(value) <= _EXACT_INTEGER else {"int": hex(value)}
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        if hasattr(type(value), "saved_parts"):
            return {value.saved_as: [self.encode(part, path) for part in value.saved_parts()]}
        if isinstance(value, Tensor):
            return {"tensor": self._tensor(value, path)}
        kind = _KINDS.get(type(value))
        return self._scalar(value, path) if kind is None else self._container(value, kind, path)

    def _scalar(self, value, path):
        if type(value) is complex:
            return {"complex": [str(value.real), str(value.imag)]}
        if type(value) in (bytes, bytearray):
            return {type(value).__name__: b64encode(value).decode()}
        if isinstance(value, dtypes.DType):
            return {"dtype": dtype_name(value)}
        if isinstance(value, Device):
            return {"device": str(value)}
        raise TypeError(f"[save] cannot save {_article(type(value))} object{_at(path)}{_hint(value)}")

    def _container(self, value, kind, path):
        if id(value) in self._open:
            raise ValueError(f"[save] cannot save {_article(type(value))} that contains itself{_at(path)}")
        self._open.add(id(value))
        if kind in _MAPPINGS:
            content = [[self.encode(key, f"{path}.keys()"), self.encode(each, f"{path}[{key!r}]")]
                       for key, each in value.items()]
        else:
            content = [self.encode(each, f"{path}[{number}]") for number, each in enumerate(value)]
        self._open.discard(id(value))
        return content if kind == "list" else {kind: content}

    def _tensor(self, tensor, path):
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = len(self.tensors), tensor
            self.tensors.append(self._record(tensor, path))
        return self._numbers[id(tensor)][0]

    def _record(self, tensor, path):
        if type(tensor) not in (Tensor, Parameter):
            raise TypeError(f"[save] cannot save {_article(type(tensor))} object{_at(path)}\n"
                            "  hint: only plain tensors and parameters are saved; convert it first")
        record = {"class": type(tensor).__name__, "dtype": dtype_name(tensor.dtype),
                  "shape": [int(size) for size in tensor.shape], "device": str(tensor.device),
                  "requires_grad": bool(tensor.requires_grad), "storage": None}
        if tensor.device.type != "meta":
            record["strides"] = [int(stride) for stride in tensor.stride()]
            record["offset"] = int(tensor.storage_offset())
            record["storage"] = self._storage(tensor)
        return record

    def trim(self):
        """Leave out of each storage what no tensor shows in front of and behind what they do show."""
        for number, data in enumerate(self.storages):
            records = [record for record in self.tensors if record["storage"] == number]
            spans = [_span(record) for record in records]
            first = min(start for start, _ in spans) // _ALIGNMENT * _ALIGNMENT
            self.storages[number] = data[first:max(first, max(end for _, end in spans))]
            for record in records:
                record["offset"] -= first // dtypes.by_name(record["dtype"]).itemsize

    def _storage(self, tensor):
        identity, data = self._storage_of(tensor)
        key = identity, data.nbytes
        if key not in self._storage_numbers:
            self._storage_numbers[key] = len(self.storages)
            self.storages.append(data)
        return self._storage_numbers[key]


def _span(record):
    """The first byte of a tensor in its storage, and the one behind its last."""
    size = dtypes.by_name(record["dtype"]).itemsize
    reach = sum((size - 1) * stride for size, stride in zip(record["shape"], record["strides"]))
    count = reach + 1 if all(record["shape"]) else 0
    return record["offset"] * size, (record["offset"] + count) * size


def dtype_name(dtype):
    """The name that `types.dtype.by_name` finds the dtype under."""
    return dtype.name


def _article(kind):
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _at(path):
    return f" at obj{path}" if path else ""


def _hint(value):
    if hasattr(value, "state_dict") and not isinstance(value, type):
        return "\n  hint: save its state_dict()"
    if type(value).__module__.partition(".")[0] == "numpy":
        return "\n  hint: convert it first: tensor(array), float(number) or int(number)"
    if isinstance(value, dict):
        return "\n  hint: convert it first: dict(value)"
    if isinstance(value, (tuple, list, set)):
        return "\n  hint: convert it first: tuple(value) or list(value)"
    return ("\n  hint: what can be saved are tensors, dicts, lists, tuples, sets, None, bool, int, float, "
            "complex, str, bytes, dtypes and devices")


class Decoder:
    """Turns a JSON tree back into the object, given its tensors; ValueError for an unknown kind."""

    def __init__(self, tensors):
        self._tensors = tensors

    def decode(self, tree):
        """The object that `tree` stands for."""
        if isinstance(tree, list):
            return [self.decode(each) for each in tree]
        if not isinstance(tree, dict):
            return tree
        (kind, content), = tree.items()
        if kind == "tensor":
            return self._tensors[content]
        if kind in _MAPPINGS:
            return _MAPPINGS[kind]({self.decode(key): self.decode(value) for key, value in content})
        if kind in _SEQUENCES:
            return _SEQUENCES[kind]([self.decode(each) for each in content])
        if kind in _SCALARS:
            return _SCALARS[kind](content)
        if kind in _MADE_OF_PARTS:
            return _from_parts(_MADE_OF_PARTS[kind], [self.decode(part) for part in content])
        raise ValueError(f"unknown kind {kind!r}")


_SCALARS = {
    "int": lambda content: int(content, 16),
    "float": float,
    "complex": lambda content: complex(float(content[0]), float(content[1])),
    "bytes": lambda content: b64decode(content, validate=True),
    "bytearray": lambda content: bytearray(b64decode(content, validate=True)),
    "dtype": dtypes.by_name,
    "device": Device,
}
_MADE_OF_PARTS = {"sparse": "flambeau.tensor.sparse_make", "nested": "flambeau.tensor.nested_make"}      # kind -> the module whose `from_saved` makes it


def _from_parts(module, parts):
    """A tensor made of tensors and plain data, checked as if a user had made it."""
    import importlib
    try:
        return importlib.import_module(module).from_saved(*parts)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
