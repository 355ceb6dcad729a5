/* Gemma 4 assistants: one query row at a time attends to the target's own keys and values.
 *
 * x = W_pre [embedding of a token in the target's table; hidden state after it], then the layers
 * and the final norm n; logits = head n; the next hidden state is W_post n. The first pair is the
 * anchor and the target's hidden state (after its final norm) of the row before it. Nothing is
 * stored while drafting: every step of a proposal queries from the anchor's position C and sees
 * exactly the committed keys 0..C-1, so there is no cache to roll back.
 *
 * With a clustered head only the tokens of the clusters nearest to n are scored. */
#include "runtime/speculate/drafter.h"

#include "format/base/mem.h"

#include <assert.h>
#include <string.h>

enum { MAX_DRAFT_LEN = 16, N_SUMS = 16 };

static const unsigned taps[] = {SP_TAP_FINAL};

struct draft_assistant {
    struct sp_drafter base;
    const struct sp_model *model;
    const struct sp_backend *backend;
    size_t n_hidden, n_target, n_vocab; /* n_target: width of the target's hidden states */
    size_t n_have;                      /* committed rows */
    bool known;            /* true if `hidden` is the state of the last committed row */
    float *hidden;         /* [n_target] */
    float *next;           /* [sp_matrix_ld(n_target)] next hidden state, W_post n */
    struct sp_acts normed; /* one row: n */
    float *logits;         /* [MAX_DRAFT_LEN][n_vocab] of the last proposal */
    /* The members below are used by clustered heads only. */
    uint32_t *order;             /* [n_vocab] ids, cluster after cluster */
    float *nearness;             /* [sp_matrix_ld(clusters)] */
    struct sp_top_logit *chosen; /* [clusters used], nearest first */
    float *rows;                 /* [threads][n_hidden] */
};

static enum sp_status assistant_check(const struct sp_model *target, const struct sp_model *draft,
                                      struct sp_err *err)
{
    return sp_config_check_assistant(&draft->config, &target->config, err);
}

static enum sp_status read_order(struct draft_assistant *d, struct sp_err *err)
{
    enum sp_status st = sp_config_check_token_order(d->model->token_order, d->n_vocab, err);

    d->order = st ? NULL : sp_arena_new(&d->base.memory, d->n_vocab, sizeof *d->order);
    for (size_t i = 0; d->order && i < d->n_vocab; i++)
        d->order[i] = (uint32_t)d->model->token_order[i];
    return st;
}

static enum sp_status open_clusters(struct draft_assistant *d, struct sp_err *err)
{
    const struct sp_draft_config *config = &d->model->config.draft;
    unsigned n_threads = sp_pool_n_threads(d->backend->pool), n_used = config->n_clusters_used;
    struct sp_arena *memory = &d->base.memory;
    size_t ld = sp_matrix_ld(config->n_clusters);
    enum sp_status st;

    if (config->n_clusters == 0) return SP_OK;
    if ((st = read_order(d, err))) return st;
    d->nearness = sp_arena_rows(memory, 1, ld);
    d->chosen = sp_arena_new(memory, n_used, sizeof *d->chosen);
    d->rows = sp_arena_rows(memory, n_threads, d->n_hidden);
    return SP_OK;
}

static void open_rows(struct draft_assistant *d)
{
    struct sp_arena *memory = &d->base.memory;

    d->hidden = sp_arena_rows(memory, 1, d->n_target);
    d->next = sp_arena_rows(memory, 1, sp_matrix_ld(d->n_target));
    d->logits = sp_arena_new(memory, MAX_DRAFT_LEN * d->n_vocab, sizeof *d->logits);
    d->normed = sp_arena_acts(memory, 1, d->n_hidden);
}

static enum sp_status assistant_open(struct sp_drafter *base, const struct sp_sequence_setup *setup,
                                     struct sp_err *err)
{
    struct draft_assistant *d = (struct draft_assistant *)base;
    struct sp_decoder_options options = setup->options;
    enum sp_status st;

    d->model = setup->draft;
    base->embedder = setup->target;
    d->backend = setup->backend;
    d->n_hidden = setup->draft->config.n_hidden;
    d->n_vocab = setup->draft->config.n_vocab;
    d->n_target = setup->target->config.n_hidden;
    options.n_positions++;
    options.max_rows = options.max_batch; /* one row per sequence */
    options.max_logit_rows = 1;
    options.taps = taps;
    options.n_taps = 1;
    options.keys_of = setup->decoder;
    if ((st = sp_decoder_open(&base->decoder, d->model, d->backend, &options, err))) return st;
    open_rows(d);
    return open_clusters(d, err);
}

static size_t assistant_limit(struct sp_drafter *base, const uint32_t *ids, size_t n_cached)
{
    (void)ids;
    (void)n_cached;
    return ((const struct draft_assistant *)base)->known ? MAX_DRAFT_LEN : 0;
}

