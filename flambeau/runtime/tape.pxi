# The tape: one Node a recorded op, and the engine that walks them backward. Nodes are not followed by the garbage
# collector and die iteratively, so chains of any length cost the same per op.

DEF INLINE_EDGES = 3

cdef struct Edge:
    PyObject* target         # Node, or leaf Tensor to accumulate into, or NULL: no gradient wanted
    PyObject* saved          # Tensor (with data or shape only), Python number, or NULL
    int64_t version          # of the saved tensor's storage
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
    cdef object pending          # gradient received so far: Tensor, or list of one an output
    cdef object hooks            # list of (output number, function or weak reference to a retaining tensor)
    cdef object source           # (file, line) when anomaly detection records it
    cdef bint released
    cdef bint broadcast          # some input's shape differs from the output's
    cdef object output_shapes    # tuple of shape records when there are several outputs

    def __dealloc__(self):
        cdef int i
        if self.edges != NULL:
            for i in range(self.n_inputs):
                bury(self.edges[i].target)
                bury(self.edges[i].saved)
            if self.edges != self.inline_edges:
                free(self.edges)
            dig()

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

    @property
    def rule_(self):
        return self.rule

    def role_list(self):
        cdef BackwardRule rule = <BackwardRule>self.rule
        return ([rule.roles[i] for i in range(rule.n_roles)], list(rule.all_targets))

    @property
    def attributes(self):
        return self.attrs

    @property
    def recorded_at(self):
        return self.source

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

    def register_hook(self, function):
        """Call function(grad) when this node's gradient is complete; what it returns replaces it."""
        return self._add_hook(0, function)

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

    cdef int check(self) except -1:
        """Raise if the saved values are gone or were written over since."""
        cdef int i
        cdef Tensor t
        if self.released:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                f"already been freed). Saved values of {self.op.backward_name} were freed by the first backward; "
                "pass retain_graph=True to it to keep them.")
        for i in range(self.n_inputs):
            if self.edges[i].saved != NULL and is_tensor(self.edges[i].saved):
                t = <Tensor>self.edges[i].saved
                if t.storage is not None and t.storage.version != self.edges[i].version:
                    self.stale(i, t.storage.version, self.edges[i].version)
        if self.saved_output is not None and not isinstance(self.saved_output, tuple):
            t = <Tensor>self.saved_output
            if t.storage is not None and t.storage.version != self.output_version:
                self.stale(-1, t.storage.version, self.output_version)
        return 0

    cdef int stale(self, int i, int64_t now, int64_t then) except -1:
        what = "its output" if i < 0 else f"input {i}"
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{self.op.name}] saved {what} at version {then}, it is at version {now} now. "
            "hint: use the out-of-place form of the write, or clone() the tensor before writing")

    cdef void release(self):
        cdef int i
        cdef bint had = self.saved_output is not None
        for i in range(self.n_inputs):
            if self.edges[i].saved != NULL:
                if is_tensor(self.edges[i].saved) and (<Tensor>self.edges[i].saved).storage is not None:
                    had = True
                bury(self.edges[i].saved)
                self.edges[i].saved = NULL
        self.saved_output = None
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

    def __init__(self, save, shape, save_output, roles, targets, executor, graph=None, passes=(), all_targets=()):
        self.all_targets = all_targets
        self.plans, self.graph, self.passes = {}, graph, passes
        self.save, self.shape, self.save_output, self.executor = save, shape, save_output, executor
        self.n_roles, self.n_targets = len(roles), len(targets)
        if self.n_roles > 16 or self.n_targets > 16:
            raise ValueError("a compiled derivative has at most 16 operands and 16 results")
        for i, r in enumerate(roles):
            self.roles[i] = r
        for i, r in enumerate(targets):
            self.targets[i] = r


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
    if n <= INLINE_EDGES:
        node.edges = node.inline_edges
    else:
        node.edges = <Edge*>malloc(n * sizeof(Edge))
    for i in range(n):
        e = &node.edges[i]
        e.target, e.saved, e.number, e.version = NULL, NULL, 0, 0
        if not is_tensor(args[i]):
            if (rule.save >> i) & 1:
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
        if (rule.save >> i) & 1:
            e.saved = <PyObject*>t
            e.version = t.storage.version if t.storage is not None else 0
            cpython_incref(e.saved)
        elif (rule.shape >> i) & 1:
            keep = shape_record(t)
            e.saved = <PyObject*>keep
            cpython_incref(e.saved)
    return node


cdef inline void attach(Node node, Tensor out, int number):
    out.node, out.output_nr, out.needs_grad = node, number, True
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
    return node


def rebase(Tensor target, Tensor result):
    """After an in-place write: target's history is from now on that of `result`."""
    target.node, target.output_nr, target.needs_grad = result.node, result.output_nr, result.needs_grad
    if target.node is not None and (<Node>target.node).saved_output is not None:
        (<Node>target.node).saved_output = alias_of(target)
        (<Node>target.node).output_version = target.storage.version


