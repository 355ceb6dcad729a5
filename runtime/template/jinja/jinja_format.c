/* "..." % values and "...".format(values), with Python's conversions and format specifications for
 * texts, integers and floats. */
#include "runtime/template/jinja/jinja_format.h"
#include "format/base/number_text.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"
#include "runtime/template/jinja/jinja_eval.h"
#include "runtime/template/jinja/jinja_ops.h"
#include "runtime/template/jinja/jinja_string.h"
#include "runtime/template/jinja/jinja_text.h"
#include "runtime/template/value/value_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WIDTH = 1 << 20, MAX_PRECISION = 300 };

/* A format specification: [[fill]align][sign][#][0][width][grouping][.precision][type]. */
struct spec {
    struct sp_value fill;
    char align; /* '<' '>' '^' '=' or 0 */
    char sign;  /* '+' ' ' or '-' */
    bool alternate;
    char group;               /* ',' '_' or 0 */
    int64_t width, precision; /* precision -1: none */
    char type;                /* 0: none */
};

static bool digits(struct sp_value text, size_t *pos, int64_t *out)
{
    int64_t v = 0;
    size_t begin = *pos;

    while (*pos < text.len && text.text[*pos] >= '0' && text.text[*pos] <= '9') {
        v = v * 10 + (text.text[*pos] - '0');
        if (v > MAX_WIDTH) return false;
        ++*pos;
    }
    if (*pos > begin) *out = v;
    return true;
}

static enum sp_status build_padded(struct sp_builder *b, const struct spec *s, struct sp_value body,
                                   size_t prefix, char otherwise)
{
    enum sp_status st = SP_OK;
    size_t len = sp_text_characters(body), missing, left;
    char align = s->align ? s->align : otherwise;

    missing = s->width > (int64_t)len ? (size_t)s->width - len : 0;
    left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    if (align == '=') {
        if ((st = sp_build(b, body.text, prefix))) return st;
        body = sp_value_text(body.text + prefix, body.len - prefix);
    }
    for (size_t i = 0; i < left && !st; i++)
        st = sp_build(b, s->fill.text, s->fill.len);
    if (!st) st = sp_build(b, body.text, body.len);
    for (size_t i = left; i < missing && !st; i++)
        st = sp_build(b, s->fill.text, s->fill.len);
    return st;
}

/* Appends digits with a separator after every third from the right. */
static enum sp_status build_grouped(struct sp_builder *b, const char *text, size_t n, char group)
{
    enum sp_status st = SP_OK;

    if (!group) return sp_build(b, text, n);
    for (size_t i = 0; i < n && !st; i++) {
        if (i && (n - i) % 3 == 0) st = sp_build(b, &group, 1);
        if (!st) st = sp_build(b, text + i, 1);
    }
    return st;
}

static enum sp_status build_integer(struct sp_jinja_machine *m, struct sp_builder *b,
                                    const struct spec *s, struct sp_value v)
{
    enum sp_status st;
    struct sp_builder body = {.heap = m->heap};
    char text[72], prefix[4] = "";
    int64_t i = sp_value_to_integer(v);
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    size_t n = 0, head = 0;

    if (i < 0 || s->sign != '-') prefix[head++] = i < 0 ? '-' : s->sign;
    if (s->alternate && s->type != 'd' && s->type) {
        prefix[head++] = '0';
        prefix[head++] = s->type;
    }
    switch (s->type) {
    case 'x':
        snprintf(text, sizeof text, "%" PRIx64, u);
        break;
    case 'X':
        snprintf(text, sizeof text, "%" PRIX64, u);
        break;
    case 'o':
        snprintf(text, sizeof text, "%" PRIo64, u);
        break;
    case 'b':
        for (uint64_t rest = u; rest; rest >>= 1)
            n++;
        if (n == 0) n = 1;
        for (size_t k = 0; k < n; k++)
            text[k] = (char)('0' + (u >> (n - 1 - k) & 1));
        text[n] = '\0';
        break;
    default:
        snprintf(text, sizeof text, "%" PRIu64, u);
    }
    if (v.kind == SP_V_BIG) return build_padded(b, s, sp_value_text(v.text, v.len), 0, '>');
    if ((st = sp_build(&body, prefix, head))) return st;
    if ((st = build_grouped(&body, text, strlen(text), s->group))) return st;
    return build_padded(b, s, sp_builder_value(&body), head, '>');
}

