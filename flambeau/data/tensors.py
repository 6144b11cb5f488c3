"""The few tensor functions that this package needs, looked up at the call: `data` imports no tensors."""


def tensor_class():
    from flambeau.tensor import Tensor
    return Tensor


def stack(tensors):
    """(n tensors of one shape) -> one tensor with a new first axis of size n."""
    from flambeau.tensor import stack
    return stack(tensors, 0)


def as_tensor(data):
    """A NumPy array or scalar (or a sequence of these) as a tensor, sharing memory where possible."""
    from flambeau.tensor import as_tensor
    return as_tensor(data)


def integers(values):
    """Python ints or bools as a 1-d tensor: int64, or bool if all are bools."""
    from flambeau.tensor import tensor
    return tensor(values)


def doubles(values):
    """Python floats as a 1-d float64 tensor."""
    from flambeau.tensor import tensor
    from flambeau.types.dtype import float64
    return tensor(values, dtype=float64)


def permutation(size, generator):
    """The ints below `size` in random order, as a list."""
    from flambeau.tensor import randperm
    return randperm(size, generator=generator).tolist()


def draws(high, count, generator):
    """`count` independent ints below `high`, as a list."""
    from flambeau.tensor import randint
    return randint(0, high, (count,), generator=generator).tolist()


def draw_seed(generator):
    """A seed drawn from `generator` (None: the default one): an int64 >= 0."""
    from flambeau.tensor import empty
    from flambeau.types.dtype import int64
    return empty((), dtype=int64).random_(generator=generator).item()


def seeded_generator(seed):
    from flambeau.tensor import Generator
    generator = Generator()
    generator.manual_seed(seed)
    return generator


def weights(values):
    """Weights as a float64 tensor."""
    from flambeau.tensor import as_tensor
    from flambeau.types.dtype import float64
    return as_tensor(values, dtype=float64)


def weighted_draws(weights, count, replacement, generator):
    """`count` indices of `weights`, drawn with them, as a list."""
    from flambeau.tensor.draws import multinomial
    return multinomial(weights, count, replacement, generator=generator).tolist()
