# Joining small row-major tensors of one dtype without Python and without a kernel for each number of them.

DEF MOST_JOINED = 1 << 18            # bytes of a result that one thread copies


cdef object call_join(NativeOp op, PyObject** args, Py_ssize_t n, PyObject* names):
    """cat(tensors, dim=0) or, as op.joins says, stack(tensors, dim=0); NotImplemented for what needs Python."""
    cdef object dim = 0
    cdef Py_ssize_t given = n
    if names != NULL:
        given += len(<tuple>names)
        if given - n != 1 or (<tuple>names)[0] != "dim":
            return NotImplemented
    if n < 1 or given > 2 or not (PyList_CheckExact(<object>args[0]) or PyTuple_CheckExact(<object>args[0])):
        return NotImplemented
    if given == 2:
        dim = <object>args[1]
        if not PyLong_CheckExact(dim):
            return NotImplemented
    return join(op, tuple(<object>args[0]), dim, op.joins == 2)


def joined(NativeOp op, tensors, dim):
    """What `op.joins` says, or NotImplemented."""
    cdef PyObject* args[2]
    args[0], args[1] = <PyObject*>tensors, <PyObject*>dim
    return call_join(op, args, 2, NULL) if fl_mode == 0 else NotImplemented


cdef object join(NativeOp op, tuple tensors, int64_t dim, bint new_axis):
    cdef Py_ssize_t i, count = len(tensors)
    cdef PyObject** items = PyTuple_items(tensors)
    cdef Tensor t, first, out
    cdef int d, rank
    cdef int64_t total = 0
    cdef bint recorded = False
    if count == 0 or not is_plain(items[0]):
        return NotImplemented
    first = <Tensor>items[0]
    rank = first.ndim_ + new_axis
    dim = dim + rank if dim < 0 else dim
    if rank == 0 or dim < 0 or dim >= rank or rank >= MAX_RANK:
        return NotImplemented
    for i in range(count):
        if not is_plain(items[i]):
            return NotImplemented
        t = <Tensor>items[i]
        if t.storage is None or t.code != first.code or t.ndim_ != first.ndim_ or not t.contiguous_:
            return NotImplemented
        for d in range(first.ndim_):
            if t.dims[d] != first.dims[d] and (new_axis or d != dim):
                return NotImplemented
        total += 1 if new_axis else t.dims[dim]
        recorded |= t.needs_grad
    out = joined_record(first, rank, <int>dim, total, new_axis)
    if out.numel_ * _ITEMSIZE[out.code] > MOST_JOINED:
        return NotImplemented
    out.storage = new_storage(out.numel_ * _ITEMSIZE[out.code])
    out.first = out.storage.ptr
    copy_pieces(items, count, out, <int>dim, new_axis)
    if recorded and fl_grad_enabled and op.differentiable and 6 <= out.code <= 11:
        record(op, join_rule(count), tensors, (out,), {"dim": dim}, False)
    return out


cdef Tensor joined_record(Tensor first, int rank, int dim, int64_t total, bint new_axis):
    """The record of a result, without memory."""
    cdef Tensor out = blank(first.code, rank)
    cdef int d, source = 0
    for d in range(rank):
        if d == dim:
            out.dims[d] = total
            source += not new_axis
        else:
            out.dims[d] = first.dims[source]
            source += 1
    row_major(out)
    return out


cdef int copy_pieces(PyObject** items, Py_ssize_t count, Tensor out, int dim, bint new_axis) except -1:
    """Each tensor is `outer` blocks of bytes, which come side by side."""
    cdef int64_t outer = 1, inner = _ITEMSIZE[out.code], block, whole, row
    cdef char* target = out.first
    cdef char* source
    cdef Py_ssize_t i
    cdef int d
    if out.numel_ == 0:
        return 0
    for d in range(dim):
        outer *= out.dims[d]
    for d in range(dim + 1, out.ndim_):
        inner *= out.dims[d]
    whole = inner * out.dims[dim]
    for i in range(count):
        block = inner if new_axis else inner * (<Tensor>items[i]).dims[dim]
        source = (<Tensor>items[i]).first
        for row in range(outer if block else 0):
            memcpy(target + row * whole, source + row * block, block)
        target += block
    return 0


cdef dict _JOIN_RULES = {}


cdef object join_rule(Py_ssize_t count):
    """Only sizes are kept; the derivative runs in Python."""
    rule = _JOIN_RULES.get(count)
    if rule is None:
        shapes = (<int64_t>1 << count) - 1 if count < 63 else -1
        rule = _JOIN_RULES[count] = BackwardRule(0, shapes, False, [], [], None)
    return rule
