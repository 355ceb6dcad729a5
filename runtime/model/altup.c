/* AltUp (arXiv 2301.13310), LAuReL (arXiv 2411.07501) and sparse gates, as in the gemma3n modeling
 * file of transformers 5.24. With n streams X_i:
 *
 *   m(x) = tanh(W_router (norm(x) / H));  P_i = X_i + sum_j C_ij X_j,  C = W_predict m(X_0)
 *   layer:  u = norm_in(P_0);  h = (P_0 + attention + u + norm(W_right W_left u)) / sqrt 2;
 *           out = h + MLP(h)
 *   X_i = P_i + (out - P_0) (1 + c_i),  c = W_correct m(out)
 *
 * A stream begins and ends with a matrix of its own, scaled to the size of the first one; the
 * result is the mean. The sums along a row are double, so all instruction sets share the code. */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <math.h>
#include <string.h>

struct sp_altup_scratch {
    struct sp_acts input; /* [max_rows][H] of products */
    struct sp_acts low;   /* [max_rows][laurel rank] */
    float *laurel;        /* [max_rows][ld_x] */
    float *routes;        /* [max_rows][ld_routes] */
    float *streams;       /* [n_streams][max_rows][ld_x]; the first one: P_0 */
    size_t ld_routes;
};

void sp_altup_open(struct sp_workspace *ws)
{
    const struct sp_config *config = &ws->model->config;
    struct sp_altup_scratch *s;
    size_t rows = ws->max_rows;

    if (config->n_streams == 0) return;
    if ((s = ws->altup = sp_arena_new(&ws->memory, 1, sizeof *s)) == NULL) return;
    s->ld_routes = sp_matrix_ld(config->n_streams);
    s->input = sp_arena_acts(&ws->memory, rows, config->n_hidden);
    s->low = sp_arena_acts(&ws->memory, rows, config->laurel_rank);
    s->laurel = sp_arena_rows(&ws->memory, rows, ws->ld_x);
    s->routes = sp_arena_rows(&ws->memory, rows, s->ld_routes);
    s->streams = sp_arena_rows(&ws->memory, config->n_streams * rows, ws->ld_x);
}

struct altup_job {
    struct sp_workspace *ws;
    const struct sp_layer *layer;
    float *rows; /* [n][ld_x] that a row function works on */
};

static float *stream_of(const struct sp_workspace *ws, size_t i)
{
    return ws->altup->streams + i * ws->max_rows * ws->ld_x;
}

static double mean_square(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sum / (double)n;
}

/* Gives a row the root mean square of that of ws->x. */
static void match_row(void *context, size_t t)
{
    const struct altup_job *job = context;
    const struct sp_workspace *ws = job->ws;
    float *y = job->rows + t * ws->ld_x;
    size_t n = ws->model->config.n_hidden;
    double own = mean_square(y, n);

    if (own < 1e-5) own = 1e-5;
    ws->backend->vector->scale(y, (float)sqrt(mean_square(ws->x + t * ws->ld_x, n) / own), n);
}

/* to = w * from, in the size of ws->x. */
static void project(struct sp_workspace *ws, float *to, const struct sp_matrix *w,
                    const float *from, size_t n)
{
    struct sp_acts *input = &ws->altup->input;
    struct altup_job job = {.ws = ws, .rows = to};

    for (size_t t = 0; t < n; t++)
        memcpy(input->x + t * input->ld, from + t * ws->ld_x, input->cols * sizeof *from);
    sp_backend_product(ws->backend, to, ws->ld_x, w, NULL, input, n);
    sp_backend_rows(ws->backend, n, match_row, &job);
}

void sp_altup_begin(struct sp_workspace *ws, size_t n)
{
    for (unsigned i = 1; i < ws->model->config.n_streams; i++)
        project(ws, stream_of(ws, i), &ws->model->streams_in[i], ws->x, n);
}

