/* The choice of a row's experts and of their weights. It follows transformers; enum sp_routing_law
 * and struct sp_routing describe it. Ties go to the lower index. */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <math.h>
#include <string.h>

/* Experts, and choices that return their input. */
static unsigned count_choices(const struct sp_route *r)
{
    return r->config->n_experts + r->routing->n_zero;
}

/* Turns router logits into the scores of the experts, before any is chosen. */
static void score_experts(const struct sp_route *r)
{
    const struct sp_vector *vector = r->ws->backend->vector;
    unsigned n = count_choices(r);
    float *scores = r->scores, max, sum;

    if (r->routing->logit_cap != 0) vector->softcap(scores, (float)r->routing->logit_cap, n);
    switch (r->routing->law) {
    case SP_ROUTE_SOFTMAX:
        vector->softmax(scores, 0, n, &max, &sum);
        for (unsigned i = 0; i < n; i++)
            scores[i] /= sum;
        break;
    case SP_ROUTE_SOFTMAX_CHOSEN:
    case SP_ROUTE_SIGMOID_CHOSEN:
    case SP_ROUTE_NEAR:
        break;
    case SP_ROUTE_SQRT_SOFTPLUS:
        for (unsigned i = 0; i < n; i++)
            scores[i] = sqrtf(sp_softplusf(scores[i]));
        break;
    case SP_ROUTE_SIGMOID:
        for (unsigned i = 0; i < n; i++)
            scores[i] = sp_sigmoidf(scores[i]);
        break;
    }
}

/* The score of a group of n experts: the sum of its two largest scores, or the largest. */
static float score_of_group(const struct sp_routing *routing, const float *selection, unsigned n)
{
    float best = selection[0], second = -INFINITY;

    for (unsigned i = 1; i < n; i++) {
        if (selection[i] > best) {
            second = best;
            best = selection[i];
        } else if (selection[i] > second) {
            second = selection[i];
        }
    }
    return routing->groups_by_best ? best : best + second;
}

/* Excludes the experts outside the best groups from the selection. */
static void drop_groups(const struct sp_route *r)
{
    const struct sp_routing *routing = r->routing;
    float *selection = r->selection, *group_scores = r->group_scores;
    unsigned n = r->config->n_experts / routing->n_groups;

    for (unsigned g = 0; g < routing->n_groups; g++)
        group_scores[g] = score_of_group(routing, selection + g * n, n);
    for (unsigned g = 0; g < routing->n_groups; g++) {
        unsigned n_better = 0;
        for (unsigned i = 0; i < routing->n_groups; i++) {
            bool first = i < g && group_scores[i] == group_scores[g];
            if (group_scores[i] > group_scores[g] || first) n_better++;
        }
        for (unsigned i = 0; n_better >= routing->n_groups_used && i < n; i++)
            selection[g * n + i] = routing->groups_zeroed ? 0 : -INFINITY;
    }
}

/* The scores that experts are selected by. */
static const float *find_selection(const struct sp_route *r)
{
    const float *correction = r->layer->router_correction;
    bool grouped = r->routing->n_groups > 1;
    unsigned n = count_choices(r);

    if (!grouped && !correction) return r->scores;
    memcpy(r->selection, r->scores, n * sizeof *r->selection);
    if (correction) r->ws->backend->vector->add(r->selection, correction, n - r->routing->n_always);
    if (grouped) drop_groups(r);
    return r->selection;
}

/* SP_ROUTE_NEAR. The first n of the chosen experts are out. */
static float weigh_near(const struct sp_route *r, unsigned n)
{
    const unsigned *chosen = r->chosen;
    const float *scores = r->scores;
    float best = scores[chosen[n]], sum = 0;

    for (unsigned i = 0; i < count_choices(r); i++) {
        float size = fmaxf(fabsf(scores[i]), best);
        bool out = (best - scores[i]) / size > (float)r->routing->jitter;
        for (unsigned k = 0; k < n; k++)
            out = out || chosen[k] == i;
        if (!out) sum += sp_expf(scores[i] - best);
    }
    return 1 / sum;
}

/* Computes the weights of a row's chosen experts, which are sorted by descending score. */
static void weigh_experts(const struct sp_route *r)
{
    const struct sp_routing *routing = r->routing;
    const unsigned *chosen = r->chosen;
    unsigned k = r->config->n_experts_used;
    float *weights = r->weights, *scores = r->scores, max, sum = 0;

    for (unsigned i = 0; i < k; i++)
        weights[i] = scores[chosen[i]];
    if (routing->law == SP_ROUTE_SOFTMAX_CHOSEN) {
        memcpy(scores, weights, k * sizeof *scores);
        r->ws->backend->vector->softmax(scores, 0, k, &max, &sum);
        for (unsigned i = 0; i < k; i++)
            weights[i] = scores[i] / sum;
    }
    for (unsigned i = 0; routing->law == SP_ROUTE_SIGMOID_CHOSEN && i < k; i++)
        weights[i] = sp_sigmoidf(weights[i]);
    for (unsigned i = 0; routing->law == SP_ROUTE_NEAR && i < k; i++)
        weights[i] = weigh_near(r, i);
    sum = 0;
    for (unsigned i = 0; i < k; i++)
        sum += weights[i];
    sum += (float)routing->norm_eps;
    for (unsigned i = 0; routing->norm && i < k; i++)
        weights[i] /= sum;
    for (unsigned i = 0; r->layer->expert_scale && i < k; i++)
        weights[i] *= r->layer->expert_scale[chosen[i]];
    for (unsigned i = 0; routing->scale != 1 && i < k; i++)
        weights[i] *= (float)routing->scale;
}

static void sort_experts(const struct sp_route *r)
{
    unsigned *chosen = r->chosen;
    float *weights = r->weights;

    for (unsigned i = 1; i < r->config->n_experts_used; i++) {
        unsigned id = chosen[i], at = i;
        float weight = weights[i];
        for (; at > 0 && chosen[at - 1] > id; at--) {
            chosen[at] = chosen[at - 1];
            weights[at] = weights[at - 1];
        }
        chosen[at] = id;
        weights[at] = weight;
    }
}

void sp_route(const struct sp_route *r)
{
    unsigned k = r->config->n_experts_used, n_by_score = k - r->routing->n_always;

    score_experts(r);
    if (r->layer->token_experts) {
        const float *row = r->layer->token_experts + (size_t)r->id * k;
        for (unsigned i = 0; i < k; i++)
            r->chosen[i] = (unsigned)row[i];
    } else {
        sp_top_logits_add(r->best, 0, n_by_score, find_selection(r),
                          count_choices(r) - r->routing->n_always, 0);
        for (unsigned i = 0; i < k; i++)
            r->chosen[i] = i < n_by_score ? r->best[i].index : r->config->n_experts - k + i;
    }
    weigh_experts(r);
    sort_experts(r);
}
