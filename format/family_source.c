/* A checkpoint's tensors -> the canonical ones: under which prefix they stand, which of them are
 * stored fused, apart, transposed or interleaved, and what is left over.
 *
 * Nothing is guessed: what a family may look like is in the table of forms, every tensor found has
 * the shape that the config gives it, and a tensor of the text model that nobody reads is an error,
 * because it means that the model is another one than its config says. */
#include "format/family.h"

#include "format/family_parts.h"
#include "format/family_table.h"
#include "format/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A config that calls for far more than there is stops being counted at MAX_FINDINGS. */
enum { NAME_SIZE = 256, MAX_FINDINGS = 1000 };

/* What is wrong with the checkpoint: the first few findings, and how many there are. */
struct findings {
    char text[700];
    size_t len, n, n_shown;
};

struct matcher {
    struct sp_specs *specs;
    struct sp_config *config;
    enum sp_storage storage;
    const struct sp_source_tensor **sorted; /* by name, [n] */
    bool *used;                             /* [n] */
    size_t n;
    const char *prefix;    /* of the text model's tensors */
    const char *head_name; /* NULL: there is none */
    bool embedding_is_head;
    struct findings findings;
    struct sp_err *err;
};

static void add_finding(struct findings *f, const char *format, ...) SP_PRINTF(2, 3);

static void add_finding(struct findings *f, const char *format, ...)
{
    char text[SP_ERR_TEXT];
    va_list args;
    size_t len;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    len = strlen(text);
    f->n++;
    if (f->n_shown + 1 != f->n || f->len + len + 2 >= sizeof f->text) {
        if (f->n > 1) return;
        len = sizeof f->text - 1; /* one endless name */
    }
    f->len += (size_t)snprintf(f->text + f->len, sizeof f->text - f->len, "%s%.*s",
                               f->n_shown ? "; " : "", (int)len, text);
    f->n_shown++;
}

