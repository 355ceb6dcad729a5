/* Tests the vector tables: every table gives the bits of the scalar one for all lengths, offsets
 * and special values, and writes only its rows. The scalar table is close to double-precision
 * results. */
#include "runtime/vector/vector.h"
#include "format/base/bytes.h"
#include "quantize/kernels/kernels.h"
#include "runtime/vector/fmath.h"
#include "runtime/vector/rng.h"
#include "tests/support/random.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum { MARGIN = 16, MAX_LEN = 1100, MAX_TABLES = 8 };

/* The tables that this CPU supports, without the scalar one. */
static const struct sp_vector *tables[MAX_TABLES];
static size_t n_tables;
static const struct sp_vector *ref;

static int find_tables(void **state)
{
    const struct sp_kernels *const *all = sp_kernels_all();

    (void)state;
    ref = sp_vector_find("scalar");
    for (; *all; all++) {
        const struct sp_vector *v = sp_vector_find((*all)->name);
        if (v == NULL) return -1;
        if (v != ref && sp_kernels_supported(*all)) tables[n_tables++] = v;
    }
    return ref == NULL;
}

/* PLAIN: numbers as in a model. WILD: zeros of both signs, denormals, large and tiny numbers. ODD:
 * arbitrary bits, including infinities and NaN. */
enum mode { PLAIN, WILD, ODD, N_MODES };

static float number(uint64_t *seed, enum mode mode)
{
    float x = uniform(seed) * 4;

    if (mode == PLAIN) return x;
    if (mode == ODD && next(seed) % 4 == 0) return sp_float_of_bits(next(seed));
    if (mode == ODD && next(seed) % 16 == 0) return next(seed) % 2 ? INFINITY : NAN;
    return wild(seed, x);
}

static void fill(float *x, size_t n, uint64_t *seed, enum mode mode)
{
    for (size_t i = 0; i < n; i++)
        x[i] = number(seed, mode);
}

/* Compares bits. All NaN are equal. */
static void assert_same(const float *got, const float *want, size_t n, const char *what,
                        const char *table)
{
    for (size_t i = 0; i < n; i++) {
        if (got[i] != got[i] && want[i] != want[i]) continue;
        if (sp_bits_of_float(got[i]) == sp_bits_of_float(want[i])) continue;
        fail_msg("%s of %s: element %zu of %zu is %a, not %a", what, table, i, n, (double)got[i],
                 (double)want[i]);
    }
}

/* ---- rows ---- */

/* The functions of a table, called with the same parameters. */
#define ROW_FUNCTIONS(X)                                                                           \
    X(rms_norm, v->rms_norm(y, y, x, n, 1e-6f))                                                    \
    X(rms_norm_without_weight, v->rms_norm(y, x, NULL, n, 1e-5f))                                  \
    X(add, v->add(y, x, n))                                                                        \
    X(scale, v->scale(y, factor, n))                                                               \
    X(multiply_add, v->fma(y, x, factor, n))                                                       \
    X(mul, v->mul(y, x, n))                                                                        \
    X(silu_mul, v->gates[SP_SILU](y, x, n))                                                        \
    X(gelu_mul, v->gates[SP_GELU_TANH](y, x, n))                                                   \
    X(softcap, v->softcap(y, 30, n))                                                               \
    X(sigmoid_mul, v->sigmoid_mul(y, x, n))                                                        \
    X(swiglu_clamped, v->swiglu_clamped(y, x, 7, n))                                               \
    X(gelu_erf_mul, v->gates[SP_GELU_ERF](y, x, n))                                                \
    X(relu_mul, v->gates[SP_RELU](y, x, n))                                                        \
    X(relu2_mul, v->gates[SP_RELU2](y, x, n))                                                      \
    X(silu, v->silu(y, n))                                                                         \
    X(mul_add, v->mul_add(y, x, x, n))                                                             \
    X(exp_mul, v->exp_mul(y, x, factor, n))                                                        \
    X(l2_norm, v->l2_norm(y, x, n, 1e-6f, factor))

#define DEFINE(function, call)                                                                     \
    static void function(const struct sp_vector *v, float *y, const float *x, size_t n,            \
                         float factor)                                                             \
    {                                                                                              \
        (void)x, (void)factor;                                                                     \
        call;                                                                                      \
    }
