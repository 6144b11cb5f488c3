"""torch.nn.init"""

from flambeau.nn.init import _fan as _calculate_correct_fan, fans as _calculate_fan_in_and_fan_out
from flambeau.torch import _mirror


def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
    """`trunc_normal_` under the name that old code copies it from."""
    from flambeau.nn.init import trunc_normal_
    return trunc_normal_(tensor, mean, std, a, b, generator)


_PRIVATE = (_calculate_correct_fan, _calculate_fan_in_and_fan_out)

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn.init")
