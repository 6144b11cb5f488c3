"""Draws that several distributions are made of."""

import math

from flambeau.ops.elementwise import where
from flambeau.ops.join import stack
from flambeau.ops.random import log_gamma_draw, log_gamma_drawn, von_mises_draw
from flambeau.tensor import stream
from flambeau.tensor.create import empty, rand, tensor, zeros_like
from flambeau.tensor.draws import multinomial
from flambeau.tensor.rng import chosen, next_key
from flambeau.types.dtype import bool_, float64, int64
from flambeau.types.info import finfo


def uniform(shape, dtype):
    """Uniform draws in [0, 1)."""
    return rand(tuple(shape), dtype=dtype)


def open_uniform(shape, dtype):
    """Uniform draws in (0, 1): what would be 0 is the smallest normal number."""
    return uniform(shape, dtype).clamp(min=finfo(dtype).tiny)


def exponential(shape, dtype):
    """Exponential draws of rate 1."""
    if chosen.pytorch:
        return empty(tuple(shape), dtype=dtype).exponential_()
    return -(-uniform(shape, dtype)).log1p()


def cauchy(shape, dtype):
    """Draws from the standard Cauchy distribution."""
    if chosen.pytorch:
        return empty(tuple(shape), dtype=dtype).cauchy_()
    return ((open_uniform(shape, dtype) - 0.5) * math.pi).tan()


def trials_of(shape, dtype):
    """-log of uniform draws: exponential ones, as the geometric distribution takes them."""
    return -open_uniform(shape, dtype).log() if chosen.pytorch else exponential(shape, dtype)


def log_gamma_pairs(first, second, shape):
    """`log_gamma` of two concentrations; in PyTorch's stream the two of a place come one after the other."""
    if not chosen.pytorch:
        return log_gamma(first, shape), log_gamma(second, shape)
    return log_gamma(stack([first, second], -1), (*shape, 2)).unbind(-1)


def gumbel(shape, dtype):
    """Draws from the standard Gumbel distribution: -log of an exponential draw."""
    if chosen.pytorch:
        limits = finfo(dtype)
        return -(-uniform(shape, dtype).clamp(limits.eps, 1 - limits.eps).log()).log()
    return -exponential(shape, dtype).clamp(min=finfo(dtype).tiny).log()


def category(probs, count):
    """`count` classes for each row of weights (rows, classes): int64 (count, rows).

    One class a row is the winner of a race of exponential waiting times with these rates (Efraimidis and
    Spirakis, Information Processing Letters 97, 2006), all in a few kernels; for several the edges of the
    cumulated weights are made once.
    """
    if count != 1 or chosen.pytorch:
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
    if chosen.pytorch:
        concentration = concentration.expand(tuple(shape))
        drawn = stream.counts("gamma", concentration, concentration).clamp(min=finfo(concentration.dtype).tiny)
        return log_gamma_drawn(concentration, drawn.log().to(concentration.dtype))
    return log_gamma_draw(concentration.expand(tuple(shape)), _key())


def von_mises(concentration, shape):
    """Angles in [-pi, pi] around 0."""
    if chosen.pytorch:
        return _von_mises_of_stream(concentration.detach().expand(tuple(shape)).to(float64)).to(concentration.dtype)
    return von_mises_draw(concentration.expand(tuple(shape)), _key())


def _von_mises_of_stream(c):
    """Best and Fisher's rejection (Applied Statistics 28, 1979), all places together until each has been accepted."""
    tau = 1 + (1 + 4 * c * c).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * c)
    r = where(c < 1e-5, 1 / c + c, (1 + rho * rho) / (2 * rho))
    angle, done = zeros_like(c), zeros_like(c, dtype=bool_)
    while not bool(done.all()):
        first, second, third = uniform((3, *c.shape), float64).unbind()
        z = (math.pi * first).cos()
        f = (1 + r * z) / (r + z)
        t = c * (r - f)
        accepted = (t * (2 - t) - second > 0) | ((t / second).log() + 1 - t >= 0)
        angle = where(accepted, (third - 0.5).sign() * f.acos(), angle)
        done = done | accepted
    return angle
