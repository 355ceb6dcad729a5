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
#include "runtime/speculate/draft_dflash.h"

#include "format/base/mem.h"
#include "runtime/vector/fmath.h"

#include <string.h>

static const unsigned own_taps[] = {SP_TAP_FINAL};

struct draft_dspark {
    struct sp_dflash block;
    const struct sp_backend *backend;
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
static enum sp_status open_product(struct sp_arena *memory, struct sp_acts *in, float **out,
                                   const struct sp_matrix *w, struct sp_err *err)
{
    enum sp_status st;

    if (w->rows == 0) return SP_OK;
    if ((st = sp_arena_acts(memory, in, 1, w->cols, err))) return st;
    return sp_arena_rows(memory, out, 1, sp_matrix_ld(w->rows), err);
}

static enum sp_status open_heads(struct draft_dspark *d, struct sp_err *err)
{
    const struct sp_dspark_weights *w = d->weights;
    struct sp_arena *memory = &d->block.base.memory;
    enum sp_status st;

    if ((st = open_product(memory, &d->confidence_in, &d->confidence, &w->confidence, err)))
        return st;
    if ((st = open_product(memory, &d->gate_in, &d->gates, &w->gate, err))) return st;
    if (d->rank == 0) return SP_OK;
    d->ld = sp_matrix_ld(w->correction.rows);
    if ((st = sp_arena_acts(memory, &d->correction_in, 1, d->rank, err))) return st;
    if ((st = sp_arena_rows(memory, &d->embedding, 1, d->rank, err))) return st;
    if ((st = sp_arena_rows(memory, &d->state, 1, d->rank, err))) return st;
    return sp_arena_rows(memory, &d->rows, d->block.block_size, d->ld, err);
}

static enum sp_status dspark_open(struct sp_drafter *base, const struct sp_drafter_setup *setup,
                                  struct sp_err *err)
{
    const struct sp_config *config = &setup->draft->config;
    struct draft_dspark *d = (struct draft_dspark *)base;
    enum sp_status st;

    d->backend = setup->backend;
    d->weights = &setup->draft->dspark;
    d->rank = config->draft.dspark.rank;
    d->n_hidden = config->n_hidden;
    d->markov = config->draft.dspark.markov;
    if ((st = sp_dflash_init(&d->block, setup, own_taps, 1, err))) return st;
    return open_heads(d, err);
}

static void multiply(const struct draft_dspark *d, const struct sp_matrix *w, const float *bias,
                     const struct sp_acts *in, float *out)
{
    sp_backend_product(d->backend, out, sp_matrix_ld(w->rows), w, bias, in, 1);
}

/* correction_in = sigmoid(G [h; e] + b) * e */
static void gate_embedding(struct draft_dspark *d, const float *hidden)
{
    float *in = d->gate_in.x, *out = d->correction_in.x;

    memcpy(in, hidden, d->n_hidden * sizeof *in);
    memcpy(in + d->n_hidden, d->embedding, d->rank * sizeof *in);
    multiply(d, &d->weights->gate, d->weights->gate_bias, &d->gate_in, d->gates);
    memcpy(out, d->embedding, d->rank * sizeof *out);
    d->backend->vector->sigmoid_mul(out, d->gates, d->rank);
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
    sp_backend_read_row(d->backend, d->embedding, &d->weights->embedding, id);
}

static void dspark_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                         const struct sp_proposal *proposal)
{
    struct draft_dspark *d = (struct draft_dspark *)base;

    sp_dflash_run_block(&d->block, ids, n_cached, *n,
                        d->confidence ? sp_proposal_needs_choice(proposal)
                                      : sp_proposal_needs(proposal));
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
        logits = sp_dflash_logits(base, i);
    }
    if (d->confidence) *confidence = rate_row(d, hidden);
    return sp_draft_vocab_spread(&d->block.vocabulary, logits);
}

static struct sp_logits dspark_logits(const struct sp_drafter *base, size_t i)
{
    const struct draft_dspark *d = (const struct draft_dspark *)base;
    struct sp_logits logits = sp_dflash_logits(base, i);

    if (d->rank) logits.row = d->rows + i * d->ld;
    return logits;
}

const struct sp_drafter_ops sp_draft_dspark_ops = {
    .kind = SP_DRAFT_DSPARK,
    .check = sp_dflash_check,
    .size = sizeof(struct draft_dspark),
    .open = dspark_open,
    .begin = dspark_begin,
    .next = dspark_next,
    .logits = dspark_logits,
    .commit = sp_dflash_commit,
    .truncate = sp_dflash_truncate,
    .page = sp_dflash_page,
};
