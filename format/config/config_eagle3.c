/* EAGLE-3 drafts (Li et al. 2025): one decoder layer that reads the target's features and the next
 * token, with a vocabulary of its own. Two formats of config.json are read: that of SafeAILab and
 * SpecForge (keys at the root, taps in eagle_config), and that of the speculators library (the
 * config of the layer in transformer_layer_config, the keys of the draft at the root). DeepSpec
 * uses the first one with target_layer_ids.
 *
 * P-EAGLE drafts (arXiv 2602.01469) of the speculators library have the same keys and a mask token.
 * They have any number of layers, the first of which reads pairs; the number of draft tokens that
 * they are trained for is stated with the proposal methods. */
#include "format/config/config_readers.h"

#include <string.h>

/* The keys that list taps; the first one that exists counts. Numbers are those of layer inputs,
 * that is, j means the output of layer j - 1, unless `outputs` is set. */
static const struct {
    const char *key;
    bool outputs;
} tap_keys[] = {
    {"eagle_aux_hidden_state_layer_ids", false},
    {"aux_hidden_state_layer_ids", false},
    {"target_layer_ids", true},
};

static void read_taps(struct sp_draft_config *d, const struct sp_config_text *t)
{
    const struct sp_json *holders[] = {sp_json_get(t->root, "eagle_config"), t->root};
    const char *what = sp_draft_name(d->kind), *key = NULL;
    const struct sp_json *list = NULL;
    bool outputs = false;
    size_t n;

    for (size_t i = 0; list == NULL && i < 2 * (sizeof tap_keys / sizeof tap_keys[0]); i++) {
        key = tap_keys[i / 2].key;
        list = sp_json_get(holders[i % 2], key);
        outputs = tap_keys[i / 2].outputs;
    }
    if (list == NULL) return; /* sp_config_fit_target finds them */
    n = sp_json_len(list);
    if (sp_json_kind(list) != SP_JSON_ARRAY || n == 0)
        SP_INVALID(t, "%s %s is not a list of layers", what, key);
    if (n > SP_MAX_TAPS)
        SP_REFUSED(t, "%s %s has %zu layers, at most %d", what, key, n, SP_MAX_TAPS);
    for (size_t i = 0; i < n && !sp_text_failed(t); i++) {
        int64_t id = -1;
        if (!sp_json_to_i64(sp_json_at(list, i), &id) || id < 0 || id > SP_CAP_LAYERS)
            SP_INVALID(t, "%s %s is not a list of layers", what, key);
        d->taps[i] = outputs ? (unsigned)id : id == 0 ? SP_TAP_EMBEDDING : (unsigned)id - 1;
    }
    d->taps_stated = true;
    if (!sp_text_failed(t)) d->n_taps = (unsigned)n;
}

/* True if layer_types, which this family ignores, state windows. */
static bool lists_windows(const struct sp_config_text *t)
{
    const struct sp_json *types = sp_text_get(t, "layer_types");
    bool found = false;

    for (size_t i = 0; !t->family->reads.layer_types && !found && i < sp_json_len(types); i++)
        found = strcmp(sp_text_at(types, i), "sliding_attention") == 0;
    return found;
}

static void refuse_options(const struct sp_config *c, const struct sp_config_text *t)
{
    const char *what = sp_draft_name(c->draft.kind);
    bool use_aux = true;

    sp_member_bool(t, sp_json_get(t->root, "eagle_config"), "use_aux_hidden_state", &use_aux);
    if (!use_aux) SP_REFUSED(t, "%s: unsupported option use_aux_hidden_state", what);
    if (lists_windows(t)) {
        SP_REFUSED(t, "%s: sliding_attention in layers of model_type \"%s\" is not supported", what,
                   t->family->name);
    }
    if (c->draft.kind == SP_DRAFT_PEAGLE) return;
    if (c->n_layers != 1) SP_REFUSED(t, "eagle3: %u layers, only 1 supported", c->n_layers);
    if (c->layers[0].window) SP_REFUSED(t, "eagle3: unsupported option sliding_window");
}

/* The draft length of the first proposal method, which is the one that the draft is trained for. */
static void read_draft_length(struct sp_draft_config *d, const struct sp_config_text *t)
{
    static const char key[] = "speculative_tokens";
    const struct sp_json *methods =
        sp_json_get(sp_json_get(t->root, "speculators_config"), "proposal_methods");
    const struct sp_json *method = sp_json_at(methods, 0);

    if (sp_json_get(method, key) == NULL)
        SP_INVALID(t, "peagle config missing %s of a proposal method", key);
    sp_member_unsigned(t, method, key, 1, INT32_MAX, &d->block_size);
    if (d->block_size >= SP_MAX_BLOCK)
        SP_REFUSED(t, "peagle %s %u must be at most %d", key, d->block_size, SP_MAX_BLOCK - 1);
}

