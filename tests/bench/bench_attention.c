/* Measures attention in all layers of one model shape, for 1 to 16 rows after a context. The rounds
 * alternate with a plain read of the same caches.
 *
 *   bench_attention [TYPE [KERNELS [THREADS [CONTEXT [LAYERS HEADS KV_HEADS DIM]]]]]
 *   defaults         f16   avx512   2        4096     28     16    8        128
 *
 * Only the ratio of the two times is meaningful, since the memory bandwidth varies during a run. */
#include "runtime/backend/attention.h"

#include "format/base/mem.h"
#include "format/base/clock.h"
#include "tests/bench/bench_times.h"
#include "tests/support/kv_rows.h"

enum { N_ROUNDS = 7, N_COUNTS = 6, MAX_ROWS = 16 };
static const size_t counts[N_COUNTS] = {1, 2, 4, 8, 12, 16};

struct bench {
    unsigned n_layers, n_heads, n_kv_heads, head_dim;
    size_t context;
    enum sp_cache_type type;
    const struct sp_vector *vector;
    struct sp_pool *pool;
    struct sp_arena memory; /* of the scratch */
    struct sp_attention_scratch *scratch;
    struct sp_kv *caches; /* [n_layers] */
    float *q, *out;       /* [MAX_ROWS][n_heads * head_dim] */
    const struct sp_kv *reading;
    uint64_t read_sums[SP_POOL_MAX];
};

/* Reads one head of the cache. */
static void read_head(void *context, size_t head, unsigned worker)
{
    struct bench *b = context;
    const struct sp_kv *kv = b->reading;

    for (size_t pos = 0; pos < b->context; pos += SP_SPAN) {
        size_t n = b->context - pos < SP_SPAN ? b->context - pos : SP_SPAN;
        size_t n_blocks = n / SP_KV_BLOCK;
        uint64_t sum = sum_words(sp_kv_keys(kv, head, pos), n_blocks * kv->key_block_size);
        b->read_sums[worker] +=
            sum + sum_words(sp_kv_values(kv, head, pos), n_blocks * kv->value_block_size);
    }
}

static double time_read(struct bench *b)
{
    double start = sp_seconds();

    for (unsigned i = 0; i < b->n_layers; i++) {
        b->reading = &b->caches[i];
        sp_pool_run(b->pool, b->n_kv_heads, read_head, b);
    }
    return sp_seconds() - start;
}

static double time_attention(struct bench *b, size_t n_rows)
{
    struct sp_key_range ranges[MAX_ROWS];
    size_t ld = (size_t)b->n_heads * b->head_dim;
    struct sp_attention job = {
        .n_heads = b->n_heads, .scale = 0.1f, .q = b->q, .ldq = ld, .out = b->out, .ld_out = ld};
    double start = sp_seconds();

    job.n_rows = n_rows;
    job.ranges = ranges;
    for (size_t t = 0; t < n_rows; t++)
        ranges[t] = (struct sp_key_range){0, b->context - n_rows + t + 1};
    for (unsigned i = 0; i < b->n_layers; i++) {
        job.kv = &b->caches[i];
        sp_attend(&job, b->vector, b->pool, b->scratch);
    }
    return sp_seconds() - start;
}

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i * 2654435761u >> 8 & 1023) / 512 - 1;
}

