/* The index of sparse attention (DeepSeek-V3.2; deepseek_v32, glm_moe_dsa and axk2 in transformers
 * 5.24). A row at position p attends to the top_k keys s <= p with the largest
 *
 *   I_s = sum_h w_h relu(q_h . k_s / sqrt(d)),   w = W x / sqrt(n_heads)
 *
 * where q is made of the latent of the row's queries, or of LayerNorm(x) (mistral_large4), k =
 * LayerNorm(W_k x), and the first dims of both are rotated. The sum is in ascending order of heads,
 * one product and one addition each. Of equal scores the later position is chosen. A row that sees
 * at most top_k keys has no choice.
 *
 * With pools of n tokens (glm5_next) keys do not rotate, and of each full pool one key is made, for
 * each of its dims
 *
 *   sum_j softmax_j(gate x_j + bias_j) k_j.   The best top_k / n pools are chosen, and the tokens
 *
 * behind the last full pool. The cache has k and the gate of a token as its value, and the key of
 * its pool as the key of the pool's last token.
 *
 * Pools of qwen4_exp have the norm of the mean of k_j as their key, rotated as the first token of
 * the pool; heads have no weights, and q is made of the row's input and normed.
 *
 * With blocks of n tokens (minimax_m3_vl in transformers 5.24) each head of the index chooses for
 * heads of keys and values of its own, by scores q_h . k_s, q and k normed. The score of a block is
 * that of its best key before the row, and the last blocks count as best. The block of the row
 * itself may not be full.
 *
 * Rows are processed one after another, so a choice depends on nothing but the row and the index
 * keys before it. The chosen keys are copied, in ascending order, to a small cache that attention
 * walks like any other: a row therefore reads all index keys, but only top_k latents. */
#include "runtime/model/key_index.h"

#include "runtime/model/rope.h"
#include "runtime/model/sublayers.h"
#include "runtime/vector/fmath.h"
#include "quantize/types/float_cast.h"

#include <math.h>
#include <string.h>

enum sp_status sp_key_index_open_cache(struct sp_kv *cache, const struct sp_decoder *d,
                                       struct sp_err *err)
{
    const struct sp_index_config *c = &d->model->config.index;
    unsigned parts = c->pool ? c->head_dim * (c->mean ? 1 : 2) : 1; /* of a key of a pool */
    struct sp_kv_shape shape = {1, c->head_dim, parts};

    return sp_kv_init(cache, sp_uncoded_type(d->options.cache_type), shape, d->options.n_positions,
                      0, d->options.max_rows, err);
}

enum sp_status sp_key_index_open(struct sp_workspace *ws, enum sp_cache_type cache_type,
                                 struct sp_err *err)
{
    const struct sp_config *config = &ws->model->config;
    const struct sp_index_config *c = &config->index;
    const struct sp_layer_config *l =
        &config->layers[sp_config_first_layer(config, SP_MIXER_ATTENTION)];
    struct sp_kv_shape shape = {1, config->latent.kv_rank + config->latent.rope_dim,
                                config->latent.kv_rank};
    size_t n_heads = c->n_heads, n_threads = sp_pool_n_threads(ws->backend->pool);
    size_t rows = ws->max_rows;
    struct sp_arena *m = &ws->memory;
    struct sp_key_index_scratch *s;
    enum sp_status st;

