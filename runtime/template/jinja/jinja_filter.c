/* Filters on texts, numbers and single values, and the lookup of all filters. */
#include "format/base/number_text.h"
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

SP_JINJA_FUNCTION(filter_recase)
{
    enum sp_status st = sp_jinja_to_text(m, &in, in);

    if (st) return st;
    return sp_jinja_recase(m, out, in, (enum sp_jinja_case)arg[SP_JINJA_HOW].integer);
}

/* Capitalises words. A word begins at the start of the text and after whitespace or one of -([{<;
 * the rest of it becomes lower case. Unlike in str.title, "it's" stays one word. */
SP_JINJA_FUNCTION(filter_title)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    bool begins = true;
    size_t pos = 0;

    (void)arg;
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

SP_JINJA_FUNCTION(filter_trim)
{
    enum sp_status st;

    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    return sp_jinja_strip(m, out, in, arg[0], SP_JINJA_BOTH);
}

SP_JINJA_FUNCTION(filter_replace)
{
    enum sp_status st;
    struct sp_value from, to, limit;
    int64_t count;

    limit = arg[2].kind == SP_V_NONE ? (struct sp_value){0} : arg[2];
    if ((st = sp_jinja_want_integer(m, limit, -1, &count))) return st;
    if ((st = sp_jinja_to_text(m, &in, in))) return st;
    if ((st = sp_jinja_to_text(m, &from, arg[0]))) return st;
    if ((st = sp_jinja_to_text(m, &to, arg[1]))) return st;
    return sp_jinja_replace(m, out, in, from, to, count);
}

SP_JINJA_FUNCTION(filter_string)
{
    (void)arg;
    return sp_jinja_to_text(m, out, in);
}

SP_JINJA_FUNCTION(filter_safe)
{
    enum sp_status st;

    (void)arg;
    st = sp_jinja_to_text(m, out, in);
    if (!st) out->shape = SP_SHAPE_MARKUP;
    return st;
}

SP_JINJA_FUNCTION(filter_escape)
{
    (void)arg;
    return sp_jinja_escape(m, out, in);
}

SP_JINJA_FUNCTION(filter_length)
{
    enum sp_status st;
    size_t n;

    (void)arg;
    st = sp_jinja_length(m, &n, in);
    *out = sp_value_int((int64_t)n);
    return st;
}

SP_JINJA_FUNCTION(filter_default)
{
    bool boolean = sp_value_truth(arg[1]);

    (void)m;
    *out = in;
    if (in.kind == SP_V_UNDEFINED || (boolean && !sp_value_truth(in)))
        *out = arg[0].kind == SP_V_ABSENT ? sp_value_name("") : arg[0];
    return SP_OK;
}