static int compare_tensors(const void *a, const void *b)
{
    const struct sp_source_tensor *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* Index into m->sorted; m->n when there is no such tensor. */
static size_t find_index(const struct matcher *m, const char *name)
{
    size_t low = 0, high = m->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(m->sorted[middle]->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < m->n && strcmp(m->sorted[low]->name, name) == 0 ? low : m->n;
}

static bool exists(const struct matcher *m, const char *prefix, const char *name)
{
    char full[NAME_SIZE];

    snprintf(full, sizeof full, "%s%s", prefix, name);
    return find_index(m, full) < m->n;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

static bool begins_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* Tensors that give away what kind of file this really is, whatever its config says. */
static enum sp_status refuse_evidence(const struct matcher *m)
{
    static const struct {
        const char *begin, *end; /* either may be NULL */
        const char *what;
    } evidence[] = {
        {NULL, ".absmax", "bitsandbytes weights"},
        {NULL, ".qweight", "GPTQ or AWQ weights"},
        {NULL, ".scales", "mlx weights"},
        {NULL, ".weight_packed", "compressed-tensors weights"},
        {NULL, ".weight_scale", "compressed-tensors weights"},
        {NULL, ".weight_scale_inv", "FP8 weights"},
        {NULL, "_proj_blocks", "MXFP4 weights"},
        {"mtp.", NULL, "a multi-token prediction head"},
        {"midlayer.", NULL, "an EAGLE-3 draft"},
        {"d2t", NULL, "a draft vocabulary"},
        {"markov_head.", NULL, "a DSpark draft"},
        {"candidate_selector.", NULL, "a DFlash2 draft"},
        {"aux_hidden_norms.", NULL, "a Laguna draft"},
        {"pre_projection.", NULL, "a Gemma 4 assistant"},
    };

    for (size_t i = 0; i < m->n; i++) {
        const char *name = m->sorted[i]->name;
        for (size_t k = 0; k < sizeof evidence / sizeof evidence[0]; k++) {
            if (evidence[k].begin && !begins_with(name, evidence[k].begin)) continue;
            if (evidence[k].end && !ends_with(name, evidence[k].end)) continue;
            return sp_fail(m->err, SP_E_UNSUPPORTED, "tensor \"%s\": %s, which is not supported",
                           name, evidence[k].what);
        }
    }
    return SP_OK;
}

/* Exactly one prefix holds the text model. */
static enum sp_status find_prefix(struct matcher *m)
{
    static const char *const prefixes[] = {
        "",
        "model.",
        "language_model.model.",
        "model.language_model.",
        "model.language_model.model.",
    };
    size_t n = m->config->draft.kind ? 2 : sizeof prefixes / sizeof prefixes[0];

    for (size_t i = 0; i < n; i++) {
        if (!exists(m, prefixes[i], "embed_tokens.weight") &&
            !exists(m, prefixes[i], "norm.weight")) {
            continue;
        }
        if (m->prefix) {
            return sp_fail(m->err, SP_E_INPUT,
                           "two text models, with tensors under \"%s\" and under \"%s\"", m->prefix,
                           prefixes[i]);
        }
        m->prefix = prefixes[i];
    }
    if (m->prefix) return SP_OK;
    return sp_fail(m->err, SP_E_INPUT,
                   "no text model: no tensor \"norm.weight\" under any known prefix");
}

static void find_head(struct matcher *m)
{
    static const char *const names[] = {"lm_head.weight", "language_model.lm_head.weight",
                                        "model.lm_head.weight"};

    for (size_t i = 0; i < sizeof names / sizeof names[0] && m->head_name == NULL; i++) {
        if (exists(m, "", names[i])) m->head_name = names[i];
    }
}

/* Which of embedding, head and fc there are, and what follows for a language model whose config
 * says otherwise. */
static enum sp_status settle(struct matcher *m, bool *compare_equal)
{
    struct sp_config *c = m->config;
    struct sp_tables found = {.embedding = exists(m, m->prefix, "embed_tokens.weight"),
                              .head = m->head_name != NULL};
    char name[NAME_SIZE];
    size_t fc;

    snprintf(name, sizeof name, "%sfc.weight", m->prefix);
    fc = find_index(m, name);
    if (fc < m->n) {
        const struct sp_source_tensor *t = m->sorted[fc];
        if (t->rank != 2 || t->shape[1] == 0) {
            return sp_fail(m->err, SP_E_INPUT, "tensor \"%s\" is no matrix", t->name);
        }
        found.fc_cols = t->shape[1];
    }
    if (c->draft.kind == SP_DRAFT_NONE) {
        *compare_equal = found.embedding && found.head && c->tied;
        m->embedding_is_head = found.head && !found.embedding;
        if (m->embedding_is_head && c->tied_stated && !c->tied) {
            return sp_fail(m->err, SP_E_INPUT,
                           "missing tensor \"%sembed_tokens.weight\", and tie_word_embeddings is "
                           "false",
                           m->prefix);
        }
        if (!found.head && !c->tied && m->prefix[0] == '\0') {
            return sp_fail(m->err, SP_E_INPUT,
                           "missing tensor \"lm_head.weight\": this is the "
                           "export of a base model");
        }
    }
    return sp_config_settle(c, &found, m->err);
}

static void describe_shape(char *text, size_t size, const uint64_t *shape, unsigned rank)
{
    size_t n = (size_t)snprintf(text, size, "[");

    for (unsigned i = 0; i < rank && n < size; i++) {
        n += (size_t)snprintf(text + n, size - n, i ? ", %llu" : "%llu",
                              (unsigned long long)shape[i]);
    }
    if (n < size) snprintf(text + n, size - n, "]");
}

/* A tensor that must be there in this shape; found or not, the matching goes on. */
static bool claim(struct matcher *m, const char *name, const uint64_t *shape, unsigned rank)
{
    size_t i = find_index(m, name);
    const struct sp_source_tensor *t = i < m->n ? m->sorted[i] : NULL;
    char have[SP_ERR_TEXT / 4], want[SP_ERR_TEXT / 4];

    describe_shape(want, sizeof want, shape, rank);
    if (t == NULL) {
        add_finding(&m->findings, "missing tensor \"%s\" %s", name, want);
        return false;
    }
    m->used[i] = true;
    if (t->rank == rank && memcmp(t->shape, shape, rank * sizeof *shape) == 0) return true;
    if (t->rank == 0 && rank == 1 && shape[0] == 1) return true;
    describe_shape(have, sizeof have, t->shape, t->rank);
    add_finding(&m->findings, "tensor \"%s\" has shape %s, expected %s", name, have, want);
    return false;
}

static enum sp_status add_piece(struct matcher *m, struct sp_tensor_spec *spec, const char *name,
                                struct sp_piece piece)
{
    struct sp_specs *s = m->specs;
    enum sp_status st;

    if ((st = sp_specs_add_string(&piece.source, s, name, m->err))) return st;
    st = sp_grow(&s->pieces, &s->cap_pieces, s->n_pieces + 1, sizeof *s->pieces, m->err);
    if (st) return st;
    if (spec->n_pieces++ == 0) spec->first_piece = s->n_pieces;
    s->pieces[s->n_pieces++] = piece;
    return SP_OK;
}

/* How a source tensor holds a canonical one. */
enum form {
    FORM_WHOLE,
    FORM_RENAMED,    /* the same under another name */
    FORM_QKV,        /* rows of q, k, v; `part` says which */
    FORM_GATE_UP,    /* rows of gate, up */
    FORM_EACH,       /* one tensor for each expert */
    FORM_HALVES,     /* [E, 2I, H]: rows of gate, up for each expert */
    FORM_ALTERNATE,  /* [E, H, 2I]: gate, up, gate, up, ... transposed */
    FORM_TRANSPOSED, /* [E, cols, rows] */
    FORM_BIASES,     /* [E, 2I]: gate, up, gate, up, ... */
};

struct form_row {
    enum sp_storage storage;
    const char *canonical, *source; /* after "layers.N."; "%u" stands for the expert */
    enum form form;
    unsigned part;
};

/* Of several rows for one tensor the first whose source exists counts. */
static const struct form_row forms[] = {
    {SP_STORED_FUSED, "self_attn.q_proj.weight", "self_attn.qkv_proj.weight", FORM_QKV, 0},
    {SP_STORED_FUSED, "self_attn.k_proj.weight", "self_attn.qkv_proj.weight", FORM_QKV, 1},
    {SP_STORED_FUSED, "self_attn.v_proj.weight", "self_attn.qkv_proj.weight", FORM_QKV, 2},
    {SP_STORED_FUSED, "mlp.gate_proj.weight", "mlp.gate_up_proj.weight", FORM_GATE_UP, 0},
    {SP_STORED_FUSED, "mlp.up_proj.weight", "mlp.gate_up_proj.weight", FORM_GATE_UP, 1},

    {SP_STORED_EXPERTS, "mlp.router.weight", "mlp.gate.weight", FORM_RENAMED, 0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.experts.%u.gate_proj.weight",
     FORM_EACH, 0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj", FORM_HALVES, 0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj.weight",
     FORM_HALVES, 0},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.experts.%u.up_proj.weight", FORM_EACH,
     0},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj", FORM_HALVES, 1},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj.weight",
     FORM_HALVES, 1},
    {SP_STORED_EXPERTS, "mlp.experts.down_proj.weight", "mlp.experts.%u.down_proj.weight",
     FORM_EACH, 0},
    {SP_STORED_EXPERTS, "mlp.experts.down_proj.weight", "mlp.experts.down_proj", FORM_RENAMED, 0},

    {SP_STORED_INTERLEAVED, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj",
     FORM_ALTERNATE, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj",
     FORM_ALTERNATE, 1},
    {SP_STORED_INTERLEAVED, "mlp.experts.down_proj.weight", "mlp.experts.down_proj",
     FORM_TRANSPOSED, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.gate_proj.bias", "mlp.experts.gate_up_proj_bias",
     FORM_BIASES, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.up_proj.bias", "mlp.experts.gate_up_proj_bias",
     FORM_BIASES, 1},
    {SP_STORED_INTERLEAVED, "mlp.experts.down_proj.bias", "mlp.experts.down_proj_bias",
     FORM_RENAMED, 0},
};

static enum sp_status add_whole(struct matcher *m, struct sp_tensor_spec *spec, const char *name)
{
    struct sp_piece piece = {.step = 1, .n_rows = 1, .n_cols = spec->shape[spec->rank - 1]};

    for (unsigned i = 0; i + 1 < spec->rank; i++)
        piece.n_rows *= spec->shape[i];
    if (!claim(m, name, spec->shape, spec->rank)) return SP_OK;
    return add_piece(m, spec, name, piece);
}

/* Contiguous rows out of a matrix that holds several. */
static enum sp_status add_slice(struct matcher *m, struct sp_tensor_spec *spec, const char *name,
                                uint64_t first_row, uint64_t n_all)
{
    uint64_t shape[2] = {n_all, spec->shape[1]};

    if (!claim(m, name, shape, 2)) return SP_OK;
    return add_piece(
        m, spec, name,
        (struct sp_piece){
            .first_row = first_row, .step = 1, .n_rows = spec->shape[0], .n_cols = spec->shape[1]});
}

/* The source's name with the expert's number in place of %u. */
static void name_expert(char *out, size_t size, const char *pattern, unsigned expert)
{
    const char *mark = strstr(pattern, "%u");

    snprintf(out, size, "%.*s%u%s", (int)(mark - pattern), pattern, expert, mark + 2);
}

static enum sp_status add_each(struct matcher *m, struct sp_tensor_spec *spec, const char *pattern)
{
    char name[NAME_SIZE];
    enum sp_status st = SP_OK;

    for (unsigned e = 0; st == SP_OK && e < spec->shape[0]; e++) {
        if (m->findings.n >= MAX_FINDINGS) break;
        name_expert(name, sizeof name, pattern, e);
        if (!claim(m, name, spec->shape + 1, 2)) continue;
        st = add_piece(
            m, spec, name,
            (struct sp_piece){.step = 1, .n_rows = spec->shape[1], .n_cols = spec->shape[2]});
    }
    return st;
}

static enum sp_status add_halves(struct matcher *m, struct sp_tensor_spec *spec, const char *name,
                                 unsigned part)
{
    uint64_t n = spec->shape[1], shape[3] = {spec->shape[0], 2 * n, spec->shape[2]};
    enum sp_status st = SP_OK;

    if (!claim(m, name, shape, 3)) return SP_OK;
    for (uint64_t e = 0; st == SP_OK && e < spec->shape[0]; e++) {
        st = add_piece(
            m, spec, name,
            (struct sp_piece){
                .first_row = (2 * e + part) * n, .step = 1, .n_rows = n, .n_cols = spec->shape[2]});
    }
    return st;
}

/* Every other row over all experts: they have an even number of rows each. */
static enum sp_status add_alternate(struct matcher *m, struct sp_tensor_spec *spec,
                                    const char *name, unsigned part)
{
    uint64_t n = spec->shape[0] * spec->shape[1];
    uint64_t shape[3] = {spec->shape[0], spec->shape[2], 2 * spec->shape[1]};
    uint64_t biases[2] = {spec->shape[0], 2 * spec->shape[1]};
    bool matrix = spec->rank == 3;
    struct sp_piece piece = {.first_row = part,
                             .step = 2,
                             .n_rows = n,
                             .n_cols = matrix ? spec->shape[2] : 1,
                             .transposed = matrix};

    if (!claim(m, name, matrix ? shape : biases, matrix ? 3 : 2)) return SP_OK;
    return add_piece(m, spec, name, piece);
}

static enum sp_status add_transposed(struct matcher *m, struct sp_tensor_spec *spec,
                                     const char *name)
{
    uint64_t shape[3] = {spec->shape[0], spec->shape[2], spec->shape[1]};

    if (!claim(m, name, shape, 3)) return SP_OK;
    return add_piece(m, spec, name,
                     (struct sp_piece){.step = 1,
                                       .n_rows = spec->shape[0] * spec->shape[1],
                                       .n_cols = spec->shape[2],
                                       .transposed = true});
}

static enum sp_status add_form(struct matcher *m, struct sp_tensor_spec *spec,
                               const struct form_row *form, const char *name,
                               const struct sp_layer_config *l)
{
    uint64_t q = (uint64_t)l->n_heads * l->head_dim, kv = (uint64_t)l->n_kv_heads * l->head_dim;
    uint64_t first[3] = {0, q, q + kv};

    switch (form->form) {
    case FORM_WHOLE:
    case FORM_RENAMED:
        return add_whole(m, spec, name);
    case FORM_QKV:
        return add_slice(m, spec, name, first[form->part], q + 2 * kv);
    case FORM_GATE_UP:
        return add_slice(m, spec, name, form->part * spec->shape[0], 2 * spec->shape[0]);
    case FORM_EACH:
        return add_each(m, spec, name);
    case FORM_HALVES:
        return add_halves(m, spec, name, form->part);
    case FORM_ALTERNATE:
    case FORM_BIASES:
        return add_alternate(m, spec, name, form->part);
    case FORM_TRANSPOSED:
        return add_transposed(m, spec, name);
    }
    return sp_fail(m->err, SP_E_BUG, "tensor \"%s\" has no form", spec->name);
}

/* Is there a tensor of this form? Of experts apart, the first stands for all. */
static bool form_exists(const struct matcher *m, const struct form_row *form, const char *name)
{
    char first[NAME_SIZE];

    if (form->form != FORM_EACH) return exists(m, "", name);
    name_expert(first, sizeof first, name, 0);
    return exists(m, "", first);
}

static enum sp_status match_layer_spec(struct matcher *m, struct sp_tensor_spec *spec)
{
    static const struct form_row plain = {.form = FORM_WHOLE};
    const struct form_row *chosen = NULL;
    unsigned layer = (unsigned)strtoul(spec->name + strlen("layers."), NULL, 10);
    const char *suffix = strchr(spec->name + strlen("layers."), '.') + 1;
    char name[NAME_SIZE];

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const struct form_row *form = &forms[i];
        if (form->storage != m->storage || strcmp(form->canonical, suffix) != 0) continue;
        snprintf(name, sizeof name, "%slayers.%u.%s", m->prefix, layer, form->source);
        if (chosen == NULL) chosen = form;
        if (!form_exists(m, form, name)) continue;
        chosen = form;
        break;
    }
    if (chosen == NULL) chosen = &plain;
    snprintf(name, sizeof name, "%slayers.%u.%s", m->prefix, layer,
             chosen->source ? chosen->source : suffix);
    return add_form(m, spec, chosen, name, &m->config->layers[layer]);
}

