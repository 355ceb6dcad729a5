#include "format/family/config_publish.h"

#include "format/config/config_text.h"
#include "format/json/json_edit.h"
#include "format/family/config_parse.h"
#include "format/family/family_table.h"

#include <stdio.h>

static const struct {
    const char *name; /* in configs */
    enum sp_dtype dtype;
} types[] = {{"float32", SP_F32}, {"float16", SP_F16}, {"bfloat16", SP_BF16}};

enum { N_TYPES = sizeof types / sizeof types[0] };

/* The key of the type in transformers 5, and the older one. */
static const char *const type_keys[] = {"dtype", "torch_dtype"};

static enum sp_dtype type_named(const char *name)
{
    for (size_t i = 0; name && i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0) return types[i].dtype;
    return SP_DTYPE_NONE;
}

enum sp_status sp_config_stated_dtype(enum sp_dtype *out, const struct sp_text *json,
                                      struct sp_err *err)
{
    enum sp_status st;
    struct sp_json *root = NULL;
    struct sp_config_text t = {0};

    if ((st = sp_json_parse_settings(&root, json, err))) return st;
    t.root = root;
    t.text = sp_json_get(root, "text_config");
    *out = SP_DTYPE_NONE;
    for (size_t i = 0; i < 2 && *out == SP_DTYPE_NONE; i++)
        *out = type_named(sp_json_to_string(sp_text_get(&t, type_keys[i]), NULL));
    sp_json_free(root);
    return SP_OK;
}

static enum sp_status set_text(struct sp_strbuf *text, const char *key, const char *value,
                               struct sp_err *err)
{
    char quoted[128];

    snprintf(quoted, sizeof quoted, "\"%s\"", value);
    return sp_json_set(text, key, quoted, strlen(quoted), err);
}

/* Replaces a stated type that is not `dtype`. */
static enum sp_status correct_type(struct sp_strbuf *text, const struct sp_json *root,
                                   enum sp_dtype dtype, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t i = 0; st == SP_OK && i < 2; i++) {
        const char *stated = sp_json_to_string(sp_json_get(root, type_keys[i]), NULL);
        if (stated == NULL || type_named(stated) == dtype) continue;
        for (size_t k = 0; st == SP_OK && k < N_TYPES; k++)
            if (types[k].dtype == dtype) st = set_text(text, type_keys[i], types[k].name, err);
    }
    return st;
}

static enum sp_status remove_quantization(struct sp_strbuf *text, struct sp_err *err)
{
    static const char *const keys[] = {"quantization_config", "compression_config", "quantization"};
    enum sp_status st = SP_OK;

    for (size_t i = 0; st == SP_OK && i < sizeof keys / sizeof keys[0]; i++)
        st = sp_json_remove(text, keys[i], err);
    return st;
}

/* True if this key of the root applies to the text model, not only to the multimodal checkpoint. */
static bool is_of_text(const char *key, size_t len)
{
    static const char end[] = "_config";
    static const char *const others[] = {"architectures", "model_type"};
    size_t n = strlen(end);

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (len == strlen(others[i]) && memcmp(key, others[i], len) == 0) return false;
    return len < n || memcmp(key + len - n, end, n) != 0;
}

/* Makes text_config the root, with the keys of the old root that apply to the text model. */
static enum sp_status lift_text(struct sp_strbuf *text, struct sp_err *err)
{
    struct sp_strbuf outer = {0};
    struct sp_json_member member;
    enum sp_status st;
    bool found;

    if ((st = sp_json_find_member(&found, &member, text, "text_config", err))) return st;
    if (!found) return sp_fail(err, SP_E_UNSUPPORTED, "text_config is spelled with escapes");
    if ((st = sp_strbuf_append(&outer, text->at, text->len, err))) goto done;
    if ((st = sp_json_lift(text, &member, err))) goto done;
    st = sp_json_merge(text, &outer, is_of_text, err);
done:
    sp_strbuf_release(&outer);
    return st;
}

/* Makes the config of the text model the whole config. */
static enum sp_status unwrap(struct sp_strbuf *text, const struct sp_json *root,
                             const struct sp_config *config, struct sp_err *err)
{
    const struct sp_family *family = sp_family_by_type(config->family);
    char architectures[128];
    enum sp_status st;

    snprintf(architectures, sizeof architectures, "[\"%s\"]", family->architecture);
    if ((sp_json_has(root, "text_config") && (st = lift_text(text, err))) ||
        (st = set_text(text, "model_type", family->name, err)))
        return st;
    return sp_json_set(text, "architectures", architectures, strlen(architectures), err);
}

static bool is_wrapped(const struct sp_json *root, const struct sp_config *config)
{
    const char *type = sp_json_to_string(sp_json_get(root, "model_type"), NULL);

    if (config->draft.kind != SP_DRAFT_NONE) return false;
    return type ? sp_wrapper_by_type(type) != NULL
                : sp_wrapper_by_architecture(config->architecture) != NULL;
}

/* Makes tie_word_embeddings agree with the tensors, which decided whether the head is tied. */
static enum sp_status set_tied(struct sp_strbuf *text, const struct sp_config *config,
                               struct sp_err *err)
{
    const struct sp_family *family = sp_family_by_type(config->family);
    const char *value = config->tied ? "true" : "false", *key = "tie_word_embeddings";
    struct sp_config again;
    struct sp_json_member member;
    bool tied, own = false;
    enum sp_status st;

    if ((st = sp_config_parse(&again, text->at, text->len, NULL, err))) return st;
    tied = again.tied;
    sp_config_release(&again);
    if (config->draft.kind != SP_DRAFT_NONE || tied == config->tied) return SP_OK;
    if (family->tied_key) {
        if ((st = sp_json_find_member(&own, &member, text, family->tied_key, err))) return st;
    }
    return sp_json_set(text, own ? family->tied_key : key, value, strlen(value), err);
}

static enum sp_status rewrite(struct sp_strbuf *text, bool *text_only,
                              const struct sp_config *config, enum sp_dtype dtype,
                              struct sp_err *err)
{
    struct sp_json *root = NULL;
    enum sp_status st = sp_json_parse_settings(&root, &(struct sp_text){text->at, text->len}, err);

    if (st) return st;
    *text_only = is_wrapped(root, config);
    if (*text_only) {
        if ((st = unwrap(text, root, config, err))) goto done;
        sp_json_free(root);
        st = sp_json_parse_settings(&root, &(struct sp_text){text->at, text->len}, err);
        if (st) goto done;
    }
    if ((st = correct_type(text, root, dtype, err))) goto done;
    if ((st = remove_quantization(text, err))) goto done;
    st = set_tied(text, config, err);
done:
    sp_json_free(root);
    return st;
}

enum sp_status sp_config_publish(struct sp_text *out, bool *text_only, const struct sp_text *json,
                                 const struct sp_config *config, enum sp_dtype dtype,
                                 struct sp_err *err)
{
    enum sp_status st;
    struct sp_strbuf text = {0};

    if (!(st = sp_strbuf_append(&text, json->at, json->size, err)) &&
        !(st = rewrite(&text, text_only, config, dtype, err))) {
        out->size = text.len;
        st = sp_copy_text(&out->at, text.at, text.len, err);
    }
    sp_strbuf_release(&text);
    return st;
}