# ------------------------------------------------------------------------------ the engine
cdef class Heap:
    """Nodes waiting, the latest recorded first: when a node is taken all its users have been."""
    cdef PyObject** items
    cdef size_t used, room

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.used):
            cpython_decref(self.items[i])
        free(self.items)

    cdef void push(self, Node node):
        cdef size_t i, up
        if self.used == self.room:
            self.room = 2 * self.room if self.room else 64
            self.items = <PyObject**>realloc(self.items, self.room * sizeof(PyObject*))
        Py_INCREF(node)
        i = self.used
        self.used += 1
        while i:
            up = (i - 1) >> 1
            if (<Node>self.items[up]).sequence >= node.sequence:
                break
            self.items[i] = self.items[up]
            i = up
        self.items[i] = <PyObject*>node

    cdef Node pop(self):
        cdef Node top = <Node>self.items[0]
        cdef PyObject* last
        cdef size_t i = 0, down
        self.used -= 1
        last = self.items[self.used]
        while True:
            down = 2 * i + 1
            if down >= self.used:
                break
            if down + 1 < self.used and (<Node>self.items[down + 1]).sequence > (<Node>self.items[down]).sequence:
                down += 1
            if (<Node>last).sequence >= (<Node>self.items[down]).sequence:
                break
            self.items[i] = self.items[down]
            i = down
        self.items[i] = last
        cpython_decref(<PyObject*>top)
        return top


cdef class Walk:
    """The state of one backward pass."""
    cdef Heap heap
    cdef dict leaves             # leaf tensor -> gradient
    cdef dict captured           # (node, output number) -> gradient, for autograd.grad
    cdef set wanted
    cdef bint create_graph
    cdef bint keep

    cdef int deliver(self, PyObject* target, int number, Tensor grad) except -1:
        cdef Node node
        if Py_TYPE(target) is not <PyTypeObject*>Node:
            leaf = <Tensor>target
            old = self.leaves.get(leaf)
            self.leaves[leaf] = grad if old is None else binary(OP_add, old, grad)
            return 0
        node = <Node>target
        if node.n_outputs == 1:
            if node.pending is None:
                node.pending = grad
                self.heap.push(node)
            else:
                node.pending = binary(OP_add, node.pending, grad)
            return 0
        if node.pending is None:
            node.pending = [None] * node.n_outputs
            self.heap.push(node)
        old = (<list>node.pending)[number]
        (<list>node.pending)[number] = grad if old is None else binary(OP_add, old, grad)
        return 0

    cdef int run(self) except -1:
        cdef Node node
        while self.heap.used:
            node = self.heap.pop()
            grad = node.pending
            node.pending = None
            if node.hooks is not None:
                grad = self.run_hooks(node, grad)
            if self.wanted is not None:
                self.capture(node, grad)
            self.step(node, grad)
        return 0

    cdef object run_hooks(self, Node node, grad):
        for number, function in list(node.hooks):
            g = grad[number] if isinstance(grad, list) else grad
            if isinstance(function, weakref_ref):
                t = function()
                if t is not None and g is not None:
                    t.grad = g if t.grad is None else binary(OP_add, t.grad, g)
                continue
            new = function(g)
            if new is not None:
                if isinstance(grad, list):
                    grad[number] = new
                else:
                    grad = new
        return grad

    cdef int capture(self, Node node, grad) except -1:
        cdef int i
        for i in range(node.n_outputs):
            if (node, i) in self.wanted:
                self.captured[(node, i)] = grad[i] if isinstance(grad, list) else grad
        return 0

    cdef int step(self, Node node, grad) except -1:
        cdef BackwardRule rule = <BackwardRule>node.rule
        cdef int i
        if node.released:
            node.check()
        if self.create_graph or rule.executor is None:
            grads = _HOOKS["derivative"](node, grad)
            for i in range(node.n_inputs):
                if node.edges[i].target != NULL and grads[i] is not None:
                    self.deliver(node.edges[i].target, node.edges[i].number, <Tensor>grads[i])
        else:
            self.compiled(node, rule, grad)
        if not self.keep:
            node.release()
        return 0

    cdef int compiled(self, Node node, BackwardRule rule, grad) except -1:
        """Run the derivative's kernels and hand on what they give."""
        cdef PyObject* feed[16]
        cdef PyObject* results[16]
        cdef int i, r
        cdef Tensor g
        node.check()
        for r in rule.passes:
            self.hand_on(node, r, <Tensor>grad)
        if rule.n_targets == 0:
            return 0
        for i in range(rule.n_roles):
            r = rule.roles[i]
            if r < 100 and node.n_outputs > 1 and (<list>grad)[r] is None:
                (<list>grad)[r] = _HOOKS["zeros"](node.output_shapes[r])
            if r < 100:
                feed[i] = <PyObject*>(grad[r] if node.n_outputs > 1 else grad)
            elif r < 200:
                feed[i] = node.edges[r - 100].saved
            elif isinstance(node.saved_output, tuple):
                feed[i] = <PyObject*>((<tuple>node.saved_output)[r - 200])
            else:
                feed[i] = <PyObject*>node.saved_output
        memset(results, 0, sizeof(results))
        if isinstance(rule.executor, PointwisePlan):
            run_pointwise(<PointwisePlan>rule.executor, feed, results)
        else:
            key = make_signature(feed, rule.n_roles, -1, <PyObject*>None)
            plan = rule.plans.get(key) if key is not None else None
            if plan is None:
                plan = rule.executor(*[<object>feed[i] for i in range(rule.n_roles)])
                if key is not None:
                    rule.plans[key] = plan
            if isinstance(plan, PointwisePlan):
                run_pointwise(<PointwisePlan>plan, feed, results)
            else:
                run_plan(<Plan>plan, feed, results)
        for i in range(rule.n_targets):
            g = <Tensor>results[i]
            cpython_decref(results[i])
            self.hand_on(node, rule.targets[i], g)
        return 0

    cdef int hand_on(self, Node node, int r, Tensor g) except -1:
        """Deliver to input r, summed over the axes that broadcasting made."""
        if node.broadcast and node.edges[r].saved != NULL and not same_shape(g, <Tensor>node.edges[r].saved):
            g = <Tensor>_HOOKS["sum_to"](g, <object>node.edges[r].saved)
        return self.deliver(node.edges[r].target, node.edges[r].number, g)


