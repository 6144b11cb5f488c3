"""Attention as a Loops template: softmax(query @ key.T * scale + mask) @ value without the scores in memory.

A tile is `items` queries of one head side by side in vector lanes; keys pass by in blocks of STEPS:

    for each tile of (batch, head, queries):                  the extent: tiles run in parallel
        pack the queries, transposed
        for each block of keys (causal: up to the tile's last query):
            scores[key, query] = one fma after another along the width, * scale, + mask
            the largest score so far, the sum of exponentials, weights = exp(scores - largest)
            sums[query, column] = sums * exp(old largest - new) + one fma after another along the keys
        hand over sums / total and the logarithm of the total

Scores have a lane for each query and sums one for each column; nothing crosses lanes, so vector widths and
register blocks may be chosen freely.
STEPS and ITEM_BYTES are part of the meaning: the first fixes when sums are scaled anew, both which keys are
skipped as causal. `Tile` holds what this kernel shares with those of the gradient (`attention_backward`) and
for a single query (`attention_single`); `attention_launch` puts them into plans.
Online softmax: Milakov and Gimelshein 2018; attention in tiles: Dao et al., "FlashAttention", 2022.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.compiler.math_exponential import expm1_parts
from flambeau.compiler.math_values import at_least, fma, function, select
from flambeau.ir import loops as L
from flambeau.ops.spec import REGISTRY
from flambeau.types.dtype import bool_, float32, float64, int32, int64, uint8, uint64

STEPS = 96                  # keys (or queries) in a block
ITEM_BYTES = 128            # of one number for each item of a tile: 32 items in float32
SIZES = ("batch", "heads", "group", "length", "source", "width", "value_width")
UNROLL = 8                  # elements that packing copies at a time
INFINITY = float("inf")
AXES, MASK_AXES = ("batch", "head", "member"), ("batch", "head", "member", "query", "key")


@dataclass(frozen=True)
class Attention:
    """What a kernel is made for.

    mask: dtype of the mask or None. mask_strides: along its axes, 0, 1 or None for a param.
    scale, dropout: dtypes of these numbers (None: no dropout). room: the largest width that fits; results do
    not depend on it.
    """

    dtype: object
    causal: bool
    mask: object
    mask_strides: tuple
    scale: object
    dropout: object
    room: int

    @property
    def total(self):
        """The dtype of sums."""
        return float32 if self.dtype.itemsize == 2 else self.dtype

    @property
    def mask_type(self):
        """How the mask is read: bools as bytes, so that nothing branches on them."""
        return uint8 if self.mask is bool_ else self.mask


@dataclass(frozen=True)
class Rows:
    """Rows of numbers in a buffer: row y begins at base + y * step, its elements are consecutive."""

    buffer: str
    dtype: object
    base: object
    step: object


@function
def weight(x):
    """e^x for x that is not large; 0 where it would be below the normal numbers."""
    low = -87.0 if x.dtype is float32 else -708.0
    q, s = expm1_parts(at_least(x, low))
    return select(x < low, 0.0, fma(q, s, s))


class Tile:
    """Writes statements about a tile of `items`.

    Panels are locals [row, item], for products with lanes along the items; sums are locals [item, column], in
    lines of `line(width)` numbers.
    """

    def __init__(self, spec, target=None):
        target = target or targets.current()
        self.spec, self.total, self.b = spec, spec.total, L.Builder("a")
        self.lanes = target.vector_bytes // self.total.itemsize
        self.items = ITEM_BYTES // self.total.itemsize
        self.group = {64: 8, 32: 6, 16: 4 if target.is_x86 else 8}[target.vector_bytes]
        self.starts = [v * self.lanes for v in range(2)]        # of the vectors of a register block
        last = next(n for n in range(self.items, 0, -4) if n % self.group == 0)     # behind it groups of 4
        self.groups = ((0, last, self.group), (last, self.items, 4))[:1 if last == self.items else 2]
        self.locals = []
        self.batch, self.heads, self.group_size, self.length, self.source, self.width, self.value_width = (
            I.index(name) for name in SIZES)

    # ---- small things
    def number(self, value, lanes=1):
        return self.b.const(value, self.total, lanes)

    def local(self, name, size, dtype=None):
        """A local of `size` numbers; it is declared by `body`."""
        self.locals.append((name, dtype or self.total, size))
        return name

    def body(self):
        for name, dtype, size in self.locals:
            self.b.local(name, dtype, size)
        return self.b.body()

    def loop(self, name, start, stop, step=1):
        return self.b.loop(self.b.fresh(name), start, stop, step)

    def columns(self):
        """The loop over register blocks of items."""
        return self.loop("x", 0, self.items, 2 * self.lanes)

    def vector(self, name, index):
        return self.b.load(name, index, self.total, self.lanes)

    def line(self, width):
        """The width in whole vectors."""
        return I.round_up(width, self.lanes)

    def fill(self, name, value, size):
        """Write a number to the first `size` elements, a whole number of vectors."""
        with self.loop("clear", 0, size, self.lanes) as i:
            self.b.store(name, i, self.number(value, self.lanes))

    def rows(self, name, *place):
        """The Rows of operand `name` at a (batch, head) or (batch, head, member of the group)."""
        base = I.add(*(I.mul(at, I.index(f"{name}_{axis}")) for at, axis in zip(place, AXES)))
        return Rows(name, self.spec.dtype, self.b.let(base), I.index(f"{name}_row"))

    def places(self, number, size):
        """((batch, head, member), first item, how many items) of tile `number`; each has `size` items."""
        b, tiles = self.b, self.b.let(I.ceil_div(size, self.items))
        place = self.place(b.let(I.div(number, tiles)))
        first = b.let(I.mul(I.rem(number, tiles), self.items))
        return place, first, b.let(I.minimum(self.items, I.sub(size, first)))

    def place(self, strip):
        """(batch, head, member) by number."""
        b, head = self.b, self.b.let(I.div(strip, self.group_size))
        member = b.let(I.rem(strip, self.group_size))
        return b.let(I.div(head, self.heads)), b.let(I.rem(head, self.heads)), member

    def strip(self, place):
        """The number of a (batch, head, member)."""
        batch, head, member = place
        return I.add(I.mul(I.add(I.mul(batch, self.heads), head), self.group_size), member)

    def strips(self):
        return I.mul(self.batch, self.heads, self.group_size)

    # ---- between memory and panels
    def each_column(self, width, write):
        """Run `write(c)` for all columns, UNROLL at a time."""
        whole = self.b.let(I.mul(I.div(width, UNROLL), UNROLL))
        with self.loop("columns", 0, whole, UNROLL) as group:
            for one in range(UNROLL):
                write(I.add(group, one))
        with self.loop("column", whole, width) as c:
            write(c)

    def pack(self, rows, first, count, width, panel):
        """panel[c, x] = rows[first + x, c]; items beyond `count` are copies of the last."""
        b = self.b
        with self.loop("item", 0, self.items) as x:
            base = b.let(I.add(rows.base, I.mul(I.add(first, I.minimum(x, I.sub(count, 1))), rows.step)))

            def copy(c):
                value = b.cast(b.load(rows.buffer, I.add(base, c), rows.dtype), self.total)
                b.store(panel, I.add(I.mul(c, self.items), x), value)

            self.each_column(width, copy)

    def columns_of(self, width, write):
        """Run `write(c, vectors, mask)` for all columns, two vectors at a time and the rest one by one."""
        whole = self.b.let(I.mul(I.div(width, 2 * self.lanes), 2 * self.lanes))
        with self.loop("c", 0, whole, 2 * self.lanes) as c:
            write(c, self.starts, None)
        with self.loop("c", whole, width, self.lanes) as c:
            write(c, self.starts[:1], self.b.let(I.lanes_below(I.sub(width, c), self.lanes)))

    def hand_over(self, sums, width, count, factor, target, first):
        """target[first + x, c] = sums[x, c] * factor, a number or the name of a local of one an item."""
        b, line = self.b, self.b.let(self.line(width))
        with self.loop("item", 0, count) as x:
            base = b.let(I.add(target.base, I.mul(I.add(first, x), target.step)))
            by = b.load(factor, x, self.total) if isinstance(factor, str) else factor

            def write(c, starts, mask):
                for start in starts:
                    at = I.add(c, start)
                    value = b.mul(self.vector(sums, I.add(I.mul(x, line), at)), L.splat(by, self.lanes))
                    b.store(target.buffer, I.add(base, at), b.cast(value, target.dtype), mask)

            self.columns_of(width, write)

    def block(self, rows, first, count, width, room):
        """`count` rows from `first` on, in the dtype of sums: where they are, or copied into a local."""
        b = self.b
        base = b.let(I.add(rows.base, I.mul(first, rows.step)))
        if rows.dtype is self.total:
            return Rows(rows.buffer, rows.dtype, base, rows.step)
        line = b.let(self.line(width))
        with self.loop("row", 0, count) as y:
            start = b.let(I.add(base, I.mul(y, rows.step)))

            def copy(c, starts, mask):
                zero = None if mask is None else b.const(0.0, rows.dtype, self.lanes)
                for at in (I.add(c, s) for s in starts):
                    value = b.load(rows.buffer, I.add(start, at), rows.dtype, self.lanes, mask, zero)
                    b.store(room, I.add(I.mul(y, line), at), b.cast(value, self.total))

            self.columns_of(width, copy)
        return Rows(room, self.total, L.as_index(0), line)

    def room_for(self, name):
        """The local that `block` copies into, where one is needed."""
        return None if self.spec.dtype is self.total else self.local(name, STEPS * self.spec.room)

    # ---- products
    def products(self, rows, panel, depth, count, out):
        """out[y, x] = the sum over c of rows[y, c] * panel[c, x], for y < `count` (and a group's rest)."""
        b = self.b
        with self.columns() as x, self.loop("y", 0, count, self.group) as y:
            bases = [b.let(I.add(rows.base, I.mul(I.minimum(I.add(y, i), I.sub(count, 1)), rows.step)))
                     for i in range(self.group)]
            sums = [[b.declare(self.number(0.0, self.lanes)) for _ in self.starts] for _ in bases]
            with self.loop("c", 0, depth) as c:
                vectors = [self.vector(panel, I.add(I.mul(c, self.items), x, start)) for start in self.starts]
                self.add_products(sums, rows.buffer, [I.add(base, c) for base in bases], vectors)
            for i, row in enumerate(sums):
                for start, total in zip(self.starts, row):
                    b.store(out, I.add(I.mul(I.add(y, i), self.items), x, start), total)

    def accumulate(self, sums, panel, rows, width, count, items, factor=None):
        """sums[x, c] = sums[x, c] * factor[x] + the sum over y of panel[y, x] * rows[y, c], for x < `items`
        (and a group's rest)."""
        line = self.b.let(self.line(width))

        def write(c, starts, mask):
            for start, stop, group in self.groups:
                with self.loop("x", start, I.minimum(stop, items), group) as x:
                    self.add_group(sums, line, panel, rows, count, (x, group), (c, starts, mask), factor)

        self.columns_of(width, write)

    def add_group(self, sums, line, panel, rows, count, group, columns, factor):
        """`accumulate` for a group of items, (first, how many), and a register block's columns."""
        x, size = group
        places = [self.b.let(I.mul(I.add(x, i), line)) for i in range(size)]
        factors = [None if factor is None else self.b.load(factor, I.add(x, i), self.total)
                   for i in range(size)]

        def left(y):
            return [I.add(I.mul(y, self.items), x, i) for i in range(size)]

        self.add_up(sums, places, panel, left, rows, count, columns, factors)

    def add_up(self, sums, places, panel, left, rows, count, columns, factors, guard=None):
        """A register block: lines of sums at `places`, times `factors`, plus the sum over y of the panel's
        numbers at left(y) times rows[y]. columns: (first, where its vectors start, mask); guard: the mask for
        sums."""
        b, lanes, (c, starts, mask) = self.b, self.lanes, columns
        zero = None if mask is None else self.number(0.0, lanes)
        totals = []
        for place, by in zip(places, factors):
            old = [b.load(sums, I.add(place, c, s), self.total, lanes, guard, guard and zero) for s in starts]
            by = None if by is None else b.let(L.splat(by, lanes))
            totals.append([b.declare(o if by is None else b.mul(o, by)) for o in old])
        with self.loop("y", 0, count) as y:
            base = b.let(I.add(rows.base, I.mul(y, rows.step), c))
            vectors = [b.load(rows.buffer, I.add(base, s), self.total, lanes, mask, zero) for s in starts]
            self.add_products(totals, panel, left(y), vectors)
        for place, row in zip(places, totals):
            for start, total in zip(starts, row):
                b.store(sums, I.add(place, c, start), total, guard)

    def add_products(self, sums, buffer, left, vectors):
        """sums[i] += the number of the buffer at left[i] * vectors."""
        b = self.b
        for row, place in zip(sums, left):
            one = b.let(L.splat(b.load(buffer, place, self.total), self.lanes))
            for total, other in zip(row, vectors):
                b.assign(total, L.apply("fma", one, other, total))


class Scores:
    """Scale, mask, causality and dropout of scores [y, x] that `Tile.products` left in a panel.

    along: 'query' if the items of the tile are queries, 'key' if they are keys. One is made for each block:
    place (batch, head, member), `first_item` and `items` (how many there are), `first` and `count` of the
    other kind.
    """

    def __init__(self, tile, along, place, first_item, items, first, count):
        self.tile, self.b, self.spec = tile, tile.b, tile.spec
        self.along, self.place = along, place
        self.first_item, self.items, self.first, self.count = first_item, items, first, count
        self.scale = L.splat(tile.scale, tile.lanes)
        if self.spec.mask is not None:
            self.pack_mask()

    @staticmethod
    def reserve(tile):
        """Declare the locals that the mask needs."""
        if tile.spec.mask is not None:
            tile.local("mask_block", STEPS * tile.items)

    def pack_mask(self):
        """mask_block[y, x]: what is added to the score; one number a y where all items share it."""
        strides = [stride if isinstance(stride, int) else I.index(f"mask_{name}") for name, stride in
                   zip(MASK_AXES, self.spec.mask_strides)]
        of_x, of_y = strides[3:] if self.along == "query" else strides[:2:-1]
        self.shared = isinstance(of_x, int) and of_x == 0
        b, tile = self.b, self.tile
        start = I.add(I.mul(self.first_item, of_x), I.mul(self.first, of_y))
        base = b.let(I.add(*map(I.mul, self.place, strides), start))
        if self.shared:
            with tile.loop("y", 0, self.count) as y:
                self.copy_mask(I.add(base, I.mul(y, of_y)), y)
            return
        if isinstance(of_x, int):
            whole = L.apply("eq", self.items, L.as_index(tile.items))
            with b.branch(whole):
                self.pack_mask_rows(base, of_y, False)
            with b.branch(L.apply("not", whole)):
                self.pack_mask_rows(base, of_y, True)
            return
        with tile.loop("x", 0, self.items) as x:
            start = b.let(I.add(base, I.mul(x, of_x)))
            with tile.loop("y", 0, self.count) as y:
                self.copy_mask(I.add(start, I.mul(y, of_y)), I.add(I.mul(y, tile.items), x))

    def pack_mask_rows(self, base, of_y, guarded):
        """Items are consecutive in the mask: vectors, `guarded` where the tile is not whole."""
        b, tile, mask = self.b, self.tile, self.spec.mask_type
        with tile.loop("y", 0, self.count) as y, tile.loop("x", 0, self.items, tile.lanes) as x:
            inside = I.lanes_below(I.sub(self.items, x), tile.lanes) if guarded else None
            zero = b.const(0.0 if mask.kind == "f" else 0, mask, tile.lanes) if guarded else None
            value = b.load("mask", I.add(base, I.mul(y, of_y), x), mask, tile.lanes, inside, zero)
            b.store("mask_block", I.add(I.mul(y, tile.items), x), self.added(value))

    def copy_mask(self, source, place):
        self.b.store("mask_block", place, self.added(self.b.load("mask", source, self.spec.mask_type)))

    def added(self, value):
        """What an element of the mask adds to a score."""
        b, tile = self.b, self.tile
        if self.spec.mask is not bool_:
            return b.cast(value, tile.total)
        bits = int32 if tile.total is float32 else int64
        hidden = b.sub(b.cast(value, bits), b.const(1, bits, value.lanes))      # all bits are set for 0
        infinite = b.call("bitcast", tile.number(-INFINITY, value.lanes), dtype=bits)
        return b.call("bitcast", b.and_(hidden, infinite), dtype=tile.total)

    def score(self, product, y, x):
        """The finished score of a vector of products at row y and items from x on."""
        b, tile, lanes = self.b, self.tile, self.tile.lanes
        score = b.mul(product, self.scale)
        if self.spec.mask is not None:
            if self.shared:
                score = b.add(score, L.splat(b.load("mask_block", y, tile.total), lanes))
            else:
                score = b.add(score, tile.vector("mask_block", I.add(I.mul(y, tile.items), x)))
        if self.spec.causal:
            ahead = I.sub(I.add(self.first, y), I.add(self.first_item, x))
            ahead = b.let(L.splat(L.apply("cast", ahead, dtype=int32), lanes))
            own = L.Apply(int32, lanes, "lane", ())
            taken = b.ge(own, ahead) if self.along == "query" else b.le(own, ahead)
            score = b.select(taken, score, tile.number(-INFINITY, lanes))
        return score

    def kept(self, values, y, x):
        """Vectors where dropout keeps the weight, divided by the share that is kept; else zero."""
        b, tile, lanes = self.b, self.tile, self.tile.lanes
        item, other = I.add(self.first_item, x), I.add(self.first, y)
        row, column = (item, other) if self.along == "query" else (other, item)
        row = I.add(I.mul(tile.strip(self.place), tile.length), row)
        start = b.let(I.add(I.mul(row, tile.source), column))
        step = tile.source if self.along == "query" else L.as_index(1)
        own = b.call("cast", L.Apply(int32, lanes, "lane", ()), dtype=int64)
        counter = b.add(L.splat(start, lanes), b.mul(own, L.splat(step, lanes)))
        drawn = REGISTRY["uniform_element"].scalar(b, counter, tile.seed, dtype=float32)
        keep = b.ge(drawn, L.splat(tile.dropped, lanes))
        scale, zero = L.splat(tile.kept_scale, lanes), tile.number(0.0, lanes)
        return [b.select(keep, b.mul(value, scale), zero) for value in values]


def read_numbers(tile):
    """Load scale, and with dropout its key and probability, from their buffers of one element."""
    b = tile.b
    zero = L.as_index(0)
    tile.scale = b.cast(b.load("scale", zero, tile.spec.scale), tile.total)
    if tile.spec.dropout:
        tile.seed = b.cast(b.load("seed", zero, int64), uint64)
        probability, one = b.cast(b.load("dropped", zero, tile.spec.dropout), float64), b.const(1.0, float64)
        tile.dropped = b.cast(probability, float32)
        tile.kept_scale = b.cast(b.div(one, b.sub(one, probability)), tile.total)


def optional_buffers(spec):
    """Those of the mask and of dropout."""
    found = [L.Buffer("scale", spec.scale, "r")]
    if spec.mask is not None:
        found.append(L.Buffer("mask", spec.mask_type, "r"))
    if spec.dropout:
        found += [L.Buffer("seed", int64, "r"), L.Buffer("dropped", spec.dropout, "r")]
    return found


# ---------------------------------------------------------------------------------------------- forward
def attention_kernel(spec, params, target=None):
    """The forward kernel.

    Buffers: query, key, value, scale, mask, seed, dropped (those that `spec` has), output and logsumexp
    (batch, heads, group, length). params: SIZES and the strides of operands and output.
    """
    tile = Tile(spec, target)
    for name, rows in (("queries", spec.room), ("sums", spec.room), ("scores", STEPS + tile.group),
                       ("most", 1), ("total", 1), ("factor", 1)):
        tile.local(name, rows * tile.items)
    Scores.reserve(tile)
    rooms = tile.room_for("key_block"), tile.room_for("value_block")
    read_numbers(tile)
    with tile.b.loop("tile", L.BEGIN, L.END) as number:
        place, first, items = tile.places(number, tile.length)
        _attend(tile, place, first, items, *rooms)
        _finish(tile, place, first, items)
    buffers = [L.Buffer(n, spec.dtype, "r") for n in ("query", "key", "value")] + optional_buffers(spec)
    buffers += [L.Buffer("output", spec.dtype, "w"), L.Buffer("logsumexp", spec.total, "w")]
    extent = I.mul(tile.strips(), I.ceil_div(tile.length, tile.items))
    return L.Kernel("attention", tuple(buffers), tuple(params), extent, tile.body())


def _attend(tile, place, first, items, key_room, value_room):
    """All keys for one tile of queries."""
    b, spec = tile.b, tile.spec
    keys, values = tile.rows("key", *place[:2]), tile.rows("value", *place[:2])
    tile.pack(tile.rows("query", *place), first, items, tile.width, "queries")
    tile.fill("sums", 0.0, I.mul(tile.items, tile.line(tile.value_width)))
    tile.fill("most", -INFINITY, tile.items)
    tile.fill("total", 0.0, tile.items)
    limit = b.let(I.minimum(tile.source, I.add(first, items)) if spec.causal else tile.source)
    with b.loop("key0", 0, limit, STEPS) as key0:
        count = b.let(I.minimum(STEPS, I.sub(limit, key0)))
        near = tile.block(keys, key0, count, tile.width, key_room)
        tile.products(near, "queries", tile.width, count, "scores")
        _soften(tile, Scores(tile, "query", place, first, items, key0, count), count)
        tile.accumulate("sums", "scores", tile.block(values, key0, count, tile.value_width, value_room),
                        tile.value_width, count, items, "factor")


def _soften(tile, scores, count):
    """Products in `scores` become weights under the largest score so far."""
    b, lanes = tile.b, tile.lanes
    with tile.columns() as x:
        olds = [tile.vector("most", I.add(x, start)) for start in tile.starts]
        largest = [b.declare(old) for old in olds]
        with tile.loop("y", 0, count) as y:
            for start, most in zip(tile.starts, largest):
                at = b.let(I.add(I.mul(y, tile.items), x, start))
                score = scores.score(tile.vector("scores", at), y, I.add(x, start))
                b.store("scores", at, score)
                b.assign(most, b.select(b.gt(score, most), score, most))
        bounds, sums = [], []
        for start, old, most in zip(tile.starts, olds, largest):
            b.store("most", I.add(x, start), most)
            none = b.eq(most, tile.number(-INFINITY, lanes))        # infinity - infinity is no number
            bounds.append(b.select(none, tile.number(0.0, lanes), most))
            b.store("factor", I.add(x, start), weight(b, b.sub(old, bounds[-1])))
            sums.append(b.declare(tile.number(0.0, lanes)))
        with tile.loop("y", 0, count) as y:
            for start, bound, total in zip(tile.starts, bounds, sums):
                at = b.let(I.add(I.mul(y, tile.items), x, start))
                share = weight(b, b.sub(tile.vector("scores", at), bound))
                b.assign(total, b.add(total, share))
                if tile.spec.dropout:
                    share, = scores.kept([share], y, I.add(x, start))
                b.store("scores", at, share)
        for start, total in zip(tile.starts, sums):
            at = I.add(x, start)
            b.store("total", at, b.fma(tile.vector("total", at), tile.vector("factor", at), total))


def _finish(tile, place, first, items):
    """Divide by the totals and write output and logsumexp; a query without keys gives zeros and infinity."""
    b, lanes = tile.b, tile.lanes
    with tile.columns() as x:
        for start in tile.starts:
            at = b.let(I.add(x, start))
            total, zero = tile.vector("total", at), tile.number(0.0, lanes)
            none = b.eq(total, zero)
            b.store("factor", at, b.select(none, zero, b.div(tile.number(1.0, lanes), total)))
            logarithm = b.add(tile.vector("most", at), b.call("log", total))
            b.store("most", at, b.select(none, tile.number(INFINITY, lanes), logarithm))
    tile.hand_over("sums", tile.value_width, items, "factor", tile.rows("output", *place), first)
    base = b.let(I.add(I.mul(tile.strip(place), tile.length), first))
    with tile.loop("item", 0, items) as x:
        b.store("logsumexp", I.add(base, x), b.load("most", x, tile.total))
