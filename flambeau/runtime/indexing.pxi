# Basic indexing: ints, slices, None and Ellipsis become a view without Python.

cdef struct Window:
    int rank
    int64_t sizes[MAX_RANK]
    int64_t strides[MAX_RANK]
    int64_t offset


cdef int take_int(Window* w, Tensor t, int axis, int64_t i) except -1:
    cdef int64_t size
    if axis >= t.ndim_:
        raise IndexError(f"too many indices for tensor of dimension {t.ndim_}")
    size = t.dims[axis]
    if i < -size or i >= size:
        raise IndexError(f"index {i} is out of bounds for dimension {axis} with size {size}")
    w.offset += (i + size if i < 0 else i) * t.dims[t.ndim_ + axis]
    return 0


cdef int take_slice(Window* w, Tensor t, int axis, object s) except -1:
    cdef Py_ssize_t start, stop, step, length
    if axis >= t.ndim_:
        raise IndexError(f"too many indices for tensor of dimension {t.ndim_}")
    start, stop, step = 0, 0, 0
    if PySlice_Unpack(s, &start, &stop, &step) < 0:
        raise
    if step <= 0:
        raise ValueError("step must be greater than zero")
    length = PySlice_AdjustIndices(t.dims[axis], &start, &stop, step)
    w.offset += start * t.dims[t.ndim_ + axis] if length else 0
    w.sizes[w.rank] = length
    w.strides[w.rank] = t.dims[t.ndim_ + axis] * step
    w.rank += 1
    return 0


cdef int parse_index(Tensor t, PyObject** items, Py_ssize_t n, Window* w) except -2:
    """Fill w; -1 when an index is not basic."""
    cdef Py_ssize_t i, plain = 0
    cdef int axis = 0, rest
    cdef PyObject* o
    w.rank, w.offset = 0, 0
    for i in range(n):
        o = items[i]
        if PyLong_CheckExact(<object>o) or PySlice_Check(<object>o):
            plain += 1
        elif o != <PyObject*>None and o != <PyObject*>Ellipsis:
            return -1
    for i in range(n):
        o = items[i]
        if w.rank >= MAX_RANK - 1:
            return -1
        if PyLong_CheckExact(<object>o):
            take_int(w, t, axis, <object>o)
            axis += 1
        elif PySlice_Check(<object>o):
            take_slice(w, t, axis, <object>o)
            axis += 1
        elif o == <PyObject*>None:
            w.sizes[w.rank] = 1
            w.strides[w.rank] = t.dims[axis] * t.dims[t.ndim_ + axis] if axis < t.ndim_ else 1
            w.rank += 1
        else:
            rest = t.ndim_ - plain
            while rest > 0 and axis < t.ndim_:
                keep_axis(w, t, axis)
                axis += 1
                rest -= 1
            plain = t.ndim_
    while axis < t.ndim_:
        keep_axis(w, t, axis)
        axis += 1
    return 0


cdef inline void keep_axis(Window* w, Tensor t, int axis) noexcept:
    w.sizes[w.rank], w.strides[w.rank] = t.dims[axis], t.dims[t.ndim_ + axis]
    w.rank += 1


cdef object get_item(Tensor t, index):
    cdef Window w
    cdef PyObject* one[1]
    cdef int status
    cdef Tensor out
    if fl_mode == 0 and t.storage is not None and is_plain(<PyObject*>t):
        if PyTuple_CheckExact(index):
            status = parse_index(t, PyTuple_items(index), len(<tuple>index), &w)
        else:
            one[0] = <PyObject*>index
            status = parse_index(t, one, 1, &w)
        if status == 0:
            out = make_view(t, w.rank, w.sizes, w.strides, w.offset)
            if fl_grad_enabled and t.needs_grad:
                record_view(_SLICE, t, out, {"index": normal_items(t, index)})
            return out
        found = take_places(t, index)
        if found is not NotImplemented:
            return found
    return _HOOKS["get_item"](t, index)


cdef tuple normal_items(Tensor t, index):
    """Basic indices as the attribute of the op `slice_`: ints from 0, slices with all numbers, no Ellipsis."""
    cdef list found = []
    cdef int64_t axis = 0, plain = 0, size
    cdef Py_ssize_t start, stop, step
    cdef object item
    if not PyTuple_CheckExact(index):
        index = (index,)
    for item in index:
        plain += item is not None and item is not Ellipsis
    for item in index:
        if item is None:
            found.append(None)
        elif item is Ellipsis:
            for _ in range(t.ndim_ - plain):
                found.append(("slice", 0, t.dims[axis], 1))
                axis += 1
        else:
            size = t.dims[axis]
            axis += 1
            if PyLong_CheckExact(item):
                found.append(item + size if item < 0 else item)
                continue
            start, stop, step = 0, 0, 0
            if PySlice_Unpack(item, &start, &stop, &step) < 0:
                raise
            PySlice_AdjustIndices(size, &start, &stop, step)
            found.append(("slice", start, max(start, stop), step))
    return tuple(found)


