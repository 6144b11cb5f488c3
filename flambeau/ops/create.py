"""Tensors from nothing. Inside a graph they need no memory: the number is written where it is read."""

from flambeau.base.errors import ArgumentError, fail
from flambeau.ops.kinds import Create
from flambeau.ops.spec import op
from flambeau.ops.write import write
from flambeau.runtime import _core
from flambeau.types.dtype import get_default_dtype, int64, scalar_dtype
from flambeau.types.shape import normalize_axis


class Sized(Create):
    """What the ops here share: the result has the shape `size` (ints, in a graph also symbolic sizes)."""

    def prepare(self, values):
        size = values["size"]
        size = tuple(size) if isinstance(size, (tuple, list)) else (size,)
        return values | {"size": size}

    def infer(self, inputs, attrs):
        return [(attrs["dtype"], tuple(attrs["size"]))]


@op
class Full(Sized):
    """A tensor of shape `size` whose elements are all `fill_value`; dtype None: that of the value."""

    internal = True
    signature = "size, fill_value, dtype=None"

    def prepare(self, values):
        values = Sized.prepare(self, values)
        if not isinstance(values["fill_value"], (bool, int, float, complex)):
            fail(self.name, "the value is not a number", values["fill_value"], "a number",
                 kind=ArgumentError)
        return values | {"dtype": values["dtype"] or scalar_dtype(values["fill_value"])}

    def reference(size, fill_value, dtype=None):
        import numpy
        return numpy.full(size, fill_value, (dtype or get_default_dtype()).numpy)

    def eager(self, values):
        out = _core.empty_strided(values["size"], None, values["dtype"])
        if out.numel():
            write(out, values["fill_value"])
            out._reset_version()
        return out


@op
class Iota(Sized):
    """The index along `dim` of each element of a tensor of shape `size`."""

    internal = True
    signature = "size, dim=0, dtype=None"

    def prepare(self, values):
        values = Sized.prepare(self, values)
        dim = normalize_axis(values["dim"], len(values["size"]), self.name)
        return values | {"dim": dim, "dtype": values["dtype"] or int64}

    def reference(size, dim=0, dtype=None):
        import numpy
        index = numpy.arange(size[dim], dtype=(dtype or int64).numpy)
        return numpy.broadcast_to(index.reshape([-1 if a == dim else 1 for a in range(len(size))]), size)
