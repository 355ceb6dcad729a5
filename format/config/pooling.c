#include "format/config/pooling.h"

#include "format/config/config_text.h"
#include "format/json/json_write.h"

#include <string.h>

static const char *const names[] = {
    [SP_POOL_NONE] = "none", [SP_POOL_LAST] = "last", [SP_POOL_MEAN] = "mean",
    [SP_POOL_CLS] = "cls",   [SP_POOL_RANK] = "rank",
};

static const char score_name[] = "score"; /* in place of the pooling of a classifier */

const char *sp_pooling_name(enum sp_pooling_mode mode)
{
    return names[mode];
}

unsigned sp_pooling_width(const struct sp_pooling_config *pooling, unsigned n_hidden)
{
    if (pooling->mode == SP_POOL_RANK) return 1;
    return pooling->n_dense ? pooling->dense[pooling->n_dense - 1].n_out : n_hidden;
}

/* ---- writing ---- */

static void put_dense(struct sp_json_out *out, const struct sp_pooling_config *p)
{
    for (unsigned i = 0; i < p->n_dense; i++) {
        const struct sp_dense_config *d = &p->dense[i];
        sp_json_out_print(out, "%s{\"in\":%u,\"out\":%u,\"bias\":%s,\"activation\":\"%s\"%s}",
                          i ? "," : ",\"dense\":[", d->n_in, d->n_out, d->bias ? "true" : "false",
                          d->tanh   ? "tanh"
                          : d->gelu ? "gelu"
                                    : "identity",
                          d->norm ? ",\"norm\":true" : "");
    }
    if (p->n_dense) sp_json_out_raw(out, "]");
}

static void put_pair(struct sp_json_out *out, const struct sp_pair_config *pair)
{
    sp_json_out_raw(out, ",\"pair\":[");
    for (unsigned i = 0; i < 3; i++) {
        sp_json_out_raw(out, i ? ",[" : "[");
        for (unsigned k = 0; k < pair->n_ids[i]; k++)
            sp_json_out_print(out, "%s%u", k ? "," : "", (unsigned)pair->ids[i][k]);
        sp_json_out_raw(out, "]");
    }
    sp_json_out_print(out, "],\"second_type\":%s", pair->second_type ? "true" : "false");
}

/* Writes the members that only a classifier, or a reranker with tokens as answers, has. */
static void put_score(struct sp_json_out *out, const struct sp_pooling_config *p)
{
    const char *activation = p->score.sigmoid ? "sigmoid" : "identity";

    if (p->classifies) {
        sp_json_out_print(out, ",\"states\":\"%s\",\"activation\":\"%s\"", names[p->mode],
                          activation);
        put_pair(out, &p->pair);
    }
    if (p->mode != SP_POOL_RANK) return;
    sp_json_out_print(out, ",\"true_token\":%u", (unsigned)p->score.true_token);
    if (p->score.two_tokens)
        sp_json_out_print(out, ",\"false_token\":%u", (unsigned)p->score.false_token);
    sp_json_out_print(out, ",\"activation\":\"%s\"", activation);
}

static void put_prompts(struct sp_json_out *out, const struct sp_json *prompts)
{
    const char *before = ",\"prompts\":{";

    for (struct sp_json_iter it = {0}; sp_json_next(prompts, &it); before = ",") {
        size_t len;
        const char *text = sp_json_to_string(it.value, &len);
        sp_json_out_raw(out, before);
        sp_json_out_quoted(out, it.key, strlen(it.key));
        sp_json_out_raw(out, ":");
        sp_json_out_quoted(out, text, len);
    }
    if (sp_json_len(prompts)) sp_json_out_raw(out, "}");
}

enum sp_status sp_pooling_print(struct sp_text *text, const struct sp_pooling_config *pooling,
                                const struct sp_json *prompts, const char *default_prompt,
                                struct sp_err *err)
{
    struct sp_json_out out = {0};

