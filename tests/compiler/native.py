"""Running a template's kernel in the tests: interpreted on small sizes, natively through the pool on all."""

import numpy

import flambeau as fl
from flambeau.compiler import objects
from flambeau.compiler.vectorize import vectorize
from flambeau.ir import loops_interpret, loops_text
from flambeau.ir.loops_verify import verify
from flambeau.runtime import _core


def run_native(kernel, arrays, params, grain=1):
    """Compile `kernel` and run it over its whole extent; `arrays` (name -> contiguous array) are changed in
    place."""
    address, _ = objects.load_kernel(vectorize(verify(kernel)))
    arguments = [arrays[b.name].ctypes.data for b in kernel.buffers] + [params[p] for p in kernel.params]
    for b in kernel.buffers:
        assert arrays[b.name].dtype == b.dtype.numpy and arrays[b.name].flags.c_contiguous
    _core.call_kernel(address, arguments, loops_interpret.extent(kernel, params), grain)
    return arrays


def run_interpreted(kernel, arrays, params, pieces=1):
    """The same through the interpreter, the extent in `pieces` chunks, last chunk first."""
    flat = {b.name: arrays[b.name].reshape(-1) for b in kernel.buffers}
    extent = loops_interpret.extent(kernel, params)
    borders = [extent * p // pieces for p in range(pieces + 1)]
    for begin, end in reversed(list(zip(borders, borders[1:]))):
        loops_interpret.run(verify(kernel), flat, params, begin, end)
    return arrays


def run_both(kernel, arrays, params):
    """Natively and interpreted; asserts equal bits and returns the native arrays."""
    native = run_native(kernel, {name: array.copy() for name, array in arrays.items()}, params)
    expected = {name: array.copy() for name, array in arrays.items()}
    run_interpreted(kernel, expected, params, pieces=3)
    for name, array in native.items():
        numpy.testing.assert_array_equal(array, expected[name], err_msg=f"{kernel.name}: {name}")
    return native


def assert_threads_leave_bits(call):
    """The same bits of call()'s result for one, two and three threads."""
    before, results = fl.get_num_threads(), set()
    try:
        for count in (1, 2, 3):
            fl.set_num_threads(count)
            results.add(call().numpy().tobytes())
    finally:
        fl.set_num_threads(before)
    assert len(results) == 1


def assert_round_trip(kernel):
    """The printed kernel parses back to the same text."""
    text = loops_text.show(kernel)
    assert loops_text.show(loops_text.parse(text)) == text
