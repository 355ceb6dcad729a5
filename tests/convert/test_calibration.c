/* Tests calibration end to end on the tiny target: the statistics against inputs computed here,
 * independence of threads, kernels and the division of the texts, the gain in quality, and what is
 * refused. Files of other contents: test_calibration_files.c. */
#include "format/base/bytes.h"
#include "format/pack_contents.h"
#include "format/weights/smoothing.h"
#include "quantize/codec.h"
#include "quantize/kernels/kernels.h"
#include "quantize/types/float_cast.h"
#include "quantize/types/gptq.h"
#include "runtime/measure/group_divergence.h"
#include "runtime/spectool_measure.h"
#include "tests/support/calibration_files.h"
#include "tests/support/create_files.h"
#include "tests/support/generate_checks.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/random.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum {
    HIDDEN = 192,
    VOCAB = 1600,
    N_IDS = 1200,
    N_NUMBERS = 12 + 16 * (192 + 176 + 160 + 144 + 128 + 112 + 96 + 80 + 64 + 48 + 32 + 16)
};

static const char qkv[] = "layers.0.self_attn.k_proj.weight,layers.0.self_attn.q_proj.weight,"
                          "layers.0.self_attn.v_proj.weight";

static uint32_t ids[N_IDS];

static void fill_ids(uint64_t seed)
{
    for (size_t i = 0; i < N_IDS; i++)
        ids[i] = next(&seed) % VOCAB;
}

static int begin(void **state)
{
    fill_ids(1);
    return create_setup(state);
}

static struct sp_calibration calibrate_with(const char *file, const char *out,
                                            const struct sp_calibration_text *texts, size_t n,
                                            const char *kernels, unsigned n_threads)
{
    struct sp_package_options options = {
        .size = sizeof options, .kernels = kernels, .n_threads = n_threads};
    struct sp_calibration_request request = {
        .size = sizeof request, .texts = texts, .n_texts = n, .path = out, .force = true};
    struct sp_package *package = NULL;
    struct sp_calibration made = SP_CALIBRATION_INIT;

    assert_ok(sp_package_open(&package, file, &options, why));
    assert_ok(sp_package_calibrate(package, &request, &made, why));
    sp_package_close(package);
    return made;
}

static const char *calibrate(const char *file)
{
    const char *out = create_path("calibration.bin");

    calibrate_with(file, out, &(struct sp_calibration_text){ids, N_IDS}, 1, NULL, 2);
    return out;
}

/* ---- statistics ---- */

/* Computes x[HIDDEN], the input of the first layer's attention for a token, in double precision. */
static void first_input(double *x, const struct sp_pack *pack, uint32_t id)
{
    const struct sp_pack_tensor *e = sp_pack_find(pack, SP_PART_TARGET, "embed_tokens.weight");
    const struct sp_pack_tensor *w =
        sp_pack_find(pack, SP_PART_TARGET, "layers.0.input_layernorm.weight");
    float row[HIDDEN], norm[HIDDEN];
    double squares = 0;

    sp_panel_row(row, e->dtype, e->data, HIDDEN, id);
    sp_decode_floats(norm, w->dtype, w->data, HIDDEN);
    for (size_t k = 0; k < HIDDEN; k++)
        squares += (double)row[k] * (double)row[k];
    for (size_t k = 0; k < HIDDEN; k++)
        x[k] = (double)row[k] / sqrt(squares / (double)HIDDEN + 1e-6) * (double)norm[k];
}

/* Decomposes h in place: h[i][j], i <= j, becomes M[i][j], and h[k][k] becomes D[k]. The columns
 * are computed from the last to the first, each from the finished columns after it. */
static void decompose(double (*h)[HIDDEN])
{
    double mean = 0;

    for (size_t k = 0; k < HIDDEN; k++)
        mean += h[k][k] / (double)HIDDEN;
    for (size_t k = 0; k < HIDDEN; k++)
        h[k][k] += 0.3 * h[k][k] + 1e-4 * mean;
    for (size_t j = HIDDEN; j-- > 0;) {
        for (size_t l = j + 1; l < HIDDEN; l++)
            h[j][j] -= h[j][l] * h[j][l] * h[l][l];
        for (size_t i = 0; i < j; i++) {
            for (size_t l = j + 1; l < HIDDEN; l++)
                h[i][j] -= h[i][l] * h[l][l] * h[j][l];
            h[i][j] /= h[j][j];
        }
    }
}

