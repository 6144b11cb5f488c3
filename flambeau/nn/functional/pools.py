"""Pooling. What takes `return_indices` gives (values, indices) with it."""

import math

from flambeau.base.errors import fail
from flambeau.ops import pooling
from flambeau.ops.interpose import visible
from flambeau.tensor import arange, rand, tensor

from flambeau.types.dtype import int64

from .sizes import tuple_of

avg_pool1d, avg_pool2d, avg_pool3d = pooling.avg_pool1d, pooling.avg_pool2d, pooling.avg_pool3d
adaptive_avg_pool1d = pooling.adaptive_avg_pool1d


def _max_pool(rank):
    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                     return_indices=False):
        return pooling.max_pool(f"max_pool{rank}d", rank, input, kernel_size, stride, padding, dilation,
                                ceil_mode)

    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                 return_indices=False):
        both = pooling.max_pool(f"max_pool{rank}d", rank, input, kernel_size, stride, padding, dilation, ceil_mode,
                                return_indices)
        return both if return_indices else both[0]

    named = _named(max_pool, f"max_pool{rank}d", f"Maximum over windows of the last {rank} axes.")
    named = visible(named) if rank == 3 else named
    return named, _named(
        with_indices, f"max_pool{rank}d_with_indices",
        f"(maximum, its place) of windows of the last {rank} axes.")


def _adaptive_max_pool(rank):
    def with_indices(input, output_size, return_indices=False):
        return pooling.adaptive_max_pool(f"adaptive_max_pool{rank}d", rank, input, output_size)

    def adaptive_max_pool(input, output_size, return_indices=False):
        both = with_indices(input, output_size)
        return both if return_indices else both[0]

    what = f"windows that cover the last {rank} axes evenly."
    named = _named(adaptive_max_pool, f"adaptive_max_pool{rank}d", f"Maxima of {what}")
    named = visible(named) if rank == 3 else named
    return named, _named(
        with_indices, f"adaptive_max_pool{rank}d_with_indices", f"(maxima, their places) of {what}")


