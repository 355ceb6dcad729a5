/* Filters on texts, numbers and single values, and the lookup of all filters. */
#include "runtime/template/jinja/jinja_filter.h"
#include "format/base/number_text.h"
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"
#include "runtime/template/jinja/jinja_eval.h"
#include "runtime/template/jinja/jinja_format.h"
#include "runtime/template/jinja/jinja_lex.h"
#include "runtime/template/jinja/jinja_object.h"
#include "runtime/template/jinja/jinja_ops.h"
#include "runtime/template/jinja/jinja_string.h"
#include "runtime/template/jinja/jinja_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILTER(name)                                                                               \
    static enum sp_status name(struct sp_jinja_machine *m, struct sp_value *out,                   \
                               struct sp_value in, const struct sp_value *arg)

/* For filters without parameters, which ignore `arg`. */
#define NO_ARGUMENTS (void)arg

const struct sp_jinja_filter *sp_jinja_find_filter(struct sp_value name)
{
    const struct sp_jinja_filter *const tables[] = {sp_jinja_text_filters, sp_jinja_list_filters};

    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        for (const struct sp_jinja_filter *f = tables[t]; f->name != NULL; f++)
            if (sp_text_is(name, f->name)) return f;
    }
    return NULL;
}

static enum sp_status recase(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value in,
                             enum sp_jinja_case how)
{
    enum sp_status st;

    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    return sp_jinja_recase(m, out, in, how);
}

FILTER(filter_upper)
{
    NO_ARGUMENTS;
    return recase(m, out, in, SP_JINJA_UPPER);
}

FILTER(filter_lower)
{
    NO_ARGUMENTS;
    return recase(m, out, in, SP_JINJA_LOWER);
}

FILTER(filter_capitalize)
{
    NO_ARGUMENTS;
    return recase(m, out, in, SP_JINJA_CAPITALIZE);
}

/* Capitalises words. A word begins at the start of the text and after whitespace or one of -([{<;
 * the rest of it becomes lower case. Unlike in str.title, "it's" stays one word. */
FILTER(filter_title)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    bool begins = true;
    size_t pos = 0;

    NO_ARGUMENTS;
    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    while (pos < in.len) {
        size_t begin = pos;
        uint32_t c = sp_utf8_next(in.text, in.len, &pos);
        struct sp_value one = sp_value_text(in.text + begin, pos - begin), to;

        if ((st = sp_jinja_recase(m, &to, one, begins ? SP_JINJA_UPPER : SP_JINJA_LOWER)))
            return st;
        if ((st = sp_build(&b, to.text, to.len))) return st;
        begins = sp_unicode_is_space(c) || (c && c < 0x80 && strchr("-([{<", (int)c) != NULL);
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

FILTER(filter_trim)
{
    enum sp_status st;

    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    return sp_jinja_strip(m, out, in, arg[0], SP_JINJA_BOTH);
}

/* Reads an integer; None gives the default, as an absent argument does. */
static enum sp_status want_optional(struct sp_jinja_machine *m, struct sp_value v,
                                    int64_t otherwise, int64_t *out)
{
    return sp_jinja_want_integer(m, v.kind == SP_V_NONE ? (struct sp_value){0} : v, otherwise, out);
}

FILTER(filter_replace)
{
    enum sp_status st;
    struct sp_value from, to;
    int64_t count;

    if ((st = want_optional(m, arg[2], -1, &count))) return st;
    if ((st = sp_jinja_to_text(m, &in, in)) || (st = sp_jinja_to_text(m, &from, arg[0])) ||
        (st = sp_jinja_to_text(m, &to, arg[1])))
        return st;
    return sp_jinja_replace(m, out, in, from, to, count);
}

FILTER(filter_string)
{
    NO_ARGUMENTS;
    return sp_jinja_to_text(m, out, in);
}

FILTER(filter_safe)
{
    enum sp_status st;

    NO_ARGUMENTS;
    st = sp_jinja_to_text(m, out, in);
    if (!st) out->shape = SP_SHAPE_MARKUP;
    return st;
}

FILTER(filter_escape)
{
    NO_ARGUMENTS;
    return sp_jinja_escape(m, out, in);
}

FILTER(filter_forceescape)
{
    enum sp_status st;

    NO_ARGUMENTS;
    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    in.shape = SP_SHAPE_PLAIN;
    return sp_jinja_escape(m, out, in);
}

FILTER(filter_length)
{
    enum sp_status st;
    size_t n;

    NO_ARGUMENTS;
    st = sp_jinja_length(m, &n, in);
    *out = sp_value_int((int64_t)n);
    return st;
}

FILTER(filter_default)
{
    bool boolean = sp_value_truth(arg[1]);

    (void)m;
    *out = in;
    if (in.kind == SP_V_UNDEFINED || (boolean && !sp_value_truth(in)))
        *out = arg[0].kind == SP_V_ABSENT ? sp_value_name("") : arg[0];
    return SP_OK;
}

FILTER(filter_tojson)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap}, indent = {.heap = m->heap};
    struct sp_jinja_json_style style = {.item_separator = sp_value_name(", "),
                                        .key_separator = sp_value_name(": "),
                                        .ascii = sp_value_truth(arg[0]),
                                        .sort_keys = sp_value_truth(arg[3])};
    int64_t width;

    if (arg[1].kind == SP_V_TEXT) {
        if ((st = sp_build(&indent, arg[1].text, arg[1].len))) return st;
    } else if (arg[1].kind != SP_V_ABSENT && arg[1].kind != SP_V_NONE) {
        if ((st = sp_jinja_want_integer(m, arg[1], 0, &width))) return st;
        if ((st = sp_build_repeat(&indent, ' ', width > 0 ? (size_t)width : 0))) return st;
    }
    if (arg[1].kind != SP_V_ABSENT && arg[1].kind != SP_V_NONE) {
        style.indent = indent.at ? indent.at : "";
        style.indent_len = indent.len;
        style.item_separator = sp_value_name(",");
    }
    if (arg[2].kind == SP_V_LIST && arg[2].list->n == 2 && arg[2].list->at[0].kind == SP_V_TEXT &&
        arg[2].list->at[1].kind == SP_V_TEXT) {
        style.item_separator = arg[2].list->at[0];
        style.key_separator = arg[2].list->at[1];
    } else if (arg[2].kind != SP_V_ABSENT && arg[2].kind != SP_V_NONE) {
        return sp_jinja_fail(m, "tojson: separators must be two strings");
    }
    if ((st = sp_jinja_build_json(&b, in, &style))) return st;
    *out = sp_builder_value(&b);
    return SP_OK;
}

