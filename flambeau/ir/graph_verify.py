"""The verifier of Graph and Program: says, with the printed node, what is wrong with a graph, or returns it.

Checked: names and attributes can be printed; each value is defined once and before its use; a use agrees with
the definition's type; literals fit their dtype; the types written on a node are those that the op infers (if
a registry is given); effects name values that exist, and write what fits. Values are looked up by name, as in
the printed form; two Value objects of one name and type are the same value.
"""

import difflib

from flambeau.base.errors import fail
from flambeau.ir.graph import Literal, Program, Value
from flambeau.ir.graph_text import show_effect, show_node, show_type, show_value
from flambeau.types.dim import Dim


def verify(form, registry=None):
    """Check a Graph or Program and return it.

    registry: mapping op name -> object with `.infer(inputs, attrs) -> list of (dtype, shape)`; without it ops
    and inferred types are not checked. Raises ValueError that shows the offending node or effect.

    >>> verify(parse("graph f(x: f32[2]) { y: f32[2] = sin(x) return y }"))      # doctest: +SKIP
    """
    graph = form.graph if isinstance(form, Program) else form
    known = {}
    for value in graph.inputs:
        _define(value, known, f"input {value.name} of graph {graph.name}")
    for node in graph.nodes:
        where = _printed(show_node, node)
        for operand in node.inputs:
            _check_operand(operand, known, where)
        _check_attributes(node, where)
        if registry is not None:
            _check_inferred(node, registry, where)
        for value in node.outputs:
            _define(value, known, where)
    for operand in graph.outputs:
        _check_operand(operand, known, f"return of graph {graph.name}")
    if isinstance(form, Program):
        _check_effects(form, known)
    return form


def _problem(problem, where, got=None, want=None, hint=None):
    given = f": got {got}, wanted {want}" if want is not None else f": got {got}" if got is not None else ""
    fail("verify", f"{problem}{given}\n  in: {where}", hint=hint, kind=ValueError)


def _printed(show, form):
    """The printed form, or why there is none."""
    try:
        return show(form)
    except (TypeError, ValueError) as error:
        fail("verify", f"a {type(form).__name__} cannot be printed: {error}", kind=ValueError)


def _define(value, known, where):
    if not isinstance(value, Value):
        _problem("a definition must be a Value", where, got=type(value).__name__)
    _printed(show_value, value)
    if value.name in known:
        _problem(f"{value.name} is defined twice", where)
    for size in value.shape:
        if type(size) is not int and not isinstance(size, Dim) or type(size) is int and size < 0:
            _problem(f"{value.name} has a bad size", where, got=repr(size), want="an int >= 0 or a Dim")
    known[value.name] = value


def _check_operand(operand, known, where):
    if isinstance(operand, Literal):
        return _check_literal(operand, where)
    if not isinstance(operand, Value):
        _problem("an operand must be a Value or a Literal", where, got=type(operand).__name__)
    defined = known.get(operand.name)
    if defined is None:
        _problem(f"{operand.name} is used before it is defined", where)
    if operand is not defined and _type(operand) != _type(defined):
        _problem(f"{operand.name} is used with another type than it is defined with", where,
                 got=show_type(*_type(operand)), want=show_type(*_type(defined)))


def _type(value):
    return value.dtype, tuple(value.shape)


# which Python types a literal of each kind of dtype may have
_LITERAL_TYPES = {"b": (bool,), "u": (int,), "i": (int,), "f": (int, float), "c": (int, float, complex)}


def _check_literal(literal, where):
    value, dtype = literal.value, literal.dtype
    if isinstance(value, Dim):
        fits = dtype.kind in "iuf"
    else:
        fits = type(value) in _LITERAL_TYPES[dtype.kind]
    if fits and dtype.is_integer and type(value) is int:
        bits = 8 * dtype.itemsize
        low = -(1 << bits - 1) if dtype.is_signed else 0
        fits = low <= value < low + (1 << bits)
    if not fits:
        _problem(f"a literal does not fit its dtype {dtype.short}", where, got=repr(value))


def _check_attributes(node, where):
    names = [name for name, _ in node.attrs]
    for name in names:
        if names.count(name) > 1:
            _problem(f"attribute {name} is given twice", where)
    if not node.outputs:
        _problem("a node must define at least one value", where)


def _check_inferred(node, registry, where):
    if node.op not in registry:
        close = difflib.get_close_matches(node.op, list(registry), 1)
        _problem(f"no op is called {node.op!r}", where, hint=f"did you mean {close[0]!r}?" if close else None)
    try:
        inferred = [(dtype, tuple(shape)) for dtype, shape in
                    registry[node.op].infer(list(node.inputs), dict(node.attrs))]
    except Exception as error:
        _problem(f"{node.op} does not take these inputs: {error}", where)
    written = [_type(value) for value in node.outputs]
    if inferred != written:
        names = ", ".join(value.name for value in node.outputs)
        got, want = (", ".join(show_type(*pair) for pair in types) for types in (written, inferred))
        _problem(f"the types of {names} are not those that {node.op} infers", where, got, want)


# ---------------------------------------------------------------------------------------- effects
def _check_effects(program, known):
    inputs = {value.name for value in program.graph.inputs}
    outputs = {value.name for value in program.graph.outputs if isinstance(value, Value)}
    done = set()
    for effect in program.effects:
        where = _printed(show_effect, effect)
        for name in effect.operands:
            if name not in known:
                _problem(f"{name} does not exist", where)
        if effect.kind in ("write", "grad", "random") and effect.target not in inputs:
            _problem(f"{effect.target} is not an input of the graph", where)
        if effect.kind in ("write", "random", "alias"):
            changed = (effect.kind == "alias", effect.target)
            if changed in done:
                _problem(f"{effect.target} has two effects of this kind", where)
            done.add(changed)
        if effect.kind == "alias":
            _check_alias(effect, known, outputs, where)
        elif effect.kind != "host":
            _check_same_type(known[effect.target], known[effect.operands[0]], where)


def _check_same_type(target, value, where):
    if _type(target) != _type(value):
        _problem(f"{value.name} does not fit {target.name}", where,
                 got=show_type(*_type(value)), want=show_type(*_type(target)))


def _check_alias(effect, known, outputs, where):
    if effect.target not in outputs:
        _problem(f"{effect.target} is not an output of the graph", where)
    value, base = known[effect.target], known[effect.operands[0]]
    if len(effect.strides) != len(value.shape):
        _problem("an alias needs one stride an axis", where, got=len(effect.strides), want=len(value.shape))
    if value.dtype is not base.dtype:
        _problem("an alias has the dtype of its base", where, got=value.dtype.short, want=base.dtype.short)