#define NAME_AND_FUNCTION(function, call) {#function, function},

ROW_FUNCTIONS(DEFINE)

static const struct {
    const char *name;
    void (*apply)(const struct sp_vector *v, float *y, const float *x, size_t n, float factor);
} row_functions[] = {ROW_FUNCTIONS(NAME_AND_FUNCTION)};

static void check_rows(size_t n, size_t offset, enum mode mode, uint64_t *seed)
{
    static float x[MAX_LEN + 2 * MARGIN], y[MAX_LEN + 2 * MARGIN];
    static float got[MAX_LEN + 2 * MARGIN], want[MAX_LEN + 2 * MARGIN];
    size_t size = n + 2 * MARGIN;
    float factor = number(seed, mode);

    fill(x, size, seed, mode);
    fill(y, size, seed, mode);
    for (size_t f = 0; f < sizeof row_functions / sizeof *row_functions; f++) {
        memcpy(want, y, size * sizeof *y);
        row_functions[f].apply(ref, want + offset, x + MARGIN - offset, n, factor);
        for (size_t i = 0; i < n_tables; i++) {
            memcpy(got, y, size * sizeof *y);
            row_functions[f].apply(tables[i], got + offset, x + MARGIN - offset, n, factor);
            assert_same(got, want, size, row_functions[f].name, tables[i]->name);
        }
    }
}

TEST(test_row_functions_agree)
{
    uint64_t seed = 1;

    for (int mode = 0; mode < N_MODES; mode++) {
        for (size_t n = 0; n <= 100; n++)
            for (size_t offset = 0; offset < 8; offset++)
                check_rows(n, offset, (enum mode)mode, &seed);
        check_rows(1024, 0, (enum mode)mode, &seed);
        check_rows(1087, 3, (enum mode)mode, &seed);
    }
}

TEST(test_rope_agrees)
{
    float head[160], cos_sin[128], got[160], want[160];
    uint64_t seed = 2;

    for (size_t n_rot = 0; n_rot <= 128; n_rot += 2) {
        fill(head, 160, &seed, n_rot % 4 ? PLAIN : WILD);
        fill(cos_sin, 128, &seed, PLAIN);
        memcpy(want, head, sizeof want);
        ref->rope(want + n_rot % 8, cos_sin, cos_sin + n_rot / 2, n_rot);
        for (size_t i = 0; i < n_tables; i++) {
            memcpy(got, head, sizeof got);
            tables[i]->rope(got + n_rot % 8, cos_sin, cos_sin + n_rot / 2, n_rot);
            assert_same(got, want, 160, "rope", tables[i]->name);
        }
    }
}

TEST(test_states_agree)
{
    enum { MAX_DK = 130, DV = 9 };
    float s[DV * MAX_DK], x[2 * MAX_DK], v[DV], got[DV * MAX_DK], want[DV * MAX_DK];
    float got_ends[2 * DV], want_ends[2 * DV]; /* out, delta */
    uint64_t seed = 12;

    for (size_t dk = 1; dk <= MAX_DK; dk++) {
        enum mode mode = (enum mode)(dk % N_MODES);
        size_t dv = 1 + dk % DV;
        fill(s, DV * dk, &seed, mode);
        fill(x, 2 * dk, &seed, mode);
        fill(v, DV, &seed, PLAIN);
        memcpy(want, s, sizeof s);
        memset(got_ends, 0, sizeof got_ends);
        memset(want_ends, 0, sizeof want_ends);
        ref->delta_step(want, want_ends, want_ends + DV, x, x + dk, v, 0.9f, 0.7f, dk, dv);
        memcpy(got, s, sizeof s);
        ref->state_replay(got, want_ends + DV, x + dk, 0.9f, dk, dv);
        assert_same(got, want, DV * dk, "state_replay", ref->name);
        memcpy(got, s, sizeof s);
        ref->state_step(got, got_ends, want_ends + DV, x, x + dk, 0.9f, dk, dv);
        assert_same(got, want, DV * dk, "state_step state", ref->name);
        assert_same(got_ends, want_ends, dv, "state_step", ref->name);
        for (size_t i = 0; i < n_tables; i++) {
            memcpy(got, s, sizeof s);
            tables[i]->delta_step(got, got_ends, got_ends + DV, x, x + dk, v, 0.9f, 0.7f, dk, dv);
            assert_same(got, want, DV * dk, "delta_step state", tables[i]->name);
            assert_same(got_ends, want_ends, 2 * DV, "delta_step", tables[i]->name);
            memcpy(got, s, sizeof s);
            memset(got_ends, 0, sizeof got_ends);
            tables[i]->state_step(got, got_ends, want_ends + DV, x, x + dk, 0.9f, dk, dv);
            assert_same(got, want, DV * dk, "state_step state", tables[i]->name);
            assert_same(got_ends, want_ends, DV, "state_step", tables[i]->name);
            memcpy(got, s, sizeof s);
            tables[i]->state_replay(got, want_ends + DV, x + dk, 0.9f, dk, dv);
            assert_same(got, want, DV * dk, "state_replay", tables[i]->name);
        }
    }
}

