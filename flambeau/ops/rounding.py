"""Rounding to integer values."""

from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import Simple
from flambeau.ops.spec import op

numpy = LazyModule("numpy")


class Rounding(Simple):
    """Rounds to an integer value; integers stay."""

    def derivative(grad, x):
        return grad * 0


@op
class Floor(Rounding):
    """The largest integer not above."""

    def reference(input):
        return numpy.floor(input).astype(input.dtype)

    def scalar(b, x):
        return b.floor(x) if x.dtype.kind == "f" else x


@op
class Ceil(Rounding):
    """The smallest integer not below."""

    def reference(input):
        return numpy.ceil(input).astype(input.dtype)

    def scalar(b, x):
        return b.ceil(x) if x.dtype.kind == "f" else x


@op
class Trunc(Rounding):
    """The integer part."""

    alias_names = ("fix",)

    def reference(input):
        return numpy.trunc(input).astype(input.dtype)

    def scalar(b, x):
        return b.trunc(x) if x.dtype.kind == "f" else x


@op
class Round(Rounding):
    """The nearest integer, halves to even; with `decimals` that many digits after the point stay."""

    signature = "input, *, decimals=0"

    def eager(self, values):
        if values["decimals"] == 0:
            return Rounding.eager(self, values)
        return to_decimals(values["input"], values["decimals"])

    def trace(self, tracer, values):
        if values["decimals"] == 0:
            return Rounding.trace(self, tracer, values)
        return to_decimals(values["input"], values["decimals"])

    def reference(input, decimals=0):
        return numpy.round(input, decimals)

    def scalar(b, x, decimals=0):
        return b.round(x) if x.dtype.kind == "f" else x


def to_decimals(x, decimals):
    """Rounded at a multiple of 10 ** -decimals."""
    if x.dtype.kind != "f":
        return x
    if decimals > 0:
        return round(x * 10.0 ** decimals) / 10.0 ** decimals           # noqa: F821 - the op
    return round(x / 10.0 ** -decimals) * 10.0 ** -decimals             # noqa: F821