cdef NativeOp _SLICE = None          # the op of basic indices,
cdef NativeOp _ROWS = None           # those that read slices of the first axis by an index tensor,
cdef NativeOp _PLACES = None         # of the first two by a pair of them,
cdef NativeOp _SELECT = None         # and of any axis


def set_index_ops(NativeOp basic, NativeOp rows, NativeOp places, NativeOp select=None):
    """Name the ops that `tensor[index]` is; the first has its `view_rule`."""
    global _SLICE, _ROWS, _PLACES, _SELECT
    _SLICE, _ROWS, _PLACES, _SELECT = basic, rows, places, select


cdef inline bint is_index(object o) noexcept:
    """A plain int64 tensor with axes."""
    return is_plain(<PyObject*>o) and (<Tensor>o).code == 5 and (<Tensor>o).ndim_ > 0


cdef inline bint is_whole(PyObject* o):
    """slice(None), which takes all of an axis."""
    return PySlice_Check(<object>o) and <object>o == _WHOLE


cdef object _WHOLE = slice(None)


cdef object take_places(Tensor t, index):
    """t[index] by the plan of such a call before; NotImplemented where there is none or Python is needed."""
    cdef PyObject* args[3]
    cdef PyObject** items
    cdef Py_ssize_t n
    if t.ndim_ == 0:
        return NotImplemented
    args[0], args[1] = <PyObject*>t, <PyObject*>index
    if PyList_CheckExact(index) and index and PyLong_CheckExact((<list>index)[0]):
        index = from_numbers(index, {})
        args[1] = <PyObject*>index
    if is_index(index):
        return call_planned(_ROWS, args, 2, NULL)
    if is_plain(<PyObject*>index) and (<Tensor>index).code == 0:
        return take_masked(t, <Tensor>index)
    if not PyTuple_CheckExact(index):
        return NotImplemented
    items, n = PyTuple_items(index), len(<tuple>index)
    if n == 2 and t.ndim_ > 1 and is_index(<object>items[0]) and is_index(<object>items[1]) \
            and same_shape(<Tensor>items[0], <Tensor>items[1]):
        args[1], args[2] = items[0], items[1]
        return call_planned(_PLACES, args, 3, NULL)
    return take_along(t, items, n, <tuple>index)


cdef object take_along(Tensor t, PyObject** items, Py_ssize_t n, tuple index):
    """t[index] for one index tensor among basic indices: that axis of the view that the others are."""
    cdef PyObject* args[3]
    cdef Py_ssize_t i, at = -1, plain = 0, before = 0, dots = 0
    cdef bint whole = True               # the others take all of their axes: t is the view
    cdef object axis, view = t
    for i in range(n):
        if is_index(<object>items[i]):
            if at >= 0:
                return NotImplemented
            at = i
        elif not (PyLong_CheckExact(<object>items[i]) or PySlice_Check(<object>items[i])
                  or items[i] == <PyObject*>None or items[i] == <PyObject*>Ellipsis):
            return NotImplemented
        whole &= at == i or is_whole(items[i])
        plain += items[i] != <PyObject*>None and items[i] != <PyObject*>Ellipsis
        dots += items[i] == <PyObject*>Ellipsis
    if at < 0 or plain > t.ndim_ or dots > 1 or _SELECT is None:
        return NotImplemented
    for i in range(at):
        if items[i] == <PyObject*>Ellipsis:
            before += t.ndim_ - plain
        else:
            before += not PyLong_CheckExact(<object>items[i])
    if before and (<Tensor>items[at]).ndim_ != 1:
        return NotImplemented
    if not whole:
        view = get_item(t, (*index[:at], _WHOLE, *index[at + 1:]))
    axis = before
    args[0], args[1], args[2] = <PyObject*>view, items[at], items[at]
    if before == 0:
        return call_planned(_ROWS, args, 2, NULL)
    args[1] = <PyObject*>axis
    return call_planned(_SELECT, args, 3, NULL)


# ------------------------------------------------------------------------------ masks
DEF MOST_SEARCHED = 4096             # elements of a mask; in more a kernel looks
DEF MOST_TAKEN = 1 << 16             # bytes of what a mask chooses from


cdef int64_t count_true(Tensor mask) noexcept:
    cdef int64_t i, found = 0
    for i in range(mask.numel_):
        found += mask.first[i] != 0
    return found


