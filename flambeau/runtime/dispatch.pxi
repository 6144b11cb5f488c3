# The eager fast path: from a call to a kernel without Python, for ops whose operands are exactly tensors and numbers.

DEF MAX_OPERANDS = 24           # inputs and outputs of an elementwise kernel: two bits each in a variant's class
MOST_OPERANDS = MAX_OPERANDS
DEF CODES = 35               # dtype code; 16 + (float, int, bool) for Python numbers; 20 + dtype code for 0-d tensors
DEF FLOAT_SCALAR = 16
DEF INT_SCALAR = 17
DEF BOOL_SCALAR = 18

cdef PyTypeObject* _parameter_type = NULL
cdef object _parameter_class = None


def set_parameter_type(cls):
    """Name the one subclass of Tensor that the fast path takes as a plain tensor."""
    global _parameter_type, _parameter_class
    _parameter_class = cls
    _parameter_type = <PyTypeObject*>cls


cdef inline bint is_plain(PyObject* o) noexcept:
    """Exactly Tensor or Parameter: what the fast path takes."""
    return Py_TYPE(o) is <PyTypeObject*>Tensor or Py_TYPE(o) is _parameter_type


cdef inline bint is_tensor(PyObject* o) noexcept:
    return is_plain(o) or PyObject_TypeCheck(o, <PyTypeObject*>Tensor)


def set_grad_mode(bint enabled):
    """Switch recording on or off for this thread; returns what it was."""
    cdef bint before = fl_grad_enabled
    fl_set_grad_enabled(enabled)
    return before


def grad_mode():
    return bool(fl_grad_enabled)


def set_mode(int mode):
    """The thread's interpreter mode: 0 lets calls take the native path; returns what it was."""
    cdef int before = fl_mode
    fl_set_mode(mode)
    return before


def get_mode():
    return fl_mode


cdef class PointwisePlan:
    """One elementwise kernel family: the same computation for every class of strides.

    `codes` are the dtypes at which number operands are materialised; a variant is the kernel for one class of
    inner strides an operand (2 bits each, outputs first: 0 zero, 1 unit, 2 other).
    """
    cdef public int n_inputs, n_outputs
    cdef int in_codes[MAX_OPERANDS]
    cdef int out_codes[MAX_OPERANDS]
    cdef int64_t grain
    cdef public object build             # function(class code) -> address
    cdef dict variants
    cdef kernel_fn dense                 # every operand of unit stride
    cdef kernel_fn last
    cdef uint64_t last_class
    cdef uint64_t dense_class
    cdef list rules                      # BackwardRule by mask of needed inputs
    cdef public object spec              # what the compiler keeps with the plan
    cdef public int divisor              # the integer operand that must not be 0; -1: none
    cdef public bint exact               # numbers must fit into the dtypes of their operands

    def __init__(self, in_codes, out_codes, int64_t grain, build, spec):
        cdef int i
        self.divisor = -1
        self.n_inputs, self.n_outputs = len(in_codes), len(out_codes)
        if self.n_inputs + self.n_outputs > MAX_OPERANDS:
            raise ValueError(f"an elementwise kernel takes at most {MAX_OPERANDS} operands")
        for i in range(self.n_inputs):
            self.in_codes[i] = in_codes[i]
        for i in range(self.n_outputs):
            self.out_codes[i] = out_codes[i]
        self.grain, self.build, self.spec, self.variants = grain, build, spec, {}
        self.last_class = <uint64_t>-1
        self.dense_class = 0
        for i in range(self.n_inputs + self.n_outputs):
            self.dense_class |= <uint64_t>1 << (2 * i)
        if self.n_inputs <= 4:
            self.rules = [None] * (1 << self.n_inputs)

    cdef kernel_fn variant(self, uint64_t classes) except NULL:
        cdef size_t address
        if classes == self.dense_class and self.dense != NULL:
            return self.dense
        if classes == self.last_class:
            return self.last
        got = self.variants.get(classes)
        if got is None:
            got = self.variants[classes] = self.build(classes)
        address = got
        if address == 0:
            raise RuntimeError("a kernel has address 0")
        if classes == self.dense_class:
            self.dense = <kernel_fn>address
        else:
            self.last, self.last_class = <kernel_fn>address, classes
        return <kernel_fn>address


