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

static void read_mode(struct sp_pooling_config *p, const struct sp_config_text *t)
{
    const char *name = "";
    int last;

    sp_text_string(t, "pooling", &name);
    p->classifies = strcmp(name, score_name) == 0;
    if (p->classifies) sp_text_string(t, "states", &name);
    last = p->classifies ? SP_POOL_CLS : SP_POOL_RANK;
    for (int i = SP_POOL_LAST; i <= last; i++)
        if (strcmp(names[i], name) == 0) p->mode = (enum sp_pooling_mode)i;
    if (p->mode == SP_POOL_NONE) {
        SP_INVALID(t, "%s \"%.40s\": expected last, mean%s", p->classifies ? "states" : "pooling",
                   name, p->classifies ? " or cls" : ", cls, rank or score");
    }
}

static void read_pair(struct sp_pair_config *pair, const struct sp_config_text *t)
{
    const struct sp_json *lists = sp_text_get(t, "pair");

    for (size_t i = 0; i < 3; i++) {
        const struct sp_json *list = sp_json_at(lists, i);
        if (sp_json_kind(list) != SP_JSON_ARRAY || sp_json_len(lists) != 3 ||
            sp_json_len(list) > SP_MAX_PAIR_IDS) {
            SP_INVALID(t, "pair is not three lists of at most %d token IDs", SP_MAX_PAIR_IDS);
            return;
        }
        for (size_t k = 0; k < sp_json_len(list); k++) {
            uint64_t id = 0;
            if (!sp_json_to_u64(sp_json_at(list, k), &id) || id >= SP_CAP_VOCAB)
                SP_INVALID(t, "pair[%zu][%zu] is not a token ID", i, k);
            pair->ids[i][pair->n_ids[i]++] = (uint32_t)id;
        }
    }
    sp_text_bool(t, "second_type", &pair->second_type);
}

/* True if the activation is `other`, and not the identity. */
static bool read_activation(const struct sp_json *v, const char *other,
                            const struct sp_config_text *t)
{
    const char *activation = "";

    sp_member_string(t, v, "activation", &activation);
    if (strcmp(activation, other) == 0) return true;
    if (strcmp(activation, "identity") != 0)
        SP_INVALID(t, "activation \"%.40s\": expected identity or %s", activation, other);
    return false;
}

static void read_score(struct sp_pooling_config *p, const struct sp_config_text *t)
{
    int64_t yes = -1, no = -1;

    if (!p->classifies && p->mode != SP_POOL_RANK) return;
    if (!p->classifies) {
        sp_text_i64(t, "true_token", 0, UINT32_MAX, &yes);
        sp_text_i64(t, "false_token", 0, UINT32_MAX, &no);
    }
    p->score.sigmoid = read_activation(t->root, "sigmoid", t);
    if (p->classifies) {
        read_pair(&p->pair, t);
        return;
    }
    if (yes < 0) SP_INVALID(t, "true_token is missing");
    p->score.true_token = (uint32_t)yes;
    p->score.two_tokens = no >= 0;
    p->score.false_token = no >= 0 ? (uint32_t)no : 0;
}

/* The activation is tanh, or of a classifier gelu. */
static void read_one_dense(struct sp_dense_config *d, const struct sp_json *v, unsigned n_in,
                           bool classifies, const struct sp_config_text *t)
{
    const char *activation = sp_json_get_text(v, "activation");

    sp_member_unsigned(t, v, "in", 1, SP_CAP_WIDTH, &d->n_in);
    sp_member_unsigned(t, v, "out", 1, SP_CAP_WIDTH, &d->n_out);
    sp_member_bool(t, v, "bias", &d->bias);
    d->gelu = classifies && activation && strcmp(activation, "gelu") == 0;
    if (!d->gelu) d->tanh = read_activation(v, "tanh", t);
    if (classifies) sp_member_bool(t, v, "norm", &d->norm);
    if (d->n_in != n_in || d->n_out == 0)
        SP_INVALID(t, "%u inputs and %u outputs, but the input has %u numbers", d->n_in, d->n_out,
                   n_in);
}

static void read_dense(struct sp_pooling_config *p, unsigned n_hidden,
                       const struct sp_config_text *t)
{
    const struct sp_json *list = sp_text_get(t, "dense");
    size_t n = sp_json_len(list);

    if (list == NULL && !p->classifies) return;
    if (p->mode == SP_POOL_RANK) SP_INVALID(t, "a score has no dense layers");
    if (sp_json_kind(list) != SP_JSON_ARRAY || n == 0 || n > SP_MAX_DENSE)
        SP_INVALID(t, "dense is not a list of 1 to %d layers", SP_MAX_DENSE);
    for (size_t i = 0; i < n && !sp_text_failed(t); i++, p->n_dense++) {
        read_one_dense(&p->dense[i], sp_json_at(list, i), sp_pooling_width(p, n_hidden),
                       p->classifies, t);
        sp_context(t->err, "dense[%zu]", i);
    }
    if (p->classifies && sp_pooling_width(p, n_hidden) != 1)
        SP_INVALID(t, "the last dense layer of a score has more than one output");
}

/* The prompts are an object of texts, and the default prompt is one of them. */
static void check_prompts(const struct sp_config_text *t)
{
    const struct sp_json *prompts = sp_text_get(t, "prompts");
    const char *name = NULL;

    if (prompts && sp_json_kind(prompts) != SP_JSON_OBJECT)
        SP_INVALID(t, "prompts is not an object");
    for (struct sp_json_iter it = {0}; sp_json_next(prompts, &it);)
        if (!sp_json_to_string(it.value, NULL))
            SP_INVALID(t, "prompt \"%.40s\" is not a string", it.key);
    sp_text_string(t, "default_prompt", &name);
    if (name && !sp_json_get(prompts, name))
        SP_INVALID(t, "default_prompt \"%.40s\" is not one of the prompts", name);
}

enum sp_status sp_pooling_read(struct sp_pooling_config *out, struct sp_json **root,
                               const struct sp_text *text, unsigned n_hidden, struct sp_err *err)
{
    struct sp_pooling_config p = {0};
    struct sp_err failure = {0};
    struct sp_config_text t = {.err = &failure};
    struct sp_json *own = NULL;

    if (!sp_json_parse_within(&own, text->at, text->size, SP_JSON_STRICT, SP_JSON_SETTINGS,
                              &failure)) {
        t.root = own;
        read_mode(&p, &t);
        sp_text_bool(&t, "normalize", &p.normalize);
        sp_text_unsigned(&t, "max_tokens", 1, SP_CAP_POSITIONS, &p.max_tokens);
        read_score(&p, &t);
        read_dense(&p, n_hidden, &t);
        check_prompts(&t);
    }
    if (!failure.status) *out = p;
    if (!failure.status && root) {
        *root = own;
        own = NULL;
    }
    sp_json_free(own);
    sp_context(&failure, "pooling");
    return failure.status ? sp_fail_as(err, &failure) : SP_OK;
}
