/* Weights whose scale is named after them: X_scale and its kin, of FP8, compressed-tensors,
 * modelopt and gpt-oss. */
#include "convert/source/quantized_match.h"

#include "format/base/bytes.h"

#include <math.h>
#include <string.h>

/* ---- scales ---- */

static uint64_t elements(const struct sp_safetensor *t)
{
    return sp_n_elements(t->shape, t->rank);
}

/* The grid of one matrix by the shape of the scales: false when its dimensions do not fit at all.
 * A vector of scales has one for each row. */
static bool find_grid(struct sp_weight *w, bool grouped)
{
    const struct sp_safetensor *s = w->scales;

    w->grid_cols = 1;
    if (!grouped && elements(s) == 1) return true; /* grid_rows 0: the same for all matrices */
    if (s->rank + 1 == w->rank && sp_has_shape(s, w->shape, w->rank - 1)) {
        w->grid_rows = w->shape[w->rank - 2];
        return true;
    }
    if (s->rank != w->rank) return false;
    if (memcmp(s->shape, w->shape, (w->rank - 2) * sizeof *s->shape) != 0) return false;
    w->grid_rows = s->shape[w->rank - 2];
    w->grid_cols = s->shape[w->rank - 1];
    return w->grid_rows > 0;
}

/* `group`: the format fixes it; 0: it does not. */
static enum sp_status fit_scales(struct sp_weight_match *m, struct sp_weight *w, uint64_t group)
{
    char have[SP_SHAPE_TEXT], of[SP_SHAPE_TEXT];

    if (!find_grid(w, group > 0)) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" has shape %s, for a weight of shape %s",
                       w->scales->name, sp_shape_text(have, w->scales->shape, w->scales->rank),
                       sp_shape_text(of, w->shape, w->rank));
    }
    w->scale_pitch = w->grid_cols;
    if (group || w->grid_rows) return sp_match_fit_tile(m, w, group);
    w->tile = (struct sp_tile){w->shape[w->rank - 2], w->shape[w->rank - 1]};
    return SP_OK;
}

/* Zero points packed like the weights, but along rows: words [rows / codes in a word][groups]. */
static enum sp_status pack_zeros(struct sp_weight_match *m, struct sp_weight *w)
{
    const struct sp_safetensor *t = w->zeros;
    uint64_t rows = w->grid_rows ? w->grid_rows : 1;

    w->zeros = NULL;
    w->code = SP_CODE_UNSIGNED;
    w->zero_codes = (struct sp_code_matrix){.tensor = t,
                                            .packing = SP_PACK_DOWN,
                                            .bits = w->codes.bits,
                                            .rows = rows,
                                            .cols = w->grid_cols,
                                            .pitch = w->grid_cols * 32};
    return sp_match_shape(m, t, sp_divide_up(rows, 32 / w->codes.bits), w->grid_cols);
}

static enum sp_status fit_zeros(struct sp_weight_match *m, struct sp_weight *w)
{
    const struct sp_safetensor *t = w->zeros;

    if (t == NULL) return SP_OK;
    if (t->dtype == SP_I32 && w->code == SP_CODE_CENTERED) return pack_zeros(m, w);
    if (!sp_checkpoint_codes_can_read(t->dtype, true)) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": zero points of type %s", t->name,
                       sp_dtype_info(t->dtype)->name);
    }
    if (sp_has_shape(t, w->scales->shape, w->scales->rank) ||
        (elements(t) == 1 && elements(w->scales) == 1))
        return SP_OK;
    return sp_match_shape(m, t, w->grid_rows ? w->grid_rows : 1, w->grid_cols);
}

/* The one number of a factor of all scales. */
static enum sp_status read_factor(struct sp_weight_match *m, struct sp_weight *w)
{
    uint8_t bytes[8];
    enum sp_status st;

    if (w->global == NULL) return SP_OK;
    if (elements(w->global) != 1 || !sp_dtype_is_float(w->global->dtype)) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" is not one floating-point number",
                       w->global->name);
    }
    st = sp_safetensors_read(w->global, 0, (size_t)w->global->size, bytes, m->err);
    if (st) return st;
    sp_checkpoint_codes_read(&w->factor, w->global->dtype, bytes, 1);
    if (isfinite(w->factor) && w->factor > 0) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" is %g, expected a positive number",
                   w->global->name, (double)w->factor);
}

/* Everything but the tensors, shape, code and coding, which the caller has set. */
static enum sp_status add_weight(struct sp_weight_match *m, struct sp_weight w, size_t name_len,
                                 uint64_t group)
{
    enum sp_status st;

    if (w.rank < 2) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": quantized, but not a matrix",
                       w.codes.tensor->name);
    }
    w.codes.rows = 1;
    for (unsigned i = 0; i < w.rank; i++) {
        if (w.shape[i] == 0) {
            return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\": quantized, but empty",
                           w.codes.tensor->name);
        }
        if (i + 1 < w.rank) w.codes.rows *= w.shape[i];
    }
    w.codes.cols = w.shape[w.rank - 1];
    if (w.codes.pitch == 0) w.codes.pitch = w.codes.cols * w.codes.bits;
    if (w.scale_type == SP_DTYPE_NONE) w.scale_type = w.scales->dtype;
    if (!sp_checkpoint_codes_can_read(w.scale_type, false)) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": scales of type %s", w.scales->name,
                       sp_dtype_info(w.scales->dtype)->name);
    }
    if ((st = fit_scales(m, &w, group)) || (st = fit_zeros(m, &w)) || (st = read_factor(m, &w)) ||
        (st = sp_match_index(m, &w)))
        return st;
    return sp_match_add(m, w, w.codes.tensor->name, name_len, "");
}

