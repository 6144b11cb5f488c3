"""What models share."""

from collections import OrderedDict

from flambeau import nn
from flambeau.nn import init


def divisible(value, divisor=8, least=None):
    """The multiple of `divisor` next to `value`, at least `least` and not below 90 % of `value`."""
    near = max(least or divisor, int(value + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * value else near


_make_divisible = divisible         # the name that programs import


def start_convolutions(model, linear_std=None, convolution_bias=True):
    """Convolutions as He et al. (2015) start them, norms as identity, Linear with `linear_std` (None: as they
    are).
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if convolution_bias and module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, (nn.BatchNorm2d, nn.GroupNorm)):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Linear) and linear_std is not None:
            init.normal_(module.weight, 0, linear_std)
            init.zeros_(module.bias)


class IntermediateLayerGetter(nn.ModuleDict):
    """The first children of a model, up to the last wanted one; called, it gives their outputs.

    return_layers: name of a child -> name of its output in the OrderedDict.
    """

    def __init__(self, model, return_layers):
        children = dict(model.named_children())
        if not set(return_layers) <= set(children):
            raise ValueError("return_layers are not present in model")
        last = max(list(children).index(name) for name in return_layers)
        super().__init__(OrderedDict(list(children.items())[:last + 1]))
        self.return_layers = {str(name): str(output) for name, output in return_layers.items()}

    def forward(self, x):
        found = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                found[self.return_layers[name]] = x
        return found
