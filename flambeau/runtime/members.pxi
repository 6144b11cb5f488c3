# Attributes and calls of modules: what `nn.Module` does for every layer of every step.
#
# A module keeps parameters, buffers and children in tables of its own (`_parameters`, ...). In Python such an attribute
# costs a failed lookup, its exception and a call of `__getattr__`; here it costs one more look into a dict.

cdef extern from "Python.h":
    ctypedef PyObject* (*getattrofunc)(PyObject*, PyObject*) except? NULL
    PyObject* _PyObject_GenericGetAttrWithDict(PyObject*, PyObject*, PyObject*, int)
    PyObject* PyErr_Occurred() noexcept
    PyObject* PyDict_GetItem(PyObject*, PyObject*) noexcept
    PyObject* PyDict_GetItemWithError(PyObject*, PyObject*) noexcept
    Py_ssize_t PyDict_Size(PyObject*) noexcept
    bint PyDict_Check(PyObject*) noexcept
    PyObject* PyObject_GenericGetDict(PyObject*, void*)
    object PyObject_Call(PyObject*, PyObject*, PyObject*)
    PyObject* PyObject_GetAttr(PyObject*, PyObject*)
    getattrofunc flambeau_getattro "FLAMBEAU_GETATTRO"(PyTypeObject*) noexcept
    void flambeau_set_getattro "FLAMBEAU_SET_GETATTRO"(PyTypeObject*, getattrofunc) noexcept

cdef extern from *:
    """
    #define FLAMBEAU_GETATTRO(t) ((t)->tp_getattro)
    #define FLAMBEAU_SET_GETATTRO(t, f) ((t)->tp_getattro = (f))
    """

cdef tuple _TABLES = ("_parameters", "_buffers", "_modules")
cdef tuple _CALL_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
cdef object _call_with_hooks = None

cdef PyObject* member(PyObject* module, PyObject* name) except? NULL:
    """An attribute as Python finds it, else an entry of the tables."""
    cdef PyObject* found = _PyObject_GenericGetAttrWithDict(module, name, NULL, 1)
    cdef PyObject* members
    cdef PyObject* table
    cdef int i
    if found != NULL or PyErr_Occurred() != NULL:
        return found
    members = PyObject_GenericGetDict(module, NULL)
    if members == NULL:
        return NULL
    for i in range(3):
        table = PyDict_GetItem(members, PyTuple_GET_ITEM(_TABLES, i))
        if table != NULL and PyDict_Check(table):
            found = PyDict_GetItemWithError(table, name)
            if found != NULL:
                cpython_incref(found)
                break
    cpython_decref(members)
    if found == NULL:
        raise AttributeError(f"'{type(<object>module).__name__}' object has no attribute '{<object>name}'")
    return found


def quick_attributes(cls):
    """Let instances of `cls` find the entries of their tables without Python. Only for a class whose `__getattr__`
    does nothing else; assigning another `__getattr__` to the class takes this back."""
    flambeau_set_getattro(<PyTypeObject*>cls, &member)


def call_module(self, *args, **kwargs):
    """Run `forward`, between the hooks where there are any."""
    cdef PyObject* members = PyObject_GenericGetDict(<PyObject*>self, NULL)
    cdef PyObject* table
    cdef bint hooked = False
    cdef int i
    for i in range(4):
        table = PyDict_GetItem(members, PyTuple_GET_ITEM(_CALL_HOOKS, i))
        hooked |= table == NULL or PyDict_Size(table) != 0
    cpython_decref(members)
    if hooked:
        return _call_with_hooks(self, args, kwargs)
    return self.forward(*args, **kwargs)


def set_module_call(call_with_hooks):
    """Name the call of a module that has hooks: call_with_hooks(module, args, kwargs)."""
    global _call_with_hooks
    _call_with_hooks = call_with_hooks
