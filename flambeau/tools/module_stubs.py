"""The stub of `flambeau.nn`: its classes with typed constructors, forward, methods and the attributes they
set."""

import ast
import inspect
import re
import textwrap

from flambeau import nn
from flambeau.tools.signatures import RETURNS, inferred, signature, type_of

SAME = """train eval requires_grad_ to cuda cpu type float double half bfloat16 apply to_empty
share_memory append insert extend""".split()
MODULE_RETURNS = {
    **dict.fromkeys(SAME, "Self"),
    "parameters": "Iterator[Parameter]",
    "named_parameters": "Iterator[tuple[str, Parameter]]",
    "children": "Iterator[Module]",
    "modules": "Iterator[Module]",
    "named_children": "Iterator[tuple[str, Module]]",
    "named_modules": "Iterator[tuple[str, Module]]",
    "buffers": "Iterator[Tensor]",
    "named_buffers": "Iterator[tuple[str, Tensor]]",
    "state_dict": "dict[str, Any]",
    "get_parameter": "Parameter",
    "get_buffer": "Tensor",
    "get_submodule": "Module",
    "zero_grad": "None",
    "extra_repr": "str",
    **dict.fromkeys(("register_parameter", "register_buffer", "add_module", "register_module"), "None"),
}
SEVERAL = re.compile(
    r"Module|Sequential|Parallel|MaxPool|Attention|^(LSTM|GRU|RNN)(Base)?$|LSTMCell|AdaptiveLog"
)  # not one tensor
HEAD = """from typing import Self

from flambeau.nn import functional as functional, init as init, parameter as parameter, utils as utils
from flambeau.nn.parameter import (Buffer as Buffer, UninitializedBuffer as UninitializedBuffer,
                                   UninitializedParameter as UninitializedParameter)
from flambeau.runtime._core import Tensor as Tensor

class Parameter(Tensor):
    def __init__(self, data: Tensor = ..., requires_grad: bool = True) -> None: ...
"""
MODULE_EXTRA = """    training: bool
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
"""
CONTAINERS = """    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, key: Any) -> Any: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __contains__(self, key: Any) -> bool: ...
"""


def text():
    """The lines of the stub below its head."""
    lines = [HEAD]
    elsewhere = {"Buffer", "UninitializedBuffer", "UninitializedParameter", "Parameter"}
    classes = [
        value for value in vars(nn).values() if inspect.isclass(value) and value.__name__ not in elsewhere
    ]
    order = {value: len(value.__mro__) for value in classes}
    for value in sorted(set(classes), key=lambda c: (order[c], c.__name__)):
        lines.append(class_text(value))
    names = {value.__name__ for value in classes}
    lines += [
        f"\n{name} = {value.__name__}\n"
        for name, value in sorted(vars(nn).items())
        if inspect.isclass(value) and name not in names | elsewhere
    ]
    return "".join(lines)


def class_text(cls):
    """A class: attributes, constructor, own public methods and those of bases without a public name."""
    base = next((b for b in cls.__mro__[1:] if getattr(nn, b.__name__, None) is b), None)
    above = set(base.__mro__) if base else {object}
    own = {}
    for part in reversed([c for c in cls.__mro__ if c not in above and c.__module__.startswith("flambeau")]):
        own |= vars(part)
    lines = [f"\nclass {cls.__name__}{f'({base.__name__})' if base else ''}:\n"]
    if cls is nn.Module:
        lines.append(MODULE_EXTRA)
    elif "__getitem__" in own:
        lines.append(CONTAINERS)
    lines += [f"    {name}: {kind}\n" for name, kind in attributes(cls, own).items()]
    for name, value in own.items():
        if (not name.startswith("_") or name == "__init__") and inspect.isfunction(value):
            lines.append(f"    def {name}{method(cls, name, value)}: ...\n")
        elif isinstance(value, property) and not name.startswith("_"):
            lines.append(f"    {name}: Any\n")
    return "".join(lines) if len(lines) > 1 else lines[0].rstrip("\n") + " ...\n"


def method(owner, name, value):
    """The signature of a method, with what it gives."""
    plain = inspect.unwrap(value)
    found = signature(name, plain, method=True)
    found = found.rpartition(" -> ")[0]
    if name == "__init__":
        return found + " -> None"
    if name == "forward":
        known = inferred(plain)
        return (
            found
            + " -> "
            + (
                known
                if known not in (None, "None")
                else "Any"
                if SEVERAL.search(owner.__name__)
                else "Tensor"
            )
        )
    return found + " -> " + (MODULE_RETURNS.get(name) or RETURNS.get(name) or inferred(plain) or "Any")


def attributes(cls, own):
    """name -> annotation of what the constructor sets: parameters it keeps, and weight and bias."""
    init = own.get("__init__")
    if not inspect.isfunction(init) or "__dataclass_fields__" in own:
        return dict.fromkeys(own.get("__dataclass_fields__", ()), "Any")
    parameters = inspect.signature(init).parameters
    found = {}
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(init)))):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and getattr(node.value, "id", "") == "self"
        ):
            if node.attr in parameters and node.attr not in own:
                found[node.attr] = type_of(parameters[node.attr])
    found |= {name: "Any" for name in ("weight", "bias") if name in found and found[name] == "bool"}
    return found
