/* Tests llama.cpp's importance matrices in place of a calibration: both forms, made here byte by
 * byte, the tensors that their names mean, and what is refused. */
#include "convert/create/calibration.h"
#include "convert/source/source.h"
#include "format/base/bytes.h"
#include "format/ggml_type.h"
#include "format/pack_contents.h"
#include "format/packfile_write.h"
#include "quantize/codec.h"
#include "tests/support/calibration_files.h"
#include "tests/support/create_files.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/made_gguf.h"
#include "tests/support/scratch.h"
#include "tests/support/stored_tensor.h"
#include "tests/support/unit_test.h"

#include <math.h>

enum { HIDDEN = 192, EXPERTS = 4, WIDTH = 64 };

/* ---- files ---- */

struct sums {
    const char *name;              /* llama.cpp's */
    size_t cols, n;                /* of n matrices */
    const float *squares, *counts; /* [n][cols], [n] */
};

static void put_floats(uint8_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sp_put32(out + 4 * i, sp_bits_of_float(x[i]));
}

/* A GGUF file of this general.type with the sums and, if there are any, the counts. */
static const char *write_gguf(const char *type, const struct sums *s)
{
    struct made_gguf m;
    size_t sums_size = 4 * s->n * s->cols, size = sums_size + 32;

    gguf_begin(&m);
    gguf_value_string(&m, "general.type", type);
    gguf_tensor(&m, keep_format("%s.in_sum2", s->name), s->cols, s->n, SP_GGML_F32, 0);
    if (s->counts)
        gguf_tensor(&m, keep_format("%s.counts", s->name), 1, s->n, SP_GGML_F32, sums_size);
    gguf_write(&m, "imatrix.gguf", size);
    put_floats(m.bytes + m.size, s->squares, s->n * s->cols);
    if (s->counts) put_floats(m.bytes + m.size + sums_size, s->counts, s->n);
    return create_keep_path(scratch_write("imatrix.gguf", m.bytes, m.size + size));
}

/* The older form, with `n_values` stated, `times` times, and what newer programs put behind. */
static const char *write_older(const struct sums *s, int32_t n_calls, size_t n_values, int times)
{
    static uint8_t bytes[65536];
    uint8_t *at = bytes;
    size_t len = strlen(s->name), n = s->n * s->cols;

    sp_put32(at, (uint32_t)times);
    at += 4;
    for (int i = 0; i < times; i++) {
        sp_put32(at, (uint32_t)len);
        memcpy(at + 4, s->name, len);
        at += 4 + len;
        sp_put32(at, (uint32_t)n_calls);
        sp_put32(at + 4, (uint32_t)n_values);
        put_floats(at + 8, s->squares, n);
        at += 8 + 4 * n;
    }
    sp_put32(at, 7);
    sp_put32(at + 4, 4);
    memcpy(at + 8, "text", 4);
    return create_keep_path(scratch_write("imatrix.dat", bytes, (size_t)(at + 12 - bytes)));
}

/* A calibration file with squares of the same matrices. */
static const char *write_squares(const char *name, size_t n, size_t cols, const float *squares)
{
    struct sp_pack_tensor t = {.name = name,
                               .part = SP_PART_TARGET,
                               .dtype = SP_F32,
                               .layout = SP_PLAIN,
                               .rank = 2,
                               .shape = {n, cols}};
    const char *path = create_path("squares.bin"), record[] = "{\"block\":1024}";
    struct sp_pack_writer *w = NULL;

    assert_ok(sp_pack_writer_open(&w, path, true, &t, 1, NULL));
    assert_ok(sp_pack_writer_section(w, SP_PART_FILE, SP_SECTION_CALIBRATION, record,
                                     strlen(record), NULL));
    assert_ok(sp_pack_writer_put(w, 0, squares, n * cols * sizeof *squares, NULL));
    assert_ok(sp_pack_writer_finish(w, NULL, NULL));
    sp_pack_writer_close(w);
    return path;
}

static const char *quantize(const char *model, const char *calibration, enum sp_dtype type,
                            const char *name)
{
    const char *out = create_path(name);

    assert_ok(calibration_requantize(model, out, calibration, type, 2, why));
    return out;
}

/* ---- rounding ---- */

/* Sums that favor every fifth column, and their largest. */
static void fill(float *squares, size_t n)
{
    for (size_t i = 0; i < n; i++)
        squares[i] = i % 5 == 2 ? 1024.0f : 1.0f + (float)(i % 7);
}

