/* Tests the statistics of inputs that do not belong to all matrices of a product: those of each
 * expert, against transformers, and the output matrix's, against the features of a decoder. */
#include "runtime/measure/input_stats.h"
#include "runtime/model/decoder.h"
#include "runtime/session/session.h"
#include "tests/support/cache_digest.h"
#include "tests/support/create_files.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/unit_test.h"
#include "tests/support/vector_file.h"

#include <math.h>

enum { N_IDS = 96, VOCAB = 128, HIDDEN = 32, WIDTH = 64, N_EXPERTS = 4, N_LAYERS = 2 };

static uint32_t ids[N_IDS]; /* those of tests/oracle/expert_inputs.py */

static struct sp_package *open_experts(unsigned n_threads)
{
    const char *file = create_path("experts.bin");

    for (uint32_t i = 0; i < N_IDS; i++)
        ids[i] = (i * i * 7 + 13 * i) % VOCAB;
    create_pack(create_modelfile("FROM @/../experts\n"), file, SP_F32, SP_DTYPE_NONE, 2);
    return keep_package_with(file, NULL, n_threads);
}

static struct sp_decoder *open_decoder(struct sp_package *package)
{
    static const unsigned taps[] = {SP_TAP_FINAL};

    return keep_decoder(package, package->target,
                        &(struct sp_decoder_options){.n_positions = N_IDS,
                                                     .max_rows = N_IDS,
                                                     .max_logit_rows = 1,
                                                     .cache_type = SP_CACHE_F32,
                                                     .taps = taps,
                                                     .n_taps = 1});
}

/* Runs the ids in passes of n rows. */
static void run(struct sp_decoder *d, size_t n)
{
    for (size_t at = 0; at < N_IDS; at += n) {
        sp_decoder_run(d, ids + at, n, at, n);
        sp_decoder_commit(d, n);
    }
}

static const struct sp_matrix *matrix_of(const struct sp_package *package, const char *name)
{
    const struct sp_model *model = package->target;

    for (size_t i = 0; i < model->n_matrices; i++)
        if (strcmp(model->matrices[i].tensor->name, name) == 0) return model->matrices[i].w;
    fail_msg("no matrix %s", name);
    return NULL;
}

static double from_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The squares of each expert's inputs, brought to the largest of the expert. */
static void check_experts(size_t n_rows, unsigned n_threads)
{
    struct sp_package *package = open_experts(n_threads);
    struct sp_decoder *d = open_decoder(package);
    struct sp_input_stats *stats = NULL;
    size_t n_lines;
    uint64_t *lines = vector_file_read("expert_inputs.txt", 4, &n_lines);
    double largest[N_LAYERS][N_EXPERTS] = {{0}};

    assert_int_equal(n_lines, N_LAYERS * N_EXPERTS * WIDTH);
    assert_ok(sp_input_stats_open(&stats, package->pack, why));
    package->backend.observer = sp_input_stats_observer(stats, SP_PART_TARGET, true);
    run(d, n_rows);
    package->backend.observer = (struct sp_input_observer){0};
    assert_ok(sp_input_stats_solve(stats, &package->backend, why));
    for (const uint64_t *l = lines; l < lines + 4 * n_lines; l += 4)
        largest[l[0]][l[1]] = fmax(largest[l[0]][l[1]], from_bits(l[3]));
    for (const uint64_t *l = lines; l < lines + 4 * n_lines; l += 4) {
        char name[64];
        struct sp_gptq_weights weights;
        snprintf(name, sizeof name, "layers.%u.mlp.experts.down_proj.weight", (unsigned)l[0]);
        weights = sp_input_stats_weights(stats, matrix_of(package, name));
        assert_null(weights.factors);
        assert_non_null(weights.squares);
        assert_true(fabs((double)weights.squares[l[1] * WIDTH + l[2]] -
                         from_bits(l[3]) / largest[l[0]][l[1]]) < 1e-4);
    }
    sp_input_stats_close(stats);
}

TEST(test_experts)
{
    check_experts(N_IDS, 2);
    check_experts(1, 1);
}

/* Keeps the rows that the output matrix reads. */
struct seen {
    const struct sp_matrix *head;
    float rows[N_IDS * HIDDEN];
    size_t n;
};

static void see(void *context, const struct sp_backend *backend, const struct sp_product *products,
                size_t n_products, const struct sp_acts *acts, size_t n_rows,
                const struct sp_row_group *groups, size_t n_groups)
{
    struct seen *seen = context;

    (void)backend;
    (void)n_groups;
    if (n_products != 1 || products->w != seen->head) return;
    assert_null(groups);
    assert_int_equal(acts->cols, HIDDEN);
    for (size_t t = 0; t < n_rows; t++, seen->n++)
        memcpy(seen->rows + seen->n * HIDDEN, acts->x + t * acts->ld, HIDDEN * sizeof(float));
}

TEST(test_output)
{
    static struct seen seen;
    struct sp_package *package = open_experts(2);
    struct sp_decoder *d = open_decoder(package);

    run(d, N_IDS);
    seen = (struct seen){.head = &package->target->head};
    package->backend.observer = (struct sp_input_observer){see, &seen};
    sp_decoder_observe_head(d, N_IDS);
    package->backend.observer = (struct sp_input_observer){0};
    assert_int_equal(seen.n, N_IDS);
    assert_memory_equal(seen.rows, sp_decoder_features(d), sizeof seen.rows);
}

TEST_FIXTURE(create_setup, create_teardown);
