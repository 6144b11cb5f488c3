"""The table of layers is this test: a package imports itself and lower lines only, at any indentation."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "flambeau"
LINES = ("base", "types", "ir runtime", "ops", "compiler", "tensor", "capture transform",
         "nn optim data amp distributions hub", "distributed quant export",
         "vision geometric rl privacy federated quantum", "train track measure", "serve",
         "(public)",                # the single files at the top, and flambeau itself
         "torch cli", "testing tools")
HEIGHT = {package: height for height, line in enumerate(LINES) for package in line.split()}
SLOW = {"numpy", "llvmlite", "scipy", "rich", "matplotlib", "sklearn"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
CYTHON_IMPORT = re.compile(r"^(\s*)(?:from\s+([\w.]+)\s+c?import\b\s*\(?([\w\s,]*)|c?import\s+([\w.]+))")


def nodes_of(tree, eager=True):
    """(node, whether it runs when the module is imported) for every node of a tree."""
    for child in ast.iter_child_nodes(tree):
        yield child, eager
        yield from nodes_of(child, eager and not isinstance(child, FUNCTIONS))


def absolute(path, root, module, level):
    """The full name of what `from ..module import` means in the file `path`."""
    if level == 0:
        return module
    package = (root.name, *path.relative_to(root).parent.parts)
    return ".".join((*package[:len(package) - level + 1], *([module] if module else [])))


def imports_of(path, root):
    """(line, module, eager) of each import; a name taken from flambeau itself counts as a module."""
    text = path.read_text()
    if path.suffix != ".py":
        for number, line in enumerate(text.splitlines(), 1):
            if found := CYTHON_IMPORT.match(line):
                indent, origin, names, plain = found.groups()
                level = len(origin or "") - len((origin or "").lstrip("."))
                module = absolute(path, root, (origin or plain)[level:], level)
                inner = re.split(r"[\s,]+", names.strip()) if module == root.name and names else [None]
                yield from ((number, f"{module}.{name}" if name else module, not indent) for name in inner)
        return
    for node, eager in nodes_of(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, eager) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute(path, root, node.module, node.level)
            names = [f"{module}.{alias.name}" for alias in node.names] if module == root.name else [module]
            yield from ((node.lineno, name, eager) for name in names)
        elif (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__"))
              and node.args and isinstance(node.args[0], ast.Constant)):
            yield node.lineno, str(node.args[0].value), eager


def package_of(module, root):
    """The package that `module` (flambeau...) lies in; a single file, or flambeau itself, is '(public)'."""
    name = module.split(".")[1] if "." in module else ""
    return name if (root / name).is_dir() and name else "(public)"


def faults(root=ROOT):
    for path in sorted(path for end in ("py", "pyx", "pxi", "pxd") for path in root.rglob("*." + end)):
        place = path.relative_to(root.parent)
        own = package_of(".".join(place.parts), root) if len(place.parts) > 2 else "(public)"
        if own not in HEIGHT:
            yield f"{place}:1: package {own} is not in the table of layers"
            continue
        if (length := len(path.read_text().splitlines())) > 600:
            yield f"{place}:{length}: longer than 600 lines"
        for line, module, eager in imports_of(path, root):
            head = module.split(".")[0]
            other = package_of(module, root) if head == root.name else own
            if eager and head in SLOW:
                yield f"{place}:{line}: {head} is slow to import; import it inside the function that uses it"
            elif other != own and HEIGHT.get(other, 99) >= HEIGHT[own]:
                yield f"{place}:{line}: {own} may not import {other} ({module})"


def test_packages_import_downwards_and_files_stay_short():
    found = list(faults())
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("file, text, fault", [
    ("ir/a.py", "def f():\n  if f:\n    from flambeau.ops import spec", "ir/a.py:3: ir may not import ops"),
    ("ir/a.py", "from ..ops.spec import op", "ir/a.py:1: ir may not import ops"),
    ("ir/a.py", "from .. import base, runtime", "ir/a.py:1: ir may not import runtime"),
    ("ir/deep/a.py", "from ...ops import spec", "ir/deep/a.py:1: ir may not import ops"),
    ("ir/a.py", "from flambeau import ops", "ir/a.py:1: ir may not import ops"),
    ("ir/a.py", "import flambeau", "ir/a.py:1: ir may not import (public)"),
    ("ir/a.py", "import importlib\nimportlib.import_module('flambeau.ops')", "ir/a.py:2: ir may not import"),
    ("runtime/a.pyx", "\n  from flambeau.ops cimport spec", "runtime/a.pyx:2: runtime may not import ops"),
    ("runtime/a.pyx", "cimport numpy", "runtime/a.pyx:1: numpy is slow"),
    ("ops/a.py", "try:\n  import numpy.linalg\nexcept ImportError: pass", "ops/a.py:2: numpy is slow"),
    ("linalg.py", "from flambeau.torch import x", "linalg.py:1: (public) may not import torch"),
    ("other/a.py", "", "other/a.py:1: package other is not in the table"),
    ("ops/a.py", "\n" * 601, "ops/a.py:601: longer than 600 lines"),
    ("ops/a.py", "from flambeau.types import dim\nfrom . import b\ndef f(): import numpy", None),
    ("torch/a.py", "import flambeau\nfrom flambeau import linalg", None),
    ("linalg.py", "from flambeau import ops\nfrom flambeau.ops import spec\nimport flambeau.fft", None)])
def test_the_test_sees(tmp_path, file, text, fault):
    root = tmp_path / "flambeau"
    for package in ("base", "types", "ir", "runtime", "ops", "torch", "ir/deep", "other"):
        (root / package).mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text)
    found = list(faults(root))
    assert [line[len("flambeau/"):][:len(fault or "")] for line in found] == ([fault] if fault else [])
