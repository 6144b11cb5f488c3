"""Our own loader: what it loads, and what it refuses."""

import ctypes
import random

import pytest

library = pytest.importorskip("flambeau.runtime.library")
binding = pytest.importorskip("llvmlite.binding")

CALLS = """
declare double @fma(double, double, double)
declare ptr @memset(ptr, i32, i64)
define double @product(double %x, double %y) {
  %r = call double @fma(double %x, double %y, double 0.5)
  %s = call double @fma(double %r, double 1.0, double 0.0)
  ret double %s
}
define void @clear(ptr %p, i64 %n) {
  call ptr @memset(ptr %p, i32 0, i64 %n)
  ret void
}
define ptr @address() {
  ret ptr @fma
}
"""
TABLE = """
@table = private constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
define double @choose(i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %x = load double, ptr %p
  ret double %x
}
define double @switch(i64 %i) {
entry:
  switch i64 %i, label %other [ i64 0, label %a i64 1, label %b i64 2, label %c
                                i64 3, label %d i64 4, label %e ]
a:
  ret double 1.0
b:
  %x = call double @choose(i64 1)
  ret double %x
c:
  ret double 9.0
d:
  %y = call double @choose(i64 3)
  ret double %y
e:
  ret double 0.25
other:
  ret double -1.0
}
"""


def compile_object(text, reloc="pic", triple="x86_64-unknown-linux-gnu"):
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(triple).create_target_machine(reloc=reloc, codemodel="small")
    module = binding.parse_assembly(text, binding.context.create_context())
    module.triple = triple
    return machine.emit_object(module)


def test_calls_go_through_stubs_to_the_c_library():
    found = library.load_object(compile_object(CALLS), ["product", "clear", "address"])
    product = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)(found["product"])
    assert product(3.0, 4.0) == 12.5
    data = (ctypes.c_char * 8)(*b"flambeau")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(found["clear"])(ctypes.addressof(data), 4)
    assert data.raw == b"\0\0\0\0beau"
    assert ctypes.CFUNCTYPE(ctypes.c_void_p)(found["address"])() > 0


def test_constants_and_jump_tables():
    found = library.load_object(compile_object(TABLE), ["choose", "switch"])
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)
    assert [kind(found["choose"])(i) for i in range(4)] == [1.5, 2.5, 3.5, 4.5]
    assert [kind(found["switch"])(i) for i in range(6)] == [1.0, 2.5, 9.0, 4.5, 0.25, -1.0]


def test_pages_are_not_writable():
    before = library.mapped_bytes()
    address = library.load_object(compile_object(TABLE), ["choose"])["choose"]
    assert library.mapped_bytes() > before
    with open("/proc/self/maps") as file:
        for line in file:
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if low <= address < high:
                assert line.split()[1].startswith("r-x")
                return
    raise AssertionError("the address is not mapped")


@pytest.mark.parametrize("text, names, message", [
    ("declare void @nowhere_to_be_found()\n"
     "define void @f() {\n  call void @nowhere_to_be_found()\n  ret void\n}", ["f"],
     "calls nowhere_to_be_found, which no loaded library has"),
    ("define void @f() {\n  ret void\n}", ["f", "g"], "does not define g"),
    ("@v = global i64 3\ndefine i64 @f() {\n  %x = load i64, ptr @v\n  ret i64 %x\n}", ["f"],
     "holds variables"),
    ("@v = thread_local global i64 0\ndefine i64 @f() {\n  %x = load i64, ptr @v\n  ret i64 %x\n}", ["f"],
     "kind of relocation|holds variables|no placed section"),
])
def test_what_it_cannot_load_is_said(text, names, message):
    before = library.mapped_bytes()
    with pytest.raises(library.LoadError, match=message):
        library.load_object(compile_object(text), names)
    assert library.mapped_bytes() == before


def test_other_machines_are_refused():
    data = compile_object("define void @f() {\n  ret void\n}", triple="aarch64-unknown-linux-gnu")
    with pytest.raises(library.LoadError, match="for machine 183"):
        library.load_object(data, ["f"])


def test_damaged_objects_never_crash():
    """Cut short anywhere, or with random bytes changed: an error, or functions that nobody calls."""
    data = compile_object(CALLS + TABLE)
    for length in range(0, len(data), 37):
        with pytest.raises(library.LoadError):
            library.load_object(data[:length], ["product"])
    generator = random.Random(5)
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(len(data))] = generator.randrange(256)
        try:
            library.load_object(bytes(damaged), ["product"])
        except (library.LoadError, MemoryError):
            pass
