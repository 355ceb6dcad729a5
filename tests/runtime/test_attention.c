/* Tests attention against a plain definition in double precision. The bits of a query's result do
 * not depend on the other rows of the pass, the number of threads, the instruction set, the ring
 * buffer, or the contents of slots that the query does not see. */
#include "runtime/backend/attention.h"
#include "format/base/bytes.h"
#include "quantize/kernels/kernels.h"
#include "tests/support/cache_digest.h"
#include "tests/support/generate_checks.h"
#include "tests/support/keep.h"
#include "tests/support/kv_rows.h"
#include "tests/support/random.h"
#include "tests/support/unit_test.h"

#include <math.h>

/* A single thread cannot race. */
enum { MAX_ROWS = 48, MAX_TABLES = 8, LEAST_THREADS = RACES_ONLY ? 2 : 1, MAX_THREADS = 3 };

struct shape {
    unsigned n_heads, n_kv_heads, head_dim;
};

static const struct shape shapes[] = {{4, 2, 64},  {9, 3, 64}, {16, 8, 128},
                                      {2, 1, 32},  {1, 1, 20}, {8, 1, 256},
                                      {40, 1, 16}, {3, 3, 80}, {6, 2, 96}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static const struct sp_vector *tables[MAX_TABLES];
static size_t n_tables;
static struct sp_pool *pools[MAX_THREADS + 1];

/* Several kernel sets share a table. No table knows of other threads, so where only races are
 * looked for, one is enough. */
static void add_table(const struct sp_vector *table)
{
    for (size_t i = 0; i < n_tables; i++)
        if (RACES_ONLY || tables[i] == table) return;
    tables[n_tables++] = table;
}

static int open_all(void **state)
{
    (void)state;
    for (const struct sp_kernels *const *all = sp_kernels_all(); *all; all++)
        if (sp_kernels_supported(*all)) add_table(sp_vector_find((*all)->name));
    for (unsigned n = 1; n <= MAX_THREADS; n++)
        if (sp_pool_open(&pools[n], n, NULL)) return -1;
    return n_tables == 0;
}

static int close_all(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= MAX_THREADS; n++)
        sp_pool_close(pools[n]);
    return 0;
}

/* ---- one sequence ---- */

/* Keys, values and queries of positions 0..n-1. The queries are rows of their own. */
struct sequence {
    struct shape shape;
    size_t n, ld_kv, ldq;
    float *k, *v; /* [n][ld_kv] */
    float *q;     /* [MAX_ROWS][ldq] */
    struct sp_attention job;
    struct sp_key_range ranges[MAX_ROWS];
    struct sp_kv kv;
};

static float *new_rows(size_t n, size_t ld, uint64_t *seed)
{
    float *x = malloc(n * ld * sizeof *x);

    assert_non_null(x);
    for (size_t i = 0; i < n * ld; i++)
        x[i] = 2 * uniform(seed);
    return x;
}

/* Stores positions first..last-1 in chunks of at most `most` rows. */
static void store(struct sequence *s, size_t first, size_t last, size_t most)
{
    for (size_t n; first < last; first += n) {
        n = last - first < most ? last - first : most;
        put_rows(&s->kv, tables[0], first, n, s->k + first * s->ld_kv, s->v + first * s->ld_kv,
                 s->ld_kv);
    }
}

static void open_sequence(struct sequence *s, struct shape shape, enum sp_cache_type type, size_t n,
                          size_t n_rows, uint64_t seed)
{
    *s = (struct sequence){.shape = shape, .n = n};
    s->ld_kv = shape.n_kv_heads * shape.head_dim + 3;
    s->ldq = shape.n_heads * shape.head_dim + 1;
    s->k = new_rows(n, s->ld_kv, &seed);
    s->v = new_rows(n, s->ld_kv, &seed);
    s->q = new_rows(MAX_ROWS, s->ldq, &seed);
    assert_ok(sp_kv_init(&s->kv, type, (struct sp_kv_shape){shape.n_kv_heads, shape.head_dim, 0}, n,
                         0, 1, NULL));
    assert_ok(sp_kv_grow(&s->kv, SIZE_MAX, NULL));
    /* Slots without a stored position hold NaN: no result may depend on them. */
    memset(s->kv.keys, 0xff, s->kv.n_slots / SP_KV_BLOCK * s->kv.n_heads * s->kv.key_block_size);
    memset(s->kv.values, 0xff,
           s->kv.n_slots / SP_KV_BLOCK * s->kv.n_heads * s->kv.value_block_size);
    store(s, 0, n, 64);
    s->job = (struct sp_attention){.kv = &s->kv,
                                   .n_heads = shape.n_heads,
                                   .scale = 1 / sqrtf((float)shape.head_dim),
                                   .q = s->q,
                                   .ldq = s->ldq,
                                   .ld_out = s->ldq,
                                   .n_rows = n_rows,
                                   .ranges = s->ranges};
    for (size_t t = 0; t < n_rows; t++)
        s->ranges[t] = (struct sp_key_range){0, n - n_rows + t + 1};
}

