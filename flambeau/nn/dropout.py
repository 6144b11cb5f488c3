"""Dropout: random zeros in training, nothing in evaluation."""

from flambeau.nn import functional as F
from flambeau.nn.module import Module


class _Dropout(Module):
    """What they share: the probability `p`, and whether to write into the input."""

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training set each element to 0 with probability `p` and divide the others by `1 - p`."""

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """`Dropout` of whole channels of (batch, channels, length)."""

    def forward(self, input):
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """`Dropout` of whole channels of (batch, channels, height, width)."""

    def forward(self, input):
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """`Dropout` of whole channels of (batch, channels, depth, height, width)."""

    def forward(self, input):
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1 of selu's outputs."""

    def forward(self, input):
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels."""

    def forward(self, input):
        return F.feature_alpha_dropout(input, self.p, self.training)
