/* Matrix products of the types that keep the codes of a source (quantize/types/groupwise.h),
 * written once over the primitives of simd.h, and load_lane_bytes (a byte for each lane),
 * load_table_16 and look_up_16 (a byte of a table for every byte below 16). A set includes its
 * primitives, defines
 *
 *   DOT4(sum, w, q, i)   sum + w . q for four columns of each lane's row, w unsigned, q the codes
 *                        of 16 columns (load_query), of which 4i..4i+3;
 *                        or instead the function dot16 below
 *   DOT4_SIGNED          1 if DOT4 or dot16 takes w as signed: dot16 multiplies w less 128 where
 *                        `most` is above 127, and adds 128 times the sum of q
 *   GROUPWISE, PEAK      the names of the sp_matmul_fn and the sp_peak_fn, or only the first
 *   TOGETHER             if it multiplies a block by all rows at once, with the types and functions
 *                        of that name below
 *
 * and includes this file. The lanes of a register are rows of a panel; a panel is as many parts as
 * a register needs for its 16 rows. The eight vectors of a block are decoded once for all rows of
 * activations, whose accumulators are in the nearest cache; the next row is independent and hides
 * the latency of the dot products. */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_GROUPWISE_LOOPS_H
#define SP_QUANTIZE_KERNELS_KERNELS_GROUPWISE_LOOPS_H

#ifdef GROUPWISE

#include "quantize/kernels/kernels.h"
#include "quantize/types/groupwise.h"

enum { N_PARTS = SP_PANEL_ROWS / LANES, N_FOURS = SP_BLOCK / 4 };

typedef uint16_t halves __attribute__((vector_size(REGISTER)));

INLINE void unknown(bytes w[4])
{
#ifdef __aarch64__
    __asm__ volatile("" : "+w"(w[0]), "+w"(w[1]), "+w"(w[2]), "+w"(w[3]));
#else
    __asm__ volatile("" : "+v"(w[0]), "+v"(w[1]), "+v"(w[2]), "+v"(w[3]));
#endif
}

/* Bits of the codes of group g of four columns in a plane of n bits, from bit 0 on. */
INLINE bytes plane_bits(const uint8_t *plane, unsigned n, unsigned g)
{
    const unsigned vector = n == 1 ? 0 : n == 2 ? g / 4 : n == 4 ? g / 4 * 2 + g % 2 : g;
    const unsigned bit = n == 1 ? g : n == 2 ? g % 4 * 2 : n == 4 ? g % 4 / 2 * 4 : 0;

    return (bytes)((halves)load_bytes(plane + 64 * vector) >> bit) & (int8_t)((1 << n) - 1);
}

/* The lane's codes, or their entries in the table of levels. */
INLINE void decode_codes(bytes w[N_FOURS], unsigned code_bits, enum sp_levels levels,
                         const uint8_t *block)
{
    const unsigned low = code_bits == 1 || code_bits == 8 ? code_bits : code_bits < 4 ? 2 : 4;
    const bytes table = load_table_16(sp_levels[levels]);

#pragma GCC unroll 8
    for (unsigned g = 0; g < N_FOURS; g++) {
        w[g] = plane_bits(block, low, g);
        if (code_bits > low) {
            bytes high = plane_bits(block + 64 * low, code_bits - low, g);
            w[g] |= (bytes)((halves)high << low);
        }
        if (levels) w[g] = look_up_16(table, w[g]);
    }
}

/* Numbers of 16 bits. */
INLINE floats numbers16(const uint8_t *from, uint8_t flags)
{
    return flags & SP_GROUPS_BF16 ? load_bf16(from) : load_halves(from, LANES);
}

INLINE floats half_of_e8m0(const uint8_t *from)
{
    ints e = load_lane_bytes(from), tiny = e < 2;

    return (floats)((tiny & splat_int(0x00200000) << (e & 1)) | (~tiny & (e - 1) << 23));
}

/* Without subnormal numbers, which are slow on some machines. */
INLINE floats half_of_e4m3(const uint8_t *from)
{
    ints e = load_lane_bytes(from), tiny = (e & 0x78) == 0;
    floats small = to_floats(e & 7) * 0x1p-10F;
    ints size = (tiny & (ints)small) | (~tiny & (((e & 0x7f) << 20) + (119 << 23)));

    return (floats)(((e & 0x80) << 24) | size);
}

/* sp_group_factors of the lanes. */
struct factors {
    floats scale[2], least[2];
};

