"""Names of a package that are imported when they are first used, so that importing the package costs nothing.

    __getattr__, __dir__ = lazy(__name__, {"mnist": ("MNIST", "EMNIST"), "cifar": ("CIFAR10",)}, refused={...})
"""

import importlib
import sys
import types

from flambeau.base.missing import UnsupportedError, give_reasons, unsupported


def lazy(package, modules, submodules=(), refused=None):
    """(`__getattr__`, `__dir__`) of `package`.

    modules: submodule -> names that it defines; a name that is a submodule's, too, means what is defined.
    submodules: further submodules to hand out. refused: name -> why it is not there.
    """
    home = {name: module for module, names in modules.items() for name in names}
    known = {*home, *modules, *submodules}
    shown = "torchvision" + package.removeprefix("flambeau.vision")
    give_reasons(shown, refused or {})

    def find(name):
        if name == "__all__":
            return sorted(home)
        if name in home:
            value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        elif name in known:
            value = importlib.import_module(f"{package}.{name}")
        elif name.startswith("__"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        else:
            raise UnsupportedError(unsupported(shown, name, known))
        setattr(sys.modules[package], name, value)
        return value

    def names():
        return sorted({*known, *own_names(sys.modules[package])})

    return find, names


def own_names(module):
    """The dict of a module as it is, without what `Listed` adds."""
    return types.ModuleType.__dict__["__dict__"].__get__(module)


class Listed(types.ModuleType):
    """A module whose `__dict__`, when a program looks at it, has all names: `models.__dict__["resnet18"]()`.

    A name that is a function's and a submodule's means the function, whichever was imported first.
    """

    def __setattr__(self, name, value):
        if not isinstance(value, types.ModuleType) or name not in self.__all__:
            super().__setattr__(name, value)

    @property
    def __dict__(self):
        names = own_names(self)
        for name in self.__all__:
            if name not in names:
                getattr(self, name)
        return names
