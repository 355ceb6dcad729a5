/* Matrix products of panel weights (format/dtype.h) with one to many rows of activations.
 *
 * Every kernel set computes the same bits; kernels_ref.c is the specification. A result y[t][r] is
 * a function of row t of the activations and row r of the weights alone: it does not depend on the
 * number of rows that are multiplied together, on their place in the tile, or on the instruction
 * set. Lane r of a panel is output row r, k ascends, and there is one accumulator per (t, r), which
 * starts at +0:
 *
 *   float weights   acc = fmaf(w[r][k], x[t][k], acc)                           k = 0, 1, ...
 *   q8, block b     i = sum_k code[r][k] * q[t][k]                              exact in int32
 *                   acc = fmaf((float)i, w_scale[r][b] * x_scale[t][b], acc)
 *   q2 to q6, b     i0, i1 = exact integer sums of the two halves (16 k each)
 *                   j = (i + 2) >> 2 of each: a quarter, rounded, fits 16 bits
 *                   u = j0 * b0 + j1 * b1, the scale bytes of block b: exact, below 2^24
 *                   acc = fmaf((float)u, x_scale[t][b], acc)
 *                   y = acc * (4 * panel scale[r])
 *   groupwise,      i = exact integer sum of u[r][k] * q[t][k], s = that of q[t][k]
 *     block b       v = (float)i * scale, v = fmaf(least, s, v)    quantize/types/groupwise.h
 *                   or if its halves differ:
 *                   v = (float)i0 * scale0, fmaf((float)i1, scale1, v), fmaf(least0, s0, v),
 *                       fmaf(least1, s1, v)
 *                   acc = fmaf(v, x_scale[t][b], acc)
 *
 * The rounding error of j is a thirtieth of that of the activations' codes. It saves a
 * multiplication in the innermost loop: two products of 16 bits are one instruction on every
 * machine. */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_H
#define SP_QUANTIZE_KERNELS_KERNELS_H

#include "format/base/mem.h"
#include "format/dtype.h"
#include "quantize/types/tile.h"

enum { SP_TILE_ROWS = 16 }; /* most activation rows of one kernel call */

/* Activation rows, prepared once and multiplied by many matrices. Block-quantized weights read the
 * codes, float weights read x. quantize_row computes the codes of a block of 32:
 *
 *   m = max |x|; scale = m / 127; q = round-to-nearest-even(x * (127 / m)), all 0 when m == 0
 *
 * (127 / m is one f32 division, then one f32 product per element). If m is so small that 127 / m
 * overflows, codes and scale are 0. A NaN or an infinity makes m and with it scale non-finite, and
 * thereby every result of the row, which the caller detects as a non-finite logit. The codes of
 * such a block are 0. */
struct sp_acts {
    size_t cols;
    size_t ld;       /* elements from one row of x or q to the next, a multiple of 64, >= cols */
    size_t ld_block; /* blocks from one row of scale to the next, >= ld / 32 */
    float *x;        /* [n][ld], 64-byte aligned; columns cols..ld are 0 */
    int8_t *q;       /* [n][ld], 64-byte aligned, -127..127; columns cols..ld are 0 */
    float *scale;    /* [n][ld_block] */
    bool coded;      /* the product that makes the rows leaves their codes, and perhaps no x */
    /* Initial values of the sums in kernels that multiply unsigned weights. */
    int32_t *start_q4; /* [n][ld_block][2]: 2 - 64 * sum of half a block, for entries + 64 */
    int32_t *start_q8; /* [n][ld_block]: -128 * sum of a block's codes, for weight codes + 128 */
    float *sums;       /* [n][ld_block][3] sums of codes: of a block, of its halves */
};

/* Allocates n_rows zeroed rows of cols columns in one block, owned by `acts` until sp_acts_release.
 * ld is chosen so that the rows of a tile do not compete for the same cache sets. SP_E_NOMEM;
 * `acts` is untouched on failure. */
SP_MUST_CHECK enum sp_status sp_acts_init(struct sp_acts *acts, size_t n_rows, size_t cols,
                                          struct sp_err *err);
/* As sp_acts_init, but the arena owns the rows; zero if it has no memory for them. */
struct sp_acts sp_arena_acts(struct sp_arena *arena, size_t n_rows, size_t cols);
void sp_acts_release(struct sp_acts *acts); /* zeroes the struct; a zeroed struct is fine */

