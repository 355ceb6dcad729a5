/* Tests matrix products and attention against OpenBLAS, which shares no code with the kernels. The
 * bounds hold for any order of summation (Higham, Accuracy and Stability, 3.1): a float sum of k
 * products is off by at most gamma(k) times the sum of their magnitudes, which BLAS computes too.
 * Weights and quantized activations are compared as decoded numbers; test_codec tests the
 * quantization error. */
#include "runtime/backend/attention.h"
#include "format/base/bytes.h"
#include "quantize/codec.h"
#include "quantize/kernels/kernels.h"
#include "tests/support/keep.h"
#include "tests/support/kv_rows.h"
#include "tests/support/random.h"
#include "tests/support/unit_test.h"

#include <cblas.h>
#include <math.h>

enum { N_PANELS = 5, ROWS = N_PANELS * SP_PANEL_ROWS, MAX_X_ROWS = 67 };

static const size_t x_rows[] = {1, 2, 5, 16,
                                MAX_X_ROWS}; /* decoding, verification, prompt processing */
enum { N_X_ROWS = sizeof x_rows / sizeof *x_rows };

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n, size);

    assert_non_null(p);
    return keep(p);
}

static float *random_floats(size_t n, uint64_t *seed)
{
    float *x = allocate(n, sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = uniform(seed);
    return x;
}

/* Relative error of k successive roundings. */
static double gamma_of(size_t k)
{
    return (double)k * 0x1p-24 / (1 - (double)k * 0x1p-24);
}

/* Computes y[n][rows] = x[n][cols] times the transpose of w[rows][cols]. The rows of y and x are
 * ldy and ldx elements apart. */
static void multiply(double *y, size_t ldy, const double *x, size_t ldx, const double *w, size_t n,
                     size_t rows, size_t cols)
{
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)rows, (int)cols, 1, x,
                (int)ldx, w, (int)cols, 0, y, (int)ldy);
}

/* ---- matrix products ------------------------------------------------------------------------ */

/* One product: the operands in the kernels' formats, the decoded operands, and the product that
 * BLAS computes from them. */
struct product {
    enum sp_dtype dtype;
    size_t cols, n; /* n rows of activations */
    uint8_t *panels;
    struct sp_acts acts;
    double *w, *x;     /* [ROWS][cols], [n][cols] */
    float *w32, *x32;  /* the same numbers as floats */
    double *expected;  /* [n][ROWS] */
    double *magnitude; /* [n][ROWS]: the sum of |w x| */
};

static void encode_weights(struct product *p, uint64_t *seed)
{
    struct sp_encoder encoder;
    float *rows = random_floats(ROWS * p->cols, seed);
    size_t panel_size;

    sp_encoder_init(&encoder);
    assert_true(sp_panel_size(&panel_size, p->dtype, p->cols));
    p->panels = keep(aligned_alloc(64, N_PANELS * panel_size));
    assert_non_null(p->panels);
    for (size_t i = 0; i < N_PANELS; i++) {
        uint8_t *panel = p->panels + i * panel_size;
        size_t first = i * SP_PANEL_ROWS;
        assert_ok(sp_panel_encode(panel, p->dtype, &encoder, rows + first * p->cols, SP_PANEL_ROWS,
                                  p->cols, first, NULL, NULL, NULL));
    }
    for (size_t r = 0; r < ROWS; r++)
        sp_panel_row(p->w32 + r * p->cols, p->dtype, p->panels, p->cols, r);
}

static void quantize_activations(struct product *p, uint64_t *seed)
{
    bool codes = sp_dtype_is_block(p->dtype);

    assert_ok(sp_acts_init(&p->acts, p->n, p->cols, NULL));
    for (size_t t = 0; t < p->n; t++) {
        float *row = p->acts.x + t * p->acts.ld;
        for (size_t k = 0; k < p->cols; k++)
            row[k] = uniform(seed);
        if (codes) sp_tile_ref.quantize_row(&p->acts, t);
        for (size_t k = 0; k < p->cols; k++) {
            size_t block = t * p->acts.ld_block + k / SP_BLOCK;
            p->x32[t * p->cols + k] = row[k];
            p->x[t * p->cols + k] = (double)row[k];
            if (codes) {
                p->x[t * p->cols + k] =
                    (double)p->acts.q[t * p->acts.ld + k] * (double)p->acts.scale[block];
            }
        }
    }
}

