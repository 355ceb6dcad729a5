/* Tests the kernels: every table gives the bits of the scalar one, the result of a row does not
 * depend on the other rows, and the scalar result is close to a double-precision sum of the decoded
 * weights. Layouts and rounding are checked against numbers computed by hand. */
#include "quantize/kernels/kernels.h"
#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "quantize/codec.h"
#ifdef __x86_64__
#include "tests/quantize/emulated_amx.h"
#endif
#include "tests/support/keep.h"
#include "tests/support/microscale_bytes.h"
#include "tests/support/random.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum { N_PANELS = 5, ROWS = N_PANELS * SP_PANEL_ROWS, MAX_COLS = 1088, MAX_WIDTH = 1280 };

/* The next type of packed files; SP_N_PACKED_DTYPES: there is none. */
static enum sp_dtype next_type(enum sp_dtype dtype)
{
    do
        dtype++;
    while (dtype < SP_N_PACKED_DTYPES && !sp_dtype_is_packed(dtype));
    return dtype;
}

/* PLAIN: numbers as in a model. WILD: zeros of both signs, subnormal, huge and tiny numbers. */
enum mode { PLAIN, WILD, N_MODES };

/* The set of AMX with emulated tiles; NULL: this machine cannot run the rest of it. */
static const struct sp_kernels *emulated(void)
{
#ifdef __x86_64__
    if (sp_kernels_supported(&sp_kernels_avx512)) return &emulated_amx;
#endif
    return NULL;
}

/* The sets that this machine can run, and the emulated one; NULL at the end. */
static const struct sp_kernels *const *runnable(void)
{
    static const struct sp_kernels *sets[16];
    size_t n = 0;

    for (size_t i = 0; sp_kernels_all()[i]; i++)
        if (sp_kernels_supported(sp_kernels_all()[i])) sets[n++] = sp_kernels_all()[i];
    sets[n] = emulated();
    return sets;
}

static bool is_finite(float x)
{
    return isfinite(x);
}

static float number(uint64_t *seed, enum mode mode)
{
    float x = uniform(seed);

    return mode == PLAIN ? x : wild(seed, x);
}

/* `cols` or, if the type has larger groups of columns, a little more. */
static size_t width_of(enum sp_dtype dtype, size_t cols)
{
    return sp_round_up(cols, sp_dtype_info(dtype)->block);
}

/* Makes the random bytes of a panel finite numbers, and its flags, by turns, all that there are. */
static void settle_groups(uint8_t *panel, const struct sp_groupwise *groups, size_t cols, size_t p,
                          enum mode mode, uint64_t *seed)
{
    const bool small = groups->kind == SP_GROUP_E8M0 || groups->kind == SP_GROUP_E4M3;

    panel[0] = (uint8_t)(p % 4 | p % 2 << 3);
    for (size_t r = 0; r < 16; r++)
        sp_put32(panel + 64 + 4 * r * (groups->kind == SP_GROUP_E4M3),
                 sp_bits_of_float(number(seed, PLAIN) + 2));
    for (size_t i = 0; i < cols / groups->cols; i++) {
        uint8_t *at = panel + sp_group_head(groups) + i * sp_group_size(groups);
        size_t n = sp_group_numbers(groups->kind) * 16;
        for (size_t j = 0; j < n && groups->kind == SP_GROUP_E8M0; j++)
            at[j] = (uint8_t)(mode == PLAIN ? 120 + at[j] % 9 : at[j] % 200);
        for (size_t j = 0; j < n && !small; j += 2) {
            uint16_t f16 = sp_get16(at + j) & 0xbfff;
            uint16_t bf16 = (uint16_t)(sp_bits_of_float(number(seed, mode)) >> 16);
            sp_put16(at + j, panel[0] & 1 ? bf16 : f16);
        }
    }
}

/* Returns a panel matrix of ROWS x cols, 64-byte aligned. Every byte is a valid block code or scale
 * byte. */
