"""What autotuning may choose for direct convolutions and for the gradient of the weight (compiler.tune).

All of it leaves the order of additions as it is: it cuts the result into tiles and registers, and says how
much work a thread takes at a time.
"""

from dataclasses import dataclass, replace

from flambeau.compiler.tune import Family


@dataclass(frozen=True)
class DirectChoice:
    """Changes to a conv_schedule.Shape; 0 leaves what the cost model says. `pixels` and `blocks`: of a tile,
    at most; `register`: pixels of a register block; `grain`: how many times as much a thread takes at a
    time."""

    pixels: int = 0
    blocks: int = 0
    register: int = 0
    grain: int = 1

    def kernel_shape(self, shape):
        """The Shape that the kernel is written for."""
        return replace(shape, block_pixels=self.register or shape.block_pixels)

    def limits(self, shape):
        """The Shape from which the sizes of tiles are worked out: no more than the kernel has room for."""
        return replace(shape, pixels=min(self.pixels or shape.pixels, shape.pixels),
                       blocks=self.blocks or shape.blocks)


DIRECT = Family("direct convolution", DirectChoice(), (
    DirectChoice(blocks=1), DirectChoice(pixels=64), DirectChoice(blocks=2), DirectChoice(register=12),
    DirectChoice(pixels=128), DirectChoice(grain=8)))


@dataclass(frozen=True)
class WeightChoice:
    """Changes to a conv_weight.Blocking; 0 leaves what the cost model says. `vectors` and `entries`: of a
    register block; `outputs`: channels of a task at least; `grain`: as above."""

    vectors: int = 0
    entries: int = 0
    outputs: int = 0
    grain: int = 1

    def blocking(self, plan):
        """The Blocking to use in place of the usual one."""
        return replace(plan, vectors=self.vectors or plan.vectors, entries=self.entries or plan.entries,
                       outputs=self.outputs or plan.outputs)


WEIGHT = Family("weight gradient", WeightChoice(), (
    WeightChoice(outputs=1024), WeightChoice(outputs=128), WeightChoice(vectors=4, entries=6),
    WeightChoice(entries=8), WeightChoice(grain=8)))