cdef extern from *:
    """
    static PyObject *flambeau_op_call(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
    static void flambeau_fill_method(PyMethodDef *m) {
        m->ml_meth = (PyCFunction)(void(*)(void))flambeau_op_call;
        m->ml_flags = METH_FASTCALL | METH_KEYWORDS;
    }
    """
    ctypedef struct PyMethodDef:
        const char* ml_name
        const char* ml_doc
    void flambeau_fill_method(PyMethodDef*) noexcept
    object PyCFunction_New(PyMethodDef*, object)


cdef class NativeOp:
    """The native side of one op: where its plans are looked up."""
    cdef public object python            # the Op of `ops`
    cdef public str name
    cdef public str backward_name
    cdef public int arity                # operands that the elementwise fast path takes; 0: none
    cdef public bint differentiable
    cdef PyObject** table                # arity 1: CODES entries, arity 2: CODES * CODES
    cdef public dict plans               # signature -> Plan or PointwisePlan
    cdef public object view_rule         # of a view: its BackwardRule; calls are found again (views.pxi)
    cdef public int joins                # 1: joins tensors along an axis, 2: along a new one (join.pxi)
    cdef public dict twins               # second operand -> op of the first alone, a float, that gives the same bits
    cdef public frozenset number_names   # the parameters that these are
    cdef public int64_t operand_mask     # positional arguments whose numbers are operands, not attributes
    cdef PyMethodDef method
    cdef bytes method_name, method_doc

    def __init__(self, python, str name, int arity, bint differentiable, int64_t operand_mask=0, str doc=""):
        self.method_name, self.method_doc = name.encode(), doc.encode()
        self.method.ml_name, self.method.ml_doc = self.method_name, self.method_doc
        flambeau_fill_method(&self.method)
        self.python, self.name, self.arity, self.differentiable = python, name, arity, differentiable
        self.backward_name = "".join([w.capitalize() for w in name.split("_")]) + "Backward0"
        self.plans, self.operand_mask, self.number_names = {}, operand_mask, frozenset()
        if arity == 1 or arity == 2:
            self.table = <PyObject**>calloc(CODES if arity == 1 else CODES * CODES, sizeof(PyObject*))

    def function(self):
        """A fast Python callable for the op."""
        return PyCFunction_New(&self.method, self)

    def clear(self):
        """Forget every plan (they are made again at the next call)."""
        cdef int i
        self.plans.clear()
        if self.table != NULL:
            for i in range(CODES if self.arity == 1 else CODES * CODES):
                if self.table[i] != NULL:
                    cpython_decref(self.table[i])
                    self.table[i] = NULL


cdef inline int code_of(PyObject* o) noexcept:
    """The signature code of an operand, -1 when the fast path does not take it."""
    if is_plain(o):
        if (<Tensor>o).storage is None:
            return -1
        return (<Tensor>o).code if (<Tensor>o).ndim_ else 20 + (<Tensor>o).code
    if PyFloat_CheckExact(<object>o):
        return FLOAT_SCALAR
    if PyLong_CheckExact(<object>o):
        return INT_SCALAR
    if PyBool_Check(<object>o):
        return BOOL_SCALAR
    return -1


cdef PointwisePlan find_pointwise(NativeOp op, PyObject** args):
    """The plan for these operands; None when the call must go through Python."""
    cdef int a, b = 0, slot
    a = code_of(args[0])
    if a < 0:
        return None
    slot = a
    if op.arity == 2:
        b = code_of(args[1])
        if b < 0 or (16 <= a < 20 and 16 <= b < 20):
            return None
        slot = a * CODES + b
    elif 16 <= a < 20:
        return None
    if op.table[slot] == NULL:
        plan = _HOOKS["pointwise_plan"](op.python, [a, b][:op.arity])
        if plan is None:
            return None
        op.table[slot] = <PyObject*>plan
        cpython_incref(op.table[slot])
    return <PointwisePlan>op.table[slot]


