"""The cells of recurrent layers, one element of the state (or a vector of them) at a time, and their gradients.

A gate is a quotient of an exponential, and divisions are what a processor is slow at, so two gates share one:
1/(p q) gives 1/p and 1/q. To keep p q finite, arguments are cut off where a gate is 0 or 1 but for 2e-19
(float32; 1e-147 in float64). NaN passes through.
"""

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
def forward(b, mode, given, own, before):
    """(output, cell or None, what backward needs) from the two halves of the gates and the state before: the
    cell of an LSTM, else the hidden state."""
    given, own = ([Value(b, x) for x in half] for half in (given, own))
    output, cell, kept = _FORWARD[mode](given, own, Value(b, before))
    return output.e, None if cell is None else cell.e, [x.e for x in kept]


def _lstm(given, own, before):
    take, keep, new, give = (x + y for x, y in zip(given, own))
    take, new = _gate_and_level(take, new)
    keep, give = _two_gates(keep, give)
    cell = fma(keep, before, take * new)
    return give * _level(cell), cell, (take, keep, new, give)


def _gru(given, own, before):
    reset, update = _two_gates(given[0] + own[0], given[1] + own[1])
    new = _level(fma(reset, own[2], given[2]))
    return fma(update, before - new, new), None, (reset, update, new, own[2])


def _tanh(given, own, before):
    return _level(given[0] + own[0]), None, ()


def _relu(given, own, before):
    x = given[0] + own[0]
    return select(x < 0.0, 0.0, x), None, ()


_FORWARD = {"lstm": _lstm, "gru": _gru, "tanh": _tanh, "relu": _relu}


# ---------------------------------------------------------------------------------------------- backward
def backward(b, mode, grad, kept, before, of_cell=None):
    """The gradients (of the projected gates, of the state's product, of the state before as far as it does
    not come through the product) from that of the output. `kept` and `before` are what `forward` gave and
    took, the output itself in place of both for the plain cells; of_cell is the gradient of an LSTM's cell."""
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
