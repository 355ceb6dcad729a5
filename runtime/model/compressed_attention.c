/* Compressed attention (DeepSeek-V4; deepseek_v4 in transformers 5.24). All heads share one key per
 * token, which is its value as well; its last dims are rotated, and the attended value is rotated
 * back. A row attends to the tokens of its window. In a layer with a rate of n it also attends to
 * one entry for each full block of n tokens before it, rotated as the block's first token:
 *
 *   RMSNorm(sum_j softmax_j(gate_j + bias_j) kv_j)   for each dim,
 *
 * over the tokens j of the block. If entries overlap, a token has two kv and two gates: the second
 * are of its own block's entry, the first of the next one. An index, whose keys are made in the
 * same way, then chooses the best top_k entries (key_index.c).
 *
 * What entries are made of is kept as long as the window, or as two blocks where these are longer,
 * so a rejected row leaves nothing behind: the entry of its block is made again. The entries and
 * tokens that a row attends to are copied, in ascending order, to a small cache that attention
 * walks like any other.
 *
 * The output is multiplied by one matrix per group of heads, then by a common one. */
#include "runtime/model/sublayers.h"

#include "runtime/model/key_index.h"
#include "runtime/model/rope.h"
#include "runtime/vector/fmath.h"

#include <math.h>
#include <string.h>

struct sp_compressed_scratch {
    struct sp_acts q_latent; /* [max_rows][q_rank] */
    struct sp_acts grouped;  /* [n_groups * max_rows][heads of a group * head_dim], group-major */
    struct sp_acts low;      /* [max_rows][n_groups * out_rank], input of o */
    float *of_groups;        /* [n_groups * max_rows][ld_of_groups], group-major */
    size_t ld_of_groups;
    struct sp_row_group *groups; /* [n_groups] */
    float *kv[2], *gate[2];      /* [max_rows][ld_parts] what the compressors read */
    size_t ld_parts;
    float *entries; /* [threads][ld_entries] an entry, cosines and sines */
    size_t ld_entries;
};

/* The caches of a layer: keys of the window, keys of the index, entries, and what the compressors
 * of entries and of keys of the index read. */
enum part { WINDOW, KEYS, ENTRIES, PARTS };

/* The compressors of a layer: of entries and, if there is an index, of its keys. */
static unsigned n_compressors(const struct sp_layer_config *l)
{
    return l->rate ? 1 + l->overlaps : 0;
}

/* Dims of what compressor k makes. */
static unsigned dim_of(const struct sp_config *config, const struct sp_layer_config *l, unsigned k)
{
    return k ? config->index.head_dim : l->head_dim;
}

/* The most keys that a row attends to. */
static size_t most_keys(const struct sp_config *config, size_t n_positions)
{
    size_t most = 0;

    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_layer_config *l = &config->layers[i];
        size_t n = l->rate ? n_positions / l->rate : 0;
        if (l->overlaps && n > config->index.top_k) n = config->index.top_k;
        if (n + l->window > most) most = n + l->window;
    }
    return most;
}

enum sp_status sp_compressed_attention_open(struct sp_workspace *ws, enum sp_cache_type cache_type,
                                            struct sp_err *err)
{
    const struct sp_config *config = &ws->model->config;
    const struct sp_compressed_config *c = &config->compressed;
    const struct sp_layer_config *l = config->layers;
    struct sp_kv_shape shape = {1, l->head_dim, l->head_dim};
    size_t rows = ws->max_rows, n = most_keys(config, ws->n_positions);
    size_t a = dim_of(config, l, 0), b = dim_of(config, l, 1), width = 2 * (a > b ? a : b);
    struct sp_arena *m = &ws->memory;
    struct sp_compressed_scratch *s;
    enum sp_status st;

