/* Multi-head latent attention (struct sp_latent_config). The cache stores one latent and one
 * rotated key per position, shared by all heads; keys and values of the heads are never computed.
 * A layer may read the cache of an earlier one (mistral_large4).
 * With K the matrix that makes a head's key of a latent c, and V the matrix that makes its value,
 *
 * q . (K c) = (K^T q) . c    and    sum_j p_j (V c_j) = V (sum_j p_j c_j),
 *
 * so K^T maps every query to the latent's dims, all heads attend to one key [c, rotated key] with
 * the value c, and V maps the result of each head to the dims of a value. A head therefore costs
 * arithmetic but no memory; the cache is as small as that of one head of kv_rank dims.
 *
 * The rows of a head are contiguous, so K and V are read once a pass: head h of row t is row h n +
 * t. */
#include "runtime/model/sublayers.h"

#include "runtime/backend/attention_job.h"
#include "runtime/model/key_index.h"
#include "runtime/vector/fmath.h"

#include <string.h>

/* Buffers with a row per head and token are head-major: row (h * n + t) belongs to head h of row t
 * of a pass of n rows. */
struct sp_latent_attention_scratch {
    struct sp_acts q_latent; /* [max_rows][q_rank] latents of queries, input of q_b; if it is gated,
                               the same before their norm follow; or [max_rows][H] input of the
                               index (sp_index_config.normed_input) */
    struct sp_acts nope; /* [heads * max_rows][nope_dim] unrotated dims of queries, input of k_b */
    float *queries;      /* [heads * max_rows][ld_queries] queries in the latent's dims */
    struct sp_acts attended; /* [heads * max_rows][kv_rank] attention output, input of v_b */
    float *values;           /* [heads * max_rows][ld_values] */
    size_t ld_queries, ld_values;
    struct sp_row_group *groups; /* [heads] */
};

