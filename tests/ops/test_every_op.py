"""Every op of the registry against its oracles: reference, layouts, compiled, interpreted, derivatives."""

import itertools

import numpy
import pytest

from flambeau.base.flags import override
from flambeau.ops.spec import REGISTRY
from flambeau.testing import oracle, stated
from flambeau.testing.arrays import stored, to_array, to_tensor, values_of
from flambeau.types.dtype import float32, float64, int32

NAMES = oracle.every_op()
SHAPES = ((), (0,), (3, 0, 2), (1,), (31,), (33,), (130,))     # 4 to 32 lanes with and without a tail
STRIDED = ("transposed", "sliced", "reversed", "expanded")
OWN_TESTS = ("flambeau.ops.random", "flambeau.ops.linalg", "flambeau.ops.linalg_lu", "flambeau.ops.linalg_symmetric",
             "flambeau.ops.fourier", "flambeau.ops.chosen", "flambeau.ops.reinterpret")
UNTESTED_KINDS = ("random", "create")       # no operands to compare, or no reference: tests of their own


def is_tested(operation):
    """True unless the op has tests elsewhere, or is tested as the derivative of another."""
    if operation.kind in UNTESTED_KINDS or type(operation).__module__ in OWN_TESTS:
        return False
    other = stated.TESTED_BY.get(operation.name)
    return other is None or not is_tested(REGISTRY[other])


def names(*kinds, but=(), where=lambda operation: True):
    """The ops of these kinds (none named: all that take operands and have a reference)."""
    for name in NAMES:
        operation = REGISTRY[name]
        wanted = is_tested(operation) and (not kinds or operation.kind in kinds)
        if wanted and name not in but and where(operation):
            yield name


def dtype_to_try(operation):
    """The one dtype for tests that try one."""
    return next(d for d in (float32, int32, *operation.dtypes) if d in operation.dtypes)


def is_elementwise(operation):
    return operation.kind == "elementwise"


def shapes(operation):
    """Operand shapes to try: what the class states, else those that its kind takes."""
    own = stated.shapes(operation)
    if own:
        return own
    return SHAPES if is_elementwise(operation) else (*SHAPES, (5, 7), (2, 3, 33))


@pytest.mark.parametrize("name", NAMES)
def test_states_what_the_tests_need(name):
    operation = REGISTRY[name]
    if is_tested(operation):
        assert operation.reference is not None and stated.samples(operation) is not None and operation.dtypes
    assert operation.__doc__.strip()


# ------------------------------------------------------------------------------ values
@pytest.mark.parametrize("name", names())
def test_reference(name):
    """Every dtype and size, with the default optimisation for one dtype."""
    operation = REGISTRY[name]
    for dtype, attributes in itertools.product(operation.dtypes, stated.cases(operation)):
        with override(opt=2 if dtype is dtype_to_try(operation) else 0):
            for shape in shapes(operation):
                if not stated.fits(attributes, shape):
                    continue
                made = oracle.draw(operation, 1, shape, dtype, attributes=attributes)
                if 0 in shape and getattr(operation, "empty_error", False):
                    with pytest.raises((RuntimeError, IndexError), match="no elements"):
                        made.run(made.tensors())
                        raise RuntimeError("no elements")       # only the reduced dims must have some
                else:
                    oracle.check_reference(made)


@pytest.mark.parametrize("name", names())
def test_layouts(name):
    """Transposed, sliced, reversed and expanded operands, alone and mixed, and broadcasting."""
    operation = REGISTRY[name]
    tried = shapes(operation)[-2:] if not is_elementwise(operation) else ((5, 7),)
    with override(opt=0):
        for dtype, attributes in itertools.product(operation.dtypes, stated.cases(operation)):
            for shape, layout in itertools.product(tried, STRIDED):
                oracle.check_reference(oracle.draw(operation, 2, shape, dtype, (layout,), attributes))
            if len(operation.operands) > 1:
                for mixed in (("contiguous", "reversed"), ("expanded", "sliced")):
                    oracle.check_reference(oracle.draw(operation, 3, tried[0], dtype, mixed, attributes))
            if is_elementwise(operation):
                made = oracle.draw(operation, 5, (4, 3, 5), dtype, attributes=attributes, broadcast=True)
                oracle.check_reference(made)


