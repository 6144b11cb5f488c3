"""torch.nn.modules.utils: a number or a tuple made a tuple of the right length."""

from collections.abc import Iterable
from itertools import repeat


def _ntuple(count):
    def parse(value):
        return tuple(value) if isinstance(value, Iterable) else tuple(repeat(value, count))
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(count) for count in (1, 2, 3, 4))
