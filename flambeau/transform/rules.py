"""How ops run on a batch: rules by kind, and by name where an op's attributes say more than its kind.

A rule gets (level, operation, prepared arguments) and returns the result below, its batch in front. Axes in arguments
are counted from 0 and do not know the batch; `moved` makes them.
"""

from flambeau.base.errors import fail
from flambeau.ir.graph import Literal
from flambeau.ops.create import full
from flambeau.ops.elementwise import cast
from flambeau.ops.kinds import promoted_dtype
from flambeau.ops.matmul import linear, matmul
from flambeau.ops.spec import bind
from flambeau.ops.view import expand, permute, reshape, squeeze, transpose, unsqueeze
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import scalar_dtype

AXES = ("dim", "dims", "dim0", "dim1", "dim2", "dimension")


def rule_for(operation):
    """The rule of an op."""
    if getattr(operation, "draws", False):
        return random
    for name in (operation.name, operation.kind):
        if name in RULES:
            return RULES[name]
    return example_by_example


def example_by_example(level, operation, values):
    return level.one_by_one(operation, values)


def call(operation, values):
    return bind(operation, (), values)


def moved(attrs):
    """The attributes with every axis one further, None (all axes) as it is."""
    return {name: _next(value) if name in AXES else value for name, value in attrs.items()}


def _next(axis):
    return tuple(a + 1 for a in axis) if isinstance(axis, tuple) else axis if axis is None else axis + 1


def lined_up(level, value, rank):
    """A value below with its batch in front of `rank` axes (or without batch: as it is)."""
    if not level.batched(value):
        return value
    inner = value.inner
    for _ in range(rank - value.ndim):
        inner = unsqueeze(inner, 1)
    return inner


# ---------------------------------------------------------------------------------- kinds
def elementwise(level, operation, values):
    operands = [v for v in operation.split(values)[0]]
    tensors = [o for o in operands if isinstance(o, Tensor)]
    rank = max(t.ndim for t in tensors)
    changed = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            if rank and value.ndim == 0 and level.batched(value):       # it does not widen the result, as a 0-d tensor
                value = _as_weak(operation, value, operands)
            changed[name] = lined_up(level, value, rank)
        else:
            changed[name] = value
    return call(operation, changed)


def _as_weak(operation, value, operands):
    if any(value is o for o in operands[:operation.unpromoted]):
        return value
    given = [o if isinstance(o, Tensor) else Literal(o, scalar_dtype(o)) for o in operands[operation.unpromoted:]]
    promoted = promoted_dtype(given)
    return value if value.dtype is promoted else cast(value, promoted)


def along_axes(level, operation, values):
    """Ops over axes of one tensor, or of several that have the same axes: those axes, behind the batch."""
    tensors = {n: v for n, v in values.items() if isinstance(v, Tensor)}
    if len({v.ndim for v in tensors.values()}) != 1 or any(isinstance(values[n], tuple) for n in operation.operands):
        return example_by_example(level, operation, values)
    scalar = next(iter(tensors.values())).ndim == 0
    wholes = {n: level.whole(v) for n, v in tensors.items()}
    if scalar:                              # no axis: as if there were one of size 1
        wholes = {n: unsqueeze(v, 1) for n, v in wholes.items()}
    attrs = moved({n: v for n, v in values.items() if n not in tensors})
    for axis in AXES:
        if axis in attrs and (attrs[axis] is None or scalar):
            rank = next(iter(wholes.values())).ndim
            attrs[axis] = 1 if isinstance(attrs[axis], int) and scalar else tuple(range(1, rank))
    result = call(operation, {**wholes, **attrs})
    if not scalar:
        return result
    fit = [reshape(r, (level.size,)) for r in (result if isinstance(result, tuple) else (result,))]
    return tuple(fit) if isinstance(result, tuple) else fit[0]


def decomposed(level, operation, values):
    """A composite op by op, each through the door again."""
    if operation.compute is None:
        return example_by_example(level, operation, values)
    result = operation.compute(**values)
    if isinstance(result, tuple):
        return tuple(level.whole(r) for r in result)
    return level.whole(result)


def contraction(level, operation, values):
    return example_by_example(level, operation, values)