FILTER(filter_indent)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap}, pad = {.heap = m->heap};
    struct sp_value lines;
    int64_t width;
    bool first = sp_value_truth(arg[1]), blank = sp_value_truth(arg[2]);

    if ((st = sp_jinja_defined(m, in))) return st;
    if (in.kind != SP_V_TEXT) return sp_jinja_fail(m, "indent: not a str");
    if (arg[0].kind == SP_V_TEXT)
        st = sp_build(&pad, arg[0].text, arg[0].len);
    else if (!(st = sp_jinja_want_integer(m, arg[0], 4, &width)))
        st = sp_build_repeat(&pad, ' ', width > 0 ? (size_t)width : 0);
    if (st || (st = sp_build(&b, in.text, in.len)) || (st = sp_build(&b, "\n", 1))) return st;
    if ((st = sp_jinja_splitlines(m, &lines, sp_builder_value(&b), false))) return st;
    b = (struct sp_builder){.heap = m->heap};
    for (size_t i = 0; i < lines.list->n; i++) {
        const struct sp_value line = lines.list->at[i];
        bool padded = i == 0 ? first : blank || line.len > 0;

        if (i && (st = sp_build(&b, "\n", 1))) return st;
        if (padded && (st = sp_build(&b, pad.at ? pad.at : "", pad.len))) return st;
        if ((st = sp_build(&b, line.text, line.len))) return st;
    }
    *out = sp_builder_value(&b);
    out->shape = in.shape;
    return SP_OK;
}

FILTER(filter_center)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    int64_t width;
    size_t len, fill, left;

    if ((st = sp_jinja_want_integer(m, arg[0], 80, &width))) return st;
    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    len = sp_text_characters(in);
    fill = width > (int64_t)len ? (size_t)width - len : 0;
    left = fill / 2 + (fill & (size_t)width & 1);
    if ((st = sp_build_repeat(&b, ' ', left))) return st;
    if ((st = sp_build(&b, in.text, in.len))) return st;
    if ((st = sp_build_repeat(&b, ' ', fill - left))) return st;
    *out = sp_builder_value(&b);
    return SP_OK;
}