static uint8_t *random_panels(enum sp_dtype dtype, size_t cols, enum mode mode, uint64_t *seed)
{
    size_t size, n_blocks = cols / SP_BLOCK;

    assert_true(sp_panel_size(&size, dtype, cols));
    uint8_t *panels = aligned_alloc(64, size * N_PANELS);
    assert_non_null(panels);
    for (size_t i = 0; i < size * N_PANELS; i++)
        panels[i] = (uint8_t)next(seed);
    for (size_t p = 0; p < N_PANELS; p++) {
        uint8_t *panel = panels + p * size;
        switch (dtype) {
        case SP_F32:
            for (size_t i = 0; i < cols * 16; i++)
                sp_put32(panel + 4 * i, sp_bits_of_float(number(seed, mode)));
            break;
        case SP_F16: /* exponent 31 would encode an infinity or a NaN */
            for (size_t i = 0; i < cols * 16; i++) {
                uint16_t h = sp_get16(panel + 2 * i);
                if ((h >> 10 & 31) == 31) sp_put16(panel + 2 * i, (uint16_t)(h & ~0x4000));
            }
            break;
        case SP_BF16:
            for (size_t i = 0; i < cols * 16; i++)
                sp_put16(panel + 2 * i, (uint16_t)(sp_bits_of_float(number(seed, mode)) >> 16));
            break;
        case SP_Q8:
            for (size_t b = 0; b < n_blocks; b++) {
                uint8_t *block = panel + b * SP_Q8_BLOCK_SIZE;
                for (size_t i = 0; mode == WILD && i < 512; i++)
                    if (i % 3 == 0) block[i] = block[i] & 1 ? 255 : 1; /* +127 and -127 */
                for (size_t r = 0; r < 16; r++) {
                    uint32_t bits = sp_bits_of_float(number(seed, mode));
                    sp_put16(block + 512 + 2 * r, (uint16_t)(bits >> 16));
                }
            }
            break;
        default:
            if (sp_dtype_is_groupwise(dtype)) {
                settle_groups(panel, &sp_dtype_info(dtype)->groups, cols, p, mode, seed);
                break;
            }
            for (size_t r = 0; r < 16; r++)
                sp_put32(panel + 4 * r, sp_bits_of_float(number(seed, mode)));
            for (size_t b = 0; mode == WILD && b < n_blocks;
                 b++) { /* zero blocks, largest scales */
                unsigned bits = sp_dtype_code_bits(dtype);
                uint8_t *bytes =
                    panel + SP_MICROSCALE_HEAD + b * sp_microscale_block_size(bits) + 64 * bits;
                for (size_t i = 0; i < 32; i++)
                    if (next(seed) % 4 == 0) bytes[i] = next(seed) & 1 ? 0 : 255;
            }
            break;
        }
    }
    return keep(panels);
}

static void random_acts(struct sp_acts *acts, size_t n_rows, size_t cols, enum mode mode,
                        uint64_t *seed)
{
    assert_ok(sp_acts_init(acts, n_rows, cols, NULL));
    for (size_t t = 0; t < n_rows; t++) {
        float *x = acts->x + t * acts->ld;
        for (size_t k = 0; k < cols; k++)
            x[k] = number(seed, mode);
        for (size_t k = 0; mode == WILD && k + 32 <= cols; k += 32) {
            uint32_t kind = next(seed) % 6;
            for (size_t i = k; i < k + 32 && kind < 3; i++) {
                if (kind == 0) x[i] = 0;
                if (kind == 1) x[i] = 127.0f * (float)((int)(next(seed) % 3) - 1);
                /* ties, which distinguish rounding modes; the largest number of the block is 127 */
                if (kind == 2)
                    x[i] = i == k ? -127.0f : (float)((int)(next(seed) % 254) - 127) + 0.5f;
            }
        }
        if (cols % SP_BLOCK == 0) sp_tile_ref.quantize_row(acts, t);
    }
}

