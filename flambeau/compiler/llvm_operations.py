"""One function an operation of `loops.OPERATIONS`: from operands to LLVM instructions.

Each takes the writer, the Apply and the operands of its arguments and returns the operand of the result. All
are total: what LLVM leaves undefined (division by zero, wide shifts, casts out of range) is decided here, as
the table says. Float16 and bfloat16 are converted in `llvm_half`.
"""

from flambeau.compiler.llvm_bytes import dot_bytes
from flambeau.compiler.llvm_casts import to_integer
from flambeau.compiler.llvm_fma import call_fma
from flambeau.compiler.llvm_half import half_to_float, float_to_half
from flambeau.compiler.llvm_values import constant, integer_splat, mangle, register_type, vector
from flambeau.ir.loops import Const, MIXING, OPERATIONS, REDUCING
from flambeau.types.dtype import by_name

_SPECIAL = {}


def emit_apply(writer, expr, operands):
    """Write Apply `expr`, whose arguments are `operands` already; return the operand of the result."""
    if expr.op in REDUCING:
        return _reduce(writer, expr, operands[0])
    if expr.op in _SPECIAL:
        return _SPECIAL[expr.op](writer, expr, *operands)
    if expr.op in OPERATIONS:
        return _binary(writer, expr, *operands)
    raise ValueError(f"[llvm] no instructions for {expr.op}: run expand_math before emitting code")


def _special(*names):
    def register(function):
        for name in names:
            _SPECIAL[name] = function
        return function
    return register


def _type(value):
    return register_type(value.dtype, value.lanes)


def _scalar(value):
    return register_type(value.dtype)


# ---------------------------------------------------------------------- one instruction each
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_BOOL = {"and": "and", "or": "or", "xor": "xor", "mul": "and", "add": "or", "min": "and", "max": "or"}


def _binary(writer, expr, x, y):
    return combine(writer, expr.op, expr.args[0].dtype, expr.args[0].lanes, x, y)


def combine(writer, op, dtype, lanes, x, y):
    """Binary operation `op` on two operands of `dtype`."""
    if dtype.kind == "f":
        if dtype.itemsize == 2:
            raise TypeError(f"[llvm] {op} on {dtype!r}: compute in float32 and cast")
        if op in ("min", "max"):
            return _float_extreme(writer, op, dtype, lanes, x, y)
        name = _FLOAT.get(op)
    elif dtype.kind == "b":
        name = _BOOL.get(op)
    elif op in ("min", "max"):
        return _integer_extreme(writer, op, dtype, lanes, x, y)
    else:
        folded = _fold_index(op, dtype, lanes, x, y)
        if folded is not None:
            return folded
        name = _INTEGER.get(op)
    if name is None:
        raise TypeError(f"[llvm] {op} is not defined on {dtype!r}")
    return writer.line(f"{name} {register_type(dtype, lanes)} {x}, {y}")


def _fold_index(op, dtype, lanes, x, y):
    """Index arithmetic on literals, which unrolled loops make plenty of."""
    if lanes != 1 or dtype.name != "int64" or op not in ("add", "mul", "sub"):
        return None
    if _is_literal(x) and _is_literal(y):
        a, b = int(x), int(y)
        return constant({"add": a + b, "sub": a - b, "mul": a * b}[op], dtype)
    if y == {"add": "0", "sub": "0", "mul": "1"}[op]:
        return x
    if x == {"add": "0", "mul": "1"}.get(op):
        return y
    return None


def _is_literal(operand):
    return operand.lstrip("-").isdigit()


def _float_extreme(writer, op, dtype, lanes, x, y):
    """y if y < x else x, where x gives way to a NaN in y: three instructions, one where y is a constant."""
    kind, flags = register_type(dtype, lanes), vector("i1", lanes)
    nan = writer.line(f"fcmp uno {kind} {y}, {y}")
    x = writer.line(f"select {flags} {nan}, {kind} {y}, {kind} {x}")
    wins = writer.line(f"fcmp {'olt' if op == 'min' else 'ogt'} {kind} {y}, {x}")
    return writer.line(f"select {flags} {wins}, {kind} {y}, {kind} {x}")


