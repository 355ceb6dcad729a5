/* Every check says with numbers or texts what does not fit. A block draft has no tokenizer of its
 * own: it shares the target's tables, so vocabulary size and mask token are all there is to
 * compare. A language model is compared token by token, because padding and file layout say
 * nothing. */
#include "convert/create/draft_compat.h"

#include "format/family/family.h"
#include "format/base/warnings.h"
#include "format/tokenizer/vocab.h"

#include <string.h>

/* The rows a block draft looks up and scores are the target's, or its own and then as many. */
static enum sp_status check_tables(const struct sp_config *target, const struct sp_config *draft,
                                   struct sp_err *err)
{
    const struct sp_draft_config *d = &draft->draft;

    if (d->borrows_tables && draft->n_hidden != target->n_hidden) {
        return sp_fail(err, SP_E_INPUT, "dflash draft trained for hidden size %u, target has %u",
                       draft->n_hidden, target->n_hidden);
    }
    if (draft->n_vocab != target->n_vocab) {
        return sp_fail(err, SP_E_INPUT,
                       "dflash draft trained for a %u-token vocabulary, target has %u",
                       draft->n_vocab, target->n_vocab);
    }
    if (d->mask_token >= target->n_vocab) {
        return sp_fail(err, SP_E_INPUT, "dflash mask token %u outside the %u-token vocabulary",
                       d->mask_token, target->n_vocab);
    }
    return SP_OK;
}

static enum sp_status check_taps(const struct sp_config *target, const struct sp_config *draft,
                                 struct sp_err *err)
{
    const struct sp_draft_config *d = &draft->draft;

    if (d->n_target_layers && d->n_target_layers != target->n_layers) {
        return sp_fail(err, SP_E_INPUT, "dflash draft trained for %u target layers, target has %u",
                       d->n_target_layers, target->n_layers);
    }
    if (d->n_taps == 0) return sp_fail(err, SP_E_BUG, "dflash draft whose taps are not settled");
    for (unsigned i = 0; i < d->n_taps; i++) {
        int number = sp_tap_number(d->taps[i]);
        if (i && number <= sp_tap_number(d->taps[i - 1]))
            return sp_fail(err, SP_E_INPUT, "dflash target layers must be ascending");
        if (number < (int)target->n_layers) continue;
        return sp_fail(err, SP_E_INPUT, "dflash target layer %u out of range for %u target layers",
                       d->taps[i], target->n_layers);
    }
    return SP_OK;
}

/* fc's columns are settled as taps times the draft's own idea of the target's width. */
static enum sp_status check_features(const struct sp_config *target, const struct sp_config *draft,
                                     struct sp_err *err)
{
    const struct sp_draft_config *d = &draft->draft;

    if (d->target_hidden == target->n_hidden) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "dflash fc input %llu != %u ids * target hidden %u",
                   (unsigned long long)d->n_taps * d->target_hidden, d->n_taps, target->n_hidden);
}

/* Ids mean the same on both sides by now, so merges are compared as numbers. */
static enum sp_status compare_merges(const struct sp_vocab *target, const struct sp_vocab *draft,
                                     struct sp_err *err)
{
    size_t n = target->n_merges < draft->n_merges ? target->n_merges : draft->n_merges;

    for (size_t i = 0; i < n; i++) {
        const struct sp_vocab_merge *a = &draft->merges[i], *b = &target->merges[i];
        struct sp_shown_token al, ar, bl, br;
        if (a->left == b->left && a->right == b->right) continue;
        al = sp_vocab_show(draft, a->left);
        ar = sp_vocab_show(draft, a->right);
        bl = sp_vocab_show(target, b->left);
        br = sp_vocab_show(target, b->right);
        return sp_fail(err, SP_E_INPUT,
                       "draft tokenizer differs from target at merge %zu (\"%.*s %.*s\" vs "
                       "\"%.*s %.*s\")",
                       i, al.len, al.text, ar.len, ar.text, bl.len, bl.text, br.len, br.text);
    }
    if (target->n_merges == draft->n_merges) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "draft tokenizer differs from target: %zu merges vs %zu",
                   draft->n_merges, target->n_merges);
}

/* `a` is an id of the target, b one of the draft. */
static bool differ(uint32_t a, uint32_t b, const struct sp_vocab_order *order)
{
    if (a == SP_ID_NONE || b == SP_ID_NONE) return false;
    return order->rows && a < order->n ? order->rows[a] != b : a != b;
}

