/* Tests smoothing on every family of testdata: a file whose norms were all divided by powers of two
 * gives the logits of the file that is not smoothed, bit for bit, because every product of floats
 * stays the same. So each matrix that reads a norm is found, and nothing else reads it. */
#include "convert/create/create_job.h"
#include "convert/export/export.h"
#include "runtime/spectool_measure.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/packed_models.h"
#include "tests/support/random.h"
#include "tests/support/stored_tensor.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum { N_IDS = 24, MOST_COLUMNS = 4096 };

static size_t n_smoothed, n_families;

/* ---- files ---- */

/* Adds exponents from -3 to 3 for every norm that a matrix of the source reads. */
static void invent(struct sp_smoothing *out, const struct sp_source *source)
{
    uint64_t seed = 7;

    for (size_t i = 0; i < source->specs.n_specs; i++) {
        const struct sp_tensor_spec *spec = &source->specs.specs[i];
        int8_t exponents[MOST_COLUMNS];
        char norm[SP_NORM_NAME];
        size_t n = (size_t)sp_spec_cols(spec);
        if (!sp_smoothing_norm_of(norm, &source->config, spec->name)) continue;
        if (sp_smoothing_find(out, norm)) continue;
        assert_in_range(n, 1, MOST_COLUMNS);
        for (size_t k = 0; k < n; k++)
            exponents[k] = (int8_t)((int)(next(&seed) % 7) - 3);
        assert_ok(sp_smoothing_add(out, norm, exponents, n, why));
    }
}

/* Smooths a plan of floats: it is taken for one of q8 while that is decided. */
static void smooth(struct sp_smoothing *applied, struct sp_plan *plan,
                   const struct sp_smoothing *smoothing, const struct sp_source *source)
{
    enum sp_dtype *types = calloc(plan->n_items, sizeof *types);

    for (size_t i = 0; i < plan->n_items; i++) {
        struct sp_plan_item *item = &plan->items[i];
        types[i] = item->to;
        if (sp_role_is_matrix(item->spec->role) && item->layout == SP_PANEL) item->to = SP_Q8;
    }
    assert_ok(sp_plan_smooth(applied, plan, smoothing, source, why));
    for (size_t i = 0; i < plan->n_items; i++)
        if (plan->items[i].to == SP_Q8) plan->items[i].to = types[i];
    free(types);
}

/* Writes a file with all weights as f32, smoothed or not. Returns the number of smoothed norms. */
static size_t write_file(const char *path, const struct sp_source *source,
                         const struct sp_smoothing *smoothing)
{
    struct sp_policy_request request = {.type = SP_F32};
    struct sp_create_options options = {.n_threads = 2, .force = true};
    struct sp_create_job job = {
        .options = &options, .output = path, .target = *source, .records = whole_text("")};
    struct sp_smoothing applied = {0};
    struct sp_json_out out = {0};
    uint64_t size;

    assert_ok(sp_plan_add(&job.plan, source, SP_PART_TARGET, &request, NULL, false, why));
    if (smoothing) {
        smooth(&applied, &job.plan, smoothing, source);
        sp_smoothing_print(&out, &applied);
        job.smoothing = out.text;
    }
    assert_ok(sp_create_job_write(&size, &job, why));
    size_t n = applied.n;
    sp_plan_release(&job.plan);
    sp_smoothing_release(&applied);
    sp_strbuf_release(&out.text);
    return n;
}

/* ---- logits ---- */

/* Adds products of rank 2 to a projection of the first layer that reads a norm. */
static struct sp_lora *add_adapter(struct sp_package *package, const struct sp_source *source)
{
    static const char name[] = "layers.0.self_attn.q_proj.weight";
    const struct sp_tensor_spec *spec = sp_specs_find(&source->specs, name);
    struct sp_lora_product product = SP_LORA_PRODUCT_INIT;
    struct sp_lora *lora = NULL;
    uint64_t seed = 3;

    if (spec == NULL) return NULL;
    product.tensor = name;
    product.rank = 2;
    product.n_rows = (size_t)spec->shape[0];
    product.n_cols = (size_t)spec->shape[1];
    size_t n = 2 * (product.n_rows + product.n_cols);
    float *numbers = keep(calloc(n, sizeof *numbers));
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)(next(&seed) % 64) / 256 - 0.125f;
    product.left = numbers;
    product.right = numbers + 2 * product.n_rows;
    assert_ok(sp_lora_open(&lora, package, why));
    assert_ok(sp_lora_add(lora, &product, why));
    return lora;
}

