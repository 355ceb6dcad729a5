/* Matrix products with AVX-512 (F, BW, DQ, VL, VNNI, VBMI): one 512-bit register is one panel's 16
 * lanes.
 *
 * Each number of activation rows, 1 to 16, has code of its own: the tile functions are inlined with
 * a constant n_rows and unrolled, so that n_rows accumulators, the eight vectors of a decoded block
 * and its scales stay in the 32 registers. Activations are operands broadcast from memory.
 *
 * VPDPBUSD multiplies unsigned bytes (q4 entries + 64, q8 codes + 128) by signed ones (activation
 * codes). The surplus, 64 or 128 times the sum of the activation codes, is in the accumulator's
 * first value (acts->start_q4, start_q8) and costs nothing.
 *
 *   lane        0              1        ...       15
 *   register    row 0, k..k+3  row 1, k..k+3      row 15, k..k+3        four bytes each
 */
#include "quantize/kernels.h"

#include "format/base/mem.h"
#include "quantize/activation_block.h"
#include "quantize/microscale.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

/* With sanitizers, unrolled tiles take minutes to compile. SP_ROLLED compiles the same functions
 * with a variable number of rows. */
#if defined(SP_ROLLED)
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

/* Returns i + w . q for four columns of each lane's row. GCC 12 broadcasts q in a separate
 * instruction; the assembly uses the form with a memory operand (6 % faster at 8 rows). */
#if defined(__clang__)
INLINE __m512i dot4(__m512i i, __m512i w, const int8_t *q)
{
    int32_t bytes;

    memcpy(&bytes, q, sizeof bytes);
    return _mm512_dpbusd_epi32(i, w, _mm512_set1_epi32(bytes));
}
#else
struct four {
    int8_t q[4];
};

INLINE __m512i dot4(__m512i i, __m512i w, const int8_t *q)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(i) : "v"(w), "m"(*(const struct four *)q));
    return i;
}
#endif

enum { LANES = SP_PANEL_ROWS, N_GROUPS = SP_BLOCK / 4, PREFETCH_AHEAD = 4096 };

INLINE __m512 widen_bf16(const uint8_t *bytes)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)bytes));

    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* Prefetches the block that begins PREFETCH_AHEAD bytes later. Prefetches past the end of the
 * weights do not fault. */
INLINE void prefetch(const uint8_t *block, size_t size)
{
    uintptr_t ahead = (uintptr_t)block + PREFETCH_AHEAD;

    UNROLL
    for (size_t i = 0; i < size; i += 64)
        _mm_prefetch((const char *)(ahead + i), _MM_HINT_T0);
}

/* i[h] += the sum over half h of a block of weights times row t. */
INLINE void dot_row(__m512i i[2], const __m512i w[N_GROUPS], const struct sp_act_block *at,
                    size_t t)
{
    const int8_t *q = at->q + t * at->ld;

    UNROLL
    for (size_t g = 0; g < 4; g++) {
        i[0] = dot4(i[0], w[g], q + 4 * g);
        i[1] = dot4(i[1], w[g + 4], q + SP_BLOCK / 2 + 4 * g);
    }
}

/* ---- q4 ---- */

struct q4_tables {
    __m512i codes;         /* the four codebooks, entries + 64 */
    __m512i low;           /* 0x0f in each byte */
    __m512i first, second; /* indices that put byte r, byte 16 + r into all four bytes of lane r */
    __m512i both;          /* indices that put byte r and byte 16 + r into its 16-bit halves */
    __m512i quarter;       /* bit offsets within two lanes of the bytes of their upper halves */
};

INLINE struct q4_tables q4_tables(void)
{
    __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i first =
        _mm512_shuffle_epi8(lane, _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));

    return (struct q4_tables){
        .codes = _mm512_add_epi8(_mm512_loadu_si512(sp_q4_codebooks), _mm512_set1_epi8(64)),
        .low = _mm512_set1_epi8(0x0f),
        .first = first,
        .second = _mm512_add_epi8(first, _mm512_set1_epi8(LANES)),
        .both = _mm512_add_epi8(first, _mm512_set1_epi32(LANES << 16)),
        .quarter = _mm512_set1_epi64(0x2a2200000a020000),
    };
}

