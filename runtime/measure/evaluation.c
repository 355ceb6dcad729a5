/* Scores a text with a package and, beside it, a reference: windows of ids run through a decoder
 * of each, a few rows per pass, so that only those rows of logits are in memory.
 *
 * Rows are scored in parallel and counted in the text's order: no number depends on threads. */
#include "runtime/session/session.h"

#include "format/base/median.h"
#include "format/base/mem.h"
#include "runtime/vector/fmath.h"
#include "runtime/measure/logit_score.h"
#include "runtime/measure/running_stats.h"
#include "runtime/spectool_measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    USUAL_WINDOW = 2048,
    LOGIT_ROWS = 32, /* rows whose logits are computed at once */
    THIS = 0,
    REFERENCE = 1,
};

/* One of the two models that are compared. */
struct reader {
    struct sp_package *package; /* borrowed */
    struct sp_decoder *decoder; /* owned */
};

/* The score of one row. */
struct scored {
    struct sp_logit_score score[2];
    double divergence;
    bool finite;
};

struct evaluation {
    const struct sp_evaluation_request *request;
    struct sp_evaluation *out;
    struct reader readers[2];
    size_t n_readers;
    size_t n_lead, n_window, stride; /* lead, window and stride after defaults */
    uint32_t *ids;                   /* [n_window] ids of the current window; owned */
    const uint32_t *next;            /* the ids that the rows of a pass should predict */
    struct scored scored[LOGIT_ROWS];
    struct sp_running_stats loss, right, reference_loss, loss_change, divergence, agreement,
        prob_change;
    double prob_squares;
    struct sp_evaluation_block block;           /* sums over the positions of the current block */
    size_t n_blocks, n_blocks_done, n_expected; /* n_expected: positions to score */
    double *divergences;                        /* [n_divergences] owned */
    size_t n_divergences, cap_divergences;
    size_t n_done, n_total; /* rows */
    struct sp_err *err;
};

/* ---- the reference ---- */

/* Checks that every id means the same token in both. A file without a tokenizer is trusted. */
static enum sp_status check_reference(const struct sp_package *package,
                                      const struct sp_package *reference, struct sp_err *err)
{
    const struct sp_tokenizer *a = package->tokenizer, *b = reference->tokenizer;
    size_t n = package->target->config.n_vocab, n_other = reference->target->config.n_vocab;

    if (n != n_other) {
        return sp_fail(err, SP_E_INPUT, "the vocabulary has %zu tokens, the reference's %zu", n,
                       n_other);
    }
    for (uint32_t id = 0; id < n && a && b; id++) {
        struct sp_token_info x = {0}, y = {0};
        sp_tokenizer_token(a, id, &x);
        sp_tokenizer_token(b, id, &y);
        if (x.len == y.len && (x.len == 0 || memcmp(x.bytes, y.bytes, x.len) == 0)) continue;
        return sp_fail(err, SP_E_INPUT, "token %u is \"%.*s\", the reference's is \"%.*s\"",
                       (unsigned)id, (int)(x.len < 64 ? x.len : 64), x.len ? x.bytes : "",
                       (int)(y.len < 64 ? y.len : 64), y.len ? y.bytes : "");
    }
    return SP_OK;
}

/* ---- windows ---- */

static enum sp_status settle(struct evaluation *e)
{
    const struct sp_evaluation_request *q = e->request;
    const struct sp_package *package = e->readers[THIS].package;
    size_t max = package->target->config.max_positions, before;

