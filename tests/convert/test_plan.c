/* Tests sources and plans: rows read through every kind of span, against values that follow from
 * their position, and the plans of the tiny models. */
#include "convert/create/plan.h"
#include "convert/source/source.h"
#include "format/base/bytes.h"
#include "format/pack_contents.h"
#include "format/safetensors.h"
#include "quantize/types/float_cast.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#define TINY TESTDATA "/tiny"

/* ---- rows of a handmade checkpoint; each element's value is its index in its tensor ---- */

static const char header[] =
    "{\"fused\":{\"dtype\":\"BF16\",\"shape\":[6,4],\"data_offsets\":[0,48]},"
    "\"gate_up\":{\"dtype\":\"F32\",\"shape\":[2,4,6],\"data_offsets\":[48,240]},"
    "\"gate_up_bias\":{\"dtype\":\"F16\",\"shape\":[2,6],\"data_offsets\":[240,264]},"
    "\"strided\":{\"dtype\":\"F64\",\"shape\":[8,5],\"data_offsets\":[264,584]},"
    "\"e0\":{\"dtype\":\"BF16\",\"shape\":[2,4],\"data_offsets\":[584,600]},"
    "\"e1\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[600,632]},"
    "\"codes\":{\"dtype\":\"I8\",\"shape\":[2,4],\"data_offsets\":[632,640]}}";

static const struct sp_row_span spans[] = {
    {"fused", 3, 1, 2, 4, false, 0},  /* 0: rows 3, 4 */
    {"gate_up", 1, 2, 6, 4, true, 0}, /* 1: odd rows of [2, 6 rows, 4 cols] stored transposed */
    {"gate_up_bias", 0, 2, 6, 1, false, 0}, /* 2: even elements */
    {"strided", 1, 3, 3, 5, false, 0},      /* 3: rows 1, 4, 7 */
    {"e0", 0, 1, 2, 4, false, 0},           /* 4, 5: stacked, of different types */
    {"e1", 0, 1, 2, 4, false, 0},
    {"fused", 0, 1, 2, 4, false, 0}, /* 6, 7: rows 0, 1, then 5 */
    {"fused", 5, 1, 1, 4, false, 0},
    {"codes", 0, 1, 2, 4, false, 0},   /* 8 */
    {"gate_up", 0, 1, 12, 3, true, 4}, /* 9: of each four rows of 6, three, as columns */
};

static const struct sp_tensor_spec specs[] = {
    {"run", SP_ROLE_ATTENTION, 2, {2, 4}, 0, 1},  {"transposed", SP_ROLE_MLP, 3, {2, 3, 4}, 1, 1},
    {"bias", SP_ROLE_BIAS, 2, {2, 3}, 2, 1},      {"strided", SP_ROLE_MLP, 2, {3, 5}, 3, 1},
    {"stacked", SP_ROLE_MLP, 3, {2, 2, 4}, 4, 2}, {"joined", SP_ROLE_MLP, 2, {3, 4}, 6, 2},
    {"codes", SP_ROLE_MLP, 2, {2, 4}, 8, 1},      {"parted", SP_ROLE_MLP, 3, {2, 6, 3}, 9, 1},
};
enum { RUN, TRANSPOSED, BIAS, STRIDED, STACKED, JOINED, CODES, STRIDED_COLUMNS };

static void write_numbers(uint8_t *p, enum sp_dtype dtype, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double d = (double)i;
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        if (dtype == SP_BF16) sp_put16(p + 2 * i, sp_bf16_of_f32((float)i));
        if (dtype == SP_F16) sp_put16(p + 2 * i, sp_f16_of_f32((float)i));
        if (dtype == SP_F32) sp_put32(p + 4 * i, sp_bits_of_float((float)i));
        if (dtype == SP_F64) sp_put64(p + 8 * i, bits);
    }
}

static struct sp_source handmade_source(void)
{
    static uint8_t bytes[8 + sizeof header - 1 + 640];
    uint8_t *data = bytes + 8 + sizeof header - 1;
    struct sp_source source = {0};

