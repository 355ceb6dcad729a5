/* Putting the parts of quantized weights together, by their names and types:
 *
 *   X          f8 or i8         X_scale_inv or X_scale, maybe X_zero_point
 *   P.weight   f8, or i8 pairs  P.scale (e8m0; pairs of e2m1) (DeepSeek-V4)
 *   X          u8 pairs of e2m1 X_scale (e4m3), X_scale_2, which multiplies it
 *   X_packed   u8 pairs of e2m1 X_scale (e4m3), X_global_scale, which divides it
 *   X_packed   u8 pairs of e2m1 X_scale (e8m0)
 *   X_packed   i32 words        X_scale, X_shape, maybe X_zero_point, X_g_idx
 *   X_blocks   u8 pairs of e2m1 X_scales (e8m0): a bare name keeps its _blocks
 *   P.weight   u32 words        P.scales, P.biases (MLX)
 *   P.qweight  i32 words        P.qzeros, P.scales, maybe P.g_idx (GPTQ, AWQ)
 *   P.weight   pairs of indices P.weight.absmax, ..., P.weight.quant_state... (bitsandbytes)
 *   P.weight   i8               P.SCB (bitsandbytes)
 *
 * The first group is in quantized_scaled.c, the others in quantized_modules.c. The scales' shape
 * must be what one of the stated tiles, whole rows or the whole matrix give. */
#include "convert/source/quantized_match.h"

#include "format/base/affix.h"
#include "format/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 512 };

bool sp_name_ends_with(const char *name, const char *end, size_t *len)
{
    size_t n = strlen(name), k = strlen(end);

    *len = n - k;
    return n > k && strcmp(name + n - k, end) == 0;
}

const struct sp_safetensor *sp_match_find(const struct sp_weight_match *m, const char *base,
                                          size_t len, const char *end)
{
    char name[NAME_SIZE];

    if (len + strlen(end) >= sizeof name) return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)len, base, end);
    return sp_safetensors_find(m->checkpoint, name);
}

enum sp_status sp_match_need(const struct sp_safetensor **out, const struct sp_weight_match *m,
                             const struct sp_safetensor *t, size_t len, const char *what,
                             const char *end)
{
    *out = sp_match_find(m, t->name, len, end);
    if (*out) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\": numbers of type %s without %s \"%.*s%s\"",
                   t->name, sp_dtype_info(t->dtype)->name, what, (int)len, t->name, end);
}

void sp_match_take(struct sp_weight_match *m, const struct sp_safetensor *t)
{
    if (t) m->out->taken[t - m->tensors] = true;
}

uint64_t sp_divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

bool sp_has_shape(const struct sp_safetensor *t, const uint64_t *shape, unsigned rank)
{
    return t->rank == rank && memcmp(t->shape, shape, rank * sizeof *shape) == 0;
}

enum sp_status sp_match_shape(const struct sp_weight_match *m, const struct sp_safetensor *t,
                              uint64_t rows, uint64_t cols)
{
    uint64_t want[2] = {rows, cols};
    char have[SP_SHAPE_TEXT], text[SP_SHAPE_TEXT];

    if (sp_has_shape(t, want, 2)) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" has shape %s, expected %s", t->name,
                   sp_shape_text(have, t->shape, t->rank), sp_shape_text(text, want, 2));
}

/* True if this tile determines the weight's grid; *n counts the tiles that differ from it. */
static void try_tile(struct sp_weight *w, struct sp_tile tile, unsigned *n)
{
    uint64_t rows = w->shape[w->rank - 2], cols = w->shape[w->rank - 1];

    if (tile.rows > rows) tile.rows = rows;
    if (tile.cols > cols) tile.cols = cols;
    if (sp_divide_up(rows, tile.rows) != w->grid_rows) return;
    if (sp_divide_up(cols, tile.cols) != w->grid_cols) return;
    if (*n && tile.rows == w->tile.rows && tile.cols == w->tile.cols) return;
    w->tile = tile;
    ++*n;
}

enum sp_status sp_match_fit_tile(struct sp_weight_match *m, struct sp_weight *w, uint64_t group)
{
    uint64_t rows = w->shape[w->rank - 2], cols = w->shape[w->rank - 1];
    char have[SP_SHAPE_TEXT], of[SP_SHAPE_TEXT];
    unsigned n = 0;

    if (group) {
        try_tile(w, (struct sp_tile){1, group}, &n);
    } else {
        try_tile(w, (struct sp_tile){1, cols}, &n);
        try_tile(w, (struct sp_tile){rows, cols}, &n);
        for (size_t i = 0; i < m->stated->n_tiles; i++)
            try_tile(w, m->stated->tiles[i], &n);
    }
    if (n == 1) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT,
                   "tensor \"%s\" has shape %s, and %s gives that for a weight of shape %s",
                   w->scales->name, sp_shape_text(have, w->scales->shape, w->scales->rank),
                   n ? "more than one stated size of groups" : "no stated size of blocks or groups",
                   sp_shape_text(of, w->shape, w->rank));
}

enum sp_status sp_match_add(struct sp_weight_match *m, struct sp_weight w, const char *name,
                            size_t len, const char *end)
{
    const struct sp_safetensor *const parts[] = {w.codes.tensor, w.table,  w.index,
                                                 w.scales,       w.global, w.nested.scales,
                                                 w.nested.table, w.zeros,  w.zero_codes.tensor};
    struct sp_quantized_weights *out = m->out;
    char text[NAME_SIZE];
    enum sp_status st;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i]) w.size += parts[i]->size;
    if (len + strlen(end) >= sizeof text) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": its name is too long",
                       w.codes.tensor->name);
    }
    snprintf(text, sizeof text, "%.*s%s", (int)len, name, end);
    st = sp_grow(&out->all, &out->cap, out->n + 1, sizeof *out->all, m->err);
    if (st || (st = sp_copy_text(&w.name, text, strlen(text), m->err))) return st;
    out->all[out->n++] = w;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        sp_match_take(m, parts[i]);
    return SP_OK;
}

