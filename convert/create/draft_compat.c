/* Every check says with numbers or texts what does not fit. A block draft has no tokenizer of its
 * own: it shares the target's tables, so vocabulary size and mask token are all there is to
 * compare. A language model is compared token by token, because padding and file layout say
 * nothing. */
#include "convert/create/create_job.h"

#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/family/family.h"
#include "format/tokenizer/vocab.h"

#include <stdlib.h>
#include <string.h>

/* ---- vocabularies ----
 *
 * A draft speaks to its target in ids. Entries that the tokenizer can produce must have equal ids
 * on both sides. Added tokens, and entries that no merge produces, may have other ids or be
 * missing: the rows of the draft are then put into the order of the target. */

/* A token's text for messages, shortened to a readable length; not NUL-terminated. */
struct shown_token {
    int len;
    const char *text;
};

static struct shown_token show(const struct sp_vocab *v, uint32_t id)
{
    const struct sp_vocab_token *t = id < v->n_ids ? &v->tokens[id] : NULL;

    if (t == NULL || t->text == NULL) return (struct shown_token){0, ""};
    return (struct shown_token){t->len < 64 ? (int)t->len : 64, t->text};
}

static const struct sp_vocab_token *token_of(const struct sp_vocab *v, size_t id)
{
    return id < v->n_ids && v->tokens[id].text ? &v->tokens[id] : NULL;
}

static bool equal_tokens(const struct sp_vocab_token *a, const struct sp_vocab_token *b)
{
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

static bool is_one_character(const struct sp_vocab_token *t)
{
    size_t n = 0;

    for (uint32_t i = 0; i < t->len; i++)
        n += ((uint8_t)t->text[i] & 0xc0) != 0x80;
    return n <= 1 || t->len == 1;
}

/* movable[id]: an added token, or an entry that is not a character, a byte, the unknown token or
 * the result of a merge. Without merges, or if whole words are looked up, every entry of the model
 * can be produced. */
static enum sp_status find_movable(bool **out, const struct sp_vocab *v, struct sp_err *err)
{
    bool all_used = v->n_merges == 0 || v->ignore_merges;
    enum sp_status st;

    if ((st = sp_new(out, v->n_ids, sizeof **out, err))) return st;
    for (size_t id = 0; id < v->n_ids; id++) {
        const struct sp_vocab_token *t = token_of(v, id);
        bool byte = t && v->byte_fallback && t->len == 6 && memcmp(t->text, "<0x", 3) == 0;
        (*out)[id] = t && ((t->flags & SP_TOKEN_ADDED) != 0 ||
                           (!all_used && !byte && id != v->unk && !is_one_character(t)));
    }
    for (size_t i = 0; i < v->n_merges; i++) {
        uint32_t id = v->merges[i].merged;
        if ((v->tokens[id].flags & SP_TOKEN_ADDED) == 0) (*out)[id] = false;
    }
    return SP_OK;
}

/* The draft's id of a token of the target, or SP_ID_NONE. */
static uint32_t find_text(const struct sp_vocab *draft, const struct sp_vocab_token *t)
{
    for (size_t i = 0; i < draft->n_added; i++)
        if (equal_tokens(&draft->tokens[draft->added[i]], t)) return draft->added[i];
    return sp_vocab_find(draft, t->text, t->len);
}

static enum sp_status refuse(const struct sp_vocab *target, const struct sp_vocab *draft,
                             uint32_t id, struct sp_err *err)
{
    struct shown_token a = show(draft, id), b = show(target, id);

    return sp_fail(err, SP_E_INPUT,
                   "draft tokenizer differs from target at id %u (\"%.*s\" vs \"%.*s\"); a draft "
                   "needs the target's vocabulary",
                   id, a.len, a.text, b.len, b.text);
}

/* The rows that no token has been matched with go to the ids that have none, in order. */
static void fill(uint32_t *rows, const bool *taken, size_t n)
{
    size_t next = 0;

    for (size_t id = 0; id < n; id++) {
        if (rows[id] != SP_ID_NONE) continue;
        while (taken[next])
            next++;
        rows[id] = (uint32_t)next++;
    }
}

/* Matches every token of the target at whose id the draft has another one, or none. */
static void match_moved(struct sp_vocab_order *out, bool *taken, const struct sp_vocab *target,
                        const struct sp_vocab *draft)
{
    for (size_t id = 0; id < out->n; id++) {
        const struct sp_vocab_token *a = token_of(target, id), *b = token_of(draft, id);
        uint32_t row;
        if (a && b && equal_tokens(a, b)) {
            out->rows[id] = (uint32_t)id;
            taken[id] = true;
        }
        if (a == NULL || (b && equal_tokens(a, b))) continue;
        row = find_text(draft, a);
        if (row == SP_ID_NONE || row >= out->n || taken[row] ||
            (row < target->n_ids && token_of(target, row) &&
             equal_tokens(token_of(target, row), &draft->tokens[row]))) {
            out->n_unknown += b != NULL;
            continue;
        }
        out->rows[id] = row;
        taken[row] = true;
        out->n_matched++;
    }
}

/* An id without a match keeps its own row if that is free. */
static void keep_places(struct sp_vocab_order *out, bool *taken)
{
    for (size_t id = 0; id < out->n; id++) {
        if (out->rows[id] != SP_ID_NONE || taken[id]) continue;
        out->rows[id] = (uint32_t)id;
        taken[id] = true;
    }
}

/* Compares tokens. *out is owned by the caller (free rows). n_rows is the number of rows in the
 * draft's tables. SP_E_INPUT names the first id whose tokens differ and that cannot be moved. */
static enum sp_status match_vocabularies(struct sp_vocab_order *out, const struct sp_vocab *target,
                                         const struct sp_vocab *draft, size_t n_rows,
                                         struct sp_err *err)
{
    size_t n = target->n_ids < draft->n_ids ? target->n_ids : draft->n_ids;
    bool *of_target = NULL, *of_draft = NULL, *taken = NULL;
    enum sp_status st;

    *out = (struct sp_vocab_order){.n = n_rows};
    if ((st = find_movable(&of_target, target, err))) goto done;
    if ((st = find_movable(&of_draft, draft, err))) goto done;
    for (uint32_t id = 0; id < n; id++) {
        const struct sp_vocab_token *a = token_of(target, id), *b = token_of(draft, id);
        if ((a && b && equal_tokens(a, b)) || (a == NULL && b == NULL)) continue;
        if ((a == NULL || of_target[id]) && (b == NULL || of_draft[id])) continue;
        st = refuse(target, draft, id, err);
        goto done;
    }
    if ((st = sp_new(&out->rows, n_rows, sizeof *out->rows, err))) goto done;
    if ((st = sp_new(&taken, n_rows, sizeof *taken, err))) goto done;
    for (size_t id = 0; id < n_rows; id++)
        out->rows[id] = SP_ID_NONE;
    match_moved(out, taken, target, draft);
    keep_places(out, taken);
    fill(out->rows, taken, n_rows);
    if (out->n_matched == 0) {
        free(out->rows);
        out->rows = NULL;
    }
done:
    free(of_target);
    free(of_draft);
    free(taken);
    return st;
}

/* ---- the checks ---- */

/* The rows a block draft looks up and scores are the target's, or its own and then as many. fc's
 * columns are settled as taps times the draft's own idea of the target's width. */
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
    if (d->target_hidden == target->n_hidden) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "dflash fc input %llu != %u ids * target hidden %u",
                   (unsigned long long)d->n_taps * d->target_hidden, d->n_taps, target->n_hidden);
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