    if (q->reference && q->reference->target->config.max_positions < max)
        max = q->reference->target->config.max_positions;
    e->n_window = q->n_window ? q->n_window : max < USUAL_WINDOW ? max : USUAL_WINDOW;
    e->n_lead = package->tokenizer ? sp_tokenizer_lead(package->tokenizer, q->ids, q->n) : 0;
    before = e->n_lead ? e->n_lead : 1; /* tokens required before the first scored id */
    if (e->n_window > max) {
        return sp_fail(e->err, SP_E_USAGE, "context of %zu tokens: the model's maximum is %zu",
                       e->n_window, max);
    }
    if (e->n_window <= before) {
        return sp_fail(e->err, SP_E_USAGE, "context of %zu tokens: expected at least %zu",
                       e->n_window, before + 1);
    }
    if (q->n <= before) {
        return sp_fail(e->err, SP_E_USAGE, "%zu token%s: there is nothing to predict", q->n,
                       q->n == 1 ? "" : "s");
    }
    e->stride = q->stride ? q->stride : (e->n_window - e->n_lead + 1) / 2;
    if (e->stride > e->n_window - before) {
        return sp_fail(e->err, SP_E_USAGE, "stride of %zu tokens: expected at most %zu", e->stride,
                       e->n_window - before);
    }
    return SP_OK;
}

/* A window: ids first..end-1 of the text after the lead, of which new..end-1 are scored. */
struct window {
    size_t first, end, new;
};

/* Advances to the next window; false after the last. A zeroed `w` gives the first. */
static bool next_window(struct window *w, const struct evaluation *e, size_t k)
{
    size_t n_text = e->request->n - e->n_lead;

    if (w->end == n_text || (e->request->max_windows && k == e->request->max_windows)) return false;
    w->new = w->end;
    w->first = k * e->stride;
    w->end = w->first + e->n_window - e->n_lead;
    if (w->end > n_text) w->end = n_text;
    if (w->new == 0 && e->n_lead == 0) w->new = 1;
    return true;
}

/* The last id of a window predicts nothing and is not run. */
static size_t rows_of(const struct window *w, const struct evaluation *e)
{
    return e->n_lead + w->end - w->first - 1;
}

/* ---- rows ---- */

static void score_row(void *context, size_t i, unsigned worker)
{
    struct evaluation *e = context;
    const struct reader *r = e->readers;
    struct scored *s = &e->scored[i];
    const struct sp_vector *vector = r->package->backend.vector;
    size_t n = r->package->target->config.n_vocab;
    const float *logits = sp_decoder_row(r[THIS].decoder, i).row;

    (void)worker;
    s->finite = sp_logit_score(&s->score[THIS], vector, logits, n, e->next[i]);
    if (!s->finite || e->n_readers == 1) return;
    s->finite = sp_row_compare(&s->score[REFERENCE], &s->divergence, vector,
                               sp_decoder_row(r[REFERENCE].decoder, i).row, logits, &s->score[THIS],
                               n, e->next[i]);
}

/* Ends the current block if the last position that was counted is its last. */
static void end_block(struct evaluation *e)
{
    struct sp_evaluation_block *b = &e->block;
    double n = (double)b->n;

    if (e->loss.n < (e->n_blocks_done + 1) * e->n_expected / e->n_blocks) return;
    b->loss /= n;
    b->right /= n;
    b->reference_loss /= n;
    b->loss_change /= n;
    b->divergence /= n;
    b->agreement /= n;
    b->prob_change /= n;
    if (e->request->block) e->request->block(e->request->context, b);
    *b = (struct sp_evaluation_block){0};
    e->n_blocks_done++;
}

static enum sp_status count_comparison(struct evaluation *e, const struct scored *s)
{
    double loss = -s->score[THIS].logprob, reference = -s->score[REFERENCE].logprob;
    double change = sp_exp(-loss) - sp_exp(-reference);
    bool agrees = s->score[THIS].best == s->score[REFERENCE].best;
    enum sp_status st;

    sp_running_stats_add(&e->reference_loss, reference);
    sp_running_stats_add(&e->loss_change, loss - reference);
    sp_running_stats_add(&e->divergence, s->divergence);
    sp_running_stats_add(&e->agreement, agrees);
    sp_running_stats_add(&e->prob_change, change);
    e->prob_squares += change * change;
    e->block.reference_loss += reference;
    e->block.loss_change += loss - reference;
    e->block.divergence += s->divergence;
    e->block.agreement += agrees;
    e->block.prob_change += change;
    if ((st = sp_grow(&e->divergences, &e->cap_divergences, e->n_divergences + 1,
                      sizeof *e->divergences, e->err)))
        return st;
    e->divergences[e->n_divergences++] = s->divergence;
    return SP_OK;
}