/* Sets both starts and the sums of row t from its codes, for codes that were computed elsewhere. */
void sp_acts_set_starts(const struct sp_acts *acts, size_t t);
/* Sets the sums of row t from its starts. */
void sp_acts_set_sums(const struct sp_acts *acts, size_t t);

/* A product: y[t * ldy + 16 * p + r] for t = 0..n_rows-1, p = 0..n_panels-1, of the panels with
 * activation rows first..first+n_rows-1. y has space for whole panels. Pointers are borrowed. */
struct sp_matmul {
    enum sp_dtype dtype; /* of the panels */
    float *y;
    size_t ldy;
    const uint8_t *panels; /* of acts->cols columns */
    size_t n_panels;
    const struct sp_acts *acts;
    size_t first, n_rows;
};

/* Computes a product of 1 <= n_rows <= SP_TILE_ROWS rows. */
typedef void sp_matmul_fn(const struct sp_matmul *m);

/* Multiplies numbers of 8 bits that lie in registers, in n rounds, to measure how fast a CPU can.
 * Returns the number of multiply-adds. */
typedef uint64_t sp_peak_fn(uint64_t n);

struct sp_kernels {
    const char *name; /* "scalar", "avx2", "avx512vnni", "avxvnni", "avx512", "amx", "neon",
                       * "neon-i8mm" */
    sp_matmul_fn *matmul[SP_N_PACKED_DTYPES]; /* by enum sp_dtype; not groupwise types */
    sp_matmul_fn *groupwise;                  /* of all types that keep the codes of a source */
    sp_matmul_fn *others;                     /* of all types that have none of these, or NULL */
    sp_peak_fn *peak;                         /* NULL: of the scalar set */
    const struct sp_tile_kernels *tile;       /* the encoders of weights and activations */
    /* Asks the system for what the set needs besides a CPU that has it. Returns why that fails,
     * static, or NULL. NULL: the set needs nothing. */
    const char *(*refusal)(void);
};

/* The product of a set for a type; of one that the set has none for, that of sp_kernels_ref. */
sp_matmul_fn *sp_kernels_matmul(const struct sp_kernels *kernels, enum sp_dtype dtype);

/* Computes a product of any number of rows: in even tiles of at most SP_TILE_ROWS rows, and in
 * groups of panels that stay in the cache while all tiles use them. The bits do not depend on how
 * the product is cut. */
void sp_matmul_rows(const struct sp_kernels *kernels, const struct sp_matmul *m);

/* All kernel sets, best first, but those that were never timed, amx and neon-i8mm, behind avx512
 * and neon; NULL at the end. */
const struct sp_kernels *const *sp_kernels_all(void);
/* True if this CPU and system can run the set. */
bool sp_kernels_supported(const struct sp_kernels *kernels);
/* The best set that this CPU can run. */
const struct sp_kernels *sp_kernels_best(void);

/* Finds a kernel set by name ("auto" or NULL: the best). SP_E_USAGE listing the names if it is
 * unknown, SP_E_UNSUPPORTED, saying why, if it cannot run here. */
SP_MUST_CHECK enum sp_status sp_kernels_find(const struct sp_kernels **out, const char *name,
                                             struct sp_err *err);

/* Products of the types that keep the codes of a source (kernels_groupwise_loops.h). */
sp_matmul_fn sp_groupwise_avx2, sp_groupwise_avxvnni, sp_groupwise_avx512vnni, sp_groupwise_avx512,
    sp_groupwise_amx, sp_groupwise_neon;
/* Products of floats (kernels_float_loops.h). */
sp_matmul_fn sp_floats_avx2, sp_floats_avx512, sp_floats_neon;
sp_peak_fn sp_peak_avx2, sp_peak_avxvnni, sp_peak_avx512vnni, sp_peak_avx512, sp_peak_neon;

/* The kernel sets. Those of other architectures are declared but not defined. */
extern const struct sp_kernels sp_kernels_ref, sp_kernels_avx2, sp_kernels_avx512vnni,
    sp_kernels_avxvnni, sp_kernels_avx512, sp_kernels_amx, sp_kernels_neon, sp_kernels_neon_i8mm;

#endif
