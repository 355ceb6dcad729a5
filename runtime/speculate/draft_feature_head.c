/* Drafts that pair a hidden state of the target with the token after it: multi-token prediction
 * heads, EAGLE-3 and P-EAGLE.
 *
 * Slot t of their cache pairs the state h_t, from row t of the target, with token t+1; the layer's
 * output o predicts token t+2. Further draft tokens feed o in place of a state that is not known
 * yet; P-EAGLE feeds one fixed state and a mask token for all draft tokens at once. The pair of the
 * newest committed row waits until its token is known, so states are kept until the next proposal,
 * which runs all waiting pairs in one pass; the last row of that pass yields the first draft token.
 * Slots after the committed pairs hold draft tokens, and committed pairs overwrite them. */
#include "runtime/speculate/drafter.h"

#include <assert.h>
#include <string.h>

enum { MAX_DRAFT_LEN = 16 };

struct feature_head {
    struct sp_drafter base;
    size_t draft_len; /* most draft tokens of a proposal */
    bool parallel;    /* all draft tokens come from one pass */
    size_t n_hidden, n_rows /* of the head */, max_rows;
    /* Positions [0, n_have) have been committed. Their states from n_kept on are in `hidden`, and
     * the last always. Slots below n_true hold committed pairs: n_kept <= n_true <= n_have. */
    size_t n_have, n_kept, n_true;
    float *hidden; /* [max_rows + (parallel ? draft_len : 0)][n_hidden] */
    float *logits; /* [draft_len][n_rows] of the last proposal, if it needed rows; NULL if it comes
                      from one pass */
    enum sp_logits_need needs; /* of the last proposal */
    size_t row;                /* of its first pass: that of the last committed pair */
    struct sp_draft_vocab vocabulary;
};

/* The output that is fed back is a tap of the draft. */
static enum sp_status pairs_open(struct sp_drafter *base, const struct sp_sequence_setup *setup,
                                 struct sp_err *err)
{
    struct feature_head *p = (struct feature_head *)base;
    static const unsigned normed_tap[] = {SP_TAP_FINAL}, raw_tap[] = {0};
    size_t draft_len = sp_drafter_max_draft_len(setup->draft);
    size_t n_ahead = p->parallel ? draft_len : 0; /* rows of a pass that are draft tokens */
    struct sp_decoder_options options = setup->options;
    enum sp_status st;

    p->n_hidden = setup->draft->config.n_hidden;
    p->n_rows = base->head->head.rows;
    p->draft_len = draft_len;
    p->max_rows = options.max_rows;
    options.n_positions += draft_len; /* draft tokens may reach past the session's last position */
    options.max_rows += n_ahead;
    options.max_logit_rows = p->parallel ? draft_len : 1;
    options.taps = setup->draft->config.draft.normed_output ? normed_tap : raw_tap;
    options.n_taps = !p->parallel;
    if (setup->draft->token_map == NULL) options.shortlist_of = base->head;
    st = sp_decoder_open(&base->decoder, setup->draft, setup->backend, &options, err);
    if (st) return st;
    p->hidden = sp_arena_rows(&p->base.memory, p->max_rows + n_ahead, p->n_hidden);
    sp_draft_vocab_init(&p->vocabulary, &p->base.memory, setup->draft,
                        setup->target->config.n_vocab);
    if (!p->parallel)
        p->logits = sp_arena_new(&p->base.memory, draft_len * p->n_rows, sizeof *p->logits);
    return SP_OK;
}

static size_t pairs_limit(struct sp_drafter *base, const uint32_t *ids, size_t n_cached)
{
    (void)ids;
    return n_cached ? ((const struct feature_head *)base)->draft_len : 0;
}

/* A pass of the slots first..first+n-1 with these states, with the last n_logits rows of logits. */
static struct sp_batch_seq slots(struct feature_head *p, const float *hidden, const uint32_t *ids,
                                 size_t first, size_t n, size_t n_logits)
{
    return (struct sp_batch_seq){
        .decoder = p->base.decoder,
        .embedder = p->base.embedder,
        .head = p->base.head,
        .ids = ids + first + 1,
        .hidden = hidden,
        .n = n,
        .pos = first,
        .n_committed = n,
        .first_logits = n - n_logits,
        .n_logits = n_logits,
        .needs = p->needs,
    };
}

