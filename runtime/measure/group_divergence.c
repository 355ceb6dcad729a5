#include "format/base/mem.h"
#include "runtime/measure/group_divergence.h"
#include "quantize/types/float_cast.h"
#include "runtime/spectool_measure.h"
#include "runtime/vector/fmath.h"
#include "runtime/vector/vector.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The output distributions p of the unchanged model at some positions. What is compared with are
 * the kept numbers, which add up to nearly 1; that changes a divergence by less than 1e-6. */
struct reference {
    uint16_t *probs;   /* [n_rows][n] bf16; owned */
    double *sums;      /* [n_rows] of the probabilities; owned */
    double *entropies; /* [n_rows] -sum of p ln p; owned */
    size_t n;          /* logits of a row */
};

/* Sets row i to the distribution of logits[n]. Returns false if one is not finite. scratch: [n
 * rounded up to a multiple of 16], aligned to 64 bytes. Several threads may set different rows. */
static bool set_reference(struct reference *reference, size_t i, const struct sp_vector *vector,
                          const float *logits, float *scratch)
{
    uint16_t *probs = reference->probs + i * reference->n;
    float max, sum;
    double all = 0, entropy = 0;

    if (vector->argmax(logits, reference->n) == SIZE_MAX) return false;
    memcpy(scratch, logits, reference->n * sizeof *scratch);
    vector->softmax(scratch, 0, reference->n, &max, &sum);
    for (size_t k = 0; k < reference->n; k++) {
        double p;
        probs[k] = sp_bf16_of_f32(scratch[k] / sum);
        if ((p = (double)sp_f32_of_bf16(probs[k])) == 0) continue;
        all += p;
        entropy -= p * sp_log(p);
    }
    reference->sums[i] = all;
    reference->entropies[i] = entropy;
    return true;
}