static void close_sequence(struct sequence *s)
{
    free(s->k);
    free(s->v);
    free(s->q);
    sp_kv_release(&s->kv);
}

/* Runs the job into a new buffer of MAX_ROWS rows. Rows that the job does not write are 0. */
static float *attend(const struct sequence *s, const struct sp_attention *job,
                     const struct sp_vector *vector, unsigned n_threads)
{
    struct sp_arena memory = {0};
    struct sp_attention_scratch *scratch;
    struct sp_attention run = *job;
    float *out = calloc(MAX_ROWS * s->ldq, sizeof *out);

    assert_non_null(out);
    scratch = sp_attention_scratch_new(&memory, n_threads, s->shape.n_heads, s->shape.head_dim,
                                       MAX_ROWS, s->n);
    run.out = out;
    sp_attend(&run, vector, pools[n_threads], scratch);
    sp_arena_release(&memory);
    return keep(out);
}

/* Computes one row of one head by the definition, in double precision. */
static void attend_plainly(double *out, const struct sequence *s, size_t t, unsigned h)
{
    const struct sp_attention *job = &s->job;
    size_t d = s->shape.head_dim, kv_head = h / (s->shape.n_heads / s->shape.n_kv_heads);
    const float *q = s->q + t * s->ldq + h * d;
    double sum = job->sinks ? exp((double)job->sinks[h]) : 0;

    for (size_t i = 0; i < d; i++)
        out[i] = 0;
    for (size_t p = s->ranges[t].first; p < s->ranges[t].last; p++) {
        const float *k = s->k + p * s->ld_kv + kv_head * d, *v = s->v + p * s->ld_kv + kv_head * d;
        double score = 0;
        for (size_t i = 0; i < d; i++)
            score += (double)q[i] * (double)k[i];
        score *= (double)job->scale;
        if (job->cap > 0) score = (double)job->cap * tanh(score / (double)job->cap);
        double w = exp(score);
        for (size_t i = 0; i < d; i++)
            out[i] += w * (double)v[i];
        sum += w;
    }
    for (size_t i = 0; i < d && sum > 0; i++)
        out[i] /= sum;
}

static double largest_error(const struct sequence *s, const float *out)
{
    double want[SP_MAX_HEAD_DIM], worst = 0;
    size_t d = s->shape.head_dim;

    for (size_t t = 0; t < s->job.n_rows; t++) {
        for (unsigned h = 0; h < s->shape.n_heads; h++) {
            attend_plainly(want, s, t, h);
            for (size_t i = 0; i < d; i++) {
                double error = fabs((double)out[t * s->ldq + h * d + i] - want[i]);
                if (!(error <= worst)) worst = error; /* NaN too */
            }
        }
    }
    return worst;
}

static void assert_same(const struct sequence *s, const float *got, const float *want)
{
    assert_memory_equal(got, want, MAX_ROWS * s->ldq * sizeof *got);
}

/* Gives the rows the ranges that occur in practice: windows, blocks that look ahead, chunks in the
 * middle of a sequence, and empty ranges. */
static void vary_ranges(struct sequence *s, uint64_t *seed)
{
    for (size_t t = 0; t < s->job.n_rows; t++) {
        struct sp_key_range *r = &s->ranges[t];
        if (next(seed) % 3 == 0) r->last = s->n;
        if (next(seed) % 3 == 0) r->first = next(seed) % r->last;
        if (next(seed) % 16 == 0) r->first = r->last;
    }
}

/* ---- tests ---- */

