/* Writes values as Go's fmt package does: Print, Println and Printf.
 *
 * A verb that does not suit a value, and a missing or surplus argument, are not errors in Go: they
 * are written into the text, as in %!d(string=x). */
#include "runtime/template/go/gotemplate_print.h"
#include "format/base/number_text.h"
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/go/gotemplate_data.h"
#include "runtime/template/go/gotemplate_exec.h"
#include "runtime/template/value/value_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FIELD = 1000000 }; /* as in Go */

struct verb {
    bool minus, plus, sharp, space, zero, sharp_v, plus_v, has_width, has_precision;
    int width, precision;
    uint32_t letter;
};

static enum sp_status print_value(struct sp_builder *b, struct sp_value v, const struct verb *f,
                                  int depth);

static size_t count_runes(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static enum sp_status pad(struct sp_builder *b, const struct verb *f, const char *text, size_t len)
{
    enum sp_status st;
    size_t n = count_runes(text, len), missing;

    missing = f->has_width && (size_t)f->width > n ? (size_t)f->width - n : 0;
    if (!f->minus && (st = sp_build_repeat(b, f->zero ? '0' : ' ', missing))) return st;
    if ((st = sp_build(b, text, len))) return st;
    return f->minus ? sp_build_repeat(b, ' ', missing) : SP_OK;
}

static const char *type_of(struct sp_value v)
{
    return v.kind == SP_V_NONE || v.kind == SP_V_UNDEFINED ? "<nil>" : sp_go_type_name(v);
}

/* Appends %!verb(type=value). */
static enum sp_status bad_verb(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    struct verb plain = *f; /* width and flags apply to the value, too */
    enum sp_status st;
    char letter[SP_UTF8_MAX];

    plain.letter = 'v';
    if ((st = sp_build_text(b, "%!"))) return st;
    if ((st = sp_build(b, letter, sp_utf8_put(letter, f->letter)))) return st;
    if ((st = sp_build_text(b, "(")) || (st = sp_build_text(b, type_of(v)))) return st;
    if (v.kind != SP_V_NONE && v.kind != SP_V_UNDEFINED) {
        if ((st = sp_build_text(b, "=")) || (st = print_value(b, v, &plain, 0))) return st;
    }
    return sp_build_text(b, ")");
}

/* Appends a quoted text. quotation: " or '. */
static enum sp_status quote(struct sp_builder *b, struct sp_value text, bool ascii, char quotation)
{
    static const char from[] = "\a\b\f\n\r\t\v\\", to[] = "abfnrtv\\";
    enum sp_status st;
    size_t pos = 0;

    if ((st = sp_build(b, &quotation, 1))) return st;
    while (pos < text.len) {
        size_t begin = pos;
        char escape[16];
        uint32_t c = sp_utf8_next(text.text, text.len, &pos);
        const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;
        bool invalid = c == 0xfffd && pos - begin == 1;

        if (found != NULL || c == (uint32_t)quotation) {
            snprintf(escape, sizeof escape, "\\%c", found ? to[found - from] : quotation);
        } else if (invalid || c < 0x20 || c == 0x7f) {
            snprintf(escape, sizeof escape, "\\x%02x", (unsigned)(unsigned char)text.text[begin]);
        } else if (sp_unicode_is_printable(c) && (!ascii || c < 0x80)) {
            if ((st = sp_build(b, text.text + begin, pos - begin))) return st;
            continue;
        } else {
            snprintf(escape, sizeof escape, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        }
        if ((st = sp_build_text(b, escape))) return st;
    }
    return sp_build(b, &quotation, 1);
}

static enum sp_status print_hex(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    const char *digits = f->letter == 'X' ? upper : lower;
    struct sp_builder text = {.heap = b->heap};
    size_t n = f->has_precision && (size_t)f->precision < v.len ? (size_t)f->precision : v.len;
    enum sp_status st = SP_OK;
    struct verb spaces = *f;

    spaces.zero = false;
    for (size_t i = 0; i < n && !st; i++) {
        unsigned char c = (unsigned char)v.text[i];
        const char pair[2] = {digits[c >> 4], digits[c & 15]};

        if (i > 0 && f->space) st = sp_build(&text, " ", 1);
        if (!st && f->sharp && (i == 0 || f->space))
            st = sp_build_text(&text, f->letter == 'X' ? "0X" : "0x");
        if (!st) st = sp_build(&text, pair, 2);
    }
    return st ? st : pad(b, f->zero ? f : &spaces, text.at ? text.at : "", text.len);
}

/* True if a text can be written unchanged between back quotes. */
static bool can_backquote(struct sp_value text)
{
    for (size_t pos = 0; pos < text.len;) {
        size_t begin = pos;
        uint32_t c = sp_utf8_next(text.text, text.len, &pos);
        bool invalid = c == 0xfffd && pos - begin == 1;

        if (invalid || (c < ' ' && c != '\t') || c == '`' || c == 0x7f || c == 0xfeff) return false;
    }
    return true;
}

static enum sp_status print_text(struct sp_builder *b, struct sp_value v, const struct verb *f)
{
    struct sp_builder quoted = {.heap = b->heap};
    enum sp_status st;

    if (f->letter == 'x' || f->letter == 'X') return print_hex(b, v, f);
    if (f->letter != 'v' && f->letter != 's' && f->letter != 'q') return bad_verb(b, v, f);
    if (f->has_precision) {
        size_t pos = 0;

        for (int i = 0; i < f->precision && pos < v.len; i++)
            sp_utf8_next(v.text, v.len, &pos);
        v.len = (uint32_t)pos;
    }
    if (f->letter != 'q' && !f->sharp_v) return pad(b, f, v.text, v.len);
    if (f->sharp && can_backquote(v)) {
        if ((st = sp_build(&quoted, "`", 1)) || (st = sp_build(&quoted, v.text, v.len)) ||
            (st = sp_build(&quoted, "`", 1)))
            return st;
    } else if ((st = quote(&quoted, v, f->plus, '"'))) {
        return st;
    }
    return pad(b, f, quoted.at, quoted.len);
}

static size_t digits_of(char *text, size_t size, uint64_t u, uint32_t letter)
{
    size_t n = 0;

    switch (letter) {
    case 'x':
        return (size_t)snprintf(text, size, "%" PRIx64, u);
    case 'X':
        return (size_t)snprintf(text, size, "%" PRIX64, u);
    case 'o':
    case 'O':
        return (size_t)snprintf(text, size, "%" PRIo64, u);
    case 'b':
        for (uint64_t rest = u; rest || n == 0; rest >>= 1)
            n++;
        for (size_t i = 0; i < n; i++)
            text[i] = (char)('0' + (u >> (n - 1 - i) & 1));
        text[n] = '\0';
        return n;
    default:
        return (size_t)snprintf(text, size, "%" PRIu64, u);
    }
}

static enum sp_status print_integer(struct sp_builder *b, int64_t i, const struct verb *f)
{
    enum sp_status st;
    struct sp_builder text = {.heap = b->heap};
    struct verb spaces = *f;
    char digits[72];
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    size_t n = digits_of(digits, sizeof digits, u, f->letter), least = 0;
    const char *sign = i < 0 ? "-" : f->plus ? "+" : f->space ? " " : "";

    spaces.zero = false;
    if (f->has_precision) {
        least = (size_t)f->precision;
        if (least == 0 && u == 0) n = 0;
        if (least == 0 && u == 0) return pad(b, &spaces, "", 0);
    } else if (f->zero && f->has_width) {
        least = (size_t)f->width - (f->width > 0 && *sign);
    }
    if ((st = sp_build_text(&text, sign))) return st;
    if (f->letter == 'O' && (st = sp_build_text(&text, "0o"))) return st;
    if (f->sharp && (f->letter == 'x' || f->letter == 'X' || f->letter == 'b')) {
        const char prefix[2] = {'0', (char)f->letter};

        if ((st = sp_build(&text, prefix, 2))) return st;
    }
    if (f->sharp && f->letter == 'o' && digits[0] != '0' && least <= n &&
        (st = sp_build(&text, "0", 1)))
        return st;
    if (least > n && (st = sp_build_repeat(&text, '0', least - n))) return st;
    if ((st = sp_build(&text, digits, n))) return st;
    return pad(b, &spaces, text.at ? text.at : "", text.len);
}

static enum sp_status print_rune(struct sp_builder *b, int64_t i, const struct verb *f)
{
    uint32_t c = i >= 0 && i <= 0x10ffff && !(i >= 0xd800 && i < 0xe000) ? (uint32_t)i : 0xfffd;
    struct sp_builder quoted = {.heap = b->heap};
    char bytes[SP_UTF8_MAX], unicode[24];
    size_t n = sp_utf8_put(bytes, c);
    enum sp_status st;

    if (f->letter == 'c') return pad(b, f, bytes, n);
    if (f->letter == 'q') {
        if ((st = quote(&quoted, sp_value_text(bytes, n), f->plus, '\''))) return st;
        return pad(b, f, quoted.at, quoted.len);
    }
    snprintf(unicode, sizeof unicode, "U+%04" PRIX64, (uint64_t)i);
    return pad(b, f, unicode, strlen(unicode));
}

/* Appends the fewest digits that identify v >= 0, with an exponent if that is below `low` or not
 * below `high`. */
static enum sp_status shortest(struct sp_builder *b, double v, int low, int high)
{
    enum sp_status st;
    char digits[SP_DIGITS_MAX + 1], exponent[16];
    int point;
    size_t n = sp_shortest_digits(digits, &point, v), whole;

    if (v == 0) return sp_build(b, "0", 1);
    if (point - 1 < low || point - 1 >= high) {
        if ((st = sp_build(b, digits, 1))) return st;
        if (n > 1 && ((st = sp_build(b, ".", 1)) || (st = sp_build(b, digits + 1, n - 1))))
            return st;
        snprintf(exponent, sizeof exponent, "e%+03d", point - 1);
        return sp_build_text(b, exponent);
    }
    if (point <= 0) {
        if ((st = sp_build(b, "0.", 2)) || (st = sp_build_repeat(b, '0', (size_t)-point)))
            return st;
        return sp_build(b, digits, n);
    }
    whole = (size_t)point;
    if ((st = sp_build(b, digits, n < whole ? n : whole))) return st;
    if (n <= whole) return sp_build_repeat(b, '0', whole - n);
    if ((st = sp_build(b, ".", 1))) return st;
    return sp_build(b, digits + whole, n - whole);
}

/* Appends a float as encoding/json does: with an exponent below 1e-6 and from 1e21 on, without a
 * leading zero. */
enum sp_status sp_go_build_json_float(struct sp_builder *b, double v)
{
    enum sp_status st;

    if (!isfinite(v)) return sp_fail(b->heap->err, SP_E_INPUT, "json: unsupported value");
    if (signbit(v) && (st = sp_build(b, "-", 1))) return st;
    if ((st = shortest(b, fabs(v), -6, 21))) return st;
    if (b->len > 4 && memcmp(b->at + b->len - 4, "e-0", 3) == 0) {
        b->at[b->len - 2] = b->at[b->len - 1];
        b->len--;
    }
    return SP_OK;
}

static enum sp_status print_float(struct sp_builder *b, double v, const struct verb *f)
{
    enum sp_status st;
    struct sp_builder text = {.heap = b->heap};
    char digits[700];
    int precision = f->has_precision ? f->precision : 6;
    const char *sign = signbit(v) ? "-" : f->plus ? "+" : f->space ? " " : "";
    struct verb rest = *f;

    if (precision > 300)
        return sp_fail(b->heap->err, SP_E_INPUT, "printf: precision %d", precision);
    if (!isfinite(v)) {
        rest.zero = false;
        if ((st = sp_build_text(&text, isnan(v) ? "NaN" : v < 0 ? "-Inf" : "+Inf"))) return st;
        return pad(b, &rest, text.at, text.len);
    }
    if (f->sharp) return sp_fail(b->heap->err, SP_E_UNSUPPORTED, "printf: the flag # for a float");
    switch (f->letter) {
    case 'e':
        sp_number_print(digits, sizeof digits, "%.*e", precision, fabs(v));
        break;
    case 'E':
        sp_number_print(digits, sizeof digits, "%.*E", precision, fabs(v));
        break;
    case 'f':
    case 'F':
        sp_number_print(digits, sizeof digits, "%.*f", precision, fabs(v));
        break;
    case 'x':
    case 'X':
    case 'b':
        return sp_fail(b->heap->err, SP_E_UNSUPPORTED, "printf: %%%c of a float", (char)f->letter);
    case 'g':
    case 'G':
    case 'v':
        if (f->has_precision) {
            sp_number_print(digits, sizeof digits, f->letter == 'G' ? "%.*G" : "%.*g", precision,
                            fabs(v));
            break;
        }
        if ((st = shortest(&text, fabs(v), -4, 6)) || (st = sp_build(&text, "", 1))) return st;
        snprintf(digits, sizeof digits, "%s", text.at);
        if (f->letter == 'G' && strchr(digits, 'e') != NULL) *strchr(digits, 'e') = 'E';
        text.len = 0;
        break;
    default:
        return bad_verb(b, sp_value_float(v), f);
    }
    if (f->zero && f->has_width && *sign) {
        if ((st = sp_build_text(b, sign))) return st;
        rest.width = rest.width > 0 ? rest.width - 1 : 0;
        sign = "";
    }
    if ((st = sp_build_text(&text, sign)) || (st = sp_build_text(&text, digits))) return st;
    return pad(b, &rest, text.at, text.len);
}

enum sp_status sp_go_sorted(struct sp_heap *heap, const struct sp_dict_entry **out,
                            const struct sp_dict *dict)
{
    enum sp_status st;
    struct sp_dict_entry *pairs;

    if ((st = sp_heap_take(heap, &pairs, dict->n * sizeof *pairs))) return st;
    if ((st = sp_heap_charge(heap, 16 * dict->n))) return st;
    for (size_t i = 0; i < dict->n; i++)
        if ((st = sp_heap_charge_reading(heap, &dict->at[i].key, 1))) return st;
    if (dict->n) memcpy(pairs, dict->at, dict->n * sizeof *pairs);
    /* heap sort: in place, and n log n for any keys */
    for (size_t i = dict->n / 2; i > 0; i--) {
        for (size_t at = i - 1, child; (child = 2 * at + 1) < dict->n; at = child) {
            struct sp_dict_entry swap = pairs[at];

            if (child + 1 < dict->n && sp_text_order(pairs[child].key, pairs[child + 1].key) < 0)
                child++;
            if (sp_text_order(swap.key, pairs[child].key) >= 0) break;
            pairs[at] = pairs[child];
            pairs[child] = swap;
        }
    }
    for (size_t n = dict->n; n > 1; n--) {
        struct sp_dict_entry last = pairs[n - 1];

        pairs[n - 1] = pairs[0];
        pairs[0] = last;
        for (size_t at = 0, child; (child = 2 * at + 1) < n - 1; at = child) {
            struct sp_dict_entry swap = pairs[at];

            if (child + 1 < n - 1 && sp_text_order(pairs[child].key, pairs[child + 1].key) < 0)
                child++;
            if (sp_text_order(swap.key, pairs[child].key) >= 0) break;
            pairs[at] = pairs[child];
            pairs[child] = swap;
        }
    }
    *out = pairs;
    return SP_OK;
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

    if (!is_struct && (st = sp_go_sorted(b->heap, &pairs, v.dict))) return st;
    if ((st = sp_build_text(b, is_struct ? "{" : "map["))) return st;
    for (size_t i = 0; i < v.dict->n; i++) {
        if (i && (st = sp_build(b, " ", 1))) return st;
        if (!is_struct || f->plus_v) {
            struct verb key = *f;

            if (is_struct) key = (struct verb){.letter = 'v'};
            if ((st = print_value(b, pairs[i].key, &key, depth + 1))) return st;
            if ((st = sp_build(b, ":", 1))) return st;
        }
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
    if (f->sharp_v && v.kind != SP_V_TEXT)
        return sp_fail(b->heap->err, SP_E_UNSUPPORTED, "printf: %%#v is not supported");
    if (f->letter == 'T') return pad(b, f, type_of(v), strlen(type_of(v)));
    switch (v.kind) {
    case SP_V_BOOL:
        if (f->letter != 'v' && f->letter != 't') return bad_verb(b, v, f);
        return pad(b, f, v.truth ? "true" : "false", v.truth ? 4 : 5);
    case SP_V_INT:
        if (strchr("cqU", (int)(f->letter & 0x7f))) return print_rune(b, v.integer, f);
        if (!strchr("vdboOxX", (int)(f->letter & 0x7f))) return bad_verb(b, v, f);
        return print_integer(b, v.integer, f);
    case SP_V_FLOAT:
        return print_float(b, v.real, f);
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
        if (depth) return sp_build_text(b, "<nil>");
        return f->letter == 'v' ? pad(b, f, "<nil>", 5) : bad_verb(b, v, f);
    }
}

enum sp_status sp_go_build(struct sp_builder *b, struct sp_value v)
{
    const struct verb plain = {.letter = 'v'};

    return print_value(b, v, &plain, 0);
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
    struct sp_value format;
    const struct sp_value *arg;
    size_t n, used, pos;
};

/* Reads a number in the format, or takes an argument for `*`. False: there is none; *bad: it is
 * unusable. */
static bool take_number(struct printf_state *p, int *out, bool *bad)
{
    bool any = false;

    *bad = false;
    *out = 0;
    if (p->pos < p->format.len && p->format.text[p->pos] == '*') {
        p->pos++;
        *bad = p->used >= p->n || p->arg[p->used].kind != SP_V_INT ||
               p->arg[p->used].integer > MAX_FIELD || p->arg[p->used].integer < -MAX_FIELD;
        if (!*bad) *out = (int)p->arg[p->used].integer;
        if (p->used < p->n) p->used++;
        return !*bad;
    }
    while (p->pos < p->format.len && p->format.text[p->pos] >= '0' &&
           p->format.text[p->pos] <= '9') {
        *out = *out * 10 + (p->format.text[p->pos++] - '0');
        any = true;
        if (*out > MAX_FIELD) {
            *out = 0;
            return false;
        }
    }
    return any;
}

static void take_flags(struct printf_state *p, struct verb *f)
{
    for (; p->pos < p->format.len; p->pos++) {
        switch (p->format.text[p->pos]) {
        case '#':
            f->sharp = true;
            break;
        case '0':
            f->zero = !f->minus;
            break;
        case '+':
            f->plus = true;
            break;
        case '-':
            f->minus = true;
            f->zero = false;
            break;
        case ' ':
            f->space = true;
            break;
        default:
            return;
        }
    }
}

static enum sp_status take_verb(struct sp_builder *b, struct printf_state *p, struct verb *f)
{
    enum sp_status st;
    bool bad;

    take_flags(p, f);
    f->has_width = take_number(p, &f->width, &bad);
    if (bad && (st = sp_build_text(b, "%!(BADWIDTH)"))) return st;
    if (f->width < 0) {
        f->width = -f->width;
        f->minus = true;
        f->zero = false;
    }
    if (p->pos + 1 < p->format.len && p->format.text[p->pos] == '.') {
        p->pos++;
        f->has_precision = take_number(p, &f->precision, &bad) || !bad;
        if (f->precision < 0) f->has_precision = false;
        if ((bad || f->precision < 0) && (st = sp_build_text(b, "%!(BADPREC)"))) return st;
        if (f->precision < 0) f->precision = 0;
    }
    if (p->pos < p->format.len && p->format.text[p->pos] == '[') {
        return sp_fail(b->heap->err, SP_E_UNSUPPORTED,
                       "printf: argument indexes are not supported");
    }
    return SP_OK;
}

static enum sp_status printf_one(struct sp_builder *b, struct printf_state *p)
{
    enum sp_status st;
    struct verb f = {0};
    char letter[SP_UTF8_MAX];

    if ((st = take_verb(b, p, &f))) return st;
    if (p->pos >= p->format.len) return sp_build_text(b, "%!(NOVERB)");
    f.letter = sp_utf8_next(p->format.text, p->format.len, &p->pos);
    if (f.letter == '%') return sp_build(b, "%", 1);
    if (p->used >= p->n) {
        if ((st = sp_build_text(b, "%!"))) return st;
        if ((st = sp_build(b, letter, sp_utf8_put(letter, f.letter)))) return st;
        return sp_build_text(b, "(MISSING)");
    }
    if (f.letter == 'v') {
        f.sharp_v = f.sharp;
        f.plus_v = f.plus;
        f.sharp = f.plus = false;
    }
    return print_value(b, p->arg[p->used++], &f, 0);
}

enum sp_status sp_go_printf(struct sp_builder *b, struct sp_value format,
                            const struct sp_value *arg, size_t n)
{
    enum sp_status st = sp_heap_charge_reading(b->heap, &format, 1);
    struct printf_state p = {.format = format, .arg = arg, .n = n};

    while (p.pos < format.len && !st)
        if (format.text[p.pos++] == '%')
            st = printf_one(b, &p);
        else
            st = sp_build(b, format.text + p.pos - 1, 1);
    if (st || p.used >= n) return st;
    if ((st = sp_build_text(b, "%!(EXTRA "))) return st;
    for (size_t i = p.used; i < n; i++) {
        if (i > p.used && (st = sp_build_text(b, ", "))) return st;
        if ((st = sp_build_text(b, type_of(arg[i])))) return st;
        if (arg[i].kind == SP_V_NONE || arg[i].kind == SP_V_UNDEFINED) continue;
        if ((st = sp_build(b, "=", 1)) || (st = sp_go_build(b, arg[i]))) return st;
    }
    return sp_build(b, ")", 1);
}
