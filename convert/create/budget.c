/* The choice is a knapsack problem with one of several types for each group, solved exactly by
 * dynamic programming over the bytes beyond the smallest types, in units. What the rounding to
 * units leaves over is spent on single steps. */
#include "convert/create/create_job.h"

#include "format/base/mem.h"
#include "format/weights/tensor_group.h"

#include <stdlib.h>

enum { N_TYPES = SP_N_BLOCK_DTYPES, N_UNITS = 1 << 16 };

/* The t-th type, from fewest to most bits. */
static enum sp_dtype type_of(unsigned t)
{
    return sp_block_dtypes[N_TYPES - 1 - t].dtype;
}

/* A group of matrices that get one type. */
struct group {
    struct sp_tensor_group id;
    uint64_t n_weights;
    double sensitivity;
    uint64_t sizes[N_TYPES]; /* bytes; do not decrease */
    double costs[N_TYPES];   /* sensitivity times error */
    unsigned chosen;         /* see type_of */
};

struct problem {
    const struct sp_budget_request *request;
    struct group *groups; /* owned */
    size_t n_groups;
    size_t *group_of; /* [n_target]: the group of a tensor, or n_target; owned */
};

/* ---- sensitivities ---- */

/* Typical sensitivities of all groups of one kind together, as a part of that of all down
 * projections; between the two models of this measurement: the KL divergence if the matrices of one
 * kind alone become a type (two texts).
 *
 *                               embedding  attention  keys, values  gate, up  down
 *   SmolLM2-135M, q4            0.055      0.013      0.032         0.030     0.032
 *   Qwen2.5-Coder-0.5B, q3      0.036      0.025      0.041         0.062     0.046
 *
 * Both use one matrix as embedding and output matrix; where there are two, its sensitivity is
 * shared out. No trend over the layers was found within a kind. */
static double typical(enum sp_group_kind kind, bool is_tied)
{
    static const double all[SP_N_GROUP_KINDS] = {
        [SP_GROUP_EMBEDDING] = 0.3,    [SP_GROUP_ATTENTION] = 0.5, [SP_GROUP_KEY_VALUE] = 0.9,
        [SP_GROUP_FEED_FORWARD] = 1.1, [SP_GROUP_DOWN] = 1,        [SP_GROUP_EXPERTS] = 1.1,
        [SP_GROUP_EXPERTS_DOWN] = 1,   [SP_GROUP_OUTPUT] = 0.7,    [SP_GROUP_OTHER] = 1,
    };

    return is_tied && kind == SP_GROUP_EMBEDDING ? 1 : all[kind];
}

static void set_typical(struct problem *p)
{
    size_t n_of_kind[SP_N_GROUP_KINDS] = {0};

    for (size_t i = 0; i < p->n_groups; i++)
        n_of_kind[p->groups[i].id.kind]++;
    for (size_t i = 0; i < p->n_groups; i++) {
        enum sp_group_kind kind = p->groups[i].id.kind;
        p->groups[i].sensitivity =
            typical(kind, n_of_kind[SP_GROUP_OUTPUT] == 0) / (double)n_of_kind[kind];
    }
}

/* Groups without a measurement keep the sensitivity of the table, on the scale of the others. */
static void set_sensitivities(struct problem *p, struct sp_budget_result *result)
{
    const struct sp_sensitivities *measured = p->request->sensitivities;
    double sum_typical = 0, sum_measured = 0;

    set_typical(p);
    for (size_t i = 0; i < p->n_groups; i++) {
        const struct sp_sensitivity *s = sp_sensitivities_find(measured, p->groups[i].id);
        if (s == NULL) continue;
        sum_typical += p->groups[i].sensitivity;
        sum_measured += s->kl_per_error;
        result->n_measured++;
    }
    for (size_t i = 0; i < p->n_groups && result->n_measured; i++) {
        const struct sp_sensitivity *s = sp_sensitivities_find(measured, p->groups[i].id);
        p->groups[i].sensitivity =
            s ? s->kl_per_error : p->groups[i].sensitivity * sum_measured / sum_typical;
    }
}

