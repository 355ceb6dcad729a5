#include "convert/create/calibration.h"

#include "convert/gguf/gguf_model.h"
#include "format/base/affix.h"
#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/family/family_table.h"
#include "format/family/tensor_alias.h"
#include "format/ggml_type.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct import {
    struct sp_importances all;
    struct sp_gguf_model model; /* by which names and orders are found */
    const struct sp_source *source;
    struct sp_mapping file;
};

/* What a file has of one tensor. */
struct sums {
    char name[SP_GGUF_NAME_SIZE]; /* llama.cpp's */
    const uint8_t *at, *counts;   /* counts may be NULL: none is 0 */
    size_t n, n_counts;
};

static float number_at(const uint8_t *at, size_t i)
{
    return sp_float_of_bits(sp_get32(at + i * sizeof(float)));
}

static enum sp_status copy_sums(float *out, const struct sums *s, const struct sp_gguf_order *order,
                                struct sp_err *err)
{
    for (size_t i = 0; i < s->n; i++) {
        float sum = number_at(s->at, (size_t)sp_gguf_stored_at(order, i));
        float count = s->counts ? number_at(s->counts, i / (s->n / s->n_counts)) : 1;
        if (!(sum >= 0 && sum <= FLT_MAX && count >= 0)) {
            return sp_fail(err, SP_E_INPUT,
                           "tensor %s: sum %zu is %g with a count of %g, expected 0 or more",
                           s->name, i, (double)sum, (double)count);
        }
        out[i] = count > 0 ? sum : 0;
    }
    return SP_OK;
}

/* Adds the sums as those of a matrix of the source. */
static enum sp_status add(struct import *m, const struct sums *s, const struct sp_tensor_spec *spec,
                          char *published, struct sp_err *err)
{
    enum sp_status st;
    uint64_t n = spec->rank == 3 ? spec->shape[0] : 1, cols = sp_spec_cols(spec);
    struct sp_gguf_tensor tensor = {.name = s->name};
    struct sp_gguf_weight w = {.name = published, .tensor = &tensor, .rank = spec->rank};
    struct sp_pack_tensor *made;
    char *name = NULL;
    float *sums = NULL;

    if (s->n != n * cols) {
        return sp_fail(err, SP_E_INPUT,
                       "tensor %s: made for another model: %zu sums, but %s in %s has %" PRIu64
                       " x %" PRIu64 " columns",
                       s->name, s->n, spec->name, m->source->path, n, cols);
    }
    memcpy(w.shape, spec->shape, sizeof w.shape);
    if ((st = sp_gguf_find_orders(&w, &m->model, err))) return st;
    st = sp_grow(&m->all.tensors, &m->all.cap, m->all.n + 1, sizeof *m->all.tensors, err);
    if (st) return st;
    made = &m->all.tensors[m->all.n++];
    *made = (struct sp_pack_tensor){.part = SP_PART_TARGET, .rank = 2, .shape = {n, cols}};
    if ((st = sp_copy_text(&name, spec->name, strlen(spec->name), err))) return st;
    made->name = name;
    if ((st = sp_new(&sums, s->n, sizeof *sums, err))) return st;
    made->data = (const uint8_t *)sums;
    return copy_sums(sums, s, &w.cols, err);
}

/* Whether a checkpoint has a canonical tensor, `inner` within `prefix`, in the published one. */
static bool is_stored_in(const struct sp_family *family, const char *prefix, const char *inner,
                         const char *published)
{
    char name[SP_GGUF_NAME_SIZE];

    snprintf(name, sizeof name, "%s%s", prefix, inner);
    if (strcmp(name, published) == 0 || strcmp(inner, published) == 0) return true;
    for (size_t i = 0; i < SP_MAX_ALIASES && family->aliases[i]; i++) {
        for (const struct sp_alias *a = family->aliases[i]; a->canonical; a++) {
            if (!sp_alias_matches(a, inner)) continue;
            sp_alias_source_name(name, sizeof name, prefix, a, inner);
            if (strcmp(name, published) == 0) return true;
        }
    }
    return false;
}

/* Adds the sums for each matrix that they are of. A tied head has the name of the embedding. Not
 * used are those of encoders, of a prediction head, and of kv_b_proj, from whose inputs those of
 * its heads' matrices differ. */
static enum sp_status import(struct import *m, const struct sums *s, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_specs *specs = &m->source->specs;
    const struct sp_family *family = &m->model.family;
    bool tied = strcmp(s->name, "output.weight") == 0 && !sp_specs_find(specs, "lm_head.weight");
    char published[SP_GGUF_NAME_SIZE], prefix[64] = "model.", own[32] = "";
    enum sp_gguf_form form;
    unsigned layer;
    bool found = false;

    if (family->gguf.archs[0].name == NULL) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "llama.cpp's names of the tensors of %s models are not known",
                       m->source->config.architecture);
    }
    if (sscanf(s->name, "blk.%5u.", &layer) == 1) {
        const char *layers = family->layers ? family->layers : "layers.";
        if (layer >= m->source->config.n_layers && sp_family_predicts(family)) return SP_OK;
        snprintf(prefix, sizeof prefix, "model.%s%u.", layers, layer);
        snprintf(own, sizeof own, "layers.%u.", layer);
    }
    if (sp_gguf_is_of_encoder(s->name) || sp_ends_with(s->name, ".attn_kv_b.weight")) return SP_OK;
    if (!sp_gguf_publish_name(published, &form, &m->model, tied ? "token_embd.weight" : s->name))
        published[0] = '\0';
    for (size_t i = 0; i < specs->n_specs && published[0]; i++) {
        const struct sp_tensor_spec *spec = &specs->specs[i];
        if (strncmp(spec->name, own, strlen(own)) != 0) continue;
        if (!is_stored_in(family, prefix, spec->name + strlen(own), published)) continue;
        found = true;
        if (!sp_role_is_matrix(spec->role)) continue;
        if ((st = add(m, s, spec, published, err))) return st;
    }
    if (found) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "tensor %s: made for another model: %s has no such tensor",
                   s->name, m->source->path);
}

