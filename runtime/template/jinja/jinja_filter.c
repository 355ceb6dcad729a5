/* Filters on texts, numbers and single values, and the lookup of all filters. */
#include "format/base/number_text.h"
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Capitalises words. A word begins at the start of the text and after whitespace or one of -([{<;
 * the rest of it becomes lower case. Unlike in str.title, "it's" stays one word. */
static SP_JINJA_FUNCTION(filter_title)
{
    struct sp_builder b = {.heap = m->heap};
    bool begins = true;
    size_t pos = 0;

    in = sp_jinja_to_text(m, in);
    while (pos < in.len) {
        size_t begin = pos;
        uint32_t c = sp_utf8_next(in.text, in.len, &pos);
        struct sp_value one = sp_value_text(in.text + begin, pos - begin);
        sp_build_value(&b, sp_jinja_recase(m, one, NULL, begins ? SP_JINJA_UPPER : SP_JINJA_LOWER));
        begins = sp_unicode_is_space(c) || (c && c < 0x80 && strchr("-([{<", (int)c) != NULL);
    }
    return sp_builder_value(&b);
}

static SP_JINJA_FUNCTION(filter_replace)
{
    struct sp_value limit = sp_jinja_given(arg[2]) ? arg[2] : SP_VALUE_ABSENT;
    int64_t count = sp_jinja_want_integer(m, limit, -1);

    in = sp_jinja_to_text(m, in);
    return sp_jinja_replace(m, in, sp_jinja_to_text(m, arg[0]), sp_jinja_to_text(m, arg[1]), count);
}

static SP_JINJA_FUNCTION(filter_string)
{
    return sp_jinja_to_text(m, in);
}

static SP_JINJA_FUNCTION(filter_safe)
{
    in = sp_jinja_to_text(m, in);
    in.shape = SP_SHAPE_MARKUP;
    return in;
}

static SP_JINJA_FUNCTION(filter_length)
{
    size_t n = 0;

    if (in.kind == SP_V_TEXT) {
        sp_heap_charge(m->heap, in.len / 8);
        n = sp_text_characters(in);
    } else if (in.kind == SP_V_DICT) {
        n = in.dict->n;
    } else if (in.kind == SP_V_LIST && in.shape != SP_SHAPE_ITERATOR) {
        n = in.list->n;
    } else if (in.kind != SP_V_UNDEFINED) {
        sp_jinja_fail(m, "object of type '%s' has no len()", sp_jinja_type_name(in));
    }
    return sp_value_int((int64_t)n);
}

static SP_JINJA_FUNCTION(filter_default)
{
    bool boolean = sp_value_truth(arg[1]);

    if (in.kind != SP_V_UNDEFINED && (!boolean || sp_value_truth(in))) return in;
    return arg[0].kind == SP_V_ABSENT ? sp_value_name("") : arg[0];
}

/* An indentation: a text, or a number of spaces. */
static struct sp_value indentation(struct sp_jinja_machine *m, struct sp_value width,
                                   int64_t otherwise)
{
    struct sp_builder b = {.heap = m->heap};
    int64_t n;

    if (width.kind == SP_V_TEXT) return width;
    n = sp_jinja_want_integer(m, width, otherwise);
    sp_build_repeat(&b, ' ', n > 0 ? (size_t)n : 0);
    return sp_builder_value(&b);
}

static SP_JINJA_FUNCTION(filter_tojson)
{
    struct sp_builder b = {.heap = m->heap};
    struct sp_jinja_json_style style = {.item_separator = sp_value_name(", "),
                                        .key_separator = sp_value_name(": "),
                                        .text = sp_value_truth(arg[0]) ? SP_JSON_TEXT_ASCII
                                                                       : SP_JSON_TEXT_PYTHON,
                                        .sort_keys = sp_value_truth(arg[3])};

    if (sp_jinja_given(arg[1])) {
        style.indent = indentation(m, arg[1], 0);
        style.item_separator = sp_value_name(",");
    }
    if (arg[2].kind == SP_V_LIST && arg[2].list->n == 2 && arg[2].list->at[0].kind == SP_V_TEXT &&
        arg[2].list->at[1].kind == SP_V_TEXT) {
        style.item_separator = arg[2].list->at[0];
        style.key_separator = arg[2].list->at[1];
    } else if (sp_jinja_given(arg[2])) {
        return sp_jinja_fail(m, "tojson: separators must be two strings");
    }
    sp_jinja_build_json(&b, in, &style);
    return sp_builder_value(&b);
}

static SP_JINJA_FUNCTION(filter_indent)
{
    struct sp_builder b = {.heap = m->heap};
    struct sp_value lines, pad, out;
    bool first = sp_value_truth(arg[1]), blank = sp_value_truth(arg[2]);

    if (!sp_jinja_defined(m, in)) return SP_VALUE_ABSENT;
    if (in.kind != SP_V_TEXT) return sp_jinja_fail(m, "indent: not a str");
    pad = indentation(m, arg[0], 4);
    sp_build_value(&b, in);
    sp_build(&b, "\n", 1);
    lines = sp_jinja_splitlines(m, sp_builder_value(&b), &SP_VALUE_ABSENT, 0);
    b = (struct sp_builder){.heap = m->heap};
    for (size_t i = 0; i < lines.list->n; i++) {
        const struct sp_value line = lines.list->at[i];
        bool padded = i == 0 ? first : blank || line.len > 0;
        if (i) sp_build(&b, "\n", 1);
        if (padded) sp_build_value(&b, pad);
        sp_build_value(&b, line);
    }
    out = sp_builder_value(&b);
    out.shape = in.shape;
    return out;
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

static SP_JINJA_FUNCTION(filter_number)
{
    const bool is_float = how != 0;
    struct sp_value otherwise = is_float ? sp_value_float(0) : sp_value_int(0);

    if (!sp_jinja_defined(m, in)) return SP_VALUE_ABSENT;
    if (arg[0].kind != SP_V_ABSENT) otherwise = arg[0];
    if (in.kind == SP_V_TEXT) {
        in = sp_jinja_strip(m, in, &SP_VALUE_ABSENT, SP_JINJA_BOTH);
        if (!parse_number(in, &in)) return otherwise;
    }
    if (is_float)
        return sp_value_is_number(in) ? sp_value_float(sp_value_to_double(in)) : otherwise;
    if (in.kind == SP_V_INT || in.kind == SP_V_BIG) return in;
    if (in.kind == SP_V_BOOL) return sp_value_int(in.truth);
    if (in.kind == SP_V_FLOAT && fabs(in.real) < 9.2e18) return sp_value_int((int64_t)in.real);
    return otherwise;
}

static SP_JINJA_FUNCTION(filter_abs)
{
    bool negative = in.kind == SP_V_INT && in.integer < 0;

    if (!sp_jinja_defined(m, in)) return SP_VALUE_ABSENT;
    if (!sp_value_is_number(in))
        return sp_jinja_fail(m, "bad operand type for abs(): '%s'", sp_jinja_type_name(in));
    if (in.kind == SP_V_FLOAT) return sp_value_float(fabs(in.real));
    return sp_jinja_unary(m, negative ? SP_T_SUB : SP_T_ADD, in);
}

static SP_JINJA_FUNCTION(filter_round)
{
    int64_t precision;
    double v, scale;
    char text[400];
    bool up = sp_text_is(arg[1], "ceil"), down = sp_text_is(arg[1], "floor");

    if (!sp_jinja_defined(m, in)) return SP_VALUE_ABSENT;
    precision = sp_jinja_want_integer(m, arg[0], 0);
    if (in.kind == SP_V_BIG)
        return sp_heap_fail(m->heap, SP_E_UNSUPPORTED, "round of an integer beyond 64 bits");
    if (!sp_value_is_number(in))
        return sp_jinja_fail(m, "type %s doesn't define __round__ method", sp_jinja_type_name(in));
    if (!up && !down && arg[1].kind != SP_V_ABSENT && !sp_text_is(arg[1], "common"))
        return sp_jinja_fail(m, "method must be common, ceil or floor");
    if (precision < 0 || precision > 300)
        return sp_heap_fail(m->heap, SP_E_UNSUPPORTED, "round: a precision outside 0 to 300");
    v = sp_value_to_double(in);
    if (up || down) {
        scale = pow(10, (double)precision);
        return sp_value_float((up ? ceil(v * scale) : floor(v * scale)) / scale);
    }
    if (in.kind == SP_V_BOOL) return sp_value_int(in.truth);
    if (in.kind != SP_V_FLOAT || !isfinite(v) || fabs(v) >= 1e22) return in;
    /* ties to even of the exact value, as printf rounds */
    sp_number_print(text, sizeof text, "%.*f", (int)precision, v);
    return sp_value_float(sp_number_read(text, NULL));
}

static const struct sp_jinja_function text_filters[] = {
    {"abs", "", filter_abs, NULL, 0},
    {"capitalize", "", sp_jinja_recase, NULL, SP_JINJA_CAPITALIZE},
    {"count", "", filter_length, NULL, 0},
    {"d", "default_value= boolean=", filter_default, NULL, 0},
    {"default", "default_value= boolean=", filter_default, NULL, 0},
    {"e", "", sp_jinja_escape, NULL, 0},
    {"escape", "", sp_jinja_escape, NULL, 0},
    {"float", "default=", filter_number, NULL, 1},
    {"indent", "width= first= blank=", filter_indent, NULL, 0},
    {"int", "default=", filter_number, NULL, 0},
    {"length", "", filter_length, NULL, 0},
    {"lower", "", sp_jinja_recase, NULL, SP_JINJA_LOWER},
    {"replace", "old new count=", filter_replace, NULL, 0},
    {"round", "precision= method=", filter_round, NULL, 0},
    {"safe", "", filter_safe, NULL, 0},
    {"string", "", filter_string, NULL, 0},
    {"title", "", filter_title, NULL, 0},
    {"tojson", "ensure_ascii= indent= separators= sort_keys=", filter_tojson, NULL, 0},
    {"trim", "chars=", sp_jinja_strip, NULL, SP_JINJA_BOTH},
    {"upper", "", sp_jinja_recase, NULL, SP_JINJA_UPPER},
    {NULL, NULL, NULL, NULL, 0},
};

const struct sp_jinja_function *sp_jinja_find_filter(struct sp_value name)
{
    const struct sp_jinja_function *found = sp_jinja_find_row(text_filters, name);

    return found ? found : sp_jinja_find_row(sp_jinja_list_filters, name);
}
