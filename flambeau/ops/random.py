"""Random numbers from a counter: element i of a draw is a function of the draw's key and i, whatever thread computes it.

Bits come from the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
2014) applied to key + (i + 1) * gamma; normal numbers by Box and Muller's method from the two halves. Draws that need
rejection (gamma, von Mises) come from NumPy's Philox generator, seeded with the key.
"""

from flambeau.base.lazy import LazyModule
from flambeau.ops import gamma_slope
from flambeau.ops.create import iota
from flambeau.ops.elementwise import where
from flambeau.ops.kinds import Composite, Elementwise, Opaque, compute_dtype
from flambeau.ops.spec import op
from flambeau.ops.view import reshape
from flambeau.types.dtype import FLOATING, float32, int64, uint32, uint64

numpy = LazyModule("numpy")
GAMMA = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mix(bits):
    """SplitMix64's finaliser on a Python int, as kernels and generators compute it."""
    bits &= (1 << 64) - 1
    bits = ((bits ^ (bits >> 30)) * FIRST) & ((1 << 64) - 1)
    bits = ((bits ^ (bits >> 27)) * SECOND) & ((1 << 64) - 1)
    return bits ^ (bits >> 31)


class FromCounter(Elementwise):
    """An element from (counter, key): 64 random bits turned into a value of `dtype`."""

    internal = True
    signature = "counter, key, dtype"
    operands = ("counter", "key")
    differentiable = False

    def native_arity(self):
        return 0

    def attributes_optional(self):
        return False

    def types(self, inputs, attrs):
        return [int64, int64], attrs["dtype"]


def random_bits(b, counter, key):
    """64 bits as uint64."""
    def constant(value):
        return b.const(value, uint64, counter.lanes)

    x = b.add(b.cast(key, uint64), b.mul(b.add(b.cast(counter, uint64), constant(1)), constant(GAMMA)))
    x = b.mul(b.xor(x, b.shr(x, constant(30))), constant(FIRST))
    x = b.mul(b.xor(x, b.shr(x, constant(27))), constant(SECOND))
    return b.xor(x, b.shr(x, constant(31)))


@op
class UniformElement(FromCounter):
    """Uniform in [0, 1): the top 24 bits (53 for float64) over 2 to that power."""

    def scalar(b, counter, key, dtype=None):
        inner = compute_dtype(dtype)
        digits = {2: 11 if dtype.name == "float16" else 8, 4: 24, 8: 53}[dtype.itemsize]
        bits = b.shr(random_bits(b, counter, key), b.const(64 - digits, uint64, counter.lanes))
        return b.mul(b.cast(b.cast(bits, int64), inner), b.const(2.0 ** -digits, inner, counter.lanes))


@op
class NormalElement(FromCounter):
    """Standard normal."""

    def scalar(b, counter, key, dtype=None):
        inner = compute_dtype(dtype)
        bits = random_bits(b, counter, key)
        high = b.cast(b.shr(bits, b.const(32, uint64, counter.lanes)), uint32)
        low = b.cast(b.and_(bits, b.const(0xFFFFFFFF, uint64, counter.lanes)), uint32)

        def unit(word, offset):
            scaled = b.cast(b.cast(word, int64), inner)
            return b.fma(scaled, b.const(2.0 ** -32, inner, counter.lanes),
                         b.const(offset, inner, counter.lanes))

        radius = b.sqrt(b.mul(b.const(-2.0, inner, counter.lanes), b.call("log", unit(high, 2.0 ** -33))))
        angle = b.mul(unit(low, 0.0), b.const(6.283185307179586, inner, counter.lanes))
        return b.mul(radius, b.call("cos", angle))


@op
class IntegerElement(FromCounter):
    """Uniform integer in [low, high): 64 bits modulo the width (bias below 2**-32 for widths below 2**32)."""

    signature = "counter, key, low, high, dtype"

    def scalar(b, counter, key, low=0, high=1, dtype=None):
        bits = b.cast(b.shr(random_bits(b, counter, key), b.const(1, uint64, counter.lanes)), int64)
        return b.add(b.irem(bits, b.const(high - low, int64, counter.lanes)),
                     b.const(low, int64, counter.lanes))


def counters(x):
    """0, 1, 2, ... in row-major order, in the shape of x."""
    return reshape(iota((x.numel(),), 0, int64), tuple(x.shape))


class Draw(Composite):
    """A draw in the shape of `like`; `key` is a number that the generator gives."""

    internal = True
    draws = True
    signature = "like, key"
    operands = ("like", "key")
    numbers = True
    differentiable = False


