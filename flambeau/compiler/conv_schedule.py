"""How a direct convolution is cut: what a kernel fixes (`Shape`, from window, dtype and processor) and the
sizes of tiles, which follow from those of the tensors (`schedule`). Only the channels of a Shape, which
depend on the window, have a say in the bits."""

from dataclasses import dataclass
from math import gcd

from flambeau.compiler import target as targets
from flambeau.compiler.recipe import ADD, FLOORDIV, MAX, MIN, MUL, SUB, WORK

DEPTH = 256             # taps x channels that a register block adds between two visits to the tile, at most
MOST_CHANNELS = 128
STRIP = 32768           # elements of the strip of the source that a tile packs at a time
SUMS = 16384            # of a tile
PIXELS = 256            # pixels of a tile, at most
MOST_BLOCKS = 4         # blocks of output channels in a tile
SHARES = 8              # at least so many parts of the work, where it can be cut into as many
ENOUGH_ROWS = 32        # a tile has one block of output channels while there are fewer rows to share out
APART = 8               # rows between taps from which on the rows in between are not packed
MOST_REACH = 1 << 18    # elements of a strip for 16 pixels, which stands on the stack
_FAR = 1 << 40


@dataclass(frozen=True)
class Axis:
    """One axis of a window, seen from the result at t = 0, 1, ...: tap number j is tap `first + j * tap_step`
    of the weight and sees the source at `origin + t * stride + j * step`, for j < count.

    The gradient of a strided convolution's input has `stride` such classes: places start, start + stride, ...
    """

    count: int
    first: int
    tap_step: int
    origin: int
    stride: int
    step: int

    @property
    def span(self):
        """How far the taps of one place reach, in places of the source."""
        return max(self.count - 1, 0) * self.step + 1


FLAT = Axis(1, 0, 1, 0, 1, 1)       # each place sees the source's place of its number


def forward_axis(kernel, stride, padding, dilation):
    """The classes of places of a convolution's output: one."""
    return (Axis(kernel, 0, 1, -padding, stride, dilation),)


