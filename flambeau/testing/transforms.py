"""Every op under function transforms: what `vjp`, `jvp`, `vmap` and compositions of them must agree on.

Each check takes a Case in float64 and raises AssertionError where two ways to one number differ.
The judge is the function itself: central differences in a random direction, and loops over examples.
"""

import itertools
from dataclasses import dataclass

from flambeau.base.lazy import LazyModule
from flambeau.ops.join import stack
from flambeau.testing import oracle
from flambeau.testing.arrays import to_array, to_tensor
from flambeau.transform import jvp, vjp, vmap
from flambeau.types.dtype import float64

numpy = LazyModule("numpy")

STEP, TOLERANCE, SAME = 1e-5, 2e-6, 1e-10
SYMMETRIC = ("_linalg_cholesky", "_linalg_eigh")        # functions of symmetric matrices only


@dataclass
class Case:
    """A function of tensors that gives a tuple of tensors, and the operands of several examples."""

    about: str
    function: object
    examples: list

    def active(self):
        """Which operands can be differentiated by."""
        return [i for i, x in enumerate(self.examples[0]) if x.dtype is float64]

    def smooth(self, example=0):
        """(the floating results as a function of the floating operands alone, those operands)."""
        given, active = self.examples[example], self.active()

        def function(*xs):
            filled = list(given)
            for i, x in zip(active, xs):
                filled[i] = x
            return tuple(r for r in self.function(*filled) if r.dtype is float64)

        return function, [given[i] for i in active]


def case_of(calls):
    """The Case of Calls of one op."""
    made = calls[0]

    def function(*xs):
        if made.operation.name in SYMMETRIC:
            xs = [(x + x.mT) * 0.5 for x in xs]
        return tuple(made.run(oracle.nest(iter(xs), made.arrays)))

    return Case(str(made), function, [oracle.flat(call.tensors()) for call in calls])


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


def check_first(case, seed=0):
    """vjp = jvp = central differences, in a random direction."""
    rng = numpy.random.default_rng(seed)
    function, xs = case.smooth()
    outputs, pull = vjp(function, *xs)
    if not outputs:
        return
    directions, weights = draws_like(xs, rng), draws_like(outputs, rng, 0.5)
    want = _difference(lambda *given: dot(function(*given), weights), xs, directions)
    grads = pull(weights)
    values, tangents = jvp(function, tuple(xs), directions)
    size = sum(float(abs(to_array(g) * to_array(d)).sum()) for g, d in zip(grads, directions))
    for a, b, plain in zip(outputs, values, function(*xs)):
        oracle.check_bits(to_array(a), to_array(plain), f"{case.about}: value inside vjp")
        oracle.check_bits(to_array(b), to_array(plain), f"{case.about}: value inside jvp")
    _close(f"{case.about}: vjp", dot(grads, directions), want, size)
    _close(f"{case.about}: jvp", dot(tangents, weights), want, size)
    _close(f"{case.about}: jvp against vjp", dot(tangents, weights), dot(grads, directions), size, SAME)


def check_second(case, seed=0):
    """vjp of vjp = jvp of vjp = central differences of the gradient."""
    rng = numpy.random.default_rng(seed)
    function, xs = case.smooth()
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
    _close(f"{case.about}: vjp of vjp", dot(grads, directions), want, size)
    _close(f"{case.about}: jvp of vjp", dot(tangents, covectors), want, size)
    _close(f"{case.about}: jvp of vjp against vjp of vjp", dot(tangents, covectors), dot(grads, directions), size, SAME)


# ------------------------------------------------------------------------------ batches
def in_dims(count):
    """Choices of None, 0 and -1 for so many operands, not all None: every one for 1 and 2 operands.

    For more, each operand has a batch or not, at one of the two ends; from 5 on one, all but one, or all have.
    """
    if count <= 2:
        return [dims for dims in itertools.product((None, 0, -1), repeat=count) if any(d is not None for d in dims)]
    return [tuple((-((n + i) % 2) if has else None) for i, has in enumerate(which))
            for n, which in enumerate(itertools.product((False, True), repeat=count))
            if any(which) and (count < 5 or sum(which) in (1, count - 1, count))]


def check_vmap(case):
    """vmap of the op = a loop over the examples, for every choice of in_dims."""
    examples, function = case.examples, case.function
    for dims in in_dims(len(examples[0])):
        rows = [[example[i] if d is not None else examples[0][i] for i, d in enumerate(dims)] for example in examples]
        loop = [function(*row) for row in rows]
        given = [examples[0][i] if d is None else stack([e[i] for e in examples], d) for i, d in enumerate(dims)]
        _check_batch(vmap(function, in_dims=dims)(*given), loop, f"{case.about}: vmap in_dims={dims}")


def check_vmap_of_grad(case):
    """vmap of the vjp = a loop of vjp, for batches of all floating point operands and of each alone."""
    function = case.smooth()[0]
    examples = [case.smooth(number)[1] for number in range(len(case.examples))]
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
        _check_batch(vmap(gradient, in_dims=dims)(*given), loop, f"{case.about}: vmap of grad in_dims={dims}")


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
