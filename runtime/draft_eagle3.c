/* EAGLE-3 drafts (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language
 * Models via Training-Time Test"): one decoder layer on pairs (draft_pairs.h). h_t = fc of the
 * target's residual stream after some layers; the layer reads [norm(embed(ids[t+1])), norm(h_t)]
 * and adds to h_t. Its own head scores a vocabulary of its own, often a part of the target's
 * (token_map.h). */
#include "runtime/draft_pairs.h"

#include "format/mem.h"
#include "runtime/token_map.h"

#include <stdlib.h>

static const unsigned normed_tap[] = {SP_TAP_FINAL}, raw_tap[] = {0};

struct draft_eagle3 {
    struct sp_pairs pairs;
    struct sp_token_map vocabulary;
};

static const unsigned *eagle3_taps(const struct sp_model *draft, unsigned *n_taps)
{
    *n_taps = draft->config.draft.n_taps;
    return draft->config.draft.taps;
}

static enum sp_status eagle3_check(const struct sp_model *target, const struct sp_model *draft,
                                   struct sp_err *err)
{
    enum sp_status st = sp_config_check_eagle3(&draft->config, &target->config, err);

    return st ? st : sp_token_map_check(draft, target->config.n_vocab, err);
}

static void eagle3_close(struct sp_drafter *base)
{
    struct draft_eagle3 *d = (struct draft_eagle3 *)base;

    sp_pairs_release(&d->pairs);
    sp_token_map_release(&d->vocabulary);
    free(d);
}

static struct sp_logits translate(struct sp_pairs *pairs, struct sp_logits logits)
{
    return sp_token_map_spread(&((struct draft_eagle3 *)pairs)->vocabulary, logits);
}

static enum sp_status eagle3_open(struct sp_drafter **out, const struct sp_drafter_setup *setup,
                                  struct sp_err *err)
{
    const struct sp_model *draft = setup->draft;
    struct draft_eagle3 *d = NULL;
    enum sp_status st;

    if ((st = sp_new(&d, 1, sizeof *d, err))) return st;
    d->pairs.embedder = draft->embedding.rows ? draft : setup->target;
    d->pairs.head = draft;
    if ((st = sp_pairs_init(&d->pairs, &sp_draft_eagle3_ops, setup,
                            draft->config.draft.normed_output ? normed_tap : raw_tap, err)) ||
        (st = sp_token_map_init(&d->vocabulary, draft, setup->target->config.n_vocab, err))) {
        eagle3_close(&d->pairs.base);
        return st;
    }
    if (draft->token_map) d->pairs.translate = translate;
    *out = &d->pairs.base;
    return SP_OK;
}

static void eagle3_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct sp_pairs *p = (struct sp_pairs *)base;

    sp_decoder_condense(p->decoder, sp_pairs_commit(p, commit), commit->features, commit->n);
}

const struct sp_drafter_ops sp_draft_eagle3_ops = {
    .kind = SP_DRAFT_EAGLE3,
    .name = "eagle3",
    .stepwise = true,
    .max_depth = sp_pairs_max_depth,
    .taps = eagle3_taps,
    .check = eagle3_check,
    .open = eagle3_open,
    .limit = sp_pairs_limit,
    .catch_up = sp_pairs_catch_up,
    .propose = sp_pairs_propose,
    .logits = sp_pairs_logits,
    .commit = eagle3_commit,
    .truncate = sp_pairs_truncate,
    .cache_size = sp_pairs_cache_size,
    .close = eagle3_close,
};