    if (c->q_rank == 0) return SP_OK;
    if ((s = ws->compressed = sp_arena_new(m, 1, sizeof *s)) == NULL) return SP_OK;
    s->ld_parts = sp_matrix_ld(width);
    s->ld_entries = sp_matrix_ld(2 * width);
    s->ld_of_groups = sp_matrix_ld(c->out_rank);
    s->q_latent = sp_arena_acts(m, rows, c->q_rank);
    s->grouped =
        sp_arena_acts(m, rows * c->n_groups, (size_t)l->n_heads / c->n_groups * l->head_dim);
    s->low = sp_arena_acts(m, rows, (size_t)c->n_groups * c->out_rank);
    s->of_groups = sp_arena_rows(m, rows * c->n_groups, s->ld_of_groups);
    s->groups = sp_arena_new(m, c->n_groups, sizeof *s->groups);
    for (int k = 0; k < 2; k++) {
        s->kv[k] = sp_arena_rows(m, rows, s->ld_parts);
        s->gate[k] = sp_arena_rows(m, rows, s->ld_parts);
    }
    s->entries = sp_arena_rows(m, sp_pool_n_threads(ws->backend->pool), s->ld_entries);
    st = sp_kv_init(&ws->gathered, cache_type, shape, n, 0, 0, err);
    return st ? st : sp_kv_grow(&ws->gathered, n, err);
}

static struct sp_kv *cache_of(const struct sp_decoder *d, unsigned layer, unsigned part)
{
    return &d->caches[part * d->model->config.n_layers + layer];
}

enum sp_status sp_compressed_attention_open_caches(struct sp_decoder *d, unsigned layer,
                                                   struct sp_err *err)
{
    const struct sp_layer_config *l = &d->model->config.layers[layer];
    const struct sp_decoder_options *o = &d->options;
    struct sp_kv_shape shape = {1, l->head_dim, l->head_dim};
    struct sp_kv *entries = cache_of(d, layer, ENTRIES);
    enum sp_status st;

    if (l->rate == 0) return SP_OK;
    st = sp_kv_init(entries, o->cache_type, shape, o->n_positions / l->rate + 1, 0, 0, err);
    if (!st) entries->stride = l->rate;
    for (unsigned k = 0; k < n_compressors(l) && !st; k++) {
        shape.head_dim = shape.value_dim = (l->overlaps ? 2 : 1) * dim_of(&d->model->config, l, k);
        st = sp_kv_init(cache_of(d, layer, PARTS + k), sp_uncoded_type(o->cache_type), shape,
                        o->n_positions, sp_layer_reach(l), o->max_rows, err);
    }
    return st;
}

/* One pass of a layer; the members behind n are of the current sequence. */
struct compressed_job {
    struct sp_workspace *ws;
    const struct sp_layer *layer;
    size_t n;
    const struct sp_batch_seq *seq;
    struct sp_kv *caches[SP_COMPRESSED_CACHES]; /* of the layer, by enum part */
};

/* Rotates neighboring dims, the last ones of n, by an angle, or back with sign -1. */
static void rotate(float *x, size_t n, const float *cos, const float *sin, size_t half, float sign)
{
    x += n - 2 * half;
    for (size_t i = 0; i < half; i++, x += 2) {
        float a = x[0], b = x[1], s = sign * sin[i];
        x[0] = a * cos[i] - b * s;
        x[1] = b * cos[i] + a * s;
    }
}

/* The same by the angles of row t. */
static void rotate_row(const struct compressed_job *job, size_t t, float *x, size_t n, float sign)
{
    int rope = job->layer->config->rope;
    const struct sp_rotation *r = &job->ws->rotations[rope];
    size_t half = job->ws->model->config.ropes[rope].n_rot / 2;

    rotate(x, n, r->cos + t * half, r->sin + t * half, half, sign);
}

/* ---- products ---- */

static void norm_latents(void *context, size_t t)
{
    const struct compressed_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    const struct sp_compressed_weights *w = &job->layer->compressed;
    const float eps = (float)ws->model->config.norm_eps;
    float *kv = ws->k + t * ws->ld_kv;
    float *low = ws->compressed->q_latent.x + t * ws->compressed->q_latent.ld;

    vector->rms_norm(kv, kv, w->kv_norm, job->layer->config->head_dim, eps);
    rotate_row(job, t, kv, job->layer->config->head_dim, 1);
    vector->rms_norm(low, low, w->q_norm, ws->model->config.compressed.q_rank, eps);
}

