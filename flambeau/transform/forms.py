"""A function over batches as one compiled call.

What a rule does to one op, or a derivative graph to its values, is a handful of ops. The first time it is traced over the
tensors below the level, like a composite; from then on it is one plan, which also knows its derivative.
"""

from flambeau.ops.kinds import Composite
from flambeau.ops.wrapped import is_wrapped
from flambeau.runtime._core import Tensor

_FORMS = {}         # key -> Form, or None where the function cannot be traced


def _form(key, name, function, batched, operands):
    """The Composite of `function`: batched[i] says which operands have a batch in front; None: number or shared."""
    from flambeau.transform.batching import BatchLevel
    names = tuple(f"x{i}" for i in range(len(operands)))

    def compute(**given):
        first = next((given[n] for n, has in zip(names, batched) if has), None)
        if first is None:
            return function(*given.values())
        with BatchLevel(first.shape[0]) as level:
            result = function(*[level.wrap(given[n]) if has else given[n] for n, has in zip(names, batched)])
            several = isinstance(result, (tuple, list))
            whole = tuple(level.whole(r) for r in (result if several else (result,)))
        return whole if several else whole[0]

    return composite(name, f"{name} over a batch.", names, compute)


class Form(Composite):
    """An op of a function over ops that is made while a program runs."""


def composite(name, text, names, compute):
    """An op, in no registry, of a function over ops; several results are a plain tuple."""
    statements = {"__doc__": text, "signature": ", ".join(names), "operands": names, "name": name, "numbers": True,
                  "compute": staticmethod(compute), "internal": True, "pack": lambda self, results: tuple(results)}
    return type("Form", (Form,), statements)()


def _is_plain(operand):
    if not isinstance(operand, Tensor):
        return True
    traced = getattr(type(operand), "is_traced", False)
    return not (traced or is_wrapped(operand) or operand.dtype.kind == "c" or operand.is_shape_only) and operand.numel() > 0


def run(level, key, name, function, operands):
    """function(*operands) for operands that are plain tensors or batches of them; NotImplemented where that cannot be.

    level: of the batches, None if there are none. key: tells this function, with everything that it closes over, from
    others. The results are the tensors below.
    """
    batched, inner = [], []
    for operand in operands:
        has = level is not None and level.batched(operand)
        below = operand.inner if has else operand
        if type(below) is not Tensor and not _is_plain(below) or type(below) is Tensor and (
                below.dtype.kind == "c" or below.is_shape_only or not below.numel()):
            return NotImplemented
        batched.append(has)
        inner.append(below)
    batched = tuple(batched)
    key = key, batched
    try:
        form = _FORMS.get(key, _FORMS)
    except TypeError:
        return NotImplemented
    if form is _FORMS:
        form = _FORMS[key] = _form(key, name, function, batched, operands)
    if form is None:
        return NotImplemented
    try:
        return form.function(*inner)
    except Exception:                   # a rule that needs values or fixed sizes: from now on op by op
        _FORMS[key] = None
        return NotImplemented
