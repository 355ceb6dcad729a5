/* special_tokens_map.json names special tokens, and added_tokens.json maps added tokens to ids;
 * tokenizer_config.json has both since 2023. What they add becomes members of its text, so that
 * nobody else has to know the files, and an export has what transformers reads. */
#include "format/tokenizer/older_files.h"

#include "format/json/json_edit.h"
#include "format/json/json_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* *root = a JSON file of the folder, owned by the caller; NULL: there is none. */
static enum sp_status read_file(struct sp_json **root, const char *folder, const char *name,
                                struct sp_err *err)
{
    enum sp_status st = sp_json_read_in(root, folder, name, err);

    if (st || *root == NULL || sp_json_kind(*root) == SP_JSON_OBJECT) return st;
    return sp_fail(err, SP_E_INPUT, "%s/%s: expected an object", folder, name);
}

enum sp_status sp_tokenizer_config_parse(struct sp_json **root, const struct sp_text *config,
                                         const char *folder, struct sp_err *err)
{
    enum sp_status st = sp_json_parse_settings(root, config, err);

    if (!st && config->at && sp_json_kind(*root) != SP_JSON_OBJECT) {
        st = sp_fail(err, SP_E_INPUT, "expected an object, found %s",
                     sp_json_kind_name(sp_json_kind(*root)));
    }
    if (st) sp_context(err, "%s/tokenizer_config.json", folder);
    return st;
}

static const char *text_of(const struct sp_json *token)
{
    size_t len;

    if (sp_json_kind(token) == SP_JSON_OBJECT) token = sp_json_get(token, "content");
    return sp_json_to_string(token, &len);
}

static bool has_text(const struct sp_json *token, const char *text)
{
    const char *own = text_of(token);

    return own && strcmp(own, text) == 0;
}

/* Names of special tokens, which overrule those of tokenizer_config.json. */
static enum sp_status add_names(struct sp_strbuf *text, const struct sp_json *config,
                                const struct sp_json *map, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (struct sp_json_iter it = {0}; !st && sp_json_next(map, &it);) {
        const char *token = text_of(it.value);
        char *value = NULL;
        if (it.value == NULL || strpbrk(it.key, "\"\\")) continue; /* not the name of a token */
        if (token && has_text(sp_json_get(config, it.key), token)) continue;
        if ((st = sp_json_print(&value, it.value, err))) break;
        st = sp_json_set(text, it.key, value, strlen(value), err);
        free(value);
    }
    return st;
}

static bool is_named(const struct sp_json *names, const char *text)
{
    for (struct sp_json_iter it = {0}; sp_json_next(names, &it);) {
        if (has_text(it.value, text)) return true;
        for (size_t i = 0; sp_json_kind(it.value) == SP_JSON_ARRAY && i < sp_json_len(it.value);
             i++)
            if (has_text(sp_json_at(it.value, i), text)) return true;
    }
    return false;
}

/* Appends the entry of added_tokens_decoder for a token that tokenizer.json does not have. */
static enum sp_status put_entry(struct sp_json_out *out, const struct sp_json *tokenizer,
                                const struct sp_json *names, const char *token,
                                const struct sp_json *value, struct sp_err *err)
{
    const struct sp_json *added = sp_json_get(tokenizer, "added_tokens");
    bool special = is_named(names, token);
    uint64_t id;

    if (!sp_json_to_u64(value, &id))
        return sp_fail(err, SP_E_INPUT, "the id of \"%s\" is not a number", token);
    for (size_t i = 0; i < sp_json_len(added); i++)
        if (has_text(sp_json_at(added, i), token)) return SP_OK;
    sp_json_out_print(out, "%s\"%" PRIu64 "\": {\"content\": ", out->text.len > 1 ? ", " : "", id);
    sp_json_out_quoted(out, token, strlen(token));
    sp_json_out_print(out,
                      ", \"lstrip\": false, \"normalized\": %s, \"rstrip\": false, "
                      "\"single_word\": false, \"special\": %s}",
                      special ? "false" : "true", special ? "true" : "false");
    return SP_OK;
}

static enum sp_status add_decoder(struct sp_strbuf *text, const struct sp_json *tokens,
                                  const struct sp_json *names, const struct sp_text *tokenizer,
                                  const char *folder, struct sp_err *err)
{
    const char *file = "tokenizer.json";
    struct sp_json_out out = {0};
    struct sp_json *root = NULL;
    enum sp_status st;

    sp_json_out_raw(&out, "{");
    st = sp_json_parse(&root, tokenizer->at, tokenizer->size, SP_JSON_LENIENT, err);
    if (!st) file = "added_tokens.json";
    for (struct sp_json_iter it = {0}; !st && sp_json_next(tokens, &it);)
        st = put_entry(&out, root, names, it.key, it.value, err);
    if (!st && out.text.len > 1) {
        sp_json_out_raw(&out, "}");
        if (!(st = sp_json_out_check(&out, err)))
            st = sp_json_set(text, "added_tokens_decoder", out.text.at, out.text.len, err);
    }
    if (st) sp_context(err, "%s/%s", folder, file);
    sp_json_free(root);
    sp_strbuf_release(&out.text);
    return st;
}

enum sp_status sp_older_files_add(struct sp_text *config, const char *folder,
                                  const struct sp_text *tokenizer, struct sp_err *err)
{
    struct sp_json *root = NULL, *map = NULL, *tokens = NULL, *names = NULL;
    struct sp_strbuf text = {0};
    enum sp_status st;

    if (tokenizer->at == NULL) return SP_OK;
    if ((st = sp_tokenizer_config_parse(&root, config, folder, err)) ||
        sp_json_has(root, "added_tokens_decoder"))
        goto done;
    if ((st = read_file(&map, folder, "special_tokens_map.json", err)) ||
        (st = read_file(&tokens, folder, "added_tokens.json", err)) ||
        (map == NULL && tokens == NULL))
        goto done;
    if ((st = sp_strbuf_append(&text, config->at ? config->at : "{}", config->at ? config->size : 2,
                               err)))
        goto done;
    if ((st = add_names(&text, root, map, err))) goto done;
    if (tokens && ((st = sp_json_parse_within(&names, text.at, text.len, SP_JSON_LENIENT,
                                              SP_JSON_SETTINGS, err)) ||
                   (st = add_decoder(&text, tokens, names, tokenizer, folder, err))))
        goto done;
    if (text.len == (config->at ? config->size : 2)) goto done;
    if ((st = sp_strbuf_append(&text, "", 1, err))) goto done;
    free(config->at);
    *config = (struct sp_text){text.at, text.len - 1};
    text = (struct sp_strbuf){0};
done:
    sp_json_free(root);
    sp_json_free(map);
    sp_json_free(tokens);
    sp_json_free(names);
    sp_strbuf_release(&text);
    return st;
}
