/* The tensors of the built-in prediction head (multi-token prediction) of a checkpoint.
 *
 * It is one decoder layer of its model's shape after a projection of [embedding, hidden state], and
 * uses the embedding and the output matrix of the model. Its names begin with mtp. (Qwen3.5), or
 * with a path of the family (MiMo), or it is stored as one more layer after the last one, with
 * copies of both tables (GLM-4.5). A tensor that is not known is refused, because newer models have
 * other parts there. */
#include "format/family/family.h"

#include "format/base/affix.h"
#include "format/family/config_settle.h"
#include "format/family/family_parts.h"
#include "format/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* prefix = that of the prediction head; "" if there is none. */
static void find_prefix(char prefix[SP_SOURCE_NAME], const struct sp_config *config,
                        const struct sp_source_tensor *tensors, size_t n)
{
    const struct sp_family *family = sp_family_by_type(config->family);
    const char *path = family ? family->prediction_path : NULL;
    char layer[64];

    prefix[0] = '\0';
    if (family == NULL || !sp_family_predicts(family)) return;
    snprintf(layer, sizeof layer, "layers.%u.eh_proj.weight", config->n_layers);
    for (size_t i = 0; i < n; i++) {
        const char *name = tensors[i].name, *found = strstr(name, path ? path : layer);
        if (path && found) {
            snprintf(prefix, SP_SOURCE_NAME, "%.*s", (int)((size_t)(found - name) + strlen(path)),
                     name);
            return;
        }
        if (family->prediction_head && sp_begins_with(name, SP_MTP_PREFIX)) {
            snprintf(prefix, SP_SOURCE_NAME, "%s", SP_MTP_PREFIX);
            return;
        }
        if (!family->prediction_layer || found == NULL || strcmp(found, layer) != 0) continue;
        snprintf(prefix, SP_SOURCE_NAME, "%.*s", (int)(strlen(name) - strlen("eh_proj.weight")),
                 name);
        return;
    }
}

bool sp_source_has_mtp(const struct sp_config *config, const struct sp_source_tensor *tensors,
                       size_t n)
{
    char prefix[SP_SOURCE_NAME];

    find_prefix(prefix, config, tensors, n);
    return prefix[0] != '\0' &&
           (config->n_mtp_layers || !sp_family_by_type(config->family)->prediction_layer);
}

/* True for a tensor of the prediction head that is not its copy of one of the model's tables. */
static bool is_of_head(const char *name, const char *prefix)
{
    static const char copies[] = "embed_tokens.weight shared_head.head.weight shared_head.weight "
                                 "transformer.shared_head.output.weight";

    if (!sp_begins_with(name, prefix)) return false;
    return strcmp(prefix, SP_MTP_PREFIX) == 0 || !sp_is_among(name + strlen(prefix), copies);
}

/* mlx changes the norms of the model and removes the prediction head. A head in such a checkpoint
 * has been added later, and its norms may be changed or not, so it is refused. */
static enum sp_status refuse_mlx(const struct sp_source_tensor *tensors, size_t n,
                                 struct sp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct sp_source_tensor *t = &tensors[i];
        if (strstr(t->name, ".linear_attn.conv1d.weight") == NULL) continue;
        if (t->rank != 3 || t->shape[2] != 1) continue;
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "mtp: not supported in a checkpoint that mlx has converted (\"%s\")",
                       t->name);
    }
    return SP_OK;
}

/* Refuses more than one layer, even if the config states one. */
static enum sp_status check_layers(const struct sp_tensor_match *m)
{
    static const char begin[] = SP_MTP_PREFIX "layers.";
    unsigned long last = 0;

    for (size_t i = 0; i < m->n; i++) {
        const char *name = m->sorted[i]->name;
        unsigned long layer;
        if (strncmp(name, begin, strlen(begin)) != 0) continue;
        layer = strtoul(name + strlen(begin), NULL, 10);
        if (layer > last) last = layer;
    }
    if (last == 0) return SP_OK;
    return sp_fail(m->err, SP_E_UNSUPPORTED, "mtp: %lu layers, only 1 supported", last + 1);
}