static void init(struct bench *b)
{
    size_t ld = (size_t)b->n_heads * b->head_dim, ld_kv = (size_t)b->n_kv_heads * b->head_dim;
    float *kv_row = NULL;
    struct sp_err err = {0};

    if (sp_new(&b->caches, b->n_layers, sizeof *b->caches, &err)) die(&err);
    if (sp_new_aligned(&b->q, MAX_ROWS * ld, sizeof *b->q, &err)) die(&err);
    if (sp_new_aligned(&b->out, MAX_ROWS * ld, sizeof *b->out, &err)) die(&err);
    if (sp_new_aligned(&kv_row, ld_kv + b->context, sizeof *kv_row, &err)) die(&err);
    fill(b->q, MAX_ROWS * ld);
    fill(kv_row, ld_kv + b->context);
    for (unsigned i = 0; i < b->n_layers; i++) {
        struct sp_kv *kv = &b->caches[i];
        if (sp_kv_init(kv, b->type, (struct sp_kv_shape){b->n_kv_heads, b->head_dim, 0}, b->context,
                       0, MAX_ROWS, &err) ||
            sp_kv_grow(kv, b->context, &err))
            die(&err);
        for (size_t pos = 0; pos < b->context; pos++)
            put_rows(kv, b->vector, pos, 1, kv_row + pos, kv_row + pos, ld_kv);
    }
    b->scratch = sp_attention_scratch_new(&b->memory, sp_pool_n_threads(b->pool), b->n_heads,
                                          b->head_dim, MAX_ROWS, b->context);
    if (sp_arena_check(&b->memory, &err)) die(&err);
    free(kv_row);
}

static void release(struct bench *b)
{
    for (unsigned i = 0; i < b->n_layers; i++)
        sp_kv_release(&b->caches[i]);
    sp_arena_release(&b->memory);
    sp_pool_close(b->pool);
    free(b->caches);
    free(b->q);
    free(b->out);
}

static void report(const struct bench *b, double times[][N_ROUNDS], double reads[][N_ROUNDS])
{
    double one_row = 0, size = 0;

    for (unsigned i = 0; i < b->n_layers; i++)
        size += (double)sp_kv_size(&b->caches[i], SIZE_MAX);
    printf("%s, %u threads, %zu positions, %.0f MB\n", b->vector->name, sp_pool_n_threads(b->pool),
           b->context, size / 1e6);
    printf("rows      ms   best  /1 row  /read  read GB/s\n");
    for (size_t i = 0; i < N_COUNTS; i++) {
        double time = median(times[i], N_ROUNDS), read = median(reads[i], N_ROUNDS);
        if (i == 0) one_row = time;
        printf("%4zu %7.2f %6.2f %7.2f %6.2f %10.1f\n", counts[i], time * 1e3, times[i][0] * 1e3,
               time / one_row, time / read, size / read / 1e9);
    }
}

int main(int argc, char **argv)
{
    static const char *const types[] = {SP_CACHE_TYPE_NAMES};
    static struct bench b;
    static double times[N_COUNTS][N_ROUNDS], reads[N_COUNTS][N_ROUNDS];
    unsigned numbers[] = {2, 4096, 28, 16, 8, 128};
    struct sp_err err = {0};
    int type = 0;

    while (type < SP_N_CACHE_TYPES && strcmp(argc > 1 ? argv[1] : "f16", types[type]) != 0)
        type++;
    b.type = (enum sp_cache_type)type;
    b.vector = sp_vector_find(argc > 2 ? argv[2] : "avx512");
    for (int i = 3; i < argc && i < 9; i++)
        numbers[i - 3] = (unsigned)strtoul(argv[i], NULL, 10);
    if (type == SP_N_CACHE_TYPES || b.vector == NULL) {
        fprintf(stderr, "usage: bench_attention [TYPE [KERNELS [THREADS [CONTEXT ...]]]]\n");
        return SP_E_USAGE;
    }
    if (sp_pool_open(&b.pool, numbers[0], &err)) die(&err);
    b.context = numbers[1];
    b.n_layers = numbers[2];
    b.n_heads = numbers[3];
    b.n_kv_heads = numbers[4];
    b.head_dim = numbers[5];
    init(&b);
    for (size_t round = 0; round < N_ROUNDS; round++) {
        for (size_t i = 0; i < N_COUNTS; i++) {
            reads[i][round] = time_read(&b);
            times[i][round] = time_attention(&b, counts[i]);
        }
    }
    report(&b, times, reads);
    release(&b);
    return 0;
}