static void prepare_queries(void *context, size_t t)
{
    const struct compressed_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    const struct sp_layer_config *l = job->layer->config;
    const struct sp_index_config *index = &ws->model->config.index;
    const struct sp_key_index_scratch *s = ws->key_index;
    float *q = ws->q + t * ws->ld_q;

    for (size_t h = 0; h < l->n_heads; h++, q += l->head_dim) {
        vector->rms_norm(q, q, NULL, l->head_dim, (float)ws->model->config.norm_eps);
        rotate_row(job, t, q, l->head_dim, 1);
    }
    if (!l->overlaps) return;
    for (size_t h = 0; h < index->n_heads; h++)
        rotate_row(job, t, s->q + t * s->ld_q + h * index->head_dim, index->head_dim, 1);
    vector->scale(s->weights + t * s->ld_weights, (float)(1 / sqrt((double)index->n_heads)),
                  index->n_heads);
}

static void project(struct compressed_job *job)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_layer_config *l = job->layer->config;
    const struct sp_compressed_weights *w = &job->layer->compressed;
    struct sp_compressed_scratch *s = ws->compressed;
    struct sp_key_index_scratch *index = ws->key_index;
    unsigned n = n_compressors(l);
    struct sp_product in[6] = {
        {.w = &w->kv, .y = ws->k, .ldy = ws->ld_kv},
        {.w = &w->q_a, .y = s->q_latent.x, .ldy = s->q_latent.ld},
    };

    for (unsigned k = 0; k < n; k++) {
        in[2 + 2 * k] =
            (struct sp_product){.w = &w->compressors[k].kv, .y = s->kv[k], .ldy = s->ld_parts};
        in[3 + 2 * k] =
            (struct sp_product){.w = &w->compressors[k].gate, .y = s->gate[k], .ldy = s->ld_parts};
    }
    sp_backend_multiply(ws->backend, in, 2 + 2 * n, &ws->hidden, job->n);
    sp_backend_rows(ws->backend, job->n, norm_latents, job);
    sp_backend_product(ws->backend, ws->q, ws->ld_q, &w->q_b, NULL, &s->q_latent, job->n);
    if (l->overlaps) {
        sp_backend_product(ws->backend, index->weights, index->ld_weights,
                           &job->layer->index.weights, NULL, &ws->hidden, job->n);
        sp_backend_product(ws->backend, index->q, index->ld_q, &job->layer->index.q, NULL,
                           &s->q_latent, job->n);
    }
    sp_backend_rows(ws->backend, job->n, prepare_queries, job);
}

/* ---- entries ---- */

/* Stores what compressor k makes of the block that ends at `pos`. */
static void make_entry(const struct compressed_job *job, float *entry, unsigned k, size_t pos)
{
    const struct sp_layer_config *l = job->layer->config;
    const struct sp_config *config = &job->ws->model->config;
    const struct sp_rope *rope = &config->ropes[l->rope];
    const struct sp_vector *vector = job->ws->backend->vector;
    const struct sp_compressor *w = &job->layer->compressed.compressors[k];
    size_t dim = dim_of(config, l, k), first = pos + 1 - l->rate, half = rope->n_rot / 2;
    size_t before = l->overlaps && first ? l->rate : 0;
    float *cos = entry + dim, *sin = cos + half;
    const struct sp_token_pool pool = {.from = job->caches[PARTS + k],
                                       .keyed = true,
                                       .bias = w->bias,
                                       .first = first - before,
                                       .n = before + l->rate,
                                       .rate = l->rate,
                                       .width = l->overlaps ? 2 * dim : dim,
                                       .dim = dim};

    sp_pool_tokens(entry, &pool);
    vector->rms_norm(entry, entry, w->norm, dim, (float)config->norm_eps);
    sp_rope_row(cos, sin, job->seq->decoder->frequencies[l->rope], half, rope->amplitude, first);
    rotate(entry, dim, cos, sin, half, 1);
    sp_kv_put_head(job->caches[k ? KEYS : ENTRIES], vector, 0, first / l->rate, 1, entry, entry,
                   dim);
}