static void close_lora(void *lora)
{
    sp_lora_close(lora);
}

/* The logits of N_IDS tokens, then again with an adapter. */
static void logits(struct logit_rows rows[2], const char *path, const struct sp_source *source)
{
    struct sp_session_options options = {.size = sizeof options, .cache = SP_CACHE_F32};
    struct sp_package *package = keep_package(path, NULL);
    struct sp_lora *lora = keep_with(add_adapter(package, source), close_lora);
    struct sp_session *session = keep_session(package, &options);
    uint32_t ids[N_IDS];

    for (size_t i = 0; i < N_IDS; i++)
        ids[i] = (uint32_t)(5 + i * 7 % 50);
    rows[0] = keep_logits(session, ids, N_IDS);
    if (lora) assert_ok(sp_session_set_lora(session, lora, 1, why));
    rows[1] = keep_logits(session, ids, N_IDS);
}

/* Norms that multiply by 1 + w are rounded once more. */
static void assert_same(const struct logit_rows *a, const struct logit_rows *b, bool shifted)
{
    size_t n = N_IDS * a->width;
    float worst = 0, largest = 0;

    assert_int_equal(a->width, b->width);
    if (!shifted) {
        assert_memory_equal(a->values, b->values, n * sizeof *a->values);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        worst = fmaxf(worst, fabsf(a->values[i] - b->values[i]));
        largest = fmaxf(largest, fabsf(a->values[i]));
    }
    if (!(worst <= 1e-5f * largest)) fail_msg("relative error %g", (double)(worst / largest));
}

/* ---- tests ---- */

/* A smoothed file, as a source, has the numbers of the model. */
static void assert_same_numbers(const char *path, const struct sp_source *source)
{
    struct sp_source again = {0};
    enum sp_dtype type;
    char *warnings = NULL;

    assert_ok(sp_source_open(&again, path, SP_PART_TARGET, &warnings, why));
    for (size_t i = 0; i < source->specs.n_specs; i++) {
        const struct sp_tensor_spec *spec = &source->specs.specs[i];
        size_t n = (size_t)sp_spec_elements(spec);
        float *a = stored_tensor_floats(source, spec, &type);
        float *b = stored_tensor_floats(&again, sp_specs_find(&again.specs, spec->name), &type);
        bool shifted = source->config.norm_shifted && spec->role == SP_ROLE_NORM;
        for (size_t k = 0; k < n; k++) {
            if (a[k] == b[k] || (shifted && fabsf(a[k] - b[k]) < 1e-6f)) continue;
            fail_msg("%s[%zu]: %.9g is read as %.9g", spec->name, k, (double)a[k], (double)b[k]);
        }
    }
    free(warnings);
    sp_source_release(&again);
}

/* And so has the checkpoint that it is exported to. */
static void assert_exported(const char *path, const struct sp_source *source)
{
    struct sp_create_options options = {.from = path, .output = packed_path("exported")};

    assert_ok(sp_export(NULL, &options, why));
    assert_same_numbers(packed_path("exported/target"), source);
    assert_int_equal(system(keep_format("rm -r '%s'", options.output)), 0);
}

static void same_logits(void **state)
{
    struct sp_source source = {0};
    struct sp_smoothing smoothing = {0};
    const char *plain = packed_path("plain.bin"), *smoothed = packed_path("smoothed.bin");
    const char *folder = keep_format(TESTDATA "/families/%s", (const char *)*state);
    struct logit_rows a[2], b[2];
    char *warnings = NULL;

    assert_ok(sp_source_open(&source, folder, SP_PART_TARGET, &warnings, why));
    free(warnings);
    invent(&smoothing, &source);
    n_families++;
    if (smoothing.n && !source.config.bidirectional) {
        write_file(plain, &source, NULL);
        assert_int_equal(write_file(smoothed, &source, &smoothing), smoothing.n);
        n_smoothed++;
        assert_same_numbers(smoothed, &source);
        assert_exported(smoothed, &source);
        logits(a, plain, &source);
        logits(b, smoothed, &source);
        for (size_t i = 0; i < 2; i++)
            assert_same(&a[i], &b[i], source.config.norm_shifted);
    }
    sp_smoothing_release(&smoothing);
    sp_source_release(&source);
}

CASES_OF(same_logits, golden_families);

/* Models without such norms are few. */
TEST(most_families_are_smoothed)
{
    print_message("%zu of %zu families have norms that can be smoothed\n", n_smoothed, n_families);
    assert_true(4 * n_smoothed >= 3 * n_families);
}

GROUP_FIXTURE(packed_setup, packed_teardown);
