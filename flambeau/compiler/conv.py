"""Convolution, forward and backward to the input: what is launched, and with which sizes.

Both directions are one template, compiler.conv_direct: the gradient of the input is a convolution of the
gradient of the output with the window turned round, for each class of places modulo the stride. Weights are
packed by a kernel of their own (conv_pack). Windows of 3 x 3 without stride go by compiler.conv_winograd where
the sizes make it worth while (decision 0022), windows of one pixel are products of matrices (conv_pointwise). Sums are float32 where the tensors are half precision.

Layout is (batch, channels, depth, height, width), row-major; without depth it is 1. The window's numbers are
part of the kernels; sizes are params. A 1-d convolution has H = OH = 1; a window of one tap without stride
and padding sees an image as one long row.
"""

from dataclasses import dataclass
from math import prod

from flambeau.compiler import index_math as I
from flambeau.compiler import conv_direct, conv_pack, conv_pointwise, conv_winograd
from flambeau.compiler.conv_choices import DIRECT
from flambeau.compiler.conv_schedule import (FLAT, Register, Shape, backward_axis, forward_axis, kernel_shape,
                                             launch_sized, maximum, schedule)
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
    axes, wide = _axes(spec, backward), spec.accumulator
    shape = choice.kernel_shape(kernel_shape(*axes[1:], wide, target))
    pack = conv_pack.pack_weights(shape, backward, wide, spec.dtype)
    kernel = tuple(taps for taps, *_ in spec.axes)
    template = conv_direct.direct_template(name, shape, kernel, axes, spec.groups, wide, spec.dtype,
                                           backward, in_place=spec.pointwise and spec.dtype is wide)
    kernel = _finished(template, spec, backward, epilogue)
    return Direct(spec, backward, shape, axes, pack, kernel, choice.limits(shape))


def _axes(spec, backward):
    return tuple((backward_axis if backward else forward_axis)(*numbers) for numbers in spec.axes)


def _finished(template, spec, backward, epilogue):
    """The template with its splice filled: bias, cast, epilogue and store."""
    wide, bias, image = spec.accumulator, spec.bias and not backward, I.mul(I.index("OH"), I.index("OW"))

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
    return splice.fill(template, stores={"result": store}, buffers=buffers)


@dataclass(frozen=True)
class Winograd:
    """As Direct, for windows that compiler.conv_winograd knows, of two axes."""

    spec: Convolution
    backward: bool
    shape: Shape
    axes: tuple             # of rows and columns: what squares see
    pack: L.Kernel
    kernel: L.Kernel

    @classmethod
    def make(cls, spec, backward, epilogue=None, target=None):
        """The buffers of both kernels are those of a Direct."""
        wide = spec.accumulator
        axes = tuple(conv_winograd.squares_axis(axis) for axis, in _axes(spec, backward)[1:])
        shape = conv_winograd.winograd_shape(wide, target)
        pack = conv_winograd.pack_weights(shape, backward, wide, spec.dtype)
        name = "conv2d_winograd_backward" if backward else "conv2d_winograd"
        template = conv_winograd.winograd_template(name, shape, axes, spec.groups, wide, spec.dtype, backward)
        return cls(spec, backward, shape, axes, pack, _finished(template, spec, backward, epilogue))

    def params(self, N, C, H, W, K, OH, OW):
        """The kernels' params for the convolution's sizes, and `taken`: whether it takes them, 0 or 1."""
        groups, (rows, columns) = self.spec.groups, self.axes
        C, K = C // groups, K // groups
        if self.backward:
            C, H, W, K, OH, OW = K, OH, OW, C, H, W
        taken = conv_winograd.worth(N, C, K, OH, OW)
        down, across = (OH + 1) // 2, (OW + 1) // 2
        tiles = schedule(self.shape, (rows,), (columns,), groups, N, 1, C, K, down, across, 0)
        sizes = {"N": N * taken, "C": C, "D": 1, "H": H, "W": W, "K": K, "OD": 1, "OH": OH, "OW": OW}
        return {**sizes, **tiles, "groups": groups, "taken": taken}

    def packed_size(self, params):
        """Elements of the transformed weights."""
        size = conv_winograd.packed_size(self.shape, self.spec.groups, params["C"], params["K"])
        return size * params["taken"]


def launch(planner, which, inputs, out, spec, image, filtered):
    """Plan a convolution: which is 'forward' or 'backward_data', inputs the source, the weight and perhaps
    the bias; image and filtered are the shapes of the convolution's input and output.
    """
    choice = planner.choose(DIRECT)
    make = {"forward": conv2d_forward, "backward_data": conv2d_backward_data}[which]
    epilogue, recipe = planner.take_epilogue(), planner.recipe
    names = ("N", "C", "D", "H", "W") if len(image) == 5 else PARAMS[:4]
    sizes = {**dict(zip(names, image)), "K": filtered[1], **dict(zip(("OW", "OH", "OD"), filtered[:1:-1]))}
    registers = {name: Register.of(recipe, size) for name, size in sizes.items()}
    weights = sizes["C"] * sizes["K"] * spec.taps // spec.groups
    behind = () if epilogue is None else tuple(epilogue.operands.values())
    launcher = _Launcher(recipe, inputs, behind, out, weights, 2 * weights * prod(filtered[2:]) * image[0])
    left = 1
    if conv_pointwise.suits(spec):
        left = 1 - Register.of(recipe, conv_pointwise.launch(planner, which, inputs, out, image, filtered[1], epilogue))
    elif len(image) == 4 and conv_winograd.suits(spec):
        winograd = Winograd.make(spec, which == "backward_data", epilogue)
        params = winograd.params(**registers)
        left = 1 - params["taken"]
        launcher.run(winograd, params, params)
    direct = make(spec, epilogue=epilogue, choice=choice)
    params = direct.params(**registers)
    params |= {"N": params["N"] * left}
    launcher.run(direct, params, {**params, "inside": maximum(params["inside"], 1 - left)}, left, choice.grain)


class _Launcher:
    """Launches the two kernels of a convolution that are worked out for the sizes."""

    def __init__(self, recipe, inputs, behind, out, weights, work):
        (self.source, self.weight, *bias), self.recipe = inputs, recipe
        self.rest, self.weights, self.work = (*bias, *behind, out), weights, work

    def run(self, made, params, packing, share=1, grain=1):
        """made: Direct or Winograd; params of its kernel and, `packing`, of its packing."""
        recipe = self.recipe
        room = Register.number_of(recipe, made.packed_size(params) * share)
        packed = recipe.buffer_of(made.spec.accumulator, room)
        launch_sized(recipe, made.pack, [self.weight, packed], packing, self.weights * PACKING)
        operands = [self.source, self.weight, packed, *self.rest]
        launch_sized(recipe, made.kernel, operands, params, self.work, grain)
