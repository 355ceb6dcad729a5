/* Putting the parts of quantized weights together, by their names and types:
 *
 *   X          f8 or i8         X_scale_inv or X_scale, maybe X_zero_point
 *   X          u8 pairs of e2m1 X_scale (e4m3), X_scale_2, which multiplies it
 *   X_packed   u8 pairs of e2m1 X_scale (e4m3), X_global_scale, which divides it
 *   X_packed   i32 words        X_scale, X_shape, maybe X_zero_point
 *   X_blocks   u8 pairs of e2m1 X_scales (e8m0): a bare name keeps its _blocks
 *
 * The scales' shape must be what one of the stated tiles, whole rows or the whole matrix give. */
#include "convert/source/quantized_weights.h"

#include "format/base/bytes.h"
#include "format/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 512 };

struct matching {
    struct sp_quantized_weights *out;
    const struct sp_safetensors *checkpoint;
    const struct sp_safetensor *tensors;
    size_t n;
    const struct sp_prequantized *stated;
    struct sp_err *err;
};

/* Returns true if `name` ends with `end` and is longer; then *len is the length of what precedes
 * it. */
static bool ends_with(const char *name, const char *end, size_t *len)
{
    size_t n = strlen(name), k = strlen(end);

    *len = n - k;
    return n > k && strcmp(name + n - k, end) == 0;
}

/* The tensor named base[0..len-1] and `end`; NULL: there is none. */
static const struct sp_safetensor *find(const struct matching *m, const char *base, size_t len,
                                        const char *end)
{
    char name[NAME_SIZE];

    if (len + strlen(end) >= sizeof name) return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)len, base, end);
    return sp_safetensors_find(m->checkpoint, name);
}

static void take(struct matching *m, const struct sp_safetensor *t)
{
    if (t) m->out->taken[t - m->tensors] = true;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* ---- scales ---- */

static bool same_shape(const struct sp_safetensor *t, const uint64_t *shape, unsigned rank)
{
    return t->rank == rank && memcmp(t->shape, shape, rank * sizeof *shape) == 0;
}

static uint64_t elements(const struct sp_safetensor *t)
{
    uint64_t n = 1;

    for (unsigned i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

/* The grid of one matrix by the shape of the scales: false when its dimensions do not fit at all.
 * A vector of scales has one for each row. */
static bool find_grid(struct sp_weight *w, bool grouped)
{
    const struct sp_safetensor *s = w->scales;

    w->grid_cols = 1;
    if (!grouped && elements(s) == 1) return true; /* grid_rows 0: the same for all matrices */
    if (s->rank + 1 == w->rank && same_shape(s, w->shape, w->rank - 1)) {
        w->grid_rows = w->shape[w->rank - 2];
        return true;
    }
    if (s->rank != w->rank) return false;
    if (memcmp(s->shape, w->shape, (w->rank - 2) * sizeof *s->shape) != 0) return false;
    w->grid_rows = s->shape[w->rank - 2];
    w->grid_cols = s->shape[w->rank - 1];
    return true;
}

/* Returns true if this tile determines the weight's grid; *n counts the tiles that differ from it.
 */
static void try_tile(struct sp_weight *w, struct sp_tile tile, unsigned *n)
{
    uint64_t rows = w->shape[w->rank - 2], cols = w->shape[w->rank - 1];

    if (tile.rows > rows) tile.rows = rows;
    if (tile.cols > cols) tile.cols = cols;
    if (divide_up(rows, tile.rows) != w->grid_rows) return;
    if (divide_up(cols, tile.cols) != w->grid_cols) return;
    if (*n && tile.rows == w->tile.rows && tile.cols == w->tile.cols) return;
    w->tile = tile;
    ++*n;
}

/* `group`: the format fixes it; 0: it does not. */
static enum sp_status fit_scales(struct matching *m, struct sp_weight *w, uint64_t group)
{
    uint64_t rows = w->shape[w->rank - 2], cols = w->shape[w->rank - 1];
    char have[SP_SHAPE_TEXT], of[SP_SHAPE_TEXT];
    unsigned n = 0;

    sp_shape_text(have, w->scales->shape, w->scales->rank);
    sp_shape_text(of, w->shape, w->rank);
    if (!find_grid(w, group > 0)) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" has shape %s, for a weight of shape %s",
                       w->scales->name, have, of);
    }
    if (group) {
        try_tile(w, (struct sp_tile){1, group}, &n);
    } else if (w->grid_rows == 0) {
        w->tile = (struct sp_tile){rows, cols};
        return SP_OK;
    } else {
        try_tile(w, (struct sp_tile){1, cols}, &n);
        try_tile(w, (struct sp_tile){rows, cols}, &n);
        for (size_t i = 0; i < m->stated->n_tiles; i++)
            try_tile(w, m->stated->tiles[i], &n);
    }
    if (n == 1) return SP_OK;
    return sp_fail(
        m->err, SP_E_INPUT,
        "tensor \"%s\" has shape %s, and %s gives that for a weight of shape %s", w->scales->name,
        have, n ? "more than one stated size of groups" : "no stated size of blocks or groups", of);
}

static enum sp_status fit_zeros(struct matching *m, struct sp_weight *w)
{
    uint64_t rows = w->grid_rows ? w->grid_rows : 1, want[2] = {rows, w->grid_cols};
    char have[SP_SHAPE_TEXT], text[SP_SHAPE_TEXT];

    if (w->zeros == NULL) return SP_OK;
    w->zeros_packed = w->zeros->dtype == SP_I32 && (w->code == SP_CODE_U4 || w->code == SP_CODE_U8);
    if (w->zeros_packed) {
        want[0] = divide_up(rows, 32 / sp_code_bits(w->code));
    } else if (!sp_checkpoint_codes_can_read(w->zeros->dtype, true)) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": zero points of type %s",
                       w->zeros->name, sp_dtype_info(w->zeros->dtype)->name);
    } else if (same_shape(w->zeros, w->scales->shape, w->scales->rank) ||
               (elements(w->zeros) == 1 && elements(w->scales) == 1)) {
        return SP_OK;
    }
    if (w->rank == 2 && same_shape(w->zeros, want, 2)) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" has shape %s, expected %s", w->zeros->name,
                   sp_shape_text(have, w->zeros->shape, w->zeros->rank),
                   sp_shape_text(text, want, 2));
}

