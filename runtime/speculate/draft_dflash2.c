/* DFlash2 block drafts: DFlash whose rows are mixed by convolutions (block_conv.c), and whose
 * tokens are chosen one after the other.
 *
 * The best top_k tokens of row t are candidates; candidate b scores U_t(b) + <A[prev] * (W h_t),
 * B[b]>, where U_t are the row's logits, h_t is its hidden state after the final norm, prev the
 * token chosen for the row before, and A and B are codebooks. The chooser receives these scores;
 * every other token has a logit so low that its probability is 0. */
#include "runtime/speculate/draft_dflash.h"

#include "format/base/mem.h"

#include <string.h>

static const unsigned own_taps[] = {SP_TAP_FINAL};

struct draft_dflash2 {
    struct sp_dflash block;
    const struct sp_backend *backend;
    const struct sp_selector_weights *weights;
    size_t top_k, rank;
    struct sp_acts hidden; /* [block_size][H] */
    float *projected;      /* [block_size][ld]: W h_t */
    size_t ld;
    struct sp_top_logit *candidates; /* [top_k], best first; those of the last row scored */
    size_t n_candidates;
    float *scores;         /* [n_vocab] of the candidates, SP_NEVER for the rest */
    float *wanted, *found; /* [rank] */
};

static enum sp_status open_selector(struct draft_dflash2 *d, struct sp_err *err)
{
    struct sp_arena *memory = &d->block.base.memory;
    size_t n_hidden = d->weights->hidden.cols, n = d->block.block_size;
    enum sp_status st;

    d->top_k = d->block.model->config.draft.selector_top_k;
    d->rank = d->weights->hidden.rows;
    d->ld = sp_matrix_ld(d->rank);
    if ((st = sp_arena_acts(memory, &d->hidden, n, n_hidden, err))) return st;
    if ((st = sp_arena_rows(memory, &d->projected, n, d->ld, err))) return st;
    if ((st = sp_arena_new(memory, &d->candidates, d->top_k, sizeof *d->candidates, err)))
        return st;
    if ((st = sp_arena_rows(memory, &d->scores, 1, d->block.n_vocab, err))) return st;
    if ((st = sp_arena_rows(memory, &d->wanted, 1, d->rank, err))) return st;
    if ((st = sp_arena_rows(memory, &d->found, 1, d->rank, err))) return st;
    for (size_t i = 0; i < d->block.n_vocab; i++)
        d->scores[i] = SP_NEVER;
    return SP_OK;
}

static enum sp_status dflash2_open(struct sp_drafter *base, const struct sp_drafter_setup *setup,
                                   struct sp_err *err)
{
    struct draft_dflash2 *d = (struct draft_dflash2 *)base;
    enum sp_status st;

    d->backend = setup->backend;
    d->weights = &setup->draft->selector;
    if ((st = sp_dflash_init(&d->block, setup, own_taps, 1, err))) return st;
    return open_selector(d, err);
}

/* Computes W h of the first n rows that draft. */
static void project_rows(struct draft_dflash2 *d, size_t n)
{
    size_t h = d->weights->hidden.cols;
    const float *rows = sp_decoder_features(d->block.base.decoder);

    rows += d->block.model->config.draft.first_row * h;
    for (size_t i = 0; i < n; i++)
        memcpy(d->hidden.x + i * d->hidden.ld, rows + i * h, h * sizeof(float));
    sp_backend_product(d->backend, d->projected, d->ld, &d->weights->hidden, NULL, &d->hidden, n);
}

/* Scores the candidates of row i. */
static void score_candidates(struct draft_dflash2 *d, size_t i, uint32_t previous)
{
    for (size_t k = 0; k < d->n_candidates; k++)
        d->scores[d->candidates[k].index] = SP_NEVER;
    d->n_candidates = sp_decoder_top(d->block.base.decoder, i, d->candidates, d->top_k);
    sp_backend_read_row(d->backend, d->wanted, &d->weights->predecessors, previous);
    d->backend->vector->mul(d->wanted, d->projected + i * d->ld, d->rank);
    for (size_t c = 0; c < d->n_candidates; c++) {
        uint32_t id = d->candidates[c].index;
        float sum = 0;
        sp_backend_read_row(d->backend, d->found, &d->weights->successors, id);
        for (size_t k = 0; k < d->rank; k++)
            sum += d->wanted[k] * d->found[k];
        d->scores[id] = d->candidates[c].logit + sum;
    }
}

static void dflash2_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                          const struct sp_proposal *proposal)
{
    struct draft_dflash2 *d = (struct draft_dflash2 *)base;
    /* Choosers read scores of candidates; only readers of the draft's own logits need all. */
    enum sp_logits_need needs =
        proposal->chooser->needs == SP_LOGITS_WHOLE ? SP_LOGITS_WHOLE : SP_LOGITS_BEST;

    sp_dflash_run_block(&d->block, ids, n_cached, *n, needs);
    project_rows(d, *n);
}

static struct sp_logits dflash2_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                     size_t i, double *confidence)
{
    struct draft_dflash2 *d = (struct draft_dflash2 *)base;
    struct sp_logits scores;

    (void)confidence;
    score_candidates(d, i, ids[n_cached + i]);
    scores = sp_logits_of(d->backend->vector, d->scores, d->block.n_vocab);
    if (sp_dflash_logits(base, i).best == SIZE_MAX) scores.best = SIZE_MAX;
    return scores;
}

const struct sp_drafter_ops sp_draft_dflash2_ops = {
    .kind = SP_DRAFT_DFLASH2,
    .check = sp_dflash_check,
    .size = sizeof(struct draft_dflash2),
    .open = dflash2_open,
    .begin = dflash2_begin,
    .next = dflash2_next,
    .logits = sp_dflash_logits,
    .commit = sp_dflash_commit,
    .truncate = sp_dflash_truncate,
    .page = sp_dflash_page,
};
