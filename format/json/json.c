/* JSON values by json-c, whose only user this is: an sp_json is a json_object.
 *
 * json-c's own parser merges repeated keys, cuts large integers down and does not notice that
 * memory lacks for a key. So the tree is built by json-c's constructors from the tokens of our
 * scanner, and each of them is checked. Nothing here changes a value that has been parsed, so that
 * threads may read it together: json-c's own printer writes into the value. */
#include "format/json/json.h"
#include "format/json/json_scan.h"
#include "format/base/mem.h"
#include "format/base/number_text.h"

#include <assert.h>
#include <json-c/json.h>
#include <json-c/json_visit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that json-c takes at most, its allocator's overhead included: an object has a hash table of
 * 16 slots from the start, a table that grows has three slots a member and the old table beside it,
 * a double keeps its text. A safetensors header's entry takes 1.6 KB really, 2.6 by this count. */
enum { OBJECT_BYTES = 800, ARRAY_BYTES = 160, MEMBER_BYTES = 208, VALUE_BYTES = 112 };
#define MAX_TREE_BYTES ((size_t)1 << 30)

static json_object *node(const struct sp_json *v)
{
    return (json_object *)(uintptr_t)v;
}

static const struct sp_json *value_of(const json_object *object)
{
    return (const struct sp_json *)object;
}

/* Before the text of a strict document's double, which is no integer, whatever its value. */
enum { STRICT_MARK = '=' };

/* A tree that grows, and what is read for it. */
struct builder {
    struct sp_json_scan *scan;
    bool strict;
    bool counts; /* builds nothing */
    size_t bytes;
    json_object *root;
    json_object *open[SP_JSON_DEPTH];
    size_t depth;
    char *key;             /* of the member whose value comes next; owned */
    struct sp_strbuf text; /* of a token */
    struct sp_err *err;
};

static enum sp_status out_of_memory(const struct builder *b)
{
    return sp_fail(b->err, SP_E_NOMEM, "out of memory: %zu bytes of JSON", b->scan->size);
}

static size_t token_bytes(const struct sp_json_scan *scan)
{
    switch (scan->token) {
    case SP_JSON_TOKEN_KEY:
        return MEMBER_BYTES + (scan->end - scan->start);
    case SP_JSON_TOKEN_OPEN_OBJECT:
        return OBJECT_BYTES;
    case SP_JSON_TOKEN_OPEN_ARRAY:
        return ARRAY_BYTES;
    case SP_JSON_TOKEN_CLOSE:
    case SP_JSON_TOKEN_END:
        return 0;
    default:
        return VALUE_BYTES + (scan->end - scan->start);
    }
}

/* Reads the text of the current token, which is `text` then, with a NUL after it. */
static enum sp_status read_text(struct builder *b)
{
    const struct sp_json_scan *scan = b->scan;
    enum sp_status st;

    b->text.len = 0;
    if (scan->token == SP_JSON_TOKEN_STRING || scan->token == SP_JSON_TOKEN_KEY)
        st = sp_json_scan_text(&b->text, scan, b->err);
    else
        st = sp_strbuf_append(&b->text, scan->text + scan->start, scan->end - scan->start, b->err);
    if (!st && scan->token == SP_JSON_TOKEN_WIDE) st = sp_strbuf_append(&b->text, ".0", 2, b->err);
    if (!st) st = sp_strbuf_append(&b->text, "", 1, b->err);
    if (!st) b->text.len--;
    return st;
}

/* A double keeps its text, after a mark where the document is strict. */
static enum sp_status new_double(json_object **out, struct builder *b)
{
    enum sp_status st = read_text(b);
    char *text;
    double value;

    if (st) return st;
    value = sp_number_read(b->text.at, NULL);
    if (b->strict && !isfinite(value)) {
        return sp_fail(b->err, SP_E_INPUT, "not valid JSON: the number %.40s is too large",
                       b->text.at);
    }
    if (b->strict) {
        size_t len = b->text.len - (b->scan->token == SP_JSON_TOKEN_WIDE ? 2 : 0);
        if ((st = sp_new(&text, len + 2, 1, b->err))) return st;
        text[0] = STRICT_MARK;
        memcpy(text + 1, b->text.at, len);
        *out = json_object_new_double_s(value, text);
        free(text);
    } else {
        *out = json_object_new_double_s(value, b->text.at);
    }
    return *out ? SP_OK : out_of_memory(b);
}

static json_object *new_integer(const struct sp_json_scan *scan)
{
    const char *text = scan->text + scan->start, *end = scan->text + scan->end;
    bool negative = *text == '-';
    uint64_t n = 0;

    for (text += negative; text < end; text++)
        n = n * 10 + (uint64_t)(*text - '0');
    if (negative) return json_object_new_int64(-(int64_t)(n - 1) - 1);
    return n > INT64_MAX ? json_object_new_uint64(n) : json_object_new_int64((int64_t)n);
}

