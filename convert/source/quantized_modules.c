/* Weights of a module P that are stored as several tensors of P: by MLX, GPTQ, AWQ and
 * bitsandbytes. N rows, K columns, groups of columns that share a scale. */
#include "convert/source/quantized_match.h"

#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "format/json/json.h"

#include <stdlib.h>
#include <string.h>

/* What a plan shows, by the bits of codes. */
static const char *const codings[9] = {
    [2] = "i2", [3] = "i3", [4] = "i4", [5] = "i5", [6] = "i6", [8] = "i8"};

/* ---- the group of each column ---- */

/* Old versions of compressed-tensors write an index of -1 where there is none. */
enum sp_status sp_match_index(struct sp_weight_match *m, struct sp_weight *w)
{
    const struct sp_safetensor *t = w->index;
    uint64_t cols = w->shape[w->rank - 1], group = 0;
    bool regular = true, none = true;
    uint8_t *bytes = NULL;
    enum sp_status st = SP_OK;

    if (t == NULL) return SP_OK;
    if (t->dtype != SP_I32 || t->rank != 1 || t->shape[0] != cols || w->rank != 2) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" does not have %llu numbers of type i32",
                       t->name, (unsigned long long)cols);
    }
    if ((st = sp_new(&bytes, (size_t)t->size, 1, m->err))) return st;
    if ((st = sp_safetensors_read(t, 0, (size_t)t->size, bytes, m->err))) goto done;
    for (uint64_t k = 0; k < cols; k++)
        none = none && sp_get32(bytes + 4 * k) == UINT32_MAX;
    for (uint64_t k = 0; !none && k < cols; k++) {
        uint32_t g = sp_get32(bytes + 4 * k);
        if (g >= w->grid_cols) {
            st = sp_fail(m->err, SP_E_INPUT,
                         "tensor \"%s\": column %llu is in group %lld, and there are %llu groups",
                         t->name, (unsigned long long)k, (long long)(int32_t)g,
                         (unsigned long long)w->grid_cols);
            goto done;
        }
        if (g && group == 0) group = k;
        regular = regular && g == (group ? k / group : 0);
    }
    if (none && w->grid_cols > 1 && (st = sp_match_fit_tile(m, w, 0))) goto done;
    if (regular) {
        if (!none) w->tile = (struct sp_tile){1, group ? group : cols};
        sp_match_take(m, t);
        w->index = NULL;
    }
done:
    free(bytes);
    return st;
}

/* ---- GPTQ and AWQ ---- */

/* Whether codes of so many bits fit the width of the zero points and the length of the index. */
static bool bits_fit(unsigned bits, const struct sp_safetensor *t,
                     const struct sp_safetensor *zeros, const struct sp_safetensor *index)
{
    if (sp_divide_up(t->shape[1] * bits, 32) != zeros->shape[1]) return false;
    return index == NULL || index->rank != 1 || t->shape[0] * 32 / bits == index->shape[0];
}

/* The bits of a GPTQ weight by its shapes; the stated ones where the shapes leave it open. 0: none
 * fit. */
static unsigned find_bits(const struct sp_weight_match *m, const struct sp_safetensor *t,
                          const struct sp_safetensor *zeros, const struct sp_safetensor *index)
{
    static const unsigned all[] = {2, 3, 4, 8};
    unsigned found = 0;

    if (m->stated->bits && bits_fit(m->stated->bits, t, zeros, index)) return m->stated->bits;
    for (size_t i = 0; i < 4; i++)
        if (bits_fit(all[i], t, zeros, index)) found = all[i];
    return found || index == NULL ? found : find_bits(m, t, zeros, NULL); /* refused later */
}

static enum sp_status check_words(struct sp_weight_match *m, const struct sp_safetensor *t)
{
    if (t->dtype == SP_I32 && t->rank == 2 && t->shape[0] > 0 && t->shape[1] > 0) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" is not a matrix of type i32", t->name);
}

/* Of GPTQ's weights. The stored zero points are one less than the real ones. GPTQModel subtracts
 * the one from whole words, where a field of 0 borrows from its neighbor; with 3 bits it works
 * field by field. */
