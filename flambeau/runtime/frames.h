/* The innermost running frame outside a folder: its code object and instruction, without making a frame object.

   The interpreter's own layout of frames is read from the header that comes with it; on an interpreter without that
   header, or of a version that is not known here, no frame is found. */
#ifndef FLAMBEAU_FRAMES_H
#define FLAMBEAU_FRAMES_H
#include <string.h>

#if defined(__has_include) && PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000
#if __has_include("internal/pycore_frame.h")
#define FLAMBEAU_FRAMES 1
#define Py_BUILD_CORE 1
#include "internal/pycore_frame.h"
#undef Py_BUILD_CORE
#endif
#endif

static char frames_folder[4096];        /* frames of files below it are passed over */
static Py_ssize_t frames_folder_size;

static void frames_set_folder(const char *folder, Py_ssize_t size) {
    frames_folder_size = size < (Py_ssize_t)sizeof(frames_folder) ? size : 0;
    memcpy(frames_folder, folder, frames_folder_size);
}

#ifdef FLAMBEAU_FRAMES
static inline _PyInterpreterFrame *frames_first(void) {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_Get()->current_frame;
#else
    return PyThreadState_Get()->cframe->current_frame;
#endif
}

static inline PyCodeObject *frames_code(_PyInterpreterFrame *frame) {
#if PY_VERSION_HEX >= 0x030D0000
    return PyCode_Check(frame->f_executable) ? (PyCodeObject *)frame->f_executable : NULL;
#else
    return (PyObject *)frame->f_code != Py_None ? frame->f_code : NULL;
#endif
}

static inline int frames_is_ours(PyCodeObject *code) {
    Py_ssize_t size;
    const char *file = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
    if (file == NULL) {
        PyErr_Clear();
        return 0;
    }
    return (size > frames_folder_size && memcmp(file, frames_folder, frames_folder_size) == 0)
        || (size > 8 && memcmp(file, "<frozen ", 8) == 0);
}

/* A new reference to the code object (NULL: none), and the byte of its instruction. */
static PyObject *frames_user(int *byte) {
    _PyInterpreterFrame *frame = frames_first();
    for (int depth = 0; frame != NULL && depth < 64; frame = frame->previous, depth++) {
        PyCodeObject *code;
#if PY_VERSION_HEX >= 0x030C0000
        if (frame->owner == FRAME_OWNED_BY_CSTACK)
            continue;
#endif
        code = frames_code(frame);
        if (code != NULL && !frames_is_ours(code)) {
            *byte = _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT);
            Py_INCREF(code);
            return (PyObject *)code;
        }
    }
    return NULL;
}
#else
static PyObject *frames_user(int *byte) {
    return NULL;
}
#endif

/* What may be handed to PyCode_Addr2Line: the instruction itself. */
static inline int frames_line(PyObject *code, int byte) {
    return PyCode_Addr2Line((PyCodeObject *)code, byte);
}
#endif
