"""The interpreter of Graph and Program: runs each node through its op's NumPy reference, in order.

It is the oracle of capture and of the compiler: slow, plain, and strict about types. Arrays have the NumPy
dtype `dtype.numpy`; bfloat16, which NumPy lacks, is stored as its uint16 bits between nodes, shown to
references as float32 and rounded to nearest even after each node.
"""

import math
from dataclasses import dataclass, field

from flambeau.base.errors import fail
from flambeau.ir.graph import Literal, Program
from flambeau.ir.graph_text import show_node, show_type, show_value
from flambeau.types import dtype as dtypes
from flambeau.types.dim import Dim, evaluate, symbols


@dataclass
class Result:
    """What running a Program gives: `outputs` and, by the name of the input, its effects.

    writes: the input's new value.           grads: what is to be added to the input's .grad.
    random: the generator's new state.       aliases: output -> (base, strides, offset), in elements.
    host: the calls back to Python in order, as (name, arrays).
    """

    outputs: tuple
    writes: dict = field(default_factory=dict)
    grads: dict = field(default_factory=dict)
    random: dict = field(default_factory=dict)
    aliases: dict = field(default_factory=dict)
    host: list = field(default_factory=list)


def run(form, arrays, registry, env=None):
    """Run a Graph or Program on NumPy arrays.

    arrays: one array per graph input, in order, of its dtype and shape; they are not changed.
    registry: mapping op name -> object with `.reference(*arrays, **attrs) -> array or tuple of arrays`.
    env: symbol -> int for sizes that the inputs' shapes do not tell; the others are inferred from the arrays.
    Returns a tuple of output arrays for a Graph and a `Result` for a Program. Raises ValueError where an
    array does not fit its type; an error inside a reference gets a note with the printed node.

    >>> run(parse("graph f(x: f32[n]) { y: f32[n] = sin(x) return y }"), [x], OPS)      # doctest: +SKIP
    """
    graph = form.graph if isinstance(form, Program) else form
    env = dict(env or {})
    values = _bind_inputs(graph, arrays, env)
    for node in graph.nodes:
        _run_node(node, values, registry, env)
    outputs = tuple(_operand(operand, values, env) for operand in graph.outputs)
    if not isinstance(form, Program):
        return outputs
    return _apply_effects(form, Result(outputs), values, env)


# ----------------------------------------------------------------------------------------- inputs
def _bind_inputs(graph, arrays, env):
    import numpy
    arrays = [numpy.asarray(array) for array in arrays]
    if len(arrays) != len(graph.inputs):
        fail("interpret", f"graph {graph.name} takes other inputs", got=f"{len(arrays)} arrays",
             want=f"{len(graph.inputs)}: {', '.join(value.name for value in graph.inputs)}", kind=ValueError)
    for value, array in zip(graph.inputs, arrays):
        _bind_symbols(value, array.shape, env)
    values = {}
    for value, array in zip(graph.inputs, arrays):
        _check_type(value, array, env, f"input {show_value(value)}")
        values[value.name] = array
    return values


def _bind_symbols(value, shape, env):
    """Learn the sizes that `value`'s shape writes as plain symbols."""
    for size, actual in zip(value.shape, shape):
        if isinstance(size, Dim) and str(size) in symbols(size):
            env.setdefault(str(size), actual)


def _check_type(value, array, env, where):
    shape = tuple(_size(size, env, where) for size in value.shape)
    if array.dtype != value.dtype.numpy or array.shape != shape:
        written = f" ({show_type(value.dtype, value.shape)})" if shape != tuple(value.shape) else ""
        fail("interpret", f"{where} has another type", got=f"{array.dtype.name}{list(array.shape)}",
             want=f"{value.dtype.numpy.name}{list(shape)}{written}", kind=ValueError)


def _size(size, env, where):
    if not isinstance(size, Dim):
        return size
    missing = sorted(name for name in symbols(size) if name not in env)
    if missing:
        fail("interpret", f"{where} needs the unknown size {', '.join(missing)}", kind=ValueError,
             hint="pass it: env={" + ", ".join(f"{name!r}: ..." for name in missing) + "}")
    return evaluate(size, env)