/* out = h with its groups of 16 columns in an order. */
static void put_in_order(double (*out)[HIDDEN], double (*h)[HIDDEN], const float *order)
{
    for (size_t i = 0; i < HIDDEN; i++)
        for (size_t j = 0; j < HIDDEN; j++)
            out[i][j] = h[16 * (size_t)order[i / 16] + i % 16][16 * (size_t)order[j / 16] + j % 16];
}

static double squares_of_group(double (*h)[HIDDEN], size_t first)
{
    double sum = 0;

    for (size_t i = first; i < first + 16; i++)
        sum += h[i][i];
    return sum;
}

TEST(test_statistics_equal_the_definition)
{
    static double h[HIDDEN][HIDDEN], ordered[HIDDEN][HIDDEN], x[HIDDEN];
    static float numbers[N_NUMBERS];
    const char *file = calibration_target();
    struct sp_pack *model = create_open(file), *pack = create_open(calibrate(file));
    const struct sp_pack_tensor *t = sp_pack_find(pack, SP_PART_TARGET, qkv);

    memset(h, 0, sizeof h);
    for (size_t n = 0; n < N_IDS; n++) {
        first_input(x, model, ids[n]);
        for (size_t i = 0; i < HIDDEN; i++)
            for (size_t j = 0; j < HIDDEN; j++)
                h[i][j] += x[i] * x[j];
    }
    assert_non_null(t);
    assert_int_equal(t->shape[0], N_NUMBERS);
    sp_read_bf16(numbers, t->data, N_NUMBERS);
    put_in_order(ordered, h, numbers);
    for (size_t g = 16; g < HIDDEN; g += 16)
        assert_true(squares_of_group(ordered, g - 16) >= 0.9999 * squares_of_group(ordered, g));
    decompose(ordered);
    const float *at = numbers + HIDDEN / 16;
    for (size_t g = 0; g < HIDDEN; g += 16) {
        double most = 0;
        for (size_t i = g; i < g + 16; i++)
            most = fmax(most, ordered[i][i]);
        for (size_t j = g; j < HIDDEN; j++, at += 16) {
            for (size_t i = g; i < g + 16; i++) {
                double want = i > j ? 0 : i == j ? ordered[i][i] / most : ordered[i][j];
                assert_true(fabs((double)at[i - g] - want) < 1e-3 + fabs(want) / 256);
            }
        }
    }
}

TEST(test_threads_and_kernels_do_not_change_the_file)
{
    const char *file = calibration_target(), *first = create_path("first.bin");
    const char *other = create_path("other.bin");
    const struct sp_calibration_text text = {ids, 140};

    calibrate_with(file, first, &text, 1, NULL, 2);
    for (const struct sp_kernels *const *k = sp_kernels_all(); *k; k++) {
        if (!generate_tests_set(*k)) continue;
        calibrate_with(file, other, &text, 1, (*k)->name, *k == sp_kernels_best() ? 3 : 1);
        assert_same_file(first, other);
    }
}

/* A text longer than a window is read like two texts. */
TEST(test_windows)
{
    const char *file = calibration_target(), *first = create_path("first.bin");
    const char *other = create_path("other.bin");
    const struct sp_calibration_text halves[] = {{ids, 1024}, {ids + 1024, N_IDS - 1024}};
    struct sp_calibration made = SP_CALIBRATION_INIT;

    made = calibrate_with(file, first, &(struct sp_calibration_text){ids, N_IDS}, 1, NULL, 2);
    assert_int_equal(made.n_tokens, N_IDS);
    assert_int_equal(made.n_inputs, 6 * 4 + 1);
    assert_int_equal(made.n_matrices, 6 * 7 + 1);
    calibrate_with(file, other, halves, 2, NULL, 2);
    assert_same_file(first, other);
}

static int stop(void *context, size_t done, size_t total)
{
    (void)context;
    assert_int_equal(total, N_IDS);
    return done >= 1000;
}

