"""AutoAugment and its kin for whole samples: labels stay; masks and boxes are refused, as in torchvision."""

from flambeau.base.errors import fail
from flambeau.tensor import rand, randint
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import autoaugment
from flambeau.vision.transforms.v2.base import Transform, like


class Chain(Transform):
    """A chain of `transforms.autoaugment` (the class after it in a subclass's bases) for the picture of a
    sample.
    """

    def check_inputs(self, flat_inputs):
        for part in flat_inputs:
            if isinstance(part, (tv_tensors.Mask, tv_tensors.BoundingBoxes)):
                fail(f"v2.{type(self).__name__}", "only pictures are supported", got=type(part).__name__,
                     kind=TypeError)

    def transform(self, inpt, params):
        return like(self._chain(inpt), inpt)

    @staticmethod
    def _negative():
        return rand(()).item() <= 0.5


def _chained(plain):
    """The class `plain` for whole samples."""
    members = {"__doc__": plain.__doc__, "__module__": __name__, "_chain": plain.forward}
    return type(plain.__name__, (Chain, plain), members)


class AutoAugment(_chained(autoaugment.AutoAugment)):
    __doc__ = autoaugment.AutoAugment.__doc__

    def _chain(self, img):
        """As in `transforms`, with draws in another order."""
        table = self._table(img)
        for name, probability, level in self.policies[randint(len(self.policies), ()).item()]:
            if rand(()).item() > probability:
                continue
            values, signed = table[name]
            strength = float(values[level].item()) if level is not None else 0.0
            img = self._step(img, name, -strength if signed and self._negative() else strength)
        return img


RandAugment = _chained(autoaugment.RandAugment)
TrivialAugmentWide = _chained(autoaugment.TrivialAugmentWide)
AugMix = _chained(autoaugment.AugMix)
