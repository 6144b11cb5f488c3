"""From a product of two matrices in memory to launches of compiler.gemm: which strides are read how."""

from flambeau.compiler import index_math as I
from flambeau.compiler.gemm import gemm_kernel, matrix_load
from flambeau.compiler.recipe import Located
from flambeau.ir.loops import Buffer, splat
from flambeau.ops.matmul import accumulator


def product(planner, x, y, bias, out, transposed=False):
    """out[batch, m, n] = sum over k of x[batch, m, k] * y[batch, k, n] (y[n, k] where transposed) + bias[n]."""
    if transposed:
        y = Located(y.place, y.dtype, (y.shape[1], y.shape[0]), (y.strides[1], y.strides[0]), y.offset)
    _Product(planner, x, y, None if bias is None else planner.dense(bias), out).launch()


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

    @property
    def buffers(self):
        operands = [Buffer("x", self.x.dtype, "r"), Buffer("y", self.y.dtype, "r")]
        if self.bias is not None:
            operands.append(Buffer("bias", self.bias.dtype, "r"))
        return (*operands, Buffer("out", self.out.dtype, "w"))

    def load(self, name, located, guard=None):
        strides = self.steps[f"{name}_row"], self.steps[f"{name}_column"]
        return matrix_load(Buffer(name, located.dtype, "r"), self.steps[f"{name}_batch"], strides, guard, self.total)

    def store(self, b, batch, m, n, value, lanes, mask):
        if self.bias is not None:
            other = None if mask is None else b.const(0.0, self.bias.dtype, lanes)
            bias = b.load("bias", n, self.bias.dtype, lanes, mask, other)
            value = b.add(value, splat(b.cast(bias, self.total), lanes))
        row = I.add(I.mul(batch, I.mul(I.index("M"), I.index("N"))), I.mul(m, I.index("N")))
        b.store("out", I.add(row, n), b.cast(value, self.out.dtype), mask)

    def launch(self):
        k = I.index("K")
        vector_a = self.x.strides[-1 if self.unit_a == "k" else -2] == 1
        vector_b = self.y.strides[-1 if self.unit_b == "n" else -2] == 1
        guard_a = ("column", k) if self.unit_a == "k" else ("row", I.index("M"))
        guard_b = ("column", I.index("N")) if self.unit_b == "n" else ("row", k)
        plain = self.x.dtype is self.total and self.unit_a == "k"
        kernel = gemm_kernel(
            "matmul", self.buffers, tuple(self.params), self.load("x", self.x), self.load("y", self.y), self.store,
            self.total, unit_a=self.unit_a, unit_b=self.unit_b, vector_a=vector_a, vector_b=vector_b, plain_a=plain,
            tail_a=self.load("x", self.x, guard_a) if vector_a and not plain else None,
            tail_b=self.load("y", self.y, guard_b) if vector_b else None)
        operands = [self.x, self.y] + ([self.bias] if self.bias is not None else []) + [self.out]
        work = 2 * self.sizes["batch"] * self.sizes["M"] * self.sizes["N"] * self.sizes["K"]
        self.planner.launch_template(kernel, operands, self.params, work)
