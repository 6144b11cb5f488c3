"""What a program uses of PyTorch and torchvision, read from its syntax tree.

A name is followed from its import (`import torch.nn as nn`, `from torch import optim`, `F = torch.nn.functional`)
through the attributes written after it, and looked up in the package that `flambeau run` serves. Methods are known by
the expression before the dot: a call of a function of `torch`, arithmetic with its result, a variable that holds it.
"""

import ast
import importlib
import inspect
import os
import types
from dataclasses import dataclass, field

from flambeau.base.missing import nearest, reason
from flambeau.cli.run import FACADE, SERVED
from flambeau.cli.tensor_names import NAMES as TENSOR_NAMES

_TENSOR_SPACES = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")
_NO_TENSOR = frozenset(("device", "manual_seed", "save", "load", "no_grad", "enable_grad", "inference_mode",
                        "compile", "seed", "typename", "numel", "finfo", "iinfo", "promote_types", "result_type",
                        "can_cast", "dtype"))
_NO_TENSOR_METHODS = frozenset(("item", "tolist", "size", "dim", "numel", "numpy", "shape", "dtype", "device",
                                "stride", "data_ptr", "backward", "type", "element_size", "nelement",
                                "storage", "is_contiguous"))
_OTHERS = (str, bytes, list, dict, set, int, float, complex, tuple)


@dataclass
class Use:
    """One name, where it is used, and whether it is supported."""

    name: str
    supported: bool
    note: str = ""              # the nearest name, or why there is none
    places: list = field(default_factory=list)      # 'file:line'


def files_of(paths):
    """The Python files among `paths`, in folders, and those of the same folder that they import."""
    waiting, found = [], []
    for path in paths:
        if os.path.isdir(path):
            waiting += sorted(os.path.join(folder, name) for folder, _, names in os.walk(path)
                              for name in names if name.endswith(".py"))
        else:
            waiting.append(path)
    while waiting:
        path = waiting.pop(0)
        if path not in found:
            found.append(path)
            waiting += _neighbours(path)
    return found


def _neighbours(path):
    """Files beside `path` that it imports."""
    folder, modules = os.path.dirname(path), set()
    for node in ast.walk(_parse(path)):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
            modules.update(f"{node.module}.{alias.name}" if node.module else alias.name
                           for alias in node.names)
    for module in sorted(modules):
        base = os.path.join(folder, *module.split("."))
        for candidate in (base + ".py", os.path.join(base, "__init__.py")):
            if module and os.path.isfile(candidate):
                yield candidate


def _parse(path):
    with open(path, "rb") as file:
        return ast.parse(file.read(), path)


def read_program(paths):
    """What the files at `paths` use."""
    uses = Uses()
    for path in paths:
        reader = Reader(path, uses)
        tree = _parse(path)
        reader.collect(tree)
        reader.visit(tree)
    return uses


class Uses:
    """Uses by name, of the three sorts."""

    def __init__(self):
        self.found = {"names": {}, "methods": {}, "guesses": {}}

    def add(self, sort, name, place):
        table = self.found[sort]
        if name not in table:
            table[name] = look_up(name) if sort == "names" else look_up_method(name)
        table[name].places.append(place)

    def names(self):
        """Names reached from what is served, such as `torch`."""
        return list(self.found["names"].values())

    def methods(self):
        """Attributes of what is surely a tensor."""
        return list(self.found["methods"].values())

    def guesses(self):
        """Attributes that are missing if what they are taken from is a tensor."""
        return [use for name, use in self.found["guesses"].items() if not use.supported]


