"""Tiles of products whose k's fit one block, for compiler.gemm: operands are read where they lie, and sums go
from registers to C.

    for each panel of columns:
        for each panel of rows: a block of sums in registers, handed to C

Nothing is packed but a B whose k's are consecutive. Rows beyond the last are copies of it, read and written.
The order of additions is that of one block of compiler.gemm.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.compiler.gemm_pack import DEPTH
from flambeau.ir import loops as L

NEAR = 1 << 14              # elements of B that stay in a cache nearby
FAR = 1 << 19               # of a B that is read in place for many rows
MANY = 48                   # rows
# the same for vectors of 32 bytes, which wait longer for pages and for lines that meet in one cache set
NARROW_FAR, NARROW_MANY = 3 << 14, 12
EVEN, EVEN_FAR = 64, 1 << 13    # rows of so many elements meet in a set; elements of such a B
SHORT_WORTH_A_TILE = 1 << 16    # multiplications


def is_short(sizes, unit_b, plan, target=None):
    """1 where the product of sizes (batch, M, N, K) has short tiles, else 0: an index expression."""
    _, m, n, k = sizes
    short = _at_most(k, DEPTH)
    if unit_b == "k":
        return short
    target = target or targets.current()
    if target.vector_bytes == 64:
        return I.mul(short, I.maximum(_at_most(I.mul(n, k), FAR), _at_most(m, MANY)))
    even = _at_most(I.rem(n, EVEN), 0)
    most = I.add(NARROW_FAR, I.mul(even, EVEN_FAR - NARROW_FAR))
    short = I.mul(short, I.maximum(_at_most(I.mul(n, k), most), _at_most(m, NARROW_MANY)))
    masks = target.has("avx2")                              # else a masked load in the inner loop is too slow
    return short if masks else I.mul(short, _at_most(I.rem(n, plan.lanes), 0))


def beats_rows(sizes, unit_b):
    """1 where short tiles are quicker than compiler.gemm_rows, else 0."""
    _, m, n, k = sizes
    least = L.as_index(8) if unit_b == "k" else I.sub(8, I.mul(5, _at_most(I.mul(n, k), NEAR)))
    return _at_most(least, m)


def _at_most(a, b):
    """1 where a <= b, else 0."""
    return I.minimum(I.maximum(I.sub(I.add(b, 1), a), 0), 1)


class Short:
    """The short half of gemm's template: writes statements through self.b."""

    def short_products(self):
        b, plan = self.b, self.plan
        wide = b.let(I.mul(I.div(self.columns, plan.columns), plan.columns))
        whole = b.let(I.mul(I.div(self.columns, plan.lanes), plan.lanes))
        with b.loop(b.fresh("column"), 0, wide, plan.columns) as column:
            self.short_panel(column, (None,) * plan.vectors)
        with b.loop(b.fresh("column"), wide, whole, plan.lanes) as column:
            self.short_panel(column, (None,))
        with b.branch(L.apply("lt", whole, self.columns)):
            self.short_panel(whole, (b.let(I.sub(self.columns, whole)),))
        if not self.short_stores:
            with b.loop(b.fresh("column"), 0, self.columns, plan.columns) as column:
                self.hand_over(column, b.let(I.minimum(I.sub(self.columns, column), plan.columns)))

    def short_panel(self, column, lanes):
        """All rows of a panel of columns. lanes: how many of each vector lie inside, None for all of them."""
        b, plan = self.b, self.plan
        stop, is_wide = self.rows, len(lanes) == plan.vectors
        if is_wide:                                 # fewer registers for the last few rows
            stop = b.let(I.mul(I.div(I.add(self.rows, plan.rows - plan.few_rows - 1), plan.rows), plan.rows))
        with b.loop(b.fresh("row"), 0, stop, plan.rows) as row:
            self.short_block(row, column, plan.rows, lanes)
        if is_wide:
            with b.branch(L.apply("lt", stop, self.rows)):
                self.short_block(stop, column, plan.few_rows, lanes)

    def short_block(self, first_row, column, rows, lanes):
        b, wide = self.b, self.plan.lanes
        last = b.let(I.sub(self.rows, 1))
        inside = [b.let(I.minimum(I.add(first_row, i), last)) for i in range(rows)]
        zero = b.const(self.zero, self.dtype, wide)
        sums = [[b.declare(zero) for _ in lanes] for _ in inside]
        with b.loop(b.fresh("k"), 0, self.depth) as k:
            right = [b.let(self.short_right(k, column, v, count)) for v, count in enumerate(lanes)]
            for row, totals in zip(inside, sums):
                left = b.let(L.splat(b.let(self.a(row, k)), wide))
                for total, value in zip(totals, right):
                    b.assign(total, L.apply("fma", left, value, total))
        self.short_out(inside, column, sums, lanes)

    def short_out(self, rows, column, sums, lanes):
        """Hand sums to C, or to the tile where C may see them only once."""
        b, wide = self.b, self.plan.lanes
        masks = [I.all_lanes(wide) if count is None else b.let(I.lanes_below(count, wide)) for count in lanes]
        for row, totals in zip(rows, sums):
            if self.short_stores:
                m, n = b.let(I.add(self.m, row)), b.let(I.add(self.n, column))
                b.splice_store("C_short", self.place, m, n, *totals, *masks)
                continue
            for v, total in enumerate(totals):
                b.store("tile", I.add(I.mul(row, self.plan.tile_columns), column, v * wide), total)

    def short_right(self, k, column, v, count):
        """Vector `v` of the panel's columns."""
        plan = self.plan
        if self.unit_b == "n":
            splice = "B" if count is None else "B_tail"
            return self.load_b(k, I.add(column, v * plan.lanes), plan.lanes, splice)
        base = I.add(I.mul(I.div(column, plan.columns), self.panel_b_size), I.rem(column, plan.columns))
        return L.Load(self.dtype, plan.lanes, "packed_b", I.add(base, I.mul(k, plan.columns), v * plan.lanes))
