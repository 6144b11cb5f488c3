"""Collating: a list of samples becomes a batch with tensors that have a new first axis.

    samples                      batch
    tensors, NumPy arrays        stacked
    int, bool, float             1-d int64, bool, float64 tensor
    str, bytes                   the list as it is
    mapping, tuple, list         the same structure, collated field by field (a plain tuple becomes a list)
"""

import copy
import sys
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence

from flambeau.base.errors import fail
from flambeau.data import tensors

def default_collate(batch):
    """Make a batch of a list of samples (the table is at the top of this module).

    >>> default_collate([(1, "a"), (2, "b")])       # doctest: +SKIP
    [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch, *, collate_fn_map=None):
    """`default_collate` with another map from types to collate functions."""
    sample = batch[0]
    function = _function_for(sample, collate_fn_map or {})
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)

    def collate_field(fields):
        return collate(fields, collate_fn_map=collate_fn_map)
    if isinstance(sample, Mapping):
        return _like_mapping(sample, {key: collate_field([item[key] for item in batch]) for key in sample})
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return type(sample)(*map(collate_field, zip(*batch)))
    if isinstance(sample, Sequence):
        sizes = {len(item) for item in batch}
        if len(sizes) > 1:
            fail("default_collate", "each element in list of batch should be of equal size",
                 got=f"sizes {sorted(sizes)}", hint="pass collate_fn= to DataLoader to batch them otherwise")
        fields = [collate_field(fields) for fields in zip(*batch)]
        return fields if isinstance(sample, tuple) else _like_sequence(sample, fields)
    _refuse_type(type(sample).__name__)


def default_convert(data):
    """NumPy arrays and scalars inside `data` as tensors; all else stays (used with batch_size=None)."""
    if isinstance(data, tensors.tensor_class()) or isinstance(data, (str, bytes)):
        return data
    if _is_numpy(data):
        return data if _is_text_or_object(data) else tensors.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, Sequence):
        items = [default_convert(item) for item in data]
        return items if isinstance(data, tuple) else _like_sequence(data, items)
    return data


def _function_for(sample, collate_fn_map):
    """The function that collates samples like `sample`; None for structures and unknown types."""
    if type(sample) in collate_fn_map:
        return collate_fn_map[type(sample)]
    if isinstance(sample, tensors.tensor_class()):
        return collate_tensor_fn
    if _is_numpy(sample) and not isinstance(sample, (str, bytes)):
        return collate_numpy_array_fn
    for kind, function in collate_fn_map.items():
        if isinstance(sample, kind):
            return function
    return None


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Tensors of one shape, stacked."""
    try:
        return tensors.stack(batch)
    except RuntimeError:
        shapes = {tuple(tensor.shape) for tensor in batch}
        if len(shapes) == 1:
            raise
    fail("default_collate", "stack expects each tensor to be equal size",
         got=f"samples of shapes {', '.join(map(str, sorted(shapes)))}",
         hint="pass collate_fn= to DataLoader to pad or crop them, or batch_size=None for one at a time")


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """NumPy arrays or scalars of one shape, stacked in a tensor."""
    if _is_text_or_object(batch[0]):
        _refuse_type(f"numpy {batch[0].dtype}")
    if len({(item.dtype, item.shape) if _is_numpy(item) else None for item in batch}) == 1:
        return tensors.stack_arrays(batch)
    return collate_tensor_fn([tensors.as_tensor(item) for item in batch])


def collate_float_fn(batch, *, collate_fn_map=None):
    """Floats as a float64 tensor."""
    return tensors.doubles(batch)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Ints as an int64 tensor, bools as a bool tensor."""
    return tensors.integers(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """The strings as they are."""
    return batch


# Collate functions by the type of a sample, `function(batch, *, collate_fn_map)`; users may add to it.
# Tensors and NumPy's types, which are not imported here, come before it unless it names just their type.
default_collate_fn_map = {float: collate_float_fn, int: collate_int_fn, str: collate_str_fn,
                          bytes: collate_str_fn}


def _refuse_type(name):
    fail("default_collate", "a batch must contain tensors, numpy arrays of numbers, numbers, dicts or lists",
         got=name, hint="pass collate_fn= to DataLoader to batch other types", kind=TypeError)


def _is_numpy(value):
    """Whether `value` is a NumPy array or scalar; it can be one only if NumPy is imported already."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _is_text_or_object(array):
    return array.dtype.kind in "SUO"


def _like_mapping(data, fields):
    """`fields` in a mapping of the type of `data`: a changed copy if it can be changed."""
    try:
        if not isinstance(data, MutableMapping):
            return type(data)(fields)
        clone = copy.copy(data)
        clone.update(fields)
        return clone
    except TypeError:
        return fields


def _like_sequence(data, items):
    """`items` in a sequence of the type of `data`: a changed copy if it can be changed."""
    try:
        if not isinstance(data, MutableSequence):
            return type(data)(items)
        clone = copy.copy(data)
        for i, item in enumerate(items):
            clone[i] = item
        return clone
    except TypeError:
        return items
