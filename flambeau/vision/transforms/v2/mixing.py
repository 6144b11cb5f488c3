"""Mixing the samples of a batch, pictures and labels: MixUp and CutMix."""

import math

from flambeau.nn.functional import one_hot
from flambeau.tensor import tensor
from flambeau.vision.transforms.drawn import below
from flambeau.vision.transforms.v2.base import Transform, like


class Mixing(Transform):
    """(pictures (batch, channels, height, width), labels (batch,) or (batch, classes)) -> mixed ones, labels
    as shares (batch, classes)."""

    def __init__(self, *, alpha=1.0, num_classes=None, labels_getter="default"):
        super().__init__()
        self.alpha, self.num_classes, self.labels_getter = float(alpha), num_classes, labels_getter

    def forward(self, *inputs):
        sample = inputs if len(inputs) > 1 else inputs[0]
        pictures, labels = self._parts(sample)
        if pictures.ndim != 4:
            raise ValueError("Expected a batched input with 4 dims, but got "
                             f"{pictures.ndim} dimensions instead.")
        if labels.ndim == 1:
            if self.num_classes is None:
                raise ValueError("num_classes must be passed if the labels are class indices")
            labels = one_hot(labels, self.num_classes)
        labels = labels.float()
        share = self._share()
        mixed, share = self.mix(pictures, share)
        new = labels.roll(1, 0).mul(1.0 - share) + labels * share
        return self._replaced(sample, like(mixed, pictures), new)

    def _share(self):
        from flambeau.distributions import Dirichlet
        return float(Dirichlet(tensor([self.alpha, self.alpha])).sample()[0])

    def _parts(self, sample):
        if isinstance(sample, dict):
            key = next(name for name in ("labels", "label", "targets", "target") if name in sample)
            pictures = next(value for name, value in sample.items() if name != key and hasattr(value, "ndim"))
            return pictures, sample[key]
        return sample[0], self.labels_getter(sample) if callable(self.labels_getter) else sample[-1]

    def _replaced(self, sample, pictures, labels):
        old_pictures, old_labels = self._parts(sample)

        def new(part):
            return pictures if part is old_pictures else labels if part is old_labels else part
        if isinstance(sample, dict):
            return {name: new(value) for name, value in sample.items()}
        return type(sample)(new(part) for part in sample)


class MixUp(Mixing):
    """Each picture as a mean with its neighbour. Source: Zhang et al., "mixup" (2017)."""

    def mix(self, pictures, share):
        return pictures.roll(1, 0).mul(1.0 - share) + pictures * share, share


class CutMix(Mixing):
    """A rectangle of each picture from its neighbour. Source: Yun et al., "CutMix" (2019)."""

    def mix(self, pictures, share):
        rows, columns = pictures.shape[-2:]
        x, y = below(columns), below(rows)
        half = 0.5 * math.sqrt(1.0 - share)
        across, down = int(half * columns), int(half * rows)
        left, right = max(x - across, 0), min(x + across, columns)
        top, bottom = max(y - down, 0), min(y + down, rows)
        mixed = pictures.clone()
        mixed[..., top:bottom, left:right] = pictures.roll(1, 0)[..., top:bottom, left:right]
        return mixed, 1.0 - (right - left) * (bottom - top) / (rows * columns)
