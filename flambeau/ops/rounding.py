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

    def reference(input):
        return numpy.trunc(input).astype(input.dtype)

    def scalar(b, x):
        return b.trunc(x) if x.dtype.kind == "f" else x


@op
class Round(Rounding):
    """The nearest integer, halves to even."""

    def reference(input):
        return numpy.round(input)

    def scalar(b, x):
        return b.round(x) if x.dtype.kind == "f" else x
