"""The vectorised kernel against the interpreter of the kernel as it was written."""

import numpy
import pytest

from flambeau.compiler.vectorize import lanes_of, vectorize
from flambeau.ir import loops as L
from flambeau.ir import loops_text
from flambeau.ir.loops_verify import verify
from flambeau.types import dtype as D
from tests.compiler import kernels as K

N, STRIDE, SHIFT = (L.Var(D.int64, 1, name) for name in ("n", "stride", "shift"))
SIZES = (0, 1, 15, 16, 17, 32, 50)


def check(kernel, arrays, params, begin, end, targets=None):
    vectorized = verify(vectorize(verify(kernel)))
    for target in targets or [None]:
        native, expected = K.run_both(vectorized, arrays, params, begin, end, target, oracle=kernel)
        for buffer in kernel.buffers:
            name = buffer.name
            K.assert_same(native[name], expected[name], buffer.dtype, f"{name} {params} {begin}..{end}")
    return vectorized


def vector_loop(body, start=L.BEGIN, stop=L.END):
    def write(b):
        with b.loop("i", start, stop, 1, "vector") as i:
            body(b, i)
    return write


def test_printed_form():
    def body(b, i):
        x = b.load("x", i, D.float32)
        b.store("out", i, b.add(x, b.load("y", L.as_index(0), D.float32)))

    kernel = K.make("add", [("x", D.float32), ("y", D.float32)], [("out", D.float32)], vector_loop(body))
    text = loops_text.show(vectorize(kernel))
    assert "for i in begin..w1 step 16 {" in text
    assert "v1: f32x16 = x[i]: f32x16" in text
    assert "v2: f32 = y[0:i64]: f32" in text
    assert "out[i] <- v3" in text
    assert "if lt(w1, end): bool {" in text
    assert "out[w1] <- w5 where w2" in text
    assert loops_text.show(loops_text.parse(text)) == text


@pytest.mark.parametrize("dtype", K.REAL, ids=lambda d: d.short)
def test_every_dtype_moves_and_compares(dtype):
    """Contiguous, strided, reversed and repeated elements, on every target, with begin and end anywhere."""
    def body(b, i):
        x = b.load("x", i, dtype)
        strided = b.load("x", L.add(L.mul(i, STRIDE), SHIFT), dtype)
        repeated = b.load("x", SHIFT, dtype)
        backward = b.load("x", L.add(L.mul(i, -1), 99), dtype)
        chosen = b.select(b.lt(b.load("key", i, D.float32), b.const(0.5, D.float32)), x, strided)
        b.store("out", i, chosen)
        b.store("flags", i, b.gt(b.load("key", i, D.float32), b.const(0.3, D.float32)))
        b.store("two", L.mul(i, 2), repeated)
        b.store("two", L.add(L.mul(i, 2), 1), backward)

    inputs, outputs = [("x", dtype), ("key", D.float32)], [("out", dtype), ("flags", D.bool_), ("two", dtype)]
    kernel = K.make("moves", inputs, outputs, vector_loop(body), params=("stride", "shift"))
    arrays = {name: numpy.zeros(100, d.numpy) for name, d in outputs}
    arrays |= {"x": K.values_of(dtype, 100), "key": numpy.random.default_rng(1).random(50, dtype="f")}
    for begin, end in ((0, 50), (3, 3), (5, 6), (7, 45)):
        for stride, shift in ((0, 3), (1, 0), (2, 1), (-1, 60)):
            check(kernel, arrays, {"stride": stride, "shift": shift}, begin, end,
                  K.runnable_targets() if begin == 7 and stride == 2 else None)


