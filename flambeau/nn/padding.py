"""Padding of the last 1, 2 or 3 axes. `padding` is an int or (before, after) of the last axis, then the one
before."""

from flambeau.nn import functional as F
from flambeau.nn.functional.sizes import tuple_of
from flambeau.nn.module import Module


class _Pad(Module):
    """Axes padded in `mode`."""

    rank, mode = 0, "constant"

    def __init__(self, padding):
        super().__init__()
        self.padding = tuple_of(padding, 2 * self.rank)

    def forward(self, input):
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self):
        return f"{self.padding}"


class _CircularPad(_Pad):
    """The other end of each axis again."""

    mode = "circular"

    def forward(self, input):
        if input.dim() not in (self.rank + 1, self.rank + 2):
            raise ValueError(f"expected {self.rank + 1}D or {self.rank + 2}D input "
                             f"(got {input.dim()}D input)")
        return super().forward(input)


class _ConstantPad(_Pad):
    """`value` around the axes."""

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    """Zeros around the axes."""

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class _ReflectionPad(_Pad):
    """Each axis mirrored at its border elements."""

    mode = "reflect"


class _ReplicationPad(_Pad):
    """The border elements again."""

    mode = "replicate"


def _ranks(base, stem):
    """The three classes of a base, for 1 to 3 axes."""
    return [type(f"{stem}{rank}d", (base,), {"rank": rank, "__doc__": base.__doc__, "__module__": __name__})
            for rank in (1, 2, 3)]


CircularPad1d, CircularPad2d, CircularPad3d = _ranks(_CircularPad, "CircularPad")
ConstantPad1d, ConstantPad2d, ConstantPad3d = _ranks(_ConstantPad, "ConstantPad")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _ranks(_ReflectionPad, "ReflectionPad")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _ranks(_ReplicationPad, "ReplicationPad")
ZeroPad1d, ZeroPad2d, ZeroPad3d = _ranks(_ZeroPad, "ZeroPad")
