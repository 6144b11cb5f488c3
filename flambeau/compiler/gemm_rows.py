"""Products with few rows of A, where B is what takes the time: it is read once, as it is.

    for each strip of columns:                                    the extent
        for each block of DEPTH k's, a group of them at a time:
            for each vector of columns: as many vectors of B as there are k's in the group
                for each row: its sums of the block, in the nearest cache, take one fma after another

Where B is consecutive along n, a group is GROUP k's, and the loop over columns is the inner one. Where it is
consecutive along k, it is as many k's as a vector has lanes, turned in registers, and the loop over groups is
the inner one.

The order of additions is that of compiler.gemm, so it does not matter which of the two does a product.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.gemm import ENOUGH_TILES, blocking
from flambeau.compiler.gemm_pack import DEPTH, turned
from flambeau.ir import loops as L

FEW = 12                     # rows
GROUP = 8                   # k's that are added before sums go back to memory
SUMS = 4096                 # sums of a strip, of all rows
WORTH_A_STRIP = 1 << 15     # elements of B


def rows_kernel(name, buffers, params, load_a, load_b, tail_b, store, dtype, *, sizes, parts, unit_b="n",
                share=1, few=FEW, target=None):
    """The kernel for at most `few` rows. Arguments as of `gemm.gemm_kernel`; load_b reads vectors inside of
    the matrix, tail_b guards itself."""
    sizes, parts = tuple(map(L.as_index, sizes)), tuple(map(L.as_index, parts))
    writer = _Rows(dtype, sizes, parts, blocking(dtype, target).lanes, unit_b == "k",
                   (load_a, load_b, tail_b, store), few)
    extent = I.mul(share, sizes[0], parts[0], I.ceil_div(sizes[2], writer.strip()))
    return L.Kernel(name, tuple(buffers), tuple(params), extent, writer.body())


class _Rows:
    """Writes the body. `rows`, `columns`: what is there of A and of the strip."""

    def __init__(self, dtype, sizes, parts, lanes, turns, functions, few):
        self.dtype, self.sizes, self.parts, self.lanes, self.turns = dtype, sizes, parts, lanes, turns
        self.load_a, self.load_b, self.tail_b, self.store = functions
        self.zero, self.few = 0.0 if dtype.kind == "f" else 0, few

    def strip(self):
        """Columns of a strip: as many as SUMS allows, fewer where too few threads would have one."""
        batch, m, n, k = self.sizes
        wanted = I.maximum(I.minimum(I.div(I.mul(batch, n, k), WORTH_A_STRIP), ENOUGH_TILES), 1)
        strips = I.ceil_div(wanted, I.mul(batch, self.parts[0]))
        most = I.div(SUMS, m)
        columns = I.minimum(I.round_up(I.ceil_div(n, strips), 2 * self.lanes), most)
        return I.maximum(I.mul(I.div(columns, 2 * self.lanes), 2 * self.lanes), 2 * self.lanes)

    def body(self):
        self.b = b = L.Builder("r")
        self.sizes, self.parts = tuple(map(b.let, self.sizes)), tuple(map(b.let, self.parts))
        self.width = b.let(self.strip(), "width")
        strips = b.let(I.ceil_div(self.sizes[2], self.width), "strips")
        self.rows = b.let(I.minimum(self.sizes[1], self.few), "rows")
        with b.loop("number", L.BEGIN, L.END) as number:
            self.place = b.let(I.div(number, strips), "place")
            self.batch = b.let(I.div(self.place, self.parts[0]), "batch_index")
            self.n = b.let(I.mul(I.rem(number, strips), self.width), "first_column")
            self.columns = b.let(I.minimum(self.width, I.sub(self.sizes[2], self.n)), "columns")
            self.whole = b.let(I.mul(I.div(self.columns, self.lanes), self.lanes), "whole")
            self.blocks()
            self.hand_over()
        for local, size in (("sums", SUMS), ("block", SUMS), ("left", self.few * DEPTH),
                            ("turned", self.lanes ** 2)):
            b.local(local, self.dtype, size)
        return b.body()

    def vectors(self, name, write):
        """Run write(column, tail) for the strip's vectors; tail is True for the one that is not whole."""
        b = self.b
        with b.loop(name, 0, self.whole, self.lanes) as j:
            write(j, False)
        with b.branch(L.apply("lt", self.whole, self.columns)):
            write(self.whole, True)

    def each_sum(self, name, write):
        """Run write(address) for every vector of sums, whole or not."""
        b = self.b
        with b.loop(name + "_row", 0, self.rows) as i, b.loop(name, 0, self.columns, self.lanes) as j:
            write(b.let(I.add(I.mul(i, self.width), j)))

    def blocks(self):
        b = self.b
        begin = b.let(I.mul(I.rem(self.place, self.parts[0]), self.parts[1]), "first_k")
        end = b.let(I.minimum(self.sizes[3], I.add(begin, self.parts[1])), "end_k")
        once = I.add(begin, 1)                  # at least one block: no k's give 0
        with b.loop("k0", begin, I.maximum(end, once), DEPTH) as k0:
            self.k = k0
            depth = b.let(I.maximum(I.minimum(I.sub(end, k0), DEPTH), 0), "depth")
            with b.loop("i_left", 0, self.rows) as i, b.loop("k_left", 0, depth) as k:
                b.store("left", I.add(I.mul(i, DEPTH), k), self.load_a(b, self.batch, i, I.add(k0, k), 1))
            zero = b.const(self.zero, self.dtype, self.lanes)
            self.each_sum("clear", lambda address: b.store("block", address, zero))
            self.products(depth)
            first = b.let(L.apply("eq", k0, begin))
            with b.branch(first):
                self.each_sum("take", lambda address: b.store("sums", address, self.load("block", address)))
            with b.branch(L.apply("not", first)):
                self.each_sum("more", lambda address: b.store(
                    "sums", address, L.apply("add", self.load("sums", address), self.load("block", address))))

    def load(self, local, address):
        return self.b.load(local, address, self.dtype, self.lanes)

    def products(self, depth):
        """Add the products of the block's k's to its sums."""
        b, lanes = self.b, self.lanes
        size = lanes if self.turns else GROUP
        whole = b.let(I.mul(I.div(depth, size), size))
        if self.turns:
            with b.loop("j", 0, self.columns, lanes) as j:
                with b.loop("kg", 0, whole, size) as k:
                    self.add(k, j, self.turned_block(self.load_b, k, j))
                with b.branch(L.apply("lt", whole, depth)):
                    self.add(whole, j, self.turned_block(self.tail_b, whole, j), I.sub(depth, whole))
            return

        def group(k, count):
            def write(j, tail):
                load = self.tail_b if tail else self.load_b
                self.add(k, j, [b.let(self.right(load, I.add(k, q), j)) for q in range(count)])
            self.vectors(b.fresh("j"), write)

        with b.loop("kg", 0, whole, size) as k:
            group(k, size)
        with b.loop("k", whole, depth) as k:
            group(k, 1)

    def right(self, load, k, column):
        return load(self.b, self.batch, I.add(self.k, k), I.add(self.n, column), self.lanes)

    def turned_block(self, load, k, j):
        """`lanes` k's, each with its columns side by side; columns beyond the last are copies of it."""
        last = self.b.let(I.sub(I.sub(self.columns, 1), j))
        rows = [self.b.let(self.right(load, k, I.add(j, I.minimum(i, last)))) for i in range(self.lanes)]
        return turned(self.b, rows)

    def add(self, k, j, right, count=None):
        """Add A's column k + q times right[q], for all q, or those below `count`."""
        b, lanes = self.b, self.lanes
        if count is not None:
            for q, vector in enumerate(right):
                b.store("turned", L.as_index(q * lanes), vector)
        with b.loop(b.fresh("i"), 0, self.rows) as i:
            address, left = b.let(I.add(I.mul(i, self.width), j)), b.let(I.add(I.mul(i, DEPTH), k))
            if count is None:
                total = self.load("block", address)
                for q, vector in enumerate(right):
                    total = b.fma(L.splat(b.load("left", I.add(left, q), self.dtype), lanes), vector, total)
            else:
                total = b.declare(self.load("block", address))
                with b.loop(b.fresh("q"), 0, count) as q:
                    factor = L.splat(b.load("left", I.add(left, q), self.dtype), lanes)
                    b.assign(total, L.apply("fma", factor, self.load("turned", I.mul(q, lanes)), total))
            b.store("block", address, total)

    def hand_over(self):
        b = self.b
        with b.loop("i_out", 0, self.rows) as i:
            def write(j, tail):
                value = self.load("sums", b.let(I.add(I.mul(i, self.width), j)))
                mask = I.lanes_below(I.sub(self.columns, j), self.lanes) if tail else None
                self.store(b, self.place, i, b.let(I.add(self.n, j)), value, self.lanes, mask)
            self.vectors("j_out", write)