def test_index_values_masks_and_gathers():
    def body(b, i):
        row = L.Apply(D.int64, 1, "idiv", (i, L.as_index(7)))          # neither uniform nor affine
        column = b.call("irem", i, L.as_index(7))
        index = b.load("index", i, D.int64)
        inside = b.lt(index, N)
        value = b.load("x", index, D.float32, 1, inside, b.const(-1.0, D.float32))
        value = b.add(value, b.cast(b.add(L.mul(i, STRIDE), row), D.float32))
        b.store("out", L.add(L.mul(row, 7), column), value)
        b.store("marked", i, value, inside)

    inputs, outputs = [("x", D.float32), ("index", D.int64)], [("out", D.float32), ("marked", D.float32)]
    kernel = K.make("gather", inputs, outputs, vector_loop(body), params=("n", "stride"))
    random = numpy.random.default_rng(2)
    arrays = {"x": random.random(20, dtype="f"), "index": random.integers(0, 30, 50),
              "out": numpy.zeros(56, "f"), "marked": numpy.zeros(50, "f")}
    for end in SIZES:
        check(kernel, arrays, {"n": 20, "stride": 3}, 0, end)


def test_loop_inside_a_loop_with_a_step_bound_inside():
    def write(b):
        with b.loop("r", L.BEGIN, L.END) as r:
            base = b.let(L.mul(r, N), "base")
            with b.loop("j", 0, N, 1, "vector") as j:
                twice = b.let(L.mul(j, L.add(STRIDE, 1)), "twice")
                width = b.load("width", r, D.int64)
                value = b.load("x", L.mul(j, width), D.float64)
                b.store("out", L.add(base, j), b.mul(b.load("x", twice, D.float64), value))

    inputs = [("x", D.float64), ("width", D.int64)]
    kernel = K.make("rows", inputs, [("out", D.float64)], write, params=("n", "stride"))
    arrays = {"x": numpy.random.default_rng(0).random(110), "width": numpy.array([1, 0, 2]),
              "out": numpy.zeros(150)}
    for n in SIZES:
        vectorized = check(kernel, arrays, {"n": n, "stride": 1}, 0, 3)
    assert "step 8" in loops_text.show(vectorized)


def test_constant_bounds_need_no_tail():
    kernel = K.make("fixed", [], [("out", D.float32)],
                    vector_loop(lambda b, i: b.store("out", i, b.cast(i, D.float32)), 0, 32))
    assert "if" not in loops_text.show(vectorize(kernel))
    short = K.make("short", [], [("out", D.float32)],
                   vector_loop(lambda b, i: b.store("out", i, b.cast(i, D.float32)), 0, 5))
    assert "for" not in loops_text.show(vectorize(short))
    for made in (kernel, short):
        check(made, {"out": numpy.zeros(32, "f")}, {}, 0, 1)


@pytest.mark.parametrize("dtype, lanes", [(D.uint8, 32), (D.bool_, 32), (D.float16, 32), (D.float32, 16),
                                          (D.int64, 8)])
def test_lanes_are_64_bytes_of_the_widest_value(dtype, lanes):
    copy = vector_loop(lambda b, i: b.store("out", i, b.load("x", i, dtype)))
    kernel = K.make("copy", [("x", dtype)], [("out", dtype)], copy)
    assert lanes_of(kernel.body[0]) == lanes


def test_kernels_without_vector_loops_stay():
    kernel = K.make("none", [("x", D.float32)], [], lambda b: b.load("x", L.as_index(0), D.float32))
    assert vectorize(kernel) is kernel


def test_what_cannot_be_vectorised_says_why():
    def same_place(b, i):
        b.store("out", SHIFT, b.load("out", i, D.float32))

    with pytest.raises(ValueError, match="every iteration stores to the same element of out"):
        vectorize(K.make("k", [], [("out", D.float32)], vector_loop(same_place), params=("shift",)))
    with pytest.raises(ValueError, match="contains a Assign; wanted Let and Store only"):
        def accumulate(b, i):
            b.assign(L.Var(D.float32, 1, "total"), b.load("out", i, D.float32))
        vectorize(K.make("k", [], [("out", D.float32)], vector_loop(accumulate)))
