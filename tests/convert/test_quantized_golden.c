/* Weights cut out of checkpoints that other programs wrote, against the numbers that the libraries
 * of their formats give, to the last bit: testdata/quantized, made by
 * tests/oracle/quantized_weights.py. Files in which one tensor is spoiled are refused by name. */
#include "convert/source/quantized_weights.h"
#include "quantize/codec.h"
#include "quantize/types/groupwise.h"
#include "format/base/bytes.h"
#include "tests/support/golden.h"
#include "tests/support/keep.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#define FOLDER TESTDATA "/quantized/"

/* A case: its config, its file, and its weights unless they are refused. */
struct opened {
    struct sp_json *config;
    struct sp_prequantized stated;
    struct sp_safetensors *checkpoint;
    struct sp_quantized_weights weights;
    struct sp_err err;
};

static enum sp_status open_case(struct opened *o, const char *name, const char *path)
{
    memset(o, 0, sizeof *o);
    o->config = golden_json(keep_format(FOLDER "%s.json", name));
    if (sp_prequantized_parse(&o->stated, o->config, &o->err) ||
        sp_safetensors_open(&o->checkpoint, path, NULL, &o->err))
        fail_msg("%s: %s", name, o->err.text);
    return sp_quantized_weights_open(&o->weights, o->checkpoint, &o->stated, &o->err);
}

static void close_case(struct opened *o)
{
    sp_quantized_weights_release(&o->weights);
    sp_safetensors_close(o->checkpoint);
}

static size_t n_kept; /* weights whose codes a type keeps */

/* FNV-1a of the numbers as little-endian f32. */
static unsigned long long digest(const float *x, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++) {
        uint8_t bytes[4];
        sp_put32(bytes, sp_bits_of_float(x[i]));
        for (size_t k = 0; k < 4; k++)
            h = (h ^ bytes[k]) * 0x100000001b3u;
    }
    return h;
}

/* Panels that keep the codes of a weight decode to the same numbers, bit for bit; scales of f32 are
 * rounded to bf16. */
static void check_kept(struct opened *o, const struct sp_weight *w, const float *want)
{
    size_t rows = (size_t)w->codes.rows, cols = (size_t)w->shape[w->rank - 1], size = 0;
    struct sp_weight_workspace ws = {0};
    uint8_t flags, *panel;
    enum sp_dtype dtype = sp_weight_kept(&flags, w);
    float *row = keep(malloc(cols * sizeof *row));

    if (dtype == SP_DTYPE_NONE) return;
    n_kept++;
    assert_true(sp_panel_size(&size, dtype, cols));
    panel = keep(malloc(size));
    for (size_t first = 0; first < rows; first += SP_PANEL_ROWS) {
        sp_group_panel_init(panel, dtype, cols, flags);
        for (size_t lane = 0; lane < SP_PANEL_ROWS && first + lane < rows; lane++) {
            assert_ok(sp_weight_put_row(panel, lane, w, first + lane, &ws, &o->err));
            sp_panel_row(row, dtype, panel, cols, lane);
            if (w->scale_type != SP_F32)
                assert_memory_equal(row, want + (first + lane) * cols, cols * sizeof *row);
            for (size_t k = 0; k < cols; k++)
                assert_float_equal(row[k], want[(first + lane) * cols + k], 1e-3);
        }
    }
    sp_weight_workspace_release(&ws);
}

static void check_case(const char *name, const char *weight, size_t rows, size_t cols,
                       unsigned long long want)
{
    struct opened o;

    if (open_case(&o, name, keep_format(FOLDER "%s.safetensors", name)))
        fail_msg("%s: %s", name, o.err.text);
    const struct sp_weight *w = sp_quantized_weights_find(&o.weights, weight);
    if (w == NULL) fail_msg("%s: no weight %s", name, weight);
    assert_int_equal(w->codes.rows, rows);
    assert_int_equal(w->shape[w->rank - 1], cols);
    for (size_t n = 1; n <= rows; n = n == 1 ? 7 : n == 7 ? rows : rows + 1) {
        struct sp_weight_workspace ws = {0};
        float *out = keep(malloc(rows * cols * sizeof *out));
        for (size_t first = 0; first < rows; first += n) {
            size_t m = rows - first < n ? rows - first : n;
            if (sp_weight_read(out + first * cols, w, first, 1, m, &ws, &o.err))
                fail_msg("%s: %s", name, o.err.text);
        }
        if (digest(out, rows * cols) != want) fail_msg("%s: other numbers, read by %zu", name, n);
        sp_weight_workspace_release(&ws);
        if (n == 1) check_kept(&o, w, out);
    }
    close_case(&o);
}

