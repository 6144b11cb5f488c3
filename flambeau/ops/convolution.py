"""Convolutions of 1 to 3 axes and their transposes, by the ops for two and three; their windows as columns.

One axis is two with a size of 1. A transposed convolution is the gradient of a convolution with respect to
its input.
"""

from flambeau.base.errors import ShapeError, fail
from flambeau.ops.create import iota
from flambeau.ops.index import index_select, index_sum
from flambeau.ops.interpose import visible
from flambeau.ops.matmul import same_dtype
from flambeau.ops.padding import pad as pad_axes
from flambeau.ops.pooling import numbers_of
from flambeau.ops.spec import public
from flambeau.ops.view import narrow, permute, reshape, squeeze, unsqueeze
from flambeau.ops.window import convolution, convolution_input_gradient, out_size
from flambeau.types.dtype import int64
from flambeau.types.shape import show_shape


# ------------------------------------------------------------------------------ convolution
@public(method=False)
@visible
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """1-d convolution: (n, c, length), (k, c / groups, r), (k) -> (n, k, length')."""
    return convolve(1, input, weight, bias, stride, padding, dilation, groups)


@public(method=False)
@visible
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """2-d convolution: (n, c, h, w), (k, c / groups, r, s), (k) -> (n, k, h', w'); ints stand for pairs.

    An input without batch axis gives an output without. `padding` is also 'valid' or 'same'.
    """
    return convolve(2, input, weight, bias, stride, padding, dilation, groups)


@public(method=False)
@visible
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """3-d convolution: (n, c, d, h, w), (k, c / groups, q, r, s), (k) -> (n, k, d', h', w')."""
    return convolve(3, input, weight, bias, stride, padding, dilation, groups)


def convolve(rank, input, weight, bias, stride, padding, dilation, groups):
    name = f"conv{rank}d"
    check_convolution(name, rank, input, weight, bias, groups)
    if input.shape[-rank - 1] != weight.shape[1] * groups:
        fail(name, "the number of channels differs", f"input {show_shape(input.shape)} with weight "
             f"{show_shape(weight.shape)} and groups={groups}",
             f"an input of {weight.shape[1] * groups} channels",
             kind=ShapeError)
    if weight.shape[0] % groups:
        fail(name, "the outputs do not divide into groups", weight.shape[0], f"a multiple of {groups}",
             kind=ShapeError)
    stride, dilation = positive(name, rank, stride, "stride"), positive(name, rank, dilation, "dilation")
    x, padding = padded_for(name, rank, input, weight, stride, padding, dilation)
    kernel = tuple(weight.shape[2:])
    check_window(name, x.shape[-rank:], kernel, stride, padding, dilation)
    batched = x if x.ndim == rank + 2 else unsqueeze(x, 0)
    if rank == 1:
        line = (1, *kernel), (1, *stride), (0, *padding), (1, *dilation), groups
        out = squeeze(convolution(unsqueeze(batched, 2), unsqueeze(weight, 2), bias, *line), 2)
    else:
        out = convolution(batched, weight, bias, kernel, stride, padding, dilation, groups)
    return out if x.ndim == rank + 2 else squeeze(out, 0)


def check_convolution(name, rank, input, weight, bias, groups, transposed=False):
    same_dtype(name, input, weight, bias)
    if weight.ndim != rank + 2 or input.ndim not in (rank + 1, rank + 2):
        fail(name,
             f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input and a {rank + 2}D weight",
             f"{show_shape(input.shape)}, {show_shape(weight.shape)}",
             f"(batch, channels, {rank} sizes) and (out, in / groups, {rank} sizes)", kind=ShapeError)
    if groups < 1:
        fail(name, "groups must be positive", groups, kind=RuntimeError)
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and (bias.ndim != 1 or isinstance(bias.shape[0], int) and isinstance(channels, int)
                             and bias.shape[0] != channels):
        fail(name, f"expected bias to be 1-dimensional with {channels} elements", show_shape(bias.shape),
             f"({channels},)", kind=ShapeError)


def positive(name, rank, value, what):
    numbers = numbers_of(value, rank, name, what)
    if min(numbers) < 1:
        fail(name, f"non-positive {what} is not supported", numbers, kind=RuntimeError)
    return numbers


