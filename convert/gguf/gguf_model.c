/* The tensors of a GGUF file under their published names. */
#include "convert/gguf/gguf_model.h"

#include "format/base/affix.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/family/family_table.h"
#include "format/ggml_type.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* The ending of a factor of an adapter's product; "" for every other tensor. */
static const char *factor_ending(const struct sp_gguf_model *m, const char *name)
{
    if (!m->is_adapter) return "";
    return sp_ends_with(name, ".lora_a")   ? ".lora_a"
           : sp_ends_with(name, ".lora_b") ? ".lora_b"
                                           : "";
}

/* ---- the list ---- */

/* Gives a weight its published shape. */
static void set_shape(struct sp_gguf_weight *w, enum sp_gguf_form form)
{
    const struct sp_gguf_tensor *t = w->tensor;

    w->rank = t->rank;
    memcpy(w->shape, t->shape, sizeof w->shape);
    /* A row may be stored without its 1. */
    if (t->rank == 1 && (sp_ends_with(w->name, ".shared_expert_gate.weight") ||
                         (form == SP_GGUF_ROWS && !sp_ends_with(w->name, ".bias")))) {
        w->rank = 2;
        w->shape[1] = w->shape[0];
        w->shape[0] = 1;
    }
    if (form == SP_GGUF_ROWS || form == SP_GGUF_AS_IS || form == SP_GGUF_BARE ||
        form == SP_GGUF_OPTIONAL_SUFFIX)
        return;
    if (form == SP_GGUF_CONV && t->rank == 2) {
        w->rank = 3;
        w->shape[2] = w->shape[1];
        w->shape[1] = 1;
    }
    if (form == SP_GGUF_CONV || (form == SP_GGUF_LOG && t->rank == 2 && t->shape[1] > 1)) return;
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

    if (!sp_ends_with(name, from) || len + strlen(to) >= sizeof other) return NULL;
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
                       SP_GGUF_SHOWN, t->name, m->arch->name);
    }
    strcat(name, ending);
    if ((st = sp_copy_text(&w->name, name, strlen(name), err))) return st;
    m->n++;
    w->tensor = t;
    w->log = form == SP_GGUF_LOG;
    set_shape(w, form);
    if ((st = find_scale(w, m, err))) return st;
    if (m->family.norm_shifted && sp_ends_with(stem, "norm.weight") &&
        !sp_ends_with(stem, ".ssm_norm.weight"))
        w->less = 1;
    return sp_gguf_find_orders(w, m, err);
}

/* Numbers of the metadata that the checkpoint has as tensors: one for each layer, or for all. */
static const struct {
    const char *key, *published;
    unsigned rank;
} xielu_values[] = {
    {"xielu.alpha_n", "mlp.act_fn.alpha_n", 1},
    {"xielu.alpha_p", "mlp.act_fn.alpha_p", 1},
    {"xielu.beta", "mlp.act_fn.beta", 0},
    {"xielu.eps", "mlp.act_fn.eps", 0},
};

static size_t count_values(const struct sp_gguf_model *m)
{
    bool xielu = !m->is_adapter && strcmp(m->family.activation, "xielu") == 0;

    return xielu ? sizeof xielu_values / sizeof *xielu_values : 0;
}

static enum sp_status add_values(struct sp_gguf_model *m, struct sp_err *err)
{
    static const struct sp_gguf_tensor tensor = {
        .name = "(metadata)", .type = SP_GGML_F32, .rank = 1, .shape = {1}};