/* Prints a non-negative float with one of printf's conversions. */
static size_t print_float(char *text, size_t size, char type, bool alternate, int precision,
                          double v)
{
    int n;

    switch (type) {
    case 'e':
        n = sp_number_print(text, size, alternate ? "%#.*e" : "%.*e", precision, v);
        break;
    case 'E':
        n = sp_number_print(text, size, alternate ? "%#.*E" : "%.*E", precision, v);
        break;
    case 'g':
        n = sp_number_print(text, size, alternate ? "%#.*g" : "%.*g", precision, v);
        break;
    case 'G':
        n = sp_number_print(text, size, alternate ? "%#.*G" : "%.*G", precision, v);
        break;
    default:
        n = sp_number_print(text, size, alternate ? "%#.*f" : "%.*f", precision, v);
    }
    return n < 0 ? 0 : (size_t)n;
}

static enum sp_status build_float(struct sp_jinja_machine *m, struct sp_builder *b,
                                  const struct spec *s, double v)
{
    enum sp_status st;
    struct sp_builder body = {.heap = m->heap};
    char text[700], sign = signbit(v) ? '-' : s->sign;
    int precision = s->precision < 0 ? 6 : (int)s->precision;
    size_t n, whole, head = sign != '-' || signbit(v);

    if (s->precision > MAX_PRECISION) return sp_jinja_fail(m, "format: precision too big");
    if (head && (st = sp_build(&body, &sign, 1))) return st;
    if (!s->type && s->precision < 0) {
        if ((st = sp_build_python_float(&body, fabs(v)))) return st;
        return build_padded(b, s, sp_builder_value(&body), head, '>');
    }
    if (!s->type && s->precision == 0) precision = 1;
    n = print_float(text, sizeof text,
                    s->type == '%' ? 'f'
                    : s->type      ? s->type
                                   : 'g',
                    s->alternate, precision, s->type == '%' ? fabs(v) * 100 : fabs(v));
    whole = strcspn(text, ".eE");
    if ((st = build_grouped(&body, text, whole, isfinite(v) ? s->group : '\0'))) return st;
    if ((st = sp_build(&body, text + whole, n - whole))) return st;
    /* Without a type, a float is always written with a fraction or an exponent. */
    if (!s->type && isfinite(v) && whole == n && (st = sp_build_text(&body, ".0"))) return st;
    if (s->type == '%' && (st = sp_build(&body, "%", 1))) return st;
    return build_padded(b, s, sp_builder_value(&body), head, '>');
}

static enum sp_status build_text(struct sp_jinja_machine *m, struct sp_builder *b,
                                 const struct spec *s, struct sp_value text)
{
    enum sp_status st;

    if (s->precision >= 0) {
        const struct sp_value bound[3] = {{0}, sp_value_int(s->precision), {0}};

        if ((st = sp_jinja_slice(m, &text, text, bound))) return st;
    }
    return build_padded(b, s, text, 0, '<');
}

static enum sp_status build_char(struct sp_jinja_machine *m, struct sp_builder *b,
                                 const struct spec *s, struct sp_value v)
{
    char bytes[SP_UTF8_MAX];

    if (v.kind != SP_V_INT || v.integer < 0 || v.integer > 0x10ffff ||
        (v.integer >= 0xd800 && v.integer < 0xe000))
        return sp_jinja_fail(m, "%%c requires a character");
    return build_padded(b, s, sp_value_text(bytes, sp_utf8_put(bytes, (uint32_t)v.integer)), 0,
                        '<');
}

/* ---- the percent operator -------------------------------------------------------------------- */

struct percent {
    struct sp_value format, arg;
    size_t pos, used; /* position in the format; arguments of a tuple that were used */
};

