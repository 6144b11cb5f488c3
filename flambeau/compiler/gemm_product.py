"""From a product of two matrices in memory to launches of compiler.gemm: which strides are read how, who
takes few rows, and in how many parts a long sum is added.

A product with one column is the transposed product with one row. Where k is long and there are few results,
the k's fall into parts, summed on their own into memory and added up, in order, by a second kernel. How many
parts there are depends on the sizes alone.
"""

from dataclasses import replace

from flambeau.compiler import index_math as I
from flambeau.compiler.gemm import SIZES, blocking, gemm_kernel, matrix_load
from flambeau.compiler.gemm_bytes import bytes_kernel
from flambeau.compiler.gemm_choices import PRODUCT
from flambeau.compiler.gemm_pack import DEPTH
from flambeau.compiler.gemm_rows import FEW, rows_kernel
from flambeau.compiler.gemm_short import beats_rows, is_short
from flambeau.ir import loops as L
from flambeau.ops.matmul import accumulator
from flambeau.types.dtype import int8, int32

ENOUGH_PARTS = 16           # of all results together: no parts where there are as many squares of results
SQUARE = 64                 # rows and columns of such a square
PART = 1024                 # k's of a part at least


def parts_of(sizes):
    """(number, length) of the parts of k for sizes (batch, M, N, K): ints or index expressions."""
    batch, m, n, k = sizes
    squares = I.mul(batch, I.ceil_div(m, SQUARE), I.ceil_div(n, SQUARE))
    number = I.minimum(I.div(k, PART), I.div(ENOUGH_PARTS, squares))
    number = I.maximum(number, 1)
    return number, I.round_up(I.ceil_div(k, number), DEPTH)


def product(planner, x, y, bias, out, transposed=False):
    """out[batch, m, n] = sum over k of x[batch, m, k] * y[batch, k, n] (transposed: y[n, k]) + bias[n]."""
    if transposed:
        y = _turned(y)
    if bias is None and y.shape[-1] == 1 and x.shape[-2] != 1:
        x, y = _turned(y), _turned(x)
    bias = None if bias is None else planner.dense(bias)
    Product(planner, x, y, bias, out, planner.take_epilogue()).launch()


def _turned(x):
    """The transposed matrices, in the same memory."""
    def swap(axes):
        return (*axes[:-2], axes[-1], axes[-2])
    return x.part(swap(x.shape), swap(x.strides), x.offset)