    for (size_t k = 0; k < count_values(m); k++) {
        const char *key = xielu_values[k].key;
        const struct sp_gguf_value *v = sp_gguf_find(m->file, key);
        enum sp_status st;
        if (v == NULL) return sp_fail(err, SP_E_INPUT, "%s is missing", key);
        if (v->type == SP_GGUF_STRING || (v->is_array && v->n != m->n_layers)) {
            return sp_fail(err, SP_E_INPUT, "%s is not one number for each of %" PRIu64 " layers",
                           key, m->n_layers);
        }
        for (uint64_t i = 0; i < m->n_layers; i++) {
            struct sp_gguf_weight *w = &m->weights[m->n];
            char name[SP_GGUF_NAME_SIZE];
            snprintf(name, sizeof name, "model.layers.%" PRIu64 ".%s", i,
                     xielu_values[k].published);
            if ((st = sp_copy_text(&w->name, name, strlen(name), err))) return st;
            m->n++;
            w->tensor = &tensor;
            w->rank = xielu_values[k].rank;
            w->shape[0] = 1;
            w->is_value = true;
            w->value = (float)sp_gguf_number_at(v, v->is_array ? i : 0);
        }
    }
    return SP_OK;
}

static enum sp_status list_weights(struct sp_gguf_model *m, char **warnings, struct sp_err *err)
{
    enum sp_status st;
    size_t n, n_values = count_values(m), n_of_head = 0;
    const struct sp_gguf_tensor *tensors = sp_gguf_tensors(m->file, &n);

    if (n_values && m->n_layers > n) { /* by which room is made for values */
        return sp_fail(err, SP_E_INPUT, "%s.block_count is %" PRIu64 ", but there are %zu tensors",
                       m->arch->name, m->n_layers, n);
    }
    n_values *= (size_t)m->n_layers;
    if ((st = sp_new(&m->weights, n + n_values, sizeof *m->weights, err))) return st;
    for (size_t i = 0; i < n; i++) {
        if (sp_gguf_is_ignored(tensors[i].name)) continue;
        if (sp_gguf_is_of_encoder(tensors[i].name)) {
            m->n_skipped++;
            continue;
        }
        if (find_sibling(m, tensors[i].name, ".scale", ".weight") &&
            !sp_gguf_has_own_name(m, tensors[i].name))
            continue;
        if (sp_gguf_is_of_unread_head(m, tensors[i].name)) {
            n_of_head++;
            continue;
        }
        if ((st = add_weight(m, &tensors[i], err))) return st;
    }
    if ((st = add_values(m, err))) return st;
    if (n_of_head && (st = sp_warn(warnings, err,
                                   "%s: the prediction head, %zu tensors, is not supported for %s "
                                   "and is left out",
                                   sp_gguf_path(m->file), n_of_head, m->arch->name)))
        return st;
    qsort(m->weights, m->n, sizeof *m->weights, sp_compare_names);
    for (size_t i = 1; i < m->n; i++) {
        if (strcmp(m->weights[i].name, m->weights[i - 1].name) != 0) continue;
        return sp_fail(err, SP_E_INPUT, "tensors %.*s and %.*s are the same tensor of the model",
                       SP_GGUF_SHOWN, m->weights[i - 1].tensor->name, SP_GGUF_SHOWN,
                       m->weights[i].tensor->name);
    }
    return SP_OK;
}

const struct sp_gguf_weight *sp_gguf_weight_find(const struct sp_gguf_model *model,
                                                 const char *name)
{
    if (model->n == 0) return NULL;
    return bsearch(&name, model->weights, model->n, sizeof *model->weights, sp_compare_names);
}

const struct sp_gguf_weight *sp_gguf_embedding(const struct sp_gguf_model *model)
{
    char name[SP_GGUF_NAME_SIZE];
    enum sp_gguf_form form;

    if (!sp_gguf_publish_name(name, &form, model, "token_embd.weight")) return NULL;
    return sp_gguf_weight_find(model, name);
}

bool sp_gguf_is_classifier(const struct sp_gguf_model *model)
{
    return sp_gguf_weight_find(model, "model.classifier.dense.weight") ||
           sp_gguf_weight_find(model, "model.classifier.out_proj.weight");
}

/* ---- embedding and head that are one matrix ---- */