static enum sp_status count_position(struct evaluation *e, const struct scored *s, uint32_t next)
{
    double loss = -s->score[THIS].logprob;
    bool right = s->score[THIS].best == next;
    enum sp_status st = SP_OK;

    sp_running_stats_add(&e->loss, loss);
    sp_running_stats_add(&e->right, right);
    e->block.n++;
    e->block.loss += loss;
    e->block.right += right;
    if (e->n_readers == 2) st = count_comparison(e, s);
    if (!st) end_block(e);
    return st;
}

/* Scores rows first..first+n-1 of the last pass, which should predict next[0..n-1]. */
static enum sp_status score_batch(struct evaluation *e, size_t first, size_t n,
                                  const uint32_t *next)
{
    enum sp_status st;

    for (size_t k = 0; k < e->n_readers; k++) {
        struct reader *r = &e->readers[k];
        sp_decoder_logits(r->decoder, first, n);
        if ((st = sp_decoder_check(r->decoder, e->err))) return st;
    }
    e->next = next;
    sp_pool_run(e->readers[THIS].package->backend.pool, n, score_row, e);
    for (size_t i = 0; i < n; i++) {
        const struct scored *s = &e->scored[i];
        if (!s->finite) {
            return sp_fail(e->err, SP_E_INPUT, "a logit for token %zu of the text is not finite",
                           e->out->first_scored + e->loss.n);
        }
        if ((st = count_position(e, s, next[i]))) return st;
    }
    return SP_OK;
}

/* Runs one pass: rows pos..pos+n-1 of the window, of which those from `scored` on are scored. */
static enum sp_status read_pass(struct evaluation *e, size_t pos, size_t n, size_t scored)
{
    enum sp_status st = SP_OK;

    for (size_t k = 0; k < e->n_readers; k++) {
        struct reader *r = &e->readers[k];
        sp_decoder_run(r->decoder, e->ids + pos, n, pos, n);
        sp_decoder_commit(r->decoder, n);
    }
    for (size_t row = scored > pos ? scored - pos : 0; row < n && !st; row += LOGIT_ROWS) {
        size_t batch = n - row < LOGIT_ROWS ? n - row : LOGIT_ROWS;
        st = score_batch(e, row, batch, e->ids + pos + row + 1);
    }
    return st;
}

static enum sp_status read_window(struct evaluation *e, const struct window *w)
{
    const struct sp_evaluation_request *q = e->request;
    size_t n = rows_of(w, e), scored = e->n_lead + w->new - w->first - 1;
    enum sp_status st = SP_OK;

    memcpy(e->ids, q->ids, e->n_lead * sizeof *e->ids);
    memcpy(e->ids + e->n_lead, q->ids + e->n_lead + w->first, (w->end - w->first) * sizeof *e->ids);
    for (size_t pos = 0; pos < n && !st; pos += SP_PROMPT_ROWS) {
        size_t rows = n - pos < SP_PROMPT_ROWS ? n - pos : SP_PROMPT_ROWS;
        if (q->progress && q->progress(q->context, e->n_done, e->n_total))
            return sp_fail(e->err, SP_E_CANCELLED, "interrupted");
        st = read_pass(e, pos, rows, scored);
        e->n_done += rows;
    }
    return st;
}

static enum sp_status read_text(struct evaluation *e)
{
    enum sp_status st = SP_OK;
    struct window w = {0};

    for (size_t k = 0; next_window(&w, e, k); k++)
        e->n_total += rows_of(&w, e);
    e->n_expected = w.end - (e->n_lead ? 0 : 1);
    e->n_blocks = (size_t)sqrt((double)e->n_expected);
    memset(&w, 0, sizeof w);
    e->out->n_lead = e->n_lead;
    e->out->n_window = e->n_window;
    e->out->stride = e->stride;
    e->out->first_scored = e->n_lead ? e->n_lead : 1;
    for (; !st && next_window(&w, e, e->out->n_windows); e->out->n_windows++)
        st = read_window(e, &w);
    return st;
}

