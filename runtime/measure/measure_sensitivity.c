
#include "format/base/atomic_file.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "format/json/json_write.h"
#include "quantize/policy.h"
#include "runtime/measure/group_divergence.h"
#include "runtime/measure/running_stats.h"
#include "runtime/model/cache_types.h"
#include "runtime/spectool_measure.h"

#include <stdlib.h>
#include <string.h>

/* Increases when the same request would measure other numbers. */
enum { METHOD = 5 };

enum { MAX_FILE = 16 << 20 };

struct measuring {
    const struct sp_calibration_request *request;
    struct sp_group_divergence *divergence; /* owned */
    const struct sp_matrix_group *groups;   /* [n_groups], borrowed from `divergence` */
    size_t n_groups;
    unsigned n_layers;
    char *path;                              /* of the file beside the output; owned */
    char of[17];                             /* digest of the model and the texts */
    struct sp_sensitivities made;            /* owned */
    struct sp_cache_divergences made_caches; /* of the first layers; owned */
    size_t n_done, n_total;                  /* layers run */
    uint32_t *ids;                           /* [n_ids] to measure a choice of caches on; owned */
    size_t n_ids;
    size_t n_choice; /* layers run for one measurement of a choice; 0: there is none */
    struct sp_running_stats blocks; /* its divergences */
};

/* Tokens that a choice of caches is measured on: at most this many excerpts of a length, spread
 * evenly over the texts, which are read as one text. */
enum { EXCERPTS = 4, EXCERPT = 2048, MOST_TOKENS = EXCERPTS * EXCERPT };
/* Measurements of a choice that are expected. */
enum { CHOICES = 3 };

/* ---- the file beside the output ---- */

enum sp_status sp_measure_sensitivity_path(char **path, const struct sp_calibration_request *q,
                                           struct sp_err *err)
{
    static const char suffix[] = ".sensitivity";
    struct sp_strbuf text = {0};
    enum sp_status st;

    if ((st = sp_strbuf_append(&text, q->path, strlen(q->path), err)) ||
        (st = sp_strbuf_append(&text, suffix, sizeof suffix, err))) {
        sp_strbuf_release(&text);
        return st;
    }
    *path = text.at;
    return SP_OK;
}

static enum sp_status set_digest(struct measuring *m, const struct sp_package *package,
                                 struct sp_err *err)
{
    const struct sp_calibration_request *q = m->request;
    uint64_t head[] = {METHOD, sp_pack_identity(package->pack)};
    struct sp_hash *hash = NULL;
    enum sp_status st = sp_hash_new(&hash, err);

    if (st) return st;
    sp_hash_update(hash, head, sizeof head);
    for (size_t i = 0; i < q->n_texts; i++) {
        uint64_t n = q->texts[i].n;
        sp_hash_update(hash, &n, sizeof n);
        sp_hash_update(hash, q->texts[i].ids, q->texts[i].n * sizeof *q->texts[i].ids);
    }
    snprintf(m->of, sizeof m->of, "%016llx", (unsigned long long)sp_hash_digest(hash));
    sp_hash_free(hash);
    return SP_OK;
}

/* Reads what an interrupted run of the same request has measured. */
static enum sp_status read_known(struct measuring *m, struct sp_err *err)
{
    struct sp_json *json = NULL;
    const char *of = "";
    struct sp_text text = {0};
    enum sp_status st;

    if (!sp_file_exists(m->path)) return SP_OK;
    if ((st = sp_file_read_text(&text, m->path, MAX_FILE, err)) ||
        (st = sp_json_parse_within(&json, text.at, text.size, SP_JSON_STRICT, SP_JSON_SETTINGS,
                                   err)))
        goto done;
    if ((st = sp_json_get_string(json, "measured_with", &of, err))) goto done;
    if (*of == 0)
        st = sp_fail(err, SP_E_INPUT, "it has no measured_with");
    else if (strcmp(of, m->of) == 0 && !(st = sp_sensitivities_read(&m->made, json, err)))
        st = sp_cache_divergences_read(&m->made_caches, sp_json_get(json, "caches"), err);
    if (!st && m->made_caches.n > m->n_layers)
        st = sp_fail(err, SP_E_INPUT, "caches of %zu layers", m->made_caches.n);
done:
    if (st) {
        sp_context(err, "%s: it does not hold sensitivities of an interrupted calibration",
                   m->path);
    }
    sp_json_free(json);
    free(text.at);
    return st;
}

