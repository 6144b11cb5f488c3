"""The gradient of a 3 x 3 window's weight by Winograd's algorithm: the transpose of compiler.conv_winograd.

    for each task: (group, partial sum, block of input channels, block of output channels):   the extent
        for each strip of the partial sum: squares of 2 x 2 results, at most SQUARES
            V[16][square][channel]          the 4 x 4 places that each square sees, transformed
            for each panel of output channels:
                G[16][square][output]       the square's gradients, transformed
                for each of the 16: sums[channel][output] += V * G, over the squares
        turn the sums to (output, channel, tap), where there is one partial sum; else a second kernel does

Order of additions: the squares of a strip one after the other, by fma from zero; the strips of a partial sum,
the partial sums, the transforms. It follows from the sizes alone. What is not finite is computed again, as a
plain sum over all pixels.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.compiler.conv_schedule import (Axis, Register, Shape, launch_sized, maximum, minimum,
                                             register_pixels)
from flambeau.compiler.conv_strip import SIZES
from flambeau.compiler.conv_winograd import (CHANNELS, PAD, PARTS, SQUARES, STRIP, TAPS, Squares, both_axes,
                                             worth)
from flambeau.compiler.gemm_pack import turned
from flambeau.ir import loops as L
from flambeau.types.dtype import int64

PLANNED = ("columns", "segments", "rows", "images", "strips", "share", "partials", "panels", "task_panels",
           "taken")
PARAMS = (*SIZES, *PLANNED)
TASKS = 8               # more partial sums only while there are fewer tasks
OUTPUTS = (64, 256)     # output channels of a task, least and most: each task transforms its own


def weight_shape(dtype, target=None):
    """The conv_schedule.Shape: lanes, vectors, and channels of a register block in `block_pixels`."""
    target = target or targets.current()
    lanes = target.vector_bytes // dtype.itemsize
    return Shape(lanes, 2, register_pixels(target), lanes, SQUARES, STRIP, 0, 4, False)


def plan_sizes(shape, groups, N, C, K, OH, OW, taken=1):
    """The params PLANNED for sizes of a group, ints or Registers; of them only the panels depend on lanes.

    columns, rows, images: of squares, of a strip; segments: parts of a row; strips: in all; share: strips of a
    partial sum; partials: how many partial sums there are; panels: of output channels, in all and of a task.
    """
    down, across = _ceil(OH, 2), _ceil(OW, 2)
    segments = maximum(_ceil(across, SQUARES), 1)
    columns = maximum(_ceil(across, segments), 1)
    blocks = maximum(_ceil(down, maximum(minimum(SQUARES // columns, down), 1)), 1)
    rows = maximum(_ceil(down, blocks), 1)
    whole = 1 // (blocks * segments)
    images = maximum(minimum(SQUARES // (rows * columns), N) * whole, 1)
    strips = _ceil(N, images) * blocks * segments
    others = maximum(groups * _ceil(C, CHANNELS), 1)
    least, most = OUTPUTS
    outputs = minimum(maximum(K // (_ceil(TASKS, others) * least), 1) * least, most)
    partials = minimum(_ceil(TASKS, others * maximum(_ceil(K, outputs), 1)), maximum(strips, 1))
    share = _ceil(strips, partials)
    partials = _ceil(strips, maximum(share, 1))
    panels, task_panels = _ceil(K, shape.outputs), outputs // shape.outputs
    return dict(zip(PLANNED, (columns, segments, rows, images, strips, share, partials, panels * taken,
                              task_panels, taken)))


def _ceil(size, by):
    return (size + by - 1) // by


def partial_size(shape, groups, channels, planned):
    """Elements of the buffer of partial sums."""
    room = _room(shape) * PARTS * shape.outputs
    return planned["partials"] * planned["panels"] * _ceil(channels, CHANNELS) * (groups * room)


def _room(shape):
    """Channels of a block of them, as many as register blocks write."""
    return -(-CHANNELS // shape.block_pixels) * shape.block_pixels


def weight_kernels(shape, spec):
    """(the kernel of the partial sums, the one that adds them up). Buffers of both: source (N, groups * C, H,
    W), gradient (N, groups * K, OH, OW), partial, of the accumulator's dtype and `partial_size`, and
    result (groups * K, C, 3, 3). Params: PARAMS."""
    axes = tuple(Axis(4, 0, 1, -padding, 2, 1) for padding in spec.padding)
    made = []
    for name, make, access in (("conv2d_winograd_weight", _Sums, "rw"), ("conv2d_winograd_fold", _Fold, "r")):
        writer = make(shape, spec, axes)
        buffers = (L.Buffer("source", spec.dtype, "r"), L.Buffer("gradient", spec.dtype, "r"),
                   L.Buffer("partial", spec.accumulator, access), L.Buffer("result", spec.dtype, "w"))
        made.append(L.Kernel(name, buffers, PARAMS, writer.extent(), writer.body()))
    return tuple(made)


def launch(recipe, inputs, out, spec, sizes, work):
    """Plan the gradient where the sizes make it worth while; returns `taken`. `inputs`: input and gradient of the
    output; sizes: N, C, H, W, K, OH, OW, ints and Registers."""
    groups, shape = spec.groups, weight_shape(spec.accumulator)
    sizes = {**sizes, "C": sizes["C"] // groups, "K": sizes["K"] // groups, "D": 1, "OD": 1}
    n, c, k, height, width = (sizes[name] for name in ("N", "C", "K", "OH", "OW"))
    taken = worth(n, c, k, height, width)
    planned = plan_sizes(shape, groups, n, c, k, height, width, taken)
    room = Register.number_of(recipe, partial_size(shape, groups, c, planned))
    partial = recipe.buffer_of(spec.accumulator, room)
    for kernel in weight_kernels(shape, spec):
        launch_sized(recipe, kernel, [*inputs, partial, out], {**sizes, **planned}, work)
    return taken


def spread(b, g):
    """What two gradients give to the products of an axis."""
    return [g[0], b.add(g[0], g[1]), b.sub(g[0], g[1]), b.neg(g[1])]


def gathered(b, m):
    """The three taps' gradients of four products."""
    half = b.const(0.5, m[0].dtype, m[0].lanes)
    ends, middle = b.mul(b.add(m[1], m[2]), half), b.mul(b.sub(m[1], m[2]), half)
    return [b.add(m[0], ends), middle, b.add(ends, m[3])]


