/* Drafts that are not complete language models: the detection of their kind, and the keys of a
 * DFlash draft (z-lab's DFlashDraftModel: layers of Qwen3's shape that see a whole block).
 *
 * Newer configs nest in dflash_config the keys that older ones have at the root. A nested value
 * overrules one at the root, except that is_causal at the root overrules dflash_config.causal.
 *
 * The speculators library has a different format: the config of the layers is nested in
 * transformer_layer_config, and the keys of the draft are at the root. In this format taps are
 * numbers of layer inputs, a window counts the keys before the block, all layers have the same
 * rotary embedding, and the target's embeddings are read without a scale, even Gemma's. */
#include "format/config/config_readers.h"

#include "format/base/affix.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#define LFM2_DSPARK "Lfm2DSparkDraftModel"

/* Draft kinds by the name of the architecture. The first pattern that matches counts. */
static const struct {
    const char *pattern; /* of fnmatch */
    const char *refused; /* name of a kind that is not implemented, for the message; or NULL */
    enum sp_draft_kind kind;
} architectures[] = {
    {"*Eagle3*", NULL, SP_DRAFT_EAGLE3},
    {"DFlash2DraftModel", NULL, SP_DRAFT_DFLASH2},
    {"Qwen3DSparkModel", NULL, SP_DRAFT_DSPARK},
    {"DSparkDraftModel", NULL, SP_DRAFT_DSPARK},
    {LFM2_DSPARK, NULL, SP_DRAFT_DSPARK}, /* its layers have Qwen3's shape as well */
    {"*DSpark*", "DSpark variant", SP_DRAFT_NONE},
    {"DFlashLagunaForCausalLM", NULL, SP_DRAFT_DFLASH},
    {"DFlashDraftModel", NULL, SP_DRAFT_DFLASH},
    {"DFlash*", "DFlash variant", SP_DRAFT_NONE},
    {"MuseGlimmerAssistantModel", NULL, SP_DRAFT_DFLASH},
    {"Gemma4*Assistant*", NULL, SP_DRAFT_ASSISTANT},
};

/* Draft kinds by model_type, for configs whose architecture names no draft. */
static const struct {
    const char *type;
    enum sp_draft_kind kind;
} assistant_types[] = {
    {"gemma4_assistant", SP_DRAFT_ASSISTANT},
    {"gemma4_unified_assistant", SP_DRAFT_ASSISTANT},
    {"muse_glimmer_assistant", SP_DRAFT_DFLASH},
};

static void refuse_kind(const struct sp_config_text *t, const char *kind, const char *name)
{
    SP_REFUSED(t, "unsupported draft architecture: %s (%s)", name, kind);
}

/* The name of a draft kind as the beginning of a message. */
static const char *message_prefix(enum sp_draft_kind kind)
{
    if (kind == SP_DRAFT_ASSISTANT) return "assistant ";
    if (kind == SP_DRAFT_PEAGLE) return "peagle ";
    return kind == SP_DRAFT_EAGLE3 ? "eagle3 " : "dflash ";
}

/* A config of the speculators library names the kind and nests the config of the layers. */
static void detect_speculator(struct sp_config_text *t, const char *type)
{
    static const enum sp_draft_kind kinds[] = {SP_DRAFT_EAGLE3, SP_DRAFT_PEAGLE, SP_DRAFT_DFLASH,
                                               SP_DRAFT_DFLASH2, SP_DRAFT_DSPARK};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(sp_draft_kind_name(kinds[i]), type) == 0) t->draft = kinds[i];
    if (t->draft == SP_DRAFT_NONE) refuse_kind(t, "speculators", type);
    t->speculators = true;
    t->what = message_prefix(t->draft);
    t->text = sp_json_get(t->root, "transformer_layer_config");
    if (sp_json_kind(t->text) != SP_JSON_OBJECT)
        SP_INVALID(t, "%s: transformer_layer_config is missing", type);
}

static void detect_by_name(struct sp_config_text *t, const char *name)
{
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        if (fnmatch(architectures[i].pattern, name, 0) != 0) continue;
        if (architectures[i].refused) refuse_kind(t, architectures[i].refused, name);
        t->draft = architectures[i].kind;
        t->what = message_prefix(t->draft);
        return;
    }
}

