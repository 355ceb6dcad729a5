/* What is made of the functions of json.c, without json-c: the JSON of files, and members that are
 * checked and whose messages say what was expected. */
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/json/json.h"
#include "format/json/json_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum sp_status sp_json_parse_settings(struct sp_json **out, const struct sp_text *text,
                                      struct sp_err *err)
{
    *out = NULL;
    if (text->at == NULL) return SP_OK;
    return sp_json_parse_within(out, text->at, text->size, SP_JSON_LENIENT, SP_JSON_SETTINGS, err);
}

enum sp_status sp_json_read_in(struct sp_json **out, const char *folder, const char *name,
                               struct sp_err *err)
{
    enum { MAX_FILE = 128 << 20 };
    enum sp_status st;
    char *path = NULL;
    struct sp_text text = {0};

    *out = NULL;
    if ((st = sp_file_join(&path, folder, name, err))) return st;
    if (sp_file_exists(path) && !(st = sp_file_read_text(&text, path, MAX_FILE, err)) &&
        (st = sp_json_parse_settings(out, &text, err)))
        sp_context(err, "%s", path);
    free(path);
    free(text.at);
    return st;
}

const char *sp_json_kind_name(enum sp_json_kind kind)
{
    static const char *const names[] = {
        [SP_JSON_NULL] = "null",     [SP_JSON_BOOL] = "boolean",  [SP_JSON_INT] = "integer",
        [SP_JSON_DOUBLE] = "number", [SP_JSON_STRING] = "string", [SP_JSON_ARRAY] = "array",
        [SP_JSON_OBJECT] = "object",
    };
    return names[kind];
}

const char *sp_json_get_text(const struct sp_json *object, const char *key)
{
    return sp_json_to_string(sp_json_get(object, key), NULL);
}

enum { SHOWN = 80 };

/* Describes a value in a message: scalars as they are (cut if long), containers by kind. */
static const char *found(char text[SHOWN], const struct sp_json *v)
{
    char *printed = NULL;

    if (sp_json_len(v) > 0 || sp_json_kind(v) >= SP_JSON_ARRAY)
        snprintf(text, SHOWN, "an %s", sp_json_kind_name(sp_json_kind(v)));
    else if (sp_json_print(&printed, v, NULL))
        snprintf(text, SHOWN, "a %s", sp_json_kind_name(sp_json_kind(v)));
    else if (strlen(printed) < SHOWN)
        snprintf(text, SHOWN, "%s", printed);
    else
        snprintf(text, SHOWN, "%.*s...", SHOWN - 8, printed);
    free(printed);
    return text;
}

enum sp_status sp_json_get_i64(const struct sp_json *object, const char *key, int64_t min,
                               int64_t max, int64_t *out, struct sp_err *err)
{
    const struct sp_json *v = sp_json_get(object, key);
    char text[SHOWN];
    int64_t i;

    if (v == NULL) return SP_OK;
    if (!sp_json_to_i64(v, &i) || i < min || i > max) {
        return sp_fail(err, SP_E_INPUT, "%s is %s, expected an integer %" PRId64 "..%" PRId64, key,
                       found(text, v), min, max);
    }
    *out = i;
    return SP_OK;
}

enum sp_status sp_json_get_double(const struct sp_json *object, const char *key, double min,
                                  double max, double *out, struct sp_err *err)
{
    const struct sp_json *v = sp_json_get(object, key);
    char text[SHOWN];
    double d;

    if (v == NULL) return SP_OK;
    if (!sp_json_to_double(v, &d) || !(d >= min && d <= max)) {
        return sp_fail(err, SP_E_INPUT, "%s is %s, expected a number %g..%g", key, found(text, v),
                       min, max);
    }
    *out = d;
    return SP_OK;
}

enum sp_status sp_json_get_bool(const struct sp_json *object, const char *key, bool *out,
                                struct sp_err *err)
{
    const struct sp_json *v = sp_json_get(object, key);
    char text[SHOWN];

    if (v == NULL) return SP_OK;
    if (sp_json_to_bool(v, out)) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s is %s, expected true or false", key, found(text, v));
}

enum sp_status sp_json_get_string(const struct sp_json *object, const char *key, const char **out,
                                  struct sp_err *err)
{
    const struct sp_json *v = sp_json_get(object, key);
    const char *s;
    char text[SHOWN];
    size_t len;

    if (v == NULL) return SP_OK;
    if ((s = sp_json_to_string(v, &len)) == NULL)
        return sp_fail(err, SP_E_INPUT, "%s is %s, expected a string", key, found(text, v));
    if (strlen(s) != len) {
        return sp_fail(err, SP_E_INPUT, "%s is a string holding \\u0000, which is not allowed",
                       key);
    }
    *out = s;
    return SP_OK;
}
