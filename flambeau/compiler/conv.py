"""Convolution, forward and backward to the input, by direct kernels: what is launched, and with which sizes.

Both directions are one template, compiler.conv_direct: the gradient of the input is a convolution of the
gradient of the output with the window turned round, for each class of places modulo the stride. Weights are
packed by a kernel of their own (conv_pack). Sums are float32 where the tensors are half precision.

Layout is (batch, channels, depth, height, width), row-major; without depth it is 1. The window's numbers are
part of the kernels; sizes are params. A 1-d convolution has H = OH = 1; a window of one tap without stride
and padding sees an image as one long row.
"""

from dataclasses import dataclass
from math import prod

from flambeau.compiler import index_math as I
from flambeau.compiler import conv_direct, conv_pack
from flambeau.compiler.conv_choices import DIRECT
from flambeau.compiler.conv_schedule import (FLAT, Register, Shape, backward_axis, forward_axis, kernel_shape,
                                             schedule)
from flambeau.compiler.recipe import FLOORDIV, MAX, WORK
from flambeau.ir import loops as L
from flambeau.ir import splice
from flambeau.types.dtype import DType, float32

PARAMS = ("N", "C", "H", "W", "K", "OH", "OW")      # of the forward convolution, all groups
PACKING = 8         # scalar operations that packing a weight takes as long as


@dataclass(frozen=True)
class Convolution:
    """Everything of a convolution but its sizes; of pairs the first is vertical, of triples the depth."""

    kernel: tuple
    stride: tuple = (1, 1)
    padding: tuple = (0, 0)
    dilation: tuple = (1, 1)
    groups: int = 1
    bias: bool = False
    dtype: DType = float32

    @property
    def taps(self):
        return prod(self.kernel)

    @property
    def accumulator(self):
        return float32 if self.dtype.kind == "f" and self.dtype.itemsize == 2 else self.dtype

    @property
    def pointwise(self):
        """True if each output pixel sees the one input pixel at its place."""
        return {*self.kernel, *self.stride} == {1} and {*self.padding} == {0}

    @property
    def axes(self):
        """(taps, stride, padding, dilation) of depth, rows and columns."""
        axes = tuple(zip(self.kernel, self.stride, self.padding, self.dilation))
        return ((1, 1, 0, 1),) * (3 - len(axes)) + axes

    def output_size(self, *sizes):
        """The output's sizes for the input's, (height, width) or (depth, height, width)."""
        return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, p, d, k, s in
                     zip(sizes, self.padding, self.dilation, self.kernel, self.stride))


@dataclass(frozen=True)
class Direct:
    """The two kernels of a convolution in one direction, and what its sizes are worked out from."""

    spec: Convolution
    backward: bool
    shape: Shape
    axes: tuple             # of classes of depths, rows and columns
    pack: L.Kernel
    kernel: L.Kernel
    limits: Shape           # of tiles: `shape`, unless something smaller was chosen

    def params(self, N, C, H, W, K, OH, OW, D=1, OD=1):
        """The kernels' params for the convolution's sizes: ints or Registers."""
        groups, (_, rows, columns) = self.spec.groups, self.axes
        if self.spec.pointwise:
            D, H, W, OD, OH, OW = 1, 1, D * H * W, 1, 1, OD * OH * OW
        C, K = C // groups, K // groups
        if self.backward:
            C, D, H, W, K, OD, OH, OW = K, OD, OH, OW, C, D, H, W
        flat = self.axes[0] == (FLAT,)      # else the weights of a block of channels return for each depth
        tiles = schedule(self.limits, rows, columns, groups, N, OD, C, K, OH, OW, int(flat))
        window = {"groups": groups, "taps": self.spec.taps, "channels": self.shape.channels}
        sizes = {"N": N, "C": C, "D": D, "H": H, "W": W, "K": K, "OD": OD, "OH": OH, "OW": OW}
        return {**sizes, **window, **tiles}

    def packed_size(self, params):
        """Elements of the packed weights, or of the room to pack them."""
        spec, classes = self.spec, len(self.axes[1])
        before = conv_pack.packed_size(self.shape, spec.taps, spec.groups, params["C"], params["K"])
        images = (params["N"] + params["tile_images"] - 1) // params["tile_images"]
        strips = images * params["OD"] * params["block_tiles"] * params["column_tiles"]
        room = strips * (spec.groups * classes * conv_direct.region(self.shape, spec.taps))
        return before + (room - before) * params["inside"]


