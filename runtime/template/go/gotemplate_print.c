/* Writes values as Go's fmt package does: Print, Println and Printf.
 *
 * Templates format little. Printf knows %v, %s, %q, %d, %f and %t, a width, the precision of a
 * float, and the flags - and 0. The rest is refused, and so is what Go answers with an error in the
 * text: a verb that does not suit its value, a missing argument, a surplus one. */
#include "format/base/number_text.h"
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

static void print_value(struct sp_builder *b, struct sp_value v, const struct verb *f, int depth);

static void unsuited(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    sp_heap_fail(b->heap, SP_E_UNSUPPORTED, "printf: %%%c of %s is not supported", f->letter,
                 sp_go_is_nil(v) ? "nil" : sp_go_type_name(v));
}

static void pad(struct sp_builder *b, const struct verb *f, struct sp_value text)
{
    size_t n = sp_text_characters(text);
    size_t missing = (size_t)f->width > n ? (size_t)f->width - n : 0;
    bool sign = f->zero && (f->letter == 'd' || f->letter == 'f') && text.text[0] == '-';

    if (sign) sp_build(b, "-", 1);
    if (!f->minus) sp_build_repeat(b, f->zero ? '0' : ' ', missing);
    sp_build(b, text.text + sign, text.len - sign);
    if (f->minus) sp_build_repeat(b, ' ', missing);
}

static void print_text(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    struct sp_builder quoted = {.heap = b->heap};

    if (strchr("vsq", f->letter) == NULL || f->precision >= 0) {
        unsuited(b, v, f);
    } else if (f->letter != 'q') {
        pad(b, f, v);
    } else {
        sp_build_quoted(&quoted, v, '"', "\a\b\f\n\r\t\v\\\"", "abfnrtv\\\"", 0x80);
        pad(b, f, sp_builder_value(&quoted));
    }
}

static void print_number(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    struct sp_builder text = {.heap = b->heap};
    bool real = v.kind == SP_V_FLOAT;
    char digits[700];

    if (strchr(real ? "vf" : "vd", f->letter) == NULL || (f->letter != 'f' && f->precision >= 0)) {
        unsuited(b, v, f);
    } else if (real && !isfinite(v.real)) {
        pad(b, f, sp_value_name(isnan(v.real) ? "NaN" : v.real < 0 ? "-Inf" : "+Inf"));
    } else if (f->letter == 'f') {
        sp_number_print(digits, sizeof digits, "%.*f", f->precision < 0 ? 6 : f->precision, v.real);
        pad(b, f, sp_value_name(digits));
    } else {
        if (real)
            sp_build_shortest(&text, v.real, -4, 6);
        else
            sp_build_integer(&text, v);
        pad(b, f, sp_builder_value(&text));
    }
}

/* Prints a value with a String method. */
static void print_stringer(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    struct sp_builder text = {.heap = b->heap};

    if (v.shape != SP_SHAPE_TYPE) {
        sp_go_json(&text, v);
    } else if (v.list->n > 0) {
        v.shape = SP_SHAPE_PLAIN;
        sp_go_build(&text, v.list->n == 1 ? v.list->at[0] : v);
    }
    print_text(b, sp_builder_value(&text), f);
}

static void print_list(struct sp_builder *b, const struct sp_list *list, const struct verb *f,
                       int depth)
{
    sp_build(b, "[", 1);
    for (size_t i = 0; i < list->n; i++) {
        if (i) sp_build(b, " ", 1);
        print_value(b, list->at[i], f, depth + 1);
    }
    sp_build(b, "]", 1);
}

static void print_dict(struct sp_builder *b, struct sp_value v, const struct verb *f, int depth)
{
    bool is_struct = v.shape == SP_SHAPE_STRUCT;
    const struct sp_dict_entry *pairs = is_struct ? v.dict->at : sp_dict_sorted(b->heap, v.dict);

    sp_build_text(b, is_struct ? "{" : "map[");
    for (size_t i = 0; i < v.dict->n && !b->heap->status; i++) {
        if (i) sp_build(b, " ", 1);
        if (!is_struct) print_value(b, pairs[i].key, f, depth + 1);
        if (!is_struct) sp_build(b, ":", 1);
        print_value(b, pairs[i].value, f, depth + 1);
    }
    sp_build_text(b, is_struct ? "}" : "]");
}

