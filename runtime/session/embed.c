/* Embeddings: the hidden states of a text after the final norm, pooled, passed through the dense
 * layers of the file, cut to the wanted dimensions and normalized.
 *
 * The texts run through a few decoders that share a workspace, so that short ones share passes. In
 * a causal model a long text is read in pieces; where tokens see those after them, a text is one
 * pass. Each pass holds the scheduler by itself, so that sessions of other threads generate in
 * between, and is short while they do. Several requests for embeddings are computed alternately,
 * one group of texts at a time. */
#include "runtime/session/session.h"

#include "format/base/mem.h"
#include "format/config/pooling.h"
#include "runtime/vector/fmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_DECODERS = 16,              /* texts of one pass */
    PASS_ROWS = 2 * SP_PROMPT_ROWS, /* rows of a pass, unless one text needs more */
    GROUP_ROWS = 4 * PASS_ROWS,     /* rows of a group of texts, unless one text has more */
};

/* ---- forward passes ---- */

/* A text in a decoder. */
struct slot {
    struct sp_decoder *decoder; /* owned */
    size_t text;                /* number of its text */
    size_t n_read;              /* tokens of it that were read */
    bool taken;
    double *sum; /* [H] of its hidden states, for the mean */
};

struct embedder {
    struct sp_package *package;
    const struct sp_embedding_request *request;
    struct sp_pooling_config pooling;
    bool whole;               /* a text is one pass */
    size_t max_rows, longest; /* rows of a pass; tokens of the longest text of the group */
    struct slot slots[MAX_DECODERS];
    size_t n_slots;
    size_t next;            /* first text that has no slot yet */
    size_t end;             /* the first text of the next group */
    size_t n_done, n_total; /* tokens */
    size_t n_group;         /* tokens of the texts before `end` */
    struct sp_arena memory; /* of acts and of the sums of slots */
    struct sp_acts acts[2]; /* one row, in turn the input and the output of a dense layer */
    size_t n_dimensions;
    float *out; /* [n_texts][n_dimensions], owned */
    struct sp_err *err;
};

static const unsigned final_tap[] = {SP_TAP_FINAL};

static enum sp_status open_slot(struct embedder *e, struct slot *slot)
{
    const struct sp_decoder_options options = {
        .n_positions = e->longest,
        .budget = e->package->caches,
        .max_rows = e->max_rows,
        .max_logit_rows = 1,
        .cache_type = SP_CACHE_F32,
        .taps = final_tap,
        .n_taps = 1,
        .max_batch = MAX_DECODERS,
        .workspace_of = slot == e->slots ? NULL : e->slots[0].decoder,
    };

    return sp_decoder_open(&slot->decoder, e->package->target, &e->package->backend, &options,
                           e->err);
}

/* A text whose caches exceed the limit even alone is refused for good. */
static enum sp_status check_memory(const struct embedder *e, const struct slot *slot)
{
    size_t n = e->request->texts[slot->text].n, limit = e->package->caches->limit;
    size_t want = sp_decoder_cache_size_for(slot->decoder, n);

    if (limit == 0 || want <= limit) return SP_OK;
    return sp_fail_about(e->err, SP_E_USAGE, SP_TOPIC_MEMORY_LIMIT,
                         "the KV caches for text %zu, %zu tokens, need %.1f MB, and the limit is "
                         "%.1f MB",
                         slot->text, n, (double)want / 1e6, (double)limit / 1e6);
}

/* Gives a free slot the next text. */
static enum sp_status take_text(struct embedder *e, struct slot *slot)
{
    enum sp_status st;

    slot->text = e->next++;
    slot->n_read = 0;
    slot->taken = true;
    memset(slot->sum, 0, e->package->target->config.n_hidden * sizeof *slot->sum);
    if ((st = check_memory(e, slot))) return st;
    return sp_decoder_grow(slot->decoder, e->request->texts[slot->text].n, e->err);
}

/* Fills a pass with the rows of as many texts as it holds; slot i of the pass is of[i]. Where a
 * text is one pass, the first one fits in any case. */