static enum sp_status next_argument(struct sp_jinja_machine *m, struct percent *p,
                                    struct sp_value *out)
{
    if (p->arg.kind == SP_V_LIST && p->arg.shape == SP_SHAPE_TUPLE) {
        if (p->used >= p->arg.list->n)
            return sp_jinja_fail(m, "not enough arguments for format string");
        *out = p->arg.list->at[p->used++];
        return SP_OK;
    }
    if (p->used++) return sp_jinja_fail(m, "not enough arguments for format string");
    *out = p->arg;
    return SP_OK;
}

/* Reads "(name)" after the percent sign and gets that item of the argument, which must be a
 * dictionary. */
static enum sp_status named_argument(struct sp_jinja_machine *m, struct percent *p,
                                     struct sp_value *out)
{
    const char *end = memchr(p->format.text + p->pos, ')', p->format.len - p->pos);
    const struct sp_value *found;
    enum sp_status st;

    if (end == NULL) return sp_jinja_fail(m, "incomplete format key");
    if (p->arg.kind != SP_V_DICT) return sp_jinja_fail(m, "format requires a mapping");
    st = sp_dict_find(
        m->heap, &found, p->arg.dict,
        sp_value_text(p->format.text + p->pos, (size_t)(end - p->format.text) - p->pos));
    if (st) return st;
    if (found == NULL) {
        return sp_jinja_fail(m, "format: no key %.*s", (int)(end - p->format.text - (long)p->pos),
                             p->format.text + p->pos);
    }
    *out = *found;
    p->pos = (size_t)(end - p->format.text) + 1;
    return SP_OK;
}

static enum sp_status percent_number(struct sp_jinja_machine *m, struct percent *p, int64_t *out)
{
    enum sp_status st;
    struct sp_value v = {0};

    if (p->pos < p->format.len && p->format.text[p->pos] == '*') {
        p->pos++;
        if ((st = next_argument(m, p, &v))) return st;
        if (v.kind != SP_V_INT || v.integer > MAX_WIDTH || v.integer < -MAX_WIDTH)
            return sp_jinja_fail(m, "* wants int");
        *out = v.integer;
    } else if (!digits(p->format, &p->pos, out)) {
        return sp_jinja_fail(m, "format: width or precision too big");
    }
    return SP_OK;
}

static enum sp_status percent_value(struct sp_jinja_machine *m, struct sp_builder *b,
                                    struct spec *s, struct sp_value v)
{
    enum sp_status st;
    struct sp_builder text = {.heap = m->heap};

    switch (s->type) {
    case 's':
    case 'r':
    case 'a':
        st = s->type == 's' ? sp_jinja_build_str(&text, v) : sp_jinja_build_repr(&text, v);
        if (s->align == '=') s->align = '>';
        if (!s->align) s->align = '>';
        return st ? st : build_text(m, b, s, sp_builder_value(&text));
    case 'c':
        if (!s->align) s->align = '>';
        return v.kind == SP_V_TEXT ? build_text(m, b, s, v) : build_char(m, b, s, v);
    default:
        break;
    }
    if ((st = sp_jinja_defined(m, v))) return st;
    if (!sp_value_is_number(v)) {
        return sp_jinja_fail(m, "%%%c format: a real number is required, not %s", s->type,
                             sp_jinja_type_name(v));
    }
    if (s->type == 'd' || s->type == 'i' || s->type == 'u') {
        if (v.kind == SP_V_FLOAT) {
            if (!(fabs(v.real) < 9.2e18)) return sp_jinja_fail(m, "%%d: float out of range");
            v = sp_value_int((int64_t)v.real);
        }
        s->type = 'd';
        return build_integer(m, b, s, v);
    }
    if (strchr("xXo", s->type) != NULL) {
        if (v.kind == SP_V_FLOAT) return sp_jinja_fail(m, "%%%c: an integer is required", s->type);
        return build_integer(m, b, s, v);
    }
    if (s->type == 'F') s->type = 'f';
    return build_float(m, b, s, sp_value_to_double(v));
}

