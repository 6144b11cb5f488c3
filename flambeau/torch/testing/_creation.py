"""`make_tensor`: a tensor of random values for tests."""

from flambeau.tensor import rand, randint
from flambeau.tensor.create import sizes_of


def make_tensor(*shape, dtype, device=None, low=None, high=None, requires_grad=False, noncontiguous=False,
                exclude_zero=False, memory_format=None):
    """Random values in [low, high): by default -9 to 9, 0 to 9 for unsigned integers, both truth values for bool.

    Args:
        shape: sizes, or one tuple of them.
        noncontiguous: every other element of a tensor twice as wide.
        exclude_zero: ones in place of zeros.
    """
    sizes = sizes_of(shape)
    if noncontiguous and sizes:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    made = _drawn(sizes, dtype, low, high)
    if exclude_zero:
        made = made.masked_fill(made == 0, 1)
    if noncontiguous and sizes:
        made = made[..., ::2]
    return made.requires_grad_(True) if requires_grad else made


def _drawn(sizes, dtype, low, high):
    if dtype.kind == "b":
        return randint(0, 2, sizes).to(dtype)
    if dtype.is_integer:
        low, high = (0 if dtype.kind == "u"
                     else -9) if low is None else int(low), 10 if high is None else int(high)
        return randint(low, high, sizes).to(dtype)
    low, high = -9 if low is None else low, 9 if high is None else high
    if dtype.is_complex:
        import numpy

        from flambeau.tensor import from_numpy
        parts = [(rand(sizes) * (high - low) + low).numpy() for _ in range(2)]
        return from_numpy((parts[0] + 1j * parts[1]).astype(dtype.numpy)) if sizes else \
            from_numpy(numpy.array(parts[0] + 1j * parts[1], dtype.numpy))
    return (rand(sizes) * (high - low) + low).to(dtype)
