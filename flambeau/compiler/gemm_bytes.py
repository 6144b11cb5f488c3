"""Products of int8 matrices in int32, four k's at a time (`dot_bytes`); integers, so the order does not matter.

    for each tile of (columns, rows):                                the extent
        for each block of DEPTH k's:
            pack the tile's rows of A, and panels of columns of B, as int32 of four k's each
            for each panel of columns:
                for each panel of rows: a block of sums in registers, stored to C or added to it

`dot_bytes` takes unsigned bytes on one side: packed A holds a + 128, and the sums of a column start from -128
times the sum of its b's. Where k's are missing from the last four, b is 0.

A row or two times columns of consecutive k's are summed along k, nothing packed; then the bytes b + 128 are the
unsigned ones.
"""

from dataclasses import replace

from flambeau.compiler import index_math as I
from flambeau.compiler.gemm import blocking, tile_of
from flambeau.compiler.gemm_pack import turned
from flambeau.ir import loops as L
from flambeau.types.dtype import int8, int32

DEPTH = 512                 # k's in a block
FOUR = 4                    # k's in an int32
FEW = 2                     # rows that are summed along k
AT_ONCE = 4                 # columns that share the loads of such a row
PAD = 16                    # elements behind a packed row, so that rows do not meet in one cache set


def bytes_plan(target=None):
    """The Blocking: wide panels, as a load of bytes brings that many columns."""
    plan = blocking(int32, target)
    rows = 4 if plan.lanes >= 16 else 2
    return replace(plan, rows=rows, few_rows=1, vectors=FOUR)


def bytes_kernel(name, buffers, params, loads_a, loads_b, place, *, sizes, unit_b="n", target=None):
    """The kernel of C = A @ B for int8 A, whose k's are consecutive, and B, consecutive along `unit_b`.

    loads_a, loads_b: of vectors inside of the matrix, and guarded, as of `gemm.gemm_kernel`, in int8. place(m, n):
    where C[m, n] lies in the buffer `out`, that is read and written.
    """
    sizes = tuple(map(L.as_index, sizes))
    writer = _Bytes(sizes, bytes_plan(target), loads_a, loads_b, place, unit_b == "k")
    rows, columns = tile_of(sizes, (L.as_index(1), sizes[3]), writer.plan)
    extent = I.mul(I.ceil_div(sizes[2], columns), I.ceil_div(sizes[1], rows))
    return L.Kernel(name, tuple(buffers), tuple(params), extent, writer.body())