/* Formats one conversion; p->pos is after the percent sign. */
static enum sp_status percent_one(struct sp_jinja_machine *m, struct sp_builder *b,
                                  struct percent *p)
{
    enum sp_status st;
    struct spec s = {.fill = sp_value_name(" "), .sign = '-', .precision = -1};
    struct sp_value v = {0};

    if (p->pos < p->format.len && p->format.text[p->pos] == '(') {
        p->pos++;
        if ((st = named_argument(m, p, &v))) return st;
    }
    for (; p->pos < p->format.len; p->pos++) {
        char c = p->format.text[p->pos];

        if (c == '-') {
            s.align = '<';
        } else if (c == '+' || (c == ' ' && s.sign == '-')) {
            s.sign = c;
        } else if (c == '0') {
            if (s.align != '<') s.align = '=';
        } else if (c == '#') {
            s.alternate = true;
        } else if (c != ' ') {
            break;
        }
    }
    if ((st = percent_number(m, p, &s.width))) return st;
    if (s.width < 0) {
        s.align = '<';
        s.width = -s.width;
    }
    if (p->pos < p->format.len && p->format.text[p->pos] == '.') {
        p->pos++;
        s.precision = 0;
        if ((st = percent_number(m, p, &s.precision))) return st;
        if (s.precision < 0) s.precision = 0;
    }
    while (p->pos < p->format.len && strchr("hlL", p->format.text[p->pos]) &&
           p->format.text[p->pos])
        p->pos++;
    if (p->pos >= p->format.len) return sp_jinja_fail(m, "incomplete format");
    s.type = p->format.text[p->pos++];
    if (s.type == '%') return sp_build(b, "%", 1);
    if (s.type == '\0' || strchr("sracdiuxXoeEfFgG", s.type) == NULL)
        return sp_jinja_fail(m, "unsupported format character '%c'", s.type);
    if (s.align == '=' && strchr("src", s.type) == NULL) s.fill = sp_value_name("0");
    if (v.kind == SP_V_ABSENT && (st = next_argument(m, p, &v))) return st;
    return percent_value(m, b, &s, v);
}

enum sp_status sp_jinja_percent(struct sp_jinja_machine *m, struct sp_value *out,
                                struct sp_value format, struct sp_value arg)
{
    enum sp_status st = sp_heap_charge_reading(m->heap, &format, 1);
    struct sp_builder b = {.heap = m->heap};
    struct percent p = {.format = format, .arg = arg};
    bool tuple = arg.kind == SP_V_LIST && arg.shape == SP_SHAPE_TUPLE;

    if (format.shape == SP_SHAPE_MARKUP)
        return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "%% on text marked safe is not supported");
    while (p.pos < format.len && !st) {
        if (format.text[p.pos] == '%') {
            p.pos++;
            st = percent_one(m, &b, &p);
        } else {
            st = sp_build(&b, format.text + p.pos++, 1);
        }
    }
    if (!st && (tuple ? p.used < arg.list->n
                      : p.used == 0 && arg.kind != SP_V_DICT && arg.kind != SP_V_LIST))
        st = sp_jinja_fail(m, "not all arguments converted during string formatting");
    *out = sp_builder_value(&b);
    return st;
}

/* ---- str.format ------------------------------------------------------------------------------ */

struct braces {
    struct sp_value format;
    size_t pos;
    const struct sp_jinja_args *args;
    int64_t next; /* number of the next field without one; -1: fields have explicit numbers */
};

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static enum sp_status parse_spec(struct sp_jinja_machine *m, struct spec *s, struct sp_value text)
{
    size_t pos = 0, second = 0;

    *s = (struct spec){.fill = sp_value_name(" "), .sign = '-', .precision = -1};
    if (text.len) sp_utf8_next(text.text, text.len, &second);
    if (second && second < text.len && is_align(text.text[second])) {
        s->fill = sp_value_text(text.text, second);
        s->align = text.text[second];
        pos = second + 1;
    } else if (text.len && is_align(text.text[0])) {
        s->align = text.text[pos++];
    }
    if (pos < text.len && strchr("+- ", text.text[pos]) && text.text[pos])
        s->sign = text.text[pos++];
    if (pos < text.len && text.text[pos] == '#') {
        s->alternate = true;
        pos++;
    }
    if (pos < text.len && text.text[pos] == '0') {
        if (!s->align) {
            s->align = '=';
            s->fill = sp_value_name("0");
        }
        pos++;
    }
    if (!digits(text, &pos, &s->width)) return sp_jinja_fail(m, "format: width too big");
    if (pos < text.len && (text.text[pos] == ',' || text.text[pos] == '_'))
        s->group = text.text[pos++];
    if (pos < text.len && text.text[pos] == '.') {
        pos++;
        if (!digits(text, &pos, &s->precision))
            return sp_jinja_fail(m, "format: precision too big");
        if (s->precision < 0) return sp_jinja_fail(m, "Format specifier missing precision");
    }
    if (pos < text.len) s->type = text.text[pos++];
    if (pos < text.len) return sp_jinja_fail(m, "Invalid format specifier");
    return SP_OK;
}