static void assert_same_bits(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (sp_bits_of_float(a[i]) == sp_bits_of_float(b[i])) continue;
        fail_msg("element %zu: %a instead of %a", i, (double)a[i], (double)b[i]);
    }
}

/* Checks that rows first..first+n_rows-1 equal the rows that were computed alone, and that nothing
 * else is written. */
static void check_tile(const struct sp_kernels *kernels, enum sp_dtype dtype, const float *expected,
                       const uint8_t *panels, const struct sp_acts *acts, size_t first,
                       size_t n_rows)
{
    const size_t ldy = ROWS + 3;
    static float y[SP_TILE_ROWS * (ROWS + 3) + 1];

    for (size_t i = 0; i < n_rows * ldy + 1; i++)
        y[i] = 12345.0f;
    sp_kernels_matmul(kernels, dtype)(
        &(struct sp_matmul){dtype, y, ldy, panels, N_PANELS, acts, first, n_rows});
    for (size_t t = 0; t < n_rows; t++) {
        assert_same_bits(y + t * ldy, expected + (first + t) * ROWS, ROWS);
        for (size_t i = ROWS; i < ldy; i++)
            assert_true(y[t * ldy + i] == 12345.0f);
    }
    assert_true(y[n_rows * ldy] == 12345.0f);
}

static void check_shape(enum sp_dtype dtype, size_t cols, enum mode mode, uint64_t *seed)
{
    struct sp_acts acts;
    static float expected[(SP_TILE_ROWS + 2) * ROWS];
    uint8_t *panels = random_panels(dtype, cols, mode, seed);

    random_acts(&acts, SP_TILE_ROWS + 2, cols, mode, seed);
    for (size_t t = 0; t < SP_TILE_ROWS + 2; t++) {
        sp_kernels_matmul(&sp_kernels_ref, dtype)(
            &(struct sp_matmul){dtype, expected + t * ROWS, ROWS, panels, N_PANELS, &acts, t, 1});
        for (size_t r = 0; r < ROWS; r++)
            assert_true(expected[t * ROWS + r] == expected[t * ROWS + r]);
    }
    for (const struct sp_kernels *const *sets = runnable(); *sets; sets++)
        for (size_t n = 1; n <= SP_TILE_ROWS; n++)
            check_tile(*sets, dtype, expected, panels, &acts, n % 3, n);
    sp_acts_release(&acts);
}

TEST(test_all_tables_give_the_same_bits)
{
    static const size_t block_cols[] = {32, 64, 96, 160, 1024, 1056};
    static const size_t float_cols[] = {1, 7, 32, 40, 250, 1056};
    uint64_t seed = 1;

    for (enum sp_dtype dtype = SP_F32; dtype < SP_N_PACKED_DTYPES; dtype = next_type(dtype)) {
        const size_t *cols = sp_dtype_is_block(dtype) ? block_cols : float_cols;
        for (size_t c = 0; c < 6; c++) {
            check_shape(dtype, width_of(dtype, cols[c]), PLAIN, &seed);
            check_shape(dtype, width_of(dtype, cols[c]), WILD, &seed);
        }
    }
}

/* The set of AMX uses its tiles, compares a product before it is chosen, and never by itself. */
TEST(test_emulated_amx)
{
#ifdef __x86_64__
    size_t dots = emulated_dots();

    assert_string_not_equal(sp_kernels_best()->name, "amx");
    if (emulated() == NULL) return;
    assert_null(emulated_amx.refusal());
    assert_int_equal(emulated_dots(), dots + 2);
#endif
}