/* ---- formats ---- */

static enum sp_status find_scales(struct sp_weight_match *m, struct sp_weight *w, size_t base)
{
    const char *name = w->codes.tensor->name;
    const struct sp_safetensor *inverse = sp_match_find(m, name, base, "_scale_inv");
    size_t stem;

    w->scales = sp_match_find(m, name, base, "_scale");
    if (inverse && w->scales) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" has two scales, \"%s\" and \"%s\"", name,
                       inverse->name, w->scales->name);
    }
    w->zeros = sp_match_find(m, name, base, "_zero_point");
    w->index = sp_match_find(m, name, base, "_g_idx");
    if (m->stated->has_zeros && w->zeros == NULL)
        return sp_match_need(&w->zeros, m, w->codes.tensor, base, "their zero points",
                             "_zero_point");
    if (m->stated->has_index && w->index == NULL)
        return sp_match_need(&w->index, m, w->codes.tensor, base, "the groups of its columns",
                             "_g_idx");
    if (w->scales == NULL) w->scales = inverse;
    if (w->scales == NULL && sp_name_ends_with(name, ".weight", &stem))
        w->scales = sp_match_find(m, name, stem, ".scale");
    if (w->scales) return SP_OK;
    return sp_match_need(&w->scales, m, w->codes.tensor, base, "its scale", "_scale");
}

/* A weight of the tensor's shape, one code in each element. */
static struct sp_weight weight_of(const struct sp_safetensor *t, unsigned bits, enum sp_code code,
                                  const char *coding)
{
    struct sp_weight w = {
        .codes = {.tensor = t, .bits = bits}, .rank = t->rank, .coding = coding, .code = code};

    memcpy(w.shape, t->shape, sizeof w.shape);
    return w;
}

/* e2m1 in pairs. nvfp4: e4m3 scales of 16, and a factor that divides them, or as modelopt has it
 * multiplies; the format's own library dequantizes into bf16. mxfp4: e8m0 scales of 32. */
static enum sp_status match_fp4(struct sp_weight_match *m, const struct sp_safetensor *t,
                                size_t base, bool divides)
{
    struct sp_weight w = weight_of(t, 4, SP_CODE_E2M1, "nv4");
    enum sp_status st;

    w.global_divides = divides;
    w.to_bf16 = true;
    if (t->rank) w.shape[t->rank - 1] *= 2;
    if ((st = find_scales(m, &w, base))) return st;
    if (w.scales->dtype == SP_U8 || w.scales->dtype == SP_F8_E8M0) {
        w.coding = "mx4";
        w.scale_type = SP_F8_E8M0;
        w.to_bf16 = false;
        return add_weight(m, w, base, 32);
    }
    st = sp_match_need(&w.global, m, t, base, "their common scale",
                       divides ? "_global_scale" : "_scale_2");
    return st ? st : add_weight(m, w, base, 16);
}

/* One byte, one weight; signed ones with e8m0 scales are pairs of e2m1 (DeepSeek-V4). mxfp8: e8m0
 * scales of 32, stored as bytes. */
static enum sp_status match_bytes(struct sp_weight_match *m, const struct sp_safetensor *t)
{
    enum sp_code code = t->dtype == SP_F8_E4M3   ? SP_CODE_E4M3
                        : t->dtype == SP_F8_E5M2 ? SP_CODE_E5M2
                                                 : SP_CODE_SIGNED;
    struct sp_weight w = weight_of(t, 8, code, t->dtype == SP_I8 ? "i8" : "f8");
    size_t base = strlen(t->name);
    enum sp_status st;

    if ((st = find_scales(m, &w, base))) return st;
    if (t->dtype == SP_I8 && w.scales->dtype == SP_F8_E8M0) return match_fp4(m, t, base, false);
    if (w.scales->dtype != SP_U8 || t->dtype == SP_I8) return add_weight(m, w, base, 0);
    w.coding = "mx8";
    w.scale_type = SP_F8_E8M0;
    return add_weight(m, w, base, 32);
}

static enum sp_status match_ternary(struct sp_weight_match *m, const struct sp_safetensor *t)
{
    struct sp_weight w = weight_of(t, 2, SP_CODE_TERNARY, "t2");
    size_t base = strlen(t->name);
    enum sp_status st;

    w.codes.packing = SP_PACK_QUARTERS;
    w.scales_divide = m->stated->scales_divide;
    w.shape[0] *= 4;
    st = find_scales(m, &w, base);
    return st ? st : add_weight(m, w, base, 0);
}