/* The one number of a factor of all scales. */
static enum sp_status read_factor(struct matching *m, struct sp_weight *w)
{
    uint8_t bytes[8];
    enum sp_status st;

    if (w->global == NULL) return SP_OK;
    if (elements(w->global) != 1 || !sp_dtype_is_float(w->global->dtype)) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" is not one floating-point number",
                       w->global->name);
    }
    st = sp_safetensors_read(m->checkpoint, w->global, 0, (size_t)w->global->size, bytes, m->err);
    if (st) return st;
    sp_checkpoint_codes_read(&w->factor, w->global->dtype, bytes, 1);
    if (isfinite(w->factor) && w->factor > 0) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" is %g, expected a positive number",
                   w->global->name, (double)w->factor);
}

/* ---- weights ---- */

/* Everything but name, codes, shape, code and coding, which the caller has set. */
static enum sp_status add_weight(struct matching *m, struct sp_weight w, size_t name_len,
                                 uint64_t group)
{
    struct sp_quantized_weights *out = m->out;
    enum sp_status st;

    if (w.rank < 2) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": quantized, and no matrix",
                       w.codes->name);
    }
    for (unsigned i = 0; i < w.rank; i++) {
        if (w.shape[i] > 0) continue;
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\": quantized, and empty", w.codes->name);
    }
    if (w.scale_type == SP_DTYPE_NONE) w.scale_type = w.scales->dtype;
    if (!sp_checkpoint_codes_can_read(w.scale_type, false)) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": scales of type %s", w.scales->name,
                       sp_dtype_info(w.scales->dtype)->name);
    }
    if ((st = fit_scales(m, &w, group)) || (st = fit_zeros(m, &w)) || (st = read_factor(m, &w))) {
        return st;
    }
    st = sp_grow(&out->all, &out->cap, out->n + 1, sizeof *out->all, m->err);
    if (st || (st = sp_copy_text(&w.name, w.codes->name, name_len, m->err))) return st;
    out->all[out->n++] = w;
    take(m, w.codes);
    take(m, w.scales);
    take(m, w.zeros);
    take(m, w.global);
    return SP_OK;
}

static enum sp_status fail_without(struct matching *m, const struct sp_safetensor *t,
                                   const char *what, size_t base, const char *end)
{
    return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\": numbers of type %s without %s \"%.*s%s\"",
                   t->name, sp_dtype_info(t->dtype)->name, what, (int)base, t->name, end);
}

static enum sp_status find_scales(struct matching *m, struct sp_weight *w, size_t base)
{
    const struct sp_safetensor *inverse = find(m, w->codes->name, base, "_scale_inv");

