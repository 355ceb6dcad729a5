/* The tensors of a GGUF file under their published names, and their rows as floats. */
#include "convert/gguf/gguf_model.h"

#include "convert/gguf/gguf_names.h"
#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/ggml_type.h"
#include "quantize/ggml_blocks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN_NAME = 200,
    N_COMPARED = 1000, /* rows of embedding and head, at most */
};

/* Embedding and head are one matrix, rounded twice, if they differ by less than this part of its
 * size: more than two bits lose, far less than two matrices differ. */
#define SAME_MATRIX 0.1

/* ---- names ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

/* The ending of a factor of an adapter's product; "" for every other tensor. */
static const char *factor_ending(const struct sp_gguf_model *m, const char *name)
{
    if (!m->is_adapter) return "";
    return ends_with(name, ".lora_a") ? ".lora_a" : ends_with(name, ".lora_b") ? ".lora_b" : "";
}

/* ---- the list ---- */

/* Gives a weight its published shape. */
static void set_shape(struct sp_gguf_weight *w, enum sp_gguf_form form)
{
    const struct sp_gguf_tensor *t = w->tensor;

    w->rank = t->rank;
    memcpy(w->shape, t->shape, sizeof w->shape);
    if (ends_with(w->name, ".shared_expert_gate.weight") &&
        t->rank == 1) { /* a row without its 1 */
        w->rank = 2;
        w->shape[1] = w->shape[0];
        w->shape[0] = 1;
    }
    if (form == SP_GGUF_ROWS && t->rank == 1) {
        w->rank = 2;
        w->shape[1] = w->shape[0];
        w->shape[0] = 1;
    }
    if (form == SP_GGUF_ROWS || form == SP_GGUF_AS_IS || form == SP_GGUF_BARE ||
        form == SP_GGUF_UNENDED)
        return;
    if (form == SP_GGUF_CONV && t->rank == 2) {
        w->rank = 3;
        w->shape[2] = w->shape[1];
        w->shape[1] = 1;
    }
    if (form == SP_GGUF_CONV) return;
    for (unsigned i = 1; i < t->rank; i++)
        w->shape[0] *= w->shape[i];
    w->rank = 1;
}

/* The tensor whose name has the ending `to` in place of `from`; NULL: there is none. */
static const struct sp_gguf_tensor *find_sibling(const struct sp_gguf_model *m, const char *name,
                                                 const char *from, const char *to)
{
    size_t len = strlen(name) - strlen(from);
    char other[SP_GGUF_NAME_SIZE];

    if (!ends_with(name, from) || len + strlen(to) >= sizeof other) return NULL;
    snprintf(other, sizeof other, "%.*s%s", (int)len, name, to);
    return sp_gguf_find_tensor(m->file, other);
}

/* A factor stands beside the tensor of most NVFP4 matrices. */
static enum sp_status find_scale(struct sp_gguf_weight *w, const struct sp_gguf_model *m,
                                 struct sp_err *err)
{
    const struct sp_gguf_tensor *scale = find_sibling(m, w->tensor->name, ".weight", ".scale");
    uint64_t n = w->rank == 3 ? w->shape[0] : 1;

    if (scale == NULL || m->is_adapter || sp_gguf_has_own_name(m, scale->name)) return SP_OK;
    if (w->rank < 2 || scale->type != SP_GGML_F32 || scale->rank != 1 ||
        (scale->shape[0] != 1 && scale->shape[0] != n)) {
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor %s: not one f32 factor for each matrix of %s",
                       scale->name, w->tensor->name);
    }
    w->scale = scale;
    return SP_OK;
}

static enum sp_status add_weight(struct sp_gguf_model *m, const struct sp_gguf_tensor *t,
                                 struct sp_err *err)
{
    enum sp_status st;
    struct sp_gguf_weight *w = &m->weights[m->n];
    const char *ending = factor_ending(m, t->name);
    size_t len = strlen(t->name) - strlen(ending);
    char stem[SP_GGUF_NAME_SIZE], name[SP_GGUF_NAME_SIZE + sizeof ".lora_a"];
    enum sp_gguf_form form;