/* The sum of p times logit, in four running sums. */
static double weigh(const uint16_t *probs, const float *logits, size_t n)
{
    double sums[4] = {0};
    size_t k = 0;

    for (; k + 4 <= n; k += 4)
        for (size_t j = 0; j < 4; j++)
            sums[j] += (double)sp_f32_of_bf16(probs[k + j]) * (double)logits[k + j];
    for (; k < n; k++)
        sums[0] += (double)sp_f32_of_bf16(probs[k]) * (double)logits[k];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* *divergence = KL(row i || the distribution of these logits), in nats; a rounding error below zero
 * becomes zero. Otherwise as set_reference. With P the sum of the kept p, row i is p / P, and
 *
 *   KL = ln sum e^logit - (sum of p logit + entropy) / P - ln P */
static bool compare(double *divergence, const struct reference *reference, size_t i,
                    const struct sp_vector *vector, const float *logits, float *scratch)
{
    double mean, all = reference->sums[i];
    float max, sum;

    if (vector->argmax(logits, reference->n) == SIZE_MAX) return false;
    mean = weigh(reference->probs + i * reference->n, logits, reference->n);
    memcpy(scratch, logits, reference->n * sizeof *scratch);
    vector->softmax(scratch, 0, reference->n, &max, &sum);
    *divergence =
        (double)max + sp_log((double)sum) - (mean + reference->entropies[i]) / all - sp_log(all);
    if (*divergence < 0) *divergence = 0;
    return true;
}

enum { LOGIT_ROWS = 32 };

/* A sequence of its own. Its first quarter, whose tokens have little context, is not scored. */
struct window {
    struct sp_decoder *decoder; /* owned */
    uint32_t *ids;              /* [n] owned */
    float *x;                   /* [n][H] residual stream that enters layer `d->layer`; owned */
    size_t n, first_scored;
    size_t row; /* row of the reference where its scored tokens begin */
};

struct sp_group_divergence {
    struct sp_package *package;
    const struct sp_input_stats *stats; /* borrowed; NULL: none */
    struct window windows[SP_MAX_DIVERGENCE_WINDOWS];
    size_t n_windows, n_scored;
    unsigned layer; /* the layer that the windows' x enters */
    struct reference reference;
    struct sp_encoder encoder;
    struct sp_matrix_group *groups;
    size_t n_groups;
    size_t *matrices; /* [n_matrices] matrices of the model, group by group */
    size_t n_matrices;
    float *scratch; /* [threads][ld_scratch] */
    size_t ld_scratch;
    /* Rows that are being scored, first_row.. of the reference. */
    const struct sp_decoder *scoring;
    size_t first_row;
    bool is_reference;
    bool finite[LOGIT_ROWS];
    double divergences[LOGIT_ROWS];
};

/* ---- windows ---- */

/* The window of `size` tokens, with the text's lead, around token `at` of all texts. */
static struct sp_text_window window_at(const struct sp_package *package,
                                       const struct sp_calibration_text *texts, size_t at,
                                       size_t size)
{
    struct sp_text_window w = {0};
    const struct sp_calibration_text *text = texts;

    while (at >= text->n)
        at -= text++->n;
    w.text = (size_t)(text - texts);
    if (package->tokenizer) w.lead = sp_tokenizer_lead(package->tokenizer, text->ids, text->n);
    if (w.lead >= size) w.lead = 0;
    w.n = text->n - w.lead < size - w.lead ? text->n - w.lead : size - w.lead;
    w.first = at > w.lead + w.n / 2 ? at - w.n / 2 : w.lead;
    if (w.first > text->n - w.n) w.first = text->n - w.n;
    return w;
}

static size_t window_size(const struct sp_package *package)
{
    size_t max = package->target->config.max_positions;

    return max < SP_DIVERGENCE_WINDOW ? max : SP_DIVERGENCE_WINDOW;
}

size_t sp_group_divergence_windows(struct sp_text_window *out, const struct sp_package *package,
                                   const struct sp_calibration_text *texts, size_t n_texts)
{
    size_t size = window_size(package), all = 0, n;

    for (size_t i = 0; i < n_texts; i++)
        all += texts[i].n;
    n = all / size < SP_MAX_DIVERGENCE_WINDOWS ? all / size : SP_MAX_DIVERGENCE_WINDOWS;
    if (n == 0) n = 1;
    for (size_t k = 0; k < n; k++)
        out[k] = window_at(package, texts, (2 * k + 1) * all / (2 * n), size);
    return n;
}

static enum sp_status open_window(struct sp_group_divergence *d, struct window *w,
                                  const struct sp_text_window *of,
                                  const struct sp_calibration_text *text, struct sp_err *err)
{
    struct sp_decoder_options options = {
        .n_positions = window_size(d->package),
        .max_rows = window_size(d->package),
        .max_logit_rows = LOGIT_ROWS,
        .cache_type = SP_CACHE_F32,
        .workspace_of = d->windows[0].decoder,
    };
    enum sp_status st;

    w->n = of->lead + of->n;
    if ((st = sp_new(&w->ids, w->n, sizeof *w->ids, err))) return st;
    memcpy(w->ids, text->ids, of->lead * sizeof *w->ids);
    memcpy(w->ids + of->lead, text->ids + of->first, of->n * sizeof *w->ids);
    w->first_scored = w->n / 4;
    w->row = d->n_scored;
    d->n_scored += w->n - w->first_scored;
    st = sp_new(&w->x, w->n * d->package->target->config.n_hidden, sizeof *w->x, err);
    if (st) return st;
    return sp_decoder_open(&w->decoder, d->package->target, &d->package->backend, &options, err);
}

/* ---- groups ---- */

struct member {
    struct sp_tensor_group group;
    unsigned depth;
    size_t matrix;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
    return sp_tensor_group_compare(x->group, y->group);
}

/* Sets members[0..n-1] to the model's matrices that have a group, by group; returns n. */
static size_t collect(struct member *members, const struct sp_model *model,
                      const struct sp_specs *specs)
{
    size_t n = 0;

    for (size_t i = 0; i < model->n_matrices; i++) {
        const struct sp_bound_matrix *b = &model->matrices[i];
        const struct sp_tensor_spec *spec = sp_specs_find(specs, b->tensor->name);
        struct sp_tensor_group group = sp_tensor_group_of(spec->name, spec->role);
        unsigned depth = group.kind == SP_GROUP_OUTPUT ? 1 + model->config.n_layers : 0;
        if (group.kind == SP_GROUP_OTHER || b->w->cols % SP_BLOCK) continue;
        if (group.layer != SP_NO_LAYER) depth = 1 + (unsigned)group.layer;
        members[n++] = (struct member){group, depth, i};
    }
    qsort(members, n, sizeof *members, compare_members);
    return n;
}

static enum sp_status open_groups(struct sp_group_divergence *d, struct sp_err *err)
{
    const struct sp_model *model = d->package->target;
    struct sp_specs specs = {0};
    struct member *members = NULL;
    enum sp_status st;

    if ((st = sp_specs_of_config(&specs, &model->config, err))) goto done;
    if ((st = sp_new(&members, model->n_matrices, sizeof *members, err))) goto done;
    if ((st = sp_new(&d->groups, model->n_matrices, sizeof *d->groups, err))) goto done;
    if ((st = sp_new(&d->matrices, model->n_matrices, sizeof *d->matrices, err))) goto done;
    d->n_matrices = collect(members, model, &specs);
    for (size_t i = 0; i < d->n_matrices; i++) {
        d->matrices[i] = members[i].matrix;
        if (i == 0 || compare_members(&members[i - 1], &members[i]) != 0) {
            d->groups[d->n_groups++] =
                (struct sp_matrix_group){members[i].group, members[i].depth, i, 0};
        }
        d->groups[d->n_groups - 1].n++;
    }
done:
    free(members);
    sp_specs_release(&specs);
    return st;
}

/* ---- scores ---- */

static void score_row(void *context, size_t i, unsigned worker)
{
    struct sp_group_divergence *d = context;
    const struct sp_vector *vector = d->package->backend.vector;
    const float *logits = sp_decoder_row(d->scoring, i).row;
    float *scratch = d->scratch + worker * d->ld_scratch;
    size_t row = d->first_row + i;

    d->finite[i] = d->is_reference
                       ? set_reference(&d->reference, row, vector, logits, scratch)
                       : compare(&d->divergences[i], &d->reference, row, vector, logits, scratch);
}

/* Scores a window's tokens after its last pass: sets the reference, or adds divergences to *sum. */
static enum sp_status score(struct sp_group_divergence *d, const struct window *w, double *sum,
                            struct sp_err *err)
{
    enum sp_status st;

    d->is_reference = sum == NULL;
    d->scoring = w->decoder;
    for (size_t t = w->first_scored; t < w->n; t += LOGIT_ROWS) {
        size_t n = w->n - t < LOGIT_ROWS ? w->n - t : LOGIT_ROWS;
        d->first_row = w->row + t - w->first_scored;
        sp_decoder_logits(w->decoder, t, n);
        if ((st = sp_decoder_check(w->decoder, err))) return st;
        sp_pool_run(d->package->backend.pool, n, score_row, d);
        for (size_t i = 0; i < n; i++) {
            if (!d->finite[i]) return sp_fail(err, SP_E_INPUT, "a logit is not finite");
            if (sum) *sum += d->divergences[i];
        }
    }
    return SP_OK;
}

static enum sp_status run_reference(struct sp_group_divergence *d, struct sp_err *err)
{
    unsigned n_layers = d->package->target->config.n_layers;
    size_t n = d->package->target->head.rows;
    enum sp_status st;

    d->ld_scratch = sp_round_up(n, 16);
    d->reference.n = n;
    if ((st = sp_new(&d->reference.probs, d->n_scored, n * sizeof(uint16_t), err))) return st;
    if ((st = sp_new(&d->reference.sums, d->n_scored, sizeof(double), err))) return st;
    if ((st = sp_new(&d->reference.entropies, d->n_scored, sizeof(double), err))) return st;
    if ((st = sp_new_rows(&d->scratch, sp_pool_n_threads(d->package->backend.pool), d->ld_scratch,
                          err)))
        return st;

    for (size_t k = 0; k < d->n_windows && !st; k++) {
        struct window *w = &d->windows[k];
        sp_decoder_run_layers(w->decoder, w->ids, w->n, NULL, NULL, 0, n_layers);
        st = score(d, w, NULL, err);
        sp_decoder_run_layers(w->decoder, w->ids, w->n, NULL, w->x, 0, 0);
    }
    return st;
}

enum sp_status sp_group_divergence_open(struct sp_group_divergence **out,
                                        struct sp_package *package,
                                        const struct sp_input_stats *stats,
                                        const struct sp_calibration_text *texts, size_t n_texts,
                                        struct sp_err *err)
{
    struct sp_text_window windows[SP_MAX_DIVERGENCE_WINDOWS];
    size_t n = sp_group_divergence_windows(windows, package, texts, n_texts);
    struct sp_group_divergence *d = NULL;
    enum sp_status st;

    if ((st = sp_new(&d, 1, sizeof *d, err))) return st;
    d->package = package;
    d->stats = stats;
    sp_encoder_init(&d->encoder);
    for (size_t k = 0; k < n && !st; k++)
        st = open_window(d, &d->windows[d->n_windows++], &windows[k], &texts[windows[k].text], err);
    if (st || (st = open_groups(d, err)) || (st = run_reference(d, err))) {
        sp_group_divergence_close(d);
        return st;
    }
    *out = d;
    return SP_OK;
}

void sp_group_divergence_close(struct sp_group_divergence *d)
{
    if (d == NULL) return;
    for (size_t k = d->n_windows; k-- > 0;) {
        sp_decoder_close(d->windows[k].decoder);
        free(d->windows[k].ids);
        free(d->windows[k].x);
    }
    free(d->reference.probs);
    free(d->reference.sums);
    free(d->reference.entropies);
    free(d->scratch);
    free(d->groups);
    free(d->matrices);
    free(d);
}

const struct sp_matrix_group *sp_group_divergence_groups(const struct sp_group_divergence *d,
                                                         size_t *n)
{
    *n = d->n_groups;
    return d->groups;
}

/* ---- rounding ---- */

/* Rounds matrix i of the model; of a table whose rows are looked up and never multiplied, the
 * panels that have rows of the windows' tokens. */
static enum sp_status round_matrix(struct sp_rounded_matrix *out,
                                   const struct sp_group_divergence *d, size_t i,
                                   enum sp_dtype dtype, struct sp_err *err)
{
    const struct sp_model *model = d->package->target;
    const struct sp_bound_matrix *b = &model->matrices[i];
    struct sp_rounding rounding = {
        .encoder = &d->encoder, .pool = d->package->backend.pool, .dtype = dtype};
    bool is_lookup = b->w == &model->per_layer_embedding ||
                     (b->w == &model->embedding && model->head.panels != b->w->panels);
    bool *used = NULL;
    enum sp_status st = SP_OK;

    if (d->stats) rounding.weights = sp_input_stats_weights(d->stats, b->w);
    if (is_lookup) st = sp_new(&used, b->w->n_panels, sizeof *used, err);
    for (size_t k = 0; used && k < d->n_windows; k++)
        for (size_t t = 0; t < d->windows[k].n; t++)
            used[d->windows[k].ids[t] / SP_PANEL_ROWS] = true;
    if (!st) {
        st = sp_rounded_matrix_init(out, &rounding, b->w, sp_pack_tensor_n_matrices(b->tensor),
                                    used, err);
    }
    if (st) sp_context(err, "tensor %s", b->tensor->name);
    free(used);
    return st;
}

/* Exchanges matrix matrices[i] of the model and the matrix of rounded[i], for each i < n. */
static void exchange(struct sp_model *model, const size_t *matrices,
                     struct sp_rounded_matrix *rounded, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sp_matrix w = *model->matrices[matrices[i]].w;
        sp_model_set_matrix(model, matrices[i], rounded[i].w);
        rounded[i].w = w;
    }
}