    sp_put64(bytes, sizeof header - 1);
    memcpy(bytes + 8, header, sizeof header - 1);
    write_numbers(data, SP_BF16, 24);
    write_numbers(data + 48, SP_F32, 48);
    write_numbers(data + 240, SP_F16, 12);
    write_numbers(data + 264, SP_F64, 40);
    write_numbers(data + 584, SP_BF16, 8);
    write_numbers(data + 600, SP_F32, 8);
    assert_ok(sp_safetensors_open(&source.checkpoint,
                                  scratch_write("x.safetensors", bytes, sizeof bytes), NULL, why));
    source.specs.specs = malloc(sizeof specs);
    source.specs.spans = malloc(sizeof spans);
    memcpy(source.specs.specs, specs, sizeof specs);
    memcpy(source.specs.spans, spans, sizeof spans);
    source.specs.n_specs = sizeof specs / sizeof specs[0];
    source.specs.n_spans = sizeof spans / sizeof spans[0];
    source.path = strdup("handmade");
    return source;
}

/* The expected elements of a matrix, row by row. */
struct expected {
    int spec;
    size_t rows, cols;
    float values[36];
};

static const struct expected matrices[] = {
    {RUN, 2, 4, {12, 13, 14, 15, 16, 17, 18, 19}},
    /* element (expert e, row r, column k) of the file is number 24 e + 6 k + r */
    {TRANSPOSED, 6, 4, {1,  7,  13, 19, 3,  9,  15, 21, 5,  11, 17, 23,
                        25, 31, 37, 43, 27, 33, 39, 45, 29, 35, 41, 47}},
    {STRIDED_COLUMNS, 12, 3, {0,  6,  12, 1,  7,  13, 2,  8,  14, 3,  9,  15,
                              4,  10, 16, 5,  11, 17, 24, 30, 36, 25, 31, 37,
                              26, 32, 38, 27, 33, 39, 28, 34, 40, 29, 35, 41}},
    {STRIDED, 3, 5, {5, 6, 7, 8, 9, 20, 21, 22, 23, 24, 35, 36, 37, 38, 39}},
    {STACKED, 4, 4, {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7}},
    {JOINED, 3, 4, {0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23}},
};

/* Reads every range of rows with scratch buffers of several sizes, down to one row of the widest
 * type. */
TEST(test_rows_of_every_kind_of_span)
{
    static const size_t sizes[] = {40, 41, 64, 96, 1 << 16};
    struct sp_source source = handmade_source();

    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct sp_scratch scratch = {0};
        assert_ok(sp_scratch_open(&scratch, sizes[s], NULL));
        for (size_t m = 0; m < sizeof matrices / sizeof matrices[0]; m++) {
            const struct expected *x = &matrices[m];
            for (size_t first = 0; first < x->rows; first++) {
                for (size_t n = 1; n <= x->rows - first; n++) {
                    float *got = malloc(n * x->cols * sizeof *got);
                    assert_ok(sp_source_read_rows(got, &source, &source.specs.specs[x->spec], first,
                                                  n, &scratch, NULL));
                    assert_memory_equal(got, x->values + first * x->cols,
                                        n * x->cols * sizeof *got);
                    free(got);
                }
            }
        }
        sp_scratch_release(&scratch);
    }
    sp_source_release(&source);
}

TEST(test_elements_of_a_vector)
{
    static const float want[] = {0, 2, 4, 6, 8, 10};
    struct sp_source source = handmade_source();

    for (size_t size = 2; size < 64; size += 3) {
        struct sp_scratch scratch = {0};
        float got[6];
        assert_ok(sp_scratch_open(&scratch, size, NULL));
        assert_ok(sp_source_read_rows(got, &source, &source.specs.specs[BIAS], 0, SP_ALL_ROWS,
                                      &scratch, NULL));
        assert_memory_equal(got, want, sizeof want);
        sp_scratch_release(&scratch);
    }
    sp_source_release(&source);
}

TEST(test_stored_types)
{
    static const enum sp_dtype types[] = {SP_BF16, SP_F32, SP_F16, SP_F64, SP_F32, SP_BF16, SP_I8};
    static const uint64_t bytes[] = {16, 96, 12, 120, 48, 24, 8};
    struct sp_source source = handmade_source();
    struct sp_policy_request keep = {0};
    struct sp_plan plan = {0};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct sp_stored stored;
        assert_ok(sp_source_stored(&stored, &source, &source.specs.specs[i], NULL));
        assert_int_equal(stored.dtype, types[i]);
        assert_int_equal(stored.size, bytes[i]);
    }
    assert_fails(sp_plan_add(&plan, &source, SP_PART_TARGET, &keep, NULL, false, why),
                 SP_E_UNSUPPORTED, "handmade: tensor codes");
    sp_plan_release(&plan);
    sp_source_release(&source);
}

