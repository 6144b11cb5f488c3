"""`torch._foreach_...`: an operation on every tensor of a list, out of place and (with a trailing
underscore) in place."""

_UNARY = (
    "abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 max neg "
    "reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zero"
).split()
_BINARY = "add clamp_max clamp_min copy div maximum minimum mul pow sub".split()
_TERNARY = "addcdiv addcmul lerp".split()
_ONLY_NEW, _ONLY_IN_PLACE = ("clone", "max", "norm"), ("copy", "zero")
_BOUNDS = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _columns(tensors, operands):
    """The operands of each call: lists have one for each tensor, everything else is the same for all."""
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    columns = []
    for operand in operands:
        if not isinstance(operand, (list, tuple)):
            operand = [operand] * len(tensors)
        elif len(operand) != len(tensors):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(operand)}"
            )
        columns.append(operand)
    return zip(tensors, *columns)


def _call(method, tensor, operands, options):
    base = method.rstrip("_")
    if base in _BOUNDS and not hasattr(operands[0], "dtype"):  # a number for a bound
        method = _BOUNDS[base] + ("_" if method.endswith("_") else "")
    if base in ("maximum", "minimum") and method.endswith("_") and hasattr(operands[0], "dtype"):
        return tensor.copy_(getattr(tensor, base)(*operands))
    return getattr(tensor, method)(*operands, **options)


def _make(method, scaled=False):
    """The function that calls `method` on each tensor; with `scaled` a third list is its `value`."""
    in_place = method.endswith("_")

    def each(self, *operands, **options):
        if method == "pow" and not isinstance(self, (list, tuple)):  # a number to the power of each
            return [self**exponent for exponent in operands[0]]
        if scaled and len(operands) == 3:
            options["value"], operands = operands[2], operands[:2]
        elif scaled and "scalars" in options:
            options["value"] = options.pop("scalars")
        extra = list(options)
        made = []
        for tensor, *row in _columns(self, [*operands, *options.values()]):
            plain, named = row[: len(operands)], dict(zip(extra, row[len(operands) :]))
            made.append(_call(method, tensor, plain, named))
        return self if in_place else tuple(made)

    each.__name__ = each.__qualname__ = f"_foreach_{method}"
    each.__doc__ = f"`Tensor.{method}` of every tensor of a list" + (
        ", in place." if in_place else ", as a tuple."
    )
    return each


def _foreach_norm(self, ord=2, dtype=None):
    """The norm of every tensor of a list, as a tuple."""
    from flambeau.linalg import vector_norm

    return tuple(vector_norm(tensor, ord, dtype=dtype) for (tensor,) in _columns(self, ()))


def _foreach_powsum(self, ord=2, dtype=None):
    """The sum of the powers of the magnitudes of every tensor of a list, as a tuple."""
    return tuple(tensor.abs().pow(ord).sum(dtype=dtype) for (tensor,) in _columns(self, ()))


for _name in (*_UNARY, *_BINARY, *_TERNARY):
    if _name not in _ONLY_IN_PLACE:
        globals()[f"_foreach_{_name}"] = _make(_name, _name.startswith("addc"))
    if _name not in _ONLY_NEW:
        globals()[f"_foreach_{_name}_"] = _make(_name + "_", _name.startswith("addc"))

__all__ = sorted(name for name in globals() if name.startswith("_foreach_"))