/* The errors of a matrix of two files, weighed by d[cols]. */
static double weighed_error(const char *path, const char *model, const char *name, const double *d)
{
    const struct sp_pack_tensor *t = sp_pack_find(create_open(path), SP_PART_TARGET, name);
    const struct sp_pack_tensor *from = sp_pack_find(create_open(model), SP_PART_TARGET, name);
    float x[HIDDEN], y[HIDDEN];
    double sum = 0;

    assert_int_equal(t->shape[1], HIDDEN);
    for (size_t row = 0; row < t->shape[0]; row++) {
        sp_panel_row(x, t->dtype, t->data, HIDDEN, row);
        sp_panel_row(y, from->dtype, from->data, HIDDEN, row);
        for (size_t k = 0; k < HIDDEN; k++)
            sum += d[k] * ((double)x[k] - (double)y[k]) * ((double)x[k] - (double)y[k]);
    }
    return sum;
}

/* The weight of a column is its sum of squares and a tenth of the mean. By it the errors become
 * smaller, and by equal weights larger. */
TEST(test_errors_are_weighed_by_the_sums)
{
    static const char name[] = "layers.0.self_attn.q_proj.weight";
    const char *model = calibration_target(), *plain, *weighed;
    float squares[HIDDEN], count = 3;
    double d[HIDDEN], equal[HIDDEN], mean = 0;
    struct sums s = {"blk.0.attn_q.weight", HIDDEN, 1, squares, &count};

    fill(squares, HIDDEN);
    for (size_t k = 0; k < HIDDEN; k++)
        mean += (double)squares[k] / HIDDEN;
    for (size_t k = 0; k < HIDDEN; k++) {
        d[k] = (double)squares[k] + mean / 10;
        equal[k] = 1;
    }
    plain = quantize(model, NULL, SP_Q3, "plain.bin");
    weighed = quantize(model, write_gguf("imatrix", &s), SP_Q3, "weighed.bin");
    assert_true(weighed_error(weighed, model, name, d) <
                0.8 * weighed_error(plain, model, name, d));
    assert_true(weighed_error(weighed, model, name, equal) >
                weighed_error(plain, model, name, equal));
    assert_true(weighed_error(weighed, model, "layers.0.self_attn.k_proj.weight", d) ==
                weighed_error(plain, model, "layers.0.self_attn.k_proj.weight", d));
}

/* Both forms, and a calibration file with the sums divided by 1024, give the same file. */
TEST(test_both_forms_weigh_alike)
{
    const char *model = calibration_target(), *a, *b, *c;
    float squares[HIDDEN], divided[HIDDEN], count = 77;
    struct sums s = {"output.weight", HIDDEN, 1, squares, &count};

    fill(squares, HIDDEN);
    for (size_t k = 0; k < HIDDEN; k++)
        divided[k] = squares[k] / 1024;
    a = quantize(model, write_gguf("imatrix", &s), SP_Q4, "a.bin");
    b = quantize(model, write_older(&s, 5, HIDDEN, 1), SP_Q4, "b.bin");
    c = quantize(model, write_squares("embed_tokens.weight", 1, HIDDEN, divided), SP_Q4, "c.bin");
    assert_same_file(a, c);
    assert_same_file(b, c);
}

/* Each expert has its own sums; one that never ran has none, whatever stands there. */
TEST(test_experts_have_their_own_sums)
{
    static const float counts[EXPERTS] = {4, 9, 0, 1};
    const char *model = create_path("experts.bin"), *a, *b;
    float squares[EXPERTS * WIDTH], seen[EXPERTS * WIDTH];
    struct sums s = {"blk.1.ffn_down_exps.weight", WIDTH, EXPERTS, squares, counts};

    create_pack(create_modelfile("FROM @/../experts\n"), model, SP_F32, SP_DTYPE_NONE, 2);
    fill(squares, EXPERTS * WIDTH);
    for (size_t i = 0; i < EXPERTS * WIDTH; i++)
        seen[i] = counts[i / WIDTH] > 0 ? squares[i] / 1024 : 0;
    a = quantize(model, write_gguf("imatrix", &s), SP_Q4, "a.bin");
    b = quantize(model,
                 write_squares("layers.1.mlp.experts.down_proj.weight", EXPERTS, WIDTH, seen),
                 SP_Q4, "b.bin");
    assert_same_file(a, b);
}