SP_JINJA_FUNCTION(filter_tojson)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap}, indent = {.heap = m->heap};
    struct sp_jinja_json_style style = {.item_separator = sp_value_name(", "),
                                        .key_separator = sp_value_name(": "),
                                        .text = sp_value_truth(arg[0]) ? SP_JSON_TEXT_ASCII
                                                                       : SP_JSON_TEXT_PYTHON,
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

SP_JINJA_FUNCTION(filter_indent)
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

/* Reads a number as Python's int() and float() do, of decimal digits; false where they would
 * raise. *out is an integer if the text has one. */
static bool parse_number(struct sp_value text, struct sp_value *out)
{
    char digits[64], *end;
    size_t sign = text.len && (text.text[0] == '+' || text.text[0] == '-');
    long long v;

    if (text.len == sign || text.len >= sizeof digits) return false;
    memcpy(digits, text.text, text.len);
    digits[text.len] = '\0';
    if (strchr("0123456789.iInN", digits[sign]) == NULL || strpbrk(digits, "xX(") != NULL)
        return false;
    errno = 0;
    v = strtoll(digits, &end, 10);
    *out = sp_value_int(v);
    if (!errno && *end == '\0') return true;
    *out = sp_value_float(sp_number_read(digits, &end));
    return *end == '\0';
}

SP_JINJA_FUNCTION(filter_number)
{
    const bool is_float = arg[SP_JINJA_HOW].integer != 0;
    enum sp_status st;

    if ((st = sp_jinja_defined(m, in))) return st;
    *out = arg[0].kind != SP_V_ABSENT ? arg[0] : is_float ? sp_value_float(0) : sp_value_int(0);
    if (in.kind == SP_V_TEXT) {
        if ((st = sp_jinja_strip(m, &in, in, (struct sp_value){0}, SP_JINJA_BOTH))) return st;
        if (!parse_number(in, &in)) return SP_OK;
    }
    if (is_float) {
        if (sp_value_is_number(in)) *out = sp_value_float(sp_value_to_double(in));
        return SP_OK;
    }
    if (in.kind == SP_V_INT || in.kind == SP_V_BIG) *out = in;
    if (in.kind == SP_V_BOOL) *out = sp_value_int(in.truth);
    if (in.kind == SP_V_FLOAT && fabs(in.real) < 9.2e18) *out = sp_value_int((int64_t)in.real);
    return SP_OK;
}

SP_JINJA_FUNCTION(filter_abs)
{
    enum sp_status st;
    bool negative;

    (void)arg;
    if ((st = sp_jinja_defined(m, in))) return st;
    if (!sp_value_is_number(in))
        return sp_jinja_fail(m, "bad operand type for abs(): '%s'", sp_jinja_type_name(in));
    if (in.kind == SP_V_FLOAT) {
        *out = sp_value_float(fabs(in.real));
        return SP_OK;
    }
    negative = in.kind == SP_V_INT && in.integer < 0;
    return sp_jinja_unary(m, out, negative ? SP_T_SUB : SP_T_ADD, in);
}

SP_JINJA_FUNCTION(filter_round)
{
    enum sp_status st;
    int64_t precision;
    double v, scale;
    char text[400];
    bool up = sp_text_is(arg[1], "ceil"), down = sp_text_is(arg[1], "floor");

    if ((st = sp_jinja_defined(m, in))) return st;
    if ((st = sp_jinja_want_integer(m, arg[0], 0, &precision))) return st;
    if (in.kind == SP_V_BIG)
        return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "round of an integer beyond 64 bits");
    if (!sp_value_is_number(in))
        return sp_jinja_fail(m, "type %s doesn't define __round__ method", sp_jinja_type_name(in));
    if (!up && !down && arg[1].kind != SP_V_ABSENT && !sp_text_is(arg[1], "common"))
        return sp_jinja_fail(m, "method must be common, ceil or floor");
    if (precision < 0 || precision > 300)
        return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "round: a precision outside 0 to 300");
    v = sp_value_to_double(in);
    if (up || down) {
        scale = pow(10, (double)precision);
        *out = sp_value_float((up ? ceil(v * scale) : floor(v * scale)) / scale);
    } else if (in.kind == SP_V_FLOAT) {
        *out = sp_value_float(v);
        if (!isfinite(v) || fabs(v) >= 1e22) return SP_OK;
        /* ties to even of the exact value, as printf rounds */
        sp_number_print(text, sizeof text, "%.*f", (int)precision, v);
        *out = sp_value_float(sp_number_read(text, NULL));
    } else {
        *out = in.kind == SP_V_BOOL ? sp_value_int(in.truth) : in;
    }
    return SP_OK;
}

static const struct sp_jinja_function text_filters[] = {
    {"abs", "", filter_abs, NULL, 0},
    {"capitalize", "", filter_recase, NULL, SP_JINJA_CAPITALIZE},
    {"count", "", filter_length, NULL, 0},
    {"d", "default_value= boolean=", filter_default, NULL, 0},
    {"default", "default_value= boolean=", filter_default, NULL, 0},
    {"e", "", filter_escape, NULL, 0},
    {"escape", "", filter_escape, NULL, 0},
    {"float", "default=", filter_number, NULL, 1},
    {"indent", "width= first= blank=", filter_indent, NULL, 0},
    {"int", "default=", filter_number, NULL, 0},
    {"length", "", filter_length, NULL, 0},
    {"lower", "", filter_recase, NULL, SP_JINJA_LOWER},
    {"replace", "old new count=", filter_replace, NULL, 0},
    {"round", "precision= method=", filter_round, NULL, 0},
    {"safe", "", filter_safe, NULL, 0},
    {"string", "", filter_string, NULL, 0},
    {"title", "", filter_title, NULL, 0},
    {"tojson", "ensure_ascii= indent= separators= sort_keys=", filter_tojson, NULL, 0},
    {"trim", "chars=", filter_trim, NULL, 0},
    {"upper", "", filter_recase, NULL, SP_JINJA_UPPER},
    {NULL, NULL, NULL, NULL, 0},
};

const struct sp_jinja_function *sp_jinja_find_filter(struct sp_value name)
{
    const struct sp_jinja_function *found = sp_jinja_find_row(text_filters, name);

    return found ? found : sp_jinja_find_row(sp_jinja_list_filters, name);
}
