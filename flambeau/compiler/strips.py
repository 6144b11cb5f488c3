"""Walks over planes whose vectors run along the rows: what depthwise convolution and pooling share.

A strip is a few rows of a plane and a segment of their columns. What it sees of another plane is copied
first, with a border, to `packed[row][column]`: then nothing needs a mask, and elements that are moved by a
tap stand at a constant distance. With a stride of s the columns of `packed` are parted into s *phases*
(every s-th column), so that what neighbours of a row see through one tap stands side by side.

Windows walk over the output with the input packed. Places walk over the input with the gradient of the
output packed, by *residues*: the places whose row and column leave the same residues modulo the stride are
reached by the same taps.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.types.dtype import int64

COLUMNS = 128               # of a segment at most
ROOM = 8192                 # elements of the packed rows, or more where a window needs it
ROWS = 4                    # rows of a block, whose sums are in registers together
TILE = 32768                # elements of the results of a strip of places, or more where a stride needs it
MOST_ROOM = 65536           # elements of a buffer of a strip


def suits(spec):
    """True if strips of windows and of places have room for what they see."""
    reach = [(k - 1) * d + 1 for k, d in zip(spec.kernel, spec.dilation)]
    width = _columns(spec) * spec.stride[1] + reach[1] + 32 * spec.stride[1]
    return max(reach[0], spec.stride[0]) * width <= MOST_ROOM


def _columns(spec):
    """Columns of a segment at most: fewer where they see much of a row."""
    return max(min(COLUMNS, 4 * COLUMNS // spec.stride[1]), 16)


class Strips:
    """`height` and `width` (set by the subclass): of what is walked over; `steps`: how far its neighbours
    are apart in the packed plane; `reach`: what one sees of that. Params H, W, OH, OW are the sizes of
    input and output."""

    def __init__(self, spec, target, steps, reach):
        self.most_columns = most_columns = _columns(spec)
        self.spec, self.dtype, self.steps, self.reach = spec, spec.accumulator, steps, reach
        self.lanes = min((target or targets.current()).vector_bytes // self.dtype.itemsize, 16)
        self.h, self.w, self.oh, self.ow = map(I.index, ("H", "W", "OH", "OW"))
        self.phase_room = -(-(most_columns + (reach[1] - 1) // steps[1]) // 16) * 16 + 16
        self.row_room = self.phase_room * steps[1]
        self.packed_rows = max(ROOM // self.row_room, reach[0])
        self.most_rows = (self.packed_rows - reach[0]) // steps[0] + 1
        self.b, self.locals = L.Builder("d"), {}

    def extent(self, planes):
        """Strips of all planes."""
        return I.mul(planes, I.mul(*self.counts()))

    def counts(self):
        """(strips of rows, segments of columns) of a plane."""
        return I.ceil_div(self.height, self.most_rows), I.ceil_div(self.width, self.most_columns)

    def start(self):
        """What holds for all strips."""
        b = self.b
        self.row_strips, self.segments = (b.let(c) for c in self.counts())
        self.rows_each = b.let(I.ceil_div(self.height, self.row_strips), "rows_each")
        self.columns_each = b.let(I.ceil_div(self.width, self.segments), "columns_each")

    def take(self, task):
        """Go to a strip; the number of its plane."""
        rest, segment = self.split(task, self.segments)
        plane, row_strip = self.split(rest, self.row_strips)
        self.go(row_strip, segment)
        return plane

    def go(self, row_strip, segment):
        """Which rows and columns the strip has."""
        b = self.b
        self.row = b.let(I.mul(row_strip, self.rows_each))
        self.column = b.let(I.mul(segment, self.columns_each))
        self.rows = b.let(I.maximum(I.minimum(self.rows_each, I.sub(self.height, self.row)), 0), "rows")
        columns = I.minimum(self.columns_each, I.sub(self.width, self.column))
        self.columns = b.let(I.maximum(columns, 0), "columns")

    def finish(self):
        """The statements of the kernel."""
        for name, (dtype, size) in self.locals.items():
            self.b.local(name, dtype, size)
        return self.b.body()

    def split(self, number, size):
        quotient = self.b.let(I.div(number, size))
        return quotient, self.b.let(I.sub(number, I.mul(quotient, size)))

    def read(self, buffer, index, lanes=1, mask=None, stored=None, dtype=None, other=0.0):
        """Elements of an operand in the accumulator's dtype, or `stored` ones as `dtype`; `other` where
        masked off."""
        stored = stored or self.spec.dtype
        other = None if mask is None else self.b.const(other, stored, lanes)
        return self.b.cast(self.b.load(buffer, index, stored, lanes, mask, other), dtype or self.dtype)

    def lane_columns(self, first, dtype, step=1):
        """first, first + step, ... in `dtype`, an integer one."""
        b = self.b
        lanes = L.Apply(dtype, self.lanes, "lane", ())
        lanes = lanes if step == 1 else b.mul(lanes, b.const(step, dtype))
        return b.add(lanes, b.call("cast", b.let(first), dtype=dtype))

    # ---- packing
    def pack(self, buffer, plane, sizes, corner, into="packed", fill=0.0, stored=None, dtype=None,
             change=None):
        """Copy the rows and columns from `corner` on that the strip sees of a plane to `into`, with `fill`
        outside of the plane. change(value, line, column): what is put in place of the values."""
        b, lanes, (top, left), dtype = self.b, self.lanes, corner, dtype or self.dtype
        count = b.let(I.add(I.mul(I.sub(self.columns, 1), self.steps[1]), self.reach[1]))
        begin = b.let(I.minimum(I.maximum(I.sub(0, left), 0), count))
        end = b.let(I.maximum(I.minimum(count, I.sub(sizes[1], left)), begin))
        outside, aside = b.const(fill, dtype, lanes), self.steps[1] > 1
        self.locals[into] = dtype, self.packed_rows * self.row_room + 16

        def each_line(copy):
            """copy(put, read, whether it is in the plane) for each row; put(x, value), read(x, mask)."""
            lines = I.add(I.mul(I.sub(self.rows, 1), self.steps[0]), self.reach[0])
            with b.loop("packing", 0, lines) as number:
                row, line = b.let(I.mul(number, self.row_room)), b.let(I.add(top, number))
                source = b.let(I.add(I.mul(I.add(I.mul(plane, sizes[0]), line), sizes[1]), left))

                def put(x, value):
                    b.store("line" if aside else into, x if aside else I.add(row, x), value)

                def read(x, mask=None):
                    value = self.read(buffer, I.add(source, x), lanes, mask, stored, dtype, fill)
                    if change is None:
                        return value
                    value = change(value, line, b.let(I.add(left, x)))
                    return value if mask is None else b.select(mask, value, outside)

                copy(put, read, b.and_(L.apply("ge", line, L.as_index(0)), L.apply("lt", line, sizes[0])))
                if aside:
                    self.part_phases(into, dtype, row, count)

        narrow = b.let(L.apply("le", count, L.as_index(2 * lanes)))
        with b.branch(narrow):
            each_line(self.narrow_copy(begin, end, outside))
        with b.branch(b.not_(narrow)):
            each_line(self.wide_copy(begin, end, count, outside))

    def narrow_copy(self, begin, end, outside):
        """Rows of at most two vectors."""
        b, lanes = self.b, self.lanes
        starts = [L.as_index(0), L.as_index(lanes)]
        below = [[I.lanes_below(I.sub(border, start), lanes) for border in (begin, end)] for start in starts]
        masks = [b.and_(b.not_(before), inside) for before, inside in below]

        def copy(put, read, inside):
            with b.branch(inside):
                for start, mask in zip(starts, masks):
                    put(start, read(start, mask))
            with b.branch(b.not_(inside)):
                for start in starts:
                    put(start, outside)
        return copy

    def wide_copy(self, begin, end, count, outside):
        b, lanes = self.b, self.lanes
        whole = b.let(I.add(begin, I.mul(I.div(I.sub(end, begin), lanes), lanes)))
        mask = b.let(I.lanes_below(I.sub(end, whole), lanes))

        def copy(put, read, inside):
            def clear(start, stop):
                with b.loop("z", start, stop, lanes) as z:
                    put(z, outside)

            clear(0, begin)
            clear(end, count)
            with b.branch(inside):
                with b.loop("x", begin, whole, lanes) as x:
                    put(x, read(x))
                with b.branch(L.apply("lt", whole, end)):
                    put(whole, read(whole, mask))
            with b.branch(b.not_(inside)):
                clear(begin, end)
        return copy

    def part_phases(self, into, dtype, row, count):
        """The line to every s-th of its elements, then every s-th from the second on, and so on."""
        b, lanes, step = self.b, self.lanes, self.steps[1]
        self.locals["line"] = dtype, self.row_room + 16 * step
        each = b.let(I.ceil_div(count, step))
        with b.loop("x", 0, each, lanes) as x:
            if step == 2:
                pair = [b.load("line", I.add(I.mul(x, 2), half * lanes), dtype, lanes) for half in (0, 1)]
                values = [b.call(op, *pair) for op in ("even", "odd")]
            else:
                places = L.apply("mul", L.Apply(int64, lanes, "lane", ()), L.as_index(step))
                values = [b.let(I.add(I.mul(x, step), phase)) for phase in range(step)]
                values = [b.load("line", L.apply("add", places, v), dtype, lanes) for v in values]
            for phase, value in enumerate(values):
                b.store(into, I.add(row, phase * self.phase_room, x), value)

    # ---- blocks
    def each_block(self, body, rows=ROWS):
        """body(row, column, count, place) for `count` rows from `row` on and a vector of columns from
        `column` on, which stand at `place` of the packed plane. The last blocks may meet those before."""
        b, last = self.b, self.b.let(I.maximum(I.sub(self.columns, self.lanes), 0))

        def block(row, count):
            first = b.let(I.mul(row, self.steps[0] * self.row_room))
            with b.loop("vector", 0, self.columns, self.lanes) as start:
                column = b.let(I.minimum(start, last))
                body(row, column, count, b.let(I.add(first, column)))

        few = b.let(L.apply("lt", self.rows, L.as_index(rows)))
        with b.branch(few), b.loop("row", 0, self.rows) as row:
            block(row, 1)
        with b.branch(b.not_(few)), b.loop("rows_from", 0, self.rows, rows) as row:
            block(b.let(I.minimum(row, I.sub(self.rows, rows))), rows)

    def whole_or_masked(self):
        """A function that runs store(mask) with None where the strip has a vector of columns, else with a
        mask."""
        b = self.b
        fits = b.let(L.apply("ge", self.columns, L.as_index(self.lanes)))
        mask = b.let(I.lanes_below(self.columns, self.lanes))

        def run(store):
            with b.branch(fits):
                store(None)
            with b.branch(b.not_(fits)):
                store(mask)
        return run

    def near(self, tap_row, phase, tap_column):
        """How far from a place a tap sees."""
        return tap_row * self.row_room + phase * self.phase_room + tap_column

    def shared_taps(self, taps, count):
        """((row, phase, column) in the packed plane, (number of the row, tap), ...) for `count` rows, in
        order: each element is read once. A tap starts with (row moved, phase, column moved)."""
        users = {}
        for number in range(count):
            for tap in taps:
                key = number * self.steps[0] + tap[0], tap[1], tap[2]
                users.setdefault(key, []).append((number, tap))
        return sorted(users.items())


class Windows(Strips):
    """Strips of the output; the input is packed."""

    def __init__(self, spec, target):
        reach = [(k - 1) * d + 1 for k, d in zip(spec.kernel, spec.dilation)]
        super().__init__(spec, target, spec.stride, reach)
        self.height, self.width = self.oh, self.ow

    def taps(self):
        """(row moved, phase, column moved, number) of each tap, in order."""
        spec, step = self.spec, self.steps[1]
        for row in range(spec.kernel[0]):
            for column in range(spec.kernel[1]):
                moved = column * spec.dilation[1]
                yield row * spec.dilation[0], moved % step, moved // step, row * spec.kernel[1] + column

    def corner(self):
        """Where in the input the strip's first window starts."""
        return tuple(self.b.let(I.sub(I.mul(at, s), p)) for at, s, p in
                     zip((self.row, self.column), self.spec.stride, self.spec.padding))

    def output_index(self, plane, row, column):
        line = I.add(I.mul(plane, self.oh), self.row, row)
        return self.b.let(I.add(I.mul(line, self.ow), self.column, column))


