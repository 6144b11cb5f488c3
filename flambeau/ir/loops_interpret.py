"""The plain interpreter of Loops: the oracle of the compiler, exact to the last bit.

A kernel is translated once to Python source over NumPy values (one line a statement) and run as often as
asked. Scalars are NumPy scalars, vector values are NumPy arrays of `lanes` elements, bfloat16 values their
uint16 bits. A `vector` loop whose body has only independent scalar statements runs all its iterations at once
as one long array, which changes no bit and makes tests quick; every other loop runs in order.

    run(kernel, {"x": x, "out": out}, {"n": 8})      executes the whole extent, writing into `out`
    run(kernel, buffers, params, begin=4, end=8)     one chunk
    python_source(kernel)                            what is executed, to read

What the arithmetic means is said in `loops.OPERATIONS`; how it is done in NumPy, in `loops_arithmetic`.
"""

import weakref

from flambeau.base.errors import fail
from flambeau.ir import loops as L
from flambeau.ir import loops_walk as walk
from flambeau.types.dtype import by_name

_COMPILED = weakref.WeakKeyDictionary()         # Kernel -> (source, function, extent function)


def run(kernel, buffers, params=None, begin=0, end=None):
    """Execute `kernel` for [begin, end) (end=None: to its extent), writing into the arrays of `buffers`.

    buffers: name -> 1-d NumPy array of the buffer's dtype (bfloat16: uint16); params: name -> int.
    Raises IndexError on an access outside a buffer, TypeError and ValueError on arguments that do not fit.
    """
    import numpy
    arrays = [_check_array(kernel, buffer, buffers) for buffer in kernel.buffers]
    sizes = [numpy.int64(_param(kernel, name, params or {})) for name in kernel.params]
    _, function, extent = _compiled(kernel)
    with numpy.errstate(all="ignore"):
        stop = extent(*sizes) if end is None else end
        function(arrays, sizes, numpy.int64(begin), numpy.int64(stop))


def extent(kernel, params=None):
    """The kernel's full range as an int, for the given params."""
    import numpy
    sizes = [numpy.int64(_param(kernel, name, params or {})) for name in kernel.params]
    with numpy.errstate(all="ignore"):
        return int(_compiled(kernel)[2](*sizes))


def python_source(kernel):
    """The Python source that `run` executes."""
    return _compiled(kernel)[0]


def _check_array(kernel, buffer, buffers):
    array = buffers.get(buffer.name)
    if array is None:
        fail("interpret", f"kernel {kernel.name} needs the buffer {buffer.name}", got=sorted(buffers),
             want=[b.name for b in kernel.buffers], kind=ValueError)
    if array.ndim != 1 or array.dtype != buffer.dtype.numpy:
        fail("interpret", f"buffer {buffer.name} of kernel {kernel.name} does not fit",
             got=f"{array.ndim}-d {array.dtype}", want=f"1-d {buffer.dtype.numpy}",
             hint="pass array.reshape(-1); bfloat16 is passed as its uint16 bits", kind=TypeError)
    return array


def _param(kernel, name, params):
    if name not in params:
        fail("interpret", f"kernel {kernel.name} needs the param {name}", got=sorted(params),
             want=list(kernel.params), kind=ValueError)
    return params[name]


def _compiled(kernel):
    entry = _COMPILED.get(kernel)
    if entry is None:
        entry = _COMPILED[kernel] = _Translator(kernel).finish()
    return entry


# ------------------------------------------------------------------------------------------- translation
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
          "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint"}
_UFUNCS = {"min": "minimum", "max": "maximum", "sqrt": "sqrt", "copysign": "copysign", "neg": "negative",
           "abs": "absolute", "not": "invert", "shl": "left_shift", "shr": "right_shift"} | _ROUNDINGS


