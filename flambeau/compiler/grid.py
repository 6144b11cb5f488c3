"""Images read at given places, and the gradients of the images and of the places.

Each result is a sum over neighbours of its place, weighted along every axis: 1 for the nearest, 2 linear, 4 cubic.
Neighbours outside of the image count as 0. Vectors run along the points; a block of BLOCK points is a step of the
extent, but where the image's gradient is summed, which is some planes a step, point by point.

Buffers: input (batch, channels, *sizes), grid (batch, points, rank) with -1 to 1 across the image, the last axis
first, and output or grad (batch, channels, points). PARAMS and one size for each axis.
"""

import itertools
from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.compiler.band import cubic_weights
from flambeau.ir import loops as L
from flambeau.types.dtype import DType, bool_, float32, float64, int64

PARAMS = ("batch", "channels", "points")
BLOCK = 256
NEAR = 64                       # points whose neighbours are kept for several planes of the image's gradient,
STEPS, MOST_PLANES = 16, 8      # at most so many; fewer where that leaves less than so many steps


@dataclass(frozen=True)
class Grid:
    """rank: axes of an image, 2 or 3; mode: 'nearest', 'bilinear' or 'bicubic'; padding_mode: 'zeros', 'border' or
    'reflection'; align_corners: -1 and 1 are the middles of the outer elements."""

    rank: int
    mode: str
    padding_mode: str
    align_corners: bool
    dtype: DType = float32

    @property
    def params(self):
        return (*PARAMS, *(f"size{i}" for i in range(self.rank)))


@dataclass(frozen=True)
class Points:
    """A vector of points from `first` on; `mask` and `last` where it has less than all lanes."""

    first: L.Expr
    mask: L.Expr | None = None
    last: L.Expr | None = None


@dataclass(frozen=True)
class Tap:
    """A neighbour along one axis, lane by lane: where it is, whether that is inside, its weight and that one's slope."""

    index: L.Expr
    inside: L.Expr
    weight: L.Expr | None
    slope: L.Expr | None


def grid_sample(spec, name="grid_sample", target=None):
    """Buffers: input, grid, output."""
    walk = _Walk(spec, target)
    b = walk.b

    def vector(n, points):
        corners = [walk.corner(taps) for taps in itertools.product(*walk.taps(n, points)[0])]
        with b.loop(b.fresh("channel"), 0, walk.channels) as channel:
            plane = b.let(I.add(I.mul(n, walk.channels), channel))
            total = None
            for index, inside, weight in corners:
                value = walk.read(plane, index, inside)
                if weight is not None:
                    value = b.mul(value, weight) if total is None else b.fma(value, weight, total)
                total = value
            first = b.let(I.add(I.mul(plane, walk.points), points.first))
            b.store("output", first, total, points.mask)

    walk.each_vector(vector)
    buffers = L.Buffer("input", spec.dtype, "r"), L.Buffer("grid", spec.dtype, "r"), L.Buffer("output", spec.dtype, "w")
    return L.Kernel(name, buffers, spec.params, walk.extent(), b.body())


def grid_sample_places(spec, name="grid_sample_places", target=None):
    """The gradient of the grid. Buffers: grad, input, grid, output (batch, points, rank)."""
    walk = _Walk(spec, target)
    b, rank = walk.b, spec.rank

    def vector(n, points):
        taps, slopes = walk.taps(n, points)
        corners = list(itertools.product(*taps))
        found = [walk.corner(each) for each in corners]
        dots = [b.declare(walk.number(0.0)) for _ in corners]
        with b.loop(b.fresh("channel"), 0, walk.channels) as channel:
            plane = b.let(I.add(I.mul(n, walk.channels), channel))
            grad = walk.consecutive("grad", I.mul(plane, walk.points), points)
            for dot, (index, inside, _) in zip(dots, found):
                b.assign(dot, b.fma(grad, walk.read(plane, index, inside), dot))
        for axis in range(rank):
            total = walk.number(0.0)
            for dot, each in zip(dots, corners):
                part = b.mul(dot, each[axis].slope)
                for other in range(rank):
                    part = part if other == axis else b.mul(part, each[other].weight)
                total = b.add(total, part)
            b.store("output", walk.component(n, points, axis), b.mul(total, slopes[axis]), points.mask)

    walk.each_vector(vector)
    names = ("grad", "input", "grid")
    buffers = (*(L.Buffer(n, spec.dtype, "r") for n in names), L.Buffer("output", spec.dtype, "w"))
    return L.Kernel(name, buffers, spec.params, walk.extent(), b.body())


