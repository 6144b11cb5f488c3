# Small new tensors without Python: one value, ranges, numbers from nested lists, and numbers back to lists.
#
# Whatever is unusual (another device, a large size, a dtype that C has no type for) answers NotImplemented, and the
# functions of `tensor` take the call.

DEF MOST_CREATED = 1 << 16           # bytes that are filled here; more is a kernel's work
DEF DEEPEST_LIST = 8                 # levels of nested lists

cdef int fl_default_code = 8


def set_default_code(int code):
    """The dtype of floats that are given no other."""
    global fl_default_code
    fl_default_code = code


cdef int number_kind(object value) noexcept:
    """0 a bool, 1 an int, 2 a float, -1 anything else."""
    if PyFloat_CheckExact(value):
        return 2
    if PyBool_Check(value):
        return 0
    return 1 if PyLong_CheckExact(value) else -1


cdef int dtype_of_numbers(int kind) noexcept:
    return 0 if kind == 0 else 5 if kind == 1 else fl_default_code


cdef int store(char* at, int code, object value, int kind) except -1:
    """Put a number at `at`; returns 1, or 0 where the pair of number and dtype is none of those that C converts alike."""
    cdef double f = 0.0
    cdef int64_t i = 0
    cdef int overflow = 0
    if kind < 0 or code > 9 or code == 6 or code == 7 or not holds(value, code):
        return 0
    if kind == 2:
        f = PyFloat_AsDouble(value)
    else:
        i = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow:
            return 0
        f = <double>i
    if code == 8:
        (<float*>at)[0] = <float>f
    elif code == 9:
        (<double*>at)[0] = f
    elif kind == 2:
        return 0
    elif code == 0:
        (<uint8_t*>at)[0] = i != 0
    elif code == 5:
        (<int64_t*>at)[0] = i
    elif code == 4:
        (<int32_t*>at)[0] = <int32_t>i
    elif code == 3:
        (<int16_t*>at)[0] = <int16_t>i
    else:
        (<uint8_t*>at)[0] = <uint8_t>i
    return 1


cdef int read_sizes(object given, int64_t* sizes) except -2:
    """(2, 3), ((2, 3),) or ([2, 3],) -> the rank; -1 for anything else."""
    cdef object item
    cdef int n = 0
    if len(given) == 1 and not PyLong_CheckExact(given[0]):
        given = given[0]
        if not PyList_CheckExact(given) and not isinstance(given, tuple):
            return -1
    if len(given) > MAX_RANK:
        return -1
    for item in given:
        if not PyLong_CheckExact(item):
            return -1
        sizes[n] = item
        if sizes[n] < 0:
            return -1
        n += 1
    return n


cdef int read_options(dict options, int* code, bint* wants_grad) except -1:
    """dtype, device (the CPU) and requires_grad by keyword; returns 0 when there is anything else."""
    for name, value in options.items():
        if name == "dtype":
            if value is not None:
                if not isinstance(value, _DTYPE):
                    return 0
                code[0] = _CODES[value]
        elif name == "device":
            if value is not None and value is not _CPU and value != "cpu":
                return 0
        elif name == "requires_grad":
            if value is not True and value is not False:
                return 0
            wants_grad[0] = value
        else:
            return 0
    return 1


cdef Tensor made_of(int code, int rank, int64_t* sizes, bint wants_grad):
    """Uninitialised; None where gradients are asked of a dtype that has none."""
    if wants_grad and not 6 <= code <= 11:
        return None
    cdef Tensor out = new_like_shape(code, rank, sizes)
    out.needs_grad = wants_grad
    return out


cdef bint fill_all(Tensor out, object value) except -1:
    """Every element of a row-major tensor is `value`; False where that is not for here."""
    cdef int64_t i, size = _ITEMSIZE[out.code]
    cdef double slot = 0.0
    cdef int kind = number_kind(value)
    if kind < 0 or out.numel_ * size > MOST_CREATED:
        return False
    if kind < 2 and value == 0:
        memset(out.first, 0, out.numel_ * size)
        return True
    if not store(<char*>&slot, out.code, value, kind):
        return False
    for i in range(out.numel_):
        memcpy(out.first + i * size, &slot, size)
    return True


def filled(tuple given, dict options, value):
    """zeros, ones, full and, for value None, empty: `given` are the sizes, `options` the keywords."""
    cdef int64_t sizes[MAX_RANK]
    cdef int code = fl_default_code, rank
    cdef bint wants_grad = False
    cdef Tensor out
    if fl_mode != 0 or not read_options(options, &code, &wants_grad):
        return NotImplemented
    rank = read_sizes(given, sizes)
    if rank < 0:
        return NotImplemented
    out = made_of(code, rank, sizes, wants_grad)
    if out is None or (value is not None and not fill_all(out, value)):
        return NotImplemented
    return out