def _integer_extreme(writer, op, dtype, lanes, x, y):
    kind = register_type(dtype, lanes)
    name = f"llvm.{'u' if dtype.kind == 'u' else 's'}{op}.{mangle(register_type(dtype), lanes)}"
    return writer.call(name, kind, (kind, x), (kind, y))


# ---------------------------------------------------------------------- arithmetic
@_special("fma")
def _fma(writer, expr, x, y, z):
    kind = _type(expr)
    if expr.dtype.kind != "f":
        product = combine(writer, "mul", expr.dtype, expr.lanes, x, y)
        return combine(writer, "add", expr.dtype, expr.lanes, product, z)
    if not writer.target.has("fma"):
        return call_fma(writer, expr.dtype, expr.lanes, x, y, z)
    return writer.call(f"llvm.fma.{mangle(_scalar(expr), expr.lanes)}", kind, (kind, x), (kind, y), (kind, z))


@_special("dot_bytes")
def _dot_bytes(writer, expr, x, y, total):
    return dot_bytes(writer, expr.lanes, x, y, total)


@_special("neg")
def _neg(writer, expr, x):
    kind = _type(expr)
    if expr.dtype.kind == "f":
        return writer.line(f"fneg {kind} {x}")
    return writer.line(f"sub {kind} {integer_splat(0, 8 * expr.dtype.itemsize, expr.lanes)}, {x}")


@_special("abs")
def _abs(writer, expr, x):
    kind, suffix = _type(expr), mangle(_scalar(expr), expr.lanes)
    if expr.dtype.kind == "f":
        return writer.call(f"llvm.fabs.{suffix}", kind, (kind, x))
    if expr.dtype.kind in "bu":
        return x
    return writer.call(f"llvm.abs.{suffix}", kind, (kind, x), ("i1", "false"))


@_special("idiv", "irem")
def _divide(writer, expr, x, y):
    """x / 0 = x % 0 = 0, minimum / -1 = minimum, minimum % -1 = 0; a known divisor needs no checks."""
    kind, flags, quotient = _type(expr), vector("i1", expr.lanes), expr.op == "idiv"
    bits, signed, divisor = 8 * expr.dtype.itemsize, expr.dtype.kind == "i", expr.args[1]
    name = f"{'s' if signed else 'u'}{'div' if quotient else 'rem'}"
    if isinstance(divisor, Const) and int(divisor.value) not in (0, -1):
        return writer.line(f"{name} {kind} {x}, {y}")
    zero, one = (integer_splat(n, bits, expr.lanes) for n in (0, 1))
    bad = is_zero = writer.line(f"icmp eq {kind} {y}, {zero}")
    if signed:
        is_minus_one = writer.line(f"icmp eq {kind} {y}, {integer_splat(-1, bits, expr.lanes)}")
        bad = writer.line(f"or {flags} {is_zero}, {is_minus_one}")
    safe = writer.line(f"select {flags} {bad}, {kind} {one}, {kind} {y}")
    result = writer.line(f"{name} {kind} {x}, {safe}")
    if not quotient:            # anything % 1 is 0 already
        return result
    if signed:
        negated = writer.line(f"sub {kind} {zero}, {x}")
        result = writer.line(f"select {flags} {is_minus_one}, {kind} {negated}, {kind} {result}")
    return writer.line(f"select {flags} {is_zero}, {kind} {zero}, {kind} {result}")


@_special("copysign")
def _copysign(writer, expr, x, y):
    kind = _type(expr)
    return writer.call(f"llvm.copysign.{mangle(_scalar(expr), expr.lanes)}", kind, (kind, x), (kind, y))


@_special("sqrt")
def _sqrt(writer, expr, x):
    return writer.call(f"llvm.sqrt.{mangle(_scalar(expr), expr.lanes)}", _type(expr), (_type(expr), x))


@_special("floor", "ceil", "trunc", "round")
def _rounding(writer, expr, x):
    if expr.dtype.kind != "f":
        return x
    if not writer.target.has("sse4_1"):
        return _round_by_adding(writer, expr, x)
    name = "roundeven" if expr.op == "round" else expr.op
    return writer.call(f"llvm.{name}.{mangle(_scalar(expr), expr.lanes)}", _type(expr), (_type(expr), x))


