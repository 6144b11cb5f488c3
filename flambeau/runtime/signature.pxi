# Calls found again: the signature of a call (layouts of its tensors, its other arguments) leads to the plan made for it.

cdef inline object layout_key(Tensor t):
    """dtype, rank, which sizes are 1 and how each axis strides (0 zero, 1 unit, 2 other), as one int."""
    cdef uint64_t key = t.code | (t.ndim_ << 4) | (<uint64_t>(t.numel_ == 0) << 62)
    cdef int d
    cdef int64_t step
    if t.contiguous_:
        key |= 1 << 9
        for d in range(t.ndim_):
            key |= <uint64_t>(t.dims[d] == 1) << (10 + d)
        return key
    for d in range(t.ndim_):
        step = t.dims[t.ndim_ + d]
        key |= <uint64_t>(3 if t.dims[d] == 1 else step if 0 <= step <= 1 else 2) << (10 + 2 * d)
    return key


def signature_of(args, int64_t operand_mask, names=None):
    """The key under which NativeOp.plans holds the plan of this call; None if an argument cannot be part of one.

    `names`: tuple with the names of the last arguments, given by keyword.
    """
    cdef PyObject** items = <PyObject**>malloc((len(args) + 1) * sizeof(PyObject*))
    cdef Py_ssize_t i
    for i in range(len(args)):
        items[i] = <PyObject*>args[i]
    try:
        return make_signature(items, len(args), operand_mask, <PyObject*>names)
    finally:
        free(items)


cdef object make_signature(PyObject** args, Py_ssize_t n, int64_t operand_mask, PyObject* names):
    """None when some argument needs Python: a list, another kind of tensor."""
    cdef Py_ssize_t i
    cdef int64_t tags = 0
    cdef object item
    cdef tuple key = PyTuple_New(n + 2)
    for i in range(n):
        if is_plain(args[i]):
            if (<Tensor>args[i]).ndim_ > 16:
                return None
            item = layout_key(<Tensor>args[i])
            tags = tags * 8 + 1
        elif PyFloat_CheckExact(<object>args[i]):
            item = FLOAT_SCALAR if (operand_mask >> i) & 1 else float_key(<object>args[i])
            tags = tags * 8 + 2
        elif PyBool_Check(<object>args[i]):
            item = <object>args[i]
            tags = tags * 8 + 3
        elif PyLong_CheckExact(<object>args[i]):
            item = INT_SCALAR if (operand_mask >> i) & 1 else <object>args[i]
            tags = tags * 8 + 4
        elif args[i] == <PyObject*>None or PyUnicode_CheckExact(<object>args[i]) or isinstance(<object>args[i], _DTYPE):
            item = <object>args[i]
            tags = tags * 8 + 5
        else:
            item = several_key(<object>args[i])
            if item is None:
                return None
            tags = tags * 8 + 6
        Py_INCREF(item)
        PyTuple_SET_ITEM(key, i, item)
    item = tags
    Py_INCREF(item)
    PyTuple_SET_ITEM(key, n, item)
    item = <object>names
    Py_INCREF(item)
    PyTuple_SET_ITEM(key, n + 1, item)
    return key


cdef tuple several_key(values):
    """What a tuple or list says in a signature: the layouts of tensors, the numbers of sizes; else None."""
    cdef tuple key
    cdef Py_ssize_t i, n
    cdef object item
    if not PyList_CheckExact(values) and not isinstance(values, tuple):
        return None
    n = len(values)
    if n == 0 or not isinstance(values[0], Tensor):
        key = sizes_of(values)
        return values_key(values) if key is None else key
    key = PyTuple_New(n + 1)
    for i in range(n):
        item = values[i]
        if not is_plain(<PyObject*>item) or (<Tensor>item).ndim_ > 16:
            return None
        item = layout_key(<Tensor>item)
        Py_INCREF(item)
        PyTuple_SET_ITEM(key, i, item)
    Py_INCREF(Tensor)
    PyTuple_SET_ITEM(key, n, Tensor)        # no tuple of numbers looks like it
    return key


cdef tuple sizes_of(values):
    """A tuple, a list or a Size of whole numbers as a tuple; None for other values."""
    for value in values:
        if not PyLong_CheckExact(value):
            return None
    return values if PyTuple_CheckExact(values) else tuple(values)


cdef object float_key(double value):
    """A float such that what is equal is the same number: -0.0 and 0.0 are not, and a NaN equals itself."""
    if value != value:
        return "nan"
    return "-0.0" if value == 0 and 1 / value < 0 else value


