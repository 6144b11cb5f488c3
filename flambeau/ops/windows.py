"""Window functions of signal processing: torch.signal.windows.* and torch.hann_window and its relatives."""

import math

from flambeau.base.errors import fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.host import tensor_of
from flambeau.ops.spec import public
from flambeau.ops.special_bessel import bessel_i
from flambeau.types.info import LAYOUTS
from flambeau.types.device import placed
from flambeau.types.dtype import get_default_dtype

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
           "hann", "kaiser", "nuttall"]

numpy = LazyModule("numpy")
BLACKMAN = (0.42, 0.5, 0.08)
NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


# ------------------------------------------------------------------------------ formulas
def cosine_sum(n, count, terms):
    """sum (-1)^i terms[i] cos(2 pi i n / (count - 1))."""
    return sum((-1) ** i * a * numpy.cos(2 * math.pi * i * n / (count - 1)) for i, a in enumerate(terms))


def center_of(count, center):
    return (count - 1) / 2 if center is None else center


def half_circle(t):
    return numpy.sqrt(numpy.maximum(0, 1 - t * t))


def bell(x, beta):
    return bessel_i(0, x, False) / bessel_i(0, numpy.asarray(float(beta)), False)


FORMULAS = {            # of the place n = 0, 1, ... and the number of places
    "general_cosine": lambda n, count, a: cosine_sum(n, count, a),
    "general_hamming": lambda n, count, alpha=0.54: cosine_sum(n, count, (alpha, 1 - alpha)),
    "hamming": lambda n, count: cosine_sum(n, count, (0.54, 0.46)),
    "hann": lambda n, count: cosine_sum(n, count, (0.5, 0.5)),
    "blackman": lambda n, count: cosine_sum(n, count, BLACKMAN),
    "nuttall": lambda n, count: cosine_sum(n, count, NUTTALL),
    "bartlett": lambda n, count: 1 - abs(2 * n / (count - 1) - 1),
    "cosine": lambda n, count: numpy.sin(math.pi * (n + 0.5) / count),
    "gaussian": lambda n, count, std=1.0: numpy.exp(-((n - (count - 1) / 2) / std) ** 2 / 2),
    "exponential": lambda n, count, center, tau: numpy.exp(-abs(n - center_of(count, center)) / tau),
    "kaiser": lambda n, count, beta: bell(beta * half_circle(2 * n / (count - 1) - 1), beta),
}


def window(name, M, sym, dtype, layout, requires_grad, *parameters, kind=ValueError):
    """M values of a formula; sym=False leaves out the last of M + 1, so that repetitions are periodic."""
    if M < 0:
        fail(name, "the window length must not be negative", M, kind=kind)
    if layout not in (None, LAYOUTS["strided"]):
        fail(name, "windows are strided tensors", layout, LAYOUTS["strided"], kind=kind)
    dtype = dtype or get_default_dtype()
    if dtype.kind != "f":
        fail(name, "the dtype must be floating point", dtype, kind=kind)
    count = M + (not sym and M > 1)
    n = numpy.arange(M, dtype=float)
    out = tensor_of(FORMULAS[name](n, count, *parameters) if M > 1 else numpy.ones(M), dtype)
    return out.requires_grad_(True) if requires_grad else out


# ------------------------------------------------------------------------------ torch.signal.windows
def _symmetric(name):
    def function(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
        return window(name, M, sym, dtype, layout, requires_grad)
    function.__name__, function.__doc__ = name, f"The {name} window of M values, symmetric or periodic."
    return placed(function)


bartlett, blackman, cosine, hamming, hann, nuttall = map(_symmetric, (
    "bartlett", "blackman", "cosine", "hamming", "hann", "nuttall"))


@placed
def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=None, device=None,
                requires_grad=False):
    """exp(-|n - center| / tau)."""
    if tau <= 0:
        fail("exponential", "tau must be positive", tau, kind=ValueError)
    if sym and center is not None:
        fail("exponential", "center must be None for symmetric windows", center, kind=ValueError)
    return window("exponential", M, sym, dtype, layout, requires_grad, center, tau)


@placed
def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """exp(-(n - middle)^2 / (2 std^2))."""
    if std <= 0:
        fail("gaussian", "the standard deviation must be positive", std, kind=ValueError)
    return window("gaussian", M, sym, dtype, layout, requires_grad, std)


@placed
def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """i0(beta sqrt(1 - t^2)) / i0(beta) at points t from -1 to 1."""
    if beta < 0:
        fail("kaiser", "beta must not be negative", beta, kind=ValueError)
    return window("kaiser", M, sym, dtype, layout, requires_grad, beta)


@placed
def general_cosine(M, *, a, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """A sum of cosines with the weights `a` and alternating signs."""
    if not isinstance(a, (list, tuple)):
        fail("general_cosine", "the coefficients must be a list", type(a).__name__, kind=TypeError)
    if not a:
        fail("general_cosine", "the coefficients must not be empty", kind=ValueError)
    return window("general_cosine", M, sym, dtype, layout, requires_grad, tuple(a))


@placed
def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """alpha - (1 - alpha) cos(2 pi n / (M - 1))."""
    return window("general_hamming", M, sym, dtype, layout, requires_grad, alpha)


# ------------------------------------------------------------------------------ torch.*_window
def _periodic(name):
    def function(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                 requires_grad=False):
        return window(name, window_length, not periodic, dtype, layout, requires_grad, kind=RuntimeError)
    function.__name__ = f"{name}_window"
    function.__doc__ = f"The {name} window of so many values, periodic by default."
    return public(method=False)(placed(function))


bartlett_window, blackman_window, hann_window = map(_periodic, ("bartlett", "blackman", "hann"))


@public(method=False)
@placed
def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None,
                   device=None,
                   pin_memory=False, requires_grad=False):
    """alpha - beta cos(2 pi n / N)."""
    return window("general_cosine", window_length, not periodic, dtype, layout, requires_grad, (alpha, beta),
                  kind=RuntimeError)


@public(method=False)
@placed
def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None,
                  pin_memory=False, requires_grad=False):
    """i0(beta sqrt(1 - t^2)) / i0(beta) at points t from -1 to 1."""
    return window("kaiser", window_length, not periodic, dtype, layout, requires_grad, beta, kind=RuntimeError)
