# The tensor record: storage, sizes and strides, views. No formulas and no promotion rules stand here.

DEF INLINE_RANK = 5          # ranks up to this keep their sizes and strides inside the record
DEF MAX_RANK = 32

cdef int _ITEMSIZE[16]       # by dtype code; filled by `configure`
cdef object _DTYPES = ()     # dtype code -> DType
cdef dict _CODES = {}        # DType -> code
cdef type _DTYPE = type(None)           # the class of dtypes
cdef object _CPU = None
cdef dict _HOOKS = {}        # name -> Python function: what the record asks of the layers above


def configure(dtypes, device, hooks):
    """Fill the tables that the runtime takes from Python: dtypes by code, the CPU device, callbacks by name."""
    global _DTYPES, _CPU, _DTYPE
    _DTYPES = tuple(dtypes)
    _DTYPE = type(_DTYPES[0])
    for code, d in enumerate(dtypes):
        _ITEMSIZE[code] = d.itemsize
        _CODES[d] = code
    _CPU = device
    _HOOKS.update(hooks)


cdef extern from *:
    void flambeau_open_type "FLAMBEAU_OPEN_TYPE"(PyTypeObject*, const char*) noexcept


cdef bytes _TENSOR_NAME = b""


def name_tensor_type(str module):
    """The module that the class Tensor says it is from. Attributes of the class can be set from then on, as those of
    PyTorch's can: programs replace methods."""
    global _TENSOR_NAME
    _TENSOR_NAME = module.encode() + b".Tensor"
    flambeau_open_type(<PyTypeObject*>Tensor, _TENSOR_NAME)


def set_hook(str name, function):
    """Install the Python function that the runtime calls under `name`."""
    _HOOKS[name] = function


@cython.freelist(256)
@cython.no_gc
cdef class Storage:
    """A block of memory that tensors share. `version` counts the writes made through any of them."""
    cdef char* ptr
    cdef size_t nbytes
    cdef size_t got          # what the allocator gave; 0: memory of `owner`
    cdef public int64_t version
    cdef bint saved          # some node keeps a tensor on this storage: writes are worth a note
    cdef bint traced         # `_traced` knows who made it
    cdef object owner
    cdef public object write_note        # (op, statement) of the last noted write
    cdef object writes                   # the last noted writes: (version, window or None, note)

    def __dealloc__(self):
        if self.traced:
            _traced.pop(<size_t>self.ptr, None)
        if self.got:
            alloc_release(self.ptr, self.got)

    def name_write(self, name):
        """Say in the note of the last write which op it belongs to."""
        if self.write_note is not None:
            self.write_note = (name, self.write_note[1])
            if self.writes:
                version, window, _ = self.writes.pop()
                self.writes.append((version, window, self.write_note))

    @property
    def address(self):
        return <size_t>self.ptr

    def __len__(self):
        return self.nbytes

    def nbytes_(self):
        return self.nbytes


cdef int _tracing = 0                    # how many blocks want new memory noted
cdef dict _traced = {}                   # address -> (number of the note, bytes, (file, line) of who made it)
cdef int64_t _notes = 0


cdef Storage new_storage(size_t nbytes):
    cdef Storage s = Storage.__new__(Storage)
    s.nbytes = nbytes
    s.ptr = <char*>alloc_acquire(nbytes if nbytes else 1, &s.got)
    if _tracing:
        note_storage(s)
    return s


cdef void note_storage(Storage s):
    global _notes
    _notes += 1
    s.traced = True
    _traced[<size_t>s.ptr] = (_notes, s.nbytes, _HOOKS["memory_source"]())


def memory_trace(int change):
    """Change by how many blocks new memory is noted for; returns the number of the last note."""
    global _tracing
    _tracing += change
    return _notes


def memory_traced():
    """Live noted memory: {address: (number of the note, bytes, (file, line))}."""
    return dict(_traced)