TEST(test_cancelling_leaves_nothing)
{
    struct sp_calibration_text text = {ids, N_IDS};
    struct sp_calibration_request request = {.size = sizeof request,
                                             .texts = &text,
                                             .n_texts = 1,
                                             .path = create_path("none.bin"),
                                             .progress = stop};
    struct sp_calibration made = SP_CALIBRATION_INIT;
    const char *file = calibration_target();
    size_t n_files = create_count_files();

    struct sp_package *package = keep_package(file, NULL);
    assert_fails(sp_package_calibrate(package, &request, &made, why), SP_E_CANCELLED, "");
    assert_int_equal(create_count_files(), n_files);
    ids[3] = VOCAB;
    request.progress = NULL;
    assert_fails(sp_package_calibrate(package, &request, &made, why), SP_E_USAGE, "");
    ids[3] = 0;
    text.n = 0;
    assert_fails(sp_package_calibrate(package, &request, &made, why), SP_E_USAGE, "");
    assert_int_equal(create_count_files(), n_files);
}

/* ---- quality ---- */

static double divergence(const char *file, const char *reference)
{
    struct sp_package *a = NULL, *b = NULL;
    struct sp_evaluation_request request = {.size = sizeof request, .ids = ids, .n = 600};
    struct sp_evaluation out = SP_EVALUATION_INIT;

    assert_ok(sp_package_open(&a, file, &(struct sp_package_options)SP_PACKAGE_OPTIONS_INIT, why));
    assert_ok(
        sp_package_open(&b, reference, &(struct sp_package_options)SP_PACKAGE_OPTIONS_INIT, why));
    request.reference = b;
    assert_ok(sp_package_evaluate(a, &request, &out, why));
    sp_package_close(a);
    sp_package_close(b);
    return out.divergence.mean;
}

TEST(test_divergence_decreases)
{
    const char *file = calibration_target(), *calibration = calibrate(file);
    const char *plain = create_path("plain.bin"), *better = create_path("better.bin");
    const char *created = create_path("created.bin");
    struct sp_create_options create = create_options(create_modelfile("FROM @/target\n"), created);

    assert_ok(calibration_requantize(file, plain, NULL, SP_Q4, 2, why));
    assert_ok(calibration_requantize(file, better, calibration, SP_Q4, 1, why));
    create.target_type = SP_Q4;
    create.calibration = calibration;
    create.n_threads = 3;
    assert_ok(sp_create(NULL, &create, why));
    assert_same_file(created, better);
    fill_ids(2); /* a text other than the calibration text */
    double before = divergence(plain, file);
    double after = divergence(better, file);
    print_message("q4 of the tiny target: %.4f nats, calibrated %.4f\n", before, after);
    assert_true(after < 0.7 * before);
}

static const struct sp_pack_tensor *tensor_of(const struct sp_pack *pack, const char *name)
{
    const struct sp_pack_tensor *t = sp_pack_find(pack, SP_PART_TARGET, name);

    if (t == NULL) fail_msg("%s is missing", name);
    return t;
}

/* The gate and up projections of the experts of a layer share the statistics of one input; the down
 * projections are calibrated by expert. */
TEST(test_experts)
{
    static const struct {
        const char *name;
        bool calibrated;
    } tensors[] = {{"layers.0.mlp.experts.gate_proj.weight", true},
                   {"layers.1.mlp.experts.up_proj.weight", true},
                   {"layers.1.mlp.experts.down_proj.weight", true},
                   {"layers.1.self_attn.o_proj.weight", true}};
    const char *file = create_path("moe.bin"), *calibration = create_path("moe.calibration");
    const char *plain = create_path("plain.bin"), *better = create_path("better.bin");
    const char *modelfile = create_modelfile("FROM @/../experts\n");

    for (size_t i = 0; i < N_IDS; i++)
        ids[i] %= 128;
    create_pack(modelfile, file, SP_F32, SP_DTYPE_NONE, 2);
    calibrate_with(file, calibration, &(struct sp_calibration_text){ids, 500}, 1, NULL, 2);
    assert_ok(calibration_requantize(file, plain, NULL, SP_Q4, 2, why));
    assert_ok(calibration_requantize(file, better, calibration, SP_Q4, 2, why));
    struct sp_pack *a = create_open(plain);
    struct sp_pack *b = create_open(better);
    assert_non_null(sp_pack_find(create_open(calibration), SP_PART_TARGET,
                                 "layers.1.mlp.experts.gate_proj.weight,"
                                 "layers.1.mlp.experts.up_proj.weight"));
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const struct sp_pack_tensor *x = tensor_of(a, tensors[i].name);
        const struct sp_pack_tensor *y = tensor_of(b, tensors[i].name);
        assert_int_equal(x->size, y->size);
        assert_int_equal(memcmp(x->data, y->data, x->size) != 0, tensors[i].calibrated);
    }
}

