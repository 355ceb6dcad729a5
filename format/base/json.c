/* JSON values by json-c, whose only user this is: an sp_json is a json_object.
 *
 * json-c 0.16 by itself merges repeated keys, cuts large integers down, and answers a failed
 * allocation with nothing, which errno tells from null (alone it tells nothing: allocations that
 * succeed set it too), with a tree that lacks something, or not at all (the copy of a key). So the
 * text is scanned first (json_scan.h): that refuses what json-c would let pass, finds the integers
 * that it must be told to read as doubles, counts members and nulls, which the tree must have as
 * many of, and bounds the memory that it will take, which is then asked for. */
#include "format/base/json.h"
#include "format/base/json_scan.h"
#include "format/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <json-c/json_visit.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that json-c takes at most, its allocator's overhead included: an object has a hash table of
 * 16 slots from the start, a table that grows has three slots a member and the old table beside it,
 * a double keeps its text. A safetensors header's entry takes 1.6 KB really, 2.6 by this count. */
enum { OBJECT_BYTES = 800, ARRAY_BYTES = 160, MEMBER_BYTES = 208, VALUE_BYTES = 112 };
#define MAX_TREE_BYTES ((size_t)1 << 30)

/* The format of a strict document's doubles, which marks them as not being integers. */
static char strict_double[] = "%.17g";

static json_object *node(const struct sp_json *v)
{
    return (json_object *)(uintptr_t)v;
}

static const struct sp_json *value_of(const json_object *object)
{
    return (const struct sp_json *)object;
}

static enum sp_status bad(size_t pos, const char *what, struct sp_err *err)
{
    return sp_fail(err, SP_E_INPUT, "not valid JSON at byte %zu: %s", pos, what);
}

static enum sp_status no_memory(size_t size, struct sp_err *err)
{
    return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes of JSON", size);
}

/* Counts of a text by a scan. */
struct survey {
    size_t members, nulls, wide;
    size_t tree_bytes;
};

static enum sp_status count(struct survey *survey, const struct sp_json_scan *scan,
                            enum sp_json_token token, bool strict, struct sp_err *err)
{
    size_t len = scan->end - scan->start;

    switch (token) {
    case SP_JSON_TOKEN_KEY:
        survey->members++;
        survey->tree_bytes += MEMBER_BYTES + len;
        break;
    case SP_JSON_TOKEN_OPEN_OBJECT:
        survey->tree_bytes += OBJECT_BYTES;
        break;
    case SP_JSON_TOKEN_OPEN_ARRAY:
        survey->tree_bytes += ARRAY_BYTES;
        break;
    case SP_JSON_TOKEN_LITERAL:
        if (strict && strchr("-NI", scan->text[scan->start]))
            return bad(scan->start, "NaN and Infinity are not JSON", err);
        survey->nulls += len == 4 && memcmp(scan->text + scan->start, "null", 4) == 0;
        survey->tree_bytes += VALUE_BYTES;
        break;
    case SP_JSON_TOKEN_WIDE:
        survey->wide++;
        survey->tree_bytes += VALUE_BYTES + len;
        break;
    case SP_JSON_TOKEN_STRING:
    case SP_JSON_TOKEN_NUMBER:
        survey->tree_bytes += VALUE_BYTES + len;
        break;
    case SP_JSON_TOKEN_CLOSE:
    case SP_JSON_TOKEN_END:
        break;
    }
    return SP_OK;
}

static enum sp_status look_over(struct survey *out, const struct sp_json_part *part, bool strict,
                                size_t max_bytes, struct sp_err *err)
{
    enum sp_status st;
    struct sp_json_scan scan = {.text = part->text, .size = part->end, .end = part->begin};
    enum sp_json_token token = SP_JSON_TOKEN_KEY;
    size_t depth = 0;

    while (token != SP_JSON_TOKEN_END) {
        if ((st = sp_json_scan(&token, &scan, err))) return st;
        if ((st = count(out, &scan, token, strict, err))) return st;
        if (token == SP_JSON_TOKEN_CLOSE && depth > 0) depth--;
        if (token != SP_JSON_TOKEN_OPEN_OBJECT && token != SP_JSON_TOKEN_OPEN_ARRAY) continue;
        if (depth++ == SP_JSON_DEPTH) {
            return sp_fail(err, SP_E_INPUT, "not valid JSON at byte %zu: nested deeper than %d",
                           scan.start, SP_JSON_DEPTH);
        }
    }
    if (out->tree_bytes > max_bytes || part->end > INT_MAX) {
        return sp_fail(err, SP_E_INPUT,
                       "JSON that would take %zu MB of memory, more than the %zu allowed",
                       out->tree_bytes >> 20, max_bytes >> 20);
    }
    return SP_OK;
}

