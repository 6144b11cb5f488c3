"""The matrix op x consumer: for every declared op what each part of the house does with it.

A row is read off the declaration: the kind, the statements of the class, the tables of rules. No cell is
empty; one that has nothing to show gives the reason, in words that start with "no".
"""

import inspect
import re
from functools import cache
from pathlib import Path

from flambeau.ops import complex_kinds, complex_rules
from flambeau.ops.kinds import Template
from flambeau.ops.spec import FUNCTIONS, REGISTRY
from flambeau.runtime._core import Tensor
from flambeau.transform import rules

COLUMNS = (
    "op",
    "kind",
    "eager",
    "compiled",
    "derivative",
    "vmap",
    "jvp",
    "complex",
    "dtypes",
    "in-place",
    "out=",
    "tested",
)
TEMPLATE = re.compile(r"templates\.(\w+(?:\.\w+)?)")
CALLS = re.compile(r"\b([a-z]\w*)\(")
SHORT = {"bool": "b", "int": "i", "uint": "u", "float": "f", "bfloat": "bf", "complex": "c"}
TESTS = Path(__file__).resolve().parents[2] / "tests"


def is_public(operation):
    """True for an op that has a name of its own in `flambeau`."""
    return not operation.internal and not operation.name.startswith("_")


def row(operation):
    """The cells of an op, in the order of COLUMNS."""
    return (
        operation.name,
        operation.kind,
        eager(operation),
        compiled(operation),
        derivative(operation),
        vmap(operation),
        jvp(operation),
        complex_form(operation),
        dtypes(operation),
        inplace(operation),
        out(operation),
        tested(operation),
    )


def eager(operation):
    if operation.kind == "elementwise":
        return "native call" if operation.native.arity else "plan by signature"
    return {"view": "view, no kernel", "opaque": "host call"}.get(operation.kind, "plan by signature")


def compiled(operation):
    """What the compiler makes of a node: part of a fused loop, or a kernel of its own."""
    if operation.kind == "opaque":
        return "host step" if "lower" not in type(operation).__dict__ else "copies"
    if operation.kind == "composite":
        return "fused from its ops"
    if isinstance(operation, Template):
        name = stated_templates(operation)
        return "template " + name if name else "steps of its own" if operation.lower else "row loop"
    return {
        "elementwise": "fused loop",
        "reduction": "row loop",
        "view": "index map",
        "create": "fused loop",
    }.get(operation.kind, "steps of its own")


def stated_templates(operation):
    """The templates that `lower` and what it calls ask for, joined by commas."""
    lower = inspect.getattr_static(type(operation), "lower", None)
    function = getattr(lower, "__func__", lower)
    if not inspect.isfunction(function):
        return ""
    texts = [source(function)]
    texts += [
        source(f) for n in CALLS.findall(texts[0]) if inspect.isfunction(f := function.__globals__.get(n))
    ]
    return ", ".join(dict.fromkeys(name for text in texts for name in TEMPLATE.findall(text)))


@cache
def source(function):
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def derivative(operation):
    if not operation.differentiable:
        return "no: not differentiable"
    if operation.derivative is not None:
        return "transpose" if operation.kind == "view" else "stated"
    return "traced from its ops" if operation.kind == "composite" else "no: nothing asks for it"


def vmap(operation):
    if operation.name in rules.RULES:
        return "rule by name"
    rule = rules.rule_for(operation)
    if (
        operation.kind == "composite"
        and getattr(operation, "draws", False)
        or rule is rules.example_by_example
    ):
        return "example by example"
    return "op by op" if rule is rules.decomposed else "rule of its kind"


def jvp(operation):
    if not operation.differentiable:
        return "no: not differentiable"
    if operation.kind == "view":
        return "view of the tangent"
    if operation.derivative is None:
        return "op by op" if operation.kind == "composite" else "no: no derivative"
    if operation.kind == "elementwise" and operation.outputs is None:
        return "derivative (diagonal)"
    return "transposed gradient"


def complex_form(operation):
    if operation.name in complex_kinds.RULES:
        return "rule by name"
    if operation.kind == "elementwise":
        known = operation.name in complex_rules.SPECIAL or complex_rules.form_of(operation) is not None
        return "formula on pairs" if known else "no: no complex form"
    if operation.kind == "reduction":
        return "parts" if operation.name in ("sum", "mean", "any", "all") else "no: no order"
    if operation.kind == "scan":
        return "parts" if operation.name in ("cumsum", "suffix_sum", "delay") else "no: no order"
    return {
        "contraction": "products of parts",
        "window": "products of parts",
        "sort": "no: no order",
        "composite": "op by op",
        "create": "no: no operands",
        "random": "no: draws are real",
    }.get(operation.kind, "elements as they are")


