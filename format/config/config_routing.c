/* How the experts of a token and their weights are chosen. */
#include "format/config/config_readers.h"

#include <string.h>

static void check_groups(const struct sp_routing *r, unsigned n_experts, unsigned n_experts_used,
                         const struct sp_config_text *t)
{
    unsigned n = r->n_groups ? n_experts / r->n_groups : n_experts;

    if (r->n_groups <= 1 || n_experts == 0) return;
    if (n_experts % r->n_groups != 0 || n < 2) {
        SP_INVALID(t, "%u experts do not make n_group %u groups of at least 2", n_experts,
                   r->n_groups);
    }
    if (r->n_groups_used > r->n_groups)
        SP_INVALID(t, "topk_group %u is more than n_group %u", r->n_groups_used, r->n_groups);
    if (n_experts_used > n * r->n_groups_used)
        SP_INVALID(t, "num_experts_per_tok %u is more than topk_group %u have", n_experts_used,
                   r->n_groups_used);
}

/* scoring_func is read by DeepSeek's own code but not by transformers, so it must name the function
 * that transformers uses. Other families do not read it. */
static void check_scoring(const struct sp_config_text *t)
{
    static const char key[] = "scoring_func";
    const char *wanted = t->family->routing.law == SP_ROUTE_SIGMOID ? "sigmoid" : "softmax";
    const char *name = wanted;

    sp_text_string(t, key, &name);
    if (strcmp(name, wanted) != 0)
        SP_REFUSED(t, "%s \"%s\" is not supported for %s", key, name, t->family->name);
}

/* Whether experts are chosen by groups, and how groups are scored. In families whose row has groups
 * they always are. */
static bool read_method(struct sp_routing *r, const struct sp_config_text *t)
{
    static const char key[] = "topk_method";
    bool always = t->family->routing.n_groups != 0;
    const char *expected = always ? "noaux_tc" : "greedy", *name = expected;

    if (t->family->latent == NULL) return true;
    check_scoring(t);
    sp_text_string(t, key, &name);
    r->groups_by_best = !always && strcmp(name, "group_limited_greedy") == 0;
    if (!r->groups_by_best && strcmp(name, expected) != 0)
        SP_REFUSED(t, "%s \"%s\" is not supported for %s", key, name, t->family->name);
    return always || r->groups_by_best;
}

void sp_config_read_routing(struct sp_config *out, const struct sp_config_text *t)
{
    const struct sp_family *f = t->family;
    struct sp_routing *r = &out->routing;

    *r = f->routing;
    if (!f->reads.experts || f->clamped_swiglu) return;
    (f->router_norm_fixed ? sp_text_bool : sp_text_flag)(t, "norm_topk_prob", &r->norm);
    if (r->norm != f->routing.norm && f->router_norm_fixed)
        SP_REFUSED(t, "norm_topk_prob is not supported for %s", f->name);
    sp_text_bool(t, f->expert_keys.corrected, &r->corrected);
    if (f->reads.routed_scale) {
        const char *key = f->expert_keys.scale ? f->expert_keys.scale : "routed_scaling_factor";
        sp_text_double(t, key, 1e-6, 1e6, &r->scale);
    }
    if (!f->reads.expert_groups || !read_method(r, t)) return;
    sp_text_unsigned(t, "n_group", 1, SP_CAP_EXPERTS, &r->n_groups);
    sp_text_unsigned(t, "topk_group", 1, SP_CAP_EXPERTS, &r->n_groups_used);
    for (unsigned i = 0; i < out->n_layers; i++) {
        const struct sp_layer_config *l = &out->layers[i];
        check_groups(r, l->n_experts, l->n_experts_used, t);
    }
}