/* The factors of a group, without the scale bytes of its blocks. numbers: those of the lanes' first
 * row; common: the panel's factors of nvfp4. */
INLINE struct factors group_factors(struct sp_groupwise groups, uint8_t flags, floats common,
                                    const uint8_t *numbers)
{
    const enum sp_groupwise_kind kind = groups.kind;
    const float zero = (float)sp_group_zero(groups.code_bits, groups.levels);
    struct factors f = {0};

    if (kind == SP_GROUP_E8M0) {
        f.scale[0] = half_of_e8m0(numbers);
        f.least[0] = f.scale[0] * -zero;
    } else if (kind == SP_GROUP_E4M3) {
#pragma GCC unroll 2
        for (unsigned h = 0; h < 2; h++) {
            f.scale[h] = half_of_e4m3(numbers + SP_PANEL_ROWS * h) * common;
            f.least[h] = f.scale[h] * -zero;
        }
    } else {
        f.scale[0] = numbers16(numbers, flags);
        if (kind == SP_GROUP_ODD) f.scale[0] *= sp_levels_unit(groups.levels);
        if (kind == SP_GROUP_SCALE)
            f.least[0] = f.scale[0] * -zero;
        else if (sp_group_numbers(kind) == 4)
            f.least[0] = numbers16(numbers + 2 * SP_PANEL_ROWS, flags);
        if (kind == SP_GROUP_AFFINE && !(flags & SP_GROUPS_BIAS)) f.least[0] *= -f.scale[0];
    }
    return f;
}

/* The factors of a block. */
INLINE struct factors block_factors(struct sp_groupwise groups, struct factors f,
                                    const uint8_t *scale_bytes)
{
    const enum sp_groupwise_kind kind = groups.kind;
    const float zero = (float)sp_group_zero(groups.code_bits, groups.levels);
    ints s[2];

    if (sp_group_scale_bytes(kind) == 0) return f;
    s[0] = load_lane_bytes(scale_bytes);
    s[1] = sp_group_scale_bytes(kind) == 2 ? load_lane_bytes(scale_bytes + SP_PANEL_ROWS) : s[0];
    if (kind == SP_GROUP_SIGNED) {
        f.scale[0] *= to_floats(s[0] << 24 >> 24);
        f.least[0] = f.scale[0] * -zero;
        return f;
    }
    if (kind == SP_GROUP_SUPER) {
        f.scale[0] *= to_floats(s[0]);
        f.least[0] *= to_floats(-s[1]);
        return f;
    }
    f.scale[1] = f.scale[0];
    f.least[1] = f.least[0];
#pragma GCC unroll 2
    for (unsigned h = 0; h < 2; h++) {
        if (kind == SP_GROUP_DUAL) {
            f.scale[h] *= to_floats(s[h] & 15);
            f.least[h] *= to_floats(-(s[h] >> 4));
        } else {
            ints odd = (s[h] >> 4 * h & 15) * 2 + 1;
            f.scale[h] *= to_floats(kind == SP_GROUP_ODD ? odd : s[h] << 24 >> 24);
            f.least[h] = f.scale[h] * -zero;
        }
    }
    return f;
}

#ifndef DOT4_SIGNED
#define DOT4_SIGNED 0
#endif

#ifdef DOT4

/* w . q for the 16 columns of each lane's row; no weight is above `most`; q_sum is the sum of q. */
INLINE ints dot16(const bytes w[4], query_codes q, int most, float q_sum)
{
    const int less = DOT4_SIGNED && most > INT8_MAX ? 128 : 0;
    ints sum = splat_int(less * (int)q_sum);

#pragma GCC unroll 4
    for (unsigned g = 0; g < 4; g++)
        sum = DOT4(sum, w[g] ^ (int8_t)-less, q, g);
    return sum;
}
#endif

#ifndef TOGETHER
/* A decoded block. Each row is multiplied when it is scaled. */
struct products {
    bytes w[N_FOURS];
};

/* Multiplies block b, as 2 halves or 1 whole, by all rows. */
INLINE void multiply_rows(struct products *x, unsigned n_parts, const struct sp_matmul *m, size_t b)
{
    (void)x, (void)n_parts, (void)m, (void)b;
}

/* Half h of the block times row t, whose codes are q; of one part, the sum of both is right. */
INLINE ints half_product(const struct products *x, unsigned h, unsigned n_parts, const int8_t *q,
                         size_t t, int most, float q_sum)
{
    (void)n_parts, (void)t;
    return dot16(x->w + N_FOURS / 2 * h, load_query(q + SP_BLOCK / 2 * h), most, q_sum);
}
#endif

