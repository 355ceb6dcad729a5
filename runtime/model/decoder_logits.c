/* The logits of a pass: the head multiplied by the final norms of the rows, with a shortlist only
 * in part, and completed where a caller reads a whole row of which other processes have parts. */
#include "runtime/model/decoder_internal.h"

#include "runtime/backend/remote.h"
#include "runtime/model/sublayers.h"
#include "runtime/vector/fmath.h"

#include <assert.h>
#include <string.h>

/* Rows of the pass whose final norms are the input of the head. */
struct final_job {
    struct sp_workspace *ws;
    size_t first, to; /* the first row of x, of hidden */
};

static void final_norm_row(void *context, size_t t)
{
    const struct final_job *job = context;
    struct sp_workspace *ws = job->ws;

    sp_final_norm(ws, ws->hidden.x + (job->to + t) * ws->hidden.ld, job->first + t);
}

/* Brings a row of a shortlist into the order of the tokens, and finds its largest element. */
static void spread_row(void *context, size_t t)
{
    const struct sp_workspace *ws = context;
    float *row = ws->logits + t * ws->ld_logits;

    sp_vocab_shortlist_spread(ws->shortlist, row);
    atomic_store_explicit(&ws->argmax[t], 0, memory_order_relaxed);
    sp_argmax_of_part(&ws->argmax[t], ws->backend->vector, row, 0, ws->n_logits);
}

struct head_job {
    struct sp_workspace *ws;
    const struct sp_model *source;
};

/* hidden = norm(gelu(y)), before the head. */
static void head_norm_row(void *context, size_t t)
{
    const struct head_job *job = context;
    const struct sp_workspace *ws = job->ws;
    const struct sp_model *m = job->source;
    float *x = ws->hidden.x + t * ws->hidden.ld;
    const float *y = ws->y + t * ws->ld_x;
    size_t n = m->config.n_hidden;

    for (size_t i = 0; i < n; i++)
        x[i] = sp_gelu_erff(y[i]);
    sp_center(x, x, n);
    ws->backend->vector->rms_norm(x, x, m->head_norm, n, (float)m->config.norm_eps);
    if (m->head_norm_bias) ws->backend->vector->add(x, m->head_norm_bias, n);
}

/* Passes the first n rows of ws->hidden through the dense layer before the head, if any. */
static void run_head_dense(struct sp_workspace *ws, const struct sp_model *source, size_t n)
{
    assert(n <= ws->max_rows);
    if (source->head_dense.rows == 0) return;
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &source->head_dense, NULL, &ws->hidden, n);
    sp_backend_rows(ws->backend, n, head_norm_row, &(struct head_job){ws, source});
}

/* Computes the logits of the first n rows of ws->hidden. */
static void multiply_head(struct sp_workspace *ws, const struct sp_model *source, size_t n,
                          enum sp_logits_need needs)
{
    struct sp_epilogue epilogue = {
        .scale = (float)ws->model->config.logit_scale,
        .cap = (float)ws->model->config.logit_cap,
        .argmax = ws->argmax,
        .rows = needs > SP_LOGITS_ROWS ? &ws->rows : NULL,
    };
    struct sp_product head[2] = {{
        .w = &source->head,
        .bias = source->head_bias,
        .scales = source->head_scales,
        .y = ws->logits,
        .ldy = ws->ld_logits,
        .epilogue = &epilogue,
    }};
    size_t n_listed = ws->shortlist && needs != SP_LOGITS_WHOLE
                          ? sp_vocab_shortlist_products(ws->shortlist, head)
                          : 0;

    assert(n <= ws->max_logit_rows);
    run_head_dense(ws, source, n);
    ws->rows = (struct sp_remote_rows){.sums = needs == SP_LOGITS_PROBABILITY ? ws->sums : NULL,
                                       .ld_sums = sp_logits_blocks(source->head.rows)};
    ws->n_logits = source->head.rows;
    sp_backend_multiply(ws->backend, head, n_listed ? n_listed : 1, &ws->hidden, n);
    if (n_listed) sp_backend_rows(ws->backend, n, spread_row, ws);
}

