/* A prediction head built into its target (Qwen3.5's, GLM-4.5's): one decoder layer that drafts
 * the token after next from pairs (draft_feature_head.h). h_t is the target's hidden state after
 * its final norm; x = fc [norm(embed(ids[t+1])), norm(h_t)], then the layer; o = norm(its output)
 * times the target's head gives the logits of token t+2. The fed-back state is o, or the layer's
 * output before that norm (GLM-4.5).
 */
#include "runtime/speculate/draft_feature_head.h"

#include <string.h>

static const unsigned taps[] = {SP_TAP_FINAL};
static const unsigned raw_taps[] = {0}; /* what its layer makes */

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

static enum sp_status mtp_open(struct sp_drafter *base, const struct sp_drafter_setup *setup,
                               struct sp_err *err)
{
    struct sp_feature_head *p = (struct sp_feature_head *)base;

    p->embedder = p->head = setup->target;
    return sp_feature_head_init(p, setup,
                                setup->draft->config.draft.normed_output ? taps : raw_taps, err);
}

static void mtp_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct sp_feature_head *p = (struct sp_feature_head *)base;

    memcpy(sp_feature_head_commit(p, commit), commit->features,
           commit->n * p->n_hidden * sizeof *commit->features);
}

const struct sp_drafter_ops sp_draft_mtp_ops = {
    .kind = SP_DRAFT_MTP,
    .stepwise = true,
    .max_draft_len = SP_FEATURE_HEAD_MAX,
    .reads_output = true,
    .check = mtp_check,
    .size = sizeof(struct sp_feature_head),
    .open = mtp_open,
    .limit = sp_feature_head_limit,
    .catch_up = sp_feature_head_catch_up,
    .n_unread = sp_feature_head_n_unread,
    .begin = sp_feature_head_begin,
    .next = sp_feature_head_next,
    .logits = sp_feature_head_logits,
    .commit = mtp_commit,
    .truncate = sp_feature_head_truncate,
    .page = sp_feature_head_page,
};
