/* Reading JSON values: kinds, members, numbers with ranges, and compact printing. How text becomes
 * values is json_parse.c's business. */
#include "format/json.h"
#include "format/json_node.h"
#include "format/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum sp_json_kind sp_json_kind(const struct sp_json *v)
{
    return v ? (enum sp_json_kind)v->kind : SP_JSON_NULL;
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

static const struct sp_json *not_null(const struct sp_json *v)
{
    return sp_json_kind(v) == SP_JSON_NULL ? NULL : v;
}

const struct sp_json *sp_json_get(const struct sp_json *v, const char *key)
{
    return not_null(sp_json_find_member(v, key));
}

bool sp_json_has(const struct sp_json *v, const char *key)
{
    return sp_json_find_member(v, key) != NULL;
}

size_t sp_json_len(const struct sp_json *v)
{
    enum sp_json_kind kind = sp_json_kind(v);

    return kind == SP_JSON_ARRAY || kind == SP_JSON_OBJECT ? v->len : 0;
}

const struct sp_json *sp_json_at(const struct sp_json *array, size_t i)
{
    if (sp_json_kind(array) != SP_JSON_ARRAY || i >= array->len) return NULL;
    return not_null(array->as.items + i);
}

bool sp_json_next(const struct sp_json *object, struct sp_json_iter *it)
{
    const struct sp_json_member *m, *end;

    if (sp_json_kind(object) != SP_JSON_OBJECT) return false;
    end = object->as.object->members + object->len;
    m = it->started ? it->next : object->as.object->members;
    it->started = true;
    if (m == end) return false;
    it->key = m->key;
    it->value = not_null(&m->value);
    it->next = m + 1;
    return true;
}

bool sp_json_to_i64(const struct sp_json *v, int64_t *out)
{
    if (sp_json_kind(v) == SP_JSON_DOUBLE && v->lenient) {
        double d = v->as.d;
        if (!(d >= -0x1p63 && d < 0x1p63) || d != floor(d)) return false;
        *out = (int64_t)d;
        return true;
    }
    if (sp_json_kind(v) != SP_JSON_INT || (!v->negative && v->as.u > INT64_MAX)) return false;
    *out = v->as.i;
    return true;
}

bool sp_json_to_u64(const struct sp_json *v, uint64_t *out)
{
    int64_t i;

    if (sp_json_kind(v) == SP_JSON_INT && !v->negative) {
        *out = v->as.u;
        return true;
    }
    if (!sp_json_to_i64(v, &i) || i < 0) return false;
    *out = (uint64_t)i;
    return true;
}

bool sp_json_to_double(const struct sp_json *v, double *out)
{
    if (sp_json_kind(v) == SP_JSON_DOUBLE)
        *out = v->as.d;
    else if (sp_json_kind(v) != SP_JSON_INT)
        return false;
    else
        *out = v->negative ? (double)v->as.i : (double)v->as.u;
    return true;
}

bool sp_json_to_bool(const struct sp_json *v, bool *out)
{
    if (sp_json_kind(v) != SP_JSON_BOOL) return false;
    *out = v->as.b;
    return true;
}

const char *sp_json_to_string(const struct sp_json *v, size_t *len)
{
    if (sp_json_kind(v) != SP_JSON_STRING) return NULL;
    if (len) *len = v->len;
    return v->as.string;
}

enum { SHOWN = 80 };

/* What was found, for a message: scalars as they are (cut when long), containers by kind. */
static const char *found(char text[SHOWN], const struct sp_json *v)
{
    char *printed = NULL;

    if (sp_json_len(v) > 0 || sp_json_kind(v) >= SP_JSON_ARRAY) {
        snprintf(text, SHOWN, "an %s", sp_json_kind_name(sp_json_kind(v)));
    } else if (sp_json_print(&printed, v, NULL)) {
        snprintf(text, SHOWN, "a %s", sp_json_kind_name(sp_json_kind(v)));
    } else if (strlen(printed) < SHOWN) {
        snprintf(text, SHOWN, "%s", printed);
    } else {
        snprintf(text, SHOWN, "%.*s...", SHOWN - 8, printed);
    }
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
    if ((s = sp_json_to_string(v, &len)) == NULL) {
        return sp_fail(err, SP_E_INPUT, "%s is %s, expected a string", key, found(text, v));
    }
    if (strlen(s) != len) {
        return sp_fail(err, SP_E_INPUT, "%s is a string holding \\u0000, which is not allowed",
                       key);
    }
    *out = s;
    return SP_OK;
}

struct printer {
    char *text;
    size_t len, cap;
    struct sp_err *err;
};

static enum sp_status put(struct printer *p, const char *bytes, size_t n)
{
    enum sp_status st;

    if ((st = sp_grow(&p->text, &p->cap, p->len + n + 1, 1, p->err))) return st;
    memcpy(p->text + p->len, bytes, n);
    p->len += n;
    p->text[p->len] = '\0';
    return SP_OK;
}

static enum sp_status put_string(struct printer *p, const char *s, size_t len)
{
    enum sp_status st = put(p, "\"", 1);
    char escape[8];

    for (size_t i = 0; i < len && st == SP_OK; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') {
            snprintf(escape, sizeof escape, "\\%c", c);
        } else if (c < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", c);
        } else {
            st = put(p, s + i, 1);
            continue;
        }
        st = put(p, escape, strlen(escape));
    }
    return st ? st : put(p, "\"", 1);
}

