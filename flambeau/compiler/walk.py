"""Walking over Loops: the parts of expressions and statements, and the names of a kernel."""

from dataclasses import replace

from flambeau.ir import loops as L


def map_parts(expr, change):
    """`expr` with `change(part)` in the place of each direct part; `expr` itself if nothing changed."""
    if isinstance(expr, (L.Apply, L.SpliceLoad)):
        args = tuple(change(a) for a in expr.args)
        same = all(a is b for a, b in zip(args, expr.args))
        return expr if same else replace(expr, args=args)
    if isinstance(expr, L.Load):
        parts = {name: _optional(change, getattr(expr, name)) for name in ("index", "mask", "other")}
        same = all(parts[name] is getattr(expr, name) for name in parts)
        return expr if same else replace(expr, **parts)
    return expr


def map_values(statement, change):
    """`statement` with `change(expr)` in the place of each of its own expressions; nested blocks stay."""
    if isinstance(statement, (L.Let, L.Declare, L.Assign)):
        return replace(statement, value=change(statement.value))
    if isinstance(statement, L.Store):
        return replace(statement, index=change(statement.index), value=change(statement.value),
                       mask=_optional(change, statement.mask))
    if isinstance(statement, L.For):
        return replace(statement, start=change(statement.start), stop=change(statement.stop))
    if isinstance(statement, L.If):
        return replace(statement, condition=change(statement.condition))
    if isinstance(statement, L.Prefetch):
        return replace(statement, index=change(statement.index))
    if isinstance(statement, L.SpliceStore):
        return replace(statement, args=tuple(change(a) for a in statement.args))
    return statement


def map_blocks(statement, change):
    """`statement` with `change(body)` in the place of each nested block."""
    if isinstance(statement, L.For):
        return replace(statement, body=change(statement.body))
    if isinstance(statement, L.If):
        return replace(statement, then=change(statement.then), orelse=change(statement.orelse))
    return statement


def blocks(statement):
    """The nested blocks of a statement."""
    if isinstance(statement, L.For):
        return (statement.body,)
    return (statement.then, statement.orelse) if isinstance(statement, L.If) else ()


def bound_names(body):
    """Every name that the statements of `body`, nested ones too, bind."""
    names = set()
    for statement in body:
        if isinstance(statement, (L.Let, L.Declare, L.Local)):
            names.add(statement.name)
        elif isinstance(statement, L.For):
            names.add(statement.index)
        for block in blocks(statement):
            names |= bound_names(block)
    return names


def kernel_names(kernel):
    """Every name of `kernel`: buffers, params, bound names, `begin` and `end`."""
    return {b.name for b in kernel.buffers} | set(kernel.params) | bound_names(kernel.body) | {"begin", "end"}


def expressions(body):
    """Every expression in `body`, parts after wholes, nested blocks included."""
    found = []

    def visit(expr):
        found.append(expr)
        map_parts(expr, visit)
        return expr

    for statement in body:
        map_values(statement, visit)
        for block in blocks(statement):
            found.extend(expressions(block))
    return found


def unused_prefix(kernel, stem):
    """A prefix, made from `stem`, with which no name of `kernel` begins."""
    names = kernel_names(kernel)
    while any(name.startswith(stem) for name in names):
        stem += "_"
    return stem


def _optional(change, expr):
    return None if expr is None else change(expr)