/* Two steps computed by hand: one head, dk = dv = 2, the state begins at 0. */
TEST(test_delta_step_example)
{
    static const struct {
        float decay, beta, q[2], k[2], v[2];
        double out[2], s[4]; /* state [dv][dk] */
    } steps[] = {
        {0.3874556f,
         0.5f,
         {1, 2},
         {2, 1},
         {0.5f, -1},
         {.1414213, -.2828427},
         {.2236068, .1118034, -.4472136, -.2236068}},
        {0.1425370f,
         0.7310586f,
         {-1, 3},
         {1, 1},
         {2, 0.25f},
         {.4581101, .0662988},
         {1.0482696, 1.0323335, .1004403, .1323125}},
    };
    float s[4] = {0}, out[2], delta[2], q[2], k[2];

    for (size_t t = 0; t < 2; t++) {
        ref->l2_norm(q, steps[t].q, 2, 1e-6f, 0.70710678f);
        ref->l2_norm(k, steps[t].k, 2, 1e-6f, 1);
        ref->delta_step(s, out, delta, q, k, steps[t].v, steps[t].decay, steps[t].beta, 2, 2);
        for (size_t i = 0; i < 2; i++)
            assert_true(fabs((double)out[i] - steps[t].out[i]) < 1e-6);
        for (size_t i = 0; i < 4; i++)
            assert_true(fabs((double)s[i] - steps[t].s[i]) < 1e-6);
    }
}

/* A step computed by hand: S = [[1, 2], [3, -1]] is halved, and 2 and -1 times (1, 4) are added. */
TEST(test_state_step_example)
{
    static const float delta[] = {2, -1}, k[] = {1, 4}, q[] = {2, 0.5f};
    static const float want[] = {2.5f, 9, 0.5f, -4.5f}, want_out[] = {9.5f, -1.25f};

    for (size_t i = 0; i <= n_tables; i++) {
        const struct sp_vector *table = i < n_tables ? tables[i] : ref;
        float s[] = {1, 2, 3, -1}, out[2];
        table->state_step(s, out, delta, q, k, 0.5f, 2, 2);
        assert_memory_equal(s, want, sizeof s);
        assert_memory_equal(out, want_out, sizeof out);
    }
}

static void check_argmax(const float *x, size_t n, size_t want)
{
    assert_int_equal(ref->argmax(x, n), want);
    for (size_t i = 0; i < n_tables; i++)
        assert_int_equal(tables[i]->argmax(x, n), want);
}

TEST(test_argmax)
{
    static float x[MAX_LEN];
    uint64_t seed = 3;

    check_argmax(x, 0, SIZE_MAX);
    for (size_t n = 1; n < 200; n++) {
        size_t best = next(&seed) % n, twin = next(&seed) % n;
        for (size_t i = 0; i < n; i++)
            x[i] = uniform(&seed) - 5;
        x[best] = x[twin] = -1;
        check_argmax(x, n, best < twin ? best : twin);
        x[twin] = NAN;
        check_argmax(x, n, SIZE_MAX);
        x[twin] = -INFINITY;
        check_argmax(x, n, SIZE_MAX);
        x[twin] = INFINITY;
        check_argmax(x, n, SIZE_MAX);
        for (size_t i = 0; i < n; i++)
            x[i] = i % 2 ? 0.0f : -0.0f;
        check_argmax(x, n, 0);
    }
}