@op
class UniformLike(Draw):
    """Uniform numbers in [0, 1) in shape and dtype of `like`."""

    def compute(like, key):
        return uniform_element(counters(like), key, like.dtype)     # noqa: F821


@op
class NormalLike(Draw):
    """Standard normal numbers in shape and dtype of `like`."""

    def compute(like, key):
        return normal_element(counters(like), key, like.dtype)      # noqa: F821


@op
class IntegerLike(Draw):
    """Integers in [low, high) in shape and dtype of `like`."""

    signature = "like, key, low, high"

    def compute(like, key, low, high):
        return integer_element(counters(like), key, low, high, like.dtype)      # noqa: F821


@op
class DropoutWithKey(Composite):
    """Each element 0 with probability p, else divided by 1 - p. The mask is not kept: it is drawn again from the key."""

    internal = True
    draws = True
    signature = "input, key, p"
    operands = ("input", "key")
    numbers = True
    dtypes = FLOATING

    def compute(input, key, p):
        if p == 1.0:
            return input * 0.0
        kept = uniform_element(counters(input), key, float32) >= p       # noqa: F821
        return where(kept, input * (1.0 / (1.0 - p)), 0.0)

    def derivative(grad, x, key, *, p):
        return dropout_with_key(grad, key, p)       # noqa: F821


@op
class DropoutWithMask(Composite):
    """Each element times `scale` where the mask is true, else 0: dropout whose mask was drawn before."""

    internal = True
    signature = "input, mask, scale"
    operands = ("input", "mask", "scale")
    numbers = True
    dtypes = FLOATING

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape), rng.uniform(-1, 1, shape) > 0, numpy.array(1.25)]

    def reference(input, mask, scale):
        return numpy.where(mask, input * scale, 0.0)

    def compute(input, mask, scale):
        return where(mask, input * scale, 0.0)

    def derivative(grad, x, mask, scale):
        return dropout_with_mask(grad, mask, scale), None, None       # noqa: F821


# ------------------------------------------------------------------------------ with rejection, on the host
class HostDraw(Opaque):
    """A draw in shape and dtype of the first operand; `key` is an int64 tensor of one element."""

    internal = True
    differentiable = False

    def infer(self, inputs, attrs):
        return [(inputs[0].dtype, tuple(inputs[0].shape))]


def host_generator(key):
    """NumPy's generator for the key of a draw."""
    return numpy.random.Generator(numpy.random.Philox(key=int(key) & (1 << 64) - 1))


@op
class LogGammaDraw(HostDraw):
    """log(x) of draws x from the gamma distribution of these concentrations and rate 1.

    The logarithm, as for concentrations below 0.01 most draws are smaller than the smallest float. There x is y u^(1/c), of
    y with concentration c + 1 and a uniform u (Marsaglia and Tsang, ACM Transactions on Mathematical Software 26, 2000).
    """

    signature = "concentration, key"
    operands = ("concentration", "key")
    differentiable = True

    def host(concentration, key):
        c = numpy.asarray(concentration, "float64")
        generator = host_generator(key)
        valid = (c > 0) & (c < numpy.inf)
        with numpy.errstate(divide="ignore", invalid="ignore"):
            drawn = generator.standard_gamma(numpy.where(valid, numpy.where(c < 1, c + 1, c), 1.0))
            boost = numpy.where(c < 1, numpy.log1p(-generator.random(c.shape)) / c, 0.0)
            return numpy.where(valid, numpy.log(drawn) + boost, numpy.nan)

    def derivative(grad, out, concentration, key):
        return grad * log_gamma_slope(concentration, out), None         # noqa: F821


@op
class LogGammaDrawn(Composite):
    """Logarithms of gamma draws that were made elsewhere, with their slope in the concentration."""

    internal = True
    signature = "concentration, log_value"
    operands = ("concentration", "log_value")

    def compute(concentration, log_value):
        return log_value * 1.0

    def derivative(grad, out, concentration, log_value):
        return grad * log_gamma_slope(concentration, out), None         # noqa: F821


@op
class LogGammaSlope(HostDraw):
    """d log(x) / d concentration of a gamma draw that stays at its quantile."""

    signature = "concentration, log_value"
    operands = ("concentration", "log_value")

    def host(concentration, log_value):
        return gamma_slope.slope(concentration, log_value)


@op
class VonMisesDraw(HostDraw):
    """Angles from the von Mises distribution around 0 of these concentrations."""

    signature = "concentration, key"
    operands = ("concentration", "key")

    def host(concentration, key):
        c = numpy.asarray(concentration, "float64")
        drawn = host_generator(key).vonmises(0.0, numpy.where(c >= 0, c, 0.0))
        return numpy.where(c >= 0, drawn, numpy.nan)
