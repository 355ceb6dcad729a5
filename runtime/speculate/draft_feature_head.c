#include "runtime/speculate/draft_feature_head.h"

#include "format/base/mem.h"
#include "runtime/model/state_checkpoint.h"

#include <assert.h>
#include <string.h>

enum sp_status sp_feature_head_init(struct sp_feature_head *p, const struct sp_drafter_setup *setup,
                                    const unsigned *tap, struct sp_err *err)
{
    size_t draft_len = sp_drafter_max_draft_len(setup->draft);
    size_t n_ahead = p->parallel ? draft_len : 0; /* rows of a pass that are draft tokens */
    struct sp_decoder_options options = {
        /* Draft tokens may reach past the session's last position. */
        .n_positions = setup->n_positions + draft_len,
        .max_rows = setup->max_rows + n_ahead,
        .max_logit_rows = p->parallel ? draft_len : 1,
        .cache_type = setup->cache_type,
        .budget = setup->budget,
        .taps = tap,
        .n_taps = tap != NULL,
        .max_batch = setup->max_batch,
        .workspace_of = setup->shared_with ? setup->shared_with->decoder : NULL,
        .shortlist_of = sp_draft_vocab_shortlist(setup->draft, p->head),
    };
    enum sp_status st;

    p->n_hidden = setup->draft->config.n_hidden;
    p->n_rows = p->head->head.rows;
    p->draft_len = draft_len;
    p->max_rows = setup->max_rows;
    st = sp_decoder_open(&p->base.decoder, setup->draft, setup->backend, &options, err);
    if (st) return st;
    st = sp_arena_rows(&p->base.memory, &p->hidden, p->max_rows + n_ahead, p->n_hidden, err);
    if (st) return st;
    st = sp_draft_vocab_init(&p->vocabulary, &p->base.memory, setup->draft,
                             setup->target->config.n_vocab, err);
    if (st || p->parallel) return st;
    return sp_arena_new(&p->base.memory, &p->logits, draft_len * p->n_rows, sizeof *p->logits, err);
}

size_t sp_feature_head_limit(struct sp_drafter *base, const uint32_t *ids, size_t n_cached)
{
    (void)ids;
    return n_cached ? ((const struct sp_feature_head *)base)->draft_len : 0;
}

/* A pass of the slots first..first+n-1 with these states, with the last n_logits rows of logits. */
static struct sp_batch_seq slots(struct sp_feature_head *p, const float *hidden,
                                 const uint32_t *ids, size_t first, size_t n, size_t n_logits)
{
    return (struct sp_batch_seq){
        .decoder = p->base.decoder,
        .embedder = p->embedder,
        .head = p->head,
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

static float *state_of(struct sp_feature_head *p, size_t slot)
{
    return p->hidden + (slot - p->n_kept) * p->n_hidden;
}

/* The waiting pairs up to n_true, and n_more slots after them. */
static struct sp_batch_seq true_pairs(struct sp_feature_head *p, const uint32_t *ids, size_t n_true,
                                      size_t n_more, size_t n_logits)
{
    return slots(p, state_of(p, p->n_true), ids, p->n_true, n_true - p->n_true + n_more, n_logits);
}

/* Runs the waiting pairs up to n_true without releasing the scheduler. */
static void store_pairs(struct sp_feature_head *p, const uint32_t *ids, size_t n_true)
{
    struct sp_batch_seq seq = true_pairs(p, ids, n_true, 0, 0);

    sp_batch_run(&seq, 1);
    p->n_true = n_true;
}

float *sp_feature_head_next_states(struct sp_feature_head *p)
{
    return state_of(p, p->n_have);
}

size_t sp_feature_head_n_unread(const struct sp_drafter *base, size_t n_cached)
{
    const struct sp_feature_head *p = (const struct sp_feature_head *)base;
    size_t n = p->n_have - p->n_true;

    (void)n_cached;
    return n > p->draft_len + 1 ? n - 1 : 0;
}

/* Runs all waiting pairs but the last, whose token is cur. */
void sp_feature_head_catch_up(struct sp_drafter *base, const uint32_t *ids, size_t n_cached)
{
    struct sp_feature_head *p = (struct sp_feature_head *)base;

    if (sp_feature_head_n_unread(base, n_cached)) store_pairs(p, ids, p->n_have - 1);
}

void sp_feature_head_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                           const struct sp_proposal *proposal)
{
    struct sp_feature_head *p = (struct sp_feature_head *)base;
    size_t n_more = p->parallel ? *n - 1 : 0;
    struct sp_batch_seq seq;

    p->needs = sp_proposal_needs(proposal);
    assert(p->n_have == n_cached && n_cached > 0);
    (void)n_cached;
    if (p->n_true == p->n_have)
        p->n_true--; /* called again: the token of the last pair may differ */
    seq = true_pairs(p, ids, p->n_have, n_more, 1 + n_more);
    sp_drafter_pass(&p->base, &seq, SP_PRIORITY_DRAFT);
    p->n_true = p->n_have;
    p->row = seq.first_logits;
}

/* If not all draft tokens come from one pass, the first comes from the last committed pair, others
 * from their pass's only row. */
struct sp_logits sp_feature_head_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                      size_t i, double *confidence)
{
    struct sp_feature_head *p = (struct sp_feature_head *)base;
    struct sp_decoder *decoder = base->decoder;
    struct sp_logits logits;

    (void)confidence;
    if (i > 0 && !p->parallel) {
        const float *o = sp_decoder_features(decoder) + (i == 1 ? p->row : 0) * p->n_hidden;
        struct sp_batch_seq seq = slots(p, o, ids, n_cached - 1 + i, 1, 1);
        sp_drafter_pass(base, &seq, SP_PRIORITY_DRAFT);
    }
    if (p->parallel || p->needs > SP_LOGITS_ROWS)
        logits = sp_decoder_row(decoder, p->parallel ? i : 0);
    else
        logits = sp_decoder_keep_row(decoder, 0, p->logits + i * p->n_rows, p->n_rows);
    return sp_draft_vocab_spread(&p->vocabulary, logits);
}

struct sp_logits sp_feature_head_logits(const struct sp_drafter *base, size_t i)
{
    const struct sp_feature_head *p = (const struct sp_feature_head *)base;

    return (struct sp_logits){.row = p->logits + i * p->n_rows, .n = p->n_rows};
}

/* Drops the states whose pairs are done before the new rows come. */
float *sp_feature_head_commit(struct sp_feature_head *p, const struct sp_commit *commit)
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
bool sp_feature_head_truncate(struct sp_drafter *base, size_t len, size_t n_same)
{
    struct sp_feature_head *p = (struct sp_feature_head *)base;
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
enum sp_status sp_feature_head_page(struct sp_drafter *base, struct sp_cache_file *file,
                                    size_t span, bool resumes, struct sp_err *err)
{
    struct sp_feature_head *p = (struct sp_feature_head *)base;
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