/* Decodes the entries + 64 of half a block. `codebook` has the codebook's number in bits 4 and 5 of
 * each byte; the lookup ignores bits 6 and 7. */
INLINE void q4_decode(__m512i w[4], const uint8_t *bytes, __m512i codebook, struct q4_tables tables)
{
    UNROLL
    for (size_t v = 0; v < 2; v++) {
        __m512i pair = _mm512_loadu_si512(bytes + 64 * v);
        __m512i high = _mm512_srli_epi16(pair, 4);
        /* 0xca selects the nibble where `low` is set, else the codebook. */
        __m512i i0 = _mm512_ternarylogic_epi32(tables.low, pair, codebook, 0xca);
        __m512i i1 = _mm512_ternarylogic_epi32(tables.low, high, codebook, 0xca);
        w[v] = _mm512_permutexvar_epi8(i0, tables.codes);
        w[v + 2] = _mm512_permutexvar_epi8(i1, tables.codes);
    }
}

/* Returns acc + a block of weights times row t. */
INLINE __m512 q4_row(__m512 acc, const __m512i w[N_GROUPS], __m512i scales,
                     const struct q4_tables *tables, const struct sp_act_block *at, size_t t)
{
    const int32_t *start = at->start_q4 + t * at->ld_block * 2;
    __m512i i[2] = {_mm512_set1_epi32(start[0]), _mm512_set1_epi32(start[1])};

    dot_row(i, w, at, t);
    /* Interleaves the quarters of both halves, multiplies them by their scales and adds pairs. */
    __m512i quarters = _mm512_mask_multishift_epi64_epi8(_mm512_srai_epi32(i[0], 2),
                                                         0xcccccccccccccccc, tables->quarter, i[1]);
    __m512 u = _mm512_cvtepi32_ps(_mm512_madd_epi16(quarters, scales));
    return _mm512_fmadd_ps(u, _mm512_set1_ps(at->scale[t * at->ld_block]), acc);
}

INLINE void q4_tile(const struct sp_matmul *m, size_t n_rows)
{
    const struct q4_tables tables = q4_tables();
    const size_t n_blocks = m->acts->cols / SP_BLOCK;
    const uint8_t *block = m->panels;

    for (size_t p = 0; p < m->n_panels; p++) {
        struct sp_act_block at = sp_act_block_first(m->acts, m->first);
        const __m512 row_scale =
            _mm512_mul_ps(_mm512_set1_ps(4), _mm512_loadu_ps((const void *)block));
        __m512 acc[SP_TILE_ROWS];

        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            acc[t] = _mm512_setzero_ps();
        block += SP_Q4_PANEL_HEAD;
        for (size_t b = 0; b < n_blocks; b++) {
            __m256i bytes = _mm256_loadu_si256((const void *)(block + LANES * SP_Q4_HALF));
            __m512i codebooks = _mm512_castsi256_si512(_mm256_slli_epi16(bytes, 4));
            __m512i scales = _mm512_maskz_permutexvar_epi8(0x5555555555555555, tables.both,
                                                           _mm512_castsi256_si512(bytes));
            __m512i w[N_GROUPS];

            prefetch(block, SP_Q4_BLOCK_SIZE);
            q4_decode(w, block, _mm512_permutexvar_epi8(tables.first, codebooks), tables);
            q4_decode(w + 4, block + 128, _mm512_permutexvar_epi8(tables.second, codebooks),
                      tables);
            UNROLL
            for (size_t t = 0; t < n_rows; t++)
                acc[t] = q4_row(acc[t], w, scales, &tables, &at, t);
            block += SP_Q4_BLOCK_SIZE;
            sp_act_block_next(&at);
        }
        UNROLL
        for (size_t t = 0; t < n_rows; t++) {
            _mm512_storeu_ps(m->y + t * m->ldy + p * LANES, _mm512_mul_ps(acc[t], row_scale));
        }
        block += n_blocks % 2 * (SP_Q4_BLOCK_SIZE % 64); /* panels start on a cache line */
    }
}

/* ---- q8 ---- */

