"""Writes into existing memory, with the tape's rules: `out=`, in-place forms, assignment to an index.

A recorded write through a view changes the history of the view's base too: from then on the base is "what it
was, with `result` in the view's window" (see strided.py), and every view of it is a window on that.
"""

import ctypes

from flambeau.base.errors import fail
from flambeau.ops import elementwise, overrides, plans, strided
from flambeau.ops.spec import REGISTRY, bind
from flambeau.ops.wrapped import is_wrapped
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import bool_, category, float32


def write(target, source):
    """Copy `source` (broadcast, cast) into target's memory; nothing is recorded."""
    if target.is_shape_only:
        return target
    if is_wrapped(target) or is_wrapped(source):
        return _write_wrapped(target, source)
    if target.dtype.kind == "c":
        return _write_complex(target, source)
    if not isinstance(source, Tensor):
        if _core.fill(target, source, "copy"):
            return target
        source = _zero_dim(target, source)
    if source.dtype.kind == "c":
        source = strided.complex_parts(source)[0]
    if source.ndim == 0 and target.ndim:
        source = _core.view_of(source, target.shape, (0,) * target.ndim, 0)
    elif source.shape != target.shape:
        from flambeau.ops.view import expand
        source = expand(source.detach(), tuple(target.shape))
    return _core.run_into(_cast_plan(source, target.dtype), [source], target)


def _write_wrapped(target, source):
    """A write that a function transform takes part in: its level knows where the values live."""
    while not is_wrapped(target) and is_wrapped(source) and _is_constant(source):
        source = source.inner
    if not is_wrapped(source) and not is_wrapped(target):
        return write(target, source)
    if not is_wrapped(target):
        fail(source.level.name, "a tensor from outside cannot take values that exist only inside", tuple(target.shape),
             hint="make it from a value of the function (x.new_zeros, torch.zeros_like), or return the values")
    if not isinstance(source, Tensor):
        source = elementwise.full_like(target, source)
    return _assign_wrapped(REGISTRY["copy"], target, source)


def _assign_wrapped(operation, target, result):
    if "is_copy" in target.__dict__:
        fail(operation.name + "_", f"{target.is_copy} inside {target.level.name} is a copy: a write to it would be lost",
             hint="write through slices")
    return target.level.assign(operation, target, result)


def _is_constant(value):
    """True if the level of a value adds nothing to the tensor below."""
    return hasattr(value.level, "is_constant") and value.level.is_constant(value)


_ZEROS_AND_ONES = {}        # (dtype, 0 or 1) -> a 0-d tensor that nobody writes to
_CASTS = {}                 # (dtype, 0-d?, dtype written) -> plan


def _cast_plan(source, dtype):
    key = source.dtype, source.ndim == 0, dtype
    if key not in _CASTS:
        _CASTS[key] = plans.elementwise_plan(REGISTRY["cast"], [source], {"dtype": dtype})
    return _CASTS[key]


def _zero_dim(target, value):
    """A number as a tensor of the target's dtype."""
    if type(value) is int and 0 <= value <= 1:
        key = target.dtype, value
        if key not in _ZEROS_AND_ONES:
            _ZEROS_AND_ONES[key] = number_in_memory(value, target.dtype)
        return _ZEROS_AND_ONES[key]
    return number_in_memory(value, target.dtype)