def grid_sample_image(spec, name="grid_sample_image", target=None):
    """The gradient of the image. Buffers: grad, grid, output (batch, channels, *sizes). A step is some planes of it,
    which share the neighbours of NEAR points at a time."""
    walk = _Walk(spec, target)
    b = walk.b
    group = I.maximum(I.minimum(I.div(I.mul(walk.batch, walk.channels), STEPS), MOST_PLANES), 1)
    groups = I.ceil_div(walk.channels, group)
    near = _Near(walk)
    with b.loop("group", L.BEGIN, L.END) as step:
        n = b.let(I.div(step, groups))
        first = b.let(I.mul(I.sub(step, I.mul(n, groups)), group))
        stop = b.let(I.minimum(I.add(first, group), walk.channels))
        first, stop = (b.let(I.add(I.mul(n, walk.channels), channel)) for channel in (first, stop))
        with b.loop("clear", I.mul(first, walk.plane), I.mul(stop, walk.plane), kind="vector") as i:
            b.store("output", i, b.const(0.0, spec.dtype))
        with b.loop("block", 0, walk.points, NEAR) as block:
            end = b.let(I.minimum(I.add(block, NEAR), walk.points))
            walk.vectors(block, end, lambda points: near.keep(n, block, points))
            with b.loop("plane", first, stop) as plane:
                walk.vectors(block, end, lambda points: near.add(plane, block, points))
    buffers = L.Buffer("grad", spec.dtype, "r"), L.Buffer("grid", spec.dtype, "r"), L.Buffer("output", spec.dtype, "rw")
    return L.Kernel(name, buffers, spec.params, I.mul(walk.batch, groups), b.body())


class _Near:
    """The neighbours of NEAR points in local buffers: places in a plane, whether they are inside, weights."""

    def __init__(self, walk):
        self.walk, self.b, self.dtype, self.lanes = walk, walk.b, walk.spec.dtype, walk.lanes
        self.corners = len(_OFFSETS[walk.spec.mode]) ** walk.spec.rank
        self.weighted = walk.spec.mode != "nearest"
        for name, dtype in (("places", int64), ("insides", bool_), ("weights", self.dtype)):
            if name != "weights" or self.weighted:
                self.b.local(name, dtype, self.corners * NEAR)
        self.b.local("parts", self.dtype, self.corners * self.lanes)

    def keep(self, n, block, points):
        """Put down the neighbours of a vector of points."""
        b, own = self.b, I.sub(points.first, block)
        for number, taps in enumerate(itertools.product(*self.walk.taps(n, points)[0])):
            index, inside, weight = self.walk.corner(taps)
            at = b.let(I.add(own, number * NEAR))
            b.store("places", at, index)
            b.store("insides", at, inside)
            if weight is not None:
                b.store("weights", at, weight)

    def add(self, plane, block, points):
        """Add a vector of a plane's gradients to their neighbours, point by point."""
        b, walk, lanes, own = self.b, self.walk, self.lanes, self.b.let(I.sub(points.first, block))
        grad = walk.consecutive("grad", I.mul(plane, walk.points), points)
        for number in range(self.corners):
            at = I.add(own, number * NEAR)
            part = b.mul(grad, b.load("weights", at, self.dtype, lanes)) if self.weighted else grad
            part = b.select(b.load("insides", at, bool_, lanes), part, walk.number(0.0))
            b.store("parts", L.as_index(number * lanes), part)
        base = b.let(I.mul(plane, walk.plane))
        count = lanes if points.mask is None else b.let(I.sub(walk.points, points.first))
        with b.loop(b.fresh("lane"), 0, count) as lane:
            for number in range(self.corners):
                place = b.load("places", I.add(own, lane, number * NEAR), int64)
                place = b.let(I.add(base, place))
                old = b.load("output", place, self.dtype)
                b.store("output", place, b.add(old, b.load("parts", I.add(lane, number * lanes), self.dtype)))


_OFFSETS = {"nearest": (0,), "bilinear": (0, 1), "bicubic": (-1, 0, 1, 2)}