def filled_full(tuple given, dict options):
    """full(size, value): the dtype is that of the value."""
    if len(given) != 2 or number_kind(given[1]) < 0:
        return NotImplemented
    if options.get("dtype") is None:
        options = {**options, "dtype": _DTYPES[dtype_of_numbers(number_kind(given[1]))]}
    return filled((given[0],), options, given[1])


def filled_like(like, dict options, value):
    """zeros_like, ones_like and, for value None, empty_like of a row-major tensor."""
    cdef int code
    cdef bint wants_grad = False
    cdef Tensor t, out
    if fl_mode != 0 or not is_plain(<PyObject*>like):
        return NotImplemented
    t = <Tensor>like
    code = t.code
    if t.storage is None or not t.contiguous_ or not read_options(options, &code, &wants_grad):
        return NotImplemented
    out = made_of(code, t.ndim_, t.dims, wants_grad)
    if out is None or (value is not None and not fill_all(out, value)):
        return NotImplemented
    return out


def whole_range(tuple bounds, dict options):
    """arange of ints, in int64 or a float dtype."""
    cdef int64_t first = 0, last, step = 1, count, i
    cdef int code = 5
    cdef bint wants_grad = False
    cdef Tensor out
    if fl_mode != 0 or not 1 <= len(bounds) <= 3 or not read_options(options, &code, &wants_grad):
        return NotImplemented
    for item in bounds:
        if not PyLong_CheckExact(item) or not -MOST_CREATED <= item <= MOST_CREATED:
            return NotImplemented
    if len(bounds) == 1:
        last = bounds[0]
    else:
        first, last = bounds[0], bounds[1]
        step = bounds[2] if len(bounds) == 3 else 1
    if step == 0 or (last - first) * step < 0 or not (code == 5 or code == 8 or code == 9):
        return NotImplemented
    count = (last - first + step - (1 if step > 0 else -1)) // step if last != first else 0
    out = made_of(code, 1, &count, wants_grad)
    if out is None:
        return NotImplemented
    for i in range(count):
        if code == 5:
            (<int64_t*>out.first)[i] = first + i * step
        elif code == 8:
            (<float*>out.first)[i] = <float>(first + i * step)
        else:
            (<double*>out.first)[i] = <double>(first + i * step)
    return out


# ------------------------------------------------------------------------------ lists of numbers
cdef int measure(object data, int64_t* sizes, int rank, int* kind) except -2:
    """The rank of regular nested lists, their sizes and the widest kind of number in them; -1 for anything else."""
    cdef object item
    cdef int found
    if not PyList_CheckExact(data) and not PyTuple_CheckExact(data):
        found = number_kind(data)
        kind[0] = max(kind[0], found)
        return rank if found >= 0 else -1
    if rank == DEEPEST_LIST or len(data) == 0:
        return -1
    if sizes[rank] < 0:
        sizes[rank] = len(data)
    if sizes[rank] != len(data):
        return -1
    depth = -2
    for item in data:
        found = measure(item, sizes, rank + 1, kind)
        if found < 0 or (depth != -2 and found != depth):
            return -1
        depth = found
    return depth


cdef bint unload(object data, int code, char** at) except -1:
    """The numbers of nested lists one behind the other; False where one does not fit."""
    cdef object item
    if PyList_CheckExact(data) or PyTuple_CheckExact(data):
        for item in data:
            if not unload(item, code, at):
                return False
        return True
    if not store(at[0], code, data, number_kind(data)):
        return False
    at[0] += _ITEMSIZE[code]
    return True


def from_numbers(data, dict options):
    """tensor(data) for a number, or for nested lists of numbers."""
    cdef int64_t sizes[DEEPEST_LIST]
    cdef int code = -1, kind = -1, rank, d
    cdef bint wants_grad = False
    cdef Tensor out
    cdef char* at
    if fl_mode != 0 or not read_options(options, &code, &wants_grad):
        return NotImplemented
    for d in range(DEEPEST_LIST):
        sizes[d] = -1
    rank = measure(data, sizes, 0, &kind)
    if rank < 0:
        return NotImplemented
    out = made_of(dtype_of_numbers(kind) if code < 0 else code, rank, sizes, wants_grad)
    if out is None:
        return NotImplemented
    at = out.first
    return out if unload(data, out.code, &at) else NotImplemented


cdef object number_at(char* at, int code):
    if code == 8:
        return <double>(<float*>at)[0]
    if code == 9:
        return (<double*>at)[0]
    if code == 5:
        return (<int64_t*>at)[0]
    if code == 4:
        return (<int32_t*>at)[0]
    if code == 3:
        return (<int16_t*>at)[0]
    if code == 2:
        return (<int8_t*>at)[0]
    return (<uint8_t*>at)[0] if code == 1 else (<uint8_t*>at)[0] != 0


cdef list listed(Tensor t, int axis, char* at):
    cdef int64_t i, step = t.dims[t.ndim_ + axis] * _ITEMSIZE[t.code]
    cdef list out = []
    for i in range(t.dims[axis]):
        out.append(number_at(at + i * step, t.code) if axis + 1 == t.ndim_ else listed(t, axis + 1, at + i * step))
    return out


