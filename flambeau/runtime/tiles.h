/* A tile of a strided operand, turned so that the kernel reads it consecutively. */
#ifndef FLAMBEAU_TILES_H
#define FLAMBEAU_TILES_H

#include <stdint.h>
#include <string.h>

#define FLAMBEAU_TURN(TYPE)                                                                        \
    for (i = 0; i < rows; i++) {                                                                   \
        const TYPE *from = (const TYPE *)(source + i * step);                                      \
        TYPE *to = (TYPE *)target + i;                                                             \
        for (j = 0; j < columns; j++)                                                              \
            to[j * pitch] = from[j];                                                               \
    }

/* target[j * pitch + i] = source[i * step (bytes) + j] for i < rows, j < columns. */
static void tile_turn(char *target, int64_t pitch, const char *source, int64_t step, int64_t rows, int64_t columns,
                      int itemsize) {
    int64_t i, j;
    if (itemsize == 4) {
        FLAMBEAU_TURN(uint32_t)
    } else if (itemsize == 8) {
        FLAMBEAU_TURN(uint64_t)
    } else if (itemsize == 2) {
        FLAMBEAU_TURN(uint16_t)
    } else {
        FLAMBEAU_TURN(uint8_t)
    }
}

#endif
