/* Products of the types that keep the codes of a source with AMX, for a thread that has configured
 * its tiles (kernels_amx.c). */
#include "quantize/simd/simd_avx512.h"
#include "quantize/kernels/kernels_amx_tiles.h"

/* A decoded block and its products with all rows. */
struct products {
    bytes w[SP_BLOCK / 4];
    struct tile_sums sums;
};

INLINE void multiply_rows(struct products *x, unsigned n_parts, const struct sp_matmul *m, size_t b)
{
    const struct sp_acts *a = m->acts;

    multiply_tiles(&x->sums, x->w, n_parts, a->q + m->first * a->ld + b * SP_BLOCK, a->ld);
}

INLINE ints half_product(const struct products *x, unsigned h, unsigned n_parts, const int8_t *q,
                         size_t t, int most, float q_sum)
{
    (void)q, (void)most, (void)q_sum;
    return h < n_parts ? (ints)_mm512_load_si512(x->sums.at[h][t]) : splat_int(0);
}

#define TOGETHER
#define GROUPWISE sp_groupwise_amx
#include "quantize/kernels/kernels_groupwise_loops.h"
