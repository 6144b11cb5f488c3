"""Draws from distributions: `multinomial`, `normal`, ... and the methods that fill a tensor with draws.

Continuous ones are made of uniform or normal elements; `poisson` and `binomial` are drawn by NumPy from a seed
that is a draw of ours. From PyTorch's stream (`stream.py`) all take the numbers that PyTorch takes.
"""

import math

from flambeau.base.errors import DTypeError, fail
from flambeau.ops import random as elements
from flambeau.ops.write import check_write, write
from flambeau.runtime._core import Tensor
from flambeau.tensor import create, stream
from flambeau.tensor.rng import chosen, next_key
from flambeau.types.device import placed
from flambeau.types.dtype import float32, float64, int64
from flambeau.types.shape import broadcast_shapes


def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices of categories, drawn with the weights `input`.

    Args:
        input: weights of shape (categories,) or (rows, categories); they need not sum to one.
        num_samples: draws a row.
        replacement: whether a category can be drawn again.

    Returns:
        int64 of shape (num_samples,) or (rows, num_samples).
    """
    import numpy

    if chosen.pytorch:
        return _result(_multinomial_of_stream(input, num_samples, replacement, generator), out)
    if num_samples == 1 and not replacement:
        return _result(_first_of_race(input, generator), out)
    weights = _checked_weights(input, num_samples, replacement)
    uniform = create.rand(*_shape_of_draw(input, num_samples, replacement), dtype=float64,
                          generator=generator).numpy()
    if replacement:
        edges = numpy.cumsum(weights, -1)
        rows = zip(edges.reshape(-1, edges.shape[-1]), (uniform * edges[..., -1:]).reshape(-1, num_samples))
        found = numpy.stack([numpy.searchsorted(edge, row, side="right") for edge, row in rows])
        # rounding may lead past the last category that has a weight
        last = weights.shape[-1] - 1 - numpy.argmax((weights > 0)[..., ::-1], -1)
        found = numpy.minimum(found.reshape(*weights.shape[:-1], num_samples), last[..., None])
    else:       # the smallest of exponential draws with these rates: Efraimidis and Spirakis (2006)
        with numpy.errstate(divide="ignore", invalid="ignore"):
            waits = numpy.where(weights > 0, -numpy.log1p(-uniform) / weights, numpy.inf)
        found = numpy.argsort(waits, -1, kind="stable")[..., :num_samples]
    return _result(create.from_numpy(numpy.ascontiguousarray(found, "int64")), out)


def _first_of_race(input, generator):
    """One draw a row: the smallest of exponential waiting times with these rates."""
    input = input.detach()
    _check_weights(input, 1, False)
    waits = create.rand(tuple(input.shape), dtype=float64, generator=generator).neg_().log1p_().neg_().div_(input)
    return waits.masked_fill_(input == 0, math.inf).argmin(-1, True)


def _multinomial_of_stream(input, num_samples, replacement, generator):
    """PyTorch's ways: a race of exponential waiting times, or uniform numbers on the cumulated weights."""
    input = input.detach()
    if not replacement or num_samples == 1:
        _check_weights(input, num_samples, replacement)
        waits = stream.exponential(create.empty_like(input), generator)
        speed = input / waits
        return speed.argmax(-1, True) if num_samples == 1 else speed.topk(num_samples, -1)[1]
    _check_counts(input, num_samples, replacement)
    weights = input.contiguous() if input.dtype is float64 else input.to(float32).contiguous()
    found = create.empty((*input.shape[:-1], num_samples), dtype=int64)
    _fail_for(stream.twister(generator).categories(found, weights))
    return found


def _fail_for(problem):
    if problem == 1:
        fail("multinomial", "probability tensor contains either `inf`, `nan` or element < 0",
             hint="the weights of classes: softmax(logits, -1), say")
    if problem == 2:
        fail("multinomial", "invalid multinomial distribution (sum of probabilities <= 0)")


