"""Compiling text, loading objects, and the cache between them."""

import ctypes
import os
import subprocess
import sys
import threading

import numpy
import pytest

from flambeau.base.cache import Cache, default_cache
from flambeau.base.flags import override
from flambeau.compiler import index_math as I
from flambeau.compiler import jit, llvm, objects, pipeline
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.types import dtype as D
from tests.compiler import kernels as K
from tests.compiler.native import run_native

FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def scale_kernel(factor, name="scale"):
    def body(b):
        with b.loop("i", L.BEGIN, L.END, 8) as i:
            b.store("x", i, b.mul(b.load("x", i, D.float32, 8), b.const(factor, D.float32, 8)))
    return K.make(name, [], [("x", D.float32)], body)


def call(address):
    """What the kernel at `address` makes of eight ones."""
    x = numpy.ones(8, "f")
    arguments = (ctypes.c_int64 * 1)(x.ctypes.data)
    FUNCTION(address)(ctypes.addressof(arguments), 0, 8)
    return x.tolist()


@pytest.fixture
def cache(tmp_path):
    """An empty cache folder."""
    with override(cache=str(tmp_path / "cache")):
        objects.forget()
        yield default_cache()
    objects.forget()


def test_compile_load_call(cache):
    before = objects.statistics()
    address, data = objects.load_kernel(scale_kernel(3.0))
    assert call(address) == [3.0] * 8 and data.startswith(b"\x7fELF")
    assert objects.load_kernel(scale_kernel(3.0)) == (address, data)
    after = objects.statistics()
    assert (after.compiled - before.compiled, after.from_cache - before.from_cache) == (1, 0)
    assert after.seconds > before.seconds


def test_second_process_takes_it_from_the_cache(cache):
    _, data = objects.load_kernel(scale_kernel(4.0))
    objects.forget()
    before = objects.statistics()
    address, again = objects.load_kernel(scale_kernel(4.0))
    assert again == data and call(address) == [4.0] * 8
    assert objects.statistics().from_cache == before.from_cache + 1


