/* Per-layer token embeddings (Gemma 4 E2B and E4B; gemma4 modeling file in transformers).
 *
 * Every layer has a small token embedding of its own. Before the first layer:
 *
 *   mixed[l] = (norm((W e * H^-1/2)[l]) + table[id][l] * sqrt(P)) * 2^-1/2,   P = n_per_layer
 *
 * and after layer l's MLP:  x += norm(W_out (act(W_gate x) * mixed[l])). The table is as large as
 * the rest of the model, so its rows are read from the mapped file. */
#include "runtime/model/sublayers.h"

#include <math.h>
#include <string.h>

struct sp_per_layer_scratch {
    size_t width; /* n_layers * n_per_layer */
    size_t ld;
    float *mixed;         /* [max_rows][ld] embeddings of all layers */
    float *table;         /* [max_rows][ld] rows of the table */
    struct sp_acts x;     /* [max_rows][H] residual stream or embeddings, input of products */
    struct sp_acts gated; /* [max_rows][n_per_layer] */
};

void sp_per_layer_open(struct sp_workspace *ws)
{
    const struct sp_config *config = &ws->model->config;
    size_t rows = ws->max_rows;
    struct sp_per_layer_scratch *s;

    if (config->n_per_layer == 0) return;
    if ((s = ws->per_layer = sp_arena_new(&ws->memory, 1, sizeof *s)) == NULL) return;
    s->width = (size_t)config->n_layers * config->n_per_layer;
    s->ld = sp_matrix_ld(s->width);
    s->mixed = sp_arena_rows(&ws->memory, rows, s->ld);
    s->table = sp_arena_rows(&ws->memory, rows, s->ld);
    s->x = sp_arena_acts(&ws->memory, rows, config->n_hidden);
    s->gated = sp_arena_acts(&ws->memory, rows, config->n_per_layer);
}

struct embed_job {
    struct sp_workspace *ws;
    const uint32_t *ids;
};

static void mix_row(void *context, size_t t)
{
    const struct embed_job *job = context;
    const struct sp_workspace *ws = job->ws;
    const struct sp_config *config = &ws->model->config;
    const struct sp_matrix *w = &ws->model->per_layer_embedding;
    const struct sp_vector *vector = ws->backend->vector;
    struct sp_per_layer_scratch *s = ws->per_layer;
    float *mixed = s->mixed + t * s->ld, *table = s->table + t * s->ld;

    sp_backend_read_row(ws->backend, table, w, job->ids[t] < w->rows ? job->ids[t] : 0);
    vector->scale(table, (float)sqrt((double)config->n_per_layer), s->width);
    vector->scale(mixed, (float)(1 / sqrt((double)config->n_hidden)), s->width);
    for (size_t l = 0; l < config->n_layers; l++) {
        float *slice = mixed + l * config->n_per_layer;
        vector->rms_norm(slice, slice, ws->model->per_layer_norm, config->n_per_layer,
                         (float)config->norm_eps);
    }
    vector->add(mixed, table, s->width);
    vector->scale(mixed, (float)sqrt(0.5), s->width);
}

static void copy_rows(struct sp_workspace *ws, size_t n)
{
    for (size_t t = 0; t < n; t++) {
        memcpy(ws->per_layer->x.x + t * ws->per_layer->x.ld, ws->x + t * ws->ld_x,
               ws->model->config.n_hidden * sizeof(float));
    }
}

void sp_per_layer_embed(struct sp_workspace *ws, const uint32_t *ids, size_t n)
{
    struct sp_per_layer_scratch *s = ws->per_layer;
    struct embed_job job = {ws, ids};

    copy_rows(ws, n);
    sp_backend_product(ws->backend, s->mixed, s->ld, &ws->model->per_layer_projection, NULL, &s->x,
                       n);
    sp_backend_rows(ws->backend, n, mix_row, &job);
}

void sp_per_layer_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    const struct sp_config *config = &ws->model->config;
    struct sp_per_layer_scratch *s = ws->per_layer;
    struct sp_product gate = {.w = &l->per_layer_gate,
                              .y = s->gated.x,
                              .ldy = s->gated.ld,
                              .gated = true,
                              .activation = config->activation,
                              .factors = s->mixed + layer * config->n_per_layer,
                              .ld_factors = s->ld};

    copy_rows(ws, n);
    for (size_t t = 0; l->altup.output_scale && t < n; t++)
        ws->backend->vector->mul(s->x.x + t * s->x.ld, l->altup.output_scale, config->n_hidden);
    sp_backend_multiply(ws->backend, &gate, 1, &s->x, n);
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &l->per_layer_out, NULL, &s->gated, n);
}
