# Compiled plans: a launch list with its size arithmetic, run without Python.
#
# A plan's registers are int64: constants, then what `loads` takes from the operands, then what `code` computes.
# Buffers are new memory (outputs and temporaries); steps launch kernels; outputs are buffers or views.

DEF MOST_SIZES = 4096        # sets of sizes kept for one plan
DEF NEST_STEP = 0
DEF POINTWISE_STEP = 1
DEF HOST_STEP = 2

cdef int* int_array(values) except NULL:
    cdef int n = len(values), i
    cdef int* out = <int*>malloc((n if n else 1) * sizeof(int))
    for i in range(n):
        out[i] = values[i]
    return out


cdef class Step:
    """One launch. `operands` are (place, offset register, or -1); a place is an input, or n_inputs + a buffer."""
    cdef int kind
    cdef kernel_fn kernel
    cdef int n_operands, n_params, extent, grain
    cdef int* places
    cdef int* offsets
    cdef int* itemsizes
    cdef int* params                     # NEST: registers passed on; POINTWISE: sizes, then strides operand by operand
    cdef int rank
    cdef PointwisePlan pointwise
    cdef object host

    def __init__(self, spec):
        kind, target, operands, params, extent, grain = spec
        self.kind = kind
        self.n_operands = len(operands)
        self.places = int_array([o[0] for o in operands])
        self.offsets = int_array([o[1] for o in operands])
        self.itemsizes = int_array([o[2] for o in operands])
        self.n_params, self.params = len(params), int_array(params)
        self.extent, self.grain = extent, grain
        if kind == NEST_STEP:
            self.kernel = <kernel_fn><size_t>target
        elif kind == POINTWISE_STEP:
            self.pointwise, self.rank = target, extent
        else:
            self.host = target

    def __dealloc__(self):
        free(self.places)
        free(self.offsets)
        free(self.itemsizes)
        free(self.params)


cdef class Plan:
    """A compiled graph for one signature of operands.

    spec: dict with n_inputs, registers (initial values), loads (register, input, what, axis) with what 0 size, 1 stride,
    2 number of elements; checks (a, b) registers that must be equal; code (op, target, a, b); buffers (dtype code, numel
    register); steps; outputs (place, dtype code, size registers, stride registers or None, offset register or -1);
    in_codes (dtype of number operands); random (registers seed, offset, and the register with the count drawn) or None.
    """
    cdef public int n_inputs, n_outputs
    cdef int n_registers, n_loads, n_checks, n_code, n_buffers
    cdef int64_t* registers              # as of the last call
    cdef bint sized                      # and worked out from its sizes
    cdef int* loads
    cdef int* checks
    cdef int* code
    cdef int* buffers
    cdef int* returned                   # of each buffer: is it an output?
    cdef int* in_codes
    cdef list steps
    cdef list outputs
    cdef object random
    cdef dict rules                      # BackwardRule by the mask of operands that need a gradient
    cdef public object spec
    cdef public object pending           # function(numbers of steps) -> their kernels' addresses; None: all are built
    cdef set sizes                       # those of calls that Python has let through; None: any will do
    cdef public object bounds            # (index operand, operand that it indexes or -1, axis or size) that calls check
    cdef public object specialise        # function(operands) -> the Plan that is quickest for their sizes, or None
    cdef Plan special                    # what it said for the sizes in the registers,
    cdef int special_round, special_threads     # since autotuning was switched on, for so many threads

    def __init__(self, spec):
        cdef int i
        self.spec = spec
        self.n_inputs, self.n_registers = spec["n_inputs"], len(spec["registers"])
        self.registers = <int64_t*>malloc((self.n_registers if self.n_registers else 1) * sizeof(int64_t))
        for i in range(self.n_registers):
            self.registers[i] = spec["registers"][i]
        self.n_loads, self.loads = len(spec["loads"]), int_array([v for row in spec["loads"] for v in row])
        self.n_checks, self.checks = len(spec["checks"]), int_array([v for row in spec["checks"] for v in row])
        self.n_code, self.code = len(spec["code"]), int_array([v for row in spec["code"] for v in row])
        self.n_buffers, self.buffers = len(spec["buffers"]), int_array([v for row in spec["buffers"] for v in row])
        returned = {row[0] - self.n_inputs for row in spec["outputs"]}
        self.returned = int_array([i in returned for i in range(self.n_buffers)])
        self.in_codes = int_array(spec["in_codes"])
        self.steps = [Step(s) for s in spec["steps"]]
        self.outputs = [Output(o) for o in spec["outputs"]]
        self.n_outputs, self.random = len(self.outputs), spec["random"]
        self.rules = {}
        if self.n_inputs + self.n_buffers > MAX_PLACES or self.n_registers > MAX_REGISTERS:
            raise ValueError("a plan with too many operands or sizes")

    def __dealloc__(self):
        free(self.registers)
        free(self.loads)
        free(self.checks)
        free(self.code)
        free(self.buffers)
        free(self.returned)
        free(self.in_codes)

    def build_all(self):
        """Build the kernels that no call has needed so far too."""
        build_needed(self, NULL)

    def allow_sizes(self, tuple tensors):
        """Let calls with tensors of these sizes be found by their signature; others go through Python first."""
        cdef PyObject** items = PyTuple_items(tensors)
        if self.sizes is None or len(self.sizes) > MOST_SIZES:
            self.sizes = set()
        sizes = all_sizes(items, <int>len(tensors))
        if sizes is not None:
            self.sizes.add(sizes)