/* ---- groups, sizes, costs ---- */

static bool can_choose(const struct sp_budget_request *r, const struct sp_plan_item *item)
{
    struct sp_policy_request q8 = {.type = SP_Q8, .exact = true};
    const struct sp_tensor_spec *spec = item->spec;
    struct sp_policy_tensor tensor = {.spec = spec, .stored = item->from};
    struct sp_policy_choice choice;

    if (r->keep_output && (spec->role == SP_ROLE_EMBEDDING || spec->role == SP_ROLE_HEAD))
        return false;
    return sp_policy_choose(&choice, &q8, &tensor, NULL) == SP_OK && choice.dtype == SP_Q8;
}

/* The type that a tensor gets if its group gets `type`, and its bytes: a quantized tensor of a
 * packed file never gets a larger type than its own. */
static enum sp_dtype assign(size_t *size, const struct sp_plan_item *item, enum sp_dtype type)
{
    const struct sp_tensor_spec *spec = item->spec;

    if (!sp_tensor_size(size, type, SP_PANEL, spec->shape, spec->rank)) *size = SIZE_MAX;
    if (!sp_dtype_is_block(item->from) || *size < item->source_size) return type;
    *size = (size_t)item->source_size;
    return item->from;
}

static size_t find_group(struct problem *p, struct sp_tensor_group id)
{
    size_t i = 0;

    while (i < p->n_groups && sp_tensor_group_compare(p->groups[i].id, id) != 0)
        i++;
    if (i == p->n_groups) p->groups[p->n_groups++] = (struct group){.id = id};
    return i;
}

/* Sums of sizes, and of errors weighed by the number of weights. */
static void add_tensor(struct group *g, const struct sp_plan_item *item)
{
    uint64_t n = sp_spec_elements(item->spec);

    g->n_weights += n;
    for (unsigned t = 0; t < N_TYPES; t++) {
        size_t size;
        enum sp_dtype type = assign(&size, item, type_of(t));
        g->sizes[t] += size;
        if (type != item->from) g->costs[t] += sp_policy_error(type) * (double)n;
    }
}

static enum sp_status collect(struct problem *p, struct sp_budget_result *result,
                              const struct sp_plan_choice *choices, struct sp_err *err)
{
    enum sp_status st;
    size_t n = p->request->n_target;
    uint64_t fixed = 0;

    if ((st = sp_new(&p->groups, n, sizeof *p->groups, err))) return st;
    if ((st = sp_new(&p->group_of, n, sizeof *p->group_of, err))) return st;
    for (size_t i = 0; i < n; i++) {
        const struct sp_plan_item *item = &p->request->plan->items[i];
        p->group_of[i] = n;
        if (choices[i].type != SP_DTYPE_NONE || !can_choose(p->request, item)) {
            fixed += item->size;
            continue;
        }
        p->group_of[i] = find_group(p, sp_tensor_group_of(item->spec->name, item->spec->role));
        add_tensor(&p->groups[p->group_of[i]], item);
    }
    set_sensitivities(p, result);
    *result = (struct sp_budget_result){fixed, fixed, p->n_groups, result->n_measured};
    for (size_t i = 0; i < p->n_groups; i++) {
        struct group *g = &p->groups[i];
        for (unsigned t = 0; t < N_TYPES; t++)
            g->costs[t] *= g->sensitivity / (double)g->n_weights;
        result->least += g->sizes[0];
        result->largest += g->sizes[N_TYPES - 1];
    }
    return SP_OK;
}

/* ---- the choice ---- */

/* best[c] = the least cost of groups 0 to g with c units, for each g in turn; picks[g][c] is the
 * type of group g in it. */
