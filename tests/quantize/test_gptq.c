/* Tests GPTQ: the sums and factors of the Hessian against plain loops and numpy, the encoder
 * against numpy's float32, every instruction set against the scalar one, and the reduction of the
 * output error. */
#include "format/base/bytes.h"
#include "format/dtype.h"
#include "quantize/codec.h"
#include "quantize/kernels/kernels.h"
#include "quantize/types/float_cast.h"
#include "quantize/types/gptq.h"
#include "tests/support/keep.h"
#include "tests/support/random.h"
#include "tests/support/unit_test.h"
#include "tests/support/vector_file.h"

#include <math.h>

/* A whole block of columns, and a short one. */
enum { COLS = 1120, ROWS = 16, N_INPUTS = 300, BLOCK = SP_GPTQ_BLOCK };

/* Returns correlated inputs of very different magnitudes. */
static float *random_inputs(uint64_t seed)
{
    float *x = calloc((size_t)N_INPUTS * COLS, sizeof *x);

    assert_non_null(x);
    for (size_t t = 0; t < N_INPUTS; t++) {
        float common = uniform(&seed), *row = x + t * COLS;
        for (size_t k = 0; k < COLS; k++) {
            float size = k % 7 == 3 ? 20.0f : 1.0f;
            row[k] = size * (uniform(&seed) + 2 * common * (float)(k % 3));
        }
    }
    return keep(x);
}

static float *collect_all(const struct sp_gptq_kernels *kernels, const float *x, size_t n_rows)
{
    size_t n = 0;
    float *sums;

    assert_true(sp_gptq_size(&n, COLS));
    sums = keep(calloc(n, sizeof *sums));
    for (size_t g = 0; g < sp_gptq_n_groups(COLS); g++) {
        kernels->accumulate(sums + sp_gptq_offset(COLS, g), x, COLS, n_rows, 16 * g,
                            sp_gptq_block_end(COLS, 16 * g));
    }
    return sums;
}

/* Returns the index of the sum of columns i and j of one block, where i's group is at or before
 * j's. */
static size_t index_of(size_t i, size_t j)
{
    return sp_gptq_offset(COLS, i / 16) + 16 * (j - i / 16 * 16) + i % 16;
}

static double sum_of(const float *x, size_t i, size_t j)
{
    double sum = 0;

    for (size_t t = 0; t < N_INPUTS; t++)
        sum += (double)x[t * COLS + i] * (double)x[t * COLS + j];
    return sum;
}

/* Every pair of columns of a block has exactly one sum, which equals the plain loop's. */
TEST(test_sums)
{
    float *x = random_inputs(1), *sums = collect_all(&sp_gptq_ref, x, N_INPUTS);
    size_t n = 0, n_pairs = 0;

    assert_true(sp_gptq_size(&n, COLS));
    n_pairs = sp_gptq_n_groups(COLS); /* the numbers of the orders */
    for (size_t i = 0; i < COLS; i++)
        n_pairs += sp_gptq_block_end(COLS, i) - i / 16 * 16;
    assert_int_equal(n_pairs, n);
    for (size_t i = 0; i < COLS; i += 7) {
        for (size_t j = i / 16 * 16; j < sp_gptq_block_end(COLS, i); j++) {
            double want = sum_of(x, i, j), size = sqrt(sum_of(x, i, i) * sum_of(x, j, j));
            assert_true(index_of(i, j) < n);
            assert_true(fabs((double)sums[index_of(i, j)] - want) <= 1e-5 * size);
        }
    }
}

static float *floats_of(const uint64_t *line, size_t n)
{
    float *x = calloc(n, sizeof *x);

    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = sp_float_of_bits((uint32_t)line[i]);
    return keep(x);
}

TEST(test_solve)
{
    enum { N = 770 };
    static double room[BLOCK * BLOCK];
    uint8_t bytes[2 * N];
    size_t n_lines;
    uint64_t *lines = vector_file_read("gptq_solve.txt", 2 * N, &n_lines);

    for (size_t i = 0; i < n_lines; i++) {
        float *sums = floats_of(lines + 2 * N * i, N), *want = floats_of(lines + 2 * N * i + N, N);
        sp_gptq_solve(sums, 32, room, &sp_gptq_ref);
        sp_write_bf16(bytes, sums, N);
        assert_true(sp_gptq_is_sound(bytes, 32));
        for (size_t k = 0; k < N; k++) {
            double size = fabs((double)want[k]);
            if (fabs((double)sums[k] - (double)want[k]) > 1e-5 * (size > 1 ? size : 1))
                fail_msg("case %zu, number %zu: %.9g, expected %.9g", i, k, (double)sums[k],
                         (double)want[k]);
        }
    }
}

