# The backward engine: walks nodes from the latest recorded to the first.

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


cdef int by_sequence(const void* a, const void* b) noexcept:
    cdef int64_t x = (<Node>(<PyObject**>a)[0]).sequence, y = (<Node>(<PyObject**>b)[0]).sequence
    return (x > y) - (x < y)


cdef int64_t _walks = 0


cdef class Walk:
    """The state of one backward pass."""
    cdef Heap heap
    cdef dict leaves             # leaf tensor -> gradient
    cdef dict captured           # (node, output number) -> gradient, for autograd.grad
    cdef set wanted              # (node, output number)
    cdef set wanted_leaves
    cdef int64_t number          # of a walk for some inputs only, else 0
    cdef bint create_graph
    cdef bint keep
    cdef bint examined           # anomaly detection looks at every gradient

    cdef int deliver(self, PyObject* target, int number, Tensor grad) except -1:
        cdef Node node
        if self.number and not self.leads_on(target):
            return 0
        if Py_TYPE(target) is not <PyTypeObject*>Node:
            leaf = <Tensor>target
            old = self.leaves.get(leaf)
            self.leaves[leaf] = grad if old is None else binary(OP_add, old, grad)
            return 0
        node = <Node>target
        if not is_plain(<PyObject*>grad):           # sparse, say: what kernels read is dense
            grad = _HOOKS["plain_gradient"](grad)
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

    cdef int seek(self, list roots, inputs) except -1:
        """Find the nodes that lead to `inputs`: only they are walked."""
        global _walks
        cdef PyObject** nodes = NULL
        cdef size_t used = 0, room = 0, done = 0, k
        cdef Node node
        cdef PyObject* target
        cdef int i
        _walks += 1
        self.number = _walks
        self.wanted = {((<Tensor>t).node, (<Tensor>t).output_nr) for t in inputs if (<Tensor>t).node is not None}
        self.wanted_leaves = {t for t in inputs if (<Tensor>t).node is None}
        ends = {pair[0] for pair in self.wanted}
        pending = [(<Tensor>t).node for t in roots if (<Tensor>t).node is not None]
        for start in pending:
            self.note(<PyObject*>start, &nodes, &used, &room)
        while done < used:
            node = <Node>nodes[done]
            done += 1
            for i in range(node.n_inputs):
                target = node.edges[i].target
                if target != NULL and Py_TYPE(target) is <PyTypeObject*>Node:
                    self.note(target, &nodes, &used, &room)
        qsort(nodes, used, sizeof(PyObject*), <int (*)(const void*, const void*) noexcept nogil>&by_sequence)
        for k in range(used):
            node = <Node>nodes[k]
            node.leads = node in ends or self.needed(node) != 0
        free(nodes)
        return 0

    cdef void note(self, PyObject* target, PyObject*** nodes, size_t* used, size_t* room) noexcept:
        if (<Node>target).walk == self.number:
            return
        (<Node>target).walk = self.number
        if used[0] == room[0]:
            room[0] = 2 * room[0] if room[0] else 64
            nodes[0] = <PyObject**>realloc(nodes[0], room[0] * sizeof(PyObject*))
        nodes[0][used[0]] = target
        used[0] += 1

    cdef bint leads_on(self, PyObject* target) except -1:
        """Whether a gradient is wanted at a node or leaf, or behind it. A node that another walk, inside of this one, has
        looked at since counts as wanted."""
        if Py_TYPE(target) is not <PyTypeObject*>Node:
            return <object>target in self.wanted_leaves
        return (<Node>target).walk != self.number or (<Node>target).leads

    cdef int64_t needed(self, Node node) except -1:
        """The inputs whose gradients are wanted, as a bit mask; those from number 62 on share a bit."""
        cdef int i
        cdef int64_t mask = 0
        for i in range(node.n_inputs):
            if node.edges[i].target != NULL and self.leads_on(node.edges[i].target):
                mask |= <int64_t>1 << min(i, 62)
        return mask

    cdef BackwardRule rule_for(self, Node node):
        """The node's rule, or the part of it that is wanted; None where nothing is."""
        cdef BackwardRule rule = <BackwardRule>node.rule
        cdef int64_t mask, every = 0
        cdef int i
        if not self.number:
            return rule
        mask = self.needed(node)
        if mask == 0:
            return None
        for i in range(node.n_inputs):
            if node.edges[i].target != NULL:
                every |= <int64_t>1 << min(i, 62)
        return rule if mask == every or node.n_inputs > 62 else rule.narrowed(mask)

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
        retaining = []
        for number, function in list(node.hooks):
            if isinstance(function, weakref_ref):
                retaining.append((number, function))
            elif number >= 0:                       # else: after the step
                new = function(grad[number] if isinstance(grad, list) else grad)
                if new is None:
                    continue
                if isinstance(grad, list):
                    grad[number] = new
                else:
                    grad = new
        for number, function in retaining:          # what is retained is what goes on
            t = function()
            g = grad[number] if isinstance(grad, list) else grad
            if t is not None and g is not None:
                t.grad = _HOOKS["own_copy"](g) if t.grad is None else binary(OP_add, t.grad, g)
        return grad

    cdef int capture(self, Node node, grad) except -1:
        cdef int i
        for i in range(node.n_outputs):
            if (node, i) in self.wanted:
                self.captured[(node, i)] = grad[i] if isinstance(grad, list) else grad
        return 0

    cdef int step(self, Node node, grad) except -1:
        cdef BackwardRule rule = self.rule_for(node)
        cdef int i
        if rule is None:
            return 0
        if node.released:
            node.check()
        if self.create_graph or rule.executor is None or node.hooked_after():
            grads = _HOOKS["derivative"](node, grad, rule)
            if node.hooked_after():
                grads = _HOOKS["after_node"](node, grads, grad)
            for i in range(node.n_inputs):
                if node.edges[i].target != NULL and grads[i] is not None:
                    if self.examined:
                        _HOOKS["examine_gradient"](node, i, grads[i])
                    self.deliver(node.edges[i].target, node.edges[i].number, <Tensor>grads[i])
        else:
            self.compiled(node, rule, grad)
        if not self.keep:
            node.release()
        elif node.packed is not None:
            node.repack()
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
        if self.examined:
            _HOOKS["examine_gradient"](node, r, g)
        if node.broadcast and node.edges[r].saved != NULL and not same_shape(g, <Tensor>node.edges[r].saved):
            g = <Tensor>_HOOKS["sum_to"](g, <object>node.edges[r].saved)
        return self.deliver(node.edges[r].target, node.edges[r].number, g)


