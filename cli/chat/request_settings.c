#include "cli/chat/request_settings.h"
#include "format/modelfile/modelfile_check.h"
#include "cli/base/input_text.h"
#include "format/base/affix.h"
#include "format/base/file.h"
#include "format/json/json_write.h"

#include <stdlib.h>
#include <string.h>
#include <errno.h>

enum sp_status sp_request_wrong(const char *key, const struct sp_json *value, const char *expected,
                                struct sp_err *err)
{
    return sp_fail(err, SP_E_INPUT, "%s is %s, expected %s", key,
                   value ? sp_json_kind_name(sp_json_kind(value)) : "missing", expected);
}

enum sp_status sp_request_settings_read(struct sp_settings *settings, const struct sp_json *object,
                                        const char *key, const char *parameter, struct sp_err *err)
{
    const struct sp_json *value = sp_json_get(object, key);
    enum sp_json_kind kind = sp_json_kind(value);
    enum sp_status st;
    char *text = NULL;

    if (value == NULL) return SP_OK;
    if (kind != SP_JSON_INT && kind != SP_JSON_DOUBLE)
        return sp_request_wrong(key, value, "number", err);
    st = sp_parameter_of_json(&text, sp_parameter_find(parameter), value, err);
    if (!st) st = sp_settings_set(settings, parameter, text, err);
    if (st && sp_begins_with(err->text, parameter)) {
        const struct sp_err own = *err;
        *err = (struct sp_err){0};
        (void)!sp_fail(err, st, "%s%s", key, own.text + strlen(parameter));
    }
    free(text);
    return st;
}

enum sp_status sp_request_settings_read_named(struct sp_settings *settings,
                                              const struct sp_json *object,
                                              enum sp_setting_kind kind, const char **key,
                                              struct sp_err *err)
{
    enum sp_status st;

    for (size_t i = 0; (*key = sp_settings_name(i)); i++) {
        if (sp_settings_kind(*key) != kind) continue;
        if ((st = sp_request_settings_read(settings, object, *key, *key, err))) return st;
    }
    return SP_OK;
}

/* Adds a text to the stop texts or to the sequence breakers. */
static enum sp_status read_text(struct sp_settings *settings, const char *key,
                                const struct sp_json *value, const char *expected,
                                struct sp_err *err)
{
    size_t len;
    const char *text = sp_json_to_string(value, &len);

    if (text == NULL) return sp_request_wrong(key, value, expected, err);
    if (len == 0 && strcmp(key, "stop") == 0) return sp_fail(err, SP_E_INPUT, "stop is empty");
    if (strlen(text) != len) return sp_fail(err, SP_E_INPUT, "%s contains a NUL", key);
    return sp_settings_set(settings, key, text, err);
}

enum sp_status sp_request_settings_read_stops(struct sp_settings *settings,
                                              const struct sp_json *stop, struct sp_err *err)
{
    static const char expected[] = "a string or an array of strings";
    enum sp_status st = SP_OK;

    if (stop == NULL) return SP_OK;
    if (sp_json_kind(stop) != SP_JSON_ARRAY)
        return read_text(settings, "stop", stop, expected, err);
    for (size_t i = 0; i < sp_json_len(stop) && !st; i++)
        st = read_text(settings, "stop", sp_json_at(stop, i), expected, err);
    return st;
}

enum sp_status sp_request_settings_read_breakers(struct sp_settings *settings,
                                                 const struct sp_json *object, struct sp_err *err)
{
    static const char key[] = "dry_sequence_breakers", expected[] = "an array of strings";
    const struct sp_json *texts = sp_json_get(object, key);
    enum sp_status st = SP_OK;

    if (texts == NULL) return SP_OK;
    if (sp_json_kind(texts) != SP_JSON_ARRAY) return sp_request_wrong(key, texts, expected, err);
    if (sp_json_len(texts) == 0) return sp_settings_set(settings, key, "none", err);
    for (size_t i = 0; i < sp_json_len(texts) && !st; i++)
        st = read_text(settings, key, sp_json_at(texts, i), expected, err);
    return st;
}