/* The sums of a block in its order. */
struct ordered {
    const float *sums, *numbers; /* of the matrix */
    size_t first, n;
};

/* The column of the matrix at a place in the block. */
static size_t column_of(const struct ordered *b, size_t place)
{
    const float *order = b->numbers + sp_gptq_block_offset(b->first / BLOCK);

    return b->first + 16 * (size_t)order[place / 16] + place % 16;
}

static double h_of(const struct ordered *b, size_t i, size_t j)
{
    size_t x = column_of(b, i), y = column_of(b, j);

    return (double)b->sums[x / 16 <= y / 16 ? index_of(x, y) : index_of(y, x)];
}

static double m_of(const struct ordered *b, size_t i, size_t j)
{
    return i == j ? 1 : (double)b->numbers[index_of(b->first + i, b->first + j)];
}

/* Computes d[n] of H = (I + M) D (I + M)', from the last column to the first. The diagonal of H is
 * damped. */
static void solve_d(double *d, const struct ordered *b)
{
    double mean = 0;

    for (size_t k = 0; k < b->n; k++)
        mean += h_of(b, k, k) / (double)b->n;
    for (size_t k = b->n; k-- > 0;) {
        d[k] = 1.3 * h_of(b, k, k) + 1e-4 * mean;
        for (size_t l = k + 1; l < b->n; l++)
            d[k] -= m_of(b, k, l) * m_of(b, k, l) * d[l];
    }
}

static double squares_of(const struct ordered *b, size_t group)
{
    double sum = 0;

    for (size_t i = 0; i < 16; i++)
        sum += h_of(b, 16 * group + i, 16 * group + i);
    return sum;
}

/* The factors of column j multiply out to the sums. */
static void check_column(const struct ordered *b, const double *d, size_t j, double tolerance)
{
    double most = 0;

    assert_true(d[j] > 0);
    for (size_t i = 0; i < j; i++) {
        double h = 0, size = sqrt(h_of(b, i, i) * h_of(b, j, j));
        for (size_t l = j; l < b->n; l++)
            h += m_of(b, i, l) * d[l] * m_of(b, j, l);
        assert_true(fabs(h - h_of(b, i, j)) <= tolerance * size);
    }
    for (size_t i = j / 16 * 16; i < j / 16 * 16 + 16; i++)
        most = fmax(most, d[i]);
    assert_true(fabs((double)b->numbers[index_of(b->first + j, b->first + j)] - d[j] / most) <=
                tolerance);
}

/* The factors of each block multiply out to its sums, also in the shorter last block; the groups
 * with the largest inputs come first. */
TEST(test_blocks)
{
    static double room[BLOCK * BLOCK], d[BLOCK];
    float *x = random_inputs(2), *sums = collect_all(&sp_gptq_ref, x, N_INPUTS);
    float *numbers = collect_all(&sp_gptq_ref, x, N_INPUTS);

    sp_gptq_solve(numbers, COLS, room, &sp_gptq_ref);
    for (size_t first = 0; first < COLS; first += BLOCK) {
        struct ordered b = {sums, numbers, first, sp_gptq_block_end(COLS, first) - first};
        solve_d(d, &b);
        for (size_t g = 1; g < sp_gptq_n_groups(b.n); g++)
            assert_true(squares_of(&b, g - 1) >= squares_of(&b, g));
        for (size_t j = 0; j < b.n; j += 11)
            check_column(&b, d, j, 1e-5);
    }
}

/* Encodes 32 weights as row 3 of a panel whose other rows are zero. expected: 2 scale bytes, 32
 * codes. */
