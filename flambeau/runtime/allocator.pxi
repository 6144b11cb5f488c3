"""The caching allocator of tensor memory: fresh memory costs page faults, so released blocks are kept.

Sizes are rounded up to eight classes an octave (multiples of 64 bytes up to 512) or, above 1 MB, to whole
pages. Each class has a list of free blocks, linked through the blocks themselves; a large request also
takes a block of up to 4/3 of its size. The limit of live + cached bytes is the peak of live bytes plus a
quarter of it or 256 MB, whichever is more; before fresh memory would pass it, cached blocks are given back,
the class used longest ago first.

Blocks of up to 2 KB are cut from slabs on huge pages, which stay with the process: a graph of many small
tensors touches fresh memory 2 MB at a time, not 4 KB. They do not count as cached.

Every function here is called with the GIL held, which is why there are no locks.
"""

from libc.stdlib cimport free as alloc_free
from libc.string cimport memset as alloc_fill

cdef extern from "allocator.h" nogil:
    int alloc_highest_bit(size_t value) noexcept
    void* alloc_map(size_t size) noexcept
    void alloc_unmap(void* start, size_t size) noexcept
    void* alloc_small(size_t size) noexcept

cdef enum:
    ALLOC_LARGE = 1 << 20           # bytes; above: whole pages from the system
    ALLOC_PAGE = 4096
    ALLOC_SMALL = 2048              # bytes; up to here: cut from slabs
    ALLOC_SLAB = 2 << 20
    ALLOC_LEAST_SLACK = 256 << 20   # bytes that may always be cached on top of the peak
    ALLOC_CLASSES = 8 * 56
    ALLOC_WALK = 16                 # blocks of one class that a large request looks at

ctypedef struct alloc_block:        # the head of a free block
    alloc_block* next
    size_t size

ctypedef struct alloc_class:
    alloc_block* free
    int64_t last_use                # value of alloc_count when a block was last released into it

cdef alloc_class[ALLOC_CLASSES] alloc_classes
cdef int64_t alloc_live = 0, alloc_peak = 0, alloc_cached = 0, alloc_largest_peak = 0
cdef int64_t alloc_count = 0, alloc_hits = 0, alloc_blocks = 0
cdef char* alloc_slab = NULL        # the rest of the current slab
cdef size_t alloc_slab_left = 0
cdef int64_t alloc_slabs = 0        # bytes in slabs
cdef int64_t alloc_limit = 0        # live + cached bytes may not pass it; 0: no limit
cdef object alloc_report = None     # tells who holds the memory, for the error


cdef inline int alloc_class_of(size_t nbytes, size_t* rounded) noexcept nogil:
    """Index of the class that holds `nbytes` (at least 1), and the class's upper size."""
    cdef size_t last = nbytes - 1
    cdef int shift
    if last < 512:
        rounded[0] = (last | 63) + 1
        return <int>(last >> 6)
    shift = alloc_highest_bit(last) - 3
    rounded[0] = ((last >> shift) + 1) << shift
    return ((shift - 5) << 3) + <int>((last >> shift) & 7)


cdef inline void alloc_account(size_t size) noexcept nogil:
    global alloc_live, alloc_peak, alloc_blocks
    alloc_blocks += 1
    alloc_live += size
    if alloc_live > alloc_peak:
        alloc_peak = alloc_live


cdef void* alloc_acquire(size_t nbytes, size_t* got) except NULL:
    """Memory of at least `nbytes` bytes, aligned to 64; `got` receives the size to release it with.

    Needs the GIL. The content is undefined. Raises MemoryError when the system gives nothing even after the
    cache is emptied.
    """
    global alloc_count, alloc_hits, alloc_cached
    cdef size_t size
    cdef int index
    cdef alloc_block* block
    alloc_count += 1
    if nbytes > ALLOC_LARGE:
        return alloc_acquire_large(nbytes, got)
    index = alloc_class_of(nbytes if nbytes else 1, &size)
    block = alloc_classes[index].free
    if block == NULL:
        return alloc_fresh(nbytes, size, got)
    alloc_classes[index].free = block.next
    alloc_hits += 1
    if size > ALLOC_SMALL:
        alloc_cached -= size
    alloc_account(size)
    got[0] = size
    return block


