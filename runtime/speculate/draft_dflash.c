/* DFlash block drafts (z-lab, and the speculators library): one pass proposes a whole block.
 *
 * The draft reads the target's residual stream after some layers (taps) for every committed token,
 * projects it once (fc, norm) and caches keys and values made from it. A proposal runs the block
 * [cur, mask, mask, ...] at positions C..C+B-1 over that context; row i predicts the token at its
 * own position C+i, or at the position after it if the anchor's row drafts too. The block's keys
 * and values go to slots that the next committed rows overwrite. The whole block is always
 * computed, so that a proposal does not depend on the draft length; the head only runs on the rows
 * that are used. */
#include "runtime/speculate/drafter.h"

#include "runtime/vector/fmath.h"

#include <string.h>

/* The hidden states that DFlash2 and DSpark read of their own rows. */
static const unsigned own_taps[] = {SP_TAP_FINAL};

/* What all three begin with. */
struct dflash {
    struct sp_drafter base;
    const struct sp_backend *backend;
    const struct sp_model *model;
    size_t block_size, n_vocab;
    size_t n_context; /* positions whose keys and values are there */
    struct sp_draft_vocab vocabulary;
};

static enum sp_status dflash_check(const struct sp_model *target, const struct sp_model *draft,
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

static enum sp_status open_block(struct dflash *d, const struct sp_sequence_setup *setup,
                                 const unsigned *taps, unsigned n_taps, struct sp_err *err)
{
    struct sp_decoder_options options = setup->options;
    enum sp_status st;

    d->backend = setup->backend;
    d->model = setup->draft;
    d->block_size = setup->draft->config.draft.block_size;
    d->n_vocab = d->base.head->head.rows;
    if (options.max_rows < d->block_size) options.max_rows = d->block_size;
    options.n_positions += d->block_size; /* it may reach past the session's last position */
    options.max_logit_rows = d->block_size;
    options.taps = taps;
    options.n_taps = n_taps;
    if (setup->draft->token_map == NULL) options.shortlist_of = d->base.head;
    if ((st = sp_decoder_open(&d->base.decoder, d->model, d->backend, &options, err))) return st;
    sp_draft_vocab_init(&d->vocabulary, &d->base.memory, setup->draft,
                        setup->target->config.n_vocab);
    return SP_OK;
}

static enum sp_status dflash_open(struct sp_drafter *base, const struct sp_sequence_setup *setup,
                                  struct sp_err *err)
{
    return open_block((struct dflash *)base, setup, NULL, 0, err);
}

static void run_block(struct dflash *d, const uint32_t *ids, size_t n_cached, size_t n,
                      enum sp_logits_need needs)
{
    uint32_t block[SP_MAX_BLOCK];
    struct sp_batch_seq seq = {
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
    sp_drafter_pass(&d->base, seq, SP_PRIORITY_DRAFT);
}

static void dflash_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                         const struct sp_proposal *proposal)
{
    run_block((struct dflash *)base, ids, n_cached, *n,
              sp_proposal_needs(proposal, SP_LOGITS_PROBABILITY));
}

static struct sp_logits dflash_logits(const struct sp_drafter *base, size_t i)
{
    return sp_decoder_row(base->decoder, i);
}

static struct sp_logits dflash_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                    size_t i, double *confidence)
{
    (void)ids;
    (void)n_cached;
    (void)confidence;
    return sp_draft_vocab_spread(&((struct dflash *)base)->vocabulary, dflash_logits(base, i));
}

static void dflash_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct dflash *d = (struct dflash *)base;

    sp_decoder_add_tokens(d->base.decoder, commit->ids + commit->first, commit->n);
    sp_decoder_add_context(d->base.decoder, commit->features, commit->n, commit->first);
    d->n_context = commit->first + commit->n;
}

static bool dflash_truncate(struct sp_drafter *base, size_t len, size_t n_same)
{
    struct dflash *d = (struct dflash *)base;

    (void)n_same;
    if (len >= d->n_context) return true;
    if (len > 0 && !sp_decoder_can_rewind(d->base.decoder, d->n_context, len)) return false;
    d->n_context = len;
    return true;
}

static enum sp_status dflash_page(struct sp_drafter *base, struct sp_cache_file *file, size_t span,
                                  bool resumes, struct sp_err *err)
{
    struct dflash *d = (struct dflash *)base;

    if (resumes) d->n_context = (span + 1) * SP_SPAN;
    return sp_decoder_transfer(d->base.decoder, file, span, err);
}