    if (len < sizeof stem) {
        memcpy(stem, t->name, len);
        stem[len] = '\0';
    }
    if (len >= sizeof stem || !sp_gguf_publish_name(name, &form, m, stem)) {
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor %.*s is not a tensor of %s models",
                       SHOWN_NAME, t->name, m->arch->name);
    }
    strcat(name, ending);
    if ((st = sp_copy_text(&w->name, name, strlen(name), err))) return st;
    m->n++;
    w->tensor = t;
    w->log = form == SP_GGUF_LOG;
    set_shape(w, form);
    if ((st = find_scale(w, m, err))) return st;
    if (m->arch->norm_plus && ends_with(stem, "norm.weight") &&
        !ends_with(stem, ".ssm_norm.weight"))
        w->less = 1;
    return sp_gguf_find_orders(w, m, err);
}

static int compare_weights(const void *left, const void *right)
{
    const struct sp_gguf_weight *a = left, *b = right;

    return strcmp(a->name, b->name);
}

static enum sp_status list_weights(struct sp_gguf_model *m, char **warnings, struct sp_err *err)
{
    enum sp_status st;
    size_t n, n_of_head = 0;
    const struct sp_gguf_tensor *tensors = sp_gguf_tensors(m->file, &n);

    if ((st = sp_new(&m->weights, n, sizeof *m->weights, err))) return st;
    for (size_t i = 0; i < n; i++) {
        if (sp_gguf_is_ignored(tensors[i].name)) continue;
        if (sp_gguf_is_of_encoder(tensors[i].name)) {
            m->n_skipped++;
            continue;
        }
        if (find_sibling(m, tensors[i].name, ".scale", ".weight") &&
            !sp_gguf_has_own_name(m, tensors[i].name)) {
            continue;
        }
        if (sp_gguf_is_of_unread_head(m, tensors[i].name)) {
            n_of_head++;
            continue;
        }
        if ((st = add_weight(m, &tensors[i], err))) return st;
    }
    if (n_of_head && (st = sp_warn(warnings, err,
                                   "%s: the prediction head, %zu tensors, is not supported for %s "
                                   "and is left out",
                                   sp_gguf_path(m->file), n_of_head, m->arch->name))) {
        return st;
    }
    qsort(m->weights, m->n, sizeof *m->weights, compare_weights);
    for (size_t i = 1; i < m->n; i++) {
        if (strcmp(m->weights[i].name, m->weights[i - 1].name) != 0) continue;
        return sp_fail(err, SP_E_INPUT, "tensors %.*s and %.*s are the same tensor of the model",
                       SHOWN_NAME, m->weights[i - 1].tensor->name, SHOWN_NAME,
                       m->weights[i].tensor->name);
    }
    return SP_OK;
}

const struct sp_gguf_weight *sp_gguf_weight_find(const struct sp_gguf_model *model,
                                                 const char *name)
{
    struct sp_gguf_weight key = {.name = (char *)(uintptr_t)name};

    if (model->n == 0) return NULL;
    return bsearch(&key, model->weights, model->n, sizeof key, compare_weights);
}

/* ---- embedding and head ---- */

/* *out = the root of the mean square of a - b over that of b, over rows across both matrices. */
static enum sp_status compare_rows(double *out, const struct sp_gguf_model *m,
                                   const struct sp_gguf_weight *a, const struct sp_gguf_weight *b,
                                   struct sp_err *err)
{
    enum sp_status st;
    uint64_t rows = a->shape[0], cols = a->shape[1], step = rows / N_COMPARED + 1;
    double difference = 0, square = 0;
    uint8_t *bytes = NULL;
    float *x = NULL, *y;
    size_t size, n, other;

    if (!sp_gguf_weight_scratch(&size, a, cols) || !sp_gguf_weight_scratch(&other, b, cols) ||
        !sp_mul(&n, (size_t)cols, 2)) {
        return sp_fail(err, SP_E_INPUT, "tensor %s: its rows are too long", a->tensor->name);
    }
    if (other > size) size = other;
    if ((st = sp_new(&bytes, size, 1, err)) || (st = sp_new(&x, n, sizeof *x, err))) goto done;
    y = x + cols;
    for (uint64_t row = 0; row < rows; row += step) {
        if ((st = sp_gguf_weight_read(x, m, a, cols, row, 1, 1, bytes, size, err)) ||
            (st = sp_gguf_weight_read(y, m, b, cols, row, 1, 1, bytes, size, err))) {
            goto done;
        }
        for (uint64_t k = 0; k < cols; k++) {
            double d = (double)x[k] - (double)y[k];
            difference += d * d;
            square += (double)y[k] * (double)y[k];
        }
    }
    *out = square > 0 ? sqrt(difference / square) : 0;
done:
    free(bytes);
    free(x);
    return st;
}

static void remove_weight(struct sp_gguf_model *m, size_t i)
{
    free(m->weights[i].name);
    memmove(m->weights + i, m->weights + i + 1, (m->n - i - 1) * sizeof *m->weights);
    m->n--;
}

