#include "runtime/speculate/drafter.h"

#include "format/base/clock.h"

#include <stdlib.h>

static const struct sp_drafter_ops *const kinds[] = {
    &sp_draft_lm_ops,        &sp_draft_dflash_ops, &sp_draft_mtp_ops,    &sp_draft_dflash2_ops,
    &sp_draft_assistant_ops, &sp_draft_dspark_ops, &sp_draft_eagle3_ops, &sp_draft_peagle_ops,
};

const struct sp_drafter_ops *sp_drafter_find(enum sp_draft_kind kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i]->kind == kind) return kinds[i];
    return NULL;
}

enum sp_status sp_drafter_check(const struct sp_model *target, const struct sp_model *draft,
                                struct sp_err *err)
{
    const struct sp_drafter_ops *ops = sp_drafter_find(draft->config.draft.kind);

    if (ops == NULL) {
        return sp_fail(err, SP_E_UNSUPPORTED, "draft kind %d has no drafter",
                       (int)draft->config.draft.kind);
    }
    return ops->check(target, draft, err);
}

size_t sp_drafter_max_draft_len(const struct sp_model *draft)
{
    const struct sp_draft_config *config = &draft->config.draft;
    size_t most = sp_drafter_find(config->kind)->max_draft_len;

    return most ? most : config->block_size - config->first_row;
}

const unsigned *sp_drafter_taps(const struct sp_model *draft, unsigned *n_taps)
{
    static const unsigned output[] = {SP_TAP_FINAL};
    const struct sp_draft_config *config = &draft->config.draft;

    *n_taps = config->n_taps;
    if (!sp_drafter_find(config->kind)->reads_output) return config->taps;
    *n_taps = 1;
    return output;
}

enum sp_status sp_drafter_open(struct sp_drafter **out, const struct sp_drafter_ops *ops,
                               const struct sp_sequence_setup *setup, struct sp_err *err)
{
    struct sp_drafter *drafter = NULL;
    enum sp_status st;

    if ((st = sp_new(&drafter, 1, ops->size, err))) return st;
    drafter->ops = ops;
    drafter->scheduler = setup->scheduler;
    drafter->embedder = setup->draft->embedding.rows ? setup->draft : setup->target;
    drafter->head = setup->draft->head.rows ? setup->draft : setup->target;
    if ((st = ops->open(drafter, setup, err)) || (st = sp_arena_check(&drafter->memory, err)))
        sp_drafter_close(drafter);
    else
        *out = drafter;
    return st;
}

void sp_drafter_close(struct sp_drafter *drafter)
{
    if (drafter == NULL) return;
    if (drafter->ops->close) drafter->ops->close(drafter);
    sp_decoder_close(drafter->decoder);
    sp_arena_release(&drafter->memory);
    free(drafter);
}

void sp_drafter_pass(struct sp_drafter *drafter, struct sp_batch_seq seq, enum sp_priority priority)
{
    double t0 = sp_seconds();
    struct sp_pass pass;

    seq.decoder = drafter->decoder;
    seq.embedder = drafter->embedder;
    seq.head = drafter->head;
    sp_scheduler_run(drafter->scheduler, &seq, priority, &pass);
    drafter->time.away += sp_seconds() - t0;
    drafter->time.seconds += pass.seconds;
    drafter->time.part += pass.seconds * (double)seq.n / (double)pass.n_rows;
}

enum sp_logits_need sp_proposal_needs(const struct sp_proposal *proposal, enum sp_logits_need own)
{
    enum sp_logits_need needs = proposal->chooser->needs;

    if (own == SP_LOGITS_PROBABILITY && proposal->draft_len == NULL) own = SP_LOGITS_BEST;
    return needs < own ? needs : own;
}

/* Chooses the draft token for position `pos`. *kept becomes false if it is none. */
static enum sp_status choose(const struct sp_proposal *proposal, bool *kept, uint32_t *ids,
                             size_t pos, const struct sp_logits *logits, double *confidence,
                             struct sp_err *err)
{
    const struct sp_chooser *c = proposal->chooser;

    if (logits->n == 0) return c->adopt ? c->adopt(c->state, kept, ids, pos, err) : SP_OK;
    if (proposal->draft_len == NULL || *confidence >= 0) confidence = NULL;
    return c->propose(c->state, &ids[pos], confidence, logits, ids, pos, err);
}

enum sp_status sp_drafter_propose(struct sp_drafter *drafter, uint32_t *ids, size_t n_cached,
                                  size_t *n, const struct sp_proposal *proposal, struct sp_err *err)
{
    bool more = true, kept = true;
    enum sp_status st;
    size_t i = 0;

    if (drafter->ops->begin) drafter->ops->begin(drafter, ids, n_cached, n, proposal);
    while (i < *n && more) {
        double confidence = -1;
        struct sp_logits logits = drafter->ops->next(drafter, ids, n_cached, i, &confidence);
        st = choose(proposal, &kept, ids, n_cached + 1 + i, &logits, &confidence, err);
        if (st) return st;
        i += kept;
        more = kept &&
               (proposal->draft_len == NULL ||
                sp_draft_length_consider(proposal->draft_len, confidence)) &&
               !sp_ids_have(proposal->ends, proposal->n_ends, ids[n_cached + i]);
    }
    *n = i;
    return SP_OK;
}
