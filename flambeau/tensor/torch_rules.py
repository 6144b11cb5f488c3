"""Which names in PyTorch's files mean something, and what may be done with them: rules of `pickle_machine`.

With `weights_only` a name is one of the closed table of `torch_known` (tensors, containers, numbers, arrays),
or one that the program allowed through `safe_globals`. Without it, classes of layers, optimizers and of the
program are found too. They are made empty (`__new__`) and given their state, as pickle does; called are only
those classes whose own `__reduce__` asks for it. A function may be data but is never called. What the
standard library has (os, subprocess, builtins, functools, ...) is never looked up beyond the table.
"""

import copyreg
import importlib
import sys
import types
from collections import deque
from enum import Enum

from flambeau.runtime._core import Tensor
from flambeau.tensor import torch_names
from flambeau.tensor.pickle_machine import PickleError
from flambeau.tensor.torch_known import FILLERS, Builder, find_known

_OLD_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg", "UserDict": "collections"}
_NEVER = {
    "test",
    "sitecustomize",
    "usercustomize",
    "pip",
    "setuptools",
    "pkg_resources",
    "_pytest",
    "pytest",
    "numpy",
    "scipy",
    "distutils",
    "_distutils_hack",
    "llvmlite",
    "cffi",
    "cython",
    "Cython",
    "IPython",
    "ipykernel",
}


class UnknownGlobal(PickleError):
    """A file names what the rules do not allow; `name` is it."""

    def __init__(self, name, problem):
        super().__init__(problem)
        self.name = name


class Rules:
    """See the module. `allowed`: the program's safe globals by name. `loader` makes storages and tensors."""

    def __init__(self, loader, weights_only, allowed):
        self.loader, self.weights_only, self.allowed = loader, weights_only, allowed
        self.trusted = set()  # ids of classes that may be made
        self._found = {}

    # ------------------------------------------------------------------ names
    def find(self, module, name):
        """What a name stands for."""
        module = _OLD_NAMES.get(module, module)
        full = f"{module}.{name}"
        if full not in self._found:
            self._found[full] = self._find(module, name, full)
        return self._found[full]

    def _find(self, module, name, full):
        if full in self.allowed and not is_dangerous(module):
            return self._trust(self.allowed[full])
        known = find_known(full)
        if known is not None:
            if isinstance(known, Builder) and known.trusting and self.weights_only:
                raise UnknownGlobal(full, f"the file names {full}")
            return known
        if self.weights_only:
            raise UnknownGlobal(full, f"the file names {full}")
        return self._trust(self._importable(module, name, full))

    def _trust(self, value):
        self.trusted.add(id(value))
        return value

    def _importable(self, module, name, full):
        """A class or function of the facade, the program or a library that is installed."""
        top = module.partition(".")[0]
        if top == "torch":
            value = torch_names.lookup(module, name)
            if value is None:
                raise UnknownGlobal(full, f"the file needs {full}, which Flambeau does not have (yet)")
        elif (
            module != "__main__" and is_dangerous(module) or "__main__" in module.split(".")[1:] or not module
        ):
            raise UnknownGlobal(full, f"the file names {full}, which is no class of data")
        else:
            value = _attribute(_module(module, full), name, full)
        if not isinstance(value, (type, types.FunctionType)) and torch_names.torch_name(value) is None:
            raise UnknownGlobal(full, f"the file names {full}, which is neither a class nor a function")
        self._check_home(value, full)
        return value

    def _check_home(self, value, full):
        """Refuse what a harmless module has merely imported from a dangerous one."""
        home = getattr(value, "__module__", None) or "flambeau.ops"
        parts = home.split(".")
        if parts[0] == "flambeau":
            of_data = isinstance(value, type) and (
                parts[1:2] and parts[1] in torch_names.DATA_PACKAGES or issubclass(value, Tensor)
            )
            if not of_data and torch_names.torch_name(value) is None:
                raise UnknownGlobal(full, f"the file names {full}, which is no class of data")
        elif home != "__main__" and is_dangerous(home):
            raise UnknownGlobal(
                full, f"the file names {full}, which is {home}.{getattr(value, '__qualname__', '?')}"
            )

    # ------------------------------------------------------------------ objects
    def call(self, what, args, machine):
        """The object that a file makes by calling `what`."""
        if isinstance(what, Builder):
            return what.build(self, args, machine)
        if isinstance(what, type) and self._may_make(what):
            if id(what) in self.trusted and (
                id(what) in map(id, self.allowed.values()) or _asks_to_be_called(what)
            ):
                if issubclass(what, Enum):
                    args = tuple(map(machine.key, args))
                return what(*args)
            raise PickleError(
                f"the file calls the class {_shown(what)}, whose objects are not made by calling it"
            )
        if id(what) in map(id, self.allowed.values()):
            return what(*args)
        raise PickleError(f"the file calls {_shown(what)}; loading calls nothing that a file names")

    def new(self, kind, args, kwargs, machine):
        """An empty object of a class."""
        if isinstance(kind, Builder):
            return kind.build(self, args, machine)
        if not isinstance(kind, type) or not self._may_make(kind):
            raise PickleError(f"the file makes an object of {_shown(kind)}, which is no class of data")
        return kind.__new__(kind, *args, **kwargs)

    def _may_make(self, kind):
        return id(kind) in self.trusted

    def fill(self, target, state):
        """Give `target`, which was made from the file, its state."""
        kind = type(target)
        filler = FILLERS.get(kind) or FILLERS.get(f"{kind.__module__}.{kind.__qualname__}")
        if filler is not None:
            try:
                filler(target, state)
            except (TypeError, ValueError, IndexError, AttributeError, KeyError, RuntimeError) as error:
                text = str(error).partition("\n")[0]
                raise PickleError(f"the state of a {kind.__name__} is none: {text}") from None
        elif id(kind) not in self.trusted or isinstance(
            target, (type, types.FunctionType, types.ModuleType, Tensor)
        ):
            raise PickleError(f"the file sets the state of {_shown(target)}")
        elif hasattr(target, "__setstate__"):
            target.__setstate__(state)
        else:
            set_attributes(target, state)

    def extend(self, target, values):
        if not isinstance(target, (list, deque)):
            raise PickleError(f"the file appends to a {type(target).__name__}")
        target.extend(values)

    def set_items(self, target, pairs):
        if not isinstance(target, dict):
            raise PickleError(f"the file sets items of a {type(target).__name__}")
        for key, value in pairs:
            target[key] = value