static enum sp_status fill_pass(struct embedder *e, struct sp_batch_seq *seqs, struct slot **of,
                                size_t *n_seqs)
{
    bool scores = e->pooling.mode == SP_POOL_RANK;
    size_t left = sp_scheduler_prompt_rows(e->package->scheduler, e->max_rows);
    enum sp_status st;

    *n_seqs = 0;
    for (size_t i = 0; i < e->n_slots && left; i++) {
        struct slot *slot = &e->slots[i];
        const struct sp_embedding_text *text;
        size_t n;
        if (!slot->taken && e->next == e->end) continue;
        if (!slot->taken && e->whole && *n_seqs && e->request->texts[e->next].n > left) continue;
        if (!slot->taken && (st = take_text(e, slot))) return st;
        text = &e->request->texts[slot->text];
        n = text->n - slot->n_read;
        if (n > left && e->whole) left = n;
        if (n > left) n = left;
        seqs[*n_seqs] = (struct sp_batch_seq){
            .decoder = slot->decoder,
            .embedder = e->package->target,
            .head = e->package->target,
            .ids = text->ids + slot->n_read,
            .n = n,
            .pos = slot->n_read,
            .n_first = e->request->n_first ? e->request->n_first[slot->text] : 0,
            .n_committed = n,
            .first_logits = n - 1,
            .n_logits = scores && slot->n_read + n == text->n,
        };
        of[(*n_seqs)++] = slot;
        left -= n;
    }
    return SP_OK;
}

/* ---- from hidden states to an embedding ---- */

/* Adds the hidden states of a pass to those that the slot keeps of its text. */
static void pool(const struct embedder *e, struct slot *slot, size_t n)
{
    size_t n_hidden = e->package->target->config.n_hidden;
    const float *rows = sp_decoder_features(slot->decoder);
    bool is_first = slot->n_read == 0;

    switch (e->pooling.mode) {
    case SP_POOL_MEAN:
        for (size_t t = 0; t < n; t++)
            for (size_t i = 0; i < n_hidden; i++)
                slot->sum[i] += (double)rows[t * n_hidden + i];
        break;
    case SP_POOL_CLS:
        for (size_t i = 0; is_first && i < n_hidden; i++)
            slot->sum[i] = (double)rows[i];
        break;
    case SP_POOL_RANK:
        break;
    case SP_POOL_LAST:
    case SP_POOL_NONE:
        for (size_t i = 0; i < n_hidden; i++)
            slot->sum[i] = (double)rows[(n - 1) * n_hidden + i];
        break;
    }
    slot->n_read += n;
}

/* Multiplies the row by a dense layer; *at is the index of the row's buffer. */
static void apply_dense(struct embedder *e, unsigned layer, unsigned *at)
{
    const struct sp_model *m = e->package->target;
    const struct sp_dense_config *config = &e->pooling.dense[layer];
    const size_t n = m->dense[layer].rows;
    struct sp_acts *in = &e->acts[*at], *out = &e->acts[1 - *at];

    in->cols = m->dense[layer].cols;
    sp_backend_product(&e->package->backend, out->x, out->ld, &m->dense[layer],
                       m->dense_bias[layer], in, 1);
    for (size_t i = 0; config->tanh && i < n; i++)
        out->x[i] = sp_tanhf(out->x[i]);
    for (size_t i = 0; config->gelu && i < n; i++)
        out->x[i] = sp_gelu_erff(out->x[i]);
    if (config->norm) {
        if (m->config.norm_centered) sp_center(out->x, out->x, n);
        e->package->backend.vector->rms_norm(out->x, out->x, m->dense_norm[layer], n,
                                             (float)m->config.norm_eps);
    }
    memset(out->x + n, 0, (out->ld - n) * sizeof *out->x);
    *at = 1 - *at;
}

/* Divides a vector by its length. */
static enum sp_status normalize(float *out, const float *x, size_t n, bool wanted,
                                struct sp_err *err)
{
    double square = 0, factor = 1;

