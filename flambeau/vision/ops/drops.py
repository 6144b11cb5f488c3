"""Leaving out whole samples or blocks while training."""

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.tensor import empty


def stochastic_depth(input, p, mode, training=True):
    """Zero out all of `input` (mode 'batch') or single rows of it ('row') with probability p, and scale the
    rest.

    Source: Huang et al., "Deep Networks with Stochastic Depth" (2016).
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return input
    survival = 1.0 - p
    size = [input.shape[0] if mode == "row" else 1] + [1] * (input.ndim - 1)
    noise = empty(size, dtype=input.dtype, device=input.device).bernoulli_(survival)
    if survival > 0.0:
        noise.div_(survival)
    return input * noise


class StochasticDepth(nn.Module):
    """See `stochastic_depth`."""

    def __init__(self, p, mode):
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input):
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p}, mode={self.mode})"


def _drop_block(input, p, block_size, inplace, eps, training, axes):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}.")
    if input.ndim != axes + 2:
        raise ValueError(f"input should be {axes + 2} dimensional. Got {input.ndim} dimensions.")
    if not training or p == 0.0:
        return input
    sizes = input.shape[2:]
    block = min(block_size, *sizes)
    rate, starts = p, []
    for size in sizes:
        starts.append(size - block + 1)
        rate = rate * size / (size - block + 1)
    gamma = rate / block ** axes
    noise = empty((*input.shape[:2], *starts), dtype=input.dtype, device=input.device).bernoulli_(gamma)
    noise = F.pad(noise, [block // 2] * (2 * axes), value=0)
    pool = F.max_pool2d if axes == 2 else F.max_pool3d
    kept = 1 - pool(noise, (block,) * axes, stride=1, padding=block // 2)
    scale = kept.numel() / (eps + kept.sum())
    return input.mul_(kept).mul_(scale) if inplace else input * kept * scale


def drop_block2d(input, p, block_size, inplace=False, eps=1e-6, training=True):
    """Zero out blocks of block_size x block_size pixels. Source: Ghiasi et al., "DropBlock" (2018)."""
    return _drop_block(input, p, block_size, inplace, eps, training, 2)


def drop_block3d(input, p, block_size, inplace=False, eps=1e-6, training=True):
    """As `drop_block2d`, in three dimensions."""
    return _drop_block(input, p, block_size, inplace, eps, training, 3)


class DropBlock2d(nn.Module):
    """See `drop_block2d`."""

    axes = 2

    def __init__(self, p, block_size, inplace=False, eps=1e-6):
        super().__init__()
        self.p, self.block_size, self.inplace, self.eps = p, block_size, inplace, eps

    def forward(self, input):
        return _drop_block(input, self.p, self.block_size, self.inplace, self.eps, self.training, self.axes)

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p}, block_size={self.block_size}, inplace={self.inplace})"


class DropBlock3d(DropBlock2d):
    """See `drop_block3d`."""

    axes = 3
