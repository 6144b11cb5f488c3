"""The verifier of Loops: says, with the printed statement, what is wrong with a kernel, or returns it.

Checked: names are bound once and before their use, by the statement that the use needs (only a Declare is
assigned to); dtypes and lanes agree as `loops.OPERATIONS` says; buffers are known, of the right dtype and
only read or written as their access allows; indices are i64; a load's mask comes with its `other`; literals
fit their dtype; Locals stand first; splices are filled, unless they are allowed.
"""

import re
from dataclasses import fields

from flambeau.base.errors import message
from flambeau.ir import loops as L
from flambeau.ir.loops_text import RESERVED, show_expr, show_stmt, show_type
from flambeau.types.dtype import bool_, int32, int64

_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


def verify(kernel, allow_splices=False, functions=None):
    """Check `kernel` and return it; raises ValueError that shows the offending statement.

    allow_splices: a template may have unfilled SpliceLoad and SpliceStore. functions: the names that an Apply
    may have besides the operations (None: any name, taking and giving one floating dtype).
    """
    _Verifier(kernel, allow_splices, functions).check()
    return kernel


# The kinds of dtype (DType.kind) that an operation's first argument may have; on bool add is or, mul is and.
_TAKES = {
    "biuf": ("add", "mul", "min", "max", "abs", "eq", "ne", "lt", "le", "gt", "ge", "cast"),
    "iuf": ("sub", "fma", "neg", "floor", "ceil", "trunc", "round"),
    "f": ("div", "sqrt", "copysign"),
    "iu": ("idiv", "irem", "shl", "shr"),
    "i": ("dot_bytes",),
    "biu": ("and", "or", "xor", "not"),
    "biufc": ("splat", "bitcast", *L.MIXING),
    "b": ("select",),
}
_KINDS = {op: kinds for kinds, ops in _TAKES.items() for op in ops}
_WORDS = {"b": "bool", "i": "signed", "u": "unsigned", "f": "floating", "c": "complex"}