/* e2m1 in pairs in blocks of 32 [.., blocks, 16], maybe flattened, each with an e8m0 scale. */
static enum sp_status match_blocks(struct sp_weight_match *m, const struct sp_safetensor *t,
                                   size_t base)
{
    struct sp_weight w = {.codes = {.tensor = t, .bits = 4},
                          .coding = "mx4",
                          .code = SP_CODE_E2M1,
                          .scale_type = SP_F8_E8M0};
    const struct sp_safetensor *s;
    enum sp_status st;
    bool flat;

    if ((st = sp_match_need(&s, m, t, base, "its scales", "_scales"))) return st;
    flat = t->rank == s->rank;
    if (t->dtype != SP_U8 || (s->dtype != SP_U8 && s->dtype != SP_F8_E8M0)) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": numbers of type %s, scales of %s",
                       t->name, sp_dtype_info(t->dtype)->name, sp_dtype_info(s->dtype)->name);
    }
    if (t->rank < 3 || (flat ? t->shape[t->rank - 1] % 16 != 0
                             : t->rank != s->rank + 1 || t->shape[t->rank - 1] != 16)) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" does not consist of blocks of 16 bytes",
                       t->name);
    }
    w.scales = s;
    w.rank = s->rank;
    memcpy(w.shape, t->shape, (w.rank - 1) * sizeof *w.shape);
    w.shape[w.rank - 1] = flat ? 2 * t->shape[t->rank - 1] : 32 * t->shape[t->rank - 2];
    return add_weight(m, w, strlen(t->name), 32);
}

/* Rows and columns of a weight packed in words, from its companion. */
static enum sp_status read_shape(struct sp_weight_match *m, const struct sp_safetensor *t,
                                 const struct sp_safetensor *s, uint64_t shape[2])
{
    uint8_t bytes[16];
    enum sp_status st;

    if (s->dtype != SP_I64 || s->rank != 1 || s->shape[0] != 2) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" does not have two numbers of type i64",
                       s->name);
    }
    if ((st = sp_safetensors_read(s, 0, sizeof bytes, bytes, m->err))) return st;
    for (int i = 0; i < 2; i++)
        shape[i] = sp_get64(bytes + 8 * i);
    if (shape[0] == t->shape[0] && shape[1] > 0 && shape[1] <= 32 * t->shape[1]) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT,
                   "tensor \"%s\" says %llu rows and %llu columns, \"%s\" has %llu rows of %llu "
                   "words",
                   s->name, (unsigned long long)shape[0], (unsigned long long)shape[1], t->name,
                   (unsigned long long)t->shape[0], (unsigned long long)t->shape[1]);
}

/* The number of words in a row gives the bits of a code. */
static enum sp_status match_words(struct sp_weight_match *m, const struct sp_safetensor *t,
                                  size_t base)
{
    struct sp_weight w = {.codes = {.tensor = t}, .rank = 2, .code = SP_CODE_CENTERED};
    const struct sp_safetensor *shape;
    uint64_t words = t->rank == 2 ? t->shape[1] : 0;
    bool four, eight;
    enum sp_status st;

    if (t->rank != 2) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": packed words, but not a matrix",
                       t->name);
    }
    if ((st = sp_match_need(&shape, m, t, base, "their shape", "_shape"))) return st;
    if ((st = read_shape(m, t, shape, w.shape))) return st;
    if ((st = find_scales(m, &w, base))) return st;
    four = words == sp_divide_up(w.shape[1], 8);
    eight = words == sp_divide_up(w.shape[1], 4);
    if (four == eight) {
        return sp_fail(m->err, SP_E_UNSUPPORTED,
                       "tensor \"%s\": %llu words for rows of %llu columns, which is neither 4 nor "
                       "8 bits for each",
                       t->name, (unsigned long long)words, (unsigned long long)w.shape[1]);
    }
    w.codes.bits = four ? 4 : 8;
    w.coding = four ? "i4" : "i8";
    w.codes.pitch = words * 32;
    if ((st = add_weight(m, w, base, 0))) return st;
    sp_match_take(m, shape);
    return SP_OK;
}

enum sp_status sp_match_scaled(struct sp_weight_match *m, const struct sp_safetensor *t)
{
    size_t base;

    if (sp_name_ends_with(t->name, "_packed", &base)) {
        if (t->dtype == SP_I32) return match_words(m, t, base);
        if (t->dtype == SP_U8) return match_fp4(m, t, base, true);
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": packed numbers of type %s",
                       t->name, sp_dtype_info(t->dtype)->name);
    }
    if (sp_name_ends_with(t->name, "_proj_blocks", &base))
        return match_blocks(m, t, base + strlen("_proj"));
    base = strlen(t->name);
    if (t->dtype == SP_U8 && m->stated->layout == SP_QUANT_BITNET) return match_ternary(m, t);
    if (t->dtype == SP_U8 && sp_match_find(m, t->name, base, "_scale_2"))
        return match_fp4(m, t, base, false);
    if (t->dtype == SP_F8_E4M3 || t->dtype == SP_F8_E5M2 || t->dtype == SP_I8)
        return match_bytes(m, t);
    return SP_OK;
}