    if (c->top_k == 0) return SP_OK;
    if ((s = ws->key_index = sp_arena_new(m, 1, sizeof *s)) == NULL) return SP_OK;
    s->n_chosen = c->pool ? (size_t)c->top_k + c->pool - 1 : c->top_k;
    if (s->n_chosen > ws->n_positions) s->n_chosen = ws->n_positions;
    s->ld_q = sp_matrix_ld(n_heads * c->head_dim);
    s->ld_k = sp_matrix_ld((c->pool ? 2 : 1) * (size_t)c->head_dim);
    s->ld_weights = sp_matrix_ld(n_heads);
    s->ld_scores = sp_matrix_ld(sp_round_up(ws->n_positions, SP_SPAN));
    s->n_choices = c->block ? n_heads : 1;
    if (config->latent.kv_rank == 0)
        shape = (struct sp_kv_shape){l->n_kv_heads, l->head_dim, sp_config_value_dim(config, l)};
    s->q = sp_arena_rows(m, rows, s->ld_q);
    s->k = sp_arena_rows(m, rows, s->ld_k);
    s->weights = sp_arena_rows(m, rows, s->ld_weights);
    s->pool_key = sp_arena_rows(m, 1, s->ld_k);
    s->angles = sp_arena_rows(m, 1, c->head_dim);
    s->queries = (void *)sp_arena_rows(m, n_heads, sp_query_size(c->head_dim) / sizeof(float));
    s->head_scores = sp_arena_rows(m, n_threads * n_heads, SP_SPAN);
    s->scores = sp_arena_rows(m, s->n_choices, s->ld_scores);
    s->chosen = sp_arena_new(m, rows * s->n_choices * s->n_chosen, sizeof *s->chosen);
    if (config->compressed.q_rank) return SP_OK; /* which gathers keys itself */
    if ((st = sp_kv_init(&ws->gathered, cache_type, shape, s->n_chosen, 0, 0, err))) return st;
    return sp_kv_grow(&ws->gathered, s->n_chosen, err);
}

/* ---- queries and keys ---- */

struct index_job {
    struct sp_workspace *ws;
    const struct sp_layer *layer;
    const struct sp_kv *cache; /* of the index keys of the current sequence */
    const float *frequencies;  /* of the rotation of that sequence */
    size_t t, n_keys;          /* the current row, and the keys that it sees */
    const struct sp_acts *latents;
};

static void rotate(const struct index_job *job, size_t t, float *x)
{
    const struct sp_config *config = &job->ws->model->config;
    int rope = job->layer->config->rope;

    if (config->index.rotates_last && rope >= 0)
        x += config->index.head_dim - config->ropes[rope].n_rot;
    sp_rotate_row(job->ws, rope, t, x);
}

/* Norms and rotates the key of row t and its queries, and scales its weights. */
static void prepare_row(void *context, size_t t)
{
    const struct index_job *job = context;
    const struct sp_index_config *c = &job->ws->model->config.index;
    const struct sp_key_index_scratch *s = job->ws->key_index;
    const struct sp_index_weights *w = &job->layer->index;
    const struct sp_vector *vector = job->ws->backend->vector;
    float *k = s->k + t * s->ld_k, *weights = s->weights + t * s->ld_weights;
    float ln = (float)sp_log((double)job->ws->positions[t] + 1);

    if (w->k_norm_bias) sp_center(k, k, c->head_dim);
    if (!c->mean) vector->rms_norm(k, k, w->k_norm, c->head_dim, (float)c->norm_eps);
    if (w->k_norm_bias) vector->add(k, w->k_norm_bias, c->head_dim);
    if (!c->mean) rotate(job, t, k);
    for (size_t h = 0; h < c->n_heads; h++) {
        float *q = s->q + t * s->ld_q + h * c->head_dim;
        if (w->q_norm) vector->rms_norm(q, q, w->q_norm, c->head_dim, (float)c->norm_eps);
        if (w->ssmax.scale)
            vector->scale(q, w->ssmax.scale[h] * ln + w->ssmax.bias[h], c->head_dim);
        rotate(job, t, q);
        weights[h] = c->mean ? 1 : weights[h] * (float)(1 / sqrt((double)c->n_heads));
    }
}

/* Norms row t of the layer's input, of which queries are made. */
static void norm_input(void *context, size_t t)
{
    const struct index_job *job = context;
    const struct sp_workspace *ws = job->ws;
    const struct sp_index_weights *w = &job->layer->index;
    float *row = job->latents->x + t * job->latents->ld;
    size_t n = ws->model->config.n_hidden;

    sp_center(row, ws->hidden.x + t * ws->hidden.ld, n);
    ws->backend->vector->rms_norm(row, row, w->input_norm, n,
                                  (float)ws->model->config.index.norm_eps);
    ws->backend->vector->add(row, w->input_norm_bias, n);
}

/* ---- pools ---- */

