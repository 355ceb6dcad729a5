/* JSON text to values: RFC 8259 to the letter, without recursion, in one pass and linear memory.
 *
 * Written here because the usual libraries are lenient exactly where a reader of foreign files must
 * not be: they merge repeated keys, saturate large integers, accept trailing text or odd literals,
 * and spend a kilobyte on an object of three members.
 *
 * Values are collected on a stack; a closing bracket moves the container's children into the arena
 * as one array. The stack of open containers is bounded, so a bomb of brackets is refused early. */
#include "format/json_node.h"
#include "format/mem.h"
#include "format/unicode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CHUNK = 4096, MAX_CHUNK = 1 << 20 };

struct chunk {
    struct chunk *next;
    size_t used, size;
    uint64_t bytes[];
};

/* `root` is first: the root value's address is the document's. */
struct document {
    struct sp_json root;
    struct chunk *chunks;
};

struct open_container {
    bool object;
    size_t first; /* its children begin here on the value stack; a member is key, value */
};

struct parser {
    const char *text;
    size_t size, pos;
    bool lenient;
    struct document *doc;
    struct sp_json *stack;
    size_t n_stack, cap_stack;
    struct open_container open[SP_JSON_MAX_DEPTH];
    size_t depth;
    struct sp_err *err;
};

static enum sp_status bad(struct parser *p, size_t pos, const char *what)
{
    return sp_fail(p->err, SP_E_INPUT, "not valid JSON at byte %zu: %s", pos, what);
}

static enum sp_status arena_take(void *out, struct document *doc, size_t size, struct sp_err *err)
{
    enum sp_status st;
    struct chunk *c = doc->chunks;
    void *bytes;

    size = sp_round_up(size ? size : 1, sizeof(uint64_t));
    if (c == NULL || c->size - c->used < size) {
        size_t want = c == NULL ? FIRST_CHUNK : c->size < MAX_CHUNK ? c->size * 2 : MAX_CHUNK;
        if (want < size) want = size;
        if ((st = sp_new_aligned(&c, 1, sizeof *c + want, err))) return st;
        *c = (struct chunk){.next = doc->chunks, .size = want};
        doc->chunks = c;
    }
    bytes = (char *)c->bytes + c->used;
    c->used += size;
    memcpy(out, &bytes, sizeof bytes);
    return SP_OK;
}

static enum sp_status push(struct parser *p, struct sp_json value)
{
    enum sp_status st;

    if (p->n_stack == p->cap_stack) {
        if ((st = sp_grow(&p->stack, &p->cap_stack, p->n_stack + 1, sizeof *p->stack, p->err))) {
            return st;
        }
    }
    p->stack[p->n_stack++] = value;
    return SP_OK;
}

static int peek(const struct parser *p)
{
    return p->pos < p->size ? (unsigned char)p->text[p->pos] : -1;
}

static int peek_after_space(struct parser *p)
{
    int c = peek(p);

    while (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        p->pos++;
        c = peek(p);
    }
    return c;
}

/* Four hexadecimal digits at p->pos; false if they are not that. */
static bool read_hex4(struct parser *p, uint32_t *out)
{
    uint32_t v = 0;

    if (p->size - p->pos < 4) return false;
    for (int i = 0; i < 4; i++) {
        int c = p->text[p->pos + (size_t)i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return false;
        v = v << 4 | (uint32_t)digit;
    }
    p->pos += 4;
    *out = v;
    return true;
}

/* After "\u": the code point, of a surrogate pair if need be. */
static enum sp_status read_code_point(struct parser *p, uint32_t *out)
{
    size_t start = p->pos - 2;
    uint32_t high, low;

    if (!read_hex4(p, &high)) return bad(p, start, "\\u needs four hexadecimal digits");
    if (high >= 0xDC00 && high <= 0xDFFF) return bad(p, start, "unpaired surrogate");
    *out = high;
    if (high < 0xD800 || high > 0xDBFF) return SP_OK;
    if (p->size - p->pos < 2 || memcmp(p->text + p->pos, "\\u", 2) != 0) {
        return bad(p, start, "unpaired surrogate");
    }
    p->pos += 2;
    if (!read_hex4(p, &low)) return bad(p, p->pos - 2, "\\u needs four hexadecimal digits");
    if (low < 0xDC00 || low > 0xDFFF) return bad(p, start, "unpaired surrogate");
    *out = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    return SP_OK;
}

/* After a backslash: appends what the escape means. */
static enum sp_status read_escape(struct parser *p, char *out, size_t *len)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    enum sp_status st;
    uint32_t code = 0;
    int c = peek(p);
    const char *at = c > 0 ? strchr(names, c) : NULL;

    p->pos++;
    if (at != NULL) {
        out[(*len)++] = values[at - names];
        return SP_OK;
    }
    if (c != 'u') return bad(p, p->pos - 2, "unknown escape");
    if ((st = read_code_point(p, &code))) return st;
    *len += sp_utf8_put(out + *len, code);
    return SP_OK;
}