/* ---- measuring ---- */

/* Runs the unchanged model up to the layer that belongs to a depth, or to the one before it that
 * takes nothing from the layer below but its rows. */
static void advance(struct sp_group_divergence *d, unsigned depth)
{
    const struct sp_layer_config *layers = d->package->target->config.layers;
    unsigned n_layers = d->package->target->config.n_layers;
    unsigned to = depth ? depth - 1 : 0;

    while (to > 0 && (layers[to - 1].defers_experts || (to < n_layers && layers[to].shares_index)))
        to--;
    if (d->package->target->config.n_streams || d->package->target->config.hyper.n_streams ||
        d->package->target->config.routing.n_hidden || sp_config_joins(&d->package->target->config))
        to = 0; /* all streams, and the states of routers, begin there */
    assert(d->layer <= to);
    for (size_t k = 0; k < d->n_windows && d->layer < to; k++) {
        struct window *w = &d->windows[k];
        sp_decoder_run_layers(w->decoder, w->ids, w->n, w->x, w->x, d->layer, to);
    }
    d->layer = to;
}

/* Runs the changed model from a depth on. */
static enum sp_status run_changed(struct sp_group_divergence *d, double *sum, unsigned depth,
                                  struct sp_err *err)
{
    enum sp_status st = SP_OK;