static enum sp_status write_known(const struct measuring *m, struct sp_err *err)
{
    struct sp_json_out out = {0};
    enum sp_status st;

    sp_json_out_print(&out, "{\"measured_with\":\"%s\",", m->of);
    sp_sensitivities_print(&out, &m->made);
    sp_json_out_raw(&out, ",\"caches\":");
    sp_cache_divergences_print(&out, &m->made_caches);
    sp_json_out_raw(&out, "}\n");
    if (!(st = sp_json_out_check(&out, err)))
        st = sp_atomic_file_write_file(m->path, true, out.text.at, out.text.len, err);
    sp_strbuf_release(&out.text);
    return st;
}

/* ---- measuring ---- */

/* Layers that a measurement at a depth runs; the output counts as one. */
static size_t cost(const struct measuring *m, unsigned depth)
{
    return (size_t)m->n_layers + 2 - (depth ? depth : 1);
}

/* The number of groups from group `first` on that have this depth. */
static size_t count_groups(const struct measuring *m, size_t first, unsigned depth)
{
    size_t n = 0;

    while (first + n < m->n_groups && m->groups[first + n].depth == depth)
        n++;
    return n;
}

/* Returns nonzero if the caller stops. */
static int report_layers(const struct measuring *m, size_t done)
{
    const struct sp_calibration_request *q = m->request;

    return q->layer_progress && q->layer_progress(q->context, done, m->n_total);
}

static enum sp_status report(struct measuring *m, unsigned depth, struct sp_err *err)
{
    m->n_done += cost(m, depth);
    return report_layers(m, m->n_done) ? sp_fail(err, SP_E_CANCELLED, "interrupted") : SP_OK;
}

/* Adds the sensitivities of the n groups of a depth from their divergences and that of all of them
 * with q6. A group whose change is lost in f counts as if f were 19/20 of its divergence. */
static enum sp_status solve(struct measuring *m, const struct sp_matrix_group *groups, size_t n,
                            const double *divergences, double all, enum sp_dtype coarse,
                            struct sp_err *err)
{
    double error = sp_policy_error(coarse), small = sp_policy_error(SP_Q6), sum = 0;
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < n; i++)
        sum += (divergences[i] - all) / (error - (double)n * small);
    for (size_t i = 0; i < n && !st; i++) {
        double least = 0.05 * divergences[i] / error;
        double s = (divergences[i] - all + small * sum) / error;
        st = sp_sensitivities_add(&m->made, groups[i].group, s > least ? s : least, err);
    }
    return st;
}

/* Measures the n groups of a depth, from `first` on. */
static enum sp_status measure_depth(struct measuring *m, size_t first, size_t n, struct sp_err *err)
{
    unsigned depth = m->groups[first].depth;
    enum sp_dtype coarse = depth == 0 || depth == m->n_layers + 1 ? SP_Q3 : SP_Q2;
    double divergences[SP_N_GROUP_KINDS], all = 0;
    enum sp_status st = sp_group_divergence_measure(m->divergence, &all, first, n, SP_Q6, err);

    if (!st) st = report(m, depth, err);
    for (size_t i = 0; i < n && !st; i++) {
        st = sp_group_divergence_measure(m->divergence, &divergences[i], first + i, 1, coarse, err);
        if (!st) st = report(m, depth, err);
    }
    if (!st) st = solve(m, m->groups + first, n, divergences, all, coarse, err);
    return st ? st : write_known(m, err);
}

static bool are_known(const struct measuring *m, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++)
        if (sp_sensitivities_find(&m->made, m->groups[i].group) == NULL) return false;
    return true;
}

