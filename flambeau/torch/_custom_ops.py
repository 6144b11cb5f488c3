"""Ops of a program's own: a Python function under a name `space::op`, with a derivative if one is registered.

A call runs the function outside of the tape. What goes on the tape is the derivative of `register_autograd`;
without one, a backward pass through the call is refused. On meta tensors the function of `register_fake`
answers.
"""

import functools
import inspect
import re
import typing

from flambeau.base import tree
from flambeau.base.errors import fail
from flambeau.runtime._core import Tensor, grad_mode
from flambeau.tensor.autograd import no_grad
from flambeau.tensor.function import Function

OPS = {}                    # "space::op" -> CustomOp


class CustomOp:
    """One op. `torch.ops.space.op`, and its overload `.default`, are this object too."""

    def __init__(self, qualname, function=None, schema=None, mutates_args=()):
        self._qualname, self._schema_text, self._mutated = qualname, schema, mutates_args
        self._kernels, self._fake, self._backward, self._setup, self._vmap = {}, None, None, None, None
        self._signature, self._enabled = None, True
        self.__name__ = qualname
        if function is not None:
            self._kernels[None] = function
            self._signature = inspect.signature(function)
            functools.update_wrapper(self, function)
        OPS[qualname] = self

    @property
    def default(self):
        """The only overload: the op itself."""
        return self

    def __repr__(self):
        return f"<CustomOp({self._qualname})>"

    # ------------------------------------------------------------------ what is registered
    def register_kernel(self, device_types, func=None):
        """The function for 'cpu' (others are kept and never run); also a decorator. None stands for all
        devices.
        """
        def register(function):
            for device in device_types if isinstance(device_types, (list, tuple)) else (device_types,):
                self._kernels[device] = function
            return function
        return register if func is None else register(func)

    def register_fake(self, fn):
        """The function that gives results of the right shapes and dtypes for meta tensors; also a
        decorator.
        """
        self._fake = fn
        return fn

    def register_autograd(self, backward, /, *, setup_context=None):
        """backward(ctx, *grads) gives a gradient, or None, for each argument; setup_context(ctx, inputs,
        output) keeps what it needs."""
        self._backward, self._setup = backward, setup_context

    def register_vmap(self, func=None):
        """Kept: a map over the op calls the function for each slice only where vmap can see into it."""
        if func is None:
            return self.register_vmap
        self._vmap = func
        return func

    register_torch_dispatch = register_autocast = register_vmap

    def set_kernel_enabled(self, device_type, enabled=True):
        """A block with the registered kernel of the device switched off: the function that declared the op
        runs.
        """
        return _Enabled(self, enabled)

    # ------------------------------------------------------------------ calling
    def __call__(self, *args, **kwargs):
        args, kwargs = self._bound(args, kwargs)
        tensors = [leaf for leaf in tree.flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        if "CompositeImplicitAutograd" in self._kernels and self._backward is None:
            return self._kernels["CompositeImplicitAutograd"](*args, **kwargs)
        recorded = grad_mode() and any(tensor.requires_grad for tensor in tensors)
        if not recorded or (self._backward is None and self._mutated):
            with no_grad():
                return self._run(args, kwargs)
        return _Recorded.apply(self, kwargs, *args)

    def _bound(self, args, kwargs):
        """The arguments by the signature of the function: positional ones with defaults filled in, the rest
        by name.
        """
        if self._signature is None:
            return args, kwargs
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _run(self, args, kwargs):
        meta = any(isinstance(leaf, Tensor) and leaf.is_meta for leaf in tree.flatten((args, kwargs))[0])
        if meta and (self._fake is not None or "Meta" in self._kernels or "meta" in self._kernels):
            chosen = self._fake or self._kernels.get("Meta") or self._kernels["meta"]
        else:
            order = ("cpu", "CPU", None, "CompositeExplicitAutograd")
            found = [self._kernels[name] for name in (order if self._enabled else order[2:])
                if name in self._kernels]
            if not found:
                fail(self._qualname, "there is no function for the CPU", list(self._kernels),
                    kind=NotImplementedError,
                     hint=f"register one with torch.library.impl({self._qualname!r}, 'CPU')")
            chosen = found[0]
        args, kwargs = tree.map(_detached, (args, kwargs))
        return chosen(*args, **kwargs)


def _detached(leaf):
    return leaf.detach() if isinstance(leaf, Tensor) and leaf.requires_grad else leaf


class _Enabled:
    def __init__(self, op, enabled):
        self.op, self.before = op, op._enabled
        op._enabled = enabled

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.op._enabled = self.before


class _Recorded(Function):
    """A call with a derivative."""

    @staticmethod
    def forward(ctx, op, kwargs, *args):
        ctx.op = op
        output = op._run(args, kwargs)
        if op._setup is not None:
            more = {"keyword_only_inputs": kwargs} if kwargs else {}
            op._setup(ctx, inputs=args, output=output, **more)
        return output

    @staticmethod
    def backward(ctx, *grads):
        if ctx.op._backward is None:
            raise RuntimeError(
                f"Trying to backward through {ctx.op._qualname} but no autograd formula was registered; do "
                "that with register_autograd")
        found = ctx.op._backward(ctx, *grads)
        return None, None, *(found if isinstance(found, tuple) else (found,))


# ---------------------------------------------------------------------------------- by name
def named(op):
    """The op of a name, or of an op."""
    qualname = getattr(op, "_qualname", op)
    if qualname not in OPS:
        raise RuntimeError(
            f"[torch.library] there is no op named {qualname!r}: declare it with torch.library.custom_op or "
            "torch.library.define")
    return OPS[qualname]


def checked_name(name):
    """`name` if it is space::op; ValueError otherwise."""
    if not isinstance(name, str) or not re.fullmatch(r"\w+::\w+(\.\w+)?", name):
        raise ValueError(f"[torch.library] expected a name of the form 'space::op', got {name!r}")
    return name.partition(".")[0]


_TYPES = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str"}


def type_text(annotation):
    """How a schema writes a type; ValueError for a type that it has no word for."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in _TYPES:
        return _TYPES[annotation]
    if (origin is typing.Union
        or type(annotation).__name__ == "UnionType") and len(parts) == 2 and type(None) in parts:
        return type_text(next(part for part in parts if part is not type(None))) + "?"
    if origin is typing.Union and set(parts) == {int, float, bool}:
        return "Scalar"
    if origin is not None and issubclass(origin, (list, typing.Sequence)):
        return type_text(parts[0]) + "[]"
    raise ValueError(f"[torch.library] a schema has no type for {annotation!r}")


def schema_of(function, mutates_args=(), op_name=None):
    """The schema text of a function with annotations: '(Tensor x, SymInt n=2) -> Tensor'."""
    hints, shown, starred = typing.get_type_hints(function), [], False
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in hints:
            raise ValueError(f"[torch.library] parameter {name} must have a type annotation")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        text = type_text(hints[name])
        if name in mutates_args:
            text = text.replace("Tensor", f"Tensor(a{len(shown)}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={_literal(parameter.default)}"
        shown.append(f"{text} {name}{default}")
    result = hints.get("return")
    if result in (None, type(None)):
        made = "()"
    elif typing.get_origin(result) is tuple:
        made = "(" + ", ".join(map(type_text, typing.get_args(result))) + ")"
    else:
        made = type_text(result)
    return f"{op_name or ''}({', '.join(shown)}) -> {made}"


def _literal(value):
    """A default value as a schema writes it; ValueError for a kind that it has no form for."""
    if not isinstance(value, (str, int, float, bool, type(None))):
        raise ValueError(f"[torch.library] a schema cannot write the default {value!r}")
    return f'"{value}"' if isinstance(value, str) else str(value)