/* A tokener and the text that it has been fed. */
struct feeder {
    struct json_tokener *tokener;
    const char *text;
    size_t size, fed;
    json_object *root;
    struct sp_err *err;
};

static enum sp_status feed(struct feeder *f, const char *text, size_t size)
{
    enum json_tokener_error error;

    errno = 0;
    f->root = json_tokener_parse_ex(f->tokener, text, (int)size);
    error = json_tokener_get_error(f->tokener);
    if (f->root == NULL && error == json_tokener_success && errno == ENOMEM)
        return no_memory(f->size, f->err);
    if (error == json_tokener_success || error == json_tokener_continue) return SP_OK;
    if (f->fed == f->size) return bad(f->size, "the text ends too early", f->err);
    return bad(f->fed + json_tokener_get_parse_end(f->tokener), json_tokener_error_desc(error),
               f->err);
}

static enum sp_status feed_up_to(struct feeder *f, size_t end)
{
    enum sp_status st = feed(f, f->text + f->fed, end - f->fed);

    f->fed = end;
    return st;
}

/* json-c accepts text in parts: ".0" after an integer that 64 bits do not hold makes it a double,
 * and a NUL ends the text. */
static enum sp_status feed_all(struct feeder *f, size_t wide)
{
    enum sp_status st;
    struct sp_json_scan scan = {.text = f->text, .size = f->size, .end = f->fed};
    enum sp_json_token token;

    while (wide > 0) {
        if ((st = sp_json_scan(&token, &scan, f->err))) return st;
        if (token != SP_JSON_TOKEN_WIDE) continue;
        if ((st = feed_up_to(f, scan.end)) || (st = feed(f, ".0", 2))) return st;
        wide--;
    }
    if ((st = feed_up_to(f, f->size))) return st;
    if (json_tokener_get_error(f->tokener) == json_tokener_success) return SP_OK;
    return feed(f, "", 1);
}

struct walk {
    bool strict;
    size_t members, nulls;
    json_object *too_large; /* a strict document's double that is not finite */
};

static int visit(json_object *v, int flags, json_object *parent, const char *key, size_t *index,
                 void *context)
{
    struct walk *walk = context;

    (void)parent;
    (void)index;
    if (flags & JSON_C_VISIT_SECOND) return JSON_C_VISIT_RETURN_CONTINUE;
    walk->members += key != NULL;
    walk->nulls += v == NULL;
    if (!walk->strict || !json_object_is_type(v, json_type_double))
        return JSON_C_VISIT_RETURN_CONTINUE;
    if (!isfinite(json_object_get_double(v)))
        walk->too_large = v;
    else
        json_object_set_serializer(v, json_object_double_to_json_string, strict_double, NULL);
    return JSON_C_VISIT_RETURN_CONTINUE;
}

/* SP_E_INPUT where the open object has the key already, which is as long as json-c takes. */
static enum sp_status add_key(json_object *keys, struct json_tokener *tokener, const char *text,
                              const struct sp_json_scan *scan, struct sp_err *err)
{
    size_t len = scan->end - scan->start;
    json_object *key = json_tokener_parse_ex(tokener, text + scan->start, (int)len);
    const char *name = json_object_get_string(key);
    enum sp_status st = SP_OK;

    if (name == NULL) {
        st = no_memory(scan->size, err);
    } else if (json_object_object_get_ex(keys, name, NULL)) {
        st = sp_fail(err, SP_E_INPUT, "not valid JSON at byte %zu: key \"%s\" occurs twice",
                     scan->start, name);
    } else if (json_object_object_add(keys, name, NULL) != 0) {
        st = no_memory(scan->size, err);
    }
    json_object_put(key);
    return st;
}

/* Finds the key that an object has twice, with one set of keys for each open object; if there is
 * none, the tree is incomplete for lack of memory. The set of an array stays empty. */
static enum sp_status find_repeated(const struct sp_json_part *part, struct sp_err *err)
{
    enum sp_status st;
    struct sp_json_scan scan = {.text = part->text, .size = part->end, .end = part->begin};
    enum sp_json_token token = SP_JSON_TOKEN_KEY;
    json_object *keys[SP_JSON_DEPTH] = {0};
    struct json_tokener *tokener = json_tokener_new();
    size_t depth = 0;

    if (tokener == NULL) return no_memory(part->end, err);
    while ((st = sp_json_scan(&token, &scan, err)) == SP_OK && token != SP_JSON_TOKEN_END) {
        if (token == SP_JSON_TOKEN_OPEN_OBJECT || token == SP_JSON_TOKEN_OPEN_ARRAY) {
            if ((keys[depth++] = json_object_new_object()) == NULL) break;
        } else if (token == SP_JSON_TOKEN_CLOSE) {
            json_object_put(keys[--depth]);
        } else if (token == SP_JSON_TOKEN_KEY) {
            if ((st = add_key(keys[depth - 1], tokener, part->text, &scan, err))) break;
        }
    }
    if (st == SP_OK) st = no_memory(part->end, err);
    while (depth > 0)
        json_object_put(keys[--depth]);
    json_tokener_free(tokener);
    return st;
}