void sp_decoder_logits(struct sp_decoder *d, size_t first, size_t n)
{
    struct final_job job = {d->workspace, first, 0};

    assert(first + n <= d->options.max_rows);
    sp_backend_rows(d->backend, n, final_norm_row, &job);
    multiply_head(d->workspace, d->model, n, SP_LOGITS_ROWS);
    d->first_logits = 0;
}

void sp_decoder_observe_head(struct sp_decoder *d, size_t n)
{
    struct sp_workspace *ws = d->workspace;
    const struct sp_product head = {.w = &d->model->head};

    sp_backend_rows(d->backend, n, final_norm_row, &(struct final_job){.ws = ws});
    run_head_dense(ws, d->model, n);
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

enum sp_status sp_decoder_check(const struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_remote *remote = d->backend->remote;
    const char *lost = remote ? remote->lost : NULL;

    if (lost) return sp_fail(err, SP_E_IO, "%s", lost);
    return d->backend->pack ? sp_pack_check(d->backend->pack, err) : SP_OK;
}

static const float *complete_row(void *source, size_t at)
{
    const struct sp_remote_rows *rows = source;

    rows->remote->ops->row(rows, at);
    return rows->y + at * rows->ldy;
}

/* The logits of a row of a product: row `at` of `rows` or, if these are complete, `row`. */
static struct sp_logits logits_of(const struct sp_workspace *ws, struct sp_remote_rows *rows,
                                  size_t at, const float *row, atomic_uint_least64_t *argmax)
{
    uint64_t order = atomic_load_explicit(argmax, memory_order_relaxed);
    bool is_complete = rows->remote == NULL;

    return (struct sp_logits){
        .row = is_complete ? row : NULL,
        .n = ws->n_logits,
        .best = sp_argmax_index(order),
        .max = sp_argmax_value(order),
        .sums = is_complete || rows->sums == NULL ? NULL : rows->sums + at * rows->ld_sums,
        .complete = complete_row,
        .source = rows,
        .at = at};
}

struct sp_logits sp_decoder_row(const struct sp_decoder *d, size_t t)
{
    struct sp_workspace *ws = d->workspace;
    size_t at = d->first_logits + t;

    return logits_of(ws, &ws->rows, at, ws->logits + at * ws->ld_logits, &ws->argmax[at]);
}

size_t sp_decoder_top(const struct sp_decoder *d, size_t t, struct sp_top_logit *top, size_t room)
{
    const struct sp_workspace *ws = d->workspace;
    size_t at = d->first_logits + t;

    if (ws->rows.remote) return ws->rows.remote->ops->top(&ws->rows, at, top, room);
    return sp_top_logits_add(top, 0, room, ws->logits + at * ws->ld_logits, ws->n_logits, 0);
}

struct sp_logits sp_decoder_correct_row(const struct sp_decoder *d, size_t t,
                                        const struct sp_matrix *w, const struct sp_acts *in,
                                        float *y)
{
    struct sp_workspace *ws = d->workspace;
    size_t at = d->first_logits + t, ld_sums = ws->rows.ld_sums;
    atomic_uint_least64_t argmax;
    struct sp_epilogue epilogue = {.scale = 1,
                                   .argmax = &argmax,
                                   .rows = &ws->corrected,
                                   .bias_rows = &ws->rows,
                                   .bias_row = at};
    struct sp_product product = {.w = w,
                                 .bias = ws->logits + at * ws->ld_logits,
                                 .y = y,
                                 .ldy = sp_matrix_ld(w->rows),
                                 .epilogue = &epilogue};

    assert(w->rows == ws->n_logits);
    ws->corrected = (struct sp_remote_rows){
        .sums = ws->rows.sums ? ws->sums + ws->max_logit_rows * ld_sums : NULL, .ld_sums = ld_sums};
    sp_backend_multiply(ws->backend, &product, 1, in, 1);
    return logits_of(ws, &ws->corrected, 0, y, &argmax);
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