static enum sp_status compare_ends(const struct sp_vocab *target, const struct sp_vocab *draft,
                                   const struct sp_vocab_order *order, struct sp_err *err)
{
    bool bos = differ(target->bos, draft->bos, order);
    struct sp_shown_token a = sp_vocab_show(draft, bos ? draft->bos : draft->eos);
    struct sp_shown_token b = sp_vocab_show(target, bos ? target->bos : target->eos);

    if (!bos && !differ(target->eos, draft->eos, order)) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "draft bos/eos differ: %s is \"%.*s\" vs \"%.*s\"",
                   bos ? "bos" : "eos", a.len, a.text, b.len, b.text);
}

static enum sp_status open_vocab(struct sp_vocab **out, const struct sp_draft_compat_side *side,
                                 const char *what, struct sp_err *err)
{
    enum sp_status st = sp_vocab_open(out, side->tokenizer, side->tokenizer_size,
                                      side->tokenizer_config, side->tokenizer_config_size, err);

    if (st) sp_context(err, "%s tokenizer", what);
    return st;
}

static bool equal_texts(const struct sp_draft_compat_side *a, const struct sp_draft_compat_side *b)
{
    bool configs =
        a->tokenizer_config == NULL || b->tokenizer_config == NULL
            ? a->tokenizer_config == b->tokenizer_config
            : a->tokenizer_config_size == b->tokenizer_config_size &&
                  memcmp(a->tokenizer_config, b->tokenizer_config, a->tokenizer_config_size) == 0;

    return configs && a->tokenizer_size == b->tokenizer_size &&
           memcmp(a->tokenizer, b->tokenizer, a->tokenizer_size) == 0;
}

/* Equal ids must be equal text, after the rows of the draft have been put into the order of the
 * target where that is possible. Rows beyond the tokens are padding and may differ in number. */
static enum sp_status check_tokenizers(struct sp_vocab_order *order,
                                       const struct sp_draft_compat_side *target,
                                       const struct sp_draft_compat_side *draft, char **warnings,
                                       struct sp_err *err)
{
    struct sp_vocab *a = NULL, *b = NULL;
    enum sp_status st = SP_OK;

    if (target->tokenizer == NULL && draft->tokenizer == NULL) return SP_OK;
    if (target->tokenizer == NULL || draft->tokenizer == NULL) {
        return sp_warn(warnings, err, "%s has no tokenizer: that of the other model is assumed",
                       target->tokenizer ? "draft" : "target");
    }
    if (equal_texts(target, draft)) return SP_OK;
    if ((st = open_vocab(&a, target, "target", err))) goto done;
    if ((st = open_vocab(&b, draft, "draft", err))) goto done;
    if ((st = sp_vocab_match(order, a, b, draft->config->n_vocab, err))) goto done;
    if ((st = compare_merges(a, b, err))) goto done;
    if ((st = compare_ends(a, b, order, err))) goto done;
    if (order->n_matched || order->n_unknown) {
        st = sp_warn(warnings, err,
                     "draft vocabulary: %zu tokens are renumbered to the target's IDs, and %zu "
                     "tokens of the target are missing in it",
                     order->n_matched, order->n_unknown);
    }
    if (!st && a->n_ids != b->n_ids) {
        st = sp_warn(warnings, err,
                     "draft tokenizer has %zu IDs, target %zu: those that both have are equal",
                     b->n_ids, a->n_ids);
    }
done:
    sp_vocab_close(a);
    sp_vocab_close(b);
    return st;
}

/* A built-in head was cut out of its target; out of another one it must at least look alike. */
static enum sp_status check_mtp(const struct sp_config *target, const struct sp_config *draft,
                                struct sp_err *err)
{
    const struct sp_layer_config *l = &draft->layers[0], *like;
    unsigned i = sp_config_first_layer(target, SP_MIXER_ATTENTION);

    if (strcmp(target->family, draft->family) != 0 || i == target->n_layers) {
        return sp_fail(err, SP_E_INPUT,
                       "mtp: a head of family %s requires a target of that family, got %s",
                       draft->family, target->family);
    }
    if (draft->n_hidden != target->n_hidden) {
        return sp_fail(err, SP_E_INPUT, "mtp: hidden size %u, target has %u", draft->n_hidden,
                       target->n_hidden);
    }
    if (draft->n_vocab != target->n_vocab) {
        return sp_fail(err, SP_E_INPUT, "mtp: vocabulary of %u tokens, target has %u",
                       draft->n_vocab, target->n_vocab);
    }
    like = &target->layers[i];
    if (l->n_heads == like->n_heads && l->n_kv_heads == like->n_kv_heads &&
        l->head_dim == like->head_dim)
        return SP_OK;
    return sp_fail(err, SP_E_INPUT,
                   "mtp: %u heads and %u KV heads of size %u, target has %u and %u of size %u",
                   l->n_heads, l->n_kv_heads, l->head_dim, like->n_heads, like->n_kv_heads,
                   like->head_dim);
}