/* Makes the value of the current token; NULL for null. */
static enum sp_status new_value(json_object **out, struct builder *b)
{
    const struct sp_json_scan *scan = b->scan;
    char letter = scan->text[scan->start];
    enum sp_status st;

    switch (scan->token) {
    case SP_JSON_TOKEN_NULL:
        *out = NULL;
        return SP_OK;
    case SP_JSON_TOKEN_DOUBLE:
    case SP_JSON_TOKEN_WIDE:
        return new_double(out, b);
    case SP_JSON_TOKEN_NONFINITE:
        *out = json_object_new_double(letter == 'N'   ? (double)NAN
                                      : letter == 'I' ? (double)INFINITY
                                                      : (double)-INFINITY);
        break;
    case SP_JSON_TOKEN_INTEGER:
        *out = new_integer(scan);
        break;
    case SP_JSON_TOKEN_STRING:
        if (scan->has_escapes) {
            if ((st = read_text(b))) return st;
            *out = json_object_new_string_len(b->text.at, (int)b->text.len);
        } else {
            *out = json_object_new_string_len(scan->text + scan->start + 1,
                                              (int)(scan->end - scan->start - 2));
        }
        break;
    case SP_JSON_TOKEN_OPEN_OBJECT:
        *out = json_object_new_object();
        break;
    case SP_JSON_TOKEN_OPEN_ARRAY:
        *out = json_object_new_array();
        break;
    default:
        *out = json_object_new_boolean(scan->token == SP_JSON_TOKEN_TRUE);
        break;
    }
    return *out ? SP_OK : out_of_memory(b);
}

/* Adds a member or an element, or the root; `v` is the tree's, or freed. A lenient document's
 * repeated key has its last value. */
static enum sp_status add(struct builder *b, json_object *v)
{
    json_object *parent = b->depth ? b->open[b->depth - 1] : NULL;
    struct lh_table *members = json_object_get_object(parent);
    struct lh_entry *entry;
    bool is_added;

    if (parent == NULL) {
        b->root = v;
        return SP_OK;
    }
    if (members == NULL) {
        is_added = json_object_array_add(parent, v) == 0;
    } else if ((entry = lh_table_lookup_entry(members, b->key)) != NULL) {
        json_object_put(lh_entry_v(entry));
        lh_entry_set_val(entry, v);
        return SP_OK;
    } else {
        is_added = lh_table_insert(members, b->key, v) == 0;
        if (is_added) b->key = NULL;
    }
    if (is_added) return SP_OK;
    json_object_put(v);
    return out_of_memory(b);
}

/* json_object_object_add would lose the copy of a key for which the table has no room. */
static enum sp_status read_key(struct builder *b)
{
    struct lh_table *members = json_object_get_object(b->open[b->depth - 1]);
    enum sp_status st = read_text(b);

    free(b->key);
    b->key = NULL;
    if (st || (st = sp_copy_text(&b->key, b->text.at, b->text.len, b->err))) return st;
    if (!b->strict || lh_table_lookup_entry(members, b->key) == NULL) return SP_OK;
    return sp_fail(b->err, SP_E_INPUT, "not valid JSON at byte %zu: key \"%s\" occurs twice",
                   b->scan->start, b->key);
}

static enum sp_status build_token(struct builder *b)
{
    enum sp_json_token token = b->scan->token;
    json_object *v = NULL;
    enum sp_status st;

    if (token == SP_JSON_TOKEN_KEY) return read_key(b);
    if (token == SP_JSON_TOKEN_CLOSE) {
        v = b->open[--b->depth]; /* a new array has 32 places, more than are counted */
        return json_object_is_type(v, json_type_array) && json_object_array_shrink(v, 0)
                   ? out_of_memory(b)
                   : SP_OK;
    }
    if ((st = new_value(&v, b)) || (st = add(b, v))) return st;
    if (token == SP_JSON_TOKEN_OPEN_OBJECT || token == SP_JSON_TOKEN_OPEN_ARRAY)
        b->open[b->depth++] = v;
    return SP_OK;
}

/* Reads the value whose first token has been found. The rest of one that would take too much memory
 * is only counted. */
static enum sp_status read_value(struct builder *b, size_t max_bytes)
{
    struct sp_json_scan *scan = b->scan;
    size_t depth = scan->depth - (scan->next == SP_JSON_NEXT_FIRST);
    enum sp_status st;

