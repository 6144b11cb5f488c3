"""docs/ops.md: every public operation with its signature, its first sentence, its kind and its dtypes."""

import importlib
import inspect
import re

from flambeau.cli import ops_matrix
from flambeau.ops.spec import REGISTRY
from flambeau.tools.signatures import OPS, signature

INTRODUCTION = """# The operations

Every public operation by subject: how it is called, what it gives, its kind, and the dtypes it is tested with
(`f16/32/64 bf16`: float16, float32, float64, bfloat16; `i`, `u`, `b`, `c`: signed, unsigned, bool, complex).
Plain functions over ops have no kind of their own and take what those ops take. `flambeau ops` shows what
each part of Flambeau does with each op. This page is made by `python -m flambeau.tools` and compared in a
test.

"""


def first_sentence(function):
    """The first sentence of a docstring, on one line."""
    text = inspect.cleandoc(getattr(function, "__doc__", None) or "")
    paragraph = " ".join(text.split("\n\n")[0].split())
    found = re.match(r".*?[.:](?=\s+[A-Z(`]|$)", paragraph)
    return (found[0] if found else paragraph).rstrip(":.").replace("|", "\\|") + "." if paragraph else ""


def entry(name, function):
    """The line of one operation."""
    operation = OPS.get(id(function))
    try:
        call = signature(name, function, typed=False)
    except (TypeError, ValueError):
        call = "(...)"
    kind = f" *{operation.kind}; {ops_matrix.dtypes(operation)}*" if operation is not None else ""
    return f"- `{name}{call}`: {first_sentence(function)}{kind}"


def area(function):
    """The module that declares an operation."""
    operation = OPS.get(id(function))
    return type(operation).__module__ if operation is not None else inspect.unwrap(function).__module__


def heading(module):
    """The subject of a module: the first sentence of its docstring."""
    return first_sentence(importlib.import_module(module)).rstrip(".")


def page():
    """The text of docs/ops.md."""
    areas = {}
    for name, function in ops_matrix.public_functions().items():
        areas.setdefault(area(function), []).append((name, function))
    parts = []
    for module, found in sorted(
        areas.items(), key=lambda item: (not item[0].startswith("flambeau.ops"), item[0])
    ):
        lines = [entry(name, function) for name, function in sorted(found, key=lambda pair: pair[0])]
        parts.append(
            f"## {module.removeprefix('flambeau.')}\n\n{heading(module)}.\n\n" + "\n".join(lines) + "\n"
        )
    opaque, total = ops_matrix.opaque_share()
    count = f"{total} operations over {len(REGISTRY)} declared ops; {opaque} are, or rest on, host functions."
    return INTRODUCTION + count + "\n\n" + "\n".join(parts)
