# Running elementwise kernels: broadcasting, coalescing of axes, the loop over outer axes.

cdef struct Nest:
    kernel_fn kernel
    int operands
    int rank                             # outer axes
    int64_t inner                        # elements on the innermost axis
    int across, turned, turned_itemsize  # see run_tiles
    int64_t turned_step                  # bytes
    int64_t sizes[MAX_RANK]
    int64_t steps[MAX_OPERANDS][MAX_RANK]     # bytes
    int64_t inner_steps[MAX_OPERANDS]         # elements
    char* start[MAX_OPERANDS]


cdef void run_nest(const int64_t* args, int64_t begin, int64_t end) noexcept nogil:
    """Rows [begin, end) of a nest: one kernel call a row."""
    cdef Nest* nest = <Nest*>args[0]
    cdef int64_t block[2 * MAX_OPERANDS]
    cdef int64_t index[MAX_RANK]
    cdef int64_t rest = begin, row
    cdef int d, k
    for k in range(nest.operands):
        block[k] = <int64_t>nest.start[k]
        block[nest.operands + k] = nest.inner_steps[k]
    for d in range(nest.rank - 1, -1, -1):
        index[d] = rest % nest.sizes[d]
        rest = rest // nest.sizes[d]
        for k in range(nest.operands):
            block[k] += index[d] * nest.steps[k][d]
    for row in range(begin, end):
        nest.kernel(block, 0, nest.inner)
        d = nest.rank - 1
        while d >= 0:
            index[d] += 1
            for k in range(nest.operands):
                block[k] += nest.steps[k][d]
            if index[d] < nest.sizes[d]:
                break
            for k in range(nest.operands):
                block[k] -= index[d] * nest.steps[k][d]
            index[d] = 0
            d -= 1


DEF TILE = 64                # elements a side


cdef extern from "tiles.h" nogil:
    void tile_turn(char* target, int64_t pitch, const char* source, int64_t step, int64_t rows, int64_t columns,
                   int itemsize) noexcept


cdef void run_tiles(const int64_t* args, int64_t begin, int64_t end) noexcept nogil:
    """Tiles [begin, end) of a nest in which operands are consecutive along different axes, as in a transpose.

    A tile is TILE x TILE of the innermost axis and the axis `across`. The operand `turned` is read along `across`
    into a buffer that lies as the others do, so that every access is consecutive.
    """
    cdef Nest* nest = <Nest*>args[0]
    cdef int64_t block[2 * MAX_OPERANDS]
    cdef char* corner[MAX_OPERANDS]
    cdef char turned[TILE * (TILE + 2) * 8]
    cdef int t = nest.turned
    cdef int itemsize = nest.turned_itemsize
    cdef int64_t inner_tiles = (nest.inner + TILE - 1) // TILE
    cdef int64_t cross_tiles = (nest.sizes[nest.across] + TILE - 1) // TILE
    cdef int64_t tile, rest, first, row, rows, column, count, index
    cdef int d, k
    for k in range(nest.operands):
        block[nest.operands + k] = nest.inner_steps[k]
    for tile in range(begin, end):
        rest = tile
        column = (rest % inner_tiles) * TILE
        rest = rest // inner_tiles
        first = (rest % cross_tiles) * TILE
        rest = rest // cross_tiles
        for k in range(nest.operands):
            corner[k] = nest.start[k] + first * nest.steps[k][nest.across]
        for d in range(nest.rank - 1, -1, -1):
            if d == nest.across:
                continue
            index = rest % nest.sizes[d]
            rest = rest // nest.sizes[d]
            for k in range(nest.operands):
                corner[k] += index * nest.steps[k][d]
        count = min(<int64_t>TILE, nest.inner - column)
        rows = min(<int64_t>TILE, nest.sizes[nest.across] - first)
        tile_turn(turned, TILE + 2, corner[t] + column * nest.turned_step, nest.turned_step, count, rows, itemsize)
        for row in range(rows):
            for k in range(nest.operands):
                block[k] = <int64_t>(corner[k] + row * nest.steps[k][nest.across])
            block[t] = <int64_t>(turned + row * (TILE + 2) * itemsize) - column * itemsize
            nest.kernel(block, column, column + count)