FILTER(filter_truncate)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    struct sp_value end = arg[2].kind == SP_V_TEXT ? arg[2] : sp_value_name("..."), cut;
    int64_t length, leeway;
    size_t n;

    if ((st = sp_jinja_want_integer(m, arg[0], 255, &length)) ||
        (st = want_optional(m, arg[3], 5, &leeway)))
        return st;
    if (length < (int64_t)sp_text_characters(end) || leeway < 0 || leeway > UINT32_MAX ||
        length > UINT32_MAX)
        return sp_jinja_fail(m, "truncate: length or leeway out of range");
    if ((st = sp_jinja_length(m, &n, in))) return st;
    *out = in;
    if ((int64_t)n <= length + leeway) return SP_OK; /* before the kind is checked, as Jinja2 */
    if (in.kind != SP_V_TEXT) return sp_jinja_fail(m, "truncate: not a str");
    {
        const struct sp_value bound[3] = {
            {0}, sp_value_int(length - (int64_t)sp_text_characters(end)), {0}};

        if ((st = sp_jinja_slice(m, &cut, in, bound))) return st;
    }
    for (size_t i = cut.len; i > 0 && !sp_value_truth(arg[1]); i--) {
        if (cut.text[i - 1] != ' ') continue;
        cut.len = (uint32_t)(i - 1);
        break;
    }
    if ((st = sp_build(&b, cut.text, cut.len)) || (st = sp_build(&b, end.text, end.len))) return st;
    *out = sp_builder_value(&b);
    return SP_OK;
}

FILTER(filter_wordcount)
{
    enum sp_status st;
    int64_t n = 0;
    bool in_word = false;

    NO_ARGUMENTS;
    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    for (size_t pos = 0; pos < in.len;) {
        uint32_t c = sp_utf8_next(in.text, in.len, &pos);
        bool word = c == '_' || sp_unicode_is_alpha(c) || sp_unicode_is_numeric(c);

        n += word && !in_word;
        in_word = word;
    }
    *out = sp_value_int(n);
    return sp_heap_charge(m->heap, in.len / 4);
}