/* What the kinds have in common. */
#define BLOCK_OPS                                                                                  \
    .check = dflash_check, .commit = dflash_commit, .truncate = dflash_truncate, .page = dflash_page

const struct sp_drafter_ops sp_draft_dflash_ops = {
    .kind = SP_DRAFT_DFLASH,
    .size = sizeof(struct dflash),
    .open = dflash_open,
    .begin = dflash_begin,
    .next = dflash_next,
    .logits = dflash_logits,
    BLOCK_OPS,
};

/* ---- DFlash2 ---- */

/*  Block drafts: DFlash whose rows are mixed by convolutions (block_conv.c), and whose
 * tokens are chosen one after the other.
 *
 * The best top_k tokens of row t are candidates; candidate b scores U_t(b) + <A[prev] * (W h_t),
 * B[b]>, where U_t are the row's logits, h_t is its hidden state after the final norm, prev the
 * token chosen for the row before, and A and B are codebooks. The chooser receives these scores;
 * every other token has a logit so low that its probability is 0. */
struct draft_dflash2 {
    struct dflash block;
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

static void open_selector(struct draft_dflash2 *d)
{
    struct sp_arena *memory = &d->block.base.memory;
    size_t n_hidden = d->weights->hidden.cols, n = d->block.block_size;

    d->top_k = d->block.model->config.draft.selector_top_k;
    d->rank = d->weights->hidden.rows;
    d->ld = sp_matrix_ld(d->rank);
    d->hidden = sp_arena_acts(memory, n, n_hidden);
    d->projected = sp_arena_rows(memory, n, d->ld);
    d->candidates = sp_arena_new(memory, d->top_k, sizeof *d->candidates);
    d->scores = sp_arena_rows(memory, 1, d->block.n_vocab);
    d->wanted = sp_arena_rows(memory, 1, d->rank);
    d->found = sp_arena_rows(memory, 1, d->rank);
    for (size_t i = 0; d->scores && i < d->block.n_vocab; i++)
        d->scores[i] = SP_NEVER;
}

static enum sp_status dflash2_open(struct sp_drafter *base, const struct sp_sequence_setup *setup,
                                   struct sp_err *err)
{
    struct draft_dflash2 *d = (struct draft_dflash2 *)base;
    enum sp_status st;

    d->weights = &setup->draft->selector;
    if ((st = open_block(&d->block, setup, own_taps, 1, err))) return st;
    open_selector(d);
    return SP_OK;
}

/* Computes W h of the first n rows that draft. */
static void project_rows(struct draft_dflash2 *d, size_t n)
{
    size_t h = d->weights->hidden.cols;
    const float *rows = sp_decoder_features(d->block.base.decoder);

    rows += d->block.model->config.draft.first_row * h;
    for (size_t i = 0; i < n; i++)
        memcpy(d->hidden.x + i * d->hidden.ld, rows + i * h, h * sizeof(float));
    sp_backend_product(d->block.backend, d->projected, d->ld, &d->weights->hidden, NULL, &d->hidden,
                       n);
}

/* Scores the candidates of row i. */
static void score_candidates(struct draft_dflash2 *d, size_t i, uint32_t previous)
{
    for (size_t k = 0; k < d->n_candidates; k++)
        d->scores[d->candidates[k].index] = SP_NEVER;
    d->n_candidates = sp_decoder_top(d->block.base.decoder, i, d->candidates, d->top_k);
    sp_backend_read_row(d->block.backend, d->wanted, &d->weights->predecessors, previous);
    d->block.backend->vector->mul(d->wanted, d->projected + i * d->ld, d->rank);
    for (size_t c = 0; c < d->n_candidates; c++) {
        uint32_t id = d->candidates[c].index;
        float sum = 0;
        sp_backend_read_row(d->block.backend, d->found, &d->weights->successors, id);
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

    run_block(&d->block, ids, n_cached, *n, needs);
    project_rows(d, *n);
}

static struct sp_logits dflash2_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                     size_t i, double *confidence)
{
    struct draft_dflash2 *d = (struct draft_dflash2 *)base;
    struct sp_logits scores;

