# The Mersenne Twister behind PyTorch's stream of random numbers. The loops stand in twister.h; here are its state, as
# PyTorch lays it out in bytes, and the filling of tensors. Every call holds the GIL: draws of several threads from one
# generator come one after the other, whole.

cdef extern from "twister.h" nogil:
    ctypedef struct TwisterLoops:
        void (*stretch)(double*, int64_t, double, double) noexcept nogil
    ctypedef struct TwisterState "Twister":
        uint32_t word[624]
        int32_t next, fresh, has_normal
        double normal
        uint64_t seed
        const TwisterLoops* loops
    const TwisterLoops* twister_loops_for(int) noexcept
    void twister_seed(TwisterState*, uint64_t) noexcept
    uint64_t twister_64(TwisterState*) noexcept
    void twister_temper(TwisterState*) noexcept
    double twister_normal(TwisterState*) noexcept
    void twister_floats(TwisterState*, float*, int64_t, float, float) noexcept
    void twister_doubles(TwisterState*, double*, int64_t) noexcept
    void twister_below(TwisterState*, uint8_t*, int64_t, double) noexcept
    void twister_normal_floats(TwisterState*, float*, int64_t, float, float, int) noexcept
    void twister_pairs_of_doubles(double*, double, double) noexcept
    void twister_integers(TwisterState*, int64_t*, int64_t, uint64_t, int64_t, int) noexcept
    int64_t twister_place(TwisterState*, const double*, int64_t) noexcept
    void twister_permutation(TwisterState*, int64_t*, int64_t) noexcept
    void twister_shape(double*, int64_t, int, double, double) noexcept

cdef extern from "<math.h>" nogil:
    double fma(double, double, double) noexcept
    double HUGE_VAL

cdef extern from "twister_counts.h" nogil:
    double twister_poisson(TwisterState*, double) noexcept
    double twister_gamma(TwisterState*, double) noexcept
    double twister_binomial(TwisterState*, double, double) noexcept

cdef struct TwisterRecord:               # PyTorch's layout of a generator's state on the CPU, 5056 bytes
    uint64_t seed
    int32_t left, seeded
    uint64_t next
    uint64_t word[624]
    double normal_x, normal, normal_rho
    int32_t has_normal, padding
    float float_normal
    int32_t has_float_normal

cdef enum:
    CODE_BOOL = 0
    CODE_INT64 = 5
    CODE_FLOAT32 = 8
    CODE_FLOAT64 = 9
    BLOCKS_FROM = 16                     # so many normal numbers are made in blocks


cdef void shape_doubles(const int64_t* args, int64_t begin, int64_t end) noexcept nogil:
    twister_shape(<double*>args[0] + begin, end - begin, <int>args[1], (<double*>&args[2])[0], (<double*>&args[3])[0])


