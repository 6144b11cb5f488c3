"""The cells of recurrent layers for an element of the state (or a vector of them), and their gradients.

A gate is a quotient of an exponential, and divisions are what a processor is slow at, so two gates share one:
1/(p q) gives 1/p and 1/q. To keep p q finite, arguments are cut off where a gate is 0 or 1 but for 2e-19
(float32; 1e-147 in float64). NaN passes through.
"""

import functools

from flambeau.compiler.math_exponential import expm1_parts, scale_factor
from flambeau.compiler.math_values import LOG2_E, Value, at_least, at_most, fma, polynomial, select
from flambeau.types.dtype import float32, float64

_LIMITS = {float32: 43.0, float64: 340.0}

# (2^f - 1) / f for |f| <= 1/2, lowest power first: to 2^-23.0 of 2^f, and to 2^-25.5 of itself
_POWER = (0.693147003650665283203125, 0.240222394466400146484375, 0.055507361888885498046875,
          0.009671635925769805908203125, 0.001326454919762909412384033203125)
_LESS = (0.693147182464599609375, 0.24022649228572845458984375, 0.0555035732686519622802734375,
         0.00961823761463165283203125, 0.001339084585197269916534423828125,
         0.000154035587911494076251983642578125)


def _bounded(x, factor):
    limit = _LIMITS[x.dtype] / abs(factor)
    return at_most(at_least(x, -limit), limit)


def _power_parts(x, factor):
    """(f, s) with e^(factor x) = 2^f s and |f| <= 1/2, in single precision."""
    slope, shifter = factor * float(LOG2_E), x.format.shifter
    t = fma(x, slope, shifter)
    return fma(x, slope, -(t - shifter)), scale_factor(t)


def _above(x, factor):
    """e^(factor x) + 1."""
    x = _bounded(x, factor)
    if x.dtype is float64:
        q, scale = expm1_parts(x * factor)
        return fma(q, scale, scale + 1)
    f, scale = _power_parts(x, factor)
    return fma(fma(f, polynomial(f, _POWER), 1.0), scale, 1.0)


def _around(x):
    """(e^(-2x) - 1, e^(-2x) + 1)."""
    x = _bounded(x, -2.0)
    if x.dtype is float64:
        q, scale = expm1_parts(x * -2.0)
    else:
        f, scale = _power_parts(x, -2.0)
        q = f * polynomial(f, _LESS)
    less = fma(q, scale, scale - 1)
    return less, less + 2


def _two_gates(x, y):
    """sigmoid(x), sigmoid(y)."""
    p, q = _above(x, -1.0), _above(y, -1.0)
    both = 1 / (p * q)
    return both * q, both * p


def _gate_and_level(x, y):
    """sigmoid(x), tanh(y)."""
    p = _above(x, -1.0)
    less, q = _around(y)
    both = 1 / (p * q)
    return both * q, -less * (both * p)


def _level(x):
    """tanh(x)."""
    less, more = _around(x)
    return -less / more


# ---------------------------------------------------------------------------------------------- forward
def on_values(function):
    """`function` on Values as a function of a Builder, expressions and sequences of them."""
    def wrapped(b, *args):
        given = [[Value(b, x) for x in a] if isinstance(a, (list, tuple)) else Value(b, a) for a in args]
        return [x.e for x in function(*given)]
    return functools.wraps(function)(wrapped)


@on_values
def lstm_gates(sums, before):
    """(in, forget, new, out, next cell) from the four sums and the cell before."""
    take, new = _gate_and_level(sums[0], sums[2])
    keep, give = _two_gates(sums[1], sums[3])
    return take, keep, new, give, fma(keep, before, take * new)


def lstm_output(b, give, cell):
    """The output from its gate and the cell."""
    return (Value(b, give) * _level(Value(b, cell))).e


@on_values
def gru_gates(sums):
    """(reset, update)."""
    return _two_gates(sums[0], sums[1])


@on_values
def gru_output(reset, update, given, own, before):
    """(new value, output) from the gates, the two halves of the new value and the state before."""
    new = _level(fma(reset, own, given))
    return new, fma(update, before - new, new)


def plain(b, mode, total):
    """The output of a plain cell, 'tanh' or 'relu'."""
    x = Value(b, total)
    return (_level(x) if mode == "tanh" else select(x < 0.0, 0.0, x)).e


# ---------------------------------------------------------------------------------------------- backward
def backward(b, mode, grad, kept, before, of_cell=None):
    """The gradients (of the projected gates, of the state's product, of the state before as far as it does
    not come through the product) from that of the output. `kept` are the gates as `RecurrentLayer` keeps
    them, or a plain cell's output; `before` is the state before, of_cell the gradient of an LSTM's cell."""
    grad, kept = Value(b, grad), [Value(b, x) for x in kept]
    before, of_cell = (None if x is None else Value(b, x) for x in (before, of_cell))
    of_given, of_own, of_before = _BACKWARD[mode](grad, kept, before, of_cell)
    return [x.e for x in of_given], [x.e for x in of_own], None if of_before is None else of_before.e


def _lstm_backward(grad, kept, before, of_cell):
    take, keep, new, give = kept
    level = _level(fma(keep, before, take * new))
    of_cell = fma(grad * give, fma(-level, level, 1.0), of_cell)
    gates = (of_cell * new * (take * (1 - take)), of_cell * before * (keep * (1 - keep)),
             of_cell * take * fma(-new, new, 1.0), grad * level * (give * (1 - give)))
    return gates, (), of_cell * keep


def _gru_backward(grad, kept, before, of_cell):
    reset, update, new, own = kept
    of_new = grad * (1 - update) * fma(-new, new, 1.0)
    of_update = grad * (before - new) * (update * (1 - update))
    of_reset = of_new * own * (reset * (1 - reset))
    return (of_reset, of_update, of_new), (of_reset, of_update, of_new * reset), grad * update


def _tanh_backward(grad, kept, before, of_cell):
    return (grad * fma(-kept[0], kept[0], 1.0),), (), None


def _relu_backward(grad, kept, before, of_cell):
    return (select(kept[0] > 0.0, grad, 0.0),), (), None


_BACKWARD = {"lstm": _lstm_backward, "gru": _gru_backward, "tanh": _tanh_backward, "relu": _relu_backward}