    w->scales = find(m, w->codes->name, base, "_scale");
    if (inverse && w->scales) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" has two scales, \"%s\" and \"%s\"",
                       w->codes->name, inverse->name, w->scales->name);
    }
    if (w->scales == NULL) w->scales = inverse;
    w->zeros = find(m, w->codes->name, base, "_zero_point");
    return w->scales ? SP_OK : fail_without(m, w->codes, "its scale", base, "_scale");
}

/* One byte, one weight. */
static enum sp_status match_bytes(struct matching *m, const struct sp_safetensor *t)
{
    struct sp_weight w = {.codes = t, .rank = t->rank, .coding = "f8"};
    size_t base = strlen(t->name);
    enum sp_status st;

    memcpy(w.shape, t->shape, sizeof w.shape);
    w.code = t->dtype == SP_F8_E4M3 ? SP_CODE_E4M3 : SP_CODE_E5M2;
    if (t->dtype == SP_I8) {
        w.code = SP_CODE_I8;
        w.coding = "i8";
    }
    if ((st = find_scales(m, &w, base))) return st;
    w.row_size = t->rank ? (size_t)t->shape[t->rank - 1] : 1;
    return add_weight(m, w, base, 0);
}

/* e2m1 in pairs, e4m3 scales of 16, and a factor that divides them, or as modelopt has it
 * multiplies. The format's own library dequantizes into bf16. */
static enum sp_status match_nvfp4(struct matching *m, const struct sp_safetensor *t, size_t base,
                                  bool divides)
{
    struct sp_weight w = {.codes = t,
                          .rank = t->rank,
                          .coding = "nv4",
                          .code = SP_CODE_E2M1,
                          .global_divides = divides,
                          .to_bf16 = true};
    const char *end = divides ? "_global_scale" : "_scale_2";
    enum sp_status st;

    memcpy(w.shape, t->shape, sizeof w.shape);
    if ((st = find_scales(m, &w, base))) return st;
    w.global = find(m, t->name, base, end);
    if (w.global == NULL) return fail_without(m, t, "their common scale", base, end);
    if (t->rank) {
        w.row_size = (size_t)t->shape[t->rank - 1];
        w.shape[t->rank - 1] *= 2;
    }
    return add_weight(m, w, base, 16);
}

/* e2m1 in pairs in blocks of 32 [.., blocks, 16], maybe flattened, each with an e8m0 scale. */
static enum sp_status match_mxfp4(struct matching *m, const struct sp_safetensor *t, size_t base)
{
    struct sp_weight w = {
        .codes = t, .coding = "mx4", .code = SP_CODE_E2M1, .scale_type = SP_F8_E8M0};
    const struct sp_safetensor *s = find(m, t->name, base, "_scales");
    bool flat = s && t->rank == s->rank;

    if (s == NULL) return fail_without(m, t, "its scales", base, "_scales");
    if (t->dtype != SP_U8 || (s->dtype != SP_U8 && s->dtype != SP_F8_E8M0)) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": numbers of type %s, scales of %s",
                       t->name, sp_dtype_info(t->dtype)->name, sp_dtype_info(s->dtype)->name);
    }
    if (t->rank < 3 || (flat ? t->shape[t->rank - 1] % 16 != 0
                             : t->rank != s->rank + 1 || t->shape[t->rank - 1] != 16)) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" is not made of blocks of 16 bytes",
                       t->name);
    }
    w.scales = s;
    w.rank = s->rank;
    memcpy(w.shape, t->shape, (w.rank - 1) * sizeof *w.shape);
    w.row_size = (size_t)(flat ? t->shape[t->rank - 1] : t->shape[t->rank - 2] * 16);
    w.shape[w.rank - 1] = 2 * (uint64_t)w.row_size;
    return add_weight(m, w, strlen(t->name), 32);
}

/* Rows and columns of a weight packed in words, from its companion. */
static enum sp_status read_shape(struct matching *m, const struct sp_safetensor *t,
                                 const struct sp_safetensor *s, uint64_t shape[2])
{
    uint8_t bytes[16];
    enum sp_status st;

    if (s->dtype != SP_I64 || s->rank != 1 || s->shape[0] != 2) {
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" is not two numbers of type i64", s->name);
    }
    if ((st = sp_safetensors_read(m->checkpoint, s, 0, sizeof bytes, bytes, m->err))) return st;
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
static enum sp_status match_words(struct matching *m, const struct sp_safetensor *t, size_t base)
{
    struct sp_weight w = {.codes = t, .rank = 2};
    const struct sp_safetensor *shape = find(m, t->name, base, "_shape");
    uint64_t words = t->rank == 2 ? t->shape[1] : 0;
    bool four, eight;
    enum sp_status st;