    sp_json_out_print(&out, "{\"pooling\":\"%s\",\"normalize\":%s,\"max_tokens\":%u",
                      pooling->classifies ? score_name : sp_pooling_name(pooling->mode),
                      pooling->normalize ? "true" : "false", pooling->max_tokens);
    put_score(&out, pooling);
    put_dense(&out, pooling);
    put_prompts(&out, prompts);
    if (default_prompt) {
        sp_json_out_raw(&out, ",\"default_prompt\":");
        sp_json_out_quoted(&out, default_prompt, strlen(default_prompt));
    }
    sp_json_out_raw(&out, "}");
    return sp_json_out_take(text, &out, err);
}

/* ---- reading ---- */

static enum sp_status read_mode(struct sp_pooling_config *p, const struct sp_json *root,
                                struct sp_err *err)
{
    const char *name = "";
    enum sp_status st = sp_json_get_string(root, "pooling", &name, err);
    int last;

    p->classifies = strcmp(name, score_name) == 0;
    if (!st && p->classifies) st = sp_json_get_string(root, "states", &name, err);
    last = p->classifies ? SP_POOL_CLS : SP_POOL_RANK;
    for (int i = SP_POOL_LAST; !st && i <= last; i++)
        if (strcmp(names[i], name) == 0) p->mode = (enum sp_pooling_mode)i;
    if (!st && p->mode == SP_POOL_NONE) {
        st = sp_fail(err, SP_E_INPUT, "%s \"%.40s\": expected last, mean%s",
                     p->classifies ? "states" : "pooling", name,
                     p->classifies ? " or cls" : ", cls, rank or score");
    }
    return st;
}

static enum sp_status read_pair(struct sp_pair_config *pair, const struct sp_json *root,
                                struct sp_err *err)
{
    const struct sp_json *lists = sp_json_get(root, "pair");

    for (size_t i = 0; i < 3; i++) {
        const struct sp_json *list = sp_json_at(lists, i);
        if (sp_json_kind(list) != SP_JSON_ARRAY || sp_json_len(lists) != 3 ||
            sp_json_len(list) > SP_MAX_PAIR_IDS) {
            return sp_fail(err, SP_E_INPUT, "pair is not three lists of at most %d token IDs",
                           SP_MAX_PAIR_IDS);
        }
        for (size_t k = 0; k < sp_json_len(list); k++) {
            uint64_t id;
            if (!sp_json_to_u64(sp_json_at(list, k), &id) || id >= SP_CAP_VOCAB)
                return sp_fail(err, SP_E_INPUT, "pair[%zu][%zu] is not a token ID", i, k);
            pair->ids[i][pair->n_ids[i]++] = (uint32_t)id;
        }
    }
    return sp_json_get_bool(root, "second_type", &pair->second_type, err);
}

/* *is_other = the activation is `other`, and not the identity. */
static enum sp_status read_activation(bool *is_other, const struct sp_json *v, const char *other,
                                      struct sp_err *err)
{
    const char *activation = "";
    enum sp_status st = sp_json_get_string(v, "activation", &activation, err);

    *is_other = strcmp(activation, other) == 0;
    if (st || *is_other || strcmp(activation, "identity") == 0) return st;
    return sp_fail(err, SP_E_INPUT, "activation \"%.40s\": expected identity or %s", activation,
                   other);
}

static enum sp_status read_score(struct sp_pooling_config *p, const struct sp_json *root,
                                 struct sp_err *err)
{
    int64_t yes = -1, no = -1;
    enum sp_status st;

    if (p->classifies) {
        st = read_activation(&p->score.sigmoid, root, "sigmoid", err);
        return st ? st : read_pair(&p->pair, root, err);
    }
    if (p->mode != SP_POOL_RANK) return SP_OK;
    if ((st = sp_json_get_i64(root, "true_token", 0, UINT32_MAX, &yes, err))) return st;
    if ((st = sp_json_get_i64(root, "false_token", 0, UINT32_MAX, &no, err))) return st;
    if ((st = read_activation(&p->score.sigmoid, root, "sigmoid", err))) return st;
    if (yes < 0) return sp_fail(err, SP_E_INPUT, "true_token is missing");
    p->score.true_token = (uint32_t)yes;
    p->score.two_tokens = no >= 0;
    p->score.false_token = no >= 0 ? (uint32_t)no : 0;
    return SP_OK;
}

