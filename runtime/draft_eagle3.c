/* EAGLE-3 drafts (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language
 * Models via Training-Time Test"): one decoder layer on pairs (draft_pairs.h). h_t = fc of the
 * target's residual stream after some layers; the layer reads [norm(embed(ids[t+1])), norm(h_t)]
 * and adds to h_t. Its own head scores a vocabulary of its own, often a part of the target's: row i
 * stands for token i + d2t[i]; other tokens are never guessed. */
#include "runtime/draft_pairs.h"

#include "format/mem.h"

#include <stdlib.h>
#include <string.h>

static const unsigned normed_tap[] = {SP_TAP_FINAL}, raw_tap[] = {0};

struct draft_eagle3 {
    struct sp_pairs pairs;
    uint32_t *tokens; /* [head rows] ids of the target, ascending; NULL: row i is token i */
    float *scores;    /* [n_vocab] a row's logits by the target's ids: SP_NEVER between them */
    size_t n_vocab;
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

    if (st || draft->token_map == NULL) return st;
    return sp_config_check_token_map(draft->token_map, draft->head.rows, target->config.n_vocab,
                                     err);
}

static void eagle3_close(struct sp_drafter *base)
{
    struct draft_eagle3 *d = (struct draft_eagle3 *)base;

    sp_pairs_release(&d->pairs);
    free(d->tokens);
    free(d->scores);
    free(d);
}

/* The row by the target's ids; the map ascends, so that equal logits keep their order. */
static struct sp_logits spread(struct sp_pairs *pairs, struct sp_logits logits)
{
    struct draft_eagle3 *d = (struct draft_eagle3 *)pairs;

    for (size_t i = 0; i < logits.n; i++)
        d->scores[d->tokens[i]] = logits.row[i];
    return (struct sp_logits){
        .row = d->scores,
        .n = d->n_vocab,
        .best = logits.best == SIZE_MAX ? SIZE_MAX : d->tokens[logits.best],
    };
}

static enum sp_status open_tokens(struct draft_eagle3 *d, const struct sp_model *draft,
                                  struct sp_err *err)
{
    enum sp_status st;

    if (draft->token_map == NULL) return SP_OK;
    if ((st = sp_new(&d->tokens, draft->head.rows, sizeof *d->tokens, err)) ||
        (st = sp_new_aligned(&d->scores, d->n_vocab, sizeof *d->scores, err))) {
        return st;
    }
    for (size_t i = 0; i < draft->head.rows; i++)
        d->tokens[i] = (uint32_t)((double)i + (double)draft->token_map[i]);
    for (size_t i = 0; i < d->n_vocab; i++)
        d->scores[i] = SP_NEVER;
    d->pairs.translate = spread;
    return SP_OK;
}

static enum sp_status eagle3_open(struct sp_drafter **out, const struct sp_drafter_setup *setup,
                                  struct sp_err *err)
{
    const struct sp_model *draft = setup->draft;
    struct draft_eagle3 *d = NULL;
    enum sp_status st;

    if ((st = sp_new(&d, 1, sizeof *d, err))) return st;
    d->n_vocab = setup->target->config.n_vocab;
    d->pairs.embedder = draft->embedding.rows ? draft : setup->target;
    d->pairs.head = draft;
    if ((st = sp_pairs_init(&d->pairs, &sp_draft_eagle3_ops, setup,
                            draft->config.draft.normed_output ? normed_tap : raw_tap, err)) ||
        (st = open_tokens(d, draft, err))) {
        eagle3_close(&d->pairs.base);
        return st;
    }
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