def backward_axis(kernel, stride, padding, dilation):
    """The classes of places of a convolution's input, by their remainder modulo the stride.

    Place y was seen by output (y + padding - tap * dilation) / stride where that is whole: in each class the
    same taps, evenly spaced. They are taken from the last to the first, so that the source goes forwards.
    """
    spread = gcd(stride, dilation)
    classes = []
    for start in range(stride):
        taps = [tap for tap in range(kernel) if (start + padding - tap * dilation) % stride == 0]
        last = taps[-1] if taps else 0
        origin = (start + padding - last * dilation) // stride if taps else 0
        tap_step, step = (-(stride // spread), dilation // spread) if kernel > 1 else (1, 1)
        classes.append(Axis(len(taps), last, tap_step, origin, 1, step))
    return tuple(classes)


@dataclass(frozen=True)
class Shape:
    """Sizes that are part of a kernel: lanes of a vector, vectors and most pixels of a register block,
    channels of the source that are added up between two visits to the sums; for a tile its most pixels (of
    each class of columns) and how many elements its strip of the source and its sums may have; and how many
    rows of the source a row of the result sees (`tall`). Where taps are far `apart`, a tile has one row, and
    its strip only the rows of the taps. `blocks`: of output channels in a tile at most. `shares`: so many parts
    of the work at least, `enough` where rows are shared out, one by one or, `by_tile`, as many as a tile has."""

    lanes: int
    vectors: int
    block_pixels: int
    channels: int
    pixels: int
    strip: int
    sums: int
    tall: int
    apart: bool
    blocks: int = MOST_BLOCKS
    shares: int = SHARES
    enough: int = ENOUGH_ROWS
    by_tile: bool = False

    @property
    def outputs(self):
        """Channels of the result in a block."""
        return self.lanes * self.vectors


def register_pixels(target):
    """Pixels of a register block that is two vectors wide: more would fit in 32 registers, but not help."""
    return 8 if target.vector_bytes == 64 or not target.is_x86 else 6


def kernel_shape(rows, columns, dtype, target=None):
    """The Shape for the classes of both axes. Its channels depend on the window alone."""
    target = target or targets.current()
    lanes = target.vector_bytes // dtype.itemsize
    taps = max(1, most(rows, "count") * most(columns, "count"))
    apart = rows[0].step > APART
    tall = most(rows, "count" if apart else "span")
    reach = tall * (seen_width(columns) + 15 * most(columns, "stride"))
    if reach > MOST_REACH:
        wide = seen_width(columns)
        raise ValueError(f"[convolution] a window of {tall} rows is too wide with {wide} columns")
    channels = MOST_CHANNELS
    while channels > 1 and (channels * taps > DEPTH or channels * reach > STRIP):
        channels //= 2
    pixels = max(PIXELS // len(columns), lanes)
    sums = max(SUMS, pixels * len(columns) * 2 * lanes)
    strip = max(STRIP, channels * reach)
    return Shape(lanes, 2, register_pixels(target), channels, pixels, strip, sums, tall, apart)


def first_seen(columns):
    """Where the first column stands that a result's first place sees, of any class."""
    return min((axis.origin for axis in columns if axis.count), default=0)


def seen_width(columns):
    """How many columns of the source the first places of all classes see."""
    first = first_seen(columns)
    return max((axis.origin - first + axis.span for axis in columns if axis.count), default=1)


def most(classes, name):
    return max(getattr(axis, name) for axis in classes)


SCHEDULE = ("height", "steps", "inside", "tile_images", "tile_rows", "tile_columns", "column_tiles",
            "tile_blocks", "block_tiles")


def schedule(shape, rows, columns, groups, batch, deep, channels, outputs, height, width, packs=1):
    """Tile sizes for results of `batch` images, `deep` x `height` x `width`, channels -> outputs in each
    group: ints or Registers.

    A tile has whole rows of the result, as many as its sums and its strip of the source allow, or a part of
    one row where that is too wide, or several whole images; and several blocks of output channels, so that a
    strip is packed seldom. 'height' is the number of rows in a class. 'inside' is 1 where the tiles pack the
    weights: where they can (`packs`) and no two of them see the same ones. A strip (the rows of the result
    that tiles are cut from) is done in 'steps' that may run on different threads: rows, tiles, or one.
    """
    height, width = _ceil(height, len(rows)), maximum(_ceil(width, len(columns)), 1)
    rows_of = maximum(height, 1)
    planes = groups * len(rows) * deep
    channels, capacity = maximum(minimum(channels, shape.channels), 1), shape.strip
    tall, wide = shape.tall, seen_width(columns)
    room = (capacity // (channels * tall) - wide) // most(columns, "stride") + 1
    column_tiles = _ceil(width, minimum(shape.pixels, maximum(room, 1)))
    spread = maximum(shape.shares // maximum(planes * batch * height, 1), 1)
    column_tiles += (_ceil(column_tiles, spread) * spread - column_tiles) * minimum(column_tiles - 1, 1)
    tile_columns = _ceil(width, column_tiles)
    pitch = (tile_columns - 1) * most(columns, "stride") + wide
    room = (capacity // (channels * pitch) - tall) // most(rows, "stride") + 1
    tile_rows = 1 if shape.apart else minimum(minimum(room, shape.pixels // tile_columns), height)
    tile_rows = maximum(tile_rows // (1 + (column_tiles - 1) * _FAR), 1)    # one, if rows are cut
    tile_rows = maximum(_ceil(height, _ceil(height, tile_rows)), 1)
    blocks = _ceil(outputs, shape.outputs)
    whole = 1 // (column_tiles * maximum(_ceil(height, tile_rows), 1))      # 1: a tile has all of an image
    whole *= minimum(outputs // (shape.lanes // 2 + 1), 1)                  # and lanes are output channels
    strip = channels * pitch * ((rows_of - 1) * most(rows, "stride") + tall)
    images = minimum(minimum(shape.pixels // (rows_of * tile_columns), capacity // strip) * whole,
                     planes * batch * blocks // shape.shares)
    image_tiles = _ceil(batch, maximum(images, 1))
    images = maximum(_ceil(batch, maximum(image_tiles, 1)), 1)
    pixel_tiles = maximum(len(rows) * deep * image_tiles, 1)
    inside = packs * whole * (1 // pixel_tiles) * minimum(groups * pixel_tiles * blocks // shape.shares, 1)
    parts = maximum(_ceil(height, tile_rows), 1) if shape.by_tile else rows_of
    steps = 1 + (parts - 1) * (1 // images) * (1 - inside)
    block_sums = _ceil(images * tile_rows * tile_columns, shape.block_pixels) * shape.block_pixels
    tile_blocks = minimum(shape.blocks, shape.sums // (block_sums * (shape.outputs * len(columns))))
    enough = shape.shares + (shape.enough - shape.shares) * minimum(steps - 1, 1)
    tile_blocks = minimum(tile_blocks, planes * image_tiles * steps * column_tiles * blocks // enough)
    tile_blocks = minimum(maximum(tile_blocks // 2 * 2, 1), blocks)
    return dict(zip(SCHEDULE, (height, steps, inside, images, tile_rows, tile_columns, column_tiles,
                               tile_blocks, _ceil(blocks, tile_blocks))))


def _ceil(size, by):
    return (size + by - 1) // by


class Register:
    """A size that a plan computes when it runs: arithmetic on it adds steps to the recipe."""

    def __init__(self, recipe, number):
        self.recipe, self.number = recipe, number

    @classmethod
    def of(cls, recipe, size):
        """`size`, an int or a Dim: ints stay ints."""
        return size if isinstance(size, int) else cls(recipe, recipe.register(size))

    @staticmethod
    def number_of(recipe, size):
        """The number of the register of a size: an int or a Register."""
        return size.number if isinstance(size, Register) else recipe.register(size)

    def _step(self, operation, a, b):
        a, b = (v.number if isinstance(v, Register) else self.recipe.register(v) for v in (a, b))
        return Register(self.recipe, self.recipe.compute(operation, a, b))

    def __add__(self, other):
        return self._step(ADD, self, other)

    def __sub__(self, other):
        return self._step(SUB, self, other)

    def __mul__(self, other):
        return self._step(MUL, self, other)

    def __floordiv__(self, other):
        return self._step(FLOORDIV, self, other)

    def __rfloordiv__(self, other):
        return self._step(FLOORDIV, other, self)

    def __rsub__(self, other):
        return self._step(SUB, other, self)

    __radd__, __rmul__ = __add__, __mul__


def minimum(a, b):
    """The smaller of two ints or Registers."""
    return _choose(MIN, min, a, b)


def maximum(a, b):
    """The larger of two ints or Registers."""
    return _choose(MAX, max, a, b)


def _choose(operation, of_ints, a, b):
    if isinstance(a, int) and isinstance(b, int):
        return of_ints(a, b)
    size = a if isinstance(a, Register) else b
    return size._step(operation, a, b)


def launch_sized(recipe, kernel, operands, sizes, work, grain=1):
    """Add the launch of a kernel. `sizes`: ints and Registers by the names of its params; work: a size, the
    scalar operations in all, from which the grain follows, and which `grain` multiplies."""
    registers = {name: Register.number_of(recipe, size) for name, size in sizes.items()}
    one = recipe.register(1)
    extent = recipe.expression(kernel.extent, registers)
    step = recipe.compute(FLOORDIV, recipe.register(work), recipe.compute(MAX, extent, one))
    grain = recipe.compute(FLOORDIV, recipe.register(4 * WORK * grain), recipe.compute(MAX, step, one))
    params = [registers[p] for p in kernel.params]
    recipe.launch(kernel, operands, params, extent, recipe.compute(MAX, grain, one))