/* Returns acc + a block of weights times row t. */
INLINE __m512 q8_row(__m512 acc, const __m512i w[N_GROUPS], __m512 w_scale,
                     const struct sp_act_block *at, size_t t)
{
    __m512i i[2] = {_mm512_set1_epi32(at->start_q8[t * at->ld_block]), _mm512_setzero_si512()};

    dot_row(i, w, at, t);
    __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(i[0], i[1]));
    __m512 scale = _mm512_mul_ps(w_scale, _mm512_set1_ps(at->scale[t * at->ld_block]));
    return _mm512_fmadd_ps(sum, scale, acc);
}

INLINE void q8_tile(const struct sp_matmul *m, size_t n_rows)
{
    const size_t n_blocks = m->acts->cols / SP_BLOCK;
    const uint8_t *block = m->panels;

    for (size_t p = 0; p < m->n_panels; p++) {
        struct sp_act_block at = sp_act_block_first(m->acts, m->first);
        __m512 acc[SP_TILE_ROWS];

        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            acc[t] = _mm512_setzero_ps();
        for (size_t b = 0; b < n_blocks; b++) {
            __m512 w_scale = widen_bf16(block + LANES * SP_BLOCK);
            __m512i w[N_GROUPS];

            prefetch(block, SP_Q8_BLOCK_SIZE);
            UNROLL
            for (size_t g = 0; g < N_GROUPS; g++)
                w[g] = _mm512_loadu_si512(block + 64 * g);
            UNROLL
            for (size_t t = 0; t < n_rows; t++)
                acc[t] = q8_row(acc[t], w, w_scale, &at, t);
            block += SP_Q8_BLOCK_SIZE;
            sp_act_block_next(&at);
        }
        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            _mm512_storeu_ps(m->y + t * m->ldy + p * LANES, acc[t]);
        block += n_blocks % 2 * (SP_Q8_BLOCK_SIZE % 64); /* panels start on a cache line */
    }
}

/* ---- f32, f16, bf16 ---- */

/* The weights of one column. */
INLINE __m512 float_weights(enum sp_dtype dtype, const uint8_t *bytes)
{
    if (dtype == SP_F32) return _mm512_loadu_ps((const void *)bytes);
    if (dtype == SP_F16) return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)bytes));
    return widen_bf16(bytes);
}

/* Computes n_wide panels from `first_panel` on together: with few rows, one panel has too few
 * independent chains of additions to keep the multipliers busy. */
INLINE void float_panels(enum sp_dtype dtype, const struct sp_matmul *m, size_t first_panel,
                         size_t n_wide, size_t n_rows)
{
    const size_t column = LANES * (dtype == SP_F32 ? 4 : 2);
    const size_t cols = m->acts->cols, ld = m->acts->ld;
    const size_t size = sp_round_up(cols * column, 64);
    const uint8_t *w = m->panels + first_panel * size;
    const float *x = m->acts->x + m->first * ld;
    __m512 acc[4][SP_TILE_ROWS];

    UNROLL
    for (size_t i = 0; i < n_wide; i++) {
        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            acc[i][t] = _mm512_setzero_ps();
    }
    for (size_t k = 0; k < cols; k++, w += column) {
        UNROLL
        for (size_t i = 0; i < n_wide; i++) {
            __m512 column_weights = float_weights(dtype, w + i * size);
            UNROLL
            for (size_t t = 0; t < n_rows; t++) {
                acc[i][t] =
                    _mm512_fmadd_ps(column_weights, _mm512_set1_ps(x[t * ld + k]), acc[i][t]);
            }
        }
    }
    UNROLL
    for (size_t i = 0; i < n_wide; i++) {
        UNROLL
        for (size_t t = 0; t < n_rows; t++) {
            _mm512_storeu_ps(m->y + t * m->ldy + (first_panel + i) * LANES, acc[i][t]);
        }
    }
}

INLINE void float_tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    const size_t n_wide = n_rows == 1 ? 4 : n_rows <= 4 ? 2 : 1;
    size_t p = 0;

    for (; p + n_wide <= m->n_panels; p += n_wide)
        float_panels(dtype, m, p, n_wide, n_rows);
    for (; p < m->n_panels; p++)
        float_panels(dtype, m, p, 1, n_rows);
}

/* ---- choice of the tile ---- */

INLINE void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    switch (dtype) {
    case SP_Q4:
        q4_tile(m, n_rows);
        break;
    case SP_Q8:
        q8_tile(m, n_rows);
        break;
    default:
        float_tile(dtype, m, n_rows);
        break;
    }
}