/* The best of the gates comes first, so that no exponential is larger than 1. */
void sp_pool_tokens(float *out, const struct sp_token_pool *p)
{
    for (size_t d = 0; d < p->dim; d++) {
        float max = -INFINITY, sum = 0;
        out[d] = 0;
        for (int step = 0; step < 2; step++) {
            for (size_t j = 0; j < p->n; j++) {
                size_t at = p->first + j;
                size_t column = (j + p->rate < p->n ? 0 : p->width - p->dim) + d;
                float gate = 0, x;
                if (p->bias)
                    gate = sp_kv_number(p->from, at, true, p->keyed ? column : p->dim + d) +
                           p->bias[j % p->rate * p->width + column];
                if (step == 0) max = gate > max ? gate : max;
                if (step == 0) continue;
                x = sp_kv_number(p->from, at, !p->keyed, column);
                sum += sp_expf(gate - max);
                out[d] += sp_expf(gate - max) * x;
            }
        }
        out[d] /= sum;
    }
}

/* key = the key of the pool that ends at `pos`. */
static void make_pool_key(float *key, const struct index_job *job, size_t pos)
{
    const struct sp_config *config = &job->ws->model->config;
    const struct sp_index_config *c = &config->index;
    const struct sp_rope *rope = &config->ropes[0];
    const struct sp_vector *vector = job->ws->backend->vector;
    float *cos = job->ws->key_index->angles, *sin = cos + rope->n_rot / 2;
    const struct sp_token_pool pool = {.from = job->cache,
                                       .bias = c->mean ? NULL : job->layer->index.pool_bias,
                                       .first = pos + 1 - c->pool,
                                       .n = c->pool,
                                       .rate = c->pool,
                                       .width = c->head_dim,
                                       .dim = c->head_dim};

    sp_pool_tokens(key, &pool);
    if (!c->mean) return;
    vector->rms_norm(key, key, job->layer->index.k_norm, c->head_dim, (float)c->norm_eps);
    sp_rope_row(cos, sin, job->frequencies, rope->n_rot / 2, rope->amplitude, pos + 1 - c->pool);
    vector->rope(key, cos, sin, rope->n_rot);
}

static void store_pools(const struct index_job *job, struct sp_kv *cache, size_t first, size_t n)
{
    const struct sp_key_index_scratch *s = job->ws->key_index;
    size_t pool = job->ws->model->config.index.pool;

    for (size_t t = first; pool && t < first + n; t++) {
        size_t pos = job->ws->positions[t];
        if ((pos + 1) % pool != 0) continue;
        make_pool_key(s->pool_key, job, pos);
        sp_kv_put_head(cache, job->ws->backend->vector, 0, pos, 1, s->pool_key, s->k + t * s->ld_k,
                       s->ld_k);
    }
}

/* ---- choice ---- */

/* The scores of one span of keys for the current row. */
static void score_span(void *context, size_t span, unsigned worker)
{
    const struct index_job *job = context;
    const struct sp_index_config *c = &job->ws->model->config.index;
    const struct sp_key_index_scratch *s = job->ws->key_index;
    const float *weights = s->weights + job->t * s->ld_weights;
    float *of_heads = s->head_scores + (size_t)worker * c->n_heads * SP_SPAN;
    float *scores = s->scores + span * SP_SPAN;
    size_t first = span * SP_SPAN,
           n = job->n_keys - first < SP_SPAN ? job->n_keys - first : SP_SPAN;
    const struct sp_kv_rows rows = {.out = of_heads,
                                    .ld_out = SP_SPAN,
                                    .n_queries = c->n_heads,
                                    .blocks = sp_kv_keys(job->cache, 0, first),
                                    .head_dim = c->head_dim,
                                    .queries = s->queries,
                                    .n_blocks = (n + SP_KV_BLOCK - 1) / SP_KV_BLOCK,
                                    .scale = (float)(1 / sqrt((double)c->head_dim))};

    job->ws->backend->vector->kv[job->cache->type].scores(&rows);
    for (size_t h = 0; c->block && h < c->n_heads; h++)
        memcpy(scores + h * s->ld_scores, of_heads + h * SP_SPAN, n * sizeof *scores);
    if (c->block) return;
    memset(scores, 0, n * sizeof *scores);
    for (size_t h = 0; h < c->n_heads; h++, of_heads += SP_SPAN)
        for (size_t i = 0; i < n; i++)
            scores[i] += weights[h] * (of_heads[i] > 0 ? of_heads[i] : 0);
}

