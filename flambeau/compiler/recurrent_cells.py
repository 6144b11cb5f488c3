"""The cells of recurrent layers for an element of the state (or a vector of them), and their gradients.

A gate is a quotient of an exponential, and divisions are what a processor is slow at, so two gates share one:
1/(p q) gives 1/p and 1/q. To keep p q finite, arguments are cut off where a gate is 0 or 1 but for 2e-19
(float32; 1e-147 in float64). NaN passes through.
"""

import functools

from flambeau.compiler.math_exponential import expm1_parts
from flambeau.compiler.math_values import Value, at_least, at_most, fma, select
from flambeau.types.dtype import float32


def _parts(x, factor):
    """(e^(factor x) - 1, e^(factor x) + 1)."""
    limit = 43.0 if x.dtype is float32 else 340.0
    q, scale = expm1_parts(at_most(at_least(x * factor, -limit), limit))
    return fma(q, scale, scale - 1), fma(q, scale, scale + 1)


def _two_gates(x, y):
    """sigmoid(x), sigmoid(y)."""
    p, q = _parts(x, -1.0)[1], _parts(y, -1.0)[1]
    both = 1 / (p * q)
    return both * q, both * p


def _gate_and_level(x, y):
    """sigmoid(x), tanh(y)."""
    p = _parts(x, -1.0)[1]
    less, q = _parts(y, -2.0)
    both = 1 / (p * q)
    return both * q, -less * (both * p)


def _level(x):
    """tanh(x)."""
    less, more = _parts(x, -2.0)
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