/* tanh, or of a classifier gelu. */
static enum sp_status read_layer_activation(struct sp_dense_config *d, const struct sp_json *v,
                                            bool classifies, struct sp_err *err)
{
    const char *activation = sp_json_get_text(v, "activation");

    d->gelu = classifies && activation && strcmp(activation, "gelu") == 0;
    return d->gelu ? SP_OK : read_activation(&d->tanh, v, "tanh", err);
}

static enum sp_status read_one_dense(struct sp_dense_config *d, const struct sp_json *v,
                                     unsigned n_in, bool classifies, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_object_unsigned(v, "in", 1, SP_CAP_WIDTH, &d->n_in, err))) return st;
    if ((st = sp_object_unsigned(v, "out", 1, SP_CAP_WIDTH, &d->n_out, err))) return st;
    if ((st = sp_json_get_bool(v, "bias", &d->bias, err))) return st;
    if ((st = read_layer_activation(d, v, classifies, err))) return st;
    if (classifies && (st = sp_json_get_bool(v, "norm", &d->norm, err))) return st;
    if (d->n_in == n_in && d->n_out) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%u inputs and %u outputs, but the input has %u numbers",
                   d->n_in, d->n_out, n_in);
}

static enum sp_status read_dense(struct sp_pooling_config *p, const struct sp_json *root,
                                 unsigned n_hidden, struct sp_err *err)
{
    const struct sp_json *list = sp_json_get(root, "dense");
    size_t n = sp_json_len(list);
    enum sp_status st = SP_OK;

    if (list == NULL && !p->classifies) return SP_OK;
    if (p->mode == SP_POOL_RANK) return sp_fail(err, SP_E_INPUT, "a score has no dense layers");
    if (sp_json_kind(list) != SP_JSON_ARRAY || n == 0 || n > SP_MAX_DENSE)
        return sp_fail(err, SP_E_INPUT, "dense is not a list of 1 to %d layers", SP_MAX_DENSE);
    for (size_t i = 0; i < n && !st; i++, p->n_dense++) {
        st = read_one_dense(&p->dense[i], sp_json_at(list, i), sp_pooling_width(p, n_hidden),
                            p->classifies, err);
        if (st) sp_context(err, "dense[%zu]", i);
    }
    if (!st && p->classifies && sp_pooling_width(p, n_hidden) != 1)
        return sp_fail(err, SP_E_INPUT, "the last dense layer of a score has more than one output");
    return st;
}

/* The prompts are an object of texts, and the default prompt is one of them. */
static enum sp_status check_prompts(const struct sp_json *root, struct sp_err *err)
{
    const struct sp_json *prompts = sp_json_get(root, "prompts");
    const char *name = NULL;
    enum sp_status st;

    if (prompts && sp_json_kind(prompts) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "prompts is not an object");
    for (struct sp_json_iter it = {0}; sp_json_next(prompts, &it);) {
        if (sp_json_to_string(it.value, NULL)) continue;
        return sp_fail(err, SP_E_INPUT, "prompt \"%.40s\" is not a string", it.key);
    }
    if ((st = sp_json_get_string(root, "default_prompt", &name, err))) return st;
    if (name == NULL || sp_json_get(prompts, name)) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "default_prompt \"%.40s\" is not one of the prompts", name);
}

enum sp_status sp_pooling_read(struct sp_pooling_config *out, struct sp_json **root,
                               const struct sp_text *text, unsigned n_hidden, struct sp_err *err)
{
    struct sp_pooling_config p = {0};
    struct sp_json *own = NULL;
    enum sp_status st;

    if ((st = sp_json_parse_within(&own, text->at, text->size, SP_JSON_STRICT, SP_JSON_SETTINGS,
                                   err)) ||
        (st = read_mode(&p, own, err)) ||
        (st = sp_json_get_bool(own, "normalize", &p.normalize, err)) ||
        (st = sp_object_unsigned(own, "max_tokens", 1, SP_CAP_POSITIONS, &p.max_tokens, err)) ||
        (st = read_score(&p, own, err)) || (st = read_dense(&p, own, n_hidden, err)) ||
        (st = check_prompts(own, err)))
        goto done;
    *out = p;
    if (root) {
        *root = own;
        own = NULL;
    }
done:
    if (st) sp_context(err, "pooling");
    sp_json_free(own);
    return st;
}
