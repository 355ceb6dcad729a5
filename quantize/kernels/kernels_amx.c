/* Matrix products of block types with AMX, for 9 to 16 rows of activations. Those of fewer rows and
 * of floats, which gain nothing, are the set avx512's, and so is all else.
 *
 * By count, for 16 rows and a block of q4: with VPDPBUSD the two pipes of 512 bits have 8 dot
 * products and 6 other instructions a row, 112 cycles. Here the tiles take 32 cycles of a unit of
 * their own, and those pipes have 8 instructions a row, to add, round and scale sums: 64 cycles. A
 * block of q8 takes 96 and 36. It was compiled and emulated, but never timed, so it must be asked
 * for by name. */
#define _GNU_SOURCE /* syscall: POSIX has no tile registers */
#define MAX_ROWS 16
#include "quantize/kernels/kernels_amx_tiles.h"
#include "quantize/kernels/kernels_product.h"
#include "quantize/types/groupwise.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LEAST_ROWS = 9 };

/* A decoded block and its products with all rows. */
struct products {
    __m512i w[SP_BLOCK / 4];
    struct tile_sums sums;
};

INLINE void multiply_rows(struct products *x, unsigned n_parts, const struct sp_act_block *at)
{
    multiply_tiles(&x->sums, x->w, n_parts, at->q, at->ld);
}

INLINE void add_products(__m512i i[2], const struct products *x, unsigned n_parts,
                         const struct sp_act_block *at, size_t t)
{
    (void)at;
    UNROLL
    for (unsigned h = 0; h < n_parts; h++)
        i[h] = _mm512_add_epi32(i[h], _mm512_load_si512(x->sums.at[h][t]));
}

#include "quantize/kernels/kernels_avx512.h"

/* Each number of rows from 9 on has code of its own, as in kernels_avx512.c. */
INLINE void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    if (n_rows >= LEAST_ROWS) block_tile(dtype, m, n_rows);
}

static void matmul(const struct sp_matmul *m)
{
    static sp_matmul_fn *const in_tiles[] = MATMULS(NULL);
    const struct sp_dtype_info *info = sp_dtype_info(m->dtype);
    const bool halves = sp_dtype_code_bits(m->dtype) > 0 || sp_group_has_halves(info->groups.kind);
    sp_matmul_fn *product = sp_dtype_is_groupwise(m->dtype) ? sp_groupwise_amx : in_tiles[m->dtype];

    if (m->n_rows < LEAST_ROWS || product == NULL) {
        sp_kernels_matmul(&sp_kernels_avx512, m->dtype)(m);
        return;
    }
    configure_tiles(m->n_rows, halves ? 2 : 1);
    product(m);
    _tile_release();
}

/* Asks the kernel for tile registers, which a process must do once and its threads share
 * (Documentation/arch/x86/xstate.rst). */
static bool may_use_tiles(void)
{
#ifdef SYS_arch_prctl
    enum { REQUEST_COMPONENT = 0x1023, TILE_DATA = 18 };

    return syscall(SYS_arch_prctl, REQUEST_COMPONENT, TILE_DATA) == 0;
#else
    return false;
#endif
}

/* Compares a product of a block of q4 with that of the set avx512. */
static bool agrees(void)
{
    enum { LD = 64, SIZE = SP_PANEL_ROWS * SP_TILE_ROWS };
    _Alignas(64) uint8_t panel[SP_MICROSCALE_HEAD + 288];
    int8_t q[SP_TILE_ROWS * LD];
    int32_t starts[SP_TILE_ROWS * 4] = {0};
    float scales[SP_TILE_ROWS * 2], y[2][SIZE];
    const struct sp_acts acts = {.cols = SP_BLOCK,
                                 .ld = LD,
                                 .ld_block = 2,
                                 .q = q,
                                 .scale = scales,
                                 .start_q4 = starts,
                                 .start_q8 = starts};
    struct sp_matmul m = {SP_Q4, y[0], SP_PANEL_ROWS, panel, 1, &acts, 0, SP_TILE_ROWS};

    for (size_t i = 0; i < sizeof panel; i++)
        panel[i] = (uint8_t)(i < SP_MICROSCALE_HEAD ? 0x3f : i * 37);
    for (size_t i = 0; i < sizeof q; i++)
        q[i] = (int8_t)(i * 29 % 255 - 127);
    for (size_t i = 0; i < SP_TILE_ROWS * 2; i++)
        scales[i] = 1;
    matmul(&m);
    m.y = y[1];
    sp_kernels_avx512.matmul[SP_Q4](&m);
    return memcmp(y[0], y[1], sizeof y[0]) == 0;
}

static const char *refusal(void)
{
    if (!may_use_tiles()) return "the system gives this process no tile registers";
    return agrees() ? NULL : "the products of this CPU's tiles differ from those of avx512";
}

const struct sp_kernels sp_kernels_amx = {
    .name = "amx",
    .others = matmul,
    .peak = sp_peak_avx512,
    .tile = &sp_tile_avx512,
    .refusal = refusal,
};