static enum sp_status format_value(struct sp_jinja_machine *m, struct sp_builder *b,
                                   struct sp_value v, struct sp_value spec)
{
    enum sp_status st;
    struct spec s;
    bool whole = v.kind == SP_V_INT || v.kind == SP_V_BIG || v.kind == SP_V_BOOL;

    if (spec.len == 0) return sp_jinja_build_str(b, v);
    if ((st = parse_spec(m, &s, spec))) return st;
    if (v.kind == SP_V_TEXT && (!s.type || s.type == 's') && s.align != '=' && !s.group)
        return build_text(m, b, &s, v);
    if (whole && (s.type || v.kind != SP_V_BOOL) && (!s.type || strchr("dxXob", s.type)) &&
        s.precision < 0)
        return build_integer(m, b, &s, v);
    if (whole && s.type == 'c') return build_char(m, b, &s, v);
    if (sp_value_is_number(v) && (!s.type || strchr("eEfFgG%", s.type)) && !(whole && !s.type)) {
        if (s.type == 'F') s.type = 'f';
        return build_float(m, b, &s, sp_value_to_double(v));
    }
    return sp_jinja_fail(m, "format specifier '%.*s' does not suit a value of type %s",
                         (int)(spec.len < 40 ? spec.len : 40), spec.text, sp_jinja_type_name(v));
}

/* The value of a field: "", "0" or "a", then ".attribute" and "[index]". */
static enum sp_status field_value(struct sp_jinja_machine *m, struct braces *f,
                                  struct sp_value *out, struct sp_value field)
{
    enum sp_status st;
    size_t pos = 0, end = 0;
    int64_t number = -1;

    while (end < field.len && field.text[end] != '.' && field.text[end] != '[')
        end++;
    if (!digits(field, &pos, &number) || (pos != end && pos > 0)) number = -1;
    if (end == 0) {
        if (f->next < 0) return sp_jinja_fail(m, "cannot switch to automatic field numbering");
        number = f->next++;
    } else if (number >= 0 && pos == end) {
        if (f->next > 0) return sp_jinja_fail(m, "cannot switch to manual field specification");
        f->next = -1;
    }
    out->kind = SP_V_ABSENT;
    if (number >= 0 && (size_t)number < f->args->n) *out = f->args->at[number];
    for (size_t i = 0; number < 0 && i < f->args->n_named; i++)
        if (sp_text_order(f->args->names[i], sp_value_text(field.text, end)) == 0)
            *out = f->args->named[i];
    if (out->kind == SP_V_ABSENT) {
        return sp_jinja_fail(m, "format: no argument for field {%.*s}",
                             (int)(field.len < 60 ? field.len : 60), field.text);
    }
    for (pos = end; pos < field.len; pos = end) {
        bool index = field.text[pos] == '[';
        struct sp_value part;

        end = pos + 1;
        while (end < field.len &&
               (index ? field.text[end] != ']' : field.text[end] != '.' && field.text[end] != '['))
            end++;
        part = sp_value_text(field.text + pos + 1, end - pos - 1);
        if (index) {
            size_t at = 0;

            if (end == field.len) return sp_jinja_fail(m, "Missing ']' in format string");
            if (digits(part, &at, &number) && at == part.len && at) part = sp_value_int(number);
            end++;
        }
        st = index ? sp_jinja_item(m, out, *out, part) : sp_jinja_attribute(m, out, *out, part);
        if (st || (st = sp_jinja_defined(m, *out))) return st;
    }
    return SP_OK;
}

