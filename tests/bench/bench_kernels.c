/* Measures the kernels: one matrix of 596 M weights (the size of a 0.6B model) times 1 to 16 rows.
 * The rounds alternate with a plain read of the same memory.
 *
 *   bench_kernels [TYPE [KERNELS [THREADS [COLS [ROWS...]]]]]      q4 auto 2 1024 1 2 4 8 12 16
 *
 * The matrix is in anonymous memory with huge pages. Only the ratio of the two times is meaningful,
 * since the memory bandwidth varies during a run. Up to 16 rows are one kernel call per item, more
 * rows go through sp_matmul_rows. */
#define _DEFAULT_SOURCE /* MADV_HUGEPAGE */
#include "quantize/kernels/kernels.h"

#include "format/base/clock.h"
#include "format/base/mem.h"
#include "format/base/pool.h"
#include "tests/bench/bench_times.h"

#include <sys/mman.h>

enum { MAX_COUNTS = 16, N_ROUNDS = 9 };
static const size_t n_weights = 581632u * 1024u;

struct bench {
    const struct sp_kernels *kernels;
    enum sp_dtype dtype;
    struct sp_pool *pool;
    struct sp_acts acts;
    uint8_t *panels;
    float *y;
    size_t cols, panel_size, n_panels, size;
    size_t panels_per_item, n_rows;
    uint64_t read_sums[SP_POOL_MAX];
};

static size_t item_panels(const struct bench *b, size_t item)
{
    size_t left = b->n_panels - item * b->panels_per_item;

    return left < b->panels_per_item ? left : b->panels_per_item;
}

static void read_item(void *context, size_t item, unsigned worker)
{
    struct bench *b = context;

    b->read_sums[worker] += sum_words(b->panels + item * b->panels_per_item * b->panel_size,
                                      item_panels(b, item) * b->panel_size);
}

static void multiply_item(void *context, size_t item, unsigned worker)
{
    struct bench *b = context;
    size_t first = item * b->panels_per_item;

    (void)worker;
    sp_matmul_rows(b->kernels, &(struct sp_matmul){b->dtype, b->y + first * SP_PANEL_ROWS,
                                                   b->n_panels * SP_PANEL_ROWS,
                                                   b->panels + first * b->panel_size,
                                                   item_panels(b, item), &b->acts, 0, b->n_rows});
}

static double time_items(struct bench *b, sp_pool_fn *fn)
{
    size_t n_items = (b->n_panels + b->panels_per_item - 1) / b->panels_per_item;
    double start = sp_seconds();

    sp_pool_run(b->pool, n_items, fn, b);
    return sp_seconds() - start;
}

static void init(struct bench *b, size_t max_rows)
{
    struct sp_err err = {0};

    if (!sp_panel_size(&b->panel_size, b->dtype, b->cols)) {
        sp_fail(&err, SP_E_USAGE, "no panels of %zu columns", b->cols);
        die(&err);
    }
    b->n_panels = n_weights / b->cols / SP_PANEL_ROWS;
    b->size = b->n_panels * b->panel_size;
    /* Items of about 256 KiB: small enough for balance, large enough to make the overhead of a run
     * negligible. */
    b->panels_per_item = b->panel_size < 256 << 10 ? (256 << 10) / b->panel_size : 1;
    b->panels = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->panels == MAP_FAILED) {
        sp_fail(&err, SP_E_NOMEM, "%zu bytes wanted", b->size);
        die(&err);
    }
    madvise(b->panels, b->size, MADV_HUGEPAGE);
    /* The words are normal numbers in every type: subnormal ones would slow the kernels down. */
    for (size_t i = 0; i < b->size; i += 2) {
        b->panels[i] = (uint8_t)(i * 2654435761u >> 13);
        b->panels[i + 1] = 0x3c;
    }
    if (sp_acts_init(&b->acts, max_rows, b->cols, &err)) die(&err);
    for (size_t t = 0; t < max_rows; t++) {
        for (size_t k = 0; k < b->cols; k++)
            b->acts.x[t * b->acts.ld + k] = (float)((t * 131 + k * 17) % 255) - 127.0f;
        if (sp_dtype_is_block(b->dtype)) b->kernels->tile->quantize_row(&b->acts, t);
    }
    if (sp_new_aligned(&b->y, max_rows * b->n_panels * SP_PANEL_ROWS, sizeof *b->y, &err))
        die(&err);
    memset(b->y, 0, max_rows * b->n_panels * SP_PANEL_ROWS * sizeof *b->y);
}

int main(int argc, char **argv)
{
    static struct bench b;
    size_t counts[MAX_COUNTS] = {1, 2, 4, 8, 12, 16}, n_counts = 6, max_rows = 1;
    double times[MAX_COUNTS][N_ROUNDS], reads[MAX_COUNTS][N_ROUNDS], one_row = 0;
    struct sp_err err = {0};

    b.dtype = sp_dtype_find(argc > 1 ? argv[1] : "q4");
    b.cols = argc > 4 ? (size_t)strtoul(argv[4], NULL, 10) : 1024;
    for (int i = 5; i < argc && i - 5 < MAX_COUNTS; i++) {
        counts[i - 5] = (size_t)strtoul(argv[i], NULL, 10);
        n_counts = (size_t)i - 4;
    }
    if (b.dtype == SP_DTYPE_NONE || b.cols == 0) {
        sp_fail(&err, SP_E_USAGE, "[TYPE [KERNELS [THREADS [COLS [ROWS...]]]]]");
        die(&err);
    }
    for (size_t i = 0; i < n_counts; i++)
        max_rows = counts[i] > max_rows ? counts[i] : max_rows;
    if (sp_kernels_find(&b.kernels, argc > 2 ? argv[2] : "auto", &err)) die(&err);
    if (sp_pool_open(&b.pool, argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 2, &err)) die(&err);
    init(&b, max_rows);

    for (size_t round = 0; round < N_ROUNDS; round++) {
        for (size_t i = 0; i < n_counts; i++) {
            b.n_rows = counts[i];
            reads[i][round] = time_items(&b, read_item);
            times[i][round] = time_items(&b, multiply_item);
        }
    }
    printf("%s, %s, %u threads, %zu x %zu, %.0f MB\n", sp_dtype_info(b.dtype)->name,
           b.kernels->name, sp_pool_n_threads(b.pool), b.n_panels * SP_PANEL_ROWS, b.cols,
           (double)b.size / 1e6);
    printf("rows      ms   best  /1 row    GB/s  read GB/s  GMAC/s\n");
    for (size_t i = 0; i < n_counts; i++) {
        double time = median(times[i], N_ROUNDS), read = median(reads[i], N_ROUNDS);
        if (i == 0) one_row = time;
        printf("%4zu %7.2f %6.2f %7.2f %7.1f %10.1f %7.0f\n", counts[i], time * 1e3,
               times[i][0] * 1e3, time / one_row, (double)b.size / time / 1e9,
               (double)b.size / read / 1e9,
               (double)(b.n_panels * SP_PANEL_ROWS * b.cols * counts[i]) / time / 1e9);
    }
    sp_pool_close(b.pool);
    sp_acts_release(&b.acts);
    free(b.y);
    munmap(b.panels, b.size);
    return 0;
}