enum { N_COMPARED = 1000 }; /* rows of embedding and head, at most */

/* Embedding and head are one matrix, rounded twice, if they differ by less than this part of its
 * size: more than two bits lose, far less than two matrices differ. */
#define SAME_MATRIX 0.1

/* *out = the root of the mean square of a - b over that of b, over rows across both matrices. */
static enum sp_status compare_rows(double *out, const struct sp_gguf_weight *a,
                                   const struct sp_gguf_weight *b, struct sp_err *err)
{
    enum sp_status st;
    uint64_t rows = a->shape[0], cols = a->shape[1], step = rows / N_COMPARED + 1;
    double difference = 0, square = 0;
    uint8_t *bytes = NULL;
    float *x = NULL, *y;
    size_t size, n, other;

    if (!sp_gguf_weight_scratch(&size, a, cols) || !sp_gguf_weight_scratch(&other, b, cols) ||
        !sp_mul(&n, (size_t)cols, 2))
        return sp_fail(err, SP_E_INPUT, "tensor %s: its rows are too long", a->tensor->name);
    if (other > size) size = other;
    if ((st = sp_new(&bytes, size, 1, err)) || (st = sp_new(&x, n, sizeof *x, err))) goto done;
    y = x + cols;
    for (uint64_t row = 0; row < rows; row += step) {
        if ((st = sp_gguf_weight_read(x, a, cols, row, 1, 1, bytes, size, err))) goto done;
        if ((st = sp_gguf_weight_read(y, b, cols, row, 1, 1, bytes, size, err))) goto done;
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

/* Sets `tied` of a model whose tensors are listed. llama-quantize stores the one matrix of a tied
 * model twice, in two types; the finer one is both then, and a warning says so. */
static enum sp_status tie_head(struct sp_gguf_model *m, char **warnings, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_gguf_weight *head = sp_gguf_weight_find(m, "lm_head.weight");
    const struct sp_gguf_weight *embedding = sp_gguf_embedding(m);
    const struct sp_gguf_weight *coarse;
    const char *kept;
    double difference = 1;
    size_t i;

    m->tied = head == NULL;
    if (head == NULL || embedding == NULL || head->rank != 2 || embedding->rank != 2 ||
        memcmp(head->shape, embedding->shape, 2 * sizeof *head->shape) != 0)
        return SP_OK;
    if ((st = compare_rows(&difference, head, embedding, err))) return st;
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
    i = (size_t)(coarse - m->weights);
    free(m->weights[i].name);
    memmove(m->weights + i, m->weights + i + 1, (--m->n - i) * sizeof *m->weights);
    return SP_OK;
}

/* ---- opening ---- */

/* Whether the file has this key, or a tensor of this name, or one in some layer. */
static bool has(const struct sp_gguf_model *m, const struct sp_family *f, const char *arch,
                const char *name)
{
    char key[96];

    sp_gguf_stored_key(key, sizeof key, m->file, f, arch, name);
    return sp_gguf_find(m->file, key) || sp_gguf_find_tensor(m->file, name) ||
           sp_gguf_has_in_layers(m, name);
}

/* Finds the family whose row has the architecture and whose condition holds; for an adapter, that
 * of the model. *known = some row has it. */
static void find_family(bool *known, struct sp_gguf_model *m, const char *name, size_t len,
                        const struct sp_config *adapted)
{
    const struct sp_family *f;

    *known = false;
    for (size_t i = 0; (f = sp_family_at(i)) != NULL; i++) {
        for (const struct sp_gguf_arch *a = f->gguf.archs; a->name; a++) {
            bool conditional = a->with || a->without;
            if (!sp_is_word(name, len, a->name)) continue;
            *known = true;
            if (adapted ? strcmp(f->name, adapted->family) != 0
                        : (a->with && !has(m, f, a->name, a->with)) ||
                              (a->without && has(m, f, a->name, a->without)) ||
                              (m->arch && !conditional))
                continue;
            m->arch = a;
            sp_family_resolve(&m->family, f);
            if (conditional) return;
        }
    }
}

static enum sp_status find_arch(struct sp_gguf_model *m, const struct sp_config *adapted,
                                struct sp_err *err)
{
    enum sp_status st;
    const char *name = NULL, *type = NULL;
    size_t len = 0;
    bool known;

    if ((st = sp_gguf_get_text(m->file, "general.type", &type, &len, err))) return st;
    if (!m->is_adapter && type && len == 7 && memcmp(type, "adapter", len) == 0) {
        return sp_fail(err, SP_E_INPUT,
                       "a LoRA adapter, expected a model: an ADAPTER record merges it into one");
    }
    if ((st = sp_gguf_get_text(m->file, "general.architecture", &name, &len, err))) return st;
    if (name == NULL) return sp_fail(err, SP_E_INPUT, "general.architecture is missing");
    if (sp_is_word(name, len, "clip")) {
        return sp_fail(err, SP_E_INPUT,
                       "it is the image part of a model (mmproj); name the file of its text model");
    }
    find_family(&known, m, name, len, adapted);
    if (m->arch) return SP_OK;
    if (len > SP_GGUF_SHOWN) len = SP_GGUF_SHOWN;
    if (known) {
        return sp_fail(err, SP_E_INPUT,
                       "general.architecture is \"%.*s\", but the model it is merged into is %s",
                       (int)len, name, adapted->architecture);
    }
    return sp_fail(
        err, SP_E_UNSUPPORTED,
        "architecture \"%.*s\" is not supported in GGUF files; its safetensors checkpoint may be",
        (int)len, name);
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
    if (sp_gguf_find_tensor(m->file, "mtp.fc.weight")) predicting = 0; /* ollama's, not counted */
    m->n_predicting = predicting < n ? predicting : 0;
    m->n_layers = n - m->n_predicting;
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
                   (int)(len < SP_GGUF_SHOWN ? len : SP_GGUF_SHOWN), text, want);
}

struct sp_gguf_heads sp_gguf_heads_of(const struct sp_config *model)
{
    struct sp_gguf_heads heads = {.keys = model->delta.n_key_heads,
                                  .values = model->delta.n_value_heads,
                                  .key_dim = model->delta.key_dim,
                                  .value_dim = model->delta.value_dim};

    for (size_t i = 0; i < model->n_layers && heads.head_dim == 0; i++)
        heads.head_dim = model->layers[i].head_dim;
    return heads;
}

enum sp_status sp_gguf_model_open(struct sp_gguf_model *out, const char *path,
                                  const struct sp_config *adapted, char **warnings,
                                  struct sp_err *err)
{
    enum sp_status st;
    struct sp_gguf_model m = {.is_adapter = adapted != NULL};

    *out = (struct sp_gguf_model){0};
    if (adapted) m.heads = sp_gguf_heads_of(adapted);
    if ((st = sp_gguf_open(&m.file, path, err))) return st;
    if (adapted && ((st = check_text(m.file, "general.type", "adapter", err)) ||
                    (st = check_text(m.file, "adapter.type", "lora", err))))
        goto done;
    if ((st = find_arch(&m, adapted, err))) goto done;
    if (!adapted && (st = count_layers(&m, err))) goto done;
    if ((st = list_weights(&m, warnings, err))) goto done;
    if (!adapted && (st = tie_head(&m, warnings, err))) goto done;
    *out = m;
    return SP_OK;
done:
    sp_context(err, "%s", path);
    sp_gguf_model_release(&m);
    return st;
}

void sp_gguf_model_release(struct sp_gguf_model *model)
{
    for (size_t i = 0; i < model->n; i++)
        free(model->weights[i].name);
    free(model->weights);
    sp_gguf_close(model->file);
    *model = (struct sp_gguf_model){0};
}