/* ---- what belongs to nothing ---- */

/* A scale, or what else goes with a quantized weight, that no weight took. */
static enum sp_status refuse_left_over(struct sp_weight_match *m, const struct sp_safetensor *t)
{
    static const char *const ends[] = {"_scale_inv",    "_scale", "_scale_2", "_zero_point",
                                       "_global_scale", "_shape", "_scales",  "_g_idx"};
    static const char *const parts[] = {".qweight", ".qzeros", ".g_idx",         ".scales",
                                        ".biases",  ".SCB",    ".weight.absmax", ".weight_format"};
    const struct sp_safetensor *owner;
    size_t base;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!sp_name_ends_with(t->name, parts[i], &base)) continue;
        return sp_fail(m->err, SP_E_INPUT,
                       "tensor \"%s\" belongs to a quantized weight that is missing, or that the "
                       "method of the config does not have",
                       t->name);
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t stem;
        char name[NAME_SIZE];
        if (!sp_name_ends_with(t->name, ends[i], &base) || base >= sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", (int)base, t->name);
        if (!sp_name_ends_with(name, ".weight", &stem) && !sp_name_ends_with(name, "_proj", &stem))
            continue;
        owner = sp_match_find(m, t->name, base, "");
        if (owner) {
            return sp_fail(
                m->err, SP_E_INPUT,
                "tensor \"%s\" belongs to no quantized weight: \"%s\" has numbers of type %s",
                t->name, owner->name, sp_dtype_info(owner->dtype)->name);
        }
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" without its weight \"%s%s\"", t->name,
                       name, strcmp(ends[i], "_scales") == 0 ? "_blocks" : "");
    }
    return SP_OK;
}

static enum sp_status match_tensor(struct sp_weight_match *m, const struct sp_safetensor *t)
{
    switch (m->stated->layout) {
    case SP_QUANT_MLX:
        return sp_match_mlx(m, t);
    case SP_QUANT_GPTQ:
    case SP_QUANT_AWQ:
    case SP_QUANT_AWQ_V:
        return sp_match_words(m, t);
    case SP_QUANT_BNB:
        return sp_match_bitsandbytes(m, t);
    case SP_QUANT_BITNET:
    case SP_QUANT_SCALED:
    case SP_QUANT_NONE:
        break;
    }
    return sp_match_scaled(m, t);
}

/* Scales themselves are of these types, too. */
static bool is_companion(const char *name)
{
    size_t len;

    return sp_name_ends_with(name, "_scale", &len) || sp_name_ends_with(name, "_scale_inv", &len) ||
           sp_name_ends_with(name, "_zero_point", &len);
}

static enum sp_status match(struct sp_weight_match *m)
{
    enum sp_status st;

    for (size_t i = 0; i < m->n; i++) {
        const char *name = m->tensors[i].name;
        if (sp_source_is_skipped(name) || is_companion(name)) continue;
        if ((st = match_tensor(m, &m->tensors[i]))) return st;
    }
    for (size_t i = 0; i < m->n; i++) {
        if (m->out->taken[i] || sp_source_is_skipped(m->tensors[i].name)) continue;
        if ((st = refuse_left_over(m, &m->tensors[i]))) return st;
    }
    if (m->out->n > 1) qsort(m->out->all, m->out->n, sizeof *m->out->all, sp_compare_names);
    for (size_t i = 1; i < m->out->n; i++) {
        if (sp_compare_names(&m->out->all[i - 1], &m->out->all[i]) != 0) continue;
        return sp_fail(m->err, SP_E_INPUT, "weight \"%s\" occurs twice, as \"%s\" and as \"%s\"",
                       m->out->all[i].name, m->out->all[i - 1].codes.tensor->name,
                       m->out->all[i].codes.tensor->name);
    }
    return SP_OK;
}

enum sp_status sp_quantized_weights_open(struct sp_quantized_weights *out,
                                         const struct sp_safetensors *checkpoint,
                                         const struct sp_prequantized *stated, struct sp_err *err)
{
    struct sp_quantized_weights weights = {0};
    struct sp_weight_match m = {
        .out = &weights, .checkpoint = checkpoint, .stated = stated, .err = err};
    enum sp_status st;

    *out = weights;
    m.tensors = sp_safetensors_tensors(checkpoint, &m.n);
    if ((st = sp_new(&weights.taken, m.n, sizeof *weights.taken, err))) goto done;
    if ((st = match(&m))) goto done;
    *out = weights;
    weights = (struct sp_quantized_weights){0};
done:
    sp_quantized_weights_release(&weights);
    return st;
}

void sp_quantized_weights_release(struct sp_quantized_weights *weights)
{
    for (size_t i = 0; i < weights->n; i++)
        free(weights->all[i].name);
    free(weights->all);
    free(weights->taken);
    *weights = (struct sp_quantized_weights){0};
}

const struct sp_weight *sp_quantized_weights_find(const struct sp_quantized_weights *weights,
                                                  const char *name)
{
    if (weights->n == 0) return NULL;
    return bsearch(&name, weights->all, weights->n, sizeof *weights->all, sp_compare_names);
}