    for (size_t i = 0; i < n; i++)
        square += (double)x[i] * (double)x[i];
    if (!isfinite(square))
        return sp_fail(err, SP_E_INPUT, "an embedding has numbers that are not finite");
    if (wanted && square > 0) factor = 1 / sqrt(square);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)((double)x[i] * factor);
    return SP_OK;
}

/* Writes a score, of which x is the logit. */
static enum sp_status put_score(struct embedder *e, const struct slot *slot, double x)
{
    if (!isfinite(x)) return sp_fail(e->err, SP_E_INPUT, "a score is not finite");
    e->out[slot->text] = (float)(e->pooling.score.sigmoid ? 1 / (1 + sp_exp(-x)) : x);
    return SP_OK;
}

/* Writes the score of a text whose last token has logits. */
static enum sp_status finish_score(struct embedder *e, const struct slot *slot)
{
    const struct sp_score_config *score = &e->pooling.score;
    const float *logits = sp_decoder_row(slot->decoder, 0).row;
    double x = (double)logits[score->true_token];

    if (score->two_tokens) x -= (double)logits[score->false_token];
    return put_score(e, slot, x);
}

/* Writes the embedding of a text that was read to its end, or its score by a classifier. */
static enum sp_status finish(struct embedder *e, struct slot *slot)
{
    size_t n_hidden = e->package->target->config.n_hidden;
    double n = e->pooling.mode == SP_POOL_MEAN ? (double)slot->n_read : 1;
    unsigned at = 0;

    for (size_t i = 0; i < n_hidden; i++)
        e->acts[0].x[i] = (float)(slot->sum[i] / n);
    memset(e->acts[0].x + n_hidden, 0, (e->acts[0].ld - n_hidden) * sizeof *e->acts[0].x);
    for (unsigned i = 0; i < e->pooling.n_dense; i++)
        apply_dense(e, i, &at);
    if (e->pooling.classifies) return put_score(e, slot, (double)e->acts[at].x[0]);
    return normalize(e->out + slot->text * e->n_dimensions, e->acts[at].x, e->n_dimensions,
                     e->pooling.normalize, e->err);
}

/* Runs one pass and finishes the texts that it ends. */
static enum sp_status run_pass(struct embedder *e)
{
    struct sp_batch_seq seqs[MAX_DECODERS];
    struct slot *of[MAX_DECODERS];
    size_t n_seqs;
    enum sp_status st;

    if ((st = fill_pass(e, seqs, of, &n_seqs))) return st;
    sp_batch_run(seqs, n_seqs);
    st = sp_decoder_check(e->slots[0].decoder, e->err);
    for (size_t i = 0; i < n_seqs && !st; i++) {
        sp_decoder_commit(of[i]->decoder, seqs[i].n);
        pool(e, of[i], seqs[i].n);
        e->n_done += seqs[i].n;
        if (of[i]->n_read < e->request->texts[of[i]->text].n) continue;
        of[i]->taken = false;
        st = e->pooling.mode == SP_POOL_RANK ? finish_score(e, of[i]) : finish(e, of[i]);
    }
    return st;
}

/* ---- the request ---- */

static enum sp_status check_texts(struct embedder *e)
{
    const struct sp_embedding_request *q = e->request;
    size_t max = sp_package_max_embedding_tokens(e->package);
    enum sp_status st;

    for (size_t i = 0; i < q->n_texts; i++) {
        const struct sp_embedding_text *t = &q->texts[i];
        if (t->n == 0) return sp_fail(e->err, SP_E_USAGE, "text %zu has no tokens", i);
        if (t->n > max) {
            return sp_fail(e->err, SP_E_USAGE,
                           "text %zu has %zu tokens, but the model reads at most %zu", i, t->n,
                           max);
        }
        if ((st = sp_package_check_vocabulary(e->package, t->ids, t->n, e->err))) return st;
        e->n_total += t->n;
    }
    return SP_OK;
}