@pytest.mark.parametrize("damage", [b"", b"not an object", b"\x7fELF\x02\x01" + bytes(300), "cut"])
def test_a_damaged_object_is_rebuilt(cache, damage):
    kernel = scale_kernel(5.0)
    _, data = objects.load_kernel(kernel)
    key = objects.object_key(llvm.emit(kernel), targets.current())
    cache.put(key, data[:len(data) // 2] if damage == "cut" else damage)
    objects.forget()
    before = objects.statistics()
    address, _ = objects.load_kernel(kernel)
    assert call(address) == [5.0] * 8
    assert objects.statistics().compiled == before.compiled + 1 and cache.get(key) == data


def test_another_kernels_object_under_the_key_is_rebuilt(cache):
    _, other = objects.load_kernel(scale_kernel(6.0, "other"))
    kernel = scale_kernel(7.0)
    cache.put(objects.object_key(llvm.emit(kernel), targets.current()), other)
    address, _ = objects.load_kernel(kernel)
    assert call(address) == [7.0] * 8


def test_a_pack_is_looked_up_unless_it_is_ignored(cache):
    kernel = scale_kernel(8.0)
    _, data = objects.load_kernel(kernel)
    pack = Cache(None)
    pack.put(objects.object_key(llvm.emit(kernel), targets.current()), data)
    objects.add_pack(pack.get)
    try:
        for ignored, counter in ((True, "compiled"), (False, "from_cache")):
            cache.clear()
            objects.forget()
            before = getattr(objects.statistics(), counter)
            with override(no_pack=ignored):
                objects.load_kernel(kernel)
            assert getattr(objects.statistics(), counter) == before + 1
    finally:
        objects.remove_pack(pack.get)


def test_kernels_of_a_plan_are_compiled_together(cache):
    """On several threads, each to the bytes that it has alone."""
    kernels = [scale_kernel(float(n), f"together{n}") for n in range(2, 10)]
    alone = [jit.compile_text(llvm.emit(pipeline.lower_kernel(kernel))) for kernel in kernels]
    before = objects.statistics().compiled
    addresses = pipeline.build_kernels(kernels)
    assert objects.statistics().compiled - before == len(kernels)
    assert [call(address)[0] for address in addresses] == [float(n) for n in range(2, 10)]
    assert set(alone) <= set(objects.loaded().values())


@pytest.mark.parametrize("bad", range(4))
def test_what_goes_wrong_in_a_thread_is_raised(monkeypatch, bad):
    def build(number):
        if number == bad:
            raise ValueError(f"kernel {number}")
        return number

    monkeypatch.setattr(pipeline, "build_kernel", build)
    with pytest.raises(ValueError, match=f"kernel {bad}"):
        pipeline.build_kernels(range(4))


def test_threads_compile_a_kernel_once(cache):
    before, results = objects.statistics().compiled, []
    kernels = [scale_kernel(float(n)) for n in (20, 21)]

    def work(kernel):
        results.append(objects.load_kernel(kernel)[0])

    workers = [threading.Thread(target=work, args=(kernel,)) for kernel in kernels * 4]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 8 and len(set(results)) == 2
    assert objects.statistics().compiled == before + 2


def test_llvms_loader_does_the_same(cache):
    kernel = scale_kernel(9.0)
    with override(loader="llvm"):
        address, _ = objects.load_kernel(kernel)
    assert call(address) == [9.0] * 8
    with pytest.raises((OSError, RuntimeError)):
        jit.load_with_llvm(jit.compile_text(llvm.emit(kernel)), ["absent"])


def test_a_warm_cache_needs_no_llvmlite(cache, tmp_path):
    script = ("import sys\nfrom flambeau.compiler import objects\nfrom flambeau.ir import loops as L\n"
              "k = L.Kernel('empty', (), (), L.as_index(1), ())\nobjects.load_kernel(k)\n"
              "print(objects.statistics().from_cache, 'llvmlite' in sys.modules, 'numpy' in sys.modules)")
    pytest.importorskip("flambeau.runtime.library")
    objects.load_kernel(L.Kernel("empty", (), (), L.as_index(1), ()))
    path = ":".join(p or "." for p in sys.path)
    environment = os.environ | {"FLAMBEAU_CACHE": str(tmp_path / "cache"), "FLAMBEAU_LOADER": "own",
                                "PYTHONPATH": path}
    command = [sys.executable, "-c", script]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["1", "False", "False"]


def test_a_module_that_llvm_refuses_shows_the_line():
    text = "define void @f() {\nentry:\n  %x = add i64 1, true\n  ret void\n}\n"
    with pytest.raises(ValueError, match=r"(?s)LLVM refuses the module.*3   %x = add i64 1, true"):
        jit.compile_text(text)


def test_assembly_and_optimized_text():
    text = llvm.emit(scale_kernel(3.0), targets.by_name("avx2"))
    assert "vmulps" in jit.assembly(text, targets.by_name("avx2"))
    assert "fmul <8 x float>" in jit.optimized(text, targets.by_name("avx2"))


def test_declared_registers_stay_in_registers():
    """A reduction loop: its accumulator must not go through memory."""
    def body(b):
        total = b.declare(b.const(0.0, D.float32, 8))
        with b.loop("i", L.BEGIN, L.END, 8) as i:
            b.assign(total, b.add(total, b.load("x", i, D.float32, 8)))
        b.store("out", L.as_index(0), b.call("reduce_add", total))

    text = llvm.emit(K.make("sum", [("x", D.float32)], [("out", D.float32)], body))
    assert "alloca" in text and "alloca" not in jit.optimized(text)


@pytest.mark.parametrize("name", ["native", "generic", "avx2", "avx512", "aarch64"])
def test_targets(name):
    target = targets.by_name(name)
    assert target is targets.by_name(name) and target.key.startswith(name)
    assert target.vector_bytes in (16, 32, 64)


def test_target_follows_the_flag():
    with override(target="generic"):
        assert targets.current().name == "generic"
    with pytest.raises(ValueError, match="choose one of native, aarch64, generic, avx2, avx512"):
        targets.by_name("itanium")
    assert len({targets.by_name(n).key for n in ("native", "generic", "avx2", "avx512", "aarch64")}) == 5


def test_remainders_of_remainders_in_a_loop():
    """LLVM's value numbering may not take the first round of a loop for all of them."""
    b = L.Builder()
    with b.loop("n", 0, L.END) as n:
        once = b.let(I.rem(n, 4))
        b.store("o", n, b.load("w", I.mul(I.rem(once, 4), I.index("step")), D.float32))
    kernel = L.Kernel("nested", (L.Buffer("w", D.float32, "r"), L.Buffer("o", D.float32, "w")), ("step",), L.as_index(32), b.body())
    arrays = {"w": numpy.arange(40, dtype="f4"), "o": numpy.zeros(32, "f4")}
    got = run_native(kernel, arrays, {"step": 10}, grain=32)["o"]
    numpy.testing.assert_array_equal(got, numpy.arange(32) % 4 * 10)