/* llama-quantize stores the one matrix of a tied model twice, in two types. The finer one is both
 * then. */
static enum sp_status tie_head(struct sp_gguf_model *m, char **warnings, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_gguf_weight *head = sp_gguf_weight_find(m, "lm_head.weight");
    const struct sp_gguf_weight *embedding = sp_gguf_weight_find(m, "model.embed_tokens.weight");
    const struct sp_gguf_weight *coarse;
    const char *kept;
    double difference = 1;

    m->tied = head == NULL;
    if (head == NULL || embedding == NULL || head->rank != 2 || embedding->rank != 2 ||
        memcmp(head->shape, embedding->shape, 2 * sizeof *head->shape) != 0) {
        return SP_OK;
    }
    if ((st = compare_rows(&difference, m, head, embedding, err))) return st;
    if (!(difference < SAME_MATRIX)) return SP_OK;
    coarse = head->tensor->size > embedding->tensor->size ? embedding : head;
    kept = coarse == head ? "token_embd.weight" : "output.weight";
    st = sp_warn(warnings, err,
                 "%s: token_embd.weight and output.weight are the same matrix; %s, the more "
                 "precise one, is used for both",
                 sp_gguf_path(m->file), kept);
    if (st) return st;
    if (coarse == embedding) { /* its name passes to the head's numbers */
        struct sp_gguf_weight *both = (struct sp_gguf_weight *)(uintptr_t)embedding;
        both->tensor = head->tensor;
        both->scale = head->scale;
        coarse = head;
    }
    m->tied = true;
    remove_weight(m, (size_t)(coarse - m->weights));
    return SP_OK;
}

/* ---- opening ---- */

static enum sp_status find_arch(struct sp_gguf_model *m, struct sp_err *err)
{
    enum sp_status st;
    const char *name = NULL, *type = NULL;
    size_t len = 0;

    if ((st = sp_gguf_get_text(m->file, "general.type", &type, &len, err))) return st;
    if (!m->is_adapter && type && len == 7 && memcmp(type, "adapter", len) == 0) {
        return sp_fail(err, SP_E_INPUT,
                       "a LoRA adapter, expected a model: an ADAPTER record merges it into one");
    }
    if ((st = sp_gguf_get_text(m->file, "general.architecture", &name, &len, err))) return st;
    if (name == NULL) return sp_fail(err, SP_E_INPUT, "general.architecture is missing");
    m->arch = sp_gguf_arch_find(name, len);
    if (m->arch) return SP_OK;
    return sp_fail(
        err, SP_E_UNSUPPORTED,
        "architecture \"%.*s\" is not supported in GGUF files; its safetensors checkpoint may be",
        (int)(len < SHOWN_NAME ? len : SHOWN_NAME), name);
}

/* Layers of the model: block_count counts those of a prediction head, too. */
static enum sp_status count_layers(struct sp_gguf_model *m, struct sp_err *err)
{
    uint64_t n = 0, predicting = 0;
    char key[96];
    enum sp_status st;

    snprintf(key, sizeof key, "%s.block_count", m->arch->name);
    if ((st = sp_gguf_get_u64(m->file, key, SP_GGUF_MAX_LAYERS, &n, err))) return st;
    snprintf(key, sizeof key, "%s.nextn_predict_layers", m->arch->name);
    if ((st = sp_gguf_get_u64(m->file, key, SP_GGUF_MAX_LAYERS, &predicting, err))) return st;
    m->n_predicting = predicting < n ? predicting : 0;
    m->n_layers = n - m->n_predicting;
    return SP_OK;
}

enum sp_status sp_gguf_model_open(struct sp_gguf_model *out, const char *path, char **warnings,
                                  struct sp_err *err)
{
    enum sp_status st;
    struct sp_gguf_model m = {0};

    *out = m;
    if ((st = sp_gguf_open(&m.file, path, err))) return st;
    if ((st = find_arch(&m, err)) || (st = count_layers(&m, err)) ||
        (st = list_weights(&m, warnings, err)) || (st = tie_head(&m, warnings, err))) {
        sp_context(err, "%s", path);
        sp_gguf_model_release(&m);
        return st;
    }
    *out = m;
    return SP_OK;
}

/* Refuses a file whose key has another text than `want`. */
static enum sp_status check_text(const struct sp_gguf *file, const char *key, const char *want,
                                 struct sp_err *err)
{
    const char *text = "";
    size_t len = 0;
    enum sp_status st;

