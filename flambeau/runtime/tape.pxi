# The tape: one Node a recorded op, and the engine that walks them backward. Nodes are not followed by the garbage
# collector and die iteratively, so chains of any length cost the same per op.

DEF INLINE_EDGES = 3
DEF OUTPUT_RANK = 4          # sizes of a single output that a node notes
DEF WATCH_SAVED = 1          # saved tensors go through the hooks of saved_tensors_hooks

cdef struct Edge:
    PyObject* target         # Node, or leaf Tensor to accumulate into, or NULL: no gradient wanted
    PyObject* saved          # Tensor (with data or shape only), Python number, or NULL
    uint32_t version         # of the saved tensor's storage, modulo 2**32
    int number               # which output of `target`

cdef int64_t _sequence = 0
cdef PyObject** _grave = NULL
cdef size_t _grave_used = 0, _grave_room = 0
cdef bint _digging = False


cdef void bury(PyObject* item) noexcept:
    """Drop a reference later, from the outermost dealloc: no recursion along the graph."""
    global _grave, _grave_used, _grave_room
    if item == NULL:
        return
    if _grave_used == _grave_room:
        _grave_room = 2 * _grave_room if _grave_room else 1024
        _grave = <PyObject**>realloc(_grave, _grave_room * sizeof(PyObject*))
    _grave[_grave_used] = item
    _grave_used += 1


cdef void dig() noexcept:
    global _digging, _grave_used
    cdef PyObject* item
    if _digging:
        return
    _digging = True
    while _grave_used:
        _grave_used -= 1
        item = _grave[_grave_used]
        cpython_decref(item)
    _digging = False


cdef extern from "frames.h":
    PyObject* frames_user(int* byte) noexcept
    int frames_line(PyObject* code, int byte)
    void frames_set_folder(const char* folder, Py_ssize_t size) noexcept


def set_own_folder(str folder):
    """Frames of files below `folder` are not the program's: nodes note the line of the frame outside it."""
    name = folder.encode()
    frames_set_folder(name, len(name))


