# Small writes by index without Python, where nothing is recorded: windows, masks, rows, places along an axis.
#
# False or 0 says that Python has to do it: it knows every case and makes every error.

cdef bint put_window(Tensor t, Window* w, object value) except -1:
    """t[window] = value for a number, or a tensor of that shape and dtype, where nothing is recorded; else False."""
    cdef double slot = 0.0
    cdef Tensor source
    cdef int64_t steps[MAX_RANK]
    cdef int64_t count = 1
    cdef int d
    for d in range(w.rank):
        count *= w.sizes[d]
        if w.strides[d] == 0 and w.sizes[d] > 1:
            return False
    if count * _ITEMSIZE[t.code] > MOST_CREATED or (t.needs_grad and fl_grad_enabled):
        return False
    if is_plain(<PyObject*>value):
        source = <Tensor>value
        if source.storage is None or source.storage is t.storage or source.code != t.code or source.ndim_ != w.rank:
            return False
        if source.needs_grad and fl_grad_enabled:
            return False
        for d in range(w.rank):
            if source.dims[d] != w.sizes[d]:
                return False
            steps[d] = source.dims[source.ndim_ + d]
        copy_window(t.first + w.offset * _ITEMSIZE[t.code], w, 0, source.first, steps, _ITEMSIZE[t.code])
    else:
        if not store(<char*>&slot, t.code, value, number_kind(value)):
            return False
        memset(steps, 0, sizeof(steps))
        copy_window(t.first + w.offset * _ITEMSIZE[t.code], w, 0, <char*>&slot, steps, _ITEMSIZE[t.code])
    if t.storage.saved:
        written(make_view(t, w.rank, w.sizes, w.strides, w.offset), "setitem")
    else:
        if not t.silent:
            t.storage.version += 1
    return True


cdef void copy_window(char* target, Window* w, int axis, char* source, int64_t* steps, int64_t size) noexcept:
    cdef int64_t i
    if axis == w.rank:
        memcpy(target, source, size)
        return
    if axis + 1 == w.rank and w.strides[axis] == 1 and steps[axis] == 1:
        memcpy(target, source, w.sizes[axis] * size)
        return
    for i in range(w.sizes[axis]):
        copy_window(target + i * w.strides[axis] * size, w, axis + 1, source + i * steps[axis] * size, steps, size)


cdef bint set_item(Tensor t, index, value) except -1:
    """t[index] = value without Python; False where Python has to do it."""
    cdef Window w
    cdef PyObject* one[1]
    cdef int status
    cdef Tensor places
    if fl_mode != 0 or t.storage is None or not is_plain(<PyObject*>t):
        return False
    if PyTuple_CheckExact(index):
        status = parse_index(t, PyTuple_items(index), len(<tuple>index), &w)
    else:
        one[0] = <PyObject*>index
        status = parse_index(t, one, 1, &w)
    if status == 0:
        return put_window(t, &w, value)
    if not may_put(t):
        return False
    if PyTuple_CheckExact(index):
        return put_indexed(t, <tuple>index, value)
    if not is_plain(<PyObject*>index):
        return False
    places = <Tensor>index
    if places.storage is None or places.storage is t.storage:
        return False
    if places.code == 0:
        return t.numel_ * _ITEMSIZE[t.code] <= MOST_CREATED and put_masked(t, places, value)
    return is_index(index) and put_rows(t, places, None, value)


cdef bint put_masked(Tensor t, Tensor mask, value) except -1:
    """t[mask] = value for a mask over t's first axes and a number, or a tensor of what the mask names; else False."""
    cdef double slot = 0.0
    cdef Tensor source = None
    cdef int64_t i, size = _ITEMSIZE[t.code], width = size
    cdef char* from_ = NULL
    cdef int d
    if not mask.contiguous_ or not 0 < mask.ndim_ <= t.ndim_ or memcmp(mask.dims, t.dims, mask.ndim_ * sizeof(int64_t)):
        return False
    for d in range(mask.ndim_, t.ndim_):
        width *= t.dims[d]
    if is_plain(<PyObject*>value):
        source = <Tensor>value
        if source.storage is None or source.storage is t.storage or source.code != t.code or not source.contiguous_ \
                or (source.needs_grad and fl_grad_enabled) or source.ndim_ != t.ndim_ - mask.ndim_ + 1 \
                or memcmp(source.dims + 1, t.dims + mask.ndim_, (source.ndim_ - 1) * sizeof(int64_t)) \
                or source.dims[0] != count_true(mask):
            return False
        from_ = source.first
    elif not store(<char*>&slot, t.code, value, number_kind(value)):
        return False
    for i in range(mask.numel_):
        if not mask.first[i]:
            continue
        if source is not None:
            memcpy(t.first + i * width, from_, width)
            from_ += width
        elif width:
            repeat_bytes(t.first + i * width, <char*>&slot, size, width)
    written(t, "setitem")
    return True


def put_where(t, mask, value):
    """t[mask] = value for a small tensor and a mask of its shape; False where Python has to do it."""
    if not is_plain(<PyObject*>t) or not may_put(<Tensor>t) or not is_plain(<PyObject*>mask):
        return False
    if (<Tensor>mask).code or (<Tensor>mask).storage is None or (<Tensor>mask).storage is (<Tensor>t).storage \
            or (<Tensor>t).numel_ * _ITEMSIZE[(<Tensor>t).code] > MOST_CREATED or number_kind(value) < 0:
        return False
    return same_shape(<Tensor>t, <Tensor>mask) and put_masked(<Tensor>t, <Tensor>mask, value)