/* Where the string that begins at `pos` (behind its quote) ends, or as far as the text goes. */
static size_t find_quote(const struct parser *p, size_t pos)
{
    while (pos < p->size && p->text[pos] != '"')
        pos += p->text[pos] == '\\' ? 2 : 1;
    return pos < p->size ? pos : p->size;
}

/* At the opening quote. The decoded text is never longer than the written one. */
static enum sp_status read_string(struct parser *p, struct sp_json *value)
{
    enum sp_status st;
    size_t start = p->pos++, len = 0, step;
    char *out;

    if ((st = arena_take(&out, p->doc, find_quote(p, p->pos) - p->pos + 1, p->err))) return st;
    for (;;) {
        int c = peek(p);
        if (c < 0) return bad(p, start, "string without end");
        if (c == '"') break;
        if (c < 0x20) return bad(p, p->pos, "control character in a string");
        if (c == '\\') {
            p->pos++;
            if ((st = read_escape(p, out, &len))) return st;
            continue;
        }
        step = 1;
        if (c >= 0x80 && sp_utf8_scan(p->text + p->pos, p->size - p->pos, &step) != SP_UTF8_CHAR) {
            return bad(p, p->pos, "invalid UTF-8");
        }
        memcpy(out + len, p->text + p->pos, step);
        len += step;
        p->pos += step;
    }
    p->pos++;
    out[len] = '\0';
    *value = (struct sp_json){.kind = SP_JSON_STRING, .len = len, .as.string = out};
    return SP_OK;
}

static size_t skip_digits(struct parser *p)
{
    size_t start = p->pos;

    while (peek(p) >= '0' && peek(p) <= '9')
        p->pos++;
    return p->pos - start;
}

