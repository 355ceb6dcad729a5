/* Mixture of experts: each row is processed by the few experts that its router chose.
 *
 * Rows are grouped by expert, so that an expert's weights are read once a pass. The experts of a
 * pass run as one product with many matrices, so that threads synchronize once a layer instead of
 * once an expert. A row adds the outputs of its experts in ascending order of experts, whatever the
 * other rows do. */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <math.h>
#include <string.h>

/* Least number of slots, i.e. (row, expert) pairs that run at once. It holds all pairs of a
 * verified block; those of a prompt run in several groups. */
enum { MIN_SLOTS = 128 };

/* Which rows of a pass are routed to which expert, and the rows of the experts that run at once. An
 * expert's slot is the place of one row in its input and output. */
struct sp_experts_scratch {
    unsigned max_used;      /* most experts of a row */
    float *scores;          /* [max_rows][ld_scores] router logits, then scores */
    float *selection;       /* [max_rows][ld_scores] scores to select by, if not `scores` */
    float *group_selection; /* [max_rows][n_groups] scores of groups of experts */
    size_t ld_scores;
    struct sp_top_logit *best;   /* [max_rows][max_used] the scores of these, descending */
    unsigned *chosen;            /* [max_rows][max_used] experts of a row, ascending */
    float *weights;              /* [max_rows][max_used] weights of the chosen experts */
    size_t *slots;               /* [max_rows][max_used] slots of the row in the chosen experts */
    size_t n_choices;            /* most experts of a layer, and choices that return their input */
    size_t *n_rows;              /* [n_choices] rows of the pass that chose the expert */
    size_t n_slots;              /* at least max_rows */
    struct sp_acts latent;       /* [max_rows][n_latent], or empty */
    struct sp_acts input;        /* [n_slots] normed rows, grouped by expert */
    struct sp_acts ffn;          /* [n_slots] gated rows, input of down */
    float *up;                   /* [n_slots][ld_ffn] */
    float *y;                    /* [n_slots][ld_x] outputs of the experts */
    struct sp_row_group *groups; /* [n_slots] the experts that run and their rows */
    struct sp_acts router_input; /* [max_rows] input of the router, if not ws->hidden */
    float *shared;               /* [max_rows][ld_x] output of the shared expert */
    float *router_state; /* [max_rows][ld_x] r of struct sp_router_mlp, of the layer before */
    float *shared_gate;  /* [max_rows][ld_shared_gate] its weight before the sigmoid */
    size_t ld_shared_gate;
};

static void open_slots(struct sp_workspace *ws, size_t n_ffn)
{
    struct sp_experts_scratch *e = ws->experts;
    size_t n = ws->max_rows, hidden = ws->model->config.n_hidden;
    size_t latent = ws->model->config.n_latent;

    if (n < MIN_SLOTS) n = MIN_SLOTS;
    e->n_slots = n;
    if (latent) e->latent = sp_arena_acts(&ws->memory, ws->max_rows, latent);
    e->input = sp_arena_acts(&ws->memory, n, latent ? latent : hidden);
    e->ffn = sp_arena_acts(&ws->memory, n, n_ffn);
    e->up = sp_arena_rows(&ws->memory, n, ws->ld_ffn);
    e->y = sp_arena_rows(&ws->memory, n, ws->ld_x);
    e->groups = sp_arena_new(&ws->memory, n, sizeof *e->groups);
}

void sp_experts_open(struct sp_workspace *ws)
{
    const struct sp_config *config = &ws->model->config;
    size_t rows = ws->max_rows;
    struct sp_experts_scratch *e;
    unsigned n_experts = 0, max_used = 0, n_ffn = 0, n_router = config->routing.n_hidden;

    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_layer_config *l = &config->layers[i];
        if (l->n_experts == 0) continue;
        if (l->n_experts + config->routing.n_zero > n_experts)
            n_experts = l->n_experts + config->routing.n_zero;
        if (l->n_experts_used > max_used) max_used = l->n_experts_used;
        if (l->n_ffn > n_ffn) n_ffn = l->n_ffn;
    }
    if (n_experts == 0) return;
    if ((e = ws->experts = sp_arena_new(&ws->memory, 1, sizeof *e)) == NULL) return;
    e->max_used = max_used;
    e->ld_scores = sp_matrix_ld(n_experts);
    e->scores = sp_arena_rows(&ws->memory, rows, e->ld_scores);
    e->selection = sp_arena_rows(&ws->memory, rows, e->ld_scores);
    e->group_selection =
        sp_arena_new(&ws->memory, rows * config->routing.n_groups, sizeof *e->group_selection);
    e->best = sp_arena_new(&ws->memory, rows * max_used, sizeof *e->best);
    e->chosen = sp_arena_new(&ws->memory, rows * max_used, sizeof *e->chosen);
    e->weights = sp_arena_new(&ws->memory, rows * max_used, sizeof *e->weights);
    e->slots = sp_arena_new(&ws->memory, rows * max_used, sizeof *e->slots);
    e->n_choices = n_experts;
    e->n_rows = sp_arena_new(&ws->memory, n_experts, sizeof *e->n_rows);
    open_slots(ws, n_ffn);
    e->shared = sp_arena_rows(&ws->memory, rows, ws->ld_x);
    e->ld_shared_gate = sp_matrix_ld(1);
    e->shared_gate = sp_arena_rows(&ws->memory, rows, e->ld_shared_gate);
    e->router_state = sp_arena_rows(&ws->memory, n_router ? rows : 0, ws->ld_x);
    e->router_input = sp_arena_acts(&ws->memory, rows, n_router ? n_router : config->n_hidden);
}