/* Each element equals the result of the scalar function, for every instruction set and length. */
TEST(test_sampling_loops)
{
    enum { N = 300 };
    static const float extremes[] = {0, -0.0f, 88, -88, 1000, -1000, 3e38f, -3e38f, 1e-30f};
    float x[N];
    double y[N], u[N];
    uint32_t ids[N];
    uint64_t seed = 6;

    for (size_t i = 0; i < N; i++) {
        x[i] = i < sizeof extremes / sizeof *extremes ? extremes[i] : 40 * uniform(&seed) - 20;
        ids[i] = i % 3 ? (uint32_t)i : UINT32_MAX - (uint32_t)i;
    }
    for (size_t k = 0; k <= n_tables; k++) {
        const struct sp_vector *table = k < n_tables ? tables[k] : ref;
        for (size_t n = 0; n <= N; n += n < 40 ? 1 : 52) {
            memset(y, 0xFF, sizeof y);
            memset(u, 0xFF, sizeof u);
            table->soften(y, x, n, 7.25, 0.7);
            table->uniform(u, ids, n, 0x1234567890ABCDEF);
            for (size_t i = 0; i < n; i++) {
                double want_y = sp_exp(((double)x[i] - 7.25) / 0.7);
                double want_u = sp_rng_uniform(0x1234567890ABCDEF, ids[i]);
                assert_memory_equal(&y[i], &want_y, sizeof want_y);
                assert_memory_equal(&u[i], &want_u, sizeof want_u);
            }
            assert_true(n == N ||
                        (isnan(y[n]) && isnan(u[n]))); /* nothing is written after the end */
        }
    }
}

TEST(test_row_functions_are_right)
{
    enum { N = 77 };
    float x[N], y[N], w[N], out[N];
    uint64_t seed = 4;
    double squares = 0;

    fill(x, N, &seed, PLAIN);
    fill(w, N, &seed, PLAIN);
    for (size_t i = 0; i < N; i++)
        squares += (double)x[i] * (double)x[i];
    ref->rms_norm(out, x, w, N, 1e-3f);
    for (size_t i = 0; i < N; i++) {
        double want = (double)x[i] * (double)w[i] / sqrt(squares / (double)N + 1e-3);
        assert_true(fabs((double)out[i] - want) < 4e-7 * fabs(want));
    }
    fill(y, N, &seed, PLAIN);
    memcpy(out, y, sizeof y);
    ref->fma(out, x, 3, N);
    for (size_t i = 0; i < N; i++)
        assert_true(out[i] == fmaf(x[i], 3, y[i]));
    memcpy(out, y, sizeof y);
    ref->gates[SP_SILU](out, x, N);
    for (size_t i = 0; i < N; i++) {
        double want = (double)y[i] / (1 + exp(-(double)y[i])) * (double)x[i];
        assert_true(fabs((double)out[i] - want) < 4e-7 * fabs(want));
    }
    memcpy(out, y, sizeof y);
    ref->softcap(out, 2, N);
    for (size_t i = 0; i < N; i++) {
        double want = 2 * tanh((double)y[i] / 2);
        assert_true(fabs((double)out[i] - want) < 4e-7 * fabs(want));
    }
}

/* Compares with the mean in double precision, and computes in place. */
TEST(test_center)
{
    enum { N = 70 };
    float x[N], y[N], large[32] = {[0] = 1e8f, [1] = 1, [8] = -1e8f, [3] = 1e8f, [19] = -1e8f};
    uint64_t seed = 11;

    for (size_t n = 1; n <= N; n++) {
        double mean = 0;
        fill(x, n, &seed, PLAIN);
        for (size_t i = 0; i < n; i++)
            mean += (double)x[i] / (double)n;
        sp_center(y, x, n);
        for (size_t i = 0; i < n; i++)
            assert_true(fabs((double)y[i] - ((double)x[i] - mean)) < 1e-6);
        sp_center(x, x, n);
        assert_memory_equal(x, y, n * sizeof *x);
    }
    /* Elements 0 and 8, and elements 3 and 19, cancel before the 1 is added, so that it is not
     * lost. */
    sp_center(y, large, 32);
    assert_true(y[1] == 1 - 1.0f / 32 && y[2] == -1.0f / 32);
}

/* Compares with the definition in double precision, for tiny, moderate and large values of both
 * signs. */
