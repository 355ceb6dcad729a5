#include "cli/chat/response_format.h"
#include "cli/base/input_text.h"
#include "format/base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