/* ---- names ---- */

/* Reads n sums, 0, 1, 2, ..., of a tensor under a name of llama.cpp. */
static void read_tensor(struct sp_importances *all, const struct sp_source *source,
                        const char *name, size_t n)
{
    float *squares = keep(calloc(n, sizeof *squares));
    struct sums s = {name, n, 1, squares, NULL};
    bool is_one;

    assert_non_null(squares);
    for (size_t i = 0; i < n; i++)
        squares[i] = (float)i;
    assert_case_ok(source->path,
                   sp_importances_read(all, &is_one, write_older(&s, 1, n, 1), source, why));
    assert_true(is_one);
}

/* The canonical matrices that are read from a tensor of the source, in the order of the list. */
static const char *matrices_in(const struct sp_source *source, const char *published)
{
    const char *names = "";

    for (size_t i = 0; i < source->specs.n_specs; i++) {
        const struct sp_tensor_spec *spec = &source->specs.specs[i];
        if (!sp_role_is_matrix(spec->role)) continue;
        if (strcmp(source->specs.spans[spec->first_span].source, published) != 0) continue;
        names = keep_format("%s%s%s", names, *names ? "," : "", spec->name);
    }
    return names;
}

/* The names of llama.cpp mean the matrices that are read from the tensors of these names. */
static void assert_names(const char *file)
{
    struct sp_source *source = keep_source(file);
    size_t n_found = 0;

    for (size_t i = 0; i < source->gguf->n; i++) {
        const struct sp_gguf_weight *w = &source->gguf->weights[i];
        const struct sp_gguf_tensor *t = w->tensor;
        const char *expected = matrices_in(source, w->name), *names;
        struct sp_importances all;
        if (strncmp(t->name, "blk.", 4) != 0 || t->rank < 2) continue;
        if (strstr(t->name, ".attn_kv_b.")) expected = "";
        size_t n = (size_t)t->shape[t->rank - 1] * (t->rank == 3 ? (size_t)t->shape[0] : 1);
        read_tensor(&all, source, t->name, n);
        names = "";
        for (size_t k = 0; k < all.n; k++)
            names = keep_format("%s%s%s", names, k ? "," : "", all.tensors[k].name);
        if (strcmp(names, expected) != 0)
            fail_msg("%s: %s is %s, expected %s", file, t->name, names, expected);
        n_found += *expected != '\0';
        sp_importances_release(&all);
    }
    assert_true(n_found >= 4);
}

TEST(test_names_are_those_of_the_tensors)
{
    size_t n = 0;

    for (const char *const *name = folder_names(TESTDATA "/gguf"); *name; name++) {
        if (strstr(*name, ".gguf") == NULL || strcmp(*name, "bert_reranker.gguf") == 0)
            continue; /* that file lacks a layer and is refused */
        assert_names(keep_format(TESTDATA "/gguf/%s", *name));
        n++;
    }
    assert_true(n > 60);
}

/* llama.cpp tiles the value heads: two for each of three key heads, of four columns. */
TEST(test_columns_get_the_published_order)
{
    static const char *const sources[] = {"families/qwen3_5_bias", "gguf/qwen3_5_bias.gguf"};
    static const float heads[6] = {0, 3, 1, 4, 2, 5};

    for (size_t i = 0; i < 2; i++) {
        struct sp_source *source = keep_source(keep_format(TESTDATA "/%s", sources[i]));
        struct sp_importances all;
        read_tensor(&all, source, "blk.0.ssm_out.weight", 24);
        assert_string_equal(all.tensors->name, "layers.0.linear_attn.out_proj.weight");
        for (size_t k = 0; k < 24; k++)
            assert_true(((const float *)(const void *)all.tensors->data)[k] ==
                        heads[k / 4] * 4 + (float)(k % 4));
        sp_importances_release(&all);
    }
}

/* ---- refusals ---- */

static const char *with(float last, float count, const char *name, size_t cols)
{
    static float squares[2 * HIDDEN];
    struct sums s = {name, cols, 1, squares, count == -2 ? NULL : &count};

    fill(squares, 2 * HIDDEN);
    squares[cols - 1] = last;
    return write_gguf("imatrix", &s);
}