def _named(function, name, text):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)
adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pool(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pool(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pool(3)


def adaptive_avg_pool2d(input, output_size):
    """Means of windows that cover height and width evenly; None keeps a size."""
    return pooling.adaptive_avg_pool("adaptive_avg_pool2d", 2, input, output_size)


@visible
def adaptive_avg_pool3d(input, output_size):
    """Means of windows that cover depth, height and width evenly; None keeps a size."""
    return pooling.adaptive_avg_pool("adaptive_avg_pool3d", 3, input, output_size)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window of the last axis."""
    return pooling.lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window of the last 2 axes."""
    return pooling.lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window of the last 3 axes."""
    return pooling.lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


# ---------------------------------------------------------------------------------- unpooling

def _max_unpool(rank, input, indices, kernel_size, stride, padding, output_size):
    name = f"max_unpool{rank}d"
    kernel = tuple_of(kernel_size, rank)
    stride = kernel if stride is None else tuple_of(stride, rank)
    padding = tuple_of(padding, rank)
    if input.dim() not in (rank + 1, rank + 2):
        fail(name, f"the input has {rank + 1} or {rank + 2} axes", tuple(input.shape), kind=RuntimeError)
    usual = [(size - 1) * s + k - 2 * p for size, s, k,
             p in zip(input.shape[-rank:], stride, kernel, padding)]
    if output_size is None:
        return pooling.max_unpool(name, rank, input, indices, usual)
    sizes = tuple(output_size)[-rank:]
    if len(output_size) not in (rank, rank + 1, rank + 2):
        raise ValueError(f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it "
                         f"has a "
                         f"length of '{len(output_size)}'")
    for got, middle, step in zip(sizes, usual, stride):
        if not middle - step < got < middle + step:
            raise ValueError(f"invalid output_size {tuple(output_size)}: each size must be less than a "
                             f"stride from "
                             f"{usual}")
    return pooling.max_unpool(name, rank, input, indices, sizes)


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The values back at the places of the maxima of `max_pool1d`, zeros elsewhere."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@visible
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The values back at the places of the maxima of `max_pool2d`, zeros elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@visible
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The values back at the places of the maxima of `max_pool3d`, zeros elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# ---------------------------------------------------------------------------------- fractional

def _fractional(rank, input, kernel_size, output_size, output_ratio, samples):
    """(values, places) of windows whose starts are drawn: about evenly, one by one (Graham 2014)."""
    name = f"fractional_max_pool{rank}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratios = (output_ratio,) * rank if isinstance(output_ratio, float) else tuple(output_ratio)
        output_size = [int(size * ratio) for size, ratio in zip(input.shape[-rank:], ratios)]
    kernel, counts = tuple_of(kernel_size, rank), tuple_of(output_size, rank)
    x = input if input.dim() == rank + 2 else input.unsqueeze(0)
    if x.dim() != rank + 2:
        fail(name, f"Expected {rank + 1}D or {rank + 2}D tensor", tuple(input.shape), kind=RuntimeError)
    for size, k, count in zip(x.shape[-rank:], kernel, counts):
        if count + k - 1 > size or count < 1:
            fail(name, "the windows do not fit", f"{count} windows of {k} in {size}", kind=RuntimeError)
    if samples is None:
        samples = rand(x.shape[0], x.shape[1], rank, dtype=x.dtype)
    samples = samples[:x.shape[0]]
    starts = [[_starts(draw, size, count, k) for size, count, k, draw in
               zip(x.shape[-rank:], counts, kernel, _in_axis_order(channel))]
              for image in samples.tolist() for channel in image]
    values, places = _max_of_windows(x, rank, kernel, counts, starts)
    return (values, places) if input.dim() == rank + 2 else (values.squeeze(0), places.squeeze(0))


def _in_axis_order(draws):
    """The draws of a channel are for the last axis first, but for three axes in their order."""
    return draws[::-1] if len(draws) == 2 else draws


def _starts(draw, size, count, kernel):
    """Where the windows of one axis start."""
    if count == 1:
        return [size - kernel]
    alpha = (size - kernel) / (count - 1)
    return [int((i + draw) * alpha) - int(draw * alpha) for i in range(count - 1)] + [size - kernel]


def _max_of_windows(x, rank, kernel, counts, starts):
    """(values, places) of windows that start at `starts`, for each plane and axis a list."""
    planes = x.shape[0] * x.shape[1]
    place = None
    for axis in range(rank):
        own = tensor([each[axis] for each in starts], dtype=int64).reshape(planes, counts[axis],
                                                                           1) + arange(kernel[axis])
        shape = [planes] + [1] * (2 * rank)
        shape[1 + axis], shape[1 + rank + axis] = counts[axis], kernel[axis]
        own = own.reshape(shape)
        place = own if place is None else place * x.shape[2 + axis] + own
    place = place.reshape(planes, math.prod(counts), math.prod(kernel))
    flat = place.reshape(planes, place.shape[1] * place.shape[2])
    picked = x.reshape(planes, math.prod(x.shape[2:])).gather(1, flat).reshape(place.shape)
    values, chosen = pooling.first_largest(picked, place >= 0, 2)
    shape = (*x.shape[:2], *counts)
    return values.reshape(shape), place.gather(2, chosen).reshape(shape)


def fractional_max_pool2d_with_indices(input, kernel_size, output_size=None, output_ratio=None,
                                       return_indices=False, _random_samples=None):
    """(maxima, places) of windows at random about even places; `output_size` or `output_ratio` says how
    many."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


@visible
def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    """Maxima of windows at random about even places."""
    both = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]


def fractional_max_pool3d_with_indices(input, kernel_size, output_size=None, output_ratio=None,
                                       return_indices=False, _random_samples=None):
    """(maxima, places) of windows at random about even places."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


@visible
def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    """Maxima of windows at random about even places."""
    both = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]