class Size(tuple):
    """The sizes of a tensor: a tuple of ints that also knows how many elements it spans."""

    __slots__ = ()

    def numel(self):
        n = 1
        for s in self:
            n *= s
        return n

    def __repr__(self):
        return f"{_HOOKS['prefix']()}.Size({list(self)})"

    def __add__(self, other):
        return Size(tuple.__add__(self, tuple(other)))

    def __mul__(self, count):
        return Size(tuple.__mul__(self, count))

    def __getitem__(self, index):
        got = tuple.__getitem__(self, index)
        return Size(got) if isinstance(index, slice) else got

    def __reduce__(self):
        return Size, (tuple(self),)


cdef extern from *:
    """
    #define FLAMBEAU_NEW_SIZE(type, n) (((PyTypeObject *)(type))->tp_alloc((PyTypeObject *)(type), n))

    static PyObject *flambeau_size_item(PyObject *self, PyObject *key) {
        PyObject *got, *sizes;
        if (PyLong_CheckExact(key)) {
            Py_ssize_t n = PyTuple_GET_SIZE(self), i = PyLong_AsSsize_t(key);
            if (i == -1 && PyErr_Occurred())
                PyErr_Clear();
            else if ((i < 0 ? i + n : i) >= 0 && (i < 0 ? i + n : i) < n)
                return Py_NewRef(PyTuple_GET_ITEM(self, i < 0 ? i + n : i));
        }
        got = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
        if (got == NULL || !PySlice_Check(key))
            return got;
        sizes = PyObject_CallFunctionObjArgs((PyObject *)Py_TYPE(self), got, NULL);
        Py_DECREF(got);
        return sizes;
    }
    #define FLAMBEAU_QUICK_ITEMS(type) (((PyTypeObject *)(type))->tp_as_mapping->mp_subscript = flambeau_size_item)
    """
    tuple FLAMBEAU_NEW_SIZE(object, Py_ssize_t)
    void FLAMBEAU_QUICK_ITEMS(object) noexcept


FLAMBEAU_QUICK_ITEMS(Size)          # what `Size.__getitem__` does, without its call


cdef inline bint is_number(object value):
    """A Python number: as the left operand of + and * it goes to the right, as PyTorch's gradient functions show it."""
    return PyFloat_CheckExact(value) or PyLong_CheckExact(value)


