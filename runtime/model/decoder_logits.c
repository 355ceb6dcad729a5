/* The logits of a pass: the head multiplied by the final norms of the rows, with a shortlist or on
 * several ranks only in part, and completed where a caller reads a whole row. */
#include "runtime/model/decoder_internal.h"

#include "runtime/backend/remote_products.h"

#include <assert.h>
#include <string.h>

/* Rows of the pass whose final norms are the input of the head. */
struct final_job {
    struct sp_workspace *ws;
    size_t first, to; /* the first row of x, of hidden */
};

static void final_norm_row(void *context, size_t t, unsigned worker)
{
    const struct final_job *job = context;
    struct sp_workspace *ws = job->ws;

    (void)worker;
    sp_final_norm(ws, ws->hidden.x + (job->to + t) * ws->hidden.ld, job->first + t);
}

/* Brings a row of a shortlist into the order of the tokens, and finds its largest element. */
static void spread_row(void *context, size_t t, unsigned worker)
{
    const struct sp_workspace *ws = context;
    float *row = ws->logits + t * ws->ld_logits;

    (void)worker;
    sp_vocab_shortlist_spread(ws->shortlist, row);
    atomic_store_explicit(&ws->best_logits[t], 0, memory_order_relaxed);
    sp_best_of_part(&ws->best_logits[t], ws->backend->vector, row, 0, ws->n_logits);
}

/* Computes the logits of the first n rows of ws->hidden. */
static void multiply_head(struct sp_workspace *ws, const struct sp_model *source, size_t n,
                          enum sp_logits_need needs)
{
    struct sp_finish finish = {
        .scale = (float)ws->model->config.logit_scale,
        .cap = (float)ws->model->config.logit_cap,
        .best = ws->best_logits,
        .kept = needs > SP_LOGITS_ROWS ? &ws->kept : NULL,
    };
    struct sp_product head[2] = {{
        .w = &source->head,
        .bias = source->head_bias,
        .y = ws->logits,
        .ldy = ws->ld_logits,
        .finish = &finish,
    }};
    size_t n_listed = ws->shortlist && needs != SP_LOGITS_WHOLE
                          ? sp_vocab_shortlist_products(ws->shortlist, head)
                          : 0;

    assert(n <= ws->max_logit_rows);
    ws->kept = (struct sp_kept){.sums = needs == SP_LOGITS_PROBABILITY ? ws->sums : NULL,
                                .ld_sums = sp_logits_blocks(source->head.rows)};
    ws->head = &source->head;
    ws->n_logits = source->head.rows;
    sp_backend_multiply(ws->backend, head, n_listed ? n_listed : 1, &ws->hidden, n);
    if (n_listed) sp_backend_rows(ws->backend, n, spread_row, ws);
}

void sp_decoder_logits(struct sp_decoder *d, const struct sp_model *source, size_t first, size_t n)
{
    struct final_job job = {d->workspace, first, 0};

    assert(first + n <= d->options.max_rows);
    sp_backend_rows(d->backend, n, final_norm_row, &job);
    multiply_head(d->workspace, source, n, SP_LOGITS_ROWS);
    d->first_logits = 0;
}

void sp_decoder_observe_head(struct sp_decoder *d, const struct sp_model *source, size_t n)
{
    struct sp_workspace *ws = d->workspace;
    const struct sp_product head = {.w = &source->head};

    sp_backend_rows(d->backend, n, final_norm_row, &(struct final_job){.ws = ws});
    sp_backend_observe(d->backend, &head, 1, &ws->hidden, n, NULL, 0);
}

void sp_workspace_logits(struct sp_workspace *ws)
{
    struct final_job job = {.ws = ws};
    enum sp_logits_need needs = SP_LOGITS_BEST;
    size_t first = 0;

    for (size_t i = 0; i < ws->n_seqs; first += ws->seqs[i++].n) {
        const struct sp_batch_seq *seq = &ws->seqs[i];
        job.first = first + seq->first_logits;
        seq->decoder->first_logits = job.to;
        sp_backend_rows(ws->backend, seq->n_logits, final_norm_row, &job);
        job.to += seq->n_logits;
        if (seq->n_logits && seq->needs < needs) needs = seq->needs;
    }
    if (job.to) multiply_head(ws, ws->seqs[0].head, job.to, needs);
}