static enum sp_status match_spec(struct matcher *m, struct sp_tensor_spec *spec)
{
    char name[NAME_SIZE];

    if (begins_with(spec->name, "layers.")) return match_layer_spec(m, spec);
    if (spec->role == SP_ROLE_HEAD || (spec->role == SP_ROLE_EMBEDDING && m->embedding_is_head)) {
        return add_whole(m, spec, m->head_name);
    }
    snprintf(name, sizeof name, "%s%s", m->prefix, spec->name);
    return add_whole(m, spec, name);
}

/* Parts of a multimodal checkpoint that a text model does not need, and buffers of old files. */
static bool is_skipped(const char *name)
{
    static const char *const parts[] = {
        "vision_tower.", "vision_model.", "multi_modal_projector.", "visual.",
        "audio_tower.",  "embed_vision.", "embed_audio.",           "image_newline",
    };
    static const char *const buffers[] = {".rotary_emb.inv_freq", ".attn.bias", ".masked_bias"};
    const char *inner = begins_with(name, "model.") ? name + strlen("model.") : name;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (begins_with(inner, parts[i])) return true;
    }
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        if (ends_with(name, buffers[i])) return true;
    }
    return false;
}

static void report_unexpected(struct matcher *m, const char *name)
{
    const char *inner = begins_with(name, m->prefix) ? name + strlen(m->prefix) : name;
    unsigned long layer;
    char *end;

    if (begins_with(inner, "layers.") && inner[7] >= '0' && inner[7] <= '9') {
        layer = strtoul(inner + 7, &end, 10);
        if (*end == '.' && layer >= m->config->n_layers) {
            add_finding(&m->findings, "unexpected tensor \"%s\": the config has %u layers", name,
                        m->config->n_layers);
            return;
        }
    }
    add_finding(&m->findings, "unexpected tensor \"%s\"%s", name,
                ends_with(name, ".bias") ? ": the config has no such bias" : "");
}

