"""Every mathematical function against wider arithmetic: all exponents, dense samples, special values."""

import ctypes
import importlib.util
import math
import pathlib
import sys

import numpy
import pytest

from flambeau.compiler import jit, llvm, math_coefficients, math_trigonometric
from flambeau.compiler.scalar_math import MATH
from flambeau.ir import loops as L
from flambeau.ir.loops_interpret import run
from flambeau.types.dtype import float32, float64, int64

DTYPES = {numpy.float32: float32, numpy.float64: float64}
LIMIT = {numpy.float32: 2.0, numpy.float64: 4.0}
TWO_ARGUMENTS = ("pow", "atan2")
ONE_ARGUMENT = sorted(set(MATH) - set(TWO_ARGUMENTS))
INF, NAN = math.inf, math.nan
WIDE = {numpy.float32: numpy.float64, numpy.float64: numpy.longdouble}
PRECISE_LONGDOUBLE = numpy.finfo(numpy.longdouble).nmant >= 63
REFERENCES = {
    "asin": numpy.arcsin, "acos": numpy.arccos, "atan": numpy.arctan, "asinh": numpy.arcsinh,
    "acosh": numpy.arccosh, "atanh": numpy.arctanh, "atan2": numpy.arctan2, "pow": numpy.power,
    "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)), "rsqrt": lambda x: 1 / numpy.sqrt(x),
}
BY_MPMATH = ("erf", "erfc")


# ------------------------------------------------------------------------------------------- evaluation
def kernel_of(name, dtype, lanes):
    """out[0:lanes] = name(x[0:lanes], y[0:lanes])."""
    b, zero = L.Builder(), L.Const(int64, 1, 0)
    names = ("x", "y")[:2 if name in TWO_ARGUMENTS else 1]
    b.store("out", zero, MATH[name](b, *(b.load(n, zero, dtype, lanes) for n in names)))
    buffers = tuple(L.Buffer(n, dtype, "r") for n in names) + (L.Buffer("out", dtype, "w"),)
    return L.Kernel(name, buffers, (), L.Const(int64, 1, 1), b.body())


def evaluate(name, *arrays):
    """All elements as the lanes of one vector (filled up with ones to a power of two)."""
    size = len(arrays[0])
    lanes = 1 << max(1, (size - 1).bit_length())
    kind = arrays[0].dtype.type
    padded = [numpy.concatenate([a, numpy.ones(lanes - size, kind)]) for a in arrays]
    out = numpy.empty(lanes, kind)
    run(kernel_of(name, DTYPES[kind], lanes), dict(zip("xy", padded)) | {"out": out})
    return out[:size]


def reference(name, *arrays):
    """In the wider type; erf and erfc by mpmath."""
    kind = arrays[0].dtype.type
    if name in BY_MPMATH:
        import mpmath
        with mpmath.workprec(140):
            return [getattr(mpmath, name)(max(min(mpmath.mpf(float(x)), 200), -200)) for x in arrays[0]]
    function = REFERENCES.get(name) or getattr(numpy, name)
    with numpy.errstate(all="ignore"):
        return function(*(a.astype(WIDE[kind]) for a in arrays))


def ulps(got, exact):
    """|got - exact| in units in the last place of `exact`; 0 where both are NaN or the same infinity."""
    kind = got.dtype.type
    info = numpy.finfo(kind)
    if isinstance(exact, list):                      # of mpf: the difference is small enough for a float
        import mpmath
        near = numpy.array([float(e) for e in exact], kind)
        difference = numpy.array([float(mpmath.mpf(float(g)) - e) for g, e in zip(got, exact)])
    else:
        with numpy.errstate(all="ignore"):
            near = exact.astype(kind)
            difference = got.astype(exact.dtype) - exact
    with numpy.errstate(all="ignore"):
        magnitude = numpy.maximum(abs(near.astype(numpy.float64)), float(info.smallest_normal))
        exponent = numpy.frexp(magnitude)[1] - 1 - info.nmant
        error = abs(numpy.ldexp(difference, -exponent)).astype(numpy.float64)
        same = (numpy.isnan(got) & numpy.isnan(near)) | (got == near)
        error = numpy.where(~numpy.isfinite(near) | ~numpy.isfinite(got), numpy.where(same, 0, INF), error)
        edge = numpy.isinf(near) ^ numpy.isinf(got)  # one rounds to infinity, the other to the largest number
        largest = (abs(near) == info.max) | (abs(got) == info.max)
    return numpy.where(edge & largest, 1.0, error)


def assert_accurate(name, *arrays):
    got = evaluate(name, *arrays)
    errors = ulps(got, reference(name, *arrays))
    worst = int(errors.argmax())
    arguments = [float(a[worst]) for a in arrays]
    message = f"{name}{arguments}: {got[worst]!r} is {errors[worst]:.3f} ulp off"
    assert errors[worst] <= LIMIT[got.dtype.type], message