TEST(golden)
{
    size_t size, n = 0;
    char *text = scratch_read(FOLDER "golden.txt", &size), *line, *rest;

    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
        char name[64], weight[128];
        unsigned long long want;
        size_t rows, cols;
        assert_int_equal(sscanf(line, "%63s %127s %zu %zu %llx", name, weight, &rows, &cols, &want),
                         5);
        check_case(name, weight, rows, cols, want);
    }
    assert_true(n >= 30 && n_kept >= 12);
}

/* ---- spoiled files ---- */

/* A change of a header: every `from` becomes `to`, of the same length. Or of the bytes of a tensor,
 * whose first 32-bit word becomes `word`. */
static const struct {
    const char *name, *from, *to, *tensor;
    uint32_t word;
    const char *sentence; /* a part of it */
} spoiled[] = {
    {"gptq_4", ".qzeros", ".rzeros", NULL, 0, "without their zero points"},
    {"gptq_4", ".scales", ".tcales", NULL, 0, "without their scales"},
    {"gptq_4", ".qweight", ".rweight", NULL, 0, "belongs to a quantized weight that is missing"},
    {"gptq_4", "[16,64]", "[64,16]", NULL, 0, "which is not 2, 3, 4 or 8 bits for each"},
    {"gptq_4", "[4,64]", "[64,4]", NULL, 0, "has shape [64, 4], expected [4, 64]"},
    {"gptq_4_desc_act", NULL, NULL, "g_idx", 4, "column 0 is in group 4, and there are 4 groups"},
    {"gptq_4_desc_act", NULL, NULL, "g_idx", UINT32_MAX,
     "column 0 is in group -1, and there are 4"},
    {"gptq_4_desc_act", "\"I32\",\"shape\":[128]", "\"F32\",\"shape\":[128]", NULL, 0,
     "does not have 128 numbers of type i32"},
    {"awq_gemm", "[1,8]", "[8,1]", NULL, 0, "has shape [8, 1], expected [8, 8]"},
    {"awq_gemv", "[64,16]", "[16,64]", NULL, 0, "has shape [64, 2], expected [16, 2]"},
    {"mlx_affine4", ".biases", ".ciases", NULL, 0, "without their biases"},
    {"mlx_affine4", ".scales", ".tcales", NULL, 0, "belongs to a quantized weight that is"},
    {"mlx_affine4", "U32", "I32", NULL, 0, "has scales, but is not a matrix of type u32"},
    {"mlx_mxfp4", "\"U8\",\"shape\":[64,4]", "\"I8\",\"shape\":[64,4]", NULL, 0,
     "scales of type i8"},
    {"mlx_mxfp4", "[64,4]", "[4,64]", NULL, 0, "has shape [4, 64], expected [64, 4]"},
    {"bnb_nf4", ".absmax", ".bbsmax", NULL, 0, "without its part"},
    {"bnb_nf4", ".quant_map", ".quant_nap", NULL, 0, "without its part"},
    {"bnb_nf4", NULL, NULL, "nf4", 0x5b5b5b5b, "quant_state.bitsandbytes__nf4\""},
    {"bnb_nf4_nested", ".nested_absmax", ".nested_absmay", NULL, 0, "without its part"},
    {"bnb_int8", ".SCB", ".SCC", NULL, 0, "without their scales"},
    {"bitnet_bitlinear", "weight_scale", "weight_scala", NULL, 0, "without its scale"},
    {"ct_int4_actorder", "_g_idx", "_g_idy", NULL, 0, "without the groups of its columns"},
    {"ct_int4_actorder", NULL, NULL, "g_idx", 4, "column 0 is in group 4, and there are 4 groups"},
};