cdef object all_sizes(PyObject** items, int count):
    """The sizes of the tensors among these, one behind the other; None for more than are worth it."""
    cdef int64_t numbers[64]
    cdef int i, n = 0
    cdef Tensor t
    for i in range(count):
        if is_tensor(items[i]):
            t = <Tensor>items[i]
            if n + t.ndim_ > 64:
                return None
            memcpy(numbers + n, t.dims, t.ndim_ * sizeof(int64_t))
            n += t.ndim_
    return (<char*>numbers)[:n * sizeof(int64_t)]


cdef class Output:
    cdef int place, code, rank, offset
    cdef int* sizes
    cdef int* strides                    # NULL: a fresh row-major buffer

    def __init__(self, row):
        place, code, sizes, strides, offset = row
        self.place, self.code, self.rank, self.offset = place, code, len(sizes), offset
        self.sizes = int_array(sizes)
        self.strides = NULL if strides is None else int_array(strides)

    def __dealloc__(self):
        free(self.sizes)
        free(self.strides)


cdef struct Frame:
    int64_t registers[MAX_REGISTERS]
    char* places[MAX_PLACES]
    PyObject* owners[MAX_PLACES]
    double slots[MAX_PLACES]


cdef int run_code(Plan plan, int64_t* r) except -1:
    cdef int i
    cdef int* c
    cdef int64_t a, b
    for i in range(plan.n_code):
        c = plan.code + 4 * i
        a, b = r[c[2]], r[c[3]]
        if c[0] == 0:
            r[c[1]] = a + b
        elif c[0] == 1:
            r[c[1]] = a * b
        elif c[0] == 2:
            r[c[1]] = a - b
        elif c[0] == 3:
            r[c[1]] = floor_quotient(a, b)
        elif c[0] == 4:
            r[c[1]] = a if a > b else b
        else:
            r[c[1]] = a if a < b else b
    return 0


cdef inline int64_t floor_quotient(int64_t a, int64_t b) noexcept:
    if b == 0:
        return 0
    if b > 0 and a >= 0:
        return a // b
    return <int64_t>floor(<double>a / <double>b)


cdef int build_needed(Plan plan, int64_t* r) except -1:
    """Build the kernels of launches that have something to do (r NULL: of all) and were not built before."""
    cdef Step s
    cdef bint left = False
    numbers = []
    for i, step in enumerate(plan.steps):
        s = <Step>step
        if s.kind == NEST_STEP and s.kernel == NULL:
            if r == NULL or r[s.extent] > 0:
                numbers.append(i)
            else:
                left = True
    if numbers:
        for i, address in zip(numbers, plan.pending(numbers)):
            (<Step>plan.steps[i]).kernel = <kernel_fn><size_t>address
    if not left:
        plan.pending = None
    return 0