# ---------------------------------------------------------------------------------- views
def _view(attributes):
    """The rule of a view: attributes(level, values, rank) -> its attributes with the batch in front."""
    def rule(level, operation, values):
        return call(operation, {"input": values["input"].inner, **attributes(level, values, values["input"].ndim)})
    return rule


def _reshape(level, operation, values):
    return reshape(values["input"].inner, (level.size, *values["shape"]))


def _expand(level, operation, values):
    size = tuple(values["size"])
    inner = lined_up(level, values["input"], len(size))
    return expand(inner, (level.size, *size))


def _squeeze(level, operation, values):
    x, dim = values["input"], values["dim"]
    if dim is None:
        axes = tuple(a + 1 for a, size in enumerate(x.shape) if size == 1)
    else:
        axes = tuple(a + 1 for a in (dim if isinstance(dim, tuple) else (dim,)) if x.ndim and x.shape[a] == 1)
    return squeeze(x.inner, axes) if axes else x.inner


def _transpose(level, operation, values):
    x = values["input"]
    return transpose(x.inner, values["dim0"] + 1, values["dim1"] + 1) if x.ndim else x.inner


def _slice(level, values, rank):
    return {"index": (("slice", 0, level.size, 1), *values["index"])}


def _permute(level, values, rank):
    return {"dims": (0, *[d + 1 for d in values["dims"]])}


def _axes_of_view(level, values, rank):
    return moved({n: v for n, v in values.items() if n != "input"})


# ---------------------------------------------------------------------------------- indexed
def _unslice(level, operation, values):
    return call(operation, {"input": values["input"].inner, "size": (level.size, *values["size"]),
                            "index": (("slice", 0, level.size, 1), *values["index"])})


def _expanded_index(index, like, dim):
    """A 1-d index over axis `dim` (with its batch in front) as an index for each element of `like`'s other axes."""
    shape = list(like.shape)
    shape[dim] = index.shape[-1]
    view = [1] * len(shape)
    view[dim] = index.shape[-1]
    view[0] = index.shape[0]
    return expand(reshape(index, tuple(view)), tuple(shape))


def _index_rows(name):
    """index_select and its kin: with an index that differs by example, the form with an index an element."""
    def rule(level, operation, values):
        from flambeau.ops.spec import REGISTRY
        x, index, dim = values["input"], values["index"], values["dim"]
        rest = {n: v for n, v in values.items() if n not in ("input", "index", "dim")}
        if x.ndim == 0:
            return example_by_example(level, operation, values)
        if not level.batched(index):
            return call(operation, {"input": x.inner, "index": index, "dim": dim + 1, **rest})
        whole = level.whole(x)
        return call(REGISTRY[name], {"input": whole, "index": _expanded_index(index.inner, whole, dim + 1),
                                     "dim": dim + 1, **rest})
    return rule


def _index_elements(level, operation, values):
    x, index = values["input"], values["index"]
    rest = {n: v for n, v in values.items() if n not in ("input", "index", "dim")}
    if x.ndim == 0 or index.ndim == 0:
        return example_by_example(level, operation, values)
    return call(operation, {"input": level.whole(x), "index": level.whole(index), "dim": values["dim"] + 1, **rest})


def _scatter_elements(level, operation, values):
    if values["target"].ndim == 0:
        return example_by_example(level, operation, values)
    tensors = {n: level.whole(values[n]) for n in ("target", "index", "source")}
    return call(operation, {**tensors, "dim": values["dim"] + 1, "mode": values["mode"]})


def _scatter_rows(level, operation, values):
    """With an index that differs by example, the form with an index an element."""
    from flambeau.ops.spec import REGISTRY
    index, dim = values["index"], values["dim"] + 1
    if values["target"].ndim == 0:
        return example_by_example(level, operation, values)
    changed = {"target": level.whole(values["target"]), "source": level.whole(values["source"]), "dim": dim,
               "mode": values["mode"]}
    if level.batched(index):
        return call(REGISTRY["_scatter_elements"],
                    {**changed, "index": _expanded_index(index.inner, changed["source"], dim)})
    return call(operation, {**changed, "index": index})


def _cat(level, operation, values):
    return call(operation, {"tensors": tuple(level.whole(t) for t in values["tensors"]), "dim": values["dim"] + 1})