# ---------------------------------------------------------------------------------------------- samples
def all_exponents(kind, mantissas, seed):
    """Both signs of every exponent, subnormals, infinities and NaNs too, with random mantissas."""
    rng = numpy.random.default_rng(seed)
    info, integer = numpy.finfo(kind), numpy.uint32 if kind is numpy.float32 else numpy.uint64
    heads = numpy.arange(2 << info.nexp, dtype=integer) << integer(info.nmant)
    tails = rng.integers(0, 1 << info.nmant, (mantissas, len(heads)), dtype=integer)
    return (heads + tails).ravel().view(kind)


def dense(kind, count, seed):
    """Where functions turn: near 0, near 1, and over the ranges where exponentials live."""
    rng = numpy.random.default_rng(seed)
    parts = [rng.uniform(-1.5, 1.5, count), rng.uniform(-12, 12, count), rng.uniform(-110, 110, count),
             1 + rng.normal(0, 0.05, count), 10 ** rng.uniform(-9, 1, count), rng.uniform(-750, 750, count)]
    return numpy.concatenate(parts).astype(kind)


def skip_without_wide_type(name, kind):
    if kind is numpy.float64 and not PRECISE_LONGDOUBLE and name not in BY_MPMATH:
        pytest.skip("this platform's long double is not wider than a double")


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_all_exponents(name, kind):
    skip_without_wide_type(name, kind)
    x = all_exponents(kind, 2 if kind is numpy.float32 else 1, 1)
    assert_accurate(name, x[::8] if name in BY_MPMATH else x)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_dense_samples(name, kind):
    skip_without_wide_type(name, kind)
    assert_accurate(name, dense(kind, 100 if name in BY_MPMATH else 10000, 2))


@pytest.mark.parametrize("kind", DTYPES)
def test_pow_over_its_range(kind):
    skip_without_wide_type("pow", kind)
    x = abs(all_exponents(kind, 2, 3))
    rng = numpy.random.default_rng(4)
    with numpy.errstate(all="ignore"):
        info = numpy.finfo(kind)
        result_exponent = rng.uniform(info.minexp - info.nmant - 2, info.maxexp + 1, len(x))
        y = (result_exponent / numpy.log2(x.astype(numpy.float64))).astype(kind)
    assert_accurate("pow", x, y)
    near_1 = (1 + rng.normal(0, 0.1, 4000)).astype(kind)
    assert_accurate("pow", abs(near_1), rng.uniform(-3000, 3000, 4000).astype(kind))
    assert_accurate("pow", dense(kind, 300, 5), numpy.rint(rng.uniform(-20, 20, 1800)).astype(kind))


@pytest.mark.parametrize("kind", DTYPES)
def test_atan2_over_its_range(kind):
    skip_without_wide_type("atan2", kind)
    y, x = all_exponents(kind, 2, 6), all_exponents(kind, 2, 7)
    assert_accurate("atan2", y, numpy.random.default_rng(8).permutation(x))
    assert_accurate("atan2", dense(kind, 300, 9), dense(kind, 300, 10))


@pytest.mark.parametrize("kind", DTYPES)
def test_multiples_of_half_pi(kind):
    """The arguments that lie closest to multiples of pi/2, and some that the reduction finds hard."""
    skip_without_wide_type("sin", kind)
    n = numpy.concatenate([numpy.arange(1, 3000), 2 ** numpy.arange(12, 31), 3 ** numpy.arange(8, 19)])
    x = (n * numpy.longdouble(numpy.pi) / 2).astype(kind)
    hard = numpy.array([16367173.0 * 2.0 ** 72, 6381956970095103.0 * 2.0 ** 11, 5.0e8, 1e15], kind)
    for name in ("sin", "cos", "tan"):
        assert_accurate(name, numpy.concatenate([x, -x, hard]))


def test_hardest_argument_of_float64():
    """6381956970095103 * 2^797 is within 2^-61 of a multiple of pi/2: all bits of 1/pi must be right."""
    x = numpy.array([math.ldexp(6381956970095103.0, 797)])
    assert evaluate("cos", x)[0] == pytest.approx(-4.68716592425462761112e-19, rel=1e-15)