/* Returns true if the tree holds everything that the text says. A repeated member makes one less,
 * a failed allocation a member less or a null more. */
static enum sp_status check_tree(json_object *root, const struct survey *survey, bool strict,
                                 const struct sp_json_part *part, struct sp_err *err)
{
    struct walk walk = {.strict = strict};
    struct sp_err repeated = {0};

    json_c_visit(root, 0, visit, &walk);
    if (walk.too_large != NULL) {
        return sp_fail(err, SP_E_INPUT, "not valid JSON: the number %.40s is too large",
                       (const char *)json_object_get_userdata(walk.too_large));
    }
    if (walk.nulls > survey->nulls) return no_memory(part->end, err);
    if (walk.members == survey->members) return SP_OK;
    if (strict) return find_repeated(part, err);
    return find_repeated(part, &repeated) == SP_E_INPUT ? SP_OK : no_memory(part->end, err);
}

enum sp_status sp_json_parse(struct sp_json **out, const char *text, size_t size,
                             enum sp_json_strictness strictness, struct sp_err *err)
{
    return sp_json_parse_within(out, text, size, strictness, MAX_TREE_BYTES, err);
}

enum sp_status sp_json_parse_within(struct sp_json **out, const char *text, size_t size,
                                    enum sp_json_strictness strictness, size_t max_bytes,
                                    struct sp_err *err)
{
    const struct sp_json_part part = {.text = text, .end = size};

    return sp_json_parse_part(out, &part, strictness, max_bytes, err);
}

enum sp_status sp_json_parse_part(struct sp_json **out, const struct sp_json_part *part,
                                  enum sp_json_strictness strictness, size_t max_bytes,
                                  struct sp_err *err)
{
    enum sp_status st;
    struct survey survey = {0};
    struct feeder f = {.text = part->text, .size = part->end, .fed = part->begin, .err = err};
    bool strict = strictness == SP_JSON_STRICT;
    void *reserved;

    if ((st = look_over(&survey, part, strict, max_bytes, err))) return st;
    if ((st = sp_new_aligned(&reserved, 1, survey.tree_bytes, err))) return st;
    free(reserved);
    if ((f.tokener = json_tokener_new_ex(SP_JSON_DEPTH + 2)) == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory for a JSON parser");
    json_tokener_set_flags(f.tokener, JSON_TOKENER_STRICT);
    st = feed_all(&f, survey.wide);
    if (st == SP_OK) st = check_tree(f.root, &survey, strict, part, err);
    if (st == SP_OK) {
        *out = (struct sp_json *)f.root;
        f.root = NULL;
    }
    json_object_put(f.root);
    json_tokener_free(f.tokener);
    return st;
}

void sp_json_free(struct sp_json *root)
{
    json_object_put(node(root));
}

enum sp_status sp_json_measure(size_t *bytes, const char *text, size_t size,
                               enum sp_json_strictness strictness, size_t max_bytes,
                               struct sp_err *err)
{
    const struct sp_json_part part = {.text = text, .end = size};
    struct survey survey = {0};
    enum sp_status st = look_over(&survey, &part, strictness == SP_JSON_STRICT, max_bytes, err);