TEST(test_all_tables_quantize_alike)
{
    struct sp_acts a, b;
    uint64_t seed = 2;

    for (size_t cols = 32; cols <= MAX_COLS; cols += 352) {
        for (int mode = PLAIN; mode < N_MODES; mode++) {
            random_acts(&a, 50, cols, (enum mode)mode, &seed);
            for (const struct sp_kernels *const *sets = runnable(); *sets; sets++) {
                assert_ok(sp_acts_init(&b, 50, cols, NULL));
                memcpy(b.x, a.x, 50 * a.ld * sizeof *a.x);
                for (size_t t = 0; t < 50; t++)
                    (*sets)->tile->quantize_row(&b, t);
                assert_memory_equal(a.q, b.q, 50 * a.ld);
                assert_memory_equal(a.scale, b.scale, 50 * a.ld_block * sizeof *a.scale);
                assert_memory_equal(a.start_q4, b.start_q4,
                                    50 * a.ld_block * 2 * sizeof *a.start_q4);
                assert_memory_equal(a.start_q8, b.start_q8, 50 * a.ld_block * sizeof *a.start_q8);
                assert_memory_equal(a.sums, b.sums, 50 * a.ld_block * 3 * sizeof *a.sums);
                sp_acts_release(&b);
            }
            sp_acts_release(&a);
        }
    }
}

TEST(test_quantize_by_hand)
{
    static const float x[32] = {127,   0.5f,    1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 125.5f, 126.5f,
                                0.49f, -126.5f, 3,    0,    0,     0,     0,     -127,   64.5f};
    static const int8_t q[32] = {127, 0,    2, 2, 0, -2, -2, 126,  126,
                                 0,   -126, 3, 0, 0, 0,  0,  -127, 64};
    const float smallest = sp_float_of_bits(1);
    struct sp_acts a;

    for (const struct sp_kernels *const *sets = runnable(); *sets; sets++) {
        const struct sp_kernels *kernels = *sets;
        assert_ok(sp_acts_init(&a, 1, 160, NULL));
        memcpy(a.x, x, sizeof x);     /* block 0 */
        a.x[64] = smallest;           /* block 2: 127 / max overflows; block 1 stays zero */
        a.x[96] = INFINITY;           /* 3 */
        a.x[128] = NAN, a.x[129] = 1; /* 4 */
        kernels->tile->quantize_row(&a, 0);
        assert_memory_equal(a.q, q, 32);
        assert_true(a.scale[0] == 1.0f);
        assert_int_equal(a.start_q4[0], 2 - 64 * 256);
        assert_int_equal(a.start_q4[1], 2 - 64 * -63);
        assert_int_equal(a.start_q8[0], -128 * (256 - 63));
        assert_true(a.sums[0] == 256 - 63 && a.sums[1] == 256 && a.sums[2] == -63);
        for (size_t k = 32; k < 160; k++)
            assert_int_equal(a.q[k], 0);
        assert_true(a.scale[1] == 0 && a.scale[2] == 0);
        assert_true(a.start_q4[2] == 2 && a.start_q4[5] == 2 && a.start_q8[1] == 0);
        assert_true(!is_finite(a.scale[3]) && !is_finite(a.scale[4]));
        sp_acts_release(&a);
    }
}

/* Bits of a code of q2 to q6, 0 for other types. */
static unsigned bits_of(enum sp_dtype dtype)
{
    return sp_dtype_code_bits(dtype);
}

static double row_scale(const uint8_t *panel, size_t r)
{
    return (double)sp_float_of_bits(sp_get32(panel + 4 * r));
}

static double q8_weight(const uint8_t *panel, size_t r, size_t k)
{
    const uint8_t *block = panel + k / 32 * 544;
    int code = block[64 * (k % 32 / 4) + 4 * r + k % 4] - 128;

    return (double)sp_float_of_bits((uint32_t)sp_get16(block + 512 + 2 * r) << 16) * code;
}

/* A row that is 127 at column k and otherwise 0 selects column k of the matrix exactly, because all
 * factors are small integers times powers of two: 127 * w, for q2 to q6 after their rounding to
 * quarters. */
