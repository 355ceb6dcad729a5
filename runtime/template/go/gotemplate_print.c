/* Writes values as Go's fmt package does: Print, Println and Printf.
 *
 * Templates format little. Printf knows %v, %s, %q, %d, %f and %t, a width, the precision of a
 * float, and the flags - and 0. The rest is refused, and so is what Go answers with an error in the
 * text: a verb that does not suit its value, a missing argument, a surplus one. */
#include "format/base/number_text.h"
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/go/gotemplate_exec.h"
#include "runtime/template/value/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WIDTH = 1000000, MAX_PRECISION = 300 };

struct verb {
    bool minus, zero;
    int width, precision; /* precision -1: none */
    char letter;
};

static enum sp_status print_value(struct sp_builder *b, struct sp_value v, const struct verb *f,
                                  int depth);

static enum sp_status unsuited(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    return sp_fail(b->heap->err, SP_E_UNSUPPORTED, "printf: %%%c of %s is not supported", f->letter,
                   sp_go_is_nil(v) ? "nil" : sp_go_type_name(v));
}

static enum sp_status pad(struct sp_builder *b, const struct verb *f, struct sp_value text)
{
    enum sp_status st;
    size_t n = sp_text_characters(text);
    size_t missing = (size_t)f->width > n ? (size_t)f->width - n : 0;
    bool sign = f->zero && (f->letter == 'd' || f->letter == 'f') && text.text[0] == '-';

    if (sign && (st = sp_build(b, "-", 1))) return st;
    if (!f->minus && (st = sp_build_repeat(b, f->zero ? '0' : ' ', missing))) return st;
    if ((st = sp_build(b, text.text + sign, text.len - sign))) return st;
    return f->minus ? sp_build_repeat(b, ' ', missing) : SP_OK;
}

static enum sp_status quote(struct sp_builder *b, struct sp_value text)
{
    static const char from[] = "\a\b\f\n\r\t\v\\\"", to[] = "abfnrtv\\\"";
    enum sp_status st;
    size_t pos = 0;

