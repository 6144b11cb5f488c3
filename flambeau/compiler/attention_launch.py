"""Attention in plans: what a call's operands say about the kernels, and their launches."""

from flambeau.compiler.attention import AXES, MASK_AXES, SIZES, Attention, attention_kernel
from flambeau.compiler.attention_backward import fold_kernel, gradient_kernel
from flambeau.compiler.attention_single import single_kernel
from flambeau.types.dim import maximum

ENOUGH = 16                 # parts of all heads together in the gradient


def strides_of(name, located, time_first=False):
    """{param: stride} of an operand (batch, heads, group, time, width), the group perhaps absent; with
    time_first (batch, time, heads, group, width)."""
    batch, *others = located.strides[:-1]
    others = [*others[1:], others[0]] if time_first else others
    axes = AXES if len(others) == 3 else AXES[:2]
    return {f"{name}_{axis}": stride for axis, stride in zip((*axes, "row"), (batch, *others))}


def unit_rows(planner, located):
    """`located`, copied unless its rows are consecutive."""
    return located if located.strides[-1] == 1 else planner.dense(located)


def describe(planner, query, key, value, scale, mask, dropout, causal, room):
    """(Attention, operands, params) of a call."""
    query, key, value = operands = [unit_rows(planner, x) for x in (query, key, value)]
    params = dict(zip(SIZES, (*query.shape[:4], key.shape[2], query.shape[4], value.shape[3])))
    for name, located in zip(("query", "key", "value"), operands):
        params |= strides_of(name, located)
    operands, kinds = [*operands, scale], ()
    if mask is not None:
        operands.append(mask)
        kinds = tuple(s if isinstance(s, int) and s in (0, 1) else None for s in mask.strides)
        params |= {f"mask_{axis}": stride for axis, stride, kind in
                   zip(MASK_AXES, mask.strides, kinds) if kind is None}
    spec = Attention(query.dtype, causal, None if mask is None else mask.dtype, kinds, scale.dtype,
                     dropout[1].dtype if dropout else None, room)
    return spec, [*operands, *dropout], params


def work_of(query, value, extra):
    """Scalar operations of two products."""
    batch, heads, group, length, width = query.shape
    return 2 * batch * heads * group * length * value.shape[2] * (width + value.shape[3] + extra)


def forward(planner, query, key, value, scale, mask, dropout, outputs, causal, time_first, room):
    """Add attention to a plan: query (batch, heads, group, length, width), key and value (batch, heads,
    source, width), mask (batch, heads, group, length, source) or None, dropout: (seed, probability) or ();
    scale, seed and probability are tensors of one element. With `time_first` the output is (batch, length,
    heads, group, width)."""
    spec, operands, params = describe(planner, query, key, value, scale, mask, dropout, causal, room)
    params |= strides_of("output", outputs[0], time_first)
    make = single_kernel if query.shape[3] == 1 else attention_kernel
    planner.launch_template(make(spec, params), [*operands, *outputs], params, work_of(query, value, 8))


def backward(planner, inputs, scale, mask, dropout, outputs, causal, time_first, room):
    """Add the gradient to a plan. inputs: grad, query, key, value, logsumexp and delta (batch, heads, group,
    length); outputs: the gradients of query, key and value; `time_first` speaks of them and of grad; else as
    `forward`."""
    grad, query, key, value, *rows = inputs
    spec, operands, params = describe(planner, query, key, value, scale, mask, dropout, causal, room)
    grad = unit_rows(planner, grad)
    params["parts"] = maximum(ENOUGH // maximum(query.shape[0] * query.shape[1], 1), 1)
    sums = planner.recipe.buffer(spec.total, (params["parts"], *query.shape))
    own = params | strides_of("grad", grad, time_first)
    for name, located in zip(("key_grad", "value_grad"), outputs[1:]):
        own |= strides_of(name, located, time_first)
    operands = [grad, *operands[:3], *map(planner.dense, rows), *operands[3:], sums, *outputs[1:]]
    planner.launch_template(gradient_kernel(spec, own), operands, own, work_of(query, value, 16) * 5 // 2)
    own = params | strides_of("query_grad", outputs[0], time_first)
    size = query.shape[0] * query.shape[1] * query.shape[2] * query.shape[3] * query.shape[4]
    planner.launch_template(fold_kernel(spec, own), [sums, outputs[0]], own, size * params["parts"])
