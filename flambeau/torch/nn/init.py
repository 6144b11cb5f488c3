"""torch.nn.init"""

from flambeau.nn.init import _fan as _calculate_correct_fan, fans as _calculate_fan_in_and_fan_out
from flambeau.torch import _mirror


def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
    """`trunc_normal_` under the name that old code copies it from."""
    from flambeau.nn.init import trunc_normal_
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_normal_(tensor, mean, std, generator=None):
    """`normal_`, likewise."""
    from flambeau.nn.init import normal_
    return normal_(tensor, mean, std, generator)


def _no_grad_uniform_(tensor, a, b, generator=None):
    """`uniform_`, likewise."""
    from flambeau.nn.init import uniform_
    return uniform_(tensor, a, b, generator)


def _no_grad_fill_(tensor, val):
    """`constant_`, likewise."""
    from flambeau.nn.init import constant_
    return constant_(tensor, val)


def _no_grad_zero_(tensor):
    """`zeros_`, likewise."""
    from flambeau.nn.init import zeros_
    return zeros_(tensor)


_PRIVATE = (_calculate_correct_fan, _calculate_fan_in_and_fan_out)

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn.init")
