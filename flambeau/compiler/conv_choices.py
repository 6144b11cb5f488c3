"""What autotuning may choose for direct convolutions and for the gradient of the weight (compiler.tune).

All of it leaves the order of additions as it is: it cuts the result into tiles and registers, and says how
much work a thread takes at a time.
"""

from dataclasses import dataclass, replace

from flambeau.compiler.tune import Family


@dataclass(frozen=True)
class DirectChoice:
    """Changes to a conv_schedule.Shape; 0 leaves what the cost model says. `pixels` and `blocks`: of a tile,
    at most; `enough`: rows to share out, from which on a tile has several blocks; `strip`: elements;
    `register`: pixels of a register block; `grain`: how many times as much a thread takes at a time."""

    pixels: int = 0
    blocks: int = 0
    enough: int = 0
    strip: int = 0
    register: int = 0
    grain: int = 1

    def kernel_shape(self, shape):
        """The Shape that the kernel is written for."""
        return replace(shape, block_pixels=self.register or shape.block_pixels)

    def limits(self, shape):
        """The Shape from which the sizes of tiles are worked out: at most what the kernel has room for."""
        return replace(shape, pixels=min(self.pixels or shape.pixels, shape.pixels),
                       strip=min(self.strip or shape.strip, shape.strip),
                       blocks=self.blocks or shape.blocks, enough=self.enough or shape.enough)


DIRECT = Family("direct convolution", DirectChoice(), (
    DirectChoice(pixels=128), DirectChoice(pixels=64), DirectChoice(pixels=32),
    DirectChoice(blocks=8), DirectChoice(blocks=2), DirectChoice(blocks=1),
    DirectChoice(enough=8), DirectChoice(enough=128), DirectChoice(strip=16384), DirectChoice(strip=8192), DirectChoice(register=6), DirectChoice(register=12), DirectChoice(register=14), DirectChoice(grain=8), DirectChoice(grain=1000000)))