class Places(Strips):
    """Strips of places of equal residues: padded row = stride * row + residue, and so the columns. Results
    go to `tile`, in the order of the input, and from there to the input's gradient."""

    def __init__(self, spec, target):
        self.far = [(k - 1) * d // s for k, d, s in zip(spec.kernel, spec.dilation, spec.stride)]
        super().__init__(spec, target, (1, 1), [f + 1 for f in self.far])
        self.before = [p // s for p, s in zip(spec.padding, spec.stride)]
        self.height, self.width = (
            I.sub(I.add(I.div(I.add(size, p - 1), s), 1), p // s) for size, p, s in
            zip((self.h, self.w), spec.padding, spec.stride))
        self.tile_row = (self.most_columns + 16) * spec.stride[1]
        self.most_rows = min(self.most_rows, max(TILE // (spec.stride[0] * self.tile_row), 1))
        self.tile_size = self.most_rows * spec.stride[0] * self.tile_row + 16

    def corner(self):
        """Where in the gradient of the output the strip starts to see."""
        return tuple(self.b.let(I.add(at, b - f)) for at, b, f in
                     zip((self.row, self.column), self.before, self.far))

    def first_place(self):
        """The row and column of the input where the tile starts; perhaps before the first ones."""
        return tuple(self.b.let(I.sub(I.mul(I.add(at, b), s), p)) for at, b, s, p in
                     zip((self.row, self.column), self.before, self.spec.stride, self.spec.padding))

    def taps_of(self, axis, residue):
        """(tap, moved in the packed plane) of the taps that reach places of a residue."""
        spec, stride = self.spec, self.spec.stride[axis]
        for tap in range(spec.kernel[axis]):
            moved = tap * spec.dilation[axis]
            if moved % stride == residue:
                yield tap, self.far[axis] - moved // stride

    def windows(self, row_residue):
        """For each residue of columns the taps, as of `Windows.taps`, in the order of the output."""
        width, rows = self.spec.kernel[1], list(self.taps_of(0, row_residue))
        return [sorted((y, 0, x, r * width + s) for r, y in rows for s, x in self.taps_of(1, residue))
                for residue in range(self.spec.stride[1])]

    def side_by_side(self, row, row_residue, column, sums):
        """(index in the tile, vector) for sums[residue][row]: the residues of a row as neighbours."""
        b, lanes, (down, right) = self.b, self.lanes, self.spec.stride
        first = I.add(I.mul(I.add(I.mul(row, down), row_residue), self.tile_row), I.mul(column, right))
        first, places = b.let(first), []
        for count, values in enumerate(zip(*sums)):
            place = I.add(first, count * down * self.tile_row)
            if right == 1:
                places.append((place, values[0]))
            elif right == 2:
                places += [(I.add(place, half * lanes), b.call(op, *values))
                           for half, op in enumerate(("zip_low", "zip_high"))]
            else:
                steps = b.let(L.apply("mul", L.Apply(int64, lanes, "lane", ()), L.as_index(right)))
                places += [(L.apply("add", steps, I.add(place, residue)), value)
                           for residue, value in enumerate(values)]
        return places

    def copy_out(self, plane, buffer, base=0):
        """The places of the tile (from `base` on) that exist, to `buffer`."""
        b, lanes, (down, right) = self.b, self.lanes, self.spec.stride
        first_row, first = self.first_place()
        begin = b.let(I.maximum(I.sub(0, first), 0))
        end = b.let(I.minimum(I.mul(self.columns, right), I.sub(self.w, first)))
        whole = b.let(I.add(begin, I.mul(I.div(I.maximum(I.sub(end, begin), 0), lanes), lanes)))
        low = I.maximum(I.sub(0, first_row), 0)
        with b.loop("y", low, I.minimum(I.mul(self.rows, down), I.sub(self.h, first_row))) as y:
            source = b.let(I.add(base, I.mul(y, self.tile_row)))
            line = I.add(I.mul(plane, self.h), first_row, y)
            target = b.let(I.add(I.mul(line, self.w), first))

            def copy(x, mask=None):
                value = b.load("tile", I.add(source, x), self.dtype, lanes)
                b.store(buffer, I.add(target, x), b.cast(value, self.spec.dtype), mask)

            with b.loop("x", begin, whole, lanes) as x:
                copy(x)
            with b.branch(L.apply("lt", whole, end)):
                copy(whole, b.let(I.lanes_below(I.sub(end, whole), lanes)))
