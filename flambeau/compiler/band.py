"""Sums along one axis with a few neighbours each: resampling, means of windows, and the transposes of both.

    output[o, j, i] = sum over k below number[j] of weight[k, j] * input[o, first[j] + k, i]

A first kernel fills the tables first, number and weight from a formula (a Band); for the transpose a second
one turns them around: which outputs, with which weights, does an input go to? The sums are the same kernel
then, in the order of k. Where all weights of an output are alike (means), its sum is divided by the first.
"""

import struct
from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.types.dim import maximum
from flambeau.types.dtype import DType, float32, float64, int64
from flambeau.types.shape import numel

TABLE_PARAMS = ("size", "count", "factor", "window", "stride", "padding")
SUM_PARAMS = ("outer", "size", "count", "inner")
ROWS = 64                   # of a step of the extent, along the last axis
STEPS = 2, 4                # neighbours of outputs in turn, for which there are loops of their own
_TAPS = {"nearest": 1, "nearest-exact": 1, "linear": 2, "cubic": 4}


@dataclass(frozen=True)
class Band:
    """The formula of a table. mode: 'nearest', 'nearest-exact', 'linear' or 'cubic' resampling
    (`align_corners`; `given`: by a factor, not by the ratio of the sizes), 'even': means of windows that
    cover the input evenly, 'windows': means of sliding windows (`include_pad`: padding counts), 'sums':
    sums of those."""

    mode: str
    dtype: DType = float32          # of the elements
    align_corners: bool = False
    given: bool = False
    include_pad: bool = True

    @property
    def accumulator(self):
        return float32 if self.dtype.itemsize == 2 else self.dtype

    @property
    def uniform(self):
        return self.mode not in _TAPS

    @property
    def taps(self):
        """Rows of the table of weights."""
        return _TAPS.get(self.mode, 1)


def launch(planner, band, x, out, axis, numbers, transposed=False):
    """The kernels into a plan. `x` and `out` are row-major; numbers: TABLE_PARAMS without the sizes, those
    that the mode needs; a factor as a float. transposed: from the gradient of the output to that of the
    input."""
    recipe, dtype = planner.recipe, band.accumulator
    size, count = (out, x)[not transposed].shape[axis], (x, out)[not transposed].shape[axis]
    given = {"factor": 0.0, "window": 1, "stride": 1, "padding": 0, **numbers}
    given["factor"] = struct.unpack("q", struct.pack("d", given["factor"]))[0]
    params = {"size": size, "count": count, **given}
    tables = [recipe.buffer(d, (n,)) for d, n in ((int64, count), (int64, count), (dtype, band.taps * count))]
    planner.launch_template(band_tables(band), tables, params, 16 * count)
    if transposed:
        reach = most_users(band, size, count, given)
        turned = [recipe.buffer(d, (n,)) for d, n in ((int64, size), (int64, size), (dtype, reach * size))]
        planner.launch_template(transposed_tables(band), [*tables, *turned], {"size": size, "count": count},
                                8 * (size + count))
        tables = turned
    outer, inner = numel(x.shape[:axis]), numel(x.shape[axis + 1:])
    kernel = band_sums(band.dtype, band.uniform and not transposed, axis == len(x.shape) - 1)
    sizes = {"outer": outer, "size": x.shape[axis], "count": out.shape[axis], "inner": inner}
    planner.launch_template(kernel, [x, *tables, out], sizes, 4 * outer * out.shape[axis] * inner)


def most_users(band, size, count, numbers):
    """No input goes to more outputs than this."""
    taps = numbers["window"] if band.mode in ("windows", "sums") else band.taps
    return (taps + 2) * (count + 1) // maximum(size - 1, 1) + 2