class _Walk:

    def __init__(self, spec, target):
        self.spec, self.b = spec, L.Builder("g")
        self.lanes = min((target or targets.current()).vector_bytes // spec.dtype.itemsize, 8)
        self.batch, self.channels, self.points, *self.sizes = map(I.index, spec.params)
        self.plane = I.mul(*self.sizes)
        self.count = I.ceil_div(self.points, BLOCK)

    def extent(self):
        return I.mul(self.batch, self.count)

    def number(self, value):
        return self.b.const(value, self.spec.dtype, self.lanes)

    def lanes_of(self, value):
        return self.b.let(L.splat(self.b.let(value), self.lanes))

    # ---- loops
    def each_vector(self, body):
        """`body(image, points)` for each vector of points in the steps of the extent."""
        b = self.b
        with b.loop("block", L.BEGIN, L.END) as block:
            n = b.let(I.div(block, self.count))
            start = b.let(I.mul(I.sub(block, I.mul(n, self.count)), BLOCK))
            self.vectors(start, b.let(I.minimum(I.add(start, BLOCK), self.points)), lambda points: body(n, points))

    def vectors(self, start, stop, body):
        """Whole vectors of points, then a masked one."""
        b, lanes = self.b, self.lanes
        whole = b.let(I.add(start, I.mul(I.div(I.sub(stop, start), lanes), lanes)))
        with b.loop(b.fresh("vector"), start, whole, lanes) as first:
            body(Points(first))
        with b.branch(L.apply("lt", whole, stop)):
            body(Points(whole, b.let(I.lanes_below(I.sub(stop, whole), lanes)), b.let(I.sub(stop, 1))))

    # ---- memory
    def along(self, base, step, points):
        """base + step * point of each lane; behind the last point its place again."""
        b, lane = self.b, L.Apply(int64, self.lanes, "lane", ())
        if points.mask is None:
            first = b.let(I.add(base, I.mul(points.first, step)))
            return L.apply("add", L.splat(first, self.lanes), L.apply("mul", lane, L.Const(int64, self.lanes, step)))
        numbers = b.min(b.add(b.let(lane), self.lanes_of(points.first)), self.lanes_of(points.last))
        return b.add(b.mul(numbers, self.lanes_of(L.as_index(step))), self.lanes_of(base))

    def component(self, n, points, axis):
        """Where the places along an axis stand in the grid."""
        rank = self.spec.rank
        return self.along(I.add(I.mul(n, self.points, rank), rank - 1 - axis), rank, points)

    def consecutive(self, buffer, base, points):
        """What `buffer` holds for the points from `base` on."""
        if points.mask is None:
            return self.b.load(buffer, self.b.let(I.add(base, points.first)), self.spec.dtype, self.lanes)
        return self.b.load(buffer, self.along(base, 1, points), self.spec.dtype, self.lanes)

    def read(self, plane, index, inside):
        place = self.b.add(self.lanes_of(I.mul(plane, self.plane)), index)
        return self.b.select(inside, self.b.load("input", place, self.spec.dtype, self.lanes), self.number(0.0))

    # ---- places
    def taps(self, n, points):
        """For each axis its Taps; and the slopes of the places, None for the nearest."""
        b, found = self.b, []
        for axis, size in enumerate(self.sizes):
            x = b.load("grid", self.component(n, points, axis), self.spec.dtype, self.lanes)
            found.append(self.axis(x, axis, size))
        return [taps for taps, _ in found], [slope for _, slope in found]

    def axis(self, x, axis, size):
        b, spec = self.b, self.spec
        length = b.let(L.splat(b.cast(size, spec.dtype), self.lanes))
        last, half = b.sub(length, self.number(1.0)), self.number(0.5)
        x = b.add(x, self.number(1.0))
        if spec.align_corners:
            slope = b.mul(last, half)
            place = b.mul(x, slope)
        else:
            slope = b.mul(length, half)
            place = b.mul(b.sub(b.mul(x, length), self.number(1.0)), half)
        if spec.mode != "bicubic":
            place, slope = self.bordered(place, slope, last)
        if spec.mode == "nearest":
            return [self.tap(b.round(place), axis, last, None, None)], None
        first = b.floor(place)
        share, taps = b.sub(place, first), []
        for offset, weight, change in zip(_OFFSETS[spec.mode], *self.weights(share)):
            near = b.add(first, self.number(float(offset)))
            near = self.bordered(near, slope, last)[0] if spec.mode == "bicubic" else near
            taps.append(self.tap(near, axis, last, weight, change))
        return taps, slope

    def weights(self, share):
        """The weights of the taps, and their slopes."""
        b, one = self.b, self.number(1.0)
        if self.spec.mode == "bilinear":
            return [b.sub(one, share), share], [self.number(-1.0), one]
        return cubic_weights(b, share, self.number), self.cubic_slopes(share)

    def cubic_slopes(self, t):
        b, a, number = self.b, -0.75, self.number
        away = b.add(t, number(1.0)), b.sub(number(2.0), t), b.sub(number(1.0), t)

        def near(d):
            return b.mul(b.sub(b.mul(number(3 * (a + 2)), d), number(2 * (a + 3))), d)

        def far(d):
            return b.add(b.mul(b.sub(b.mul(number(3 * a), d), number(10 * a)), d), number(8 * a))
        return far(away[0]), near(t), b.neg(near(away[2])), b.neg(far(away[1]))

    def tap(self, place, axis, last, weight, change):
        """The index is inside also where the place is not."""
        b, zero = self.b, self.number(0.0)
        inside = b.and_(b.ge(place, zero), b.le(place, last))
        index = self.whole(b.select(inside, place, b.select(b.gt(place, last), last, zero)))
        behind = I.mul(*self.sizes[axis + 1:])
        return Tap(b.mul(index, self.lanes_of(behind)), inside, weight, change)

    def whole(self, place):
        """The index of a place from 0 on: the bits behind 2**52 of its sum with that, without a branch a lane."""
        b, first = self.b, 1 << 52
        place = b.cast(b.floor(place), float64)
        bits = b.bitcast(b.add(place, b.const(float(first), float64, self.lanes)), dtype=int64)
        return b.and_(bits, b.const(first - 1, int64, self.lanes))

    def corner(self, taps):
        """(place in a plane, whether it is inside, weight) of a tap of each axis."""
        b, (index, inside, weight) = self.b, (taps[0].index, taps[0].inside, taps[0].weight)
        for tap in taps[1:]:
            index, inside = b.add(index, tap.index), b.and_(inside, tap.inside)
            weight = None if weight is None else b.mul(weight, tap.weight)
        return index, inside, weight

    def bordered(self, place, slope, last):
        """A place moved into the image, unless zeros are outside, and its slope there."""
        b, spec, zero, one = self.b, self.spec, self.number(0.0), self.number(1.0)
        if spec.padding_mode == "zeros":
            return place, slope
        if spec.padding_mode == "reflection":
            low = zero if spec.align_corners else self.number(-0.5)
            span = last if spec.align_corners else b.add(last, one)
            away = b.sub(place, low)
            slope = b.select(b.lt(away, zero), b.neg(slope), slope)
            away = b.abs(away)
            turns = b.floor(b.div(away, span))
            rest = b.sub(away, b.mul(turns, span))
            odd = b.ne(b.floor(b.mul(turns, self.number(0.5))), b.mul(turns, self.number(0.5)))
            moved = b.add(b.select(odd, b.sub(span, rest), rest), low)
            place = b.select(b.gt(span, zero), moved, zero)
            slope = b.select(odd, b.neg(slope), slope)
        outside = b.or_(b.le(place, zero), b.ge(place, last))
        return b.min(b.max(place, zero), last), b.select(outside, zero, slope)


# ---------------------------------------------------------------------------------------------- into a plan
KERNELS = {"values": grid_sample, "places": grid_sample_places, "image": grid_sample_image}


def launch(planner, which, inputs, out, image, mode, padding_mode, align_corners):
    """which: of KERNELS; image: the shape (batch, channels, *sizes); the inputs are the kernel's buffers."""
    inputs = [planner.dense(x) for x in inputs]
    spec = Grid(len(image) - 2, mode, padding_mode, align_corners, out.dtype)
    points = inputs[-1].shape[1]
    params = dict(zip(spec.params, (*image[:2], points, *image[2:])))
    corners = len(_OFFSETS[mode]) ** spec.rank
    work = image[0] * points * (60 + 6 * corners * (1 + image[1]))
    if which == "image":
        work = image[0] * image[1] * points * (60 + 8 * corners)
    planner.launch_template(KERNELS[which](spec), [*inputs, out], params, work)
