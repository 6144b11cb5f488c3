/* Whether the values of an index are from 0 to below a size. */
#ifndef FLAMBEAU_BOUNDS_H
#define FLAMBEAU_BOUNDS_H

#include <stdint.h>

/* A value is outside if it, or what is left of size - 1, is negative: one sign bit tells of all. Four running words keep
   the processor busy. The difference is taken without a sign, where it may wrap around: then the value's own bit is set. */
#define FLAMBEAU_ALL_BELOW(NAME, TYPE, UNSIGNED)                                                   \
    static int NAME(const TYPE *values, int64_t count, int64_t size) {                             \
        UNSIGNED bad[4] = {0, 0, 0, 0}, last = (UNSIGNED)(size - 1);                               \
        int64_t i = 0, k;                                                                          \
        if (size <= 0)                                                                             \
            return count == 0;                                                                     \
        for (; i + 4 <= count; i += 4)                                                             \
            for (k = 0; k < 4; k++)                                                                \
                bad[k] |= (UNSIGNED)values[i + k] | (last - (UNSIGNED)values[i + k]);              \
        for (; i < count; i++)                                                                     \
            bad[0] |= (UNSIGNED)values[i] | (last - (UNSIGNED)values[i]);                          \
        return (TYPE)(bad[0] | bad[1] | bad[2] | bad[3]) >= 0;                                     \
    }

FLAMBEAU_ALL_BELOW(all_below_64, int64_t, uint64_t)
FLAMBEAU_ALL_BELOW(all_below_int, int32_t, uint32_t)

static int all_below_32(const int32_t *values, int64_t count, int64_t size) {
    return all_below_int(values, count, size > INT32_MAX ? (int64_t)INT32_MAX + 1 : size);
}

#endif