@cython.freelist(256)
cdef class Tensor:
    """A multi-dimensional array of one dtype, with a tape for derivatives."""
    cdef Storage storage                 # None: shape only
    cdef char* first                     # address of element 0
    cdef int64_t* dims                   # ndim sizes, then ndim strides (elements)
    cdef int64_t inline_dims[2 * INLINE_RANK]
    cdef int64_t numel_
    cdef int ndim_
    cdef int code                        # dtype code
    cdef bint contiguous_
    cdef bint needs_grad                  # requires_grad
    cdef bint retains_grad_
    cdef int output_nr
    cdef Node node
    cdef object grad_
    cdef object extra                    # attributes and hooks, a dict made when first needed
    cdef Tensor base                     # of a view: the tensor whose storage it shows
    cdef bint silent                     # from `data`: writes through it are not counted
    cdef int64_t view_version            # of a view with a node: the storage's version when it was made
    cdef object __weakref__

    def __init__(self, *args, **kwargs):
        if self.storage is None:             # Tensor(2, 3): records made in here do not come this way
            _HOOKS["construct"](self, args, kwargs)

    def __dealloc__(self):
        if self.dims != NULL and self.dims != self.inline_dims:
            free(self.dims)

    # -------------------------------------------------------------- shape
    @property
    def shape(self):
        return size_of(self)

    def size(self, dim=None):
        if dim is None:
            return size_of(self)
        return self.dims[axis_of(self, dim)]

    def stride(self, dim=None):
        cdef int d
        if dim is None:
            return tuple([self.dims[self.ndim_ + d] for d in range(self.ndim_)])
        return self.dims[self.ndim_ + axis_of(self, dim)]

    def storage_offset(self):
        if self.storage is None:
            return 0
        return (self.first - self.storage.ptr) // _ITEMSIZE[self.code]

    @property
    def ndim(self):
        return self.ndim_

    def dim(self):
        return self.ndim_

    def numel(self):
        return self.numel_

    def nelement(self):
        return self.numel_

    def element_size(self):
        return _ITEMSIZE[self.code]

    @property
    def itemsize(self):
        return _ITEMSIZE[self.code]

    @property
    def nbytes(self):
        return self.numel_ * _ITEMSIZE[self.code]

    def data_ptr(self):
        return <size_t>self.first

    @property
    def dtype(self):
        return _DTYPES[self.code]

    @property
    def storage_(self):
        """The shared Storage object."""
        return self.storage

    @property
    def is_shape_only(self):
        return self.storage is None

    def is_contiguous(self, memory_format=None):
        return self.contiguous_ if memory_format is None else _HOOKS["is_contiguous"](self, memory_format)

    @property
    def _version(self):
        return self.storage.version if self.storage is not None else 0

    @property
    def _base(self):
        return self.base

    # -------------------------------------------------------------- autograd state
    @property
    def requires_grad(self):
        return self.needs_grad

    @requires_grad.setter
    def requires_grad(self, value):
        if value and not 6 <= self.code <= 11:
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients, "
                               f"got {_DTYPES[self.code]}")
        if not value and self.node is not None:
            raise RuntimeError("you can only change requires_grad flags of leaf variables; "
                               "use detach() to get a tensor that does not require a gradient")
        self.needs_grad = bool(value)

    def requires_grad_(self, bint requires_grad=True):
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self):
        return self.node is None

    @property
    def grad_fn(self):
        return self.node

    @property
    def output_number(self):
        return self.output_nr

    @property
    def grad(self):
        return self.grad_

    @grad.setter
    def grad(self, value):
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got {type(value).__name__}")
            if not (same_shape(self, <Tensor>value) if is_plain(<PyObject*>value) else self.shape == value.shape):
                raise RuntimeError(f"assigned grad has data of a different size: got {tuple(value.shape)}, "
                                   f"wanted {tuple(self.shape)}")
            if value.dtype is not self.dtype:
                raise RuntimeError(f"assigned grad has data of a different type: got {value.dtype}, "
                                   f"wanted {self.dtype}")
        self.grad_ = value

    def retain_grad(self):
        if not self.needs_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.node is not None and not self.retains_grad_:
            self.retains_grad_ = True
            (<Node>self.node).add_retained(self)

    @property
    def retains_grad(self):
        return self.retains_grad_

    def detach(self):
        """The same data without the tape."""
        return alias_of(self)

    @property
    def data(self):
        """The same data, outside the tape, which does not see writes; assigning replaces the tensor's memory."""
        cdef Tensor out = alias_of(self)
        out.silent = True
        return out

    @data.setter
    def data(self, Tensor other):
        self._assign(other)

    def _assign(self, Tensor other):
        """Take over `other`'s data (the meaning of `x.data = y`)."""
        self.storage, self.first, self.code = other.storage, other.first, other.code
        set_rank(self, other.ndim_)
        memcpy(self.dims, other.dims, 2 * other.ndim_ * sizeof(int64_t))
        self.numel_, self.contiguous_ = other.numel_, other.contiguous_

    def _forget(self):
        self.node, self.needs_grad = None, False

    def _reset_version(self):
        if self.storage is not None:
            self.storage.version = 0

    def _bump_version(self):
        if self.silent or self.storage is None:
            return
        self.storage.version += 1
        if self.storage.saved:
            note_write(self.storage, "an assignment", None)

    def _note_write(self, name):
        """Say that an op has written into this tensor's memory."""
        written(self, name)

    @staticmethod
    def _make_subclass(cls, Tensor data, bint requires_grad=False):
        """A `cls` that shares `data`'s memory and is a leaf."""
        cdef Tensor out = <Tensor>Tensor.__new__(cls)
        share(out, data)
        out.needs_grad = requires_grad
        return out

    # -------------------------------------------------------------- Python attributes
    def __getattr__(self, str name):
        if self.extra is not None:
            try:
                return self.extra[name]
            except KeyError:
                pass
        missing = _HOOKS.get("missing_attribute")
        if missing is not None and not name.startswith("__"):
            return missing(self, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, str name, value):
        try:
            PyObject_GenericSetAttr(self, name, value)
        except AttributeError:
            if name in _READ_ONLY:
                raise
            extra_of(self)[name] = value

    def __delattr__(self, str name):
        if self.extra is not None and name in self.extra:
            del self.extra[name]
        elif name == "grad":
            self.grad_ = None
        else:
            raise AttributeError(name)

    @property
    def _extra(self):
        return self.extra

    def _extra_dict(self):
        return extra_of(self)

    # -------------------------------------------------------------- protocols
    def __len__(self):
        if self.ndim_ == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.dims[0]

    def __hash__(self):
        return <Py_hash_t>((<size_t><void*>self) >> 4)

    def __bool__(self):
        if self.numel_ != 1 or self.storage is None:
            return _HOOKS["bool"](self)
        return bool(read_item(self))

    def __float__(self):
        return float(self.only_element())

    def __int__(self):
        return int(self.only_element())

    cdef object only_element(self):
        if self.numel_ != 1:
            raise ValueError(f"only one element tensors can be converted to Python scalars, this has {self.numel_}")
        return self.item()

    def __index__(self):
        if self.numel_ != 1 or self.code > 5 or self.storage is None:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(read_item(self))

    def item(self):
        """The value of a one-element tensor as a Python number."""
        if self.numel_ != 1:
            raise RuntimeError(f"a Tensor with {self.numel_} elements cannot be converted to Scalar")
        if self.storage is None:
            return _HOOKS["no_data"](self, "item()")
        return read_item(self)

    def __repr__(self):
        return _HOOKS["repr"](self)

    def __iter__(self):
        return _HOOKS["iter"](self)

    def __contains__(self, value):
        return _HOOKS["contains"](self, value)

    def __getitem__(self, index):
        return get_item(self, index)

    def __setitem__(self, index, value):
        if not set_item(self, index, value):
            _HOOKS["set_item"](self, index, value)

    def __getbuffer__(self, Py_buffer* view, int flags):
        _HOOKS["check_buffer"](self)
        layout = (self.shape, tuple([s * _ITEMSIZE[self.code] for s in self.stride()]))
        keep = BufferLayout.__new__(BufferLayout, layout[0], layout[1], _HOOKS["buffer_format"](self.dtype))
        (<BufferLayout>keep).fill(view, self, flags)

    # -------------------------------------------------------------- operators
    def __add__(self, other): return binary(OP_add, self, other)
    def __radd__(self, other): return binary(OP_add, self, other) if is_number(other) else binary(OP_add, other, self)
    def __sub__(self, other): return binary(OP_sub, self, other)
    def __rsub__(self, other): return binary(OP_sub, other, self)
    def __mul__(self, other): return binary(OP_mul, self, other)
    def __rmul__(self, other): return binary(OP_mul, self, other) if is_number(other) else binary(OP_mul, other, self)
    def __truediv__(self, other): return binary(OP_div, self, other)
    def __rtruediv__(self, other): return binary(OP_div, other, self)
    def __pow__(self, other, modulo): return binary(OP_pow, self, other)
    def __rpow__(self, other, modulo): return binary(OP_pow, other, self)
    def __floordiv__(self, other): return binary(OP_floor_divide, self, other)
    def __rfloordiv__(self, other): return binary(OP_floor_divide, other, self)
    def __mod__(self, other): return binary(OP_remainder, self, other)
    def __rmod__(self, other): return binary(OP_remainder, other, self)
    def __matmul__(self, other): return binary(OP_matmul, self, other)
    def __rmatmul__(self, other): return binary(OP_matmul, other, self)
    def __and__(self, other): return binary(OP_bitwise_and, self, other)
    def __rand__(self, other): return binary(OP_bitwise_and, other, self)
    def __or__(self, other): return binary(OP_bitwise_or, self, other)
    def __ror__(self, other): return binary(OP_bitwise_or, other, self)
    def __xor__(self, other): return binary(OP_bitwise_xor, self, other)
    def __rxor__(self, other): return binary(OP_bitwise_xor, other, self)
    def __lshift__(self, other): return binary(OP_bitwise_left_shift, self, other)
    def __rlshift__(self, other): return binary(OP_bitwise_left_shift, other, self)
    def __rshift__(self, other): return binary(OP_bitwise_right_shift, self, other)
    def __rrshift__(self, other): return binary(OP_bitwise_right_shift, other, self)
    def __neg__(self): return unary(OP_neg, self)
    def __pos__(self): return self
    def __abs__(self): return unary(OP_abs, self)
    def __invert__(self): return unary(OP_bitwise_not, self)
    def __eq__(self, other): return binary(OP_eq, self, other)
    def __ne__(self, other): return binary(OP_ne, self, other)
    def __lt__(self, other): return binary(OP_lt, self, other)
    def __le__(self, other): return binary(OP_le, self, other)
    def __gt__(self, other): return binary(OP_gt, self, other)
    def __ge__(self, other): return binary(OP_ge, self, other)
    def __iadd__(self, other): return inplace(OP_add, self, other)
    def __isub__(self, other): return inplace(OP_sub, self, other)
    def __imul__(self, other): return inplace(OP_mul, self, other)
    def __itruediv__(self, other): return inplace(OP_div, self, other)
    def __ipow__(self, other): return inplace(OP_pow, self, other)
    def __ifloordiv__(self, other): return inplace(OP_floor_divide, self, other)
    def __imod__(self, other): return inplace(OP_remainder, self, other)
    def __iand__(self, other): return inplace(OP_bitwise_and, self, other)
    def __ior__(self, other): return inplace(OP_bitwise_or, self, other)
    def __ixor__(self, other): return inplace(OP_bitwise_xor, self, other)
    def __ilshift__(self, other): return inplace(OP_bitwise_left_shift, self, other)
    def __irshift__(self, other): return inplace(OP_bitwise_right_shift, self, other)