cdef object take_masked(Tensor t, Tensor mask):
    """t[mask] for a small mask over the first axes, where nothing is recorded."""
    cdef Tensor out
    cdef int64_t sizes[MAX_RANK]
    cdef int64_t i, size = _ITEMSIZE[t.code]
    cdef char* target
    cdef int d
    if mask.storage is None or not mask.contiguous_ or not t.contiguous_ or not 0 < mask.ndim_ <= t.ndim_ \
            or mask.numel_ > MOST_SEARCHED or memcmp(mask.dims, t.dims, mask.ndim_ * sizeof(int64_t)) \
            or (t.needs_grad and fl_grad_enabled) or t.numel_ * size > MOST_TAKEN:
        return NotImplemented
    sizes[0] = count_true(mask)
    for d in range(mask.ndim_, t.ndim_):
        sizes[d - mask.ndim_ + 1] = t.dims[d]
        size *= t.dims[d]
    out = new_like_shape(t.code, t.ndim_ - mask.ndim_ + 1, sizes)
    target = out.first
    for i in range(mask.numel_):
        if mask.first[i]:
            memcpy(target, t.first + i * size, size)
            target += size
    return out


def few_true_places(mask, bint coordinates):
    """The places of the true elements of a small mask, row-major numbers or coordinates; else NotImplemented."""
    cdef Tensor m, out
    cdef int64_t sizes[2]
    cdef int64_t i, rest
    cdef int64_t* at
    cdef int d, rank
    if fl_mode != 0 or not is_plain(<PyObject*>mask):
        return NotImplemented
    m = <Tensor>mask
    if m.code != 0 or m.storage is None or not m.contiguous_ or m.ndim_ == 0 or m.numel_ > MOST_SEARCHED:
        return NotImplemented
    sizes[0], sizes[1] = count_true(m), m.ndim_
    out = new_like_shape(5, 2 if coordinates else 1, sizes)
    at, rank = <int64_t*>out.first, m.ndim_ if coordinates else 1
    for i in range(m.numel_):
        if not m.first[i]:
            continue
        rest = i
        for d in range(rank - 1, 0, -1):
            at[d] = rest % m.dims[d]
            rest = rest // m.dims[d]
        at[0] = rest
        at += rank
    return out


# ------------------------------------------------------------------------------ parts along an axis
def axis_parts(x, dim, sizes):
    """Neighbouring windows along an axis: each of the size `sizes` (the last may be smaller), of those in a tuple, or,
    for None, the slices without the axis. NotImplemented for what needs Python."""
    cdef Tensor t
    cdef int64_t axis, total, size, at = 0
    cdef list found = []
    if fl_mode != 0 or not is_plain(<PyObject*>x) or not PyLong_CheckExact(dim):
        return NotImplemented
    t = <Tensor>x
    axis = dim + t.ndim_ if dim < 0 else dim
    if t.storage is None or axis < 0 or axis >= t.ndim_:
        return NotImplemented
    total = t.dims[axis]
    if sizes is None:
        return tuple([axis_part(t, <int>axis, at, -1) for at in range(total)])
    if PyLong_CheckExact(sizes):
        size = sizes
        if size <= 0 or total == 0:
            return NotImplemented
        while at < total:
            found.append(axis_part(t, <int>axis, at, min(size, total - at)))
            at += size
        return tuple(found)
    if not PyTuple_CheckExact(sizes):
        return NotImplemented
    for item in sizes:
        if not PyLong_CheckExact(item) or item < 0 or item > total - at:
            return NotImplemented
        found.append(axis_part(t, <int>axis, at, item))
        at += item
    return tuple(found) if at == total else NotImplemented


cdef Tensor axis_part(Tensor t, int axis, int64_t start, int64_t length):
    """`length` places from `start` along an axis; -1: the slice at `start`."""
    cdef Window w
    cdef Tensor out
    cdef int d
    w.rank, w.offset = 0, start * t.dims[t.ndim_ + axis] if length else 0
    for d in range(t.ndim_):
        if d != axis or length >= 0:
            keep_axis(&w, t, d)
    if length >= 0:
        w.sizes[axis] = length
    out = make_view(t, w.rank, w.sizes, w.strides, w.offset)
    if fl_grad_enabled and t.needs_grad:
        item = start if length < 0 else ("slice", start, start + length, 1)
        record_view(_SLICE, t, out, {"index": (*[("slice", 0, t.dims[d], 1) for d in range(axis)], item)})
    return out


def basic_view(Tensor t, tuple index):
    """The view of basic indices as (sizes, strides, offset), or None if an index is not basic."""
    cdef Window w
    if parse_index(t, PyTuple_items(index), len(index), &w) != 0:
        return None
    return (tuple([w.sizes[i] for i in range(w.rank)]), tuple([w.strides[i] for i in range(w.rank)]), w.offset)
