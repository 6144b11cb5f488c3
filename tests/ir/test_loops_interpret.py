"""The interpreter of Loops against exact rational arithmetic, and its memory rules."""

import math
import random
from fractions import Fraction

import numpy
import pytest

from flambeau.ir import loops as L
from flambeau.ir.loops_interpret import extent, python_source, run
from flambeau.types.dtype import (ALL, bfloat16, bool_, by_name, float16, float32, float64, int8, int32,
                                  int64, uint8, uint64)

# ------------------------------------------------------------------- an oracle of its own: rationals, rounded
FORMATS = {float16: (11, -24, 65504.0), bfloat16: (8, -133, 3.3895313892515355e38),
           float32: (24, -149, 3.4028234663852886e38), float64: (53, -1074, 1.7976931348623157e308)}
FLOATS = tuple(FORMATS)
INTEGERS = tuple(d for d in ALL if d.kind in "iu")


def rounded(value, dtype):
    """The nearest `dtype` number (ties to even) of a Fraction, as a float."""
    digits, smallest, largest = FORMATS[dtype]
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, smallest)
    result = round(magnitude / unit) * unit         # Fraction rounds half to even
    result = math.inf if result > Fraction(largest) else float(result)
    return -result if value < 0 else result


def bits(values, dtype):
    """Python floats, exactly representable in `dtype`, as its array."""
    if dtype is bfloat16:
        return (numpy.array(values, "f4").view("u4") >> 16).astype("u2")
    with numpy.errstate(all="ignore"):
        return numpy.array(values, dtype.numpy)


def floats(array, dtype):
    if dtype is bfloat16:
        return (array.astype("u4") << 16).view("f4").astype("f8").tolist()
    return array.tolist()


def evaluate(op, dtype, /, *operands, out=None, lanes=1, **kw):
    """Run `op` over whole arrays; lanes=0: a serial scalar loop, 1: the wide path, else explicit vectors."""
    out = out or L.apply(op, *[L.Const(dtype, 1, 0) for _ in operands], **kw).dtype
    names = [f"x{n}" for n in range(len(operands))]
    size = len(operands[0])
    b = L.Builder()
    with b.loop("i", L.BEGIN, L.END, step=lanes or 1, kind="vector" if lanes == 1 else "serial") as i:
        values = [b.load(n, i, dtype, lanes=lanes or 1) for n in names]
        b.store("out", i, b.call(op, *values, **kw))
    kernel = L.Kernel("k", tuple(L.Buffer(n, dtype, "r") for n in names) + (L.Buffer("out", out, "w"),),
                      ("n",), L.Var(int64, 1, "n"), b.body())
    result = numpy.zeros(size, out.numpy)
    run(kernel, dict(zip(names, operands)) | {"out": result}, {"n": size})
    return result


def all_forms(op, dtype, /, *operands, **kw):
    """The result, after checking that scalar, wide and vector forms agree in every bit."""
    keep = len(operands[0]) // 8 * 8
    operands = [o[:keep] for o in operands]
    forms = [evaluate(op, dtype, *operands, lanes=n, **kw) for n in (0, 1, 8)]
    assert forms[0].tobytes() == forms[1].tobytes() == forms[2].tobytes(), (op, dtype)
    return operands, forms[0]


def numbers(dtype, count, seed):
    digits, smallest, largest = FORMATS[dtype]
    pick = random.Random(seed)
    top = int(math.log2(largest))
    some = [0.0, 1.0, -1.0, largest, -largest, 2.0 ** smallest, 3 * 2.0 ** smallest, 0.5, 1.5, 2.5, math.inf,
            -math.inf, math.nan, 1 + 2.0 ** (1 - digits)]
    while len(some) < count:
        scale = pick.randint(smallest, top) if pick.random() < 0.4 else pick.randint(-3, 3)
        some.append(rounded(Fraction(pick.randint(-2 ** 60, 2 ** 60), 2 ** 60) * Fraction(2) ** scale, dtype))
    pick.shuffle(some)
    return some


EXACT = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
         "div": lambda a, b: a / b, "fma": lambda a, b, c: a * b + c, "floor": math.floor, "ceil": math.ceil,
         "trunc": math.trunc, "round": round, "neg": lambda a: -a, "abs": abs, "min": min, "max": max}


