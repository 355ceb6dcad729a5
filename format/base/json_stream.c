/* The object's own braces, colons and commas are checked here; everything else by json.c, value by
 * value. */
#include "format/base/json_stream.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

static const char no_name[] = "quoted object property name expected";
static const char no_colon[] = "object property name separator ':' expected";
static const char no_comma[] = "object value separator ',' expected";
static const char unexpected[] = "unexpected character";

static enum sp_status bad(size_t at, const char *what, struct sp_err *err)
{
    return sp_fail(err, SP_E_INPUT, "not valid JSON at byte %zu: %s", at, what);
}

static enum sp_status bad_end(const struct sp_json_scan *scan, struct sp_err *err)
{
    return bad(scan->size, "the text ends too early", err);
}

enum sp_status sp_json_fail_repeated(const char *key, size_t at, struct sp_err *err)
{
    return sp_fail(err, SP_E_INPUT, "not valid JSON at byte %zu: key \"%s\" occurs twice", at, key);
}

/* Returns the first byte from `at` on that is no white space. */
static size_t skip_space(const struct sp_json_scan *scan, size_t at)
{
    while (at < scan->size && memchr(" \n\t\r", scan->text[at], 4))
        at++;
    return at;
}

/* Finds the next token, before which `separator` must stand; 0: nothing but white space. The scan
 * itself passes over any number of commas and colons. */
static enum sp_status next_after(char separator, enum sp_json_token *token,
                                 struct sp_json_scan *scan, const char *else_message,
                                 struct sp_err *err)
{
    enum sp_status st;
    size_t at = skip_space(scan, scan->end);

    if (separator) at = skip_space(scan, at + 1);
    if ((st = sp_json_scan(token, scan, err))) return st;
    if (*token != SP_JSON_TOKEN_END && at != scan->start) return bad(at, else_message, err);
    return SP_OK;
}

/* Counts the members of the object that the scan has just opened. */
static enum sp_status count_members(size_t *n, struct sp_json_scan scan, struct sp_err *err)
{
    enum sp_status st;
    enum sp_json_token token;

    *n = 0;
    while ((st = sp_json_scan(&token, &scan, err)) == SP_OK && token == SP_JSON_TOKEN_KEY) {
        if ((st = sp_json_scan(&token, &scan, err)) || (st = sp_json_scan_value(token, &scan, err)))
            return st;
        ++*n;
    }
    return st;
}

enum sp_status sp_json_stream_open(struct sp_json_stream *out, const char *text, size_t size,
                                   struct sp_err *err)
{
    struct sp_json_stream s = {.scan = {.text = text, .size = size}};
    enum sp_json_token token;
    enum sp_status st;
    size_t bytes;

    *out = (struct sp_json_stream){0};
    if ((st = sp_json_measure(&bytes, text, size, SP_JSON_STRICT, SIZE_MAX, err))) return st;
    if ((st = next_after(0, &token, &s.scan, unexpected, err))) return st;
    s.is_object = token == SP_JSON_TOKEN_OPEN_OBJECT;
    st = s.is_object
             ? count_members(&s.n, s.scan, err)
             : sp_json_parse_within(&s.value, text, size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
    if (!st) *out = s;
    return st;
}

/* After the closing brace nothing may follow. */
static enum sp_status check_end(struct sp_json_stream *s, struct sp_err *err)
{
    size_t at = skip_space(&s->scan, s->scan.end);

    return at == s->scan.size ? SP_OK : bad(at, unexpected, err);
}

/* Finds the key of the next member, or the end of the object. */
static enum sp_status next_key(bool *found, struct sp_json_stream *s, struct sp_err *err)
{
    struct sp_json_scan *scan = &s->scan;
    size_t at = skip_space(scan, scan->end);
    bool has_comma = s->begun && at < scan->size && scan->text[at] == ',';
    enum sp_json_token token;
    enum sp_status st;

    if ((st = next_after(has_comma ? ',' : 0, &token, scan,
                         s->begun && !has_comma ? no_comma : no_name, err)))
        return st;
    *found = false;
    if (token == SP_JSON_TOKEN_END) return bad_end(scan, err);
    if (token == SP_JSON_TOKEN_CLOSE && scan->text[scan->start] == '}')
        return has_comma ? bad(scan->start, unexpected, err) : check_end(s, err);
    if (s->begun && !has_comma) return bad(scan->start, no_comma, err);
    if (token == SP_JSON_TOKEN_STRING) {
        at = skip_space(scan, scan->end);
        return at == scan->size ? bad_end(scan, err) : bad(at, no_colon, err);
    }
    if (token != SP_JSON_TOKEN_KEY) return bad(scan->start, no_name, err);
    *found = true;
    return SP_OK;
}

/* Most keys have no escapes and are copied, which saves the time of a parser. */
static enum sp_status read_key(struct sp_json_stream *s, const struct sp_json_part *part,
                               struct sp_err *err)
{
    const char *text = part->text + part->begin + 1;
    size_t len = part->end - part->begin - 2;
    enum sp_status st;

    if (memchr(text, '\\', len) == NULL) {
        if ((st = sp_grow(&s->plain_key, &s->key_cap, len + 1, 1, err))) return st;
        memcpy(s->plain_key, text, len);
        s->plain_key[len] = '\0';
        s->key = s->plain_key;
        return SP_OK;
    }
    st = sp_json_parse_part(&s->key_text, part, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
    s->key = sp_json_to_string(s->key_text, NULL);
    return st;
}

enum sp_status sp_json_stream_next(bool *found, struct sp_json_stream *s, struct sp_err *err)
{
    struct sp_json_part part = {.text = s->scan.text};
    enum sp_json_token token;
    enum sp_status st;

    sp_json_free(s->key_text);
    sp_json_free(s->value);
    s->key_text = s->value = NULL;
    s->key = NULL;
    if ((st = next_key(found, s, err)) || !*found) return st;
    s->begun = true;
    part.begin = s->key_at = s->scan.start;
    part.end = s->scan.end;
    if ((st = read_key(s, &part, err))) return st;
    if ((st = next_after(':', &token, &s->scan, unexpected, err))) return st;
    if (token == SP_JSON_TOKEN_END) return bad_end(&s->scan, err);
    part.begin = s->scan.start;
    if ((st = sp_json_scan_value(token, &s->scan, err))) return st;
    part.end = s->scan.end;
    return sp_json_parse_part(&s->value, &part, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
}

void sp_json_stream_release(struct sp_json_stream *s)
{
    sp_json_free(s->key_text);
    sp_json_free(s->value);
    free(s->plain_key);
    *s = (struct sp_json_stream){0};
}