/* Makes what row t of the sequence completes. */
static void make_entries(void *context, size_t t, unsigned worker)
{
    const struct compressed_job *job = context;
    const struct sp_compressed_scratch *s = job->ws->compressed;
    size_t pos = job->seq->pos + t;

    if ((pos + 1) % job->layer->config->rate != 0) return;
    for (unsigned k = 0; k < n_compressors(job->layer->config); k++)
        make_entry(job, s->entries + worker * s->ld_entries, k, pos);
}

/* Stores the rows of the current sequence, which begin with row `first` of the pass. */
static void store(struct compressed_job *job, size_t first)
{
    const struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    const struct sp_compressed_scratch *s = ws->compressed;
    size_t pos = job->seq->pos, n = job->seq->n, at = first * s->ld_parts;
    const float *kv = ws->k + first * ws->ld_kv;

    sp_kv_put_head(job->caches[WINDOW], vector, 0, pos, n, kv, kv, ws->ld_kv);
    for (unsigned k = 0; k < n_compressors(job->layer->config); k++)
        sp_kv_put_head(job->caches[PARTS + k], vector, 0, pos, n, s->kv[k] + at, s->gate[k] + at,
                       s->ld_parts);
    if (job->layer->config->rate) sp_pool_run(ws->backend->pool, n, make_entries, job);
}

/* ---- attention ---- */

static void attend_row(const struct compressed_job *job, unsigned layer, size_t t)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_layer_config *l = job->layer->config;
    size_t pos = ws->positions[t], n_window = pos + 1 < l->window ? pos + 1 : l->window;
    struct sp_gathering g = {.to = &ws->gathered,
                             .from = job->caches[ENTRIES],
                             .rest = job->caches[WINDOW],
                             .n_from = l->rate ? (pos + 1) / l->rate : 0,
                             .first = pos + 1 - n_window};

    if (l->overlaps && g.n_from > ws->model->config.index.top_k) {
        g.chosen = sp_key_index_rank(ws, job->caches[KEYS], t, g.n_from);
        g.n_from = ws->model->config.index.top_k;
    }
    g.n = g.n_from + n_window;
    sp_gather_keys(&g, ws->backend->pool);
    sp_self_attention_row(ws, layer, t, &ws->gathered, g.n);
}

/* Rotates the values of row t back. */
static void rotate_back(void *context, size_t t)
{
    const struct compressed_job *job = context;
    const struct sp_layer_config *l = job->layer->config;
    float *heads = job->ws->heads.x + t * job->ws->heads.ld;

    for (size_t h = 0; h < l->n_heads; h++)
        rotate_row(job, t, heads + h * l->head_dim, l->head_dim, -1);
}

static void project_out(struct compressed_job *job)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_compressed_config *c = &ws->model->config.compressed;
    struct sp_compressed_scratch *s = ws->compressed;
    const struct sp_product o_a = {
        .w = &job->layer->compressed.o_a, .y = s->of_groups, .ldy = s->ld_of_groups};
    size_t n = job->n, width = s->grouped.cols;

    sp_backend_rows(ws->backend, n, rotate_back, job);
    sp_move_parts(ws, &(struct sp_parts){s->grouped.x, s->grouped.ld, ws->heads.x, ws->heads.ld,
                                         width, width, c->n_groups, n, false});
    sp_backend_multiply_heads(ws->backend, &o_a, &s->grouped, s->groups, c->n_groups, n);
    sp_move_parts(ws, &(struct sp_parts){s->of_groups, s->ld_of_groups, s->low.x, s->low.ld,
                                         c->out_rank, c->out_rank, c->n_groups, n, true});
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &job->layer->o, NULL, &s->low, n);
}

void sp_compressed_attention_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    struct compressed_job job = {.ws = ws, .layer = &ws->model->layers[layer], .n = n};

    project(&job);
    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n) {
        job.seq = &ws->seqs[i];
        for (unsigned part = 0; part < SP_COMPRESSED_CACHES; part++)
            job.caches[part] = cache_of(job.seq->decoder, layer, part);
        store(&job, first);
        for (size_t t = first; t < first + job.seq->n; t++)
            attend_row(&job, layer, t);
    }
    project_out(&job);
}
