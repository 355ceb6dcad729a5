/* EAGLE-3 drafts (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language
 * Models via Training-Time Test"): one decoder layer on pairs (draft_feature_head.h). h_t = fc of
 * the target's residual stream after some layers; the layer reads [norm(embed(ids[t+1])),
 * norm(h_t)] and adds to h_t. Its own head scores a vocabulary of its own, often a part of the
 * target's (draft_vocab.h). */
#include "runtime/speculate/draft_eagle3.h"

#include "format/base/mem.h"

#include <stdlib.h>

static const unsigned normed_tap[] = {SP_TAP_FINAL}, raw_tap[] = {0};

const unsigned *sp_eagle3_taps(const struct sp_model *draft, unsigned *n_taps)
{
    *n_taps = draft->config.draft.n_taps;
    return draft->config.draft.taps;
}

enum sp_status sp_eagle3_check(const struct sp_model *target, const struct sp_model *draft,
                               struct sp_err *err)
{
    enum sp_status st = sp_config_check_eagle3(&draft->config, &target->config, err);

    return st ? st : sp_draft_vocab_check(draft, target->config.n_vocab, err);
}

static struct sp_logits translate(struct sp_feature_head *pairs, struct sp_logits logits)
{
    return sp_draft_vocab_spread(&((struct sp_eagle3 *)pairs)->vocabulary, logits);
}

enum sp_status sp_eagle3_init(struct sp_eagle3 *d, const struct sp_drafter_ops *ops,
                              const struct sp_drafter_setup *setup, const unsigned *tap,
                              struct sp_err *err)
{
    const struct sp_model *draft = setup->draft;
    enum sp_status st;

    d->pairs.embedder = draft->embedding.rows ? draft : setup->target;
    d->pairs.head = draft;
    if (draft->token_map) d->pairs.translate = translate;
    if ((st = sp_feature_head_init(&d->pairs, ops, setup, tap, err))) return st;
    return sp_draft_vocab_init(&d->vocabulary, draft, setup->target->config.n_vocab, err);
}

void sp_eagle3_release(struct sp_eagle3 *d)
{
    sp_feature_head_release(&d->pairs);
    sp_draft_vocab_release(&d->vocabulary);
}

static void eagle3_close(struct sp_drafter *base)
{
    sp_eagle3_release((struct sp_eagle3 *)base);
    free(base);
}

static enum sp_status eagle3_open(struct sp_drafter **out, const struct sp_drafter_setup *setup,
                                  struct sp_err *err)
{
    const unsigned *tap = setup->draft->config.draft.normed_output ? normed_tap : raw_tap;
    struct sp_eagle3 *d = NULL;
    enum sp_status st;

    if ((st = sp_new(&d, 1, sizeof *d, err))) return st;
    d->pairs.draft_len = SP_FEATURE_HEAD_MAX;
    if ((st = sp_eagle3_init(d, &sp_draft_eagle3_ops, setup, tap, err))) {
        eagle3_close(&d->pairs.base);
        return st;
    }
    *out = &d->pairs.base;
    return SP_OK;
}

void sp_eagle3_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct sp_feature_head *p = (struct sp_feature_head *)base;

    sp_decoder_fuse_features(p->decoder, sp_feature_head_commit(p, commit), commit->features,
                             commit->n);
}

const struct sp_drafter_ops sp_draft_eagle3_ops = {
    .kind = SP_DRAFT_EAGLE3,
    .stepwise = true,
    .max_draft_len = sp_feature_head_max_draft_len,
    .taps = sp_eagle3_taps,
    .check = sp_eagle3_check,
    .open = eagle3_open,
    .limit = sp_feature_head_limit,
    .catch_up = sp_feature_head_catch_up,
    .n_unread = sp_feature_head_n_unread,
    .propose = sp_feature_head_propose,
    .logits = sp_feature_head_logits,
    .commit = sp_eagle3_commit,
    .truncate = sp_feature_head_truncate,
    .state = sp_feature_head_state,
    .close = eagle3_close,
};