cdef int turn_axis(Nest* nest, int* itemsizes, int outputs) noexcept:
    """Choose an input to turn and the outer axis along which it is consecutive; False if there is none."""
    cdef int d, k
    if nest.inner < TILE // 2:
        return False
    for d in range(nest.rank - 1, -1, -1):
        if nest.sizes[d] < TILE // 2:
            continue
        for k in range(outputs, nest.operands):
            if nest.steps[k][d] == itemsizes[k] and nest.inner_steps[k] > 1 and itemsizes[k] <= 8:
                nest.across, nest.turned, nest.turned_itemsize = d, k, itemsizes[k]
                nest.turned_step = nest.inner_steps[k] * itemsizes[k]
                return True
    return False


DEF SHORT = 16               # an innermost axis of fewer elements costs more in calls of the kernel than in elements,
DEF MANY = 4096              # where there are that many


cdef void longer_inside(Nest* nest, int last) noexcept:
    """Swap the innermost axis with the nearest one that is several times as long."""
    cdef int d, k
    for d in range(last - 1, -1, -1):
        if nest.sizes[d] >= 4 * nest.sizes[last]:
            nest.sizes[d], nest.sizes[last] = nest.sizes[last], nest.sizes[d]
            for k in range(nest.operands):
                nest.steps[k][d], nest.steps[k][last] = nest.steps[k][last], nest.steps[k][d]
            return


cdef inline int put_number(PyObject* o, int code, double* slot) except -1:
    """Write a Python number at dtype `code` into an 8-byte slot."""
    cdef double f
    cdef int64_t i
    cdef bint is_float = PyFloat_CheckExact(<object>o)
    if code == 8:
        (<float*>slot)[0] = <float>PyFloat_AsDouble(<object>o)
    elif code == 9:
        slot[0] = PyFloat_AsDouble(<object>o)
    elif is_float:
        _HOOKS["put_number"](<object>o, code, <size_t>slot)
    elif code == 0:
        (<uint8_t*>slot)[0] = 1 if <object>o else 0
    else:
        i = <int64_t>(<object>o)
        (<int64_t*>slot)[0] = i          # little-endian: the low bytes are the narrower integer
    return 0


cdef int run_pointwise(PointwisePlan plan, PyObject** args, PyObject** outs) except -1:
    """Run on `args` (tensors and numbers). outs[k] may hold a tensor to write into, else it receives a new one."""
    cdef int64_t block[2 * MAX_OPERANDS]
    cdef double slots[MAX_OPERANDS]
    cdef int i, n_in = plan.n_inputs, n_out = plan.n_outputs
    cdef uint64_t classes = plan.dense_class
    cdef Tensor first = None, t
    cdef kernel_fn kernel
    if plan.divisor >= 0:
        refuse_zero(plan, args[plan.divisor])
    if plan.exact:
        refuse_overflow(plan, args)
    for i in range(n_in):
        if is_tensor(args[i]):
            t = <Tensor>args[i]
            if not t.contiguous_ or t.storage is None:
                return run_strided(plan, args, outs)
            if first is None:
                first = t
            elif not same_shape(first, t):
                return run_strided(plan, args, outs)
            block[n_out + i] = <int64_t>t.first
        else:
            put_number(args[i], plan.in_codes[i], &slots[i])
            block[n_out + i] = <int64_t>&slots[i]
            classes ^= <uint64_t>1 << (2 * (n_out + i))
    for i in range(n_out):
        if outs[i] != NULL:
            t = <Tensor>outs[i]
            if first is None or not t.contiguous_ or not same_shape(first, t) or shifted(plan, args, t):
                return run_strided(plan, args, outs)
            block[i] = <int64_t>t.first
    if first is None:
        return run_strided(plan, args, outs)
    kernel = plan.variant(classes)
    for i in range(n_out):
        if outs[i] == NULL:
            t = new_like_shape(plan.out_codes[i], first.ndim_, first.dims)
            outs[i] = <PyObject*>t
            cpython_incref(outs[i])
            block[i] = <int64_t>t.first
    if first.numel_ <= plan.grain:
        kernel(block, 0, first.numel_)
    else:
        parallel_for(kernel, block, first.numel_, plan.grain, True)
    return 0