def _check_weights(input, num_samples, replacement):
    """RuntimeError for what is no distribution, without a copy of the weights."""
    _check_counts(input, num_samples, replacement)
    least, most, sums = (x.item() for x in (input.min(), input.max(), input.sum(-1).min()))
    _fail_for(1 if not (least >= 0 and most < math.inf) else 2 if not sums > 0 else 0)


def _shape_of_draw(input, num_samples, replacement):
    return (*input.shape[:-1], num_samples) if replacement else tuple(input.shape)


def _check_counts(input, num_samples, replacement):
    if not input.is_floating_point():
        fail("multinomial", "only floating point weights are taken", input.dtype, kind=DTypeError)
    if input.ndim not in (1, 2):
        fail("multinomial", "prob_dist must be 1 or 2 dim", f"{input.ndim} axes")
    if num_samples <= 0:
        fail("multinomial", "cannot sample n_sample <= 0 samples", num_samples)
    if not replacement and num_samples > input.shape[-1]:
        fail("multinomial", "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
             f"{num_samples} samples of {input.shape[-1]} classes",
             hint="replacement=True draws a class again")


def _checked_weights(input, num_samples, replacement):
    """The weights as a float64 array; RuntimeError for what is no distribution."""
    import numpy

    _check_counts(input, num_samples, replacement)
    weights = input.detach().to(float64).numpy()
    if not (numpy.isfinite(weights) & (weights >= 0)).all():
        _fail_for(1)
    if (weights.sum(-1) <= 0).any():
        _fail_for(2)
    return weights


def _result(made, out):
    if out is None:
        return made
    from flambeau.ops.spec import REGISTRY, write_out
    return write_out(REGISTRY["copy"], out, made)


def normal(mean, std=1.0, size=None, *, generator=None, out=None, dtype=None, layout=None, device=None,
           requires_grad=False):
    """Normal random numbers of `mean` and `std`, tensors broadcast together or numbers; two numbers need `size`.
    """
    smallest = std
    if isinstance(std, Tensor):
        smallest = float(std.min()) if std.numel() else 0.0
    if smallest < 0:
        fail("normal", f"normal expects std >= 0.0, but found std {smallest:g}")
    if size is not None:
        made = create.empty(size, dtype=dtype, device=device).normal_(mean, std, generator=generator)
        return _result(made.requires_grad_(True) if requires_grad else made, out)
    like = (mean + std) if isinstance(mean, Tensor) or isinstance(std, Tensor) else fail(
        "normal", "two numbers need a size", hint="normal(mean, std, (2, 3))", kind=TypeError)
    drawn = create.randn(tuple(like.shape), dtype=like.dtype, generator=generator)
    return _result(drawn * std + mean, out)


def _host_generator(generator):
    import numpy
    return numpy.random.Generator(numpy.random.Philox(key=next_key(generator) & (1 << 64) - 1))


def poisson(input, generator=None):
    """Numbers of events where `input` are expected."""
    if not input.is_floating_point():
        fail("poisson", "expected rates are floating point", input.dtype, kind=NotImplementedError)
    rates = input.detach().to(float64).numpy()
    if not (rates >= 0).all():
        fail("poisson", "invalid Poisson rate, expected rate to be non-negative")
    if chosen.pytorch:
        return stream.counts("poisson", input, input, generator=generator).to(input.dtype)
    return _from_host(_host_generator(generator).poisson(rates), input.dtype)


def _from_host(drawn, dtype):
    """Whole numbers of NumPy (an int where the parameters are 0-d) as a tensor."""
    import numpy
    return create.from_numpy(numpy.asarray(drawn, "float64")).to(dtype)