# ---------------------------------------------------------------------------------------------- tables
def band_tables(band, name="band_tables"):
    """Buffers: first (count) and number (count), int64; weight (taps, count). Params: TABLE_PARAMS; factor:
    the bits of a float64. One step of the extent is an output."""
    writer = _Tables(band)
    buffers = (L.Buffer("first", int64, "w"), L.Buffer("number", int64, "w"),
               L.Buffer("weight", writer.dtype, "rw"))
    return L.Kernel(name, buffers, TABLE_PARAMS, I.index("count"), writer.body())


class _Tables:

    def __init__(self, band):
        self.band, self.dtype, self.b = band, band.accumulator, L.Builder("t")
        self.size, self.count, self.factor = map(I.index, TABLE_PARAMS[:3])
        self.window, self.stride, self.padding = map(I.index, TABLE_PARAMS[3:])
        self.last = I.sub(self.size, 1)

    def body(self):
        b, mode = self.b, self.band.mode
        with b.loop("i", L.BEGIN, L.END) as i:
            if mode in ("nearest", "nearest-exact"):
                self.nearest(i)
            elif mode == "linear":
                self.linear(i)
            elif mode == "cubic":
                self.cubic(i)
            elif mode == "even":
                start = b.let(I.div(I.mul(i, self.size), self.count))
                stop = b.let(I.div(I.sub(I.add(I.mul(I.add(i, 1), self.size), self.count), 1), self.count))
                number = b.let(I.sub(stop, start))
                self.put(i, start, number, [b.cast(number, self.dtype)])
            else:
                self.windows(i)
        return b.body()

    def put(self, i, first, number, weights):
        b = self.b
        b.store("first", i, first)
        b.store("number", i, number)
        for tap, weight in enumerate(weights):
            b.store("weight", I.add(I.mul(self.count, tap), i), weight)

    def number(self, value, dtype=None):
        return self.b.const(value, dtype or self.dtype)

    def step(self, dtype):
        """How far neighbours of the output are apart in the input."""
        b, band = self.b, self.band
        size, count = (b.cast(s, float64) for s in (self.size, self.count))
        if band.align_corners:
            one = self.number(1.0, float64)
            step = b.div(b.sub(size, one), b.max(b.sub(count, one), one))
            step = b.select(b.gt(count, one), step, self.number(0.0, float64))
        elif band.given:
            step = b.div(self.number(1.0, float64), b.bitcast(self.factor, dtype=float64))
        else:
            step = b.div(size, count)
        return b.cast(step, dtype)

    def place(self, i):
        """Where in the input the middle of output `i` lies."""
        b = self.b
        at = b.cast(i, self.dtype)
        if self.band.align_corners:
            return b.mul(at, self.step(self.dtype))
        half = self.number(0.5)
        return b.sub(b.mul(b.add(at, half), self.step(self.dtype)), half)

    def nearest(self, i):
        b = self.b
        at = b.cast(i, float32)
        if self.band.mode == "nearest-exact":
            at = b.add(at, self.number(0.5, float32))
        place = b.cast(b.floor(b.mul(at, self.step(float32))), int64)
        self.put(i, I.minimum(place, self.last), L.as_index(1), [self.number(1.0)])

    def linear(self, i):
        b, one = self.b, self.number(1.0)
        place = b.max(self.place(i), self.number(0.0))
        first = b.let(I.minimum(b.cast(b.floor(place), int64), self.last))
        share = b.sub(place, b.cast(first, self.dtype))
        two = b.lt(first, self.last)
        number = L.apply("select", two, L.as_index(2), L.as_index(1))
        self.put(i, first, number, [b.select(two, b.sub(one, share), one), share])

    def cubic(self, i):
        """Four taps; those beyond the ends are added to the end's."""
        b = self.b
        place = self.place(i)
        floor = b.floor(place)
        weights = cubic_weights(b, b.sub(place, floor), self.number)
        start = b.let(I.sub(b.cast(floor, int64), 1))

        def inside(number):
            return b.let(I.minimum(I.maximum(I.add(start, number), 0), self.last))
        first = inside(0)
        self.put(i, first, I.add(I.sub(inside(3), first), 1), [self.number(0.0)] * 4)
        for tap, weight in enumerate(weights):
            address = b.let(I.add(I.mul(I.sub(inside(tap), first), self.count), i))
            b.store("weight", address, b.add(b.load("weight", address, self.dtype), weight))

    def windows(self, i):
        b, band = self.b, self.band
        start = b.let(I.sub(I.mul(i, self.stride), self.padding))
        first = b.let(I.minimum(I.maximum(start, 0), self.last))
        stop = I.minimum(I.add(start, self.window), self.size)
        number = b.let(I.maximum(I.sub(stop, I.maximum(start, 0)), 0))
        divisor = number
        if band.mode == "sums":
            divisor = L.as_index(1)
        elif band.include_pad:
            divisor = I.sub(I.minimum(I.add(start, self.window), I.add(self.size, self.padding)), start)
        self.put(i, first, number, [b.cast(b.let(I.maximum(divisor, 1)), self.dtype)])