    if (t->rank != 2) {
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": packed words, and no matrix",
                       t->name);
    }
    if (shape == NULL) return fail_without(m, t, "their shape", base, "_shape");
    if ((st = read_shape(m, t, shape, w.shape)) || (st = find_scales(m, &w, base))) return st;
    four = words == divide_up(w.shape[1], 8);
    eight = words == divide_up(w.shape[1], 4);
    if (four == eight) {
        return sp_fail(m->err, SP_E_UNSUPPORTED,
                       "tensor \"%s\": %llu words for rows of %llu columns, which is neither 4 nor "
                       "8 bits for each",
                       t->name, (unsigned long long)words, (unsigned long long)w.shape[1]);
    }
    w.code = four ? SP_CODE_U4 : SP_CODE_U8;
    w.coding = four ? "i4" : "i8";
    w.row_size = (size_t)words * 4;
    if ((st = add_weight(m, w, base, 0))) return st;
    take(m, shape);
    return SP_OK;
}

/* ---- what belongs to nothing ---- */

/* A scale, or what else goes with a quantized weight, that no weight took. */
static enum sp_status refuse_left_over(struct matching *m, const struct sp_safetensor *t)
{
    static const char *const ends[] = {"_scale_inv",    "_scale", "_scale_2", "_zero_point",
                                       "_global_scale", "_shape", "_scales"};
    const struct sp_safetensor *owner;
    size_t base;

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t stem;
        char name[NAME_SIZE];
        if (!ends_with(t->name, ends[i], &base) || base >= sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", (int)base, t->name);
        if (!ends_with(name, ".weight", &stem) && !ends_with(name, "_proj", &stem)) continue;
        owner = find(m, t->name, base, "");
        if (owner) {
            return sp_fail(m->err, SP_E_INPUT,
                           "tensor \"%s\" goes with no weight: \"%s\" has numbers of type %s",
                           t->name, owner->name, sp_dtype_info(owner->dtype)->name);
        }
        return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" without its weight \"%s%s\"", t->name,
                       name, strcmp(ends[i], "_scales") == 0 ? "_blocks" : "");
    }
    return SP_OK;
}

static enum sp_status match_tensor(struct matching *m, const struct sp_safetensor *t)
{
    size_t base;

    if (ends_with(t->name, ".weight_g_idx", &base)) {
        return sp_fail(m->err, SP_E_UNSUPPORTED,
                       "tensor \"%s\": groups of reordered columns are not supported", t->name);
    }
    if (ends_with(t->name, "_packed", &base)) {
        if (t->dtype == SP_I32) return match_words(m, t, base);
        if (t->dtype == SP_U8) return match_nvfp4(m, t, base, true);
        return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": packed numbers of type %s",
                       t->name, sp_dtype_info(t->dtype)->name);
    }
    if (ends_with(t->name, "_proj_blocks", &base)) {
        return match_mxfp4(m, t, base + strlen("_proj"));
    }
    base = strlen(t->name);
    if (t->dtype == SP_U8 && find(m, t->name, base, "_scale_2")) {
        return match_nvfp4(m, t, base, false);
    }
    if (t->dtype == SP_F8_E4M3 || t->dtype == SP_F8_E5M2 || t->dtype == SP_I8) {
        return match_bytes(m, t);
    }
    return SP_OK;
}

/* Scales themselves are of these types, too. */
static bool is_companion(const char *name)
{
    size_t len;

    return ends_with(name, "_scale", &len) || ends_with(name, "_scale_inv", &len) ||
           ends_with(name, "_zero_point", &len);
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct sp_weight *)a)->name, ((const struct sp_weight *)b)->name);
}

static enum sp_status match(struct matching *m)
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
    if (m->out->n > 1) qsort(m->out->all, m->out->n, sizeof *m->out->all, compare);
    for (size_t i = 1; i < m->out->n; i++) {
        if (compare(&m->out->all[i - 1], &m->out->all[i]) != 0) continue;
        return sp_fail(m->err, SP_E_INPUT, "weight \"%s\" occurs twice, as \"%s\" and as \"%s\"",
                       m->out->all[i].name, m->out->all[i - 1].codes->name,
                       m->out->all[i].codes->name);
    }
    return SP_OK;
}

enum sp_status sp_quantized_weights_open(struct sp_quantized_weights *out,
                                         const struct sp_safetensors *checkpoint,
                                         const struct sp_prequantized *stated, struct sp_err *err)
{
    struct sp_quantized_weights weights = {0};
    struct matching m = {.out = &weights, .checkpoint = checkpoint, .stated = stated, .err = err};
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
    size_t low = 0, high = weights->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(weights->all[middle].name, name);
        if (order == 0) return &weights->all[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