class Product:
    """One product: its sizes, and the elements of x, y and bias as splices. The bias is added to each row or, with
    `bias_of_rows`, has a number for each row."""

    def __init__(self, planner, x, y, bias, out, epilogue, bias_of_rows=False):
        self.choice, self.epilogue, self.bias_of_rows = planner.choose(PRODUCT), epilogue, bias_of_rows
        self.planner, self.x, self.y, self.bias, self.out = planner, x, y, bias, out
        batched = len(x.shape) == 3
        sizes = x.shape[0] if batched else 1, x.shape[-2], y.shape[-1], x.shape[-1]
        self.sizes = dict(zip(SIZES, sizes))
        self.params, self.steps = dict(self.sizes), {}
        for name, located in (("x", x), ("y", y)):
            strides = located.strides if batched else (0, *located.strides)
            for axis, stride in zip(("batch", "row", "column"), strides):
                key = f"{name}_{axis}"
                self.steps[key] = stride if isinstance(stride, int) else I.index(key)
                if not isinstance(stride, int):
                    self.params[key] = stride
        self.unit_a = "m" if x.strides[-2] == 1 and x.strides[-1] != 1 else "k"
        self.unit_b = "k" if y.strides[-2] == 1 and y.strides[-1] != 1 else "n"
        self.total = accumulator(out.dtype)

    # ---- elements
    def load(self, name, located, guarded=False, dtype=None):
        strides = self.steps[f"{name}_row"], self.steps[f"{name}_column"]
        guard = None
        if guarded:
            along = ("M", "K") if name == "x" else ("K", "N")
            axis = int(strides[1] == 1)
            guard = ("row", "column")[axis], I.index(along[axis])
        buffer = L.Buffer(name, located.dtype, "r")
        return matrix_load(buffer, self.steps[f"{name}_batch"], strides, guard, dtype or self.total)

    def finish(self, b, batch, m, n, value, lanes, mask):
        """Bias, cast, epilogue and store of finished sums."""
        self.finish_at(b, self.place(batch, m, n), m, n, value, lanes, mask)

    def finish_row(self, b, batch, m, n, values, lanes, masks):
        """The same for several vectors of a row."""
        place = b.let(self.place(batch, m, n))
        for number, (value, mask) in enumerate(zip(values, masks)):
            self.finish_at(b, I.add(place, number * lanes), m, I.add(n, number * lanes), value, lanes, mask)

    def finish_at(self, b, place, m, n, value, lanes, mask):
        if self.bias is not None:
            if self.bias_of_rows:
                bias = b.load("bias", m, self.bias.dtype)
            else:
                other = None if mask is None else b.const(0.0, self.bias.dtype, lanes)
                bias = b.load("bias", n, self.bias.dtype, lanes, mask, other)
            value = b.add(value, L.splat(b.cast(bias, self.total), lanes))
        value = b.cast(value, self.out.dtype)
        if self.epilogue is not None:
            place = b.let(place)
            value = self.epilogue.emit(b, value, place, mask)
        b.store("out", place, value, mask)

    def store(self, b, batch, m, n, value, lanes, mask):
        """A part's sums go to memory, unless it is the only one."""
        alone = b.let(L.apply("eq", self.parts[0], L.as_index(1)))
        with b.branch(alone):
            self.finish(b, batch, m, n, value, lanes, mask)
        with b.branch(L.apply("not", alone)):
            b.store("parts", self.place(batch, m, n), value, mask)

    @staticmethod
    def place(batch, m, n):
        return I.add(I.mul(I.add(I.mul(batch, I.index("M")), m), I.index("N")), n)

    # ---- launches
    def launch(self):
        sizes = self.sizes
        self.parts = parts_of(map(I.index, SIZES))
        self.work = 2 * sizes["batch"] * sizes["M"] * sizes["N"] * sizes["K"]
        streams = self.steps["y_column" if self.unit_b == "n" else "y_row"] == 1
        of_bytes = streams and self.is_of_bytes()
        operands = {"x": self.x, "y": self.y, "bias": self.bias, "out": self.out,
                    "parts": None if of_bytes else self.scratch()}
        self.operands = {name: located for name, located in operands.items() if located is not None}
        self.behind = () if self.epilogue is None else tuple(self.epilogue.operands)
        self.operands |= {name: self.epilogue.operands[name] for name in self.behind}
        if of_bytes:
            return self.run(self.bytes())
        plain = streams and self.x.dtype is self.total and self.y.dtype is self.total
        plan = self.plan = self.choice.blocking(blocking(self.total))
        self.short = is_short(tuple(map(I.index, SIZES)), self.unit_b, plan) if plain else None
        if not streams:
            kernel = self.tiles(1)
        elif sizes["M"] == 1:
            kernel = self.rows(1)
        else:
            few = self.few()
            are_few = L.apply("eq", few, L.as_index(1))
            kernel = _either("matmul", are_few, self.rows(few), self.tiles(I.sub(1, few)))
        self.run(kernel)
        self.run(self.addition())

    def few(self):
        """1 where there are few rows, 0 elsewhere; turning few columns in registers pays for one row only."""
        m, n = I.index("M"), I.index("N")
        few = I.minimum(I.maximum(I.sub((self.choice.few or FEW) + 1, m), 0), 1)
        if self.short is not None:
            quicker = I.mul(self.short, beats_rows(tuple(map(I.index, SIZES)), self.unit_b))
            few = I.mul(few, I.sub(1, quicker))
        if self.unit_b == "n":
            return few
        return I.mul(few, I.minimum(I.add(I.div(n, SQUARE), I.div(1, m)), 1))

    def scratch(self):
        """Memory for the sums of parts: none where there is but one."""
        recipe = self.planner.recipe
        registers = {name: recipe.register(size) for name, size in self.sizes.items()}
        batch, m, n, _ = (I.index(name) for name in self.sizes)
        several = I.mul(self.parts[0], I.minimum(I.sub(self.parts[0], 1), 1))
        size = recipe.expression(I.mul(I.mul(several, batch), I.mul(m, n)), registers)
        return recipe.buffer_of(self.total, size)

    def is_of_bytes(self):
        dtypes = self.x.dtype, self.y.dtype, self.out.dtype
        alone = self.bias is None and self.epilogue is None and len(self.x.shape) == 2
        return alone and dtypes == (int8, int8, int32) and self.steps["x_column"] == 1

    def bytes(self):
        def loads(name):
            return [self.load(name, getattr(self, name), guarded, int8) for guarded in (False, True)]
        buffers = [replace(b, access="rw") if b.name == "out" else b for b in self.buffers()]
        return bytes_kernel("matmul_bytes", buffers, tuple(self.params), loads("x"), loads("y"),
                            lambda m, n: self.place(L.as_index(0), m, n), sizes=map(I.index, SIZES), unit_b=self.unit_b)

    def tiles(self, share):
        vector_a = self.steps["x_column" if self.unit_a == "k" else "x_row"] == 1
        vector_b = self.steps["y_column" if self.unit_b == "n" else "y_row"] == 1
        plain = self.x.dtype is self.total and self.unit_a == "k"
        return gemm_kernel(
            "matmul", self.buffers(), tuple(self.params), self.load("x", self.x), self.load("y", self.y),
            self.store, self.total, unit_a=self.unit_a, unit_b=self.unit_b, vector_a=vector_a,
            vector_b=vector_b, plain_a=plain,
            tail_a=self.load("x", self.x, True) if vector_a and not plain else None,
            tail_b=self.load("y", self.y, True) if vector_b else None, parts=self.parts, share=share,
            short=self.short, short_store=self.finish_row if self.epilogue is None else None, plan=self.plan)

    def rows(self, share):
        return rows_kernel(
            "matmul_rows", self.buffers(), tuple(self.params), self.load("x", self.x), self.load("y", self.y),
            self.load("y", self.y, True), self.store, self.total, sizes=map(I.index, SIZES), parts=self.parts,
            unit_b=self.unit_b, share=share, few=self.choice.few or FEW)

    def addition(self):
        """Adds up the parts, one row of results a step; the same kernel for all layouts of x and y."""
        b, lanes, zero = L.Builder(), blocking(self.total).lanes, 0.0 if self.total.kind == "f" else 0
        number, n = b.let(self.parts[0], "number"), I.index("N")
        whole = b.let(I.mul(I.div(n, lanes), lanes), "whole")

        def add(batch, m, j, mask=None):
            other = None if mask is None else b.const(zero, self.total, lanes)
            total = b.declare(b.const(zero, self.total, lanes))
            for start, stop in ((0, 1), (1, number)):
                with b.loop(b.fresh("part"), start, stop) as part:
                    address = self.place(I.add(I.mul(batch, number), part), m, j)
                    value = b.load("parts", address, self.total, lanes, mask, other)
                    b.assign(total, value if start == 0 else L.apply("add", total, value))
            self.finish(b, batch, m, j, b.let(total), lanes, mask)

        with b.loop("row", L.BEGIN, L.END) as row:
            batch, m = b.let(I.div(row, I.index("M"))), b.let(I.rem(row, I.index("M")))
            with b.loop("j", 0, whole, lanes) as j:
                add(batch, m, j)
            with b.branch(L.apply("lt", whole, n)):
                add(batch, m, whole, b.let(I.lanes_below(I.sub(n, whole), lanes)))
        several = I.minimum(I.sub(self.parts[0], 1), 1)
        extent = I.mul(several, I.mul(I.index("batch"), I.index("M")))
        results = (buffer for buffer in self.buffers() if buffer.name in ("bias", "out", *self.behind))
        buffers = L.Buffer("parts", self.total, "r"), *results
        return L.Kernel("matmul_parts", buffers, tuple(self.sizes), extent, b.body())

    def buffers(self):
        return tuple(L.Buffer(name, located.dtype, "w" if name in ("out", "parts") else "r")
                     for name, located in self.operands.items())

    def run(self, kernel):
        operands = [self.operands[buffer.name] for buffer in kernel.buffers]
        self.planner.launch_template(kernel, operands, self.params, self.work, self.choice.grain)


def _either(name, condition, first, second):
    """One kernel that is `first` where the condition holds, else `second`; the extent of the other is 0."""
    def split(kernel):
        local = tuple(s for s in kernel.body if isinstance(s, L.Local))
        return local, tuple(s for s in kernel.body if not isinstance(s, L.Local))

    (locals_1, body_1), (locals_2, body_2) = split(first), split(second)
    body = (*locals_1, *locals_2, L.If(condition, body_1, body_2))
    return replace(first, name=name, extent=I.add(first.extent, second.extent), body=body)