static void open_product(struct product *p, enum sp_dtype dtype, size_t n, size_t cols,
                         uint64_t *seed)
{
    double *abs_w = allocate(ROWS * cols, sizeof *abs_w),
           *abs_x = allocate(n * cols, sizeof *abs_x);

    *p = (struct product){.dtype = dtype,
                          .n = n,
                          .cols = cols,
                          .w = allocate(ROWS * cols, sizeof *p->w),
                          .x = allocate(n * cols, sizeof *p->x),
                          .w32 = allocate(ROWS * cols, sizeof *p->w32),
                          .x32 = allocate(n * cols, sizeof *p->x32),
                          .expected = allocate(n * ROWS, sizeof *p->expected),
                          .magnitude = allocate(n * ROWS, sizeof *p->magnitude)};
    encode_weights(p, seed);
    quantize_activations(p, seed);
    for (size_t i = 0; i < ROWS * cols; i++) {
        p->w[i] = (double)p->w32[i];
        abs_w[i] = fabs(p->w[i]);
    }
    for (size_t i = 0; i < n * cols; i++)
        abs_x[i] = fabs(p->x[i]);
    multiply(p->expected, ROWS, p->x, cols, p->w, n, ROWS, cols);
    multiply(p->magnitude, ROWS, abs_x, cols, abs_w, n, ROWS, cols);
}

/* Returns the largest error of an element relative to its bound, over all instruction sets. slack:
 * [n][ROWS], added to the bound of `roundings` successive roundings; NULL: no slack. */
static double largest_relative_error(const struct product *p, size_t roundings, const double *slack)
{
    float *y = allocate(p->n * ROWS, sizeof *y);
    double largest = 0;

    for (const struct sp_kernels *const *table = sp_kernels_all(); *table; table++) {
        if (!sp_kernels_supported(*table)) continue;
        sp_matmul_rows(
            *table, &(struct sp_matmul){p->dtype, y, ROWS, p->panels, N_PANELS, &p->acts, 0, p->n});
        for (size_t i = 0; i < p->n * ROWS; i++) {
            double bound = gamma_of(roundings) * p->magnitude[i] + (slack ? slack[i] : 0);
            double relative = fabs((double)y[i] - p->expected[i]) / bound;
            if (!(relative <= largest)) largest = relative; /* also true for NaN */
        }
    }
    return largest;
}

/* Each term is one fused multiply-add, so there are cols roundings. BLAS in float has one more
 * rounding for each product that it does not fuse. */
TEST(float_weights)
{
    static const enum sp_dtype dtypes[] = {SP_F32, SP_F16, SP_BF16};
    static const size_t cols[] = {7, 64, 1088};
    uint64_t seed = 1;
    double largest = 0;

    for (size_t i = 0; i < 3 * 3 * N_X_ROWS; i++) {
        struct product p;
        open_product(&p, dtypes[i / N_X_ROWS % 3], x_rows[i % N_X_ROWS], cols[i / N_X_ROWS / 3],
                     &seed);
        double relative = largest_relative_error(&p, p.cols, NULL);
        assert_true(relative <= 1);
        if (relative > largest) largest = relative;

        float *y = allocate(p.n * ROWS, sizeof *y), *blas = allocate(p.n * ROWS, sizeof *blas);
        sp_matmul_rows(sp_kernels_best(),
                       &(struct sp_matmul){p.dtype, y, ROWS, p.panels, N_PANELS, &p.acts, 0, p.n});
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)p.n, ROWS, (int)p.cols, 1, p.x32,
                    (int)p.cols, p.w32, (int)p.cols, 0, blas, ROWS);
        for (size_t j = 0; j < p.n * ROWS; j++) {
            double bound = (gamma_of(p.cols) + gamma_of(p.cols + 1)) * p.magnitude[j];
            assert_true(fabs((double)y[j] - (double)blas[j]) <= bound);
        }
        sp_acts_release(&p.acts);
    }
    print_message("largest error: %.2g of its bound\n", largest);
}

