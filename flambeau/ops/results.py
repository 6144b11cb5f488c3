"""Results of several tensors: named tuples, which under the facade print as PyTorch's do."""

from collections import namedtuple

from flambeau.types.dtype import repr_prefix


def result_tuple(name, fields):
    """The class of the results named `name`, with those fields; its values can be pickled.

    >>> result_tuple("max", ("values", "indices"))(1, 2)
    max(values=1, indices=2)
    """
    plain = namedtuple(name.lstrip("_"), fields)
    made = type(plain.__name__, (plain,), {"__slots__": (), "__repr__": _show, "__reduce__": _parts,
                                           "__module__": "flambeau.return_types", "__doc__": plain.__doc__})
    return made


def _show(self):
    if repr_prefix() != "torch":
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in zip(self._fields, self))})"
    return f"torch.return_types.{type(self).__name__}(\n" + ",\n".join(f"{n}={v!r}" for n, v in zip(self._fields, self)) + ")"


def _parts(self):
    return _again, (type(self).__name__, self._fields, tuple(self))


def _again(name, fields, values):
    return result_tuple(name, fields)(*values)