static enum sp_status read_gguf(struct import *m, bool *is_one, const struct sp_gguf *file,
                                struct sp_err *err)
{
    enum sp_status st;
    const char *type = "";
    size_t n, len = 0;
    const struct sp_gguf_tensor *t = sp_gguf_tensors(file, &n);

    if ((st = sp_gguf_get_text(file, "general.type", &type, &len, err))) return st;
    *is_one = sp_is_word(type, len, "imatrix");
    for (size_t i = 0; i < n && *is_one && !st; i++) {
        struct sums s = {.n = (size_t)t[i].size / sizeof(float)};
        char other[SP_GGUF_NAME_SIZE + sizeof ".counts"];
        const struct sp_gguf_tensor *counts;
        if (!sp_ends_with(t[i].name, ".in_sum2")) continue;
        snprintf(s.name, sizeof s.name, "%.*s", (int)(strlen(t[i].name) - strlen(".in_sum2")),
                 t[i].name);
        snprintf(other, sizeof other, "%s.counts", s.name);
        counts = sp_gguf_find_tensor(file, other);
        s.n_counts = counts ? (size_t)counts->size / sizeof(float) : 0;
        if (s.n_counts == 0 || s.n % s.n_counts || t[i].type != SP_GGML_F32 ||
            counts->type != SP_GGML_F32 || sp_file_path(t[i].file) != sp_gguf_path(file) ||
            sp_file_path(counts->file) != sp_gguf_path(file)) {
            return sp_fail(err, SP_E_INPUT, "tensor %s: expected f32, and as many for each of %s",
                           t[i].name, other);
        }
        s.at = m->file.data + t[i].offset;
        s.counts = m->file.data + counts->offset;
        st = import(m, &s, err);
    }
    return st;
}

/* Each entry is a name, a number of calls and sums. What may follow the entries, a number of calls
 * and the name of a text, is not needed. */
static enum sp_status read_older(struct import *m, bool *is_one, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    const uint8_t *at = m->file.data, *end = at + m->file.size;
    uint32_t n = m->file.size < 4 ? 0 : sp_get32(at);

    at += 4;
    for (uint32_t i = 0; i < n && !st; i++) {
        struct sums s = {.n = 0};
        size_t left = (size_t)(end - at), len = left < 4 ? 0 : sp_get32(at);
        if (len > 0 && len < sizeof s.name && left >= len + 12) s.n = sp_get32(at + len + 8);
        if (s.n == 0 || s.n > (left - len - 12) / sizeof(float)) {
            if (i == 0) return SP_OK;
            return sp_fail(err, SP_E_INPUT, "entry %" PRIu32 " has no name or is cut off", i);
        }
        *is_one = true;
        memcpy(s.name, at + 4, len);
        s.at = at + len + 12;
        at = s.at + s.n * sizeof(float);
        st = import(m, &s, err);
    }
    return st;
}

enum sp_status sp_importances_read(struct sp_importances *out, bool *is_one, const char *path,
                                   const struct sp_source *source, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_family *family = sp_family_by_type(source->config.family);
    struct import m = {.source = source,
                       .model = {.is_adapter = true, .heads = sp_gguf_heads_of(&source->config)}};
    struct sp_gguf *file = NULL;

    *is_one = false;
    *out = m.all;
    if (family) sp_family_resolve(&m.model.family, family);
    m.model.family.gguf.permuted = SP_GGUF_PERMUTED_NONE; /* rows, which have no part in this */
    if ((st = sp_file_map(&m.file, path, err))) return st;
    if (m.file.size < 4 || !sp_gguf_is_magic(m.file.data))
        st = read_older(&m, is_one, err);
    else if (!(st = sp_gguf_open(&file, path, err)))
        st = read_gguf(&m, is_one, file, err);
    if (st) {
        sp_context(err, "%s", path);
        sp_importances_release(&m.all);
    }
    *out = m.all;
    sp_gguf_close(file);
    sp_file_unmap(&m.file);
    return st;
}

void sp_importances_release(struct sp_importances *all)
{
    for (size_t i = 0; i < all->n; i++) {
        free((char *)(uintptr_t)all->tensors[i].name);
        free((uint8_t *)(uintptr_t)all->tensors[i].data);
    }
    free(all->tensors);
    *all = (struct sp_importances){0};
}