    if ((st = sp_build(b, "\"", 1))) return st;
    while (pos < text.len) {
        size_t begin = pos;
        char escape[16];
        uint32_t c = sp_utf8_next(text.text, text.len, &pos);
        const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;
        bool invalid = c == 0xfffd && pos - begin == 1;
        if (found != NULL) {
            snprintf(escape, sizeof escape, "\\%c", to[found - from]);
        } else if (invalid || c < 0x20 || c == 0x7f) {
            snprintf(escape, sizeof escape, "\\x%02x", (unsigned)(unsigned char)text.text[begin]);
        } else if (sp_unicode_is_printable(c)) {
            if ((st = sp_build(b, text.text + begin, pos - begin))) return st;
            continue;
        } else {
            snprintf(escape, sizeof escape, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        }
        if ((st = sp_build_text(b, escape))) return st;
    }
    return sp_build(b, "\"", 1);
}

static enum sp_status print_text(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    struct sp_builder quoted = {.heap = b->heap};
    enum sp_status st;

    if (strchr("vsq", f->letter) == NULL || f->precision >= 0) return unsuited(b, v, f);
    if (f->letter != 'q') return pad(b, f, v);
    if ((st = quote(&quoted, v))) return st;
    return pad(b, f, sp_builder_value(&quoted));
}

static enum sp_status print_number(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    enum sp_status st;
    struct sp_builder text = {.heap = b->heap};
    bool real = v.kind == SP_V_FLOAT;
    char digits[700];

    if (strchr(real ? "vf" : "vd", f->letter) == NULL || (f->letter != 'f' && f->precision >= 0))
        return unsuited(b, v, f);
    if (real && !isfinite(v.real))
        return pad(b, f, sp_value_name(isnan(v.real) ? "NaN" : v.real < 0 ? "-Inf" : "+Inf"));
    if (f->letter == 'f') {
        sp_number_print(digits, sizeof digits, "%.*f", f->precision < 0 ? 6 : f->precision, v.real);
        return pad(b, f, sp_value_name(digits));
    }
    st = real ? sp_build_shortest(&text, v.real, -4, 6) : sp_build_integer(&text, v);
    return st ? st : pad(b, f, sp_builder_value(&text));
}

/* Prints a value with a String method. */
static enum sp_status print_stringer(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    enum sp_status st;
    struct sp_builder text = {.heap = b->heap};

    if (v.shape != SP_SHAPE_TYPE) {
        st = sp_go_json(&text, v);
    } else if (v.list->n == 1) {
        st = sp_go_build(&text, v.list->at[0]);
    } else {
        v.shape = SP_SHAPE_PLAIN;
        st = v.list->n ? sp_go_build(&text, v) : SP_OK;
    }
    return st ? st : print_text(b, sp_builder_value(&text), f);
}

static enum sp_status print_dict(struct sp_builder *b, struct sp_value v, const struct verb *f,
                                 int depth)
{
    enum sp_status st;
    bool is_struct = v.shape == SP_SHAPE_STRUCT;
    const struct sp_dict_entry *pairs = v.dict->at;

    if (!is_struct && (st = sp_dict_sorted(b->heap, &pairs, v.dict))) return st;
    if ((st = sp_build_text(b, is_struct ? "{" : "map["))) return st;
    for (size_t i = 0; i < v.dict->n; i++) {
        if (i && (st = sp_build(b, " ", 1))) return st;
        if (!is_struct &&
            ((st = print_value(b, pairs[i].key, f, depth + 1)) || (st = sp_build(b, ":", 1))))
            return st;
        if ((st = print_value(b, pairs[i].value, f, depth + 1))) return st;
    }
    return sp_build_text(b, is_struct ? "}" : "]");
}

static enum sp_status print_value(struct sp_builder *b, struct sp_value v, const struct verb *f,
                                  int depth)
{
    enum sp_status st;

    if (depth > SP_VALUE_DEPTH)
        return sp_fail(b->heap->err, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
    switch (v.kind) {
    case SP_V_BOOL:
        if (f->letter != 'v' && f->letter != 't') return unsuited(b, v, f);
        return pad(b, f, sp_value_name(v.truth ? "true" : "false"));
    case SP_V_INT:
    case SP_V_FLOAT:
        return print_number(b, v, f);
    case SP_V_TEXT:
        return print_text(b, v, f);
    case SP_V_LIST:
        if (v.shape == SP_SHAPE_JSON || v.shape == SP_SHAPE_TYPE) return print_stringer(b, v, f);
        if ((st = sp_build(b, "[", 1))) return st;
        for (size_t i = 0; i < v.list->n; i++) {
            if (i && (st = sp_build(b, " ", 1))) return st;
            if ((st = print_value(b, v.list->at[i], f, depth + 1))) return st;
        }
        return sp_build(b, "]", 1);
    case SP_V_DICT:
        if (v.shape == SP_SHAPE_JSON || v.shape == SP_SHAPE_JSON_STRUCT)
            return print_stringer(b, v, f);
        return print_dict(b, v, f, depth);
    default:
        if (f->letter != 'v') return unsuited(b, v, f);
        return depth ? sp_build_text(b, "<nil>") : pad(b, f, sp_value_name("<nil>"));
    }
}

enum sp_status sp_go_build(struct sp_builder *b, struct sp_value v)
{
    return print_value(b, v, &(struct verb){.letter = 'v', .precision = -1}, 0);
}

enum sp_status sp_go_print(struct sp_builder *b, const struct sp_value *arg, size_t n, bool line)
{
    enum sp_status st;
    bool text_before = false;

    for (size_t i = 0; i < n; i++) {
        bool text = arg[i].kind == SP_V_TEXT;
        if (i && (line || (!text && !text_before)) && (st = sp_build(b, " ", 1))) return st;
        if ((st = sp_go_build(b, arg[i]))) return st;
        text_before = text;
    }
    return line ? sp_build(b, "\n", 1) : SP_OK;
}

struct printf_state {
    const char *at; /* the rest of the format, NUL-terminated */
    const struct sp_value *arg, *end;
};

/* Reads a number in the format, or takes an argument for `*`; *out is unchanged without either. */
static enum sp_status take_number(struct sp_builder *b, struct printf_state *p, int *out)
{
    int64_t v = 0;

    if (*p->at == '*') {
        p->at++;
        if (p->arg == p->end || p->arg->kind != SP_V_INT)
            return sp_fail(b->heap->err, SP_E_INPUT, "printf: * needs an integer");
        v = p->arg++->integer;
    } else if (*p->at < '0' || *p->at > '9') {
        return SP_OK;
    }
    while (*p->at >= '0' && *p->at <= '9' && v <= MAX_WIDTH)
        v = v * 10 + (*p->at++ - '0');
    if (v < -MAX_WIDTH || v > MAX_WIDTH)
        return sp_fail(b->heap->err, SP_E_INPUT, "printf: a width beyond %d", MAX_WIDTH);
    *out = (int)v;
    return SP_OK;
}

/* Formats one verb; p->at is after the percent sign. */
static enum sp_status printf_one(struct sp_builder *b, struct printf_state *p)
{
    enum sp_status st;
    struct verb f = {.precision = -1};
    const char *begin = p->at;

    for (; *p->at == '-' || *p->at == '0'; p->at++)
        *(*p->at == '-' ? &f.minus : &f.zero) = true;
    if ((st = take_number(b, p, &f.width))) return st;
    f.minus = f.minus || f.width < 0;
    f.zero = f.zero && !f.minus;
    if (f.width < 0) f.width = -f.width;
    if (*p->at == '.') {
        p->at++;
        f.precision = 0;
        if ((st = take_number(b, p, &f.precision))) return st;
    }
    f.letter = *p->at;
    if (f.letter == '%') return sp_build(b, p->at++, 1);
    if (!f.letter || strchr("vsqdft", f.letter) == NULL || f.precision > MAX_PRECISION) {
        return sp_fail(b->heap->err, SP_E_UNSUPPORTED, "printf: %%%.*s is not supported",
                       (int)(p->at - begin < 20 ? p->at - begin + 1 : 20), begin);
    }
    p->at++;
    if (p->arg == p->end)
        return sp_fail(b->heap->err, SP_E_INPUT, "printf: no argument for %%%c", f.letter);
    return print_value(b, *p->arg++, &f, 0);
}

enum sp_status sp_go_printf(struct sp_builder *b, struct sp_value format,
                            const struct sp_value *arg, size_t n)
{
    enum sp_status st = sp_heap_charge_reading(b->heap, &format, 1);
    struct printf_state p = {.arg = arg, .end = arg + n};

    if (st || (st = sp_value_copy_text(b->heap, &format, format.text, format.len))) return st;
    p.at = format.text;
    while (*p.at && !st) {
        const char *c = p.at++;
        st = *c == '%' ? printf_one(b, &p) : sp_build(b, c, 1);
    }
    if (!st && p.arg != p.end)
        return sp_fail(b->heap->err, SP_E_INPUT, "printf: more arguments than verbs");
    return st;
}
