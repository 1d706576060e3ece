// Bytes by which a test knows memory again: they differ from place to place, from page to page and from seed to seed.

#ifndef NONIC_INTEROP_BYTES_H
#define NONIC_INTEROP_BYTES_H

#include <stdbool.h>
#include <stddef.h>

#ifndef UNUSED
#define UNUSED __attribute__((unused))
#endif

static UNUSED unsigned char pattern_byte(size_t at, unsigned seed)
{
    return (unsigned char)(at * 31 + at / 4096 * 7 + seed * 101 + 1);
}

static UNUSED void fill(void *memory, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        ((unsigned char *)memory)[i] = pattern_byte(i, seed);
}

static UNUSED bool filled(const void *memory, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        if (((const unsigned char *)memory)[i] != pattern_byte(i, seed))
            return false;
    return true;
}

#endif