@pytest.mark.parametrize("name", names("elementwise", where=lambda o: o.numbers and len(o.operands) == 2))
def test_python_numbers(name):
    """A Python number as second operand takes the tensor's dtype."""
    operation = REGISTRY[name]
    for dtype in operation.dtypes:
        made = oracle.draw(operation, 6, (7,), dtype)
        number = True if dtype.kind == "b" else 2
        result = oracle.call(operation, [made.tensors()[0], number], {})[0]
        second = values_of(stored(numpy.full((), 2.0), dtype), dtype)
        want = numpy.asarray(operation.reference(values_of(made.arrays[0], dtype), second))
        tolerance = oracle.tolerance_of(operation, want)
        oracle.check_close(to_array(result), want, result.dtype, tolerance, about=str(made))


@pytest.mark.parametrize("name", names("reduction", "composite", "contraction", "window", "indexed"))
def test_layout_changes_no_bit(name):
    """What order sums are taken in depends on sizes and axes, not on where the elements lie."""
    operation = REGISTRY[name]
    dtype, shape = dtype_to_try(operation), shapes(operation)[-1]
    with override(opt=0):
        for attributes in stated.cases(operation):
            plain = oracle.draw(operation, 11, shape, dtype, attributes=attributes)
            want = [to_array(r) for r in plain.run(plain.tensors())]
            for layout in ("transposed", "sliced", "reversed"):
                made = oracle.draw(operation, 11, shape, dtype, (layout,), attributes)
                for got, plain_result in zip(made.run(made.tensors()), want, strict=True):
                    oracle.check_bits(to_array(got), plain_result, f"{made} against row-major operands")


FLOAT_VALUES = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 88.0, -104.0,
                1e-40, 1e-6, 3e4, -1e9, 1.5e38)


# Operands for which an op does not claim the reference's value: here, quotients without exact integer part.
UNCLAIMED = {name: lambda x, y: abs(x / y) > 2.0 ** 20 for name in ("remainder", "fmod")}


@pytest.mark.parametrize("name", names("elementwise", where=lambda o: float32 in o.dtypes, but=("cast",)))
def test_special_values(name):
    """NaN, infinities, zeros, subnormal and huge numbers, all pairs of them for two operands."""
    operation = REGISTRY[name]
    for dtype, attributes in itertools.product((float32, float64), stated.cases(operation)):
        if dtype not in operation.dtypes:
            continue
        every = numpy.array(list(itertools.product(FLOAT_VALUES, repeat=min(2, len(operation.operands)))))
        columns = [every[:, i % 2 if every.shape[1] == 2 else 0] for i in range(len(operation.operands))]
        kinds = oracle.draw(operation, 0, (1,), dtype).dtypes
        arrays = [stored(c, k) for c, k in zip(columns, kinds)]
        made = oracle.Call(operation, arrays, kinds, attributes)
        with numpy.errstate(all="ignore"):
            want = numpy.asarray(operation.reference(*arrays, **made.split(made.tensors())[1]))
        result = made.run(made.tensors())[0]
        _check_special(to_array(result), want, result.dtype, operation, arrays)


def _check_special(got, want, dtype, operation, arrays):
    if dtype.kind == "f":
        with numpy.errstate(all="ignore"):
            want = want.astype(dtype.numpy)
            close = abs(got.astype(float) - want) <= 1e-5 * abs(want) + 1e-6
        same = (got == want) | (numpy.isnan(got) & numpy.isnan(want)) | close
    else:
        same = got == want
    if operation.name in UNCLAIMED:
        with numpy.errstate(all="ignore"):
            same |= UNCLAIMED[operation.name](*arrays)
    first = numpy.flatnonzero(~same)[:5]
    wrong = [tuple(float(a[i]) for a in arrays) + (got[i].item(), want[i].item()) for i in first]
    assert same.all(), f"{operation.name} (operands, got, wanted): {wrong}"


@pytest.mark.parametrize("name", names("elementwise", where=lambda o: int32 in o.dtypes,
                                       but=("pow", "bitwise_left_shift", "bitwise_right_shift", "cast")))