void sp_altup_end(struct sp_workspace *ws, size_t n)
{
    const struct sp_config *config = &ws->model->config;
    const struct sp_vector *vector = ws->backend->vector;

    for (unsigned i = 1; i < config->n_streams; i++)
        project(ws, stream_of(ws, i), &ws->model->streams_out[i], stream_of(ws, i), n);
    for (size_t t = 0; t < n; t++) {
        float *x = ws->x + t * ws->ld_x;
        for (unsigned i = 1; i < config->n_streams; i++)
            vector->add(x, stream_of(ws, i) + t * ws->ld_x, config->n_hidden);
        vector->scale(x, 1.0f / (float)config->n_streams, config->n_hidden);
    }
}

static void norm_row(void *context, size_t t)
{
    const struct altup_job *job = context;
    const struct sp_workspace *ws = job->ws;
    float *to = ws->altup->input.x + t * ws->altup->input.ld;
    size_t n = ws->model->config.n_hidden;

    ws->backend->vector->rms_norm(to, ws->x + t * ws->ld_x, job->layer->altup.router_norm, n,
                                  (float)ws->model->config.norm_eps);
    ws->backend->vector->scale(to, 1.0f / (float)n, n);
}

/* routes = W_router (norm(x) / H) */
static void route(struct altup_job *job, size_t n)
{
    struct sp_workspace *ws = job->ws;
    struct sp_altup_scratch *s = ws->altup;

    sp_backend_rows(ws->backend, n, norm_row, job);
    sp_backend_product(ws->backend, s->routes, s->ld_routes, &job->layer->altup.router, NULL,
                       &s->input, n);
}

/* out = W tanh(routes of row t) with n_out rows of W. */
static void mix(float *out, const struct sp_workspace *ws, const float *w, size_t n_out, size_t t)
{
    const float *routes = ws->altup->routes + t * ws->altup->ld_routes;
    size_t n = ws->model->config.n_streams;

    for (size_t i = 0; i < n_out; i++) {
        out[i] = 0;
        for (size_t p = 0; p < n; p++)
            out[i] += w[i * n + p] * sp_tanhf(routes[p]);
    }
}

static void predict_row(void *context, size_t t)
{
    const struct altup_job *job = context;
    struct sp_workspace *ws = job->ws;
    size_t n = ws->model->config.n_streams;
    float c[SP_MAX_STREAMS * SP_MAX_STREAMS], *x[SP_MAX_STREAMS] = {ws->x + t * ws->ld_x};

    mix(c, ws, job->layer->altup.predict, n * n, t);
    for (size_t i = 1; i < n; i++)
        x[i] = stream_of(ws, i) + t * ws->ld_x;
    for (size_t h = 0; h < ws->model->config.n_hidden; h++) {
        float made[SP_MAX_STREAMS];
        for (size_t i = 0; i < n; i++) {
            made[i] = x[i][h];
            for (size_t j = 0; j < n; j++)
                made[i] += c[i * n + j] * x[j][h];
        }
        for (size_t i = 0; i < n; i++)
            x[i][h] = made[i];
    }
    memcpy(stream_of(ws, 0) + t * ws->ld_x, x[0], ws->model->config.n_hidden * sizeof *x[0]);
}

void sp_altup_predict(struct sp_workspace *ws, const struct sp_layer *layer, size_t n)
{
    struct altup_job job = {.ws = ws, .layer = layer};

    route(&job, n);
    sp_backend_rows(ws->backend, n, predict_row, &job);
}

static void correct_row(void *context, size_t t)
{
    const struct altup_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    size_t n = ws->model->config.n_streams, width = ws->model->config.n_hidden;
    float c[SP_MAX_STREAMS], *x = ws->x + t * ws->ld_x, *first = stream_of(ws, 0) + t * ws->ld_x;

    mix(c, ws, job->layer->altup.correct, n, t);
    vector->fma(x, first, -1, width);
    for (size_t i = 0; i < n; i++)
        vector->fma(stream_of(ws, i) + t * ws->ld_x, x, c[i] + 1, width);
    memcpy(x, first, width * sizeof *x);
}