cdef tuple values_key(values):
    """Values of other types with their types, as True, 1 and 1.0 are equal; None if one cannot be part of a key."""
    cdef list found = [_VALUES]
    for value in values:
        if isinstance(value, (tuple, list)):
            inner = several_key(value)
            if inner is None:
                return None
            found.append(inner)
        elif PyFloat_CheckExact(value):
            found.append((float, float_key(value)))
        elif value is None or isinstance(value, (int, str, _DTYPE)):
            found.append((type(value), value))
        else:
            return None
    return tuple(found)


cdef object _VALUES = object()           # no tuple of numbers or of tensors looks like it


cdef object call_planned(NativeOp op, PyObject** args, Py_ssize_t n, PyObject* names):
    """Look the plan up by the call's signature and run it; NotImplemented when there is none yet."""
    cdef PyObject* items[MAX_PLACES]
    cdef PyObject* outs[MAX_PLACES]
    cdef Py_ssize_t i
    cdef int count = 0
    cdef int64_t mask = op.operand_mask
    if names == NULL:
        names = <PyObject*>None
    else:
        if mask >> n:
            mask = named_mask(op, n, <tuple>names)
        n += len(<tuple>names)
    if n > 16 or not op.plans:
        return NotImplemented
    key = make_signature(args, n, mask, names)
    if key is None:
        return NotImplemented
    try:
        plan = op.plans.get(key)
    except TypeError:                    # a tuple with something unhashable inside
        return NotImplemented
    if plan is None:
        return NotImplemented
    for i in range(n):
        if is_tensor(args[i]) or ((mask >> i) & 1 and args[i] != <PyObject*>None):
            items[count] = args[i]
            count += 1
        elif PyTuple_Check(<object>args[i]) or PyList_CheckExact(<object>args[i]):
            count = add_tensors(<object>args[i], items, count)
    if PyTuple_CheckExact(plan):         # with numbers that are not among the arguments
        for number in (<tuple>plan)[1]:
            items[count] = <PyObject*>number
            count += 1
        plan = (<tuple>plan)[0]
    for i in range(count):
        if is_plain(items[i]) and (<Tensor>items[i]).storage is None:
            return NotImplemented        # a meta tensor: only its sizes are worked out
    if isinstance(plan, Plan):
        if (<Plan>plan).sizes is not None and all_sizes(items, count) not in (<Plan>plan).sizes:
            return NotImplemented        # sizes that Python has not looked at
        if (<Plan>plan).bounds is not None and not inside(<Plan>plan, items):
            return NotImplemented        # an index that is negative or too large: Python knows what to do
    return run_recorded(op, plan, items)


cdef int64_t named_mask(NativeOp op, Py_ssize_t n, tuple names):
    """`operand_mask` for a call with n arguments by position, then those of these names."""
    cdef int64_t mask = op.operand_mask & ((<int64_t>1 << n) - 1)
    for name in names:
        if name in op.number_names:
            mask |= <int64_t>1 << n
        n += 1
    return mask


def mask_of_call(NativeOp op, Py_ssize_t n, names):
    """Which arguments of a call are operands where they are numbers: n by position, then those of these names."""
    return named_mask(op, n, names) if names else op.operand_mask


cdef int add_tensors(values, PyObject** items, int count) except -1:
    """The tensors of a tuple or list behind the `count` operands that are known; returns how many there are now."""
    cdef PyObject* item
    for value in values:
        item = <PyObject*>value
        if not is_tensor(item):
            break
        if count >= MAX_PLACES:
            raise RuntimeError("a call with too many tensors")
        items[count] = item
        count += 1
    return count


cdef extern from "bounds.h" nogil:
    bint all_below_64(const int64_t*, int64_t, int64_t) noexcept
    bint all_below_32(const int32_t*, int64_t, int64_t) noexcept


cdef bint inside(Plan plan, PyObject** items) except -1:
    """Whether the index operands that `plan.bounds` names are from 0 to below their sizes (row-major, int32 or int64)."""
    cdef int index, source, axis
    cdef int64_t size
    cdef Tensor t
    for index, source, axis in plan.bounds:
        t = <Tensor>items[index]
        size = axis if source < 0 else (<Tensor>items[source]).dims[axis]
        if not t.contiguous_:
            return False
        if _ITEMSIZE[t.code] == 8:
            if not all_below_64(<int64_t*>t.first, t.numel_, size):
                return False
        elif not all_below_32(<int32_t*>t.first, t.numel_, size):
            return False
    return True