    if ((st = sp_gguf_get_text(file, key, &text, &len, err))) return st;
    if (strlen(want) == len && memcmp(text, want, len) == 0) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s is \"%.*s\", expected \"%s\"", key,
                   (int)(len < SHOWN_NAME ? len : SHOWN_NAME), text, want);
}

enum sp_status sp_gguf_adapter_open(struct sp_gguf_model *out, const char *path, uint64_t head_dim,
                                    struct sp_err *err)
{
    enum sp_status st;
    struct sp_gguf_model m = {.is_adapter = true, .head_dim = head_dim};

    *out = (struct sp_gguf_model){0};
    if ((st = sp_gguf_open(&m.file, path, err))) return st;
    if ((st = check_text(m.file, "general.type", "adapter", err)) ||
        (st = check_text(m.file, "adapter.type", "lora", err)) || (st = find_arch(&m, err)) ||
        (st = list_weights(&m, NULL, err))) {
        sp_context(err, "%s", path);
        sp_gguf_model_release(&m);
        return st;
    }
    *out = m;
    return SP_OK;
}

void sp_gguf_model_release(struct sp_gguf_model *model)
{
    for (size_t i = 0; i < model->n; i++)
        free(model->weights[i].name);
    free(model->weights);
    sp_gguf_close(model->file);
    *model = (struct sp_gguf_model){0};
}

/* ---- rows ---- */

enum sp_dtype sp_gguf_weight_float_type(const struct sp_gguf_weight *w)
{
    if (w->less != 0 || w->log || w->scale) return SP_F32;
    switch (w->tensor->type) {
    case SP_GGML_F16:
        return SP_F16;
    case SP_GGML_BF16:
    case SP_GGML_MXFP4: /* two significant bits times a power of two */
    case SP_GGML_NVFP4: /* two significant bits times four */
        return SP_BF16;
    default:
        return SP_F32;
    }
}

const char *sp_gguf_weight_coding(const struct sp_gguf_weight *w)
{
    const struct sp_ggml_type_info *info = sp_ggml_type_info(w->tensor->type);

    return info->code_bits ? info->name : NULL;
}

bool sp_gguf_weight_scratch(size_t *out, const struct sp_gguf_weight *w, uint64_t n_cols)
{
    const struct sp_ggml_type_info *info = sp_ggml_type_info(w->tensor->type);
    uint64_t blocks = n_cols / info->block + (n_cols % info->block != 0);

    return blocks <= SIZE_MAX && sp_mul(out, (size_t)blocks, info->size);
}

/* The natural logarithm, by operations that every machine rounds alike, which those of C libraries
 * do not promise. With x = m 2^e and s = (m - 1) / (m + 1) it is e log 2 + 2 (s + s^3 / 3 + ...).
 */
static double logarithm(double x)
{
    int e;
    double m = frexp(x, &e), s, sum = 0;

    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    s = (m - 1) / (m + 1);
    for (int k = 23; k > 0; k -= 2)
        sum = sum * s * s + 1.0 / k;
    return e * 0.69314718055994531 + 2 * s * sum;
}

/* x of -e^x. Its published number is a bfloat16 in most checkpoints, and is taken where it is
 * within the rounding of the exponential. */
static float undo_exponential(float stored)
{
    float x = (float)logarithm(-(double)stored);
    uint32_t bits = sp_bits_of_float(x) + 0x7fff;
    float near = sp_float_of_bits((bits + (bits >> 16 & 1)) & 0xffff0000);
    float rounding = 1.2e-7f * (fabsf(x) > 1 ? fabsf(x) : 1);

    return fabsf(near - x) <= rounding ? near : x;
}

/* Undoes what the converter did to n numbers, the first of which is element `first`. */
static enum sp_status undo(float *x, const struct sp_gguf_weight *w, uint64_t first, size_t n,
                           struct sp_err *err)
{
    for (size_t i = 0; w->less != 0 && i < n; i++)
        x[i] -= w->less;
    for (size_t i = 0; w->log && i < n; i++) {
        if (!(x[i] < 0) || isinf(x[i])) {
            return sp_fail(err, SP_E_INPUT, "tensor %s: element %" PRIu64 " is not below 0",
                           w->tensor->name, first + i);
        }
        x[i] = undo_exponential(x[i]);
    }
    return SP_OK;
}

