/* JSON text: strings with what must be escaped, and numbers whatever the locale is. */
#include "format/base/number_text.h"
#include "format/base/unicode.h"
#include "format/json/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

enum { MAX_PRINTED = 256, MAX_DIGITS = 9 /* digits that distinguish any two f32 */ };

void sp_json_out_bytes(struct sp_json_out *out, const void *bytes, size_t size)
{
    if (out->file)
        fwrite(bytes, 1, size, out->file);
    else if (sp_strbuf_append(&out->text, bytes, size, NULL))
        out->no_memory = true;
}

void sp_json_out_raw(struct sp_json_out *out, const char *text)
{
    sp_json_out_bytes(out, text, strlen(text));
}

enum sp_status sp_json_out_check(const struct sp_json_out *out, struct sp_err *err)
{
    if (!out->no_memory) return SP_OK;
    return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes of JSON", out->text.len);
}

/* ---- strings and values ---- */

/* How strings are written. */
struct spelling {
    const char *lettered; /* control characters that are escaped by a letter, not by a number */
    bool is_foreign;      /* DEL is escaped, too, and what is not UTF-8 becomes U+FFFD */
};

/* Finds what is written for the *n bytes at text[0]; NULL: themselves. */
static const char *escape(char buffer[8], size_t *n, const char *text, size_t size,
                          const struct spelling *spelling)
{
    static const char controls[] = "\b\t\n\f\r", letters[] = "btnfr";
    unsigned char c = (unsigned char)*text;

    *n = 1;
    if (c >= 0x80) {
        return !spelling->is_foreign || sp_utf8_scan(text, size, n) == SP_UTF8_CHAR
                   ? NULL
                   : "\xEF\xBF\xBD";
    }
    if (c == '"' || c == '\\')
        snprintf(buffer, 8, "\\%c", c);
    else if (c && strchr(spelling->lettered, c))
        snprintf(buffer, 8, "\\%c", letters[strchr(controls, c) - controls]);
    else if (c < 0x20 || (c == 0x7F && spelling->is_foreign))
        snprintf(buffer, 8, "\\u%04x", c);
    else
        return NULL;
    return buffer;
}

static void put_string(struct sp_json_out *out, const char *text, size_t size,
                       const struct spelling *spelling)
{
    size_t begin = 0;
    char buffer[8];

    sp_json_out_bytes(out, "\"", 1);
    for (size_t i = 0, n; i < size; i += n) {
        const char *instead = escape(buffer, &n, text + i, size - i, spelling);
        if (instead == NULL) continue;
        sp_json_out_bytes(out, text + begin, i - begin);
        sp_json_out_raw(out, instead);
        begin = i + n;
    }
    sp_json_out_bytes(out, text + begin, size - begin);
    sp_json_out_bytes(out, "\"", 1);
}

static void put_number(struct sp_json_out *out, const struct sp_json *v)
{
    const char *spelling = sp_json_spelling(v);
    char text[40];
    int64_t i;
    uint64_t u;
    double d = 0;

    if (sp_json_kind(v) == SP_JSON_INT) {
        if (sp_json_to_i64(v, &i))
            snprintf(text, sizeof text, "%" PRId64, i);
        else if (sp_json_to_u64(v, &u))
            snprintf(text, sizeof text, "%" PRIu64, u);
    } else if (spelling == NULL) {
        sp_json_to_double(v, &d);
        sp_number_print(text, sizeof text, "%.17g", d);
        if (isnan(d))
            spelling = "NaN";
        else if (isinf(d))
            spelling = d < 0 ? "-Infinity" : "Infinity";
        else if (strpbrk(text, ".e") == NULL)
            strcat(text, ".0");
    }
    sp_json_out_raw(out, spelling ? spelling : text);
}

/* The recursion is as deep as documents may nest. */
static void put_value(struct sp_json_out *out, const struct sp_json *v)
{
    static const struct spelling short_escapes = {.lettered = "\b\t\n\f\r"};
    enum sp_json_kind kind = sp_json_kind(v);
    struct sp_json_iter it = {0};
    const char *text, *comma = "";
    bool is_true = false;
    size_t len;

    switch (kind) {
    case SP_JSON_NULL:
        sp_json_out_raw(out, "null");
        break;
    case SP_JSON_BOOL:
        sp_json_out_raw(out, sp_json_to_bool(v, &is_true) && is_true ? "true" : "false");
        break;
    case SP_JSON_INT:
    case SP_JSON_DOUBLE:
        put_number(out, v);
        break;
    case SP_JSON_STRING:
        text = sp_json_to_string(v, &len);
        put_string(out, text, len, &short_escapes);
        break;
    case SP_JSON_ARRAY:
        sp_json_out_bytes(out, "[", 1);
        for (size_t i = 0; i < sp_json_len(v); i++, comma = ",") {
            sp_json_out_raw(out, comma);
            put_value(out, sp_json_at(v, i));
        }
        sp_json_out_bytes(out, "]", 1);
        break;
    case SP_JSON_OBJECT:
        sp_json_out_bytes(out, "{", 1);
        for (; sp_json_next(v, &it); comma = ",") {
            sp_json_out_raw(out, comma);
            put_string(out, it.key, strlen(it.key), &short_escapes);
            sp_json_out_bytes(out, ":", 1);
            put_value(out, it.value);
        }
        sp_json_out_bytes(out, "}", 1);
        break;
    }
}

/* ---- between values ---- */

void sp_json_out_quoted(struct sp_json_out *out, const char *text, size_t len)
{
    static const struct spelling numbers = {.lettered = ""};

    put_string(out, text, len, &numbers);
}