static void check_encoder(unsigned bits, const float *numbers, float scale, const float *w,
                          const uint64_t *expected)
{
    enum { ROW = 3 };
    static const enum sp_dtype of_bits[] = {[2] = SP_Q2, SP_Q3, SP_Q4, SP_Q5, SP_Q6};
    float rows[ROWS * 32] = {0}, scales[ROWS] = {0}, workspace[32 * ROWS];
    uint8_t block[64 * 6 + 32], *scale_bytes = block + 64 * bits;
    struct sp_microscale_books books;

    sp_microscale_books_init(&books, sp_microscale_of(of_bits[bits]));
    memcpy(rows + ROW * 32, w, 32 * sizeof *w);
    scales[ROW] = scale;
    sp_gptq_ref.encode(block, rows, ROW + 1, 32, scales, numbers, workspace, &books);
    for (size_t half = 0; half < 2; half++) {
        assert_int_equal(scale_bytes[16 * half + ROW], expected[half]);
        for (size_t row = 0; row < ROWS; row++)
            if (row != ROW) assert_int_equal(scale_bytes[16 * half + row], 0);
    }
    for (size_t k = 0; k < 32; k++)
        assert_int_equal(sp_microscale_code(block, bits, ROW, k), expected[2 + k]);
}

/* A case: bits of a code, the factors if the file has any, row scale, 32 weights, 2 scale bytes, 32
 * codes. */
static void check_encoded(const char *file, size_t n_factors)
{
    const size_t per_line = 1 + n_factors + 1 + 32 + 2 + 32;
    size_t n_lines;
    uint64_t *lines = vector_file_read(file, per_line, &n_lines);

    for (size_t i = 0; i < n_lines; i++) {
        const uint64_t *line = lines + per_line * i, *rest = line + 1 + n_factors;
        float *numbers = n_factors ? floats_of(line + 1, n_factors) : NULL;
        float *w = floats_of(rest + 1, 32);
        check_encoder((unsigned)line[0], numbers, sp_float_of_bits((uint32_t)rest[0]), w,
                      rest + 33);
    }
}

TEST(test_encode)
{
    check_encoded("gptq_encode.txt", 770);
    check_encoded("microscale_encode.txt", 0);
}

static float *random_rows(uint64_t seed)
{
    float *w = calloc((size_t)ROWS * COLS, sizeof *w);

    assert_non_null(w);
    for (size_t row = 0; row < ROWS; row++) {
        float size = expf(10 * uniform(&seed));
        for (size_t k = 0; k < COLS && row != 5; k++) {
            float x = uniform(&seed) + uniform(&seed) + uniform(&seed);
            w[row * COLS + k] = size * (uniform(&seed) < -0.98f ? 10 * x : x);
        }
    }
    return keep(w);
}

static float *solve_all(float *sums)
{
    static double room[BLOCK * BLOCK];

    sp_gptq_solve(sums, COLS, room, &sp_gptq_ref);
    return sums;
}

static uint8_t *encode_rows(const struct sp_tile_kernels *kernels, enum sp_dtype dtype,
                            const float *rows, size_t n_rows, const float *numbers, size_t *size)
{
    static float room[COLS * ROWS];
    const size_t block_size = sp_microscale_block_size(sp_dtype_code_bits(dtype));
    const size_t used = SP_MICROSCALE_HEAD + COLS / SP_BLOCK * block_size;
    struct sp_encoder encoder;

    assert_true(sp_panel_size(size, dtype, COLS));
    uint8_t *panel = malloc(*size);
    assert_non_null(panel);
    memset(panel, 0xaa, *size);
    sp_encoder_init(&encoder);
    encoder.kernels = kernels;
    assert_ok(sp_panel_encode(panel, dtype, &encoder, rows, n_rows, COLS, 0, numbers,
                              numbers ? room : NULL, NULL));
    assert_true(used < *size);
    for (size_t i = used; i < *size; i++)
        assert_int_equal(panel[i], 0); /* the padding of an odd number of blocks */
    return keep(panel);
}

static const enum sp_dtype types[] = {SP_Q2, SP_Q3, SP_Q4, SP_Q5, SP_Q6};
enum { N_TYPES = sizeof types / sizeof *types };

