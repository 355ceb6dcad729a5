/* The encoders' inner loops with NEON: quantize/tile.h.
 *
 * Four columns of four of a tile's rows fill four registers, one a row. Packed pairwise from 32 to
 * 16 and to 8 bits they are in the order of a block: [row][4 k]. */
#include "format/dtype.h"
#include "quantize/tile.h"

#include <arm_neon.h>
#include <float.h>
#include <string.h>

enum { GROUPS = SP_BLOCK / 4 }; /* groups of four columns */

static inline uint32x4_t size_bits(const float *x)
{
    return vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x)));
}

static uint32_t max_bits(const float *x, size_t n)
{
    uint32x4_t max[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
    size_t i = 0;

    for (; n - i >= 16; i += 16)
        for (size_t j = 0; j < 4; j++)
            max[j] = vmaxq_u32(max[j], size_bits(x + i + 4 * j));
    for (; i < n; i += 4) {
        float rest[4] = {0};

        memcpy(rest, x + i, (n - i < 4 ? n - i : 4) * sizeof *x);
        max[0] = vmaxq_u32(max[0], size_bits(rest));
    }
    return vmaxvq_u32(vmaxq_u32(vmaxq_u32(max[0], max[1]), vmaxq_u32(max[2], max[3])));
}

/* Transposes 4 x 4 numbers. */
static inline void transpose_four(float32x4_t *x)
{
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(x[0], x[1]));
    float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(x[0], x[1]));
    float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(x[2], x[3]));
    float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(x[2], x[3]));

    x[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    x[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    x[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    x[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}

static void transpose(float *out, size_t ld_out, const float *x, size_t ld)
{
    for (size_t r = 0; r < 16; r += 4) {
        for (size_t c = 0; c < 16; c += 4) {
            float32x4_t part[4];

            for (size_t j = 0; j < 4; j++)
                part[j] = vld1q_f32(x + (r + j) * ld + c);
            transpose_four(part);
            for (size_t j = 0; j < 4; j++)
                vst1q_f32(out + (c + j) * ld_out + r, part[j]);
        }
    }
}

/* Loads columns 4 g..4 g + 3 of 4 rows. */
static inline void load_group(float32x4_t *x, const float *tile, size_t g)
{
    for (size_t j = 0; j < 4; j++)
        x[j] = vld1q_f32(tile + j * SP_BLOCK + 4 * g);
}

/* Distributes one number per row to the registers of a group. */
static inline void spread(float32x4_t *x, float32x4_t rows)
{
    x[0] = vdupq_laneq_f32(rows, 0);
    x[1] = vdupq_laneq_f32(rows, 1);
    x[2] = vdupq_laneq_f32(rows, 2);
    x[3] = vdupq_laneq_f32(rows, 3);
}

/* The largest magnitude of each row; lane = row. */
static inline float32x4_t max_of_rows(const float *tile)
{
    float32x4_t max[4], x[4];

    for (size_t j = 0; j < 4; j++)
        max[j] = vdupq_n_f32(0);
    for (size_t g = 0; g < GROUPS; g++) {
        load_group(x, tile, g);
        for (size_t j = 0; j < 4; j++)
            max[j] = vmaxq_f32(max[j], vabsq_f32(x[j]));
    }
    return vpmaxq_f32(vpmaxq_f32(max[0], max[1]), vpmaxq_f32(max[2], max[3]));
}

/* scale_of of quantize/affine.c: bf16 in 32-bit lanes. */
static inline uint32x4_t scales_of(float32x4_t max)
{
    uint32x4_t bits = vreinterpretq_u32_f32(vdivq_f32(max, vdupq_n_f32(127.0f)));
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t half = vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd), 16);
    float32x4_t scale = vreinterpretq_f32_u32(vshlq_n_u32(half, 16));
    uint32x4_t normal = vcgeq_f32(scale, vdupq_n_f32(FLT_MIN));
    uint32x4_t large = vcgtq_f32(scale, vdupq_n_f32(FLT_MAX / 127.0f));

    return vandq_u32(vaddq_u32(half, large), normal); /* all ones are -1 */
}

/* Encodes 4 rows of a q8 block. */
static inline void encode_rows(uint8_t *codes, uint8_t *scales, const float *tile)
{
    const float32x4_t low = vdupq_n_f32(-127.0f), high = vdupq_n_f32(127.0f);
    uint32x4_t half = scales_of(max_of_rows(tile));
    float32x4_t scale = vreinterpretq_f32_u32(vshlq_n_u32(half, 16)), inverse[4], x[4];
    uint32x4_t reciprocal = vreinterpretq_u32_f32(vdivq_f32(vdupq_n_f32(1.0f), scale));

    spread(inverse, vreinterpretq_f32_u32(vandq_u32(reciprocal, vcgtzq_f32(scale))));
    for (size_t g = 0; g < GROUPS; g++) {
        int16x4_t n[4];
        int8x16_t bytes;

        load_group(x, tile, g);
        for (size_t j = 0; j < 4; j++) {
            x[j] = vminq_f32(vmaxq_f32(vmulq_f32(x[j], inverse[j]), low), high);
            n[j] = vmovn_s32(vcvtnq_s32_f32(x[j]));
        }
        bytes =
            vcombine_s8(vmovn_s16(vcombine_s16(n[0], n[1])), vmovn_s16(vcombine_s16(n[2], n[3])));
        vst1q_u8(codes + 64 * g, veorq_u8(vreinterpretq_u8_s8(bytes), vdupq_n_u8(128)));
    }
    vst1_u8(scales, vreinterpret_u8_u16(vmovn_u32(half)));
}

static void encode_q8(uint8_t *block, const float *tile)
{
    for (size_t rows = 0; rows < SP_PANEL_ROWS; rows += 4)
        encode_rows(block + 4 * rows, block + 512 + 2 * rows, tile + rows * SP_BLOCK);
}

static void whole_q4(int16_t *v, const float *tile, const float *inverse)
{
    for (size_t rows = 0; rows < SP_PANEL_ROWS; rows += 4) {
        float32x4_t factors[4], x[4];

        spread(factors, vld1q_f32(inverse + rows));
        for (size_t g = 0; g < GROUPS; g++) {
            int16_t *to = v + 64 * g + 2 * rows;
            int16x4_t n[4];

            load_group(x, tile + rows * SP_BLOCK, g);
            for (size_t j = 0; j < 4; j++)
                n[j] = vmovn_s32(vcvtnq_s32_f32(vmulq_f32(x[j], factors[j])));
            vst1q_s16(to, vcombine_s16(n[0], n[1]));
            vst1q_s16(to + 32, vcombine_s16(n[2], n[3]));
        }
    }
}

const struct sp_tile_kernels sp_tile_neon = {
    .max_bits = max_bits,
    .transpose = transpose,
    .encode_q8 = encode_q8,
    .whole_q4 = whole_q4,
    .fit_q4 = sp_q4_fit_neon,
    .gptq = &sp_gptq_ref,
};