# ------------------------------------------------------------------------------------------ nodes
def _run_node(node, values, registry, env):
    inputs = [_widen(_operand(operand, values, env), operand.dtype) for operand in node.inputs]
    try:
        attrs = {name: _attribute(value, env, node.op) for name, value in node.attrs}
        computed = registry[node.op].reference(*inputs, **attrs)
    except Exception as error:
        error.add_note(f"while interpreting: {show_node(node)}")
        raise
    computed = computed if isinstance(computed, (tuple, list)) else (computed,)
    if len(computed) != len(node.outputs):
        fail("interpret", f"{node.op}.reference gave another number of arrays in: {show_node(node)}\n ",
             got=len(computed), want=len(node.outputs), kind=ValueError)
    for value, array in zip(node.outputs, computed):
        array = store(array, value.dtype)
        _bind_symbols(value, array.shape, env)      # a size that depends on data
        _check_type(value, array, env, f"{value.name} in: {show_node(node)}\n ")
        values[value.name] = array


def _operand(operand, values, env):
    if not isinstance(operand, Literal):
        return values[operand.name]
    value = operand.value
    return store(_size(value, env, "a literal") if isinstance(value, Dim) else value, operand.dtype)


def _attribute(value, env, op):
    """An attribute with its symbolic sizes replaced by ints."""
    if isinstance(value, tuple):
        return tuple(_attribute(item, env, op) for item in value)
    return _size(value, env, f"an attribute of {op}") if isinstance(value, Dim) else value


# ----------------------------------------------------------------------------------------- storage
def store(array, dtype):
    """Values (an array or number, never bfloat16 bits) in the storage of `dtype`, rounded where wider."""
    import numpy
    array = numpy.asarray(array)
    if dtype is dtypes.bfloat16:
        return round_to_bfloat16(array)
    with numpy.errstate(over="ignore", invalid="ignore"):
        return array if array.dtype == dtype.numpy else array.astype(dtype.numpy)


def _widen(array, dtype):
    return widen_bfloat16(array) if dtype is dtypes.bfloat16 else array


def widen_bfloat16(bits):
    """float32 values of bfloat16 bits (uint16); exact."""
    import numpy
    return numpy.asarray(numpy.asarray(bits).astype(numpy.uint32) << numpy.uint32(16)).view(numpy.float32)


def round_to_bfloat16(array):
    """bfloat16 bits (uint16) nearest to the values rounded to float32; ties to even, NaN stays NaN."""
    import numpy
    with numpy.errstate(over="ignore", invalid="ignore"):
        single = numpy.asarray(array).astype(numpy.float32)
    bits = single.view(numpy.uint32).astype(numpy.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return numpy.where(numpy.isnan(single), quiet, rounded).astype(numpy.uint16)


# ---------------------------------------------------------------------------------------- effects
def _apply_effects(program, result, values, env):
    types = {value.name: value.dtype for value in program.graph.inputs}
    for effect in program.effects:
        arrays = [values[name] for name in effect.operands]
        if effect.kind == "write":
            result.writes[effect.target] = arrays[0]
        elif effect.kind == "random":
            result.random[effect.target] = arrays[0]
        elif effect.kind == "grad":
            total = result.grads.get(effect.target)
            result.grads[effect.target] = _accumulate(total, arrays[0], types[effect.target])
        elif effect.kind == "host":
            result.host.append((effect.target, tuple(arrays[:-1])))
        elif effect.kind == "alias":
            result.aliases[effect.target] = _alias(effect, values, env)
    return result


def _accumulate(total, array, dtype):
    if total is None:
        return array
    return store(_widen(total, dtype) + _widen(array, dtype), dtype)


def _alias(effect, values, env):
    """The view (base, strides, offset) with sizes as ints; it must stay inside its base."""
    base = effect.operands[0]
    strides = tuple(_size(size, env, f"alias {effect.target}") for size in effect.strides)
    offset = _size(effect.offset, env, f"alias {effect.target}")
    reach = [stride * (size - 1) for stride, size in zip(strides, values[effect.target].shape)]
    first, last = offset + sum(min(r, 0) for r in reach), offset + sum(max(r, 0) for r in reach)
    if math.prod(values[effect.target].shape) and not 0 <= first <= last < values[base].size:
        fail("interpret", f"alias {effect.target} leaves its base {base}", got=f"elements {first} to {last}",
             want=f"0 to {values[base].size - 1}", kind=ValueError)
    return base, strides, offset