/* A reranker without a record answers "yes" or "no". */
static enum sp_status choose_words(struct embedder *e)
{
    struct sp_score_config *score = &e->pooling.score;
    const struct sp_tokenizer *tok = e->package->tokenizer;

    *score = (struct sp_score_config){.two_tokens = true, .sigmoid = true};
    score->true_token = tok ? sp_tokenizer_find(tok, "yes", 3) : SP_TOKEN_NONE;
    score->false_token = tok ? sp_tokenizer_find(tok, "no", 2) : SP_TOKEN_NONE;
    if (score->true_token != SP_TOKEN_NONE && score->false_token != SP_TOKEN_NONE) return SP_OK;
    return sp_fail(e->err, SP_E_UNSUPPORTED,
                   "not a reranker: its tokenizer has no tokens \"yes\" and \"no\"");
}

/* A score needs logits, of tokens that there are. */
static enum sp_status check_score(struct embedder *e)
{
    const struct sp_score_config *score = &e->pooling.score;
    size_t n_vocab = e->package->target->config.n_vocab;

    if (score->true_token >= n_vocab || (score->two_tokens && score->false_token >= n_vocab))
        return sp_fail(e->err, SP_E_INPUT, "the tokens of the score are not in the vocabulary");
    return sp_package_check_generates(e->package, e->err);
}

/* The pooling of the request, or else of the file. */
static enum sp_status choose_pooling(struct embedder *e)
{
    static const enum sp_pooling_mode modes[] = {SP_POOL_NONE, SP_POOL_LAST, SP_POOL_MEAN,
                                                 SP_POOL_CLS, SP_POOL_RANK};
    const struct sp_pooling_config *of_file = &e->package->target->config.pooling;
    enum sp_pooling_mode mode;
    enum sp_status st = SP_OK;

    if ((size_t)e->request->pooling >= sizeof modes / sizeof *modes) {
        return sp_fail(e->err, SP_E_USAGE, "pooling %u does not exist",
                       (unsigned)e->request->pooling);
    }
    mode = modes[e->request->pooling];
    e->pooling = *of_file;
    if (of_file->classifies && mode == SP_POOL_RANK) return SP_OK;
    if (mode != SP_POOL_NONE && mode != of_file->mode) {
        e->pooling = (struct sp_pooling_config){.mode = mode, .normalize = true};
        if (mode == SP_POOL_RANK) st = choose_words(e);
    }
    if (mode == SP_POOL_NONE && (of_file->mode == SP_POOL_RANK || of_file->classifies)) {
        return sp_fail(e->err, SP_E_UNSUPPORTED,
                       "a reranker scores documents and makes no embeddings");
    }
    if (e->pooling.mode == SP_POOL_NONE) {
        st = sp_fail_about(e->err, SP_E_UNSUPPORTED, SP_TOPIC_POOLING,
                           "not an embedding model: its checkpoint had no modules.json, which "
                           "states the pooling");
    }
    if (!st && e->pooling.mode == SP_POOL_RANK) st = check_score(e);
    return st;
}

/* Allocates the row that passes through the dense layers, and the sums. */
static enum sp_status open_rows(struct embedder *e)
{
    size_t n_hidden = e->package->target->config.n_hidden, widest = n_hidden;

    for (unsigned i = 0; i < e->pooling.n_dense; i++)
        if (e->pooling.dense[i].n_out > widest) widest = e->pooling.dense[i].n_out;
    for (size_t i = 0; i < 2; i++)
        e->acts[i] = sp_arena_acts(&e->memory, 1, sp_matrix_ld(widest));
    for (size_t i = 0; i < MAX_DECODERS; i++)
        e->slots[i].sum = sp_arena_new(&e->memory, n_hidden, sizeof(double));
    return sp_arena_check(&e->memory, e->err);
}