/* The fewest digits that give the same double back, and never the look of an integer. */
static enum sp_status put_double(struct printer *p, double d)
{
    char text[40];

    if (isnan(d)) return put(p, "NaN", 3);
    if (isinf(d)) return d > 0 ? put(p, "Infinity", 8) : put(p, "-Infinity", 9);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) == d) break;
    }
    if (strpbrk(text, ".e") == NULL) strcat(text, ".0");
    return put(p, text, strlen(text));
}

static enum sp_status put_scalar(struct printer *p, const struct sp_json *v)
{
    char text[32];

    switch (sp_json_kind(v)) {
    case SP_JSON_STRING:
        return put_string(p, v->as.string, v->len);
    case SP_JSON_DOUBLE:
        return put_double(p, v->as.d);
    case SP_JSON_INT:
        if (v->negative)
            snprintf(text, sizeof text, "%" PRId64, v->as.i);
        else
            snprintf(text, sizeof text, "%" PRIu64, v->as.u);
        return put(p, text, strlen(text));
    case SP_JSON_BOOL:
        return v->as.b ? put(p, "true", 4) : put(p, "false", 5);
    default:
        return put(p, "null", 4);
    }
}

/* A container that is being printed, and how far. */
struct frame {
    const struct sp_json *v;
    size_t i;
};

/* The next child of the innermost container: its comma and key are printed here. */
static enum sp_status put_lead(struct printer *p, struct frame *f, const struct sp_json **child)
{
    enum sp_status st = f->i ? put(p, ",", 1) : SP_OK;
    const struct sp_json_member *m;

    if (f->v->kind == SP_JSON_ARRAY) {
        *child = f->v->as.items + f->i++;
        return st;
    }
    m = f->v->as.object->members + f->i++;
    *child = &m->value;
    if (st == SP_OK) st = put_string(p, m->key, strlen(m->key));
    return st ? st : put(p, ":", 1);
}

enum sp_status sp_json_print(char **out, const struct sp_json *v, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct printer p = {.err = err};
    struct frame stack[SP_JSON_MAX_DEPTH];
    size_t depth = 0;

    for (bool more = true; more && st == SP_OK;) {
        if (sp_json_kind(v) >= SP_JSON_ARRAY) {
            stack[depth++] = (struct frame){v, 0};
            st = put(&p, v->kind == SP_JSON_ARRAY ? "[" : "{", 1);
        } else {
            st = put_scalar(&p, v);
        }
        while (st == SP_OK && depth && stack[depth - 1].i == stack[depth - 1].v->len) {
            st = put(&p, stack[--depth].v->kind == SP_JSON_ARRAY ? "]" : "}", 1);
        }
        more = depth > 0;
        if (more && st == SP_OK) st = put_lead(&p, &stack[depth - 1], &v);
    }
    if (st == SP_OK) {
        *out = p.text;
        p.text = NULL;
    }
    free(p.text);
    return st;
}
