# Views found again: the window that an op made of a tensor with these sizes, strides and arguments is kept, and the
# next such call makes its record without Python.

DEF MOST_VIEWS = 8192        # windows kept for one op


cdef class ViewPlan:
    """A window: sizes, strides and offset relative to the operand's first element, and the attributes for the tape."""
    cdef int rank
    cdef int64_t numbers[2 * MAX_RANK]
    cdef int64_t offset
    cdef dict attrs

    def __init__(self, shape, strides, int64_t offset, dict attrs):
        cdef int d
        self.rank, self.offset, self.attrs = len(shape), offset, attrs
        for d in range(self.rank):
            self.numbers[d], self.numbers[self.rank + d] = shape[d], strides[d]


cdef object view_key(Tensor x, PyObject** args, Py_ssize_t n, PyObject* names):
    """What a window depends on: sizes and strides of the operand, dtype aside, and the other arguments."""
    cdef Py_ssize_t i
    cdef object item = (<char*>x.dims)[:2 * x.ndim_ * sizeof(int64_t)]
    cdef tuple key = PyTuple_New(n + 1)
    Py_INCREF(item)
    PyTuple_SET_ITEM(key, 0, item)
    for i in range(1, n):
        item = <object>args[i]
        if PyList_CheckExact(item):
            item = sizes_of(item)
            if item is None:
                raise TypeError("a list that holds no sizes")
        elif isinstance(item, tuple):
            item = several_key(item)
            if item is None:
                raise TypeError("a tuple that may change")
        elif not PyLong_CheckExact(item) and item is not None and not PyUnicode_CheckExact(item) \
                and not isinstance(item, _DTYPE):
            raise TypeError("a value that may change, or equal one of another type")
        Py_INCREF(item)
        PyTuple_SET_ITEM(key, i, item)
    item = <object>names
    Py_INCREF(item)
    PyTuple_SET_ITEM(key, n, item)
    return key


cdef object call_view(NativeOp op, PyObject** args, Py_ssize_t n, PyObject* names):
    """The view that this call made before; NotImplemented if it is new."""
    cdef Tensor x, out
    cdef ViewPlan plan
    if n < 1 or not is_plain(args[0]):
        return NotImplemented
    x = <Tensor>args[0]
    if x.storage is None:
        return NotImplemented
    if names == NULL:
        names = <PyObject*>None
    else:
        n += len(<tuple>names)
    try:
        found = op.plans.get(view_key(x, args, n, names))
    except TypeError:                    # an argument that cannot be part of a key
        return NotImplemented
    if found is None:
        return NotImplemented
    plan = <ViewPlan>found
    out = make_view(x, plan.rank, plan.numbers, plan.numbers + plan.rank, plan.offset)
    if fl_grad_enabled and x.needs_grad:
        record_view(op, x, out, plan.attrs)
    return out


cdef int record_view(NativeOp op, Tensor x, Tensor out, dict attrs) except -1:
    cdef PyObject* items[1]
    cdef Node node
    if not 6 <= out.code <= 11:
        return 0
    items[0] = <PyObject*>x
    node = new_node(op, <BackwardRule>op.view_rule, items, 1, 1)
    node.attrs = attrs
    attach(node, out, 0)
    if fl_watch:
        watch(node)
    return 0


def remember_view(NativeOp op, args, names, Tensor x, Tensor out, dict attrs):
    """Keep the window that `out` is of `x`, for calls with the same arguments."""
    cdef PyObject** items
    cdef Py_ssize_t i, n = len(args)
    if out.storage is not x.storage or args[0] is not x or n > 8:
        return
    items = <PyObject**>malloc(n * sizeof(PyObject*))
    for i in range(n):
        items[i] = <PyObject*>args[i]
    try:
        key = view_key(x, items, n, <PyObject*>names)
        if len(op.plans) >= MOST_VIEWS:
            op.plans.clear()
        op.plans[key] = ViewPlan(out.shape, out.stride(), (out.first - x.first) // _ITEMSIZE[x.code], attrs)
    except TypeError:
        pass
    finally:
        free(items)
