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
cdef NativeOp _PLACES = None         # and of the first two by a pair of them


def set_index_ops(NativeOp basic, NativeOp rows, NativeOp places):
    """Name the ops that `tensor[index]` is; the first has its `view_rule`."""
    global _SLICE, _ROWS, _PLACES
    _SLICE, _ROWS, _PLACES = basic, rows, places


cdef inline bint is_index(object o) noexcept:
    """A plain int64 tensor with axes."""
    return is_plain(<PyObject*>o) and (<Tensor>o).code == 5 and (<Tensor>o).ndim_ > 0


cdef object take_places(Tensor t, index):
    """t[index] by the plan of such a call before; NotImplemented where there is none or Python is needed."""
    cdef PyObject* args[3]
    args[0], args[1] = <PyObject*>t, <PyObject*>index
    if is_index(index):
        return call_planned(_ROWS, args, 2, NULL) if t.ndim_ else NotImplemented
    if not PyTuple_CheckExact(index) or len(<tuple>index) != 2 or t.ndim_ < 2:
        return NotImplemented
    args[1], args[2] = PyTuple_items(index)[0], PyTuple_items(index)[1]
    if not is_index(<object>args[1]) or not is_index(<object>args[2]):
        return NotImplemented
    if not same_shape(<Tensor>args[1], <Tensor>args[2]):
        return NotImplemented
    return call_planned(_PLACES, args, 3, NULL)


def basic_view(Tensor t, tuple index):
    """The view of basic indices as (sizes, strides, offset), or None if an index is not basic."""
    cdef Window w
    if parse_index(t, PyTuple_items(index), len(index), &w) != 0:
        return None
    return (tuple([w.sizes[i] for i in range(w.rank)]), tuple([w.strides[i] for i in range(w.rank)]), w.offset)
