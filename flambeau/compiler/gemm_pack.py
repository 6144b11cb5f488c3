"""Packing for compiler.gemm: what a tile needs of A and B for one block of k's, in the order it is read.

Packed A holds rows of consecutive k's (where k is consecutive in A), or for each k the rows side by side.
Packed B holds panels of columns, for each k its columns side by side. A B that is consecutive along k is
turned in registers: `lanes` rows of `lanes` k's are read, zipped log2(lanes) times, and written.

A caller says of A and of B what vectors its load can read:

    False       none: elements one by one
    True        vectors that lie inside of the matrix; the rest one by one
    'tails'     the same, and the rest through a second splice, A_tail or B_tail, that guards itself
    'masked'    any vector: the load guards itself against lanes beyond the matrix
"""

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L

DEPTH = 256                 # k's in a block: part of the meaning, as it fixes the order of additions
UNROLL = 8                  # elements that scalar packing copies at a time
PAD = 16                    # elements behind a packed row, so that rows do not meet in one cache set


class Packing:
    """The packing half of gemm's template: writes statements through self.b.

    Reads dtype, plan, unit_a, unit_b, vector_a, vector_b, prepare, and of the tile at hand batch, m, n (its
    corner), k (first of the block), rows, columns, depth (what is there of them).
    """

    @property
    def packed_a_size(self):
        rows = self.plan.tile_rows
        return (rows * (DEPTH + PAD) if self.unit_a == "k" else DEPTH * (rows + PAD)) + PAD

    @property
    def panel_b_size(self):
        return DEPTH * self.plan.columns

    @property
    def strides_a(self):
        """(of a row, of a k) in packed A."""
        return (DEPTH + PAD, 1) if self.unit_a == "k" else (1, self.plan.tile_rows + PAD)

    def each_k(self, name, start, write):
        """Run `write(k)` for the k's of the block from `start` on, UNROLL at a time."""
        b = self.b
        count = I.sub(self.depth, start)
        whole = b.let(I.add(start, I.mul(I.div(count, UNROLL), UNROLL)))
        with b.loop(name + "_group", start, whole, UNROLL) as group:
            with b.loop(name + "_one", 0, UNROLL, kind="unroll") as one:
                write(I.add(group, one))
        with b.loop(name, whole, self.depth) as k:
            write(k)

    def whole_k(self):
        """How many of the block's k's make whole vectors."""
        return self.b.let(I.mul(I.div(self.depth, self.plan.lanes), self.plan.lanes))

    # ---- A
    def a(self, row, k, lanes=1, splice="A"):
        """A SpliceLoad of rows from `row` of the tile and k's from `k` of the block."""
        return L.SpliceLoad(self.dtype, lanes, splice, (self.batch, I.add(self.m, row), I.add(self.k, k)))

    def put_a(self, address, value):
        self.b.store("packed_a", address, value)

    def pack_a(self):
        if self.unit_a == "m":
            return self.pack_a_columns()
        b = self.b
        with b.loop("row", 0, I.mul(self.panels, self.plan.rows)) as row:
            self.pack_a_row(b.let(I.mul(row, self.strides_a[0])), b.let(I.minimum(row, I.sub(self.rows, 1))))

    def pack_a_row(self, address, row):
        """One row's k's; rows beyond the last are copies of it."""
        b, lanes, done = self.b, self.plan.lanes, 0

        def vector(k, splice="A"):
            self.put_a(I.add(address, k), self.a(row, k, lanes, splice))

        if self.vector_a:
            done = self.depth if self.vector_a == "masked" else self.whole_k()
            with b.loop("k", 0, done, lanes) as k:
                vector(k)
        if self.vector_a == "tails":
            with b.branch(L.apply("lt", done, self.depth)):
                vector(done, "A_tail")
        elif self.vector_a != "masked":
            self.each_k("k_left", done, lambda k: self.put_a(I.add(address, k), self.a(row, k)))

    def pack_a_columns(self):
        """The k's, each with all rows side by side: long runs of memory."""
        b, lanes, stride = self.b, self.plan.lanes, self.strides_a[1]

        def put(row, k, count=lanes, splice="A"):
            self.put_a(I.add(I.mul(k, stride), row), self.a(row, k, count, splice))

        whole = L.as_index(0)
        if self.vector_a:
            whole = b.let(I.mul(I.div(self.rows, lanes), lanes)) if self.vector_a != "masked" else self.rows
            with b.loop("k", 0, self.depth) as k, b.loop("packing", 0, whole, lanes) as row:
                put(row, k)
        if self.vector_a == "tails":
            with b.branch(L.apply("lt", whole, self.rows)), b.loop("k", 0, self.depth) as k:
                put(whole, k, splice="A_tail")
        elif self.vector_a != "masked":
            with b.loop("k", 0, self.depth) as k, b.loop("row", whole, self.rows) as row:
                put(row, k, 1)

    def choose(self, vector, whole, vectors, rest):
        """Vectors where the load guards itself or the panel is whole, else the rest."""
        if vector == "masked":
            vectors()
        elif not vector:
            rest()
        else:
            with self.b.branch(whole):
                vectors()
            with self.b.branch(L.apply("not", whole)):
                rest()

    # ---- B
    def load_b(self, k, column, lanes=1, splice="B", in_panel=0):
        args = (self.batch, I.add(self.k, k), I.add(self.n, column), L.as_index(in_panel))
        return L.SpliceLoad(self.dtype, lanes, splice, args)

    def pack_b(self):
        """All panels of the tile's columns; of a panel's vectors those that have a column."""
        b, plan = self.b, self.plan
        if self.unit_b == "n" and not self.prepare and self.vector_b in (True, "tails"):
            return self.pack_b_rows()
        with b.loop("packing_b", 0, self.columns, plan.columns) as start:
            base = b.let(I.mul(I.div(start, plan.columns), self.panel_b_size))
            left = b.let(I.minimum(I.sub(self.columns, start), plan.columns), "panel_columns")
            if self.prepare:
                b.splice_store("prepare", self.batch, b.let(I.add(self.n, start), "panel_column"))
            if self.unit_b == "k" and self.vector_b:
                self.turn_panel(base, start, left)
            else:
                self.pack_panel(base, start, left)

    def pack_panel(self, base, start, left):
        """One panel, k by k."""
        b, plan = self.b, self.plan

        def vectors():
            with b.loop("kb", 0, self.depth) as k:
                for number in range(plan.vectors):
                    column = number * plan.lanes
                    value = self.load_b(k, I.add(start, column), plan.lanes, in_panel=column)
                    b.store("packed_b", I.add(base, I.mul(k, plan.columns), column), value)

        def scalar(k, column):
            value = self.load_b(k, I.add(start, column), in_panel=column)
            b.store("packed_b", I.add(base, I.mul(k, plan.columns), column), value)

        def scalars():
            self.clear_panel(base)
            if self.unit_b == "n":
                with b.loop("kb", 0, self.depth) as k, b.loop("column", 0, left) as column:
                    scalar(k, column)
            else:
                with b.loop("column", 0, left) as column:
                    self.each_k("kb", 0, lambda k: scalar(k, column))

        vector = self.vector_b if self.unit_b == "n" else False
        self.choose(vector, L.apply("eq", left, L.as_index(plan.columns)), vectors, scalars)

    def clear_panel(self, base):
        b, plan = self.b, self.plan
        with b.loop("kz", 0, self.depth) as k:
            for number in range(plan.vectors):
                address = I.add(base, I.mul(k, plan.columns), number * plan.lanes)
                b.store("packed_b", address, b.const(self.zero, self.dtype, plan.lanes))

    def pack_b_rows(self):
        """B's rows, each read through all panels: long runs of memory."""
        b, plan = self.b, self.plan
        whole = b.let(I.div(self.columns, plan.columns))
        with b.loop("kb", 0, self.depth) as k:
            with b.loop("panel", 0, whole) as panel:
                address = b.let(I.add(I.mul(panel, self.panel_b_size), I.mul(k, plan.columns)))
                for number in range(plan.vectors):
                    column = I.add(I.mul(panel, plan.columns), number * plan.lanes)
                    value = self.load_b(k, column, plan.lanes)
                    b.store("packed_b", I.add(address, number * plan.lanes), value)
        start = b.let(I.mul(whole, plan.columns))
        base = b.let(I.mul(whole, self.panel_b_size))
        left = b.let(I.sub(self.columns, start))
        with b.branch(L.apply("lt", start, self.columns)):
            if self.vector_b == "tails":
                with b.loop("column", 0, left, plan.lanes) as column, b.loop("kb", 0, self.depth) as k:
                    value = self.load_b(k, I.add(start, column), plan.lanes, "B_tail")
                    b.store("packed_b", I.add(base, I.mul(k, plan.columns), column), value)
            else:
                self.clear_panel(base)
                with b.loop("kb", 0, self.depth) as k, b.loop("column", 0, left) as column:
                    b.store("packed_b", I.add(base, I.mul(k, plan.columns), column),
                            self.load_b(k, I.add(start, column)))

    def turn_panel(self, base, start, left):
        """One panel of a B that is consecutive along k; columns beyond the last are copies of it."""
        b, plan = self.b, self.plan
        lanes, masked = plan.lanes, self.vector_b == "masked"

        def block(k, column, splice="B"):
            last = b.let(I.sub(left, I.add(column, 1)))
            rows = [b.let(self.load_b(k, I.add(start, column, I.minimum(i, last)), lanes, splice))
                    for i in range(lanes)]
            for i, row in enumerate(turned(b, rows)):
                b.store("packed_b", I.add(base, I.mul(I.add(k, i), plan.columns), column), row)

        with b.loop("column", 0, left, lanes) as column:
            done = self.depth if masked else self.whole_k()
            with b.loop("kb", 0, done, lanes) as k:
                block(k, column)
            if self.vector_b == "tails":
                with b.branch(L.apply("lt", done, self.depth)):
                    block(done, column, "B_tail")
            elif not masked:
                with b.loop("kb", done, self.depth) as k, b.loop("one", 0, lanes) as one:
                    inside = b.let(I.minimum(I.add(column, one), I.sub(left, 1)))
                    b.store("packed_b", I.add(base, I.mul(k, plan.columns), column, one),
                            self.load_b(k, I.add(start, inside)))


def turned(b, rows):
    """The columns of a square block of vectors: each pass pairs the vectors half the block apart."""
    half = len(rows) // 2
    passes = len(rows).bit_length() - 1
    for _ in range(passes):
        rows = [b.call(op, rows[i], rows[i + half]) for i in range(half) for op in ("zip_low", "zip_high")]
    return rows