    if (!st) *bytes = survey.tree_bytes;
    return st;
}

static int add_bytes(json_object *v, int flags, json_object *parent, const char *key, size_t *index,
                     void *context)
{
    size_t *bytes = context;

    (void)parent;
    (void)index;
    if (flags & JSON_C_VISIT_SECOND) return JSON_C_VISIT_RETURN_CONTINUE;
    if (key) *bytes += MEMBER_BYTES + strlen(key);
    if (json_object_is_type(v, json_type_object))
        *bytes += OBJECT_BYTES;
    else if (json_object_is_type(v, json_type_array))
        *bytes += ARRAY_BYTES;
    else
        *bytes += VALUE_BYTES;
    if (json_object_is_type(v, json_type_string)) *bytes += (size_t)json_object_get_string_len(v);
    return JSON_C_VISIT_RETURN_CONTINUE;
}

size_t sp_json_tree_bytes(const struct sp_json *v)
{
    size_t bytes = 0;

    json_c_visit(node(v), 0, add_bytes, &bytes);
    return bytes;
}

void sp_json_keep(struct sp_json *object,
                  bool (*keeps)(void *context, const char *key, const struct sp_json *value),
                  void *context)
{
    const struct lh_entry *entry = lh_table_head(json_object_get_object(node(object)));

    while (entry) {
        const struct lh_entry *next = lh_entry_next(entry);
        const char *key = lh_entry_k(entry);

        if (!keeps(context, key, lh_entry_v(entry))) json_object_object_del(node(object), key);
        entry = next;
    }
}

enum sp_json_kind sp_json_kind(const struct sp_json *v)
{
    switch (json_object_get_type(node(v))) {
    case json_type_boolean:
        return SP_JSON_BOOL;
    case json_type_int:
        return SP_JSON_INT;
    case json_type_double:
        return SP_JSON_DOUBLE;
    case json_type_string:
        return SP_JSON_STRING;
    case json_type_array:
        return SP_JSON_ARRAY;
    case json_type_object:
        return SP_JSON_OBJECT;
    case json_type_null:
        break;
    }
    return SP_JSON_NULL;
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

const struct sp_json *sp_json_get(const struct sp_json *v, const char *key)
{
    json_object *member = NULL;

    if (sp_json_kind(v) == SP_JSON_OBJECT) json_object_object_get_ex(node(v), key, &member);
    return value_of(member);
}

bool sp_json_has(const struct sp_json *v, const char *key)
{
    return sp_json_kind(v) == SP_JSON_OBJECT && json_object_object_get_ex(node(v), key, NULL);
}

size_t sp_json_len(const struct sp_json *v)
{
    switch (sp_json_kind(v)) {
    case SP_JSON_ARRAY:
        return json_object_array_length(node(v));
    case SP_JSON_OBJECT:
        return (size_t)json_object_object_length(node(v));
    default:
        return 0;
    }
}

const struct sp_json *sp_json_at(const struct sp_json *array, size_t i)
{
    if (sp_json_kind(array) != SP_JSON_ARRAY) return NULL;
    return value_of(json_object_array_get_idx(node(array), i));
}

bool sp_json_next(const struct sp_json *object, struct sp_json_iter *it)
{
    const struct lh_entry *entry;

    if (sp_json_kind(object) != SP_JSON_OBJECT) return false;
    entry = it->started ? it->next : lh_table_head(json_object_get_object(node(object)));
    it->started = true;
    if (entry == NULL) return false;
    it->key = lh_entry_k(entry);
    it->value = lh_entry_v(entry);
    it->next = lh_entry_next(entry);
    return true;
}

/* json-c clamps to what the type holds. */
bool sp_json_to_i64(const struct sp_json *v, int64_t *out)
{
    enum sp_json_kind kind = sp_json_kind(v);
    double d;

    if (kind == SP_JSON_DOUBLE && json_object_get_userdata(node(v)) != strict_double) {
        d = json_object_get_double(node(v));
        if (!(d >= -0x1p63 && d < 0x1p63) || d != floor(d)) return false;
        *out = (int64_t)d;
        return true;
    }
    if (kind != SP_JSON_INT || json_object_get_uint64(node(v)) > INT64_MAX) return false;
    *out = json_object_get_int64(node(v));
    return true;
}

bool sp_json_to_u64(const struct sp_json *v, uint64_t *out)
{
    int64_t i;

    if (sp_json_kind(v) == SP_JSON_INT && json_object_get_int64(node(v)) >= 0) {
        *out = json_object_get_uint64(node(v));
        return true;
    }
    if (!sp_json_to_i64(v, &i) || i < 0) return false;
    *out = (uint64_t)i;
    return true;
}

bool sp_json_to_double(const struct sp_json *v, double *out)
{
    enum sp_json_kind kind = sp_json_kind(v);

    if (kind != SP_JSON_DOUBLE && kind != SP_JSON_INT) return false;
    *out = json_object_get_double(node(v));
    return true;
}

bool sp_json_to_bool(const struct sp_json *v, bool *out)
{
    if (sp_json_kind(v) != SP_JSON_BOOL) return false;
    *out = json_object_get_boolean(node(v));
    return true;
}

const char *sp_json_to_string(const struct sp_json *v, size_t *len)
{
    if (sp_json_kind(v) != SP_JSON_STRING) return NULL;
    if (len) *len = (size_t)json_object_get_string_len(node(v));
    return json_object_get_string(node(v));
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

enum sp_status sp_json_print(char **out, const struct sp_json *v, struct sp_err *err)
{
    const char *text;
    size_t len;

    errno = 0; /* json-c leaves out what its buffer has no memory for, and returns the rest */
    text = json_object_to_json_string_length(
        node(v), JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
    if (text == NULL || errno == ENOMEM || errno == EFBIG)
        return sp_fail(err, SP_E_NOMEM, "no memory to print JSON");
    return sp_copy_text(out, text, len, err);
}

void sp_json_library(char *text, size_t size)
{
    snprintf(text, size, "json-c %s", json_c_version());
}
