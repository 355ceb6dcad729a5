#include "cli/prompt.h"
#include "convert/modelfile.h"
#include "format/json.h"

#include <stdlib.h>

static enum sp_status has_record(bool *out, const struct sp_package *package, struct sp_err *err)
{
    enum sp_status st;
    struct sp_modelfile file = {0};
    char *text = NULL;
    size_t size = 0;

    if ((st = sp_package_read(package, "Modelfile", &text, &size, err)) || text == NULL) return st;
    st = sp_modelfile_parse(&file, "Modelfile", text, size, err);
    if (st == SP_OK) *out |= sp_modelfile_find(&file, SP_MODELFILE_TEMPLATE, NULL) != NULL;
    sp_modelfile_release(&file);
    free(text);
    return st;
}

static enum sp_status has_file(bool *out, const struct sp_package *package, struct sp_err *err)
{
    enum sp_status st;
    char *text = NULL;
    size_t size = 0;

    if ((st = sp_package_read(package, "chat_template.jinja", &text, &size, err))) return st;
    *out |= text != NULL;
    free(text);
    return SP_OK;
}

/* Older checkpoints keep the template inside tokenizer_config.json. */
static enum sp_status has_member(bool *out, const struct sp_package *package, struct sp_err *err)
{
    enum sp_status st;
    struct sp_json *json = NULL;
    char *text = NULL;
    size_t size = 0;

    st = sp_package_read(package, "tokenizer_config.json", &text, &size, err);
    if (st || text == NULL) return st;
    st = sp_json_parse(&json, text, size, SP_JSON_LENIENT, err);
    if (st)
        sp_context(err, "tokenizer_config.json");
    else
        *out |= sp_json_get(json, "chat_template") != NULL;
    sp_json_free(json);
    free(text);
    return st;
}

enum sp_status sp_prompt_has_template(bool *out, const struct sp_package *package,
                                      struct sp_err *err)
{
    enum sp_status st;
    bool has = false;

    if ((st = has_record(&has, package, err))) return st;
    if ((st = has_file(&has, package, err))) return st;
    if ((st = has_member(&has, package, err))) return st;
    *out = has;
    return SP_OK;
}

enum sp_status sp_prompt_raw(struct sp_ids *ids, const struct sp_package *package, const char *text,
                             size_t size, bool first, struct sp_err *err)
{
    unsigned flags = SP_ENCODE_PARSE_SPECIAL | (first ? SP_ENCODE_ADD_SPECIAL : 0);

    return sp_package_encode(package, text, size, flags, &ids->at, &ids->n, err);
}