@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floating_arithmetic_rounds_once(op, dtype):
    count = L.OPERATIONS[op][0]
    columns = [bits(numbers(dtype, 160, f"{op} {n}"), dtype) for n in range(count)]
    if op == "fma":                                     # cancel the product: only its rounding error is left
        columns[2][:64] = evaluate("neg", dtype, evaluate("mul", dtype, columns[0], columns[1]))[:64]
    columns, result = all_forms(op, dtype, *columns)
    result = floats(result, dtype)
    for position, args in enumerate(zip(*(floats(c, dtype) for c in columns))):
        if all(map(math.isfinite, args)) and not (op == "div" and args[1] == 0):
            want = rounded(Fraction(EXACT[op](*map(Fraction, args))), dtype)
            assert result[position] == want, (op, dtype, args)
        elif any(map(math.isnan, args)):
            assert math.isnan(result[position])


def test_wide_fma_of_float64_is_exact_at_extreme_magnitudes():
    tiny, columns = 2.0 ** -540, [numbers(float64, 200, n) for n in "abc"]
    for column, value in zip(columns, (tiny, tiny * (1 + 2 ** -40), 2.0 ** -1070)):
        column[:8] = [value] * 8
    columns, result = all_forms("fma", float64, *(bits(c, float64) for c in columns))
    a, b, c = (Fraction(column[0]) for column in columns)
    assert result[0] == rounded(a * b + c, float64)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sqrt_is_nearest(dtype):
    (x,), result = all_forms("sqrt", dtype, bits([abs(v) for v in numbers(dtype, 160, 1)], dtype))
    for v, root in zip(floats(x, dtype), floats(result, dtype)):
        if math.isfinite(v) and v > 0:
            scaled = Fraction(v) * Fraction(4) ** 1200
            floor = math.isqrt(int(scaled))
            assert root == rounded(Fraction(2 * floor + (floor ** 2 != scaled), 2 ** 1201), dtype)


def integers(dtype, count, seed):
    info, pick = numpy.iinfo(dtype.numpy), random.Random(seed)
    some = [info.min, info.max, 0, 1, 2, info.max - 1, info.min + 1, 7] + [-1] * (info.min < 0)
    some += [pick.randint(info.min, info.max) if pick.random() < 0.5 else pick.randint(max(info.min, -9), 9)
             for _ in range(count)]
    pick.shuffle(some)
    return some


def truncated(a, b):
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def shifted(a, b, dtype, left):
    width = 8 * dtype.itemsize
    if not 0 <= b < width:
        return 0 if left or a >= 0 else -1
    return a << b if left else a >> b


def whole(op, a, b, dtype):
    """The unlimited integer result of `op`."""
    if op in ("idiv", "irem"):
        quotient = truncated(a, b) if b else 0
        return quotient if op == "idiv" else (a - quotient * b if b else 0)
    if op in ("shl", "shr"):
        return shifted(a, b, dtype, op == "shl")
    return {"add": a + b, "sub": a - b, "mul": a * b, "min": min(a, b), "max": max(a, b), "and": a & b,
            "or": a | b, "xor": a ^ b}[op]


def wrapped(value, dtype):
    bits = 8 * dtype.itemsize
    value %= 1 << bits
    return value - (1 << bits) if dtype.kind == "i" and value >> bits - 1 else value


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap_and_never_trap(dtype):
    a, b = (numpy.array(integers(dtype, 120, seed), dtype.numpy) for seed in "ab")
    a[:10], b[:10] = numpy.iinfo(dtype.numpy).min, [0, 1, 2, 3, 7, 8, 15, 31, 63, 64]
    if dtype.kind == "i":
        b[1] = -1
    for op in ("add", "sub", "mul", "idiv", "irem", "min", "max", "and", "or", "xor", "shl", "shr"):
        (x, y), result = all_forms(op, dtype, a, b)
        want = [wrapped(whole(op, p, q, dtype), dtype) for p, q in zip(x.tolist(), y.tolist())]
        assert result.tolist() == want, op
    (x, y, _), result = all_forms("fma", dtype, a, b, a)
    assert result.tolist() == [wrapped(p * q + p, dtype) for p, q in zip(x.tolist(), y.tolist())]
    for op, python in (("neg", lambda v: -v), ("abs", abs), ("not", lambda v: ~v)):
        (x,), result = all_forms(op, dtype, a)
        assert result.tolist() == [wrapped(python(v), dtype) for v in x.tolist()], op