def _round_by_adding(writer, expr, x):
    """Without an instruction (which would be a library call): |x| + 2^23 - 2^23 rounds half to even."""
    kind, lanes, flags = _type(expr), expr.lanes, vector("i1", expr.lanes)
    suffix = mangle(_scalar(expr), lanes)
    big = constant(2.0 ** (23 if expr.dtype.itemsize == 4 else 52), expr.dtype, lanes)
    one, zero = constant(1.0, expr.dtype, lanes), constant(0.0, expr.dtype, lanes)
    size = writer.call(f"llvm.fabs.{suffix}", kind, (kind, x))
    small = writer.line(f"fcmp olt {kind} {size}, {big}")
    nearest = writer.line(f"fsub {kind} {writer.line(f'fadd {kind} {size}, {big}')}, {big}")
    if expr.op in ("floor", "ceil"):
        nearest = writer.call(f"llvm.copysign.{suffix}", kind, (kind, nearest), (kind, x))
    if expr.op != "round":
        compared = size if expr.op == "trunc" else x
        over = writer.line(f"fcmp {'olt' if expr.op == 'ceil' else 'ogt'} {kind} {nearest}, {compared}")
        step = writer.line(f"select {flags} {over}, {kind} {one}, {kind} {zero}")
        nearest = writer.line(f"{'fadd' if expr.op == 'ceil' else 'fsub'} {kind} {nearest}, {step}")
    signed = writer.call(f"llvm.copysign.{suffix}", kind, (kind, nearest), (kind, x))
    quiet = writer.line(f"fadd {kind} {x}, {zero}")
    is_nan = writer.line(f"fcmp uno {kind} {x}, {x}")
    large = writer.line(f"select {flags} {is_nan}, {kind} {quiet}, {kind} {x}")
    return writer.line(f"select {flags} {small}, {kind} {signed}, {kind} {large}")


# ---------------------------------------------------------------------- bits
@_special("not")
def _not(writer, expr, x):
    ones = constant(True, expr.dtype, expr.lanes) if expr.dtype.kind == "b" else \
        integer_splat(-1, 8 * expr.dtype.itemsize, expr.lanes)
    return writer.line(f"xor {_type(expr)} {x}, {ones}")


@_special("shl", "shr")
def _shift(writer, expr, x, y):
    """The amount counts as unsigned: a negative one is too wide as well."""
    kind, bits, signed = _type(expr), 8 * expr.dtype.itemsize, expr.dtype.kind == "i"
    name = "shl" if expr.op == "shl" else "ashr" if signed else "lshr"
    amount = expr.args[1]
    if isinstance(amount, Const) and 0 <= int(amount.value) < bits:
        return writer.line(f"{name} {kind} {x}, {y}")
    if name == "ashr":
        last = integer_splat(bits - 1, bits, expr.lanes)
        clamped = writer.call(f"llvm.umin.{mangle(_scalar(expr), expr.lanes)}", kind, (kind, y), (kind, last))
        return writer.line(f"ashr {kind} {x}, {clamped}")
    inside = writer.line(f"icmp ult {kind} {y}, {integer_splat(bits, bits, expr.lanes)}")
    shifted = writer.line(f"{name} {kind} {x}, {y}")
    zero = integer_splat(0, bits, expr.lanes)
    return writer.line(f"select {vector('i1', expr.lanes)} {inside}, {kind} {shifted}, {kind} {zero}")


# ---------------------------------------------------------------------- comparisons and choice
@_special("eq", "ne", "lt", "le", "gt", "ge")
def _compare(writer, expr, x, y):
    argument, op = expr.args[0], expr.op
    if argument.dtype.kind == "f":
        if argument.dtype.itemsize == 2:
            raise TypeError(f"[llvm] {op} on {argument.dtype!r}: compare in float32")
        return writer.line(f"fcmp {'une' if op == 'ne' else 'o' + op} {_type(argument)} {x}, {y}")
    sign = "" if op in ("eq", "ne") else "s" if argument.dtype.kind == "i" else "u"
    return writer.line(f"icmp {sign}{op} {_type(argument)} {x}, {y}")