/* ---- plans of the tiny models ---- */

struct expected_plan {
    enum sp_dtype type, output_type;
    const char *tensor;
    enum sp_dtype to;
    enum sp_layout layout;
};

static const struct expected_plan expected_plan[] = {
    {0, 0, "embed_tokens.weight", SP_BF16, SP_PANEL},
    {0, 0, "norm.weight", SP_BF16, SP_PLAIN},
    {SP_Q4, 0, "layers.0.mlp.up_proj.weight", SP_Q4, SP_PANEL},
    {SP_Q4, 0, "layers.0.self_attn.q_norm.weight", SP_BF16, SP_PLAIN},
    {SP_Q4, 0, "embed_tokens.weight", SP_Q8, SP_PANEL},
    {SP_Q4, SP_Q4, "embed_tokens.weight", SP_Q4, SP_PANEL},
    {SP_Q2, 0, "layers.0.mlp.up_proj.weight", SP_Q2, SP_PANEL},
    {SP_Q3, 0, "embed_tokens.weight", SP_Q6, SP_PANEL},
    {SP_Q5, SP_Q3, "embed_tokens.weight", SP_Q3, SP_PANEL},
    {SP_Q8, SP_BF16, "embed_tokens.weight", SP_BF16, SP_PANEL},
    {SP_F32, 0, "layers.0.mlp.up_proj.weight", SP_F32, SP_PANEL},
};

TEST(test_plans)
{
    struct sp_source source;

    assert_ok(sp_source_open(&source, TINY "/ar", SP_PART_TARGET, NULL, NULL));
    for (size_t i = 0; i < sizeof expected_plan / sizeof expected_plan[0]; i++) {
        const struct expected_plan *p = &expected_plan[i];
        struct sp_policy_request request = {.type = p->type, .output_type = p->output_type};
        struct sp_plan plan = {0};
        bool found = false;
        assert_ok(sp_plan_add(&plan, &source, SP_PART_TARGET, &request, NULL, false, NULL));
        assert_int_equal(plan.n_items, 13);
        for (size_t k = 0; k < plan.n_items; k++) {
            const struct sp_plan_item *item = &plan.items[k];
            size_t size;
            if (k) assert_true(strcmp(item[-1].spec->name, item->spec->name) < 0);
            assert_true(
                sp_tensor_size(&size, item->to, item->layout, item->spec->shape, item->spec->rank));
            assert_int_equal(item->size, size);
            assert_int_equal(item->source_size, 2 * sp_spec_elements(item->spec));
            assert_null(item->bytes);
            if (strcmp(item->spec->name, p->tensor) != 0) continue;
            found = true;
            assert_int_equal(item->to, p->to);
            assert_int_equal(item->layout, p->layout);
        }
        assert_true(found);
        sp_plan_release(&plan);
    }
    sp_source_release(&source);
}

TEST(test_printed_lines)
{
    struct sp_policy_request request = {.type = SP_Q8};
    struct sp_source source;
    struct sp_plan plan = {0};
    char *text = NULL;
    static const char expected[] = "part    tensor                                  \tshape        "
                                   "from  to     bytes  rule\n"
                                   "draft   embed_tokens.weight                     \t[1600, 128]  "
                                   "bf16  q8    217600  requested\n";

    assert_ok(sp_source_open(&source, TINY "/ar", SP_PART_DRAFT, NULL, NULL));
    assert_ok(sp_plan_add(&plan, &source, SP_PART_DRAFT, &request, NULL, false, NULL));
    assert_ok(sp_plan_print(&text, &plan, NULL));
    assert_memory_equal(text, expected, sizeof expected - 1);
    free(text);
    sp_plan_release(&plan);
    sp_source_release(&source);
}

TEST(test_non_sources_are_refused)
{
    struct sp_source source;

    assert_fails(
        sp_source_open(&source, scratch_write("x.safetensors", "", 0), SP_PART_TARGET, NULL, why),
        SP_E_INPUT, "config.json is missing in its folder");
    assert_null(source.path);
    assert_fails(sp_source_open(&source, scratch_write("x.bin", "\x89SPK\r\n\x1A\n", 8),
                                SP_PART_TARGET, NULL, why),
                 SP_E_INPUT, "shorter than a packed file's first page");
}

TEST_FIXTURE(NULL, scratch_teardown);
