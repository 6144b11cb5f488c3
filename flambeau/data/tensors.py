"""The few tensor functions that this package needs, looked up at the call: `data` imports no tensors.

In a worker, large batches are made right in the memory that the loader will map (`batch_memory`).
"""

LARGE = 1 << 21         # bytes of a batch from which on it is made in `batch_memory`; less is quickly copied
batch_memory = None     # in a worker: the Slots that its messages are sent from


def tensor_class():
    from flambeau.tensor import Tensor
    return Tensor


def stack(tensors):
    """(n tensors of one shape) -> one tensor with a new first axis of size n."""
    from flambeau.tensor import stack
    first = tensors[0]
    if is_direct(first, len(tensors) * first.nbytes) and all([is_plain(tensor) and tensor.dtype is first.dtype
                                                              for tensor in tensors]):
        return stack(tensors, 0, out=empty((len(tensors), *first.shape), first.dtype))
    return stack(tensors, 0)


def stack_arrays(arrays):
    """`stack` of NumPy arrays or scalars of one shape and dtype."""
    import numpy
    first = arrays[0]
    out = empty((len(arrays), *first.shape), as_tensor(first).dtype)
    numpy.stack(arrays, out=out.numpy())
    return out


def is_plain(tensor):
    """True if a tensor is nothing but elements in memory, outside the tape."""
    from flambeau.tensor import Tensor
    return type(tensor) is Tensor and not tensor.is_shape_only and not tensor.requires_grad


def is_direct(tensor, nbytes):
    """True if `nbytes` made of plain tensors like `tensor` shall be made in `batch_memory`."""
    return batch_memory is not None and nbytes >= LARGE and is_plain(tensor)


def empty(shape, dtype):
    """A tensor to be filled, in `batch_memory` if there is one and it is large."""
    from flambeau.runtime._core import empty_strided
    if batch_memory is not None:
        count = dtype.itemsize
        for size in shape:
            count *= size
        if count >= LARGE:
            return batch_memory.tensor(dtype, shape)
    return empty_strided(shape, None, dtype)


def copy_of(tensor):
    """A copy in new memory."""
    if not is_direct(tensor, tensor.nbytes):
        return tensor.clone()
    return empty(tuple(tensor.shape), tensor.dtype).copy_(tensor)


def rows_at(tensor, rows):
    """tensor[rows] for a 1-d int64 tensor."""
    if not is_direct(tensor, tensor.nbytes // max(tensor.shape[0], 1) * len(rows)) or int(rows.min()) < 0:
        return tensor[rows]
    from flambeau.tensor import index_select
    return index_select(tensor, 0, rows, out=empty((len(rows), *tensor.shape[1:]), tensor.dtype))


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


def random_stream():
    """The name of the stream that generators of this process draw from."""
    from flambeau.tensor.rng import chosen
    return "pytorch" if chosen.pytorch else "counter"


def random_state():
    """The state of the default generator."""
    from flambeau.tensor.rng import get_rng_state
    return get_rng_state()


def set_random_state(state):
    """Put the default generator into a state of `random_state`."""
    from flambeau.tensor.rng import set_rng_state
    set_rng_state(state)


def weights(values):
    """Weights as a float64 tensor."""
    from flambeau.tensor import as_tensor
    from flambeau.types.dtype import float64
    return as_tensor(values, dtype=float64)


def weighted_draws(weights, count, replacement, generator):
    """`count` indices of `weights`, drawn with them, as a list."""
    from flambeau.tensor.draws import multinomial
    return multinomial(weights, count, replacement, generator=generator).tolist()
