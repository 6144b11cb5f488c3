"""From a product of two matrices in memory to launches of compiler.gemm: which strides are read how, who takes
few rows, and in how many parts a long sum is added.

A product with one column is the transposed product with one row. Where k is long and there are few results,
the k's fall into parts, summed on their own into memory and added up, in order, by a second kernel. How many
parts there are depends on the sizes alone.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.gemm import blocking, gemm_kernel, matrix_load
from flambeau.compiler.gemm_pack import DEPTH
from flambeau.compiler.gemm_rows import FEW, rows_kernel
from flambeau.compiler.recipe import Located
from flambeau.ir import loops as L
from flambeau.ops.matmul import accumulator
from flambeau.types.dim import minimum

MOST_PARTS = 16
PART = 1024                 # k's at least
RESULTS = 128 * 128         # of a product that can be shared out without parts: PARTS times that


def product(planner, x, y, bias, out, transposed=False):
    """out[batch, m, n] = sum over k of x[batch, m, k] * y[batch, k, n] (y[n, k] where transposed) + bias[n]."""
    if transposed:
        y = _turned(y)
    if bias is None and y.shape[-1] == 1 and x.shape[-2] != 1:
        x, y = _turned(y), _turned(x)
    _Product(planner, x, y, None if bias is None else planner.dense(bias), out).launch()


def _turned(x):
    """The transposed matrices, in the same memory."""
    def swap(axes):
        return (*axes[:-2], axes[-1], axes[-2])
    return x.part(swap(x.shape), swap(x.strides), x.offset)


class _Product:
    """One product: its sizes, and the elements of x, y and bias as splices."""

    def __init__(self, planner, x, y, bias, out):
        self.planner, self.x, self.y, self.bias, self.out = planner, x, y, bias, out
        batched = len(x.shape) == 3
        self.sizes = {"batch": x.shape[0] if batched else 1, "M": x.shape[-2], "N": y.shape[-1], "K": x.shape[-1]}
        self.params, self.steps = dict(self.sizes), {}
        for name, located in (("x", x), ("y", y)):
            for axis, stride in zip(("batch", "row", "column"), located.strides if batched else (0, *located.strides)):
                key = f"{name}_{axis}"
                self.steps[key] = stride if isinstance(stride, int) else I.index(key)
                if not isinstance(stride, int):
                    self.params[key] = stride
        self.unit_a = "m" if x.strides[-2] == 1 and x.strides[-1] != 1 else "k"
        self.unit_b = "k" if y.strides[-2] == 1 and y.strides[-1] != 1 else "n"
        self.total = accumulator(out.dtype)

    # ---- elements
    def buffer(self, name, located, access="r"):
        return L.Buffer(name, located.dtype, access)

    def load(self, name, located, guarded=False):
        strides = self.steps[f"{name}_row"], self.steps[f"{name}_column"]
        guard = None
        if guarded:
            along = ("M", "K") if name == "x" else ("K", "N")
            axis = int(strides[1] == 1)
            guard = ("row", "column")[axis], I.index(along[axis])
        return matrix_load(self.buffer(name, located), self.steps[f"{name}_batch"], strides, guard, self.total)

    def finish(self, b, batch, m, n, value, lanes, mask):
        """Bias, cast and store of finished sums."""
        if self.bias is not None:
            other = None if mask is None else b.const(0.0, self.bias.dtype, lanes)
            bias = b.load("bias", n, self.bias.dtype, lanes, mask, other)
            value = b.add(value, L.splat(b.cast(bias, self.total), lanes))
        b.store("out", self.place(batch, m, n), b.cast(value, self.out.dtype), mask)

    def place(self, batch, m, n):
        return I.add(I.mul(I.add(I.mul(batch, I.index("M")), m), I.index("N")), n)

    # ---- launches
    def launch(self):
        operands = {"x": self.x, "y": self.y, "bias": self.bias, "out": self.out}
        self.operands = {name: located for name, located in operands.items() if located is not None}
        sizes = self.sizes
        self.work = 2 * sizes["batch"] * sizes["M"] * sizes["N"] * sizes["K"]
        one_row = isinstance(sizes["M"], int) and sizes["M"] <= FEW
        streams = self.unit_b == "n" and self.steps["y_column"] == 1
        few = I.minimum(I.maximum(I.sub(FEW + 1, I.index("M")), 0), 1) if streams else 0
        if not (one_row and streams):
            self.launch_tiles(I.sub(1, few) if streams else 1)
        if streams:
            self.launch_rows(1 if one_row else few)

    def launch_tiles(self, share):
        vector_a = self.steps["x_column" if self.unit_a == "k" else "x_row"] == 1
        vector_b = self.steps["y_column" if self.unit_b == "n" else "y_row"] == 1
        plain = self.x.dtype is self.total and self.unit_a == "k"
        kernel = gemm_kernel(
            "matmul", self.buffers(), tuple(self.params), self.load("x", self.x), self.load("y", self.y), self.finish,
            self.total, unit_a=self.unit_a, unit_b=self.unit_b, vector_a=vector_a, vector_b=vector_b, plain_a=plain,
            tail_a=self.load("x", self.x, True) if vector_a and not plain else None,
            tail_b=self.load("y", self.y, True) if vector_b else None, share=share)
        self.planner.launch_template(kernel, list(self.operands.values()), self.params, self.work)

    def launch_rows(self, share):
        kernel = rows_kernel(
            "matmul_rows", self.buffers(), tuple(self.params), self.load("x", self.x), self.load("y", self.y),
            self.load("y", self.y, True), self.finish, self.total, sizes=map(I.index, ("batch", "M", "N", "K")),
            parts=(1, I.index("K")), share=share)
        self.planner.launch_template(kernel, list(self.operands.values()), self.params, self.work)

    def buffers(self):
        return tuple(self.buffer(name, located, "w" if name == "out" else "r")
                     for name, located in self.operands.items())
