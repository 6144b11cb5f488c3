"""torch.library: ops of a program's own, as Python functions with optional derivatives. See `_custom_ops`."""

import functools as _functools

from flambeau.torch import _compiled, _custom_ops, _mirror
from flambeau.torch._custom_ops import CustomOp as CustomOpDef
from flambeau.torch._custom_ops import checked_name as _checked_name
from flambeau.torch._custom_ops import named as _named


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Make a Python function the op `name` ('space::op'), also called as `torch.ops.space.op`. Also a
    decorator.

    Args:
        mutates_args: names of the arguments that it writes to, or 'unknown'.
        schema: the types as text; without it they come from annotations, which then must be there.

    >>> import flambeau as fl
    >>> @custom_op("doc::twice", mutates_args=())
    ... def twice(x: fl.Tensor) -> fl.Tensor:
    ...     return x * 2
    >>> twice.register_autograd(lambda ctx, grad: grad * 2)
    >>> x = fl.ones(2, requires_grad=True)
    >>> twice(x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 2.0]
    """
    if fn is None:
        return _functools.partial(custom_op, name, mutates_args=mutates_args, device_types=device_types,
            schema=schema,
                                  tags=tags)
    text = schema or infer_schema(fn, mutates_args=mutates_args if mutates_args != "unknown" else ())
    return CustomOpDef(_checked_name(name), fn, text, mutates_args)


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema of a function by its annotations, as text; ValueError where one is missing."""
    return _custom_ops.schema_of(prototype_function, mutates_args, op_name)


def define(qualname, schema, *, lib=None, tags=()):
    """Name an op by its schema; `impl` gives it functions."""
    CustomOpDef(_checked_name(qualname), schema=schema)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """The function of an op for some devices; also a decorator."""
    return _named(op).register_kernel(device_types, func)


impl = register_kernel


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """The function that answers for meta tensors; also a decorator."""
    return _named(op).register_fake if func is None else _named(op).register_fake(func)


impl_abstract = register_fake


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """The derivative of an op: see `CustomOpDef.register_autograd`."""
    _named(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op, func=None, /, *, lib=None):
    """Kept; also a decorator."""
    return _named(op).register_vmap(func)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Kept: autocast leaves ops of a program's own as they are."""
    _named(op)


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """Kept; also a decorator."""
    return _named(op).register_vmap(func)


class Library:
    """A name space of ops: Library('space', 'DEF') defines them, Library('space', 'IMPL', 'CPU') gives them
    functions.
    """

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"[torch.library] unsupported kind {kind!r}: it is 'DEF', 'IMPL' or 'FRAGMENT'")
        if ns in ("aten", "prim", "prims"):
            raise ValueError(f"[torch.library] {ns} is a reserved namespace here: its ops cannot be replaced")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema, alias_analysis="", *, tags=()):
        """Name an op by 'op(Tensor x) -> Tensor'; returns the name."""
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name}", schema[len(name):])
        return name

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """Give an op of this name space its function; those for other devices and for autograd's inside are
        kept.
        """
        name = getattr(op_name, "_qualname", op_name)
        name = name if "::" in name else f"{self.ns}::{name}"
        _named(_checked_name(name)).register_kernel(dispatch_key or self.dispatch_key or None, fn)

    def _register_fake(self, op_name, fn, _stacklevel=1):
        _named(f"{self.ns}::{op_name}").register_fake(fn)

    def _destroy(self):
        for name in [name for name in _custom_ops.OPS if name.startswith(self.ns + "::")]:
            del _custom_ops.OPS[name]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._destroy()


def fallthrough_kernel():
    """Marks a function that hands on; never called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def get_kernel(op, dispatch_key):
    """The function of an op for a device."""
    return _named(op)._kernels[dispatch_key]


triton_op, wrap_triton, get_ctx, opcheck = (_compiled.refused(f"torch.library.{name}",
    "custom_op takes Python functions")
                                            for name in ("triton_op", "wrap_triton", "get_ctx", "opcheck"))

__getattr__, __dir__ = _mirror.mirror(__name__)