def set_attributes(target, state):
    """Fill `target` by a dict of attributes, or a pair of dicts: of its `__dict__` and of its slots."""
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        if not isinstance(state, dict) or not hasattr(target, "__dict__"):
            raise PickleError(f"the state of a {type(target).__name__} is a {type(state).__name__}")
        if not all(type(name) is str for name in state):
            raise PickleError(f"the state of a {type(target).__name__} has names that are no text")
        target.__dict__.update(state)
    if slots:
        known = set(copyreg._slotnames(type(target)))
        if not isinstance(slots, dict) or not known.issuperset(slots):
            raise PickleError(f"the state of a {type(target).__name__} has attributes that it lacks")
        for name, value in slots.items():
            object.__setattr__(target, name, value)


def is_dangerous(module):
    """True for the standard library and for packages that have no classes of data."""
    top = module.partition(".")[0]
    return top != "__main__" and (top in sys.stdlib_module_names or top in _NEVER or top in ("nt", "posix"))


def _asks_to_be_called(kind):
    return issubclass(kind, Enum) or (
        kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__
    )


def _module(module, full):
    """The module of a name; imported if it is installed or stands beside the program."""
    if module in sys.modules:
        return sys.modules[module]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnknownGlobal(
            full, f"the file needs {full}, whose module cannot be imported ({error})"
        ) from None


def _attribute(value, name, full):
    for part in name.split("."):
        if isinstance(value, types.ModuleType) and part != name.split(".")[0] or part.startswith("__"):
            raise UnknownGlobal(full, f"the file names {full}, which leads through a module")
        try:
            value = getattr(value, part)
        except AttributeError:
            raise UnknownGlobal(full, f"the file needs {full}, which is not there") from None
        if part != name.rpartition(".")[2] and not isinstance(value, type):
            raise UnknownGlobal(full, f"the file names {full}, which leads through what is no class")
    return value


def _shown(value):
    if isinstance(value, Builder):
        return value.name
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else f"a {type(value).__name__}"