/* ---- the clustered head ---- */

static float dot(const float *a, const float *b, size_t n)
{
    float sums[N_SUMS] = {0}, sum = 0;

    for (size_t i = 0; i < n; i++)
        sums[i % N_SUMS] += a[i] * b[i];
    for (size_t i = 0; i < N_SUMS; i++)
        sum += sums[i];
    return sum;
}

struct score_job {
    struct draft_assistant *d;
    float *logits;
};

static void score_cluster(void *context, size_t i, unsigned worker)
{
    const struct score_job *job = context;
    const struct draft_assistant *d = job->d;
    const struct sp_matrix *w = &d->model->head;
    size_t size = d->n_vocab / d->model->config.draft.n_clusters;
    const uint32_t *ids = d->order + d->chosen[i].index * size;
    float *row = d->rows + worker * d->n_hidden;

    for (size_t k = 0; k < size; k++) {
        sp_backend_read_row(d->backend, row, w, ids[k]);
        job->logits[ids[k]] = dot(row, d->normed.x, d->n_hidden);
    }
}

/* ---- proposals ---- */

/* Runs the layers on a token and the hidden state after it; with a plain head makes the logits. */
static void run_row(struct draft_assistant *d, const uint32_t *id, const float *hidden, size_t pos)
{
    struct sp_batch_seq seq = {
        .ids = id,
        .hidden = hidden,
        .n = 1,
        .pos = pos,
        .n_logits = d->model->config.draft.n_clusters_used == 0,
    };

    sp_drafter_pass(&d->base, seq, SP_PRIORITY_DRAFT);
}

/* Computes the logits and the next hidden state from n of the decoder's row. */
static struct sp_logits finish_step(struct draft_assistant *d, float *logits)
{
    size_t n_used = d->model->config.draft.n_clusters_used;
    size_t n_clusters = d->model->config.draft.n_clusters;
    struct score_job job = {d, logits};
    const struct sp_product products[] = {
        {.w = &d->model->post, .y = d->next, .ldy = sp_matrix_ld(d->n_target)},
        {.w = &d->model->centroids, .y = d->nearness, .ldy = sp_matrix_ld(n_clusters)},
    };

    memcpy(d->normed.x, sp_decoder_features(d->base.decoder), d->n_hidden * sizeof *d->normed.x);
    sp_backend_multiply(d->backend, products, n_used ? 2 : 1, &d->normed, 1);
    if (n_used == 0) return sp_decoder_keep_row(d->base.decoder, 0, logits, d->n_vocab);
    sp_top_logits_add(d->chosen, 0, n_used, d->nearness, n_clusters, 0);
    for (size_t i = 0; i < d->n_vocab; i++)
        logits[i] = SP_NEVER;
    sp_pool_run(d->backend->pool, n_used, score_cluster, &job);
    return sp_logits_of(d->backend->vector, logits, d->n_vocab);
}

static struct sp_logits assistant_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                       size_t i, double *confidence)
{
    struct draft_assistant *d = (struct draft_assistant *)base;

    (void)confidence;
    assert(d->known && n_cached > 0);
    run_row(d, &ids[n_cached + i], i ? d->next : d->hidden, n_cached);
    return finish_step(d, d->logits + i * d->n_vocab);
}

static struct sp_logits assistant_logits(const struct sp_drafter *base, size_t i)
{
    const struct draft_assistant *d = (const struct draft_assistant *)base;

    return (struct sp_logits){.row = d->logits + i * d->n_vocab, .n = d->n_vocab};
}

static void assistant_commit(struct sp_drafter *base, const struct sp_commit *commit)
{
    struct draft_assistant *d = (struct draft_assistant *)base;

    memcpy(d->hidden, commit->features + (commit->n - 1) * d->n_target,
           d->n_target * sizeof *d->hidden);
    d->n_have = commit->first + commit->n;
    d->known = true;
}

/* Always succeeds: the hidden state of an earlier row returns with the next commit. */
static bool assistant_truncate(struct sp_drafter *base, size_t len, size_t n_same)
{
    struct draft_assistant *d = (struct draft_assistant *)base;

    (void)n_same;
    d->known = d->known && len == d->n_have;
    return true;
}

const struct sp_drafter_ops sp_draft_assistant_ops = {
    .kind = SP_DRAFT_ASSISTANT,
    .stepwise = true,
    .max_draft_len = MAX_DRAFT_LEN,
    .reads_output = true,
    .check = assistant_check,
    .size = sizeof(struct draft_assistant),
    .open = assistant_open,
    .limit = assistant_limit,
    .next = assistant_next,
    .logits = assistant_logits,
    .commit = assistant_commit,
    .truncate = assistant_truncate,
};
