"""Trigonometric functions and their inverses.

sin, cos and tan write |x| = n pi/2 + r with |r| <= pi/4. Up to a limit, pi/2 in three parts does it (Cody and
Waite); beyond, which a branch skips when no lane needs it, the bits of 1/pi that matter are picked and
multiplied in 64-bit integers (Payne and Hanek), exact over the whole range. The instructions of a float32
vector on the common path, the branch included: sin 28, cos 26. The tangent and the inverses of float32 are
computed in float64.
"""

from flambeau.compiler import math_coefficients as P
from flambeau.compiler.math_values import (
    PI, Value, any_lane, copysign, fma, function, polynomial, parts, select, sqrt, through_float64)
from flambeau.types.dtype import float32, float64, int64, uint64

# 1/pi as a binary fraction: 41 zero bits (weights 2^40 to 2^0), then the bits of weights 2^-1 to 2^-1175.
_INVERSE_PI = int(
    "28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef1586dc91b8e909374b801924bba827464873f87"
    "7ac72c4a69cfba208d7d4baed1213a671c09ad17df904e64758e60d4ce7d272117e2ef7e4a0ec7fe25fff7816603fbcbc462"
    "d6829b47db4d9fb3c9f2c26dd3d18fd9a797fa8b5d49eeb1faf97c5ecf41ce7de294a4ba9afed7ec47e357421580cc11bf", 16)
_WORDS = tuple((_INVERSE_PI >> (16 + 64 * i)) & (2 ** 64 - 1) for i in range(18, -1, -1))
_LOW_WORD = 2 ** 32 - 1
HALF_PI = "1.57079632679489661923132169163975144209858469968755291048747229615390820314310"


# ------------------------------------------------------------------------------- reduction of huge arguments
def pick_words(place, count, wanted):
    """Words place .. place + wanted - 1 of 1/pi, each lane its own: a round of selects a bit of `place`.

    place < count, a power of 2; place is uint64."""
    words = [place.constant(w) for w in _WORDS[:count - 1 + wanted]]
    step = count // 2
    while step:
        chosen = (place & step) != 0
        words = [select(chosen, words[i + step], words[i]) for i in range(len(words) - step)]
        step //= 2
    return words


def window_of_inverse_pi(shift, count, size):
    """64 * size bits of 1/pi from bit `shift` on, as 32-bit digits in uint64, lowest first."""
    words = pick_words(shift >> 6, count, size + 1)
    inner = shift & 63
    digits = []
    for i in reversed(range(size)):
        word = (words[i] << inner) | (words[i + 1] >> (64 - inner))
        digits += [word & _LOW_WORD, word >> 32]
    return digits


def multiply_narrow(mantissa, digits):
    """The highest 96 of the lowest 128 bits of mantissa * window, as two uint64 (high, low): 4 digits, and a
    mantissa below 2^24, so that no sum overflows."""
    column = mantissa * digits[0]
    columns = []
    for digit in digits[1:]:
        column = mantissa * digit + (column >> 32)
        columns.append(column)
    return (columns[2] << 32) | (columns[1] & _LOW_WORD), columns[0] << 32


def multiply_wide(mantissa, digits):
    """The highest 128 of the lowest 192 bits of mantissa * window, as two uint64 (high, low).

    Products of 32-bit digits are split, so that no column overflows. What column 0 and the low halves of
    column 1 would carry weighs 2^-126 of a turn and is left out."""
    low, high = mantissa & _LOW_WORD, mantissa >> 32
    by_low = [low * d for d in digits[1:]]              # columns 1 to 5
    by_high = [high * d for d in digits[:-1]]           # columns 1 to 5
    columns = []
    for i in range(1, 5):                               # columns 2 to 5
        columns.append((by_low[i - 1] >> 32) + (by_high[i - 1] >> 32)
                       + (by_low[i] & _LOW_WORD) + (by_high[i] & _LOW_WORD))
    for i in range(1, 4):
        columns[i] = columns[i] + (columns[i - 1] >> 32)
    return ((columns[3] << 32) | (columns[2] & _LOW_WORD),
            (columns[1] << 32) | (columns[0] & _LOW_WORD))


def remainder_of_huge(a, count):
    """(r, n) for 2^16 <= a < infinity: a = n pi/2 + r with n modulo 4, as uint64; r is float64.

    count: words of 1/pi to choose from, 4 for float32, 16 for float64 (2 for float64 values below 2^128)."""
    form, bits = a.format, a.bits()
    mantissa = ((bits & ((1 << form.digits) - 1)) | (1 << form.digits)).cast(uint64)
    shift = ((bits >> form.digits) - (form.bias + form.digits - 40)).cast(uint64)
    if a.dtype is float32:
        high, low = multiply_narrow(mantissa, window_of_inverse_pi(shift, count, 2))
    else:
        high, low = multiply_wide(mantissa, window_of_inverse_pi(shift, count, 3))
    turned = high + 2 ** 61                                             # in 2^-62 of pi/2
    fraction = (turned & (2 ** 62 - 1)).cast(int64) - 2 ** 61
    units = fraction.cast(float64) + (low >> 1).cast(int64).cast(float64) * 2.0 ** -63
    unit, unit_low = (part * 2.0 ** -63 for part in parts(PI, float64, 2))
    product = units * unit
    return product + fma(units, unit_low, fma(units, unit, -product)), turned >> 62


