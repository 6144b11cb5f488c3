"""The tiles that a convolution's result is cut into, and the strip of the source that a tile sees.

What conv_direct and conv_winograd share. A place of the result is a pixel to the one and a square of pixels to
the other; the Axis of its rows and columns says what it sees.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.conv_schedule import SCHEDULE, first_seen, seen_width
from flambeau.ir import loops as L
from flambeau.types.dtype import int32, int64

SIZES = ("N", "C", "D", "H", "W", "K", "OD", "OH", "OW")    # C, K: channels of source and result, of a group
PARAMS = (*SIZES, *SCHEDULE)


def strips():
    """How many strips there are, but for groups and classes of rows."""
    images = I.ceil_div(I.index("N"), I.index("tile_images"))
    return I.mul(images, *(I.index(p) for p in ("OD", "block_tiles", "column_tiles")))


class Strips:
    """The half of a convolution's template that finds tiles and packs strips: writes through self.b.

    Reads shape, groups, rows, columns (classes of Axis), dtype, stored, size (index expressions), and `down`
    and `across`, how many places there are on the two axes. Calls self.run_tile() for each tile.
    """

    def start(self):
        b, size = self.b, self.size
        self.blocks = b.let(I.ceil_div(size["K"], self.shape.outputs), "blocks")
        self.pitch = b.let(I.add(I.mul(I.sub(size["tile_columns"], 1), self.columns[0].stride),
                                 seen_width(self.columns)), "pitch")

    def each_tile(self):
        """The loops over strips and their tiles, rows from `y` on or whole images."""
        b, steps = self.b, self.size["steps"]
        with b.loop("strip_number", I.div(L.BEGIN, steps), I.ceil_div(L.END, steps)) as number:
            self.place_strip(number)
            begin = b.let(I.mul(number, steps))
            start = b.let(self.row_of(I.maximum(I.sub(L.BEGIN, begin), 0)), "strip_start")
            there = self.places(self.down, len(self.rows), self.row_class)
            stop = I.minimum(self.row_of(I.minimum(I.sub(L.END, begin), steps)), there)
            count = b.let(I.maximum(I.sub(stop, start), 0), "strip_height")
            tiles = b.let(I.ceil_div(count, self.size["tile_rows"]), "tiles")
            with b.loop("tile_number", 0, tiles) as tile:
                first, after = (I.div(I.mul(t, count), tiles) for t in (tile, I.add(tile, 1)))
                self.y = b.let(I.add(start, first), "first_row")
                self.tile_rows = b.let(I.sub(I.add(start, after), self.y), "rows_here")
                self.run_tile()

    def row_of(self, step):
        """The first row of a step of a strip."""
        return I.div(I.mul(step, self.size["height"]), self.size["steps"])

    def place_strip(self, number):
        """Take the number of a strip apart."""
        b, size, self.strip_number = self.b, self.size, number
        number, column = self.split(number, size["column_tiles"])
        number, block = self.split(number, size["block_tiles"])
        number, self.row_class = self.split(number, len(self.rows))
        number, self.depth_place = self.split(number, size["OD"])
        number, self.group = self.split(number, self.groups)
        first = b.let(I.mul(number, size["tile_images"]), "first_image")
        self.images = b.let(I.minimum(size["tile_images"], I.sub(size["N"], first)), "images_here")
        self.image_group = b.let(I.add(I.mul(first, self.groups), self.group), "image_group")
        self.block = b.let(I.mul(block, size["tile_blocks"]), "first_block")
        blocks = I.minimum(size["tile_blocks"], I.sub(self.blocks, self.block))
        self.tile_blocks = b.let(blocks, "blocks_here")
        self.x = b.let(I.mul(column, size["tile_columns"]), "first_column")
        self.row_axis = self.chosen(self.rows, self.row_class)
        widest = self.places(self.across, len(self.columns), 0)
        columns = I.minimum(size["tile_columns"], I.sub(widest, self.x))
        self.tile_columns = b.let(I.maximum(columns, 0), "columns_here")

    def split(self, number, by):
        quotient = self.b.let(I.div(number, by))
        return quotient, self.b.let(I.sub(number, I.mul(quotient, by)))

    def places(self, size, classes, phase):
        """How many places of an axis are in a class."""
        return self.b.let(I.div(I.sub(I.add(size, classes - 1), phase), classes)) if classes > 1 else size

    def chosen(self, classes, phase):
        """The Axis of class number `phase`, a run-time index, as a dict of index expressions."""
        if len(classes) == 1:
            return {name: L.as_index(getattr(classes[0], name)) for name in ("count", "first", "origin")}
        chosen = {}
        for name in ("count", "first", "origin"):
            value = L.as_index(getattr(classes[-1], name))
            for number, axis in reversed(tuple(enumerate(classes[:-1]))):
                here = L.apply("eq", phase, L.as_index(number))
                value = L.apply("select", here, L.as_index(getattr(axis, name)), value)
            chosen[name] = self.b.let(value)
        return chosen

    def measure_tile(self):
        """Bind how many places the tile has, in each image and in all, and the rows of its strip."""
        b = self.b
        self.image_pixels = b.let(I.mul(self.tile_rows, self.tile_columns), "image_pixels")
        self.pixels = b.let(I.mul(self.images, self.image_pixels), "pixels_here")
        self.room = b.let(I.round_up(self.pixels, self.shape.block_pixels), "room")
        below = I.mul(I.sub(self.tile_rows, 1), self.rows[0].stride)
        self.strip_rows = b.let(I.add(below, self.shape.tall), "strip_rows")

    def pack_planes(self):
        """Bind the steps from image to image and from channel to channel of a packed strip."""
        self.image_step = self.b.let(I.mul(self.strip_rows, self.pitch), "image_step")
        self.plane = self.b.let(I.mul(self.images, self.image_step), "strip_plane")

    def note_places(self):
        """Where in the strip each pixel of the tile begins to see; behind the last one copies of it."""
        b, stride = self.b, self.columns[0].stride
        line = b.let(I.mul(self.pitch, self.rows[0].stride))
        with b.loop("i", 0, self.images) as i, b.loop("y", 0, self.tile_rows) as y:
            place = b.let(I.add(I.mul(i, self.image_step), I.mul(y, line)))
            pixel = b.let(I.add(I.mul(i, self.image_pixels), I.mul(y, self.tile_columns)))
            with b.loop("x", 0, self.tile_columns) as x:
                b.store("places", I.add(pixel, x), b.let(I.add(place, I.mul(x, stride))))
        with b.branch(L.apply("gt", self.pixels, L.as_index(0))):
            last = b.load("places", I.sub(self.pixels, 1), int64)
            with b.loop("behind", self.pixels, self.room) as behind:
                b.store("places", behind, last)

    def pack_strip(self):
        """The strip's channels, row after row: what a vector writes too much, the next row corrects. The
        block of channels that comes next is fetched."""
        b, size, lanes = self.b, self.size, self.shape.lanes
        top = b.let(I.add(I.mul(self.y, self.rows[0].stride), self.row_axis["origin"]))
        left = b.let(I.add(I.mul(self.x, self.columns[0].stride), first_seen(self.columns)))
        channel = I.add(I.mul(self.image_group, size["C"]), self.c0)
        first = I.mul(I.add(I.mul(channel, size["D"]), self.source_depth), size["H"])
        first, channel_rows = b.let(I.add(first, top)), b.let(I.mul(size["D"], size["H"]))
        # vectors from `whole` to `rest` lie in the image
        whole = b.let(I.mul(I.ceil_div(I.maximum(I.mul(left, -1), 0), lanes), lanes))
        inside = I.maximum(I.sub(I.sub(size["W"], left), whole), 0)
        rest = b.let(I.add(whole, I.mul(I.div(inside, lanes), lanes)))
        whole, rest = (b.let(I.minimum(end, I.round_up(self.pitch, lanes))) for end in (whole, rest))
        image_rows = b.let(I.mul(channel_rows, size["C"], self.groups))
        more = L.apply("lt", I.add(self.c0, self.shape.channels), size["C"])
        ahead = I.mul(channel_rows, size["W"], self.shape.channels)
        self.ahead = b.let(L.apply("select", more, ahead, L.as_index(0)), "ahead")
        short = b.let(L.apply("le", self.pitch, L.as_index(lanes)), "short")
        mask = b.let(self.in_columns(left))

        def each_row(pack):
            with b.loop("c", 0, self.depth) as c, b.loop("i", 0, self.images) as i, \
                    b.loop("row", 0, self.strip_rows) as row:
                down = I.mul(row, self.rows[0].step if self.shape.apart else 1)
                y = b.let(I.add(top, down))
                there = b.and_(L.apply("ge", y, L.as_index(0)), L.apply("lt", y, size["H"]))
                line = I.add(first, I.mul(c, channel_rows), I.mul(i, image_rows), down)
                line = b.let(I.add(I.mul(line, size["W"]), left))
                to = I.add(I.mul(c, self.plane), I.mul(i, self.image_step), I.mul(row, self.pitch))
                pack(there, line, b.let(to))

        def long_row(there, line, to):
            with b.branch(there):
                self.pack_edge(0, whole, line, left, to)
                with b.loop("column", whole, rest, lanes) as column:
                    place = b.let(I.add(line, column))
                    b.prefetch("source", I.add(place, self.ahead))
                    value = b.load("source", place, self.stored, lanes)
                    b.store("strip", I.add(to, column), b.cast(value, self.dtype))
                self.pack_edge(rest, self.pitch, line, left, to)
            with b.branch(b.not_(there)):
                with b.loop("column", 0, self.pitch, lanes) as column:
                    b.store("strip", I.add(to, column), b.const(0.0, self.dtype, lanes))

        def short_row(there, line, to):
            self.pack_vector(line, to, L.apply("and", mask, L.splat(there, lanes)))

        with b.branch(short):
            each_row(short_row)
        with b.branch(b.not_(short)):
            each_row(long_row)

    def in_columns(self, place):
        """The lanes that lie in the image's columns, if the first one is at `place`."""
        lanes, width = self.shape.lanes, self.b.call("cast", self.size["W"], dtype=int32)
        first = L.splat(L.apply("cast", place, dtype=int32), lanes)
        places = L.apply("add", first, L.Apply(int32, lanes, "lane", ()))
        return I.within(places, width)

    def pack_vector(self, line, to, mask):
        b, lanes = self.b, self.shape.lanes
        zero = b.const(0.0, self.stored, lanes)
        b.prefetch("source", I.add(line, self.ahead))
        value = b.load("source", line, self.stored, lanes, b.let(mask), zero)
        b.store("strip", to, b.cast(value, self.dtype))

    def pack_edge(self, start, stop, line, left, to):
        """Columns of a row that may lie outside of the image."""
        with self.b.loop("column", start, stop, self.shape.lanes) as column:
            mask = self.in_columns(self.b.let(I.add(left, column)))
            self.pack_vector(I.add(line, column), I.add(to, column), mask)