TEST(test_xielu)
{
    static const struct sp_xielu w = {
        .positive = 0.7f, .negative = 1.3f, .beta = 0.5f, .eps = -1e-6f};
    static const float given[] = {0,  -0.0f, 1e-30f, -1e-30f, -1e-7f, -1e-3f, -0.3f,
                                  -2, -30,   -1e4f,  1e-3f,   0.4f,   3,      50};
    enum { N = sizeof given / sizeof given[0] };
    float y[N];

    memcpy(y, given, sizeof y);
    sp_xielu_row(y, &w, N);
    for (size_t i = 0; i < N; i++) {
        double x = (double)given[i], m = fmin(x, (double)w.eps);
        double want = (double)w.beta * x;
        want += x > 0 ? (double)w.positive * x * x : (expm1(m) - x) * (double)w.negative;
        assert_true(fabs((double)y[i] - want) <= 2e-6 * fabs(want) + 1e-12);
    }
    y[0] = NAN;
    sp_xielu_row(y, &w, 1);
    assert_true(isnan(y[0]));
}

TEST(test_clamp)
{
    float y[] = {-3, -2, -1, 0, 1.5f, 2, INFINITY, NAN};

    sp_clamp(y, 2, 8);
    assert_true(y[0] == -2 && y[1] == -2 && y[2] == -1 && y[3] == 0 && y[4] == 1.5f && y[5] == 2);
    assert_true(y[6] == 2 && isnan(y[7]));
}

/* The example of gpt-oss, computed by hand. */
TEST(test_swiglu_example)
{
    float gate[] = {1, 10}, up[] = {2, 10};

    ref->swiglu_clamped(gate, up, 7, 2);
    assert_true(fabs((double)gate[0] - 2.5373873) < 5e-7);
    assert_true(fabs((double)gate[1] - 55.9996250) < 1e-5);
}

/* ---- stored keys and values ---- */

static const size_t dims[] = {1, 7, 8, 16, 20, 32, 64, 72, 80, 96, 128, 160, 256};
enum { N_DIMS = sizeof dims / sizeof *dims, MAX_DIM = 256, MAX_BLOCKS = 5, MAX_QUERIES = 19 };

static bool is_supported(int type, size_t dim)
{
    return type == SP_CACHE_F16 || type == SP_CACHE_F32 || dim % SP_KV_GROUP == 0;
}

TEST(test_stores_agree)
{
    static uint8_t got[MAX_DIM * SP_KV_BLOCK * 4 + 64], want[sizeof got];
    float x[MAX_DIM];
    uint64_t seed = 5;

    for (size_t round = 0; round < N_DIMS * SP_N_CACHE_TYPES * SP_KV_BLOCK; round++) {
        size_t dim = dims[round % N_DIMS], lane = round % SP_KV_BLOCK;
        int type = (int)(round / N_DIMS % SP_N_CACHE_TYPES);
        if (!is_supported(type, dim)) continue;
        fill(x, dim, &seed, (enum mode)(round % N_MODES));
        for (size_t i = 0; i < n_tables; i++) {
            memset(got, 0xa5, sizeof got);
            memset(want, 0xa5, sizeof want);
            ref->kv[type].store_key(want, lane, x, dim);
            tables[i]->kv[type].store_key(got, lane, x, dim);
            assert_memory_equal(got, want, sizeof got);
            ref->kv[type].store_value(want, lane, x, dim);
            tables[i]->kv[type].store_value(got, lane, x, dim);
            assert_memory_equal(got, want, sizeof got);
        }
    }
}

static double half_value(uint32_t h) /* from IEEE 754's definition */
{
    int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
    double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);

    return h & 0x8000 ? -magnitude : magnitude;
}

static void weigh(const struct sp_vector_kv *kv, float *out, size_t ld_out, const float *p,
                  size_t ldp, const size_t *first, const size_t *last, size_t n_queries,
                  const uint8_t *blocks, size_t dim)
{
    kv->weigh(&(struct sp_kv_rows){.out = out,
                                   .ld_out = ld_out,
                                   .n_queries = n_queries,
                                   .blocks = blocks,
                                   .head_dim = dim,
                                   .p = p,
                                   .ldp = ldp,
                                   .first = first,
                                   .last = last});
}