void sp_config_detect_draft(struct sp_config_text *t)
{
    const char *speculator = NULL, *type = NULL, *name;

    sp_member_string(t, t->root, "speculators_model_type", &speculator);
    if (speculator) {
        detect_speculator(t, speculator);
        return;
    }
    name = sp_json_to_string(sp_json_at(sp_json_get(t->root, "architectures"), 0), NULL);
    if (name) detect_by_name(t, name);
    sp_member_string(t, t->root, "model_type", &type);
    for (size_t i = 0; type && i < sizeof assistant_types / sizeof assistant_types[0]; i++) {
        if (strcmp(assistant_types[i].type, type) != 0) continue;
        t->draft = assistant_types[i].kind;
        t->what = message_prefix(t->draft);
    }
    t->dflash = sp_json_get(t->root, "dflash_config");
    if (t->dflash == NULL) return;
    if (t->draft != SP_DRAFT_DFLASH && t->draft != SP_DRAFT_DFLASH2 &&
        t->draft != SP_DRAFT_DSPARK) {
        if (name)
            SP_INVALID(t, "dflash_config contradicts architecture \"%s\"", name);
        else
            SP_INVALID(t, "dflash_config without architectures");
    }
    if (sp_json_kind(t->dflash) != SP_JSON_OBJECT) SP_INVALID(t, "dflash_config is not an object");
}

static bool is_trivial(const struct sp_json *v, double neutral)
{
    double d;
    bool b;

    if (v == NULL) return true;
    if (sp_json_to_bool(v, &b)) return !b;
    return sp_json_to_double(v, &d) && d == neutral;
}

/* True for a key that only DFlash drafts of the speculators library have. */
static bool is_of_speculators(const struct sp_config_text *t, const char *key)
{
    static const char keys[] =
        "aux_hidden_state_layer_ids sample_from_anchor sliding_window_non_causal";

    return t->speculators && sp_is_among(key, keys);
}

/* Refuses options of forks and of other kinds of drafts, unless their value has no effect.
 * Options at the root that any model may have are refused in config_refuse.c. */
static void refuse_options(const struct sp_config_text *t)
{
    static const struct {
        const char *key;
        double neutral;            /* the number without effect; false and null have none either */
        enum sp_draft_kind reader; /* the kind that reads the option */
    } options[] = {
        {"attention_sink_bias", 0, SP_DRAFT_NONE},
        {"attention_value_scale", 1, SP_DRAFT_NONE},
        {"backbone_rotary_base", 0, SP_DRAFT_NONE},
        {"rope_interleaved", 0, SP_DRAFT_NONE},
        {"logit_scale", 1, SP_DRAFT_NONE},
        {"output_multiplier", 1, SP_DRAFT_DFLASH2},
        {"input_embedding_scale", 1, SP_DRAFT_DFLASH2},
        {"use_swa", 0, SP_DRAFT_NONE},
        {"swa_window_size", 0, SP_DRAFT_NONE},
        {"sliding_window_non_causal", 0, SP_DRAFT_NONE},
        {"sample_from_anchor", 0, SP_DRAFT_DSPARK},
        {"one_based_layer_ids", 0, SP_DRAFT_NONE},
        {"aux_hidden_state_layer_ids", 0, SP_DRAFT_NONE},
        {"conv_kernel_size", 0, SP_DRAFT_DFLASH2},
        {"conv_group_size", 0, SP_DRAFT_DFLASH2},
        {"selector_rank", 0, SP_DRAFT_DFLASH2},
        {"selector_top_k", 0, SP_DRAFT_DFLASH2},
        {"markov_rank", 0, SP_DRAFT_DSPARK},
        {"enable_confidence_head", 0, SP_DRAFT_DSPARK},
    };
    const char *projector = "dflash";
    const struct sp_json *aux;
    bool use_aux = true;

    sp_text_string(t, "projector_type", &projector);
    /* Domino and its kin have layers over the guesses of a block. */
    if (!sp_is_among(projector, "dflash dflash2 dspark"))
        SP_REFUSED(t, "dflash: projector_type \"%s\" is not supported", projector);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (options[i].reader == t->draft || is_of_speculators(t, options[i].key)) continue;
        if (is_trivial(sp_text_get(t, options[i].key), options[i].neutral)) continue;
        SP_REFUSED(t, "dflash: unsupported option %s", options[i].key);
    }
    if (!is_trivial(sp_json_get(t->dflash, "gating"), 0))
        SP_REFUSED(t, "dflash: unsupported option gating");
    /* A DFlash draft always reads the target's hidden states. */
    aux = sp_text_get(t, "use_aux_hidden_state");
    if (aux && sp_json_to_bool(aux, &use_aux) && !use_aux)
        SP_REFUSED(t, "dflash: unsupported option use_aux_hidden_state");
}