static struct sp_matrix matrix_of(const struct sp_pack_tensor *t)
{
    struct sp_matrix w = {.dtype = t->dtype,
                          .rows = (size_t)t->shape[t->rank - 2],
                          .cols = (size_t)t->shape[t->rank - 1],
                          .panels = t->data};

    w.n_panels = (w.rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;
    assert_true(sp_panel_size(&w.panel_size, w.dtype, w.cols));
    return w;
}

/* Rounds panel p of a stack by the squares of its matrix. */
static void round_panel(uint8_t *out, const struct sp_encoder *encoder, const struct sp_matrix *w,
                        size_t p, const float *squares)
{
    static float rows[SP_PANEL_ROWS * 64], workspace[SP_PANEL_ROWS * 64], factors[64 * 80];

    assert_true(w->cols == 64 && w->rows % SP_PANEL_ROWS == 0);
    sp_panel_decode(rows, w->dtype, w->panels + p * w->panel_size, SP_PANEL_ROWS, 64,
                    encoder->kernels);
    sp_gptq_factors(factors, (struct sp_gptq_weights){.squares = squares}, p / w->n_panels, 64,
                    NULL);
    assert_ok(
        sp_panel_encode(out, SP_Q4, encoder, rows, SP_PANEL_ROWS, 64, 0, factors, workspace, NULL));
}

/* Each expert's down projection is rounded by its own squares, by create and for sensitivities. */
TEST(test_experts_are_rounded_by_their_own_inputs)
{
    static const char name[] = "layers.1.mlp.experts.down_proj.weight";
    const char *file = create_path("moe.bin"), *calibration = create_path("moe.calibration");
    const char *rounded = create_path("rounded.bin");
    struct sp_rounded_matrix made = {0};
    struct sp_encoder encoder;
    struct sp_pool *pool = NULL;
    uint8_t panel[4096];

    for (size_t i = 0; i < N_IDS; i++)
        ids[i] %= 128;
    create_pack(create_modelfile("FROM @/../experts\n"), file, SP_F32, SP_DTYPE_NONE, 2);
    calibrate_with(file, calibration, &(struct sp_calibration_text){ids, 500}, 1, NULL, 2);
    assert_ok(calibration_requantize(file, rounded, calibration, SP_Q4, 2, NULL));
    struct sp_pack *from = create_open(file);
    struct sp_pack *to = create_open(rounded);
    struct sp_pack *pack = create_open(calibration);
    const float *squares = (const float *)(const void *)tensor_of(pack, name)->data;
    const struct sp_pack_tensor *t = tensor_of(to, name);
    struct sp_matrix w = matrix_of(tensor_of(from, name));
    assert_int_equal(sp_pack_tensor_n_matrices(t), 4);
    sp_encoder_init(&encoder);
    for (size_t p = 0; p < 4 * w.n_panels; p++) {
        size_t size = matrix_of(t).panel_size;
        assert_true(size <= sizeof panel);
        round_panel(panel, &encoder, &w, p, squares);
        assert_memory_equal(panel, t->data + p * size, size);
    }
    assert_ok(sp_pool_open(&pool, 2, NULL));
    assert_ok(sp_rounded_matrix_init(
        &made, &(struct sp_rounding){&encoder, pool, SP_Q4, {.squares = squares}}, &w, 4, NULL,
        NULL));
    assert_memory_equal(made.w.panels, t->data, t->size);
    sp_rounded_matrix_release(&made);
    sp_pool_close(pool);
}

/* Returns whether a calibration must hold statistics for the tensor: it is multiplied. */
static bool needs_statistics(const struct sp_pack *model, const struct sp_pack_tensor *t)
{
    bool is_tied = sp_pack_find(model, t->part, "lm_head.weight") == NULL;

    if (t->layout != SP_PANEL || t->shape[t->rank - 1] % 32 != 0) return false;
    if (strcmp(t->name, "embed_tokens.weight") == 0) return is_tied;
    return strncmp(t->name, "embed_tokens", 12) != 0;
}

static bool has_statistics(const struct sp_pack *calibration, enum sp_part part, const char *matrix)
{
    size_t len = strlen(matrix);

    for (size_t i = 0; i < sp_pack_n_tensors(calibration); i++) {
        const char *names = sp_pack_tensor(calibration, i)->name;
        if (sp_pack_tensor(calibration, i)->part != part) continue;
        for (const char *at = strstr(names, matrix); at; at = strstr(at + 1, matrix))
            if ((at == names || at[-1] == ',') && (at[len] == 0 || at[len] == ',')) return true;
    }
    return false;
}

/* A calibration covers every matrix of a model and its draft that is multiplied. */
static void check_covered(const char *lines)
{
    const char *file = create_path("family.bin"), *calibration = create_path("family.calibration");

    create_pack(create_modelfile(lines), file, SP_F32, SP_DTYPE_NONE, 2);
    calibrate_with(file, calibration, &(struct sp_calibration_text){ids, 300}, 1, NULL, 2);
    struct sp_pack *model = create_open(file);
    struct sp_pack *pack = create_open(calibration);
    for (size_t i = 0; i < sp_pack_n_tensors(model); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(model, i);
        if (has_statistics(pack, t->part, t->name) != needs_statistics(model, t))
            fail_msg("%s: part %d, tensor %s", lines, (int)t->part, t->name);
    }
}

TEST(test_families)
{
    fill_ids(3);
    for (size_t i = 0; i < N_IDS; i++)
        ids[i] %= 128;
    for (const char *const *name = golden_families(); *name; name++) {
        const char *lines = keep_format("FROM @/../families/%s\n", *name);
        create_setup(state);
        check_covered(lines);
        create_teardown(state);
    }
}

TEST(test_drafts)
{
    static const char *const pairs[] = {
        "FROM @/target\nDRAFT @/ar\n",
        "FROM @/target\nDRAFT @/dflash\n",
        "FROM @/../speculators/target\nDRAFT @/../speculators/anchored\n",
        "FROM @/../speculators/target\nDRAFT @/../speculators/dflash2\n",
        "FROM @/../speculators/target\nDRAFT @/../speculators/dflash2_anchored\n",
        "FROM @/../speculators/target\nDRAFT @/../speculators/dspark\n",
        "FROM @/../speculators/target\nDRAFT @/../speculators/dspark_anchored\n",
        "FROM @/../speculators/target\nDRAFT @/../speculators/peagle\n",
        "FROM @/../speculators/target\nDRAFT @/../speculators/peagle_sliding\n",
        "FROM @/../speculators/target\nDRAFT @/../speculators/pruned\n",
    };

    for (size_t i = 0; i < N_IDS; i++)
        ids[i] %= 64;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        create_setup(state);
        check_covered(pairs[i]);
        create_teardown(state);
    }
}

