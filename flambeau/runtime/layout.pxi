# Making tensor records: sizes, strides, views, memory.

cdef inline int set_rank(Tensor t, int ndim) except -1:
    if t.dims != NULL and t.dims != t.inline_dims:
        free(t.dims)
    t.ndim_ = ndim
    t.dims = t.inline_dims
    if ndim > INLINE_RANK:
        if ndim > MAX_RANK:
            raise ValueError(f"tensors have at most {MAX_RANK} dimensions, got {ndim}")
        t.dims = <int64_t*>malloc(2 * ndim * sizeof(int64_t))
    return 0


cdef inline Tensor blank(int code, int ndim):
    """A record without memory, its sizes still to be filled in."""
    cdef Tensor t = Tensor.__new__(Tensor)
    PyObject_GC_UnTrack(<void*>t)
    t.code = code
    t.dims = NULL
    set_rank(t, ndim)
    return t


cdef inline void share(Tensor out, Tensor t):
    out.code = t.code
    out.storage, out.first = t.storage, t.first
    out.dims = NULL
    set_rank(out, t.ndim_)
    memcpy(out.dims, t.dims, 2 * t.ndim_ * sizeof(int64_t))
    out.numel_, out.contiguous_ = t.numel_, t.contiguous_


cdef inline Tensor alias_of(Tensor t):
    cdef Tensor out = Tensor.__new__(Tensor)
    PyObject_GC_UnTrack(<void*>out)
    share(out, t)
    return out


cdef inline Tensor shape_record(Tensor t):
    """Sizes and dtype of `t` without its memory: what a derivative saves of an operand whose values it does not read."""
    cdef Tensor out = alias_of(t)
    out.storage, out.first = None, NULL
    return out


cdef inline void row_major(Tensor t):
    """Strides from sizes; the record is contiguous."""
    cdef int d
    cdef int64_t n = 1
    for d in range(t.ndim_ - 1, -1, -1):
        t.dims[t.ndim_ + d] = n
        n *= t.dims[d] if t.dims[d] else 1
    n = 1
    for d in range(t.ndim_):
        n *= t.dims[d]
    t.numel_, t.contiguous_ = n, True


cdef void examine(Tensor t):
    """Work out numel and contiguity from sizes and strides."""
    cdef int d
    cdef int64_t n = 1, want = 1
    cdef bint dense = True
    for d in range(t.ndim_ - 1, -1, -1):
        if t.dims[d] != 1 and t.dims[t.ndim_ + d] != want:
            dense = False
        want *= t.dims[d]
        n *= t.dims[d]
    t.numel_, t.contiguous_ = n, dense or n == 0


cdef inline Tensor new_like_shape(int code, int ndim, int64_t* sizes):
    cdef Tensor t = blank(code, ndim)
    memcpy(t.dims, sizes, ndim * sizeof(int64_t))
    row_major(t)
    t.storage = new_storage(t.numel_ * _ITEMSIZE[code])
    t.first = t.storage.ptr
    return t


cdef Tensor make_view(Tensor t, int ndim, int64_t* sizes, int64_t* strides, int64_t offset):
    cdef Tensor out = blank(t.code, ndim)
    memcpy(out.dims, sizes, ndim * sizeof(int64_t))
    memcpy(out.dims + ndim, strides, ndim * sizeof(int64_t))
    examine(out)
    out.storage = t.storage
    if t.first != NULL:
        out.first = t.first + offset * _ITEMSIZE[t.code]
    out.base = t if t.base is None else t.base
    out.silent = t.silent
    return out


def empty_strided(shape, strides, dtype):
    """Uninitialised memory with these sizes and strides (None: row-major)."""
    cdef Tensor t = blank(_CODES[dtype], len(shape))
    cdef int d
    cdef int64_t last = 0
    for d in range(t.ndim_):
        t.dims[d] = shape[d]
        if t.dims[d] < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {t.dims[d]}: {list(shape)}")
    if strides is None:
        row_major(t)
        last = t.numel_
    else:
        for d in range(t.ndim_):
            t.dims[t.ndim_ + d] = strides[d]
            last += (t.dims[d] - 1) * t.dims[t.ndim_ + d]
        examine(t)
        last = last + 1 if t.numel_ else 0
    t.storage = new_storage(last * _ITEMSIZE[t.code])
    t.first = t.storage.ptr
    return t