/* Returns the error that the kernels' rounding of half-block sums to quarters may cost: at most 2
 * units of scale byte, row scale and activation scale (quantize/kernels/kernels.h). It is computed
 * as a product of two matrices too. */
static double *rounding_slack(const struct product *p)
{
    size_t n_blocks = p->cols / SP_BLOCK, panel_size;
    double *units = allocate(ROWS * n_blocks, sizeof *units);
    double *scales = allocate(p->n * n_blocks, sizeof *scales);
    double *slack = allocate(p->n * ROWS, sizeof *slack);

    assert_true(sp_panel_size(&panel_size, SP_Q4, p->cols));
    for (size_t r = 0; r < ROWS; r++) {
        const uint8_t *panel = p->panels + r / SP_PANEL_ROWS * panel_size;
        size_t lane = r % SP_PANEL_ROWS;
        double row_scale = (double)sp_float_of_bits(sp_get32(panel + 4 * lane));
        for (size_t b = 0; b < n_blocks; b++) {
            const uint8_t *bytes =
                panel + SP_MICROSCALE_HEAD + (b + 1) * SP_Q4_BLOCK_SIZE - 2 * SP_PANEL_ROWS;
            units[r * n_blocks + b] = 2 * row_scale * (bytes[lane] + bytes[SP_PANEL_ROWS + lane]);
        }
    }
    for (size_t t = 0; t < p->n; t++)
        for (size_t b = 0; b < n_blocks; b++)
            scales[t * n_blocks + b] = (double)p->acts.scale[t * p->acts.ld_block + b];
    multiply(slack, ROWS, scales, n_blocks, units, p->n, ROWS, n_blocks);
    return slack;
}

/* Each block contributes an exact integer and one fused multiply-add. Its scale, the decoded weight
 * and the row's scale are rounded too. */
TEST(block_weights)
{
    static const enum sp_dtype dtypes[] = {SP_Q8, SP_Q4};
    static const size_t cols[] = {32, 1056};
    uint64_t seed = 2;

    for (size_t i = 0; i < 2; i++) {
        double largest = 0;
        for (size_t j = 0; j < 2 * N_X_ROWS; j++) {
            struct product p;
            open_product(&p, dtypes[i], x_rows[j / 2], cols[j % 2], &seed);
            double *slack = p.dtype == SP_Q4 ? rounding_slack(&p) : NULL;
            double relative = largest_relative_error(&p, p.cols / SP_BLOCK + 4, slack);
            assert_true(relative <= 1);
            if (relative > largest) largest = relative;
            sp_acts_release(&p.acts);
        }
        print_message("%s: largest error: %.2g of its bound\n", sp_dtype_info(dtypes[i])->name,
                      largest);
    }
}

/* ---- attention ------------------------------------------------------------------------------ */

enum {
    HEADS = 6,
    KV_HEADS = 2,
    DIM = 64,
    POSITIONS = 700,
    LD = HEADS * DIM,
    LD_KV = KV_HEADS * DIM
};

static double *doubles(const float *x, size_t n)
{
    double *y = allocate(n, sizeof *y);

    for (size_t i = 0; i < n; i++)
        y[i] = (double)x[i];
    return y;
}

/* Computes out[n][LD], the attention of the last n positions, each over all positions up to itself,
 * and returns the bound on the error of a float. Scores are sums of DIM products. Twice the bound
 * on their error (one score, and the largest score) is the relative error of a weight e^score, and
 * the exponential adds two units. Such an error changes a mean of values by at most twice the
 * relative error times the largest value. Sums over positions add gamma(POSITIONS), once for the
 * weights and once for the weighted values. */
