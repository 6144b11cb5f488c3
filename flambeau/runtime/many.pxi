# One elementwise kernel over many sets of tensors at once: an optimizer's step of all its parameters.
#
# The rows (one set of operands each) are cut into pieces of PIECE elements, and all pieces are one range for
# `parallel_for`: a hundred small parameters cost one call of the pool.

DEF PIECE = 8192


cdef struct Many:
    kernel_fn kernel
    int64_t rows, words                  # words: of a row's argument block
    int64_t* blocks
    int64_t* sizes                       # elements of each row
    int64_t* starts                      # the first piece of each row


cdef void run_pieces(const int64_t* args, int64_t begin, int64_t end) noexcept nogil:
    cdef Many* many = <Many*>args[0]
    cdef int64_t low = 0, high = many.rows - 1, middle, piece, first
    while low < high:                    # the last row that starts at or before `begin`
        middle = (low + high + 1) // 2
        if many.starts[middle] <= begin:
            low = middle
        else:
            high = middle - 1
    for piece in range(begin, end):
        while low + 1 < many.rows and many.starts[low + 1] <= piece:
            low += 1
        first = (piece - many.starts[low]) * PIECE
        many.kernel(many.blocks + low * many.words, first, min(first + PIECE, many.sizes[low]))


def alike(Tensor first, others):
    """True if all are row-major with memory, of one shape and dtype."""
    cdef Tensor t
    if not first.contiguous_ or first.storage is None:
        return False
    for other in others:
        if not isinstance(other, Tensor):
            return False
        t = <Tensor>other
        if t.code != first.code or not t.contiguous_ or t.storage is None or not same_shape(first, t):
            return False
    return True


def run_into_many(PointwisePlan plan, list rows):
    """Run an elementwise plan once a row (operands, targets), writing into the targets.

    The tensors of a row are `alike`; numbers stand at the same places in every row.
    """
    cdef Many many
    cdef int64_t args[1]
    cdef int i, n_in = plan.n_inputs, n_out = plan.n_outputs
    cdef int64_t row = 0, pieces = 0, total = 0
    cdef uint64_t classes = plan.dense_class
    cdef double* slots
    cdef int64_t* block
    cdef tuple operands, targets
    cdef PyObject* item
    cdef Tensor t
    many.rows, many.words = len(rows), 2 * (n_in + n_out)
    many.blocks = <int64_t*>calloc(max(1, many.rows * (many.words + 2 + n_in)), sizeof(int64_t))
    many.sizes = many.blocks + many.rows * many.words
    many.starts = many.sizes + many.rows
    slots = <double*>(many.starts + many.rows)
    try:
        for operands, targets in rows:
            block = many.blocks + row * many.words
            if len(operands) != n_in or len(targets) != n_out:
                raise RuntimeError(f"a row of {n_in} operands and {n_out} targets was wanted")
            for i in range(n_in):
                item = PyTuple_GET_ITEM(operands, i)
                if is_tensor(item):
                    block[n_out + i] = <int64_t>(<Tensor>item).first
                    continue
                put_number(item, plan.in_codes[i], &slots[row * n_in + i])
                block[n_out + i] = <int64_t>&slots[row * n_in + i]
                if row == 0:
                    classes ^= <uint64_t>1 << (2 * (n_out + i))
            for i in range(n_out):
                t = <Tensor>targets[i]
                if t.code != plan.out_codes[i]:
                    raise TypeError(f"output {i} is {_DTYPES[plan.out_codes[i]]}, its target is {t.dtype}")
                block[i] = <int64_t>t.first
            many.sizes[row], many.starts[row] = t.numel_, pieces
            pieces += (t.numel_ + PIECE - 1) // PIECE
            total += t.numel_
            row += 1
        many.kernel = plan.variant(classes)
        args[0] = <int64_t>&many
        if total <= plan.grain:
            run_pieces(args, 0, pieces)
        else:
            parallel_for(run_pieces, args, pieces, max(1, plan.grain // PIECE), True)
    finally:
        free(many.blocks)
    for _, targets in rows:
        for i in range(n_out):
            written(<Tensor>targets[i], "an optimizer update")
