"""Distances and angles as layers."""

from flambeau.nn import functional as F
from flambeau.nn.module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`; norms count as `eps` at least."""

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` along the last axis."""

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1, x2):
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
