# Small new tensors without Python: one value, ranges, numbers from nested lists, and numbers back to lists.
#
# Whatever is unusual (another device, a large size, a dtype that C has no type for) answers NotImplemented, and the
# functions of `tensor` take the call.

DEF MOST_CREATED = 1 << 16           # bytes that are computed here; more is a kernel's work
DEF MOST_FILLED = 1 << 19            # and bytes that become one value
DEF REPEATED = 1 << 13               # bytes that are copied over and over
DEF MOST_KEPT = 32                   # results that `made_again` knows of one function
DEF LARGEST_BOUND = 1 << 28          # of `whole_range`
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
    if kind < 0 or out.numel_ * size > MOST_FILLED:
        return False
    if kind < 2 and value == 0:
        memset(out.first, 0, out.numel_ * size)
        return True
    if not store(<char*>&slot, out.code, value, kind):
        return False
    if out.numel_:
        repeat_bytes(out.first, <char*>&slot, size, out.numel_ * size)
    return True


cdef void repeat_bytes(char* target, const char* element, int64_t size, int64_t total) noexcept:
    """`total` bytes of one element after the other: what is there is copied behind itself."""
    cdef int64_t done = size, count
    memcpy(target, element, size)
    while done < total:
        count = min(min(done, <int64_t>REPEATED), total - done)
        memcpy(target + done, target, count)
        done += count


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
        if not PyLong_CheckExact(item) or not -LARGEST_BOUND <= item <= LARGEST_BOUND:
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
    if code == 5:
        for i in range(count):
            (<int64_t*>out.first)[i] = first + i * step
    elif code == 8:
        for i in range(count):
            (<float*>out.first)[i] = <float>(first + i * step)
    else:
        for i in range(count):
            (<double*>out.first)[i] = <double>(first + i * step)
    return out


cdef object numbers_key(tuple given, dict options, bint* wants_grad):
    """What numbers, by place and by name, and a dtype ask a function for; None if something else is among them."""
    cdef list found = []
    cdef dict rest = {}
    cdef int code = -1
    for value in given:
        if number_kind(value) < 0:
            return None
        found.append(value)
    for name, value in options.items():
        if name == "dtype" or name == "device" or name == "requires_grad":
            rest[name] = value
        elif number_kind(value) < 0:
            return None
        else:
            found.append(name)
            found.append(value)
    if not read_options(rest, &code, wants_grad):
        return None
    found.append(code)
    found.append(fl_default_code)        # of results without a dtype of their own
    return values_key(found)


def made_again(dict known, tuple given, dict options):
    """A copy of what a function of numbers made of these before (`keep_made`)."""
    cdef bint wants_grad = False
    cdef Tensor made, out
    if fl_mode != 0:
        return NotImplemented
    key = numbers_key(given, options, &wants_grad)
    found = None if key is None else known.get(key)
    if found is None:
        return NotImplemented
    made = <Tensor>found
    out = made_of(made.code, made.ndim_, made.dims, wants_grad)
    if out is None:
        return NotImplemented
    memcpy(out.first, made.first, made.numel_ * _ITEMSIZE[made.code])
    return out


def keep_made(dict known, tuple given, dict options, made):
    """Keep a small result of a function that depends on nothing but these numbers."""
    cdef bint wants_grad = False
    cdef Tensor t, kept
    if fl_mode != 0 or Py_TYPE(<PyObject*>made) is not <PyTypeObject*>Tensor:
        return
    t = <Tensor>made
    key = numbers_key(given, options, &wants_grad)
    if key is None or t.storage is None or not t.contiguous_ or t.numel_ * _ITEMSIZE[t.code] > MOST_CREATED:
        return
    kept = new_like_shape(t.code, t.ndim_, t.dims)
    memcpy(kept.first, t.first, t.numel_ * _ITEMSIZE[t.code])
    if len(known) >= MOST_KEPT:
        known.clear()
    known[key] = kept


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


def over_plain_array(array):
    """A tensor on the memory of an array of a plain dtype with strides of whole elements; else NotImplemented."""
    cdef Py_buffer view
    cdef int d, code = -1
    PyObject_GetBuffer(array, &view, PyBUF_STRIDES | PyBUF_FORMAT)
    try:
        letter = _LETTERS.find(view.format) if view.format != NULL and view.format[0] and view.len > 0 else -1
        if letter >= 0 and _ITEMSIZE[_LETTER_CODES[letter]] == view.itemsize and not view.format[1]:
            code = _LETTER_CODES[letter]
        for d in range(view.ndim):
            if view.strides[d] < 0 or view.strides[d] % view.itemsize:
                code = -1
    finally:
        PyBuffer_Release(&view)
    return NotImplemented if code < 0 else over_array(array, _DTYPES[code])


cdef bytes _LETTERS = b"?Bbhilqfd"              # of a buffer's format,
cdef tuple _LETTER_CODES = (0, 1, 2, 3, 4, 5, 5, 8, 9)      # and their dtype codes


cdef object _ARRAY = None                           # numpy.ndarray,
cdef tuple _ARRAY_DTYPES = ()                       # and its dtypes by dtype code, None for what NumPy lacks


def set_arrays(array, dtypes):
    """Name NumPy's class of arrays and its dtypes."""
    global _ARRAY, _ARRAY_DTYPES
    _ARRAY, _ARRAY_DTYPES = array, tuple(dtypes)


cdef class Stretch:
    """Some bytes of a storage, which it keeps alive, as a buffer."""
    cdef Storage storage
    cdef char* first
    cdef Py_ssize_t nbytes

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.first, self.nbytes, 0, flags)


def array_over(Tensor t):
    """An array on the memory of a tensor that has elements and no gradient; else NotImplemented."""
    cdef Stretch stretch
    cdef int d
    cdef int64_t size = _ITEMSIZE[t.code], last = 0
    if t.storage is None or t.needs_grad or not t.numel_ or _ARRAY is None or _ARRAY_DTYPES[t.code] is None:
        return NotImplemented
    for d in range(t.ndim_):
        if t.dims[t.ndim_ + d] < 0:
            return NotImplemented
        last += (t.dims[d] - 1) * t.dims[t.ndim_ + d]
    stretch = Stretch.__new__(Stretch)
    stretch.storage, stretch.first, stretch.nbytes = t.storage, t.first, (last + 1) * size
    return _ARRAY(tuple([t.dims[d] for d in range(t.ndim_)]), _ARRAY_DTYPES[t.code], stretch, 0,
                  tuple([t.dims[t.ndim_ + d] * size for d in range(t.ndim_)]))


def array_interface(Tensor t, str typestr):
    """What NumPy reads to make an array on the memory of a tensor."""
    cdef int d
    cdef int64_t size = _ITEMSIZE[t.code]
    return {"version": 3, "typestr": typestr, "data": (<size_t>t.first, False),
            "shape": tuple([t.dims[d] for d in range(t.ndim_)]),
            "strides": tuple([t.dims[t.ndim_ + d] * size for d in range(t.ndim_)])}