static enum sp_status set_bits(struct sp_weight_match *m, struct sp_weight *w,
                               const struct sp_safetensor *zeros)
{
    static const uint32_t ones[9] = {[2] = 0x55555555, [4] = 0x11111111, [8] = 0x01010101};
    unsigned bits = find_bits(m, w->codes.tensor, zeros, w->index);

    if (bits == 0) {
        return sp_fail(m->err, SP_E_INPUT,
                       "tensor \"%s\": %llu words for %llu zero points, which is not 2, 3, 4 or 8 "
                       "bits for each",
                       zeros->name, (unsigned long long)zeros->shape[1],
                       (unsigned long long)w->codes.tensor->shape[1]);
    }
    w->codes.bits = bits;
    w->coding = codings[bits];
    w->zero_codes.word_offset = m->stated->zeros_less_one ? ones[bits] : 0;
    w->zeros_wrap = m->stated->zeros_less_one && bits == 3;
    return SP_OK;
}

/* The groups of a weight whose grid has a column for each. */
static enum sp_status fit_groups(struct sp_weight_match *m, struct sp_weight *w, uint64_t group,
                                 const struct sp_safetensor *zeros)
{
    if (group == 0 && w->index == NULL) return sp_match_fit_tile(m, w, 0);
    w->tile = (struct sp_tile){1, group ? group : w->shape[1]};
    if (group == 0 || w->grid_cols <= w->scale_pitch) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\": zero points of %llu groups, expected %llu",
                   zeros->name, (unsigned long long)w->scale_pitch,
                   (unsigned long long)w->grid_cols);
}

/* The matrices of words, qweight and qzeros, and the scales:
 *
 *   GPTQ  [K * bits / 32, N] packed down, [groups, N * bits / 32], [groups, N]
 *   AWQ   [K, N / 8], [groups, N / 8], [groups, N]
 *   gemv  [N, K / 8], [N, words], [N, 8 * words]: the groups beyond those of K are padding */
static enum sp_status shape_words(struct sp_weight_match *m, struct sp_weight *w,
                                  const struct sp_safetensor *zeros)
{
    const struct sp_safetensor *t = w->codes.tensor;
    bool awq = m->stated->layout == SP_QUANT_AWQ, gemv = m->stated->layout == SP_QUANT_AWQ_V;
    uint64_t group = 0;
    enum sp_status st = awq || gemv ? SP_OK : set_bits(m, w, zeros);

    if (st) return st;
    w->shape[0] = awq ? t->shape[1] * 8 : t->shape[gemv ? 0 : 1];
    w->shape[1] = gemv ? t->shape[1] * 8 : awq ? t->shape[0] : t->shape[0] * 32 / w->codes.bits;
    if (gemv) group = m->stated->n_tiles ? m->stated->tiles[0].cols : w->shape[1];
    w->codes.packing = awq ? SP_PACK_AWQ : gemv ? SP_PACK_ALONG : SP_PACK_DOWN;
    w->codes.transposed = w->scales_transposed = !gemv;
    w->codes.pitch = t->shape[1] * 32;
    w->codes.rows = w->grid_rows = w->shape[0];
    w->codes.cols = w->shape[1];
    w->grid_cols = gemv ? sp_divide_up(w->shape[1], group) : zeros->shape[0];
    w->scale_pitch = gemv ? zeros->shape[1] * 8 : w->shape[0];
    w->zero_codes.tensor = zeros;
    w->zero_codes.packing = awq ? SP_PACK_AWQ : SP_PACK_ALONG;
    w->zero_codes.transposed = !gemv;
    w->zero_codes.bits = w->codes.bits;
    w->zero_codes.rows = w->shape[0];
    w->zero_codes.cols = w->grid_cols;
    w->zero_codes.pitch = zeros->shape[1] * 32;
    if (awq && (st = sp_match_shape(m, zeros, w->grid_cols, t->shape[1]))) return st;
    if (gemv && (st = sp_match_shape(m, zeros, w->shape[0], zeros->shape[1]))) return st;
    st = sp_match_shape(m, w->scales, gemv ? w->shape[0] : w->grid_cols, w->scale_pitch);
    return st ? st : fit_groups(m, w, group, zeros);
}

enum sp_status sp_match_words(struct sp_weight_match *m, const struct sp_safetensor *t)
{
    struct sp_weight w = {
        .codes = {.tensor = t, .bits = 4}, .rank = 2, .coding = "i4", .code = SP_CODE_UNSIGNED};
    const struct sp_safetensor *zeros;
    enum sp_status st;
    size_t base;

