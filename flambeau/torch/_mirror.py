"""How a thin module of the facade gets its names: on demand, from the module of the house that has them.

    __getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.optim")

A name that neither the sources nor the facade's own submodules have raises UnsupportedError, which names the
nearest one that exists. Modules are not handed out by their name in the house: `flambeau.data` is
`torch.utils.data`. A source that the house does not have (yet) is passed over; a module without any cannot be
imported.
"""

import importlib
import importlib.util
import sys
import types

from flambeau.base.missing import UnsupportedError, no_module, unsupported

_FACADE = "flambeau.torch"


def mirror(module, *sources):
    """(`__getattr__`, `__dir__`) for the facade's module called `module`; `sources` are names of modules."""
    missing, shown = object(), "torch" + module[len(_FACADE):]
    present = [source for source in sources if exists(source)]
    if sources and not present:
        raise no_module(shown)

    def find(name):
        if name == "__all__":
            return [known for known in names() if not known.startswith("_")]
        if name.startswith("__") and name not in ("__config__", "__future__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if has_submodule(module, name):
            try:
                return importlib.import_module(f"{module}.{name}")
            except ModuleNotFoundError as error:
                raise UnsupportedError(unsupported(shown, name, names())) from error
        for source in map(importlib.import_module, present):
            if name.startswith("_") and name not in getattr(source, "__all__", ()):
                continue
            value = getattr(source, name, missing)
            if value is not missing and not isinstance(value, types.ModuleType):
                setattr(sys.modules[module], name, value)       # the next access is a plain one
                return value
        raise UnsupportedError(unsupported(shown, name, names()))

    def names():
        found = {name for name in vars(sys.modules[module]) if not name.startswith("_")}
        for source in map(importlib.import_module, present):
            found.update(name for name in dir(source)
                         if not name.startswith("_") and not is_module(source, name))
        return sorted(found)

    return find, names


def exists(module):
    """True if the house has a module of that name; imports only what stands above it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def is_module(source, name):
    """True if `name` of the module `source` is a module, imported or not; imports nothing."""
    value = vars(source).get(name)
    return isinstance(value, types.ModuleType) or value is None and has_submodule(source.__name__, name)


def has_submodule(module, name):
    """True if there is a file for `module`.`name`."""
    is_package = "__path__" in vars(sys.modules[module])
    return is_package and importlib.util.find_spec(f"{module}.{name}") is not None