cdef int load_operands(Plan plan, Frame* f, PyObject** args) except -1:
    """Fill the frame's places and registers; the sizes of the last call are not worked out again."""
    cdef int i
    cdef int* row
    cdef int64_t value
    cdef int64_t* r = plan.registers
    cdef Tensor t
    for i in range(plan.n_inputs):
        f.owners[i] = NULL
        if is_tensor(args[i]):
            f.places[i] = (<Tensor>args[i]).first
        else:
            put_number(args[i], plan.in_codes[i], &f.slots[i])
            f.places[i] = <char*>&f.slots[i]
    if plan.random is not None:
        draw_random(plan)
    for i in range(plan.n_loads):
        row = plan.loads + 4 * i
        t = <Tensor>args[row[1]]
        if row[2] == 0:
            value = t.dims[row[3]]
        elif row[2] == 1:
            value = t.dims[t.ndim_ + row[3]]
        else:
            value = t.numel_
        if r[row[0]] != value:
            r[row[0]] = value
            plan.sized = False
    if not plan.sized:
        run_code(plan, r)
        for i in range(plan.n_checks):
            if r[plan.checks[2 * i]] != r[plan.checks[2 * i + 1]]:
                _HOOKS["plan_check"](plan, tuple([<object>args[i] for i in range(plan.n_inputs)]))
                raise RuntimeError("sizes do not agree")
        if plan.pending is not None:
            build_needed(plan, r)
        plan.sized = True
    memcpy(f.registers, r, plan.n_registers * sizeof(int64_t))
    return 0


cdef int fl_autotune = 0                # 0: off; else how often it was switched on
cdef int fl_autotune_rounds = 0


cdef int run_steps(Plan plan, PyObject** args, PyObject** outs) except -1:
    """Run on n_inputs tensors or numbers; outs receives n_outputs new tensors."""
    cdef Frame f
    cdef int i
    cdef int64_t size
    load_operands(plan, &f, args)
    for i in range(plan.n_buffers):
        f.owners[plan.n_inputs + i] = NULL
    try:
        for i in range(plan.n_buffers):
            size = f.registers[plan.buffers[2 * i + 1]] * _ITEMSIZE[plan.buffers[2 * i]]
            if size == 0 and not plan.returned[i]:
                f.places[plan.n_inputs + i] = NULL
                continue
            storage = new_storage(size)
            f.owners[plan.n_inputs + i] = <PyObject*>storage
            cpython_incref(<PyObject*>storage)
            f.places[plan.n_inputs + i] = storage.ptr
        for i in range(len(plan.steps)):
            launch(<Step>PyList_GET_ITEM(plan.steps, i), plan, &f)
        for i in range(plan.n_outputs):
            out = make_output(<Output>PyList_GET_ITEM(plan.outputs, i), plan, &f, args)
            outs[i] = <PyObject*>out
            cpython_incref(outs[i])
    finally:
        for i in range(plan.n_inputs, plan.n_inputs + plan.n_buffers):
            if f.owners[i] != NULL:
                cpython_decref(f.owners[i])
    return 0


# run_steps or, while autotuning is on, run_specialised
cdef int (*run_plan)(Plan plan, PyObject** args, PyObject** outs) except -1
run_plan = &run_steps


cdef int draw_random(Plan plan) except -1:
    seed, offset = _HOOKS["draw_random"](plan)
    plan.registers[<int>plan.random[0]] = seed
    plan.registers[<int>plan.random[1]] = offset
    plan.sized = False
    return 0


cdef Tensor make_output(Output o, Plan plan, Frame* f, PyObject** args):
    cdef Tensor t, whole
    cdef int d
    cdef int64_t sizes[MAX_RANK]
    cdef int64_t strides[MAX_RANK]
    for d in range(o.rank):
        sizes[d] = f.registers[o.sizes[d]]
    if o.place < plan.n_inputs:
        for d in range(o.rank):
            strides[d] = f.registers[o.strides[d]]
        return make_view(<Tensor>args[o.place], o.rank, sizes, strides, f.registers[o.offset] if o.offset >= 0 else 0)
    t = blank(o.code, o.rank)
    memcpy(t.dims, sizes, o.rank * sizeof(int64_t))
    if o.strides == NULL:
        row_major(t)
    else:
        for d in range(o.rank):
            t.dims[o.rank + d] = f.registers[o.strides[d]]
        examine(t)
    t.storage = <Storage>f.owners[o.place]
    t.first = t.storage.ptr + (f.registers[o.offset] * _ITEMSIZE[o.code] if o.offset >= 0 else 0)
    return t


