"""vmap: a function of one example becomes a function of a batch."""

import functools

from flambeau.base import tree
from flambeau.base.errors import fail
from flambeau.ops.join import cat
from flambeau.runtime._core import Tensor
from flambeau.transform.batching import RANDOMNESS, BatchLevel, batch_at, batch_front
from flambeau.transform.levels import below

__all__ = ["vmap"]


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that runs `func`, written for one example, on a whole batch without a loop.

    Args:
        func: takes and returns tensors, or dicts, lists and tuples of them.
        in_dims: the axis of the batch in each argument; None for what all examples share. An int for all, or a
            structure that the arguments begin with.
        out_dims: where the results get their batch; None for results that do not depend on the example.
        randomness: what draws of random numbers do: 'error', 'different' for each example, or the 'same'.
        chunk_size: examples that are worked on at a time; None for all.

    Raises:
        ValueError: if in_dims or out_dims do not fit, or the batches differ in size.

    >>> fl.vmap(fl.dot)(fl.ones(3, 5), fl.ones(3, 5))
    tensor([5., 5., 5.])
    """
    if randomness not in RANDOMNESS:
        fail("vmap", "unknown randomness", repr(randomness), " or ".join(map(repr, RANDOMNESS)), kind=RuntimeError)
    if chunk_size is not None and not chunk_size > 0:
        fail("vmap", "chunk_size must be positive", chunk_size, kind=ValueError)

    @functools.wraps(func)
    def batched(*args, **kwargs):
        leaves, structure, dims, size = _batch_of(args, kwargs, in_dims)
        if chunk_size is None or chunk_size >= size:
            return _run(func, leaves, structure, dims, size, out_dims, randomness)
        return _in_chunks(func, leaves, structure, dims, size, out_dims, randomness, chunk_size)
    return batched


def _batch_of(args, kwargs, in_dims):
    """(the leaves of all arguments, their structure, each leaf's batch axis, the size of the batch).

    Keyword arguments have no batch: all examples share them.
    """
    if not args:
        fail("vmap", "the function got no inputs", kind=ValueError)
    if not isinstance(in_dims, (int, tuple, list, dict)) or isinstance(in_dims, bool):
        fail("vmap", "in_dims must be an int or a structure of the arguments", in_dims, kind=ValueError)
    if isinstance(in_dims, (tuple, list)) and len(in_dims) != len(args):
        fail("vmap", "in_dims has another length than the arguments", len(in_dims), len(args), kind=ValueError)
    dims = _spread_over(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args, "in_dims")
    leaves, structure = tree.flatten((args, kwargs))
    dims += [None] * (len(leaves) - len(dims))
    sizes = set()
    for number, (leaf, dim) in enumerate(zip(leaves, dims)):
        if dim is None:
            continue
        if not isinstance(leaf, Tensor):
            fail("vmap", "an input with a batch is not a tensor", type(leaf).__name__, hint="give it in_dims=None",
                 kind=ValueError)
        if not -leaf.ndim <= dim < leaf.ndim:
            fail("vmap", "in_dims names no axis of an input", f"{dim} for shape {tuple(leaf.shape)}", kind=ValueError)
        dims[number] = dim % leaf.ndim
        sizes.add(leaf.shape[dim])
    if len(sizes) != 1:
        fail("vmap", "no input has a batch" if not sizes else "the batches differ in size", sorted(sizes) or None,
             kind=ValueError)
    return leaves, structure, dims, sizes.pop()


def _spread_over(dims, value, name):
    """The dim of each leaf of `value`: `dims` is an int, None, or a structure that `value` begins with."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(tree.leaves(value))
    if isinstance(dims, dict) and isinstance(value, dict) and set(dims) == set(value):
        return [d for key in value for d in _spread_over(dims[key], value[key], name)]
    if isinstance(dims, (tuple, list)) and isinstance(value, (tuple, list)) and len(dims) == len(value):
        return [d for part, member in zip(dims, value) for d in _spread_over(part, member, name)]
    fail("vmap", f"{name} does not have the structure of what it describes", dims, kind=ValueError)


def _run(func, leaves, structure, dims, size, out_dims, randomness):
    with BatchLevel(size, randomness) as level:
        inner = [leaf if dim is None else level.wrap(batch_front(leaf, dim)) for leaf, dim in zip(leaves, dims)]
        args, kwargs = tree.unflatten(inner, structure)
        output = func(*args, **kwargs)
        outputs, shape = tree.flatten(output)
        places = _spread_over(tuple(out_dims) if isinstance(out_dims, list) else out_dims, output, "out_dims")
        return tree.unflatten([_result(level, leaf, dim) for leaf, dim in zip(outputs, places)], shape)


def _result(level, leaf, dim):
    if not isinstance(leaf, Tensor):
        if dim is None:
            return leaf
        fail("vmap", "the function must return tensors", type(leaf).__name__, kind=ValueError)
    if dim is None:
        if level.batched(leaf):
            fail("vmap", "a result differs from example to example, but out_dims says that it has no batch",
                 kind=ValueError)
        return below(level, leaf)
    if not -leaf.ndim - 1 <= dim <= leaf.ndim:
        fail("vmap", "out_dims names no place for the batch", f"{dim} for a result of shape {tuple(leaf.shape)}",
             kind=IndexError)
    return batch_at(level.whole(leaf), dim)


def _in_chunks(func, leaves, structure, dims, size, out_dims, randomness, chunk):
    pieces = []
    for start in range(0, size, chunk):
        count = min(chunk, size - start)
        part = [leaf if dim is None else leaf.narrow(dim, start, count) for leaf, dim in zip(leaves, dims)]
        pieces.append(_run(func, part, structure, dims, count, out_dims, randomness))
    places = _spread_over(tuple(out_dims) if isinstance(out_dims, list) else out_dims, pieces[0], "out_dims")
    columns = [tree.leaves(piece) for piece in pieces]
    shape = tree.flatten(pieces[0])[1]
    made = [column[0] if dim is None else cat(list(column), dim % column[0].ndim)
            for column, dim in zip(zip(*columns), places)]
    return tree.unflatten(made, shape)