/* True if the layer has a tensor of this canonical name. */
static bool has_in_layer(const struct sp_tensor_match *m, const char *canonical)
{
    char prefix[SP_SOURCE_NAME], name[SP_SOURCE_NAME];

    snprintf(prefix, sizeof prefix, "%s%s", m->prefix, m->only_layer ? m->only_layer : "layers.0.");
    sp_tensor_match_name(name, m, prefix, canonical);
    return sp_tensor_match_has(m, "", name);
}

/* True if the layer has an MLP. If not, the norm before it is missing as well. */
static bool has_ffn(const struct sp_tensor_match *m)
{
    const char *layer = m->only_layer ? m->only_layer : "layers.0.";
    char mlp[SP_SOURCE_NAME];

    snprintf(mlp, sizeof mlp, "%s%smlp.", m->prefix, layer);
    for (size_t i = 0; i < m->n; i++)
        if (sp_begins_with(m->sorted[i]->name, mlp)) return true;
    return has_in_layer(m, "post_attention_layernorm.weight");
}

static enum sp_status settle(struct sp_tensor_match *m)
{
    struct sp_tables found = {
        .mtp = true,
        .mtp_ffn = has_ffn(m),
        .mtp_experts = has_in_layer(m, "mlp.router.weight"),
        .embedding = sp_tensor_match_has(m, m->prefix, "embed_tokens.weight"),
        .head = sp_tensor_match_has(m, m->prefix, "lm_head.weight"),
    };
    char name[SP_SOURCE_NAME];
    size_t fc;

    sp_tensor_match_name(name, m, m->prefix, "fc.weight");
    fc = sp_tensor_match_find(m, name);
    if (fc == m->n || m->sorted[fc]->rank != 2)
        return sp_fail(m->err, SP_E_INPUT, "mtp: no matrix \"%s\"", name);
    found.fc_cols = m->sorted[fc]->shape[1];
    return sp_config_settle(m->config, &found, m->err);
}

static enum sp_status match(struct sp_tensor_match *m)
{
    enum sp_status st;

    if (m->only_layer == NULL && (st = check_layers(m))) return st;
    if ((st = settle(m))) return st;
    if ((st = sp_specs_of_config(m->specs, m->config, m->err))) return st;
    for (size_t i = 0; i < m->specs->n_specs && m->findings.n < SP_MAX_FINDINGS; i++)
        if ((st = sp_tensor_match_place(m, &m->specs->specs[i]))) return st;
    for (size_t i = 0; i < m->n && m->findings.n < SP_MAX_FINDINGS; i++)
        if (!m->used[i]) sp_tensor_match_report(m, "unexpected tensor \"%s\"", m->sorted[i]->name);
    if ((st = sp_tensor_match_conclude(m))) sp_context(m->err, "mtp");
    return st;
}

enum sp_status sp_specs_of_mtp(struct sp_specs *out, struct sp_config *config,
                               const struct sp_source_tensor *tensors, size_t n, struct sp_err *err)
{
    struct sp_specs specs = {0};
    char prefix[SP_SOURCE_NAME];
    struct sp_tensor_match m = {.specs = &specs, .config = config, .prefix = prefix, .err = err};
    struct sp_source_tensor *head = NULL;
    size_t n_head = 0;
    enum sp_status st;

    find_prefix(prefix, config, tensors, n);
    if ((st = refuse_mlx(tensors, n, err))) goto done;
    if ((st = sp_new(&head, n, sizeof *head, err))) goto done;
    for (size_t i = 0; i < n; i++)
        if (is_of_head(tensors[i].name, prefix)) head[n_head++] = tensors[i];
    if ((st = sp_tensor_match_init(&m, head, n_head))) goto done;
    if (strcmp(prefix, SP_MTP_PREFIX) != 0 || m.family->prediction_names)
        sp_tensor_match_set_next_layer(&m);
    if ((st = match(&m))) goto done;
    *out = specs;
    memset(&specs, 0, sizeof specs);
done:
    sp_specs_release(&specs);
    sp_tensor_match_release(&m);
    free(head);
    return st;
}