/* The rows of a pass in one layer. */
struct route_job {
    struct sp_workspace *ws;
    const struct sp_layer *layer;
    const struct sp_layer_config *config;
    size_t n;
    const struct sp_acts *input; /* of the experts, [n] */
    unsigned first, last;        /* experts first..last-1 run now */
    unsigned step;               /* of the router's MLP */
};

static void route_row(void *context, size_t t)
{
    const struct route_job *job = context;
    const struct sp_experts_scratch *e = job->ws->experts;

    sp_route(&(struct sp_route){
        .ws = job->ws,
        .layer = job->layer,
        .config = job->config,
        .routing = &job->ws->model->config.routing,
        .id = job->ws->ids[t],
        .scores = e->scores + t * e->ld_scores,
        .selection = e->selection + t * e->ld_scores,
        .group_scores = e->group_selection + t * job->ws->model->config.routing.n_groups,
        .best = e->best + t * e->max_used,
        .chosen = e->chosen + t * e->max_used,
        .weights = e->weights + t * e->max_used,
    });
}

/* Gemma 4's router reads the residual stream itself, normed without weight and scaled. */
static void prepare_router_row(void *context, size_t t)
{
    const struct route_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    float *row = ws->experts->router_input.x + t * ws->experts->router_input.ld;
    size_t n = ws->model->config.n_hidden;

    vector->rms_norm(row, ws->x + t * ws->ld_x, NULL, n, (float)ws->model->config.norm_eps);
    vector->mul(row, job->layer->router_scale, n);
    vector->scale(row, (float)(1 / sqrt((double)n)), n);
}

/* Makes the input of the router, or of its next step, of what a product left in e->shared. */
static void step_router_row(void *context, size_t t)
{
    const struct route_job *job = context;
    const struct sp_vector *vector = job->ws->backend->vector;
    const struct sp_experts_scratch *e = job->ws->experts;
    const struct sp_router_mlp *w = &job->layer->router_mlp;
    float *y = e->shared + t * job->ws->ld_x, *state = e->router_state + t * job->ws->ld_x;
    float *row = e->router_input.x + t * e->router_input.ld;
    size_t n = e->router_input.cols;

    for (size_t i = 0; job->step && i < n; i++)
        row[i] = sp_gelu_erff(y[i]);
    if (job->step) return;
    if (w->scale) vector->mul_add(y, w->scale, state, n);
    memcpy(state, y, n * sizeof *state);
    vector->rms_norm(row, y, w->norm, n, (float)job->ws->model->config.norm_eps);
}

static void run_router_mlp(struct route_job *job)
{
    struct sp_workspace *ws = job->ws;
    struct sp_experts_scratch *e = ws->experts;
    const struct sp_router_mlp *w = &job->layer->router_mlp;

    for (job->step = 0; job->step < 3; job->step++) {
        sp_backend_product(ws->backend, e->shared, ws->ld_x, &w->w[job->step], w->bias[job->step],
                           job->step ? &e->router_input : &ws->hidden, job->n);
        sp_backend_rows(ws->backend, job->n, step_router_row, job);
    }
}

/* Gemma 4's experts read the residual stream with a norm of their own. */
static void prepare_expert_row(void *context, size_t t)
{
    const struct route_job *job = context;
    struct sp_workspace *ws = job->ws;

    ws->backend->vector->rms_norm(ws->hidden.x + t * ws->hidden.ld, ws->x + t * ws->ld_x,
                                  job->layer->experts_norm, ws->model->config.n_hidden,
                                  (float)ws->model->config.norm_eps);
}