static unsigned larger(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

void sp_latent_attention_open(struct sp_workspace *ws)
{
    const struct sp_latent_config *other = &ws->model->config.other_latent;
    struct sp_latent_config c = ws->model->config.latent;
    struct sp_latent_attention_scratch *s;
    size_t rows = ws->max_rows * ws->most_heads, low;

    if (c.kv_rank == 0) return;
    c.kv_rank = larger(c.kv_rank, other->kv_rank);
    c.q_rank = larger(c.q_rank, other->q_rank);
    c.nope_dim = larger(c.nope_dim, other->nope_dim);
    c.rope_dim = larger(c.rope_dim, other->rope_dim);
    c.value_dim = larger(c.value_dim, other->value_dim);
    if ((s = ws->latent_attention = sp_arena_new(&ws->memory, 1, sizeof *s)) == NULL) return;
    s->ld_queries = sp_matrix_ld((size_t)c.kv_rank + c.rope_dim);
    s->ld_values = sp_matrix_ld(c.value_dim);
    low = (c.gated ? 2 : 1) * (size_t)c.q_rank;
    if (ws->model->config.index.normed_input) low = ws->model->config.n_hidden;
    if (low) s->q_latent = sp_arena_acts(&ws->memory, ws->max_rows, low);
    s->nope = sp_arena_acts(&ws->memory, rows, c.nope_dim);
    s->queries = sp_arena_rows(&ws->memory, rows, s->ld_queries);
    s->attended = sp_arena_acts(&ws->memory, rows, c.kv_rank);
    s->values = sp_arena_rows(&ws->memory, rows, s->ld_values);
    s->groups = sp_arena_new(&ws->memory, ws->most_heads, sizeof *s->groups);
}

/* One pass of a layer. */
struct latent_job {
    struct sp_workspace *ws;
    const struct sp_layer *layer;
    const struct sp_latent_config *c;
    size_t n, n_heads;
};

void sp_rotate_row(const struct sp_workspace *ws, int rope, size_t t, float *x)
{
    size_t half = rope < 0 ? 0 : ws->model->config.ropes[rope].n_rot / 2;

    if (rope < 0) return;
    ws->backend->vector->rope(x, ws->rotations[rope].cos + t * half,
                              ws->rotations[rope].sin + t * half, 2 * half);
}

/* Norms the latents of row t and rotates its key. */
static void norm_and_rotate(void *context, size_t t)
{
    const struct latent_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    float *latent = ws->k + t * ws->ld_kv, *key = latent + job->c->kv_rank, *low;
    const float eps = (float)job->c->norm_eps;

    if (job->layer->latent.kv_norm) {
        vector->rms_norm(latent, latent, job->layer->latent.kv_norm, job->c->kv_rank, eps);
        if (job->c->key_norm)
            vector->rms_norm(key, key, job->layer->latent.key_norm, job->c->rope_dim, eps);
        sp_rotate_row(ws, job->layer->config->rope, t, key);
    }
    if (job->c->q_rank == 0) return;
    low = ws->latent_attention->q_latent.x + t * ws->latent_attention->q_latent.ld;
    if (job->c->gated) memcpy(low + job->c->q_rank, low, job->c->q_rank * sizeof *low);
    vector->rms_norm(low, low, job->layer->latent.q_norm, job->c->q_rank, eps);
}

static void store(const struct latent_job *job)
{
    const struct sp_workspace *ws = job->ws;
    unsigned layer = (unsigned)job->layer->config->kv_source;
    const float *latent = ws->k;

    for (size_t i = 0; i < ws->n_seqs; i++) {
        const struct sp_batch_seq *seq = &ws->seqs[i];
        sp_kv_put_head(&seq->decoder->caches[layer], ws->backend->vector, 0, seq->pos, seq->n,
                       latent, latent, ws->ld_kv);
        latent += seq->n * ws->ld_kv;
    }
}

static void project(struct latent_job *job)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_layer *l = job->layer;
    bool low = job->c->q_rank != 0;
    size_t first = l->latent.kv_a.rows ? 0 : 1, end = l->output_gate.rows ? 3 : 2;
    const struct sp_product in[] = {
        {.w = &l->latent.kv_a, .bias = l->latent.kv_bias, .y = ws->k, .ldy = ws->ld_kv},
        {.w = low ? &l->latent.q_a : &l->q,
         .bias = l->latent.q_bias,
         .y = low ? ws->latent_attention->q_latent.x : ws->q,
         .ldy = low ? ws->latent_attention->q_latent.ld : ws->ld_q},
        {.w = &l->output_gate, .y = ws->gate, .ldy = ws->ld_q},
    };
    const struct sp_product of_latent[] = {
        {.w = &l->latent.q_b, .y = ws->q, .ldy = ws->ld_q},
        {.w = &l->latent.gate_b, .y = ws->gate, .ldy = ws->ld_q},
    };

    sp_backend_multiply(ws->backend, in + first, end - first, &ws->hidden, job->n);
    sp_backend_rows(ws->backend, job->n, norm_and_rotate, job);
    if (!low) return;
    ws->latent_attention->q_latent.cols = l->latent.q_b.cols;
    sp_backend_multiply(ws->backend, of_latent, job->c->gated ? 2 : 1,
                        &ws->latent_attention->q_latent, job->n);
}

/* Head h of row t of the projected queries. */
static const float *query_at(const struct latent_job *job, size_t h, size_t t)
{
    size_t dim = (size_t)job->c->nope_dim + job->c->rope_dim;

    return job->ws->q + t * job->ws->ld_q + h * dim;
}

static void move_row(void *context, size_t t)
{
    const struct sp_parts *m = context;

    for (size_t i = 0; i < m->n_parts; i++) {
        float *part = m->parts + (i * m->n + t) * m->ld_parts;
        float *in_row = m->rows + t * m->ld_rows + i * m->step;
        memcpy(m->back ? in_row : part, m->back ? part : in_row, m->width * sizeof *part);
    }
}

void sp_move_parts(const struct sp_workspace *ws, struct sp_parts *parts)
{
    sp_backend_rows(ws->backend, parts->n, move_row, parts);
}

/* Appends the rotated dims of each query to its dims in the latent's space, and scales it. */
static void append_rope(void *context, size_t t)
{
    const struct latent_job *job = context;
    struct sp_latent_attention_scratch *s = job->ws->latent_attention;
    const struct sp_query_growth *growth = &job->ws->model->config.query_growth;
    const struct sp_ssmax_weights *ssmax = &job->layer->latent.ssmax;
    float factor = growth->beta != 0 ? sp_query_factor(growth, job->ws->positions[t]) : 1;
    float ln = (float)sp_log((double)job->ws->positions[t] + 1);

    for (size_t h = 0; h < job->n_heads; h++) {
        float *to = s->queries + (h * job->n + t) * s->ld_queries + job->c->kv_rank;
        memcpy(to, query_at(job, h, t) + job->c->nope_dim, job->c->rope_dim * sizeof *to);
        sp_rotate_row(job->ws, job->layer->config->rope, t, to);
        if (ssmax->scale) factor = ssmax->scale[h] * ln + ssmax->bias[h];
        if (factor == 1) continue;
        job->ws->backend->vector->scale(to - job->c->kv_rank, factor,
                                        (size_t)job->c->kv_rank + job->c->rope_dim);
    }
}

