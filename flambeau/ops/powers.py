"""Squares and cubes: what `pow` of a floating point tensor runs where the exponent is 2 or 3.

They are products, some ten times as fast as a power; the kernel of `pow` gives the same bits for these exponents.
"""

from flambeau.ops.elementwise import Simple
from flambeau.ops.samples import ulps
from flambeau.ops.spec import REGISTRY, op
from flambeau.types.dtype import FLOATING


class Power(Simple):
    """A power of the operand; recorded under the name of `pow`."""

    internal = True
    dtypes = FLOATING
    tolerance = ulps(4)


@op
class SecondPower(Power):
    """input ** 2."""

    name = "_second_power"

    def reference(input):
        return input * input

    def scalar(b, x):
        return b.mul(x, x)

    def derivative(grad, x):
        return grad * (x * 2)


@op
class ThirdPower(Power):
    """input ** 3."""

    name = "_third_power"

    def reference(input):
        return input * input * input

    def scalar(b, x):
        return b.mul(b.mul(x, x), x)

    def derivative(grad, x):
        return grad * (x * x * 3)


def _name_twins():
    twins = {exponent: REGISTRY[name].native for exponent, name in ((2, "_second_power"), (3, "_third_power"))}
    for native in twins.values():
        native.backward_name = REGISTRY["pow"].native.backward_name
    REGISTRY["pow"].native.twins = twins


_name_twins()
