"""PyTorch's stream of random numbers: what its CPU build draws after the same seed, in the same order.

Numbers are drawn in the order in which a tensor lies in memory. The twister (runtime/twister.h) fills
row-major memory of float32, float64, int64 and bool; other dtypes and gaps in memory are filled from such a
tensor. Each function here fills a tensor that has memory, outside the tape; `generator` None is the default.
"""

import functools
import math

from flambeau.base.errors import fail
from flambeau.ops.reinterpret import view_as_real
from flambeau.ops.view import kept_strides
from flambeau.ops.wrapped import drawn, is_wrapped, running
from flambeau.ops.write import write
from flambeau.runtime import _core
from flambeau.tensor.rng import chosen, default_generator, source_of
from flambeau.types.dtype import bool_, float32, float64, int64

WIDE_FROM = 1 << 28         # ranges of integers from this on take two words a number
EXPONENTIAL, CAUCHY, GEOMETRIC = range(3)
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def can_fill(tensor):
    """True for a tensor with memory of its own to fill, outside function transforms."""
    return chosen.pytorch and not running.levels and not tensor.is_shape_only and not is_wrapped(tensor)


def twister(generator):
    return source_of(generator).twister


def fill(out, dtype, draw):
    """What draw(a row-major tensor of `dtype`) fills it with, in the order of out's memory."""
    window = in_memory_order(out)
    if not draw(window):
        made = _core.empty_strided(tuple(window.shape), None, dtype)
        draw(made)
        write(window, made)
    return out


def in_memory_order(out):
    """A window on the same elements whose axes go from the longest stride to the shortest."""
    shape, strides = tuple(out.shape), out.stride()
    order = sorted(range(len(shape)), key=lambda axis: -strides[axis])
    return _core.view_of(out.detach(), tuple(shape[a] for a in order), tuple(strides[a] for a in order), 0)


def _floating(dtype):
    """The dtype in which numbers of `dtype` are made."""
    return float64 if dtype is float64 else float32


def uniform(out, generator=None, low=0.0, high=1.0):
    """Uniform in [low, high)."""
    source = twister(generator)
    if source.uniform(out, low, high):
        return out
    if out.dtype.kind == "c":
        uniform(view_as_real(out.detach()), generator, low, high)
        return out
    return fill(out, _floating(out.dtype), lambda t: source.uniform(t, low, high))


def normal(out, generator=None, mean=0.0, std=1.0):
    """Normal; in a complex tensor each part has half the variance."""
    source = twister(generator)
    if source.normal(out, mean, std):
        return out
    if out.dtype.kind == "c":
        normal(view_as_real(out.detach()), generator, mean, std * math.sqrt(0.5))
        return out
    blocks, all_first = out.is_contiguous(), out.dtype.itemsize >= 4
    return fill(out, _floating(out.dtype), lambda t: source.normal(t, mean, std, blocks, all_first))


def integers(out, generator=None, low=0, high=1):
    """Integers in [low, high)."""
    source, range_ = twister(generator), high - low
    arguments = range_ % (1 << 64), low, range_ >= WIDE_FROM
    if source.integers(out, *arguments):
        return out
    return fill(out, int64, lambda t: source.integers(t, *arguments))


def whole_range(out, generator=None, low=0):
    """Integers from `low` to the dtype's largest; in floating point to the last before a gap."""
    dtype = out.dtype
    if dtype.kind == "f":
        return integers(out, generator, low, (1 << _DIGITS[dtype.name]) + 1)
    if dtype is bool_:
        return integers(out, generator, low, 2)
    return integers_up_to(out, generator, low, (1 << 8 * dtype.itemsize - (dtype.kind == "i")) - 1)


def integers_up_to(out, generator, low, last):
    """Integers in [low, last]; narrow dtypes take one word a number, int64 two."""
    source, range_ = twister(generator), last - low + 1
    wide = out.dtype.itemsize == 8 or low != 0 and range_ >= WIDE_FROM
    return fill(out, int64, lambda t: source.integers(t, range_ % (1 << 64), low, wide))


def permutation(out, generator=None):
    """0, 1, ... in random order."""
    draw = twister(generator).permutation
    return out if draw(out) else fill(out, int64, draw)


def kept(out, generator=None, p=0.5):
    """1 with probability `p`, else 0."""
    source = twister(generator)
    return fill(out, bool_, lambda t: source.below(t, p))


def check_probabilities(name, p):
    """RuntimeError where a probability, or an element of a tensor of them, lies outside [0, 1]."""
    low = high = p
    if isinstance(p, _core.Tensor):
        if is_wrapped(p) or p.is_shape_only or not p.numel():
            return
        low, high = p.detach().min().item(), p.detach().max().item()
    if not (low >= 0 and high <= 1):
        got = f"p={p}" if low is p else f"elements from {low:g} to {high:g}"
        fail(name, f"{name} expects p to be in [0, 1], but got {got}",
             hint="sigmoid(logits) lies there; clamp(p, 0, 1) takes off what rounding left over")


def below(out, probabilities, generator=None):
    """1 with the probability of the same place, else 0."""
    number = _core.empty_strided(tuple(out.shape), kept_strides(out), _floating(probabilities.dtype))
    return write(out, uniform(number, generator) < probabilities.detach())


def shaped(out, generator, kind, a, b=0.0):
    """Draws of a distribution that is a function of one 53-bit uniform number."""
    source = twister(generator)
    return fill(out, float64, lambda t: source.shaped(t, kind, a, b))


def exponential(out, generator=None, rate=1.0):
    return shaped(out, generator, EXPONENTIAL, -1.0 / rate)


def log_normal(out, generator=None, mean=1.0, std=2.0):
    source = twister(generator)
    return fill(out, float64, lambda t: source.normal(t, mean, std, False) and write(t, t.exp()) is not None)


def counts(distribution, like, first, second=None, generator=None):
    """float64 draws by rejection (see `MersenneTwister.counts`) in the order of like's memory."""
    out = _core.empty_strided(tuple(like.shape), kept_strides(like), float64)
    window = in_memory_order(out)
    axes = sorted(range(like.ndim), key=lambda axis: -out.stride()[axis])
    given = [x.detach().expand(tuple(like.shape)).permute(axes).to(float64).contiguous()
             for x in (first, second) if x is not None]
    twister(generator).counts(distribution, window, *given)
    return out


@functools.lru_cache(256)
def scale_of_kept(p, dtype):
    """1 / (1 - p) as PyTorch rounds it: both steps in the dtype's arithmetic."""
    from flambeau.tensor.create import tensor
    share = tensor(1.0 - p, dtype=_floating(dtype)).item()
    return tensor(1.0 / share, dtype=dtype).item()


def mask(like, p):
    """bool in the shape and order of `like`: False with probability `p`."""
    if running.levels:
        return drawn(tuple(like.shape), lambda shape: kept(_core.empty_strided(shape, None, bool_), p=1.0 - p))
    made = _core.empty_strided(tuple(like.shape), kept_strides(like), bool_)
    return made if default_generator.twister.below(made, 1.0 - p) else kept(made, p=1.0 - p)