# ---------------------------------------------------------------------------------- products
def _product(level, operation, values):
    x, y = values["input"], values["other"]
    rank = max(x.ndim, y.ndim)
    if level.batched(x) and level.batched(y) and x.ndim == y.ndim and x.shape[-1] == 1:
        return x.inner * y.inner            # outer products: nothing to sum
    if not level.batched(y) and y.ndim == 2:
        return matmul(x.inner, y)
    return matmul(lined_up(level, x, rank), lined_up(level, y, rank))


def _matmul(level, operation, values):
    x, y = values["input"], values["other"]
    if x.ndim == 0 or y.ndim == 0:
        return operation.compute(**values)
    if not level.batched(y) and y.ndim <= 2:
        return matmul(x.inner, y)
    row, column = x.ndim == 1, y.ndim == 1
    left = unsqueeze(level.whole(x) if level.batched(x) else x, -2) if row else None
    left = left if row else lined_up(level, x, max(x.ndim, y.ndim))
    right = unsqueeze(level.whole(y) if level.batched(y) else y, -1) if column else lined_up(level, y, max(x.ndim, y.ndim))
    for _ in range(max(y.ndim, 2) - max(x.ndim, 2) if row and level.batched(x) else 0):
        left = unsqueeze(left, 1)
    for _ in range(max(x.ndim, 2) - max(y.ndim, 2) if column and level.batched(y) else 0):
        right = unsqueeze(right, 1)
    result = matmul(left, right)
    if row:
        result = squeeze(result, -2)
    return squeeze(result, -1) if column else result


def _linear(level, operation, values):
    x, weight, bias = (values[n] for n in ("input", "weight", "bias"))
    if level.batched(weight):
        result = matmul(x, transpose(weight, -1, -2))
        return level.whole(result if bias is None else result + bias)
    if bias is not None and level.batched(bias):
        return level.whole(linear(x, weight) + bias)
    inner = x.inner
    result = linear(reshape(inner, (-1, inner.shape[-1])), weight, bias)
    return reshape(result, (*inner.shape[:-1], weight.shape[0]))


# ---------------------------------------------------------------------------------- windows
def _folded(value, level):
    """The batch joined with the first axis."""
    inner = level.whole(value)
    return reshape(inner, (inner.shape[0] * inner.shape[1], *inner.shape[2:]))


