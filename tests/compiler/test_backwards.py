"""Elements read from the last to the first: without gathers, on every runnable target, nothing beside them touched."""

import numpy
import pytest

import flambeau as fl
from flambeau.compiler import jit, llvm
from flambeau.compiler import target as targets
from flambeau.compiler.vectorize import vectorize
from flambeau.ir import loops as L
from flambeau.types import dtype as D
from tests.compiler import kernels as K


def reverse(dtype, count):
    """out[i] = x[count - 1 - i]."""
    def body(b):
        with b.loop("i", 0, count, 1, "vector") as i:
            b.store("out", i, b.load("x", L.add(L.mul(i, -1), count - 1), dtype))

    return K.make("reverse", [("x", dtype)], [("out", dtype)], body)


@pytest.mark.parametrize("target", K.runnable_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [D.float32, D.float64, D.int16, D.int8, D.bool_], ids=lambda d: d.short)
@pytest.mark.parametrize("count", [1, 16, 77])
def test_reverse(dtype, target, count):
    x = (numpy.arange(count) % 3).astype(dtype.numpy)
    native, expected = K.run_both(vectorize(reverse(dtype, count)), {"x": x, "out": numpy.zeros_like(x)}, target=target)
    numpy.testing.assert_array_equal(native["out"], expected["out"])
    numpy.testing.assert_array_equal(native["out"], x[::-1])


@pytest.mark.parametrize("name", ["avx2", "avx512", "generic"])
def test_no_gathers(name):
    text = llvm.emit(vectorize(reverse(D.float32, 70)), targets.by_name(name))
    assert "shufflevector" in text and "gather" not in text
    assert jit.assembly(text, targets.by_name(name))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "float16", "int64"])
def test_copies_of_reversed_views(dtype):
    data = numpy.random.default_rng(5).integers(0, 2 if dtype == "bool" else 99, (3, 5, 67)).astype(dtype)
    x = fl.tensor(data)
    for dims in ((2,), (0,), (1, 2), (0, 1, 2)):
        numpy.testing.assert_array_equal(x.flip(dims).numpy(), numpy.flip(data, dims))
    numpy.testing.assert_array_equal(x.flip(2)[:, :, ::3].contiguous().numpy(), data[:, :, ::-1][:, :, ::3])
    numpy.testing.assert_array_equal(fl.rot90(x, 1, (1, 2)).numpy(), numpy.rot90(data, 1, (1, 2)))
    assert x.flip(2).stride() == x.stride()
