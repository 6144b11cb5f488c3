/* The loops of twister.h, compiled once for each instruction set: LOOP(name) gives the set's name for one.
 *
 * Each is plain C that a compiler turns into vector instructions. Products and sums are fused only where fmaf says so,
 * so every set gives the same bits. */

#define TWIST_OF(high, low)                                                                                        \
    ((((high) & 0x80000000u) | ((low) & 0x7fffffffu)) >> 1 ^ (0x9908b0dfu & (0u - ((low) & 1u))))

/* The next 624 words from the last ones, in place, and what is handed out of them. */
static void LOOP(twist)(uint32_t *restrict word, uint32_t *restrict ready) {
    int i;
    for (i = 0; i < 227; i++)
        word[i] = word[i + 397] ^ TWIST_OF(word[i], word[i + 1]);
    IGNORE_DEPENDENCES
    for (i = 227; i < 454; i++)
        word[i] = word[i - 227] ^ TWIST_OF(word[i], word[i + 1]);
    IGNORE_DEPENDENCES
    for (i = 454; i < 623; i++)
        word[i] = word[i - 227] ^ TWIST_OF(word[i], word[i + 1]);
    word[623] = word[396] ^ TWIST_OF(word[623], word[0]);
    for (i = 0; i < 624; i++) {
        uint32_t y = word[i];
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c5680u;
        y ^= (y << 15) & 0xefc60000u;
        ready[i] = y ^ y >> 18;
    }
}

/* The lowest 24 bits of each word over 2**24, stretched to [low, low + width). */
static void LOOP(floats)(const uint32_t *restrict word, float *restrict out, int64_t count, float low, float width) {
    int64_t i;
    for (i = 0; i < count; i++)
        out[i] = fmaf((float)(int32_t)(word[i] & 0xffffffu) * (1.0f / 16777216.0f), width, low);
}

/* 53 bits of two words, the high one first, over 2**53, in [0, 1). */
static void LOOP(doubles)(const uint32_t *restrict word, double *restrict out, int64_t count) {
    int64_t i;
    for (i = 0; i < count; i++) {
        double high = (double)(int32_t)(word[2 * i] & 0x1fffffu);
        double low = (double)(int32_t)(word[2 * i + 1] ^ 0x80000000u) + 2147483648.0;
        out[i] = (high * 4294967296.0 + low) * (1.0 / 9007199254740992.0);
    }
}

static void LOOP(stretch)(double *restrict out, int64_t count, double low, double width) {
    int64_t i;
    for (i = 0; i < count; i++)
        out[i] = fma(out[i], width, low);
}

/* base + each word modulo range, 1 <= range <= 2**31. Every step is exact but the quotient, which may be off by one. */
static void LOOP(remainders)(const uint32_t *restrict word, int64_t *restrict out, int64_t count, double range,
                             int64_t base) {
    double inverse = 1.0 / range;
    int64_t i;
    for (i = 0; i < count; i++) {
        double bits = (double)(int32_t)(word[i] ^ 0x80000000u) + 2147483648.0;
        double rest = bits - floor(bits * inverse) * range;
        rest = rest < 0.0 ? rest + range : rest;
        rest = rest >= range ? rest - range : rest;
        out[i] = base + (int64_t)(int32_t)rest;
    }
}

/* 1 where the 53 bits of two words are below `limit`. */
static void LOOP(below)(const uint64_t *restrict pair, uint8_t *restrict out, int64_t count, int64_t limit) {
    int64_t i;
    for (i = 0; i < count; i++) {
        uint64_t bits = (FIRST_IS_LOW ? pair[i] << 32 | pair[i] >> 32 : pair[i]) & 0x1fffffffffffffULL;
        out[i] = (uint8_t)((int64_t)bits < limit);
    }
}

/* Natural logarithm of a normal number in (0, 1], after Moshier's Cephes library (logf). */
static inline float LOOP(log)(float x) {
    uint32_t bits;
    float e, z, y, m;
    int32_t small;
    memcpy(&bits, &x, 4);
    e = (float)((int32_t)(bits >> 23) - 126);
    bits = (bits & 0x007fffffu) | 0x3f000000u;
    memcpy(&m, &bits, 4);
    small = m < 0.707106781186547524f;
    e -= small ? 1.0f : 0.0f;
    m = (m - 1.0f) + (small ? m : 0.0f);
    z = m * m;
    y = fmaf(7.0376836292E-2f, m, -1.1514610310E-1f);
    y = fmaf(y, m, 1.1676998740E-1f);
    y = fmaf(y, m, -1.2420140846E-1f);
    y = fmaf(y, m, 1.4249322787E-1f);
    y = fmaf(y, m, -1.6668057665E-1f);
    y = fmaf(y, m, 2.0000714765E-1f);
    y = fmaf(y, m, -2.4999993993E-1f);
    y = fmaf(y, m, 3.3333331174E-1f);
    y = y * m;
    y = fmaf(y, z, e * -2.12194440e-4f);
    y = fmaf(z, -0.5f, y);
    return fmaf(e, 0.693359375f, m + y);
}

/* Box and Muller's pairs in place: rows of 16 uniform numbers, 8 radii and then 8 angles (Cephes' sinf and cosf). */
static void LOOP(pairs)(float *data, int64_t rows, float mean, float std) {
    int64_t row;
    int i;
    for (row = 0; row < rows; row++, data += 16) {
        float first[8], second[8];
        for (i = 0; i < 8; i++) {
            float radius = sqrtf(-2.0f * LOOP(log)(1.0f - data[i]));
            float angle = 6.283185307179586f * data[i + 8];
            int32_t octant = ((int32_t)(angle * 1.27323954473516f) + 1) & ~1;
            float turns = (float)octant, x, z, cosine, sine, s, c;
            x = fmaf(turns, -0.78515625f, angle);
            x = fmaf(turns, -2.4187564849853515625e-4f, x);
            x = fmaf(turns, -3.77489497744594108e-8f, x);
            z = x * x;
            cosine = fmaf(2.443315711809948E-5f, z, -1.388731625493765E-3f);
            cosine = fmaf(cosine, z, 4.166664568298827E-2f) * z;
            cosine = fmaf(cosine, z, -(z * 0.5f)) + 1.0f;
            sine = fmaf(-1.9515295891E-4f, z, 8.3321608736E-3f);
            sine = fmaf(sine, z, -1.6666654611E-1f) * z;
            sine = fmaf(sine, x, x);
            s = octant & 2 ? cosine : sine;
            c = octant & 2 ? sine : cosine;
            s = octant & 4 ? -s : s;
            c = (octant + 2) & 4 ? -c : c;
            first[i] = fmaf(radius * c, std, mean);
            second[i] = fmaf(radius * s, std, mean);
        }
        memcpy(data, first, sizeof first);
        memcpy(data + 8, second, sizeof second);
    }
}

#undef TWIST_OF