cdef bint holds(object value, int code) except -1:
    """Whether a number survives in a dtype apart from rounding (ops/held.py); dtypes not known here hold all."""
    cdef double f
    cdef int64_t i, high
    cdef int overflow = 0
    cdef bint signed = 2 <= code <= 5
    if PyBool_Check(value) or code == 0 or 6 <= code <= 7 or 9 <= code <= 11:
        return True
    if PyFloat_CheckExact(value):
        f = PyFloat_AsDouble(value)
        if code == 8:
            return f != f or f - f != 0 or -_LARGEST_FLOAT <= f <= _LARGEST_FLOAT
        if code == 5:
            return -9223372036854775808.0 <= f < 9223372036854775808.0
        if code == 14:
            return 0 <= f < 18446744073709551616.0
        high = (<int64_t>1 << (8 * _ITEMSIZE[code] - signed)) - 1
        return (-high - 1 if signed else 0) <= f <= high
    if code == 8 or not PyLong_CheckExact(value):
        return True
    i = PyLong_AsLongLongAndOverflow(value, &overflow)
    if code == 14 or overflow:
        return code == 14
    if code == 5:
        return True
    high = (<int64_t>1 << (8 * _ITEMSIZE[code] - signed)) - 1
    return (-high - 1 if signed else -high) <= i <= high


cdef double _LARGEST_FLOAT = 3.4028234663852886e38


cdef int refuse_overflow(PointwisePlan plan, PyObject** args) except -1:
    """Raise if a number among the operands would be another in the operand's dtype."""
    cdef int i
    for i in range(plan.n_inputs):
        if not is_tensor(args[i]) and not holds(<object>args[i], plan.in_codes[i]):
            _HOOKS["number_too_large"](plan, <object>args[i], _DTYPES[plan.in_codes[i]])
    return 0


cdef int refuse_zero(PointwisePlan plan, PyObject* divisor) except -1:
    """Raise ZeroDivisionError if an integer divisor is or has a zero."""
    cdef Tensor t
    cdef int64_t i, value = 0
    cdef int size
    if not is_tensor(divisor):
        if <object>divisor == 0:
            _HOOKS["zero_divisor"](plan, None)
        return 0
    t = <Tensor>divisor
    if t.storage is None:
        return 0
    if not t.contiguous_:
        t = <Tensor>_HOOKS["own_copy"](t)
    size = _ITEMSIZE[t.code]
    for i in range(t.numel_):
        memcpy(&value, t.first + i * size, size)
        if value == 0:
            _HOOKS["zero_divisor"](plan, <object>divisor)
            raise ZeroDivisionError("integer division by zero")
    return 0


cdef bint shifted(PointwisePlan plan, PyObject** args, Tensor out):
    """True if an operand shows out's memory at another place, so that writing would disturb reading."""
    cdef int i
    cdef Tensor t
    for i in range(plan.n_inputs):
        if is_tensor(args[i]):
            t = <Tensor>args[i]
            if t.storage is out.storage and t.first != out.first:
                return True
    return False


cdef int broadcast_sizes(PyObject** args, int n, int64_t* sizes) except -1:
    """The common sizes of the tensors among args; returns their number."""
    cdef int i, d, rank = 0, at
    cdef Tensor t
    for i in range(n):
        if is_tensor(args[i]) and (<Tensor>args[i]).ndim_ > rank:
            rank = (<Tensor>args[i]).ndim_
    for d in range(rank):
        sizes[d] = 1
    for i in range(n):
        if not is_tensor(args[i]):
            continue
        t = <Tensor>args[i]
        for d in range(t.ndim_):
            at = rank - t.ndim_ + d
            if t.dims[d] != 1 and t.dims[d] != sizes[at]:
                if sizes[at] != 1:
                    return -2
                sizes[at] = t.dims[d]
    return rank