def cubic_weights(b, t, number):
    """The cubic convolution with a = -0.75: the weights of four taps, `t` behind the second."""
    a, one, two = -0.75, number(1.0), number(2.0)

    def near(d):
        inner = b.sub(b.mul(number(a + 2), d), number(a + 3))
        return b.add(b.mul(b.mul(inner, d), d), one)

    def far(d):
        inner = b.add(b.mul(b.sub(b.mul(number(a), d), number(5 * a)), d), number(8 * a))
        return b.sub(b.mul(inner, d), number(4 * a))
    return far(b.add(t, one)), near(t), near(b.sub(one, t)), far(b.sub(two, t))


def transposed_tables(band, name="band_transposed"):
    """Tables of the inputs from those of the outputs. Buffers: first, number, weight; first_t (size),
    number_t (size), weight_t (most_users, size). Params: size, count. One step does it all."""
    b, dtype = L.Builder("t"), band.accumulator
    size, count = I.index("size"), I.index("count")
    with b.loop("once", L.BEGIN, L.END):
        with b.loop("j", 0, size) as j:
            b.store("first_t", j, L.as_index(0))
            b.store("number_t", j, L.as_index(0))
        with b.loop("i", 0, count) as i:
            first = b.load("first", i, int64)
            with b.loop("k", 0, b.load("number", i, int64)) as k:
                j = b.let(I.add(first, k))
                user = b.load("number_t", j, int64)
                with b.branch(b.eq(user, L.as_index(0))):
                    b.store("first_t", j, i)
                place = i if band.uniform else I.add(I.mul(k, count), i)
                weight = b.load("weight", place, dtype)
                weight = b.div(b.const(1.0, dtype), weight) if band.uniform else weight
                b.store("weight_t", I.add(I.mul(user, size), j), weight)
                b.store("number_t", j, I.add(user, 1))
    buffers = (L.Buffer("first", int64, "r"), L.Buffer("number", int64, "r"), L.Buffer("weight", dtype, "r"),
               L.Buffer("first_t", int64, "w"), L.Buffer("number_t", int64, "rw"),
               L.Buffer("weight_t", dtype, "w"))
    return L.Kernel(name, buffers, ("size", "count"), L.as_index(1), b.body())


# ---------------------------------------------------------------------------------------------- sums
def band_sums(dtype, uniform=False, last=False, name="band_sums", target=None):
    """Buffers: input (outer, size, inner), first, number and weight of the outputs, output (outer, count,
    inner). Params: SUM_PARAMS. uniform: sums are divided by the first weight; last: inner is 1. One step of
    the extent is a row of the output, or ROWS of them."""
    writer = _Sums(dtype, uniform, target)
    buffers = (L.Buffer("input", dtype, "r"), L.Buffer("first", int64, "r"), L.Buffer("number", int64, "r"),
               L.Buffer("weight", writer.dtype, "r"), L.Buffer("output", dtype, "w"))
    outer, count = I.index("outer"), I.index("count")
    extent = I.ceil_div(outer, ROWS) if last else I.mul(outer, count)
    body = writer.last() if last else writer.inner()
    return L.Kernel(name + "_last" * last, buffers, SUM_PARAMS, extent, body)