static enum sp_status conclude(struct matcher *m)
{
    const struct findings *f = &m->findings;

    if (f->n == 0) return SP_OK;
    if (f->n == f->n_shown) return sp_fail(m->err, SP_E_INPUT, "%s", f->text);
    return sp_fail(m->err, SP_E_INPUT, "%s; and %zu more%s", f->text, f->n - f->n_shown,
                   f->n < MAX_FINDINGS ? "" : " at least");
}

static enum sp_status match(struct matcher *m, bool *compare_equal, size_t *n_skipped)
{
    enum sp_status st;

    if ((st = refuse_evidence(m)) || (st = find_prefix(m))) return st;
    find_head(m);
    if ((st = settle(m, compare_equal))) return st;
    if ((st = sp_specs_of_config(m->specs, m->config, m->err))) return st;
    for (size_t i = 0; i < m->specs->n_specs && m->findings.n < MAX_FINDINGS; i++) {
        if ((st = match_spec(m, &m->specs->specs[i]))) return st;
    }
    for (size_t i = 0; i < m->n && m->findings.n < MAX_FINDINGS; i++) {
        if (m->used[i]) continue;
        if (is_skipped(m->sorted[i]->name)) {
            ++*n_skipped;
        } else {
            report_unexpected(m, m->sorted[i]->name);
        }
    }
    return conclude(m);
}

enum sp_status sp_specs_of_source(struct sp_specs *out, struct sp_config *config,
                                  const struct sp_source_tensor *tensors, size_t n,
                                  bool *compare_equal, size_t *n_skipped, struct sp_err *err)
{
    struct sp_specs specs = {0};
    struct matcher m = {.specs = &specs, .config = config, .n = n, .err = err};
    const struct sp_family *family = sp_family_by_type(config->family);
    enum sp_status st;

    *compare_equal = false;
    *n_skipped = 0;
    if (family == NULL) return sp_fail(err, SP_E_BUG, "no family \"%s\"", config->family);
    m.storage = family->storage;
    if ((st = sp_new(&m.sorted, n, sizeof *m.sorted, err))) goto done;
    if ((st = sp_new(&m.used, n, sizeof *m.used, err))) goto done;
    for (size_t i = 0; i < n; i++)
        m.sorted[i] = &tensors[i];
    qsort(m.sorted, n, sizeof *m.sorted, compare_tensors);
    if ((st = match(&m, compare_equal, n_skipped))) goto done;
    *out = specs;
    memset(&specs, 0, sizeof specs);
done:
    sp_specs_release(&specs);
    free(m.sorted);
    free(m.used);
    return st;
}