/* Every half keeps its value. Floats are rounded to the nearest half, ties to even. */
TEST(test_halves)
{
    uint64_t seed = 6;

    for (uint32_t h = 0; h < 0x7c00; h++) {
        float low = (float)half_value(h), high = (float)half_value(h + 1), out;
        float inputs[] = {low, -low, (low + high) / 2, low + (high - low) * 0.499f,
                          low + (high - low) * fabsf(uniform(&seed))};
        if (h == 0x7bff) high = 65536;
        for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
            float x = inputs[i], a = fabsf(x);
            uint16_t stored;
            double down = (double)a - (double)low, up = (double)high - (double)a;
            uint32_t want = down < up || (down == up && h % 2 == 0) ? h : h + 1;
            if (h == 0x7bff && i >= 2) continue; /* larger than the largest half; tested below */
            ref->kv[SP_CACHE_F16].store_value((uint8_t *)&stored, 0, &x, 1);
            assert_int_equal(stored, want | (i == 1 ? 0x8000 : 0));
        }
        uint16_t half = (uint16_t)h;
        size_t first = 0, last = 1;
        weigh(&ref->kv[SP_CACHE_F16], &out, 1, &(float){1}, 1, &first, &last, 1,
              (const uint8_t *)&half, 1);
        assert_true(out == low);
    }
    uint16_t stored[3];
    ref->kv[SP_CACHE_F16].store_value((uint8_t *)stored, 0,
                                      (const float[]){65519, 65520, -INFINITY}, 3);
    assert_int_equal(stored[0], 0x7bff);
    assert_int_equal(stored[1], 0x7c00);
    assert_int_equal(stored[2], 0xfc00);
}

/* The error of a q8 value is at most half a step, which is 1/127 of the largest number. */
TEST(test_q8_error)
{
    enum { DIM = 128 };
    static uint8_t block[SP_KV_BLOCK * (DIM + 4)];
    float x[DIM], out[DIM], p[SP_KV_BLOCK];
    uint64_t seed = 7;

    assert_int_equal(sp_value_block_size(SP_CACHE_Q8, DIM), sizeof block);
    for (size_t i = 0; i < SP_KV_BLOCK; i++)
        p[i] = 1;
    for (size_t round = 0; round < 160; round++) {
        size_t first = round % SP_KV_BLOCK, last = first + 1;
        float max = 0;
        fill(x, DIM, &seed, PLAIN);
        if (round == 0) memset(x, 0, sizeof x);
        ref->kv[SP_CACHE_Q8].store_value(block, first, x, DIM);
        weigh(&ref->kv[SP_CACHE_Q8], out, DIM, p, SP_KV_BLOCK, &first, &last, 1, block, DIM);
        for (size_t i = 0; i < DIM; i++)
            max = fmaxf(max, fabsf(x[i]));
        for (size_t i = 0; i < DIM; i++)
            assert_true(fabsf(out[i] - x[i]) <= max / 254 * 1.00001f);
    }
}

/* One key of a span has nearly all the weight. The weights of the others must not be lost. Values
 * are multiples of their scale, so that only weights are rounded. */
TEST(test_small_weights_of_q8)
{
    enum { DIM = 32 };
    static uint8_t blocks[SP_SPAN * (DIM + 4)];
    float v[DIM], p[SP_SPAN], out[DIM];
    size_t first = 0, last = SP_SPAN;
    uint64_t seed = 12;

    for (size_t round = 0; round < 50; round++) {
        double want[DIM] = {0}, rest = 0;
        for (size_t j = 0; j < SP_SPAN; j++) {
            p[j] = j == round ? 1 : 0.001f * (1 + uniform(&seed));
            for (size_t d = 0; d < DIM; d++) {
                v[d] = d == 0 ? 127.0f / 64 : (float)(next(&seed) % 255) / 64 - 127.0f / 64;
                want[d] += (double)p[j] * (double)v[d];
            }
            if (j != round) rest += (double)p[j];
            ref->kv[SP_CACHE_Q8].store_value(blocks + j / SP_KV_BLOCK *
                                                          sp_value_block_size(SP_CACHE_Q8, DIM),
                                             j % SP_KV_BLOCK, v, DIM);
        }
        weigh(&ref->kv[SP_CACHE_Q8], out, DIM, p, SP_SPAN, &first, &last, 1, blocks, DIM);
        for (size_t d = 0; d < DIM; d++)
            assert_true(fabs((double)out[d] - want[d]) < rest * 5e-3);
    }
}

