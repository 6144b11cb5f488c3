"""The thread pool: `parallel_for` runs a kernel over [0, extent) in chunks.

One job at a time. Its caller publishes it as one word, `state` = generation << 16 | chunks not yet claimed;
a thread claims a chunk by counting that word down, which fails if the generation moved on, so a worker that
wakes late can never touch a job that is over. The caller claims chunks like any worker and at the end waits
only for chunks that others have begun: a worker that the system does not run delays nobody. Who finds the
pool taken (another Python thread's job, or a kernel that calls parallel_for) runs its own range itself.
Workers never touch Python.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t

ctypedef void (*kernel_fn)(const int64_t* args, int64_t begin, int64_t end) noexcept nogil

cdef extern from "pool.h" nogil:
    ctypedef struct pthread_t:
        pass
    ctypedef struct pool_shared_t:
        uint64_t state
        uintptr_t kernel, args
        int64_t extent, chunk, count
        uint32_t pending, caller_sleeps, wakes, sleepers, stop, busy
    const int POOL_MOST_THREADS
    pool_shared_t pool_shared
    pthread_t* pool_workers
    int pool_is_inside() noexcept
    void pool_set_inside(int inside) noexcept
    uint64_t pool_get(uint64_t word) noexcept           # macros: the argument is an lvalue of any width
    uint64_t pool_get_relaxed(uint64_t word) noexcept
    void pool_set(uint64_t word, uint64_t value) noexcept
    void pool_set_relaxed(uint64_t word, uint64_t value) noexcept
    uint64_t pool_add(uint64_t word, uint32_t value) noexcept
    uint64_t pool_subtract(uint64_t word, uint32_t value) noexcept
    bint pool_try_lock(uint32_t word) noexcept
    void pool_unlock(uint32_t word) noexcept
    bint pool_swap_state(uint64_t seen, uint64_t next) noexcept
    void pool_pause() noexcept
    int64_t pool_now() noexcept
    void pool_sleep(uint32_t* word, uint32_t seen) noexcept
    void pool_wake(uint32_t* word, int count) noexcept
    void pool_reset_sleep() noexcept
    int pool_create_worker(pthread_t* thread, void* (*body)(void*) noexcept nogil) noexcept

cdef extern from "<pthread.h>" nogil:
    int pthread_join(pthread_t thread, void** result) noexcept
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil,
                       void (*child)() noexcept nogil) noexcept

cdef enum:
    POOL_UNCLAIMED = 0xFFFF         # the bits of `state` that count unclaimed chunks
    POOL_CHUNKS_A_THREAD = 4
    POOL_SPIN = 30000               # nanoseconds

cdef int pool_threads = 0           # the caller included; 0: not yet known
cdef int pool_running = 0           # workers started
cdef int64_t pool_spin = POOL_SPIN  # 0 when there are more threads than processors


# ---- one job
cdef uint32_t pool_work() noexcept nogil:
    """Claim and run chunks until none is left; return how many this thread ran."""
    cdef uint64_t seen
    cdef int64_t left, begin, end, chunk, extent, count
    cdef const int64_t* args
    cdef kernel_fn kernel
    cdef uint32_t done = 0
    while True:
        seen = pool_get(pool_shared.state)
        left = seen & POOL_UNCLAIMED
        if left == 0:
            return done
        kernel = <kernel_fn><uintptr_t>pool_get_relaxed(pool_shared.kernel)
        args = <const int64_t*><uintptr_t>pool_get_relaxed(pool_shared.args)
        extent = pool_get_relaxed(pool_shared.extent)
        chunk = pool_get_relaxed(pool_shared.chunk)
        count = pool_get_relaxed(pool_shared.count)
        if not pool_swap_state(seen, seen - 1):
            continue
        begin = (count - left) * chunk
        end = begin + chunk if extent - begin > chunk else extent
        kernel(args, begin, end)
        done += 1


@cython.cdivision(True)
cdef void pool_publish(kernel_fn kernel, const int64_t* args, int64_t extent, int64_t chunk) noexcept nogil:
    """Make a job visible and wake sleeping workers. The caller holds `busy`; the last job is finished."""
    cdef int64_t count = (extent - 1) // chunk + 1
    cdef uint64_t generation = (pool_shared.state >> 16) + 1
    pool_set_relaxed(pool_shared.kernel, <uintptr_t>kernel)
    pool_set_relaxed(pool_shared.args, <uintptr_t>args)
    pool_set_relaxed(pool_shared.extent, extent)
    pool_set_relaxed(pool_shared.chunk, chunk)
    pool_set_relaxed(pool_shared.count, count)
    pool_set_relaxed(pool_shared.caller_sleeps, 0)
    pool_set_relaxed(pool_shared.pending, <uint32_t>count)
    pool_set(pool_shared.state, generation << 16 | <uint64_t>count)
    pool_wake_workers(count - 1)


cdef void pool_wake_workers(int64_t useful) noexcept nogil:
    """Wake a few workers; each wakes more while chunks are left, so that no thread pays for waking all."""
    if useful > 0 and pool_get(pool_shared.sleepers) > 0:
        pool_add(pool_shared.wakes, 1)
        pool_wake(&pool_shared.wakes, <int>min(useful, 3))


cdef void pool_await() noexcept nogil:
    """Return when every chunk is finished: spin a little, then sleep."""
    cdef int64_t until = pool_now() + pool_spin
    cdef int turn = 0
    cdef uint32_t pending
    while pool_get(pool_shared.pending) != 0:
        pool_pause()
        turn += 1
        if (turn & 31) == 0 and pool_now() >= until:
            break
    pending = pool_get(pool_shared.pending)
    while pending != 0:
        pool_set(pool_shared.caller_sleeps, 1)
        pending = pool_get(pool_shared.pending)
        if pending != 0:
            pool_sleep(&pool_shared.pending, pending)
            pending = pool_get(pool_shared.pending)


@cython.cdivision(True)
cdef void pool_run(kernel_fn kernel, const int64_t* args, int64_t extent, int64_t grain) noexcept nogil:
    """parallel_for without a thought of the GIL: to be called from native code."""
    cdef int64_t chunk
    cdef uint32_t done
    if extent <= 0:
        return
    grain = max(grain, 1)
    if extent <= grain or pool_threads < 2 or pool_is_inside() or not pool_try_lock(pool_shared.busy):
        kernel(args, 0, extent)
        return
    if pool_running == 0:
        pool_start()
    # the chunk: a quarter of a thread's share, at least grain, a multiple of grain
    chunk = (extent - 1) // (POOL_CHUNKS_A_THREAD * pool_threads) + 1
    chunk = ((chunk - 1) // grain + 1) * grain
    pool_set_inside(1)
    pool_publish(kernel, args, extent, chunk)
    done = pool_work()
    if pool_subtract(pool_shared.pending, done) != 0:
        pool_await()
    pool_set_inside(0)
    pool_unlock(pool_shared.busy)


cdef void parallel_for(kernel_fn kernel, const int64_t* args, int64_t extent, int64_t grain,
                       bint release_gil) noexcept:
    """Run kernel(args, begin, end) over chunks that cover [0, extent) once and begin at multiples of `grain`.

    Called with the GIL; `release_gil` lets other Python threads run meanwhile: worth it above some 20 us of
    work. Returns when all is done. There is one chunk, on this thread, if extent <= grain, if there is one
    thread, inside a kernel, or while another thread's job runs. Chunks run in any order.
    """
    if pool_threads == 0:
        pool_count_threads()
    if release_gil:
        with nogil:
            pool_run(kernel, args, extent, grain)
    else:
        pool_run(kernel, args, extent, grain)


# ---- the workers
cdef bint pool_spin_for_work() noexcept nogil:
    """Wait a little for a job (or the order to stop); False when there was none."""
    cdef int64_t until = pool_now() + pool_spin
    cdef int turn = 0
    while (pool_get_relaxed(pool_shared.state) & POOL_UNCLAIMED) == 0:
        if pool_get_relaxed(pool_shared.stop):
            return True
        pool_pause()
        turn += 1
        if (turn & 31) == 0 and pool_now() >= until:
            return False
    return True


cdef void pool_sleep_for_work() noexcept nogil:
    cdef uint32_t seen = pool_get(pool_shared.wakes)
    pool_add(pool_shared.sleepers, 1)               # from here on a caller sees a sleeper and changes `wakes`
    if (pool_get(pool_shared.state) & POOL_UNCLAIMED) == 0 and not pool_get(pool_shared.stop):
        pool_sleep(&pool_shared.wakes, seen)
    pool_subtract(pool_shared.sleepers, 1)
    pool_wake_workers((pool_get(pool_shared.state) & POOL_UNCLAIMED) - 1)


cdef void* pool_worker(void* unused) noexcept nogil:
    cdef uint32_t done
    pool_set_inside(1)
    while not pool_get(pool_shared.stop):
        done = pool_work()
        if done and pool_subtract(pool_shared.pending, done) == 0 and pool_get(pool_shared.caller_sleeps):
            pool_wake(&pool_shared.pending, 1)
        if not pool_spin_for_work():
            pool_sleep_for_work()
    return NULL


cdef void pool_start() noexcept nogil:
    """Start the workers; fewer (or none) if the system refuses. The caller holds `busy`."""
    global pool_running, pool_threads
    while pool_running < pool_threads - 1:
        if pool_create_worker(&pool_workers[pool_running], pool_worker):
            pool_threads = pool_running + 1
            return
        pool_running += 1


cdef void pool_stop() noexcept nogil:
    """End the workers. The caller holds `busy`."""
    global pool_running
    cdef int index
    pool_set(pool_shared.stop, 1)
    pool_add(pool_shared.wakes, 1)
    pool_wake(&pool_shared.wakes, POOL_MOST_THREADS)
    for index in range(pool_running):
        pthread_join(pool_workers[index], NULL)
    pool_running = 0
    pool_set(pool_shared.stop, 0)


cdef void pool_after_fork() noexcept nogil:
    """In a forked child only the forking thread lives: no workers, no job, nobody holds the pool."""
    global pool_running
    pool_running = 0
    pool_shared.state = ((pool_shared.state >> 16) + 1) << 16
    pool_shared.pending = pool_shared.sleepers = pool_shared.stop = pool_shared.busy = 0
    pool_set_inside(0)
    pool_reset_sleep()


pthread_atfork(NULL, NULL, pool_after_fork)


# ---- the number of threads
cdef void pool_count_threads() noexcept:
    """Fill pool_threads from affinity, cgroup quota and FLAMBEAU_THREADS."""
    try:
        from flambeau.runtime.threads import default_threads
        pool_choose_threads(default_threads())
    except Exception as problem:
        import warnings
        pool_choose_threads(1)
        warnings.warn(f"running on one thread: {problem}")


cdef int pool_choose_threads(int threads) except -1:
    global pool_threads, pool_spin
    from flambeau.runtime.threads import usable_processors
    processors = usable_processors()
    pool_threads = min(threads, POOL_MOST_THREADS)
    pool_spin = POOL_SPIN if pool_threads <= processors else 0
    return 0


def get_num_threads():
    """Number of threads that kernels run on, the calling one included."""
    if pool_threads == 0:
        pool_count_threads()
    return pool_threads


def set_num_threads(int threads):
    """Run kernels on `threads` threads, the calling one included; waits for running kernels.

    Raises ValueError below 1. More threads than processors are allowed and slow.
    """
    if threads < 1:
        raise ValueError(f"[set_num_threads] needs at least one thread: got {threads}, wanted 1 or more")
    with nogil:
        while not pool_try_lock(pool_shared.busy):
            pool_nap()
        pool_stop()
    try:
        pool_choose_threads(threads)
    finally:
        pool_unlock(pool_shared.busy)


cdef extern from "<unistd.h>" nogil:
    int pool_usleep "usleep"(unsigned int microseconds) noexcept


cdef void pool_nap() noexcept nogil:
    pool_usleep(50)


# ---- for benchmarks and tests
def call_kernel(uintptr_t address, args, int64_t extent, int64_t grain, bint release_gil=True):
    """Run the kernel at `address` over [0, extent) through the pool.

    `args` are the kernel's int64 arguments: addresses of buffers, then parameters. Nothing is checked.
    """
    cdef int64_t[64] values
    cdef Py_ssize_t index
    if len(args) > 64:
        raise ValueError(f"[call_kernel] too many arguments: got {len(args)}, wanted 64 at most")
    for index in range(len(args)):
        values[index] = args[index]
    parallel_for(<kernel_fn>address, values, extent, grain, release_gil)


cdef void pool_test_kernel(const int64_t* args, int64_t begin, int64_t end) noexcept nogil:
    """args: counts and starts (uint8), nanoseconds that a chunk takes, grain of a nested call or 0."""
    cdef unsigned char* counts = <unsigned char*>args[0]
    cdef unsigned char* starts = <unsigned char*>args[1]
    cdef int64_t[4] inner
    cdef int64_t index, until
    if args[3] > 0:
        inner[0], inner[1], inner[2], inner[3] = args[0] + begin, args[1] + begin, args[2], 0
        pool_run(pool_test_kernel, inner, end - begin, args[3])
        return
    starts[begin] += 1
    for index in range(begin, end):
        counts[index] += 1
    if args[2] > 0:
        until = pool_now() + args[2]
        while pool_now() < until:
            pool_pause()


def _pool_test_cover(int64_t extent, int64_t grain, bint release_gil=False, int64_t nanoseconds=0,
                     int64_t nested=0):
    """Run a job that counts visits; return (visits of each index, first indices of chunks)."""
    cdef bytearray counts = bytearray(max(extent, 1)), starts = bytearray(max(extent, 1))
    cdef int64_t[4] args
    args[0], args[1] = <int64_t><uintptr_t><char*>counts, <int64_t><uintptr_t><char*>starts
    args[2], args[3] = nanoseconds, nested
    parallel_for(pool_test_kernel, args, extent, grain, release_gil)
    return bytes(counts[:max(extent, 0)]), [index for index in range(max(extent, 0)) if starts[index]]


def _pool_test_cost(int64_t extent, int64_t grain, int64_t calls):
    """Nanoseconds a call of parallel_for takes, on average, with a kernel that adds to `extent` bytes."""
    cdef bytearray counts = bytearray(extent), starts = bytearray(extent)
    cdef int64_t[4] args
    cdef int64_t index, began
    args[0], args[1] = <int64_t><uintptr_t><char*>counts, <int64_t><uintptr_t><char*>starts
    args[2] = args[3] = 0
    began = pool_now()
    for index in range(calls):
        parallel_for(pool_test_kernel, args, extent, grain, False)
    return (pool_now() - began) / <double>max(calls, 1)