/* Maps a score to an integer of the same order; a NaN is below all numbers. */
static uint32_t order_of(float score)
{
    uint32_t bits = sp_bits_of_float(score + 0.0f); /* -0 becomes 0 */

    if (score != score) return 0;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The k-th largest order of n > k scores, found byte by byte; *n_above = the larger ones. */
static uint32_t find_kth(const float *scores, size_t n, size_t k, size_t *n_above)
{
    uint32_t prefix = 0, mask = 0;

    *n_above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        size_t counts[256] = {0};
        uint32_t byte = 255;
        for (size_t i = 0; i < n; i++) {
            uint32_t order = order_of(scores[i]);
            if ((order & mask) == prefix) counts[order >> shift & 255]++;
        }
        for (; *n_above + counts[byte] < k; byte--)
            *n_above += counts[byte];
        prefix |= byte << shift;
        mask |= (uint32_t)255 << shift;
    }
    return prefix;
}

/* Chooses the k best of n > k scores, the last ones among equals; ascending. */
static void choose(uint32_t *chosen, size_t k, const float *scores, size_t n)
{
    size_t n_above, n_equal;
    uint32_t least = find_kth(scores, n, k, &n_above);

    n_equal = k - n_above;
    for (size_t i = n; i-- > 0;) {
        uint32_t order = order_of(scores[i]);
        if (order < least || (order == least && n_equal == 0)) continue;
        if (order == least) n_equal--;
        chosen[--k] = (uint32_t)i;
    }
}

/* Replaces the scores of keys by those of n units of `unit` keys: pools, or blocks. */
static void score_units(const struct index_job *job, float *scores, size_t n, size_t unit)
{
    const struct sp_index_config *c = &job->ws->model->config.index;

    for (size_t i = 0; i < n; i++) {
        const float *of_keys = scores + i * unit;
        size_t n_keys = job->n_keys - i * unit < unit ? job->n_keys - i * unit : unit;
        float score = of_keys[n_keys - 1];
        for (size_t j = 0; c->block && j < n_keys; j++)
            score = of_keys[j] > score ? of_keys[j] : score;
        scores[i] = c->block && i + c->n_local >= n ? INFINITY : score;
    }
}

/* Chooses for row t, which sees n keys. */
static void choose_row(struct index_job *job, size_t t, size_t n)
{
    const struct sp_index_config *c = &job->ws->model->config.index;
    const struct sp_key_index_scratch *s = job->ws->key_index;
    const struct sp_backend *backend = job->ws->backend;
    size_t unit = c->block ? c->block : c->pool ? c->pool : 1, n_units, k = c->top_k / unit;

    job->t = t;
    if (n <= s->n_chosen) return;
    n_units = (n + (c->block ? unit - 1 : 0)) / unit;
    job->n_keys = c->block ? n : n_units * unit;
    for (size_t h = 0; h < c->n_heads; h++) {
        backend->vector->kv[job->cache->type].prepare(s->queries + h * sp_query_size(c->head_dim),
                                                      s->q + t * s->ld_q + h * c->head_dim,
                                                      c->head_dim);
    }
    sp_pool_run(backend->pool, (job->n_keys + SP_SPAN - 1) / SP_SPAN, score_span, job);
    for (size_t choice = 0; choice < s->n_choices; choice++) {
        uint32_t *chosen = s->chosen + (t * s->n_choices + choice) * s->n_chosen;
        float *scores = s->scores + choice * s->ld_scores;
        score_units(job, scores, n_units, unit);
        choose(chosen, k, scores, n_units);
        for (size_t i = k; i-- > 0;)
            for (size_t j = unit; j-- > 0;)
                chosen[i * unit + j] = chosen[i] * (uint32_t)unit + (uint32_t)j;
        for (size_t i = job->n_keys; i < n; i++)
            chosen[c->top_k + i - job->n_keys] = (uint32_t)i;
    }
}

