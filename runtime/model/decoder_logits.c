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

/* Brings a row of a shortlist into order. If other ranks keep their parts of it, they summed the
 * blocks of frequent tokens only. */
static void spread_row(void *context, size_t t, unsigned worker)
{
    const struct sp_workspace *ws = context;
    float *row = ws->logits + t * ws->ld_logits;

    (void)worker;
    sp_vocab_shortlist_spread(ws->shortlist, row);
    if (ws->kept.number == 0 || ws->kept.sums == NULL) return;
    for (size_t i = SP_SHORTLIST_FREQUENT; i < ws->n_logits; i += SP_LOGITS_BLOCK) {
        size_t n = ws->n_logits - i < SP_LOGITS_BLOCK ? ws->n_logits - i : SP_LOGITS_BLOCK;
        ws->kept.sums[t * ws->kept.ld_sums + i / SP_LOGITS_BLOCK] =
            sp_logits_sum_of(ws->backend->vector, row + i, n);
    }
}

/* Multiplies the rows of a shortlist. Ranks divide those of frequent tokens; the others are copies
 * that this process has. */
static void multiply_listed(const struct sp_workspace *ws, struct sp_product products[2],
                            size_t n_products, size_t n)
{
    struct sp_finish finish = *products[0].finish;

    if (n_products == 2 && ws->backend->ranks) {
        finish.kept = NULL;
        products[1].finish = &finish;
        sp_backend_multiply(ws->backend, &products[1], 1, &ws->hidden, n);
        n_products = 1;
    }
    sp_backend_multiply(ws->backend, products, n_products, &ws->hidden, n);
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
    ws->head = head[0].w;
    ws->n_logits = source->head.rows;
    ws->is_shortlisted = n_listed > 0;
    if (ws->is_shortlisted) {
        multiply_listed(ws, head, n_listed, n);
        sp_backend_rows(ws->backend, n, spread_row, ws);
    } else {
        sp_backend_multiply(ws->backend, head, 1, &ws->hidden, n);
    }
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

/* The largest logit of the frequent tokens becomes that of the whole row. */
static void add_recent_best(const struct sp_workspace *ws, const float *row,
                            struct sp_logits *logits)
{
    const float *others = row + SP_SHORTLIST_FREQUENT;
    size_t i = ws->backend->vector->argmax(others, ws->n_logits - SP_SHORTLIST_FREQUENT);

    if (logits->best == SIZE_MAX || i == SIZE_MAX) {
        logits->best = SIZE_MAX;
    } else if (others[i] > logits->max) {
        logits->best = SP_SHORTLIST_FREQUENT + i;
        logits->max = others[i];
    }
}

struct sp_logits sp_decoder_row(const struct sp_decoder *d, size_t t)
{
    struct sp_workspace *ws = d->workspace;
    size_t at = d->first_logits + t;
    const float *row = ws->logits + at * ws->ld_logits;
    uint64_t best;
    bool is_kept = ws->kept.number != 0;
    struct sp_logits logits;

    if (ws->is_shortlisted && !is_kept) return sp_logits_of(ws->backend->vector, row, ws->n_logits);
    best = atomic_load_explicit(&ws->best_logits[at], memory_order_relaxed);
    logits = (struct sp_logits){
        .row = is_kept ? NULL : row,
        .n = ws->n_logits,
        .best = sp_best_index(best),
        .max = sp_best_value(best),
        .sums = is_kept && ws->kept.sums ? ws->kept.sums + at * ws->kept.ld_sums : NULL,
        .complete = complete_row,
        .source = ws,
        .at = at};
    if (ws->is_shortlisted) add_recent_best(ws, row, &logits);
    return logits;
}

size_t sp_decoder_top(const struct sp_decoder *d, size_t t, struct sp_top_logit *top, size_t room)
{
    const struct sp_workspace *ws = d->workspace;
    size_t at = d->first_logits + t, n = ws->head->rows;
    const float *row = ws->logits + at * ws->ld_logits;
    size_t n_top = ws->kept.number
                       ? sp_remote_top(ws->backend->ranks, &ws->kept, ws->head, at, row, top, room)
                       : sp_top_logits_add(top, 0, room, row, n, 0);

    return sp_top_logits_add(top, n_top, room, row + n, ws->n_logits - n, n);
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
    if (ws->is_shortlisted) product.bias = logits.row = sp_logits_row(&logits);
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

    if (ws->shortlist) sp_vocab_shortlist_add(ws->shortlist, ws->backend->pages, ids, n);
}