void sp_json_out_print(struct sp_json_out *out, const char *format, ...)
{
    char text[MAX_PRINTED];
    va_list args;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    sp_json_out_raw(out, text);
}

void sp_json_out_f32(struct sp_json_out *out, float number)
{
    char text[32];

    for (int digits = 1; digits <= MAX_DIGITS; digits++) {
        sp_number_print(text, sizeof text, "%.*g", digits, (double)number);
        if ((float)sp_number_read(text, NULL) == number) break;
    }
    sp_json_out_raw(out, text);
}

enum sp_status sp_json_print(char **out, const struct sp_json *v, struct sp_err *err)
{
    struct sp_json_out writer = {0};
    struct sp_text text;
    enum sp_status st;

    put_value(&writer, v);
    if ((st = sp_json_out_take(&text, &writer, err)) == SP_OK) *out = text.at;
    return st;
}

/* ---- the writer ---- */

static const struct spelling foreign = {.lettered = "\n", .is_foreign = true};

static void put_key(struct sp_json_out *out, const char *key)
{
    if (out->comma) sp_json_out_bytes(out, ", ", 2);
    out->comma = true;
    if (key == NULL) return;
    put_string(out, key, strlen(key), &foreign);
    sp_json_out_bytes(out, ": ", 2);
}

void sp_json_out_begin(struct sp_json_out *out, const char *key, char bracket)
{
    put_key(out, key);
    sp_json_out_bytes(out, &bracket, 1);
    out->comma = false;
}

void sp_json_out_end(struct sp_json_out *out, char bracket)
{
    sp_json_out_bytes(out, &bracket, 1);
    out->comma = true;
}

void sp_json_out_end_line(struct sp_json_out *out)
{
    sp_json_out_raw(out, "}\n");
    out->comma = false;
}

void sp_json_out_string(struct sp_json_out *out, const char *key, const char *text, size_t size)
{
    put_key(out, key);
    put_string(out, text, size, &foreign);
}

void sp_json_out_text(struct sp_json_out *out, const char *key, const char *text)
{
    if (text)
        sp_json_out_string(out, key, text, strlen(text));
    else
        sp_json_out_value(out, key, NULL);
}

void sp_json_out_u64(struct sp_json_out *out, const char *key, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    sp_json_out_written(out, key, text, strlen(text));
}

void sp_json_out_double(struct sp_json_out *out, const char *key, double value)
{
    char text[32] = "null";

    if (isfinite(value)) sp_number_print(text, sizeof text, "%.9g", value);
    sp_json_out_written(out, key, text, strlen(text));
}

void sp_json_out_bool(struct sp_json_out *out, const char *key, bool value)
{
    put_key(out, key);
    sp_json_out_raw(out, value ? "true" : "false");
}

void sp_json_out_written(struct sp_json_out *out, const char *key, const char *text, size_t size)
{
    put_key(out, key);
    sp_json_out_bytes(out, text, size);
}

void sp_json_out_value(struct sp_json_out *out, const char *key, const struct sp_json *value)
{
    put_key(out, key);
    put_value(out, value);
}

/* Writes the argument of a conversion. */
static void put_argument(struct sp_json_out *out, const char *key, char conversion, va_list *args)
{
    switch (conversion) {
    case 's':
        sp_json_out_text(out, key, va_arg(*args, const char *));
        break;
    case 'g':
        sp_json_out_double(out, key, va_arg(*args, double));
        break;
    case 'd':
        sp_json_out_bool(out, key, va_arg(*args, int));
        break;
    case 'u':
        sp_json_out_u64(out, key, va_arg(*args, unsigned));
        break;
    default:
        sp_json_out_u64(out, key, va_arg(*args, size_t));
    }
}

void sp_json_out_put(struct sp_json_out *out, const char *form, ...)
{
    const char *key = NULL;
    char name[64];
    va_list args;

    va_start(args, form);
    for (size_t len; *form; form += len) {
        len = strcspn(form, ":{}[]', \n");
        if (form[len] == ':') {
            snprintf(name, sizeof name, "%.*s", (int)len++, form);
            key = name;
            continue;
        }
        if (*form == '%') {
            put_argument(out, key, form[1], &args);
        } else if (len > 0) {
            sp_json_out_written(out, key, form, len);
        } else if (*form == '\'') {
            len = strcspn(form + 1, "'") + 2;
            sp_json_out_string(out, key, form + 1, len - 2);
        } else {
            len = 1;
            if (*form == '{' || *form == '[') sp_json_out_begin(out, key, *form);
            if (*form == '}' || *form == ']' || *form == '\n') sp_json_out_end(out, *form);
            out->comma = out->comma && *form != '\n';
        }
        key = NULL;
    }
    va_end(args);
}

enum sp_status sp_json_out_take(struct sp_text *text, struct sp_json_out *out, struct sp_err *err)
{
    enum sp_status st;

    sp_json_out_bytes(out, "", 1);
    if ((st = sp_json_out_check(out, err)) == SP_OK) {
        *text = (struct sp_text){out->text.at, out->text.len - 1};
        out->text = (struct sp_strbuf){0};
    }
    sp_strbuf_release(&out->text);
    return st;
}

enum sp_status sp_json_out_parse(struct sp_json **value, struct sp_json_out *out, enum sp_status st,
                                 struct sp_err *err)
{
    if (!st) st = sp_json_out_check(out, err);
    if (!st) st = sp_json_parse(value, out->text.at, out->text.len, SP_JSON_STRICT, err);
    sp_strbuf_release(&out->text);
    return st;
}