TEST(test_one_column_is_selected)
{
    enum { COLS = 96 };
    uint64_t seed = 3;
    float row[COLS], y[SP_PANEL_ROWS * N_PANELS];
    size_t size;

    for (enum sp_dtype dtype = SP_F32; dtype < SP_N_PACKED_DTYPES; dtype = next_type(dtype)) {
        if (sp_dtype_is_groupwise(dtype)) continue; /* test_groupwise.c */
        uint8_t *panels = random_panels(dtype, COLS, PLAIN, &seed);
        assert_true(sp_panel_size(&size, dtype, COLS));
        for (size_t p = 0; p < N_PANELS; p++) {
            for (size_t r = 0; r < 16 && bits_of(dtype); r++)
                sp_put32(panels + p * size + 4 * r, sp_bits_of_float(r % 2 ? 0.25f : -2.0f));
            for (size_t r = 0; r < 48 && dtype == SP_Q8;
                 r++) { /* three blocks with scales 1/4 and -2 */
                uint8_t *block = panels + p * size + r / 16 * SP_Q8_BLOCK_SIZE;
                sp_put16(block + 512 + 2 * (r % 16), r % 2 ? 0x3e80 : 0xc000);
            }
            for (size_t i = 0; i < COLS * 16 && dtype == SP_F32; i++) /* short mantissas */
                sp_put16(panels + p * size + 4 * i, 0);
        }
        for (size_t k = 0; k < COLS; k++) {
            struct sp_acts a;
            assert_ok(sp_acts_init(&a, 1, COLS, NULL));
            a.x[k] = 127.0f;
            sp_kernels_best()->tile->quantize_row(&a, 0);
            sp_kernels_matmul(sp_kernels_best(), dtype)(
                &(struct sp_matmul){dtype, y, ROWS, panels, N_PANELS, &a, 0, 1});
            for (size_t r = 0; r < ROWS; r++) {
                const uint8_t *panel = panels + r / 16 * size;
                int scale, code;
                if (bits_of(dtype)) {
                    code = microscale_code(&scale, bits_of(dtype), panel, r % 16, k);
                    double quarter = floor(127.0 * code / 4 + 0.5);
                    assert_true((double)y[r] == quarter * scale * 4 * row_scale(panel, r % 16));
                } else {
                    sp_panel_row(row, dtype, panels, COLS, r);
                    assert_true(y[r] == 127.0f * row[k]);
                }
            }
            sp_acts_release(&a);
        }
    }
}

/* Returns a weight times an activation in double precision. *rounding_error: bound on the error of
 * rounding a half-block sum of q2 to q6 to quarters, a sixteenth of 2 * scales for each of its 16
 * columns; of weights that are a scale times a code plus a least weight. */
static double term(double *rounding_error, enum sp_dtype dtype, const uint8_t *panel, size_t r,
                   size_t k, const float *row, const struct sp_acts *a, size_t t)
{
    double x = (double)a->q[t * a->ld + k], s = (double)a->scale[t * a->ld_block + k / 32];
    int scale, code;

    *rounding_error = 0;
    if (dtype == SP_Q8) return q8_weight(panel, r, k) * x * s;
    if (sp_dtype_is_groupwise(dtype)) {
        double largest = 0;
        for (size_t i = k / 32 * 32; i < k / 32 * 32 + 32; i++)
            largest = fmax(largest, fabs((double)row[i]));
        *rounding_error = 0x1p-20 * largest * fabs(x) * s;
        return (double)row[k] * x * s;
    }
    if (!bits_of(dtype)) return (double)row[k] * (double)a->x[t * a->ld + k];
    code = microscale_code(&scale, bits_of(dtype), panel, r, k);
    *rounding_error = 0.125 * scale * s * fabs(row_scale(panel, r));
    return row_scale(panel, r) * scale * code * x * s;
}

/* Bound: every rounding of the sum (one per column for float weights, otherwise at most two per
 * block and two per result) is at most 2^-24 of the sum of magnitudes to first order; a factor of
 * two covers the higher orders. The rounding of q2 to q6 to quarters is added. */