def backward_from(Tensor root):
    """root.backward() for a one-element root: its gradient is 1."""
    cdef Tensor one
    if not root.needs_grad or root.numel_ != 1 or not (root.code == 8 or root.code == 9) or fl_mode != 0:
        return False
    one = new_like_shape(root.code, root.ndim_, root.dims)
    if root.code == 8:
        (<float*>one.first)[0] = 1.0
    else:
        (<double*>one.first)[0] = 1.0
    run_backward([root], [one], False, False)
    return True


def run_backward(list roots, list grads, bint keep_graph, bint create_graph, inputs=None, bint accumulate=True):
    """Walk the tape from `roots` with output gradients `grads`.

    With `inputs` None every reached leaf's .grad grows; otherwise only theirs (accumulate) or their gradients are
    returned, None for those not reached. Leaves change only after the whole walk has succeeded.
    """
    cdef Walk walk = Walk.__new__(Walk)
    cdef Tensor root, leaf
    cdef bint before = fl_grad_enabled
    cdef bint unshared
    walk.heap, walk.leaves, walk.captured = Heap.__new__(Heap), {}, {}
    walk.create_graph, walk.keep = create_graph, keep_graph
    if inputs is not None:
        walk.wanted = {((<Tensor>t).node, (<Tensor>t).output_nr) for t in inputs if (<Tensor>t).node is not None}
    set_grad_mode(create_graph)
    try:
        for root, grad in zip(roots, grads):
            if root.node is not None:
                walk.deliver(<PyObject*>root.node, root.output_nr, grad)
            else:
                walk.deliver(<PyObject*>root, 0, grad)
        walk.run()
        results = None
        if inputs is None:
            while walk.leaves:
                pair = walk.leaves.popitem()
                unshared = Py_REFCNT(PyTuple_GET_ITEM(pair, 1)) == 1
                accumulate_into(<Tensor>pair[0], pair[1], create_graph, unshared)
        else:
            results = []
            for t in inputs:
                node = (<Tensor>t).node
                g = walk.leaves.get(t) if node is None else walk.captured.get((node, (<Tensor>t).output_nr))
                if g is not None and node is None:
                    g = leaf_hooks(<Tensor>t, g)
                results.append(g)
            if accumulate:
                for t, g in zip(inputs, results):
                    if g is not None:
                        accumulate_into(<Tensor>t, g, create_graph, False)
                results = None
    finally:
        while walk.heap.used:            # after an error: forget what was under way
            walk.heap.pop().pending = None
        set_grad_mode(before)
    return results


cdef leaf_hooks(Tensor leaf, grad):
    if leaf.extra is not None and "_hooks" in leaf.extra:
        for entry in list(leaf.extra["_hooks"]):
            new = entry[1](grad)
            if new is not None:
                grad = new
    return grad


cdef int accumulate_into(Tensor leaf, grad, bint create_graph, bint unshared) except -1:
    """Add to leaf.grad; a gradient that nothing else holds becomes it without a copy."""
    cdef Tensor g
    new = leaf_hooks(leaf, grad)
    g = <Tensor>new
    if leaf.grad_ is None:
        unshared = unshared and new is grad and g.base is None and g.contiguous_ and Py_REFCNT(<PyObject*>g.storage) == 1
        leaf.grad_ = g if create_graph or unshared else _HOOKS["own_copy"](g)
    elif create_graph:
        leaf.grad_ = binary(OP_add, leaf.grad_, g)
    else:
        inplace(OP_add, leaf.grad_, g)
    if leaf.extra is not None and "_accumulated_hooks" in leaf.extra:
        for entry in list(leaf.extra["_accumulated_hooks"]):
            entry[1](leaf)
    return 0
