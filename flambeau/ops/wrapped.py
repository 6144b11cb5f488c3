"""Values of function transforms: tensors that stand for more than their own elements.

A transform (`flambeau.transform`) is a level. Its values are `Wrapped` tensors: a batch seen as one example, a tensor with a
tangent, a tensor on a tape of its own. Whatever op meets one hands the call to the level of the innermost one, which
unwraps its values and calls the op again, so levels stack to any depth and Python sees ordinary tensors.
"""

import threading

from flambeau.base.errors import fail
from flambeau.ops.overrides import disabled_torch_function
from flambeau.runtime._core import Size, Tensor


class _Running(threading.local):
    """The transforms that run in this thread, innermost last."""

    def __init__(self):
        self.levels = []


running = _Running()


class Wrapped(Tensor):
    """A tensor of a level: `level.process(operation, values)` runs the ops that it takes part in.

    `inner` is the tensor below; its shape is the one seen here unless a subclass says otherwise.
    """

    is_wrapped = True
    __torch_function__ = disabled_torch_function
    takes_complex = False       # True: the level runs ops on complex elements itself

    @classmethod
    def make(cls, level, inner, **fields):
        made = cls.__new__(cls)
        made.__dict__.update(level=level, inner=inner, **fields)
        return made

    shape = property(lambda self: Size(tuple(self.inner.shape)))
    dtype = property(lambda self: self.inner.dtype)
    device = property(lambda self: self.inner.device)
    ndim = property(lambda self: len(self.shape))
    requires_grad = property(lambda self: self.inner.requires_grad, lambda self, value: None)
    is_leaf = property(lambda self: True)
    grad_fn = property(lambda self: None)
    grad = property(lambda self: None)
    is_shape_only = property(lambda self: False)
    data = property(lambda self: self.detach())
    _base = property(lambda self: None)
    _version = property(lambda self: 0)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return self.ndim

    def numel(self):
        return self.shape.numel()

    def nelement(self):
        return self.numel()

    def element_size(self):
        return self.dtype.itemsize

    def stride(self, dim=None):
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step *= max(size, 1)
        return tuple(strides) if dim is None else strides[dim]

    def is_contiguous(self, memory_format=None):
        return True

    def storage_offset(self):
        return 0

    def detach(self):
        from flambeau.ops.elementwise import copy
        return self.level.detached(self) if hasattr(self.level, "detached") else copy(self)

    def requires_grad_(self, requires_grad=True):
        return self

    def become(self, function, *args, **kwargs):
        """An in-place change of shape: this object is function(self) from now on."""
        before = type(self).__new__(type(self))
        before.__dict__.update(self.__dict__)
        made = function(before, *args, **kwargs)
        self.__dict__.clear()
        self.__dict__.update(made.__dict__)
        self.__class__ = type(made)
        return self

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __bool__(self):
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __index__(self):
        return int(self.item())

    def item(self):
        return self.level.read(self, "item").item()

    def tolist(self):
        return self.level.read(self, "tolist").tolist()

    def numpy(self, *, force=False):
        return self.level.read(self, "numpy").numpy(force=force)

    def data_ptr(self):
        fail("data_ptr", f"a value inside {self.level.name} has no memory of its own")

    def __repr__(self):
        return f"{type(self).__name__}(level={self.level.depth}, {self.inner!r})"

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, protocol):
        fail("pickle", f"a value inside {self.level.name} cannot be saved")


def wrapped_among(values):
    """The Wrapped tensor of the innermost level among arguments (tuples of tensors too), or None."""
    found = None
    for value in values:
        if isinstance(value, Wrapped):
            if found is None or value.level.depth > found.level.depth:
                found = value
        elif isinstance(value, tuple):
            for member in value:
                if isinstance(member, Wrapped) and (found is None or member.level.depth > found.level.depth):
                    found = member
    return found


def is_wrapped(value):
    return getattr(type(value), "is_wrapped", False)


def elements_of(tensor):
    """The real tensor below all levels: what a check of values looks at."""
    while getattr(type(tensor), "is_wrapped", False):
        tensor = tensor.inner
    return tensor


# ------------------------------------------------------------------------------ new tensors inside transforms
def inside(made):
    """A new tensor as a constant of every transform that runs, so that it can take their values."""
    if running.levels and not (made.requires_grad or made.is_shape_only or is_wrapped(made)):
        for level in running.levels:
            made = level.fresh(made)
    return made


def drawn(shape, draw):
    """draw(shape), one for each example of a batch or one for all, as the transforms want it."""
    sizes = [level.draws() for level in running.levels]
    made = draw((*[size for size in sizes if size is not None], *shape))
    for level, size in zip(running.levels, sizes):
        made = level.fresh(made) if size is None else level.wrap(made)
    return made