_C_TYPES = {"bool": ctypes.c_bool, "float32": ctypes.c_float, "float64": ctypes.c_double,
            **{name: getattr(ctypes, f"c_{name}") for name in
               ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")}}


def number_in_memory(value, dtype):
    """A new 0-d tensor of a number, wrapped or rounded to the dtype; no kernel is made for the value."""
    if dtype.name not in _C_TYPES:          # halves round a float32
        return _core.run_into(_cast_plan(single := number_in_memory(value, float32), dtype), [single],
                              _core.empty_strided((), None, dtype))
    made = _core.empty_strided((), None, dtype)
    kind = {"b": bool, "f": float}.get(dtype.kind, int)
    _C_TYPES[dtype.name].from_address(made.data_ptr()).value = kind(value)
    return made


def _write_complex(target, source):
    """Complex elements are written as floating point tensors: pairs, or one part after the other."""
    if isinstance(source, Tensor) and source.dtype.kind == "c":
        from flambeau.ops.complex_kernels import seen_as_pairs
        source = source.clone() if source.storage_ is target.storage_ else source
        write(seen_as_pairs(target), seen_as_pairs(source))
    else:
        parts = (source, 0) if isinstance(source, Tensor) else (source.real, source.imag)
        for place, part in zip(strided.complex_parts(target), parts):
            write(place, part)
    target._bump_version()
    return target


def check_write(name, target):
    """Raise where a write would make gradients wrong, before any data changes."""
    if not _core.grad_mode() or not target.requires_grad or is_wrapped(target):
        return
    if target.is_leaf:
        fail(name, "a leaf Variable that requires grad is being used in an in-place operation",
             hint="wrap the write in no_grad(), or use the out-of-place form")
    shown, _ = shown_by(target)
    base = target._base if shown is None else shown
    if base is not None and base.requires_grad and base.is_leaf:
        fail(name, "a view of a leaf Variable that requires grad is being used in an in-place operation",
             hint="wrap the write in no_grad(), or use the out-of-place form")


def shown_by(target):
    """(tensor, op) where the target or its base is the memory of the tensor seen by the op as another dtype."""
    base = target if target._base is None else target._base
    return getattr(base, "shown_of", (None, None))


def inplace(operation, args, kwargs=None, name=None):
    """args[0].op_(...): compute into the target, or out of place first where its history or dtype asks for it.

    `name`: of the method, if it is not the op's with an underscore.
    """
    target, kwargs, name = args[0], kwargs or {}, name or operation.name + "_"
    claimed = overrides.claim(args, kwargs)
    if claimed is not None:
        return overrides.hand_over(getattr(Tensor, name), claimed, args, kwargs)
    if getattr(type(target), "is_traced", False):
        fail(operation.name, "in-place writes to traced values are not captured yet",
             hint="use the out-of-place form")
    if operation.kind == "elementwise" and _core.writes_directly((*args, *kwargs.values())) \
            and _computed_into(operation, args, kwargs, target):
        _name_writer(target, name)
        return target
    check_write(name, target)
    result = bind(operation, args, dict(kwargs))
    if is_wrapped(target) or is_wrapped(result):
        return assign(operation, target, result)
    if result.grad_fn is not None and _saves(result.grad_fn, target):
        result = bind(operation, tuple(elementwise.copy(a) if a is target else a for a in args), dict(kwargs))
    return assign(operation, target, result, name)


def _computed_into(operation, args, kwargs, target):
    """True if an elementwise call was computed into its target; a call of a known signature is not bound again."""
    given, names = (*args, *kwargs.values()), tuple(kwargs)
    known = operation.__dict__.setdefault("into_plans", {})
    key = _core.signature_of(given, operation.native.operand_mask, names or None)
    found = None if key is None else known.get(key)
    if found is not None:
        plan, places = found
        _core.run_into(plan, [given[p] if type(p) is int else p[0] for p in places], target)
        return True
    values = operation.bind_arguments(args, kwargs)
    found = operation.into(values, target)
    if found is None:
        return False
    plan, run, operands = found
    _core.run_into(plan, operands, target)
    if key is not None:
        places = _places_of(run.operands, operands, operation.positional[:len(args)] + list(names), given)
        if places is not None:
            if len(known) >= MOST_SIGNATURES:
                known.clear()
            known[key] = plan, places
    return True


MOST_SIGNATURES = 512       # kept for the in-place calls of an op


def _places_of(names, operands, spelled, given):
    """Where each operand stands among the given arguments, or (number,) if it is a default; None if one was changed."""
    places = []
    for name, operand in zip(names, operands):
        if name in spelled:
            if given[spelled.index(name)] is not operand:
                return None
            places.append(spelled.index(name))
        elif isinstance(operand, Tensor):
            return None
        else:
            places.append((operand,))
    return places if len(names) == len(operands) else None


def _saves(node, target):
    """True if the node keeps the memory that is about to be written over."""
    return any(isinstance(saved, Tensor) and saved.storage_ is target.storage_ for saved in node.inputs())


def _name_writer(target, name):
    """The note of a write names the in-place op, not the copy that it is made of."""
    if target.storage_ is not None:             # a meta tensor has none
        target.storage_.name_write(name)


def assign(operation, target, result, name=None):
    """target takes the value of `result`, which an op computed out of place; the tape follows."""
    name = name or operation.name + "_"
    if is_wrapped(target):
        return _assign_wrapped(operation, target, result)
    if is_wrapped(result):
        return _write_wrapped(target, result)
    check_write(name, target)
    if tuple(result.shape) != tuple(target.shape):
        fail(name, "the result does not have the shape of the tensor written to", tuple(result.shape),
             tuple(target.shape))
    if category(result.dtype) > category(target.dtype):
        fail(name, f"result type {result.dtype} can't be cast to the desired output type {target.dtype}",
             hint="use the out-of-place form")
    recorded = _core.grad_mode() and (result.requires_grad or target.requires_grad)
    if recorded and result.dtype is not target.dtype:
        result = elementwise.cast(result, target.dtype)
    if recorded and target._base is None and not result.requires_grad:
        result = elementwise.where(write(_core.empty_strided((), None, bool_), True), result, target)
    write(target, result.detach())
    _name_writer(target, name)
    if recorded:
        _follow(target, result)
    return target


def _follow(target, result):
    """After a recorded write: the history of the target, and of what it shows the memory of."""
    shown, _ = shown_by(target)
    _follow_base(target, result)
    if shown is not None:
        back = "_pairs_as_complex" if shown.dtype.kind == "c" else "_complex_as_pairs"
        _follow(shown, REGISTRY[back].function(target if target._base is None else target._base))
        shown._bump_version()


def _follow_base(target, result):
    base = target._base
    if base is None or (base.requires_grad and not target.requires_grad):       # the latter: a detached alias
        _core.rebase(target, result)
        return
    window = strided.window_of(target)
    plans.record_python(strided.COPY_SLICES, (base, result), base, window)
    plans.record_python(strided.AS_STRIDED, (base,), target, window)


def fill(target, value):
    """target.fill_(value) without a record."""
    check_write("fill_", target)
    return write(target, value)


_core.set_hook("inplace", inplace)
