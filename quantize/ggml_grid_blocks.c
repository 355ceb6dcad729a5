/* Blocks of 256 weights in groups of 8. A group of IQ2 is one point of a grid and a group of IQ3
 * two points, with a sign for each weight. IQ1 has no signs: a delta is added to a group. A code is
 * a coordinate of a point and, in its last bit, the sign of the weight or of the delta. */
#include "quantize/ggml_blocks.h"

#include "format/base/bytes.h"
#include "quantize/ggml_grids.h"

enum { GROUP = 8, N_GROUPS = 32, N_BLOCKS = N_GROUPS * GROUP / SP_BLOCK };

/* Number i of 4 bits. */
static unsigned nibble(const uint8_t *bytes, unsigned i)
{
    return bytes[i / 2] >> (i % 2 * 4) & 15;
}

/* Eight signs of which 7 bits are stored: an even number of them is set. */
static uint8_t signs_of(uint32_t stored)
{
    uint8_t bits = stored & 127, odd = bits;

    odd ^= odd >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return (uint8_t)(bits | (odd & 1) << 7);
}

/* The scale of block i, for both of its halves. */
static void put_scale(struct sp_group *out, unsigned i, unsigned scale)
{
    out->scale_bytes[i] = (uint8_t)(scale * 17);
}

/* A point of 8 coordinates of 2 bits. */
static void put_point_of_8(struct sp_group *out, unsigned g, unsigned point, uint8_t signs)
{
    for (unsigned i = 0; i < GROUP; i++)
        out->codes[GROUP * g + i] = (uint8_t)((point >> (2 * i) & 3) | (signs >> i & 1u) << 2);
}

/* ---- IQ2 ---- */

/* For each 32 weights four u8 of points and a u32: four times 7 sign bits, 4 bits of scale */
void sp_ggml_unpack_iq2_xxs(struct sp_group *out, const uint8_t *b)
{
    for (unsigned g = 0; g < N_GROUPS; g++) {
        const uint8_t *points = b + g / 4 * 8;
        uint32_t rest = sp_get32(points + 4);
        put_scale(out, g / 4, rest >> 28);
        put_point_of_8(out, g, sp_ggml_point(sp_ggml_grid_iq2_xxs, points[g % 4]),
                       signs_of(rest >> (7 * (g % 4))));
    }
}

/* 32 u16 of 9 bits of a point and 7 sign bits */
void sp_ggml_unpack_iq2_xs(struct sp_group *out, const uint8_t *b)
{
    for (unsigned g = 0; g < N_GROUPS; g++) {
        uint16_t code = sp_get16(b + 2 * g);
        put_point_of_8(out, g, sp_ggml_point(sp_ggml_grid_iq2_xs, code & 511), signs_of(code >> 9));
    }
}

/* 32 bytes of points, 32 bytes of signs, 8 bytes of 2 high bits of points */
void sp_ggml_unpack_iq2_s(struct sp_group *out, const uint8_t *b)
{
    for (unsigned g = 0; g < N_GROUPS; g++) {
        unsigned high = b[64 + g / 4] >> (g % 4 * 2) & 3;
        put_point_of_8(out, g, sp_ggml_point(sp_ggml_grid_iq2_s, b[g] | high << 8), b[32 + g]);
    }
}

/* ---- IQ3 ---- */

/* Two points of 4 coordinates of 3 bits. */
static void put_points_of_4(struct sp_group *out, unsigned g, const uint64_t *grid,
                            const unsigned points[2], uint8_t signs)
{
    for (unsigned i = 0; i < GROUP; i++) {
        unsigned coordinate = sp_ggml_point(grid, points[i / 4]) >> (i % 4 * 3) & 7;
        out->codes[GROUP * g + i] = (uint8_t)(coordinate | (signs >> i & 1u) << 3);
    }
}

/* 64 bytes of points, for each 32 weights a u32: four times 7 sign bits, 4 bits of scale */
void sp_ggml_unpack_iq3_xxs(struct sp_group *out, const uint8_t *b)
{
    for (unsigned g = 0; g < N_GROUPS; g++) {
        uint32_t rest = sp_get32(b + 64 + g / 4 * 4);
        unsigned points[2] = {b[2 * g], b[2 * g + 1]};
        put_scale(out, g / 4, rest >> 28);
        put_points_of_4(out, g, sp_ggml_grid_iq3_xxs, points, signs_of(rest >> (7 * (g % 4))));
    }
}

/* 64 bytes of points, 8 bytes of their ninth bits, 32 bytes of signs, 4 bytes of 4-bit scales for
 * 32 weights */
void sp_ggml_unpack_iq3_s(struct sp_group *out, const uint8_t *b)
{
    for (unsigned g = 0; g < N_GROUPS; g++) {
        unsigned ninth = b[64 + g / 4] >> (g % 4 * 2);
        unsigned points[2] = {b[2 * g] | (ninth & 1) << 8, b[2 * g + 1] | (ninth & 2) << 7};
        put_scale(out, g / 4, nibble(b + 104, g / 4));
        put_points_of_4(out, g, sp_ggml_grid_iq3_s, points, b[72 + g]);
    }
}

/* ---- IQ1 ---- */

/* 32 bytes of points, for each 32 weights a u16: four times 3 high bits of points, 3 bits of
 * scale, the sign of the delta */
void sp_ggml_unpack_iq1_s(struct sp_group *out, const uint8_t *b)
{
    for (unsigned g = 0; g < N_GROUPS; g++) {
        unsigned rest = sp_get16(b + 32 + g / 4 * 2), high = rest >> (g % 4 * 3) & 7;
        put_scale(out, g / 4, rest >> 12 & 7);
        put_point_of_8(out, g, sp_ggml_point(sp_ggml_grid_iq1, b[g] | high << 8),
                       rest >> 15 ? 255 : 0);
    }
}

/* 32 bytes of points; 16 bytes, for each 8 weights 3 high bits of a point and the sign of the
 * delta; four u16 of four 3-bit scales for 16 weights. Their highest 4 bits are d, an f16, the
 * first one its lowest. */
void sp_ggml_unpack_iq1_m(struct sp_group *out, const uint8_t *b)
{
    const uint8_t *scales = b + 48;
    uint16_t d = 0;

    for (unsigned i = 0; i < 4; i++)
        d = (uint16_t)(d | sp_get16(scales + 2 * i) >> 12 << (4 * i));
    sp_put16(out->numbers, d);
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        unsigned two = sp_get16(scales + i / 2 * 2) >> (i % 2 * 6);
        out->scale_bytes[i] = (uint8_t)((two & 7) | (two >> 3 & 7) << 4);
    }
    for (unsigned g = 0; g < N_GROUPS; g++) {
        unsigned rest = nibble(b + 32, g);
        put_point_of_8(out, g, sp_ggml_point(sp_ggml_grid_iq1, b[g] | (rest & 7) << 8),
                       rest >> 3 ? 255 : 0);
    }
}