class _Translator:
    """Writes the Python function of one kernel; `self.wide`: inside a vector loop that runs as one array."""

    def __init__(self, kernel):
        import numpy

        from flambeau.ir import loops_arithmetic as arithmetic
        arithmetic.prepare()
        self.kernel, self.numpy, self.arithmetic = kernel, numpy, arithmetic
        self.lines, self.wide, self.stmt = [], False, None
        self.space = {"np": numpy, "m": arithmetic}
        self.constants, self.known = {}, {b.name: b for b in kernel.buffers}

    def finish(self):
        extent = self.function("extent", [_name(p) for p in self.kernel.params])
        self.write(1, f"return {self.expr(self.kernel.extent)}")
        function = self.function("kernel", ["arrays", "params", "v_begin", "v_end"])
        for kind, names in (("arrays", [_buffer(b.name) for b in self.kernel.buffers]),
                            ("params", [_name(p) for p in self.kernel.params])):
            if names:
                self.write(1, f"{', '.join(names)}, = {kind}")
        self.block(self.kernel.body, 1)
        source = "\n".join(self.lines) + "\n"
        exec(compile(source, f"<interpreted {self.kernel.name}>", "exec"), self.space)
        return source, self.space[function], self.space[extent]

    def function(self, name, parameters):
        self.write(0, f"def {name}({', '.join(parameters)}):")
        return name

    def write(self, depth, text):
        self.lines.append("    " * depth + text)

    # ---- statements
    def block(self, body, depth):
        for stmt in body:
            self.stmt = stmt
            getattr(self, "stmt_" + type(stmt).__name__)(stmt, depth)
        if not body:
            self.write(depth, "pass")

    def stmt_Let(self, stmt, depth):
        self.write(depth, f"{_name(stmt.name)} = {self.expr(stmt.value)}")

    stmt_Declare = stmt_Assign = stmt_Let

    def stmt_Local(self, stmt, depth):
        self.known[stmt.name] = L.Buffer(stmt.name, stmt.dtype, "rw")
        self.write(depth, f"{_buffer(stmt.name)} = m.poisoned({stmt.size}, {self.type(stmt.dtype)})")

    def stmt_Store(self, stmt, depth):
        buffer, site = self.buffer(stmt.buffer, "w"), self.site(stmt.buffer)
        index, value = self.expr(stmt.index), self.expr(stmt.value)
        mask = "None" if stmt.mask is None else self.expr(stmt.mask)
        if self.wide:
            call = f"m.store_wide({buffer}, {index}, {value}, {mask}, wide, {site})"
        elif stmt.index.lanes > 1:
            call = f"m.scatter({buffer}, {index}, {value}, {mask}, {site})"
        elif stmt.value.lanes > 1:
            call = f"m.store_lanes({buffer}, {index}, {value}, {mask}, {site})"
        else:
            call = f"m.store({buffer}, {index}, {value}, {site})"
            call = call if mask == "None" else f"if {mask}: {call}"
        self.write(depth, call)

    def stmt_For(self, stmt, depth):
        index, span = _name(stmt.index), f"{self.expr(stmt.start)}, {self.expr(stmt.stop)}, {stmt.step}"
        if not self.wide and stmt.kind == "vector" and _independent(stmt.body):
            self.write(depth, f"{index} = np.arange({span}, dtype=np.int64); wide = len({index})")
            self.write(depth, "if wide:")
            self.wide = True
            self.block(stmt.body, depth + 1)
            self.wide = False
        else:
            self.write(depth, f"for {index} in np.arange({span}, dtype=np.int64):")
            self.block(stmt.body, depth + 1)

    def stmt_If(self, stmt, depth):
        self.write(depth, f"if {self.expr(stmt.condition)}:")
        self.block(stmt.then, depth + 1)
        if stmt.orelse:
            self.write(depth, "else:")
            self.block(stmt.orelse, depth + 1)

    def stmt_Prefetch(self, stmt, depth):
        self.write(depth, "pass")

    def stmt_SpliceStore(self, stmt, depth):
        self.refuse_splice(stmt)

    # ---- expressions
    def expr(self, e):
        return getattr(self, "expr_" + type(e).__name__)(e)

    def expr_Const(self, e):
        key = (e.dtype, e.lanes, repr(e.value))
        if key not in self.constants:
            name = self.constants[key] = f"c{len(self.constants)}"
            value = self.arithmetic.constant(e.value, e.dtype)
            self.space[name] = value if e.lanes == 1 else self.numpy.full(e.lanes, value)
        return self.constants[key]

    def expr_Var(self, e):
        return _name(e.name)

    def expr_SpliceLoad(self, e):
        self.refuse_splice(e)

    def expr_Load(self, e):
        buffer, site, index = self.buffer(e.buffer, "r"), self.site(e.buffer), self.expr(e.index)
        if e.mask is not None:
            mask, other = self.expr(e.mask), self.expr(e.other)
            if not self.wide and e.lanes == 1:
                return f"(m.load({buffer}, {index}, {site}) if {mask} else {other})"
            lanes = e.lanes if e.index.lanes == 1 else 1
            return f"m.load_masked({buffer}, {index}, {lanes}, {mask}, {other}, {site})"
        if self.wide:
            return f"m.load_wide({buffer}, {index}, {site})"
        if e.index.lanes > 1:
            return f"m.gather({buffer}, {index}, {site})"
        if e.lanes > 1:
            return f"m.load_lanes({buffer}, {index}, {e.lanes}, {site})"
        return f"m.load({buffer}, {index}, {site})"

    def expr_Apply(self, e):
        if e.op not in L.OPERATIONS:
            fail("interpret", f"kernel {self.kernel.name} calls a function that is no operation", got=e.op,
                 want="an operation of loops.OPERATIONS",
                 hint="run compiler.expand.expand_math(kernel) first", kind=ValueError)
        args = [self.expr(a) for a in e.args]
        if e.op == "splat":
            return f"np.full({e.lanes}, {args[0]})"
        if e.op == "lane":
            return f"m.lane_numbers({e.lanes}, {self.type(e.dtype)})"
        if e.op == "cast":
            return self.cast(args[0], e.args[0].dtype, e.dtype)
        if e.op == "bitcast":
            return f"{args[0]}.view({self.numpy_type(e.dtype)})"
        if e.op == "select":
            return f"m.choose_lanes({', '.join(args)})" if self.many(e) else f"m.choose({', '.join(args)})"
        if e.op in L.MIXING:
            return f"m.{e.op}({', '.join(args)})"
        if e.op in L.REDUCING:
            combined = self.operation(e.op[7:], e.dtype, ["a", "b"], True)
            return f"m.halve({args[0]}, lambda a, b: {combined})"
        return self.operation(e.op, e.args[0].dtype, args, self.many(e))

    def many(self, e):
        return self.wide or e.lanes > 1

    def operation(self, op, dtype, args, many):
        """Python text of `op` on values of `dtype`; `many`: the values may be arrays."""
        if dtype.name == "bfloat16":
            return self.bfloat16_operation(op, args, many)
        if dtype.kind == "f" and op in ("min", "max"):
            return f"m.{op}imum{'_lanes' if many else ''}({', '.join(args)})"
        if dtype.kind != "f" and op in _ROUNDINGS:
            return args[0]
        if op in _INFIX:
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        if op in _UFUNCS:
            return f"np.{_UFUNCS[op]}({', '.join(args)})"
        if op == "fma":
            name = "fma_integer" if dtype.kind in "iu" else f"fma_{dtype.short}"
            return f"m.{name}({', '.join(args)})"
        if op == "dot_bytes":
            return f"m.dot_bytes({', '.join(args)})"
        return f"m.{op}{'_lanes' if many else ''}({', '.join(args)})"       # idiv, irem

    def bfloat16_operation(self, op, args, many):
        if op in ("neg", "abs"):
            return f"({args[0]} ^ m.SIGN16)" if op == "neg" else f"({args[0]} & m.MAGNITUDE16)"
        if op == "fma":
            return f"m.fma_bf16({', '.join(args)})"
        single = self.operation(op, by_name("float32"), [f"m.widen({a})" for a in args], many)
        return single if op in _COMPARISONS else f"m.narrow({single})"

    def cast(self, value, old, new):
        if old is new:
            return value
        if new.kind == "b":
            return f"(({value} & m.MAGNITUDE16) != 0)" if old.name == "bfloat16" else f"({value} != 0)"
        if old.name == "bfloat16":
            value, old = f"m.widen({value})", by_name("float32")
        if new.kind in "iu" and old.kind == "f":
            return f"m.saturate({value}, {self.numpy_type(new)})"
        if new.name in ("float16", "bfloat16"):         # through float32, as PyTorch does
            single = value if old.name == "float32" else f"{value}.astype(np.float32)"
            return f"m.narrow({single})" if new.name == "bfloat16" else f"{single}.astype(np.float16)"
        return value if old is new else f"{value}.astype({self.numpy_type(new)})"

    # ---- names and checks
    def numpy_type(self, dtype):
        return f"np.{dtype.numpy.type.__name__}"

    def type(self, dtype):
        self.space[dtype.short] = dtype
        return dtype.short

    def buffer(self, name, access):
        known = self.known.get(name)
        if known is None or access not in known.access:
            verb = "read" if access == "r" else "write"
            fail("interpret", f"kernel {self.kernel.name} may not {verb} {name}",
                 got="an unknown buffer" if known is None else f"access '{known.access}'",
                 want=[f"{b.name}: {b.access}" for b in self.known.values()], kind=ValueError)
        return _buffer(name)

    def site(self, buffer):
        """The name of a (kernel, buffer, source) triple that an out-of-bounds error tells."""
        name = f"s{len(self.space)}"
        self.space[name] = (self.kernel.name, buffer, getattr(self.stmt, "source", None))
        return name

    def refuse_splice(self, splice):
        fail("interpret", f"kernel {self.kernel.name} has an unfilled splice", got=splice.name,
             want="no splices", hint="fill it first: ir.splice.fill(kernel, loads=..., stores=...)",
             kind=ValueError)


