/* DFlash block drafts (z-lab, and the speculators library): one pass proposes a whole block.
 *
 * The draft reads the target's residual stream after some layers (taps) for every committed token,
 * projects it once (fc, norm) and caches keys and values made from it. A proposal runs the block
 * [cur, mask, mask, ...] at positions C..C+B-1 over that context; row i predicts the token at its
 * own position C+i, or at the position after it if the anchor's row drafts too. The block's keys
 * and values go to slots that the next committed rows overwrite. The whole block is always
 * computed, so that a proposal does not depend on the draft length; the head only runs on the rows
 * that are used. */
#include "runtime/speculate/draft_dflash.h"

#include "runtime/model/state_checkpoint.h"

enum sp_status sp_dflash_check(const struct sp_model *target, const struct sp_model *draft,
                               struct sp_err *err)
{
    const struct sp_config *t = &target->config, *d = &draft->config;
    const struct sp_model *embedder = draft->embedding.rows ? draft : target;

    if ((draft->embedding.rows == 0 || draft->head.rows == 0) && d->n_hidden != t->n_hidden) {
        return sp_fail(err, SP_E_INPUT, "dflash draft trained for hidden size %u, target has %u",
                       d->n_hidden, t->n_hidden);
    }
    if (d->n_vocab != t->n_vocab) {
        return sp_fail(err, SP_E_INPUT,
                       "dflash draft trained for a %u-token vocabulary, target has %u", d->n_vocab,
                       t->n_vocab);
    }
    if (d->draft.mask_token >= embedder->embedding.rows) {
        return sp_fail(err, SP_E_INPUT, "dflash mask token %u outside the %zu-token vocabulary",
                       (unsigned)d->draft.mask_token, embedder->embedding.rows);
    }
    for (unsigned i = 0; i < d->draft.n_taps; i++) {
        if (sp_tap_number(d->draft.taps[i]) < (int)t->n_layers) continue;
        return sp_fail(err, SP_E_INPUT, "dflash target layer %u out of range for %u target layers",
                       d->draft.taps[i], t->n_layers);
    }
    if (draft->fc.cols != (size_t)d->draft.n_taps * t->n_hidden) {
        return sp_fail(err, SP_E_INPUT, "dflash fc input %zu != %u ids * target hidden %u",
                       draft->fc.cols, d->draft.n_taps, t->n_hidden);
    }
    return sp_draft_vocab_check(draft, t->n_vocab, err);
}

enum sp_status sp_dflash_init(struct sp_dflash *d, const struct sp_drafter_setup *setup,
                              const unsigned *taps, unsigned n_taps, struct sp_err *err)
{
    const struct sp_config *config = &setup->draft->config;
    enum sp_status st;

    d->model = setup->draft;
    d->embedder = setup->draft->embedding.rows ? setup->draft : setup->target;
    d->head = setup->draft->head.rows ? setup->draft : setup->target;
    d->block_size = config->draft.block_size;
    d->n_vocab = d->head->head.rows;
    d->max_rows = setup->max_rows > d->block_size ? setup->max_rows : d->block_size;
    /* The block may reach past the session's last position. */
    d->n_positions = setup->n_positions + d->block_size;
    struct sp_decoder_options options = {
        .n_positions = d->n_positions,
        .max_rows = d->max_rows,
        .max_logit_rows = d->block_size,
        .cache_type = setup->cache_type,
        .budget = setup->budget,
        .taps = taps,
        .n_taps = n_taps,
        .max_batch = setup->max_batch,
        .workspace_of = setup->shared_with ? setup->shared_with->decoder : NULL,
        .shortlist_of = sp_draft_vocab_shortlist(setup->draft, d->head),
    };
    st = sp_decoder_open(&d->base.decoder, setup->draft, setup->backend, &options, err);
    if (st) return st;
    return sp_draft_vocab_init(&d->vocabulary, &d->base.memory, setup->draft,
                               setup->target->config.n_vocab, err);
}

static enum sp_status dflash_open(struct sp_drafter *base, const struct sp_drafter_setup *setup,
                                  struct sp_err *err)
{
    return sp_dflash_init((struct sp_dflash *)base, setup, NULL, 0, err);
}

void sp_dflash_run_block(struct sp_dflash *d, const uint32_t *ids, size_t n_cached, size_t n,
                         enum sp_logits_need needs)
{
    uint32_t block[SP_MAX_BLOCK];
    struct sp_batch_seq seq = {
        .decoder = d->base.decoder,
        .embedder = d->embedder,
        .head = d->head,
        .ids = block,
        .n = d->block_size,
        .pos = n_cached,
        .first_logits = d->model->config.draft.first_row,
        .n_logits = n,
        .needs = needs,
    };

    block[0] = ids[n_cached];
    for (size_t i = 1; i < d->block_size; i++)
        block[i] = d->model->config.draft.mask_token;
    sp_drafter_pass(&d->base, &seq, SP_PRIORITY_DRAFT);
}

static void dflash_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                         const struct sp_proposal *proposal)
{
    sp_dflash_run_block((struct sp_dflash *)base, ids, n_cached, *n, sp_proposal_needs(proposal));
}

static struct sp_logits dflash_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                    size_t i, double *confidence)
{
    (void)ids;
    (void)n_cached;
    (void)confidence;
    return sp_draft_vocab_spread(&((struct sp_dflash *)base)->vocabulary,
                                 sp_dflash_logits(base, i));
}

struct sp_logits sp_dflash_logits(const struct sp_drafter *base, size_t i)
{
    const struct sp_dflash *d = (const struct sp_dflash *)base;

    return sp_decoder_row(d->base.decoder, i);
}

void sp_dflash_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct sp_dflash *d = (struct sp_dflash *)base;

    sp_decoder_add_tokens(d->base.decoder, commit->ids + commit->first, commit->n);
    sp_decoder_add_context(d->base.decoder, commit->features, commit->n, commit->first);
    d->n_context = commit->first + commit->n;
}

bool sp_dflash_truncate(struct sp_drafter *base, size_t len, size_t n_same)
{
    struct sp_dflash *d = (struct sp_dflash *)base;

    (void)n_same;
    if (len >= d->n_context) return true;
    if (len > 0 && !sp_decoder_can_rewind(d->base.decoder, d->n_context, len)) return false;
    d->n_context = len;
    return true;
}

enum sp_status sp_dflash_page(struct sp_drafter *base, struct sp_cache_file *file, size_t span,
                              bool resumes, struct sp_err *err)
{
    struct sp_dflash *d = (struct sp_dflash *)base;

    if (resumes) d->n_context = (span + 1) * SP_SPAN;
    return sp_decoder_transfer(d->base.decoder, file, span, err);
}

const struct sp_drafter_ops sp_draft_dflash_ops = {
    .kind = SP_DRAFT_DFLASH,
    .check = sp_dflash_check,
    .size = sizeof(struct sp_dflash),
    .open = dflash_open,
    .begin = dflash_begin,
    .next = dflash_next,
    .logits = sp_dflash_logits,
    .commit = sp_dflash_commit,
    .truncate = sp_dflash_truncate,
    .page = sp_dflash_page,
};
