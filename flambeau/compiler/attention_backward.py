"""The gradient of attention as two Loops kernels of one form, without atomics and in a fixed order.

Weights are computed anew from the logarithm of their total that the forward kernel kept. A tile is `items`
queries (for their gradient) or `items` keys (for those of keys and values); the others pass by in blocks:

    scores[y, x] = products of rows y and items x along the width      as in the forward kernel, to the last bit
    changes[y, x] = products of the output's gradient and the values
    weights = exp(scores - logsumexp of the query)
    changes = weights * (changes - delta of the query)                 the gradient of the scores
    items' gradient [x, column] += changes[y, x] * rows[y, column]     and values' += weights * gradient

delta is the sum over a query's output times its gradient. With grouped queries a tile of keys meets the
queries of all heads that share them, one head after the other.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.attention import STEPS, Scores, Tile, describe, optional_buffers, read_numbers, strides_of, unit_rows, work_of
from flambeau.ir import loops as L

INPUTS = ("grad", "query", "key", "value")


class Backward(Tile):
    """What both kernels share: panels, the softmax backward, results."""

    def __init__(self, spec, target=None):
        super().__init__(spec, target)
        for name, rows in (("packed", spec.room), ("packed_values", spec.room), ("sums", spec.room),
                           ("scores", STEPS + self.group), ("changes", STEPS + self.group)):
            self.local(name, rows * self.items)
        Scores.reserve(self)
        read_numbers(self)

    def buffers(self, *outputs):
        """The kernel's buffers, in the order of its operands."""
        spec = self.spec
        found = [L.Buffer(n, spec.dtype, "r") for n in INPUTS]
        found += [L.Buffer(n, spec.total, "r") for n in ("logsumexp", "delta")]
        return (*found, *optional_buffers(spec), *(L.Buffer(n, spec.dtype, "w") for n in outputs))

    def soften(self, scores, count, logsumexp, delta, keep_weights):
        """`changes` becomes the gradient of the scores; with keep_weights `scores` becomes the weights.

        logsumexp(y, x), delta(y, x): those of a vector of items from x on at row y.
        """
        b = self.b
        with self.columns() as x, self.loop("y", 0, count) as y:
            for start in self.starts:
                place = I.add(x, start)
                at = b.let(I.add(I.mul(y, self.items), place))
                score = scores.score(self.vector("scores", at), y, place)
                weight = b.call("exp", b.sub(score, logsumexp(y, place)))
                change = self.vector("changes", at)
                if self.spec.dropout:
                    change = scores.kept(change, y, place)
                b.store("changes", at, b.mul(weight, b.sub(change, delta(y, place))))
                if keep_weights:
                    b.store("scores", at, scores.kept(weight, y, place) if self.spec.dropout else weight)


def query_kernel(spec, params, target=None):
    """The gradient of the queries. Buffers: grad, query, key, value, logsumexp and delta (batch, heads, group,
    length), scale, mask, seed, dropped, then query_grad. params: SIZES and the strides of operands and results."""
    tile = Backward(spec, target)
    for name in ("lane_logsumexp", "lane_delta"):
        tile.local(name, tile.items)
    rooms = tile.room_for("key_block"), tile.room_for("value_block")
    with tile.b.loop("tile", L.BEGIN, L.END) as number:
        place, first, items = tile.places(number, tile.length)
        _query_tile(tile, place, first, items, *rooms)
        tile.hand_over("sums", tile.width, items, tile.scale, tile.rows("query_grad", *place), first)
    extent = I.mul(tile.strips(), I.ceil_div(tile.length, tile.items))
    return L.Kernel("attention_query_gradient", tile.buffers("query_grad"), tuple(params), extent, tile.body())


def _query_tile(tile, place, first, items, key_room, value_room):
    b, spec = tile.b, tile.spec
    keys, values = (tile.rows(name, *place[:2]) for name in ("key", "value"))
    tile.pack(tile.rows("query", *place), first, items, tile.width, "packed")
    tile.pack(tile.rows("grad", *place), first, items, tile.value_width, "packed_values")
    base = b.let(I.add(I.mul(tile.strip(place), tile.length), first))
    with tile.loop("item", 0, tile.items) as x:
        inside = b.let(I.add(base, I.minimum(x, I.sub(items, 1))))
        for name in ("logsumexp", "delta"):
            b.store(f"lane_{name}", x, b.load(name, inside, tile.total))
    tile.fill("sums", 0.0, I.mul(tile.items, tile.line(tile.width)))
    limit = b.let(I.minimum(tile.source, I.add(first, items)) if spec.causal else tile.source)
    with b.loop("key0", 0, limit, STEPS) as key0:
        count = b.let(I.minimum(STEPS, I.sub(limit, key0)))
        near = tile.block(keys, key0, count, tile.width, key_room)
        tile.products(near, "packed", tile.width, count, "scores")
        tile.products(tile.block(values, key0, count, tile.value_width, value_room), "packed_values",
                      tile.value_width, count, "changes")
        tile.soften(Scores(tile, "query", place, first, items, key0, count), count,
                    lambda y, x: tile.vector("lane_logsumexp", x), lambda y, x: tile.vector("lane_delta", x), False)
        tile.accumulate("sums", "changes", near, tile.width, count, items)


