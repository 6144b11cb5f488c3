"""Layouts: how an element's position becomes an offset. Strides count elements, not bytes; sizes may be Dims.

A stride is 0 on a broadcast axis and may be negative inside the compiler. The stride of an axis of size 1
is never used, so it is ignored by every question here.
"""

from flambeau.types.dim import Dim, bounds, is_static


def contiguous_strides(shape):
    """The row-major strides of `shape`; an axis of size 0 counts as 1, as in PyTorch.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        if isinstance(size, Dim) or size > 1:
            step = step * size
    return tuple(reversed(strides))


def is_contiguous(shape, strides):
    """True if the elements lie row-major without gaps. Empty tensors and single elements always do."""
    expected = 1
    contiguous = True
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size == 0:
            return True
        if size == 1:
            continue
        contiguous = contiguous and stride == expected
        expected = expected * size
    return contiguous


def is_dense(shape, strides):
    """True if the elements fill a block of memory without gaps or overlap, in some order of the axes."""
    if any(size == 0 for size in shape):
        return True
    axes = sorted(_real_axes(shape), key=lambda axis: _stride_key(strides[axis], shape[axis]))
    return is_contiguous([shape[axis] for axis in reversed(axes)], [strides[axis] for axis in reversed(axes)])


def dense_strides_like(shape, strides):
    """Strides for a new tensor that keeps the order of the axes in memory; contiguous ones if there are gaps.

    >>> dense_strides_like((2, 3), (1, 2))
    (1, 2)
    """
    return tuple(strides) if is_dense(shape, strides) else contiguous_strides(shape)


def expand_strides(shape, strides, target):
    """The strides that show `shape` as the larger shape `target`: 0 where it is broadcast.

    >>> expand_strides((3, 1), (1, 1), (2, 3, 4))
    (0, 1, 0)
    """
    missing = len(target) - len(shape)
    kept = tuple(0 if size == 1 and wide != 1 else stride
                 for size, stride, wide in zip(shape, strides, target[missing:]))
    return (0,) * missing + kept


def coalesce(shape, list_of_strides):
    """The fewest axes, in the same order, over which all operands are walked alike.

    (shape, list of strides): axes of size 1 are dropped, an axis is merged into the next where in every
    operand its stride is that of the next times its size. Offsets are met in the same order as before.

    >>> coalesce((2, 3, 4), [(12, 4, 1), (0, 0, 1)])
    ((6, 4), [(4, 1), (0, 1)])
    """
    sizes, columns = [], []                 # columns: one tuple an axis, the stride of each operand
    for axis in _real_axes(shape):
        size, column = shape[axis], tuple(strides[axis] for strides in list_of_strides)
        if sizes and all(outer == size * inner for outer, inner in zip(columns[-1], column)):
            sizes[-1], columns[-1] = sizes[-1] * size, column
        else:
            sizes.append(size)
            columns.append(column)
    return tuple(sizes), [tuple(column[i] for column in columns) for i in range(len(list_of_strides))]


def view_strides(shape, strides, new):
    """The strides that show the same memory as shape `new` (of as many elements); None if it must be copied.

    >>> view_strides((2, 6), (6, 1), (2, 2, 3)), view_strides((2, 3), (1, 2), (6,))
    ((6, 3, 1), None)
    """
    if any(size == 0 for size in shape):
        return contiguous_strides(new)
    old_sizes, (old_strides,) = coalesce(shape, [strides])
    result = [1] * len(new)
    axis = len(new) - 1
    for size, stride in zip(reversed(old_sizes), reversed(old_strides)):
        filled = 1
        while axis >= 0 and (filled != size or new[axis] == 1):
            result[axis] = stride * filled
            filled = filled * new[axis]
            axis -= 1
            if is_static(filled) and is_static(size) and filled > size:
                return None
        if filled != size:
            return None
    for left in range(axis, -1, -1):        # what is left are axes of size 1
        result[left] = result[left + 1] * new[left + 1] if left + 1 < len(new) else 1
    return tuple(result)


def storage_range(shape, strides, offset=0):
    """(first, last) element offset that is touched; None if the tensor is empty.

    >>> storage_range((2, 3), (-3, 1), 3)
    (0, 5)
    """
    if any(size == 0 for size in shape):
        return None
    first = last = offset
    for size, stride in zip(shape, strides):
        reach = (size - 1) * stride
        if _is_negative(stride):
            first = first + reach
        else:
            last = last + reach
    return first, last


def _real_axes(shape):
    return [axis for axis, size in enumerate(shape) if size != 1]


def _is_negative(stride):
    low, high = bounds(stride)
    return high is not None and high < 0


def _stride_key(stride, size):
    """Sorts strides by size; a symbolic stride is larger than any number."""
    if is_static(stride):
        return 0, abs(stride), 0 if is_static(size) else 1
    return len(stride.terms[0][0]), abs(stride.terms[0][1]), 0
