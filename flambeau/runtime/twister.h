/* The Mersenne Twister (Matsumoto and Nishimura, ACM Transactions on Modeling and Computer Simulation 8, 1998) and
 * the loops that turn its words into numbers, in the instruction set that is there. */
#ifndef FLAMBEAU_TWISTER_H
#define FLAMBEAU_TWISTER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#define IGNORE_DEPENDENCES _Pragma("GCC ivdep")
#elif defined(__clang__)
#define IGNORE_DEPENDENCES _Pragma("clang loop vectorize(assume_safety)")
#else
#define IGNORE_DEPENDENCES
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define FIRST_IS_LOW 0
#else
#define FIRST_IS_LOW 1
#endif

typedef struct {
    void (*twist)(uint32_t *, uint32_t *);
    void (*floats)(const uint32_t *, float *, int64_t, float, float);
    void (*doubles)(const uint32_t *, double *, int64_t);
    void (*stretch)(double *, int64_t, double, double);
    void (*below)(const uint64_t *, uint8_t *, int64_t, int64_t);
    void (*pairs)(float *, int64_t, float, float);
    void (*remainders)(const uint32_t *, int64_t *, int64_t, double, int64_t);
} TwisterLoops;

#define TWISTER_LOOPS(set)                                                                                         \
    {twist_##set, floats_##set, doubles_##set, stretch_##set, below_##set, pairs_##set, remainders_##set}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif

#define LOOP(name) name##_plain
#include "twister_loops.h"
#undef LOOP
static const TwisterLoops twister_plain = TWISTER_LOOPS(plain);

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define TWISTER_HAS_SETS 1
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define LOOP(name) name##_avx2
#include "twister_loops.h"
#undef LOOP
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,fma")
#define LOOP(name) name##_avx512
#include "twister_loops.h"
#undef LOOP
#pragma GCC pop_options
static const TwisterLoops twister_avx2 = TWISTER_LOOPS(avx2), twister_avx512 = TWISTER_LOOPS(avx512);
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

/* The best loops for this processor; `set`: 0 plain, 1 at most AVX2, 2 at most AVX-512. */
static const TwisterLoops *twister_loops_for(int set) {
#ifdef TWISTER_HAS_SETS
    __builtin_cpu_init();
    if (set > 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        return &twister_avx512;
    if (set > 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &twister_avx2;
#else
    (void)set;
#endif
    return &twister_plain;
}

#define TWISTER_WORDS 624
#define TWISTER_CHUNK 1024              /* numbers made at a time, in the first-level cache */

typedef struct {
    uint32_t word[TWISTER_WORDS];       /* the state */
    uint32_t ready[TWISTER_WORDS + 16]; /* what is handed out of it */
    int32_t next;                       /* the next one to hand out; 624: none is left */
    int32_t fresh;                      /* seeded, and nothing drawn yet */
    int32_t has_normal;
    double normal;                      /* the second of a pair of normal numbers, if has_normal */
    uint64_t seed;
    const TwisterLoops *loops;
} Twister;

static void twister_seed(Twister *t, uint64_t seed) {
    uint32_t i;
    t->seed = seed;
    t->word[0] = (uint32_t)seed;
    for (i = 1; i < TWISTER_WORDS; i++)
        t->word[i] = 1812433253u * (t->word[i - 1] ^ t->word[i - 1] >> 30) + i;
    t->next = TWISTER_WORDS;
    t->fresh = 1;
    t->has_normal = 0;
    t->normal = 0.0;
}

static void twister_refill(Twister *t) {
    t->loops->twist(t->word, t->ready);
    t->next = 0;
    t->fresh = 0;
}

/* What is handed out of a state that was set from outside. */
static void twister_temper(Twister *t) {
    int i;
    for (i = 0; i < TWISTER_WORDS; i++) {
        uint32_t y = t->word[i];
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c5680u;
        y ^= (y << 15) & 0xefc60000u;
        t->ready[i] = y ^ y >> 18;
    }
}

static inline uint32_t twister_32(Twister *t) {
    if (t->next >= TWISTER_WORDS)
        twister_refill(t);
    return t->ready[t->next++];
}

static inline uint64_t twister_64(Twister *t) {
    uint64_t high = twister_32(t);
    return high << 32 | twister_32(t);
}

static inline double twister_double(Twister *t) {
    return (double)(twister_64(t) & 0x1fffffffffffffULL) * (1.0 / 9007199254740992.0);
}

static void twister_take(Twister *t, uint32_t *out, int64_t count) {
    while (count > 0) {
        int64_t here;
        if (t->next >= TWISTER_WORDS)
            twister_refill(t);
        here = TWISTER_WORDS - t->next < count ? TWISTER_WORDS - t->next : count;
        memcpy(out, t->ready + t->next, (size_t)here * sizeof(uint32_t));
        t->next += (int32_t)here;
        out += here;
        count -= here;
    }
}

/* One standard normal number; two come from one pair of uniform ones. */
static double twister_normal(Twister *t) {
    double angle, radius;
    if (t->has_normal) {
        t->has_normal = 0;
        return t->normal;
    }
    angle = 6.283185307179586 * twister_double(t);
    radius = sqrt(-2.0 * log1p(-twister_double(t)));
    t->normal = radius * sin(angle);
    t->has_normal = 1;
    return radius * cos(angle);
}

/* ------------------------------------------------------------------ filling row-major memory */
static void twister_floats(Twister *t, float *out, int64_t count, float low, float width) {
    uint32_t word[TWISTER_CHUNK];
    while (count > 0) {
        int64_t here = count < TWISTER_CHUNK ? count : TWISTER_CHUNK;
        twister_take(t, word, here);
        t->loops->floats(word, out, here, low, width);
        out += here;
        count -= here;
    }
}

/* Uniform numbers in [0, 1). */
static void twister_doubles(Twister *t, double *out, int64_t count) {
    uint32_t word[2 * TWISTER_CHUNK];
    while (count > 0) {
        int64_t here = count < TWISTER_CHUNK ? count : TWISTER_CHUNK;
        twister_take(t, word, 2 * here);
        t->loops->doubles(word, out, here);
        out += here;
        count -= here;
    }
}

/* 1 with probability p. */
static void twister_below(Twister *t, uint8_t *out, int64_t count, double p) {
    uint64_t pair[TWISTER_CHUNK];
    int64_t limit = (int64_t)ceil(p * 9007199254740992.0);
    while (count > 0) {
        int64_t here = count < TWISTER_CHUNK ? count : TWISTER_CHUNK;
        twister_take(t, (uint32_t *)pair, 2 * here);
        t->loops->below(pair, out, here, limit);
        out += here;
        count -= here;
    }
}

/* Blocks of 16; where the last one is not whole, the last 16 numbers are made once more. With `all_first` the
 * uniform numbers for all of them are drawn before, also those that are then not needed. `count` >= 16. */
static void twister_normal_floats(Twister *t, float *out, int64_t count, float mean, float std, int all_first) {
    int64_t done = 0, whole = count / 16 * 16;
    while (done < whole) {
        int64_t here = whole - done < TWISTER_CHUNK ? whole - done : TWISTER_CHUNK;
        twister_floats(t, out + done, here, 0.0f, 1.0f);
        t->loops->pairs(out + done, here / 16, mean, std);
        done += here;
    }
    if (whole < count) {
        uint32_t spared[16];
        if (all_first)
            twister_take(t, spared, count - whole);
        twister_floats(t, out + count - 16, 16, 0.0f, 1.0f);
        t->loops->pairs(out + count - 16, 1, mean, std);
    }
}

/* A row of 8 radii and 8 angles. */
static void twister_pairs_of_doubles(double *data, double mean, double std) {
    int i;
    for (i = 0; i < 8; i++) {
        double radius = sqrt(-2.0 * log(1.0 - data[i])), angle = 6.283185307179586 * data[i + 8];
        data[i] = fma(radius * cos(angle), std, mean);
        data[i + 8] = fma(radius * sin(angle), std, mean);
    }
}

/* Integers base + word modulo range (0: all 64 bits); two words each if `wide`. */
static void twister_integers(Twister *t, int64_t *out, int64_t count, uint64_t range, int64_t base, int wide) {
    uint32_t word[TWISTER_CHUNK];
    int64_t i;
    if (wide || range - 1 >= 2147483648u) {      /* also range 0 */
        for (i = 0; i < count; i++) {
            uint64_t bits = wide ? twister_64(t) : twister_32(t);
            out[i] = (int64_t)((range ? bits % range : bits) + (uint64_t)base);
        }
        return;
    }
    while (count > 0) {
        int64_t here = count < TWISTER_CHUNK ? count : TWISTER_CHUNK;
        twister_take(t, word, here);
        t->loops->remainders(word, out, here, (double)range, base);
        out += here;
        count -= here;
    }
}

/* The first of the rising edges that is not below a uniform number. */
static int64_t twister_place(Twister *t, const double *edges, int64_t count) {
    double u = twister_double(t);
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (edges[middle] < u)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count ? low : count - 1;
}

/* 0 to count - 1 in random order. */
static void twister_permutation(Twister *t, int64_t *out, int64_t count) {
    int64_t i;
    for (i = 0; i < count; i++)
        out[i] = i;
    for (i = 0; i < count - 1; i++) {
        uint64_t left = (uint64_t)(count - i);
        int64_t other = i + (int64_t)(count < 4294967295 / 20 ? twister_32(t) % (uint32_t)left : twister_64(t) % left);
        int64_t kept = out[i];
        out[i] = out[other];
        out[other] = kept;
    }
}

/* What uniform numbers become: log1p(-u) * a, tan(pi (u - 1/2)) * b + a, ceil(log(u) / a). */
enum { TWISTER_EXPONENTIAL, TWISTER_CAUCHY, TWISTER_GEOMETRIC };

static void twister_shape(double *data, int64_t count, int kind, double a, double b) {
    int64_t i;
    if (kind == TWISTER_EXPONENTIAL)
        for (i = 0; i < count; i++)
            data[i] = log1p(-data[i]) * a;
    else if (kind == TWISTER_CAUCHY)
        for (i = 0; i < count; i++)
            data[i] = a + b * tan(3.141592653589793 * (data[i] - 0.5));
    else
        for (i = 0; i < count; i++)
            data[i] = ceil(log(data[i]) / a);
}
#endif