/* Draft tokens see each other over any distance, so a window must hold all of them. */
static void check_windows(const struct sp_config *c, const struct sp_config_text *t)
{
    for (unsigned i = 0; i < c->n_layers; i++) {
        if (c->layers[i].window == 0 || c->layers[i].window >= c->draft.block_size) continue;
        SP_REFUSED(t, "peagle: a sliding_window of %u is shorter than its %u draft tokens",
                   c->layers[i].window, c->draft.block_size);
    }
}

static void read_peagle(struct sp_config *c, const struct sp_config_text *t)
{
    static const char key[] = "mask_token_id";
    unsigned mask = 0;

    if (c->draft.kind != SP_DRAFT_PEAGLE) return;
    if (sp_json_get(t->root, key) == NULL) SP_INVALID(t, "peagle config missing %s", key);
    sp_member_unsigned(t, t->root, key, 0, INT32_MAX, &mask);
    if (mask >= c->n_vocab)
        SP_INVALID(t, "peagle mask token %u outside the %u-token vocabulary", mask, c->n_vocab);
    c->draft.mask_token = mask;
    read_draft_length(&c->draft, t);
    check_windows(c, t);
}

void sp_config_read_eagle3(struct sp_config *out, const struct sp_config_text *t)
{
    struct sp_draft_config *d = &out->draft;
    const struct sp_json *root = t->root;

    d->target_hidden = out->n_hidden;
    d->n_head_rows = out->n_vocab;
    out->layers[0].reads_pair = true;
    d->midlayer = d->kind == SP_DRAFT_EAGLE3 && !t->speculators;
    refuse_options(out, t);
    read_taps(d, t);
    sp_member_unsigned(t, root, "target_hidden_size", 1, SP_CAP_WIDTH, &d->target_hidden);
    sp_member_unsigned(t, root, "draft_vocab_size", 1, out->n_vocab, &d->n_head_rows);
    sp_member_bool(t, root, "norm_before_residual", &d->normed_residual);
    sp_member_bool(t, root, "norm_before_fc", &d->features_normed);
    sp_member_bool(t, root, "fc_norm", &d->taps_normed);
    sp_member_bool(t, root, "norm_output", &d->normed_output);
    read_peagle(out, t);
    if (d->features_normed && d->taps_normed)
        SP_INVALID(t, "%s: both norm_before_fc and fc_norm", sp_draft_name(d->kind));
}

/* The default taps are the inputs of layer 2, of the middle layer, and of the third layer from the
 * end. */
enum sp_status sp_config_fit_target(struct sp_config *draft, const struct sp_config *target,
                                    struct sp_err *err)
{
    struct sp_draft_config *d = &draft->draft;
    unsigned n = target->n_layers;

    if ((target->hyper.n_streams || target->block_attention) && d->n_taps) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "drafts that read hidden states of layers are not supported for targets "
                       "with several residual streams");
    }
    if (!sp_draft_is_eagle(d->kind) || d->taps_stated) return SP_OK;
    if (d->n_taps != 3 || n < 6) {
        return sp_fail(err, SP_E_INPUT,
                       "%s fc reads %u layers, which has no default for %u target layers",
                       sp_draft_name(d->kind), d->n_taps, n);
    }
    d->taps[0] = 1;
    d->taps[1] = n / 2 - 1;
    d->taps[2] = n - 4;
    d->taps_stated = true;
    return SP_OK;
}

enum sp_status sp_config_check_eagle3(const struct sp_config *draft, const struct sp_config *target,
                                      struct sp_err *err)
{
    const struct sp_draft_config *d = &draft->draft;
    const char *what = sp_draft_name(d->kind);

    if (draft->n_vocab != target->n_vocab) {
        return sp_fail(err, SP_E_INPUT, "%s draft trained for a %u-token vocabulary, target has %u",
                       what, draft->n_vocab, target->n_vocab);
    }
    if (d->target_hidden != target->n_hidden) {
        return sp_fail(err, SP_E_INPUT, "%s draft trained for hidden size %u, target has %u", what,
                       d->target_hidden, target->n_hidden);
    }
    if (d->borrows_tables && draft->n_hidden != target->n_hidden) {
        return sp_fail(err, SP_E_INPUT,
                       "%s: no embed_tokens, and target embedding is [%u, %u], need width %u", what,
                       target->n_vocab, target->n_hidden, draft->n_hidden);
    }
    for (unsigned i = 0; i < d->n_taps; i++) {
        if (d->taps[i] == SP_TAP_EMBEDDING || d->taps[i] < target->n_layers) continue;
        return sp_fail(err, SP_E_INPUT, "%s aux layer %u out of range for %u target layers", what,
                       d->taps[i] + 1, target->n_layers);
    }
    return SP_OK;
}
