"""Transforms made of transforms, for whole samples; the draws come from the tensors' generator."""

from flambeau.nn import Module
from flambeau.tensor import rand, randperm, tensor


class Compose(Module):
    """One transform after the other."""

    def __init__(self, transforms):
        super().__init__()
        if not transforms:
            raise ValueError("Pass at least one transform")
        self.transforms = transforms

    def forward(self, *inputs):
        for transform in self.transforms:
            result = transform(*inputs)
            inputs = result if isinstance(result, tuple) and len(inputs) > 1 else (result,)
        return inputs if len(inputs) > 1 else inputs[0]

    def extra_repr(self):
        return "\n".join(f"    {transform}" for transform in self.transforms)


class RandomApply(Compose):
    """All of `transforms`, with probability p."""

    def __init__(self, transforms, p=0.5):
        super().__init__(transforms)
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def forward(self, *inputs):
        if rand(1).item() >= self.p:
            return inputs if len(inputs) > 1 else inputs[0]
        return super().forward(*inputs)


class RandomChoice(Module):
    """One of `transforms`, with weights p."""

    def __init__(self, transforms, p=None):
        super().__init__()
        weights = p if p is not None else [1] * len(transforms)
        if len(weights) != len(transforms):
            raise ValueError(f"Length of p doesn't match the number of transforms: {len(weights)} != "
                             f"{len(transforms)}")
        self.transforms, self.p = transforms, [weight / sum(weights) for weight in weights]

    def forward(self, *inputs):
        from flambeau.tensor.draws import multinomial
        return self.transforms[int(multinomial(tensor(self.p), 1))](*inputs)


class RandomOrder(Compose):
    """All of `transforms` in a random order."""

    def forward(self, *inputs):
        chain = Compose([self.transforms[index] for index in randperm(len(self.transforms)).tolist()])
        return chain(*inputs)