/* Elements first..first + n - 1 in stored order; both are multiples of a block. */
static enum sp_status read_run(float *out, const struct sp_gguf_model *m,
                               const struct sp_gguf_weight *w, uint64_t first, uint64_t n,
                               uint8_t *bytes, size_t size, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_ggml_type_info *info = sp_ggml_type_info(w->tensor->type);
    uint64_t block = first / info->block, left = n / info->block;

    while (left) {
        size_t some = left < size / info->size ? (size_t)left : size / info->size;

        st = sp_gguf_read(m->file, w->tensor, block * info->size, some * info->size, bytes, err);
        if (st) return st;
        sp_ggml_decode(out, w->tensor->type, bytes, some);
        st = undo(out, w, block * info->block, some * info->block, err);
        if (st) return st;
        out += some * info->block;
        block += some;
        left -= some;
    }
    return SP_OK;
}

/* Puts n rows in the published order of columns. */
static enum sp_status reorder_columns(float *x, const struct sp_gguf_weight *w, uint64_t n_cols,
                                      uint64_t n, struct sp_err *err)
{
    enum sp_status st;
    float *row;

    if (n_cols != w->shape[w->rank - 1])
        return sp_fail(err, SP_E_BUG, "tensor %s: columns of a part of a row", w->tensor->name);
    if ((st = sp_new(&row, (size_t)n_cols, sizeof *row, err))) return st;
    for (uint64_t i = 0; i < n; i++, x += n_cols) {
        memcpy(row, x, (size_t)n_cols * sizeof *row);
        for (uint64_t k = 0; k < n_cols; k++)
            x[k] = row[sp_gguf_stored_at(&w->cols, k)];
    }
    free(row);
    return SP_OK;
}

/* Multiplies rows first, first + step, ... by the factors of their matrices. */
static enum sp_status scale_rows(float *x, const struct sp_gguf_model *m,
                                 const struct sp_gguf_weight *w, uint64_t n_cols, uint64_t first,
                                 uint64_t step, uint64_t n, struct sp_err *err)
{
    uint64_t rows = w->scale->shape[0] == 1 ? UINT64_MAX : w->shape[1], read = UINT64_MAX;
    float factor = 1;

    if (n_cols != w->shape[w->rank - 1])
        return sp_fail(err, SP_E_BUG, "tensor %s: a part of a scaled row", w->tensor->name);
    for (uint64_t i = 0; i < n; i++, x += n_cols) {
        uint64_t matrix = (first + i * step) / rows;
        uint8_t bytes[4];
        enum sp_status st;

        if (matrix != read) {
            if ((st = sp_gguf_read(m->file, w->scale, 4 * matrix, 4, bytes, err))) return st;
            factor = sp_float_of_bits(sp_get32(bytes));
            read = matrix;
        }
        for (uint64_t k = 0; k < n_cols; k++)
            x[k] *= factor;
    }
    return SP_OK;
}

static enum sp_status read_rows(float *out, const struct sp_gguf_model *m,
                                const struct sp_gguf_weight *w, uint64_t n_cols, uint64_t first,
                                uint64_t step, uint64_t n, uint8_t *bytes, size_t size,
                                struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (w->rows.run == 0 && step == 1)
        return read_run(out, m, w, first * n_cols, n * n_cols, bytes, size, err);
    if (w->rows.run && w->rank == 1 && n_cols > 1) { /* a whole vector: its elements are its rows */
        n *= n_cols;
        first *= n_cols;
        n_cols = 1;
    }
    for (uint64_t i = 0; i < n && !st; i++) {
        uint64_t row = sp_gguf_stored_at(&w->rows, first + i * step);
        st = read_run(out + i * n_cols, m, w, row * n_cols, n_cols, bytes, size, err);
    }
    return st;
}

enum sp_status sp_gguf_weight_read(float *out, const struct sp_gguf_model *m,
                                   const struct sp_gguf_weight *w, uint64_t n_cols, uint64_t first,
                                   uint64_t step, uint64_t n, uint8_t *bytes, size_t size,
                                   struct sp_err *err)
{
    enum sp_status st;

    /* Rows of one element are those of a vector in another order, or of one that is taken apart. */
    if (n_cols % sp_ggml_type_info(w->tensor->type)->block) {
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor %s: %s blocks cannot be split",
                       w->tensor->name, sp_ggml_type_info(w->tensor->type)->name);
    }
    st = read_rows(out, m, w, n_cols, first, step, n, bytes, size, err);
    if (!st && w->scale) st = scale_rows(out, m, w, n_cols, first, step, n, err);
    return st || w->cols.run == 0 ? st : reorder_columns(out, w, n_cols, n, err);
}