static void read_vocabulary(struct sp_config *c, const struct sp_config_text *t)
{
    static const char key[] = "draft_vocab_size";
    struct sp_draft_config *d = &c->draft;
    unsigned n_rows = c->n_vocab, mask = d->mask_token;

    if (t->speculators && sp_text_get(t, key) == NULL)
        SP_INVALID(t, "dflash config missing %s", key);
    sp_text_unsigned(t, key, 1, c->n_vocab, &n_rows);
    if (n_rows != c->n_vocab && d->kind != SP_DRAFT_DFLASH &&
        !(t->speculators && d->kind == SP_DRAFT_DSPARK)) {
        SP_REFUSED(t, "%s: unsupported option draft_vocab_size (%u, vocab_size is %u)",
                   d->kind == SP_DRAFT_DSPARK ? "dspark" : "dflash2", n_rows, c->n_vocab);
    }
    if (n_rows != c->n_vocab) d->n_head_rows = n_rows;
    if (sp_text_get(t, "mask_token_id") == NULL && mask == 0)
        SP_INVALID(t, "dflash config missing mask_token_id");
    sp_text_unsigned(t, "mask_token_id", 0, INT32_MAX, &mask);
    if (mask >= c->n_vocab)
        SP_INVALID(t, "dflash mask token %u outside the %u-token vocabulary", mask, c->n_vocab);
    d->mask_token = mask;
}

static void read_block_size(struct sp_draft_config *d, const struct sp_config_text *t)
{
    unsigned most = SP_MAX_BLOCK - 1 + d->first_row;

    if (sp_text_get(t, "block_size") == NULL && d->block_size == 0)
        SP_INVALID(t, "dflash config missing block_size");
    sp_text_unsigned(t, "block_size", 0, INT32_MAX, &d->block_size);
    if (d->block_size < 1 + d->first_row)
        SP_INVALID(t, "dflash block_size %u must be at least %u", d->block_size, 1 + d->first_row);
    if (d->block_size > most)
        SP_REFUSED(t, "dflash block_size %u must be at most %u", d->block_size, most);
}

/* Taps are numbers of layer outputs. The speculators library numbers layer inputs: the input of a
 * layer is the output of the layer before. */
static void read_taps(struct sp_draft_config *d, const struct sp_config_text *t)
{
    const char *key = t->speculators ? "aux_hidden_state_layer_ids" : "target_layer_ids";
    const struct sp_json *list = sp_text_get(t, key);
    size_t n = sp_json_len(list);
    int64_t lowest = d->kind == SP_DRAFT_DSPARK || t->speculators ? -1 : 0;

    if (list == NULL && t->speculators) SP_INVALID(t, "dflash config missing %s", key);
    if (list == NULL) return; /* sp_config_settle finds them by the width of fc */
    if (sp_json_kind(list) != SP_JSON_ARRAY || n == 0)
        SP_INVALID(t, "dflash %s is not a list of layers", key);
    if (n > SP_MAX_TAPS) SP_REFUSED(t, "dflash %s has %zu layers, at most %d", key, n, SP_MAX_TAPS);
    for (size_t i = 0; i < n && !sp_text_failed(t); i++) {
        int64_t id, stated = 0;
        if (!sp_json_to_i64(sp_json_at(list, i), &stated))
            SP_INVALID(t, "dflash %s[%zu] is not an integer", key, i);
        id = t->speculators && stated > INT64_MIN ? stated - 1 : stated;
        if (id < lowest || id >= SP_CAP_LAYERS ||
            (d->n_target_layers && id >= d->n_target_layers)) {
            SP_INVALID(t, "dflash target layer %lld out of range for %u target layers",
                       (long long)stated, d->n_target_layers ? d->n_target_layers : SP_CAP_LAYERS);
        }
        if (i && id <= sp_tap_number(d->taps[i - 1]))
            SP_INVALID(t, "dflash %s must be ascending", key);
        d->taps[i] = id < 0 ? SP_TAP_EMBEDDING : (unsigned)id;
    }
    if (!sp_text_failed(t)) d->n_taps = (unsigned)n;
}