void sp_key_index_choose(struct sp_workspace *ws, unsigned layer, struct sp_acts *latents, size_t n)
{
    const struct sp_key_index_scratch *s = ws->key_index;
    struct index_job job = {.ws = ws, .layer = &ws->model->layers[layer], .latents = latents};
    const struct sp_index_weights *w = &job.layer->index;
    const struct sp_product q = {.w = &w->q, .y = s->q, .ldy = s->ld_q};
    const struct sp_product weights = {.w = &w->weights, .y = s->weights, .ldy = s->ld_weights};
    const struct sp_product in[] = {
        {.w = &w->k, .y = s->k, .ldy = s->ld_k},
        latents ? weights : q,
    };
    const struct sp_product gate = {.w = &w->pool_gate, .y = s->k + w->k.rows, .ldy = s->ld_k};

    sp_backend_multiply(ws->backend, in, 2, &ws->hidden, n);
    /* Later, since the last panel of a key may reach into the gate. */
    if (w->pool_gate.rows) sp_backend_multiply(ws->backend, &gate, 1, &ws->hidden, n);
    if (latents) {
        latents->cols = w->q.cols;
        if (w->input_norm) sp_backend_rows(ws->backend, n, norm_input, &job);
        sp_backend_multiply(ws->backend, &q, 1, latents, n);
    }
    sp_backend_rows(ws->backend, n, prepare_row, &job);
    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n) {
        const struct sp_batch_seq *seq = &ws->seqs[i];
        struct sp_kv *cache = &seq->decoder->caches[ws->model->config.n_layers + layer];
        const float *k = s->k + first * s->ld_k;
        sp_kv_put_head(cache, ws->backend->vector, 0, seq->pos, seq->n, k, k, s->ld_k);
        job.cache = cache;
        job.frequencies = seq->decoder->frequencies[0];
        store_pools(&job, cache, first, seq->n);
        for (size_t t = first; t < first + seq->n; t++)
            choose_row(&job, t, ws->positions[t] + 1);
    }
}

const uint32_t *sp_key_index_rank(struct sp_workspace *ws, const struct sp_kv *cache, size_t t,
                                  size_t n)
{
    struct index_job job = {.ws = ws, .cache = cache};

    choose_row(&job, t, n);
    return ws->key_index->chosen + t * ws->key_index->n_chosen;
}

/* ---- the chosen keys ---- */

/* Copies a block of keys and values. */
static void gather_block(void *context, size_t block, unsigned worker)
{
    const struct sp_gathering *g = context;

    (void)worker;
    for (size_t h = 0; h < g->to->n_heads; h++) {
        const uint32_t *chosen = g->chosen;
        if (chosen) chosen += h * g->n_choices / g->to->n_heads * g->ld;
        for (size_t i = block * SP_KV_BLOCK; i < (block + 1) * SP_KV_BLOCK && i < g->n; i++)
            if (i < g->n_from)
                sp_kv_copy(g->to, i, g->from, chosen ? chosen[i] : i, h);
            else
                sp_kv_copy(g->to, i, g->rest, g->first + i - g->n_from, h);
    }
}

void sp_gather_keys(struct sp_gathering *g, struct sp_pool *pool)
{
    sp_pool_run(pool, (g->n + SP_KV_BLOCK - 1) / SP_KV_BLOCK, gather_block, g);
}

size_t sp_key_index_gather(struct sp_workspace *ws, const struct sp_kv *kv, size_t t)
{
    const struct sp_index_config *c = &ws->model->config.index;
    struct sp_key_index_scratch *s = ws->key_index;
    size_t tail = c->pool ? (ws->positions[t] + 1) % c->pool : 0;
    size_t missing = c->block ? c->block - 1 - ws->positions[t] % c->block : 0;
    size_t n = c->top_k + tail - missing;
    struct sp_gathering g = {.to = &ws->gathered,
                             .from = kv,
                             .chosen = s->chosen + t * s->n_choices * s->n_chosen,
                             .n_choices = s->n_choices,
                             .ld = s->n_chosen,
                             .n_from = n,
                             .n = n};

    ws->gathered.head_dim = kv->head_dim; /* in memory for the largest */
    ws->gathered.key_block_size = kv->key_block_size;
    sp_gather_keys(&g, ws->backend->pool);
    return n;
}