    if (!sp_name_ends_with(t->name, ".qweight", &base)) return SP_OK;
    if ((st = sp_match_need(&zeros, m, t, base, "their zero points", ".qzeros"))) return st;
    if ((st = sp_match_need(&w.scales, m, t, base, "their scales", ".scales"))) return st;
    if ((st = check_words(m, t))) return st;
    if ((st = check_words(m, zeros))) return st;
    w.scale_type = w.scales->dtype;
    if (!sp_dtype_is_float(w.scale_type)) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": scales of type %s", w.scales->name,
                       sp_dtype_info(w.scale_type)->name);
    }
    if (m->stated->layout == SP_QUANT_GPTQ) w.index = sp_match_find(m, t->name, base, ".g_idx");
    if ((st = shape_words(m, &w, zeros)) || (st = sp_match_index(m, &w))) return st;
    return sp_match_add(m, w, t->name, base, ".weight");
}

/* ---- MLX ---- */

static enum sp_status check_mlx(struct sp_weight_match *m, struct sp_weight *w,
                                const struct sp_mlx_format *format)
{
    const struct sp_safetensor *t = w->codes.tensor, *const parts[] = {w->scales, w->zeros};
    char have[SP_SHAPE_TEXT], want[SP_SHAPE_TEXT];
    uint64_t bits = t->shape[t->rank - 1] * 32;

    if (bits == 0 || bits % (format->bits * format->group) != 0) {
        return sp_fail(m->err, SP_E_INPUT,
                       "tensor \"%s\": rows of %llu words, which do not hold whole groups of %u "
                       "codes of %u bits",
                       t->name, (unsigned long long)bits / 32, format->group, format->bits);
    }
    memcpy(w->shape, t->shape, sizeof w->shape);
    w->codes.rows = 1;
    for (unsigned i = 0; i + 1 < t->rank; i++)
        w->codes.rows *= t->shape[i];
    w->shape[t->rank - 1] = w->grid_cols = bits / format->bits / format->group;
    for (size_t i = 0; i < 2 && parts[i]; i++) {
        if (sp_has_shape(parts[i], w->shape, t->rank)) continue;
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" has shape %s, expected %s",
                       parts[i]->name, sp_shape_text(have, parts[i]->shape, parts[i]->rank),
                       sp_shape_text(want, w->shape, t->rank));
    }
    if (w->codes.rows == 0)
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\": quantized, but empty", t->name);
    w->grid_rows = t->shape[t->rank - 2];
    w->scale_pitch = w->grid_cols;
    w->shape[t->rank - 1] = w->codes.cols = bits / format->bits;
    w->codes.bits = format->bits;
    w->codes.pitch = bits;
    w->tile = (struct sp_tile){1, format->group};
    return SP_OK;
}

/* Codes, and the types of scales. */
static enum sp_status set_mlx_mode(struct sp_weight_match *m, struct sp_weight *w,
                                   const struct sp_mlx_format *format, size_t base)
{
    static const struct {
        const char *coding;
        enum sp_code code;
        enum sp_dtype scale_type;
    } modes[] = {
        [SP_MLX_MXFP4] = {"mx4", SP_CODE_E2M1, SP_F8_E8M0},
        [SP_MLX_NVFP4] = {"nv4", SP_CODE_E2M1, SP_F8_E4M3},
        [SP_MLX_MXFP8] = {"mx8", SP_CODE_E4M3, SP_F8_E8M0},
        [SP_MLX_AFFINE] = {NULL, SP_CODE_UNSIGNED, SP_DTYPE_NONE},
    };
    bool affine = format->mode == SP_MLX_AFFINE;
    enum sp_status st;

    w->coding = affine ? codings[format->bits] : modes[format->mode].coding;
    w->code = modes[format->mode].code;
    w->scale_type = affine ? w->scales->dtype : modes[format->mode].scale_type;
    w->biases = affine;
    if (affine &&
        (st = sp_match_need(&w->zeros, m, w->codes.tensor, base, "their biases", ".biases")))
        return st;
    if (affine ? sp_dtype_is_float(w->scales->dtype) && sp_dtype_is_float(w->zeros->dtype)
               : w->scales->dtype == SP_U8)
        return SP_OK;
    return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": scales of type %s", w->scales->name,
                   sp_dtype_info(w->scales->dtype)->name);
}