static void spoil(uint8_t *file, size_t size, size_t i)
{
    size_t header = (size_t)sp_get64(file), len = spoiled[i].from ? strlen(spoiled[i].from) : 0;
    char *text = keep(malloc(header + 1)), *at;

    memcpy(text, file + 8, header);
    text[header] = 0;
    if (spoiled[i].tensor) {
        unsigned long begin;
        at = strstr(text, spoiled[i].tensor);
        assert_non_null(at);
        at = strstr(at, "data_offsets\":[");
        assert_int_equal(sscanf(at, "data_offsets\":[%lu", &begin), 1);
        assert_true(8 + header + begin + 4 <= size);
        sp_put32(file + 8 + header + begin, spoiled[i].word);
    }
    for (at = text; len && (at = strstr(at, spoiled[i].from)) != NULL; at += len)
        memcpy(file + 8 + (at - text), spoiled[i].to, len);
}

TEST(refusals)
{
    for (size_t i = 0; i < sizeof spoiled / sizeof spoiled[0]; i++) {
        size_t size;
        struct opened o;
        uint8_t *file =
            (uint8_t *)scratch_read(keep_format(FOLDER "%s.safetensors", spoiled[i].name), &size);
        spoil(file, size, i);
        if (open_case(&o, spoiled[i].name, scratch_write("w.safetensors", file, size)) == SP_OK ||
            strstr(o.err.text, spoiled[i].sentence) == NULL) {
            fail_msg("%s, case %zu: \"%s\", expected \"%s\"", spoiled[i].name, i, o.err.text,
                     spoiled[i].sentence);
        }
        assert_null(o.weights.all);
        close_case(&o);
    }
}

/* Scales that are no numbers are found when they are read. */
TEST(scales_that_are_no_numbers)
{
    static const struct {
        const char *name, *tensor, *sentence;
    } cases[] = {
        {"gptq_4", ".scales", "the scale of row 0, column 0 is not a finite number"},
        {"mlx_affine4", ".biases", "the bias of row 0, column 0 is not a finite number"},
        {"bnb_nf4", ".absmax", "the scale of row 0, column 0 is not a finite number"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_weight_workspace ws = {0};
        char path[512], *at;
        unsigned long begin;
        struct opened o;
        size_t size, header;
        float *out;
        snprintf(path, sizeof path, FOLDER "%s.safetensors", cases[i].name);
        uint8_t *file = (uint8_t *)scratch_read(path, &size);
        header = (size_t)sp_get64(file);
        at = strstr(strstr((char *)file + 8, cases[i].tensor), "data_offsets\":[");
        assert_int_equal(sscanf(at, "data_offsets\":[%lu", &begin), 1);
        sp_put32(file + 8 + header + begin, 0x7fc07fc0 | 0x7c007c00);
        assert_ok(open_case(&o, cases[i].name, scratch_write("w.safetensors", file, size)));
        out = keep(malloc(o.weights.all->codes.rows * 1024 * sizeof *out));
        assert_int_equal(sp_weight_read(out, o.weights.all, 0, 1, 1, &ws, &o.err), SP_E_INPUT);
        if (strstr(o.err.text, cases[i].sentence) == NULL) fail_msg("\"%s\"", o.err.text);
        sp_weight_workspace_release(&ws);
        close_case(&o);
    }
}

static int begin_all(void **state)
{
    (void)state;
    scratch_folder();
    return 0;
}

GROUP_FIXTURE(begin_all, scratch_teardown);

/* The config states zero points, and the file has none. */
TEST(stated_zeros_are_needed)
{
    size_t size;
    char *config = scratch_read(FOLDER "ct_int8_packed.json", &size);
    char *at = strstr(config, "\"symmetric\": true");
    struct opened o = {0};

    assert_non_null(at);
    memcpy(at, "\"symmetric\":false", 17);
    o.config = golden_json(scratch_write("config.json", config, size));
    assert_ok(sp_prequantized_parse(&o.stated, o.config, why));
    assert_ok(sp_safetensors_open(&o.checkpoint, FOLDER "ct_int8_packed.safetensors", NULL, why));
    assert_fails(sp_quantized_weights_open(&o.weights, o.checkpoint, &o.stated, why), SP_E_INPUT,
                 "without their zero points \"model.layers.0.");
    close_case(&o);
}