def key_kernel(spec, params, target=None):
    """The gradients of keys and values. Buffers as of `query_kernel`; results: key_grad and value_grad."""
    tile = Backward(spec, target)
    b = tile.b
    tile.local("value_sums", spec.room * tile.items)
    rooms = tile.room_for("query_block"), tile.room_for("grad_block")
    tiles = b.let(I.ceil_div(tile.source, tile.items))
    with b.loop("tile", L.BEGIN, L.END) as number:
        strip = b.let(I.div(number, tiles))
        place = b.let(I.div(strip, tile.heads)), b.let(I.rem(strip, tile.heads))
        first = b.let(I.mul(I.rem(number, tiles), tile.items))
        items = b.let(I.minimum(tile.items, I.sub(tile.source, first)))
        tile.pack(tile.rows("key", *place), first, items, tile.width, "packed")
        tile.pack(tile.rows("value", *place), first, items, tile.value_width, "packed_values")
        tile.fill("sums", 0.0, I.mul(tile.items, tile.line(tile.width)))
        tile.fill("value_sums", 0.0, I.mul(tile.items, tile.line(tile.value_width)))
        with b.loop("member", 0, tile.group_size) as member:
            _key_tile(tile, (*place, member), first, items, *rooms)
        tile.hand_over("sums", tile.width, items, tile.scale, tile.rows("key_grad", *place), first)
        tile.hand_over("value_sums", tile.value_width, items, tile.number(1.0),
                    tile.rows("value_grad", *place), first)
    extent = I.mul(tile.batch, tile.heads, I.ceil_div(tile.source, tile.items))
    return L.Kernel("attention_key_gradient", tile.buffers("key_grad", "value_grad"), tuple(params), extent,
                    tile.body())


def _key_tile(tile, place, first, items, query_room, grad_room):
    """Add what the queries of one member of the group say about a tile of keys."""
    b = tile.b
    queries, grads = tile.rows("query", *place), tile.rows("grad", *place)
    base = b.let(I.mul(tile.strip(place), tile.length))
    with b.loop("query0", first if tile.spec.causal else 0, tile.length, STEPS) as query0:
        count = b.let(I.minimum(STEPS, I.sub(tile.length, query0)))
        near = tile.block(queries, query0, count, tile.width, query_room)
        near_grads = tile.block(grads, query0, count, tile.value_width, grad_room)
        tile.products(near, "packed", tile.width, count, "scores")
        tile.products(near_grads, "packed_values", tile.value_width, count, "changes")
        start = b.let(I.add(base, query0))

        def of_row(name):
            return lambda y, x: L.splat(b.load(name, I.add(start, y), tile.total), tile.lanes)

        tile.soften(Scores(tile, "key", place, first, items, query0, count), count,
                    of_row("logsumexp"), of_row("delta"), True)
        tile.accumulate("value_sums", "scores", near_grads, tile.value_width, count, items)
        tile.accumulate("sums", "changes", near, tile.width, count, items)


def launch(planner, inputs, scale, mask, dropout, outputs, causal, time_first, room):
    """Add the gradient to a plan. inputs: grad, query, key, value, logsumexp and delta (batch, heads, group,
    length); outputs: the gradients of query, key and value; `time_first` speaks of them and of grad; else as
    `attention.launch`."""
    grad, query, key, value, *rows = inputs
    spec, operands, params = describe(planner, query, key, value, scale, mask, dropout, causal, room)
    grad = unit_rows(planner, grad)
    params |= strides_of("grad", grad, time_first)
    operands = [grad, *operands[:3], *map(planner.dense, rows), *operands[3:]]
    work = work_of(query, value, 16)
    own = params | strides_of("query_grad", outputs[0], time_first)
    planner.launch_template(query_kernel(spec, own), [*operands, outputs[0]], own, work + work // 2)
    for name, located in zip(("key_grad", "value_grad"), outputs[1:]):
        params |= strides_of(name, located, time_first)
    planner.launch_template(key_kernel(spec, params), [*operands, *outputs[1:]], params, work * 2)