def _name(name):
    return "v_" + name.replace(".", "·")


def _buffer(name):
    return "b_" + name.replace(".", "·")


# --------------------------------------------------------------------- which vector loops run as one array
def _independent(body):
    """True if all iterations of a vector loop may run statement by statement: scalar Lets and Stores only,
    and each buffer that is stored to is touched at one index only."""
    touched, stored = {}, set()
    for stmt in body:
        if not isinstance(stmt, (L.Let, L.Store)):
            return False
        for e in walk.parts_within(stmt):
            if e.lanes > 1 or isinstance(e, L.SpliceLoad):
                return False
            if isinstance(e, L.Load):
                touched.setdefault(e.buffer, set()).add(_index_key(e.index))
        if isinstance(stmt, L.Store):
            stored.add(stmt.buffer)
            touched.setdefault(stmt.buffer, set()).add(_index_key(stmt.index))
    return all(len(touched[name]) == 1 for name in stored)


def _index_key(e):
    """Equal for expressions that are written alike."""
    if isinstance(e, L.Apply):
        return (e.op, e.dtype) + tuple(_index_key(a) for a in e.args)
    if isinstance(e, L.Load):
        return (e.buffer, _index_key(e.index), id(e) if e.mask is not None else None)
    return e.name if isinstance(e, L.Var) else repr(e.value)