class _Bytes:
    """Writes the body. `rows`, `columns`, `depth`: what is there of the tile and of the block of k's."""

    def __init__(self, sizes, plan, loads_a, loads_b, place, turns):
        self.sizes, self.plan, self.place, self.turns = sizes, plan, place, turns
        self.loads_a, self.loads_b = loads_a, loads_b
        self.wide = FOUR * plan.lanes                       # bytes of a vector
        self.row_size = DEPTH // FOUR + PAD                 # of packed A
        self.panel_size = DEPTH // FOUR * plan.columns      # of packed B

    def body(self):
        self.b = b = L.Builder("q")
        plan = self.plan
        self.sizes = tuple(b.let(size) for size in self.sizes)
        rows, columns = tile_of(self.sizes, (L.as_index(1), self.sizes[3]), plan)
        rows, columns = b.let(rows, "most_rows"), b.let(columns, "most_columns")
        tiles = b.let(I.ceil_div(self.sizes[1], rows), "tiles_m")
        with b.loop("tile_number", L.BEGIN, L.END) as number:
            self.m = b.let(I.mul(I.rem(number, tiles), rows), "first_row")
            self.n = b.let(I.mul(I.div(number, tiles), columns), "first_column")
            self.rows = b.let(I.minimum(rows, I.sub(self.sizes[1], self.m)), "tile_rows")
            self.columns = b.let(I.minimum(columns, I.sub(self.sizes[2], self.n)), "tile_columns")
            if self.turns:
                few = b.let(L.apply("le", self.sizes[1], L.as_index(FEW)))
                with b.branch(few):
                    self.few_rows()
                with b.branch(b.not_(few)):
                    self.tile()
            else:
                self.tile()
        b.local("packed_a", int32, plan.tile_rows * self.row_size)
        b.local("packed_b", int32, plan.tile_columns // plan.columns * self.panel_size)
        b.local("start", int32, plan.tile_columns)
        return b.body()

    def tile(self):
        b, plan = self.b, self.plan
        stop = I.maximum(self.sizes[3], 1)                  # at least one block: no k's give 0
        with b.loop("k0", 0, stop, DEPTH) as self.k:
            self.depth = b.let(I.maximum(I.minimum(I.sub(self.sizes[3], self.k), DEPTH), 0), "depth")
            self.groups = b.let(I.ceil_div(self.depth, FOUR), "groups")
            self.whole = b.let(I.mul(I.div(self.depth, self.wide), self.wide), "whole")
            self.first = b.let(L.apply("eq", self.k, L.as_index(0)), "first")
            self.pack_a()
            with b.loop("packing", 0, self.columns, plan.columns) as column:
                self.pack_b(column)
            with b.loop("column", 0, self.columns, plan.columns) as column:
                self.panel(column)

    # ---- few rows
    def few_rows(self):
        b, k = self.b, self.sizes[3]
        self.whole = b.let(I.mul(I.div(k, self.wide), self.wide), "whole")
        with b.loop("few_row", 0, self.rows) as row:
            m = b.let(I.add(self.m, row))
            ones = b.const(0x01010101, int32, self.plan.lanes)
            shift, = self.along_k(m, 1, lambda a, k, tail, number, total: b.dot_bytes(ones, a, total))
            shift = b.let(L.apply("mul", shift, b.const(-128, int32)))
            with b.loop("few_column", 0, self.columns, AT_ONCE) as column:
                last = I.sub(self.columns, 1)
                columns = [b.let(I.add(self.n, I.minimum(I.add(column, i), last))) for i in range(AT_ONCE)]
                self.dots(m, columns, shift)

    def dots(self, m, columns, shift):
        """The sums of one row of A and some columns of B."""
        b, sign = self.b, self.b.const(-128, int8, self.wide)

        def product(a, k, tail, number, total):
            value = b.xor(self.vector(self.loads_b, tail, k, columns[number]), sign)
            return b.dot_bytes(self.four(value), a, total)
        for n, total in zip(columns, self.along_k(m, len(columns), product)):
            b.store("out", self.place(m, n), b.add(total, shift))

    def along_k(self, m, count, product):
        """`count` sums of product(A's k's, k, tail, number, total), of one lane each."""
        b, zero = self.b, self.b.const(0, int32, self.plan.lanes)
        totals = [b.declare(zero) for _ in range(count)]

        def add(k, tail):
            a = self.four(b.let(self.vector(self.loads_a, tail, m, k)))
            for number, total in enumerate(totals):
                b.assign(total, product(a, k, tail, number, total))
        with b.loop(b.fresh("along"), 0, self.whole, self.wide) as k:
            add(k, False)
        with b.branch(L.apply("lt", self.whole, self.sizes[3])):
            add(self.whole, True)
        return [b.reduce_add(b.let(total)) for total in totals]

    # ---- packing
    def vector(self, loads, tail, row, column):
        return loads[tail](self.b, L.as_index(0), row, column, self.wide)

    def four(self, value):
        """A vector of bytes as one of int32."""
        return self.b.let(L.Apply(int32, self.plan.lanes, "bitcast", (value,)))

    def pack_a(self):
        b, plan = self.b, self.plan
        sign = b.const(-128, int8, self.wide)
        with b.loop("row", 0, I.round_up(self.rows, plan.rows)) as row:
            m = b.let(I.add(self.m, I.minimum(row, I.sub(self.rows, 1))))

            def put(k, tail):
                value = b.xor(self.vector(self.loads_a, tail, m, I.add(self.k, k)), sign)
                b.store("packed_a", I.add(I.mul(row, self.row_size), I.div(k, FOUR)), self.four(value))

            with b.loop("ka", 0, self.whole, self.wide) as k:
                put(k, False)
            with b.branch(L.apply("lt", self.whole, self.depth)):
                put(self.whole, True)

    def pack_b(self, column):
        """A panel of columns, and where the sums of each start."""
        b, plan = self.b, self.plan
        zero = b.const(0, int32, plan.lanes)
        totals = [b.declare(zero) for _ in range(plan.vectors)]
        left = b.let(I.minimum(I.sub(self.columns, column), plan.columns))
        base = b.let(I.mul(I.div(column, plan.columns), self.panel_size))
        if self.turns:
            for number, total in enumerate(totals):
                with b.branch(L.apply("lt", L.as_index(number * plan.lanes), left)):
                    self.turn(base, column, number, left, total)
        else:
            inside = b.let(L.apply("eq", left, L.as_index(plan.columns)))
            with b.branch(inside):
                self.zip(base, column, totals, False)
            with b.branch(b.not_(inside)):
                self.zip(base, column, totals, True)
        for number, total in enumerate(totals):
            start = b.mul(b.let(total), b.const(-128, int32, plan.lanes))
            b.store("start", I.add(column, number * plan.lanes), start)

    def put_b(self, base, group, number, value, total):
        b, plan = self.b, self.plan
        b.store("packed_b", I.add(base, I.mul(group, plan.columns), number * plan.lanes), value)
        b.assign(total, b.dot_bytes(b.const(0x01010101, int32, plan.lanes), value, total))

    def zip(self, base, column, totals, tail):
        """Rows of B: four at a time, whose bytes take turns."""
        b = self.b

        def group(k, some):
            rows = []
            for i in range(FOUR):
                last = I.sub(self.sizes[3], 1)
                at = I.add(self.k, k, i)
                row = self.vector(self.loads_b, tail, b.let(I.minimum(at, last)) if some else at, I.add(self.n, column))
                if some:
                    inside = b.let(L.splat(b.let(L.apply("le", at, last)), self.wide))
                    row = b.select(inside, row, b.const(0, int8, self.wide))
                rows.append(b.let(row))
            for number, (value, total) in enumerate(zip(turned(b, rows), totals)):
                self.put_b(base, I.div(k, FOUR), number, self.four(value), total)

        whole = b.let(I.mul(I.div(self.depth, FOUR), FOUR))
        with b.loop(b.fresh("kb"), 0, whole, FOUR) as k:
            group(k, False)
        with b.branch(L.apply("lt", whole, self.depth)):
            group(whole, True)

    def turn(self, base, column, number, left, total):
        """Columns of B, whose k's are consecutive: a square block of int32; columns beyond the last are copies."""
        b, lanes = self.b, self.plan.lanes
        last = b.let(I.sub(left, number * lanes + 1))
        first = b.let(I.add(self.n, column, number * lanes))

        def block(k, tail):
            columns = [b.let(I.add(first, I.minimum(i, last))) for i in range(lanes)]
            rows = [self.four(b.let(self.vector(self.loads_b, tail, I.add(self.k, k), n))) for n in columns]
            for i, value in enumerate(turned(b, rows)):
                self.put_b(base, I.add(I.div(k, FOUR), i), number, value, total)

        with b.loop(b.fresh("kb"), 0, self.whole, self.wide) as k:
            block(k, False)
        with b.branch(L.apply("lt", self.whole, self.depth)):
            block(self.whole, True)

    # ---- sums
    def panel(self, column):
        b, plan = self.b, self.plan
        left = b.let(I.minimum(I.sub(self.columns, column), plan.columns))
        stop = b.let(I.mul(I.div(I.add(self.rows, plan.rows - plan.few_rows - 1), plan.rows), plan.rows))
        with b.loop("panel_row", 0, stop, plan.rows) as row:
            self.block(row, column, left, plan.rows)
        with b.branch(L.apply("lt", stop, self.rows)):
            self.block(stop, column, left, plan.few_rows)

    def block(self, row, column, left, rows):
        b, plan, lanes = self.b, self.plan, self.plan.lanes
        start = [b.load("start", I.add(column, v * lanes), int32, lanes) for v in range(plan.vectors)]
        sums = [[b.declare(value) for value in start] for _ in range(rows)]
        base_a, base_b = b.let(I.mul(row, self.row_size)), b.let(I.mul(I.div(column, plan.columns), self.panel_size))
        with b.loop(b.fresh("group"), 0, self.groups) as group:
            address = b.let(I.add(base_b, I.mul(group, plan.columns)))
            right = [b.load("packed_b", I.add(address, v * lanes), int32, lanes) for v in range(plan.vectors)]
            for i, totals in enumerate(sums):
                left_bytes = b.load("packed_a", I.add(base_a, group, i * self.row_size), int32)
                left_bytes = b.let(L.splat(left_bytes, lanes))
                for total, value in zip(totals, right):
                    b.assign(total, L.apply("dot_bytes", left_bytes, value, total))
        whole = b.let(L.apply("eq", left, L.as_index(plan.columns)))
        with b.branch(whole):
            self.out(row, column, sums, [None] * plan.vectors)
        with b.branch(b.not_(whole)):
            masks = [b.let(I.lanes_below(I.sub(left, v * lanes), lanes)) for v in range(plan.vectors)]
            self.out(row, column, sums, masks)

    def out(self, first_row, column, sums, masks):
        """Sums to C: stored by the first block, added by others; all are read before any is written, as rows
        beyond the last are the last one."""
        b, lanes = self.b, self.plan.lanes
        last = b.let(I.sub(self.rows, 1))
        lines = [b.let(I.add(self.m, I.minimum(I.add(first_row, i), last))) for i in range(len(sums))]
        places = [b.let(self.place(m, b.let(I.add(self.n, column)))) for m in lines]
        spots = [(I.add(place, v * lanes), total, mask) for place, totals in zip(places, sums)
                 for v, (total, mask) in enumerate(zip(totals, masks))]
        zero = b.const(0, int32, lanes)
        with b.branch(b.not_(self.first)):
            for place, total, mask in spots:
                old = b.load("out", place, int32, lanes, mask, None if mask is None else zero)
                b.assign(total, L.apply("add", total, old))
        for place, total, mask in spots:
            b.store("out", place, b.let(total), mask)