static double attend_by_blas(double *out, const double *q, const double *k, const double *v,
                             size_t n, double scale)
{
    double *scores = allocate(n * POSITIONS, sizeof *scores), largest = 0, error;

    for (size_t h = 0; h < HEADS; h++) {
        const double *keys = k + h / (HEADS / KV_HEADS) * DIM, *values = v + (keys - k);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, POSITIONS, DIM, scale,
                    q + h * DIM, LD, keys, LD_KV, 0, scores, POSITIONS);
        for (size_t t = 0; t < n; t++) {
            double *row = scores + t * POSITIONS, sum = 0;
            for (size_t p = 0; p < POSITIONS; p++) {
                row[p] = p < POSITIONS - n + t + 1 ? exp(row[p]) : 0;
                sum += row[p];
            }
            cblas_dscal(POSITIONS, 1 / sum, row, 1);
        }
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, DIM, POSITIONS, 1, scores,
                    POSITIONS, values, LD_KV, 0, out + h * DIM, LD);
        for (size_t t = 0; t < n; t++) {
            double norm = cblas_dnrm2(DIM, q + t * LD + h * DIM, 1);
            if (norm > largest) largest = norm;
        }
    }
    /* |q| |k| is at least the sum of magnitudes. The norm of a key is at most sqrt(DIM), and a
     * value is at most 1. */
    error = 2 * gamma_of(DIM + 2) * scale * largest * sqrt(DIM) + 4 * 0x1p-24;
    return 2 * (error + gamma_of(POSITIONS));
}

TEST(attention)
{
    static const size_t rows[] = {1, 5, 48};
    const double scale =
        0.5; /* larger than 1 / sqrt(DIM), so that a few keys have most of the weight */
    uint64_t seed = 3;
    float *k = random_floats(POSITIONS * LD_KV, &seed),
          *v = random_floats(POSITIONS * LD_KV, &seed);
    double *k64 = doubles(k, POSITIONS * LD_KV), *v64 = doubles(v, POSITIONS * LD_KV);
    struct sp_pool *pool = NULL;
    struct sp_kv kv;
    double largest = 0;

    assert_ok(sp_pool_open(&pool, 2, NULL));
    assert_ok(sp_kv_init(&kv, SP_CACHE_F32, (struct sp_kv_shape){KV_HEADS, DIM, 0}, POSITIONS, 0, 1,
                         NULL));
    assert_ok(sp_kv_grow(&kv, SIZE_MAX, NULL));
    put_rows(&kv, sp_vector_find("scalar"), 0, POSITIONS, k, v, LD_KV);
    for (size_t i = 0; i < 3; i++) {
        size_t n = rows[i];
        float *q = random_floats(n * LD, &seed), *out = allocate(n * LD, sizeof *out);
        double *q64 = doubles(q, n * LD), *expected = allocate(n * LD, sizeof *expected);
        double bound = attend_by_blas(expected, q64, k64, v64, n, scale);
        struct sp_key_range *ranges = allocate(n, sizeof *ranges);
        struct sp_arena memory = {0};
        struct sp_attention_scratch *scratch;
        struct sp_attention job = {.kv = &kv,
                                   .n_heads = HEADS,
                                   .scale = (float)scale,
                                   .q = q,
                                   .ldq = LD,
                                   .out = out,
                                   .ld_out = LD,
                                   .n_rows = n,
                                   .ranges = ranges};
        for (size_t t = 0; t < n; t++)
            ranges[t] = (struct sp_key_range){0, POSITIONS - n + t + 1};
        scratch = sp_attention_scratch_new(&memory, 2, HEADS, DIM, n, POSITIONS);
        for (const struct sp_kernels *const *table = sp_kernels_all(); *table; table++) {
            if (!sp_kernels_supported(*table)) continue;
            sp_attend(&job, sp_vector_find((*table)->name), pool, scratch);
            for (size_t j = 0; j < n * LD; j++) {
                double relative = fabs((double)out[j] - expected[j]) / bound;
                assert_true(relative <= 1);
                if (relative > largest) largest = relative;
            }
        }
        sp_arena_release(&memory);
    }
    print_message("largest error: %.2g of its bound\n", largest);
    sp_kv_release(&kv);
    sp_pool_close(pool);
}