    for (;;) {
        if (b->strict && scan->token == SP_JSON_TOKEN_NONFINITE) {
            return sp_fail(b->err, SP_E_INPUT,
                           "not valid JSON at byte %zu: NaN and Infinity are not JSON",
                           scan->start);
        }
        b->bytes += token_bytes(scan);
        if (!b->counts && b->bytes <= max_bytes && (st = build_token(b))) return st;
        if (!b->counts && b->bytes > max_bytes) {
            json_object_put(b->root);
            b->root = NULL;
            b->counts = true;
        }
        if (scan->depth == depth) break;
        if ((st = sp_json_scan(scan, b->err))) return st;
    }
    if (b->bytes <= max_bytes) return SP_OK;
    return sp_fail(b->err, SP_E_INPUT,
                   "JSON that would take %zu MB of memory, more than the %zu allowed",
                   b->bytes >> 20, max_bytes >> 20);
}

static enum sp_status read_document(struct builder *b, size_t max_bytes)
{
    enum sp_status st;

    if ((st = sp_json_scan(b->scan, b->err)) || (st = read_value(b, max_bytes))) return st;
    return sp_json_scan(b->scan, b->err); /* refuses what follows */
}

static enum sp_status finish(struct sp_json **out, struct builder *b, enum sp_status st)
{
    if (st)
        json_object_put(b->root);
    else
        *out = (struct sp_json *)b->root;
    free(b->key);
    sp_strbuf_release(&b->text);
    return st;
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
    struct sp_json_scan scan = {.text = text, .size = size};
    struct builder b = {.scan = &scan, .strict = strictness == SP_JSON_STRICT, .err = err};

    return finish(out, &b, read_document(&b, max_bytes));
}

enum sp_status sp_json_parse_value(struct sp_json **out, struct sp_json_scan *scan,
                                   enum sp_json_strictness strictness, size_t max_bytes,
                                   struct sp_err *err)
{
    struct builder b = {.scan = scan, .strict = strictness == SP_JSON_STRICT, .err = err};

    return finish(out, &b, read_value(&b, max_bytes));
}

void sp_json_free(struct sp_json *root)
{
    json_object_put(node(root));
}

enum sp_status sp_json_measure(size_t *bytes, const char *text, size_t size,
                               enum sp_json_strictness strictness, size_t max_bytes,
                               struct sp_err *err)
{
    struct sp_json_scan scan = {.text = text, .size = size};
    struct builder b = {
        .scan = &scan, .strict = strictness == SP_JSON_STRICT, .counts = true, .err = err};
    enum sp_status st = read_document(&b, max_bytes);

    if (!st) *bytes = b.bytes;
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

void sp_json_watch(struct sp_json *object, struct sp_json_marks *marks)
{
    if (object) json_object_set_userdata(node(object), marks, NULL);
}

static bool is_marked(const struct sp_json_marks *marks, const struct lh_entry *entry)
{
    for (size_t i = 0; i < marks->n; i++)
        if (marks->members[i] == entry) return true;
    return false;
}

void sp_json_drop_unmarked(struct sp_json *object,
                           void (*dropped)(void *context, const char *key,
                                           const struct sp_json *value),
                           void *context)
{
    struct lh_table *members = json_object_get_object(node(object));
    const struct sp_json_marks *marks = json_object_get_userdata(node(object));
    struct lh_entry *entry = lh_table_head(members), *next;

    sp_json_watch(object, NULL);
    for (; entry && marks && marks->n_asked > 0; entry = next) {
        next = lh_entry_next(entry);
        if (is_marked(marks, entry)) continue;
        dropped(context, lh_entry_k(entry), lh_entry_v(entry));
        lh_table_delete_entry(members, entry);
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

static struct lh_entry *find_member(const struct sp_json *v, const char *key)
{
    struct lh_table *members = json_object_get_object(node(v));
    struct lh_entry *entry = members ? lh_table_lookup_entry(members, key) : NULL;
    struct sp_json_marks *marks = members ? json_object_get_userdata(node(v)) : NULL;

    if (marks == NULL) return entry;
    marks->n_asked++;
    if (entry == NULL || is_marked(marks, entry)) return entry;
    assert(marks->n < SP_JSON_MAX_MARKS);
    marks->members[marks->n++] = entry;
    return entry;
}

const struct sp_json *sp_json_get(const struct sp_json *v, const char *key)
{
    const struct lh_entry *entry = find_member(v, key);

    return entry ? lh_entry_v(entry) : NULL;
}

bool sp_json_has(const struct sp_json *v, const char *key)
{
    return find_member(v, key) != NULL;
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
    const char *text = kind == SP_JSON_DOUBLE ? json_object_get_userdata(node(v)) : NULL;
    double d;

    if (text && *text != STRICT_MARK) {
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

const char *sp_json_spelling(const struct sp_json *v)
{
    const char *text = sp_json_kind(v) == SP_JSON_DOUBLE ? json_object_get_userdata(node(v)) : NULL;

    return text && *text == STRICT_MARK ? text + 1 : text;
}

void sp_json_library(char *text, size_t size)
{
    snprintf(text, size, "json-c %s", json_c_version());
}