static void print_value(struct sp_builder *b, struct sp_value v, const struct verb *f, int depth)
{
    bool is_list = v.kind == SP_V_LIST, is_dict = v.kind == SP_V_DICT;

    if (!sp_heap_may_nest(b->heap, depth)) return;
    if (v.kind == SP_V_INT || v.kind == SP_V_FLOAT)
        print_number(b, v, f);
    else if (v.kind == SP_V_TEXT)
        print_text(b, v, f);
    else if ((is_list && v.shape == SP_SHAPE_TYPE) ||
             ((is_list || is_dict) && v.shape == SP_SHAPE_JSON) ||
             (is_dict && v.shape == SP_SHAPE_JSON_STRUCT))
        print_stringer(b, v, f);
    else if (is_list)
        print_list(b, v.list, f, depth);
    else if (is_dict)
        print_dict(b, v, f, depth);
    else if (f->letter != 'v' && (v.kind != SP_V_BOOL || f->letter != 't'))
        unsuited(b, v, f);
    else if (v.kind == SP_V_BOOL)
        pad(b, f, sp_value_name(v.truth ? "true" : "false"));
    else if (depth)
        sp_build_text(b, "<nil>");
    else
        pad(b, f, sp_value_name("<nil>"));
}

void sp_go_build(struct sp_builder *b, struct sp_value v)
{
    print_value(b, v, &(struct verb){.letter = 'v', .precision = -1}, 0);
}

void sp_go_print(struct sp_builder *b, const struct sp_value *arg, size_t n, bool line)
{
    bool text_before = false;

    for (size_t i = 0; i < n; i++) {
        bool text = arg[i].kind == SP_V_TEXT;
        if (i && (line || (!text && !text_before))) sp_build(b, " ", 1);
        sp_go_build(b, arg[i]);
        text_before = text;
    }
    if (line) sp_build(b, "\n", 1);
}

struct printf_state {
    const char *at; /* the rest of the format, NUL-terminated */
    const struct sp_value *arg, *end;
};

/* Reads a number in the format, or takes an argument for `*`; *out is unchanged without either. */
static void take_number(struct sp_builder *b, struct printf_state *p, int *out)
{
    int64_t v = 0;

    if (*p->at == '*') {
        p->at++;
        if (p->arg == p->end || p->arg->kind != SP_V_INT) {
            sp_heap_fail(b->heap, SP_E_INPUT, "printf: * needs an integer");
            return;
        }
        v = p->arg++->integer;
    } else if (*p->at < '0' || *p->at > '9') {
        return;
    }
    while (*p->at >= '0' && *p->at <= '9' && v <= MAX_WIDTH)
        v = v * 10 + (*p->at++ - '0');
    if (v < -MAX_WIDTH || v > MAX_WIDTH)
        sp_heap_fail(b->heap, SP_E_INPUT, "printf: a width beyond %d", MAX_WIDTH);
    else
        *out = (int)v;
}

/* Formats one verb; p->at is after the percent sign. */
static void printf_one(struct sp_builder *b, struct printf_state *p)
{
    struct verb f = {.precision = -1};
    const char *begin = p->at;

    for (; *p->at == '-' || *p->at == '0'; p->at++)
        *(*p->at == '-' ? &f.minus : &f.zero) = true;
    take_number(b, p, &f.width);
    f.minus = f.minus || f.width < 0;
    f.zero = f.zero && !f.minus;
    if (f.width < 0) f.width = -f.width;
    if (*p->at == '.') {
        p->at++;
        f.precision = 0;
        take_number(b, p, &f.precision);
    }
    f.letter = *p->at;
    if (f.letter == '%') {
        sp_build(b, p->at++, 1);
    } else if (!f.letter || strchr("vsqdft", f.letter) == NULL || f.precision > MAX_PRECISION) {
        sp_heap_fail(b->heap, SP_E_UNSUPPORTED, "printf: %%%.*s is not supported",
                     (int)(p->at - begin < 20 ? p->at - begin + 1 : 20), begin);
    } else if (p->arg == p->end) {
        sp_heap_fail(b->heap, SP_E_INPUT, "printf: no argument for %%%c", f.letter);
    } else {
        p->at++;
        print_value(b, *p->arg++, &f, 0);
    }
}

void sp_go_printf(struct sp_builder *b, struct sp_value format, const struct sp_value *arg,
                  size_t n)
{
    struct printf_state p = {.arg = arg, .end = arg + n};

    sp_heap_charge_reading(b->heap, &format, 1);
    p.at = sp_value_copy_text(b->heap, format.text, format.len).text;
    while (*p.at && !b->heap->status) {
        const char *c = p.at++;
        if (*c == '%')
            printf_one(b, &p);
        else
            sp_build(b, c, 1);
    }
    if (p.arg != p.end) sp_heap_fail(b->heap, SP_E_INPUT, "printf: more arguments than verbs");
}