cdef int launch(Step s, Plan plan, Frame* f) except -1:
    cdef int64_t block[128]
    cdef int i
    cdef int64_t extent, grain
    if s.kind == POINTWISE_STEP:
        return launch_pointwise_step(s, f)
    if s.kind == HOST_STEP:
        s.host(*[host_operand(s, f, i) for i in range(s.n_operands)], *[f.registers[s.params[i]] for i in range(s.n_params)])
        return 0
    extent = f.registers[s.extent]
    if extent <= 0:
        return 0
    if s.n_operands + s.n_params > 128:
        raise RuntimeError("a kernel with too many arguments")
    for i in range(s.n_operands):
        block[i] = <int64_t>f.places[s.places[i]]
        if s.offsets[i] >= 0:
            block[i] += f.registers[s.offsets[i]] * s.itemsizes[i]
    for i in range(s.n_params):
        block[s.n_operands + i] = f.registers[s.params[i]]
    grain = f.registers[s.grain]
    if extent <= grain:
        s.kernel(block, 0, extent)
    else:
        parallel_for(s.kernel, block, extent, grain if grain > 0 else 1, True)
    return 0


cdef size_t host_operand(Step s, Frame* f, int i):
    return <size_t>f.places[s.places[i]] + (f.registers[s.offsets[i]] * s.itemsizes[i] if s.offsets[i] >= 0 else 0)


cdef int launch_pointwise_step(Step s, Frame* f) except -1:
    cdef Nest nest
    cdef int64_t sizes[MAX_RANK]
    cdef int64_t strides[MAX_OPERANDS][MAX_RANK]
    cdef char* start[MAX_OPERANDS]
    cdef int i, d
    for d in range(s.rank):
        sizes[d] = f.registers[s.params[d]]
    for i in range(s.n_operands):
        start[i] = f.places[s.places[i]]
        if s.offsets[i] >= 0:
            start[i] += f.registers[s.offsets[i]] * s.itemsizes[i]
        for d in range(s.rank):
            strides[i][d] = f.registers[s.params[(i + 1) * s.rank + d]]
            if sizes[d] == 1:
                strides[i][d] = 0
    return launch_pointwise(s.pointwise, &nest, s.rank, sizes, strides, start, s.itemsizes)


# ------------------------------------------------------------------------------ recorded runs
cdef object run_recorded(NativeOp op, plan, PyObject** items):
    cdef PyObject* outs[MAX_PLACES]
    cdef Plan p
    cdef int i
    cdef int count
    memset(outs, 0, sizeof(outs))
    if isinstance(plan, PointwisePlan):
        count = (<PointwisePlan>plan).n_outputs
        run_pointwise(<PointwisePlan>plan, items, outs)
    else:
        count = (<Plan>plan).n_outputs
        run_plan(<Plan>plan, items, outs)
    results = []
    for i in range(count):
        results.append(<object>outs[i])
        cpython_decref(outs[i])
    if fl_grad_enabled and op.differentiable:
        if isinstance(plan, Plan):
            p = <Plan>plan
            if wants_grad(items, p.n_inputs):
                record_plan(op, p, items, tuple(results))
        elif wants_grad(items, (<PointwisePlan>plan).n_inputs):
            if count == 1:
                record_pointwise(op, <PointwisePlan>plan, items, <Tensor>results[0])
            else:
                record_outputs(op, <PointwisePlan>plan, items, results)
    return results[0] if count == 1 else _HOOKS["pack_results"](op.python, results)


cdef int record_outputs(NativeOp op, PointwisePlan plan, PyObject** items, list outputs) except -1:
    """Record an elementwise call with several outputs."""
    cdef BackwardRule rule = rule_of(op, plan, needs_mask(items, plan.n_inputs))
    cdef Node node = new_node(op, rule, items, plan.n_inputs, len(outputs))
    cdef Tensor out
    cdef int i
    for i in range(plan.n_inputs):
        if is_tensor(items[i]) and (<Tensor>items[i]).needs_grad and not same_shape(<Tensor>items[i], <Tensor>outputs[0]):
            node.broadcast = True
            if node.edges[i].saved == NULL:
                keep = shape_record(<Tensor>items[i])
                node.edges[i].saved = <PyObject*>keep
                cpython_incref(node.edges[i].saved)
    if rule.save_output:
        node.output_version = (<Tensor>outputs[0]).storage.version
        node.saved_output = tuple([alias_of(out) for out in outputs])
    node.output_shapes = tuple([shape_record(out) for out in outputs])
    for i, out in enumerate(outputs):
        if 6 <= out.code <= 11:
            attach(node, out, i)
    if fl_watch:
        watch(node)
    return 0