static enum sp_status measure_cache(struct measuring *m, const struct sp_model *model,
                                    unsigned layer, struct sp_err *err)
{
    struct sp_cache_divergence made = {.chosen = SP_LAYER_F16};
    enum sp_status st = SP_OK;

    for (int t = 0; t < SP_N_LAYER_CACHES && !st; t++) {
        made.nats[t] = -1;
        if (!sp_cache_types_vary(model, layer)) continue;
        st = sp_group_divergence_measure_cache(m->divergence, &made.nats[t], layer,
                                               sp_cache_types_chosen[t], err);
        if (!st) st = report(m, 1 + layer, err);
    }
    if (!st) st = sp_cache_divergences_add(&m->made_caches, made, err);
    return st ? st : write_known(m, err);
}

/* Sets the layers that are to be run. */
static void count_layers(struct measuring *m, const struct sp_model *model)
{
    for (size_t i = 0, n; i < m->n_groups; i += n) {
        unsigned depth = m->groups[i].depth;
        n = count_groups(m, i, depth);
        if (!are_known(m, i, n)) m->n_total += (n + 1) * cost(m, depth);
    }
    for (unsigned i = 0; i < m->n_layers; i++) {
        if (!sp_cache_types_vary(model, i)) continue;
        m->n_choice = (m->n_ids / 256 + 1) * cost(m, 1);
        if (i >= m->made_caches.n) m->n_total += SP_N_LAYER_CACHES * cost(m, 1 + i);
    }
    m->n_total += CHOICES * m->n_choice;
}

/* Depth by depth, the groups and the cache of the layer. */
static enum sp_status measure_all(struct measuring *m, const struct sp_model *model,
                                  struct sp_err *err)
{
    enum sp_status st = SP_OK;

    count_layers(m, model);
    for (unsigned depth = 0, first = 0, n; depth <= m->n_layers + 1 && !st; depth++, first += n) {
        n = (unsigned)count_groups(m, first, depth);
        if (!are_known(m, first, n)) st = measure_depth(m, first, n, err);
        if (!st && depth <= m->n_layers && depth > m->made_caches.n)
            st = measure_cache(m, model, depth - 1, err);
    }
    return st;
}

/* ---- the choice of caches ----
 *
 * What layers add alone does not add up: together they diverge by 0.8 to 1.6 times the sum, which
 * depends on the model. So a choice is measured as a whole, and made again with a smaller sum until
 * the divergence D and its standard error E, less what any change costs, satisfy
 *
 *   1.5 (D + 2.33 E) <= 0.004 nats per token.
 *
 * Another text of the same kind and length differs by sqrt(2) E, so that 19 of 20 diverge by less
 * than 1.645 sqrt(2) E more; texts of another kind by up to 1.7 times (tests/bench/RESULTS.md). */

static const double MOST_DIVERGENCE = 0.004, ERRORS = 2.33, OTHER_KINDS = 1.5;

static enum sp_status copy_excerpts(struct measuring *m, struct sp_err *err)
{
    const struct sp_calibration_request *q = m->request;
    size_t all = 0, at = 0;
    enum sp_status st = sp_new(&m->ids, MOST_TOKENS, sizeof *m->ids, err);

    for (size_t i = 0; i < q->n_texts; i++)
        all += q->texts[i].n;
    for (size_t i = 0; i < q->n_texts && !st; i++)
        for (size_t k = 0; k < q->texts[i].n && m->n_ids < MOST_TOKENS; k++, at++)
            if (all <= MOST_TOKENS || at % (all / EXCERPTS) < EXCERPT)
                m->ids[m->n_ids++] = q->texts[i].ids[k];
    return st;
}

static int report_choice(void *context, size_t done, size_t total)
{
    const struct measuring *m = context;
    size_t n = m->n_done + m->n_choice * done / total;

    return report_layers(m, n < m->n_total ? n : m->n_total);
}

static void add_block(void *context, const struct sp_evaluation_block *block)
{
    struct measuring *m = context;

    sp_running_stats_add(&m->blocks, block->divergence);
}