# ---------------------------------------------------------------------------------------------- kernels
class _Kernel(Squares):
    def __init__(self, shape, spec, axes):
        self.shape, self.groups = shape, spec.groups
        self.rows, self.columns = ((axis,) for axis in axes)
        self.dtype, self.stored = spec.accumulator, spec.dtype
        self.size = {name: I.index(name) for name in PARAMS}
        self.channel_room = _room(shape)

    def channel_blocks(self):
        return I.ceil_div(self.size["C"], CHANNELS)

    def choose_channels(self, block):
        b = self.b
        self.first_channel = b.let(I.mul(block, CHANNELS), "first_channel")
        self.channels = b.let(I.minimum(I.sub(self.size["C"], self.first_channel), CHANNELS), "channels_here")

    def partial_start(self, partial, panel, block):
        """Where the sums of a panel and a block of channels stand, as [16][channel][output]."""
        number = I.add(I.mul(I.add(I.mul(partial, self.groups), self.group), self.size["panels"]), panel)
        return I.mul(I.add(I.mul(number, self.channel_blocks()), block), PARTS * self.channel_room * self.shape.outputs)

    def fold(self, panel, vector, start):
        """The gradient for the chosen channels and a vector of a panel's outputs; `start`: of the first
        partial sum's."""
        b, lanes, size = self.b, self.shape.lanes, self.size
        first = I.add(I.mul(panel, self.shape.outputs), I.mul(vector, lanes))
        self.first = b.let(first)
        self.there = b.let(I.minimum(I.sub(size["K"], self.first), lanes))
        zero = b.const(0.0, self.dtype, lanes)
        bad = b.declare(zero)
        step = b.let(I.mul(size["panels"], self.channel_blocks(), self.groups * PARTS * self.channel_room * self.shape.outputs))
        with b.loop("c_fold", 0, self.channels) as c:
            near = b.let(I.add(start, I.mul(c, self.shape.outputs), I.mul(vector, lanes)))
            sums = [b.declare(zero) for _ in range(PARTS)]
            with b.loop("p", 0, size["partials"]) as p:
                at = b.let(I.add(near, I.mul(p, step)))
                for part, total in enumerate(sums):
                    place = I.add(at, part * self.channel_room * self.shape.outputs)
                    b.assign(total, L.apply("add", total, L.Load(self.dtype, lanes, "partial", place)))
            to = b.let(I.mul(c, TAPS * lanes))
            square = both_axes(b, gathered, [sums[n:n + 4] for n in range(0, PARTS, 4)])
            for tap, value in enumerate(v for row in square for v in row):
                b.assign(bad, L.apply("fma", value, zero, bad))
                b.store("entries", I.add(to, tap * lanes), value)
        total = b.let(L.apply("reduce_add", bad))
        with b.branch(L.apply("ne", total, total)):
            self.correct()
        self.write()

    def write(self):
        """Turn the entries, [channel and tap][output], and store them."""
        b, lanes, size = self.b, self.shape.lanes, self.size
        count = b.let(I.mul(self.channels, TAPS))
        outputs = I.add(I.mul(self.group, size["K"]), self.first)
        base = b.let(I.mul(I.add(I.mul(outputs, size["C"]), self.first_channel), TAPS))
        with b.loop("entry", 0, count, lanes) as entry:
            at = b.let(I.mul(entry, lanes))
            mask = b.let(I.lanes_below(I.sub(count, entry), lanes))
            vectors = [b.load("entries", I.add(at, n * lanes), self.dtype, lanes) for n in range(lanes)]
            for n, vector in enumerate(turned(b, vectors)):
                inside = L.apply("and", mask, L.splat(L.apply("lt", L.as_index(n), self.there), lanes))
                place = I.add(base, I.mul(size["C"], n * TAPS), entry)
                b.store("result", place, b.cast(vector, self.stored), b.let(inside))

    def correct(self):
        """Compute the entries that are not finite again, one by one."""
        b, lanes = self.b, self.shape.lanes
        with b.loop("c_again", 0, self.channels) as c, b.loop("r", 0, 3) as r, b.loop("s", 0, 3) as s, \
                b.loop("k", 0, self.there) as k:
            place = b.let(I.add(I.mul(I.add(I.mul(c, TAPS), I.mul(r, 3), s), lanes), k))
            value = b.load("entries", place, self.dtype)
            gone = b.let(L.apply("sub", value, value))
            with b.branch(L.apply("ne", gone, gone)):
                b.store("entries", place, self.single(I.add(self.first_channel, c), I.add(self.first, k), r, s))

    def single(self, c, k, r, s):
        """One entry as a plain sum over all pixels; what is NaN stays so."""
        b, size, dtype = self.b, self.size, self.dtype
        c, k = (b.let(I.add(I.mul(self.group, size[name]), n)) for name, n in (("C", c), ("K", k)))
        total = b.declare(b.const(0.0, dtype))
        with b.loop("n", 0, size["N"]) as n, b.branch(L.apply("eq", total, total)), \
                b.loop("y", 0, size["OH"]) as y:
            row = b.let(I.add(y, r, self.rows[0].origin))
            source = I.add(I.mul(n, size["C"], self.groups), c)
            source = b.let(I.mul(I.add(I.mul(source, size["H"]), row), size["W"]))
            gradient = I.add(I.mul(n, size["K"], self.groups), k)
            gradient = b.let(I.mul(I.add(I.mul(gradient, size["OH"]), y), size["OW"]))
            there = b.and_(L.apply("ge", row, L.as_index(0)), L.apply("lt", row, size["H"]))
            with b.loop("x", 0, size["OW"]) as x:
                column = b.let(I.add(x, s, self.columns[0].origin))
                inside = b.and_(L.apply("ge", column, L.as_index(0)), L.apply("lt", column, size["W"]))
                value = b.declare(b.const(0.0, dtype))
                with b.branch(b.and_(there, inside)):
                    b.assign(value, b.cast(b.load("source", I.add(source, column), self.stored), dtype))
                factor = b.cast(b.load("gradient", I.add(gradient, x), self.stored), dtype)
                b.assign(total, L.apply("fma", value, factor, total))
        return b.let(total)


