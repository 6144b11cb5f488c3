"""Draws that several distributions are made of."""

from flambeau.ops.random import log_gamma_draw, von_mises_draw
from flambeau.tensor.create import rand, tensor
from flambeau.tensor.draws import multinomial
from flambeau.tensor.rng import next_key
from flambeau.types.dtype import float64, int64
from flambeau.types.info import finfo


def uniform(shape, dtype):
    """Uniform draws in [0, 1)."""
    return rand(tuple(shape), dtype=dtype)


def open_uniform(shape, dtype):
    """Uniform draws in (0, 1): what would be 0 is the smallest normal number."""
    return uniform(shape, dtype).clamp(min=finfo(dtype).tiny)


def exponential(shape, dtype):
    """Exponential draws of rate 1."""
    return -(-uniform(shape, dtype)).log1p()


def gumbel(shape, dtype):
    """Draws from the standard Gumbel distribution: -log of an exponential draw."""
    return -exponential(shape, dtype).clamp(min=finfo(dtype).tiny).log()


def category(probs, count):
    """`count` classes for each row of weights (rows, classes): int64 (count, rows).

    One class a row is the winner of a race of exponential waiting times with these rates (Efraimidis and
    Spirakis, Information Processing Letters 97, 2006), all in a few kernels; for several the edges of the
    cumulated weights are made once.
    """
    if count != 1:
        return multinomial(probs, count, True).t()
    waits = exponential(probs.shape, float64).clamp(min=finfo(float64).tiny) / probs
    return waits.argmin(-1, True).t()


def logistic(shape, dtype):
    """Draws from the standard logistic distribution."""
    u = open_uniform(shape, dtype)
    return u.log() - (-u).log1p()


def _key():
    return tensor(next_key(), dtype=int64)


def log_gamma(concentration, shape):
    """Logarithms of gamma draws of rate 1, with gradients into the concentration."""
    return log_gamma_draw(concentration.expand(tuple(shape)), _key())


def von_mises(concentration, shape):
    """Angles in [-pi, pi] around 0."""
    return von_mises_draw(concentration.expand(tuple(shape)), _key())