enum sp_status sp_match_mlx(struct sp_weight_match *m, const struct sp_safetensor *t)
{
    struct sp_weight w = {.codes = {.tensor = t}, .rank = t->rank};
    struct sp_mlx_format format;
    enum sp_status st;
    size_t base;

    if (!sp_name_ends_with(t->name, ".weight", &base)) return SP_OK;
    w.scales = sp_match_find(m, t->name, base, ".scales");
    if (w.scales == NULL) return SP_OK;
    if ((st = sp_prequantized_mlx(&format, m->stated, t->name, base, m->err))) return st;
    if (!format.quantized || t->dtype != SP_U32 || t->rank < 2) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" has scales, but %s", t->name,
                       format.quantized ? "is not a matrix of type u32"
                                        : "the config says that its module is not quantized");
    }
    if ((st = set_mlx_mode(m, &w, &format, base)) || (st = check_mlx(m, &w, &format))) return st;
    return sp_match_add(m, w, t->name, base, ".weight");
}

/* ---- bitsandbytes ---- */

/* The fields of a quant_state. */
struct bnb_state {
    int64_t block, nested_block, shape[2];
    double offset;
    bool nested;
};

static enum sp_status read_state(struct bnb_state *out, struct sp_weight_match *m,
                                 const struct sp_safetensor *t)
{
    struct sp_json *json = NULL;
    const struct sp_json *shape;
    char text[1024];
    enum sp_status st;

    *out = (struct bnb_state){.block = 64, .nested_block = 256};
    if (t->dtype != SP_U8 || t->size >= sizeof text) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" is not a text of at most %zu bytes",
                       t->name, sizeof text);
    }
    if ((st = sp_safetensors_read(t, 0, (size_t)t->size, text, m->err))) return st;
    if ((st = sp_json_parse(&json, text, (size_t)t->size, SP_JSON_LENIENT, m->err))) goto done;
    shape = sp_json_get(json, "shape");
    out->nested = sp_json_get(json, "nested_blocksize") != NULL;
    if ((st = sp_json_get_i64(json, "blocksize", 1, 1 << 20, &out->block, m->err)) ||
        (st = sp_json_get_i64(json, "nested_blocksize", 1, 1 << 20, &out->nested_block, m->err)) ||
        (st = sp_json_get_double(json, "nested_offset", -1e30, 1e30, &out->offset, m->err)))
        goto done;
    if (sp_json_len(shape) == 2 && sp_json_to_i64(sp_json_at(shape, 0), &out->shape[0]) &&
        sp_json_to_i64(sp_json_at(shape, 1), &out->shape[1]) && out->shape[0] > 0 &&
        out->shape[1] > 0 && out->shape[0] < (int64_t)1 << 31 && out->shape[1] < (int64_t)1 << 31)
        goto done;
    st = sp_fail(m->err, SP_E_INPUT, "shape: expected rows and columns");
done:
    sp_json_free(json);
    if (st) sp_context(m->err, "tensor \"%s\"", t->name);
    return st;
}

/* A vector of n numbers. */
static enum sp_status need_vector(const struct sp_safetensor **out, struct sp_weight_match *m,
                                  const struct sp_safetensor *t, const char *end,
                                  enum sp_dtype dtype, uint64_t n)
{
    enum sp_status st = sp_match_need(out, m, t, strlen(t->name), "its part", end);

    if (st || ((*out)->dtype == dtype && sp_has_shape(*out, &n, 1))) return st;
    return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" does not have %llu numbers of type %s",
                   (*out)->name, (unsigned long long)n, sp_dtype_info(dtype)->name);
}