TEST(test_near_the_definition)
{
    uint64_t seed = 1;
    double worst = 0;

#ifdef SP_RACES_ONLY
    skip(); /* there is one thread */
#endif
    for (size_t i = 0; i < 2 * N_SHAPES; i++) {
        struct sequence s;
        open_sequence(&s, shapes[i / 2], SP_CACHE_F32, 300 + next(&seed) % 500,
                      1 + next(&seed) % 20, i);
        if (i % 2) vary_ranges(&s, &seed);
        for (size_t j = 0; j < n_tables; j++) {
            float *out = attend(&s, &s.job, tables[j], 1);
            double error = largest_error(&s, out);
            if (error > worst) worst = error;
            assert_true(error < 1e-5);
        }
        close_sequence(&s);
    }
    print_message("largest error %.2g\n", worst);
}

/* Bounds the error of narrow caches. An f16 key is off by at most 2^-11 of itself, a q8 key by
 * 1/254 of its group's largest, a q4 key by 1/14. Keys and values here are below 2, and queries
 * have 64 dims. */
TEST(test_error_of_narrow_caches)
{
    static const double limits[] = {
        [SP_CACHE_F16] = 1e-3,  [SP_CACHE_F32] = 1e-5, [SP_CACHE_Q8] = 2e-2,
        [SP_CACHE_Q8_Q4] = 0.2, [SP_CACHE_Q4] = 0.4,   [SP_CACHE_F16_Q8] = 2e-2,
        [SP_CACHE_F16_Q4] = 0.2};

    for (int type = 0; type < SP_N_CACHE_TYPES; type++) {
        struct sequence s;
        open_sequence(&s, shapes[0], (enum sp_cache_type)type, 700, 8, 5);
        float *out = attend(&s, &s.job, tables[0], 1);
        double error = largest_error(&s, out);
        print_message("type %d: %.2g\n", type, error);
        assert_true(error < limits[type]);
        assert_true(type == SP_CACHE_F32 || error > 1e-6); /* the cache is narrow */
        close_sequence(&s);
    }
}

TEST(test_cap_and_sinks)
{
    float sinks[16];

    for (size_t i = 0; i < 16; i++)
        sinks[i] = (float)i / 2 - 3;
    for (unsigned i = 0; i < 4; i++) {
        struct sequence s;
        open_sequence(&s, shapes[2], SP_CACHE_F32, 600, 5, 6);
        s.job.scale = 0.5f;
        if (i & 1) s.job.cap = 3;
        if (i & 2) s.job.sinks = sinks;
        float *out = attend(&s, &s.job, tables[0], 1);
        assert_true(largest_error(&s, out) < 3e-5);
        close_sequence(&s);
    }
}

/* gpt-oss, by hand: scores 1 and 2, sink 0.5. */
TEST(test_sink_example)
{
    const float sink = 0.5f;
    struct sequence s;

    open_sequence(&s, (struct shape){1, 1, 2}, SP_CACHE_F32, 2, 1, 7);
    memcpy(s.k, (float[]){1, 0}, 2 * sizeof(float));
    memcpy(s.k + s.ld_kv, (float[]){2, 0}, 2 * sizeof(float));
    memcpy(s.v, (float[]){1, 0}, 2 * sizeof(float));
    memcpy(s.v + s.ld_kv, (float[]){0, 1}, 2 * sizeof(float));
    memcpy(s.q, (float[]){1, 0}, 2 * sizeof(float));
    store(&s, 0, 2, 1);
    s.job.scale = 1;
    s.job.sinks = &sink;
    float *out = attend(&s, &s.job, tables[0], 1);
    assert_true(fabs((double)out[0] - 0.23122390) < 1e-7);
    assert_true(fabs((double)out[1] - 0.62853172) < 1e-7);
    close_sequence(&s);
}

