/* P-EAGLE drafts (arXiv 2602.01469) of the speculators library: EAGLE-3 that makes all its draft
 * tokens in one pass.
 *
 * After the newest pair there are as many slots as further draft tokens, each a pair of the mask
 * token and one state for all, fc of the learned mask_hidden. A slot sees the true pairs and the
 * slots in front of it, and predicts the token after it, as a committed pair does; so draft token i
 * is the same for any draft length, and only the slots wanted are run, together with the pairs that
 * wait. Their keys and values are overwritten by the next committed pairs. */
#include "runtime/speculate/draft_eagle3.h"

#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct draft_peagle {
    struct sp_eagle3 eagle3;
    uint32_t mask_token;
    const float *mask_hidden; /* learned */
    float *mask_state;        /* [n_hidden], made with the first proposal */
    bool has_mask_state;
};

static size_t peagle_max_draft_len(const struct sp_model *draft)
{
    return draft->config.draft.block_size;
}

static void peagle_close(struct sp_drafter *base)
{
    struct draft_peagle *d = (struct draft_peagle *)base;

    sp_eagle3_release(&d->eagle3);
    free(d->mask_state);
    free(d);
}

static enum sp_status peagle_open(struct sp_drafter **out, const struct sp_drafter_setup *setup,
                                  struct sp_err *err)
{
    const struct sp_model *draft = setup->draft;
    struct draft_peagle *d = NULL;
    enum sp_status st;

    if ((st = sp_new(&d, 1, sizeof *d, err))) return st;
    d->eagle3.pairs.draft_len = peagle_max_draft_len(draft);
    d->eagle3.pairs.parallel = true;
    d->mask_token = draft->config.draft.mask_token;
    if ((st = sp_eagle3_init(&d->eagle3, &sp_draft_peagle_ops, setup, NULL, err)) ||
        (st = sp_new_aligned(&d->mask_state, draft->config.n_hidden, sizeof *d->mask_state, err))) {
        peagle_close(&d->eagle3.pairs.base);
        return st;
    }
    d->mask_hidden = draft->mask_hidden;
    *out = &d->eagle3.pairs.base;
    return SP_OK;
}

static void make_mask_state(struct draft_peagle *d)
{
    if (d->has_mask_state) return;
    sp_decoder_fuse_features(d->eagle3.pairs.decoder, d->mask_state, d->mask_hidden, 1);
    d->has_mask_state = true;
}

static enum sp_status peagle_propose(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                     size_t *n, const struct sp_proposal *proposal,
                                     struct sp_err *err)
{
    struct draft_peagle *d = (struct draft_peagle *)base;
    struct sp_feature_head *p = &d->eagle3.pairs;
    float *states = sp_feature_head_next_states(p);
    enum sp_status st = SP_OK;
    bool more = true;
    size_t i;

    make_mask_state(d);
    for (i = 0; i + 1 < *n; i++) {
        ids[n_cached + 1 + i] = d->mask_token; /* until it is drafted */
        memcpy(states + i * p->n_hidden, d->mask_state, p->n_hidden * sizeof *states);
    }
    sp_feature_head_begin(p, ids, n_cached, i, proposal);
    for (i = 0; st == SP_OK && more && i < *n; i++) {
        struct sp_logits logits = sp_decoder_row(p->decoder, i);
        if (p->translate) logits = p->translate(p, logits);
        st = sp_propose_token(proposal, &more, ids, n_cached + 1 + i, &logits, err);
    }
    *n = i;
    return st;
}

static struct sp_logits peagle_logits(const struct sp_drafter *base, size_t i)
{
    return sp_decoder_row(((const struct draft_peagle *)base)->eagle3.pairs.decoder, i);
}

const struct sp_drafter_ops sp_draft_peagle_ops = {
    .kind = SP_DRAFT_PEAGLE,
    .max_draft_len = peagle_max_draft_len,
    .taps = sp_eagle3_taps,
    .check = sp_eagle3_check,
    .open = peagle_open,
    .limit = sp_feature_head_limit,
    .catch_up = sp_feature_head_catch_up,
    .n_unread = sp_feature_head_n_unread,
    .propose = peagle_propose,
    .logits = peagle_logits,
    .commit = sp_eagle3_commit,
    .truncate = sp_feature_head_truncate,
    .state = sp_feature_head_state,
    .close = peagle_close,
};