cdef int run_strided(PointwisePlan plan, PyObject** args, PyObject** outs) except -1:
    """The general case: broadcasting, any strides, outputs given."""
    cdef Nest nest
    cdef double slots[MAX_OPERANDS]
    cdef int64_t sizes[MAX_RANK]
    cdef int64_t strides[MAX_OPERANDS][MAX_RANK]
    cdef char* start[MAX_OPERANDS]
    cdef int itemsizes[MAX_OPERANDS]
    cdef int i, d, rank, n_in = plan.n_inputs, n_out = plan.n_outputs
    cdef Tensor t, model = None
    keep = []
    rank = broadcast_sizes(args, n_in, sizes)
    if rank == -2:
        _HOOKS["broadcast_error"](plan, tuple([<object>args[i] for i in range(n_in)]))
        raise RuntimeError("sizes do not broadcast")
    for i in range(n_out):
        if outs[i] != NULL:
            check_target(<Tensor>outs[i], rank, sizes)
    for i in range(n_in):
        if not is_tensor(args[i]):
            put_number(args[i], plan.in_codes[i], &slots[i])
            start[n_out + i], itemsizes[n_out + i] = <char*>&slots[i], 8
            memset(strides[n_out + i], 0, rank * sizeof(int64_t))
            continue
        t = <Tensor>args[i]
        if t.storage is None:
            _HOOKS["no_data"](t, "an elementwise op")
        for d in range(n_out):
            if outs[d] != NULL and t.storage is (<Tensor>outs[d]).storage and not identical(t, <Tensor>outs[d]):
                t = <Tensor>_HOOKS["own_copy"](t)
                keep.append(t)
        start[n_out + i], itemsizes[n_out + i] = t.first, _ITEMSIZE[t.code]
        spread(t, rank, strides[n_out + i])
        if model is None and t.ndim_ == rank and memcmp(t.dims, sizes, rank * sizeof(int64_t)) == 0:
            model = t
    for i in range(n_out):
        if outs[i] == NULL:
            t = new_ordered(plan.out_codes[i], rank, sizes, model)
            outs[i] = <PyObject*>t
            cpython_incref(outs[i])
        t = <Tensor>outs[i]
        start[i], itemsizes[i] = t.first, _ITEMSIZE[t.code]
        spread(t, rank, strides[i])
    launch_pointwise(plan, &nest, rank, sizes, strides, start, itemsizes)
    return 0


cdef inline void spread(Tensor t, int rank, int64_t* strides) noexcept:
    """t's strides on the common axes: 0 where it is broadcast."""
    cdef int d, lead = rank - t.ndim_
    for d in range(lead):
        strides[d] = 0
    for d in range(t.ndim_):
        strides[lead + d] = 0 if t.dims[d] == 1 else t.dims[t.ndim_ + d]


cdef inline bint identical(Tensor a, Tensor b):
    return a.first == b.first and a.ndim_ == b.ndim_ and memcmp(a.dims, b.dims, 2 * a.ndim_ * sizeof(int64_t)) == 0


cdef int check_target(Tensor out, int rank, int64_t* sizes) except -1:
    cdef int d
    if out.ndim_ != rank or memcmp(out.dims, sizes, rank * sizeof(int64_t)) != 0:
        wanted = [sizes[d] for d in range(rank)]
        raise RuntimeError(f"output with shape {list(out.shape)} doesn't match the broadcast shape {wanted}")
    for d in range(rank):
        if out.dims[d] > 1 and out.dims[rank + d] == 0:
            raise RuntimeError("unsupported operation: more than one element of the written-to tensor refers to a "
                               "single memory location. Please clone() the tensor before performing the operation.")
    return 0


