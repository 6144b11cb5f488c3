"""torch.ops: `torch.ops.aten.add` and its forms. Other libraries of ops have none here, which `hasattr`
tells."""

from flambeau.ops.overloads import packet as _packet
from flambeau.torch import _custom_ops
from flambeau.torch._mirror import UnsupportedError


class _Namespace:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if self._name == "aten" and not name.startswith("__"):
            try:
                return _packet(name)
            except AttributeError:
                pass
        if (own := _custom_ops.OPS.get(f"{self._name}::{name}")) is not None:
            return own
        raise UnsupportedError(f"[torch.ops] there is no op {self._name}.{name} in Flambeau")

    def __repr__(self):
        return f"<torch.ops.{self._name}>"


_namespaces = {}


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.ops' has no attribute {name!r}")
    return _namespaces.setdefault(name, _Namespace(name))


def load_library(path):
    """Refused: compiled libraries of PyTorch's ops cannot be used."""
    raise UnsupportedError(f"[torch.ops] {path} is a compiled library for PyTorch; Flambeau cannot load it")