/* ---- the result ---- */

/* Nearest rank: the smallest value that at least this share of all values does not exceed. */
static double percentile(const double *sorted, size_t n, double seq)
{
    size_t rank = (size_t)ceil(seq * (double)n);

    return sorted[rank ? rank - 1 : 0];
}

static void finish(struct evaluation *e)
{
    struct sp_evaluation *out = e->out;
    size_t n = e->n_divergences;

    out->n_scored = e->loss.n;
    out->loss = sp_running_stats_estimate(&e->loss);
    out->right = sp_running_stats_estimate(&e->right);
    if (e->n_readers == 1) return;
    out->reference_loss = sp_running_stats_estimate(&e->reference_loss);
    out->loss_change = sp_running_stats_estimate(&e->loss_change);
    out->divergence = sp_running_stats_estimate(&e->divergence);
    out->agreement = sp_running_stats_estimate(&e->agreement);
    out->prob_change = sp_running_stats_estimate(&e->prob_change);
    out->prob_change_rms = sqrt(e->prob_squares / (double)n);
    qsort(e->divergences, n, sizeof *e->divergences, sp_compare_doubles);
    out->divergence_50 = percentile(e->divergences, n, 0.5);
    out->divergence_90 = percentile(e->divergences, n, 0.9);
    out->divergence_99 = percentile(e->divergences, n, 0.99);
    out->divergence_999 = percentile(e->divergences, n, 0.999);
    out->divergence_max = e->divergences[n - 1];
}

static enum sp_status open_readers(struct evaluation *e)
{
    struct sp_decoder_options options = {
        .n_positions = e->n_window,
        .max_rows = SP_PROMPT_ROWS,
        .max_logit_rows = LOGIT_ROWS,
        .cache_type = e->request->cache,
    };
    enum sp_status st = SP_OK;

    for (size_t k = 0; k < e->n_readers && !st; k++) {
        struct sp_package *p = e->readers[k].package;
        if (k > 0) options.cache_type = SP_CACHE_F32;
        st = sp_decoder_open(&e->readers[k].decoder, p->target, &p->backend, &options, e->err);
    }
    return st ? st : sp_new(&e->ids, e->n_window, sizeof *e->ids, e->err);
}

static enum sp_status evaluate(struct sp_package *package, const struct sp_evaluation_request *q,
                               struct sp_evaluation *out, struct sp_err *err)
{
    struct evaluation e = {
        .request = q,
        .out = out,
        .readers = {{.package = package}, {.package = q->reference}},
        .n_readers = q->reference ? 2 : 1,
        .err = err,
    };
    enum sp_status st;

    if ((st = sp_package_check_ids(package, q->ids, q->n, err))) goto done;
    if (q->reference && (st = check_reference(package, q->reference, err))) goto done;
    if ((st = settle(&e))) goto done;
    if ((st = open_readers(&e))) goto done;
    if ((st = read_text(&e))) goto done;
    finish(&e);
done:
    for (size_t k = 0; k < e.n_readers; k++)
        sp_decoder_close(e.readers[k].decoder);
    free(e.ids);
    free(e.divergences);
    return st;
}

enum sp_status sp_package_evaluate(struct sp_package *package,
                                   const struct sp_evaluation_request *request,
                                   struct sp_evaluation *out, struct sp_err *err)
{
    struct sp_evaluation_request q = {0};
    struct sp_evaluation all = SP_EVALUATION_INIT;
    enum sp_status st;

    if ((st = sp_check_size(out, sizeof all, "sp_evaluation", err))) return st;
    if ((st = sp_copy_in(&q, sizeof q, request, "sp_evaluation_request", err))) return st;
    st = evaluate(package, &q, &all, err);
    sp_copy_out(out, &all);
    return st;
}

struct sp_estimate sp_perplexity(struct sp_estimate loss)
{
    double e = sp_exp(loss.mean);

    return (struct sp_estimate){e, e * loss.error};
}