/* Ids mean the same on both sides by now, so merges are compared as numbers. */
static enum sp_status compare_merges(const struct sp_vocab *target, const struct sp_vocab *draft,
                                     struct sp_err *err)
{
    size_t n = target->n_merges < draft->n_merges ? target->n_merges : draft->n_merges;

    for (size_t i = 0; i < n; i++) {
        const struct sp_vocab_merge *a = &draft->merges[i], *b = &target->merges[i];
        struct shown_token al = show(draft, a->left), ar = show(draft, a->right);
        struct shown_token bl = show(target, b->left), br = show(target, b->right);
        if (a->left == b->left && a->right == b->right) continue;
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
    struct shown_token a = show(draft, bos ? draft->bos : draft->eos);
    struct shown_token b = show(target, bos ? target->bos : target->eos);

    if (!bos && !differ(target->eos, draft->eos, order)) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "draft bos/eos differ: %s is \"%.*s\" vs \"%.*s\"",
                   bos ? "bos" : "eos", a.len, a.text, b.len, b.text);
}

static enum sp_status open_vocab(struct sp_vocab **out, const struct sp_draft_compat_side *side,
                                 const char *what, struct sp_err *err)
{
    enum sp_status st = sp_vocab_open(out, &side->tokenizer, &side->tokenizer_config, err);

    if (st) sp_context(err, "%s tokenizer", what);
    return st;
}

static bool equal_texts(const struct sp_text *a, const struct sp_text *b)
{
    if (a->at == NULL || b->at == NULL) return a->at == b->at;
    return a->size == b->size && memcmp(a->at, b->at, a->size) == 0;
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

    if (target->tokenizer.at == NULL && draft->tokenizer.at == NULL) return SP_OK;
    if (target->tokenizer.at == NULL || draft->tokenizer.at == NULL) {
        return sp_warn(warnings, err, "%s has no tokenizer: that of the other model is assumed",
                       target->tokenizer.at ? "draft" : "target");
    }
    if (equal_texts(&target->tokenizer, &draft->tokenizer) &&
        equal_texts(&target->tokenizer_config, &draft->tokenizer_config))
        return SP_OK;
    if ((st = open_vocab(&a, target, "target", err))) goto done;
    if ((st = open_vocab(&b, draft, "draft", err))) goto done;
    if ((st = match_vocabularies(order, a, b, draft->config->n_vocab, err))) goto done;
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
    unsigned i = 0; /* a layer of its kind */

    while (i < target->n_layers && !(target->layers[i].mixers & SP_MIXER_ATTENTION &&
                                     (target->layers[i].window != 0) == (l->window != 0)))
        i++;
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
    for (size_t i = 0; i < specs.n_specs; i++)
        *out += (double)sp_spec_elements(&specs.specs[i]);
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
        st = check_taps(t, d, err);
        if (!st) st = check_tables(t, d, err);
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