@cython.no_gc
@cython.freelist(1024)
cdef class Node:
    """A recorded op: where gradients of its inputs go, and what its derivative needs."""
    cdef NativeOp op
    cdef object rule             # BackwardRule
    cdef object attrs            # dict of the call's attributes (ops whose derivative runs in Python)
    cdef Edge* edges
    cdef Edge inline_edges[INLINE_EDGES]
    cdef int n_inputs, n_outputs
    cdef object saved_output     # alias of the output(s) without this node: Tensor, or tuple of them
    cdef int64_t output_version
    cdef int64_t sequence
    cdef int64_t walk            # that looked at this node last for what it leads to,
    cdef bint leads              # and whether a gradient is wanted here or further on
    cdef object pending          # gradient received so far: Tensor, or list of one an output
    cdef object hooks            # list of (output number, function or weak reference to a retaining tensor)
    cdef PyObject* code          # of the program's function that made the call, NULL if there is none,
    cdef int byte                # and the place of the call in it
    cdef object packed           # list of [input or -1 - output, packed value, unpack function, shape record]
    cdef object info             # what users and hooks keep with the node, a dict made when first needed
    cdef bint released
    cdef bint broadcast          # some input's shape differs from the output's
    cdef object output_shapes    # tuple of shape records when there are several outputs
    cdef uint8_t out_code, out_rank      # of a single output, for whoever explains the graph
    cdef uint32_t[OUTPUT_RANK] out_dims

    def __dealloc__(self):
        cdef int i
        if self.edges != NULL:
            for i in range(self.n_inputs):
                bury(self.edges[i].target)
                bury(self.edges[i].saved)
            if self.edges != self.inline_edges:
                free(self.edges)
            dig()
        if self.code != NULL:
            cpython_decref(self.code)

    def name(self):
        return self.op.backward_name

    def __repr__(self):
        return f"<{self.op.backward_name} object at {hex(<size_t><void*>self)}>"

    @property
    def next_functions(self):
        cdef int i
        out = []
        for i in range(self.n_inputs):
            if self.edges[i].target == NULL:
                out.append((None, 0))
            elif Py_TYPE(self.edges[i].target) is <PyTypeObject*>Node:
                out.append((<object>self.edges[i].target, self.edges[i].number))
            else:
                out.append((_HOOKS["accumulate_node"](<object>self.edges[i].target), 0))
        return tuple(out)

    @property
    def operation(self):
        return self.op

    @property
    def output_shapes_(self):
        return self.output_shapes

    def output_forms(self):
        """[(shape, dtype)] of the outputs; the shape ends in an Ellipsis where it has more axes than are noted."""
        if self.output_shapes is not None:
            return [None if t is None else (tuple(t.shape), t.dtype) for t in self.output_shapes]
        shape = tuple([self.out_dims[d] for d in range(min(self.out_rank, OUTPUT_RANK))])
        return [(shape if self.out_rank <= OUTPUT_RANK else (*shape, ...), _DTYPES[self.out_code])]

    @property
    def rule_(self):
        return self.rule

    @property
    def attributes(self):
        return self.attrs

    @property
    def recorded_at(self):
        """(file, line) of the program's call, None where no line of the program led to it."""
        if self.code == NULL:
            return None
        return (<object>self.code).co_filename, frames_line(self.code, self.byte)

    def __getattr__(self, name):
        """_saved_self, _saved_other, _saved_result, ...: what the call saved, by the name of the operand."""
        if isinstance(name, str) and name.startswith("_saved_"):
            return _HOOKS["saved_by_name"](self, name[7:])
        raise AttributeError(f"'{self.op.backward_name}' object has no attribute '{name}'")

    @property
    def metadata(self):
        """A dict for whoever looks at the graph."""
        if self.info is None:
            self.info = {}
        return self.info

    def saved_bytes(self):
        """The bytes of memory that the node keeps for the backward pass."""
        cdef int i
        cdef Tensor t
        total = {}
        for i in range(self.n_inputs):
            if self.edges[i].saved != NULL and is_tensor(self.edges[i].saved):
                t = <Tensor>self.edges[i].saved
                if t.storage is not None:
                    total[<size_t>t.storage.ptr] = t.storage.nbytes
        for s in (self.saved_output if isinstance(self.saved_output, tuple) else (self.saved_output,)):
            if s is not None:
                t = <Tensor>s
                total[<size_t>t.storage.ptr] = t.storage.nbytes
        return total

    def needs(self):
        """For each input whether a gradient is wanted."""
        return tuple([self.edges[i].target != NULL for i in range(self.n_inputs)])

    def inputs(self):
        """What was saved of each input: a Tensor (shape only if its values are not needed), a number or None."""
        self.check()
        return [<object>self.edges[i].saved if self.edges[i].saved != NULL else None for i in range(self.n_inputs)]

    def outputs(self):
        """The saved output(s), joined to the tape again; None where they are not needed."""
        cdef Tensor t
        self.check()
        saved = self.saved_output
        if saved is None:
            return None
        joined = []
        for i, s in enumerate(saved if isinstance(saved, tuple) else (saved,)):
            if s is None:
                joined.append(None)
                continue
            t = alias_of(<Tensor>s)
            t.node, t.output_nr, t.needs_grad = self, i, True
            joined.append(t)
        return tuple(joined) if isinstance(saved, tuple) else joined[0]

    def join(self, Tensor output, int number):
        """`output` number `number` of this node, on the tape again."""
        cdef Tensor t = alias_of(output)
        t.node, t.output_nr, t.needs_grad = self, number, True
        return t

    def register_hook(self, fn):
        """Call fn(gradients of the inputs, gradients of the outputs) after this node's step; a result replaces the former."""
        return _HOOKS["node_hook"](self, -1, fn)

    def register_prehook(self, fn):
        """Call fn(gradients of the outputs) before this node's step; a result replaces them."""
        return _HOOKS["node_hook"](self, 0, fn)

    def hook_list(self):
        """[(number, function)] of the hooks; number -1: after the step."""
        return [tuple(entry) for entry in self.hooks or ()]

    cdef bint hooked_after(self):
        if self.hooks is not None:
            for entry in self.hooks:
                if entry[0] < 0:
                    return True
        return False

    def _add_hook(self, int number, function):
        if self.hooks is None:
            self.hooks = []
        entry = [number, function]
        self.hooks.append(entry)
        return entry

    def _remove_hook(self, entry):
        if self.hooks is not None:
            self.hooks = [h for h in self.hooks if h is not entry]

    cdef add_retained(self, Tensor t):
        self._add_hook(t.output_nr, weakref_ref(t))

    cdef int pack(self, hook, unpack) except -1:
        """Hand the saved tensors to `hook`; what it returns is kept in their place until the backward pass."""
        cdef int i
        cdef Tensor t
        self.packed = []
        for i in range(self.n_inputs):
            if self.edges[i].saved != NULL and is_tensor(self.edges[i].saved) \
                    and (<Tensor>self.edges[i].saved).storage is not None:
                t = <Tensor>self.edges[i].saved
                shape = shape_record(t)
                self.packed.append([i, hook(t), unpack, shape])
                self.put_saved(i, shape)
        if self.saved_output is not None:
            several = isinstance(self.saved_output, tuple)
            outputs = list(self.saved_output) if several else [self.saved_output]
            for i in range(len(outputs)):
                if outputs[i] is not None:
                    self.packed.append([-1 - i, hook(outputs[i]), unpack, None])
                    outputs[i] = None
            self.saved_output = tuple(outputs) if several else None
        if not self.packed:
            self.packed = None
        return 0

    cdef void put_saved(self, int i, object value):
        cpython_incref(<PyObject*>value)
        bury(self.edges[i].saved)
        self.edges[i].saved = <PyObject*>value
        dig()

    cdef int unpack(self) except -1:
        """The saved tensors back from the hooks."""
        cdef int i
        cdef Tensor t
        outputs = None
        for place, value, function, shape in self.packed:
            found = function(value)
            if not isinstance(found, Tensor):
                raise TypeError(f"the unpack hook of saved_tensors_hooks returned a {type(found).__name__}, not a Tensor")
            t = <Tensor>found
            if place >= 0:
                if not same_shape(t, <Tensor>shape) or t.code != (<Tensor>shape).code:
                    raise RuntimeError(f"the unpack hook of saved_tensors_hooks returned {t.dtype} of shape {tuple(t.shape)}; "
                                       f"{self.op.name} saved {shape.dtype} of shape {tuple(shape.shape)}")
                if fl_grad_enabled and self.edges[<int>place].target != NULL:
                    t = self.joined(<int>place, t)
                self.put_saved(place, t)
                self.edges[<int>place].version = <uint32_t>t.storage.version
                continue
            if isinstance(self.saved_output, tuple) or self.n_outputs > 1:
                if outputs is None:
                    outputs = list(self.saved_output) if self.saved_output is not None else [None] * self.n_outputs
                outputs[-1 - place] = found
            else:
                self.saved_output = found
            self.output_version = t.storage.version
        if outputs is not None:
            self.saved_output = tuple(outputs)
        return 0

    cdef Tensor joined(self, int i, Tensor value):
        """An unpacked input on the tape again, where the packed one was: for derivatives of derivatives."""
        cdef Tensor t
        cdef PyObject* target = self.edges[i].target
        if Py_TYPE(target) is <PyTypeObject*>Node:
            t = alias_of(value)
            t.node, t.output_nr, t.needs_grad = <Node>target, self.edges[i].number, True
            return t
        if (<Tensor>target).storage is value.storage:
            return <Tensor>target
        return <Tensor>_HOOKS["stand_in"](<object>target, value)

    cdef void repack(self):
        """After a backward pass that keeps the graph: only the packed values stay."""
        cdef int place
        for entry in self.packed:
            place = entry[0]
            if place >= 0:
                self.put_saved(place, entry[3])
        self.saved_output = None

    cdef int check(self) except -1:
        """Raise if the saved values are gone or were written over since; unpack them where hooks have them."""
        cdef int i
        cdef Tensor t
        if self.packed is not None:
            return self.unpack()
        if self.released:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                f"already been freed). Saved values of {self.op.backward_name} were freed by the first backward; "
                "pass retain_graph=True to it to keep them.")
        for i in range(self.n_inputs):
            if self.edges[i].saved != NULL and is_tensor(self.edges[i].saved):
                t = <Tensor>self.edges[i].saved
                if t.storage is not None and <uint32_t>t.storage.version != self.edges[i].version:
                    self.stale(i, t, self.edges[i].version)
        if self.saved_output is not None and not isinstance(self.saved_output, tuple):
            t = <Tensor>self.saved_output
            if t.storage is not None and t.storage.version != self.output_version:
                self.stale(-1, t, self.output_version)
        return 0

    cdef int stale(self, int i, Tensor saved, int64_t then) except -1:
        """The memory of a saved tensor was written to: raise if the write touched what it shows."""
        note = overwritten(saved, then)
        if note is not None:
            raise RuntimeError(_HOOKS["stale"](self.op.name, saved, i, then, saved.storage.version, note, self.recorded_at))
        return 0

    cdef void release(self):
        """Let go of saved values; sizes and numbers stay, so that a node which saved nothing else can be walked again."""
        cdef int i
        cdef bint had = self.saved_output is not None
        for i in range(self.n_inputs):
            if self.edges[i].saved != NULL and is_tensor(self.edges[i].saved) \
                    and (<Tensor>self.edges[i].saved).storage is not None:
                had = True
                bury(self.edges[i].saved)
                self.edges[i].saved = NULL
        had |= self.packed is not None
        self.saved_output = self.packed = None
        self.released = had
        dig()


