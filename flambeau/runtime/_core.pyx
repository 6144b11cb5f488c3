# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The native heart: tensor records, memory, threads, dispatch, tape, plans. One module in several files, which are
included below in the order in which they use each other."""

cimport cython
from cpython.bool cimport PyBool_Check
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.float cimport PyFloat_AsDouble, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject, PyObject_GenericSetAttr, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_Check, PyTuple_CheckExact, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_CheckExact
from libc.math cimport floor
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memset

import os
from threading import RLock
from weakref import ref as weakref_ref

cdef extern from *:
    """
    static __thread int fl_mode = 0;
    static __thread int fl_grad_enabled = 1;
    static __thread int fl_watch = 0;          /* what recording does besides: WATCH_SAVED */
    #define fl_set_mode(m) (fl_mode = (m))
    #define fl_set_grad_enabled(m) (fl_grad_enabled = (m))
    #define fl_set_watch(m) (fl_watch = (m))
    #define FLAMBEAU_TYPE_DICT(t) ((t)->tp_dict)
    #define FLAMBEAU_OPEN_TYPE(t, name) ((t)->tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE, (t)->tp_name = (name))
    #define PyTuple_items(t) (((PyTupleObject *)(t))->ob_item)
    """
    int fl_mode
    int fl_grad_enabled
    int fl_watch
    void fl_set_watch(int) noexcept
    void fl_set_mode(int) noexcept
    void fl_set_grad_enabled(int) noexcept
    PyObject** PyTuple_items(object) noexcept

cdef extern from "Python.h":
    int64_t PyLong_AsLongLongAndOverflow(object, int*) except? -1
    PyTypeObject* Py_TYPE(PyObject*) noexcept
    bint PyObject_TypeCheck(PyObject*, PyTypeObject*) noexcept
    Py_ssize_t Py_REFCNT(PyObject*) noexcept
    void PyObject_GC_Track(void*) noexcept
    void PyObject_GC_UnTrack(void*) noexcept
    int PyObject_GC_IsTracked(object) noexcept
    void cpython_incref "Py_INCREF"(PyObject*) noexcept
    void cpython_decref "Py_DECREF"(PyObject*) noexcept
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t) noexcept
    PyObject* PyList_GET_ITEM(object, Py_ssize_t) noexcept
    bint PySlice_Check(object) noexcept
    int PySlice_Unpack(object, Py_ssize_t*, Py_ssize_t*, Py_ssize_t*) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t, Py_ssize_t*, Py_ssize_t*, Py_ssize_t) noexcept
    void PyType_Modified(PyTypeObject*) noexcept
    object PyInstanceMethod_New(object)
    PyObject* flambeau_type_dict "FLAMBEAU_TYPE_DICT"(PyTypeObject*) noexcept

include "allocator.pxi"
include "pool.pxi"
include "record.pxi"
include "layout.pxi"
include "dispatch.pxi"
include "pointwise.pxi"
include "many.pxi"
include "twister.pxi"
DEF MAX_PLACES = 128
DEF MAX_REGISTERS = 2048

include "plan.pxi"
include "signature.pxi"
include "indexing.pxi"
include "views.pxi"
include "join.pxi"
include "create.pxi"
include "put.pxi"
include "tape.pxi"
include "engine.pxi"
include "members.pxi"

cdef NativeOp OP_add, OP_sub, OP_mul, OP_div, OP_pow, OP_floor_divide, OP_remainder, OP_matmul, OP_neg, OP_abs
cdef NativeOp OP_eq, OP_ne, OP_lt, OP_le, OP_gt, OP_ge
cdef NativeOp OP_bitwise_and, OP_bitwise_or, OP_bitwise_xor, OP_bitwise_not, OP_bitwise_left_shift, OP_bitwise_right_shift


def set_operators(dict ops):
    """Name the ops behind Python's operators."""
    global OP_add, OP_sub, OP_mul, OP_div, OP_pow, OP_floor_divide, OP_remainder, OP_matmul, OP_neg, OP_abs
    global OP_eq, OP_ne, OP_lt, OP_le, OP_gt, OP_ge, OP_bitwise_and, OP_bitwise_or, OP_bitwise_xor, OP_bitwise_not
    global OP_bitwise_left_shift, OP_bitwise_right_shift
    OP_add, OP_sub, OP_mul, OP_div = ops["add"], ops["sub"], ops["mul"], ops["div"]
    OP_pow, OP_floor_divide, OP_remainder = ops["pow"], ops["floor_divide"], ops["remainder"]
    OP_matmul, OP_neg, OP_abs = ops["matmul"], ops["neg"], ops["abs"]
    OP_eq, OP_ne, OP_lt, OP_le, OP_gt, OP_ge = ops["eq"], ops["ne"], ops["lt"], ops["le"], ops["gt"], ops["ge"]
    OP_bitwise_and, OP_bitwise_or, OP_bitwise_xor = ops["bitwise_and"], ops["bitwise_or"], ops["bitwise_xor"]
    OP_bitwise_not, OP_bitwise_left_shift = ops["bitwise_not"], ops["bitwise_left_shift"]
    OP_bitwise_right_shift = ops["bitwise_right_shift"]


def attach_attribute(str name, value):
    """Put a method or property on Tensor: how the layers above give the record its public surface."""
    cdef dict namespace = <dict>flambeau_type_dict(<PyTypeObject*>Tensor)      # borrowed
    namespace[name] = value
    PyType_Modified(<PyTypeObject*>Tensor)


def instance_method(function):
    """A method object that binds a native function to the instance, cheaper than a Python function."""
    return PyInstanceMethod_New(function)