cdef int record_plan(NativeOp op, Plan plan, PyObject** items, tuple outputs) except -1:
    cdef BackwardRule rule
    cdef Node node
    cdef Tensor out
    cdef int i
    cdef int64_t mask = needs_mask(items, plan.n_inputs)
    cdef bint any_float = False
    for out in outputs:
        any_float |= 6 <= out.code <= 11
    if not any_float:
        return 0
    found = plan.rules.get(mask)
    if found is None:
        found = plan.rules[mask] = _HOOKS["backward_rule"](op.python, plan, mask)
    rule = <BackwardRule>found
    node = new_node(op, rule, items, plan.n_inputs, len(outputs))
    node.attrs = plan.spec["attrs"]
    if rule.save_output:
        node.output_version = (<Tensor>outputs[0]).storage.version
        node.saved_output = tuple([alias_of(out) for out in outputs]) if len(outputs) > 1 else alias_of(<Tensor>outputs[0])
    if len(outputs) > 1:
        node.output_shapes = tuple([shape_record(out) for out in outputs])
    for i, out in enumerate(outputs):
        if 6 <= out.code <= 11:
            attach(node, out, i)
    if fl_watch:
        watch(node)
    return 0


def run_planned(NativeOp op, plan, args):
    """Run a plan on its operands (tensors and numbers) and record the call; returns the result as the op packs it."""
    cdef PyObject* items[MAX_PLACES]
    cdef int i
    if len(args) > MAX_PLACES:
        raise RuntimeError("a plan with too many operands")
    for i in range(len(args)):
        items[i] = <PyObject*>args[i]
    return run_recorded(op, plan, items)


def execute(plan, args):
    """Run a Plan or PointwisePlan without recording; returns a tuple of outputs."""
    cdef PyObject* items[MAX_PLACES]
    cdef PyObject* outs[MAX_PLACES]
    cdef int i
    for i in range(len(args)):
        items[i] = <PyObject*>args[i]
    memset(outs, 0, sizeof(outs))
    if isinstance(plan, PointwisePlan):
        run_pointwise(<PointwisePlan>plan, items, outs)
    else:
        run_plan(<Plan>plan, items, outs)
    results = tuple([<object>outs[i] for i in range(plan.n_outputs)])
    for i in range(plan.n_outputs):
        cpython_decref(outs[i])
    return results


# ------------------------------------------------------------------------------ autotuning
def set_autotune(bint wanted):
    """Whether plans are specialised by measured time (`Plan.specialise`); returns what it was."""
    global fl_autotune, fl_autotune_rounds, run_plan
    before = fl_autotune > 0
    fl_autotune_rounds += wanted
    fl_autotune = fl_autotune_rounds if wanted else 0
    run_plan = &run_specialised if wanted else &run_steps
    return before


def autotune():
    """What `set_autotune` was told last."""
    return fl_autotune > 0


cdef Plan specialised(Plan plan, PyObject** args):
    """What to run in place of a plan that has `specialise`, which is asked when a size changes."""
    cdef int i
    cdef int* row
    cdef int64_t value
    cdef bint known = plan.special is not None and plan.special_threads == pool_threads \
        and plan.special_round == fl_autotune
    for i in range(plan.n_loads):
        row = plan.loads + 4 * i
        value = (<Tensor>args[row[1]]).numel_
        if row[2] < 2:
            value = (<Tensor>args[row[1]]).dims[(<Tensor>args[row[1]]).ndim_ * row[2] + row[3]]
        if plan.registers[row[0]] != value:
            plan.registers[row[0]] = value
            plan.sized = known = False
    if not known:
        found = plan.specialise(tuple([<object>args[i] for i in range(plan.n_inputs)]))
        plan.special, plan.special_threads, plan.special_round = found, pool_threads, fl_autotune
        return found
    return plan.special


cdef int run_specialised(Plan plan, PyObject** args, PyObject** outs) except -1:
    return run_steps(plan if plan.specialise is None else specialised(plan, args), args, outs)