/* The digits of an integer as a value; false when 64 bits do not hold it, or it is a negative 0. */
static bool integer_of(const char *digits, size_t n, bool negative, struct sp_json *value)
{
    uint64_t v = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t digit = (uint64_t)(digits[i] - '0');
        if (v > (UINT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    *value = (struct sp_json){.kind = SP_JSON_INT, .as.u = v};
    if (negative) {
        if (v == 0 || v > (uint64_t)INT64_MAX + 1) return false;
        value->negative = true;
        value->as.i = -(int64_t)(v - 1) - 1;
    }
    return true;
}

/* An integer beyond 64 bits becomes a double: whoever wants an integer can say no to that.
 * strtod follows LC_NUMERIC, which nothing in this program changes from "C". */
static enum sp_status read_number(struct parser *p, struct sp_json *value)
{
    enum sp_status st;
    size_t start = p->pos, digits;
    bool negative = peek(p) == '-', fraction = false;
    size_t first = start + negative;
    char *copy;
    double d;

    p->pos = first;
    digits = skip_digits(p);
    if (digits == 0) return bad(p, start, "expected a value");
    if (digits > 1 && p->text[first] == '0') return bad(p, start, "number with a leading zero");
    if (peek(p) == '.') {
        fraction = true;
        p->pos++;
        if (skip_digits(p) == 0) return bad(p, start, "number without digits after its point");
    }
    if (peek(p) == 'e' || peek(p) == 'E') {
        fraction = true;
        p->pos++;
        if (peek(p) == '+' || peek(p) == '-') p->pos++;
        if (skip_digits(p) == 0) return bad(p, start, "number without digits in its exponent");
    }
    if (!fraction && integer_of(p->text + first, digits, negative, value)) return SP_OK;
    if ((st = arena_take(&copy, p->doc, p->pos - start + 1, p->err))) return st;
    memcpy(copy, p->text + start, p->pos - start);
    copy[p->pos - start] = '\0';
    d = strtod(copy, NULL);
    if (!p->lenient && isinf(d)) return bad(p, start, "number too large");
    *value = (struct sp_json){.kind = SP_JSON_DOUBLE, .lenient = p->lenient, .as.d = d};
    return SP_OK;
}

static enum sp_status read_literal(struct parser *p, struct sp_json *value)
{
    static const struct {
        const char *text;
        bool python; /* written by Python's json module, not JSON */
        struct sp_json value;
    } literals[] = {
        {"null", false, {.kind = SP_JSON_NULL}},
        {"true", false, {.kind = SP_JSON_BOOL, .as.b = true}},
        {"false", false, {.kind = SP_JSON_BOOL, .as.b = false}},
        {"NaN", true, {.kind = SP_JSON_DOUBLE, .as.d = NAN}},
        {"Infinity", true, {.kind = SP_JSON_DOUBLE, .as.d = INFINITY}},
        {"-Infinity", true, {.kind = SP_JSON_DOUBLE, .as.d = -INFINITY}},
    };

    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
        size_t len = strlen(literals[i].text);
        if (p->size - p->pos < len || memcmp(p->text + p->pos, literals[i].text, len) != 0)
            continue;
        if (literals[i].python && !p->lenient)
            return bad(p, p->pos, "NaN and Infinity are not JSON");
        p->pos += len;
        *value = literals[i].value;
        return SP_OK;
    }
    return bad(p, p->pos, "expected a value");
}

static enum sp_status close_object(struct parser *p, struct sp_json *value, size_t first)
{
    enum sp_status st;
    size_t n = (p->n_stack - first) / 2;
    struct sp_json_object *object;
    struct sp_json_member *members;
    struct sp_json_slot *slots;
    const char *repeated;

    if ((st = arena_take(&object, p->doc, sizeof *object, p->err))) return st;
    if ((st = arena_take(&members, p->doc, n * sizeof *members, p->err))) return st;
    for (size_t i = 0; i < n; i++) {
        const struct sp_json *pair = p->stack + first + 2 * i;
        members[i] = (struct sp_json_member){pair[0].as.string, pair[1]};
    }
    if ((st = arena_take(&slots, p->doc, n * sizeof *slots, p->err))) return st;
    sp_json_sort_members(slots, members, n);
    repeated = sp_json_repeated_key(slots, n);
    if (repeated != NULL && !p->lenient) {
        return sp_fail(
            p->err, SP_E_INPUT,
            "not valid JSON: key \"%s\" occurs twice in the object that ends at byte %zu", repeated,
            p->pos - 1);
    }
    if (repeated != NULL) n = sp_json_merge_repeated(slots, members, n);
    *object = (struct sp_json_object){members, n > SP_JSON_LINEAR ? slots : NULL};
    *value = (struct sp_json){.kind = SP_JSON_OBJECT, .len = n, .as.object = object};
    return SP_OK;
}

static enum sp_status close_array(struct parser *p, struct sp_json *value, size_t first)
{
    enum sp_status st;
    size_t n = p->n_stack - first;
    struct sp_json *items;

    if ((st = arena_take(&items, p->doc, n * sizeof *items, p->err))) return st;
    if (n) memcpy(items, p->stack + first, n * sizeof *items);
    *value = (struct sp_json){.kind = SP_JSON_ARRAY, .len = n, .as.items = items};
    return SP_OK;
}

/* At the closing bracket: the container's children leave the stack and it takes their place. */
static enum sp_status close_container(struct parser *p)
{
    enum sp_status st;
    struct open_container c = p->open[p->depth - 1];
    struct sp_json value;

    p->pos++;
    st = c.object ? close_object(p, &value, c.first) : close_array(p, &value, c.first);
    if (st) return st;
    p->depth--;
    p->n_stack = c.first;
    return push(p, value);
}

static enum sp_status read_key(struct parser *p)
{
    enum sp_status st;
    size_t start = p->pos;
    struct sp_json key;

    if (peek(p) != '"') return bad(p, p->pos, "expected a key in double quotes");
    if ((st = read_string(p, &key))) return st;
    if (strlen(key.as.string) != key.len) return bad(p, start, "key holding \\u0000");
    if (peek_after_space(p) != ':') return bad(p, p->pos, "expected ':' after a key");
    p->pos++;
    return push(p, key);
}

/* At an opening bracket. `*closed` when the container is empty and thus complete. */
static enum sp_status open_container(struct parser *p, bool *closed)
{
    bool object = peek(p) == '{';
    size_t limit = p->lenient ? SP_JSON_MAX_DEPTH : SP_JSON_STRICT_DEPTH;

    if (p->depth == limit) {
        return sp_fail(p->err, SP_E_INPUT, "not valid JSON at byte %zu: nested deeper than %zu",
                       p->pos, limit);
    }
    p->open[p->depth++] = (struct open_container){object, p->n_stack};
    p->pos++;
    *closed = peek_after_space(p) == (object ? '}' : ']');
    if (*closed) return close_container(p);
    return object ? read_key(p) : SP_OK;
}

/* One value, or the opening of a container; `*complete` when a value stands on the stack. */
static enum sp_status read_value(struct parser *p, bool *complete)
{
    enum sp_status st;
    struct sp_json value;
    int c = peek_after_space(p);

    *complete = true;
    if (c == '{' || c == '[') return open_container(p, complete);
    if (c == '"') {
        st = read_string(p, &value);
    } else if ((c >= '0' && c <= '9') ||
               (c == '-' && !(p->lenient && p->pos + 1 < p->size && p->text[p->pos + 1] == 'I'))) {
        st = read_number(p, &value);
    } else {
        st = read_literal(p, &value);
    }
    return st ? st : push(p, value);
}

/* Behind a value inside a container: a comma and perhaps a key, or the end of the container. */
static enum sp_status read_separator(struct parser *p, bool *complete)
{
    bool object = p->open[p->depth - 1].object;
    int c = peek_after_space(p);

    if (c == (object ? '}' : ']')) return close_container(p);
    if (c != ',') {
        return bad(p, p->pos,
                   c < 0    ? "the text ends inside a container"
                   : object ? "expected ',' or '}'"
                            : "expected ',' or ']'");
    }
    *complete = false;
    p->pos++;
    peek_after_space(p);
    return object ? read_key(p) : SP_OK;
}

static enum sp_status parse(struct parser *p)
{
    enum sp_status st = SP_OK;
    bool complete = false;

    if (p->size >= 3 && memcmp(p->text, "\xEF\xBB\xBF", 3) == 0) {
        return bad(p, 0, "begins with a byte order mark");
    }
    while (st == SP_OK && !(complete && p->depth == 0)) {
        st = complete ? read_separator(p, &complete) : read_value(p, &complete);
    }
    if (st) return st;
    if (peek_after_space(p) >= 0) return bad(p, p->pos, "text after the value");
    p->doc->root = p->stack[0];
    return SP_OK;
}

enum sp_status sp_json_parse(struct sp_json **out, const char *text, size_t size,
                             enum sp_json_strictness strictness, struct sp_err *err)
{
    enum sp_status st;
    struct parser p = {.text = text, .size = size, .err = err};

    p.lenient = strictness == SP_JSON_LENIENT;
    if ((st = sp_new(&p.doc, 1, sizeof *p.doc, err))) goto done;
    if ((st = parse(&p))) goto done;
    *out = &p.doc->root;
    p.doc = NULL;
done:
    free(p.stack);
    if (p.doc) sp_json_free(&p.doc->root);
    return st;
}

void sp_json_free(struct sp_json *root)
{
    struct document *doc = (struct document *)root;

    if (doc == NULL) return;
    for (struct chunk *c = doc->chunks, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    free(doc);
}