class Reader(ast.NodeVisitor):
    """Reads one file: first what its names stand for (`collect`), then every use (`visit`)."""

    def __init__(self, path, uses):
        self.path, self.uses = path, uses
        self.meaning = {}           # variable -> dotted name below what is served
        self.tensors = set()        # variables that hold tensors

    def place(self, node):
        return f"{os.path.basename(self.path)}:{node.lineno}"

    # ------------------------------------------------------------------ what names stand for
    def collect(self, tree):
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.Import):
                self.collect_import(node)
            elif isinstance(node, ast.ImportFrom):
                self.collect_import_from(node)
        for _ in range(3):          # a variable may get its meaning from one further down
            for node in nodes:
                if isinstance(node, ast.Assign):
                    self.collect_assignment(node)

    def collect_import(self, node):
        for alias in node.names:
            if below(alias.name):
                if "." in alias.name:
                    self.uses.add("names", alias.name, self.place(node))
                top = alias.name.partition(".")[0]
                self.meaning[alias.asname or top] = alias.name if alias.asname else top

    def collect_import_from(self, node):
        if node.level or not below(node.module or ""):
            return
        for alias in node.names:
            if alias.name == "*":
                self.uses.add("names", node.module, self.place(node))
                self.meaning.update((name, f"{node.module}.{name}") for name in public_names(node.module))
                continue
            name = f"{node.module}.{alias.name}"
            self.meaning[alias.asname or alias.name] = name
            self.uses.add("names", name, self.place(node))

    def collect_assignment(self, node):
        dotted = self.dotted(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if dotted and target.id not in self.meaning:
                    self.meaning[target.id] = dotted
                elif self.is_tensor(node.value):
                    self.tensors.add(target.id)

    def dotted(self, node):
        """'torch.nn.functional' for such an expression, None for others."""
        if isinstance(node, ast.Name):
            return self.meaning.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return base and f"{base}.{node.attr}"
        return None

    def is_tensor(self, node):
        """True if the expression is surely a tensor."""
        if isinstance(node, ast.Name):
            return node.id in self.tensors
        if isinstance(node, ast.Call):
            dotted = self.dotted(node.func)
            if dotted:
                space, _, name = dotted.rpartition(".")
                return (space in _TENSOR_SPACES and name not in _NO_TENSOR
                        and (name.islower() or name == "Tensor")
                        and not name.startswith(("is_", "set_", "get_")))
            return isinstance(node.func, ast.Attribute) and self.is_tensor(node.func.value) \
                and node.func.attr not in _NO_TENSOR_METHODS
        if isinstance(node, ast.BinOp):
            return self.is_tensor(node.left) or self.is_tensor(node.right)
        if isinstance(node, ast.UnaryOp):
            return not isinstance(node.op, ast.Not) and self.is_tensor(node.operand)
        if isinstance(node, ast.Subscript):
            return self.is_tensor(node.value)
        return isinstance(node, ast.Attribute) and node.attr in ("T", "data", "grad", "mT", "real") \
            and self.is_tensor(node.value)

    # ------------------------------------------------------------------ uses
    def visit_Name(self, node):     # noqa: N802 - ast's name
        if isinstance(node.ctx, ast.Load) and node.id in self.meaning and "." in self.meaning[node.id]:
            self.uses.add("names", self.meaning[node.id], self.place(node))

    def visit_Attribute(self, node):        # noqa: N802 - ast's name
        dotted = self.dotted(node)
        if dotted:
            self.uses.add("names", dotted, self.place(node))
            return
        if node.attr in TENSOR_NAMES:
            if self.is_tensor(node.value):
                self.uses.add("methods", node.attr, self.place(node))
            elif not is_ambiguous(node.attr):
                self.uses.add("guesses", node.attr, self.place(node))
        self.generic_visit(node)


def below(module):
    """True if `flambeau run` serves the module."""
    return module.partition(".")[0] in SERVED


def is_ambiguous(name):
    """True if other common objects have an attribute of that name."""
    return any(hasattr(kind, name) for kind in _OTHERS) or name in _known_attributes()


def _known_attributes():
    """Attributes of modules and optimizers."""
    nn, optim = importlib.import_module(FACADE + ".nn"), importlib.import_module(FACADE + ".optim")
    return {*dir(nn.Module), *dir(optim.Optimizer)}


# ---------------------------------------------------------------------------------- looking up
def real(name):
    """Where the module `name` of PyTorch's lies in the house."""
    top, _, rest = name.partition(".")
    return f"{SERVED[top]}.{rest}" if rest else SERVED[top]


def look_up(name):
    """The use of a dotted name; attributes of what is neither a module nor a class are not followed."""
    path, _, rest = name.partition(".")
    value = importlib.import_module(real(path))
    for part in rest.split(".") if rest else ():
        if not isinstance(value, (types.ModuleType, type)):
            break
        found = get(value, part)
        if found is _MISSING:
            near = nearest(part, dir(value))
            return Use(name, False, reason(name) or near and f"nearest: {path}.{near}")
        value, path = found, f"{path}.{part}"
    return Use(name, True)


_MISSING = object()


def get(value, part):
    read = inspect.getattr_static if isinstance(value, type) else getattr
    found = read(value, part, _MISSING)
    if found is _MISSING and isinstance(value, types.ModuleType):
        try:
            return importlib.import_module(f"{value.__name__}.{part}")
        except ModuleNotFoundError:
            return _MISSING
    return getattr(value, part, found) if isinstance(value, type) and found is not _MISSING else found


def look_up_method(name):
    """The use of an attribute of a tensor."""
    tensor = importlib.import_module(FACADE).Tensor
    known = {*dir(tensor), *_known_attributes()}
    if name in known:
        return Use("." + name, True)
    near = nearest(name, dir(tensor))
    return Use("." + name, False, near and f"nearest: .{near}")


def public_names(module):
    """What `from module import *` brings."""
    try:
        return [name for name in dir(importlib.import_module(real(module))) if not name.startswith("_")]
    except ModuleNotFoundError:
        return []
