/* The bytes of q2 to q6 read bit by bit, as spectool-pack(5) defines them: an implementation apart
 * from quantize/types/microscale.c. */
#ifndef SP_TESTS_SUPPORT_MICROSCALE_BYTES_H
#define SP_TESTS_SUPPORT_MICROSCALE_BYTES_H

#include "quantize/types/microscale.h"

/* Bit b of the code of (row, k) of a block, k = 0..31. */
static inline unsigned code_bit(const uint8_t *block, unsigned bits, unsigned b, size_t row,
                                size_t k)
{
    size_t h = k / 16, i = k % 16, at = 4 * row + i % 4;

    if (bits == 1) return block[at] >> (k / 4) & 1u;
    if (bits == 8) return block[64 * (k / 4) + at] >> b & 1u;
    if (bits >= 4 && b < 4) /* the plane of 4 bits */
        return block[128 * h + 64 * (i / 4 % 2) + at] >> (b + 4 * (i / 8)) & 1u;
    if (bits < 4 && b < 2) /* the plane of 2 bits of q2 and q3 */
        return block[64 * h + at] >> (b + 2 * (i / 4)) & 1u;
    if (bits == 6) /* the plane of 2 bits of q6 */
        return block[256 + 64 * h + at] >> (b - 4 + 2 * (i / 4)) & 1u;
    return block[(bits == 3 ? 128 : 256) + at] >> (k / 4) & 1u;
}

/* Entry and scale byte of a weight of a panel. */
static inline int microscale_code(int *scale, unsigned bits, const uint8_t *panel, size_t row,
                                  size_t k)
{
    static const enum sp_dtype types[] = {[2] = SP_Q2, SP_Q3, SP_Q4, SP_Q5, SP_Q6};
    const struct sp_microscale *type = sp_microscale_of(types[bits]);
    const uint8_t *block = panel + 64 + k / 32 * (64 * bits + 32);
    unsigned code = 0;

    for (unsigned b = 0; b < bits; b++)
        code |= code_bit(block, bits, b, row, k % 32) << b;
    *scale = block[64 * bits + 16 * (k % 32 / 16) + row];
    if (bits == 6) return (int)code - 32 + type->offsets[*scale % 8];
    if (bits == 5) return type->entries[code] + type->offsets[*scale % 8];
    return type->entries[((unsigned)*scale % (64u >> bits)) << bits | code];
}

#endif
