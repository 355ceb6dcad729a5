/* EAGLE-3 drafts (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language
 * Models via Training-Time Test"): one decoder layer on pairs (draft_feature_head.h). h_t = fc of
 * the target's residual stream after some layers; the layer reads [norm(embed(ids[t+1])),
 * norm(h_t)] and adds to h_t. Its own head scores a vocabulary of its own, often a part of the
 * target's (draft_vocab.h). */
#include "runtime/speculate/draft_feature_head.h"

#include "format/base/mem.h"

#include <string.h>

static const unsigned normed_tap[] = {SP_TAP_FINAL}, raw_tap[] = {0};

static enum sp_status eagle3_check(const struct sp_model *target, const struct sp_model *draft,
                                   struct sp_err *err)
{
    enum sp_status st = sp_config_check_eagle3(&draft->config, &target->config, err);

    return st ? st : sp_draft_vocab_check(draft, target->config.n_vocab, err);
}

/* `parallel` of the pairs is the caller's; `tap` as in sp_feature_head_init. */
static enum sp_status eagle3_init(struct sp_feature_head *pairs,
                                  const struct sp_drafter_setup *setup, const unsigned *tap,
                                  struct sp_err *err)
{
    pairs->embedder = setup->draft->embedding.rows ? setup->draft : setup->target;
    pairs->head = setup->draft;
    return sp_feature_head_init(pairs, setup, tap, err);
}

static enum sp_status eagle3_open(struct sp_drafter *base, const struct sp_drafter_setup *setup,
                                  struct sp_err *err)
{
    const unsigned *tap = setup->draft->config.draft.normed_output ? normed_tap : raw_tap;

    return eagle3_init((struct sp_feature_head *)base, setup, tap, err);
}

static void eagle3_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct sp_feature_head *p = (struct sp_feature_head *)base;

    sp_decoder_fuse_features(p->base.decoder, sp_feature_head_commit(p, commit), commit->features,
                             commit->n);
}

const struct sp_drafter_ops sp_draft_eagle3_ops = {
    .kind = SP_DRAFT_EAGLE3,
    .stepwise = true,
    .max_draft_len = SP_FEATURE_HEAD_MAX,
    .check = eagle3_check,
    .size = sizeof(struct sp_feature_head),
    .open = eagle3_open,
    .limit = sp_feature_head_limit,
    .catch_up = sp_feature_head_catch_up,
    .n_unread = sp_feature_head_n_unread,
    .begin = sp_feature_head_begin,
    .next = sp_feature_head_next,
    .logits = sp_feature_head_logits,
    .commit = eagle3_commit,
    .truncate = sp_feature_head_truncate,
    .page = sp_feature_head_page,
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
    struct sp_feature_head pairs;
    uint32_t mask_token;
    const float *mask_hidden; /* learned */
    float *mask_state;        /* [n_hidden], made with the first proposal */
    bool has_mask_state;
};

static enum sp_status peagle_open(struct sp_drafter *base, const struct sp_drafter_setup *setup,
                                  struct sp_err *err)
{
    const struct sp_model *draft = setup->draft;
    struct draft_peagle *d = (struct draft_peagle *)base;
    enum sp_status st;

    d->pairs.parallel = true;
    d->mask_token = draft->config.draft.mask_token;
    d->mask_hidden = draft->mask_hidden;
    if ((st = eagle3_init(&d->pairs, setup, NULL, err))) return st;
    return sp_arena_rows(&base->memory, &d->mask_state, 1, draft->config.n_hidden, err);
}

static void peagle_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                         const struct sp_proposal *proposal)
{
    struct draft_peagle *d = (struct draft_peagle *)base;
    struct sp_feature_head *p = &d->pairs;
    float *states = sp_feature_head_next_states(p);

    if (!d->has_mask_state)
        sp_decoder_fuse_features(base->decoder, d->mask_state, d->mask_hidden, 1);
    d->has_mask_state = true;
    for (size_t i = 0; i + 1 < *n; i++) {
        ids[n_cached + 1 + i] = d->mask_token; /* until it is drafted */
        memcpy(states + i * p->n_hidden, d->mask_state, p->n_hidden * sizeof *states);
    }
    sp_feature_head_begin(base, ids, n_cached, n, proposal);
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
    .limit = sp_feature_head_limit,
    .catch_up = sp_feature_head_catch_up,
    .n_unread = sp_feature_head_n_unread,
    .begin = peagle_begin,
    .next = sp_feature_head_next,
    .logits = peagle_logits,
    .commit = eagle3_commit,
    .truncate = sp_feature_head_truncate,
    .page = sp_feature_head_page,
};