def binomial(count, prob, generator=None):
    """Numbers of successes in `count` trials of probability `prob`."""
    if chosen.pytorch:
        shape = create.empty(broadcast_shapes(tuple(count.shape), tuple(prob.shape)))
        return stream.counts("binomial", shape, count, prob, generator).to(count.dtype)
    drawn = _host_generator(generator).binomial(count.detach().to(float64).numpy().astype("int64"),
                                                prob.detach().to(float64).numpy())
    return _from_host(drawn, count.dtype)


@placed
def randint_like(input, low, high=None, *, dtype=None, device=None, requires_grad=False, layout=None,
                 pin_memory=False,
                 memory_format=None, generator=None):
    """Random integers in [0, low), or in [low, high), in the shape and dtype of `input`."""
    low, high = (0, low) if high is None else (low, high)
    if stream.can_fill(input):
        made = create.empty_like(input, dtype=dtype, memory_format=memory_format)
        made.random_(low, high, generator=generator)
        return made.requires_grad_(True) if requires_grad else made
    made = create.randint(low, high, tuple(input.shape), generator=generator).to(dtype or input.dtype)
    return made.requires_grad_(True) if requires_grad else made


# ---------------------------------------------------------------------------------- methods that fill
def _need_floating(self, name):
    if not self.is_floating_point():
        fail(name, "a continuous distribution needs a floating point tensor", self.dtype, kind=DTypeError)


def _filled(self, name, values):
    check_write(name, self)
    return write(self, values)


def _uniform(self, generator):
    """Uniform draws in the shape of a tensor, in float32 or wider."""
    wide = self.dtype if self.dtype.kind == "f" and self.dtype.itemsize >= 4 else None
    return create.rand(tuple(self.shape), dtype=wide, generator=generator)


def exponential_(self, lambd=1, *, generator=None):
    """Fill with exponential random numbers of the rate `lambd`."""
    if not lambd > 0:
        fail("exponential_", f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    _need_floating(self, "exponential_")
    if stream.can_fill(self):
        check_write("exponential_", self)
        return stream.exponential(self, generator, lambd)
    return _filled(self, "exponential_", (-_uniform(self, generator)).log1p() * (-1 / lambd))


def geometric_(self, p, *, generator=None):
    """Fill with the number of trials, of probability p, until the first success."""
    if not 0 < p < 1:
        fail("geometric_", f"geometric_ expects p to be in (0, 1), but got p={p}")
    if stream.can_fill(self):
        check_write("geometric_", self)
        return stream.shaped(self, generator, stream.GEOMETRIC, math.log1p(-p))
    trials = ((-_uniform(self, generator)).log1p() * (1 / math.log1p(-p))).ceil().clamp(min=1)
    return _filled(self, "geometric_", trials.to(self.dtype))


def log_normal_(self, mean=1, std=2, *, generator=None):
    """Fill with exponentials of normal random numbers."""
    if not std > 0:
        fail("log_normal_", f"log_normal_ expects std > 0.0, but found std={std}")
    _need_floating(self, "log_normal_")
    if stream.can_fill(self):
        check_write("log_normal_", self)
        return stream.log_normal(self, generator, mean, std)
    return _filled(self, "log_normal_",
                   (elements.normal_like(self.detach(), next_key(generator)) * std + mean).exp())


def cauchy_(self, median=0, sigma=1, *, generator=None):
    """Fill with random numbers of the Cauchy distribution."""
    if not sigma > 0:
        fail("cauchy_", f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    _need_floating(self, "cauchy_")
    if stream.can_fill(self):
        check_write("cauchy_", self)
        return stream.shaped(self, generator, stream.CAUCHY, median, sigma)
    return _filled(self, "cauchy_", ((_uniform(self, generator) - 0.5) * math.pi).tan() * sigma + median)


NAMES = {"multinomial": multinomial, "normal": normal, "poisson": poisson, "binomial": binomial,
         "randint_like": randint_like}
METHODS = {"multinomial": multinomial, "exponential_": exponential_, "geometric_": geometric_,
           "log_normal_": log_normal_,
           "cauchy_": cauchy_}
