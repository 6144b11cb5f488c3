"""The gradient of attention as a Loops template, without atomics and in a fixed order.

Weights are computed anew from the logarithm of their total that the forward kernel kept. A tile is `items`
keys of one head; the queries of all heads that share them pass by in blocks, one head after the other:

    scores[query, key] = products along the width              as in the forward kernel, to the last bit
    changes[query, key] = products of the output's gradient and the values
    weights = exp(scores - logsumexp of the query)
    changes = weights * (changes - delta of the query) * scale      the gradient of the scores, scaled
    value's gradient[key] += weights * output's gradient             one fma after another along the queries
    key's gradient[key] += changes * queries                         the same
    query's gradient[query] += changes * keys                        one fma after another along the keys

delta is the sum over a query's output times its gradient. A step of the extent owns a head and adds to the
gradients of all its queries, tile after tile. Where there are few heads each is parted: part p of n owns the
tiles p, p + n, ... and sums of its own, and a second kernel adds those of the parts in order. How many parts
there are follows from the sizes alone.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.attention import STEPS, Rows, Scores, Tile, optional_buffers, read_numbers, weight
from flambeau.ir import loops as L

INPUTS = ("grad", "query", "key", "value")


def gradient_kernel(spec, params, target=None):
    """Buffers: grad, query, key, value, logsumexp and delta (batch, heads, group, length), scale, mask, seed,
    dropped, then sums (parts, batch, heads, group, length, width), key_grad and value_grad. params: SIZES,
    parts and the strides of operands and results."""
    tile = Tile(spec, target)
    b = tile.b
    for name in ("packed", "packed_values", "key_sums", "value_sums"):
        tile.local(name, spec.room * tile.items)
    for name in ("scores", "changes"):
        tile.local(name, (STEPS + tile.group) * tile.items)
    Scores.reserve(tile)
    read_numbers(tile)
    rooms = [tile.room_for(name) for name in ("query_block", "grad_block", "key_block")]
    strips = b.let(I.mul(tile.batch, tile.heads))
    with b.loop("owner", L.BEGIN, L.END) as owner:
        strip, part = b.let(I.rem(owner, strips)), b.let(I.div(owner, strips))
        _clear(tile, strip, part)
        place = b.let(I.div(strip, tile.heads)), b.let(I.rem(strip, tile.heads))
        step, start = I.mul(I.index("parts"), tile.items), I.mul(part, tile.items)
        rounds = b.let(I.ceil_div(I.maximum(I.sub(tile.source, start), 0), step))
        with b.loop("round", 0, rounds) as number:
            first = b.let(I.add(start, I.mul(number, step)))
            _keys(tile, place, first, part, rooms)
    buffers = [L.Buffer(n, spec.dtype, "r") for n in INPUTS]
    buffers += [L.Buffer(n, spec.total, "r") for n in ("logsumexp", "delta")] + optional_buffers(spec)
    buffers += [L.Buffer("sums", spec.total, "rw"), L.Buffer("key_grad", spec.dtype, "w"),
                L.Buffer("value_grad", spec.dtype, "w")]
    extent = I.mul(tile.batch, tile.heads, I.index("parts"))
    return L.Kernel("attention_gradient", tuple(buffers), tuple(params), extent, tile.body())


def _clear(tile, strip, part):
    """Zeros for the sums that an owner adds to."""
    b, size = tile.b, tile.b.let(I.mul(tile.group_size, tile.length, tile.width))
    base = b.let(I.mul(I.add(I.mul(part, tile.batch, tile.heads), strip), size))
    whole = b.let(I.mul(I.div(size, tile.lanes), tile.lanes))
    with tile.loop("clear", 0, whole, tile.lanes) as i:
        b.store("sums", I.add(base, i), tile.number(0.0, tile.lanes))
    with tile.loop("clear", whole, size) as i:
        b.store("sums", I.add(base, i), tile.number(0.0))


def _keys(tile, place, first, part, rooms):
    """One tile of keys from `first` on, and all queries that meet it."""
    b = tile.b
    items = b.let(I.minimum(tile.items, I.sub(tile.source, first)))
    keys = tile.rows("key", *place)
    tile.pack(keys, first, items, tile.width, "packed")
    tile.pack(tile.rows("value", *place), first, items, tile.value_width, "packed_values")
    keys = tile.block(keys, first, items, tile.width, rooms[2])
    for name, width in (("key_sums", tile.width), ("value_sums", tile.value_width)):
        tile.fill(name, 0.0, I.mul(tile.items, tile.line(width)))
    with b.loop("member", 0, tile.group_size) as member:
        own = (*place, member)
        queries, grads = tile.rows("query", *own), tile.rows("grad", *own)
        row = b.let(I.mul(tile.strip(own), tile.length))
        sums = I.add(I.mul(part, tile.strips(), tile.length), row)
        with b.loop("query0", first if tile.spec.causal else 0, tile.length, STEPS) as query0:
            count = b.let(I.minimum(STEPS, I.sub(tile.length, query0)))
            near = tile.block(queries, query0, count, tile.width, rooms[0])
            near_grads = tile.block(grads, query0, count, tile.value_width, rooms[1])
            tile.products(near, "packed", tile.width, count, "scores")
            tile.products(near_grads, "packed_values", tile.value_width, count, "changes")
            scores = Scores(tile, "key", own, first, items, query0, count)
            _soften(tile, scores, count, b.let(I.add(row, query0)))
            tile.accumulate("value_sums", "scores", near_grads, tile.value_width, count, items)
            tile.accumulate("key_sums", "changes", near, tile.width, count, items)
            target = Rows("sums", tile.total, b.let(I.mul(I.add(sums, query0), tile.width)), tile.width)
            _add_to_queries(tile, target, keys, count, items)
    for name, width in (("key", tile.width), ("value", tile.value_width)):
        target = tile.rows(f"{name}_grad", *place)
        tile.hand_over(f"{name}_sums", width, items, tile.number(1.0), target, first)


def _soften(tile, scores, count, row):
    """`scores` become weights and `changes` the scaled gradients of scores; row: that of the first query."""
    b, lanes = tile.b, tile.lanes
    with tile.columns() as x, tile.loop("y", 0, count) as y:
        logsumexp, delta = (b.let(L.splat(b.load(name, I.add(row, y), tile.total), lanes))
                            for name in ("logsumexp", "delta"))
        for start in tile.starts:
            place = I.add(x, start)
            at = b.let(I.add(I.mul(y, tile.items), place))
            share = weight(b, b.sub(scores.score(tile.vector("scores", at), y, place), logsumexp))
            change, kept = tile.vector("changes", at), share
            if tile.spec.dropout:
                change, kept = scores.kept((change, share), y, place)
            b.store("scores", at, kept)
            b.store("changes", at, b.mul(b.mul(share, b.sub(change, delta)), scores.scale))


def _add_to_queries(tile, target, keys, count, items):
    """target[y, c] += the sum over x of changes[y, x] * keys[x, c] for the queries of a block."""
    b = tile.b
    whole = b.let(I.mul(I.div(count, tile.group), tile.group))
    for start, stop, group in ((0, whole, tile.group), (whole, count, 1)):
        with tile.loop("y", start, stop, group) as y:
            places = [b.let(I.add(target.base, I.mul(I.add(y, i), target.step))) for i in range(group)]

            def left(x):
                return [I.add(I.mul(I.add(y, i), tile.items), x) for i in range(group)]

            def write(c, starts, mask):
                tile.add_up(target.buffer, places, "changes", left, keys, items, (c, starts, mask),
                            [None] * group, mask)

            tile.columns_of(tile.width, write)


def fold_kernel(spec, params, target=None):
    """The gradient of the queries from the sums of the parts. Buffers: sums, query_grad; params as of
    `gradient_kernel`, with the strides of query_grad."""
    tile = Tile(spec, target)
    b = tile.b
    with b.loop("tile", L.BEGIN, L.END) as number:
        place, first, items = tile.places(number, tile.length)
        target = tile.rows("query_grad", *place)
        row = b.let(I.add(I.mul(tile.strip(place), tile.length), first))
        size = b.let(I.mul(tile.strips(), tile.length, tile.width))
        with tile.loop("item", 0, items) as x:
            source = b.let(I.mul(I.add(row, x), tile.width))
            goal = b.let(I.add(target.base, I.mul(I.add(first, x), target.step)))
            tile.columns_of(tile.width, lambda *columns: _fold(tile, source, size, goal, *columns))
    buffers = L.Buffer("sums", spec.total, "r"), L.Buffer("query_grad", spec.dtype, "w")
    extent = I.mul(tile.strips(), I.ceil_div(tile.length, tile.items))
    return L.Kernel("attention_fold", buffers, tuple(params), extent, tile.body())


def _fold(tile, source, size, goal, c, starts, mask):
    b, zero = tile.b, tile.number(0.0, tile.lanes)

    def load(part, start):
        place = I.add(I.mul(part, size), source, c, start)
        return b.load("sums", place, tile.total, tile.lanes, mask, mask and zero)

    totals = [b.declare(load(0, start)) for start in starts]
    with tile.loop("part", 1, I.index("parts")) as part:
        for start, total in zip(starts, totals):
            b.assign(total, b.add(total, load(part, start)))
    for start, total in zip(starts, totals):
        b.store("query_grad", I.add(goal, c, start), b.cast(total, tile.spec.dtype), mask)