@_special("select")
def _select(writer, expr, condition, x, y):
    kind = _type(expr)
    return writer.line(f"select {_type(expr.args[0])} {condition}, {kind} {x}, {kind} {y}")


# ---------------------------------------------------------------------- conversions
@_special("bitcast")
def _bitcast(writer, expr, x):
    source, result = _type(expr.args[0]), _type(expr)
    return x if source == result else writer.line(f"bitcast {source} {x} to {result}")


@_special("cast")
def _cast(writer, expr, x):
    source, result, lanes = expr.args[0].dtype, expr.dtype, expr.lanes
    if source is result:
        return x
    if source.kind == "f" and source.itemsize == 2:
        x, source = half_to_float(writer, source, lanes, x), by_name("float32")
    if result.kind == "f" and result.itemsize == 2:
        if source.kind != "f":
            x, source = convert(writer, source, by_name("float32"), lanes, x), by_name("float32")
        return float_to_half(writer, source, result, lanes, x)
    return convert(writer, source, result, lanes, x)


def convert(writer, source, result, lanes, x):
    """Cast between dtypes that are not 16 bit floats."""
    before, after = register_type(source, lanes), register_type(result, lanes)
    if source is result:
        return x
    if result.kind == "b":
        test = "fcmp une" if source.kind == "f" else "icmp ne"
        return writer.line(f"{test} {before} {x}, {constant(0, source, lanes)}")
    if source.kind == "f":
        if result.kind == "f":
            name = "fpext" if result.itemsize > source.itemsize else "fptrunc"
            return writer.line(f"{name} {before} {x} to {after}")
        return to_integer(writer, source, result, lanes, x)
    signed = source.kind == "i"
    if result.kind == "f":
        return writer.line(f"{'si' if signed else 'ui'}tofp {before} {x} to {after}")
    if before == after:
        return x
    widens = source.kind == "b" or result.itemsize > source.itemsize
    return writer.line(f"{('sext' if signed else 'zext') if widens else 'trunc'} {before} {x} to {after}")


# ---------------------------------------------------------------------- lanes
@_special("splat")
def _splat(writer, expr, x):
    if expr.lanes == 1 or expr.args[0].lanes == expr.lanes:
        return x
    kind = _type(expr)
    first = writer.line(f"insertelement {kind} poison, {_scalar(expr)} {x}, i64 0")
    return writer.line(f"shufflevector {kind} {first}, {kind} poison, <{expr.lanes} x i32> zeroinitializer")


@_special("lane")
def _lane(writer, expr):
    if expr.lanes == 1:
        return constant(0, expr.dtype)
    scalar = _scalar(expr)
    return "<" + ", ".join(f"{scalar} {constant(n, expr.dtype)}" for n in range(expr.lanes)) + ">"


@_special(*MIXING)
def _mix(writer, expr, x, y):
    kind, lanes = _type(expr), expr.lanes
    if expr.op in ("even", "odd"):
        chosen = range(expr.op == "odd", 2 * lanes, 2)
    else:
        start = lanes // 2 if expr.op == "zip_high" else 0
        chosen = [start + n // 2 + n % 2 * lanes for n in range(lanes)]
    chosen = ", ".join(f"i32 {n}" for n in chosen)
    return writer.line(f"shufflevector {kind} {x}, {kind} {y}, <{lanes} x i32> <{chosen}>")


def _reduce(writer, expr, x):
    """Halve: the lower lanes combined with the upper ones, until one is left."""
    dtype, lanes, op = expr.dtype, expr.args[0].lanes, expr.op.removeprefix("reduce_")
    if lanes & (lanes - 1):
        raise ValueError(f"[llvm] {expr.op} of {lanes} lanes: the number of lanes must be a power of two")
    while lanes > 1:
        half, kind = lanes // 2, register_type(dtype, lanes)
        parts = []
        for start in (0, half):
            chosen = ", ".join(f"i32 {n}" for n in range(start, start + half))
            parts.append(writer.line(f"shufflevector {kind} {x}, {kind} poison, <{half} x i32> <{chosen}>"))
        if half == 1:
            parts = [writer.line(f"extractelement <1 x {register_type(dtype)}> {p}, i64 0") for p in parts]
        x, lanes = combine(writer, op, dtype, half, *parts), half
    return x
