/* Little-endian numbers in byte buffers. Files are read and written through these only; structs are
 * never written whole. Alignment does not matter. */
#ifndef SP_FORMAT_BASE_BYTES_H
#define SP_FORMAT_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint16_t sp_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t sp_get32(const uint8_t *p)
{
    return (uint32_t)sp_get16(p) | (uint32_t)sp_get16(p + 2) << 16;
}

static inline uint64_t sp_get64(const uint8_t *p)
{
    return (uint64_t)sp_get32(p) | (uint64_t)sp_get32(p + 4) << 32;
}

static inline void sp_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void sp_put32(uint8_t *p, uint32_t v)
{
    sp_put16(p, (uint16_t)v);
    sp_put16(p + 2, (uint16_t)(v >> 16));
}

static inline void sp_put64(uint8_t *p, uint64_t v)
{
    sp_put32(p, (uint32_t)v);
    sp_put32(p + 4, (uint32_t)(v >> 32));
}

/* Doubles, by their IEEE bits. */
static inline double sp_get_double(const uint8_t *p)
{
    uint64_t bits = sp_get64(p);
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static inline void sp_put_double(uint8_t *p, double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    sp_put64(p, bits);
}

/* The float whose IEEE bits are `bits`, and back. */
static inline float sp_float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t sp_bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

#endif