cdef Tensor new_ordered(int code, int rank, int64_t* sizes, Tensor model):
    """A new tensor with the axis order of `model` in memory (row-major where it has gaps or there is none)."""
    cdef Tensor t = new_like_shape(code, rank, sizes)
    cdef int order[MAX_RANK]
    cdef int d, e, k
    cdef int64_t n = 1
    if model is None or model.contiguous_ or rank < 2:
        return t
    for d in range(rank):
        k = d
        while k > 0 and model.dims[rank + order[k - 1]] < model.dims[rank + d]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = d
    for k in range(rank - 1, -1, -1):
        e = order[k]
        if sizes[e] > 1 and model.dims[rank + e] != n:
            return t                     # gaps or overlaps: row-major
        n *= sizes[e]
    memcpy(t.dims + rank, model.dims + rank, rank * sizeof(int64_t))
    t.contiguous_ = False
    examine(t)
    return t


cdef int launch_pointwise(PointwisePlan plan, Nest* nest, int rank, int64_t* sizes,
                          int64_t[MAX_OPERANDS][MAX_RANK] strides, char** start, int* itemsizes) except -1:
    """Order and merge the axes, choose the kernel, run."""
    cdef int order[MAX_RANK]
    cdef int operands = plan.n_inputs + plan.n_outputs
    cdef int d, e, k, used = 0, last
    cdef int64_t total = 1, block[2 * MAX_OPERANDS]
    cdef int64_t args[1]
    cdef bint merge
    cdef uint64_t classes = 0
    for d in range(rank):
        total *= sizes[d]
        if sizes[d] == 1:
            continue
        k = used
        while k > 0 and strides[0][order[k - 1]] < strides[0][d]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = d
        used += 1
    if total == 0:
        return 0
    nest.operands = operands
    last = -1                            # axes merged so far, outermost first
    for e in range(used):
        d = order[e]
        merge = last >= 0
        if merge:
            for k in range(operands):
                if nest.steps[k][last] != strides[k][d] * sizes[d]:
                    merge = False
                    break
        if merge:
            nest.sizes[last] *= sizes[d]
        else:
            last += 1
            nest.sizes[last] = sizes[d]
        for k in range(operands):
            nest.steps[k][last] = strides[k][d]
    if last < 0:
        last = 0
        nest.sizes[0] = 1
        for k in range(operands):
            nest.steps[k][0] = 1
    if total >= MANY and nest.sizes[last] < SHORT:
        longer_inside(nest, last)
    for k in range(operands):
        nest.inner_steps[k] = nest.steps[k][last]
        classes |= <uint64_t>(nest.inner_steps[k] if 0 <= nest.inner_steps[k] <= 1 else 2) << (2 * k)
        nest.start[k] = start[k]
        for d in range(last):
            nest.steps[k][d] *= itemsizes[k]
    nest.inner, nest.rank = nest.sizes[last], last
    nest.kernel = plan.variant(classes)
    if last == 0:
        for k in range(operands):
            block[k] = <int64_t>start[k]
            block[operands + k] = nest.inner_steps[k]
        if nest.inner <= plan.grain:
            nest.kernel(block, 0, nest.inner)
        else:
            parallel_for(nest.kernel, block, nest.inner, plan.grain, True)
        return 0
    args[0] = <int64_t>nest
    if turn_axis(nest, itemsizes, plan.n_outputs):
        nest.kernel = plan.variant(classes ^ (<uint64_t>3 << (2 * nest.turned)))      # from "other" to unit
        nest.inner_steps[nest.turned] = 1
        total = (total // nest.inner // nest.sizes[nest.across]) * ((nest.inner + TILE - 1) // TILE) \
            * ((nest.sizes[nest.across] + TILE - 1) // TILE)
        parallel_for(run_tiles, args, total, max(1, plan.grain // (TILE * TILE)), True)
        return 0
    total //= nest.inner
    if total * nest.inner <= plan.grain:
        run_nest(args, 0, total)
    else:
        parallel_for(run_nest, args, total, max(1, plan.grain // nest.inner), True)
    return 0
