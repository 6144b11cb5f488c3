"""Kernels of sampling on a grid and of alignments: native code gives the interpreter's bits, on every target."""

import itertools

import numpy
import pytest

from flambeau.compiler import alignment
from flambeau.compiler.expand import expand_math
from flambeau.compiler.grid import NEAR, Grid, grid_sample, grid_sample_image, grid_sample_places
from flambeau.compiler.vectorize import vectorize
from flambeau.types.dtype import float32, float64
from tests.compiler.kernels import runnable_targets
from tests.compiler.native import assert_round_trip, run_both
from tests.compiler.test_conv_weight import run_on

# without the places of the nearest elements, which do not move with them
GRIDS = [Grid(*each) for each in ((2, "bilinear", "zeros", False), (2, "bilinear", "reflection", True, float64),
                                  (3, "bilinear", "border", False), (2, "nearest", "reflection", False),
                                  (2, "bicubic", "border", True, float64))]


KERNELS = [(spec, make) for spec in GRIDS for make in (grid_sample, grid_sample_image, grid_sample_places)
           if spec.mode != "nearest" or make is not grid_sample_places]


@pytest.mark.parametrize("spec, make", KERNELS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_grid_kernels(spec, make):
    rng, batch, channels, points, sizes = numpy.random.default_rng(3), 2, 2, 11, (3, 4, 2)[:spec.rank]
    draw = {"input": (batch, channels, *sizes), "grid": (batch, points, spec.rank), "grad": (batch, channels, points)}
    out = {grid_sample: "grad", grid_sample_image: "input", grid_sample_places: "grid"}[make]
    arrays = {name: rng.uniform(-1.5, 1.5, shape).astype(spec.dtype.numpy) for name, shape in draw.items()}
    arrays["output"] = numpy.zeros(draw[out], spec.dtype.numpy)
    params = dict(zip(spec.params, (batch, channels, points, *sizes)))
    kernel = make(spec)
    arrays = {b.name: arrays[b.name] for b in kernel.buffers}
    assert_round_trip(kernel)
    want = run_both(kernel, arrays, params)["output"]
    for target in runnable_targets():
        got = run_on(target, vectorize(make(spec, target=target)), {n: a.copy() for n, a in arrays.items()}, params)
        numpy.testing.assert_array_equal(got["output"], want)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_planes_that_share_their_points(mode):
    """The gradient of many planes is that of each plane alone, in which the points come in order."""
    rng, batch, channels, points, sizes = numpy.random.default_rng(4), 3, 13, 2 * NEAR + 5, (5, 4)
    spec = Grid(2, mode, "zeros", False)
    run = vectorize(grid_sample_image(spec))
    grad = rng.normal(size=(batch, channels, points)).astype("f4")
    grid = rng.uniform(-1.5, 1.5, (batch, points, 2)).astype("f4")

    def image_of(grad, grid):
        arrays = {"grad": grad, "grid": grid, "output": numpy.zeros((*grad.shape[:2], *sizes), "f4")}
        params = dict(zip(spec.params, (*grad.shape, *sizes)))
        return run_on(None, run, {n: a.copy() for n, a in arrays.items()}, params)["output"]

    together = image_of(grad, grid)
    for n, c in itertools.product(range(batch), range(channels)):
        alone = image_of(grad[n:n + 1, c:c + 1], grid[n:n + 1])
        numpy.testing.assert_array_equal(together[n:n + 1, c:c + 1], alone)


def test_alignment_kernels():
    rng, (steps, batch, classes, states), dtype = numpy.random.default_rng(3), (4, 2, 3, 5), "f4"
    labels = numpy.array([[0, 1, 0, 1, 0, 0, 0], [0, 1, 0, 2, 0, 0, 0]])
    skips = numpy.array([[0, 1, 0, 0, 0, 0, 0], [0, 1, 0, 1, 0, 0, 0]], bool)
    arrays = {"log_probs": numpy.log(rng.dirichlet([1] * classes, (steps, batch))).astype(dtype), "labels": labels,
              "skips": skips, "counts": numpy.array([[4, 4], [3, 4]]), "loss": numpy.zeros(batch, dtype),
              "alpha": numpy.zeros((steps + 1, batch, states + 2), dtype)}
    params = dict(zip(alignment.PARAMS, (steps, batch, classes, states)))
    for make, given in ((alignment.alignment_sums, {}), (alignment.alignment_gradient, {
            "grad": numpy.array([1, -2], dtype), "beta": numpy.zeros((2, batch, states + 2), dtype),
            "chances": numpy.zeros((batch, states), dtype), "output": numpy.zeros((steps, batch, classes), dtype)})):
        arrays |= given
        kernel = expand_math(make(float32))
        assert_round_trip(kernel)
        arrays |= run_both(kernel, {b.name: arrays[b.name] for b in kernel.buffers}, params)
    assert numpy.isfinite(arrays["loss"]).all()
    chances = numpy.exp(arrays["log_probs"][:, 0].astype("f8"))
    paths = [p for p in itertools.product(range(3), repeat=4)
             if [c for i, c in enumerate(p) if c and (i == 0 or c != p[i - 1])] == [1, 1]]
    want = -numpy.log(sum(chances[range(4), p].prod() for p in paths))
    numpy.testing.assert_allclose(arrays["loss"][0], want, rtol=1e-5)
