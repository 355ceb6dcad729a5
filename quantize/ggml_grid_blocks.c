/* Blocks of 256 weights in groups of 8. A group of IQ2 is one point of a grid and a group of IQ3
 * two points, with a sign for each weight. IQ1 has no signs: a delta is added to a group. */
#include "quantize/ggml_grid_blocks.h"

#include "format/base/bytes.h"
#include "quantize/ggml_grids.h"
#include "quantize/types/float_cast.h"

#include <stdbool.h>

enum { GROUP = 8, N_GROUPS = 32 };

static float half(const uint8_t *p)
{
    return sp_f32_of_f16(sp_get16(p));
}

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

static float with_sign(float value, uint8_t signs, unsigned i)
{
    return signs >> i & 1 ? -value : value;
}

/* ---- IQ2 ---- */

static void put_point_of_8(float *out, float scale, unsigned point, uint8_t signs)
{
    static const float values[4] = {8, 25, 43, 0};

    for (unsigned i = 0; i < GROUP; i++)
        out[i] = with_sign(scale * values[point >> (2 * i) & 3], signs, i);
}

static float iq2_scale(float d, uint32_t code)
{
    return d * (0.5f + (float)code) * 0.25f;
}

/* d f16; for each 32 weights four u8 of points and a u32: four times 7 sign bits, 4 bits of scale
 */
void sp_ggml_decode_iq2_xxs(float *out, const uint8_t *b)
{
    float d = half(b);

    for (unsigned g = 0; g < N_GROUPS; g++) {
        const uint8_t *points = b + 2 + g / 4 * 8;
        uint32_t rest = sp_get32(points + 4);
        put_point_of_8(out + GROUP * g, iq2_scale(d, rest >> 28),
                       sp_ggml_point(sp_ggml_grid_iq2_xxs, points[g % 4]),
                       signs_of(rest >> (7 * (g % 4))));
    }
}

/* d f16, 32 u16 of 9 bits of a point and 7 sign bits, 8 bytes of 4-bit scales for 16 weights */
void sp_ggml_decode_iq2_xs(float *out, const uint8_t *b)
{
    float d = half(b);

    for (unsigned g = 0; g < N_GROUPS; g++) {
        uint16_t code = sp_get16(b + 2 + 2 * g);
        put_point_of_8(out + GROUP * g, iq2_scale(d, nibble(b + 66, g / 2)),
                       sp_ggml_point(sp_ggml_grid_iq2_xs, code & 511), signs_of(code >> 9));
    }
}

/* d f16, 32 bytes of points, 32 bytes of signs, 8 bytes of 2 high bits of points, 8 bytes of 4-bit
 * scales for 16 weights */
void sp_ggml_decode_iq2_s(float *out, const uint8_t *b)
{
    float d = half(b);

    for (unsigned g = 0; g < N_GROUPS; g++) {
        unsigned high = b[66 + g / 4] >> (g % 4 * 2) & 3;
        put_point_of_8(out + GROUP * g, iq2_scale(d, nibble(b + 74, g / 2)),
                       sp_ggml_point(sp_ggml_grid_iq2_s, b[2 + g] | high << 8), b[34 + g]);
    }
}

/* ---- IQ3 ---- */

static void put_points_of_4(float *out, float scale, const uint8_t values[8], const uint64_t *grid,
                            const unsigned points[2], uint8_t signs)
{
    for (unsigned i = 0; i < GROUP; i++) {
        unsigned coordinate = sp_ggml_point(grid, points[i / 4]) >> (i % 4 * 3) & 7;
        out[i] = with_sign(scale * (float)values[coordinate], signs, i);
    }
}

/* d f16, 64 bytes of points, for each 32 weights a u32: four times 7 sign bits, 4 bits of scale */
void sp_ggml_decode_iq3_xxs(float *out, const uint8_t *b)
{
    static const uint8_t values[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    float d = half(b);

    for (unsigned g = 0; g < N_GROUPS; g++) {
        uint32_t rest = sp_get32(b + 66 + g / 4 * 4);
        unsigned points[2] = {b[2 + 2 * g], b[3 + 2 * g]};
        put_points_of_4(out + GROUP * g, d * (0.5f + (float)(rest >> 28)) * 0.5f, values,
                        sp_ggml_grid_iq3_xxs, points, signs_of(rest >> (7 * (g % 4))));
    }
}

/* d f16, 64 bytes of points, 8 bytes of their ninth bits, 32 bytes of signs, 4 bytes of 4-bit
 * scales for 32 weights */
void sp_ggml_decode_iq3_s(float *out, const uint8_t *b)
{
    static const uint8_t values[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    float d = half(b);

    for (unsigned g = 0; g < N_GROUPS; g++) {
        unsigned ninth = b[66 + g / 4] >> (g % 4 * 2);
        unsigned points[2] = {b[2 + 2 * g] | (ninth & 1) << 8, b[3 + 2 * g] | (ninth & 2) << 7};
        put_points_of_4(out + GROUP * g, d * (float)(1 + 2 * nibble(b + 106, g / 4)), values,
                        sp_ggml_grid_iq3_s, points, b[74 + g]);
    }
}

/* ---- IQ1 ---- */

static void put_ternary_point(float *out, float scale, unsigned point, bool negative)
{
    float delta = negative ? -0.125f : 0.125f;

    for (unsigned i = 0; i < GROUP; i++) {
        unsigned coordinate = sp_ggml_point(sp_ggml_grid_iq1, point) >> (2 * i) & 3;
        out[i] = scale * ((float)((int)coordinate - 1) + delta);
    }
}

/* d f16, 32 bytes of points, for each 32 weights a u16: four times 3 high bits of points, 3 bits of
 * scale, the sign of the delta */
void sp_ggml_decode_iq1_s(float *out, const uint8_t *b)
{
    float d = half(b);

    for (unsigned g = 0; g < N_GROUPS; g++) {
        unsigned rest = sp_get16(b + 34 + g / 4 * 2), high = rest >> (g % 4 * 3) & 7;
        put_ternary_point(out + GROUP * g, d * (float)(2 * (rest >> 12 & 7) + 1),
                          b[2 + g] | high << 8, rest >> 15 & 1);
    }
}

/* 32 bytes of points; 16 bytes, for each 8 weights 3 high bits of a point and the sign of the
 * delta; four u16 of four 3-bit scales for 16 weights. Their highest 4 bits are d, an f16, the
 * first one its lowest. */
void sp_ggml_decode_iq1_m(float *out, const uint8_t *b)
{
    const uint8_t *scales = b + 48;
    uint16_t bits = 0;
    float d;

    for (unsigned i = 0; i < 4; i++)
        bits = (uint16_t)(bits | sp_get16(scales + 2 * i) >> 12 << (4 * i));
    d = sp_f32_of_f16(bits);
    for (unsigned g = 0; g < N_GROUPS; g++) {
        unsigned rest = nibble(b + 32, g);
        unsigned scale = sp_get16(scales + g / 8 * 2) >> (g / 2 % 4 * 3) & 7;
        put_ternary_point(out + GROUP * g, d * (float)(2 * scale + 1), b[g] | (rest & 7) << 8,
                          rest >> 3 & 1);
    }
}
