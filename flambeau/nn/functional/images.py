"""Images in another size, order or place."""

import math
import warnings

from flambeau.base.errors import fail
from flambeau.ops import image
from flambeau.ops.antialias import antialiased
from flambeau.ops.interpose import visible
from flambeau.ops.pooling import adaptive_avg_pool
from flambeau.ops.spec import as_int

pixel_shuffle, pixel_unshuffle = image.pixel_shuffle, image.pixel_unshuffle
channel_shuffle = image.channel_shuffle
native_channel_shuffle = channel_shuffle         # PyTorch has both names
_RANKS = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3), "linear": (1,),
          "bilinear": (2,), "bicubic": (2,), "trilinear": (3,)}


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None,
                recompute_scale_factor=None, antialias=False):
    """(batch, channels, *sizes) resampled to other sizes.

    Args:
        size, scale_factor: what the last axes become, or the factor: one of the two, for all axes or each.
        mode: 'nearest', 'nearest-exact', 'linear' (1 axis), 'bilinear', 'bicubic' (2), 'trilinear' (3),
            'area'.
        align_corners: whether the corner elements' middles stay where they are (linear and cubic modes).
        recompute_scale_factor: work with the ratio of the sizes instead of the given factor.
        antialias: take the mean of all elements under a result when it shrinks (bilinear and bicubic), also of uint8.
    """
    rank = input.dim() - 2
    if mode in ("nearest", "nearest-exact", "area"):
        if align_corners is not None:
            raise ValueError("align_corners option can only be set with the interpolating modes: linear | "
                             "bilinear | "
                             "bicubic | trilinear")
    if mode not in _RANKS or rank not in _RANKS[mode]:
        raise NotImplementedError("Input Error: Only 3D, 4D and 5D input Tensors supported (got "
                                  f"{input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | "
                                  f"trilinear "
                                  f"| area | nearest-exact (got {mode})")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
                         "tensor as "
                         "input")
    sizes, factors = _sizes(input, rank, size, scale_factor, recompute_scale_factor)
    if min(sizes) < 1 or 0 in input.shape[1:]:
        fail("interpolate", "Input and output sizes should be greater than 0",
             f"{tuple(input.shape)} to {sizes}", kind=RuntimeError)
    if mode == "area":
        return adaptive_avg_pool("interpolate", rank, input, sizes)
    if antialias:
        return antialiased(input, sizes, factors, {"bilinear": "linear", "bicubic": "cubic"}[mode], bool(align_corners))
    return image.resample(input, sizes, factors, mode, bool(align_corners))


def _sizes(input, rank, size, scale_factor, recompute):
    """(the wanted sizes, the factors that say where they lie in the input: None where the sizes decide)."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        size = as_int(size)
        sizes = (size,) * rank if isinstance(size, int) else tuple(size)
        if len(sizes) != rank:
            raise ValueError(f"Input and output must have the same number of spatial dimensions, but got "
                             f"input with "
                             f"spatial dimensions of {list(input.shape[2:])} and output size of {size}.")
        return sizes, (None,) * rank
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    factors = (scale_factor,) * rank if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
    if len(factors) != rank:
        raise ValueError(f"Input and scale_factor must have the same number of spatial dimensions, but got "
                         f"input with "
                         f"spatial dimensions of {list(input.shape[2:])} and scale_factor of shape "
                         f"{scale_factor}.")
    sizes = tuple(math.floor(s * f) for s, f in zip(input.shape[2:], factors))
    return sizes, (None,) * rank if recompute else tuple(float(f) for f in factors)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """An older name of `interpolate`."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
                  stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """`interpolate` with mode 'nearest'."""
    warnings.warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
                  stacklevel=2)
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """`interpolate` with mode 'bilinear' and aligned corners."""
    warnings.warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
                  stacklevel=2)
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


@visible
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """(batch, channels, *sizes) read at the places of `grid` (batch, *out, rank): -1 to 1, last axis first.

    Args:
        mode: 'bilinear', 'nearest' or 'bicubic' (2 axes). padding_mode: 'zeros', 'border' or 'reflection'.
        align_corners: whether -1 and 1 are the middles of the corner elements, or their outer edges.
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or "
                         "'bicubic', but "
                         f"got: '{mode}'")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
                         f"'reflection', but got: '{padding_mode}'")
    return image.sample_on_grid(input, grid, mode, padding_mode, bool(align_corners))


def affine_grid(theta, size, align_corners=None):
    """The grid (batch, *out, rank) of affine maps `theta` (batch, rank, rank + 1), for `grid_sample`."""
    if theta.dtype.kind != "f":
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rank = len(size) - 2
    if rank not in (1, 2, 3) or tuple(theta.shape[1:]) != (rank, rank + 1):
        raise ValueError(f"Expected a batch of {max(rank, 2)}D affine matrices of shape "
                         f"Nx{rank}x{rank + 1} for size {tuple(size)}. Got {tuple(theta.shape)}.")
    return image.grid_of(theta, tuple(size), bool(align_corners))
