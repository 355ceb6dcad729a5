/* End-of-sequence ids. As in transformers, generation_config.json replaces the ids of config.json
 * and does not add to them. Id 0 is valid. */
#include "format/config/config.h"

#include "format/json/json.h"

static enum sp_status add_id(uint32_t ids[SP_MAX_EOS], size_t *n, const struct sp_json *v,
                             struct sp_err *err)
{
    int64_t id;

    if (v == NULL || sp_json_kind(v) == SP_JSON_NULL) return SP_OK;
    if (sp_json_to_i64(v, &id) && id == -1) return SP_OK; /* "none" */
    if (!sp_json_to_i64(v, &id) || id < 0 || id > INT32_MAX)
        return sp_fail(err, SP_E_INPUT, "eos_token_id holds no token ID");
    for (size_t i = 0; i < *n; i++)
        if (ids[i] == (uint32_t)id) return SP_OK;
    if (*n == SP_MAX_EOS)
        return sp_fail(err, SP_E_UNSUPPORTED, "eos_token_id has more than %d ids", SP_MAX_EOS);
    ids[(*n)++] = (uint32_t)id;
    return SP_OK;
}

/* eos_token_id is an integer or a list; *n stays 0 if the object does not have it. */
static enum sp_status read_ids(uint32_t ids[SP_MAX_EOS], size_t *n, const struct sp_json *object,
                               struct sp_err *err)
{
    const struct sp_json *v = sp_json_get(object, "eos_token_id");
    enum sp_status st = SP_OK;

    if (sp_json_kind(v) != SP_JSON_ARRAY) return add_id(ids, n, v, err);
    for (size_t i = 0; st == SP_OK && i < sp_json_len(v); i++)
        st = add_id(ids, n, sp_json_at(v, i), err);
    return st;
}

static enum sp_status read_text(uint32_t ids[SP_MAX_EOS], size_t *n, const struct sp_text *text,
                                const char *file, struct sp_err *err)
{
    struct sp_json *root = NULL;
    enum sp_status st;

    if (*n) return SP_OK;
    if ((st = sp_json_parse_settings(&root, text, err))) goto done;
    if ((st = read_ids(ids, n, root, err)) || *n) goto done;
    st = read_ids(ids, n, sp_json_get(root, "text_config"), err);
done:
    if (st) sp_context(err, "%s", file);
    sp_json_free(root);
    return st;
}

enum sp_status sp_config_eos(uint32_t ids[SP_MAX_EOS], size_t *n, const struct sp_text *config,
                             const struct sp_text *generation, struct sp_err *err)
{
    enum sp_status st;

    *n = 0;
    st = read_text(ids, n, generation, "generation_config.json", err);
    return st ? st : read_text(ids, n, config, "config.json", err);
}