def test_comparisons_are_ordered_but_for_ne():
    for dtype in FLOATS:
        a, b = bits([1.0, math.nan, -0.0, 2.0] * 2, dtype), bits([1.0, 1.0, 0.0, math.inf] * 2, dtype)
        for op, want in (("eq", "1010"), ("ne", "0101"), ("lt", "0001"), ("le", "1011"), ("gt", "0000"),
                         ("ge", "1010")):
            result = all_forms(op, dtype, a, b)[1]
            assert "".join(str(int(v)) for v in result[:4]) == want, (dtype, op)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_casts_to_integers_saturate(dtype):
    values = [math.nan, math.inf, -math.inf, 0.0, -0.99, 1.75, -1.75, 127.0, 128.0, -128.0, -129.0, 255.0,
              256.0]
    values += [rounded(Fraction(s * 2 ** e), dtype) for e in (31, 32, 63, 64, 15, 16) for s in (1, -1)]
    values = [rounded(Fraction(v), dtype) if math.isfinite(v) else v for v in values] + [3.0] * 7
    for target in INTEGERS:
        (x,), result = all_forms("cast", dtype, bits(values, dtype), out=target, dtype=target)
        info = numpy.iinfo(target.numpy)
        want = [0 if math.isnan(v) else info.max if v > info.max else info.min if v < info.min
                else math.trunc(v) for v in floats(x, dtype)]
        assert result.tolist() == want, target


def test_other_casts():
    x = numpy.array([300, -1, 128, 0, 2 ** 40 + 5, -2 ** 63, 7, 9])
    assert all_forms("cast", int64, x, out=uint8, dtype=uint8)[1].tolist() == [v % 256 for v in x.tolist()]
    assert all_forms("cast", int64, x, out=bool_, dtype=bool_)[1].tolist() == [v != 0 for v in x.tolist()]
    assert all_forms("cast", int64, x, out=float32, dtype=float32)[1].tolist() == \
        [rounded(Fraction(v), float32) for v in x.tolist()]
    big = numpy.array([2 ** 64 - 1, 2 ** 63, 2 ** 63 + 1025, 1, 0, 3, 2 ** 53 + 1, 5], "u8")
    assert all_forms("cast", uint64, big, out=float64, dtype=float64)[1].tolist() == \
        [rounded(Fraction(int(v)), float64) for v in big.tolist()]
    f = bits([math.nan, -0.0, 0.0, 2.0 ** -133, 1.0, -1.0, math.inf, 3.0], bfloat16)
    assert all_forms("cast", bfloat16, f, out=bool_, dtype=bool_)[1].tolist() == [1, 0, 0, 1, 1, 1, 1, 1]
    y = bits(numbers(float32, 160, 5), float32)
    for target in (float16, bfloat16):
        (x,), result = all_forms("cast", float32, y, out=target, dtype=target)
        for v, w in zip(x.tolist(), floats(result, target)):
            want = rounded(Fraction(v), target) if math.isfinite(v) else v
            assert w == want or (math.isnan(v) and math.isnan(w))


def test_bitcast_copysign_select_and_bool():
    one = numpy.ones(8, "f4")
    assert all_forms("bitcast", float32, one, out=int32, dtype=int32)[1].tolist() == [0x3F800000] * 8
    signs = bits([-0.0, 0.0, -3.0, 3.0] * 2, bfloat16)
    signed = all_forms("copysign", bfloat16, bits([2.0] * 8, bfloat16), signs)[1]
    assert floats(signed, bfloat16) == [-2, 2, -2, 2] * 2
    t = numpy.array([True, False] * 4)
    assert all_forms("not", bool_, t)[1].tolist() == [False, True] * 4
    assert all_forms("xor", bool_, t, ~t)[1].all()
    assert all_forms("select", bool_, t, t, ~t)[1].all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_minimum_and_maximum_keep_the_first_of_equal_ones(dtype):
    a, b = bits([-0.0, 0.0, math.nan, 1.0] * 2, dtype), bits([0.0, -0.0, 1.0, math.nan] * 2, dtype)
    for op in ("min", "max"):
        result = floats(all_forms(op, dtype, a, b)[1], dtype)
        assert [math.copysign(1, v) for v in result[:2]] == [-1, 1] and all(map(math.isnan, result[2:4]))


# ------------------------------------------------------------------------------------------- lanes and memory
def one_block(build, buffers, params=(), size=1):
    """A kernel of the statements that `build(builder)` makes."""
    b = L.Builder()
    build(b)
    buffers = tuple(L.Buffer(name, by_name(dtype), access) for name, dtype, access in buffers)
    return L.Kernel("k", buffers, params, L.as_index(size), b.body())