FILTER(filter_urlencode)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/";
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    char escape[8];

    NO_ARGUMENTS;
    if (in.kind == SP_V_DICT || in.kind == SP_V_LIST) {
        return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "urlencode of a %s is not supported",
                       sp_jinja_type_name(in));
    }
    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    for (size_t i = 0; i < in.len; i++) {
        if (in.text[i] && strchr(plain, in.text[i]) != NULL) {
            st = sp_build(&b, in.text + i, 1);
        } else {
            snprintf(escape, sizeof escape, "%%%02X", (unsigned)(unsigned char)in.text[i]);
            st = sp_build_text(&b, escape);
        }
        if (st) return st;
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

/* The digits of an int() argument without whitespace and underscores; NULL: not a valid number. */
static const char *number_text(struct sp_value text, char *buffer, size_t size)
{
    size_t n = 0;
    bool underscore = true; /* underscores may not be first, last or adjacent */

    for (size_t i = 0; i < text.len; i++) {
        char c = text.text[i];

        if (c == '_') {
            if (underscore) return NULL;
            underscore = true;
            continue;
        }
        underscore = !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
        if (n + 1 >= size || c == '\0') return NULL;
        buffer[n++] = c;
    }
    buffer[n] = '\0';
    return n > 0 && text.text[text.len - 1] != '_' ? buffer : NULL;
}

/* Computes Python's float(text); false where it would raise. */
static bool parse_float(const char *text, double *out)
{
    const char *begin = text + (*text == '+' || *text == '-');
    char *end;

    if (!((*begin >= '0' && *begin <= '9') || *begin == '.' || *begin == 'i' || *begin == 'I' ||
          *begin == 'n' || *begin == 'N') ||
        strpbrk(begin, "xX(") != NULL)
        return false;
    *out = sp_number_read(text, &end);
    return end != text && *end == '\0';
}

static bool parse_integer(const char *text, int base, struct sp_value *out)
{
    char *end;
    long long v;

    if (base < 0 || base == 1 || base > 36) return false;
    if (base == 2 || base == 8) {
        const char *digits = text + (*text == '+' || *text == '-');

        if (digits[0] == '0' && (digits[1] | 0x20) == (base == 2 ? 'b' : 'o')) {
            if (digits != text) return false;
            text = digits + 2;
        }
    }
    errno = 0;
    v = strtoll(text, &end, base);
    if (errno || end == text || *end) return false;
    *out = sp_value_int(v);
    return true;
}

static bool integer_of_double(double d, struct sp_value *out)
{
    if (!(fabs(d) < 9.2e18)) return false;
    *out = sp_value_int((int64_t)d);
    return true;
}

FILTER(filter_int)
{
    enum sp_status st;
    char buffer[512];
    const char *text;
    int64_t base;
    double d;

    if ((st = sp_jinja_defined(m, in)) || (st = sp_jinja_want_integer(m, arg[1], 10, &base)))
        return st;
    *out = arg[0].kind == SP_V_ABSENT ? sp_value_int(0) : arg[0];
    if (in.kind == SP_V_INT || in.kind == SP_V_BIG) *out = in;
    if (in.kind == SP_V_BOOL) *out = sp_value_int(in.truth);
    if (in.kind == SP_V_FLOAT) (void)integer_of_double(in.real, out);
    if (in.kind != SP_V_TEXT) return SP_OK;
    if ((st = sp_jinja_strip(m, &in, in, (struct sp_value){0}, SP_JINJA_BOTH))) return st;
    text = number_text(in, buffer, sizeof buffer);
    if (text == NULL || base > 36 || parse_integer(text, (int)base, out)) return SP_OK;
    if (parse_float(text, &d)) (void)integer_of_double(d, out);
    return SP_OK;
}

FILTER(filter_float)
{
    enum sp_status st;
    char buffer[512];
    const char *text;
    double d;

    if ((st = sp_jinja_defined(m, in))) return st;
    *out = arg[0].kind == SP_V_ABSENT ? sp_value_float(0) : arg[0];
    if (sp_value_is_number(in)) *out = sp_value_float(sp_value_to_double(in));
    if (in.kind != SP_V_TEXT) return SP_OK;
    if ((st = sp_jinja_strip(m, &in, in, (struct sp_value){0}, SP_JINJA_BOTH))) return st;
    text = number_text(in, buffer, sizeof buffer);
    if (text != NULL && parse_float(text, &d)) *out = sp_value_float(d);
    return SP_OK;
}

FILTER(filter_abs)
{
    enum sp_status st;
    bool negative;

    NO_ARGUMENTS;
    if ((st = sp_jinja_defined(m, in))) return st;
    if (!sp_value_is_number(in))
        return sp_jinja_fail(m, "bad operand type for abs(): '%s'", sp_jinja_type_name(in));
    if (in.kind == SP_V_FLOAT) {
        *out = sp_value_float(fabs(in.real));
        return SP_OK;
    }
    negative = in.kind == SP_V_BIG ? in.text[0] == '-' : in.kind == SP_V_INT && in.integer < 0;
    return sp_jinja_unary(m, out, negative ? SP_T_SUB : SP_T_ADD, in);
}

/* Computes round(): ties to even of the exact value, as printf rounds. */
static double round_common(double v, int precision)
{
    char text[400];
    double scale;

    if (!isfinite(v) || precision > 300) return v;
    if (precision >= 0) {
        sp_number_print(text, sizeof text, "%.*f", precision, v);
        return fabs(v) < 1e22 ? sp_number_read(text, NULL) : v;
    }
    scale = pow(10, -precision);
    return nearbyint(v / scale) * scale;
}

/* Rounds to a multiple of 10 to the power of `zeros` >= 1, ties to the even one. */
static enum sp_status round_integer(struct sp_jinja_machine *m, struct sp_value *out, int64_t v,
                                    int64_t zeros)
{
    static const int64_t half_of_19 = 5000000000000000000;
    int64_t unit = 1, rest, multiple;
    bool down;

    *out = sp_value_int(0);
    if (zeros == 19 && (v > half_of_19 || v < -half_of_19))
        return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "the rounded integer does not fit 64 bits");
    if (zeros > 18) return SP_OK;
    for (int64_t i = 0; i < zeros; i++)
        unit *= 10;
    multiple = v / unit - (v % unit < 0);
    rest = v % unit + (v % unit < 0 ? unit : 0);
    down = rest < unit / 2 || (rest == unit / 2 && multiple % 2 == 0);
    return sp_jinja_binary(m, out, SP_T_ADD, sp_value_int(v),
                           sp_value_int(down ? -rest : unit - rest));
}

