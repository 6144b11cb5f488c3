"""A softmax over many classes in a head of frequent ones and tails of rare ones (Grave et al. 2017)."""

from collections import namedtuple

from flambeau.nn import functional as F
from flambeau.nn.container import ModuleList, Sequential
from flambeau.nn.linear import Linear
from flambeau.nn.module import Module
from flambeau.tensor import cat

_Output = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of classes that are sorted by frequency, and the loss of targets.

    Args:
        in_features: width of the input (batch, in_features). n_classes: how many classes there are.
        cutoffs: where the tails start, increasing. div_value: each tail is narrower by this factor.
        head_bias: whether the head has a bias.
    """

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None,
                 dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if cutoffs != sorted(set(cutoffs)) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1:
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an "
                             "increasing order, "
                             "where each value is between 1 and n_classes-1")
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = cutoffs + [n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, hidden, bias=False, **place),
                                        Linear(hidden, size, bias=False, **place)))

    def reset_parameters(self):
        """Draw new starting values."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input, target):
        """(log-probability of each target, their mean loss)."""
        batched = target.dim() > 0
        if input.dim() != (2 if batched else 1):
            raise RuntimeError(f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, "
                               f"but found input "
                               f"with size {input.shape}")
        rows, wanted = (input, target) if batched else (input.unsqueeze(0), target.unsqueeze(0))
        if wanted.numel() and not (0 <= wanted.min().item() and wanted.max().item() < self.n_classes):
            raise RuntimeError(f"Target values should be in the range [0, {self.n_classes - 1}], but values "
                               f"in range "
                               f"[{wanted.min().item()}, {wanted.max().item()}] were found. ")
        output = self.log_prob(rows).gather(1, wanted.unsqueeze(1)).squeeze(1)
        loss = -output.mean()
        return _Output(output if batched else output.squeeze(0), loss)

    def log_prob(self, input):
        """The log-probabilities of all classes: (batch, in_features) -> (batch, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, :self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            place = self.shortlist_size + i
            parts.append(F.log_softmax(tail(input), 1) + head[:, place:place + 1])
        return cat(parts, 1)

    def predict(self, input):
        """The most likely class of each row."""
        return self.log_prob(input).argmax(1)