/* Adds the texts of the next group to those to compute: at least one, whose tokens are counted. */
static void choose_group(struct embedder *e)
{
    const struct sp_embedding_request *q = e->request;
    size_t n = 0;

    e->longest = 0;
    while (e->end < q->n_texts && (n == 0 || n + q->texts[e->end].n <= GROUP_ROWS)) {
        size_t len = q->texts[e->end++].n;
        if (len > e->longest) e->longest = len;
        n += len;
    }
    e->n_group += n;
}

static enum sp_status open_slots(struct embedder *e)
{
    size_t n_texts = e->end - e->next, n_rows = e->n_group - e->n_done;
    size_t most = n_texts < MAX_DECODERS ? n_texts : MAX_DECODERS;
    enum sp_status st = SP_OK;

    e->whole = e->package->target->config.bidirectional;
    e->max_rows = n_rows < PASS_ROWS ? n_rows : PASS_ROWS;
    if (e->whole && e->longest > e->max_rows) e->max_rows = e->longest;
    /* Each decoder keeps the hidden states of as many rows as a pass may have. */
    if (e->max_rows > PASS_ROWS) most = most * PASS_ROWS / e->max_rows + 1;
    while (e->n_slots < most && !st)
        st = open_slot(e, &e->slots[e->n_slots++]);
    return st;
}

/* Runs the passes of a group. */
static enum sp_status compute_group(struct embedder *e)
{
    const struct sp_embedding_request *q = e->request;
    struct sp_scheduler *scheduler = e->package->scheduler;
    enum sp_status st;

    sp_scheduler_acquire(scheduler);
    st = open_slots(e);
    while (!st && e->n_done < e->n_group) {
        st = run_pass(e);
        sp_scheduler_release(scheduler);
        if (!st && q->progress && q->progress(q->context, e->n_done, e->n_total))
            st = sp_fail(e->err, SP_E_CANCELLED, "interrupted");
        sp_scheduler_acquire(scheduler);
    }
    while (e->n_slots > 0) {
        struct slot *slot = &e->slots[--e->n_slots];
        sp_decoder_close(slot->decoder);
        *slot = (struct slot){.sum = slot->sum};
    }
    sp_scheduler_release(scheduler);
    return st;
}

/* One group of one request is computed at a time, so that the buffers of all requests take the
 * memory of one; the requests that wait are served in their order. A short request waits for one
 * group of a long one at most, however many of these there are. */
static enum sp_status compute(struct embedder *e)
{
    bool is_long = e->n_total > GROUP_ROWS;
    enum sp_status st = open_rows(e);

    while (!st && e->end < e->request->n_texts) {
        choose_group(e);
        if (is_long) sp_scheduler_acquire(e->package->long_embedding);
        sp_scheduler_acquire(e->package->embedding);
        st = compute_group(e);
        sp_scheduler_release(e->package->embedding);
        if (is_long) sp_scheduler_release(e->package->long_embedding);
    }
    sp_arena_release(&e->memory);
    return st;
}

enum sp_status sp_package_embed(struct sp_package *package,
                                const struct sp_embedding_request *request, float **embeddings,
                                size_t *width, struct sp_err *err)
{
    struct sp_embedding_request q = {0};
    struct embedder e = {.package = package, .request = &q, .err = err};
    size_t n;
    enum sp_status st;

    if ((st = sp_copy_in(&q, sizeof q, request, "sp_embedding_request", err))) return st;
    if ((st = choose_pooling(&e))) return st;
    n = sp_pooling_width(&e.pooling, package->target->config.n_hidden);
    e.n_dimensions = q.n_dimensions ? q.n_dimensions : n;
    if (e.n_dimensions > n) {
        return sp_fail(err, SP_E_USAGE, "%zu dimensions: the model's embeddings have %zu",
                       e.n_dimensions, n);
    }
    if ((st = check_texts(&e))) return st;
    if ((st = sp_new_rows(&e.out, q.n_texts, e.n_dimensions, err))) return st;
    if ((st = compute(&e))) {
        free(e.out);
        return st;
    }
    *embeddings = e.out;
    *width = e.n_dimensions;
    return SP_OK;
}