FILTER(filter_round)
{
    enum sp_status st;
    int64_t precision;
    double v, scale;
    bool up = sp_text_is(arg[1], "ceil"), down = sp_text_is(arg[1], "floor");

    if ((st = sp_jinja_defined(m, in)) || (st = sp_jinja_want_integer(m, arg[0], 0, &precision)))
        return st;
    if (in.kind == SP_V_BIG)
        return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "round of an integer beyond 64 bits");
    if (!sp_value_is_number(in))
        return sp_jinja_fail(m, "type %s doesn't define __round__ method", sp_jinja_type_name(in));
    if (!up && !down && arg[1].kind != SP_V_ABSENT && !sp_text_is(arg[1], "common"))
        return sp_jinja_fail(m, "method must be common, ceil or floor");
    if (precision > 300 || precision < -300)
        return sp_jinja_fail(m, "round: precision out of range");
    v = sp_value_to_double(in);
    if (up || down) {
        scale = pow(10, (double)precision);
        *out = sp_value_float((up ? ceil(v * scale) : floor(v * scale)) / scale);
    } else if (in.kind == SP_V_FLOAT) {
        *out = sp_value_float(round_common(v, (int)precision));
    } else if (precision >= 0) {
        *out = in.kind == SP_V_BOOL ? sp_value_int(in.truth) : in;
    } else {
        return round_integer(m, out, sp_value_to_integer(in), -precision);
    }
    return SP_OK;
}

/* Removes tags and comments, and turns each run of whitespace into one space. */
FILTER(filter_striptags)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    bool tag = false, gap = false;

    NO_ARGUMENTS;
    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    for (size_t pos = 0; pos < in.len;) {
        size_t begin = pos;
        uint32_t c = sp_utf8_next(in.text, in.len, &pos);

        if (c == '&')
            return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "striptags of text with entities");
        if (c == '<' && memchr(in.text + pos, '>', in.len - pos) != NULL) tag = true;
        if (!tag && sp_unicode_is_space(c)) gap = true;
        if (!tag && !sp_unicode_is_space(c)) {
            if (gap && b.len && (st = sp_build(&b, " ", 1))) return st;
            gap = false;
            if ((st = sp_build(&b, in.text + begin, pos - begin))) return st;
        }
        if (c == '>') tag = false;
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

static enum sp_status filter_format(struct sp_jinja_machine *m, struct sp_value *out,
                                    struct sp_value in, const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_value given;

    if (args->n && args->n_named)
        return sp_jinja_fail(m, "can't handle positional and keyword arguments at the same time");
    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    if (args->n_named) {
        st = sp_value_dict(m->heap, &given);
        for (size_t i = 0; i < args->n_named && !st; i++)
            st = sp_dict_set(m->heap, given.dict, args->names[i], args->named[i]);
    } else {
        st = sp_value_list(m->heap, &given, SP_SHAPE_TUPLE, args->n);
        for (size_t i = 0; i < args->n && !st; i++)
            st = sp_list_push(m->heap, given.list, args->at[i]);
    }
    return st ? st : sp_jinja_percent(m, out, in, given);
}

const struct sp_jinja_filter sp_jinja_text_filters[] = {
    {"abs", "", filter_abs, NULL},
    {"capitalize", "", filter_capitalize, NULL},
    {"center", "width=", filter_center, NULL},
    {"count", "", filter_length, NULL},
    {"d", "default_value= boolean=", filter_default, NULL},
    {"default", "default_value= boolean=", filter_default, NULL},
    {"e", "", filter_escape, NULL},
    {"escape", "", filter_escape, NULL},
    {"float", "default=", filter_float, NULL},
    {"forceescape", "", filter_forceescape, NULL},
    {"format", "", NULL, filter_format},
    {"indent", "width= first= blank=", filter_indent, NULL},
    {"int", "default= base=", filter_int, NULL},
    {"length", "", filter_length, NULL},
    {"lower", "", filter_lower, NULL},
    {"replace", "old new count=", filter_replace, NULL},
    {"round", "precision= method=", filter_round, NULL},
    {"safe", "", filter_safe, NULL},
    {"string", "", filter_string, NULL},
    {"striptags", "", filter_striptags, NULL},
    {"title", "", filter_title, NULL},
    {"tojson", "ensure_ascii= indent= separators= sort_keys=", filter_tojson, NULL},
    {"trim", "chars=", filter_trim, NULL},
    {"truncate", "length= killwords= end= leeway=", filter_truncate, NULL},
    {"upper", "", filter_upper, NULL},
    {"urlencode", "", filter_urlencode, NULL},
    {"wordcount", "", filter_wordcount, NULL},
    {NULL, NULL, NULL, NULL},
};
