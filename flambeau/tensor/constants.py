"""Plain constants: what `create` makes, also inside a function transform.

There a new tensor becomes a value of the transform. The places of sparse and nested tensors are read as numbers, so they
stay what they are.
"""

from flambeau.base.errors import fail
from flambeau.ops.wrapped import elements_of
from flambeau.tensor import create


def tensor(data, **options):
    return elements_of(create.tensor(data, **options))


def arange(count):
    return elements_of(create.arange(count))


def zeros(*size, **options):
    return elements_of(create.zeros(*size, **options))


def full(size, value, **options):
    return elements_of(create.full(size, value, **options))


def constant(given, name):
    """The numbers of a tensor that is a constant to every transform that runs."""
    plain = elements_of(given)
    if tuple(plain.shape) != tuple(given.shape):
        fail(name, "places cannot differ from example to example of a batch", hint="keep them out of vmap")
    return plain
