"""The gradient of a convolution's weight: sums over all output pixels, in registers.

    for each task: (group, partial sum, block of input channels, block of output channels):   the extent
        for each strip of the partial sum: rows of an image, or whole images where they are small
            copy the channels of the input with their padding             packed_x[channel][row][column]
            for each panel of output channels:
                transpose its gradients                                   packed_g[pixel][output channel]
                for each tile of (channels, taps): for each pixel of the strip:
                    sums[channel, tap] += x[channel, pixel moved by tap] * g[pixel]     lanes: output channels
                add the sums to the partial sum

The partial sums are added and turned to (output channel, channel, tap) by a second kernel, or where there is
only one by its task. Both kernels know the window; sizes are params, in the order of PARAMS: those of the
convolution, then the ones of `plan_sizes`.

Order of additions: the pixels of a strip one after the other, the strips of a partial sum, the partial sums.
It follows from the sizes alone; tiles and panels, which depend on the processor, leave it as it is.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.compiler import conv_winograd, conv_winograd_weight
from flambeau.compiler.conv_choices import WEIGHT
from flambeau.compiler.conv_schedule import Register, launch_sized, maximum, minimum
from flambeau.compiler.gemm_pack import turned
from flambeau.ir import loops as L
from flambeau.types.dtype import int64

SIZES = ("N", "C", "H", "W", "K", "OH", "OW")
PLANNED = ("columns", "segments", "rows", "images", "strips", "share", "partials", "panels", "task_panels")
PARAMS = (*SIZES, *PLANNED)
PIXELS = 256                # of a strip at most: its sums start from zero, which keeps them accurate
COLUMNS = 64                # of a strip at most
ROWS = 4                    # rows of so many pixels for which there is room in any case
SMALL = 4                   # rows and columns of an image of which a strip has as many as there are pixels
ROOM = 40960                # elements of the packed input
ENOUGH_TASKS = 16           # more partial sums only while there are fewer tasks
OUTPUTS = 64                # output channels of a task at least


@dataclass(frozen=True)
class Blocking:
    """A vector's lanes, the vectors of a panel of output channels, (channel, tap) pairs of a tile, and output
    channels of a task at least."""

    lanes: int
    vectors: int
    entries: int
    outputs: int = OUTPUTS

    @property
    def panel(self):
        """Output channels of a panel."""
        return self.lanes * self.vectors


def blocking(dtype, target=None):
    """The Blocking for accumulators of `dtype`: sums, a panel's vectors and one element fit the registers."""
    vector_bytes = (target or targets.current()).vector_bytes
    return Blocking(vector_bytes // dtype.itemsize, 2, 12 if vector_bytes == 64 else 6)


def _reach(spec, axis, count):
    """How many elements of an axis of the input `count` neighbouring windows see."""
    return (count - 1) * spec.stride[axis] + (spec.kernel[axis] - 1) * spec.dilation[axis] + 1


def _columns(spec):
    """Columns of a strip at most: fewer where they see much of a row."""
    return max(min(COLUMNS, 4 * COLUMNS // spec.stride[1]), 8)


def channel_room(spec):
    """Elements of the packed input that each channel has."""
    small = PIXELS // SMALL ** 2 * _reach(spec, 0, SMALL) * _reach(spec, 1, SMALL)
    size = max(_reach(spec, 0, ROWS) * _reach(spec, 1, _columns(spec)), small, PIXELS)
    return -(-size // 16) * 16


def task_channels(spec):
    """Input channels of a task: a power of two, as theirs mostly are."""
    count = min(max(ROOM // channel_room(spec), 1), 128)
    return 1 << count.bit_length() - 1


def plan_sizes(spec, sizes, target=None, plan=None):
    """The params PLANNED for the convolution's sizes (a dict), ints or Registers; only the last two depend on
    the target or the Blocking in place of its own.

    columns, rows, images: of a strip; segments: parts of a row; strips: in all; share: strips of a partial
    sum; partials: how many partial sums there are; panels: of output channels, in all and of a task.
    """
    n, c, k, oh, ow = (sizes[name] for name in ("N", "C", "K", "OH", "OW"))
    room = channel_room(spec)
    segments = maximum(_ceil(ow, _columns(spec)), 1)
    columns = maximum((ow + segments - 1) // segments, 1)
    segments = _ceil(ow, columns)
    width = _reach(spec, 1, columns)
    fitting = (room // width - _reach(spec, 0, 1)) // spec.stride[0] + 1
    rows = maximum(minimum(minimum(fitting, PIXELS // columns), oh), 1)
    blocks = maximum((oh + rows - 1) // rows, 1)
    rows = maximum((oh + blocks - 1) // blocks, 1)
    blocks = _ceil(oh, rows)
    most = minimum(room // (_reach(spec, 0, rows) * width), PIXELS // (rows * columns))
    images = maximum(minimum(most, 1 + (oh - rows) * -PIXELS + PIXELS), 1)      # 1 unless it has all rows
    strips = (n + images - 1) // images * blocks * segments
    channel_blocks = _ceil(c // spec.groups, task_channels(spec))
    others = spec.groups * channel_blocks * _ceil(k // spec.groups, OUTPUTS)
    partials = minimum(maximum((ENOUGH_TASKS + others - 1) // maximum(others, 1), 1), strips)
    share = (strips + maximum(partials, 1) - 1) // maximum(partials, 1)
    partials = (strips + maximum(share, 1) - 1) // maximum(share, 1)
    plan = plan or blocking(spec.accumulator, target)
    panels = _ceil(k // spec.groups, plan.panel)
    blocks = maximum(_ceil(ENOUGH_TASKS, spec.groups * maximum(partials, 1) * maximum(channel_blocks, 1)), 1)
    task_panels = maximum(_ceil(panels, blocks), max(plan.outputs // plan.panel, 1))
    return dict(zip(PLANNED, (columns, segments, rows, images, strips, share, partials, panels, task_panels)))


def _ceil(size, by):
    return (size + by - 1) // by


def partial_size(spec, sizes, planned, target=None, plan=None):
    """Elements of the buffer of partial sums."""
    panel = (plan or blocking(spec.accumulator, target)).panel
    return planned["partials"] * planned["panels"] * panel * (sizes["C"] * spec.kernel[0] * spec.kernel[1])


def weight_gradient_sums(spec, name="conv2d_weight_sums", target=None, plan=None):
    """The partial sums, and the result if there is one of them. Buffers: input (N, C, H, W), grad_output
    (N, K, OH, OW), partial: elements of the accumulator's dtype, as many as `partial_size`; grad_weight (K,
    C / groups, R, S). Params: PARAMS. One step of the extent is a task."""
    writer = _Sums(spec, plan or blocking(spec.accumulator, target))
    buffers = (L.Buffer("input", spec.dtype, "r"), L.Buffer("grad_output", spec.dtype, "r"),
               L.Buffer("partial", spec.accumulator, "rw"), L.Buffer("grad_weight", spec.dtype, "w"))
    return L.Kernel(name, buffers, PARAMS, writer.extent(), writer.body())


def weight_gradient_fold(spec, name="conv2d_weight_fold", target=None, plan=None):
    """grad_weight from the partial sums, unless there is one. Buffers: partial, grad_weight. Params:
    PARAMS. One step of the extent is a panel of output channels and a block of (channel, tap) pairs."""
    writer = _Fold(spec, plan or blocking(spec.accumulator, target))
    buffers = L.Buffer("partial", spec.accumulator, "r"), L.Buffer("grad_weight", spec.dtype, "w")
    return L.Kernel(name, buffers, PARAMS, writer.extent(), writer.body())


def launch(planner, inputs, out, spec, sizes, work):
    """Plan it: `inputs` are input and grad_output, `out` is grad_weight, row-major."""
    choice, recipe = planner.choose(WEIGHT), planner.recipe
    plan = choice.blocking(blocking(spec.accumulator))
    sizes = {name: Register.of(recipe, size) for name, size in sizes.items()}
    planned = plan_sizes(spec, sizes, plan=plan)
    room = partial_size(spec, sizes, planned, plan=plan)
    params, left = {**sizes, **planned}, 1
    if conv_winograd.suits(spec):
        left = 1 - conv_winograd_weight.launch(recipe, inputs, out, spec, sizes, work)
        params["panels"] = params["panels"] * left
    partial = recipe.buffer_of(spec.accumulator, Register.number_of(recipe, room * left))
    sums, fold = weight_gradient_sums(spec, plan=plan), weight_gradient_fold(spec, plan=plan)
    launch_sized(recipe, sums, [*inputs, partial, out], params, work, choice.grain)
    launch_sized(recipe, fold, [partial, out], params, work)


# ---------------------------------------------------------------------------------------------- parts
class _Kernel:
    """The sizes, as index expressions."""

    def __init__(self, spec, plan):
        self.spec, self.plan, self.dtype = spec, plan, spec.accumulator
        for size in PARAMS:
            setattr(self, size.lower(), I.index(size))
        self.taps = spec.kernel[0] * spec.kernel[1]
        self.group_inputs, self.group_outputs = I.div(self.c, spec.groups), I.div(self.k, spec.groups)

    def zero(self, lanes):
        return self.b.const(0.0, self.dtype, lanes)

    def read(self, buffer, index, lanes=1, mask=None):
        """Elements of an operand in the accumulator's dtype."""
        other = None if mask is None else self.b.const(0.0, self.spec.dtype, lanes)
        return self.b.cast(self.b.load(buffer, index, self.spec.dtype, lanes, mask, other), self.dtype)

    def panel_start(self, partial, group, panel):
        """Where the partial sums of a panel stand."""
        number = I.add(I.mul(I.add(I.mul(partial, self.spec.groups), group), self.panels), panel)
        return I.mul(number, self.group_inputs, self.taps * self.plan.panel)

    def fold(self, panel, group, first, last, start):
        """grad_weight for the (channel, tap) pairs `first` to `last` of a panel: the partial sums, added,
        the first of which stand at `start`."""
        b, plan = self.b, self.plan
        entries = b.let(I.mul(self.group_inputs, self.taps))
        step = b.let(I.mul(entries, plan.panel, self.panels, self.spec.groups))
        output, group_row = b.let(I.mul(panel, plan.panel)), b.let(I.mul(group, self.group_outputs))
        source = b.let(start)
        with b.loop("v", 0, I.minimum(plan.panel, I.sub(self.group_outputs, output)), plan.lanes) as v, \
                b.loop("entry", first, last, plan.lanes) as entry:
            address = b.let(I.add(source, I.mul(entry, plan.panel), v))
            self.square(address, step, (group_row, b.let(I.add(output, v))), (entry, last, entries))

    def square(self, address, step, row, entry):
        """A vector of output channels (`row`: of which group, and from which one on) and of pairs from
        `entry` on."""
        b, lanes, (group_row, row), (entry, last, entries) = self.b, self.plan.lanes, row, entry
        end = b.let(I.sub(I.sub(last, entry), 1))
        sums = [b.declare(self.zero(lanes)) for _ in range(lanes)]
        near = [b.let(I.add(address, I.mul(I.minimum(n, end), self.plan.panel))) for n in range(lanes)]
        with b.loop("p", 0, self.partials) as p:
            far = b.let(I.mul(p, step))
            for total, place in zip(sums, near):
                part = L.Load(self.dtype, lanes, "partial", I.add(place, far))
                b.assign(total, L.apply("add", total, part))
        mask = b.let(I.lanes_below(I.sub(last, entry), lanes))
        left = b.let(I.sub(self.group_outputs, row))
        for number, values in enumerate(turned(b, sums)):
            inside = L.apply("and", mask, L.splat(L.apply("lt", L.as_index(number), left), lanes))
            target = I.add(I.mul(I.add(group_row, row, number), entries), entry)
            b.store("grad_weight", target, b.cast(values, self.spec.dtype), b.let(inside))


class _Sums(_Kernel):

    def extent(self):
        channel_blocks = I.ceil_div(self.group_inputs, task_channels(self.spec))
        output_blocks = I.ceil_div(self.panels, self.task_panels)
        return I.mul(I.mul(self.partials, self.spec.groups), I.mul(channel_blocks, output_blocks))

    def body(self):
        self.b = b = L.Builder("g")
        spec = self.spec
        self.group_inputs, self.group_outputs = b.let(self.group_inputs), b.let(self.group_outputs)
        self.width = b.let(I.add(I.mul(I.sub(self.columns, 1), spec.stride[1]), _reach(spec, 1, 1)), "width")
        self.height = b.let(I.add(I.mul(I.sub(self.rows, 1), spec.stride[0]), _reach(spec, 0, 1)), "height")
        row_blocks = b.let(I.ceil_div(self.oh, self.rows), "row_blocks")
        channel_blocks = b.let(I.ceil_div(self.group_inputs, task_channels(spec)))
        output_blocks = b.let(I.ceil_div(self.panels, self.task_panels))
        with b.loop("task", L.BEGIN, L.END) as task:
            rest, output_block = self.split(task, output_blocks)
            rest, channel_block = self.split(rest, channel_blocks)
            self.group, self.partial = (I.rem(rest, spec.groups), I.div(rest, spec.groups))
            self.group, self.partial = b.let(self.group, "group"), b.let(self.partial, "part")
            self.first_channel = b.let(I.mul(channel_block, task_channels(spec)), "first_channel")
            channels = I.sub(self.group_inputs, self.first_channel)
            self.channels = b.let(I.minimum(channels, task_channels(spec)))
            self.first_panel = b.let(I.mul(output_block, self.task_panels), "first_panel")
            self.last_panel = b.let(I.minimum(self.panels, I.add(self.first_panel, self.task_panels)))
            start = b.let(I.mul(self.partial, self.share))
            stop = b.let(I.minimum(I.add(start, self.share), self.strips))
            one = L.apply("eq", self.partials, L.as_index(1))
            with b.loop("strip", start, stop) as strip:
                self.is_first = b.let(L.apply("eq", strip, start), "is_first")
                is_last = L.apply("eq", I.add(strip, 1), stop)
                self.completes = b.let(L.apply("and", is_last, one), "completes")
                self.strip(strip, row_blocks)
        slack = 2 * self.plan.lanes
        b.local("places", int64, PIXELS)
        b.local("packed_x", self.dtype, task_channels(spec) * channel_room(spec) + slack)
        b.local("packed_g", self.dtype, (PIXELS + slack) * self.plan.panel)
        return b.body()

    def split(self, number, size):
        quotient = self.b.let(I.div(number, size))
        return quotient, self.b.let(I.sub(number, I.mul(quotient, size)))

    def strip(self, number, row_blocks):
        b = self.b
        rest, segment = self.split(number, self.segments)
        block, row_block = self.split(rest, row_blocks)
        self.image = b.let(I.mul(block, self.images), "image")
        self.row, self.column = b.let(I.mul(row_block, self.rows)), b.let(I.mul(segment, self.columns))
        self.image_count = b.let(I.minimum(self.images, I.sub(self.n, self.image)), "image_count")
        self.row_count = b.let(I.minimum(self.rows, I.sub(self.oh, self.row)), "row_count")
        self.column_count = b.let(I.minimum(self.columns, I.sub(self.ow, self.column)), "column_count")
        self.pack_input()
        self.note_places()
        with b.loop("panel", self.first_panel, self.last_panel) as panel:
            self.pack_gradients(panel)
            # sums that are complete after a strip need no place of their own for each panel
            alone = L.apply("and", self.completes, self.is_first)
            place = L.apply("select", alone, self.first_panel, panel)
            start = b.let(self.panel_start(self.partial, self.group, b.let(place)))
            left = I.sub(self.group_outputs, I.mul(panel, self.plan.panel))
            few = b.let(L.apply("le", left, L.as_index(self.plan.lanes)))
            with b.branch(few):
                self.tiles(start, 1)
            with b.branch(L.apply("not", few)):
                self.tiles(start, self.plan.vectors)
            with b.branch(self.completes):
                first = b.let(I.mul(self.first_channel, self.taps))
                last = b.let(I.add(first, I.mul(self.channels, self.taps)))
                self.fold(panel, self.group, first, last, start)

    # ---- packing
    def pack_input(self):
        """The rows that the strip sees of the task's channels, zero outside of the image; what the next strip
        sees of them is fetched."""
        b, spec, lanes = self.b, self.spec, self.plan.lanes
        self.input_ahead = self.to_next_strip(self.c, I.mul(self.rows, spec.stride[0]), self.h, self.w)
        self.left = b.let(I.sub(I.mul(self.column, spec.stride[1]), spec.padding[1]), "left")
        self.top = b.let(I.sub(I.mul(self.row, spec.stride[0]), spec.padding[0]), "top")
        self.begin = b.let(I.minimum(I.maximum(I.sub(0, self.left), 0), self.width), "begin_inside")
        self.end = b.let(I.maximum(I.minimum(self.width, I.sub(self.w, self.left)), self.begin), "end_inside")
        narrow = b.let(L.apply("le", self.width, L.as_index(2 * lanes)))
        masks = [b.and_(I.lanes_below(I.sub(self.end, start), lanes),
                        b.not_(I.lanes_below(I.sub(self.begin, start), lanes))) for start in (0, lanes)]
        whole = I.add(self.begin, I.mul(I.div(I.sub(self.end, self.begin), lanes), lanes))
        whole = b.let(whole, "whole")
        tail = b.let(I.lanes_below(I.sub(self.end, whole), lanes))
        with b.branch(narrow):
            self.each_line(lambda source, target: self.copy_narrow(source, target, masks))
        with b.branch(b.not_(narrow)):
            self.each_line(lambda source, target: self.copy_wide(source, target, whole, tail))

    def note_places(self):
        """Where in the packed input each pixel of the strip begins to see."""
        b, spec = self.b, self.spec
        image = b.let(I.mul(self.row_count, self.column_count))
        self.pixels = b.let(I.mul(self.image_count, image), "pixels")
        with b.loop("i", 0, self.image_count) as i, b.loop("y", 0, self.row_count) as y:
            row = I.add(I.mul(i, self.height), I.mul(y, spec.stride[0]))
            pixel, place = I.add(I.mul(i, image), I.mul(y, self.column_count)), I.mul(row, self.width)
            pixel, place = b.let(pixel), b.let(place)
            with b.loop("x", 0, self.column_count) as x:
                b.store("places", I.add(pixel, x), b.let(I.add(place, I.mul(x, spec.stride[1]))))

    def to_next_strip(self, channels, rows, height, width):
        """How far behind an element the one at its place in the next strip stands, unless that has other
        columns or is of another image."""
        images = I.mul(self.images, channels, height)
        within = L.apply("lt", self.rows, self.oh)
        return self.b.let(I.mul(L.apply("select", within, rows, images), width))

    def each_line(self, copy):
        """copy(source or None where the row is outside of the image, target) for each row of each channel."""
        b, plane = self.b, I.add(I.mul(self.group, self.group_inputs), self.first_channel)
        with b.loop("channel", 0, self.channels) as channel, b.loop("i", 0, self.image_count) as i:
            image = I.add(I.mul(I.add(self.image, i), self.c), plane, channel)
            source = b.let(I.add(I.mul(I.add(I.mul(image, self.h), self.top), self.w), self.left))
            target = b.let(I.add(I.mul(channel, channel_room(self.spec)), I.mul(i, self.height, self.width)))
            with b.loop("y", 0, self.height) as y:
                line, here = b.let(I.add(self.top, y)), b.let(I.add(target, I.mul(y, self.width)))
                inside = b.and_(L.apply("ge", line, L.as_index(0)), L.apply("lt", line, self.h))
                with b.branch(inside):
                    copy(b.let(I.add(source, I.mul(y, self.w))), here)
                if self.spec.padding[0]:
                    with b.branch(b.not_(inside)):
                        copy(None, here)

    def copy_narrow(self, source, target, masks):
        """A row of at most two vectors; what is written behind it belongs to the next one."""
        if source is not None:
            self.b.prefetch("input", I.add(source, self.input_ahead))
        for start, mask in zip((0, self.plan.lanes), masks):
            value = self.zero(self.plan.lanes)
            if source is not None:
                value = self.read("input", I.add(source, start), self.plan.lanes, mask)
            self.b.store("packed_x", I.add(target, start), value)

    def copy_wide(self, source, target, whole, tail):
        b, lanes = self.b, self.plan.lanes
        if self.spec.padding[1] or source is None:
            with b.loop("z", 0, self.width, lanes) as z:
                b.store("packed_x", I.add(target, z), self.zero(lanes))
        if source is not None:
            with b.loop("x", self.begin, whole, lanes) as x:
                b.prefetch("input", I.add(source, x, self.input_ahead))
                b.store("packed_x", I.add(target, x), self.read("input", I.add(source, x), lanes))
            with b.branch(L.apply("lt", whole, self.end)):
                value = self.read("input", I.add(source, whole), lanes, tail)
                b.store("packed_x", I.add(target, whole), value, tail)

    def pack_gradients(self, panel):
        """The strip's gradients for a panel of output channels, pixel after pixel; channels beyond the last
        are copies of it."""
        b, lanes = self.b, self.plan.lanes
        one_segment = L.apply("eq", self.segments, L.as_index(1))       # then rows stand end to end
        lines = b.let(L.apply("select", one_segment, L.as_index(1), self.row_count), "lines")
        length = I.mul(self.row_count, self.column_count)
        length = b.let(L.apply("select", one_segment, length, self.column_count), "length")
        whole = b.let(I.mul(I.div(length, lanes), lanes), "whole_line")
        last = b.let(I.sub(self.group_outputs, 1))
        first = b.let(I.mul(panel, self.plan.panel), "first_output")
        plane = b.let(I.mul(self.oh, self.ow))
        ahead = self.to_next_strip(self.k, self.rows, self.oh, self.ow)
        with b.loop("v", 0, I.minimum(self.plan.panel, I.sub(self.group_outputs, first)), lanes) as v, \
                b.loop("i", 0, self.image_count) as i, b.loop("y", 0, lines) as y:
            image = I.add(I.mul(I.add(self.image, i), self.k), I.mul(self.group, self.group_outputs))
            source = b.let(I.add(I.mul(image, plane), I.mul(I.add(self.row, y), self.ow), self.column))
            sources = [b.let(I.add(source, I.mul(I.minimum(I.add(first, v, number), last), plane)))
                       for number in range(lanes)]
            pixel = I.add(I.mul(i, self.row_count, self.column_count), I.mul(y, length))
            target = b.let(I.add(I.mul(pixel, self.plan.panel), v))

            def square(x, mask):
                for s in sources:
                    b.prefetch("grad_output", I.add(s, x, ahead))
                columns = turned(b, [self.read("grad_output", I.add(s, x), lanes, mask) for s in sources])
                start = b.let(I.add(target, I.mul(x, self.plan.panel)))
                for number, column in enumerate(columns):
                    b.store("packed_g", I.add(start, number * self.plan.panel), column)

            with b.loop("x", 0, whole, lanes) as x:
                square(x, None)
            with b.branch(L.apply("lt", whole, length)):
                square(whole, b.let(I.lanes_below(I.sub(length, whole), lanes)))

    # ---- sums
    def tiles(self, start, vectors):
        """All tiles of the strip for one panel, which has `vectors` vectors of output channels."""
        b = self.b
        channels, rows, columns = tile_shape(self.spec.kernel, self.plan.entries)
        height, width = self.spec.kernel

        def windows(channel, count):
            for row, row_count in self.each("tap_row", height, rows):
                for column, column_count in self.each("tap_column", width, columns):
                    self.tile(start, vectors, (channel, row, column), (count, row_count, column_count))

        if channels > 1:
            whole = b.let(I.mul(I.div(self.channels, channels), channels))
            with b.loop("tile_channel", 0, whole, channels) as channel:
                windows(channel, channels)
            with b.loop("channel_left", whole, self.channels) as channel:
                windows(channel, 1)
        else:
            with b.loop("tile_channel", 0, self.channels) as channel:
                windows(channel, 1)

    def each(self, name, size, step):
        """(start, count) of the parts of an axis of taps: a loop over the whole ones, then the rest."""
        whole = size // step * step
        if whole == step:
            yield 0, step
        else:
            with self.b.loop(name, 0, whole, step) as start:
                yield start, step
        if whole < size:
            yield whole, size - whole

    def tile(self, start, vectors, first, counts):
        b, spec, lanes = self.b, self.spec, self.plan.lanes
        channel, tap_row, tap_column = first
        sums = [b.declare(self.zero(lanes)) for _ in range(counts[0] * counts[1] * counts[2] * vectors)]
        corner = b.let(I.add(I.mul(channel, channel_room(spec)), I.mul(tap_row, spec.dilation[0], self.width),
                             I.mul(tap_column, spec.dilation[1])))
        lines = [b.let(I.add(corner, I.mul(self.width, row * spec.dilation[0]))) for row in range(counts[1])]
        with b.loop("pixel", 0, self.pixels) as pixel:
            address = b.let(I.mul(pixel, self.plan.panel))
            right = [b.load("packed_g", I.add(address, v * lanes), self.dtype, lanes) for v in range(vectors)]
            self.accumulate(sums, right, lines, b.load("places", pixel, int64), counts)
        self.add_to_partial(start, sums, first, counts, vectors)

    def accumulate(self, sums, right, lines, moved, counts):
        b, sums = self.b, iter(sums)
        for channel in range(counts[0]):
            for line in lines:
                for column in range(counts[2]):
                    near = channel * channel_room(self.spec) + column * self.spec.dilation[1]
                    left = b.load("packed_x", I.add(line, moved, near), self.dtype)
                    left = b.let(L.splat(left, self.plan.lanes))
                    for gradient in right:
                        total = next(sums)
                        b.assign(total, L.apply("fma", left, gradient, total))

    def add_to_partial(self, start, sums, first, counts, vectors):
        b, (channel, tap_row, tap_column) = self.b, first
        tap = I.add(I.mul(tap_row, self.spec.kernel[1]), tap_column)
        entry = I.add(I.mul(I.add(self.first_channel, channel), self.taps), tap)
        entry = b.let(I.add(start, I.mul(entry, self.plan.panel)))

        def each(store):
            values = iter(sums)
            for c in range(counts[0]):
                for row in range(counts[1]):
                    for column in range(counts[2]):
                        near = (c * self.taps + row * self.spec.kernel[1] + column) * self.plan.panel
                        for v in range(vectors):
                            store(I.add(entry, near + v * self.plan.lanes), next(values))

        def add(address, value):
            old = L.Load(self.dtype, self.plan.lanes, "partial", address)
            b.store("partial", address, L.apply("add", old, value))

        with b.branch(self.is_first):
            each(lambda address, value: b.store("partial", address, value))
        with b.branch(L.apply("not", self.is_first)):
            each(add)


def tile_shape(kernel, entries):
    """(channels, rows, columns) of a tile of at most `entries` (channel, tap) pairs: whole rows of taps
    where they fit, a number of rows that divides the window, and channels to fill up: a power of two, as
    there are mostly."""
    height, width = kernel
    if width > entries:
        return 1, 1, -(-width // -(-width // entries))
    rows = max(r for r in range(1, height + 1) if height % r == 0 and r * width <= entries)
    channels = max(entries // (rows * width), 1)
    return 1 << channels.bit_length() - 1, rows, width


class _Fold(_Kernel):

    block = 64          # (channel, tap) pairs of a step

    def extent(self):
        several = I.minimum(I.mul(I.sub(self.partials, 1), I.sub(self.partials, 1)), 1)
        return I.mul(I.mul(self.panels, self.spec.groups), I.mul(self.blocks(), several))

    def blocks(self):
        return I.ceil_div(I.mul(self.group_inputs, self.taps), self.block)

    def body(self):
        self.b = b = L.Builder("g")
        blocks = b.let(self.blocks())
        self.group_inputs, self.group_outputs = b.let(self.group_inputs), b.let(self.group_outputs)
        with b.loop("number", L.BEGIN, L.END) as number:
            panel = b.let(I.div(number, blocks))
            first = b.let(I.mul(I.rem(number, blocks), self.block))
            last = b.let(I.minimum(I.add(first, self.block), I.mul(self.group_inputs, self.taps)))
            group = b.let(I.div(panel, self.panels))
            panel = b.let(I.rem(panel, self.panels))
            self.fold(panel, group, first, last, self.panel_start(0, group, panel))
        return b.body()