cdef class BackwardRule:
    """How one op's gradient is computed for one set of needed inputs; made once by the compiler.

    `save` and `shape` are bit masks over the inputs: values kept, and only sizes kept. `roles` says what the executor
    is fed with: g (< 100) the gradient of output g, 100 + i input i, 200 + j output j. `targets` says which input each
    result belongs to. `executor` is a PointwisePlan, or a function that makes the plan for given operands (kept in `plans` by their
    signature), or None: the op's derivative runs in Python.
    """
    cdef public int64_t save, shape
    cdef public bint save_output
    cdef public object executor
    cdef public dict plans
    cdef public object graph             # the traced derivative, replayed under create_graph
    cdef int roles[16]
    cdef int n_roles
    cdef int targets[16]
    cdef int n_targets
    cdef public object all_targets       # which input each output of `graph` belongs to
    cdef public tuple passes             # inputs whose gradient is the incoming one itself
    cdef public object narrow            # function(bit mask of inputs) -> the rule for these alone; None: there is none
    cdef dict narrower                   # what it gave, by the mask

    def __init__(self, save, shape, save_output, roles, targets, executor, graph=None, passes=(), all_targets=()):
        self.all_targets = all_targets
        self.plans, self.narrower, self.graph, self.passes = {}, {}, graph, passes
        self.save, self.shape, self.save_output, self.executor = save, shape, save_output, executor
        self.n_roles, self.n_targets = len(roles), len(targets)
        if self.n_roles > 16 or self.n_targets > 16:
            raise ValueError("a compiled derivative has at most 16 operands and 16 results")
        for i, r in enumerate(roles):
            self.roles[i] = r
        for i, r in enumerate(targets):
            self.targets[i] = r

    def role_list(self):
        return [self.roles[i] for i in range(self.n_roles)], list(self.all_targets)

    cdef BackwardRule narrowed(self, int64_t mask):
        """The rule for the gradients of some inputs only, fed with what this one is."""
        if self.narrow is None:
            return self
        found = self.narrower.get(mask)
        if found is None:
            found = self.narrower[mask] = self.narrow(mask)
        return <BackwardRule>found