/* ---- smoothing ---- */

static struct sp_pack *open_pack(const char *path)
{
    struct sp_pack *pack = NULL;

    assert_ok(sp_pack_open(&pack, path, NULL));
    return pack;
}

/* w[k] = the sum of squares of column k of a matrix. */
static void add_column_squares(double *w, const struct sp_pack *pack, const char *name)
{
    const struct sp_pack_tensor *t = tensor_of(pack, name);
    float row[HIDDEN];

    assert_int_equal(t->shape[1], HIDDEN);
    for (size_t i = 0; i < t->shape[0]; i++) {
        sp_panel_row(row, t->dtype, t->data, HIDDEN, i);
        for (size_t k = 0; k < HIDDEN; k++)
            w[k] += (double)row[k] * (double)row[k];
    }
}

/* The exponents of the first norm are log2 of sqrt(x / w), relative to their mean, rounded, where x
 * and w are the root mean squares of the column's inputs and weights. */
TEST(test_smoothing_equals_the_definition)
{
    const char *file = calibration_target();
    struct sp_pack *pack = open_pack(file), *made = open_pack(calibrate(file));
    double x[HIDDEN], squares[HIDDEN] = {0}, weights[HIDDEN] = {0}, mean = 0;
    struct sp_smoothing smoothing;
    struct sp_json *record = NULL;
    struct sp_text text;
    size_t n_other = 0;

    assert_ok(sp_pack_read_section(made, SP_PART_FILE, SP_SECTION_CALIBRATION, &text, NULL));
    record = keep_parsed(text.at, text.size, SP_JSON_STRICT);
    assert_ok(sp_smoothing_read(&smoothing, sp_json_get(record, "smoothing"), NULL));
    const struct sp_smoothed_norm *norm =
        sp_smoothing_find(&smoothing, "layers.0.input_layernorm.weight");
    assert_non_null(norm);
    assert_int_equal(norm->n, HIDDEN);
    for (size_t i = 0; i < N_IDS; i++) {
        first_input(x, pack, ids[i]);
        for (size_t k = 0; k < HIDDEN; k++)
            squares[k] += x[k] * x[k];
    }
    add_column_squares(weights, pack, "layers.0.self_attn.q_proj.weight");
    add_column_squares(weights, pack, "layers.0.self_attn.k_proj.weight");
    add_column_squares(weights, pack, "layers.0.self_attn.v_proj.weight");
    for (size_t k = 0; k < HIDDEN; k++)
        mean += log2(squares[k] / weights[k]) / 4 / HIDDEN;
    for (size_t k = 0; k < HIDDEN; k++) {
        double e = log2(squares[k] / weights[k]) / 4 - mean;
        assert_true(fabs(e - norm->exponents[k]) < 0.51);
        n_other += norm->exponents[k] != 0;
    }
    assert_true(n_other > 0);
    free(text.at);
    sp_smoothing_release(&smoothing);
    sp_pack_close(pack);
    sp_pack_close(made);
}