# --------------------------------------------------------------------------------------- special values
SPECIAL = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (1e30, INF), (-1e30, 0.0)],
    "exp2": [(0.0, 1.0), (10.0, 1024.0), (-3.0, 0.125), (INF, INF), (-INF, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF), (-INF, NAN)],
    "log2": [(8.0, 3.0), (0.25, -2.0), (1.0, 0.0), (0.0, -INF), (-1.0, NAN), (INF, INF)],
    "log10": [(1.0, 0.0), (10.0, 1.0), (1000.0, 3.0), (0.0, -INF), (-1.0, NAN), (INF, INF)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (INF, INF), (-INF, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (50.0, 1.0)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (-1e30, 0.0), (1e30, 1.0)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (-2.0, NAN), (INF, INF), (-INF, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (INF, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (2.0, NAN), (-2.0, NAN), (INF, NAN)],
    "acos": [(1.0, 0.0), (2.0, NAN), (-2.0, NAN), (INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (30.0, 1.0)],
    "erfc": [(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (200.0, 0.0)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (27.0, 3.0), (-8.0, -2.0), (INF, INF), (-INF, -INF)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (4.0, 0.5), (INF, 0.0), (-1.0, NAN)],
}


def assert_same(got, want, what):
    """Equal values; NaN is NaN and zeros have the same sign."""
    want = want.astype(got.dtype)
    same = (got == want) & (numpy.signbit(got) == numpy.signbit(want)) | numpy.isnan(got) & numpy.isnan(want)
    assert same.all(), f"{what}: got {got[~same]}, want {want[~same]}, at {numpy.flatnonzero(~same)}"


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_special_values(name, kind):
    x, want = numpy.array(SPECIAL[name] + [(NAN, NAN), (-NAN, NAN)]).T
    assert_same(evaluate(name, x.astype(kind)), want, name)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", TWO_ARGUMENTS)
def test_special_pairs(name, kind):
    """All pairs of interesting numbers against libm."""
    interesting = numpy.array([0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 1e30, 1e-30, INF, NAN])
    interesting = numpy.concatenate([interesting, -interesting]).astype(kind)
    x, y = (a.ravel() for a in numpy.meshgrid(interesting, interesting))
    special = ~numpy.isfinite(x) | ~numpy.isfinite(y) | (x == 0) | (y == 0) | (abs(x) == 1) & (name == "pow")
    with numpy.errstate(all="ignore"):
        want = REFERENCES[name](x, y)
    got = evaluate(name, x, y)
    exact = special & ((want == 0) | ~numpy.isfinite(want) | (abs(want) == 1))
    assert_same(got[exact], want[exact], name)
    rest = ~exact
    wide = reference(name, x, y)[rest]
    assert ulps(got[rest], wide).max() <= LIMIT[kind]
    assert (numpy.signbit(got[rest]) == numpy.signbit(want[rest]))[~numpy.isnan(want[rest])].all()


@pytest.mark.parametrize("kind", DTYPES)
def test_powers_of_two_are_exact(kind):
    info = numpy.finfo(kind)
    n = numpy.arange(info.minexp - info.nmant, info.maxexp).astype(kind)
    powers = numpy.ldexp(numpy.ones(len(n), kind), n.astype(numpy.int64))
    assert_same(evaluate("exp2", n), powers, "exp2")
    assert_same(evaluate("log2", powers), n, "log2")
    assert_same(evaluate("pow", numpy.full(len(n), 2, kind), n), powers, "pow(2, n)")


# ----------------------------------------------------------------------------------- lanes and compilation
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_lanes_do_not_matter(name, kind):
    """One lane gives the bits of many, whatever stands in the other lanes (huge arguments take a branch)."""
    x = numpy.array([0.1, -0.7, 1.25, 3.5, 1e9, 1e30], kind)
    many = evaluate(name, x)
    for i in range(len(x)):
        out = numpy.empty(1, kind)
        run(kernel_of(name, DTYPES[kind], 1), {"x": x[i:i + 1].copy(), "out": out})
        assert_same(out, many[i:i + 1], f"{name}({x[i]})")


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "sin", "pow", "cbrt"])
def test_compiled_is_interpreted(name, kind):
    """Machine code gives the same bits as the interpreter, at a width the machine may have to split."""
    x = numpy.concatenate([all_exponents(kind, 1, 11)[::8], dense(kind, 40, 12)])[:512]
    arguments = (abs(x), x[::-1].copy()) if name in TWO_ARGUMENTS else (x,)
    wanted = evaluate(name, *arguments)
    kernel = kernel_of(name, DTYPES[kind], 16)
    address = jit.load_with_llvm(jit.compile_text(llvm.emit(kernel)), [name])[name]
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
    got = numpy.empty(len(x), kind)
    for start in range(0, len(x), 16):
        places = [a[start:].ctypes.data for a in arguments + (got,)]
        native((ctypes.c_int64 * len(places))(*places), 0, 1)
    assert_same(got, wanted, name)


# ------------------------------------------------------------------------------------------- the tables
def test_inverse_pi():
    import mpmath
    with mpmath.workprec(1400):
        assert math_trigonometric._INVERSE_PI == int(mpmath.floor(mpmath.ldexp(1 / mpmath.pi, 1191)))


def test_coefficients_come_from_the_fitting_script():
    path = pathlib.Path(__file__).parents[2] / "benchmarks" / "fit_math.py"
    spec = importlib.util.spec_from_file_location("fit_math", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fit_math"] = module
    spec.loader.exec_module(module)
    fits = {fit.name: fit for fit in module.fits()}
    for name in ("SIN_32", "COS_32", "EXP_32"):
        coefficients, _ = module.solve(fits[name])
        assert tuple(float(c) for c in coefficients) == getattr(math_coefficients, name)
    assert all(len(getattr(math_coefficients, name)) == fit.terms for name, fit in fits.items())