class _Sums:

    def __init__(self, stored, uniform, target):
        self.stored, self.uniform, self.b = stored, uniform, L.Builder("s")
        self.dtype = float32 if stored.itemsize == 2 else stored
        vector = (target or targets.current()).vector_bytes
        self.lanes = min(vector // self.dtype.itemsize, 8)         # gathers of more take longer than two of 8
        self.outer, self.size, self.count, self.columns = map(I.index, SUM_PARAMS)

    def read(self, index, mask=None):
        other = None if mask is None else self.b.const(0.0, self.stored, self.lanes)
        return self.b.cast(self.b.load("input", index, self.stored, self.lanes, mask, other), self.dtype)

    def zero(self):
        return self.b.declare(self.b.const(0.0, self.dtype, self.lanes))

    def add(self, total, value, weight):
        weight = None if weight is None else L.splat(weight, self.lanes)
        return L.apply("add", total, value) if weight is None else L.apply("fma", value, weight, total)

    def weight(self, k, j, lanes=1):
        """Of the k-th elements of outputs from j on; None where they are not weighted."""
        if self.uniform:
            return None
        return self.b.load("weight", I.add(I.mul(k, self.count), j), self.dtype, lanes)

    def inner(self):
        """Vectors run along the axes behind the summed one."""
        b, lanes = self.b, self.lanes
        with b.loop("row", L.BEGIN, L.END) as row:
            outer = b.let(I.div(row, self.count))
            j = b.let(I.sub(row, I.mul(outer, self.count)))
            number = b.load("number", j, int64)
            source = I.mul(I.add(I.mul(outer, self.size), b.load("first", j, int64)), self.columns)
            source, target = b.let(source), b.let(I.mul(row, self.columns))
            divisor = b.let(L.splat(b.load("weight", j, self.dtype), lanes)) if self.uniform else None

            def vectors(column, count, mask=None):
                totals = [self.zero() for _ in range(count)]
                with b.loop(b.fresh("k"), 0, number) as k:
                    weight = self.weight(k, j)
                    line = b.let(I.add(source, I.mul(k, self.columns), column))
                    for v, total in enumerate(totals):
                        b.assign(total, self.add(total, self.read(I.add(line, v * lanes), mask), weight))
                for v, total in enumerate(totals):
                    value = total if divisor is None else b.div(total, divisor)
                    b.store("output", I.add(target, column, v * lanes), b.cast(value, self.stored), mask)

            four = b.let(I.mul(I.div(self.columns, 4 * lanes), 4 * lanes))
            whole = b.let(I.mul(I.div(self.columns, lanes), lanes))
            with b.loop("four", 0, four, 4 * lanes) as column:
                vectors(column, 4)
            with b.loop("column", four, whole, lanes) as column:
                vectors(column, 1)
            with b.branch(L.apply("lt", whole, self.columns)):
                vectors(whole, 1, b.let(I.lanes_below(I.sub(self.columns, whole), lanes)))
        return b.body()

    def last(self):
        """Vectors run along the outputs where there are enough of them, else across the rows."""
        b = self.b
        with b.loop("block", L.BEGIN, L.END) as block:
            start = b.let(I.mul(block, ROWS))
            stop = b.let(I.minimum(I.add(start, ROWS), self.outer))
            wide = b.let(L.apply("ge", self.count, L.as_index(self.lanes)))
            with b.branch(wide):
                self.along(start, stop)
            with b.branch(b.not_(wide)):
                self.across(start, stop)
        return b.body()

    def along(self, start, stop):
        b, lanes = self.b, self.lanes
        with b.loop("vector", 0, self.count, lanes) as vector:
            j = b.let(I.minimum(vector, I.sub(self.count, lanes)))      # the last may meet the one before
            first, number = (b.load(name, j, int64, lanes) for name in ("first", "number"))
            divisor = b.load("weight", j, self.dtype, lanes) if self.uniform else None
            other = None
            for step in STEPS:
                fits = self.in_turn(j, first, number, step)
                with b.branch(fits):
                    self.rows(start, stop, j, divisor, lambda base: self.by_turns(base, j, step))
                other = b.not_(fits) if other is None else b.and_(other, b.not_(fits))
            with b.branch(other):
                end = b.max(b.sub(number, b.const(1, int64, lanes)), b.const(0, int64, lanes))
                most = b.reduce_max(number)
                self.rows(start, stop, j, divisor, lambda base: self.one_by_one(base, j, first, number, end, most))

    def rows(self, start, stop, j, divisor, sums):
        """Write sums(start of a row) for the outputs from j on of each row."""
        b = self.b
        with b.loop(b.fresh("row"), start, stop) as row:
            value = sums(b.let(I.mul(row, self.size)))
            value = value if divisor is None else b.div(value, divisor)
            b.store("output", I.add(I.mul(row, self.count), j), b.cast(value, self.stored))

    def in_turn(self, j, first, number, step):
        """True where each output from j on has `step` elements, and those of all follow one another."""
        b, lanes = self.b, self.lanes
        places = L.apply("add", L.apply("mul", L.Apply(int64, lanes, "lane", ()), L.as_index(step)),
                         b.load("first", j, int64))
        same = b.and_(L.apply("eq", first, places), L.apply("eq", number, L.as_index(step)))
        return b.call("reduce_and", same)

    def by_turns(self, base, j, step):
        """Sums of `step` neighbours each, which are read as vectors."""
        b, lanes = self.b, self.lanes
        start = b.let(I.add(base, b.load("first", j, int64)))
        total = L.Const(self.dtype, lanes, 0.0)
        for k, value in enumerate(self.apart([self.read(I.add(start, n * lanes)) for n in range(step)])):
            total = b.let(self.add(total, value, self.weight(k, j, lanes)))
        return total

    def apart(self, vectors):
        """n consecutive vectors as n vectors of elements n apart."""
        if len(vectors) == 1:
            return vectors
        halves = [self.apart([self.b.call(op, *vectors[i:i + 2]) for i in range(0, len(vectors), 2)])
                  for op in ("even", "odd")]
        return [vector for pair in zip(*halves) for vector in pair]

    def one_by_one(self, base, j, first, number, end, most):
        """Sums of elements anywhere."""
        b, total = self.b, self.zero()
        with b.loop(b.fresh("k"), 0, most) as k:
            index = b.add(L.apply("add", first, base), L.apply("min", end, k))
            longer = self.add(total, self.read(index), self.weight(k, j, self.lanes))
            b.assign(total, L.apply("select", L.apply("lt", k, number), longer, total))
        return total

    def across(self, start, stop):
        b, lanes = self.b, self.lanes
        with b.loop("rows", start, stop, lanes) as row:
            inside = b.let(I.lanes_below(I.sub(stop, row), lanes))
            rows = L.apply("add", L.Apply(int64, lanes, "lane", ()), row)
            rows = b.let(L.apply("min", rows, b.let(I.sub(stop, 1))))
            source, target = b.mul(rows, self.size), b.mul(rows, self.count)
            with b.loop("j", 0, self.count) as j:
                first, total = L.apply("add", source, b.load("first", j, int64)), self.zero()
                first = b.let(first)
                with b.loop("k", 0, b.load("number", j, int64)) as k:
                    weight = self.weight(k, j)
                    b.assign(total, self.add(total, self.read(L.apply("add", first, k)), weight))
                value = total
                if self.uniform:
                    value = b.div(total, L.splat(b.load("weight", j, self.dtype), lanes))
                b.store("output", L.apply("add", target, j), b.cast(value, self.stored), inside)