cdef void pair_doubles(const int64_t* args, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t row
    for row in range(begin, end):
        twister_pairs_of_doubles(<double*>args[0] + 16 * row, (<double*>&args[1])[0], (<double*>&args[2])[0])


cdef class MersenneTwister:
    """mt19937 with the draws that PyTorch makes of it, in its order.

    What fills a tensor takes row-major memory of the dtype that the method names, and returns False for any other.
    """
    cdef TwisterState state

    def __cinit__(self, uint64_t seed=67280421310721, int instructions=2):
        self.state.loops = twister_loops_for(instructions)
        twister_seed(&self.state, seed)

    def seed(self, uint64_t seed):
        twister_seed(&self.state, seed)

    @property
    def initial_seed(self):
        return self.state.seed

    def to_bytes(self):
        """The state in PyTorch's layout."""
        cdef TwisterRecord record
        cdef int i
        memset(&record, 0, sizeof(record))
        record.seed, record.seeded = self.state.seed, 1
        record.next = 0 if self.state.fresh else self.state.next
        record.left = 1 if self.state.fresh else 625 - self.state.next
        for i in range(624):
            record.word[i] = self.state.word[i]
        record.has_normal = self.state.has_normal
        if record.has_normal:
            record.normal = self.state.normal
        return (<char*>&record)[:sizeof(record)]

    def from_bytes(self, bytes data):
        """Take over a state of `to_bytes` or of PyTorch."""
        cdef TwisterRecord record
        cdef int i
        if len(data) != sizeof(record):
            raise RuntimeError(f"RNG state is wrong size: a generator's state has {sizeof(record)} bytes, got {len(data)}")
        memcpy(&record, <const char*>data, sizeof(record))
        if not (record.seeded == 1 and 1 <= record.left <= 624 and record.next <= 624):
            raise RuntimeError("Invalid mt19937 state")
        self.state.seed = record.seed
        for i in range(624):
            self.state.word[i] = <uint32_t>record.word[i]
        self.state.fresh = record.left == 1 and record.next == 0
        self.state.next = 624 if record.left == 1 else <int32_t>record.next
        self.state.has_normal, self.state.normal = record.has_normal, record.normal
        twister_temper(&self.state)

    cdef bint fits(self, Tensor out, int code) noexcept:
        """Whether `out` is row-major memory of the dtype; if so, a write into it is noted."""
        if out.code != code or not out.contiguous_ or out.storage is None:
            return False
        written(out, "a random draw")
        return True

    # -------------------------------------------------------------- floating point
    def uniform(self, Tensor out, double low=0.0, double high=1.0):
        """float32 of 24 random bits, or float64 of 53, stretched to [low, high)."""
        if self.fits(out, CODE_FLOAT32):
            twister_floats(&self.state, <float*>out.first, out.numel_, <float>low, <float>high - <float>low)
        elif self.fits(out, CODE_FLOAT64):
            twister_doubles(&self.state, <double*>out.first, out.numel_)
            if low != 0.0 or high != 1.0:
                self.state.loops.stretch(<double*>out.first, out.numel_, low, high - low)
        else:
            return False
        return True

    def normal(self, Tensor out, double mean=0.0, double std=1.0, bint blocks=True, bint all_first=True):
        """float32 or float64; in blocks of 16 if there are so many (see twister.h), else one by one."""
        cdef int64_t i
        if self.fits(out, CODE_FLOAT32):
            if out.numel_ >= BLOCKS_FROM and blocks:
                twister_normal_floats(&self.state, <float*>out.first, out.numel_, <float>mean, <float>std, all_first)
                return True
            for i in range(out.numel_):
                (<float*>out.first)[i] = <float>fma(twister_normal(&self.state), std, mean)
        elif self.fits(out, CODE_FLOAT64):
            if out.numel_ >= BLOCKS_FROM and blocks:
                self.normal_doubles(<double*>out.first, out.numel_, mean, std)
                return True
            for i in range(out.numel_):
                (<double*>out.first)[i] = fma(twister_normal(&self.state), std, mean)
        else:
            return False
        return True

    cdef void normal_doubles(self, double* out, int64_t count, double mean, double std) noexcept:
        cdef int64_t args[3]
        args[0] = <int64_t>out
        (<double*>&args[1])[0] = mean
        (<double*>&args[2])[0] = std
        twister_doubles(&self.state, out, count)
        parallel_for(pair_doubles, args, count // 16, 64, False)
        if count % 16:
            twister_doubles(&self.state, out + count - 16, 16)
            twister_pairs_of_doubles(out + count - 16, mean, std)

    def shaped(self, Tensor out, int kind, double a, double b=0.0):
        """float64: 0 exponential (a: -1 / rate), 1 Cauchy (a: median, b: width), 2 geometric (a: log(1 - p))."""
        cdef int64_t args[4]
        if not self.fits(out, CODE_FLOAT64):
            return False
        args[0], args[1] = <int64_t>out.first, kind
        (<double*>&args[2])[0] = a
        (<double*>&args[3])[0] = b
        twister_doubles(&self.state, <double*>out.first, out.numel_)
        parallel_for(shape_doubles, args, out.numel_, 4096, False)
        return True

    # -------------------------------------------------------------- integers
    def bits(self):
        """64 bits as an int."""
        return twister_64(&self.state)

    def integers(self, Tensor out, uint64_t range, int64_t base=0, bint wide=False):
        """int64: base plus a word (two if `wide`) modulo `range`; range 0 takes the bits as they are."""
        if not self.fits(out, CODE_INT64):
            return False
        twister_integers(&self.state, <int64_t*>out.first, out.numel_, range, base, wide)
        return True

    def permutation(self, Tensor out):
        """int64: 0, 1, ... in random order."""
        if not self.fits(out, CODE_INT64):
            return False
        twister_permutation(&self.state, <int64_t*>out.first, out.numel_)
        return True

    def below(self, Tensor out, double p):
        """bool: True where a 53-bit uniform number is below p."""
        if not self.fits(out, CODE_BOOL):
            return False
        twister_below(&self.state, <uint8_t*>out.first, out.numel_, p)
        return True

    def categories(self, Tensor out, Tensor weights):
        """int64 (..., draws): where uniform numbers fall among the cumulated weights (..., classes), float32 or float64.

        0: done; 1: a weight is negative or not finite; 2: a row sums to 0.
        """
        cdef int64_t row, i, n = weights.dims[weights.ndim_ - 1], rows, draws = out.dims[out.ndim_ - 1]
        cdef double* edges
        cdef double weight, total
        cdef bint narrow = weights.code == CODE_FLOAT32
        if not (weights.contiguous_ and (narrow or weights.code == CODE_FLOAT64) and self.fits(out, CODE_INT64)):
            raise TypeError("row-major float32 or float64 weights and int64 places were wanted")
        rows = weights.numel_ // n
        edges = <double*>malloc(n * sizeof(double))
        try:
            for row in range(rows):
                total = 0.0
                for i in range(n):
                    if narrow:
                        weight = (<float*>weights.first)[row * n + i]
                        total = <float>total + <float>weight
                    else:
                        weight = (<double*>weights.first)[row * n + i]
                        total += weight
                    if not 0.0 <= weight < HUGE_VAL:
                        return 1
                    edges[i] = total
                if not total > 0.0:
                    return 2
                for i in range(n):
                    edges[i] = <float>(<float>edges[i] / <float>total) if narrow else edges[i] / total
                edges[n - 1] = 1.0
                for i in range(draws):
                    (<int64_t*>out.first)[row * draws + i] = twister_place(&self.state, edges, n)
        finally:
            free(edges)
        return 0

    # -------------------------------------------------------------- by rejection
    def counts(self, str distribution, Tensor out, Tensor first, Tensor second=None):
        """float64 draws 'poisson' (rates), 'gamma' (concentrations) or 'binomial' (counts, probabilities)."""
        cdef double* to = <double*>out.first
        cdef double* a = <double*>first.first
        cdef double* b = NULL if second is None else <double*>second.first
        cdef int64_t i
        for t in (out, first, first if second is None else second):
            if (<Tensor>t).code != CODE_FLOAT64 or not (<Tensor>t).contiguous_ or (<Tensor>t).numel_ != out.numel_:
                raise TypeError("row-major float64 parameters in the shape of the result were wanted")
        for i in range(out.numel_):
            if distribution == "poisson":
                to[i] = twister_poisson(&self.state, a[i])
            elif distribution == "gamma":
                to[i] = twister_gamma(&self.state, a[i])
            elif b != NULL:
                to[i] = twister_binomial(&self.state, a[i], b[i])
        return out


# ------------------------------------------------------------------------------ Flambeau's own stream
cdef inline uint64_t mixed(uint64_t bits) noexcept:
    """SplitMix64's finaliser (ops/random.py)."""
    bits = (bits ^ (bits >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    bits = (bits ^ (bits >> 27)) * <uint64_t>0x94D049BB133111EB
    return bits ^ (bits >> 31)


cdef class CounterKeys:
    """A seed and a count of draws; each draw gets a key of its own."""
    cdef public uint64_t seed, draws

    def key(self):
        """The key of the next draw."""
        cdef uint64_t gamma = <uint64_t>0x9E3779B97F4A7C15
        self.draws += 1
        return <int64_t>mixed(mixed(self.seed + gamma) + self.draws * gamma)
