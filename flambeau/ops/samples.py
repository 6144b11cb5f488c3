"""Sample operands for the tests: each function returns functions `make(rng, shape) -> list of float64 arrays`.

The test of every op draws its operands from here, in every dtype and layout that the op allows.
"""


def unary_samples(low=-3.0, high=3.0):
    """One operand, uniform in [low, high)."""
    return lambda rng, shape: [rng.uniform(low, high, shape)]


def binary_samples(low=-3.0, high=3.0, away_from_zero=False):
    """Two operands; with `away_from_zero` the second keeps a distance of 0.5 from it."""
    def make(rng, shape):
        a, b = rng.uniform(low, high, shape), rng.uniform(low, high, shape)
        if away_from_zero:
            b = b + (b >= 0) * 0.5 - (b < 0) * 0.5
        return [a, b]
    return make


def positive_samples(count=1, low=0.1, high=4.0):
    """`count` operands above zero."""
    return lambda rng, shape: [rng.uniform(low, high, shape) for _ in range(count)]


def ulps(count):
    """A tolerance of so many units in the last place."""
    return ("ulps", count)