/* acc[t][0] += a block of weights times row t. */
INLINE void multiply_block(floats (*acc)[N_PARTS], struct sp_groupwise groups, struct products *x,
                           const struct factors *f, const struct sp_matmul *m, size_t b)
{
    const unsigned n_parts = sp_group_has_halves(groups.kind) ? 2 : 1;
    const bool is_int8 = sp_group_is_int8(groups.kind, groups.code_bits);
    const int most = sp_group_most(groups.code_bits, groups.levels);
    const struct sp_acts *a = m->acts;

    multiply_rows(x, n_parts, m, b);
    for (size_t t = 0; t < m->n_rows; t++) {
        const int8_t *q = a->q + (m->first + t) * a->ld + b * SP_BLOCK;
        const float *sums = a->sums + ((m->first + t) * a->ld_block + b) * 3;
        const int32_t start =
            is_int8 && !DOT4_SIGNED ? a->start_q8[(m->first + t) * a->ld_block + b] : 0;
        ints i0 = half_product(x, 0, n_parts, q, t, most, is_int8 ? 0 : sums[1]);
        ints i1 = half_product(x, 1, n_parts, q, t, most, is_int8 ? 0 : sums[2]);
        floats v;

        if (n_parts == 2) {
            v = fmadd(to_floats(i1), f->scale[1], to_floats(i0) * f->scale[0]);
            v = fmadd(f->least[1], splat(sums[2]), fmadd(f->least[0], splat(sums[1]), v));
        } else {
            v = to_floats(i0 + i1 + splat_int(start)) * f->scale[0];
            if (!is_int8) v = fmadd(f->least[0], splat(sums[0]), v);
        }
        acc[t][0] = fmadd(v, splat(a->scale[(m->first + t) * a->ld_block + b]), acc[t][0]);
    }
}

INLINE void prefetch_block(const uint8_t *block, size_t size)
{
    enum { AHEAD = 4096 }; /* prefetches past the end of the weights do not fault */

    for (size_t i = 0; i < size; i += 64)
        __builtin_prefetch((const void *)((uintptr_t)block + AHEAD + i));
}

/* A panel. The members of groups but the columns are constants, so no function that is not inline
 * gets its address. */
INLINE void groupwise_panel(floats acc[SP_TILE_ROWS][N_PARTS], struct sp_groupwise groups,
                            const uint8_t *panel, const struct sp_matmul *m)
{
    const struct sp_groupwise *same = &sp_dtype_info(m->dtype)->groups;
    const enum sp_groupwise_kind kind = groups.kind;
    const unsigned code_bits = groups.code_bits;
    const bool is_e2m1 = sp_group_is_e2m1(kind);
    const size_t size = sp_group_block_size(same), n_blocks = m->acts->cols / SP_BLOCK;
    const size_t numbers_size = SP_PANEL_ROWS * sp_group_numbers(kind);
    const size_t width = is_e2m1 ? 1 : 2; /* bytes of a number */
    const uint8_t *at = panel + sp_group_head(same);
    struct factors f[N_PARTS] = {0};
    floats common[N_PARTS] = {0};

    for (size_t part = 0; part < N_PARTS && kind == SP_GROUP_E4M3; part++) {
        common[part] = load((const float *)(const void *)(panel + 64) + part * LANES, LANES);
        if (panel[0] & SP_GROUPS_DIVIDES) common[part] = 1 / common[part];
    }
    for (size_t b = 0; b < n_blocks; b++, at += size) {
        if (b % (groups.cols / SP_BLOCK) == 0) {
#pragma GCC unroll 4
            for (size_t part = 0; part < N_PARTS; part++)
                f[part] = group_factors(groups, panel[0], common[part], at + width * part * LANES);
            at += numbers_size;
        }
        prefetch_block(at, size);
#pragma GCC unroll 4
        for (size_t part = 0; part < N_PARTS; part++) {
            const uint8_t *scale_bytes = at + SP_BLOCK / 8 * SP_PANEL_ROWS * code_bits;
            struct factors of_block = block_factors(groups, f[part], scale_bytes + part * LANES);
            struct products x;

            decode_codes(x.w, code_bits, groups.levels, at + 4 * part * LANES);
            multiply_block((floats(*)[N_PARTS]) & acc[0][part], groups, &x, &of_block, m, b);
        }
    }
}