/* Receives the parts of a row that other ranks keep. */
static const float *complete_row(void *source, size_t at)
{
    struct sp_workspace *ws = source;
    float *row = ws->logits + at * ws->ld_logits;

    sp_remote_row(ws->backend->ranks, &ws->kept, ws->head, at, row);
    return row;
}

struct sp_logits sp_decoder_row(const struct sp_decoder *d, size_t t)
{
    struct sp_workspace *ws = d->workspace;
    size_t at = d->first_logits + t;
    const float *row = ws->logits + at * ws->ld_logits;
    uint64_t best = atomic_load_explicit(&ws->best_logits[at], memory_order_relaxed);
    bool is_kept = ws->kept.number != 0;

    return (struct sp_logits){
        .row = is_kept ? NULL : row,
        .n = ws->n_logits,
        .best = sp_best_index(best),
        .max = sp_best_value(best),
        .sums = is_kept && ws->kept.sums ? ws->kept.sums + at * ws->kept.ld_sums : NULL,
        .complete = complete_row,
        .source = ws,
        .at = at};
}

size_t sp_decoder_top(const struct sp_decoder *d, size_t t, struct sp_top_logit *top, size_t room)
{
    const struct sp_workspace *ws = d->workspace;
    size_t at = d->first_logits + t;
    const float *row = ws->logits + at * ws->ld_logits;

    if (ws->kept.number)
        return sp_remote_top(ws->backend->ranks, &ws->kept, ws->head, at, row, top, room);
    return sp_top_logits_add(top, 0, room, row, ws->n_logits, 0);
}

static const float *complete_corrected_row(void *source, size_t at)
{
    struct sp_workspace *ws = source;

    sp_remote_row(ws->backend->ranks, &ws->corrected, ws->corrector, at, ws->corrected_row);
    return ws->corrected_row;
}

struct sp_logits sp_decoder_correct_row(const struct sp_decoder *d, size_t t,
                                        const struct sp_matrix *w, const struct sp_acts *in,
                                        float *y)
{
    struct sp_workspace *ws = d->workspace;
    struct sp_logits logits = sp_decoder_row(d, t);
    size_t ld_sums = ws->kept.ld_sums;
    struct sp_logits_sum *sums = logits.sums ? ws->sums + ws->max_logit_rows * ld_sums : NULL;
    atomic_uint_least64_t best;
    struct sp_finish finish = {.scale = 1, .best = &best};
    struct sp_product product = {
        .w = w, .bias = logits.row, .y = y, .ldy = sp_matrix_ld(w->rows), .finish = &finish};

    assert(w->rows == logits.n);
    ws->corrected = (struct sp_kept){.sums = sums, .ld_sums = ld_sums};
    ws->corrector = w;
    ws->corrected_row = y;
    if (logits.row == NULL) {
        product.bias = ws->logits + logits.at * ws->ld_logits;
        finish.kept = &ws->corrected;
        finish.bias = &ws->kept;
        finish.bias_row = logits.at;
    }
    sp_backend_multiply(ws->backend, &product, 1, in, 1);
    logits.best = sp_best_index(atomic_load_explicit(&best, memory_order_relaxed));
    logits.max = sp_best_value(atomic_load_explicit(&best, memory_order_relaxed));
    logits.row = ws->corrected.number ? NULL : y;
    logits.sums = ws->corrected.number ? sums : NULL;
    logits.complete = complete_corrected_row;
    logits.source = ws;
    logits.at = 0;
    return logits;
}

struct sp_logits sp_decoder_keep_row(const struct sp_decoder *d, size_t t, float *kept, size_t n)
{
    struct sp_logits logits = sp_decoder_row(d, t);

    memcpy(kept, sp_logits_row(&logits), n * sizeof *kept);
    if (n < logits.n) return sp_logits_of(d->workspace->backend->vector, kept, n);
    logits.row = kept;
    return logits;
}

void sp_decoder_add_tokens(struct sp_decoder *d, const uint32_t *ids, size_t n)
{
    struct sp_workspace *ws = d->workspace;

    if (ws->shortlist) sp_vocab_shortlist_add(ws->shortlist, ids, n);
}