cdef void alloc_release(void* start, size_t got) noexcept:
    """Give back what alloc_acquire returned, with its `got`. Needs the GIL."""
    global alloc_live, alloc_blocks, alloc_cached
    cdef size_t size
    cdef int index = alloc_class_of(got, &size)
    cdef alloc_block* block = <alloc_block*>start
    block.next = alloc_classes[index].free
    block.size = got
    alloc_classes[index].free = block
    alloc_classes[index].last_use = alloc_count
    alloc_blocks -= 1
    alloc_live -= got
    if got > ALLOC_SMALL:
        alloc_cached += got


cdef void* alloc_acquire_large(size_t nbytes, size_t* got) except NULL:
    """A cached block of nbytes to 4/3 nbytes, the smallest met, or fresh pages."""
    global alloc_hits, alloc_cached
    cdef size_t size = (nbytes + ALLOC_PAGE - 1) & ~<size_t>(ALLOC_PAGE - 1)
    cdef size_t most, unused
    cdef int index, last, walked
    cdef alloc_block** link
    cdef alloc_block** best = NULL
    cdef alloc_block* block
    if nbytes > <size_t>1 << 56:
        return alloc_fail(nbytes)
    most = size + size // 3
    last = alloc_class_of(most, &unused)
    for index in range(alloc_class_of(size, &unused), last + 1):
        link = &alloc_classes[index].free
        walked = 0
        while link[0] != NULL and walked < ALLOC_WALK:
            if size <= link[0].size <= most and (best == NULL or link[0].size < best[0].size):
                best = link
            link = &link[0].next
            walked += 1
        if best != NULL:
            block = best[0]
            best[0] = block.next
            alloc_hits += 1
            alloc_cached -= block.size
            alloc_account(block.size)
            got[0] = block.size
            return block
    return alloc_fresh(nbytes, size, got)


