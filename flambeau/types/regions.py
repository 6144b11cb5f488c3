"""Whether two windows on one memory share an element: exact for slices, columns and blocks, careful for the rest."""


def disjoint(first, second):
    """True if two windows certainly have no byte in common.

    A window is (offset, itemsize, sizes, strides), offset and strides in bytes.

    >>> disjoint((0, 4, (3, 2), (16, 4)), (8, 4, (3, 2), (16, 4)))      # the left and the right columns of a 3 x 4 matrix
    True
    >>> disjoint((0, 4, (4,), (4,)), (12, 4, (2,), (4,)))
    False
    """
    windows = []
    for offset, itemsize, sizes, strides in (first, second):
        if any(size == 0 for size in sizes):
            return True
        axes = [(stride, size) for size, stride in zip(sizes, strides) if size > 1 and stride]
        offset += sum(stride * (size - 1) for stride, size in axes if stride < 0)
        windows.append((offset, itemsize, sorted((abs(stride), size) for stride, size in axes)))
    return _apart(*windows)


def _reach(window):
    _, itemsize, axes = window
    return itemsize + sum(stride * (size - 1) for stride, size in axes)


def _apart(a, b):
    if a[0] + _reach(a) <= b[0] or b[0] + _reach(b) <= a[0]:
        return True
    # within each period of a stride that both have (or one fits into) only the rest of the window counts
    for stride in sorted({s for s, _ in a[2]} | {s for s, _ in b[2]}, reverse=True):
        inner = [_within(window, stride) for window in (a, b)]
        if None in inner or (inner[0] == a and inner[1] == b):
            continue
        if _apart(*inner):
            return True
    return False


def _within(window, period):
    """The window modulo `period`, without its axes that are multiples of it; None where it crosses a border."""
    offset, itemsize, axes = window
    rest = [(stride, size) for stride, size in axes if stride % period]
    reduced = offset % period, itemsize, rest
    return reduced if reduced[0] + _reach(reduced) <= period else None