/* Runs the shared expert on the rows of ws->hidden. */
static void run_shared(struct sp_workspace *ws, const struct sp_layer *l, size_t n)
{
    struct sp_experts_scratch *e = ws->experts;
    struct sp_product in[3] = {
        [2] = {.w = &l->shared_weight, .y = e->shared_gate, .ldy = e->ld_shared_gate}};
    size_t n_in =
        sp_mlp_products(in, ws, &l->shared_gate, &l->shared_up, &l->limits[1], &ws->ffn, ws->up);

    sp_backend_prepare(ws->backend, &ws->ffn, &l->shared_down);
    if (n_in == 2 && l->shared_weight.rows) n_in = 3;
    sp_backend_multiply(ws->backend, in, n_in, &ws->hidden, n);
    sp_backend_product(ws->backend, e->shared, ws->ld_x, &l->shared_down, NULL, &ws->ffn, n);
}

/* y += sigmoid(w . x) * shared, or shared or half of it; or y = norm(y) + norm(shared). */
static void add_shared_row(void *context, size_t t)
{
    const struct route_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    size_t n = ws->model->config.n_hidden;
    float *y = ws->y + t * ws->ld_x, *shared = ws->experts->shared + t * ws->ld_x;
    float eps = (float)ws->model->config.norm_eps;

    if (job->config->defers_experts) {
        memcpy(ws->deferred + t * ws->ld_x, y, n * sizeof *y);
        memcpy(y, shared, n * sizeof *y);
    } else if (ws->model->config.expert_norms) {
        vector->rms_norm(y, y, job->layer->experts_post, n, eps);
        vector->rms_norm(shared, shared, job->layer->shared_post, n, eps);
        vector->add(y, shared, n);
    } else {
        const float *gate = ws->experts->shared_gate + t * ws->experts->ld_shared_gate;
        float plain = ws->model->config.routing.shared_half ? 0.5f : 1;
        vector->fma(y, shared, job->layer->shared_weight.rows ? sp_sigmoidf(*gate) : plain, n);
    }
}

static void count_rows(const struct route_job *job)
{
    struct sp_experts_scratch *e = job->ws->experts;

    memset(e->n_rows, 0, e->n_choices * sizeof *e->n_rows);
    for (size_t t = 0; t < job->n; t++)
        for (unsigned i = 0; i < job->config->n_experts_used; i++)
            e->n_rows[e->chosen[t * e->max_used + i]]++;
}

static bool is_running(const struct route_job *job, unsigned id)
{
    return id >= job->first && id < job->last;
}

/* True for a single row, which all its experts read in place. */
static bool is_single(const struct route_job *job)
{
    return job->n == 1 && !job->ws->model->config.routing.weighs_input;
}

/* Selects experts from job->last on, as many as have slots for their rows. Returns the number of
 * those that have rows. */
static size_t choose_groups(struct route_job *job, size_t *n_slots)
{
    struct sp_experts_scratch *e = job->ws->experts;
    size_t n_groups = 0, slot = 0;

    job->first = job->last;
    for (; job->last < job->config->n_experts; job->last++) {
        size_t n = e->n_rows[job->last];
        if (slot + n > e->n_slots) break;
        if (n == 0) continue;
        e->groups[n_groups++] =
            (struct sp_row_group){job->last, is_single(job) ? 0 : slot, slot, n};
        slot += n;
    }
    *n_slots = slot;
    return n_groups;
}

/* Assigns each row a slot in each of its running experts; an expert's slots are in row order. */
static void assign_slots(const struct route_job *job, size_t n_groups)
{
    struct sp_experts_scratch *e = job->ws->experts;

    for (size_t i = 0; i < n_groups; i++)
        e->n_rows[e->groups[i].matrix] = e->groups[i].to; /* from here on the next free slot */
    for (size_t t = 0; t < job->n; t++) {
        for (size_t i = t * e->max_used; i < t * e->max_used + job->config->n_experts_used; i++)
            if (is_running(job, e->chosen[i])) e->slots[i] = e->n_rows[e->chosen[i]]++;
    }
}

/* Clears row t of the output and copies the row to the slots of its experts. */
static void gather_row(void *context, size_t t)
{
    const struct route_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_experts_scratch *e = ws->experts;
    size_t n = job->input->cols;

    if (job->first == 0) memset(ws->y + t * ws->ld_x, 0, n * sizeof(float));
    if (is_single(job)) return;
    for (size_t i = t * e->max_used; i < t * e->max_used + job->config->n_experts_used; i++) {
        if (!is_running(job, e->chosen[i])) continue;
        float *to = e->input.x + e->slots[i] * e->input.ld;
        memcpy(to, job->input->x + t * job->input->ld, n * sizeof *to);
        if (ws->model->config.routing.weighs_input)
            ws->backend->vector->scale(to, e->weights[i], n);
    }
}