static float *state_of(struct feature_head *p, size_t slot)
{
    return p->hidden + (slot - p->n_kept) * p->n_hidden;
}

/* The waiting pairs up to n_true, and n_more slots after them. */
static struct sp_batch_seq true_pairs(struct feature_head *p, const uint32_t *ids, size_t n_true,
                                      size_t n_more, size_t n_logits)
{
    return slots(p, state_of(p, p->n_true), ids, p->n_true, n_true - p->n_true + n_more, n_logits);
}

/* Runs the waiting pairs up to n_true without releasing the scheduler. */
static void store_pairs(struct feature_head *p, const uint32_t *ids, size_t n_true)
{
    struct sp_batch_seq seq = true_pairs(p, ids, n_true, 0, 0);

    sp_batch_run(&seq, 1);
    p->n_true = n_true;
}

static float *next_states(struct feature_head *p)
{
    return state_of(p, p->n_have);
}

static size_t pairs_n_unread(const struct sp_drafter *base, size_t n_cached)
{
    const struct feature_head *p = (const struct feature_head *)base;
    size_t n = p->n_have - p->n_true;

    (void)n_cached;
    return n > p->draft_len + 1 ? n - 1 : 0;
}

/* Runs all waiting pairs but the last, whose token is cur. */
static void pairs_catch_up(struct sp_drafter *base, const uint32_t *ids, size_t n_cached)
{
    struct feature_head *p = (struct feature_head *)base;

    if (pairs_n_unread(base, n_cached)) store_pairs(p, ids, p->n_have - 1);
}

static void pairs_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                        const struct sp_proposal *proposal)
{
    struct feature_head *p = (struct feature_head *)base;
    size_t n_more = p->parallel ? *n - 1 : 0;
    struct sp_batch_seq seq;

    p->needs = sp_proposal_needs(proposal, SP_LOGITS_PROBABILITY);
    assert(p->n_have == n_cached && n_cached > 0);
    (void)n_cached;
    if (p->n_true == p->n_have)
        p->n_true--; /* called again: the token of the last pair may differ */
    seq = true_pairs(p, ids, p->n_have, n_more, 1 + n_more);
    sp_drafter_pass(&p->base, seq, SP_PRIORITY_DRAFT);
    p->n_true = p->n_have;
    p->row = seq.first_logits;
}

/* If not all draft tokens come from one pass, the first comes from the last committed pair, others
 * from their pass's only row. */
static struct sp_logits pairs_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                   size_t i, double *confidence)
{
    struct feature_head *p = (struct feature_head *)base;
    struct sp_decoder *decoder = base->decoder;
    struct sp_logits logits;

    (void)confidence;
    if (i > 0 && !p->parallel) {
        const float *o = sp_decoder_features(decoder) + (i == 1 ? p->row : 0) * p->n_hidden;
        struct sp_batch_seq seq = slots(p, o, ids, n_cached - 1 + i, 1, 1);
        sp_drafter_pass(base, seq, SP_PRIORITY_DRAFT);
    }
    if (p->parallel || p->needs > SP_LOGITS_ROWS)
        logits = sp_decoder_row(decoder, p->parallel ? i : 0);
    else
        logits = sp_decoder_keep_row(decoder, 0, p->logits + i * p->n_rows, p->n_rows);
    return sp_draft_vocab_spread(&p->vocabulary, logits);
}

static struct sp_logits pairs_logits(const struct sp_drafter *base, size_t i)
{
    const struct feature_head *p = (const struct feature_head *)base;

    return (struct sp_logits){.row = p->logits + i * p->n_rows, .n = p->n_rows};
}