    *sum = 0;
    for (size_t k = 0; k < d->n_windows && !st; k++) {
        const struct window *w = &d->windows[k];
        sp_decoder_run_layers(w->decoder, w->ids, w->n, depth ? w->x : NULL, NULL, d->layer,
                              d->package->target->config.n_layers);
        st = score(d, w, sum, err);
    }
    return st;
}

enum sp_status sp_group_divergence_measure(struct sp_group_divergence *d, double *nats,
                                           size_t first, size_t n, enum sp_dtype dtype,
                                           struct sp_err *err)
{
    struct sp_model *model = d->package->target;
    const struct sp_matrix_group *groups = d->groups + first;
    const size_t *matrices = d->matrices + groups->first;
    size_t n_matrices = groups[n - 1].first + groups[n - 1].n - groups->first;
    struct sp_rounded_matrix *rounded = NULL;
    double sum = 0;
    enum sp_status st = sp_new(&rounded, n_matrices, sizeof *rounded, err);

    if (st) return st;
    assert(groups->depth == groups[n - 1].depth);
    for (size_t i = 0; i < n_matrices && !st; i++)
        st = round_matrix(&rounded[i], d, matrices[i], dtype, err);
    if (!st) {
        advance(d, groups->depth);
        exchange(model, matrices, rounded, n_matrices);
        st = run_changed(d, &sum, groups->depth, err);
        exchange(model, matrices, rounded, n_matrices);
    }
    if (!st) *nats = sum / (double)d->n_scored;
    for (size_t i = 0; i < n_matrices; i++)
        sp_rounded_matrix_release(&rounded[i]);
    free(rounded);
    return st;
}

enum sp_status sp_group_divergence_measure_cache(struct sp_group_divergence *d, double *nats,
                                                 unsigned layer, enum sp_cache_type type,
                                                 struct sp_err *err)
{
    double sum = 0;
    enum sp_status st = SP_OK;

    advance(d, 1 + layer);
    for (size_t k = 0; k < d->n_windows && !st; k++)
        st = sp_decoder_set_cache_type(d->windows[k].decoder, layer, type, err);
    if (!st) st = run_changed(d, &sum, 1 + layer, err);
    for (size_t k = 0; k < d->n_windows && !st; k++)
        st = sp_decoder_set_cache_type(d->windows[k].decoder, layer, SP_CACHE_F32, err);
    if (!st) *nats = sum / (double)d->n_scored;
    return st;
}