/* Every set encodes the rows to the same panel, with and without factors. */
static void check_encoders(const float *w, size_t n_rows, const float *numbers)
{
    for (size_t i = 0; i < 2 * N_TYPES; i++) {
        const float *factors = i % 2 ? numbers : NULL;
        size_t size;
        uint8_t *panel = encode_rows(&sp_tile_ref, types[i / 2], w, n_rows, factors, &size);
        for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
            if (!sp_kernels_supported(*k)) continue;
            uint8_t *other = encode_rows((*k)->tile, types[i / 2], w, n_rows, factors, &size);
            assert_memory_equal(other, panel, size);
        }
    }
}

TEST(test_instruction_sets_agree)
{
    static double room[BLOCK * BLOCK];
    size_t n = 0;

    assert_true(sp_gptq_size(&n, COLS));
    for (uint64_t seed = 3; seed < 9; seed++) {
        float *x = random_inputs(seed), *w = random_rows(seed + 100);
        size_t n_rows = seed % 2 ? ROWS : 11, n_inputs = seed % 3 ? N_INPUTS : 1;
        float *sums = collect_all(&sp_gptq_ref, x, n_inputs);
        float *numbers = solve_all(collect_all(&sp_gptq_ref, x, n_inputs));
        check_encoders(w, n_rows, numbers);
        for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
            if (!sp_kernels_supported(*k)) continue;
            float *others = collect_all((*k)->tile->gptq, x, n_inputs);
            assert_memory_equal(others, sums, n * sizeof *sums);
            sp_gptq_solve(others, COLS, room, (*k)->tile->gptq);
            assert_memory_equal(others, numbers, n * sizeof *sums);
        }
    }
}

/* Returns the squared error of the matrix's outputs over all inputs. */
static double error_of(enum sp_dtype dtype, const float *x, const float *w, const uint8_t *panel)
{
    static float back[ROWS * COLS];
    double error = 0;

    sp_panel_decode(back, dtype, panel, ROWS, COLS, &sp_tile_ref);
    for (size_t t = 0; t < N_INPUTS; t++) {
        for (size_t row = 0; row < ROWS; row++) {
            double sum = 0;
            for (size_t k = 0; k < COLS; k++)
                sum += (double)x[t * COLS + k] *
                       ((double)w[row * COLS + k] - (double)back[row * COLS + k]);
            error += sum * sum;
        }
    }
    return error;
}

TEST(test_quality)
{
    float *x = random_inputs(20), *w = random_rows(21);
    float *numbers = solve_all(collect_all(&sp_gptq_ref, x, N_INPUTS));
    size_t size;
    uint8_t *plain, *calibrated;
    double before, after;

    for (size_t i = 0; i < (size_t)ROWS * COLS;
         i++) /* all rows have the same magnitude, so that all count equally */
        w[i] = i / COLS == 5 ? 0 : w[i] / (fabsf(w[i / COLS * COLS]) + 1e-9f);
    for (size_t i = 0; i < N_TYPES; i++) {
        plain = encode_rows(&sp_tile_ref, types[i], w, ROWS, NULL, &size);
        calibrated = encode_rows(&sp_tile_ref, types[i], w, ROWS, numbers, &size);
        before = error_of(types[i], x, w, plain);
        after = error_of(types[i], x, w, calibrated);
        print_message("%s: error of the outputs with GPTQ %.3f of that without\n",
                      sp_dtype_info(types[i])->name, after / before);
        assert_true(after < 0.3 * before);
    }
}

/* The order of the second block is checked, too. */
static void check_second_block(void)
{
    enum { WIDE = BLOCK + 32 };
    float *numbers;
    size_t n = 0;

    assert_true(sp_gptq_size(&n, WIDE));
    numbers = keep(calloc(n, sizeof *numbers));
    uint8_t *bytes = keep(calloc(n, 2));
    assert_true(numbers && bytes);
    for (size_t g = 0; g < BLOCK / 16; g++)
        numbers[g] = (float)(BLOCK / 16 - 1 - g);
    numbers[sp_gptq_block_offset(1)] = 1;
    sp_write_bf16(bytes, numbers, n);
    assert_true(sp_gptq_is_sound(bytes, WIDE));
    numbers[sp_gptq_block_offset(1) + 1] = 1;
    sp_write_bf16(bytes, numbers, n);
    assert_false(sp_gptq_is_sound(bytes, WIDE));
}

