"""Dropout: random zeros in training, nothing in evaluation."""

from flambeau.nn import functional as F
from flambeau.nn.module import Module


class Dropout(Module):
    """In training set each element to 0 with probability `p` and divide the others by `1 - p`."""

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"