    (void)confidence;
    score_candidates(d, i, ids[n_cached + i]);
    scores = sp_logits_of(d->block.backend->vector, d->scores, d->block.n_vocab);
    if (dflash_logits(base, i).best == SIZE_MAX) scores.best = SIZE_MAX;
    return scores;
}

const struct sp_drafter_ops sp_draft_dflash2_ops = {
    .kind = SP_DRAFT_DFLASH2,
    .size = sizeof(struct draft_dflash2),
    .open = dflash2_open,
    .begin = dflash2_begin,
    .next = dflash2_next,
    .logits = dflash_logits,
    BLOCK_OPS,
};

/* ---- DSpark ---- */

/* DSpark block drafts: DFlash whose rows each predict the token after them, the anchor's row too,
 * and whose tokens are chosen one after the other. If the anchor's row drafts nothing, a
 * recurrent head's state has stepped through it all the same, with the anchor for a token before.
 *
 * With e = the markov head's embedding of the token before a draft token, h = the row's hidden
 * state after the final norm, row i's logits are corrected by vanilla  W e gated    W (sigmoid(G
 * [h; e] + b) * e) rnn      W tanh(o), where [g; c; o] = J [s; e; h] + b and s, 0 before the first
 * row, becomes sigmoid(g) * s + (1 - sigmoid(g)) * tanh(c) The chooser receives the corrected
 * logits. A confidence head, where there is one, gives the confidence: sigmoid(k . [h; e] + b).
 * Source: DeepSpec. */
struct draft_dspark {
    struct dflash block;
    const struct sp_dspark_weights *weights;
    size_t rank, n_hidden;
    enum sp_markov markov;
    struct sp_acts gate_in;       /* [1][columns of the gate] */
    struct sp_acts correction_in; /* [1][rank] */
    struct sp_acts confidence_in; /* [1][columns of the confidence head] */
    float *embedding, *state;     /* [rank] */
    float *gates;                 /* [rows of the gate] */
    float *confidence;            /* [1] */
    float *rows;                  /* [block_size][ld]: corrected logits */
    size_t ld;
};

/* Allocates one input row and one output row of a matrix; nothing for an empty one. */
static void open_product(struct sp_arena *memory, struct sp_acts *in, float **out,
                         const struct sp_matrix *w)
{
    if (w->rows == 0) return;
    *in = sp_arena_acts(memory, 1, w->cols);
    *out = sp_arena_rows(memory, 1, sp_matrix_ld(w->rows));
}

static void open_heads(struct draft_dspark *d)
{
    const struct sp_dspark_weights *w = d->weights;
    struct sp_arena *memory = &d->block.base.memory;

    open_product(memory, &d->confidence_in, &d->confidence, &w->confidence);
    open_product(memory, &d->gate_in, &d->gates, &w->gate);
    if (d->rank == 0) return;
    d->ld = sp_matrix_ld(w->correction.rows);
    d->correction_in = sp_arena_acts(memory, 1, d->rank);
    d->embedding = sp_arena_rows(memory, 1, d->rank);
    d->state = sp_arena_rows(memory, 1, d->rank);
    d->rows = sp_arena_rows(memory, d->block.block_size, d->ld);
}

static enum sp_status dspark_open(struct sp_drafter *base, const struct sp_sequence_setup *setup,
                                  struct sp_err *err)
{
    const struct sp_config *config = &setup->draft->config;
    struct draft_dspark *d = (struct draft_dspark *)base;
    enum sp_status st;

