"""torch.nn.modules.utils: a number or a tuple made a tuple of the right length."""

from collections.abc import Iterable
from itertools import repeat


def _ntuple(count, name="parse"):
    def parse(value):
        return tuple(value) if isinstance(value, Iterable) else tuple(repeat(value, count))
    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(count) for count in (1, 2, 3, 4))


def _reverse_repeat_tuple(t, n):
    """The elements from the last to the first, each n times."""
    return tuple(value for value in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Take a prefix off the keys of a state dict that have it, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix):]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in [key for key in metadata or () if key.startswith(prefix) or key == prefix.rstrip(".")]:
        value = metadata.pop(key)
        if key != prefix.rstrip("."):
            metadata[key[len(prefix):]] = value
        elif key:
            metadata[""] = value