/* ---- attention ---- */

static void fill_keys(uint8_t *blocks, int type, size_t dim, size_t n_blocks, uint64_t *seed,
                      enum mode mode)
{
    float k[MAX_DIM];

    for (size_t j = 0; j < n_blocks * SP_KV_BLOCK; j++) {
        fill(k, dim, seed, mode);
        ref->kv[type].store_key(blocks + j / SP_KV_BLOCK *
                                             sp_key_block_size((enum sp_cache_type)type, dim),
                                j % SP_KV_BLOCK, k, dim);
    }
}

/* Computes scores from floats in the table's own format. */
static void score(const struct sp_vector_kv *kv, float *scores, size_t ld, const float *q,
                  size_t n_queries, const uint8_t *blocks, size_t n_blocks, size_t dim)
{
    static _Alignas(64) uint8_t queries[MAX_QUERIES * MAX_DIM * 4];

    for (size_t i = 0; i < n_queries; i++)
        kv->prepare(queries + i * sp_query_size(dim), q + i * (dim + 3), dim);
    kv->scores(&(struct sp_kv_rows){.out = scores,
                                    .ld_out = ld,
                                    .n_queries = n_queries,
                                    .blocks = blocks,
                                    .head_dim = dim,
                                    .queries = queries,
                                    .n_blocks = n_blocks,
                                    .scale = 0.125f});
}

TEST(test_scores_agree)
{
    enum { LD = MAX_BLOCKS * SP_KV_BLOCK };
    static _Alignas(64) uint8_t blocks[MAX_BLOCKS * SP_KV_BLOCK * MAX_DIM * 4];
    static float q[MAX_QUERIES * (MAX_DIM + 3)], got[MAX_QUERIES * LD], want[MAX_QUERIES * LD];
    uint64_t seed = 8;

    for (size_t round = 0; round < N_DIMS * SP_N_CACHE_TYPES * 19; round++) {
        size_t dim = dims[round % N_DIMS], n_queries = round % MAX_QUERIES + 1;
        size_t n_blocks = next(&seed) % (MAX_BLOCKS + 1);
        int type = (int)(round / N_DIMS % SP_N_CACHE_TYPES);
        enum mode mode = (enum mode)(next(&seed) % N_MODES);
        if (!is_supported(type, dim)) continue;
        fill_keys(blocks, type, dim, n_blocks, &seed, mode);
        fill(q, n_queries * (dim + 3), &seed, mode);
        memset(want, 0, sizeof want);
        score(&ref->kv[type], want, LD, q, n_queries, blocks, n_blocks, dim);
        for (size_t i = 0; i < n_tables; i++) {
            memset(got, 0, sizeof got);
            score(&tables[i]->kv[type], got, LD, q, n_queries, blocks, n_blocks, dim);
            assert_same(got, want, n_queries * LD, "scores", tables[i]->name);
        }
    }
}

/* In some models with a key bias one dim is far larger than the others in every key. The scale that
 * this dim sets must not reduce the precision of the others. */
TEST(test_large_dim_of_q8_keys)
{
    enum { DIM = 64, N_KEYS = SP_KV_BLOCK };
    static _Alignas(64) uint8_t block[N_KEYS * (DIM + 2 * 4)];
    float k[N_KEYS][DIM], q[DIM + 3], got[N_KEYS];
    uint64_t seed = 13;
    double squares = 0;

    assert_int_equal(sp_key_block_size(SP_CACHE_Q8, DIM), sizeof block);
    for (size_t round = 0; round < 100; round++) {
        fill(q, DIM, &seed, PLAIN);
        for (size_t j = 0; j < N_KEYS; j++) {
            fill(k[j], DIM, &seed, PLAIN);
            k[j][5] = 200;
            ref->kv[SP_CACHE_Q8].store_key(block, j, k[j], DIM);
        }
        q[5] = 0;
        score(&ref->kv[SP_CACHE_Q8], got, N_KEYS, q, 1, block, 1, DIM);
        for (size_t j = 0; j < N_KEYS; j++) {
            double want = 0;
            for (size_t d = 0; d < DIM; d++)
                want += (double)q[d] * (double)k[j][d] / 8;
            squares += ((double)got[j] - want) * ((double)got[j] - want);
        }
    }
    assert_true(sqrt(squares / (100 * N_KEYS)) < 0.5); /* 0.7 without the rotation */
}