/* Two indices in a byte, over the flattened matrix. */
static enum sp_status match_4_bits(struct sp_weight_match *m, const struct sp_safetensor *t,
                                   const struct sp_safetensor *state, const char *coding)
{
    struct sp_weight w = {.codes = {.tensor = t, .bits = 4, .high_first = true},
                          .rank = 2,
                          .coding = coding,
                          .code = SP_CODE_TABLE,
                          .flat = true,
                          .scale_type = SP_F32,
                          .scale_pitch = 1};
    struct bnb_state s;
    uint64_t n, n_scales;
    enum sp_status st;

    if ((st = read_state(&s, m, state))) return st;
    w.shape[0] = w.codes.rows = (uint64_t)s.shape[0];
    w.shape[1] = w.codes.cols = (uint64_t)s.shape[1];
    w.codes.pitch = w.codes.cols * 4;
    w.tile = (struct sp_tile){1, (uint64_t)s.block};
    w.grid_cols = 1;
    n = w.shape[0] * w.shape[1];
    n_scales = sp_divide_up(n, w.tile.cols);
    if (t->size != sp_divide_up(n, 2)) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" has %llu bytes, expected %llu", t->name,
                       (unsigned long long)t->size, (unsigned long long)sp_divide_up(n, 2));
    }
    st = need_vector(&w.scales, m, t, ".absmax", s.nested ? SP_U8 : SP_F32, n_scales);
    if (st || (st = need_vector(&w.table, m, t, ".quant_map", SP_F32, 16))) return st;
    if (s.nested) {
        w.nested.block = (uint64_t)s.nested_block;
        w.nested.offset = (float)s.offset;
        if ((st = need_vector(&w.nested.table, m, t, ".nested_quant_map", SP_F32, 256))) return st;
        if ((st = need_vector(&w.nested.scales, m, t, ".nested_absmax", SP_F32,
                              sp_divide_up(n_scales, w.nested.block))))
            return st;
    }
    if ((st = sp_match_add(m, w, t->name, strlen(t->name), ""))) return st;
    sp_match_take(m, state);
    return SP_OK;
}

/* i8 with the largest magnitude of each row: w = code * SCB / 127, the division as the library's
 * multiplication. */
static enum sp_status match_8_bits(struct sp_weight_match *m, const struct sp_safetensor *t,
                                   size_t base)
{
    struct sp_weight w = {.codes = {.tensor = t, .bits = 8},
                          .rank = 2,
                          .coding = "i8",
                          .code = SP_CODE_SIGNED,
                          .scale_type = SP_F32,
                          .grid_cols = 1,
                          .scale_pitch = 1,
                          .after = 7.874015718698502e-3f};
    const struct sp_safetensor *format = sp_match_find(m, t->name, base, ".weight_format");
    uint8_t row_major = 1;
    enum sp_status st;

    if ((st = sp_match_need(&w.scales, m, t, base, "their scales", ".SCB"))) return st;
    if (t->rank != 2 || t->shape[0] == 0 || t->shape[1] == 0 || w.scales->dtype != SP_F32 ||
        !sp_has_shape(w.scales, t->shape, 1)) {
        return sp_fail(m->err, SP_E_INPUT,
                       "tensor \"%s\" does not have one f32 for each row of \"%s\"", w.scales->name,
                       t->name);
    }
    if (format && format->dtype == SP_U8 && format->size == 1) {
        st = sp_safetensors_read(format, 0, 1, &row_major, m->err);
        if (st) return st;
    }
    if (format && row_major != 0) {
        return sp_fail(m->err, SP_E_UNSUPPORTED,
                       "tensor \"%s\" is not 0: only row-major weights are supported",
                       format->name);
    }
    sp_match_take(m, format);
    memcpy(w.shape, t->shape, 2 * sizeof *w.shape);
    w.codes.rows = w.grid_rows = t->shape[0];
    w.codes.cols = t->shape[1];
    w.codes.pitch = t->shape[1] * 8;
    w.tile = (struct sp_tile){1, t->shape[1]};
    return sp_match_add(m, w, t->name, strlen(t->name), "");
}

enum sp_status sp_match_bitsandbytes(struct sp_weight_match *m, const struct sp_safetensor *t)
{
    static const struct {
        const char *end, *coding;
    } states[] = {{".quant_state.bitsandbytes__nf4", "nf4"},
                  {".quant_state.bitsandbytes__fp4", "fp4"}};
    size_t base, len = strlen(t->name);

    if (!sp_name_ends_with(t->name, ".weight", &base)) return SP_OK;
    if (t->dtype == SP_I8) return match_8_bits(m, t, base);
    for (size_t i = 0; i < 2; i++) {
        const struct sp_safetensor *state = sp_match_find(m, t->name, len, states[i].end);
        if (state) return match_4_bits(m, t, state, states[i].coding);
    }
    return SP_OK;
}