# ------------------------------------------------------------------------------ recording
cdef inline bint wants_grad(PyObject** args, int n) noexcept:
    cdef int i
    for i in range(n):
        if is_tensor(args[i]) and (<Tensor>args[i]).needs_grad:
            return True
    return False


cdef inline int64_t needs_mask(PyObject** args, int n) noexcept:
    cdef int i
    cdef int64_t mask = 0
    for i in range(n):
        if is_tensor(args[i]) and (<Tensor>args[i]).needs_grad:
            mask |= <int64_t>1 << i
    return mask


cdef Node new_node(NativeOp op, BackwardRule rule, PyObject** args, int n, int n_outputs):
    """A node for one call; args are Tensors, numbers or None."""
    global _sequence
    cdef Node node = Node.__new__(Node)
    cdef Edge* e
    cdef Tensor t
    cdef int i
    node.op, node.rule, node.n_inputs, node.n_outputs = op, rule, n, n_outputs
    _sequence += 1
    node.sequence = _sequence
    node.code = frames_user(&node.byte)
    if n <= INLINE_EDGES:
        node.edges = node.inline_edges
    else:
        node.edges = <Edge*>malloc(n * sizeof(Edge))
    for i in range(n):
        e = &node.edges[i]
        e.target, e.saved, e.number, e.version = NULL, NULL, 0, 0
        if not is_tensor(args[i]):
            if (rule.save >> min(i, 63)) & 1:
                e.saved = args[i]
                cpython_incref(e.saved)
            continue
        t = <Tensor>args[i]
        if t.needs_grad:
            if t.base is not None and t.node is not None and t.view_version != t.storage.version:
                _HOOKS["stale_view"](t)
            if t.node is not None:
                e.target, e.number = <PyObject*>t.node, t.output_nr
            else:
                e.target = <PyObject*>t
            cpython_incref(e.target)
        if (rule.save >> min(i, 63)) & 1:
            e.saved = <PyObject*>t
            if t.storage is not None:
                e.version = <uint32_t>t.storage.version
                t.storage.saved = True
            cpython_incref(e.saved)
        elif (rule.shape >> min(i, 63)) & 1:
            keep = shape_record(t)
            e.saved = <PyObject*>keep
            cpython_incref(e.saved)
    return node


