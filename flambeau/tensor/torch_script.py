"""The weights of TorchScript archives, which `load` gives as a state_dict; their code is not run.

Such an archive holds the objects of the model with classes that are written in its `code/`. Here an object is
a bag of attributes, and of the code only the lines `__parameters__ = [...]` and `__buffers__ = [...]` are
read as text, to tell weights from other tensors.
"""

import re
from collections import OrderedDict

from flambeau.runtime._core import Tensor
from flambeau.tensor.parameter import Parameter
from flambeau.tensor.pickle_machine import PickleError
from flambeau.tensor.torch_known import Builder
from flambeau.tensor.torch_load import Options, read
from flambeau.tensor.torch_rules import Rules
from flambeau.tensor.torch_zip import ArchiveError

_LARGEST_SOURCE = 1 << 24
_LISTS = {f"torch.jit._pickle.build_{kind}list" for kind in ("int", "tensor", "double", "bool")}


class ScriptObject:
    """An object of an archive: the name of its class, and its attributes."""

    def __init__(self, kind):
        self.kind, self.attributes = kind, {}

    def __repr__(self):
        return f"ScriptObject({self.kind}: {', '.join(self.attributes)})"


def weights_of_archive(stream, name, archive, map_location=None):
    """The parameters and buffers of an archive by their dotted names, as `state_dict` gives them."""
    stream.seek(archive.origin)
    top = read(stream, name, Options(map_location, script=_ScriptRules))
    found = OrderedDict()
    if isinstance(top, ScriptObject):
        _collect(top, "", archive, {}, found, set())
    return found


def _collect(owner, prefix, archive, sources, found, above):
    """Add the weights of an object and of those in it."""
    if id(owner) in above:
        return
    weights = _weights_of(owner.kind, archive, sources)
    inner = []
    for name, value in owner.attributes.items():
        if isinstance(value, ScriptObject):
            inner.append((name, value))
        elif isinstance(value, Tensor) and (weights is None or name in weights[0] or name in weights[1]):
            is_parameter = weights is not None and name in weights[0]
            found[prefix + name] = (
                Parameter(value.detach(), value.requires_grad) if is_parameter else value.detach()
            )
    for name, value in inner:
        _collect(value, f"{prefix}{name}.", archive, sources, found, above | {id(owner)})


def _weights_of(kind, archive, sources):
    """(names of parameters, names of buffers) of a class, from its source; None if that is not there."""
    path, _, name = kind.rpartition(".")
    record = f"code/{path.replace('.', '/')}.py"
    if record not in sources:
        try:
            sources[record] = archive.read_text(record, _LARGEST_SOURCE)
        except ArchiveError:
            sources[record] = None
    text = sources[record]
    found = (
        re.search(rf"^class {re.escape(name)}\(Module\):\n((?:  .*\n)*)", text, re.MULTILINE)
        if text
        else None
    )
    if found is None:
        return None
    lists = dict(re.findall(r"^  (__parameters__|__buffers__) = \[(.*)\]$", found[1], re.MULTILINE))
    return tuple(
        set(re.findall(r'"([^"]*)"', lists.get(which, ""))) for which in ("__parameters__", "__buffers__")
    )


class _ScriptRules(Rules):
    """The closed table of names, and classes of the archive's code as bags."""

    def __init__(self, loader):
        super().__init__(loader, True, {})

    def _find(self, module, name, full):
        if module == "__torch__" or module.startswith("__torch__."):
            return Builder(full, lambda rules, args, machine: ScriptObject(full))
        if full in _LISTS:
            return Builder(full, lambda rules, args, machine: list(args[0]))
        if full == "torch.jit._pickle.restore_type_tag":
            return Builder(full, lambda rules, args, machine: args[0])
        return super()._find(module, name, full)

    def fill(self, target, state):
        if not isinstance(target, ScriptObject):
            super().fill(target, state)
        elif isinstance(state, dict) and all(type(name) is str for name in state):
            target.attributes.update(state)
        else:
            raise PickleError("the state of an object of the archive is no dict of names")
