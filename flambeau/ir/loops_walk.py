"""Walking over Loops: the parts of expressions and statements, and the names of a kernel.

The `map_` functions return the same object if nothing changed.
"""

from dataclasses import replace

from flambeau.ir import loops as L


_PARTS = {L.Apply: ("args",), L.SpliceLoad: ("args",), L.Load: ("index", "mask", "other"), L.Let: ("value",),
          L.Declare: ("value",), L.Assign: ("value",), L.Store: ("index", "value", "mask"),
          L.For: ("start", "stop"), L.If: ("condition",), L.SpliceStore: ("args",), L.Prefetch: ("index",)}
_BLOCKS = {L.For: ("body",), L.If: ("then", "orelse")}


def parts(form):
    """The direct parts, which are expressions, of an expression or a statement."""
    found = []
    for name in _PARTS.get(type(form), ()):
        part = getattr(form, name)
        found.extend(part if name == "args" else () if part is None else (part,))
    return found


def map_parts(form, change):
    """An expression or a statement with `change(part)` in the place of each direct part; blocks stay."""
    new = {}
    for name in _PARTS.get(type(form), ()):
        part = getattr(form, name)
        new[name] = tuple(map(change, part)) if name == "args" else None if part is None else change(part)
    return _changed(form, new)


def map_blocks(statement, change):
    """`statement` with `change(body)` in the place of each nested block."""
    new = {name: change(getattr(statement, name)) for name in _BLOCKS.get(type(statement), ())}
    return _changed(statement, new)


def _changed(form, new):
    same = all(_alike(part, getattr(form, name)) for name, part in new.items())
    return form if same else replace(form, **new)


def _alike(a, b):
    if isinstance(a, tuple):
        return len(a) == len(b) and all(x is y for x, y in zip(a, b))
    return a is b


def blocks(statement):
    """The nested blocks of a statement."""
    return tuple(getattr(statement, name) for name in _BLOCKS.get(type(statement), ()))


def statements(body):
    """Every statement in `body`, those in nested blocks after the one that holds them."""
    for statement in body:
        yield statement
        for block in blocks(statement):
            yield from statements(block)


def parts_within(form):
    """The parts of `form`, their parts and so on: every expression of it, wholes first, blocks left out."""
    for part in parts(form):
        yield part
        yield from parts_within(part)


def expressions(body):
    """Every expression in `body`, wholes before parts, nested blocks included."""
    return [e for statement in statements(body) for e in parts_within(statement)]


def bound_names(body):
    """Every name that the statements of `body`, nested ones too, bind."""
    bound = {L.Let: "name", L.Declare: "name", L.Local: "name", L.For: "index"}
    return {getattr(s, bound[type(s)]) for s in statements(body) if type(s) in bound}


def kernel_names(kernel):
    """Every name of `kernel`: buffers, params, bound names, `begin` and `end`."""
    return {b.name for b in kernel.buffers} | set(kernel.params) | bound_names(kernel.body) | {"begin", "end"}


def unused_prefix(kernel, stem):
    """A prefix, made from `stem`, with which no name of `kernel` begins."""
    names = kernel_names(kernel)
    while any(name.startswith(stem) for name in names):
        stem += "_"
    return stem