/* ---- refusals ---- */

TEST(test_refusals)
{
    const char *file = calibration_target(), *calibration = calibrate(file);
    const char *other = create_path("ar.bin");
    size_t size;
    char *bytes = scratch_read(calibration, &size);

    create_pack(create_modelfile("FROM @/ar\n"), other, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    calibration_assert_refused(file, file, SP_Q4, SP_E_INPUT, "target.bin: not a calibration");
    calibration_assert_refused(file, create_path("missing"), SP_Q4, SP_E_IO, "missing");
    calibration_assert_refused(file, calibration, SP_F32, SP_E_USAGE, "no norm is smoothed");
    calibration_assert_refused(other, calibration, SP_Q4, SP_E_INPUT, "made for another model");
    bytes[5000] = (char)(bytes[5000] ^ 1);
    calibration_assert_refused(file, scratch_write("damaged.bin", bytes, size), SP_Q4, SP_E_INPUT,
                               "does not match its digest");
    calibration_assert_refused(file, scratch_write("short.bin", bytes, size / 2), SP_Q4, SP_E_INPUT,
                               "short.bin");
}

/* Overwrites every value of a bf16 tensor in a safetensors file with `value`. */
static void overwrite(char *bytes, const char *name, uint16_t value)
{
    char *entry = strstr(bytes + 8, name), *offsets;
    unsigned long long first, end;

    assert_non_null(entry);
    offsets = strstr(entry, "\"data_offsets\":[");
    assert_non_null(offsets);
    assert_int_equal(sscanf(offsets, "\"data_offsets\":[%llu,%llu]", &first, &end), 2);
    for (char *at = bytes + 8 + sp_get64((const uint8_t *)bytes); first < end; first += 2)
        memcpy(at + first, &value, sizeof value);
}

/* A model whose activations overflow is refused by calibrate, before the statistics are used. */
TEST(test_overflow)
{
    const char *file = create_path("model.bin"), *modelfile;
    char *bytes, *config, lines[512];
    size_t size, config_size, n_files;
    struct sp_calibration_text text = {ids, 100};
    struct sp_calibration_request request = {
        .size = sizeof request, .texts = &text, .n_texts = 1, .path = create_path("none.bin")};
    struct sp_calibration made = SP_CALIBRATION_INIT;

    for (size_t i = 0; i < N_IDS; i++)
        ids[i] %= 128;
    config = scratch_read(TESTDATA "/families/granite/config.json", &config_size);
    scratch_write("config.json", config, config_size);
    bytes = scratch_read(TESTDATA "/families/granite/model.safetensors", &size);
    overwrite(bytes, "model.layers.1.mlp.up_proj.weight", 0x7f7f); /* 3.4e38 */
    snprintf(lines, sizeof lines, "FROM %s\n", scratch_write("model.safetensors", bytes, size));
    modelfile = create_modelfile(lines);
    create_pack(modelfile, file, SP_DTYPE_NONE, SP_DTYPE_NONE, 2);
    n_files = create_count_files();
    assert_fails_as(
        sp_package_calibrate(keep_package(file, NULL), &request, &made, why), SP_E_INPUT,
        "tensor layers.1.mlp.down_proj.weight: what it reads of the texts is not finite");
    assert_int_equal(create_count_files(), n_files);
}

TEST_FIXTURE(begin, create_teardown);
