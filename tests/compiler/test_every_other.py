"""Elements two apart: reads and writes without gathers, on every runnable target, nothing between them touched."""

import numpy
import pytest

from flambeau.compiler import jit, llvm
from flambeau.compiler import target as targets
from flambeau.compiler.vectorize import vectorize
from flambeau.ir import loops as L
from flambeau.types import dtype as D
from tests.compiler import kernels as K


def swap_parts(dtype, count):
    """out's even elements from x's odd ones and the other way about, doubled."""
    def body(b):
        with b.loop("i", 0, count, 1, "vector") as i:
            even = L.mul(i, L.as_index(2))
            odd = L.add(even, 1)
            first, second = b.load("x", even, dtype), b.load("x", odd, dtype)
            b.store("out", odd, b.add(first, first))
            b.store("out", even, second)

    return K.make("swap", [("x", dtype)], [("out", dtype)], body)


@pytest.mark.parametrize("target", K.runnable_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [D.float32, D.float64, D.int32, D.int8], ids=lambda d: d.short)
@pytest.mark.parametrize("count", [1, 16, 37])
def test_parts(dtype, target, count):
    arrays = {"x": numpy.arange(2 * count).astype(dtype.numpy), "out": numpy.zeros(2 * count, dtype.numpy)}
    native, expected = K.run_both(vectorize(swap_parts(dtype, count)), arrays, target=target)
    numpy.testing.assert_array_equal(native["out"], expected["out"])
    numpy.testing.assert_array_equal(native["out"][1::2], 2 * arrays["x"][::2])


@pytest.mark.parametrize("name", ["avx2", "avx512", "generic"])
def test_no_gathers(name):
    text = llvm.emit(vectorize(swap_parts(D.float32, 64)), targets.by_name(name))
    assert "shufflevector" in text and "gather" not in text
    assert ("scatter" in text) is False
    assert jit.assembly(text, targets.by_name(name))
