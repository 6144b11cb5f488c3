"""Filling the splice points of a template: how fusion reaches GEMM, convolution and attention.

    fill(kernel, loads={"a": lambda b, row, column, lanes: ...an Expr...},
                 stores={"epilogue": lambda b, row, column, value: b.store(...)})

Each function gets a Builder that writes at the place of the splice and the splice's arguments. Its statements
come before the statement that holds a SpliceLoad, or in the place of a SpliceStore. Every name it binds, new
or given, is changed where the kernel already has it, so use the Vars that the Builder returns.
"""

from dataclasses import replace

from flambeau.base.errors import message
from flambeau.ir import loops as L
from flambeau.ir import loops_walk as walk
from flambeau.ir.loops_text import show_expr, show_type


def fill(kernel, loads=None, stores=None, buffers=(), params=(), notes=()):
    """A copy of `kernel` whose splices are filled by functions; splices without a function stay.

    loads: name -> function(builder, *args, lanes) returning an Expr of the splice's dtype and lanes.
    stores: name -> function(builder, *args). buffers, params, notes: what the functions need (and why), added
    behind the kernel's. Value arguments come as Vars, may have lanes, and may be used several times.
    Raises ValueError on a name without a splice, a result of the wrong type, or an added name that is taken.
    """
    added = [b.name for b in buffers] + list(params)
    names = walk.kernel_names(kernel)
    for position, name in enumerate(added):
        if name in names or name in added[:position]:
            _refuse(kernel, f"the added name {name} is taken", hint="give the buffer or param another name")
    filler = _Filler(kernel, loads or {}, stores or {}, names | set(added))
    filler.block(kernel.body)
    filler.check_used()
    return replace(kernel, buffers=kernel.buffers + tuple(buffers), params=kernel.params + tuple(params),
                   body=filler.builder.body(), notes=kernel.notes + tuple(notes))


def splices(kernel):
    """The names of the unfilled splices: (set of loads, set of stores)."""
    loads = {e.name for e in walk.expressions(kernel.body) if isinstance(e, L.SpliceLoad)}
    return loads, {s.name for s in walk.statements(kernel.body) if isinstance(s, L.SpliceStore)}


def _refuse(kernel, problem, got=None, want=None, hint=None, source=None):
    raise ValueError(message("splice", f"{problem} in kernel {kernel.name}", got, want, hint, source))


# ------------------------------------------------------------------------------------------------ filling
class _UniqueBuilder(L.Builder):
    """A Builder whose names, fresh or given, are unlike all in `taken`."""

    def __init__(self, taken):
        super().__init__()
        self.taken = taken

    def fresh(self, stem=None):
        name = super().fresh(stem)
        while name in self.taken:
            name = super().fresh(stem)
        self.taken.add(name)
        return name

    def unique(self, name):
        if name is None or name in self.taken:
            return name and self.fresh(name + "_")
        self.taken.add(name)
        return name

    def let(self, value, name=None):
        return super().let(value, self.unique(name))

    def declare(self, value, name=None):
        return super().declare(value, self.unique(name))

    def local(self, name, dtype, size):
        return super().local(self.unique(name), dtype, size)

    def loop(self, index, start, stop, step=1, kind="serial"):
        return super().loop(self.unique(index), start, stop, step, kind)


class _Filler:
    """Writes the kernel's statements again through one Builder, with what the functions add in between."""

    def __init__(self, kernel, loads, stores, taken):
        self.kernel, self.loads, self.stores = kernel, loads, stores
        self.builder, self.used = _UniqueBuilder(taken), set()

    def check_used(self):
        for kind, functions in (("load", self.loads), ("store", self.stores)):
            for name in functions:
                if (kind, name) not in self.used:
                    known = sorted(splices(self.kernel)[kind == "store"])
                    _refuse(self.kernel, f"there is no splice to {kind} named {name}", want=f"one of {known}")

    def block(self, body):
        for stmt in body:
            self.builder.source = stmt.source
            self.stmt(stmt)

    def nested(self, body):
        self.builder.blocks.append([])
        self.block(body)
        return tuple(self.builder.blocks.pop())

    def stmt(self, stmt):
        stmt = walk.map_blocks(walk.map_parts(stmt, self.expr), self.nested)
        if isinstance(stmt, L.SpliceStore) and stmt.name in self.stores:
            self.used.add(("store", stmt.name))
            self.stores[stmt.name](self.builder, *map(self.argument, stmt.args))
        elif isinstance(stmt, L.Local):     # behind the Locals that are there, before what functions add
            self.builder.blocks[0].insert(self.local_count(), stmt)
        else:
            self.builder.emit(stmt)

    def local_count(self):
        return sum(isinstance(s, L.Local) for s in self.builder.blocks[0])

    def expr(self, e):
        """`e` with its SpliceLoads filled; the same object if there are none."""
        e = walk.map_parts(e, self.expr)
        return self.splice_load(e) if isinstance(e, L.SpliceLoad) and e.name in self.loads else e

    def splice_load(self, e):
        self.used.add(("load", e.name))
        source = self.builder.source
        result = self.loads[e.name](self.builder, *map(self.argument, e.args), lanes=e.lanes)
        self.builder.source = source
        if not isinstance(result, L.Expr) or (result.dtype, result.lanes) != (e.dtype, e.lanes):
            got = f"{show_expr(result)} of type {show_type(result.dtype, result.lanes)}" \
                if isinstance(result, L.Expr) else repr(result)
            _refuse(self.kernel, f"the load {e.name} was filled with a value of the wrong type", got=got,
                    want=show_type(e.dtype, e.lanes), source=source)
        return result

    def argument(self, e):
        """Index arithmetic stays an expression, for who analyses indices; values are bound to a name."""
        return e if e.dtype is L.int64 and not _reads_memory(e) else self.builder.let(e)


def _reads_memory(e):
    return any(isinstance(part, (L.Load, L.SpliceLoad)) for part in (e, *walk.parts_within(e)))