def to_list(Tensor t):
    """Nested lists of the numbers of a tensor with axes; NotImplemented for dtypes that C has no type for."""
    if t.storage is None or t.ndim_ == 0 or t.code > 9 or t.code == 6 or t.code == 7 or fl_mode != 0:
        return NotImplemented
    return listed(t, 0, t.first)


# ------------------------------------------------------------------------------ NumPy's arrays
def over_array(array, dtype):
    """A tensor on the memory of an array that has elements, whose strides are whole elements."""
    cdef Py_buffer view
    cdef Storage s = Storage.__new__(Storage)
    cdef Tensor t
    cdef int d
    cdef int64_t span = 0
    PyObject_GetBuffer(array, &view, PyBUF_STRIDES)
    try:
        if view.ndim > MAX_RANK:
            raise ValueError(f"tensors have at most {MAX_RANK} dimensions, got {view.ndim}")
        t = blank(_CODES[dtype], view.ndim)
        for d in range(view.ndim):
            t.dims[d], t.dims[t.ndim_ + d] = view.shape[d], view.strides[d] // view.itemsize
            span += (view.shape[d] - 1) * view.strides[d]
        examine(t)
        s.ptr, s.nbytes, s.got, s.owner = <char*>view.buf, span + view.itemsize, 0, array
        t.storage, t.first = s, s.ptr
    finally:
        PyBuffer_Release(&view)
    return t


def array_interface(Tensor t, str typestr):
    """What NumPy reads to make an array on the memory of a tensor."""
    cdef int d
    cdef int64_t size = _ITEMSIZE[t.code]
    return {"version": 3, "typestr": typestr, "data": (<size_t>t.first, False),
            "shape": tuple([t.dims[d] for d in range(t.ndim_)]),
            "strides": tuple([t.dims[t.ndim_ + d] * size for d in range(t.ndim_)])}


# ------------------------------------------------------------------------------ writes into a window
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
    if fl_mode != 0 or t.storage is None or not is_plain(<PyObject*>t):
        return False
    if PyTuple_CheckExact(index):
        status = parse_index(t, PyTuple_items(index), len(<tuple>index), &w)
    else:
        one[0] = <PyObject*>index
        status = parse_index(t, one, 1, &w)
    if status == 0:
        return put_window(t, &w, value)
    if not is_plain(<PyObject*>index) or (t.needs_grad and fl_grad_enabled) or not t.contiguous_ \
            or t.numel_ * _ITEMSIZE[t.code] > MOST_CREATED or (<Tensor>index).storage is None \
            or (<Tensor>index).storage is t.storage:
        return False
    if (<Tensor>index).code == 0:
        return put_masked(t, <Tensor>index, value)
    return is_index(index) and put_rows(t, <Tensor>index, value)


cdef bint put_masked(Tensor t, Tensor mask, value) except -1:
    """t[mask] = number, for a mask of t's shape; else False."""
    cdef double slot = 0.0
    cdef int64_t i, size = _ITEMSIZE[t.code]
    if not mask.contiguous_ or not same_shape(mask, t) or not store(<char*>&slot, t.code, value, number_kind(value)):
        return False
    for i in range(t.numel_):
        if mask.first[i]:
            memcpy(t.first + i * size, &slot, size)
    written(t, "setitem")
    return True


cdef bint put_rows(Tensor t, Tensor index, value) except -1:
    """t[index] = value for an index of one axis and a number, a slice or a tensor of slices of t's dtype; else False."""
    cdef double slot = 0.0
    cdef Tensor source = None
    cdef int64_t i, k, row, step = 0, size = _ITEMSIZE[t.code]
    cdef int64_t width = t.numel_ // t.dims[0] if t.ndim_ and t.dims[0] else 0
    cdef int64_t* rows = <int64_t*>index.first
    cdef int d
    if index.ndim_ != 1 or not index.contiguous_ or width == 0:
        return False
    for i in range(index.numel_):
        if rows[i] < 0 or rows[i] >= t.dims[0]:
            return False
    if is_plain(<PyObject*>value):
        source = <Tensor>value
        if source.storage is None or source.storage is t.storage or source.code != t.code or not source.contiguous_ \
                or (source.needs_grad and fl_grad_enabled):
            return False
        if source.ndim_ == t.ndim_ and source.dims[0] == index.numel_:
            step = width * size
        elif source.ndim_ != t.ndim_ - 1:
            return False
        for d in range(1, t.ndim_):
            if source.dims[d - (source.ndim_ != t.ndim_)] != t.dims[d]:
                return False
    elif not store(<char*>&slot, t.code, value, number_kind(value)):
        return False
    for i in range(index.numel_):
        row = rows[i] * width
        if source is not None:
            memcpy(t.first + row * size, source.first + i * step, width * size)
        else:
            for k in range(width):
                memcpy(t.first + (row + k) * size, &slot, size)
    written(t, "setitem")
    return True