TEST(test_scalar_is_close_to_double_precision)
{
    enum { N_ROWS = 3 };
    struct sp_acts a;
    static float y[N_ROWS * ROWS], row[MAX_WIDTH];
    uint64_t seed = 4;
    size_t size;

    for (enum sp_dtype dtype = SP_F32; dtype < SP_N_PACKED_DTYPES; dtype = next_type(dtype)) {
        const size_t cols = width_of(dtype, 1056), columns = sp_dtype_is_block(dtype) ? 32 : 1;
        const double roundings = (double)(cols / columns) * 2 + 2;
        uint8_t *panels = random_panels(dtype, cols, PLAIN, &seed);
        assert_true(sp_panel_size(&size, dtype, cols));
        random_acts(&a, N_ROWS, cols, PLAIN, &seed);
        sp_kernels_matmul(&sp_kernels_ref, dtype)(
            &(struct sp_matmul){dtype, y, ROWS, panels, N_PANELS, &a, 0, N_ROWS});
        for (size_t i = 0; i < N_ROWS * ROWS; i++) {
            size_t r = i % ROWS;
            double sum = 0, magnitude = 0, rounding_error = 0;
            sp_panel_row(row, dtype, panels, cols, r);
            for (size_t k = 0; k < cols; k++) {
                double l, p = term(&l, dtype, panels + r / 16 * size, r % 16, k, row, &a, i / ROWS);
                sum += p;
                magnitude += fabs(p);
                rounding_error += l;
            }
            assert_true(fabs((double)y[i] - sum) <=
                        2 * roundings * 0x1p-24 * magnitude + rounding_error);
        }
        sp_acts_release(&a);
    }
}

TEST(test_any_number_of_rows)
{
    enum { N_ROWS = 37 };
    static float y[N_ROWS * ROWS], expected[ROWS];
    struct sp_acts a;
    uint64_t seed = 5;

    for (enum sp_dtype dtype = SP_F32; dtype < SP_N_PACKED_DTYPES; dtype = next_type(dtype)) {
        const size_t cols = width_of(dtype, 1056);
        uint8_t *panels = random_panels(dtype, cols, PLAIN, &seed);
        random_acts(&a, N_ROWS + 1, cols, PLAIN, &seed);
        sp_matmul_rows(sp_kernels_best(),
                       &(struct sp_matmul){dtype, y, ROWS, panels, N_PANELS, &a, 1, N_ROWS});
        for (size_t t = 0; t < N_ROWS; t++) {
            sp_kernels_matmul(sp_kernels_best(), dtype)(
                &(struct sp_matmul){dtype, expected, ROWS, panels, N_PANELS, &a, t + 1, 1});
            assert_same_bits(y + t * ROWS, expected, ROWS);
        }
        sp_acts_release(&a);
    }
}

TEST(test_non_finite_activations_show)
{
    static const enum sp_dtype types[] = {SP_BF16, SP_Q8, SP_Q4,    SP_Q2,    SP_Q3,
                                          SP_Q5,   SP_Q6, SP_I4G32, SP_U2G64, SP_NVFP4};
    float y[ROWS];
    struct sp_acts a;
    uint64_t seed = 6;

    for (const struct sp_kernels *const *sets = runnable(); *sets; sets++) {
        const struct sp_kernels *kernels = *sets;
        for (size_t d = 0; d < 2 * sizeof types / sizeof *types; d++) {
            uint8_t *panels = random_panels(types[d / 2], 64, PLAIN, &seed);
            random_acts(&a, 1, 64, PLAIN, &seed);
            a.x[40] = d % 2 ? NAN : -INFINITY;
            kernels->tile->quantize_row(&a, 0);
            sp_kernels_matmul(kernels, types[d / 2])(
                &(struct sp_matmul){types[d / 2], y, ROWS, panels, N_PANELS, &a, 0, 1});
            for (size_t r = 0; r < ROWS; r++)
                assert_false(is_finite(y[r]));
            sp_acts_release(&a);
        }
    }
}