class _Verifier:
    def __init__(self, kernel, allow_splices, functions):
        self.kernel, self.allow_splices, self.functions = kernel, allow_splices, functions
        self.buffers = {}       # name -> Buffer
        self.scopes = [{}]      # name -> (dtype, lanes, how it was bound)
        self.stmt = None

    def refuse(self, problem, got=None, want=None, hint=None):
        place = f" in kernel {self.kernel.name}"
        text = message("verify", problem + place, got, want, hint, getattr(self.stmt, "source", None))
        raise ValueError(text + ("" if self.stmt is None else "\n" + _indented(self.stmt)))

    def check(self):
        for name in ("begin", "end", *self.kernel.params):
            self.bind(name, int64, 1, "a param")
        for buffer in self.kernel.buffers:
            self.add_buffer(buffer)
        hidden = {name: self.scopes[0].pop(name) for name in ("begin", "end")}
        self.index("the extent", self.kernel.extent)
        self.scopes[0].update(hidden)
        top = True
        for stmt in self.kernel.body:
            self.stmt = stmt
            if isinstance(stmt, L.Local) and not top:
                self.refuse(f"the local buffer {stmt.name} must stand before all other statements")
            top = top and isinstance(stmt, L.Local)
        self.block(self.kernel.body)

    # ---- names
    def free_name(self, name):
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in RESERVED:
            self.refuse("this name cannot be printed", got=repr(name),
                        want="letters, digits, _ and dots, no keyword")
        if name in self.buffers or self.find(name):
            self.refuse(f"the name {name} is bound twice", hint="take a fresh name: Builder.fresh()")

    def find(self, name):
        return next((scope[name] for scope in self.scopes if name in scope), None)

    def bind(self, name, dtype, lanes, how):
        self.free_name(name)
        self.scopes[-1][name] = dtype, lanes, how

    def add_buffer(self, buffer):
        self.free_name(buffer.name)
        if buffer.access not in ("r", "w", "rw"):
            self.refuse(f"the access of buffer {buffer.name} is unknown", got=buffer.access,
                        want="r, w or rw")
        self.buffers[buffer.name] = buffer

    def buffer(self, name, access, dtype):
        buffer = self.buffers.get(name)
        if buffer is None:
            self.refuse(f"there is no buffer {name}", want=f"one of {', '.join(self.buffers)}")
        if access not in buffer.access:
            self.refuse(f"the buffer {name} may not be {'read' if access == 'r' else 'written'}",
                        got=f"access {buffer.access}", want=f"{access} or rw")
        if buffer.dtype is not dtype:
            self.refuse(f"the buffer {name} has another dtype", got=dtype.short, want=buffer.dtype.short)

    # ---- statements
    def block(self, body, bound=None):
        self.scopes.append({})
        if bound:
            self.bind(bound, int64, 1, "a loop index")
        for stmt in body:
            self.stmt = stmt
            check = getattr(self, "stmt_" + type(stmt).__name__, None)
            if check is None:
                self.refuse("this is no statement", got=type(stmt).__name__)
            check(stmt)
        self.scopes.pop()

    def stmt_Let(self, stmt):
        self.expr(stmt.value)
        self.bind(stmt.name, stmt.value.dtype, stmt.value.lanes, "a Let")

    def stmt_Declare(self, stmt):
        self.expr(stmt.value)
        self.bind(stmt.name, stmt.value.dtype, stmt.value.lanes, "a Declare")

    def stmt_Assign(self, stmt):
        self.expr(stmt.value)
        known = self.find(stmt.name)
        if known is None or known[2] != "a Declare":
            self.refuse(f"{stmt.name} is no register", got=known[2] if known else "an unbound name",
                        want="a Declare")
        self.same("the assigned value", stmt.value, *known[:2])

    def stmt_Local(self, stmt):
        if len(self.scopes) > 2:
            self.refuse(f"the local buffer {stmt.name} must stand at the top of the body")
        if not isinstance(stmt.size, int) or stmt.size < 1:
            self.refuse(f"the local buffer {stmt.name} has no constant size", got=stmt.size,
                        want="a positive int")
        self.add_buffer(L.Buffer(stmt.name, stmt.dtype, "rw"))

    def stmt_Store(self, stmt):
        self.expr(stmt.value)
        self.buffer(stmt.buffer, "w", stmt.value.dtype)
        self.index("the index", stmt.index, stmt.value.lanes)
        if stmt.mask is not None:
            self.expr(stmt.mask)
            self.same("the mask", stmt.mask, bool_, stmt.value.lanes)

    def stmt_For(self, stmt):
        self.index("the start", stmt.start)
        self.index("the stop", stmt.stop)
        if not isinstance(stmt.step, int) or stmt.step < 1:
            self.refuse("a loop counts up", got=f"step {stmt.step}", want="a positive int")
        if stmt.kind not in ("serial", "unroll", "vector"):
            self.refuse("the kind of this loop is unknown", got=stmt.kind, want="serial, unroll or vector")
        self.block(stmt.body, stmt.index)

    def stmt_If(self, stmt):
        self.expr(stmt.condition)
        self.same("the condition", stmt.condition, bool_, 1)
        self.block(stmt.then)
        self.block(stmt.orelse)

    def stmt_Prefetch(self, stmt):
        if stmt.buffer not in self.buffers:
            self.refuse(f"the buffer {stmt.buffer} is not known", got=stmt.buffer, want=" or ".join(self.buffers))
        self.index("the index", stmt.index)

    def stmt_SpliceStore(self, stmt):
        self.splice(stmt)

    # ---- expressions
    def index(self, what, e, lanes=1):
        """`e` is i64 with one lane or `lanes`."""
        self.expr(e)
        if e.dtype is not int64 or e.lanes not in (1, lanes):
            wanted = dict.fromkeys((show_type(int64, 1), show_type(int64, lanes)))
            self.wrong_type(what, e, " or ".join(wanted))

    def same(self, what, e, dtype, lanes):
        if e.dtype is not dtype or e.lanes != lanes:
            self.wrong_type(what, e, show_type(dtype, lanes))

    def wrong_type(self, what, e, wanted):
        given = f"{show_expr(e)} of type {show_type(e.dtype, e.lanes)}"
        self.refuse(f"{what} has the wrong type", got=given, want=wanted)

    def expr(self, e):
        check = getattr(self, "expr_" + type(e).__name__, None)
        if check is None:
            self.refuse("this is no expression", got=repr(e), want="an Expr",
                        hint="write b.const(value, dtype)")
        if not isinstance(e.lanes, int) or e.lanes < 1:
            self.refuse("a value has at least one lane", got=e.lanes)
        check(e)

    def expr_Const(self, e):
        value, kind = e.value, e.dtype.kind
        fits = {"b": isinstance(value, bool), "f": type(value) in (int, float)}.get(kind, False)
        if kind in "iu" and type(value) is int:
            bits = 8 * e.dtype.itemsize - (kind == "i")
            fits = -(1 << bits) * (kind == "i") <= value < 1 << bits
        if not fits:
            self.refuse("a literal does not fit its dtype", got=repr(value),
                        want=f"a Python number of {e.dtype.short}")

    def expr_Var(self, e):
        known = self.find(e.name)
        if known is None:
            self.refuse("this name is not bound here", got=e.name,
                        hint="a name ends with the block that binds it")
        self.same("this use", e, *known[:2])

    def expr_Load(self, e):
        self.buffer(e.buffer, "r", e.dtype)
        self.index("the index", e.index, e.lanes)
        if (e.mask is None) != (e.other is None):
            self.refuse("a load's mask and other come together", got="only one of them")
        if e.mask is not None:
            self.expr(e.mask)
            self.expr(e.other)
            self.same("the mask", e.mask, bool_, e.lanes)
            self.same("the other value", e.other, e.dtype, e.lanes)

    def expr_SpliceLoad(self, e):
        self.splice(e)

    def splice(self, splice):
        if not self.allow_splices:
            self.refuse("this splice is not filled", got=splice.name,
                        hint="ir.splice.fill(kernel, loads=..., stores=...)")
        for argument in splice.args:
            self.expr(argument)

    def expr_Apply(self, e):
        for argument in e.args:
            self.expr(argument)
        if e.op not in L.OPERATIONS:
            return self.function(e)
        count, rule = L.OPERATIONS[e.op]
        if len(e.args) != count:
            self.refuse(f"{e.op} has the wrong number of arguments", got=len(e.args), want=count)
        self.lanes(e)
        if e.op == "lane":
            return self.takes(e.op, e.dtype, "iuf")
        if e.op in ("cast", "bitcast"):
            return self.conversion(e)
        if e.op == "dot_bytes" and e.dtype is not int32:
            self.refuse("dot_bytes takes packed bytes", got=e.dtype.short, want=int32.short)
        base = e.op.removeprefix("reduce_")
        self.takes(e.op, e.args[0].dtype, _KINDS[base])
        operands = e.args[1:] if rule == "second" else e.args
        for operand in operands[1:]:
            self.same(f"an argument of {e.op}", operand, operands[0].dtype, operands[0].lanes)
        wanted = bool_ if rule == "bool" else operands[0].dtype
        if e.dtype is not wanted:
            self.refuse(f"{e.op} gives another dtype", got=e.dtype.short, want=wanted.short)

    def lanes(self, e):
        """The lanes of the arguments and of the result of an operation agree."""
        reducing = e.op in L.REDUCING
        if e.op == "bitcast" and 1 not in (e.lanes, e.args[0].lanes):
            return          # `conversion` looks at the size of the whole vector
        for argument in e.args:
            wanted = 1 if e.op == "splat" else argument.lanes if reducing else e.lanes
            if argument.lanes != wanted:
                self.refuse(f"an argument of {e.op} has the wrong lanes", got=argument.lanes, want=wanted,
                            hint="loops.splat(value, lanes) widens a scalar")
        if reducing:
            wide = e.args[0].lanes
            if e.lanes != 1 or wide < 2 or wide & (wide - 1):
                self.refuse(f"{e.op} halves a vector to a scalar", got=f"{wide} lanes to {e.lanes}",
                            want="a power of two to 1")

        if e.op in L.MIXING and e.lanes % 2:
            self.refuse(f"{e.op} takes an even number of lanes", got=e.lanes)

    def takes(self, op, dtype, kinds):
        if dtype.kind not in kinds:
            self.refuse(f"{op} does not take this dtype", got=dtype.short,
                        want=", ".join(_WORDS[k] for k in kinds))

    def conversion(self, e):
        old, new = e.args[0].dtype, e.dtype
        self.takes(e.op, old, _KINDS[e.op])
        self.takes(e.op, new, _KINDS[e.op])
        boolean = "b" in (old.kind, new.kind) and old is not new
        sizes = old.itemsize * e.args[0].lanes, new.itemsize * e.lanes
        if e.op == "bitcast" and (sizes[0] != sizes[1] or boolean):
            got = f"{show_type(old, e.args[0].lanes)} to {show_type(new, e.lanes)}"
            self.refuse("bitcast keeps the size and is not for bool", got=got)

    def function(self, e):
        """A function of compiler.scalar_math: one floating dtype in and out."""
        if self.functions is not None and e.op not in self.functions:
            self.refuse("this operation is unknown", got=e.op,
                        hint="see loops.OPERATIONS and compiler.scalar_math")
        if not e.args:
            self.refuse(f"{e.op} has no arguments")
        self.takes(e.op, e.dtype, "f")
        for argument in e.args:
            self.same(f"an argument of {e.op}", argument, e.dtype, e.lanes)


def _indented(stmt):
    """The statement as text, cut to its first lines; or its fields where it cannot be printed."""
    try:
        lines = show_stmt(stmt).split("\n")
    except Exception:                   # a field of a wrong type: that is what is being reported
        values = ", ".join(f"{f.name}={getattr(stmt, f.name)!r}" for f in fields(stmt))
        lines = [f"{type(stmt).__name__}({values})"]
    return "\n".join("    " + line for line in lines[:6] + ["..."] * (len(lines) > 6))