/* The bits are the same for every table, every number of threads, and every row computed alone. */
TEST(test_bits_do_not_depend_on_other_rows)
{
    uint64_t seed = 8;

    for (size_t i = 0; i < N_SHAPES * SP_N_CACHE_TYPES; i++) {
        struct shape shape = shapes[i / SP_N_CACHE_TYPES];
        enum sp_cache_type type = (enum sp_cache_type)(i % SP_N_CACHE_TYPES);
        struct sequence s;
        if (type != SP_CACHE_F16 && type != SP_CACHE_F32 && shape.head_dim % SP_KV_GROUP) continue;
        size_t n_rows = i % 2 ? 1 + next(&seed) % 4 : MAX_ROWS;
        open_sequence(&s, shape, type, 257 + next(&seed) % 600, n_rows, i);
        if (i % 4 > 1) vary_ranges(&s, &seed);
        float *want = attend(&s, &s.job, tables[n_tables - 1], 1);
        for (size_t j = 0; j < n_tables; j++) {
            for (unsigned threads = LEAST_THREADS; threads <= MAX_THREADS; threads++) {
                float *got = attend(&s, &s.job, tables[j], threads);
                assert_same(&s, got, want);
            }
        }
        for (size_t t = 0; t < n_rows; t += 1 + n_rows / 7) {
            struct sp_attention one = s.job;
            one.n_rows = 1;
            one.q += t * s.ldq;
            one.ranges += t;
            float *got = attend(&s, &one, tables[0], 2);
            assert_memory_equal(got, want + t * s.ldq, (s.ldq - 1) * sizeof *got);
        }
        close_sequence(&s);
    }
}

/* Values may be narrower than keys, and the heads of a row may lie apart. The bits equal those of
 * values padded with zeros and of adjacent heads. */
TEST(test_narrow_values_and_heads_apart)
{
    enum { N_ROWS = 5, HEADS = 6, KEY = 96, VALUE = 64, N = 700 };
    float *parted = keep(malloc(HEADS * N_ROWS * KEY * sizeof *parted));
    float *out = keep(malloc(HEADS * N_ROWS * KEY * sizeof *out));

    for (int type = 0; type < SP_N_CACHE_TYPES; type++) {
        struct sequence s;
        open_sequence(&s, (struct shape){HEADS, 1, KEY}, (enum sp_cache_type)type, N, N_ROWS, 9);
        for (size_t p = 0; p < N; p++)
            memset(s.v + p * s.ld_kv + VALUE, 0, (KEY - VALUE) * sizeof(float));
        store(&s, 0, N, 64);
        float *want = attend(&s, &s.job, tables[0], 1);
        sp_kv_release(&s.kv);
        assert_ok(sp_kv_init(&s.kv, (enum sp_cache_type)type, (struct sp_kv_shape){1, KEY, VALUE},
                             N, 0, 1, NULL));
        assert_ok(sp_kv_grow(&s.kv, SIZE_MAX, NULL));
        store(&s, 0, N, 64);
        for (size_t h = 0; h < HEADS; h++) {
            for (size_t t = 0; t < N_ROWS; t++) {
                memcpy(parted + (h * N_ROWS + t) * KEY, s.q + t * s.ldq + h * KEY,
                       KEY * sizeof *parted);
            }
        }
        for (size_t j = 0; j < n_tables; j++) {
            struct sp_arena memory = {0};
            struct sp_attention_scratch *scratch;
            struct sp_attention job = s.job;
            unsigned n_threads = LEAST_THREADS + (unsigned)j % MAX_THREADS;
            scratch = sp_attention_scratch_new(&memory, n_threads, HEADS, KEY, N_ROWS, N);
            job.q = parted;
            job.ldq = KEY;
            job.q_step = N_ROWS * KEY;
            job.out = out;
            job.ld_out = VALUE;
            job.out_step = N_ROWS * VALUE;
            sp_attend(&job, tables[j], pools[n_threads], scratch);
            sp_arena_release(&memory);
            for (size_t i = 0; i < HEADS * N_ROWS; i++) {
                assert_memory_equal(out + i * VALUE, want + i % N_ROWS * s.ldq + i / N_ROWS * KEY,
                                    VALUE * sizeof *out);
            }
        }
        close_sequence(&s);
    }
}

/* A query of zeros weighs all keys equally, so the mean of the values identifies the keys that were
 * seen. */
