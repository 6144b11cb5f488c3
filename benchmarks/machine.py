"""What this machine can do: multiply-adds and bytes a second, by kernels of our own through the pool.

The figures are the roofs for all other benchmarks: a kernel of F operations and B bytes takes at least
max(F / peak, B / bandwidth).
"""

import statistics
import time
from dataclasses import dataclass

from flambeau.ir import loops
from flambeau.types.dtype import float32

ACCUMULATORS = 12               # independent sums: enough to fill two pipes of latency 4 to 6
STEPS = 20_000                  # multiply-adds a sum makes in one unit of work
STREAM_BYTES = 256 << 20        # one array; far more than any cache


@dataclass(frozen=True)
class Machine:
    """Measured roofs: `peak` in float32 FLOP/s and bandwidths in bytes/s, each for one thread and for all."""

    threads: int
    vector_bytes: int
    peak_one: float
    peak_all: float
    read_one: float
    read_all: float
    copy_one: float
    copy_all: float
    triad_one: float
    triad_all: float

    def floor(self, bytes_moved, operations=0):
        """The least time in seconds, on all threads, of work that moves and computes this much."""
        bandwidth = max(self.read_all, self.copy_all, self.triad_all)
        return max(bytes_moved / bandwidth, operations / self.peak_all)


def vector_lanes():
    """How many float32 a vector register holds."""
    from flambeau.compiler import target

    return target.current().vector_bytes // 4


def fma_kernel(lanes):
    """Unit i: `steps` times v = v * 0.5 + 1 on ACCUMULATORS vectors, which tend to 2; out[i] is their sum."""
    b = loops.Builder()
    half, one = b.const(0.5, float32, lanes), b.const(1.0, float32, lanes)
    with b.loop("i", loops.BEGIN, loops.END) as i:
        sums = [b.declare(b.const(float(k), float32, lanes)) for k in range(ACCUMULATORS)]
        with b.loop("step", 0, b.index("steps")):
            for value in sums:
                b.assign(value, loops.apply("fma", value, half, one))
        total = b.let(sums[0])
        for value in sums[1:]:
            total = b.add(total, value)
        b.store("out", i, b.reduce_add(total))
    out = loops.Buffer("out", float32, "w")
    return loops.Kernel("machine_fma", (out,), ("steps", "units"), b.index("units"), b.body())


def stream_kernel(name, lanes):
    """copy: out = x; triad: out = x + 0.5 * y; read: a sum of x, stored once a chunk. A unit is 4 vectors."""
    b = loops.Builder()
    block = 4 * lanes
    sums = [b.declare(b.const(0.0, float32, lanes)) for _ in range(4)] if name == "read" else []
    with b.loop("i", loops.BEGIN, loops.END) as i:
        for part in range(4):
            index = b.let(loops.add(loops.mul(i, block), part * lanes))
            value = b.load("x", index, float32, lanes)
            if name == "read":
                b.assign(sums[part], loops.apply("add", sums[part], value))
                continue
            if name == "triad":
                value = b.fma(b.load("y", index, float32, lanes), b.const(0.5, float32, lanes), value)
            b.store("out", index, value)
    if name == "read":
        b.store("out", loops.mul(loops.BEGIN, block), b.add(b.add(sums[0], sums[1]), b.add(sums[2], sums[3])))
    buffers = tuple(loops.Buffer(buffer, float32, access)
                    for buffer, access in (("x", "r"), ("y", "r"), ("out", "w")))
    return loops.Kernel(f"machine_{name}", buffers, ("units",), b.index("units"), b.body())


def native(kernel):
    """The address of the compiled kernel."""
    from flambeau.compiler.objects import load_kernel

    return load_kernel(kernel)[0]


def fastest(work, repeats):
    """(least, median) seconds of calling work()."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times), statistics.median(times)


def measure_peak(repeats=7):
    """float32 FLOP/s of this many threads (set_num_threads before)."""
    from flambeau.runtime._core import MemoryBlock, call_kernel, get_num_threads

    lanes, units = vector_lanes(), 8 * get_num_threads()
    address, out = native(fma_kernel(lanes)), MemoryBlock(4 * units)
    seconds, _ = fastest(lambda: call_kernel(address, [out.address, STEPS, units], units, 1), repeats)
    return 2 * lanes * ACCUMULATORS * STEPS * units / seconds


def measure_streams(repeats=5):
    """Bytes/s of read, copy and triad, counting each array once."""
    from flambeau.runtime._core import MemoryBlock, call_kernel

    lanes = vector_lanes()
    blocks = [MemoryBlock(STREAM_BYTES) for _ in range(3)]
    for block in blocks:
        block.fill(0)
    units = STREAM_BYTES // (16 * lanes)
    arguments = [*(block.address for block in blocks), units]
    rates = {}
    for name, arrays in (("read", 1), ("copy", 2), ("triad", 3)):
        address = native(stream_kernel(name, lanes))
        seconds, _ = fastest(lambda address=address: call_kernel(address, arguments, units, 1024), repeats)
        rates[name] = arrays * STREAM_BYTES / seconds
    return rates


def measure():
    """The Machine; takes about three seconds."""
    from flambeau.compiler import target
    from flambeau.runtime._core import get_num_threads, set_num_threads

    threads, figures = get_num_threads(), {}
    for label, count in (("one", 1), ("all", threads)):
        set_num_threads(count)
        figures[f"peak_{label}"] = measure_peak()
        figures |= {f"{name}_{label}": rate for name, rate in measure_streams().items()}
    return Machine(threads, target.current().vector_bytes, **figures)


def rows(machine):
    """Rows (what, one thread, all threads) of the table."""
    def pair(name, unit):
        return tuple(f"{getattr(machine, f'{name}_{label}') / 1e9:.1f} {unit}" for label in ("one", "all"))

    return [
        ("float32 multiply-add peak", *pair("peak", "GFLOP/s")),
        ("memory, read", *pair("read", "GB/s")),
        ("memory, copy", *pair("copy", "GB/s")),
        ("memory, triad", *pair("triad", "GB/s")),
    ]


def report(machine=None):
    """The table as text."""
    from flambeau.base.text import table

    machine = machine or measure()
    header = (f"machine ({8 * machine.vector_bytes}-bit vectors)", "1 thread", f"{machine.threads} threads")
    return table(rows(machine), header)


if __name__ == "__main__":
    print(report())
