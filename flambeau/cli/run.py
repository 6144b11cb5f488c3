"""`flambeau run SCRIPT`: a script runs as under `python SCRIPT`, except that `import torch` finds the facade.

`torch` and its submodules are other names of the modules under `flambeau.torch`: one module object under two
names, so that `torch.nn.Module is flambeau.torch.nn.Module`. In the same way `torchvision` means
`flambeau.vision` and `functorch` the older names of `torch.func`. They are imported when the script asks for them.
"""

import builtins
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
import types

from flambeau.base.choices import names
from flambeau.base.errors import trim_traceback
from flambeau.base.missing import UnsupportedError, no_module
from flambeau.cli import complain

CHILDREN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children")
FACADE = "flambeau.torch"
SERVED = {"torch": FACADE, "torchvision": "flambeau.vision", "functorch": "flambeau.torch._functorch"}
PACKAGES = ("torch", "torchvision")         # those that importlib.metadata knows, too


def run(options):
    serve_facade()
    serve_children()
    if options.as_module:
        return run_module(options.script, options.arguments)
    return run_script(options.script, options.arguments)


# ---------------------------------------------------------------------------------- torch means the facade
class AliasFinder(importlib.abc.MetaPathFinder):
    """Finds `served` and everything below it as the modules of the same path below `real`."""

    def __init__(self, served, real):
        self.served, self.real = served, real

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.served and not fullname.startswith(self.served + "."):
            return None
        real = self.real + fullname[len(self.served):]
        if importlib.util.find_spec(real) is None:
            # Not None: another `torch` that may be installed must not fill the gaps.
            raise no_module(fullname)
        return importlib.machinery.ModuleSpec(fullname, AliasLoader(real))


    def find_distributions(self, context):
        """What importlib.metadata says of the package: its name and version."""
        if self.served in PACKAGES and (context.name or self.served).lower() == self.served:
            from flambeau.cli.served import ServedPackage       # the module behind it takes its time
            yield ServedPackage(self.served, self.real)


class AliasLoader(importlib.abc.Loader):
    """Hands out the module `real` instead of making a new one."""

    def __init__(self, real):
        self.real = real

    def create_module(self, spec):
        importlib.import_module(FACADE)         # importing torchvision is choosing PyTorch's names, too
        module = importlib.import_module(self.real)
        self.own_spec = module.__spec__         # the import system overwrites it with `spec`
        return module

    def exec_module(self, module):
        module.__spec__ = self.own_spec

    def get_code(self, fullname):
        """What `flambeau run -m` runs as __main__."""
        return importlib.util.find_spec(self.real).loader.get_code(self.real)


def serve_facade():
    """From now on `import torch` in this process gives flambeau.torch, and torchvision flambeau.vision."""
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path[:0] = [AliasFinder(served, real) for served, real in SERVED.items()]
        names.module = "torch"


def serve_children():
    """The processes that this one starts shall do the same (see `children/README.md`)."""
    rest = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry
            and entry != CHILDREN]
    os.environ["PYTHONPATH"] = os.pathsep.join([CHILDREN, *rest])


# ---------------------------------------------------------------------------------- running as __main__
def run_script(path, arguments):
    """Run the file `path` as __main__ and return the exit status; SystemExit passes."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        return complain(f"cannot read {path}: {error.strerror}")
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    module = types.ModuleType("__main__")
    module.__file__ = os.path.abspath(path)
    module.__builtins__ = builtins
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", module.__file__)
    sys.modules["__main__"] = module
    return guarded(lambda: exec(compile(source, path, "exec"), module.__dict__))


def run_module(name, arguments):
    """Run the module `name` as __main__, as `python -m name` does."""
    import runpy

    sys.argv = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    return guarded(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True))


def guarded(body):
    """Call `body` and return 0; an exception is printed without this package's frames and gives 1."""
    try:
        body()
    except SystemExit:
        raise
    except BaseException as error:
        for each in chain_of(error):
            trim_traceback(each)
            explain_import(each)
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def explain_import(error):
    """Add to the error of `from torch import name` what `torch.name` says, which Python has dropped."""
    found = re.match(r"cannot import name '(\w+)' from '(flambeau[\w.]*)'", str(error))
    if isinstance(error, ImportError) and found:
        try:
            getattr(importlib.import_module(found[2]), found[1])
        except UnsupportedError as missing:
            error.add_note(str(missing))
        except AttributeError:
            pass


def chain_of(error):
    """The exception and those that led to it."""
    seen, waiting = [], [error]
    while waiting:
        each = waiting.pop()
        if each is not None and not any(each is known for known in seen):
            seen.append(each)
            waiting += [each.__cause__, each.__context__]
    return seen
