"""Attention of a single query a head, at the speed of memory: what generating text token by token asks for.

Each key and each value is read once, as vectors along its width; the scores of `items` keys are side by side:

    for each (batch, head, member):                           the extent
        for each tile of keys:
            scores[key] = products of the query and the key: lanes along the width, added as a tree at the end
            the largest score so far, weights, and sums of exponentials in lanes
            sums[column] = sums * exp(old largest - new) + one fma after another along the keys
        hand over sums / total and the logarithm of the total

Vectors hold 64 bytes on every machine, since lanes are summed.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.attention import INFINITY, Scores, Tile, optional_buffers, read_numbers, weight
from flambeau.ir import loops as L

KEYS = 4                    # whose products are summed side by side
COLUMNS = 4                 # vectors of sums side by side


class Single(Tile):
    """Loads and sums along the width."""

    def __init__(self, spec, target=None):
        super().__init__(spec, target)
        self.lanes = 64 // self.total.itemsize
        self.starts = [v * self.lanes for v in range(self.items // self.lanes)]

    def wide(self, rows, place, mask=None):
        """A vector of a row, in the dtype of sums."""
        zero = None if mask is None else self.b.const(0.0, rows.dtype, self.lanes)
        return self.b.cast(self.b.load(rows.buffer, place, rows.dtype, self.lanes, mask, zero), self.total)

    def vectors_of(self, width, most, write):
        """Run `write(c, count, mask)` for all columns: `most` vectors at a time, then one by one."""
        b, size = self.b, most * self.lanes
        whole, single = (b.let(I.mul(I.div(width, n), n)) for n in (size, self.lanes))
        with self.loop("c", 0, whole, size) as c:
            write(c, most, None)
        with self.loop("c", whole, single, self.lanes) as c:
            write(c, 1, None)
        with b.branch(L.apply("lt", single, width)):
            write(single, 1, b.let(I.lanes_below(I.sub(width, single), self.lanes)))

    def dots(self, query, keys, first, count):
        """scores[x] = the sum over c of query[c] * keys[first + x, c]."""
        b = self.b
        with self.loop("x", 0, count, KEYS) as x:
            inside = [b.let(I.minimum(I.add(x, i), I.sub(count, 1))) for i in range(KEYS)]
            bases = [b.let(I.add(keys.base, I.mul(I.add(first, i), keys.step))) for i in inside]
            sums = [b.declare(self.number(0.0, self.lanes)) for _ in bases]

            def add(c, _, mask):
                one = self.wide(query, I.add(query.base, c), mask)
                for base, total in zip(bases, sums):
                    b.assign(total, b.fma(one, self.wide(keys, I.add(base, c), mask), total))

            self.vectors_of(self.width, 1, add)
            for i, total in zip(inside, sums):
                b.store("scores", i, b.reduce_add(total))

    def add_values(self, values, first, count, factor):
        """sums[c] = sums[c] * factor + the sum over x of scores[x] * values[first + x, c]."""
        b = self.b

        def add(c, vectors, mask):
            starts = [v * self.lanes for v in range(vectors)]
            by = L.splat(factor, self.lanes)
            totals = [b.declare(b.mul(self.vector("sums", I.add(c, start)), by)) for start in starts]
            with self.loop("x", 0, count) as x:
                share = b.let(L.splat(b.load("scores", x, self.total), self.lanes))
                base = b.let(I.add(values.base, I.mul(I.add(first, x), values.step), c))
                for start, total in zip(starts, totals):
                    b.assign(total, b.fma(share, self.wide(values, I.add(base, start), mask), total))
            for start, total in zip(starts, totals):
                b.store("sums", I.add(c, start), total)

        self.vectors_of(self.value_width, COLUMNS, add)


def single_kernel(spec, params, target=None):
    """The kernel for length 1; buffers and params as of `attention_kernel`."""
    tile = Single(spec, target)
    b = tile.b
    tile.local("sums", spec.room)
    tile.local("scores", tile.items + KEYS)
    Scores.reserve(tile)
    read_numbers(tile)
    with b.loop("strip", L.BEGIN, L.END) as strip:
        _attend(tile, tile.place(strip), strip)
    buffers = [L.Buffer(n, spec.dtype, "r") for n in ("query", "key", "value")] + optional_buffers(spec)
    buffers += [L.Buffer("output", spec.dtype, "w"), L.Buffer("logsumexp", spec.total, "w")]
    return L.Kernel("attention_single", tuple(buffers), tuple(params), tile.strips(), tile.body())


def _attend(tile, place, strip):
    """All keys for one query."""
    b = tile.b
    keys, values = tile.rows("key", *place[:2]), tile.rows("value", *place[:2])
    query = tile.rows("query", *place)
    tile.fill("sums", 0.0, tile.line(tile.value_width))
    most = b.declare(tile.number(-INFINITY))
    totals = [b.declare(tile.number(0.0, tile.lanes)) for _ in tile.starts]
    limit = b.let(I.minimum(tile.source, 1)) if tile.spec.causal else tile.source
    with b.loop("key0", 0, limit, tile.items) as key0:
        count = b.let(I.minimum(tile.items, I.sub(limit, key0)))
        tile.dots(query, keys, key0, count)
        scores = Scores(tile, "key", place, key0, count, L.as_index(0), L.as_index(1))
        factor = _soften(tile, scores, count, most, totals)
        tile.add_values(values, key0, count, factor)
    total = b.declare(tile.number(0.0))
    for lanes in totals:
        b.assign(total, b.add(total, b.reduce_add(lanes)))
    none, zero = b.eq(total, tile.number(0.0)), tile.number(0.0)
    target, by = tile.rows("output", *place), b.select(none, zero, b.div(tile.number(1.0), total))
    tile.hand_over("sums", tile.value_width, L.as_index(1), by, target, L.as_index(0))
    b.store("logsumexp", strip, b.select(none, tile.number(INFINITY), b.add(most, b.call("log", total))))


def _soften(tile, scores, count, most, totals):
    """Products become weights; returns what sums so far are to be multiplied with."""
    b, lanes = tile.b, tile.lanes
    found, hidden = [], tile.number(-INFINITY, lanes)
    for start in tile.starts:
        inside = I.lanes_below(I.sub(count, start), lanes)
        product = b.load("scores", L.as_index(start), tile.total, lanes, inside, hidden)
        found.append(b.select(inside, scores.score(product, L.as_index(0), L.as_index(start)), hidden))
    largest = found[0]
    for score in found[1:]:
        largest = b.max(largest, score)
    new = b.max(most, b.reduce_max(largest))
    bound = b.select(b.eq(new, tile.number(-INFINITY)), tile.number(0.0), new)
    factor = weight(b, b.sub(most, bound))
    for start, score, total in zip(tile.starts, found, totals):
        share = weight(b, b.sub(score, L.splat(bound, lanes)))
        b.assign(total, b.fma(total, L.splat(factor, lanes), share))
        if tile.spec.dropout:
            share, = scores.kept([share], L.as_index(0), L.as_index(start))
        b.store("scores", L.as_index(start), share)
    b.assign(most, new)
    return factor