cdef bint row_numbers(Tensor t, Tensor first, Tensor second, int64_t* rows) noexcept:
    """Which slices behind the first axis, or the first two, the index tensors name; False where one lies outside."""
    cdef int64_t* a = <int64_t*>first.first
    cdef int64_t* b = NULL if second is None else <int64_t*>second.first
    cdef int64_t i, row, column, n = t.dims[0], m = 1 if b == NULL else t.dims[1]
    for i in range(first.numel_):
        row = a[i] + n if a[i] < 0 else a[i]
        if row < 0 or row >= n:
            return False
        if b != NULL:
            column = b[i] + m if b[i] < 0 else b[i]
            if column < 0 or column >= m:
                return False
            row = row * m + column
        rows[i] = row
    return True


cdef bint puts_rows(Tensor t, Tensor source, Tensor index, int lead, bint* each) except -1:
    """Whether a tensor may be put into rows as it lies: one slice for all, or (`each`) one for every index."""
    cdef int d, rest = t.ndim_ - lead
    if source.storage is None or source.storage is t.storage or source.code != t.code or not source.contiguous_ \
            or (source.needs_grad and fl_grad_enabled):
        return False
    each[0] = source.ndim_ == index.ndim_ + rest and memcmp(source.dims, index.dims, index.ndim_ * sizeof(int64_t)) == 0
    if not each[0] and source.ndim_ != rest:
        return False
    for d in range(rest):
        if source.dims[source.ndim_ - rest + d] != t.dims[lead + d]:
            return False
    return True


cdef bint put_rows(Tensor t, Tensor first, Tensor second, value) except -1:
    """t[first] or t[first, second] = value: a number, one slice or a tensor of slices of t's dtype; else False."""
    cdef double slot = 0.0
    cdef Tensor source = None
    cdef bint each = False
    cdef int64_t i, size = _ITEMSIZE[t.code], width = size, step
    cdef int64_t* rows
    cdef char* target
    cdef int d, lead = 1 if second is None else 2
    if t.ndim_ < lead or t.numel_ == 0 or not first.contiguous_ or (second is not None and not second.contiguous_):
        return False
    for d in range(lead, t.ndim_):
        width *= t.dims[d]
    if first.numel_ * max(width, <int64_t>8) > MOST_CREATED:
        return False
    if is_plain(<PyObject*>value):
        source = <Tensor>value
        if not puts_rows(t, source, first, lead, &each):
            return False
    elif not store(<char*>&slot, t.code, value, number_kind(value)):
        return False
    rows = <int64_t*>malloc(first.numel_ * sizeof(int64_t) + 1)
    try:
        if not row_numbers(t, first, second, rows):
            return False
        step = width if each else 0
        for i in range(first.numel_):
            target = t.first + rows[i] * width
            if source is not None:
                memcpy(target, source.first + i * step, width)
            else:
                repeat_bytes(target, <char*>&slot, size, width)
    finally:
        free(rows)
    written(t, "setitem")
    return True


cdef inline bint may_put(Tensor t) except -1:
    """A row-major tensor whose writes are not recorded."""
    return fl_mode == 0 and is_plain(<PyObject*>t) and t.storage is not None and t.contiguous_ \
        and not (t.needs_grad and fl_grad_enabled)


def put_indexed(t, tuple index, value):
    """t[index] = value for one or two tensors of places; False where Python has to do it."""
    if not is_plain(<PyObject*>t) or not may_put(<Tensor>t) or not 1 <= len(index) <= 2:
        return False
    for item in index:
        if not is_index(item) or (<Tensor>item).storage is None or (<Tensor>item).storage is t.storage:
            return False
    if len(index) == 1:
        return put_rows(t, <Tensor>index[0], None, value)
    return same_shape(<Tensor>index[0], <Tensor>index[1]) and put_rows(t, <Tensor>index[0], <Tensor>index[1], value)


def put_along(Tensor t, dim, Tensor index, value):
    """t[..., index, ...] = value, element by element along `dim`, as `scatter_` does; False where Python has to do it.

    `value`: a number, or a tensor of t's dtype in the shape of the index.
    """
    cdef double slot = 0.0
    cdef Tensor source = None
    cdef int64_t i, rest, place, at, inner, size = _ITEMSIZE[t.code]
    cdef int64_t* places = <int64_t*>index.first
    cdef int64_t axis, d
    if not may_put(t) or not PyLong_CheckExact(dim) or not is_index(index) or not index.contiguous_ \
            or index.storage is None or index.storage is t.storage or index.ndim_ != t.ndim_ \
            or index.numel_ * 8 > MOST_CREATED:
        return False
    axis = dim + t.ndim_ if dim < 0 else dim
    if axis < 0 or axis >= t.ndim_:
        return False
    for d in range(t.ndim_):
        if d != axis and index.dims[d] > t.dims[d]:
            return False
    for i in range(index.numel_):
        if places[i] < 0 or places[i] >= t.dims[axis]:
            return False
    if is_plain(<PyObject*>value):
        source = <Tensor>value
        if source.storage is None or source.storage is t.storage or source.code != t.code or not source.contiguous_ \
                or not same_shape(source, index) or (source.needs_grad and fl_grad_enabled):
            return False
    elif not store(<char*>&slot, t.code, value, number_kind(value)):
        return False
    for i in range(index.numel_):
        rest, at = i, 0
        for d in range(t.ndim_ - 1, -1, -1):
            inner = index.dims[d]
            place = places[i] if d == axis else rest % inner
            rest = rest // inner
            at += place * t.dims[t.ndim_ + d]
        memcpy(t.first + at * size, <char*>&slot if source is None else source.first + i * size, size)
    written(t, "scatter_")
    return True


def fill(Tensor t, value, name="fill_"):
    """Every element becomes a number; False where Python has to do it. `name`: what is noted of the write."""
    if not may_put(t) or not fill_all(t, value):
        return False
    written(t, name)
    return True
