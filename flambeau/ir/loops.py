"""Loops: the element-level IR. A Kernel is what becomes one native function.

Grammar (the printed form of `ir.loops_text`, which parses back):

    kernel  := "kernel" NAME "(" buffers ";" params ")" "extent" expr "{" stmt* "}"
    buffer  := NAME ":" ("r"|"w"|"rw") dtype "*"             param := NAME ":" "i64"
    stmt    := NAME ":" type "=" expr                        Let: binds once
             | "var" NAME ":" type "=" expr                  Declare: a register that Assign may change
             | NAME ":=" expr                                Assign
             | NAME "[" expr "]" "<-" expr ["where" expr]    Store (a vector value writes consecutive elements)
             | "local" NAME ":" dtype "[" INT "]"            Local: scratch of a constant size, uninitialised
             | "for" NAME "in" expr ".." expr "step" INT ["unroll"|"vector"] "{" stmt* "}"
             | "if" expr "{" stmt* "}" ["else" "{" stmt* "}"]
             | "splice" NAME "(" expr,* ")"                  SpliceStore: filled before code generation
             | "prefetch" NAME "[" expr "]" ["write"]        fetch the element's cache line; no effect on any value
    expr    := CONST ":" type | NAME | op "(" expr,* ")" ":" type | NAME "[" expr "]" ":" type ["where" expr "else" expr]
             | "splice" NAME "(" expr,* ")" ":" type         SpliceLoad
    type    := dtype ["x" LANES]                             f32, f32x16
    Each statement may end in "# file:line", the user's source line.

Meaning. All index arithmetic is i64. A kernel body runs for the half-open range [begin, end), two i64
variables that are always bound; `extent` says, over the params, what full range there is: the caller splits
[0, extent) into chunks that may run in parallel and in any order. `for` loops count up; a `vector` loop is written
in scalar form and asks the vectorizer to run its lanes together. A Local stands at the top of the body and belongs to one call. Load with
lanes > 1 and a scalar index reads consecutive elements; with a vector index it gathers. Lanes masked
off yield `other` and touch no memory.

Native ABI: `void kernel(const int64_t *args, int64_t begin, int64_t end)`; args holds the address of each
buffer in order, then each param.
"""

from dataclasses import dataclass, field

from flambeau.types.dtype import DType, bool_, int64