cdef object call_pointwise(NativeOp op, PyObject** args):
    """Run op's elementwise kernel; NotImplemented when the call is not for the fast path."""
    cdef PyObject* outs[MAX_OPERANDS]
    cdef PointwisePlan plan
    if fl_mode != 0:
        return NotImplemented
    if op.twins is not None and is_plain(args[0]) and 6 <= (<Tensor>args[0]).code <= 9 \
            and (PyLong_CheckExact(<object>args[1]) or PyFloat_CheckExact(<object>args[1])):
        twin = op.twins.get(<object>args[1])
        if twin is not None:
            return call_pointwise(<NativeOp>twin, args)
    plan = find_pointwise(op, args)
    if plan is None:
        return NotImplemented
    outs[0] = NULL
    run_pointwise(plan, args, outs)
    out = <Tensor>outs[0]
    cpython_decref(outs[0])
    if fl_grad_enabled and op.differentiable and wants_grad(args, plan.n_inputs):
        record_pointwise(op, plan, args, <Tensor>out)
    return out


def row_major_form(NativeOp op, x):
    """x if it is row-major, else op(x), a copy, in row-major memory; NotImplemented for what needs Python."""
    cdef PyObject* args[1]
    cdef PyObject* outs[MAX_OPERANDS]
    cdef PointwisePlan plan = None
    cdef Tensor out
    if fl_mode != 0 or not is_plain(<PyObject*>x) or (<Tensor>x).storage is None:
        return NotImplemented
    if (<Tensor>x).contiguous_:
        return x
    args[0] = <PyObject*>x
    plan = find_pointwise(op, args)
    if plan is None:
        return NotImplemented
    out = new_like_shape(plan.out_codes[0], (<Tensor>x).ndim_, (<Tensor>x).dims)
    outs[0] = <PyObject*>out
    run_pointwise(plan, args, outs)
    if fl_grad_enabled and op.differentiable and wants_grad(args, 1):
        record_pointwise(op, plan, args, out)
    return out


cdef BackwardRule rule_of(NativeOp op, PointwisePlan plan, int64_t mask):
    rule = plan.rules[mask]
    if rule is None:
        rule = plan.rules[mask] = _HOOKS["backward_rule"](op.python, plan, mask)
    return <BackwardRule>rule


cdef int record_pointwise(NativeOp op, PointwisePlan plan, PyObject** args, Tensor out) except -1:
    cdef BackwardRule rule
    cdef Node node
    cdef Tensor t
    cdef int i, n = plan.n_inputs
    if not 6 <= out.code <= 11:
        return 0
    rule = rule_of(op, plan, needs_mask(args, n))
    node = new_node(op, rule, args, n, 1)
    for i in range(n):
        if is_tensor(args[i]):
            t = <Tensor>args[i]
            if t.needs_grad and not same_shape(t, out):
                node.broadcast = True
                if node.edges[i].saved == NULL:
                    keep = shape_record(t)
                    node.edges[i].saved = <PyObject*>keep
                    cpython_incref(node.edges[i].saved)
    if rule.save_output:
        node.saved_output = alias_of(out)
        node.output_version = out.storage.version
        out.storage.saved = True
    attach(node, out, 0)
    if fl_watch:
        watch(node)
    return 0


cdef object binary(NativeOp op, a, b):
    cdef PyObject* args[2]
    out = NotImplemented
    args[0], args[1] = <PyObject*>a, <PyObject*>b
    if op.arity == 2:
        out = call_pointwise(op, args)
    elif fl_mode == 0:
        out = call_planned(op, args, 2, NULL)
    if out is not NotImplemented:
        return out
    return _HOOKS["operator"](op.python, a, b)


cdef object unary(NativeOp op, a):
    cdef PyObject* args[1]
    args[0] = <PyObject*>a
    out = call_pointwise(op, args)
    return out if out is not NotImplemented else _HOOKS["bind"](op.python, (a,), {})


cdef object inplace(NativeOp op, a, b):
    """a = op(a, b) written into a's memory."""
    cdef PyObject* args[2]
    args[0], args[1] = <PyObject*>a, <PyObject*>b
    return call_inplace(op, args)


