"""A transform in two parts: what it draws for a picture, and what it does with that.

`transforms.v2` draws once for a picture with its masks and boxes, and then does the same to all of them.
"""

from flambeau.nn import Module
from flambeau.tensor import empty, rand, randint


class Drawn(Module):
    """draw(img) -> params; apply(img, params) -> picture."""

    def draw(self, img):
        return None

    def apply(self, img, params):
        raise NotImplementedError

    def forward(self, img):
        return self.apply(img, self.draw(img))


class Chance(Drawn):
    """Does something with probability p."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def draw(self, img):
        return self.happens()

    def happens(self):
        return rand(1).item() < self.p

    def apply(self, img, params):
        return self.change(img) if params else img

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p})"


def uniform(low, high):
    """A float between two numbers, drawn as a float32."""
    return empty(1).uniform_(low, high).item()


def below(high, low=0):
    """An int from `low` up to but without `high`."""
    return randint(low, high, (1,)).item()
