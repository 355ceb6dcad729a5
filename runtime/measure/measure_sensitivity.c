
#include "format/base/atomic_file.h"
#include "format/base/file.h"
#include "format/base/hash.h"
#include "format/json/json_write.h"
#include "quantize/policy.h"
#include "runtime/measure/group_divergence.h"
#include "runtime/model/cache_types.h"
#include "runtime/spectool_measure.h"

#include <stdlib.h>
#include <string.h>

/* Increases when the same request would measure other numbers. */
enum { METHOD = 4 };

enum { MAX_FILE = 16 << 20 };

struct measuring {
    const struct sp_calibration_request *request;
    struct sp_group_divergence *divergence; /* owned */
    const struct sp_matrix_group *groups;   /* [n_groups], borrowed from `divergence` */
    size_t n_groups;
    unsigned n_layers;
    char *path;                    /* of the file beside the output; owned */
    char of[17];                   /* digest of the model and the texts */
    struct sp_sensitivities made;  /* owned */
    struct sp_sensitivities known; /* of the file; owned */
    struct sp_cache_divergences made_caches, known_caches; /* likewise; of the first layers */
    size_t n_done, n_total;                                /* layers run */
};

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
    else if (strcmp(of, m->of) == 0)
        st = sp_sensitivities_read(&m->known, json, err);
    if (!st && m->known.n)
        st = sp_cache_divergences_read(&m->known_caches, sp_json_get(json, "caches"), err);
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

/* The number of groups from group `first` on that have its depth. */
static size_t count_depth(const struct measuring *m, size_t first)
{
    size_t n = 1;

    while (first + n < m->n_groups && m->groups[first + n].depth == m->groups[first].depth)
        n++;
    return n;
}

static enum sp_status report(struct measuring *m, unsigned depth, struct sp_err *err)
{
    const struct sp_calibration_request *q = m->request;

    m->n_done += cost(m, depth);
    if (q->layer_progress && q->layer_progress(q->context, m->n_done, m->n_total))
        return sp_fail(err, SP_E_CANCELLED, "interrupted");
    return SP_OK;
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

/* Takes over the groups of a depth if all of them are known. */
static enum sp_status take_known(struct measuring *m, size_t first, size_t n, bool *taken,
                                 struct sp_err *err)
{
    enum sp_status st = SP_OK;

    *taken = true;
    for (size_t i = 0; i < n && *taken; i++)
        *taken = sp_sensitivities_find(&m->known, m->groups[first + i].group) != NULL;
    for (size_t i = 0; i < n && *taken && !st; i++) {
        struct sp_tensor_group group = m->groups[first + i].group;
        double known = sp_sensitivities_find(&m->known, group)->kl_per_error;
        st = sp_sensitivities_add(&m->made, group, known, err);
    }
    return st;
}

static enum sp_status measure_all(struct measuring *m, const struct sp_model *model,
                                  struct sp_err *err)
{
    enum sp_status st = SP_OK;
    bool taken;

    for (unsigned i = (unsigned)m->known_caches.n; i < m->n_layers; i++)
        if (sp_cache_types_vary(model, i)) m->n_total += SP_N_LAYER_CACHES * cost(m, 1 + i);
    for (size_t i = 0, n; i < m->n_groups; i += n) {
        n = count_depth(m, i);
        m->n_total += (n + 1) * cost(m, m->groups[i].depth);
    }
    for (size_t i = 0, n; i < m->n_groups && !st; i += n) {
        n = count_depth(m, i);
        if ((st = take_known(m, i, n, &taken, err))) break;
        if (taken)
            m->n_total -= (n + 1) * cost(m, m->groups[i].depth);
        else
            st = measure_depth(m, i, n, err);
    }
    return st;
}

static enum sp_status measure_cache(struct measuring *m, const struct sp_model *model,
                                    unsigned layer, struct sp_err *err)
{
    struct sp_cache_divergence made;
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

static enum sp_status measure_caches(struct measuring *m, struct sp_package *package,
                                     struct sp_err *err)
{
    const struct sp_calibration_request *q = m->request;
    const struct sp_model *model = package->target;
    enum sp_status st;
    unsigned first = 0;

    while (first < m->n_layers && !sp_cache_types_vary(model, first))
        first++;
    if (first == m->n_layers) return SP_OK;
    st = sp_group_divergence_open(&m->divergence, package, NULL, sp_divergence_of_caches, q->texts,
                                  q->n_texts, err);
    for (unsigned i = 0; i < m->n_layers && !st; i++)
        if (i < m->known_caches.n)
            st = sp_cache_divergences_add(&m->made_caches, m->known_caches.layers[i], err);
        else
            st = measure_cache(m, model, i, err);
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
        (st = set_digest(&m, package, err)) || (st = read_known(&m, err)) ||
        (st = sp_group_divergence_open(&m.divergence, package, stats, sp_divergence_of_groups,
                                       request->texts, request->n_texts, err)))
        goto done;
    m.groups = sp_group_divergence_groups(m.divergence, &m.n_groups);
    if ((st = measure_all(&m, package->target, err))) goto done;
    sp_group_divergence_close(m.divergence);
    m.divergence = NULL;
    if ((st = measure_caches(&m, package, err))) goto done;
    *out = m.made;
    *caches = m.made_caches;
    m.made_caches = (struct sp_cache_divergences){0};
    m.made = (struct sp_sensitivities){0};
done:
    sp_group_divergence_close(m.divergence);
    sp_sensitivities_release(&m.made);
    sp_sensitivities_release(&m.known);
    sp_cache_divergences_release(&m.made_caches);
    sp_cache_divergences_release(&m.known_caches);
    free(m.path);
    return st;
}