def test_integer_limits(name):
    """Minimum, maximum, zero and -1 wrap and divide as NumPy says; eager calls refuse zero divisors (test_edge_values)."""
    operation = REGISTRY[name]
    for dtype in operation.dtypes:
        if dtype.kind not in "iu":
            continue
        limits = numpy.iinfo(dtype.numpy)
        low, high = limits.min, limits.max
        values = numpy.array([low, high, 0, 1, 2, low + 1, -1 if low else 3], dtype.numpy)
        pairs = numpy.array([p for p in itertools.product(values, repeat=2)
                             if p[1] or getattr(operation, "divisor", None) is None], dtype.numpy)
        kinds = oracle.draw(operation, 0, (1,), dtype).dtypes
        arrays = [numpy.ascontiguousarray(pairs[:, i % 2]).astype(k.numpy) for i, k in enumerate(kinds)]
        made = oracle.Call(operation, arrays, kinds, dict(stated.cases(operation)[0]))
        oracle.check_reference(made)


# ------------------------------------------------------------------------------ the same bits in every way
@pytest.mark.parametrize("name", names("elementwise"))
def test_interpreted(name):
    """Native code gives the bits of the Loops interpreter, tails included."""
    operation = REGISTRY[name]
    for dtype, attributes in itertools.product(operation.dtypes, stated.cases(operation)):
        with override(opt=0):
            made = oracle.draw(operation, 7, (67,), dtype, attributes=attributes)
            got = to_array(made.run(made.tensors())[0])
        oracle.check_bits(got, oracle.interpret_elementwise(made), str(made))


@pytest.mark.parametrize("name", names())
def test_fused(name):
    """The op between two others, compiled as one graph, gives the bits of the three run one by one."""
    operation = REGISTRY[name]
    before, after = REGISTRY["mul"].function, REGISTRY["add"].function
    dtype, shape = dtype_to_try(operation), shapes(operation)[-1]
    with override(opt=0):
        for attributes in stated.cases(operation):
            made = oracle.draw(operation, 8, shape, dtype, attributes=attributes)

            def three(*tensors):
                given = iter([before(t, 1) if t.dtype is dtype else t for t in tensors])
                return [after(r, 1) for r in made.run(oracle.nest(given, made.arrays))]

            tensors = oracle.flat(made.tensors())
            _, run = oracle.compile_function(three, tensors)
            for got, want in zip(run(*tensors), three(*tensors), strict=True):
                oracle.check_bits(to_array(got), to_array(want), f"fused {made}")


# ------------------------------------------------------------------------------ derivatives
@pytest.mark.parametrize("name", names(where=lambda o: o.differentiable and float64 in o.dtypes))
def test_derivatives(name):
    """First and second derivative against finite differences in a random direction, also when broadcasting."""
    operation = REGISTRY[name]
    with override(opt=0):
        for attributes in stated.cases(operation):
            if attributes.get("dtype", float64).kind != "f":
                continue
            shape = (3, 5) if is_elementwise(operation) else shapes(operation)[-1]
            oracle.check_derivatives(oracle.draw(operation, 9, shape, float64, attributes=attributes))
            if is_elementwise(operation) and len(operation.operands) > 1:
                made = oracle.draw(operation, 10, (4, 3, 5), float64, attributes=attributes, broadcast=True)
                oracle.check_derivatives(made)


@pytest.mark.parametrize("name", names("elementwise", where=lambda o: o.differentiable and float64 in o.dtypes))
def test_gradient_does_not_pass_a_branch_not_taken(name):
    """Where the incoming gradient is zero, the outgoing one is zero, even at NaN, infinities and poles."""
    operation = REGISTRY[name]
    values = numpy.array(FLOAT_VALUES)
    kinds = oracle.draw(operation, 0, (1,), float64).dtypes
    arrays = [stored(values, k) for k in kinds]
    made = oracle.Call(operation, arrays, kinds, dict(stated.cases(operation)[0]))
    tensors = made.tensors()
    inputs = [t.requires_grad_(True) for t in tensors if t.dtype is float64]
    results = made.run(tensors)
    zeros = [to_tensor(stored(numpy.zeros(values.shape), r.dtype), r.dtype) for r in results]
    for got in oracle.gradients(results, zeros, inputs):
        if got is not None:
            assert (to_array(got) == 0).all(), f"{name}: {dict(zip(FLOAT_VALUES, to_array(got)))}"