TEST(test_malformed_gguf_is_refused)
{
    static const char q[] = "blk.0.attn_q.weight";
    static const struct {
        const char *name;
        float last, count;
        size_t cols;
        const char *message;
    } cases[] = {
        {q, NAN, 1, HIDDEN, "imatrix.gguf: tensor blk.0.attn_q.weight: sum 191 is "},
        {q, INFINITY, 1, HIDDEN, "imatrix.gguf: tensor blk.0.attn_q.weight: sum 191 is inf"},
        {q, -1, 1, HIDDEN, "imatrix.gguf: tensor blk.0.attn_q.weight: sum 191 is -1"},
        {q, 1, -1, HIDDEN,
         "imatrix.gguf: tensor blk.0.attn_q.weight: sum 0 is 1 with a count of -1"},
        {q, 1, -2, HIDDEN, "expected f32, and as many for each of blk.0.attn_q.weight.counts"},
        {q, 1, 1, 160, "attn_q.weight: made for another model: 160 sums, but layers.0.self_attn"},
        {"blk.9.attn_q.weight", 1, 1, HIDDEN, "tensor blk.9.attn_q.weight: made for another model"},
        {"blk.0.attn_x.weight", 1, 1, HIDDEN, "tensor blk.0.attn_x.weight: made for another model"},
        {"weight", 1, 1, HIDDEN, "tensor weight: made for another model"},
    };
    const char *model = calibration_target();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        calibration_assert_refused(
            model, with(cases[i].last, cases[i].count, cases[i].name, cases[i].cols), SP_Q4,
            SP_E_INPUT, cases[i].message);
    }
}

TEST(test_malformed_older_files_are_refused)
{
    const char *model = calibration_target();
    float squares[HIDDEN] = {0}, count = 1;
    struct sums s = {"blk.0.attn_q.weight", HIDDEN, 1, squares, &count};
    size_t size;

    calibration_assert_refused(model, write_older(&s, 1, HIDDEN + 100, 1), SP_Q4, SP_E_INPUT,
                               "not a calibration file");
    calibration_assert_refused(model, write_older(&s, 1, (size_t)-5, 1), SP_Q4, SP_E_INPUT,
                               "not a calibration file");
    char *bytes = scratch_read(write_older(&s, 1, HIDDEN, 1), &size);
    bytes[0] = 2;
    calibration_assert_refused(model, create_keep_path(scratch_write("imatrix.dat", bytes, size)),
                               SP_Q4, SP_E_INPUT, "imatrix.dat: entry 1 has no name or is cut off");
    calibration_assert_refused(model, write_older(&s, 1, HIDDEN, 2), SP_Q4, SP_E_INPUT,
                               "imatrix.dat: matrix layers.0.self_attn.q_proj.weight occurs twice");
    squares[1] = -1;
    calibration_assert_refused(model, write_older(&s, 1, HIDDEN, 1), SP_Q4, SP_E_INPUT,
                               "imatrix.dat: tensor blk.0.attn_q.weight: sum 1 is -1");
    bytes = scratch_read(write_older(&s, 1, HIDDEN, 1), &size);
    for (size_t n = 0; n < 40; n++) {
        calibration_assert_refused(model, create_keep_path(scratch_write("imatrix.dat", bytes, n)),
                                   SP_Q4, SP_E_INPUT, "not a calibration file");
    }
}

TEST(test_other_files_and_models_are_refused)
{
    const char *model = calibration_target(), *unknown = create_path("unknown.bin");
    float squares[HIDDEN] = {0}, count = 1;
    struct sums s = {"blk.0.attn_q.weight", HIDDEN, 1, squares, &count};

    calibration_assert_refused(model, write_gguf("model", &s), SP_Q4, SP_E_INPUT,
                               "imatrix.gguf: not a calibration file");
    s.name = "v.blk.0.attn_q.weight";
    calibration_assert_refused(model, write_gguf("imatrix", &s), SP_Q4, SP_E_USAGE,
                               "has no effect");
    create_pack(create_modelfile("FROM @/../families/axk2\n"), unknown, SP_DTYPE_NONE,
                SP_DTYPE_NONE, 2);
    calibration_assert_refused(unknown, write_gguf("imatrix", &s), SP_Q4, SP_E_UNSUPPORTED,
                               "llama.cpp's names of the tensors of");
}

TEST_FIXTURE(create_setup, create_teardown);