def quarter_turns(a, count=None):
    """(r, n) for a >= 0: a = n pi/2 + r with |r| <= pi/4 and n (an integer of a's size) right modulo 4."""
    count = count or (4 if a.dtype is float32 else 16)
    shifter = a.format.shifter
    t = fma(a, 2 / float(PI), shifter)
    r, n = take_multiples(a, t - shifter, HALF_PI), t.bits()
    limit, b = (2.0 ** 16 if a.dtype is float32 else 2.0 ** 28), a.b
    huge = (a >= limit) & (a < float("inf"))
    result, turns = Value(b, b.declare(r.e)), Value(b, b.declare(n.e))
    with b.branch(any_lane(huge).e):
        exact, exact_turns = remainder_of_huge(select(huge, a, limit), count)
        b.assign(result.e, select(huge, exact.cast(r.dtype), r).e)
        b.assign(turns.e, select(huge, exact_turns.cast(n.dtype), n).e)
    return result, turns


def take_multiples(x, n, number):
    """x - n * number, for a number in decimal; exact to the last bit below the limit of quarter_turns."""
    for part in parts(number, x.dtype, 3):
        x = fma(n, -part, x)
    return x


# ------------------------------------------------------------------------------------------ sin, cos, tan
def sine_and_cosine(r):
    """(sin(r), cos(r)) for |r| <= pi/4."""
    z = r * r
    single = r.dtype is float32
    sine = fma(r * z, polynomial(z, P.SIN_32 if single else P.SIN_64), r)
    cosine = fma(z, fma(z, polynomial(z, P.COS_32 if single else P.COS_64), -0.5), 1)
    return sine, cosine


def negate_if_bit_1(value, n):
    """`value`, negated where bit 1 of the integer n is set."""
    top = 8 * value.dtype.itemsize - 1
    return flip_sign(value, (n << (top - 1)) & -(1 << top))


def flip_sign(value, bits):
    return (value.bits() ^ bits).floating(value.dtype)


def sign_bit(x):
    """The bits of x without all but the sign."""
    return x.bits() & -(1 << (8 * x.dtype.itemsize - 1))


@function
def sin(x):
    """Sine, in radians."""
    r, n = quarter_turns(abs(x))
    sine, cosine = sine_and_cosine(r)
    return flip_sign(negate_if_bit_1(select((n & 1) != 0, cosine, sine), n), sign_bit(x))


@function
def cos(x):
    """Cosine, in radians."""
    r, n = quarter_turns(abs(x))
    sine, cosine = sine_and_cosine(r)
    return negate_if_bit_1(select((n & 1) != 0, sine, cosine), n + 1)


@function
def tan(x):
    """Tangent, in radians: sin(r)/cos(r), or -cos(r)/sin(r) for odd n; in float64."""
    wide = x.cast(float64)
    r, n = quarter_turns(abs(wide), 2 if x.dtype is float32 else 16)
    sine, cosine = sine_and_cosine(r)
    odd = (n & 1) != 0
    y = select(odd, -cosine, sine) / select(odd, sine, cosine)
    return flip_sign(y, sign_bit(wide)).cast(x.dtype)


# ------------------------------------------------------------------------------------------------ inverses
def atan_up_to_1(x):
    """atan(x) - x for |x| <= 1."""
    z = x * x
    return x * z * polynomial(z, P.ATAN_64)


@function
@through_float64
def atan(x):
    """Arc tangent: beyond 1 it is pi/2 - atan(1/|x|)."""
    a = abs(x)
    large = a > 1
    m = select(large, -1 / a, a)
    high, low = parts(HALF_PI, x.dtype, 2)
    tail = atan_up_to_1(m) + select(large, a.constant(low), 0.0)
    return copysign(select(large, a.constant(high), 0.0) + (m + tail), x)


@function
@through_float64
def atan2(y, x):
    """The angle of the point (x, y), in (-pi, pi]; C99's values at zeros and infinities."""
    ax, ay = abs(x), abs(y)
    steep = ay > ax
    small, large = select(steep, ax, ay), select(steep, ay, ax)
    q = select(large == small, x.constant(1.0), small / large)
    q = select(large == 0, x.constant(0.0), q)
    high, low = parts(PI, x.dtype, 2)
    q_tail = atan_up_to_1(q)
    left = (x.bits() < 0)
    # the angle is base + sign * atan(q): base 0, pi/2 or pi; the sign is negative if one of steep, left holds
    base = select(steep, x.constant(high / 2), select(left, x.constant(high), 0.0))
    rest = select(steep, x.constant(low / 2), select(left, x.constant(low), 0.0))
    negative = steep ^ left
    angle = base + (select(negative, -q, q) + (select(negative, -q_tail, q_tail) + rest))
    return copysign(select((x != x) | (y != y), x + y, angle), y)


def asin_core(a):
    """(s, tail, near): asin(s) = s + tail, where s = a for near a (<= 1/2), else sqrt((1 - a)/2)."""
    near = a <= 0.5
    z = select(near, a * a, (1 - a) * 0.5)
    s = select(near, a, sqrt(z))
    return s, s * z * polynomial(z, P.ASIN_64), near


@function
@through_float64
def asin(x):
    """Arc sine: beyond 1/2 it is pi/2 - 2 asin(sqrt((1 - |x|)/2)); NaN outside [-1, 1]."""
    s, tail, near = asin_core(abs(x))
    high, low = parts(HALF_PI, x.dtype, 2)
    far = high - (2 * s + (2 * tail - low))
    return copysign(select(near, s + tail, far), x)


@function
@through_float64
def acos(x):
    """Arc cosine: pi/2 - asin(x), or twice the asin of sqrt((1 - |x|)/2), taken from pi for x < 0."""
    s, tail, near = asin_core(abs(x))
    high, low = parts(HALF_PI, x.dtype, 2)
    negative = x < 0
    s, tail = flip_sign(s, sign_bit(x)), flip_sign(tail, sign_bit(x))
    middle = high - (s + (tail - low))
    turn, turn_low = (select(negative, x.constant(2 * part), 0.0) for part in (high, low))
    far = turn + (2 * s + (2 * tail + turn_low))
    return select(near, middle, far)