TEST(test_tables)
{
    const struct sp_kernels *found = NULL;

    for (size_t i = 0; sp_kernels_all()[i] != NULL; i++) {
        const struct sp_kernels *kernels = sp_kernels_all()[i];
        enum sp_status st = sp_kernels_find(&found, kernels->name, &(struct sp_err){0});
        assert_int_equal(st, sp_kernels_supported(kernels) ? SP_OK : SP_E_UNSUPPORTED);
        if (st == SP_OK) assert_ptr_equal(found, kernels);
        assert_non_null(kernels->tile->quantize_row);
        for (enum sp_dtype dtype = SP_F32; dtype < SP_N_PACKED_DTYPES; dtype = next_type(dtype))
            if (kernels != &sp_kernels_ref)
                assert_true(sp_kernels_matmul(kernels, dtype) != sp_kernels_ref.others);
    }
    assert_true(sp_kernels_supported(&sp_kernels_ref));
    assert_ok(sp_kernels_find(&found, "auto", why));
    assert_ptr_equal(found, sp_kernels_best());
    assert_ok(sp_kernels_find(&found, NULL, why));
    assert_ptr_equal(found, sp_kernels_best());
}

/* The message lists the tables of this machine's architecture, with the scalar one last. */
TEST(test_unknown_name)
{
    char want[200] = "kernels \"mmx\": expected auto";
    const struct sp_kernels *found = NULL;

    for (size_t i = 0; sp_kernels_all()[i] != NULL; i++) {
        strcat(want, sp_kernels_all()[i] == &sp_kernels_ref ? " or " : ", ");
        strcat(want, sp_kernels_all()[i]->name);
    }
    assert_fails_as(sp_kernels_find(&found, "mmx", why), SP_E_USAGE, want);
    assert_null(found);
}

TEST(test_acts_memory)
{
    struct sp_acts a = {0};

    for (size_t cols = 1; cols < 5000; cols = cols * 3 + 1) {
        assert_ok(sp_acts_init(&a, 3, cols, NULL));
        assert_true(a.cols == cols && a.ld >= cols && a.ld % 64 == 0 && a.ld % 4096 != 0);
        assert_true(a.ld_block >= a.ld / 32);
        assert_true((uintptr_t)a.x % 64 == 0 && (uintptr_t)a.q % 64 == 0);
        memset(a.x, 1, 3 * a.ld * sizeof *a.x); /* rows do not overlap other arrays */
        memset(a.q, 2, 3 * a.ld);
        memset(a.scale, 3, 3 * a.ld_block * sizeof *a.scale);
        memset(a.start_q4, 4, 3 * a.ld_block * 2 * sizeof *a.start_q4);
        memset(a.start_q8, 5, 3 * a.ld_block * sizeof *a.start_q8);
        assert_int_equal(((uint8_t *)a.x)[3 * a.ld * 4 - 1], 1);
        assert_int_equal(a.q[3 * a.ld - 1], 2);
        assert_int_equal(((uint8_t *)a.scale)[3 * a.ld_block * 4 - 1], 3);
        assert_int_equal(((uint8_t *)a.start_q4)[3 * a.ld_block * 8 - 1], 4);
        memset(a.sums, 6, 3 * a.ld_block * 3 * sizeof *a.sums);
        assert_int_equal(((uint8_t *)a.start_q8)[3 * a.ld_block * 4 - 1], 5);
        sp_acts_release(&a);
        sp_acts_release(&a);
    }
    assert_int_equal(sp_acts_init(&a, SIZE_MAX / 4, 64, NULL), SP_E_NOMEM);
    assert_int_equal(sp_acts_init(&a, 1, SIZE_MAX, NULL), SP_E_NOMEM);
    assert_null(a.x);
}