/* Drops the states whose pairs are done before the new rows come. */
static float *commit_pairs(struct feature_head *p, const struct sp_commit *commit)
{
    size_t n_waiting;

    assert(commit->first == p->n_have && commit->n <= p->max_rows);
    if (p->n_have - p->n_true + commit->n > p->max_rows) store_pairs(p, commit->ids, p->n_have);
    sp_decoder_add_tokens(p->base.decoder, commit->ids + commit->first, commit->n);
    n_waiting = p->n_have - p->n_true;
    memmove(p->hidden, state_of(p, p->n_true), n_waiting * p->n_hidden * sizeof *p->hidden);
    p->n_kept = p->n_true;
    p->n_have += commit->n;
    return p->hidden + n_waiting * p->n_hidden;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The pair of position len - 1 holds the token of position len. If that token may change, its
 * state must still be kept to run the pair again. */
static bool pairs_truncate(struct sp_drafter *base, size_t len, size_t n_same)
{
    struct feature_head *p = (struct feature_head *)base;
    size_t n_true = len && n_same == len ? len - 1 : len;

    if (len > p->n_have || (n_true < len && n_true < p->n_kept)) return false;
    if (len > 0 && len < p->n_have && !sp_decoder_can_rewind(p->base.decoder, p->n_have, len))
        return false;
    p->n_have = len;
    p->n_true = smaller(p->n_true, n_true);
    p->n_kept = smaller(p->n_kept, p->n_true);
    return true;
}

/* The last pairs of a span wait for a token of the next one, so a page also has the span before it,
 * which is complete by then; its own is read only if the sequence goes on after it, with the states
 * of the pairs that wait. */
static enum sp_status pairs_page(struct sp_drafter *base, struct sp_cache_file *file, size_t span,
                                 bool resumes, struct sp_err *err)
{
    struct feature_head *p = (struct feature_head *)base;
    const bool is_read = sp_cache_file_is_read(file);
    size_t end = (span + 1) * SP_SPAN, n_states = 0;
    enum sp_status st = SP_OK;

    if (!is_read) { /* pages are read by several threads, of which one sets the counts */
        size_t first = smaller(p->n_true, end - 1);
        if (first < p->n_kept || p->n_have < end) return SP_E_CHECK;
        n_states = end - first;
    }
    if (span > 0) st = sp_decoder_transfer(p->base.decoder, file, span - 1, err);
    if (st || (is_read && !resumes)) return st;
    if ((st = sp_decoder_transfer(p->base.decoder, file, span, err)) ||
        (st = sp_cache_file_number(file, &n_states, smaller(p->max_rows, end), err)))
        return st;
    if (is_read) {
        p->n_have = end;
        p->n_true = p->n_kept = end - n_states;
    }
    return sp_cache_file_bytes(file, state_of(p, end - n_states),
                               n_states * p->n_hidden * sizeof *p->hidden, err);
}

/* What the kinds have in common. */
#define PAIRS_OPS                                                                                  \
    .limit = pairs_limit, .catch_up = pairs_catch_up, .n_unread = pairs_n_unread,                  \
    .next = pairs_next, .truncate = pairs_truncate, .page = pairs_page

/* ---- prediction heads ---- */

/* A prediction head built into its target (Qwen3.5's, GLM-4.5's): one decoder layer that drafts
 * the token after next from pairs. h_t is the target's hidden state after
 * its final norm; x = fc [norm(embed(ids[t+1])), norm(h_t)], then the layer; o = norm(its output)
 * times the target's head gives the logits of token t+2. The fed-back state is o, or the layer's
 * output before that norm (GLM-4.5). */

static enum sp_status mtp_check(const struct sp_model *target, const struct sp_model *draft,
                                struct sp_err *err)
{
    const struct sp_config *t = &target->config, *d = &draft->config;

    if (d->n_hidden != t->n_hidden) {
        return sp_fail(err, SP_E_INPUT, "mtp: hidden size %u, target has %u", d->n_hidden,
                       t->n_hidden);
    }
    if (d->n_vocab != t->n_vocab) {
        return sp_fail(err, SP_E_INPUT, "mtp: vocabulary of %u tokens, target has %u", d->n_vocab,
                       t->n_vocab);
    }
    return SP_OK;
}

static void mtp_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct feature_head *p = (struct feature_head *)base;

    memcpy(commit_pairs(p, commit), commit->features,
           commit->n * p->n_hidden * sizeof *commit->features);
}

const struct sp_drafter_ops sp_draft_mtp_ops = {
    .kind = SP_DRAFT_MTP,
    .stepwise = true,
    .max_draft_len = MAX_DRAFT_LEN,
    .reads_output = true,
    .check = mtp_check,
    .size = sizeof(struct feature_head),
    .open = pairs_open,
    .begin = pairs_begin,
    .logits = pairs_logits,
    .commit = mtp_commit,
    PAIRS_OPS,
};