enum sp_status sp_request_settings_read_biases(struct sp_settings *settings,
                                               const struct sp_json *object, struct sp_err *err)
{
    enum sp_status st;
    struct sp_json_iter it = {0};

    if (object == NULL) return SP_OK;
    if (sp_json_kind(object) != SP_JSON_OBJECT) {
        return sp_request_wrong("logit_bias", object,
                                "an object with token IDs as keys and numbers as values", err);
    }
    while (sp_json_next(object, &it)) {
        char *end;
        unsigned long long id = strtoull(it.key, &end, 10);
        double bias;
        if (*it.key < '0' || *it.key > '9' || *end || id > UINT32_MAX ||
            !sp_json_to_double(it.value, &bias) || !(bias >= -100 && bias <= 100)) {
            return sp_fail(err, SP_E_INPUT,
                           "logit_bias: \"%s\": expected a token ID and a number -100..100",
                           it.key);
        }
        if ((st = sp_settings_add_bias(settings, (uint32_t)id, (float)bias, err))) return st;
    }
    return SP_OK;
}

/* ---- the format of answers ---- */

static size_t skip_whitespace(const char *text, size_t size, size_t at)
{
    while (at < size && text[at] && strchr(" \t\r\n", text[at]))
        at++;
    return at;
}

/* True if the text is this word, surrounding whitespace aside. */
static bool is_word(const char *text, size_t size, const char *word)
{
    size_t len = strlen(word);

    return size >= len && memcmp(text, word, len) == 0 && skip_whitespace(text, size, len) == size;
}

/* True if the text is JSON: a grammar begins with no bracket or quotation mark, nor is one word. */
static bool is_json(const char *text, size_t size)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t at = skip_whitespace(text, size, 0);

    if (at < size && text[at] && strchr("{[\"", text[at])) return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(text + at, size - at, words[i])) return true;
    return false;
}

enum sp_status sp_response_format_read(struct sp_grammar **out, const char *format,
                                       struct sp_err *err)
{
    enum { MOST_BYTES = 16 << 20 };
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    struct sp_text file;
    const char *text;
    size_t size;
    enum sp_status st;

    *out = NULL;
    if (format == NULL) return SP_OK;
    if (strcmp(format, "json") == 0) return sp_grammar_of_json(out, err);
    if (format[skip_whitespace(format, strlen(format), 0)] == '{') {
        if ((st = sp_grammar_of_schema(out, format, strlen(format), err)))
            sp_context(err, "--format");
        return st;
    }
    if (strcmp(format, "-") != 0 && !sp_file_exists(format)) {
        return sp_fail(err, SP_E_IO,
                       "--format is %s, expected json, a JSON schema, or a file with a schema or "
                       "grammar: %s",
                       format, strerror(ENOENT));
    }
    st = sp_input_text(&file, format, "a JSON schema or a GBNF grammar", MOST_BYTES, err);
    if (st) return st;
    text = file.at;
    size = file.size;
    if (size >= strlen(byte_order_mark) &&
        memcmp(text, byte_order_mark, strlen(byte_order_mark)) == 0) {
        text += strlen(byte_order_mark);
        size -= strlen(byte_order_mark);
    }
    st = is_json(text, size) ? sp_grammar_of_schema(out, text, size, err)
                             : sp_grammar_of_gbnf(out, text, size, err);
    if (st) sp_context(err, "%s", sp_input_name(format));
    free(file.at);
    return st;
}

enum sp_status sp_response_format_of_schema(struct sp_grammar **out, const struct sp_json *schema,
                                            const char *key, struct sp_err *relaxed,
                                            struct sp_err *err)
{
    struct sp_err own = {0};
    char *text = NULL;
    enum sp_status st = sp_json_print(&text, schema, err);

    if (st) return st;
    if ((st = sp_grammar_of_schema(out, text, strlen(text), &own))) sp_context(&own, "%s", key);
    if (st == SP_E_UNSUPPORTED && relaxed &&
        sp_grammar_of_schema_relaxed(out, text, strlen(text), NULL) == SP_OK) {
        *relaxed = own;
        st = SP_OK;
    }
    if (st) st = sp_fail_as(err, &own);
    free(text);
    return st;
}

enum sp_status sp_response_format_of_json(struct sp_grammar **out, const struct sp_json *format,
                                          struct sp_err *relaxed, struct sp_err *err)
{
    const char *text = sp_json_to_string(format, NULL);

    if (text && strcmp(text, "json") == 0) return sp_grammar_of_json(out, err);
    if (sp_json_kind(format) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "format: expected \"json\" or a JSON schema");
    return sp_response_format_of_schema(out, format, "format", relaxed, err);
}