def conv2d_forward(spec, name="conv2d", epilogue=None, target=None, choice=DIRECT.default):
    """output[n, k] = bias[k] + sum over c, q, r, s of input[n, c, moved by (q, r, s)] * weight[k, c, q, r, s]

    Returns a Direct. Its `pack` has buffers weight (K, C / groups, taps) and packed; its `kernel` has source
    (N, C, D, H, W), weight, weights (the packed ones), bias (K,) if spec.bias, and result (N, K, OD, OH, OW).
    epilogue: a compiler.epilogue.Epilogue; its operands are buffers of the kernel, in front of the result.
    choice: see compiler.conv_choices.
    """
    return _direct(spec, False, name, epilogue, target, choice)


def conv2d_backward_data(spec, name="conv2d_backward_data", epilogue=None, target=None,
                         choice=DIRECT.default):
    """The gradient of the input. Returns a Direct: its source is the gradient of the output, (N, K, OD, OH,
    OW), its result is (N, C, D, H, W)."""
    return _direct(spec, True, name, epilogue, target, choice)


def _direct(spec, backward, name, epilogue, target, choice):
    axes = tuple((backward_axis if backward else forward_axis)(*numbers) for numbers in spec.axes)
    wide, bias, groups = spec.accumulator, spec.bias and not backward, spec.groups
    shape = choice.kernel_shape(kernel_shape(*axes[1:], wide, target))
    pack = conv_pack.pack_weights(shape, backward, wide, spec.dtype)
    kernel = tuple(taps for taps, *_ in spec.axes)
    template = conv_direct.direct_template(name, shape, kernel, axes, groups, wide, spec.dtype,
                                           backward, in_place=spec.pointwise and spec.dtype is wide)
    image = I.mul(I.index("OH"), I.index("OW"))

    def store(b, plane, channel, place, value, mask):
        if bias:
            value = b.add(value, L.splat(b.cast(b.load("bias", channel, spec.dtype), wide), value.lanes))
        place, value = I.add(I.mul(plane, image), place), b.cast(value, spec.dtype)
        if epilogue is not None:
            place = b.let(place)
            value = epilogue.emit(b, value, place, mask)
        b.store("result", place, value, mask)

    behind = () if epilogue is None else epilogue.operands.items()
    buffers = (*(L.Buffer("bias", spec.dtype, "r"),) * bias,
               *(L.Buffer(name, located.dtype, "r") for name, located in behind),
               L.Buffer("result", spec.dtype, "w"))
    kernel = splice.fill(template, stores={"result": store}, buffers=buffers)
    return Direct(spec, backward, shape, axes, pack, kernel, choice.limits(shape))


def launch(planner, which, inputs, out, spec, image, filtered):
    """Plan a convolution: which is 'forward' or 'backward_data', inputs the source, the weight and perhaps
    the bias; image and filtered are the shapes of the convolution's input and output.
    """
    choice = planner.choose(DIRECT)
    make = {"forward": conv2d_forward, "backward_data": conv2d_backward_data}[which]
    epilogue, recipe = planner.take_epilogue(), planner.recipe
    direct = make(spec, epilogue=epilogue, choice=choice)
    names = ("N", "C", "D", "H", "W") if len(image) == 5 else PARAMS[:4]
    params = {**dict(zip(names, image)), "K": filtered[1], **dict(zip(("OW", "OH", "OD"), filtered[:1:-1]))}
    sizes = direct.params(**{name: Register.of(recipe, size) for name, size in params.items()})
    source, weight, *bias = inputs
    room = direct.packed_size(sizes)
    packed = recipe.buffer_of(spec.accumulator, _register(recipe, room))
    weights = params["C"] * params["K"] * spec.taps // spec.groups
    _launch(recipe, direct.pack, [weight, packed], sizes, weights * PACKING)
    work = 2 * weights * prod(filtered[2:]) * image[0]
    behind = () if epilogue is None else epilogue.operands.values()
    operands = [source, weight, packed, *bias, *behind, out]
    _launch(recipe, direct.kernel, operands, sizes, work, choice.grain)


def _launch(recipe, kernel, operands, sizes, work, grain=1):
    """Add the launch of a kernel; `sizes`: ints and Registers by the names of its params."""
    registers = {name: _register(recipe, size) for name, size in sizes.items()}
    one = recipe.register(1)
    extent = recipe.expression(kernel.extent, registers)
    step = recipe.compute(FLOORDIV, recipe.register(work), recipe.compute(MAX, extent, one))
    grain = recipe.compute(FLOORDIV, recipe.register(4 * WORK * grain), recipe.compute(MAX, step, one))
    params = [registers[p] for p in kernel.params]
    recipe.launch(kernel, operands, params, extent, recipe.compute(MAX, grain, one))


def _register(recipe, size):
    """The register of a size: an int or a Register."""
    return size.number if isinstance(size, Register) else recipe.register(size)