def _unfolded(result, level):
    return reshape(result, (level.size, result.shape[0] // max(level.size, 1), *result.shape[1:]))


def window(level, operation, values):
    """Pooling and its kin: images of all examples as one batch of images."""
    changed = {n: _folded(v, level) if isinstance(v, Tensor) else v for n, v in values.items()}
    if "size" in changed:
        size = changed["size"]
        changed["size"] = (size[0] * level.size, *size[1:])
    result = call(operation, changed)
    return tuple(_unfolded(r, level) for r in result) if isinstance(result, tuple) else _unfolded(result, level)


def _channels(value, level):
    """(batch, N, C, ...) -> (N, batch * C, ...)."""
    inner = level.whole(value)
    order = (1, 0, *range(2, inner.ndim))
    inner = permute(inner, order)
    return reshape(inner, (inner.shape[0], inner.shape[1] * inner.shape[2], *inner.shape[3:]))


def _from_channels(result, level):
    result = reshape(result, (result.shape[0], level.size, result.shape[1] // level.size, *result.shape[2:]))
    return permute(result, (1, 0, *range(2, result.ndim)))


def _convolution(level, operation, values):
    weight, bias = values["weight"], values.get("bias")
    if not level.batched(weight) and not level.batched(bias):
        first = "input" if "input" in values else "grad"
        changed = {**values, first: _folded(values[first], level)}
        if "size" in changed:
            changed["size"] = (changed["size"][0] * level.size, *changed["size"][1:])
        return _unfolded(call(operation, changed), level)
    if bias is not None:
        plain = call(operation, {**values, "bias": None})
        return level.whole(plain + reshape(bias, (*bias.shape[:0], bias.shape[-1], *[1] * (plain.ndim - 2))))
    first = "input" if "input" in values else "grad"
    changed = {**values, first: _channels(values[first], level), "weight": _folded(weight, level),
               "groups": values["groups"] * level.size}
    if "size" in changed:
        size = changed["size"]
        changed["size"] = (size[0], size[1] * level.size, *size[2:])
    return _from_channels(call(operation, changed), level)


def _convolution_weight(level, operation, values):
    size = values["size"]
    changed = {**values, "input": _channels(values["input"], level), "grad": _channels(values["grad"], level),
               "groups": values["groups"] * level.size, "size": (size[0] * level.size, *size[1:])}
    return _unfolded(call(operation, changed), level)


def _attention(level, operation, values):
    """All examples as one batch, each with its own draw of what is dropped out."""
    if values["seed"] is not None and level.randomness != "different":
        if level.randomness == "error":
            refuse_draw("dropout")
        return example_by_example(level, operation, values)
    numbers = [v for v in values.values() if isinstance(v, Tensor) and v.ndim == 0]
    if any(map(level.batched, numbers)):
        return example_by_example(level, operation, values)
    changed = {n: _folded(v, level) if isinstance(v, Tensor) and v.ndim else v for n, v in values.items()}
    return tuple(_unfolded(result, level) for result in call(operation, changed))


# ---------------------------------------------------------------------------------- opaque, random
def dense(level, operation, values):
    """Linear algebra over the last axes: the batch is one more axis in front."""
    tensors = {n: v for n, v in values.items() if isinstance(v, Tensor)}
    rank = max(v.ndim for v in tensors.values())
    changed = dict(values)
    for name, value in tensors.items():
        if value.ndim != rank and len(tensors) > 1:
            return example_by_example(level, operation, values)
        changed[name] = level.whole(value)
    return call(operation, changed)


def opaque(level, operation, values):
    from flambeau.ops.linalg import Dense
    if isinstance(operation, Dense):
        return dense(level, operation, values)
    if operation.each_element:
        return elementwise(level, operation, values)
    if "dims" in values and operation.operands == ("x",):
        return call(operation, {**moved(values), "x": values["x"].inner})
    return example_by_example(level, operation, values)


def refuse_draw(name):
    fail("vmap", f"{name} draws random numbers, which was not allowed",
         hint="call vmap with randomness='different' (each example its own) or 'same'")


def random(level, operation, values):
    """A draw in the shape of its first operand."""
    if level.randomness == "error":
        refuse_draw(operation.name.strip("_"))
    first = operation.operands[0]
    like = values[first]
    if level.randomness == "different":
        return call(operation, {**values, first: level.whole(like)})
    if operation.name == "dropout_with_key":            # what is kept, times the operand
        return level.whole(like * call(operation, {**values, first: full(tuple(like.shape), 1, like.dtype)}))
    return level.whole(call(operation, {**values, first: full(tuple(like.shape), 0, like.dtype)}))


RULES = {
    "elementwise": elementwise, "reduction": along_axes, "scan": along_axes, "sort": along_axes,
    "composite": decomposed, "window": window, "opaque": opaque,
    "softmax": along_axes, "log_softmax": along_axes, "logsumexp": along_axes, "var": along_axes, "std": along_axes,
    "var_mean": along_axes, "norm": along_axes, "_power_norm": along_axes, "mode": along_axes,
    "reshape": _reshape, "view": _reshape, "expand": _expand, "squeeze": _squeeze, "transpose": _transpose,
    "permute": _view(_permute), "slice_": _view(_slice), "unsqueeze": _view(_axes_of_view),
    "_complex_as_pairs": _view(lambda *given: {}), "_pairs_as_complex": _view(lambda *given: {}),
    "diagonal": _view(_axes_of_view), "unfold": _view(_axes_of_view), "_reversed": _view(_axes_of_view),
    "unslice": _unslice, "index_select": _index_rows("gather"), "index_sum": _index_rows("gather_sum"),
    "gather": _index_elements, "gather_sum": _index_elements, "_scatter_elements": _scatter_elements, "_scatter_rows": _scatter_rows,
    "cat": _cat,
    "mm": _product, "matmul": _matmul, "linear_rows": _linear, "linear_row": _linear,
    "attention": _attention, "attention_gradient": _attention,
    "convolution": _convolution, "convolution_input_gradient": _convolution,
    "convolution_weight_gradient": _convolution_weight,
}

TRACEABLE = {elementwise, along_axes, decomposed, _unslice, _product, _matmul, _linear}