cdef void* alloc_fresh(size_t nbytes, size_t size, size_t* got) except NULL:
    """Memory from the system, after trimming the cache to the limit."""
    global alloc_largest_peak
    cdef void* start
    if alloc_limit:
        alloc_trim(alloc_limit - <int64_t>size)
        if alloc_live + <int64_t>size > alloc_limit:
            return alloc_fail(nbytes)
    if size <= ALLOC_SMALL:
        start = alloc_cut(size)
        if start == NULL:
            return alloc_fail(nbytes)
        alloc_account(size)
        got[0] = size
        return start
    alloc_largest_peak = max(alloc_largest_peak, alloc_peak, alloc_live + <int64_t>size)
    alloc_trim(alloc_largest_peak + max(<int64_t>ALLOC_LEAST_SLACK, alloc_largest_peak // 4) - <int64_t>size)
    start = alloc_system(size)
    if start == NULL:
        alloc_trim(0)
        start = alloc_system(size)
        if start == NULL:
            return alloc_fail(nbytes)
    alloc_account(size)
    got[0] = size
    return start


cdef void* alloc_cut(size_t size) noexcept nogil:
    """A small block from the current slab, or from a new one; what is left of the old one is lost (under 2 KB)."""
    global alloc_slab, alloc_slab_left, alloc_slabs
    cdef char* start
    if alloc_slab_left < size:
        start = <char*>alloc_map(ALLOC_SLAB)
        if start == NULL:
            return NULL
        alloc_slab, alloc_slab_left = start, ALLOC_SLAB
        alloc_slabs += ALLOC_SLAB
    start = alloc_slab
    alloc_slab += size
    alloc_slab_left -= size
    return start


cdef inline void* alloc_system(size_t size) noexcept nogil:
    return alloc_map(size) if size > ALLOC_LARGE else alloc_small(size)


cdef void* alloc_fail(size_t nbytes) except NULL:
    global alloc_report
    text = (f"[allocate] out of memory: wanted {nbytes} bytes; {alloc_live} bytes are live in {alloc_blocks} "
            f"blocks, {alloc_cached} cached, peak {alloc_peak}" + (f", limit {alloc_limit}" if alloc_limit else ""))
    report, alloc_report = alloc_report, None           # what it allocates itself cannot report
    try:
        text += "\n" + report(nbytes) if report is not None else ""
    except Exception:           # the report is a help, never a second fault
        pass
    finally:
        alloc_report = report
    raise MemoryError(f"{text}\n  hint: smaller batches or shapes; flambeau.memory.summary() shows the counters")


# ---- giving memory back to the system
cdef void alloc_trim(int64_t most_held) noexcept:
    """Free cached blocks until live + cached <= most_held, the class used longest ago first."""
    cdef int index, oldest
    cdef size_t unused
    cdef int alloc_first_returnable = alloc_class_of(ALLOC_SMALL + 1, &unused)
    while alloc_cached > 0 and alloc_live + alloc_cached > most_held:
        oldest = -1
        for index in range(alloc_first_returnable, ALLOC_CLASSES):
            if alloc_classes[index].free != NULL and (
                    oldest < 0 or alloc_classes[index].last_use < alloc_classes[oldest].last_use):
                oldest = index
        if oldest < 0:
            return
        while alloc_classes[oldest].free != NULL and alloc_live + alloc_cached > most_held:
            alloc_give_back(oldest)


cdef inline void alloc_give_back(int index) noexcept:
    """Free the first cached block of a class."""
    global alloc_cached
    cdef alloc_block* block = alloc_classes[index].free
    alloc_classes[index].free = block.next
    alloc_cached -= block.size
    if block.size > ALLOC_LARGE:
        alloc_unmap(block, block.size)
    else:
        alloc_free(block)


# ---- Python
def memory_stats():
    """Counters of tensor memory: sizes in bytes, the others since the start.

    live_bytes, live_blocks: in use now; peak_bytes: most in use since the start or reset_peak;
    cached_bytes: free, kept for reuse; slab_bytes: held for blocks of up to 2 KB, live or free; allocations: requests; cache_hits: those served from the cache.
    """
    return {"live_bytes": alloc_live, "peak_bytes": alloc_peak, "cached_bytes": alloc_cached, "slab_bytes": alloc_slabs,
            "live_blocks": alloc_blocks, "limit_bytes": alloc_limit, "allocations": alloc_count, "cache_hits": alloc_hits}


def memory_empty_cache():
    """Give all cached memory back to the system; return how many bytes."""
    cdef int64_t before = alloc_cached
    alloc_trim(0)
    return before - alloc_cached


def memory_set_limit(int64_t most):
    """Live and cached bytes together may not pass `most` (0: no limit); returns what it was."""
    global alloc_limit
    before, alloc_limit = alloc_limit, most
    return before


def memory_set_report(function):
    """Install function(bytes wanted) -> text, which tells in the error who holds the memory."""
    global alloc_report
    alloc_report = function


def memory_reset_peak():
    """Let the peak start again from what is live now; also the cache's limit."""
    global alloc_peak, alloc_largest_peak
    alloc_peak = alloc_largest_peak = alloc_live


# ---- for tests and benchmarks
cdef class MemoryBlock:
    """Holds a block of `size` granted bytes at `address`; `release()` or its end gives it back."""
    cdef void* start
    cdef readonly size_t size

    def __cinit__(self, nbytes):
        self.start = alloc_acquire(nbytes, &self.size)

    def __dealloc__(self):
        self.release()

    cpdef release(self):
        if self.start != NULL:
            alloc_release(self.start, self.size)
            self.start = NULL

    @property
    def address(self):
        return <uintptr_t>self.start

    def fill(self, int value=0):
        alloc_fill(self.start, value, self.size)


def _alloc_test_cost(size_t nbytes, int64_t calls):
    """Nanoseconds that one alloc_acquire and its alloc_release take, on average, from the cache."""
    cdef int64_t index, began
    cdef size_t got = 0
    cdef void* start
    alloc_release(alloc_acquire(nbytes, &got), got)
    began = pool_now()
    for index in range(calls):
        start = alloc_acquire(nbytes, &got)
        alloc_release(start, got)
    return (pool_now() - began) / <double>max(calls, 1)