#if defined(SP_ROLLED)
static void multiply(enum sp_dtype dtype, struct sp_matmul m)
{
    tile(dtype, &m, m.n_rows);
}
#else
/* Calls the tile with a constant number of rows. */
INLINE void multiply(enum sp_dtype dtype, struct sp_matmul m)
{
    switch (m.n_rows) {
    case 1:
        tile(dtype, &m, 1);
        break;
    case 2:
        tile(dtype, &m, 2);
        break;
    case 3:
        tile(dtype, &m, 3);
        break;
    case 4:
        tile(dtype, &m, 4);
        break;
    case 5:
        tile(dtype, &m, 5);
        break;
    case 6:
        tile(dtype, &m, 6);
        break;
    case 7:
        tile(dtype, &m, 7);
        break;
    case 8:
        tile(dtype, &m, 8);
        break;
    case 9:
        tile(dtype, &m, 9);
        break;
    case 10:
        tile(dtype, &m, 10);
        break;
    case 11:
        tile(dtype, &m, 11);
        break;
    case 12:
        tile(dtype, &m, 12);
        break;
    case 13:
        tile(dtype, &m, 13);
        break;
    case 14:
        tile(dtype, &m, 14);
        break;
    case 15:
        tile(dtype, &m, 15);
        break;
    default:
        tile(dtype, &m, 16);
        break;
    }
}
#endif

static void matmul_f32(const struct sp_matmul *m)
{
    multiply(SP_F32, *m);
}

static void matmul_f16(const struct sp_matmul *m)
{
    multiply(SP_F16, *m);
}

static void matmul_bf16(const struct sp_matmul *m)
{
    multiply(SP_BF16, *m);
}

static void matmul_q8(const struct sp_matmul *m)
{
    multiply(SP_Q8, *m);
}

static void matmul_q4(const struct sp_matmul *m)
{
    multiply(SP_Q4, *m);
}

/* ---- activations ---- */

static void quantize_row(const struct sp_acts *acts, size_t t)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const float *x = acts->x + t * acts->ld;
    int8_t *q = acts->q + t * acts->ld;
    float *scale = acts->scale + t * acts->ld_block;
    int32_t *start_q4 = acts->start_q4 + t * acts->ld_block * 2;
    int32_t *start_q8 = acts->start_q8 + t * acts->ld_block;

    for (size_t b = 0; b < acts->cols / SP_BLOCK; b++, x += SP_BLOCK, q += SP_BLOCK) {
        __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + LANES);
        __m512i m0 = _mm512_and_si512(_mm512_castps_si512(x0), magnitude);
        __m512i m1 = _mm512_and_si512(_mm512_castps_si512(x1), magnitude);
        /* Magnitudes are compared as integers, so that a NaN is the largest. */
        int32_t bits = _mm512_reduce_max_epi32(_mm512_max_epi32(m0, m1));
        float max = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
        float inverse = 127.0f / max;
        __mmask16 keep = inverse > 0 && !isinf(inverse) ? 0xffff : 0;
        __m512 factor = _mm512_set1_ps(inverse);
        __m512i q0 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x0, factor));
        __m512i q1 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x1, factor));

        scale[b] = isinf(inverse) ? 0.0f : max / 127.0f;
        start_q4[2 * b] = 2 - 64 * _mm512_reduce_add_epi32(q0);
        start_q4[2 * b + 1] = 2 - 64 * _mm512_reduce_add_epi32(q1);
        start_q8[b] = 2 * (start_q4[2 * b] + start_q4[2 * b + 1] - 4);
        _mm_storeu_si128((void *)q, _mm512_cvtepi32_epi8(q0));
        _mm_storeu_si128((void *)(q + LANES), _mm512_cvtepi32_epi8(q1));
    }
}

const struct sp_kernels sp_kernels_avx512 = {
    .name = "avx512",
    .quantize_row = quantize_row,
    .matmul =
        {
            [SP_F32] = matmul_f32,
            [SP_F16] = matmul_f16,
            [SP_BF16] = matmul_bf16,
            [SP_Q8] = matmul_q8,
            [SP_Q4] = matmul_q4,
        },
    .tile = &sp_tile_avx512,
};