/* y = the matrix of each head times the rows of that head. */
static void multiply_heads(const struct latent_job *job, const struct sp_matrix *w, float *y,
                           size_t ldy, const struct sp_acts *acts)
{
    const struct sp_product product = {.w = w, .y = y, .ldy = ldy};

    sp_backend_multiply_heads(job->ws->backend, &product, acts, job->ws->latent_attention->groups,
                              job->n_heads, job->n);
}

/* Attention of n rows from row `first` of the pass on. */
static void attend(const struct latent_job *job, const struct sp_kv *kv, size_t first, size_t n)
{
    struct sp_workspace *ws = job->ws;
    struct sp_latent_attention_scratch *s = ws->latent_attention;
    struct sp_attention a = {
        .kv = kv,
        .n_heads = (unsigned)job->n_heads,
        .scale = (float)job->c->scale,
        .q = s->queries + first * s->ld_queries,
        .ldq = s->ld_queries,
        .q_step = job->n * s->ld_queries,
        .out = s->attended.x + first * s->attended.ld,
        .ld_out = s->attended.ld,
        .out_step = job->n * s->attended.ld,
        .n_rows = n,
        .ranges = ws->ranges,
        .sinks = job->layer->sinks,
    };

    sp_attend(&a, ws->backend->vector, ws->backend->pool, ws->attention);
}

/* Attention of one sequence, whose first row is `first`. The rows that see more keys than an index
 * chooses are its last ones. */
static void attend_seq(const struct latent_job *job, const struct sp_batch_seq *seq, size_t first)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_kv *kv = seq->decoder->keys[job->layer->config - ws->model->config.layers];
    bool indexed = ws->key_index && !job->layer->config->unindexed;
    size_t n_chosen = indexed ? ws->key_index->n_chosen : SIZE_MAX, n = seq->n;

    if (seq->pos >= n_chosen)
        n = 0;
    else if (seq->n > n_chosen - seq->pos)
        n = n_chosen - seq->pos;
    sp_self_attention_find_ranges(ws->ranges, job->layer->config, seq);
    attend(job, kv, first, n);
    for (; n < seq->n; n++) {
        ws->ranges[0] = (struct sp_key_range){0, sp_key_index_gather(ws, kv, first + n)};
        attend(job, &ws->gathered, first + n, 1);
    }
}

void sp_latent_attention_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    struct sp_latent_attention_scratch *s = ws->latent_attention;
    struct latent_job job = {.ws = ws,
                             .layer = l,
                             .c = sp_config_latent(&ws->model->config, l->config),
                             .n = n,
                             .n_heads = l->config->n_heads};

    s->nope.cols = job.c->nope_dim;
    s->attended.cols = job.c->kv_rank;
    project(&job);
    if (l->latent.kv_a.rows) store(&job);
    if (l->index.k.rows) sp_key_index_choose(ws, layer, &s->q_latent, n);
    sp_move_parts(ws, &(struct sp_parts){s->nope.x, s->nope.ld, ws->q, ws->ld_q,
                                         (size_t)job.c->nope_dim + job.c->rope_dim, job.c->nope_dim,
                                         job.n_heads, n, false});
    multiply_heads(&job, &l->latent.k_b, s->queries, s->ld_queries, &s->nope);
    sp_backend_rows(ws->backend, n, append_rope, &job);
    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n)
        attend_seq(&job, &ws->seqs[i], first);
    multiply_heads(&job, &l->latent.v_b, s->values, s->ld_values, &s->attended);
    sp_move_parts(ws, &(struct sp_parts){s->values, s->ld_values, ws->heads.x, ws->heads.ld,
                                         job.c->value_dim, job.c->value_dim, job.n_heads, n, true});
    ws->heads.cols = l->o.cols;
    if (job.c->gated || l->output_gate.rows) sp_output_gate_run(ws, l->config, job.c->value_dim, n);
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &l->o, l->o_bias, &ws->heads, n);
}