def view_of(Tensor t, shape, strides, int64_t offset):
    """Another window on t's memory: `offset` in elements from t's first one. No bounds are checked."""
    cdef int64_t sizes[MAX_RANK]
    cdef int64_t steps[MAX_RANK]
    cdef int d, n = len(shape)
    if n > MAX_RANK:
        raise ValueError(f"tensors have at most {MAX_RANK} dimensions, got {n}")
    for d in range(n):
        sizes[d], steps[d] = shape[d], strides[d]
    return make_view(t, n, sizes, steps, offset)


def from_memory(size_t address, size_t nbytes, owner, shape, strides, int64_t offset, dtype):
    """A tensor over memory that `owner` keeps alive."""
    cdef Storage s = Storage.__new__(Storage)
    s.ptr, s.nbytes, s.got, s.owner = <char*>address, nbytes, 0, owner
    cdef Tensor t = blank(_CODES[dtype], len(shape))
    cdef int d
    for d in range(t.ndim_):
        t.dims[d], t.dims[t.ndim_ + d] = shape[d], strides[d]
    examine(t)
    t.storage = s
    t.first = s.ptr + offset * _ITEMSIZE[t.code]
    return t


def shape_only(shape, dtype):
    """A record with sizes but no memory (device meta)."""
    cdef Tensor t = blank(_CODES[dtype], len(shape))
    cdef int d
    for d in range(t.ndim_):
        t.dims[d] = shape[d]
    row_major(t)
    return t


DEF WRITES_KEPT = 64


cdef inline void written(Tensor t, object op_name) noexcept:
    """Count a write into t's memory, and note who made it where if a node relies on the old values."""
    if t.silent:
        return
    t.storage.version += 1
    if t.storage.saved:
        note_write(t.storage, op_name, t)


cdef void note_write(Storage s, object op_name, Tensor t) noexcept:
    """t: the window that was written to; None: all of it."""
    try:
        s.write_note = _HOOKS["note_write"](op_name)
    except Exception:
        s.write_note = (op_name, None)
    if s.writes is None:
        s.writes = []
    (<list>s.writes).append((s.version, None if t is None else window_in(t), s.write_note))
    if len(<list>s.writes) > WRITES_KEPT:
        del (<list>s.writes)[0]


cdef object window_in(Tensor t):
    """(offset, itemsize, sizes, strides) of a tensor in its storage, in bytes."""
    cdef int d
    cdef int64_t size = _ITEMSIZE[t.code]
    return (t.first - t.storage.ptr, size, tuple([t.dims[d] for d in range(t.ndim_)]),
            tuple([t.dims[t.ndim_ + d] * size for d in range(t.ndim_)]))


cdef object overwritten(Tensor t, int64_t since):
    """The note of a write after version `since` that may have changed what t shows; None if there was none."""
    cdef Storage s = t.storage
    cdef int64_t version = since
    window = window_in(t)
    for number, region, note in (s.writes if s.writes is not None else ()):
        if <int64_t>number <= since:
            continue
        if <int64_t>number != version + 1:
            return s.write_note if s.write_note is not None else ("a write", None)     # some writes left no note
        version = number
        if region is None or not _HOOKS["disjoint"](window, region):
            return note
    return None if version == s.version else (s.write_note if s.write_note is not None else ("a write", None))


cdef inline size_of(Tensor t):
    cdef int d
    cdef object v
    cdef tuple out = FLAMBEAU_NEW_SIZE(Size, t.ndim_)
    for d in range(t.ndim_):
        v = t.dims[d]
        Py_INCREF(v)
        PyTuple_SET_ITEM(out, d, v)
    return out


cdef inline bint same_shape(Tensor a, Tensor b):
    return a.ndim_ == b.ndim_ and memcmp(a.dims, b.dims, a.ndim_ * sizeof(int64_t)) == 0


cdef int axis_of(Tensor t, dim) except -1:
    cdef Py_ssize_t d = dim
    cdef int n = t.ndim_ if t.ndim_ else 1
    if d < -n or d >= n or t.ndim_ == 0:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
    return d + t.ndim_ if d < 0 else d


cdef object read_item(Tensor t):
    """The Python number at t's first element."""
    cdef int c = t.code
    if c == 8: return <double>(<float*>t.first)[0]
    if c == 9: return (<double*>t.first)[0]
    if c == 5: return (<int64_t*>t.first)[0]
    if c == 0: return (<uint8_t*>t.first)[0] != 0
    if c == 4: return (<int32_t*>t.first)[0]
    if c == 1: return (<uint8_t*>t.first)[0]
    if c == 2: return (<int8_t*>t.first)[0]
    if c == 3: return (<int16_t*>t.first)[0]
    return _HOOKS["read_item"](t)