/* ---- EAGLE-3 ---- */

/* EAGLE-3 drafts (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language
 * Models via Training-Time Test"): one decoder layer on pairs. h_t = fc of
 * the target's residual stream after some layers; the layer reads [norm(embed(ids[t+1])),
 * norm(h_t)] and adds to h_t. Its own head scores a vocabulary of its own, often a part of the
 * target's (drafter.h). */

static enum sp_status eagle3_check(const struct sp_model *target, const struct sp_model *draft,
                                   struct sp_err *err)
{
    enum sp_status st = sp_config_check_eagle3(&draft->config, &target->config, err);

    return st ? st : sp_draft_vocab_check(draft, target->config.n_vocab, err);
}

static void eagle3_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct feature_head *p = (struct feature_head *)base;

    sp_decoder_fuse_features(p->base.decoder, commit_pairs(p, commit), commit->features, commit->n);
}

const struct sp_drafter_ops sp_draft_eagle3_ops = {
    .kind = SP_DRAFT_EAGLE3,
    .stepwise = true,
    .max_draft_len = MAX_DRAFT_LEN,
    .check = eagle3_check,
    .size = sizeof(struct feature_head),
    .open = pairs_open,
    .begin = pairs_begin,
    .logits = pairs_logits,
    .commit = eagle3_commit,
    PAIRS_OPS,
};

/* ---- P-EAGLE ---- */

/* P-EAGLE drafts (arXiv 2602.01469) of the speculators library: EAGLE-3 that makes all its draft
 * tokens in one pass.
 *
 * After the newest pair there are as many slots as further draft tokens, each a pair of the mask
 * token and one state for all, fc of the learned mask_hidden. A slot sees the true pairs and the
 * slots in front of it, and predicts the token after it, as a committed pair does; so draft token i
 * is the same for any draft length, and only the slots wanted are run, together with the pairs that
 * wait. Their keys and values are overwritten by the next committed pairs. */
struct draft_peagle {
    struct feature_head pairs;
    uint32_t mask_token;
    const float *mask_hidden; /* learned */
    float *mask_state;        /* [n_hidden], made with the first proposal */
    bool has_mask_state;
};

static enum sp_status peagle_open(struct sp_drafter *base, const struct sp_sequence_setup *setup,
                                  struct sp_err *err)
{
    const struct sp_model *draft = setup->draft;
    struct draft_peagle *d = (struct draft_peagle *)base;
    enum sp_status st;

    d->pairs.parallel = true;
    d->mask_token = draft->config.draft.mask_token;
    d->mask_hidden = draft->mask_hidden;
    if ((st = pairs_open(base, setup, err))) return st;
    d->mask_state = sp_arena_rows(&base->memory, 1, draft->config.n_hidden);
    return SP_OK;
}

static void peagle_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                         const struct sp_proposal *proposal)
{
    struct draft_peagle *d = (struct draft_peagle *)base;
    struct feature_head *p = &d->pairs;
    float *states = next_states(p);

    if (!d->has_mask_state)
        sp_decoder_fuse_features(base->decoder, d->mask_state, d->mask_hidden, 1);
    d->has_mask_state = true;
    for (size_t i = 0; i + 1 < *n; i++) {
        ids[n_cached + 1 + i] = d->mask_token; /* until it is drafted */
        memcpy(states + i * p->n_hidden, d->mask_state, p->n_hidden * sizeof *states);
    }
    pairs_begin(base, ids, n_cached, n, proposal);
}

static struct sp_logits peagle_logits(const struct sp_drafter *base, size_t i)
{
    return sp_decoder_row(base->decoder, i);
}

const struct sp_drafter_ops sp_draft_peagle_ops = {
    .kind = SP_DRAFT_PEAGLE,
    .check = eagle3_check,
    .size = sizeof(struct draft_peagle),
    .open = peagle_open,
    .begin = peagle_begin,
    .logits = peagle_logits,
    .commit = eagle3_commit,
    PAIRS_OPS,
};
