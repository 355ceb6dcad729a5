/* Tests quantized weights of handmade checkpoints: the values that are read, against numbers
 * computed by hand, and refusals with their messages. */
#include "convert/source/quantized_weights.h"
#include "format/base/bytes.h"
#include "tests/support/golden.h"
#include "tests/support/scratch.h"
#include "tests/support/unit_test.h"

#include <math.h>

/* A safetensors file under construction. */
struct file_builder {
    char header[4096];
    uint8_t data[4096];
    size_t header_len, size;
};

static void add(struct file_builder *m, const char *name, const char *dtype, const char *shape,
                const void *bytes, size_t size)
{
    m->header_len +=
        (size_t)snprintf(m->header + m->header_len, sizeof m->header - m->header_len,
                         "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                         m->header_len ? "," : "{", name, dtype, shape, m->size, m->size + size);
    assert_true(m->header_len < sizeof m->header - 1 && m->size + size <= sizeof m->data);
    if (bytes) memcpy(m->data + m->size, bytes, size);
    m->size += size;
}

static void add_floats(struct file_builder *m, const char *name, const char *shape, const float *x,
                       size_t n)
{
    uint8_t bytes[256];

    for (size_t i = 0; i < n; i++)
        sp_put32(bytes + 4 * i, sp_bits_of_float(x[i]));
    add(m, name, "F32", shape, bytes, 4 * n);
}

/* An open checkpoint and its quantized weights. */
struct quantized_checkpoint {
    struct sp_safetensors *checkpoint;
    struct sp_quantized_weights weights;
    enum sp_status status;
    struct sp_err err;
};

static struct quantized_checkpoint open_checkpoint(struct file_builder *m,
                                                   const struct sp_prequantized *stated)
{
    static const struct sp_prequantized nothing = {0};
    static uint8_t file[8 + sizeof m->header + sizeof m->data];
    struct quantized_checkpoint o = {0};

    m->header[m->header_len++] = '}';
    sp_put64(file, m->header_len);
    memcpy(file + 8, m->header, m->header_len);
    memcpy(file + 8 + m->header_len, m->data, m->size);
    if (sp_safetensors_open(&o.checkpoint,
                            scratch_write("w.safetensors", file, 8 + m->header_len + m->size), NULL,
                            &o.err))
        fail_msg("%s", o.err.text);
    o.status =
        sp_quantized_weights_open(&o.weights, o.checkpoint, stated ? stated : &nothing, &o.err);
    return o;
}

static void close_checkpoint(struct quantized_checkpoint *o)
{
    sp_quantized_weights_release(&o->weights);
    sp_safetensors_close(o->checkpoint);
}

/* Reads every range of rows in every step size, each from the start and from a workspace that holds
 * other rows. */
static void assert_reads(const struct quantized_checkpoint *o, const char *name, uint64_t rows,
                         const float *want)
{
    const struct sp_weight *w = sp_quantized_weights_find(&o->weights, name);
    struct sp_weight_workspace kept = {0};

    if (w == NULL) fail_msg("no weight %s: %s", name, o->err.text);
    assert_int_equal(w->codes.rows, rows);
    size_t cols = (size_t)w->shape[w->rank - 1];
    for (uint64_t first = 0; first < rows; first++) {
        for (uint64_t step = 1; step < 8; step++) {
            struct sp_weight_workspace fresh = {0};
            uint64_t stride = step / 2 + 1, n = (rows - first + stride - 1) / stride;
            float *out = malloc(rows * cols * sizeof *out);
            assert_ok(sp_weight_read(out, w, first, stride, n, step % 2 ? &fresh : &kept, why));
            for (size_t i = 0; i < n * cols; i++) {
                size_t row = (size_t)(first + i / cols * stride);
                float x = want[row * cols + i % cols];
                if (out[i] != x) {
                    fail_msg("%s: row %zu, column %zu is %g, expected %g", name, row, i % cols,
                             (double)out[i], (double)x);
                }
            }
            free(out);
            sp_weight_workspace_release(&fresh);
        }
    }
    sp_weight_workspace_release(&kept);
}

/* The codes of 1, 2, ... in e4m3. */
static const uint8_t counting[] = {0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50,
                                   0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58};

/* Tiles of 2 x 2 over a matrix of 3 x 5, so the tiles at both edges are partial. */
TEST(fp8_blocks)
{
    static const float scales[] = {1, 10, 100, -1, 2, 0.5f};
    static const float want[] = {1, 2, 30, 40, 500, 6, 7, 80, 90, 1000, -11, -12, 26, 28, 7.5f};
    struct sp_prequantized stated = {.tiles = {{2, 2}}, .n_tiles = 1};
    struct file_builder m = {0};

    add(&m, "a.weight", "F8_E4M3", "3, 5", counting, 15);
    add_floats(&m, "a.weight_scale_inv", "2, 3", scales, 6);
    add(&m, "b.weight", "BF16", "2", NULL, 4);
    add(&m, "a.activation_scale", "F32", "", NULL, 4);
    struct quantized_checkpoint o = open_checkpoint(&m, &stated);
    assert_reads(&o, "a.weight", 3, want);
    assert_int_equal(o.weights.n, 1);
    assert_int_equal(sp_weight_float_type(o.weights.all), SP_F32);
    assert_int_equal(o.weights.all[0].size, 15 + 24);
    assert_null(sp_quantized_weights_find(&o.weights, "b.weight"));
    assert_false(o.weights.taken[0]); /* index 0 in sorted order: the scale of the activations */
    close_checkpoint(&o);
}

/* One scale for the tensor, for each row (in two notations), and for the rows of each expert. */
TEST(fp8_scales)
{
    static const float two[] = {2}, rows[] = {1, -1}, experts[] = {1, 2, 3, 4};
    static const float scalar[] = {2, 4, 6, 8}, channel[] = {1, 2, -3, -4};
    static const float stacked[] = {1, 2, 6, 8, 15, 18, 28, 32};
    struct file_builder m = {0};

    add(&m, "a.weight", "F8_E4M3", "2, 2", counting, 4);
    add_floats(&m, "a.weight_scale", "", two, 1);
    add(&m, "b.weight", "F8_E4M3", "2, 2", counting, 4);
    add_floats(&m, "b.weight_scale", "2", rows, 2);
    add(&m, "c.weight", "F8_E4M3", "2, 2", counting, 4);
    add_floats(&m, "c.weight_scale_inv", "2, 1", rows, 2);
    add(&m, "d.up_proj", "F8_E4M3", "2, 2, 2", counting, 8);
    add_floats(&m, "d.up_proj_scale", "2, 2, 1", experts, 4);
    add(&m, "e.up_proj", "F8_E4M3", "2, 2, 1", counting, 4);
    add_floats(&m, "e.up_proj_scale", "1", two, 1);
    struct quantized_checkpoint o = open_checkpoint(&m, NULL);
    assert_reads(&o, "a.weight", 2, scalar);
    assert_reads(&o, "b.weight", 2, channel);
    assert_reads(&o, "c.weight", 2, channel);
    assert_reads(&o, "d.up_proj", 4, stacked);
    assert_reads(&o, "e.up_proj", 4, scalar);
    close_checkpoint(&o);
}

/* Groups of 2 over 4 columns, with zero points as bytes. */
TEST(int8_groups)
{
    static const uint8_t codes[] = {1, 2, 0xff, 0xfe, 127, 0x80, 5, 6};
    static const uint8_t zeros[] = {1, 0xff, 0, 5};
    static const float scales[] = {1, 2, 0.5f, -1};
    static const float want[] = {0, 1, 0, -2, 63.5f, -64, -0.0f, -1};
    struct sp_prequantized stated = {.tiles = {{1, 2}}, .n_tiles = 1};
    struct file_builder m = {0};

    add(&m, "a.weight", "I8", "2, 4", codes, 8);
    add_floats(&m, "a.weight_scale", "2, 2", scales, 4);
    add(&m, "a.weight_zero_point", "I8", "2, 2", zeros, 4);
    struct quantized_checkpoint o = open_checkpoint(&m, &stated);
    assert_reads(&o, "a.weight", 2, want);
    close_checkpoint(&o);
}

/* Nine columns of 4 bits: the second word of a row holds one. Nine rows: so does the second word of
 * the zero points. */
TEST(packed_words)
{
    static const float scales[] = {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, -1, 3};
    uint8_t words[9 * 8] = {0}, zeros[2 * 8] = {0}, shape[16] = {9, 0, 0, 0, 0, 0, 0, 0, 9};
    float plain[81], shifted[81];
    struct sp_prequantized stated = {.tiles = {{1, 8}, {1, 128}}, .n_tiles = 2};
    struct file_builder m = {0};

    for (unsigned r = 0; r < 9; r++) {
        for (unsigned k = 0; k < 9; k++) {
            unsigned code = (3 * r + k) % 16;
            words[8 * r + k / 2] |= (uint8_t)(code << k % 2 * 4);
            plain[9 * r + k] = ((float)code - 8) * scales[2 * r + k / 8];
            shifted[9 * r + k] = ((float)code - (float)(r + k / 8)) * scales[2 * r + k / 8];
        }
        for (unsigned g = 0; g < 2; g++)
            zeros[8 * (r / 8) + 4 * g + r % 8 / 2] |= (uint8_t)((r + g) << r % 2 * 4);
    }
    add(&m, "a.weight_packed", "I32", "9, 2", words, sizeof words);
    add_floats(&m, "a.weight_scale", "9, 2", scales, 18);
    add(&m, "a.weight_shape", "I64", "2", shape, 16);
    add(&m, "b.weight_packed", "I32", "9, 2", words, sizeof words);
    add_floats(&m, "b.weight_scale", "9, 2", scales, 18);
    add(&m, "b.weight_shape", "I64", "2", shape, 16);
    add(&m, "b.weight_zero_point", "I32", "2, 2", zeros, sizeof zeros);
    struct quantized_checkpoint o = open_checkpoint(&m, &stated);
    assert_reads(&o, "a.weight", 9, plain);
    assert_reads(&o, "b.weight", 9, shifted);
    close_checkpoint(&o);
}

/* The same bytes as words of four 8-bit codes. */
TEST(packed_bytes)
{
    static const uint8_t words[] = {0x80, 0x81, 0x7f, 0x00, 0xff, 0, 0, 0};
    static const uint8_t zeros[] = {0x82, 0, 0, 0}, shape[16] = {1, 0, 0, 0, 0, 0, 0, 0, 5};
    static const float scale[] = {0.5f};
    static const float want[] = {-1, -0.5f, -1.5f, -65, 62.5f};
    struct file_builder m = {0};

    add(&m, "a.weight_packed", "I32", "1, 2", words, 8);
    add_floats(&m, "a.weight_scale", "1, 1", scale, 1);
    add(&m, "a.weight_shape", "I64", "2", shape, 16);
    add(&m, "a.weight_zero_point", "I32", "1, 1", zeros, 4);
    struct quantized_checkpoint o = open_checkpoint(&m, NULL);
    assert_reads(&o, "a.weight", 1, want);
    assert_string_equal(o.weights.all[0].coding, "i8");
    close_checkpoint(&o);
}

/* Two groups of 16 with block scales 2 and 256 and a global scale of 1/4 or 4. The product 3 * 5 /
 * 3 is rounded to bf16. */
TEST(nvfp4)
{
    static const float four[] = {4}, third[] = {3};
    static const uint8_t scales[] = {0x40, 0x78}, odd[] = {0x4a, 0x38};
    uint8_t codes[16];
    float divided[32], multiplied[32], rounded[32];
    struct file_builder m = {0};

    memset(codes, 0xd2, sizeof codes); /* 1, -3 */
    for (size_t k = 0; k < 32; k++) {
        divided[k] = (k % 2 ? -3.0f : 1) * (k < 16 ? 0.5f : 64);
        multiplied[k] = (k % 2 ? -3.0f : 1) * (k < 16 ? 8.0f : 1024);
        rounded[k] = k < 16 ? (k % 2 ? -5.0f : 1.6640625f) : (k % 2 ? -1.0f : 0.333984375f);
    }
    add(&m, "a.weight_packed", "U8", "1, 16", codes, 16);
    add(&m, "a.weight_scale", "F8_E4M3", "1, 2", scales, 2);
    add_floats(&m, "a.weight_global_scale", "1", four, 1);
    add(&m, "b.weight", "U8", "1, 16", codes, 16);
    add(&m, "b.weight_scale", "F8_E4M3", "1, 2", scales, 2);
    add_floats(&m, "b.weight_scale_2", "", four, 1);
    add(&m, "c.weight_packed", "U8", "1, 16", codes, 16);
    add(&m, "c.weight_scale", "F8_E4M3", "1, 2", odd, 2);
    add_floats(&m, "c.weight_global_scale", "1", third, 1);
    struct quantized_checkpoint o = open_checkpoint(&m, NULL);
    assert_reads(&o, "a.weight", 1, divided);
    assert_reads(&o, "b.weight", 1, multiplied);
    assert_reads(&o, "c.weight", 1, rounded);
    assert_int_equal(sp_weight_float_type(o.weights.all), SP_BF16);
    close_checkpoint(&o);
}

/* Two experts of one row of two blocks, as tensors of both ranks. */
TEST(mxfp4)
{
    static const uint8_t scales[] = {127, 128, 126, 0};
    static const float factors[] = {1, 2, 0.5f, 0x1p-127f};
    uint8_t blocks[64];
    float want[128];
    struct file_builder m = {0};

    for (size_t i = 0; i < 64; i++)
        blocks[i] = i % 2 ? 0xf7 : 0x10; /* 6, -6; 0, .5 */
    for (size_t k = 0; k < 128; k++)
        want[k] = (float[]){0, 0.5f, 6, -6}[k % 4] * factors[k / 32];
    add(&m, "e.up_proj_blocks", "U8", "2, 1, 2, 16", blocks, 64);
    add(&m, "e.up_proj_scales", "U8", "2, 1, 2", scales, 4);
    add(&m, "f.up_proj_blocks", "U8", "2, 1, 32", blocks, 64);
    add(&m, "f.up_proj_scales", "U8", "2, 1, 2", scales, 4);
    struct quantized_checkpoint o = open_checkpoint(&m, NULL);
    assert_reads(&o, "e.up_proj_blocks", 2, want);
    assert_reads(&o, "f.up_proj_blocks", 2, want);
    assert_int_equal(sp_weight_float_type(o.weights.all), SP_BF16);
    assert_int_equal(o.weights.all[0].rank, 3);
    assert_int_equal(o.weights.all[0].shape[2], 64);
    close_checkpoint(&o);
}

/* FP8 with the exponents of powers of two as scales, one for 32 columns. */
TEST(mxfp8)
{
    static const uint8_t scales[] = {127, 130};
    uint8_t codes[64];
    float want[64];
    struct file_builder m = {0};

    for (unsigned k = 0; k < 64; k++) {
        unsigned exponent = k / 8;
        float fraction = (float)(k % 8) / 8 + (exponent > 0);
        codes[k] = (uint8_t)k;
        want[k] = ldexpf(fraction, (exponent ? (int)exponent : 1) - 7) * (k < 32 ? 1 : 8);
    }
    add(&m, "a.weight", "F8_E4M3", "1, 64", codes, 64);
    add(&m, "a.weight_scale", "U8", "1, 2", scales, 2);
    struct quantized_checkpoint o = open_checkpoint(&m, NULL);
    assert_reads(&o, "a.weight", 1, want);
    close_checkpoint(&o);
}

/* A scale that is not a number, and one whose product with the global scale is not a number. */
TEST(scales_that_are_not_numbers)
{
    static const uint8_t scales[] = {127, 255};
    static const float bad[] = {1, NAN};
    uint8_t blocks[32] = {0};
    struct sp_weight_workspace ws = {0};
    float out[64];
    struct file_builder m = {0};

    add(&m, "a.weight", "F8_E4M3", "2, 1", counting, 2);
    add_floats(&m, "a.weight_scale", "2, 1", bad, 2);
    add(&m, "e.up_proj_blocks", "U8", "1, 1, 2, 16", blocks, 32);
    add(&m, "e.up_proj_scales", "U8", "1, 1, 2", scales, 2);
    struct quantized_checkpoint o = open_checkpoint(&m, NULL);
    assert_ok(o.status);
    assert_fails_as(
        sp_weight_read(out, sp_quantized_weights_find(&o.weights, "a.weight"), 0, 1, 2, &ws, why),
        SP_E_INPUT,
        "tensor \"a.weight_scale\": the scale of row 1, column 0 is not a finite number");
    assert_fails_as(
        sp_weight_read(out, sp_quantized_weights_find(&o.weights, "e.up_proj_blocks"), 0, 1, 1, &ws,
                       why),
        SP_E_INPUT,
        "tensor \"e.up_proj_scales\": the scale of row 0, column 1 is not a finite number");
    sp_weight_workspace_release(&ws);
    close_checkpoint(&o);
}

/* Tensors of refusals.jsonl, "name dtype shape bytes", filled with zeros. */
TEST(refusals)
{
    struct sp_json *const *line = golden_lines(TESTDATA "/quantized/refusals.jsonl");
    /* Groups of 3, 4 and 5 all divide six columns into two groups. */
    struct sp_prequantized stated = {.tiles = {{1, 3}, {1, 4}, {40, 40}}, .n_tiles = 3};
    size_t n = 0;

    for (; line[n]; n++) {
        const struct sp_json *tensors = sp_json_get(line[n], "tensors");
        struct file_builder m = {0};
        int64_t status;
        for (size_t i = 0; i < sp_json_len(tensors); i++) {
            const char *text = sp_json_to_string(sp_json_at(tensors, i), NULL);
            char name[64], dtype[16], shape[32];
            unsigned size;
            assert_int_equal(sscanf(text, "%63s %15s %31s %u", name, dtype, shape, &size), 4);
            add(&m, name, dtype, shape, NULL, size);
        }
        struct quantized_checkpoint o = open_checkpoint(&m, &stated);
        assert_string_equal(o.err.text, sp_json_get_text(line[n], "message"));
        assert_true(sp_json_to_i64(sp_json_get(line[n], "status"), &status));
        assert_int_equal(o.status, status);
        assert_null(o.weights.all);
        close_checkpoint(&o);
    }
    assert_int_equal(n, 29);
}

/* Tensors that a text model does not use may be stored in any format. */
TEST(unused_tensors_are_ignored)
{
    struct file_builder m = {0};

    add(&m, "vision_tower.a.weight", "F8_E4M3", "2, 2", NULL, 4);
    add(&m, "vision_tower.b.weight_scale", "F32", "1", NULL, 4);
    add(&m, "model.layers.0.self_attn.k_scale", "F32", "1", NULL, 4);
    add(&m, "model.layers.0.self_attn.k_zero_point", "I8", "1", NULL, 1);
    add(&m, "model.layers.0.self_attn.kv_scale", "F32", "1", NULL, 4);
    add(&m, "model.layers.0.self_attn.attn.prob_scale", "F32", "1", NULL, 4);
    add(&m, "model.layers.0.router.per_expert_scale", "BF16", "4", NULL, 8);
    add(&m, "model.layers.0.a.weight", "U8", "4, 1", NULL, 4);
    struct quantized_checkpoint o = open_checkpoint(&m, NULL);
    assert_ok(o.status);
    assert_int_equal(o.weights.n, 0);
    close_checkpoint(&o);
}

/* With 16 rows, zero points of 3 and of 4 bits fill two words; the index tells how many columns
 * there are. */
TEST(bits_by_index)
{
    static const struct sp_prequantized stated = {.layout = SP_QUANT_GPTQ, .bits = 4};
    static const uint8_t zeros[4 * 3 * 16];
    static const float scales[16] = {1};

    for (unsigned with = 0; with < 2; with++) {
        struct file_builder m = {.size = 0};
        const struct sp_weight *w;
        add(&m, "w.qweight", "I32", "3,16", zeros, sizeof zeros);
        add(&m, "w.qzeros", "I32", "1,2", zeros, 8);
        add_floats(&m, "w.scales", "1,16", scales, 16);
        if (with) add(&m, "w.g_idx", "I32", "32", zeros, 128);
        struct quantized_checkpoint o = open_checkpoint(&m, &stated);
        assert_ok(o.status);
        w = sp_quantized_weights_find(&o.weights, "w.weight");
        assert_int_equal(w->codes.bits, with ? 3 : 4);
        assert_int_equal(w->shape[1], with ? 32 : 24);
        close_checkpoint(&o);
    }
}

GROUP_FIXTURE(NULL, scratch_teardown);