@dataclass(frozen=True, eq=False)
class Expr:
    """An element value: `dtype` with `lanes` lanes (1: scalar)."""

    dtype: DType
    lanes: int


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A literal; with lanes > 1 the same in every lane. `value` is a Python bool, int or float."""

    value: object


@dataclass(frozen=True, eq=False)
class Var(Expr):
    """A loop index, a param, `begin`, `end`, or a name bound by Let or Declare."""

    name: str


@dataclass(frozen=True, eq=False)
class Apply(Expr):
    """A scalar operation (see OPERATIONS) or a mathematical function, lane by lane."""

    op: str
    args: tuple


@dataclass(frozen=True, eq=False)
class Load(Expr):
    """buffer[index], in elements."""

    buffer: str
    index: Expr
    mask: Expr | None = None
    other: Expr | None = None


@dataclass(frozen=True, eq=False)
class SpliceLoad(Expr):
    """A place where the user of a template puts an expression of `args`."""

    name: str
    args: tuple


@dataclass(frozen=True, eq=False)
class Stmt:
    """A statement; `source` is a (file, line) pair or None."""


@dataclass(frozen=True, eq=False)
class Let(Stmt):
    name: str
    value: Expr
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class Declare(Stmt):
    name: str
    value: Expr
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class Assign(Stmt):
    name: str
    value: Expr
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class Store(Stmt):
    buffer: str
    index: Expr
    value: Expr
    mask: Expr | None = None
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class Local(Stmt):
    name: str
    dtype: DType
    size: int       # elements
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class For(Stmt):
    index: str
    start: Expr
    stop: Expr
    step: int
    kind: str       # 'serial', 'unroll' or 'vector'
    body: tuple
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class If(Stmt):
    condition: Expr
    then: tuple
    orelse: tuple = ()
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class SpliceStore(Stmt):
    """A place where the user of a template puts statements made from `args`."""

    name: str
    args: tuple
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class Prefetch(Stmt):
    """Bring the cache line of buffer[index] near, to be read soon or (`write`) written; the index may lie outside."""

    buffer: str
    index: Expr
    write: bool = False
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class Buffer:
    name: str
    dtype: DType
    access: str     # 'r', 'w' or 'rw'


@dataclass(frozen=True, eq=False)
class Kernel:
    name: str
    buffers: tuple          # of Buffer
    params: tuple           # of str, each an i64
    extent: Expr
    body: tuple
    notes: tuple = field(default=())   # (key, text): fusion borders and why, shown by the viewer


# One row an operation: how many arguments, and the rule for the result's dtype ('same' as the first argument,
# 'bool', 'given': stated by the Apply, 'second': as the second argument). All lanes-wise but the last group.
OPERATIONS = {
    # floating and integer arithmetic; integers wrap. fma rounds once. No fast-math, no implicit contraction.
    "add": (2, "same"), "sub": (2, "same"), "mul": (2, "same"), "fma": (3, "same"), "neg": (1, "same"), "abs": (1, "same"),
    "div": (2, "same"),        # floating only
    "idiv": (2, "same"),       # integers, toward zero; x / 0 = 0, minimum / -1 = minimum
    "irem": (2, "same"),       # integers, sign of the dividend; x % 0 = 0, minimum % -1 = 0
    "min": (2, "same"), "max": (2, "same"),           # floating: NaN if either is NaN, -0 < +0 not required
    "sqrt": (1, "same"), "floor": (1, "same"), "ceil": (1, "same"), "trunc": (1, "same"),
    "round": (1, "same"),      # half to even
    "copysign": (2, "same"),
    "dot_bytes": (3, "same"),  # int32: the four bytes of the first, as unsigned, times those of the second, as signed, added to the third; wraps
    # bits: integers and (and, or, xor, not) bool. Shifts by >= width give 0 (or the sign for signed shr).
    "and": (2, "same"), "or": (2, "same"), "xor": (2, "same"), "not": (1, "same"), "shl": (2, "same"), "shr": (2, "same"),
    # comparisons; ordered but for ne, which is true on NaN
    "eq": (2, "bool"), "ne": (2, "bool"), "lt": (2, "bool"), "le": (2, "bool"), "gt": (2, "bool"), "ge": (2, "bool"),
    "select": (3, "second"),   # select(condition, a, b)
    "cast": (1, "given"),      # to integers: toward zero, saturating, NaN gives 0; int -> int wraps; to bool: x != 0
    "bitcast": (1, "given"),   # same size; a vector may get fewer and wider lanes, or more and narrower ones
    # lanes
    "splat": (1, "given"),     # scalar -> every lane
    "lane": (0, "given"),      # 0, 1, 2, ...
    # two vectors of 2 n lanes -> one: the lower (upper) halves in turn, a0 b0 a1 b1 ...; every second lane of a, then of b
    "zip_low": (2, "same"), "zip_high": (2, "same"), "even": (2, "same"), "odd": (2, "same"),
    # vector -> scalar by halving: v[:n/2] op v[n/2:] until one lane is left (a fixed tree)
    "reduce_add": (1, "same"), "reduce_mul": (1, "same"), "reduce_min": (1, "same"), "reduce_max": (1, "same"),
    "reduce_and": (1, "same"), "reduce_or": (1, "same"), "reduce_xor": (1, "same"),
}
MIXING = frozenset(("zip_low", "zip_high", "even", "odd"))
REDUCING = frozenset(name for name in OPERATIONS if name.startswith("reduce_"))
# Apply.op may also name a function of compiler.scalar_math (exp, log, tanh, ...: same dtype in and out); the stage
# `expand_math` replaces it by operations of the table before code is generated or interpreted.

BEGIN, END = Var(int64, 1, "begin"), Var(int64, 1, "end")


class Builder:
    """Builds statements in order; value methods bind each result with a Let, so that sharing is by name.

    >>> b = Builder(); x = b.load("x", b.index("i"), float32); b.store("out", b.index("i"), b.add(x, x))

    Nested blocks: `with b.loop("i", 0, n): ...`, `with b.branch(condition): ...`.
    """

    def __init__(self, prefix="v"):
        self.blocks, self.count, self.prefix, self.source = [[]], 0, prefix, None

    # ---- statements
    def emit(self, stmt):
        self.blocks[-1].append(stmt)

    def body(self):
        """The finished statements of the outermost block."""
        return tuple(self.blocks[0])

    def fresh(self, stem=None):
        self.count += 1
        return f"{stem or self.prefix}{self.count}"

    def let(self, value, name=None):
        """Bind `value` (unless it is a Var or Const already) and return the Var."""
        if isinstance(value, (Var, Const)) and name is None:
            return value
        name = name or self.fresh()
        self.emit(Let(name, value, self.source))
        return Var(value.dtype, value.lanes, name)

    def declare(self, value, name=None):
        name = name or self.fresh()
        self.emit(Declare(name, value, self.source))
        return Var(value.dtype, value.lanes, name)

    def assign(self, var, value):
        self.emit(Assign(var.name, value, self.source))

    def store(self, buffer, index, value, mask=None):
        self.emit(Store(buffer, index, value, mask, self.source))

    def local(self, name, dtype, size):
        self.blocks[0].insert(0, Local(name, dtype, size, self.source))
        return name

    def loop(self, index, start, stop, step=1, kind="serial"):
        return _Block(self, lambda body: For(index, as_index(start), as_index(stop), step, kind, body, self.source),
                      Var(int64, 1, index))

    def branch(self, condition):
        return _Block(self, lambda body: If(condition, body, (), self.source), None)

    def prefetch(self, buffer, index, write=False):
        self.emit(Prefetch(buffer, as_index(index), write, self.source))

    def splice_store(self, name, *args):
        self.emit(SpliceStore(name, args, self.source))

    # ---- values
    def index(self, name):
        return Var(int64, 1, name)

    def const(self, value, dtype, lanes=1):
        return Const(dtype, lanes, value)

    def load(self, buffer, index, dtype, lanes=1, mask=None, other=None):
        return self.let(Load(dtype, lanes, buffer, index, mask, other))

    def splice_load(self, name, dtype, lanes, *args):
        return self.let(SpliceLoad(dtype, lanes, name, args))

    def call(self, op, *args, dtype=None, lanes=None):
        """Apply an operation of OPERATIONS or a function of scalar_math."""
        return self.let(apply(op, *args, dtype=dtype, lanes=lanes))

    def cast(self, x, dtype):
        return x if x.dtype is dtype else self.call("cast", x, dtype=dtype)

    def __getattr__(self, op):
        if op.rstrip("_") in OPERATIONS:       # and_, or_, not_: Python keywords
            return lambda *args, **kw: self.call(op.rstrip("_"), *args, **kw)
        raise AttributeError(op)


class _Block:
    def __init__(self, builder, finish, value):
        self.builder, self.finish, self.value = builder, finish, value

    def __enter__(self):
        self.builder.blocks.append([])
        return self.value

    def __exit__(self, kind, value, trace):
        body = tuple(self.builder.blocks.pop())
        if kind is None:
            self.builder.emit(self.finish(body))


def as_index(value):
    return Const(int64, 1, value) if isinstance(value, int) else value


def apply(op, *args, dtype=None, lanes=None):
    """An Apply with its result type worked out; scalars beside vectors are splatted."""
    wide = lanes or max((a.lanes for a in args), default=1)
    if op != "splat":
        args = tuple(splat(a, wide) for a in args)
    rule = OPERATIONS.get(op, (None, "same"))[1]
    if rule == "bool":
        dtype = bool_
    elif rule == "second":
        dtype = args[1].dtype
    elif rule == "same":
        dtype = args[0].dtype
    return Apply(dtype, 1 if op in REDUCING else wide, op, tuple(args))


def splat(value, lanes):
    if value.lanes == lanes:
        return value
    if isinstance(value, Const):
        return Const(value.dtype, lanes, value.value)
    return Apply(value.dtype, lanes, "splat", (value,))


# ---- index arithmetic: nested expressions, folded where both sides are known
def add(a, b):
    a, b = as_index(a), as_index(b)
    if isinstance(a, Const) and isinstance(b, Const) and a.lanes == b.lanes == 1:
        return Const(int64, 1, a.value + b.value)
    if isinstance(a, Const) and a.value == 0 and a.lanes <= b.lanes:
        return b
    if isinstance(b, Const) and b.value == 0 and b.lanes <= a.lanes:
        return a
    return apply("add", a, b)


def mul(a, b):
    a, b = as_index(a), as_index(b)
    if isinstance(a, Const) and isinstance(b, Const) and a.lanes == b.lanes == 1:
        return Const(int64, 1, a.value * b.value)
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Const) and x.lanes <= y.lanes and x.value == 1:
            return y
        if isinstance(x, Const) and x.lanes == y.lanes == 1 and x.value == 0:
            return x
    return apply("mul", a, b)