def set_saved_hooks(bint wanted):
    """Whether this thread's saved tensors go through the hooks that the hook 'saved_hooks' returns."""
    fl_set_watch(fl_watch | WATCH_SAVED if wanted else fl_watch & ~WATCH_SAVED)


cdef int watch(Node node) except -1:
    """After a node is complete: its saved tensors to the hooks."""
    if fl_watch & WATCH_SAVED:
        pack, unpack = _HOOKS["saved_hooks"]()
        node.pack(pack, unpack)
    return 0


cdef inline void attach(Node node, Tensor out, int number):
    cdef int d
    out.node, out.output_nr, out.needs_grad = node, number, True
    node.out_code, node.out_rank = out.code, out.ndim_
    for d in range(min(out.ndim_, OUTPUT_RANK)):
        node.out_dims[d] = out.dims[d]
    if out.base is not None:
        out.view_version = out.storage.version


def record(NativeOp op, BackwardRule rule, args, outputs, attrs, bint save_outputs):
    """Put a call made from Python on the tape: args are its operands, outputs its floating results (None: no gradient)."""
    cdef int i, n = len(args)
    cdef PyObject** items = <PyObject**>malloc((n if n else 1) * sizeof(PyObject*))
    cdef Node node
    cdef Tensor t
    for i in range(n):
        items[i] = <PyObject*>args[i]
    try:
        node = new_node(op, rule, items, n, len(outputs))
    finally:
        free(items)
    node.attrs = attrs
    if save_outputs:
        saved = tuple([None if o is None else alias_of(<Tensor>o) for o in outputs])
        node.saved_output = saved if len(outputs) > 1 else saved[0]
        if len(outputs) == 1:
            node.output_version = (<Tensor>outputs[0]).storage.version
    if len(outputs) > 1:
        node.output_shapes = tuple([None if o is None else shape_record(<Tensor>o) for o in outputs])
    for i in range(len(outputs)):
        if outputs[i] is not None:
            t = outputs[i]
            if 6 <= t.code <= 11:
                attach(node, t, i)
    if fl_watch:
        watch(node)
    return node


def rebase(Tensor target, Tensor result):
    """After an in-place write: target's history is from now on that of `result`."""
    target.node, target.output_nr, target.needs_grad = result.node, result.output_nr, result.needs_grad
    if target.node is not None and (<Node>target.node).saved_output is not None:
        (<Node>target.node).saved_output = alias_of(target)
        (<Node>target.node).output_version = target.storage.version