class _Fold(_Kernel):
    def extent(self):
        several = I.minimum(I.maximum(I.sub(self.size["partials"], 1), 0), 1)
        return I.mul(several, I.mul(self.size["panels"], self.groups * self.shape.vectors), self.channel_blocks())

    def body(self):
        self.b = b = L.Builder("f")
        blocks = b.let(self.channel_blocks())
        with b.loop("number", L.BEGIN, L.END) as number:
            rest, block = b.let(I.div(number, blocks)), b.let(I.rem(number, blocks))
            vector, rest = b.let(I.rem(rest, self.shape.vectors)), b.let(I.div(rest, self.shape.vectors))
            panel, self.group = b.let(I.rem(rest, self.size["panels"])), b.let(I.div(rest, self.size["panels"]))
            self.choose_channels(block)
            self.fold(panel, vector, b.let(self.partial_start(0, panel, block)))
        b.local("entries", self.dtype, (CHANNELS * TAPS + self.shape.lanes) * self.shape.lanes)
        return b.body()


class _Sums(_Kernel):
    row_step, part_step = CHANNELS + PAD, SQUARES * (CHANNELS + PAD)       # of V, [16][square][channel]

    def extent(self):
        size = self.size
        outputs = I.ceil_div(size["panels"], size["task_panels"])
        return I.mul(I.mul(size["partials"], self.groups), I.mul(self.channel_blocks(), outputs))

    def body(self):
        self.b = b = L.Builder("g")
        size, lanes = self.size, self.shape.lanes
        output_blocks = b.let(I.ceil_div(size["panels"], size["task_panels"]))
        channel_blocks = b.let(self.channel_blocks())
        with b.loop("task", L.BEGIN, L.END) as task:
            rest, output_block = self.split(task, output_blocks)
            rest, self.channel_block = self.split(rest, channel_blocks)
            self.partial, self.group = self.split(rest, self.groups)
            self.choose_channels(self.channel_block)
            self.first_panel = b.let(I.mul(output_block, size["task_panels"]), "first_panel")
            self.last_panel = b.let(I.minimum(size["panels"], I.add(self.first_panel, size["task_panels"])))
            start = b.let(I.mul(self.partial, size["share"]))
            stop = b.let(I.minimum(I.add(start, size["share"]), size["strips"]))
            one = L.apply("eq", size["partials"], L.as_index(1))
            with b.loop("strip_number", start, stop) as strip:
                self.is_first = b.let(L.apply("eq", strip, start), "is_first")
                self.completes = b.let(b.and_(L.apply("eq", I.add(strip, 1), stop), one), "completes")
                self.place_strip(strip)
                self.run_tile()
        b.local("places", int64, SQUARES + self.shape.block_pixels)
        b.local("seen", self.dtype, PARTS * self.part_step)
        b.local("spread", self.dtype, PARTS * SQUARES * self.shape.outputs)
        b.local("strip", self.dtype, STRIP + lanes * lanes)
        b.local("turned", self.dtype, STRIP + lanes * lanes)
        b.local("entries", self.dtype, (CHANNELS * TAPS + lanes) * lanes)
        return b.body()

    def place_strip(self, number):
        """Which squares of which images a strip has."""
        b, size = self.b, self.size
        rest, segment = self.split(number, size["segments"])
        block, row_block = self.split(rest, b.let(I.ceil_div(self.down(), size["rows"])))
        image = b.let(I.mul(block, size["images"]), "first_image")
        self.images = b.let(I.minimum(size["images"], I.sub(size["N"], image)), "images_here")
        self.image_group = b.let(I.add(I.mul(image, self.groups), self.group), "image_group")
        self.y, self.x = b.let(I.mul(row_block, size["rows"])), b.let(I.mul(segment, size["columns"]))
        self.tile_rows = b.let(I.minimum(size["rows"], I.sub(self.down(), self.y)), "rows_here")
        across = I.ceil_div(size["OW"], 2)
        self.tile_columns = b.let(I.minimum(size["columns"], I.sub(across, self.x)), "columns_here")
        self.pitch = b.let(I.add(I.mul(self.tile_columns, 2), 2), "pitch")
        self.row_axis, self.source_depth = self.chosen(self.rows, 0), L.as_index(0)

    def down(self):
        return I.ceil_div(self.size["OH"], 2)

    def run_tile(self):
        b = self.b
        self.measure_tile()
        self.pack_planes()
        self.note_places()
        self.see(self.first_channel, self.channels)
        self.measure_gradients()
        with b.loop("panel", self.first_panel, self.last_panel) as panel:
            self.transform_gradients(panel)
            # sums that are complete after a strip need no place of their own for each panel
            alone = b.and_(self.completes, self.is_first)
            place = b.let(L.apply("select", alone, self.first_panel, panel))
            start = b.let(self.partial_start(self.partial, place, self.channel_block))
            left = I.sub(self.size["K"], I.mul(panel, self.shape.outputs))
            few = b.let(L.apply("le", left, L.as_index(self.shape.lanes)))
            for vectors, this in ((1, few), (self.shape.vectors, b.not_(few))):
                with b.branch(this):
                    self.multiply(vectors, start)
            with b.branch(self.completes), b.loop("vector", 0, self.shape.vectors) as vector:
                self.fold(panel, vector, start)

    # ---- gradients
    def measure_gradients(self):
        """Bind how lines of pixels are read: an image's rows in one, where they stand side by side."""
        b, size = self.b, self.size
        self.top, self.left = b.let(I.mul(self.y, 2)), b.let(I.mul(self.x, 2))
        self.width = b.let(I.mul(self.tile_columns, 2))
        height = b.let(I.mul(self.tile_rows, 2))
        self.area = b.let(I.mul(height, self.width))
        fits = L.apply("le", I.add(self.top, height), size["OH"])
        whole = b.and_(L.apply("eq", self.width, size["OW"]), fits)
        self.lines = b.let(L.apply("select", whole, L.as_index(1), height))
        self.length = b.let(L.apply("select", whole, self.area, self.width))
        there = I.minimum(self.width, I.sub(size["OW"], self.left))
        self.there_of_line = b.let(L.apply("select", whole, self.area, there))

    def transform_gradients(self, panel):
        b, shape, size = self.b, self.shape, self.size
        first = b.let(I.mul(panel, shape.outputs))
        left = I.minimum(shape.outputs, I.sub(size["K"], first))
        with b.loop("v", 0, left, shape.lanes) as v:
            with b.loop("i_g", 0, self.images) as i, b.loop("line", 0, self.lines) as line:
                self.turn_line(b.let(I.add(first, v)), i, line)
            self.spread_squares(v)

    def turn_line(self, output, image, line):
        """A line of pixels of a vector of outputs to [pixel][output]; zeros beyond the image."""
        b, lanes, size = self.b, self.shape.lanes, self.size
        last, plane = I.sub(size["K"], 1), b.let(I.mul(size["OH"], size["OW"]))
        image_start = I.mul(I.add(self.image_group, I.mul(image, self.groups)), size["K"])
        row = b.let(I.add(self.top, line))
        base = b.let(I.add(I.mul(image_start, plane), I.mul(row, size["OW"]), self.left))
        rows = [b.let(I.add(base, I.mul(I.minimum(I.add(output, n), last), plane))) for n in range(lanes)]
        inside = L.apply("lt", row, size["OH"])
        there = b.let(L.apply("select", inside, self.there_of_line, L.as_index(0)))
        start = b.let(I.add(I.mul(image, self.area), I.mul(line, self.length)))
        zero = b.const(0.0, self.stored, lanes)
        with b.loop("x_g", 0, self.length, lanes) as x:
            mask = b.let(I.lanes_below(I.sub(there, x), lanes))
            vectors = [b.cast(b.load("gradient", I.add(r, x), self.stored, lanes, mask, zero), self.dtype)
                       for r in rows]
            at = b.let(I.mul(I.add(start, x), lanes))
            for n, vector in enumerate(turned(b, vectors)):
                b.store("turned", I.add(at, n * lanes), vector)

    def spread_squares(self, v):
        b, lanes = self.b, self.shape.lanes
        below = b.let(I.mul(self.width, lanes))
        with b.loop("i_s", 0, self.images) as i, b.loop("y_s", 0, self.tile_rows) as y, \
                b.loop("x_s", 0, self.tile_columns) as x:
            pixel = I.add(I.mul(i, self.area), I.mul(I.mul(y, 2), self.width), I.mul(x, 2))
            at = b.let(I.mul(pixel, lanes))
            square = [[b.load("turned", I.add(start, column * lanes), self.dtype, lanes) for column in (0, 1)]
                      for start in (at, b.let(I.add(at, below)))]
            number = I.add(I.mul(i, self.image_pixels), I.mul(y, self.tile_columns), x)
            to = b.let(I.add(I.mul(number, self.shape.outputs), v))
            for part, value in enumerate(value for row in both_axes(b, spread, square) for value in row):
                b.store("spread", I.add(to, part * SQUARES * self.shape.outputs), value)

    # ---- sums
    def multiply(self, vectors, start):
        b, step = self.b, self.shape.block_pixels
        with b.loop("part", 0, PARTS) as part, b.loop("c_block", 0, self.channels, step) as c:
            sums = self.register_block(vectors, part, c)
            at = I.add(start, I.mul(I.add(I.mul(part, self.channel_room), c), self.shape.outputs))
            self.add_to_partial(sums, b.let(at))

    def register_block(self, vectors, part, c):
        """Sums over the strip's squares for some channels from `c` on."""
        b, shape, dtype, lanes = self.b, self.shape, self.dtype, self.shape.lanes
        values = b.let(I.add(I.mul(part, self.part_step), c))
        gradients = b.let(I.mul(part, SQUARES * shape.outputs))
        sums = [[b.declare(b.const(0.0, dtype, lanes)) for _ in range(vectors)] for _ in range(shape.block_pixels)]
        with b.loop("square", 0, self.pixels) as square:
            at = b.let(I.add(gradients, I.mul(square, shape.outputs)))
            right = [b.load("spread", I.add(at, v * lanes), dtype, lanes) for v in range(vectors)]
            value = b.let(I.add(values, I.mul(square, self.row_step)))
            for n, row in enumerate(sums):
                left = b.let(L.splat(b.load("seen", I.add(value, n), dtype), lanes))
                for v, total in enumerate(row):
                    b.assign(total, L.apply("fma", left, right[v], total))
        return sums

    def add_to_partial(self, sums, at):
        b, lanes = self.b, self.shape.lanes
        places = [[I.add(at, n * self.shape.outputs + v * lanes) for v in range(len(row))]
                  for n, row in enumerate(sums)]

        def each(value):
            for row, variables in zip(places, sums):
                for place, variable in zip(row, variables):
                    b.store("partial", place, value(place, variable))

        with b.branch(self.is_first):
            each(lambda place, value: value)
        with b.branch(b.not_(self.is_first)):
            each(lambda place, value: L.apply("add", L.Load(self.dtype, lanes, "partial", place), value))
