"""Matrix products as a Loops template: C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n].

What A, B and C are is said by three splices: `A` and `B` give an element (or consecutive ones), `C` takes the
finished sums. So transposed, cast, gathered or fused operands, and bias, activation and residual, are
fillings of the same template; convolution (compiler.conv) is one too.

    for each tile of (batch, columns, rows):                  the extent: tiles run in parallel
        for each block of DEPTH k's:
            pack the tile's rows of A
            for each panel of columns:
                pack the panel of B
                for each panel of rows: a block of sums in registers, added to the tile
        hand the tile to C

Order of additions: within a block of DEPTH k's one fma after another, from zero; blocks are added in order.
It depends on nothing else: tiles, panels and vector widths may be chosen freely.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.ir import splice
from flambeau.types.dtype import float32

SIZES = ("batch", "M", "N", "K")
DEPTH = 256                 # k's in a block: part of the meaning, as it fixes the order of additions
ENOUGH_TILES = 8            # split further only while there are fewer tiles
UNROLL = 8                  # elements that scalar packing copies at a time
_PAD = 16                   # elements behind a packed row, so that rows do not meet in one cache set


@dataclass(frozen=True)
class Blocking:
    """Sizes in elements: a vector, a register block (rows x vectors), and the largest tile."""

    lanes: int
    rows: int               # of a register block; few_rows where no more are left
    few_rows: int
    vectors: int
    least_rows: int         # of a tile, where the matrix has them
    tile_rows: int
    tile_columns: int

    @property
    def columns(self):
        """Of a panel of B."""
        return self.lanes * self.vectors


def blocking(dtype, target=None):
    """The Blocking for accumulators of `dtype`: two vectors wide, as high as the registers allow."""
    vector_bytes = (target or targets.current()).vector_bytes
    rows, few_rows, least_rows, tile_rows = {
        64: (8, 4, 32, 128), 32: (6, 3, 30, 120), 16: (4, 2, 32, 128)}[vector_bytes]
    return Blocking(vector_bytes // dtype.itemsize, rows, few_rows, 2, least_rows, tile_rows, 128)


def gemm_kernel(name, buffers, params, load_a, load_b, store, dtype=float32, *, sizes=None, unit_a="k",
                unit_b="n", vector_a=False, vector_b=False, prepare_b=None, target=None, notes=()):
    """The kernel of a batched matrix product, accumulated in `dtype` (float32, float64 or an integer).

    buffers, params: the kernel's, in the order of its arguments. params has batch, M, N and K, unless `sizes`
    gives these four as expressions over the params.

    load_a(b, batch, m, k, lanes), load_b(b, batch, k, n, lanes): an Expr of `dtype` with `lanes` lanes.
    unit_a ('k' or 'm') and unit_b ('k' or 'n') name the index that is consecutive in memory; lanes > 1 are
    consecutive in it, and asked for where vector_a, vector_b allow it: True for lanes inside the matrix,
    'masked' if the load guards itself against lanes beyond the last m, n or k (for them it gives anything,
    but touches no memory). B is read by vectors along n only. store(b, batch, m, n, value, lanes, mask):
    write C[batch, m, n .. n + lanes); mask is None for all.

    prepare_b(b, batch, n, columns): statements that run once a panel of B, columns n .. n + columns, for
    instance to fill a Local of `columns` elements; load_b then gets one more argument, its column's number in
    the panel.

    One step of the extent is a tile; `gemm_work` estimates it.
    """
    template = gemm_template(dtype, name, params=params, sizes=sizes, unit_a=unit_a, unit_b=unit_b,
                             vector_a=vector_a, vector_b=vector_b, prepare=prepare_b is not None,
                             target=target)

    def fill_b(b, batch, k, n, column, lanes):
        return load_b(b, batch, k, n, lanes) if prepare_b is None else load_b(b, batch, k, n, lanes, column)

    def fill_c(b, batch, m, n, value, mask):
        whole = isinstance(mask, L.Const)
        return store(b, batch, m, n, value, value.lanes, None if whole else mask)

    stores = {"C": fill_c}
    if prepare_b is not None:
        columns = blocking(dtype, target).columns
        stores["prepare"] = lambda b, batch, n: prepare_b(b, batch, n, columns)
    return splice.fill(template, {"A": load_a, "B": fill_b}, stores, buffers=buffers, notes=notes)


def gemm_template(dtype=float32, name="gemm", *, params=SIZES, sizes=None, unit_a="k", unit_b="n",
                  vector_a=False, vector_b=False, prepare=False, target=None):
    """The product with its splices unfilled: loads A(batch, m, k) and B(batch, k, n, column), stores
    C(batch, m, n, value, mask) and, if asked for, prepare(batch, n). Arguments as of `gemm_kernel`."""
    sizes = tuple(map(L.as_index, sizes)) if sizes else tuple(map(I.index, SIZES))
    writer = _Template(dtype, sizes, blocking(dtype, target), unit_a, unit_b, vector_a, vector_b, prepare)
    return L.Kernel(name, (), tuple(params), _extent(sizes, writer.plan), writer.body())


MATMUL_PARAMS = (*SIZES, "a_batch", "a_step", "b_batch", "b_step")


def matmul_kernel(dtype, name="matmul", transpose_a=False, transpose_b=False, bias=False, vector="masked",
                  target=None):
    """C = A @ B (+ bias): the filling of the template for matrices as they are.

    Buffers: A, B, bias (N,) if `bias`, C (batch, M, N) contiguous; all of `dtype`, half precision accumulated
    in float32. Params: MATMUL_PARAMS. transpose_a: A is stored as (K, M) instead of (M, K); transpose_b: B as
    (N, K) instead of (K, N). The last stored index is consecutive, the one before goes in steps of a_step,
    b_step elements and the matrices in steps of a_batch, b_batch (0: the same matrix for all). vector: as of
    `gemm_kernel`.
    """
    m, n, k = map(I.index, SIZES[1:])
    wide = float32 if dtype.kind == "f" and dtype.itemsize == 2 else dtype
    guard_a = guard_b = None
    if vector == "masked":
        guard_a, guard_b = ("row", m) if transpose_a else ("column", k), ("column", n)

    def load(buffer, transposed, guard):
        step = I.index(f"{buffer.lower()}_step")
        return matrix_load(L.Buffer(buffer, dtype, "r"), I.index(f"{buffer.lower()}_batch"),
                           (1, step) if transposed else (step, 1), guard, wide)

    def store(b, batch, row, column, value, lanes, mask):
        if bias:
            other = None if mask is None else b.const(_zero(dtype), dtype, lanes)
            value = b.add(value, b.cast(b.load("bias", column, dtype, lanes, mask, other), wide))
        b.store("C", I.add(I.mul(I.add(I.mul(batch, m), row), n), column), b.cast(value, dtype), mask)

    names = ("A", "B", "bias") if bias else ("A", "B")
    buffers = (*(L.Buffer(buffer, dtype, "r") for buffer in names), L.Buffer("C", dtype, "w"))
    loads = load("A", transpose_a, guard_a), load("B", transpose_b, guard_b)
    return gemm_kernel(name, buffers, MATMUL_PARAMS, *loads, store, wide,
                       unit_a="m" if transpose_a else "k", unit_b="k" if transpose_b else "n",
                       vector_a=vector, vector_b=vector, target=target)


def matrix_load(buffer, batch_stride, strides, guard=None, dtype=None):
    """A filling for A or B: buffer[batch * batch_stride + row * strides[0] + column * strides[1]], as
    `dtype`.

    guard: where given, ('row' or 'column', its size): vectors along it touch no memory beyond that size.
    """
    def load(b, batch, row, column, lanes):
        address = I.add(I.mul(batch, batch_stride), I.mul(row, strides[0]), I.mul(column, strides[1]))
        mask = other = None
        if lanes > 1 and guard:
            axis, size = guard
            mask = I.lanes_below(I.sub(size, row if axis == "row" else column), lanes)
            other = b.const(_zero(buffer.dtype), buffer.dtype, lanes)
        return b.cast(b.load(buffer.name, address, buffer.dtype, lanes, mask, other), dtype or buffer.dtype)
    return load


def _zero(dtype):
    return 0.0 if dtype.kind == "f" else 0


def gemm_work(batch, M, N, K, dtype=float32, target=None):
    """About how many scalar operations one step of the extent takes."""
    return 2 * batch * M * N * max(K, 1) // max(1, gemm_extent(batch, M, N, dtype, target))


def gemm_extent(batch, M, N, dtype=float32, target=None):
    """How many tiles there are: the kernel's extent as an int."""
    plan = blocking(dtype, target)
    rows = batch * M * N // (ENOUGH_TILES * plan.tile_columns * plan.rows) * plan.rows
    rows = min(max(rows, plan.least_rows), plan.tile_rows)
    return batch * -(-N // plan.tile_columns) * -(-M // rows)


# ---------------------------------------------------------------------------------------------- tiles
def _tile_rows(sizes, plan):
    """The rows of a tile: as many as there may be, but fewer while there would be fewer than ENOUGH_TILES
    tiles."""
    batch, m, n, _ = sizes
    share = I.div(I.mul(batch, m, n), ENOUGH_TILES * plan.tile_columns * plan.rows)
    return I.minimum(I.maximum(I.mul(share, plan.rows), plan.least_rows), plan.tile_rows)


def _extent(sizes, plan):
    m_tiles = I.ceil_div(sizes[1], _tile_rows(sizes, plan))
    return I.mul(sizes[0], I.ceil_div(sizes[2], plan.tile_columns), m_tiles)


class _Template:
    """Writes the body. `rows`, `columns`, `depth`: what is there of the tile and of the block of k's."""

    def __init__(self, dtype, sizes, plan, unit_a, unit_b, vector_a, vector_b, prepare):
        self.dtype, self.sizes, self.plan, self.prepare = dtype, sizes, plan, prepare
        self.unit_a, self.unit_b, self.vector_a, self.vector_b = unit_a, unit_b, vector_a, vector_b
        self.zero = _zero(dtype)
        # packed A: rows of consecutive k's, or for each panel of rows the k's of consecutive m's
        self.row_stride, self.depth_stride = (DEPTH + _PAD, 1) if unit_a == "k" else (1, plan.rows)
        self.panel_size = plan.rows * (DEPTH + _PAD)

    def body(self):
        self.b = b = L.Builder("g")
        plan = self.plan
        self.sizes = tuple(b.let(size) for size in self.sizes)
        rows = b.let(_tile_rows(self.sizes, plan), "most_rows")
        m_tiles = b.let(I.ceil_div(self.sizes[1], rows), "tiles_m")
        n_tiles = b.let(I.ceil_div(self.sizes[2], plan.tile_columns), "tiles_n")
        with b.loop("tile_number", L.BEGIN, L.END) as number:
            strip = b.let(I.div(number, m_tiles), "strip")
            self.batch = b.let(I.div(strip, n_tiles), "batch_index")
            self.m = b.let(I.mul(I.rem(number, m_tiles), rows), "first_row")
            self.n = b.let(I.mul(I.rem(strip, n_tiles), plan.tile_columns), "first_column")
            self.rows = b.let(I.minimum(rows, I.sub(self.sizes[1], self.m)), "tile_rows")
            self.columns = b.let(I.minimum(plan.tile_columns, I.sub(self.sizes[2], self.n)), "tile_columns")
            self.tile()
        b.local("tile", self.dtype, plan.tile_rows * plan.tile_columns)
        b.local("packed_b", self.dtype, DEPTH * plan.columns)
        b.local("packed_a", self.dtype, plan.tile_rows // plan.rows * self.panel_size + _PAD)
        return b.body()

    def tile(self):
        b, plan = self.b, self.plan
        with b.loop("i", 0, self.rows) as i, b.loop("j", 0, self.columns, plan.lanes) as j:
            b.store("tile", I.add(I.mul(i, plan.tile_columns), j), b.const(self.zero, self.dtype, plan.lanes))
        with b.loop("k0", 0, self.sizes[3], DEPTH) as k0:
            self.k = k0
            self.depth = b.let(I.minimum(I.sub(self.sizes[3], k0), DEPTH), "depth")
            self.panels = b.let(I.ceil_div(self.rows, plan.rows), "panels")
            self.pack_a()
            with b.loop("panel_b", 0, self.columns, plan.columns) as column:
                self.pack_b(column)
                with b.loop("panel_a", 0, self.panels) as panel:
                    self.register_block(panel, column)
        self.finish()

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

    # ---- packing A
    def a(self, row, k, lanes=1):
        """A SpliceLoad of rows from `row` of the tile and k's from `k` of the block."""
        m = I.add(self.m, row)
        return L.SpliceLoad(self.dtype, lanes, "A", (self.batch, m, I.add(self.k, k)))

    def put_a(self, address, value):
        self.b.store("packed_a", address, value)

    def pack_a(self):
        b, plan = self.b, self.plan
        with b.loop("packing", 0, self.panels) as panel:
            base, row = b.let(I.mul(panel, self.panel_size)), b.let(I.mul(panel, plan.rows))
            if self.unit_a == "k":
                with b.loop("row", 0, plan.rows) as i:
                    inside = b.let(I.minimum(I.add(row, i), I.sub(self.rows, 1)))
                    self.pack_a_row(b.let(I.add(base, I.mul(i, self.row_stride))), inside)
            else:
                self.pack_a_columns(base, row)

    def pack_a_row(self, address, row):
        """One row's k's; rows beyond the last are copies of it."""
        b, lanes, done = self.b, self.plan.lanes, 0
        if self.vector_a:
            done = self.depth if self.vector_a == "masked" else b.let(I.mul(I.div(self.depth, lanes), lanes))
            with b.loop("k", 0, done, lanes) as k:
                self.put_a(I.add(address, k), self.a(row, k, lanes))
        if self.vector_a != "masked":
            self.each_k("k_left", done, lambda k: self.put_a(I.add(address, k), self.a(row, k)))

    def pack_a_columns(self, base, row):
        """The k's of a panel, each with its rows side by side."""
        b, rows = self.b, self.plan.rows

        def scalars():
            with b.loop("k", 0, self.depth) as k, b.loop("row", 0, rows) as i:
                inside = b.let(I.minimum(I.add(row, i), I.sub(self.rows, 1)))
                self.put_a(I.add(base, I.mul(k, rows), i), self.a(inside, k))

        def vectors():
            with b.loop("k", 0, self.depth) as k:
                self.put_a(I.add(base, I.mul(k, rows)), self.a(row, k, rows))

        whole = L.apply("le", I.add(row, rows), self.rows)
        self.choose(self.vector_a, whole, vectors, scalars)

    # ---- packing B
    def put_b(self, k, column, value):
        self.b.store("packed_b", I.add(I.mul(k, self.plan.columns), column), value)

    def pack_b(self, start):
        """The panel of columns from `start` of the tile; beyond the last column it is zero."""
        b, plan = self.b, self.plan
        first = b.let(I.add(self.n, start), "panel_column")
        left = b.let(I.minimum(I.sub(self.columns, start), plan.columns), "panel_columns")
        if self.prepare:
            b.splice_store("prepare", self.batch, first)

        def load(k, column, lanes=1):
            args = (self.batch, I.add(self.k, k), I.add(first, column), L.as_index(column))
            self.put_b(k, column, L.SpliceLoad(self.dtype, lanes, "B", args))

        def vectors():
            with b.loop("kb", 0, self.depth) as k:
                for number in range(plan.vectors):
                    load(k, number * plan.lanes, plan.lanes)

        def scalars():
            self.clear_b()
            if self.unit_b == "n":
                with b.loop("kb", 0, self.depth) as k, b.loop("column", 0, left) as column:
                    load(k, column)
            else:
                with b.loop("column", 0, left) as column:
                    self.each_k("kb", 0, lambda k: load(k, column))

        vector = self.vector_b if self.unit_b == "n" else False
        self.choose(vector, L.apply("eq", left, L.as_index(plan.columns)), vectors, scalars)

    def clear_b(self):
        b, plan = self.b, self.plan
        with b.loop("kz", 0, self.depth) as k:
            for number in range(plan.vectors):
                self.put_b(k, number * plan.lanes, b.const(self.zero, self.dtype, plan.lanes))

    def choose(self, vector, whole, vectors, scalars):
        """Vectors where the load guards itself or the panel is whole, else scalars."""
        if vector == "masked":
            vectors()
        elif not vector:
            scalars()
        else:
            with self.b.branch(whole):
                vectors()
            with self.b.branch(L.apply("not", whole)):
                scalars()

    # ---- sums
    def register_block(self, panel, column):
        """Add a panel of A times the panel of B to the tile; with fewer registers' rows where few are
        left."""
        b, plan = self.b, self.plan
        row = b.let(I.mul(panel, plan.rows))
        few = b.let(L.apply("le", I.sub(self.rows, row), L.as_index(plan.few_rows)))
        with b.branch(few):
            self.sums(panel, row, column, plan.few_rows)
        with b.branch(L.apply("not", few)):
            self.sums(panel, row, column, plan.rows)

    def sums(self, panel, row, column, rows):
        b, plan, dtype = self.b, self.plan, self.dtype
        zero = b.const(self.zero, dtype, plan.lanes)
        sums = [[b.declare(zero) for _ in range(plan.vectors)] for _ in range(rows)]
        base = b.let(I.mul(panel, self.panel_size))
        with b.loop(b.fresh("k"), 0, self.depth) as k:
            right = [b.load("packed_b", I.add(I.mul(k, plan.columns), v * plan.lanes), dtype, plan.lanes)
                     for v in range(plan.vectors)]
            address = b.let(I.add(base, I.mul(k, self.depth_stride)))
            for i in range(rows):
                left = L.splat(b.load("packed_a", I.add(address, i * self.row_stride), dtype), plan.lanes)
                left = b.let(left)
                for v in range(plan.vectors):
                    b.assign(sums[i][v], L.apply("fma", left, right[v], sums[i][v]))
        corner = b.let(I.add(I.mul(row, plan.tile_columns), column))
        for i in range(rows):
            for v in range(plan.vectors):
                address = I.add(corner, i * plan.tile_columns + v * plan.lanes)
                old = L.Load(dtype, plan.lanes, "tile", address)
                b.store("tile", address, L.apply("add", old, sums[i][v]))

    # ---- the finished tile
    def finish(self):
        b, plan = self.b, self.plan
        whole = b.let(I.mul(I.div(self.columns, plan.lanes), plan.lanes))

        def hand_over(i, j, mask):
            value = b.load("tile", I.add(I.mul(i, plan.tile_columns), j), self.dtype, plan.lanes)
            b.splice_store("C", self.batch, b.let(I.add(self.m, i)), b.let(I.add(self.n, j)), value, mask)

        with b.loop("i_out", 0, self.rows) as i:
            with b.loop("j_out", 0, whole, plan.lanes) as j:
                hand_over(i, j, I.all_lanes(plan.lanes))
            with b.branch(L.apply("lt", whole, self.columns)):
                hand_over(i, whole, I.lanes_below(I.sub(self.columns, whole), plan.lanes))