/* The keys of DFlash2: convolutions over the rows of a block, and a selector of candidates. */
static void read_dflash2(struct sp_config *c, const struct sp_config_text *t)
{
    struct sp_draft_config *d = &c->draft;
    const struct {
        const char *key;
        unsigned standard, max, *out;
    } counts[] = {
        {"conv_kernel_size", 2, SP_MAX_BLOCK, &c->n_conv_taps},
        {"conv_group_size", 16, c->n_hidden, &c->conv_group},
        {"selector_rank", 256, SP_CAP_WIDTH, &d->selector_rank},
        {"selector_top_k", 16, c->n_vocab, &d->selector_top_k},
    };

    if (d->kind != SP_DRAFT_DFLASH2) return;
    if (sp_text_failed(t)) return;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        *counts[i].out = counts[i].standard;
        sp_text_unsigned(t, counts[i].key, 1, counts[i].max, counts[i].out);
    }
    sp_context(t->err, "dflash2");
    if (c->n_hidden % c->conv_group != 0) {
        SP_INVALID(t, "dflash2: hidden_size %u is not a multiple of conv_group_size %u",
                   c->n_hidden, c->conv_group);
    }
    if (d->selector_top_k > c->n_vocab) {
        SP_INVALID(t, "dflash2: selector_top_k %u of a %u-token vocabulary", d->selector_top_k,
                   c->n_vocab);
    }
    sp_text_double(t, "output_multiplier", 1e-6, 1e6, &c->logit_scale);
    sp_text_double(t, "input_embedding_scale", 1e-6, 1e6, &c->input_scale);
}

/* Whether a row of a block sees the rows after it. is_causal decides, then dflash_config.causal. If
 * neither is stated, layers without a window see the whole block and layers with one are causal.
 * In the speculators library sliding_window_non_causal makes the latter see the whole block; it is
 * true by default for DFlash2. */
static void read_direction(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *stated = sp_json_get(t->root, "is_causal");
    bool causal = false, windows_see_ahead = t->speculators && c->draft.kind == SP_DRAFT_DFLASH2;

    if (stated == NULL) stated = sp_json_get(t->dflash, "causal");
    sp_member_bool(t, t->dflash, "causal", &causal);
    sp_member_bool(t, t->root, "is_causal", &causal);
    sp_member_bool(t, t->root, "sliding_window_non_causal", &windows_see_ahead);
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        l->causal = stated ? causal : l->causal && l->window != 0 && !windows_see_ahead;
        l->window_before = t->speculators && l->window != 0;
    }
}

/* Refuses lists that do not repeat what other keys state: the windows, and the taps as numbers of
 * layer inputs. */
static void check_lists(const struct sp_config *c, const struct sp_config_text *t)
{
    static const char windows_key[] = "sliding_windows",
                      taps_key[] = "eagle_aux_hidden_state_layer_ids";
    const struct sp_json *windows = sp_json_get(t->root, windows_key);
    const struct sp_json *taps = sp_text_get(t, taps_key);
    int64_t v;

    for (unsigned i = 0; windows && i < c->n_layers; i++)
        if (!sp_json_to_i64(sp_json_at(windows, i), &v) || v != c->layers[i].window)
            SP_REFUSED(t, "dflash: unsupported option %s", windows_key);
    for (unsigned i = 0; taps && (i < c->draft.n_taps || i == 0); i++)
        if (!sp_json_to_i64(sp_json_at(taps, i), &v) || c->draft.n_taps != sp_json_len(taps) ||
            v != sp_tap_number(c->draft.taps[i]) + 1)
            SP_REFUSED(t, "dflash: unsupported option %s", taps_key);
}