static void fill_tables(double *best, uint8_t *picks, const struct problem *p, uint64_t unit,
                        size_t n_units)
{
    for (size_t i = 0; i < p->n_groups; i++, picks += n_units + 1) {
        const struct group *g = &p->groups[i];
        uint64_t units[N_TYPES];
        for (unsigned t = 0; t < N_TYPES; t++)
            units[t] = (g->sizes[t] - g->sizes[0] + unit - 1) / unit;
        for (size_t c = n_units + 1; c-- > 0;) {
            double least = best[c] + g->costs[0];
            unsigned pick = 0;
            for (unsigned t = 1; t < N_TYPES && units[t] <= c; t++) {
                double cost = best[c - units[t]] + g->costs[t];
                if (cost >= least) continue;
                least = cost;
                pick = t;
            }
            best[c] = least;
            picks[c] = (uint8_t)pick;
        }
    }
}

/* Spends what is left on the steps to the next type that reduce the cost most per byte. */
static void spend_rest(struct problem *p, uint64_t extra)
{
    for (size_t i = 0; i < p->n_groups; i++)
        extra -= p->groups[i].sizes[p->groups[i].chosen] - p->groups[i].sizes[0];
    for (;;) {
        struct group *best = NULL;
        double best_gain = 0;
        for (size_t i = 0; i < p->n_groups; i++) {
            struct group *g = &p->groups[i];
            unsigned t = g->chosen;
            uint64_t more = t + 1 < N_TYPES ? g->sizes[t + 1] - g->sizes[t] : 0;
            double gain = more ? (g->costs[t] - g->costs[t + 1]) / (double)more : 0;
            if (more > extra || gain <= best_gain) continue;
            best = g;
            best_gain = gain;
        }
        if (best == NULL) return;
        extra -= best->sizes[best->chosen + 1] - best->sizes[best->chosen];
        best->chosen++;
    }
}

static enum sp_status solve(struct problem *p, uint64_t extra, struct sp_err *err)
{
    enum sp_status st;
    uint64_t unit = extra / N_UNITS + 1;
    size_t n_units = (size_t)(extra / unit), n_picks;
    double *best = NULL;
    uint8_t *picks = NULL;

    if (!sp_mul(&n_picks, p->n_groups, n_units + 1)) {
        st = sp_fail(err, SP_E_NOMEM, "too many groups of tensors");
        goto done;
    }
    if ((st = sp_new(&best, n_units + 1, sizeof *best, err))) goto done;
    if ((st = sp_new(&picks, n_picks, sizeof *picks, err))) goto done;
    fill_tables(best, picks, p, unit, n_units);
    for (size_t i = p->n_groups, c = n_units; i-- > 0;) {
        struct group *g = &p->groups[i];
        g->chosen = picks[i * (n_units + 1) + c];
        c -= (size_t)((g->sizes[g->chosen] - g->sizes[0] + unit - 1) / unit);
    }
    spend_rest(p, extra);
done:
    free(best);
    free(picks);
    return st;
}

enum sp_status sp_budget_choose(struct sp_plan_choice *choices, bool *fits,
                                struct sp_budget_result *result,
                                const struct sp_budget_request *request, struct sp_err *err)
{
    enum sp_status st;
    struct problem p = {.request = request};
    struct sp_budget_result made = {0};

    if ((st = collect(&p, &made, choices, err))) goto done;
    *result = made;
    *fits = request->most >= made.least;
    if (!*fits || (st = solve(&p, request->most - made.least, err))) goto done;
    for (size_t i = 0; i < request->n_target; i++) {
        size_t size;
        if (p.group_of[i] == request->n_target) continue;
        choices[i].type =
            assign(&size, &request->plan->items[i], type_of(p.groups[p.group_of[i]].chosen));
        choices[i].rule = "chosen for the size";
    }
done:
    free(p.groups);
    free(p.group_of);
    return st;
}