/* Replaces the fields inside a specification, as in {:{width}}. */
static enum sp_status expand_spec(struct sp_jinja_machine *m, struct braces *f,
                                  struct sp_value *spec)
{
    enum sp_status st = SP_OK;
    struct sp_builder b = {.heap = m->heap};

    if (spec->len == 0 || !memchr(spec->text, '{', spec->len)) return SP_OK;
    for (size_t pos = 0; pos < spec->len && !st; pos++) {
        struct sp_value v;
        const char *end;

        if (spec->text[pos] != '{') {
            st = sp_build(&b, spec->text + pos, 1);
            continue;
        }
        end = memchr(spec->text + pos, '}', spec->len - pos);
        if (end == NULL) return sp_jinja_fail(m, "expected '}' before end of string");
        st = field_value(m, f, &v,
                         sp_value_text(spec->text + pos + 1, (size_t)(end - spec->text) - pos - 1));
        if (!st) st = sp_jinja_build_str(&b, v);
        pos = (size_t)(end - spec->text);
    }
    *spec = sp_builder_value(&b);
    return st;
}

/* Formats one {field!conversion:spec}; f->pos is after the opening brace. */
static enum sp_status brace_one(struct sp_jinja_machine *m, struct sp_builder *b, struct braces *f)
{
    enum sp_status st;
    size_t begin = f->pos, end = begin, name_end, depth = 0;
    struct sp_value v, spec = sp_value_name("");
    char conversion = '\0';

    for (; end < f->format.len; end++) {
        if (f->format.text[end] == '{') depth++;
        if (f->format.text[end] == '}' && depth-- == 0) break;
    }
    if (end == f->format.len) return sp_jinja_fail(m, "expected '}' before end of string");
    f->pos = end + 1;
    for (name_end = begin; name_end < end; name_end++)
        if (f->format.text[name_end] == '!' || f->format.text[name_end] == ':') break;
    if ((st = field_value(m, f, &v, sp_value_text(f->format.text + begin, name_end - begin))))
        return st;
    begin = name_end;
    if (begin + 1 < end && f->format.text[begin] == '!') {
        conversion = f->format.text[begin + 1];
        begin += 2;
    }
    if (begin < end && f->format.text[begin] == ':')
        spec = sp_value_text(f->format.text + begin + 1, end - begin - 1);
    else if (begin < end)
        return sp_jinja_fail(m, "expected ':' after conversion specifier");
    if ((st = expand_spec(m, f, &spec))) return st;
    if (conversion == 's' || conversion == 'r') {
        struct sp_builder text = {.heap = m->heap};

        st = conversion == 's' ? sp_jinja_build_str(&text, v) : sp_jinja_build_repr(&text, v);
        if (st) return st;
        v = sp_builder_value(&text);
    } else if (conversion) {
        return sp_jinja_fail(m, "Unknown conversion specifier '%c'", conversion);
    }
    return format_value(m, b, v, spec);
}

enum sp_status sp_jinja_format(struct sp_jinja_machine *m, struct sp_value *out,
                               struct sp_value format, const struct sp_jinja_args *args)
{
    enum sp_status st = SP_OK;
    struct sp_builder b = {.heap = m->heap};
    struct braces f = {.format = format, .args = args};

    while (f.pos < format.len && !st) {
        char c = format.text[f.pos++];
        bool twice = f.pos < format.len && format.text[f.pos] == c;

        if ((c == '{' || c == '}') && twice) {
            f.pos++;
            st = sp_build(&b, &c, 1);
        } else if (c == '{') {
            st = brace_one(m, &b, &f);
        } else if (c == '}') {
            st = sp_jinja_fail(m, "Single '}' encountered in format string");
        } else {
            st = sp_build(&b, &c, 1);
        }
    }
    *out = sp_builder_value(&b);
    return st;
}