    d->weights = &setup->draft->dspark;
    d->rank = config->draft.dspark.rank;
    d->n_hidden = config->n_hidden;
    d->markov = config->draft.dspark.markov;
    if ((st = open_block(&d->block, setup, own_taps, 1, err))) return st;
    open_heads(d);
    return SP_OK;
}

static void multiply(const struct draft_dspark *d, const struct sp_matrix *w, const float *bias,
                     const struct sp_acts *in, float *out)
{
    sp_backend_product(d->block.backend, out, sp_matrix_ld(w->rows), w, bias, in, 1);
}

/* correction_in = sigmoid(G [h; e] + b) * e */
static void gate_embedding(struct draft_dspark *d, const float *hidden)
{
    float *in = d->gate_in.x, *out = d->correction_in.x;

    memcpy(in, hidden, d->n_hidden * sizeof *in);
    memcpy(in + d->n_hidden, d->embedding, d->rank * sizeof *in);
    multiply(d, &d->weights->gate, d->weights->gate_bias, &d->gate_in, d->gates);
    memcpy(out, d->embedding, d->rank * sizeof *out);
    d->block.backend->vector->sigmoid_mul(out, d->gates, d->rank);
}

/* Steps the recurrent state; correction_in = tanh(o). */
static void step_state(struct draft_dspark *d, const float *hidden)
{
    const float *g = d->gates, *c = g + d->rank, *o = c + d->rank;
    float *in = d->gate_in.x;

    memcpy(in, d->state, d->rank * sizeof *in);
    memcpy(in + d->rank, d->embedding, d->rank * sizeof *in);
    memcpy(in + 2 * d->rank, hidden, d->n_hidden * sizeof *in);
    multiply(d, &d->weights->gate, d->weights->gate_bias, &d->gate_in, d->gates);
    for (size_t k = 0; k < d->rank; k++) {
        float keep = sp_sigmoidf(g[k]);
        d->state[k] = keep * d->state[k] + (1 - keep) * sp_tanhf(c[k]);
        d->correction_in.x[k] = sp_tanhf(o[k]);
    }
}

/* Computes the corrected logits of row i; the embedding is that of the token before. */
static struct sp_logits correct_row(struct draft_dspark *d, size_t i, const float *hidden)
{
    switch (d->markov) {
    case SP_MARKOV_VANILLA:
        memcpy(d->correction_in.x, d->embedding, d->rank * sizeof(float));
        break;
    case SP_MARKOV_GATED:
        gate_embedding(d, hidden);
        break;
    case SP_MARKOV_RNN:
        step_state(d, hidden);
        break;
    }
    return sp_decoder_correct_row(d->block.base.decoder, i, &d->weights->correction,
                                  &d->correction_in, d->rows + i * d->ld);
}

static double rate_row(struct draft_dspark *d, const float *hidden)
{
    const struct sp_dspark_weights *w = d->weights;
    float *in = d->confidence_in.x;

    memcpy(in, hidden, d->n_hidden * sizeof *in);
    if (w->confidence.cols > d->n_hidden)
        memcpy(in + d->n_hidden, d->embedding, d->rank * sizeof *in);
    multiply(d, &w->confidence, w->confidence_bias, &d->confidence_in, d->confidence);
    return (double)sp_sigmoidf(d->confidence[0]);
}

static void embed(const struct draft_dspark *d, uint32_t id)
{
    sp_backend_read_row(d->block.backend, d->embedding, &d->weights->embedding, id);
}

static void dspark_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                         const struct sp_proposal *proposal)
{
    struct draft_dspark *d = (struct draft_dspark *)base;

    run_block(&d->block, ids, n_cached, *n,
              sp_proposal_needs(proposal, d->confidence ? SP_LOGITS_BEST : SP_LOGITS_PROBABILITY));
    if (d->rank == 0) return;
    memset(d->state, 0, d->rank * sizeof *d->state);
    if (d->markov != SP_MARKOV_RNN || d->block.model->config.draft.first_row == 0) return;
    embed(d, ids[n_cached]); /* the state before the first row that drafts */
    step_state(d, sp_decoder_features(base->decoder));
}

static struct sp_logits dspark_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                    size_t i, double *confidence)
{
    struct draft_dspark *d = (struct draft_dspark *)base;
    size_t row = d->block.model->config.draft.first_row + i;
    const float *hidden = sp_decoder_features(d->block.base.decoder) + row * d->n_hidden;
    struct sp_logits logits;

    if (d->rank) {
        embed(d, ids[n_cached + i]);
        logits = correct_row(d, i, hidden);
    } else {
        logits = dflash_logits(base, i);
    }
    if (d->confidence) *confidence = rate_row(d, hidden);
    return sp_draft_vocab_spread(&d->block.vocabulary, logits);
}

static struct sp_logits dspark_logits(const struct sp_drafter *base, size_t i)
{
    const struct draft_dspark *d = (const struct draft_dspark *)base;
    struct sp_logits logits = dflash_logits(base, i);

    if (d->rank) logits.row = d->rows + i * d->ld;
    return logits;
}

const struct sp_drafter_ops sp_draft_dspark_ops = {
    .kind = SP_DRAFT_DSPARK,
    .size = sizeof(struct draft_dspark),
    .open = dspark_open,
    .begin = dspark_begin,
    .next = dspark_next,
    .logits = dspark_logits,
    BLOCK_OPS,
};
