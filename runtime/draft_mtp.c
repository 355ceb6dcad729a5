/* A prediction head built into its target (Qwen3.5's mtp.*): one decoder layer that guesses the
 * token after next.
 *
 * Slot t of its cache pairs the target's hidden state h_t (after the final norm) with token t+1:
 * x = fc [norm(embed(ids[t+1])), norm(h_t)], then the layer; o = norm(its output) times the
 * target's head gives the law of token t+2. Further guesses feed o in place of the hidden state
 * that nobody knows yet. The pair of the newest committed row waits until its token is known, so
 * hidden rows are kept until the next proposal, which runs all waiting pairs in one pass; the last
 * row of that pass is already the first guess. Slots made from o are guesses: the true pairs
 * overwrite them. */
#include "runtime/drafter.h"

#include "format/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 };

static const unsigned taps[] = {SP_TAP_FINAL};

struct draft_mtp {
    struct sp_drafter base;
    const struct sp_model *target;
    struct sp_decoder *decoder;
    size_t n_hidden, n_vocab, max_rows;
    /* Positions whose hidden state has been handed over; those from n_kept on are in `hidden`, the
     * last one always. Slots below n_true hold true pairs: n_kept <= n_true <= n_have. */
    size_t n_have, n_kept, n_true;
    float *hidden; /* [max_rows][n_hidden] */
    float *logits; /* [MAX_DEPTH][n_vocab] of the last proposal */
};

static size_t mtp_max_depth(const struct sp_model *draft)
{
    (void)draft;
    return MAX_DEPTH;
}

static const unsigned *mtp_taps(const struct sp_model *draft, unsigned *n_taps)
{
    (void)draft;
    *n_taps = 1;
    return taps;
}

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

static enum sp_status mtp_open(struct sp_drafter **out, const struct sp_drafter_setup *setup,
                               struct sp_err *err)
{
    struct draft_mtp *d = NULL;
    struct sp_decoder_options options = {
        /* Guesses may reach past the session's last position. */
        .n_positions = setup->n_positions + MAX_DEPTH,
        .max_rows = setup->max_rows,
        .max_logit_rows = 1,
        .kv_type = setup->kv_type,
        .taps = taps,
        .n_taps = 1,
    };
    enum sp_status st;

    if ((st = sp_new(&d, 1, sizeof *d, err))) return st;
    d->base.ops = &sp_draft_mtp_ops;
    d->target = setup->target;
    d->n_hidden = setup->draft->config.n_hidden;
    d->n_vocab = setup->draft->config.n_vocab;
    d->max_rows = setup->max_rows;
    if ((st = sp_decoder_open(&d->decoder, setup->draft, setup->engine, &options, err))) goto done;
    if ((st = sp_new_aligned(&d->hidden, d->max_rows * d->n_hidden, sizeof *d->hidden, err))) {
        goto done;
    }
    if ((st = sp_new_aligned(&d->logits, MAX_DEPTH * d->n_vocab, sizeof *d->logits, err))) {
        goto done;
    }
    *out = &d->base;
    d = NULL;
done:
    if (d) sp_draft_mtp_ops.close(&d->base);
    return st;
}

static size_t mtp_limit(const struct sp_drafter *base, size_t n_cached)
{
    (void)base;
    return n_cached ? MAX_DEPTH : 0;
}

/* Runs slots first..first+n-1 with these hidden states; their tokens are ids[first + 1]... */
static void run_slots(struct draft_mtp *d, const float *hidden, const uint32_t *ids, size_t first,
                      size_t n)
{
    sp_decoder_pair(d->decoder, d->target, ids + first + 1, hidden, n);
    sp_decoder_run(d->decoder, n, first, n);
}

/* All pairs up to the newest committed row, whose token is known now; returns the rows run. */
static size_t run_true_pairs(struct draft_mtp *d, const uint32_t *ids)
{
    size_t n = d->n_have - d->n_true;

    run_slots(d, d->hidden + (d->n_true - d->n_kept) * d->n_hidden, ids, d->n_true, n);
    d->n_true = d->n_have;
    return n;
}

static enum sp_status mtp_propose(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                  size_t *n, const struct sp_guesser *guesser, struct sp_err *err)
{
    struct draft_mtp *d = (struct draft_mtp *)base;
    enum sp_status st = SP_OK;
    bool more = true;
    size_t last, i;

    assert(d->n_have == n_cached && n_cached > 0);
    if (d->n_true == d->n_have) d->n_true--; /* asked twice: the last pair's token may differ */
    last = run_true_pairs(d, ids) - 1;
    for (i = 0; st == SP_OK && more && i < *n; i++) {
        struct sp_logits logits;
        if (i > 0) {
            const float *o = sp_decoder_features(d->decoder) + last * d->n_hidden;
            run_slots(d, o, ids, n_cached - 1 + i, 1);
            last = 0;
        }
        sp_decoder_logits(d->decoder, d->target, last, 1);
        logits = sp_logits_kept(sp_decoder_row(d->decoder, 0), d->logits + i * d->n_vocab);
        st = sp_guess(guesser, &more, ids, n_cached + 1 + i, &logits, err);
    }
    *n = i;
    return st;
}

static const float *mtp_logits(const struct sp_drafter *base, size_t i)
{
    const struct draft_mtp *d = (const struct draft_mtp *)base;

    return d->logits + i * d->n_vocab;
}

/* Drops what is no longer needed before the new rows come: everything whose pair is made. */
static void mtp_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct draft_mtp *d = (struct draft_mtp *)base;
    size_t n_waiting;

    assert(commit->first == d->n_have && commit->n <= d->max_rows);
    if (d->n_have - d->n_true + commit->n > d->max_rows) run_true_pairs(d, commit->ids);
    n_waiting = d->n_have - d->n_true;
    memmove(d->hidden, d->hidden + (d->n_true - d->n_kept) * d->n_hidden,
            n_waiting * d->n_hidden * sizeof *d->hidden);
    memcpy(d->hidden + n_waiting * d->n_hidden, commit->features,
           commit->n * d->n_hidden * sizeof *d->hidden);
    d->n_kept = d->n_true;
    d->n_have += commit->n;
}

/* The pair of position len - 1 had the token of position len, which is forgotten: its hidden state
 * must still be there to make it anew. */
static bool mtp_truncate(struct sp_drafter *base, size_t len)
{
    struct draft_mtp *d = (struct draft_mtp *)base;

    if (len == 0) {
        d->n_have = d->n_kept = d->n_true = 0;
        return true;
    }
    if (len > d->n_have || len - 1 < d->n_kept) return false;
    d->n_have = len;
    if (d->n_true > len - 1) d->n_true = len - 1;
    return true;
}

static size_t mtp_cache_size(const struct sp_drafter *base)
{
    return sp_decoder_cache_size(((const struct draft_mtp *)base)->decoder);
}

static void mtp_close(struct sp_drafter *base)
{
    struct draft_mtp *d = (struct draft_mtp *)base;

    sp_decoder_close(d->decoder);
    free(d->hidden);
    free(d->logits);
    free(d);
}

const struct sp_drafter_ops sp_draft_mtp_ops = {
    .kind = SP_DRAFT_MTP,
    .name = "mtp",
    .stepwise = true,
    .max_depth = mtp_max_depth,
    .taps = mtp_taps,
    .check = mtp_check,
    .open = mtp_open,
    .limit = mtp_limit,
    .propose = mtp_propose,
    .logits = mtp_logits,
    .commit = mtp_commit,
    .truncate = mtp_truncate,
    .cache_size = mtp_cache_size,
    .close = mtp_close,
};