TILE void groupwise_panels(enum sp_groupwise_kind kind, unsigned code_bits, enum sp_levels levels,
                           const struct sp_matmul *m)
{
    const unsigned cols = sp_dtype_info(m->dtype)->groups.cols;
    const struct sp_groupwise groups = {kind, code_bits, cols, levels};
    size_t panel_size = 0;

    if (!sp_panel_size(&panel_size, m->dtype, m->acts->cols)) return;
    for (size_t p = 0; p < m->n_panels; p++) {
        floats acc[SP_TILE_ROWS][N_PARTS];

        for (size_t t = 0; t < m->n_rows; t++)
            for (size_t part = 0; part < N_PARTS; part++)
                acc[t][part] = splat(0);
        groupwise_panel(acc, groups, m->panels + p * panel_size, m);
        for (size_t t = 0; t < m->n_rows; t++)
            for (size_t part = 0; part < N_PARTS; part++)
                store(m->y + t * m->ldy + p * SP_PANEL_ROWS + part * LANES, LANES, acc[t][part]);
    }
}

/* The functions that are compiled for a kind, bits of codes and levels. */
#define CASE(kind, code_bits, levels)                                                              \
    case (kind * 16 + code_bits) * SP_N_LEVELS + levels:                                           \
        groupwise_panels(kind, code_bits, levels, m);                                              \
        break

void GROUPWISE(const struct sp_matmul *m)
{
    const struct sp_groupwise *groups = &sp_dtype_info(m->dtype)->groups;

    switch (((unsigned)groups->kind * 16 + groups->code_bits) * SP_N_LEVELS + groups->levels) {
        CASE(SP_GROUP_SCALE, 2, SP_LEVELS_NONE);
        CASE(SP_GROUP_SCALE, 4, SP_LEVELS_NONE);
        CASE(SP_GROUP_SCALE, 8, SP_LEVELS_NONE);
        CASE(SP_GROUP_AFFINE, 2, SP_LEVELS_NONE);
        CASE(SP_GROUP_AFFINE, 3, SP_LEVELS_NONE);
        CASE(SP_GROUP_AFFINE, 4, SP_LEVELS_NONE);
        CASE(SP_GROUP_AFFINE, 5, SP_LEVELS_NONE);
        CASE(SP_GROUP_AFFINE, 6, SP_LEVELS_NONE);
        CASE(SP_GROUP_AFFINE, 8, SP_LEVELS_NONE);
        CASE(SP_GROUP_SUPER, 4, SP_LEVELS_NONE);
        CASE(SP_GROUP_SUPER, 5, SP_LEVELS_NONE);
        CASE(SP_GROUP_HALVES, 3, SP_LEVELS_NONE);
        CASE(SP_GROUP_HALVES, 6, SP_LEVELS_NONE);
        CASE(SP_GROUP_DUAL, 2, SP_LEVELS_NONE);
        CASE(SP_GROUP_SCALE, 4, SP_LEVELS_IQ4);
        CASE(SP_GROUP_SCALE, 1, SP_LEVELS_SIGN);
        CASE(SP_GROUP_SIGNED, 4, SP_LEVELS_IQ4);
        CASE(SP_GROUP_ODD, 4, SP_LEVELS_IQ3_XXS);
        CASE(SP_GROUP_ODD, 4, SP_LEVELS_IQ3_S);
        CASE(SP_GROUP_ODD, 3, SP_LEVELS_IQ2);
        CASE(SP_GROUP_ODD, 3, SP_LEVELS_IQ1);
        CASE(SP_GROUP_E8M0, 4, SP_LEVELS_E2M1);
        CASE(SP_GROUP_E4M3, 4, SP_LEVELS_E2M1);
    }
}

#ifdef PEAK
/* Sums that do not wait for each other. The compiler does not know the weights, so it computes
 * every product. */
uint64_t PEAK(uint64_t n)
{
    enum { N_SUMS_AT_ONCE = 12 };
    static const int8_t codes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    const query_codes q = load_query(codes);
    ints sums[N_SUMS_AT_ONCE] = {{0}};
    bytes w[4] = {{0}};

    for (uint64_t i = 0; i < n; i++) {
#pragma GCC unroll 12
        for (unsigned k = 0; k < N_SUMS_AT_ONCE; k++) {
            unknown(w);
            sums[k] += dot16(w, q, INT8_MAX, 0);
        }
    }
    for (unsigned k = 0; k < N_SUMS_AT_ONCE; k++)
        w[0] += (bytes)sums[k];
    unknown(w);
    return n * N_SUMS_AT_ONCE * 16 * LANES;
}
#endif

#endif
#endif