def padded_for(name, rank, input, weight, stride, padding, dilation):
    """(the input, the padding on both sides): where 'same' is uneven, the input is padded here on the far
    side."""
    if not isinstance(padding, str):
        padding = numbers_of(padding, rank, name, "padding")
        if min(padding) < 0:
            fail(name, "negative padding is not supported", padding, kind=RuntimeError)
        return input, padding
    if padding == "valid":
        return input, (0,) * rank
    if padding != "same":
        fail(name, "Invalid padding string", repr(padding), "'valid' or 'same'", kind=RuntimeError)
    if stride != (1,) * rank:
        fail(name, "padding='same' is not supported for strided convolutions", stride, kind=RuntimeError)
    whole = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    if any(w % 2 for w in whole):
        input = pad_axes(input, [n for w in reversed(whole) for n in (0, w % 2)])
    return input, tuple(w // 2 for w in whole)


def check_window(name, sizes, kernel, stride, padding, dilation):
    for size, k, p, d in zip(sizes, kernel, padding, dilation):
        if isinstance(size, int) and size + 2 * p < d * (k - 1) + 1:
            fail(name, "Kernel size can't be greater than actual input size",
                 f"kernel {kernel}, dilation {dilation}",
                 f"at most the padded input {tuple(s + 2 * p for s, p in zip(sizes, padding))}",
                 hint="pad more, or use a smaller kernel", kind=ShapeError)


@public(method=False)
@visible
def conv_tbc(input, weight, bias, pad=0):
    """1-d convolution of (time, batch, in) with (kernel, in, out) -> (time', batch, out)."""
    out = conv1d(permute(input, (1, 2, 0)), permute(weight, (2, 1, 0)), bias, padding=pad)
    return permute(out, (2, 0, 1))


# ------------------------------------------------------------------------------ transposed
@public(method=False)
@visible
def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of `conv1d`: (n, c, length), (c, k / groups, r), (k) -> (n, k, length')."""
    return convolve_transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@public(method=False)
@visible
def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of `conv2d`: (n, c, h, w), (c, k / groups, r, s), (k) -> (n, k, h', w')."""
    return convolve_transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@public(method=False)
@visible
def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of `conv3d`: (n, c, d, h, w), (c, k / groups, q, r, s), (k) -> (n, k, d', h', w')."""
    return convolve_transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def convolve_transposed(rank, input, weight, bias, stride, padding, output_padding, groups, dilation):
    name = f"conv_transpose{rank}d"
    check_convolution(name, rank, input, weight, bias, groups, transposed=True)
    if input.shape[-rank - 1] != weight.shape[0]:
        fail(name, "the number of channels differs",
             f"input {show_shape(input.shape)} with weight {show_shape(weight.shape)}",
             f"an input of {weight.shape[0]} channels", kind=ShapeError)
    stride, dilation = positive(name, rank, stride, "stride"), positive(name, rank, dilation, "dilation")
    padding = numbers_of(padding, rank, name, "padding")
    extra = numbers_of(output_padding, rank, name, "output_padding")
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation)):
        fail(name, "output padding must be smaller than either stride or dilation", extra, kind=RuntimeError)
    kernel = tuple(weight.shape[2:])
    sizes = tuple((i - 1) * s - 2 * p + d * (k - 1) + e + 1 for i, s, p, d, k, e in
                  zip(input.shape[-rank:], stride, padding, dilation, kernel, extra))
    if any(isinstance(s, int) and s < 1 for s in sizes):
        fail(name, "the output would be empty", sizes, kind=ShapeError)
    x = input if input.ndim == rank + 2 else unsqueeze(input, 0)
    if any(e >= s for e, s in zip(extra, stride)):      # as far as an input with zeros behind it would reach
        x = pad_axes(x, [n for e, s in zip(reversed(extra), reversed(stride)) for n in (0, e // s)])
    channels = weight.shape[1] * groups
    if rank == 1:
        line = (1, *kernel), (1, *stride), (0, *padding), (1, *dilation), groups
        out = squeeze(convolution_input_gradient(unsqueeze(x, 2), unsqueeze(weight, 2),
                                                 (x.shape[0], channels, 1, *sizes), *line), 2)
    else:
        out = convolution_input_gradient(x, weight, (x.shape[0], channels, *sizes), kernel, stride, padding,
                                         dilation,
                                         groups)
    if bias is not None:
        out = out + reshape(bias, (-1,) + (1,) * rank)
    return out if input.ndim == rank + 2 else squeeze(out, 0)


def moved(kernel, count, stride, dilation):
    """Where each tap of each window stands along an axis: tap * dilation + window * stride, as (kernel *
    count)."""
    tap, window = iota((kernel, count), 0, int64), iota((kernel, count), 1, int64)
    return reshape(tap * dilation + window * stride, (kernel * count,))


# ------------------------------------------------------------------------------ windows as columns
class Columns:
    """The checked numbers of `unfold` and `fold`."""

    def __init__(self, name, kernel_size, dilation, padding, stride):
        self.kernel = positive(name, 2, kernel_size, "kernel_size")
        self.dilation = positive(name, 2, dilation, "dilation")
        self.stride = positive(name, 2, stride, "stride")
        self.padding = numbers_of(padding, 2, name, "padding")
        if min(self.padding) < 0:
            fail(name, "padding should be non-negative", self.padding, kind=RuntimeError)

    def counts(self, name, sizes):
        """How many windows there are along both axes."""
        counts = tuple(out_size(*n)
                       for n in zip(sizes, self.kernel, self.stride, self.padding, self.dilation))
        if min(counts) < 1:
            fail(name, "the array of sliding blocks would be empty", f"{counts} blocks of {self.kernel}",
                 f"at least one in {tuple(sizes)}", kind=RuntimeError)
        return counts

    def places(self, counts):
        return [moved(*n) for n in zip(self.kernel, counts, self.stride, self.dilation)]


def unfold_windows(input, kernel_size, dilation=1, padding=0, stride=1):
    """Each window as a column: (n, c, h, w) -> (n, c * r * s, windows)."""
    c = Columns("unfold", kernel_size, dilation, padding, stride)
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        fail("unfold", "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size",
             show_shape(input.shape),
             "(batch, channels, height, width)", kind=RuntimeError)
    x = input if input.ndim == 4 else unsqueeze(input, 0)
    counts = c.counts("unfold", x.shape[2:])
    rows, columns = c.places(counts)
    if any(c.padding):
        x = pad_axes(x, (c.padding[1], c.padding[1], c.padding[0], c.padding[0]))
    x = index_select(index_select(x, 2, rows), 3, columns)
    n, channels = x.shape[:2]
    x = permute(reshape(x, (n, channels, c.kernel[0], counts[0], c.kernel[1], counts[1])), (0, 1, 2, 4, 3, 5))
    out = reshape(x, (n, channels * c.kernel[0] * c.kernel[1], counts[0] * counts[1]))
    return out if input.ndim == 4 else squeeze(out, 0)


def fold_windows(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The transpose of `unfold_windows`: columns are added at their windows, (n, c * r * s, windows) -> (n,
    c, h, w)."""
    c = Columns("fold", kernel_size, dilation, padding, stride)
    size = positive("fold", 2, output_size, "output_size")
    if input.ndim not in (2, 3):
        fail("fold", "Expected 2D or 3D (batch mode) tensor", show_shape(input.shape),
             "(batch, c * r * s, windows)",
             kind=RuntimeError)
    x = input if input.ndim == 3 else unsqueeze(input, 0)
    counts, taps = c.counts("fold", size), c.kernel[0] * c.kernel[1]
    n, rows_of_column, blocks = x.shape
    if rows_of_column % taps or blocks != counts[0] * counts[1]:
        fail("fold", "the sizes of the columns do not fit", show_shape(input.shape),
             f"a multiple of {taps} rows and {counts[0] * counts[1]} windows", kind=RuntimeError)
    x = reshape(x, (n, rows_of_column // taps, *c.kernel, *counts))
    x = reshape(permute(x, (0, 1, 2, 4, 3, 5)), (n, rows_of_column // taps, c.kernel[0] * counts[0],
                                                 c.kernel[1] * counts[1]))
    rows, columns = c.places(counts)
    whole = [s + 2 * p for s, p in zip(size, c.padding)]
    x = index_sum(index_sum(x, 3, columns, whole[1]), 2, rows, whole[0])
    x = narrow(narrow(x, 2, c.padding[0], size[0]), 3, c.padding[1], size[1])
    return x if input.ndim == 3 else squeeze(x, 0)


