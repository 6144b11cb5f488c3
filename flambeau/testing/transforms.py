"""Every op under function transforms: what `vjp`, `jvp`, `vmap` and compositions of them must agree on.

Each check takes Calls of one op (`oracle.draw`) in float64 and raises AssertionError where two ways to one number differ.
The judge is the function itself: central differences in a random direction, and loops over examples.
"""

import itertools

from flambeau.base.lazy import LazyModule
from flambeau.ops.join import stack
from flambeau.testing import oracle
from flambeau.testing.arrays import to_array, to_tensor
from flambeau.transform import jvp, vjp, vmap
from flambeau.types.dtype import float64

numpy = LazyModule("numpy")

STEP, TOLERANCE, SAME = 1e-5, 2e-6, 1e-10


def function_of(made):
    """(function of the float64 operands alone -> tuple of its float64 results, those operands as tensors)."""
    kinds, arrays = oracle.flat(made.dtypes), oracle.flat(made.arrays)
    active = [i for i, d in enumerate(kinds) if d is float64]

    def function(*xs):
        given = [to_tensor(a, d) for a, d in zip(arrays, kinds)]
        for i, x in zip(active, xs):
            given[i] = x
        return tuple(r for r in made.run(oracle.nest(iter(given), made.arrays)) if r.dtype is float64)

    return function, [to_tensor(numpy.array(arrays[i])) for i in active]


def draws_like(tensors, rng, low=-1.0):
    return tuple(to_tensor(rng.uniform(low, 1, tuple(t.shape))) for t in tensors)


def dot(left, right):
    return sum(float((to_array(a) * to_array(b)).sum()) for a, b in zip(left, right))


def _close(about, got, want, scale, tolerance=TOLERANCE):
    assert abs(got - want) <= tolerance * max(1.0, scale), f"{about}: got {got!r}, wanted {want!r}"


def _difference(function, xs, directions):
    """The derivative of a function that gives a float, by central differences."""
    ahead, behind = ([to_tensor(to_array(x) + s * STEP * to_array(d)) for x, d in zip(xs, directions)] for s in (1, -1))
    return (function(*ahead) - function(*behind)) / (2 * STEP)


def check_first(made, seed=0):
    """vjp = jvp = central differences, in a random direction."""
    rng = numpy.random.default_rng(seed)
    function, xs = function_of(made)
    outputs, pull = vjp(function, *xs)
    if not outputs:
        return
    directions, weights = draws_like(xs, rng), draws_like(outputs, rng, 0.5)
    want = _difference(lambda *given: dot(function(*given), weights), xs, directions)
    grads = pull(weights)
    values, tangents = jvp(function, tuple(xs), directions)
    size = sum(float(abs(to_array(g) * to_array(d)).sum()) for g, d in zip(grads, directions))
    for a, b, plain in zip(outputs, values, function(*xs)):
        oracle.check_bits(to_array(a), to_array(plain), f"{made}: value inside vjp")
        oracle.check_bits(to_array(b), to_array(plain), f"{made}: value inside jvp")
    _close(f"{made}: vjp", dot(grads, directions), want, size)
    _close(f"{made}: jvp", dot(tangents, weights), want, size)
    _close(f"{made}: jvp against vjp", dot(tangents, weights), dot(grads, directions), size, SAME)


def check_second(made, seed=0):
    """vjp of vjp = jvp of vjp = central differences of the gradient."""
    rng = numpy.random.default_rng(seed)
    function, xs = function_of(made)
    weights = draws_like(function(*xs), rng, 0.5)
    if not weights:
        return

    def gradient(*given):
        return vjp(function, *given)[1](weights)

    directions, covectors = draws_like(xs, rng), draws_like(xs, rng)
    want = _difference(lambda *given: dot(gradient(*given), covectors), xs, directions)
    _, pull = vjp(gradient, *xs)
    grads = pull(covectors)
    _, tangents = jvp(gradient, tuple(xs), directions)
    size = sum(float(abs(to_array(g) * to_array(d)).sum()) for g, d in zip(grads, directions))
    _close(f"{made}: vjp of vjp", dot(grads, directions), want, size)
    _close(f"{made}: jvp of vjp", dot(tangents, covectors), want, size)
    _close(f"{made}: jvp of vjp against vjp of vjp", dot(tangents, covectors), dot(grads, directions), size, SAME)


# ------------------------------------------------------------------------------ batches
def in_dims(count):
    """Every choice of None, 0 and -1 for so many operands, not all None; from 3 on each batch is at one of the two ends."""
    if count <= 2:
        return [dims for dims in itertools.product((None, 0, -1), repeat=count) if any(d is not None for d in dims)]
    chosen = itertools.product((False, True), repeat=count)
    return [tuple((-((n + i) % 2) if has else None) for i, has in enumerate(which))
            for n, which in enumerate(chosen) if any(which)]


def check_vmap(calls):
    """vmap of the op = a loop over the examples (`calls`), for every choice of in_dims."""
    made = calls[0]
    examples = [oracle.flat(each.tensors()) for each in calls]

    def function(*given):
        return tuple(made.run(oracle.nest(iter(given), made.arrays)))

    for dims in in_dims(len(examples[0])):
        rows = [[example[i] if d is not None else examples[0][i] for i, d in enumerate(dims)] for example in examples]
        loop = [function(*row) for row in rows]
        given = [examples[0][i] if d is None else stack([e[i] for e in examples], d) for i, d in enumerate(dims)]
        _check_batch(vmap(function, in_dims=dims)(*given), loop, f"{made}: vmap in_dims={dims}")


def check_vmap_of_grad(calls):
    """vmap of the vjp = a loop of vjp, for batches of all floating point operands and of each alone."""
    made = calls[0]
    function = function_of(made)[0]
    examples = [function_of(each)[1] for each in calls]
    outputs = function(*examples[0])
    if not outputs:
        return
    weights = draws_like(outputs, numpy.random.default_rng(1), 0.5)

    def gradient(*given):
        return vjp(function, *given)[1](weights)

    count = len(examples[0])
    for dims in {(0,) * count, *(tuple(0 if i == j else None for i in range(count)) for j in range(count))}:
        rows = [[example[i] if d is not None else examples[0][i] for i, d in enumerate(dims)] for example in examples]
        given = [examples[0][i] if d is None else stack([e[i] for e in examples]) for i, d in enumerate(dims)]
        loop = [gradient(*row) for row in rows]
        _check_batch(vmap(gradient, in_dims=dims)(*given), loop, f"{made}: vmap of grad in_dims={dims}")


def _check_batch(batched, loop, about):
    for place, whole in enumerate(batched):
        want = numpy.stack([to_array(results[place]) for results in loop])
        got = to_array(whole)
        assert whole.dtype is loop[0][place].dtype, f"{about}: dtype {whole.dtype}, in a loop {loop[0][place].dtype}"
        assert got.shape == want.shape, f"{about}: shape {got.shape}, in a loop {want.shape}"
        if want.dtype.kind == "f":
            scale = abs(want[numpy.isfinite(want)]).max(initial=1.0)
            assert numpy.allclose(got, want, rtol=SAME, atol=SAME * scale, equal_nan=True), \
                f"{about}: result {place} differs by up to {abs(got - want).max()}"
        else:
            assert (got == want).all(), f"{about}: result {place} differs"