/* Factors that the encoder could not use: their numbers, or an order that is none. */
TEST(test_unsound_factors)
{
    enum { N = 770 };
    static const float bad[] = {NAN, INFINITY, -INFINITY, 2e6f};
    static const float orders[][2] = {{0, 0}, {0, 2}, {-1, 0}, {0.5f, 0}, {NAN, 0}};
    float numbers[N] = {1, 0};
    uint8_t bytes[2 * N];

    sp_write_bf16(bytes, numbers, N);
    assert_true(sp_gptq_is_sound(bytes, 32));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sp_write_bf16(bytes + 2 * (N - 1), &bad[i], 1);
        assert_false(sp_gptq_is_sound(bytes, 32));
    }
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        sp_write_bf16(bytes, numbers, N);
        sp_write_bf16(bytes, orders[i], 2);
        assert_false(sp_gptq_is_sound(bytes, 32));
    }
    check_second_block();
}

TEST(test_sizes)
{
    for (size_t cols = 16; cols < 3 * BLOCK; cols += 16) {
        size_t n = 0;
        assert_true(sp_gptq_size(&n, cols));
        assert_int_equal(sp_gptq_cols(n), cols);
        assert_int_equal(sp_gptq_cols(n + 1), 0);
    }
}

/* Smoothed factors multiply out to the sums of inputs that were divided by powers of two, but for
 * the damping by the mean of the diagonal, which is small where all inputs have one magnitude. */
TEST(test_smoothing)
{
    static double room[BLOCK * BLOCK], d[BLOCK];
    float *x = random_inputs(11), *factors, *scaled;
    int8_t exponents[COLS];
    uint64_t seed = 5;

    for (size_t i = 0; i < (size_t)N_INPUTS * COLS; i++)
        if (i % COLS % 7 == 3) x[i] /= 20;
    factors = collect_all(&sp_gptq_ref, x, N_INPUTS);
    for (size_t k = 0; k < COLS; k++)
        exponents[k] = (int8_t)((int)(next(&seed) % 3) - 1);
    for (size_t i = 0; i < (size_t)N_INPUTS * COLS; i++)
        x[i] = ldexpf(x[i], -exponents[i % COLS]);
    scaled = collect_all(&sp_gptq_ref, x, N_INPUTS);
    sp_gptq_solve(factors, COLS, room, &sp_gptq_ref);
    sp_gptq_smooth(factors, COLS, exponents);
    for (size_t first = 0; first < COLS; first += BLOCK) {
        struct ordered b = {scaled, factors, first, sp_gptq_block_end(COLS, first) - first};
        solve_d(d, &b);
        for (size_t j = 0; j < b.n; j += 11)
            check_column(&b, d, j, 0.01);
    }
}

/* Factors of squares: no error is carried over, and a column weighs its square plus a tenth of the
 * mean, relative to the largest of its group. */
TEST(test_squares)
{
    float squares[COLS] = {0}, *factors;
    struct sp_gptq_weights weights = {.squares = squares};
    double mean = 0;
    uint64_t seed = 9;
    size_t n = 0;

    assert_true(sp_gptq_size(&n, COLS));
    factors = keep(calloc(n, sizeof *factors));
    sp_gptq_factors(factors, weights, 0, COLS, NULL);
    for (size_t k = 0; k < COLS; k++)
        assert_true(factors[sp_gptq_offset(COLS, k / 16) + k % 16 * 17] == 1);
    for (size_t k = 0; k < COLS; k++) {
        squares[k] = (float)(next(&seed) % 1000) / 1000;
        mean += (double)squares[k] / COLS;
    }
    sp_gptq_factors(factors, weights, 0, COLS, NULL);
    for (size_t g = 0; g < sp_gptq_n_groups(COLS); g++) {
        const float *at = factors + sp_gptq_offset(COLS, g);
        double largest = 0;
        for (size_t i = 0; i < 16; i++)
            largest = fmax(largest, (double)squares[g * 16 + i] + mean / 10);
        for (size_t j = 16 * g; j < sp_gptq_block_end(COLS, 16 * g); j++, at += 16) {
            for (size_t i = 0; i < 16; i++) {
                double want = 16 * g + i == j ? ((double)squares[j] + mean / 10) / largest : 0;
                assert_true(fabs((double)at[i] - want) < 1e-6);
            }
        }
    }
}
