"""Convolution, forward and backward to the input, by direct kernels: what is launched, and with which sizes.

Both directions are one template, compiler.conv_direct: the gradient of the input is a convolution of the
gradient of the output with the window turned round, for each class of places modulo the stride. Weights are
packed by a kernel of their own (conv_pack). Sums are float32 where the tensors are half precision.

Layout is NCHW, contiguous. The window's numbers are part of the kernels; sizes are params. A 1-d convolution has
H = OH = 1; a window of one tap without stride and padding sees an image as one long row.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler import conv_direct, conv_pack, pipeline
from flambeau.compiler.conv_schedule import Register, Shape, backward_axis, forward_axis, kernel_shape, schedule
from flambeau.compiler.recipe import FLOORDIV, MAX, WORK
from flambeau.ir import loops as L
from flambeau.ir import splice
from flambeau.types.dtype import DType, float32

PARAMS = ("N", "C", "H", "W", "K", "OH", "OW")      # of the forward convolution, all groups
PACKING = 8         # scalar operations that packing a weight takes as long as


@dataclass(frozen=True)
class Convolution:
    """Everything of a convolution but its sizes; pairs are (vertical, horizontal)."""

    kernel: tuple
    stride: tuple = (1, 1)
    padding: tuple = (0, 0)
    dilation: tuple = (1, 1)
    groups: int = 1
    bias: bool = False
    dtype: DType = float32

    @property
    def taps(self):
        return self.kernel[0] * self.kernel[1]

    @property
    def accumulator(self):
        return float32 if self.dtype.kind == "f" and self.dtype.itemsize == 2 else self.dtype

    @property
    def pointwise(self):
        """True if each output pixel sees the one input pixel at its place."""
        return self.kernel == self.stride == (1, 1) and self.padding == (0, 0)

    def output_size(self, height, width):
        """(OH, OW) of an input of that height and width."""
        return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, p, d, k, s in
                     zip((height, width), self.padding, self.dilation, self.kernel, self.stride))


@dataclass(frozen=True)
class Direct:
    """The two kernels of a convolution in one direction, and what its sizes are worked out from."""

    spec: Convolution
    backward: bool
    shape: Shape
    rows: tuple
    columns: tuple
    pack: L.Kernel
    kernel: L.Kernel

    def params(self, N, C, H, W, K, OH, OW):
        """The kernels' params for the convolution's sizes: ints or Registers."""
        groups = self.spec.groups
        if self.spec.pointwise:
            H, W, OH, OW = 1, H * W, 1, OH * OW
        C, K = C // groups, K // groups
        if self.backward:
            C, H, W, K, OH, OW = K, OH, OW, C, H, W
        tiles = schedule(self.shape, self.rows, self.columns, groups, N, C, K, OH, OW)
        return {"N": N, "C": C, "H": H, "W": W, "K": K, "OH": OH, "OW": OW, **tiles}

    def packed_size(self, params):
        """Elements of the packed weights."""
        return conv_pack.packed_size(self.shape, self.spec.taps, self.spec.groups, params["C"], params["K"])


def conv2d_forward(spec, name="conv2d", epilogue=None, target=None):
    """output[n, k] = bias[k] + sum over c, r, s of input[n, c, moved by (r, s)] * weight[k, c, r, s].

    The Direct whose `pack` has buffers weight (K, C / groups, R, S) and packed, and whose `kernel` has source (N, C,
    H, W), weights (packed), bias (K,) if spec.bias, and result (N, K, OH, OW). epilogue(b, value): what happens to
    a finished element before it is stored, such as an activation.
    """
    return _direct(spec, False, name, epilogue, target)


def conv2d_backward_data(spec, name="conv2d_backward_data", epilogue=None, target=None):
    """The gradient of the input: the Direct whose source is the gradient of the output, (N, K, OH, OW), and whose
    result is (N, C, H, W)."""
    return _direct(spec, True, name, epilogue, target)


def _direct(spec, backward, name, epilogue, target):
    numbers = zip(spec.kernel, spec.stride, spec.padding, spec.dilation)
    rows, columns = (backward_axis(*n) if backward else forward_axis(*n) for n in numbers)
    wide, bias = spec.accumulator, spec.bias and not backward
    shape = kernel_shape(rows, columns, wide, target)
    pack = conv_pack.pack_weights(name + "_weights", shape, spec.taps, spec.groups, backward, wide, spec.dtype)
    template = conv_direct.direct_template(name, shape, spec.kernel, rows, columns, spec.groups, wide, spec.dtype,
                                           in_place=spec.pointwise and spec.dtype is wide)
    image = I.mul(I.index("OH"), I.index("OW"))

    def store(b, plane, channel, place, value, mask):
        if bias:
            value = b.add(value, L.splat(b.cast(b.load("bias", channel, spec.dtype), wide), value.lanes))
        if epilogue is not None:
            value = epilogue(b, value)
        b.store("result", I.add(I.mul(plane, image), place), b.cast(value, spec.dtype), mask)

    buffers = (L.Buffer("bias", spec.dtype, "r"),) * bias + (L.Buffer("result", spec.dtype, "w"),)
    kernel = splice.fill(template, stores={"result": store}, buffers=buffers)
    return Direct(spec, backward, shape, rows, columns, pack, kernel)


def launch(planner, which, inputs, out, spec, params, work):
    """Plan a convolution: which is 'forward' or 'backward_data', inputs the source, the weight and perhaps the bias.

    params: name of PARAMS -> size; work: scalar operations in all.
    """
    direct = {"forward": conv2d_forward, "backward_data": conv2d_backward_data}[which](spec)
    recipe = planner.recipe
    sizes = direct.params(**{name: Register.of(recipe, size) for name, size in params.items()})
    source, weight, *bias = inputs
    channels, outputs = (params[name] // spec.groups for name in ("KC" if direct.backward else "CK"))
    packed = recipe.buffer(spec.accumulator, (direct.packed_size({"C": channels, "K": outputs}),))
    weights = params["C"] * params["K"] * spec.taps // spec.groups
    _launch(recipe, direct.pack, [weight, packed], sizes, weights * PACKING)
    _launch(recipe, direct.kernel, [source, packed, *bias, out], sizes, work)


def _launch(recipe, kernel, operands, sizes, work):
    """Add the launch of a kernel; `sizes`: ints and Registers by the names of its params."""
    registers = {p: size.number if isinstance(size, Register) else recipe.register(size) for p, size in sizes.items()}
    one = recipe.register(1)
    extent = recipe.expression(kernel.extent, registers)
    step = recipe.compute(MAX, recipe.compute(FLOORDIV, recipe.register(work), recipe.compute(MAX, extent, one)), one)
    grain = recipe.compute(MAX, recipe.compute(FLOORDIV, recipe.register(4 * WORK), step), one)
    recipe.launch(pipeline.build_kernel(kernel), operands, [registers[p] for p in kernel.params], extent, grain)