def takes_native(values):
    """Whether calls with these operands may take the native path: nothing traces, and all tensors are plain."""
    if fl_mode != 0:
        return False
    for value in values:
        if isinstance(value, Tensor) and not is_plain(<PyObject*>value):
            return False
    return True


def writes_directly(values):
    """Whether an op on these may compute into the memory of one of them: nothing traces or records, and all tensors are
    plain, real and have memory."""
    cdef Tensor t
    if fl_mode != 0:
        return False
    for value in values:
        if isinstance(value, Tensor):
            if not is_plain(<PyObject*>value):
                return False
            t = <Tensor>value
            if t.storage is None or t.code == 10 or t.code == 11 or (fl_grad_enabled and t.needs_grad):
                return False
        elif isinstance(value, complex):
            return False
    return True


cdef bint _examine = False


def set_examine_gradients(bint wanted):
    """Whether backward passes hand every gradient to the hook 'examine_gradient'; returns what it was."""
    global _examine
    before = _examine
    _examine = wanted
    return before


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


# One walk at a time: walks of several threads may meet in shared nodes. A walk inside a walk (a hook, a checkpoint) is the
# same thread's and goes on.
_walking = RLock()
os.register_at_fork(after_in_child=_walking._at_fork_reinit)


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
    walk.create_graph, walk.keep, walk.examined = create_graph, keep_graph, _examine
    _walking.acquire()
    set_grad_mode(create_graph)
    try:
        if inputs is not None:
            walk.seek(roots, inputs)
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
        _walking.release()
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
        unshared = unshared and new is grad and leaf.extra is None and g.base is None and g.contiguous_ and Py_REFCNT(<PyObject*>g.storage) == 1
        leaf.grad_ = g if create_graph or unshared else _HOOKS["own_copy"](g)
    elif create_graph or not is_plain(<PyObject*>g) or not is_plain(<PyObject*>leaf.grad_):
        leaf.grad_ = binary(OP_add, leaf.grad_, g)
    else:
        inplace(OP_add, leaf.grad_, g)
    if leaf.extra is not None and "_accumulated_hooks" in leaf.extra:
        for entry in list(leaf.extra["_accumulated_hooks"]):
            entry[1](leaf)
    return 0