def test_reduce_halves_in_a_fixed_tree():
    x = numpy.array([1e8, 1.0, -1e8, 1.0, 3.0, 2.0 ** -24, 1.0, 1.0], "f4")
    def build(b):
        b.store("out", L.as_index(0), b.reduce_add(b.load("x", L.as_index(0), float32, 8)))
    kernel = one_block(build, [("x", "f32", "r"), ("out", "f32", "w")])
    out = numpy.zeros(1, "f4")
    run(kernel, {"x": x, "out": out})
    v = x
    while len(v) > 1:
        v = v[:len(v) // 2] + v[len(v) // 2:]
    assert out[0] == v[0]


def masked(index_of):
    """out[...] <- x[index] where lane < 3 else 9."""
    def build(b):
        lanes = b.lane(dtype=int64, lanes=8)
        mask = b.lt(lanes, b.const(3, int64))
        value = b.load("x", index_of(b, lanes), float32, 8, mask, b.const(9.0, float32, 8))
        b.store("out", index_of(b, lanes), value, mask)
    return one_block(build, [("x", "f32", "r"), ("out", "f32", "w")])


@pytest.mark.parametrize("index_of, want", [
    (lambda b, lanes: L.as_index(0), [0, 1, 2]),
    (lambda b, lanes: b.sub(b.const(2, int64), lanes), [0, 1, 2])],
    ids=["consecutive", "gathered"])
def test_masked_lanes_touch_no_memory(index_of, want):
    out = numpy.full(3, -1, "f4")
    run(masked(index_of), {"x": numpy.arange(3, dtype="f4"), "out": out})
    assert out.tolist() == want
    with pytest.raises(IndexError, match="outside of buffer x.*got.* wanted 0 to 1"):
        run(masked(index_of), {"x": numpy.arange(2, dtype="f4"), "out": out})


@pytest.mark.parametrize("kind", ["serial", "vector"])
@pytest.mark.parametrize("shift", [-1, 1])
def test_out_of_bounds_raises(kind, shift):
    b = L.Builder()
    b.source = ("model.py", 7)
    with b.loop("i", L.BEGIN, L.END, kind=kind) as i:
        b.store("out", i, b.load("x", L.add(i, shift), float32))
    buffers = (L.Buffer("x", float32, "r"), L.Buffer("out", float32, "w"))
    kernel = L.Kernel("k", buffers, (), L.as_index(4), b.body())
    with pytest.raises(IndexError, match=r"buffer x: got element (-1|4), wanted 0 to 3(.|\n)*model.py:7"):
        run(kernel, {"x": numpy.zeros(4, "f4"), "out": numpy.zeros(4, "f4")})


def test_registers_branches_locals_and_chunks():
    def build(b):
        b.local("t", float32, 4)
        with b.loop("row", L.BEGIN, L.END) as row:
            total = b.declare(b.const(0.0, float32))
            with b.loop("k", 0, L.Var(int64, 1, "n")) as k:
                x = b.load("x", L.add(L.mul(row, L.Var(int64, 1, "n")), k), float32)
                with b.branch(b.gt(x, b.const(0.0, float32))):
                    b.assign(total, b.add(total, x))
            b.store("t", L.as_index(0), total)
            b.store("out", row, b.load("t", L.as_index(0), float32))
    kernel = one_block(build, [("x", "f32", "r"), ("out", "f32", "w")], ("n",), 2)
    out = numpy.zeros(2, "f4")
    run(kernel, {"x": numpy.array([1, -2, 3, -1, 5, 6], "f4"), "out": out}, {"n": 3}, begin=1, end=2)
    assert out.tolist() == [0, 11]
    run(kernel, {"x": numpy.array([1, -2, 3, -1, 5, 6], "f4"), "out": out}, {"n": 3})
    assert out.tolist() == [4, 11] and extent(kernel, {"n": 3}) == 2


def test_a_loop_that_carries_a_value_runs_in_order():
    b = L.Builder()
    with b.loop("i", 1, L.END, kind="vector") as i:
        b.store("x", i, b.add(b.load("x", L.add(i, -1), int8), b.load("x", i, int8)))
    kernel = L.Kernel("k", (L.Buffer("x", int8, "rw"),), (), L.as_index(8), b.body())
    x = numpy.ones(8, "i1")
    run(kernel, {"x": x})
    assert x.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert "store_wide" not in python_source(kernel)


def test_arguments_that_do_not_fit_are_refused():
    kernel = one_block(lambda b: b.store("out", L.as_index(0), b.const(1.0, float32)), [("out", "f32", "w")],
                       ("n",))
    with pytest.raises(TypeError, match="out of kernel k does not fit: got 1-d float64, wanted 1-d float32"):
        run(kernel, {"out": numpy.zeros(1)}, {"n": 1})
    with pytest.raises(ValueError, match="needs the param n"):
        run(kernel, {"out": numpy.zeros(1, "f4")})
    apply_exp = one_block(lambda b: b.store("out", L.as_index(0), b.call("exp", b.const(1.0, float32))),
                          [("out", "f32", "w")])
    with pytest.raises(ValueError, match="expand_math"):
        run(apply_exp, {"out": numpy.zeros(1, "f4")})