static void add_row(void *context, size_t t)
{
    const struct route_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_experts_scratch *e = ws->experts;
    bool weighed = ws->model->config.routing.weighs_input;

    for (size_t i = t * e->max_used; i < t * e->max_used + job->config->n_experts_used; i++) {
        if (!is_running(job, e->chosen[i])) continue;
        ws->backend->vector->fma(ws->y + t * ws->ld_x, e->y + e->slots[i] * ws->ld_x,
                                 weighed ? 1 : e->weights[i], job->input->cols);
    }
}

/* Adds the choices of row t that return their input. */
static void add_zero_row(void *context, size_t t)
{
    const struct route_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_experts_scratch *e = ws->experts;

    for (size_t i = t * e->max_used; i < t * e->max_used + job->config->n_experts_used; i++) {
        if (e->chosen[i] < job->config->n_experts) continue;
        ws->backend->vector->fma(ws->y + t * ws->ld_x, ws->hidden.x + t * ws->hidden.ld,
                                 e->weights[i], ws->model->config.n_hidden);
    }
}

static void run_groups(const struct route_job *job, size_t n_slots, size_t n_groups)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_layer *l = job->layer;
    struct sp_experts_scratch *e = ws->experts;
    struct sp_product in[2];
    size_t n_in = sp_mlp_products(in, ws, &l->gate, &l->up, &l->limits[0], &e->ffn, e->up);
    struct sp_product out = {.w = &l->down, .bias = l->down_bias, .y = e->y, .ldy = ws->ld_x};
    const struct sp_acts *input = is_single(job) ? job->input : &e->input;

    in[0].bias = n_in == 1 ? l->up_bias : l->gate_bias;
    in[1].bias = l->up_bias;
    sp_backend_prepare(ws->backend, &e->ffn, &l->down);
    sp_backend_multiply_groups(ws->backend, in, n_in, input, is_single(job) ? 1 : n_slots,
                               e->groups, n_groups);
    for (size_t i = 0; i < n_groups; i++)
        e->groups[i].from = e->groups[i].to;
    sp_backend_observe(ws->backend, &out, 1, &e->ffn, n_slots, e->groups, n_groups);
    sp_backend_multiply_groups(ws->backend, &out, 1, &e->ffn, n_slots, e->groups, n_groups);
}

static void run_experts(struct route_job *job)
{
    const struct sp_backend *backend = job->ws->backend;

    count_rows(job);
    while (job->last < job->config->n_experts) {
        size_t n_slots, n_groups = choose_groups(job, &n_slots);
        assign_slots(job, n_groups);
        sp_backend_rows(backend, job->n, gather_row, job);
        if (n_groups) run_groups(job, n_slots, n_groups);
        sp_backend_rows(backend, job->n, add_row, job);
    }
}

void sp_experts_run(struct sp_workspace *ws, const struct sp_layer *layer, size_t n)
{
    struct sp_experts_scratch *e = ws->experts;
    bool latent = layer->latent_in.rows != 0;
    struct route_job job = {.ws = ws,
                            .layer = layer,
                            .config = layer->config,
                            .n = n,
                            .input = latent ? &e->latent : &ws->hidden};
    const struct sp_product up_gate[] = {{.w = &layer->up}, {.w = &layer->gate}};
    bool mlp = layer->router_mlp.norm != NULL;
    const struct sp_acts *router_input =
        layer->router_scale || mlp ? &e->router_input : &ws->hidden;

    if (layer->router_scale) sp_backend_rows(ws->backend, n, prepare_router_row, &job);
    if (mlp) run_router_mlp(&job);
    sp_backend_product(ws->backend, e->scores, e->ld_scores, &layer->router, layer->router_bias,
                       router_input, n);
    sp_backend_rows(ws->backend, n, route_row, &job);
    if (layer->shared_down.rows) run_shared(ws, layer, n);
    if (layer->experts_norm) sp_backend_rows(ws->backend, n, prepare_expert_row, &job);
    if (latent)
        sp_backend_product(ws->backend, e->latent.x, e->latent.ld, &layer->latent_in, NULL,
                           &ws->hidden, n);
    /* All experts observe all rows: too few rows of a text reach a single expert. */
    sp_backend_observe(ws->backend, up_gate, layer->gate.rows ? 2 : 1, job.input, n, NULL, 0);
    run_experts(&job);
    for (size_t t = 0; latent && t < n; t++)
        memcpy(e->latent.x + t * e->latent.ld, ws->y + t * ws->ld_x,
               e->latent.cols * sizeof(float));
    if (latent)
        sp_backend_product(ws->backend, ws->y, ws->ld_x, &layer->latent_out, NULL, &e->latent, n);
    if (ws->model->config.routing.n_zero && !ws->model->config.routing.zero_skips)
        sp_backend_rows(ws->backend, n, add_zero_row, &job);
    if (layer->shared_down.rows) sp_backend_rows(ws->backend, n, add_shared_row, &job);
}