cdef object call_inplace(NativeOp op, PyObject** args):
    cdef PyObject* outs[MAX_OPERANDS]
    cdef PointwisePlan plan = None
    cdef Tensor target
    if fl_mode == 0 and is_tensor(args[0]):
        plan = find_pointwise(op, args)
    if plan is None:
        return _HOOKS["inplace"](op.python, tuple([<object>args[i] for i in range(op.arity)]))
    target = <Tensor>args[0]
    if plan.out_codes[0] != target.code or (fl_grad_enabled and wants_grad(args, plan.n_inputs)):
        return _HOOKS["inplace"](op.python, tuple([<object>args[i] for i in range(op.arity)]))
    outs[0] = args[0]
    run_pointwise(plan, args, outs)
    written(target, op.name)
    if target.storage.saved:
        target.storage.name_write(op.name + "_")
    return target


def inplace_call(NativeOp op, *args):
    """args[0] = op(*args) in place."""
    cdef PyObject* items[MAX_OPERANDS]
    cdef int i
    for i in range(len(args)):
        items[i] = <PyObject*>args[i]
    if op.arity == 1 or op.arity == 2:
        return call_inplace(op, items)
    return _HOOKS["inplace"](op.python, args)


def run_into(PointwisePlan plan, args, Tensor out):
    """Run an elementwise plan into existing memory."""
    cdef PyObject* items[MAX_OPERANDS]
    cdef PyObject* outs[MAX_OPERANDS]
    cdef int i
    for i in range(plan.n_inputs):
        items[i] = <PyObject*>args[i]
    outs[0] = <PyObject*>out
    if out.code != plan.out_codes[0]:
        raise TypeError(f"the result is {_DTYPES[plan.out_codes[0]]}, the tensor written to is {out.dtype}")
    run_pointwise(plan, items, outs)
    written(out, "copy")
    return out


def run_into_all(PointwisePlan plan, args, outs):
    """Run an elementwise plan with several outputs into existing memory."""
    cdef PyObject* items[MAX_OPERANDS]
    cdef PyObject* targets[MAX_OPERANDS]
    cdef int i
    for i in range(plan.n_inputs):
        items[i] = <PyObject*>args[i]
    for i in range(plan.n_outputs):
        targets[i] = <PyObject*>outs[i]
        if (<Tensor>targets[i]).code != plan.out_codes[i]:
            raise TypeError(f"output {i} is {_DTYPES[plan.out_codes[i]]}, its target is {outs[i].dtype}")
    run_pointwise(plan, items, targets)
    for i in range(plan.n_outputs):
        written(<Tensor>targets[i], "an optimizer update")


def run_pointwise_plan(NativeOp op, PointwisePlan plan, args):
    """Run an elementwise plan from Python and record it; returns the output or a tuple of them."""
    cdef PyObject* items[MAX_OPERANDS]
    cdef int i
    for i in range(plan.n_inputs):
        items[i] = <PyObject*>args[i]
    return run_recorded(op, plan, items)


cdef public PyObject* flambeau_op_entry(PyObject* self, PyObject** args, Py_ssize_t n, PyObject* names) except NULL:
    """What `op(...)` from Python runs."""
    cdef NativeOp op = <NativeOp>self
    cdef object out = NotImplemented
    if fl_mode == 0:
        if op.view_rule is not None:
            out = call_view(op, args, n, names)
        elif op.joins:
            out = call_join(op, args, n, names)
        elif op.arity == 0:
            out = call_planned(op, args, n, names)
        elif names == NULL and op.arity == n:
            out = call_pointwise(op, args)
        else:
            out = call_planned(op, args, n, names)
    if out is NotImplemented:
        out = call_slow(op, args, n, names)
    cpython_incref(<PyObject*>out)
    return <PyObject*>out


cdef extern from *:
    """
    static PyObject *flambeau_op_entry(PyObject *, PyObject **, Py_ssize_t, PyObject *);
    static PyObject *flambeau_op_call(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
        return flambeau_op_entry(self, (PyObject **)args, n, names);
    }
    """


cdef object call_slow(NativeOp op, PyObject** args, Py_ssize_t n, PyObject* names):
    cdef Py_ssize_t i
    positional = tuple([<object>args[i] for i in range(n)])
    named = {}
    if names != NULL:
        for i, name in enumerate(<tuple>names):
            named[name] = <object>args[n + i]
    return _HOOKS["bind"](op.python, positional, named)