cdef frozenset _READ_ONLY = frozenset((
    "shape", "ndim", "dtype", "device", "is_leaf", "T", "mT", "grad_fn", "nbytes", "itemsize", "_version", "_base"))


cdef class BufferLayout:
    """Sizes and strides in bytes that a buffer view needs for as long as it lives."""
    cdef Py_ssize_t arrays[2 * MAX_RANK]
    cdef bytes format

    def __cinit__(self, shape, strides, format):
        cdef int i, n = len(shape)
        for i in range(n):
            self.arrays[i] = shape[i]
            self.arrays[MAX_RANK + i] = strides[i]
        self.format = format

    cdef fill(self, Py_buffer* view, Tensor t, int flags):
        view.buf, view.len, view.itemsize = t.first, t.numel_ * _ITEMSIZE[t.code], _ITEMSIZE[t.code]
        view.format, view.ndim, view.readonly = <char*>self.format, t.ndim_, 0
        view.shape, view.strides = self.arrays, self.arrays + MAX_RANK
        view.suboffsets, view.internal = NULL, NULL
        view.obj = (self, t)


cdef dict extra_of(Tensor t):
    """The attribute dict; from now on the garbage collector follows the tensor."""
    if t.extra is None:
        t.extra = {}
        if not PyObject_GC_IsTracked(t):
            PyObject_GC_Track(<void*>t)
    return <dict>t.extra