/* Sets the divergence of the choice that the model has. */
static enum sp_status measure_choice(struct measuring *m, struct sp_package *package,
                                     struct sp_err *err)
{
    size_t max = package->target->config.max_positions;
    struct sp_evaluation_request request = {.size = sizeof request,
                                            .ids = m->ids,
                                            .n = m->n_ids,
                                            .n_window = max < MOST_TOKENS ? max : MOST_TOKENS,
                                            .reference = package,
                                            .cache = SP_CACHE_AUTO,
                                            .context = m,
                                            .progress = report_choice,
                                            .block = add_block};
    struct sp_evaluation out = SP_EVALUATION_INIT;
    enum sp_status st;

    m->blocks = (struct sp_running_stats){0};
    if ((st = sp_package_evaluate(package, &request, &out, err))) return st;
    m->n_done += m->n_choice;
    m->made_caches.nats = out.divergence.mean;
    m->made_caches.error = sp_running_stats_estimate(&m->blocks).error;
    return SP_OK;
}

/* Chooses with smaller and smaller sums. What any change costs is at least what f16 costs in the
 * layer where that is most. */
static enum sp_status choose(struct measuring *m, struct sp_package *package, struct sp_err *err)
{
    struct sp_cache_divergences *all = &m->made_caches;
    double most = MOST_DIVERGENCE, sum, common = 0, nats;
    enum sp_status st;

    for (size_t i = 0; i < all->n; i++)
        if (all->layers[i].nats[SP_LAYER_F16] > common) common = all->layers[i].nats[SP_LAYER_F16];
    for (;;) {
        if ((st = sp_cache_types_choose(&sum, package->target, all, most, err))) return st;
        if ((st = measure_choice(m, package, err))) return st;
        nats = OTHER_KINDS * (all->nats + ERRORS * all->error - common);
        if (nats <= MOST_DIVERGENCE || most < 0) break;
        most = sum > 0 ? 0.95 * sum * MOST_DIVERGENCE / nats : -1; /* -1: f16 for all */
    }
    all->has_choice = true;
    return report_layers(m, m->n_total) ? sp_fail(err, SP_E_CANCELLED, "interrupted") : SP_OK;
}

static enum sp_status choose_caches(struct measuring *m, struct sp_package *package,
                                    struct sp_err *err)
{
    enum sp_cache_type *before = package->target->cache_types;
    size_t lead = 0;
    enum sp_status st = SP_OK;

    if (package->tokenizer) lead = sp_tokenizer_lead(package->tokenizer, m->ids, m->n_ids);
    if (m->n_choice == 0 || m->n_ids <= (lead ? lead : 1)) return SP_OK;
    package->target->cache_types = NULL;
    st = choose(m, package, err);
    package->target->cache_types = before;
    return st;
}

enum sp_status
sp_measure_sensitivity(struct sp_sensitivities *out, struct sp_cache_divergences *caches,
                       struct sp_package *package, const struct sp_input_stats *stats,
                       const struct sp_calibration_request *request, struct sp_err *err)
{
    struct measuring m = {.request = request, .n_layers = package->target->config.n_layers};
    enum sp_status st;

    if ((st = sp_measure_sensitivity_path(&m.path, request, err)) ||
        (st = copy_excerpts(&m, err)) || (st = set_digest(&m, package, err)) ||
        (st = read_known(&m, err)) ||
        (st = sp_group_divergence_open(&m.divergence, package, stats, request->texts,
                                       request->n_texts, err)))
        goto done;
    m.groups = sp_group_divergence_groups(m.divergence, &m.n_groups);
    if ((st = measure_all(&m, package->target, err))) goto done;
    sp_group_divergence_close(m.divergence);
    m.divergence = NULL;
    if ((st = choose_caches(&m, package, err))) goto done;
    *out = m.made;
    *caches = m.made_caches;
    m.made_caches = (struct sp_cache_divergences){0};
    m.made = (struct sp_sensitivities){0};
done:
    sp_group_divergence_close(m.divergence);
    sp_sensitivities_release(&m.made);
    sp_cache_divergences_release(&m.made_caches);
    free(m.path);
    free(m.ids);
    return st;
}