/* The streams but the first += norm of y. */
static void add_row(void *context, size_t t)
{
    const struct altup_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    size_t width = ws->model->config.n_hidden;
    float *y = ws->y + t * ws->ld_x;

    vector->rms_norm(y, y, job->layer->per_layer_post, width, (float)ws->model->config.norm_eps);
    for (size_t i = 1; i < ws->model->config.n_streams; i++)
        vector->add(stream_of(ws, i) + t * ws->ld_x, y, width);
}

void sp_altup_correct(struct sp_workspace *ws, unsigned layer, size_t n)
{
    struct altup_job job = {.ws = ws, .layer = &ws->model->layers[layer]};

    route(&job, n);
    sp_backend_rows(ws->backend, n, correct_row, &job);
    sp_per_layer_run(ws, layer, n);
    sp_backend_rows(ws->backend, n, add_row, &job);
}

/* ---- LAuReL ---- */

static void laurel_row(void *context, size_t t)
{
    const struct altup_job *job = context;
    struct sp_workspace *ws = job->ws;
    float *y = ws->altup->laurel + t * ws->ld_x;
    size_t n = ws->model->config.n_hidden;

    ws->backend->vector->rms_norm(y, y, job->layer->altup.laurel_norm, n,
                                  (float)ws->model->config.norm_eps);
    ws->backend->vector->add(y, ws->hidden.x + t * ws->hidden.ld, n);
}

void sp_laurel_run(struct sp_workspace *ws, const struct sp_layer *layer, size_t n)
{
    struct sp_altup_scratch *s = ws->altup;
    struct altup_job job = {.ws = ws, .layer = layer};
    const struct sp_altup_weights *w = &layer->altup;

    sp_backend_product(ws->backend, s->low.x, s->low.ld, &w->left, NULL, &ws->hidden, n);
    sp_backend_product(ws->backend, s->laurel, ws->ld_x, &w->right, NULL, &s->low, n);
    sp_backend_rows(ws->backend, n, laurel_row, &job);
}

void sp_laurel_add(struct sp_workspace *ws, size_t t)
{
    float *x = ws->x + t * ws->ld_x;
    size_t n = ws->model->config.n_hidden;

    ws->backend->vector->add(x, ws->altup->laurel + t * ws->ld_x, n);
    ws->backend->vector->scale(x, (float)sqrt(0.5), n);
}

/* ---- sparse gates ---- */

/* gate = gelu(max(gate - (mean + cutoff * deviation), 0)) * up */
static void cut_row(void *context, size_t t)
{
    const struct altup_job *job = context;
    struct sp_workspace *ws = job->ws;
    float *gate = ws->ffn.x + t * ws->ffn.ld;
    size_t n = ws->ffn.cols;
    double mean = 0, square = 0, cut;

    for (size_t i = 0; i < n; i++)
        mean += gate[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++)
        square += (gate[i] - mean) * (gate[i] - mean);
    cut = mean + job->layer->altup.cutoff * sqrt(square / (double)n);
    for (size_t i = 0; i < n; i++)
        gate[i] = gate[i] > cut ? (float)(gate[i] - cut) : 0;
    ws->backend->vector->gates[SP_GELU_TANH](gate, ws->up + t * ws->ld_ffn, n);
}

void sp_sparse_gate_run(struct sp_workspace *ws, const struct sp_layer *layer, size_t n)
{
    struct altup_job job = {.ws = ws, .layer = layer};
    struct sp_product products[] = {
        {.w = &layer->gate, .y = ws->ffn.x, .ldy = ws->ffn.ld},
        {.w = &layer->up, .y = ws->up, .ldy = ws->ld_ffn},
    };

    ws->ffn.coded = false;
    sp_backend_multiply(ws->backend, products, 2, &ws->hidden, n);
    sp_backend_rows(ws->backend, n, cut_row, &job);
}
