"""Matrix products as a Loops template: C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n].

What A, B and C are is said by three splices: `A` and `B` give an element (or consecutive ones), `C` takes the
finished sums. So transposed, cast, gathered or fused operands, and bias, activation and residual, are
fillings of the same template; convolution (compiler.conv) is one too.

    for each tile of (batch, part of the k's, columns, rows):     the extent: tiles run in parallel
        for each block of DEPTH k's:
            pack the tile's rows of A and columns of B             compiler.gemm_pack
            for each panel of columns:
                for each panel of rows: a block of sums in registers, added to the tile
                after the last block: hand the panel to C

Where all k's fit one block there are shorter ways (compiler.gemm_short).

Order of additions: within a block of DEPTH k's one fma after another, from zero; blocks are added in order,
then parts (compiler.gemm_product). It depends on nothing else: tiles, panels and vector widths may be chosen
freely.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.compiler.gemm_pack import DEPTH, Packing
from flambeau.compiler.gemm_short import SHORT_WORTH_A_TILE, Short
from flambeau.ir import loops as L
from flambeau.ir import splice
from flambeau.types.dtype import float32

SIZES = ("batch", "M", "N", "K")
ENOUGH_TILES = 8            # split further only while there are fewer tiles
WORTH_A_TILE = 1 << 17      # multiplications: a problem is cut into no more tiles than it has of these


@dataclass(frozen=True)
class Blocking:
    """Sizes in elements: a vector, a register block (rows x vectors), and the largest tile; and from how
    many tiles on there are enough of them."""

    lanes: int
    rows: int               # of a register block; few_rows where no more are left
    few_rows: int
    vectors: int
    least_rows: int         # of a tile, where the matrix has them
    tile_rows: int
    tile_columns: int
    enough: int = ENOUGH_TILES

    @property
    def columns(self):
        """Of a panel of B."""
        return self.lanes * self.vectors


def blocking(dtype, target=None):
    """The Blocking for accumulators of `dtype`: two vectors wide, as high as the registers allow."""
    vector_bytes = (target or targets.current()).vector_bytes
    rows, few_rows, least_rows, tile_rows = {
        64: (8, 4, 32, 256), 32: (6, 3, 30, 240), 16: (4, 2, 32, 256)}[vector_bytes]
    return Blocking(vector_bytes // dtype.itemsize, rows, few_rows, 2, least_rows, tile_rows, 128)


def gemm_kernel(name, buffers, params, load_a, load_b, store, dtype=float32, *, sizes=None, unit_a="k",
                unit_b="n", vector_a=False, vector_b=False, tail_a=None, tail_b=None, prepare_b=None,
                parts=None, share=1, plain_a=False, short=None, short_store=None, target=None, plan=None,
                notes=()):
    """The kernel of a batched matrix product, accumulated in `dtype` (float32, float64 or an integer).

    buffers, params: the kernel's, in the order of its arguments. params has batch, M, N and K, unless `sizes`
    gives these four as expressions over the params.

    load_a(b, batch, m, k, lanes), load_b(b, batch, k, n, lanes): an Expr of `dtype` with `lanes` lanes.
    unit_a ('k' or 'm') and unit_b ('k' or 'n') name the index that is consecutive in memory; lanes > 1 are
    consecutive in it, and asked for where vector_a, vector_b allow it: True for lanes inside the matrix,
    'masked' if the load guards itself against lanes beyond the last m, n or k (for them it gives anything,
    but touches no memory). With True, tail_a and tail_b may be such guarded loads for what is left.
    store(b, batch, m, n, value, lanes, mask): write C[batch, m, n .. n + lanes); mask is None for all.

    prepare_b(b, batch, n, columns): statements that run once a panel of B, columns n .. n + columns, for
    instance to fill a Local of `columns` elements; load_b then gets one more argument, its column's number in
    the panel.

    parts: (number, length), index expressions: sum the k's of each part of `length` k's on its own. Parts are
    like batches, batch * number + part, to `store`. share: a factor of the extent, 0 or 1.

    plain_a: load_a costs no more than a load; then rows of consecutive k's are read where they are.

    short: 1 where tiles are those of `gemm_short`, else 0, an index expression; for loads that cost no more
    than a load, and tail_b. short_store(b, batch, m, n, values, lanes, masks): a `store` of several vectors of
    a row for them, which may be called twice for the same elements.

    plan: a Blocking in place of the target's.

    One step of the extent is a tile; `gemm_work` estimates it.
    """
    vector_a = "tails" if tail_a else vector_a
    vector_b = "tails" if tail_b else vector_b
    short_store = None if short is None else short_store
    template = gemm_template(dtype, name, params=params, sizes=sizes, unit_a=unit_a, unit_b=unit_b,
                             vector_a=vector_a, vector_b=vector_b, prepare=prepare_b is not None,
                             parts=parts, share=share, plain_a=plain_a, short=short,
                             short_stores=short_store is not None, target=target, plan=plan)

    columns = (plan or blocking(dtype, target)).columns
    loads, stores = _fillings(load_a, load_b, tail_a, tail_b, store, short_store, prepare_b, columns)
    return splice.fill(template, loads, stores, buffers=buffers, notes=notes)


def _fillings(load_a, load_b, tail_a, tail_b, store, short_store, prepare_b, columns):
    """The functions of a `gemm_kernel` as the template's splices call them: (loads, stores)."""
    def column_load(load):
        def fill_b(b, batch, k, n, column, lanes):
            return load(b, batch, k, n, lanes) if prepare_b is None else load(b, batch, k, n, lanes, column)
        return fill_b

    def known(mask):
        return None if isinstance(mask, L.Const) else mask

    def fill_c(b, batch, m, n, value, mask):
        return store(b, batch, m, n, value, value.lanes, known(mask))

    def fill_short(b, batch, m, n, *parts):
        values, masks = parts[:len(parts) // 2], parts[len(parts) // 2:]
        return short_store(b, batch, m, n, values, values[0].lanes, list(map(known, masks)))

    loads, stores = {"A": load_a, "B": column_load(load_b)}, {"C": fill_c}
    if short_store is not None:
        stores["C_short"] = fill_short
    if tail_a:
        loads["A_tail"] = tail_a
    if tail_b:
        loads["B_tail"] = column_load(tail_b)
    if prepare_b is not None:
        stores["prepare"] = lambda b, batch, n: prepare_b(b, batch, n, columns)
    return loads, stores


def gemm_template(dtype=float32, name="gemm", *, params=SIZES, sizes=None, unit_a="k", unit_b="n",
                  vector_a=False, vector_b=False, prepare=False, parts=None, share=1, plain_a=False, short=None,
                  short_stores=False, target=None, plan=None):
    """The product with its splices unfilled: loads A(batch, m, k) and B(batch, k, n, column), stores
    C(batch, m, n, value, mask), if short_stores C_short(batch, m, n, value, ..., mask, ...) and, if asked for,
    prepare(batch, n). Arguments as of `gemm_kernel`, and
    vector_a, vector_b may be 'tails': see compiler.gemm_pack."""
    sizes = tuple(map(L.as_index, sizes)) if sizes else tuple(map(I.index, SIZES))
    parts = tuple(map(L.as_index, parts)) if parts else (L.as_index(1), sizes[3])
    writer = _Template(dtype, sizes, parts, plan or blocking(dtype, target), unit_a, unit_b, vector_a,
                       vector_b, prepare, plain_a, short, short_stores)
    extent = I.mul(share, _extent(sizes, parts, writer.plan, short, unit_b))
    return L.Kernel(name, (), tuple(params), extent, writer.body())


MATMUL_PARAMS = (*SIZES, "a_batch", "a_step", "b_batch", "b_step")


def matmul_kernel(dtype, name="matmul", transpose_a=False, transpose_b=False, bias=False, vector="masked",
                  target=None):
    """C = A @ B (+ bias): the filling of the template for matrices as they are.

    Buffers: A, B, bias (N,) if `bias`, C (batch, M, N) contiguous; all of `dtype`, half precision accumulated
    in float32. Params: MATMUL_PARAMS. transpose_a: A is stored as (K, M) instead of (M, K); transpose_b: B as
    (N, K) instead of (K, N). The last stored index is consecutive, the one before goes in steps of a_step,
    b_step elements and the matrices in steps of a_batch, b_batch (0: the same matrix for all). vector: as of
    `gemm_template`.
    """
    m, n, k = map(I.index, SIZES[1:])
    wide = float32 if dtype.kind == "f" and dtype.itemsize == 2 else dtype
    guard_a = ("row", m) if transpose_a else ("column", k)
    guard_b = ("row", k) if transpose_b else ("column", n)

    def load(buffer, transposed, guard):
        step = I.index(f"{buffer.lower()}_step")
        return matrix_load(L.Buffer(buffer, dtype, "r"), I.index(f"{buffer.lower()}_batch"),
                           (1, step) if transposed else (step, 1), guard, wide)

    def loads(guarded):
        return (load("A", transpose_a, guard_a if guarded else None),
                load("B", transpose_b, guard_b if guarded else None))

    def store(b, batch, row, column, value, lanes, mask):
        if bias:
            other = None if mask is None else b.const(_zero(dtype), dtype, lanes)
            value = b.add(value, b.cast(b.load("bias", column, dtype, lanes, mask, other), wide))
        b.store("C", I.add(I.mul(I.add(I.mul(batch, m), row), n), column), b.cast(value, dtype), mask)

    names = ("A", "B", "bias") if bias else ("A", "B")
    buffers = (*(L.Buffer(buffer, dtype, "r") for buffer in names), L.Buffer("C", dtype, "w"))
    tails = loads(True) if vector == "tails" else (None, None)
    return gemm_kernel(name, buffers, MATMUL_PARAMS, *loads(vector == "masked"), store, wide,
                       unit_a="m" if transpose_a else "k", unit_b="k" if transpose_b else "n",
                       vector_a=vector, vector_b=vector, tail_a=tails[0], tail_b=tails[1], target=target)


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
    return 2 * batch * M * N * max(K, 1) // max(1, gemm_extent(batch, M, N, K, dtype, target))


def gemm_extent(batch, M, N, K, dtype=float32, target=None):
    """How many tiles there are: the kernel's extent as an int."""
    sizes = tuple(map(L.as_index, (batch, M, N, K)))
    return _extent(sizes, (L.as_index(1), sizes[3]), blocking(dtype, target)).value


# ---------------------------------------------------------------------------------------------- tiles
def tile_of(sizes, parts, plan, short=None, unit_b="n"):
    """(rows, columns) of a tile: evenly cut, and smaller while there would be too few tiles to share out
    (division by zero gives zero).

    A tile has two panels of columns at least: neighbours that write into the same rows disturb each other.
    Short tiles are cut further, along what is not packed for each of them again.
    """
    batch, m, n, k = sizes
    worth, least_rows, least_columns = L.as_index(WORTH_A_TILE), plan.least_rows, 2 * plan.columns
    if short is not None:
        worth = _either(short, SHORT_WORTH_A_TILE, WORTH_A_TILE)
        if unit_b == "n":
            least_rows = _either(short, plan.rows, least_rows)
        else:
            least_columns = _either(short, plan.columns, least_columns)
    wanted = I.div(I.mul(I.mul(batch, m, n), k), worth)
    wanted = I.maximum(I.minimum(wanted, plan.enough), 1)
    batch = I.mul(batch, parts[0])
    row_tiles = I.ceil_div(m, plan.tile_rows)
    strips = I.maximum(I.ceil_div(wanted, I.mul(batch, row_tiles)), I.ceil_div(n, plan.tile_columns))
    columns = I.maximum(I.round_up(I.ceil_div(n, strips), plan.columns), least_columns)
    row_tiles = I.maximum(I.ceil_div(wanted, I.mul(batch, I.ceil_div(n, columns))), row_tiles)
    rows = I.maximum(I.round_up(I.ceil_div(m, row_tiles), plan.rows), least_rows)
    return rows, columns


def _either(condition, first, second):
    """The int `first` where the index expression `condition` is 1, `second` where it is 0."""
    return I.add(second, I.mul(condition, first - second))


def _extent(sizes, parts, plan, short=None, unit_b="n"):
    rows, columns = tile_of(sizes, parts, plan, short, unit_b)
    return I.mul(I.mul(sizes[0], parts[0]), I.ceil_div(sizes[2], columns), I.ceil_div(sizes[1], rows))


class _Template(Packing, Short):
    """Writes the body. `rows`, `columns`, `depth`: what is there of the tile and of the block of k's."""

    def __init__(self, dtype, sizes, parts, plan, unit_a, unit_b, vector_a, vector_b, prepare, plain_a,
                 short, short_stores):
        self.dtype, self.sizes, self.parts, self.plan, self.prepare = dtype, sizes, parts, plan, prepare
        self.unit_a, self.unit_b, self.vector_a, self.vector_b = unit_a, unit_b, vector_a, vector_b
        self.zero, self.direct_a = _zero(dtype), plain_a and unit_a == "k"
        self.short, self.short_stores = short, short_stores

    def body(self):
        self.b = b = L.Builder("g")
        plan = self.plan
        self.sizes = tuple(b.let(size) for size in self.sizes)
        self.parts = tuple(b.let(part) for part in self.parts)
        rows, columns = tile_of(self.sizes, self.parts, plan, self.short, self.unit_b)
        rows, columns = b.let(rows, "most_rows"), b.let(columns, "most_columns")
        m_tiles = b.let(I.ceil_div(self.sizes[1], rows), "tiles_m")
        n_tiles = b.let(I.ceil_div(self.sizes[2], columns), "tiles_n")
        with b.loop("tile_number", L.BEGIN, L.END) as number:
            strip = b.let(I.div(number, m_tiles), "strip")
            self.place = b.let(I.div(strip, n_tiles), "place")
            self.m = b.let(I.mul(I.rem(number, m_tiles), rows), "first_row")
            self.n = b.let(I.mul(I.rem(strip, n_tiles), columns), "first_column")
            self.rows = b.let(I.minimum(rows, I.sub(self.sizes[1], self.m)), "tile_rows")
            self.columns = b.let(I.minimum(columns, I.sub(self.sizes[2], self.n)), "tile_columns")
            self.batch = b.let(I.div(self.place, self.parts[0]), "batch_index")
            self.tile()
        b.local("tile", self.dtype, plan.tile_rows * plan.tile_columns)
        b.local("packed_b", self.dtype, plan.tile_columns // plan.columns * self.panel_b_size)
        if not self.direct_a:
            b.local("packed_a", self.dtype, self.packed_a_size)
        return b.body()

    def tile(self):
        b, plan = self.b, self.plan
        begin = b.let(I.mul(I.rem(self.place, self.parts[0]), self.parts[1]), "first_k")
        end = b.let(I.minimum(self.sizes[3], I.add(begin, self.parts[1])), "end_k")
        self.panels = b.let(I.ceil_div(self.rows, plan.rows), "panels")
        once = I.add(begin, 1)                  # at least one block: no k's give 0
        with b.loop("k0", begin, I.maximum(end, once), DEPTH) as k0:
            self.k = k0
            self.depth = b.let(I.maximum(I.minimum(I.sub(end, k0), DEPTH), 0), "depth")
            self.first = b.let(L.apply("eq", k0, begin), "first")
            last = b.let(L.apply("ge", I.add(k0, DEPTH), end), "last")
            if self.short is None:
                self.pack()
                return self.products(last)
            if self.unit_b == "k":
                self.pack_b()
            is_short = b.let(L.apply("eq", self.short, L.as_index(1)), "is_short")
            with b.branch(is_short):
                self.short_products()
            with b.branch(b.not_(is_short)):
                self.pack(self.unit_b == "n")
                self.products(last)

    def pack(self, and_b=True):
        if not self.direct_a:
            self.pack_a()
        if and_b:
            self.pack_b()

    def products(self, last):
        """Add the block's products to the tile, and hand it to C if the block is the last."""
        b, plan = self.b, self.plan
        with b.loop("column", 0, self.columns, plan.columns) as column:
            left = b.let(I.minimum(I.sub(self.columns, column), plan.columns))
            with b.loop("panel", 0, self.panels) as panel:
                self.register_block(panel, column, left)
            with b.branch(last):
                self.hand_over(column, left)

    # ---- sums
    def register_block(self, panel, column, left):
        """Add a panel of A times the panel of B to the tile; with fewer registers where few rows, or but one
        vector of columns, are left."""
        b, plan = self.b, self.plan
        row = b.let(I.mul(panel, plan.rows))
        few = b.let(L.apply("le", I.sub(self.rows, row), L.as_index(plan.few_rows)))
        narrow = b.let(L.apply("le", left, L.as_index(plan.lanes)))
        wide = b.let(L.apply("not", narrow))
        with b.branch(narrow):
            self.sums(row, column, plan.rows, 1)
        with b.branch(b.and_(wide, few)):
            self.sums(row, column, plan.few_rows, plan.vectors)
        with b.branch(b.and_(wide, b.not_(few))):
            self.sums(row, column, plan.rows, plan.vectors)

    def sums(self, row, column, rows, vectors):
        b, plan, dtype = self.b, self.plan, self.dtype
        zero = b.const(self.zero, dtype, plan.lanes)
        sums = [[b.declare(zero) for _ in range(vectors)] for _ in range(rows)]
        left_of = self.left_rows(row, rows)
        base_b = b.let(I.mul(I.div(column, plan.columns), self.panel_b_size))
        with b.loop(b.fresh("k"), 0, self.depth) as k:
            address = I.add(base_b, I.mul(k, plan.columns))
            right = [b.load("packed_b", I.add(address, v * plan.lanes), dtype, plan.lanes)
                     for v in range(vectors)]
            for i, left in enumerate(left_of(k)):
                left = b.let(L.splat(b.let(left), plan.lanes))
                for v in range(vectors):
                    b.assign(sums[i][v], L.apply("fma", left, right[v], sums[i][v]))
        self.add_to_tile(b.let(I.add(I.mul(row, plan.tile_columns), column)), sums)

    def left_rows(self, row, rows):
        """A function of k: the elements of A for each of the block's rows."""
        b = self.b
        if self.direct_a:
            inside = [b.let(I.minimum(I.add(row, i), I.sub(self.rows, 1))) for i in range(rows)]
            return lambda k: [self.a(i, k) for i in inside]
        row_stride, depth_stride = self.strides_a
        base = b.let(I.mul(row, row_stride))

        def packed(k):
            address = b.let(I.add(base, I.mul(k, depth_stride)))
            return [L.Load(self.dtype, 1, "packed_a", I.add(address, i * row_stride)) for i in range(rows)]
        return packed

    def add_to_tile(self, corner, sums):
        b, plan = self.b, self.plan

        def each(write):
            for i, row in enumerate(sums):
                for v, value in enumerate(row):
                    write(I.add(corner, i * plan.tile_columns + v * plan.lanes), value)

        def add(address, value):
            old = L.Load(self.dtype, plan.lanes, "tile", address)
            b.store("tile", address, L.apply("add", old, value))

        with b.branch(self.first):
            each(lambda address, value: b.store("tile", address, value))
        with b.branch(L.apply("not", self.first)):
            each(add)

    # ---- the finished tile
    def hand_over(self, column, left):
        """A panel's columns, row by row."""
        b, plan = self.b, self.plan
        whole = b.let(I.mul(I.div(left, plan.lanes), plan.lanes))

        def pass_on(i, j, mask):
            value = b.load("tile", I.add(I.mul(i, plan.tile_columns), j), self.dtype, plan.lanes)
            b.splice_store("C", self.place, b.let(I.add(self.m, i)), b.let(I.add(self.n, j)), value, mask)

        with b.loop("i_out", 0, self.rows) as i:
            with b.loop("j_out", 0, whole, plan.lanes) as j:
                pass_on(i, b.let(I.add(column, j)), I.all_lanes(plan.lanes))
            with b.branch(L.apply("lt", whole, left)):
                pass_on(i, b.let(I.add(column, whole)), I.lanes_below(I.sub(left, whole), plan.lanes))