def dtypes(operation):
    """The dtypes the class is tested with, families in one letter: f16-64."""
    if not operation.dtypes:
        return {"composite": "those of its ops", "opaque": "checked by itself"}.get(
            operation.kind, "those of its operands"
        )
    families = {}
    for dtype in operation.dtypes:
        letters, digits = re.fullmatch(r"([a-z]+)(\d*)", dtype.name).groups()
        families.setdefault(SHORT[letters], []).append(digits)
    return " ".join(
        name if digits == [""] else name + "/".join(sorted(digits, key=int))
        for name, digits in families.items()
    )


def inplace(operation):
    if hasattr(Tensor, operation.name + "_"):
        return operation.name + "_"
    if not is_public(operation):
        return "no: internal"
    return "no: " + {"view": "a view", "create": "no operands", "reduction": "another shape"}.get(
        operation.kind, "not in PyTorch"
    )


def out(operation):
    if not is_public(operation):
        return "no: internal"
    return (
        "no: a view"
        if operation.kind == "view"
        else "no: no such form"
        if operation.kind == "random"
        else "yes"
    )


# ---------------------------------------------------------------------------------- where it is tested
def tested(operation):
    """The test that draws from the registry, the op whose derivative it is, or the files that name it."""
    if operation.reference is not None and operation.dtypes and operation.kind not in ("random", "create"):
        return "test_every_op"
    owners = [
        other.name for other in REGISTRY.values() if other is not operation and calls(other, operation.name)
    ]
    if owners:
        return "as part of " + owners[0]
    found = [path.name for path, text in test_texts() if re.search(rf"\b{operation.name.strip('_')}", text)]
    if found:
        return found[0].removesuffix(".py")
    users = [name for name, function in FUNCTIONS.items() if mentions(function, operation.name)]
    if users:
        return "as part of " + users[0]
    return "with its callers in " + type(operation).__module__.removeprefix("flambeau.")


def calls(operation, name):
    """True if a derivative or a composite's body names the op."""
    return any(
        mentions(function, name) for function in (operation.derivative, getattr(operation, "compute", None))
    )


def mentions(function, name):
    code = getattr(function, "__code__", None)
    return code is not None and name in code.co_names


@cache
def test_texts():
    """(path, text) of the tests beside the package, where there are some."""
    return [(path, path.read_text(encoding="utf-8")) for path in sorted(TESTS.glob("*/test_*.py"))]


# ---------------------------------------------------------------------------------- public operations
def public_functions():
    """name -> function of every public operation, each function once: ops, and plain functions over ops."""
    from importlib import import_module

    found = {operation.name: operation.function for operation in REGISTRY.values() if is_public(operation)}
    found |= FUNCTIONS
    for space in ("linalg", "fft", "special", "nn.functional", "signal.windows"):
        module = import_module("flambeau." + space.partition(".")[0])
        for part in space.split(".")[1:]:
            module = getattr(module, part)
        found |= {
            f"{space}.{name}": getattr(module, name)
            for name in getattr(module, "__all__", dir(module))
            if callable(getattr(module, name))
            and not name.startswith("_")
            and not inspect.isclass(getattr(module, name))
        }
    once = {}
    for name, function in found.items():
        once.setdefault(id(function), (name, function))
    return dict(once.values())


def opaque_share():
    """(public operations that are Opaque ops or call one, all public operations)."""
    opaque = {
        id(o.function) for o in REGISTRY.values() if o.kind == "opaque" and o.name != "cat"
    }  # cat copies in place
    functions = public_functions().values()
    return sum(rests_on(function, opaque) for function in functions), len(functions)


def rests_on(function, targets, depth=3):
    """True if the function is one of those with these ids, or names one in its body or in those of functions
    it names."""
    if id(function) in targets:
        return True
    function = inspect.unwrap(function)
    if depth == 0 or not inspect.isfunction(function) or not function.__module__.startswith("flambeau.ops"):
        return False
    named = (function.__globals__.get(name) for name in function.__code__.co_names)
    return any(rests_on(value, targets, depth - 1) for value in named if callable(value))


__all__ = ["COLUMNS", "is_public", "opaque_share", "public_functions", "row"]