TEST(test_softmax_agrees)
{
    enum { N = 256 };
    static _Alignas(64) float s[N], got[N], want[N];
    float got_ends[2], want_ends[2];
    uint64_t seed = 9;

    for (size_t round = 0; round < 3000; round++) {
        size_t first = next(&seed) % N, last = first + next(&seed) % (N - first) + 1;
        fill(s, N, &seed, ODD); /* values outside of the range must not matter */
        fill(s + first, last - first, &seed, (enum mode)(round % N_MODES));
        memcpy(want, s, sizeof s);
        ref->softmax(want, first, last, &want_ends[0], &want_ends[1]);
        for (size_t i = 0; i < n_tables; i++) {
            memcpy(got, s, sizeof s);
            tables[i]->softmax(got, first, last, &got_ends[0], &got_ends[1]);
            assert_same(got, want, N, "softmax", tables[i]->name);
            assert_same(got_ends, want_ends, 2, "softmax ends", tables[i]->name);
        }
    }
}

TEST(test_softmax_is_right)
{
    _Alignas(64) float s[32];
    uint64_t seed = 10;
    float max, sum;
    double want = 0;

    fill(s, 32, &seed, PLAIN);
    for (size_t i = 5; i < 29; i++)
        want += exp((double)s[i]);
    ref->softmax(s, 5, 29, &max, &sum);
    assert_true(fabs((double)sum * exp((double)max) / want - 1) < 1e-6);
    float total = 0;
    for (size_t i = 5; i < 29; i++)
        total += s[i];
    assert_true(fabsf(total - sum) < 1e-5f);
}

TEST(test_weigh_agrees)
{
    enum { LD_OUT = MAX_DIM + 5 };
    static uint8_t values[SP_SPAN * MAX_DIM * 4];
    static float p[MAX_QUERIES * SP_SPAN], got[MAX_QUERIES * LD_OUT], want[MAX_QUERIES * LD_OUT];
    size_t first[MAX_QUERIES], last[MAX_QUERIES];
    uint64_t seed = 11;
    float v[MAX_DIM];

    for (size_t round = 0; round < N_DIMS * SP_N_CACHE_TYPES * 40; round++) {
        size_t dim = dims[round % N_DIMS], n_queries = next(&seed) % MAX_QUERIES + 1;
        int type = (int)(round / N_DIMS % SP_N_CACHE_TYPES);
        size_t n = round % 8 ? 48 : SP_SPAN; /* sometimes a whole span */
        size_t low = next(&seed) % (n / 2), high = low + next(&seed) % (n - low) + 1;
        enum mode mode = (enum mode)(next(&seed) % N_MODES);
        if (!is_supported(type, dim)) continue;
        for (size_t i = 0; i < n_queries * n; i++)
            p[i] = fabsf(number(&seed, mode == ODD ? PLAIN : mode));
        for (size_t i = 0; i < n_queries; i++) { /* also disjoint, nested and empty ranges */
            first[i] = low + next(&seed) % (high - low);
            last[i] = first[i] + next(&seed) % (high - first[i] + 1);
        }
        for (size_t j = 0; j < n; j++) {
            size_t size = sp_value_block_size((enum sp_cache_type)type, dim);
            fill(v, dim, &seed, j < low || j >= high ? ODD : mode);
            ref->kv[type].store_value(values + j / SP_KV_BLOCK * size, j % SP_KV_BLOCK, v, dim);
        }
        memset(want, 0, sizeof want);
        weigh(&ref->kv[type], want, LD_OUT, p, n, first, last, n_queries, values, dim);
        for (size_t i = 0; i < n_tables; i++) {
            memset(got, 0, sizeof got);
            weigh(&tables[i]->kv[type], got, LD_OUT, p, n, first, last, n_queries, values, dim);
            assert_same(got, want, n_queries * LD_OUT, "weigh", tables[i]->name);
        }
    }
}

GROUP_FIXTURE(find_tables, NULL);