/* Whether the row of the anchor gives a draft token as well. */
static void read_first_row(struct sp_draft_config *d, const struct sp_config_text *t)
{
    bool from_anchor = d->kind == SP_DRAFT_DSPARK;

    if (t->speculators) sp_member_bool(t, t->root, "sample_from_anchor", &from_anchor);
    d->first_row = from_anchor ? 0 : 1;
}

/* Which rows of q and k rotate together. An LFM2 draft must state it, because implementations
 * disagree about the default; all released drafts do. */
static void read_pairing(struct sp_config *c, const struct sp_config_text *t)
{
    static const char *const keys[] = {"is_neox_style", "rope_is_neox_style"};
    bool split = true, stated = false;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        sp_text_bool(t, keys[i], &split);
        stated = stated || sp_text_get(t, keys[i]) != NULL;
    }
    if (!stated && strcmp(c->architecture, LFM2_DSPARK) == 0)
        SP_INVALID(t, "dspark config missing rope_is_neox_style");
    c->draft.rows_paired = !split;
}

/* Warns about keys of dflash_config that are not read, because the format is new and still
 * grows. */
static void warn_unknown(const struct sp_config_text *t)
{
    static const char known[] =
        "block_size num_target_layers mask_token_id target_layer_ids causal target_hidden_size "
        "final_logit_softcapping draft_vocab_size use_aux_hidden_state attention_value_scale "
        "logit_scale output_multiplier input_embedding_scale conv_kernel_size conv_group_size "
        "selector_rank selector_top_k markov_rank markov_head_type enable_confidence_head "
        "confidence_head_with_markov confidence_head_alpha sample_from_anchor projector_type";

    for (struct sp_json_iter it = {0}; sp_json_next(t->dflash, &it);)
        if (!is_trivial(it.value, 0) && !sp_is_among(it.key, known))
            SP_NOTED(t, "dflash_config.%s has no effect", it.key);
}

/* The draft of a whole block. */
static void read_dflash(struct sp_config *out, const struct sp_config_text *t)
{
    struct sp_draft_config *d = &out->draft;
    struct sp_config_text k = *t; /* dflash_config, or else the root */

    d->target_hidden = out->n_hidden;
    if (t->speculators) d->raw_embeddings = true;
    k.text = t->dflash;
    k.skips_null = true;
    refuse_options(&k);
    read_first_row(d, &k);
    read_block_size(d, &k);
    sp_text_unsigned(&k, "num_target_layers", 1, SP_CAP_LAYERS, &d->n_target_layers);
    sp_text_unsigned(&k, "target_hidden_size", 1, SP_CAP_WIDTH, &d->target_hidden);
    read_vocabulary(out, &k);
    read_taps(d, &k);
    sp_text_double(&k, "final_logit_softcapping", 1e-3, 1e6, &out->logit_cap);
    read_dflash2(out, &k);
    sp_config_read_dspark(out, &k);
    read_direction(out, t);
    read_pairing(out, t);
    check_lists(out, &k);
    warn_unknown(t);
}

void sp_config_read_draft(struct sp_config *out, const struct sp_config_text *t)
{
    out->draft.kind = t->draft;
    out->draft.borrows_tables = t->draft != SP_DRAFT_ASSISTANT;
    if (t->draft == SP_DRAFT_ASSISTANT)
        sp_config_read_assistant(out, t);
    else if (sp_draft_is_eagle(t->draft))
        sp_config_read_eagle3(out, t);
    else
        read_dflash(out, t);
}

enum sp_status sp_config_check_token_map(enum sp_draft_kind kind, const float *d2t, size_t n,
                                         size_t n_vocab, struct sp_err *err)
{
    const char *what = message_prefix(kind);
    double last = -1;

    for (size_t i = 0; i < n; i++) {
        double id = (double)i + (double)d2t[i];
        if (!(d2t[i] == floorf(d2t[i])))
            return sp_fail(err, SP_E_INPUT, "%sd2t[%zu] is not a whole number", what, i);
        if (!(id >= 0) || !(id < (double)n_vocab)) {
            return sp_fail(err, SP_E_INPUT, "%sd2t[%zu] maps to %.0f outside target vocabulary",
                           what, i, id);
        }
        if (id <= last) return sp_fail(err, SP_E_INPUT, "%sd2t is not ascending at %zu", what, i);
        last = id;
    }
    return SP_OK;
}