TEST(test_window_holds_w_keys)
{
    enum { N = 1500, WINDOW = 130, ROWS = 16 };
    struct sequence s;

    open_sequence(&s, shapes[0], SP_CACHE_F32, N, ROWS, 9);
    sp_kv_release(&s.kv);
    assert_ok(
        sp_kv_init(&s.kv, SP_CACHE_F32, (struct sp_kv_shape){2, 64, 0}, N, WINDOW, ROWS, NULL));
    assert_ok(sp_kv_grow(&s.kv, SIZE_MAX, NULL));
    memset(s.q, 0, MAX_ROWS * s.ldq * sizeof *s.q);
    for (size_t p = 0; p < N; p++)
        for (size_t i = 0; i < s.ld_kv; i++)
            s.v[p * s.ld_kv + i] = (float)(p * p % 4096);
    for (size_t pos = 0; pos + ROWS <= N; pos += ROWS) {
        store(&s, pos, pos + ROWS, ROWS);
        for (size_t t = 0; t < ROWS; t++) {
            size_t last = pos + t + 1, first = last > WINDOW ? last - WINDOW : 0;
            s.ranges[t] = (struct sp_key_range){first, last};
        }
        float *out = attend(&s, &s.job, tables[pos / ROWS % n_tables], 1);
        for (size_t t = 0; t < ROWS; t++) {
            double sum = 0;
            for (size_t p = s.ranges[t].first; p < s.ranges[t].last; p++)
                sum += (double)(p * p % 4096);
            double mean = sum / (double)(s.ranges[t].last - s.ranges[t].first);
            assert_true(fabs((double)out[t * s.ldq] - mean) < 1e-2);
        }
    }
    close_sequence(&s);
}

/* A ring buffer gives the bits of a cache that keeps all positions. */
TEST(test_ring_gives_the_same_bits)
{
    enum { N = 1100, WINDOW = 200, ROWS = 40 };

    for (int type = 0; type < SP_N_CACHE_TYPES; type++) {
        struct sequence full, ring;
        open_sequence(&full, shapes[1], (enum sp_cache_type)type, N, ROWS, 10);
        open_sequence(&ring, shapes[1], (enum sp_cache_type)type, N, ROWS, 10);
        sp_kv_release(&ring.kv);
        assert_ok(sp_kv_init(&ring.kv, (enum sp_cache_type)type, (struct sp_kv_shape){3, 64, 0}, N,
                             WINDOW, ROWS, NULL));
        assert_ok(sp_kv_grow(&ring.kv, SIZE_MAX, NULL));
        assert_true(ring.kv.n_slots < full.kv.n_slots);
        for (size_t pos = 0; pos + ROWS <= N; pos += ROWS) {
            store(&ring, pos, pos + ROWS, ROWS);
            for (size_t t = 0; t < ROWS; t++) {
                size_t last = pos + t + 1, first = last > WINDOW ? last - WINDOW : 0;
                full.ranges[t] = ring.ranges[t] = (struct sp_key_range){first, last};
            }
            float *want = attend(&full, &full.job, tables[0], 1);
            float *got = attend(&ring, &ring.job, tables[0], 2);
            assert_same(&full, got, want);
        }
        close_sequence(&full);
        close_sequence(&ring);
    }
}

/* Draft tokens that are stored and then overwritten change neither results nor the digest. */
TEST(test_overwritten_drafts_leave_no_trace)
{
    enum { N = 520, ROWS = 8 };

    for (int type = 0; type < SP_N_CACHE_TYPES; type++) {
        struct sequence plain, drafted;
        open_sequence(&plain, shapes[0], (enum sp_cache_type)type, N, ROWS, 11);
        open_sequence(&drafted, shapes[0], (enum sp_cache_type)type, N, ROWS, 11);
        for (size_t pos = 500; pos < 512; pos++)
            put_rows(&drafted.kv, tables[0], pos, ROWS, plain.q, plain.q, plain.ldq);
        store(&drafted, 500, N, 3);
        assert_true(kv_digest(&plain.kv, 0, N) == kv_digest(&drafted.kv, 0, N));
        float *want = attend(&plain, &plain.job, tables[0], 1);
        float *got = attend(&drafted, &drafted.job, tables[0], 1);
        assert_same(&plain, got, want);
        close_sequence(&plain);
        close_sequence(&drafted);
    }
}

/* A NaN that a query sees reaches the result, where it is refused. */
TEST(test_nan_reaches_the_result)
{
    for (int type = 0; type < SP_N_CACHE_TYPES; type++) {
        for (int where = 0; where < 3; where++) {
            struct sequence s;
            open_sequence(&s, shapes[3], (enum sp_cache_type)type, 300, 1, 12);
            float *at = where == 0 ? s.q : (where == 1 ? s.k : s.v) + 200 * s.ld_kv;
            at[5] = NAN;
            store(&s, 200, 201, 1);
            for (size_t i = 0; i < n_tables; i++) {
                float *out = attend(&s, &s.job, tables[i], 1);
                assert_true(isnan(out[5]));
            }
            close_sequence(&s);
        }
    }
}

GROUP_FIXTURE(open_all, close_all);