static bool same_ropes(const struct sp_rope *a, const struct sp_rope *b)
{
    return a->kind == b->kind && a->theta == b->theta && a->n_rot == b->n_rot &&
           a->n_rotated == b->n_rotated && a->factor == b->factor;
}

/* Queries turn by the assistant's own rope, but keys have been turned by the target's. */
static enum sp_status check_assistant(const struct sp_config *target, const struct sp_config *draft,
                                      char **warnings, struct sp_err *err)
{
    enum sp_status st = sp_config_check_assistant(draft, target, err);

    for (unsigned windowed = 0; st == SP_OK && windowed < 2; windowed++) {
        unsigned own = 0, source = sp_config_last_keys(target, windowed);
        while (own < draft->n_layers && (draft->layers[own].window != 0) != (windowed != 0))
            own++;
        if (own == draft->n_layers || same_ropes(&draft->ropes[draft->layers[own].rope],
                                                 &target->ropes[target->layers[source].rope]))
            continue;
        st = sp_warn(warnings, err, "assistant rope for %s_attention differs from target",
                     windowed ? "sliding" : "full");
    }
    return st;
}

static enum sp_status check_block_draft(const struct sp_config *target,
                                        const struct sp_config *draft, struct sp_err *err)
{
    enum sp_status st;

    if ((st = check_taps(target, draft, err)) || (st = check_tables(target, draft, err))) return st;
    return check_features(target, draft, err);
}

static enum sp_status check_language_model(struct sp_vocab_order *order,
                                           const struct sp_draft_compat_side *target,
                                           const struct sp_draft_compat_side *draft,
                                           char **warnings, struct sp_err *err)
{
    const struct sp_config *t = target->config, *d = draft->config;
    enum sp_status st;

    if ((st = check_tokenizers(order, target, draft, warnings, err))) return st;
    if (d->n_vocab != t->n_vocab) {
        st = sp_warn(warnings, err, "draft vocabulary has %u rows, target %u", d->n_vocab,
                     t->n_vocab);
        if (st) return st;
    }
    if (d->max_positions >= t->max_positions) return SP_OK;
    return sp_warn(
        warnings, err,
        "draft context %u is shorter than the target's %u: there is no drafting beyond it",
        d->max_positions, t->max_positions);
}

static enum sp_status count_weights(double *out, const struct sp_config *config, struct sp_err *err)
{
    struct sp_specs specs = {0};
    enum sp_status st;

    if ((st = sp_specs_of_config(&specs, config, err))) return st;
    *out = 0;
    for (size_t i = 0; i < specs.n_specs; i++) {
        double n = 1;
        for (unsigned k = 0; k < specs.specs[i].rank; k++)
            n *= (double)specs.specs[i].shape[k];
        *out += n;
    }
    sp_specs_release(&specs);
    return SP_OK;
}

static enum sp_status note_sizes(const struct sp_config *target, const struct sp_config *draft,
                                 bool same_source, char **warnings, struct sp_err *err)
{
    double n_target, n_draft;
    enum sp_status st;

    if (same_source) return sp_warn(warnings, err, "draft equals target");
    if ((st = count_weights(&n_target, target, err))) return st;
    if ((st = count_weights(&n_draft, draft, err))) return st;
    if (n_draft <= n_target) return SP_OK;
    return sp_warn(warnings, err, "draft is larger than its target: %.0f weights, target has %.0f",
                   n_draft, n_target);
}

enum sp_status sp_draft_compat_check(struct sp_vocab_order *order,
                                     const struct sp_draft_compat_side *target,
                                     const struct sp_draft_compat_side *draft, bool same_source,
                                     char **warnings, struct sp_err *err)
{
    const struct sp_config *t = target->config, *d = draft->config;
    enum sp_status st;

    *order = (struct sp_vocab_order){0};
    if (t->draft.kind != SP_DRAFT_NONE) {
        return sp_fail(err, SP_E_INPUT, "target is a draft (%s), expected a language model",
                       t->architecture);
    }
    switch (d->draft.kind) {
    case SP_DRAFT_NONE:
        st = check_language_model(order, target, draft, warnings, err);
        break;
    case SP_DRAFT_DFLASH:
    case SP_DRAFT_DFLASH2:
    case SP_DRAFT_DSPARK:
        st = check_block_draft(t, d, err);
        break;
    case SP_DRAFT_ASSISTANT:
        st = check_assistant(t, d, warnings, err);
        break;
    case SP_DRAFT_EAGLE3:
    case SP_DRAFT_PEAGLE:
        st = sp_config_check_eagle3(d, t, err);
        break;
    case SP_DRAFT_MTP:
        return check_mtp(t, d, err);
    default:
        st = sp_fail(err, SP_E_BUG, "draft kind %d has no pair check", (int)d->draft.kind);
    }
    return st ? st : note_sizes(t, d, same_source, warnings, err);
}
