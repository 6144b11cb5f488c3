"""Places of true elements and counts of numbers: compiled and interpreted, against NumPy."""

import numpy
import pytest

from flambeau.compiler import compact
from flambeau.ops.chosen import BLOCK, blocks_of
from flambeau.types.dtype import int64, uint8
from tests.compiler.native import assert_round_trip, run_both

SHAPES = [(1,), (31,), (33,), (BLOCK + 5,), (3, 5), (70, 40), (2, 3, 700)]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_places(shape, share):
    mask = numpy.random.default_rng(1).random(shape) < share
    starts = {"mask": mask, "starts": numpy.zeros(blocks_of(mask.size) + 1, "int64")}
    starts = run_both(compact.counts_kernel(), starts, {"size": mask.size})["starts"]
    starts = run_both(compact.starts_kernel(), {"starts": starts}, {"count": len(starts) - 1})["starts"]
    assert starts[-1] == mask.sum() and starts[0] == 0
    for rank, want in ((0, numpy.flatnonzero(mask)), (mask.ndim, numpy.argwhere(mask))):
        sizes = {f"size{a}": s for a, s in enumerate(shape) if 0 < a < rank} | {"size": mask.size}
        given = {"mask": mask, "starts": starts, "out": numpy.zeros(want.shape, "int64")}
        numpy.testing.assert_array_equal(run_both(compact.places_kernel(rank), given, sizes)["out"], want)


@pytest.mark.parametrize("dtype", [int64, uint8], ids=lambda d: d.short)
@pytest.mark.parametrize("size, rows", [(1, 1), (100, 3), (1000, 7)])
def test_tally(dtype, size, rows):
    x = numpy.random.default_rng(1).integers(0, 9, size).astype(dtype.numpy)
    given = {"x": x, "table": numpy.full((rows, 10), -1, "int64")}
    got = run_both(compact.tally_kernel(dtype), given, {"size": size, "rows": rows, "bins": 10})["table"]
    numpy.testing.assert_array_equal(got.sum(0), numpy.bincount(x, minlength=10))


def test_printed_forms_parse_back():
    for kernel in (compact.counts_kernel(), compact.starts_kernel(), compact.places_kernel(2),
                   compact.tally_kernel(int64)):
        assert_round_trip(kernel)
