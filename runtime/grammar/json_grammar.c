#include "runtime/grammar/json_grammar.h"

#include "format/base/unicode.h"
#include "runtime/grammar/grammar_sequence.h"

#include <string.h>

/* ---- characters ---- */

const struct sp_char_range sp_json_plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};

static uint32_t one_of(struct sp_grammar *g, const char *chars, uint32_t next)
{
    struct sp_byte_set set = {0};

    for (; *chars; chars++)
        set.bits[(unsigned char)*chars / 64] |= (uint64_t)1 << (unsigned char)*chars % 64;
    return sp_grammar_bytes(g, &set, next);
}

static uint32_t escaped(struct sp_grammar *g, uint32_t c, uint32_t next)
{
    static const char escapable[] = "\"\\\b\f\n\r\t", escape_letters[] = "\"\\bfnrt",
                      digits[] = "0123456789abcdef";
    const char *found = c ? strchr(escapable, (int)c) : NULL;
    char text[] = {'\\', 'u', '0', '0', digits[c / 16], digits[c % 16]};

    if (found) {
        text[1] = escape_letters[found - escapable];
        return sp_grammar_text(g, text, 2, next);
    }
    return sp_grammar_text(g, text, sizeof text, next);
}

static bool is_within(uint32_t c, const struct sp_char_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    return false;
}

uint32_t sp_json_spell(struct sp_grammar *g, const struct sp_char_range *ranges, size_t n,
                       uint32_t next)
{
    uint32_t choice = SP_GRAMMAR_NEVER;

    for (size_t k = 0; k < SP_JSON_PLAIN; k++) {
        for (size_t i = 0; i < n; i++) {
            struct sp_char_range r = ranges[i];
            if (r.first < sp_json_plain[k].first) r.first = sp_json_plain[k].first;
            if (r.last > sp_json_plain[k].last) r.last = sp_json_plain[k].last;
            if (r.first > r.last) continue;
            choice = sp_grammar_either(g, choice, sp_grammar_chars(g, &r, 1, next));
        }
    }
    for (uint32_t c = 0; c <= '\\'; c++) {
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        if (is_within(c, ranges, n)) choice = sp_grammar_either(g, choice, escaped(g, c, next));
    }
    return choice;
}

/* Any character of a string, escaped or not. Escaped surrogates are not allowed: characters above
 * U+FFFF are written unescaped. */
static uint32_t any_char(struct sp_grammar *g, uint32_t next)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    uint32_t two = one_of(g, hex, one_of(g, hex, next));
    uint32_t code = sp_grammar_either(g, one_of(g, "0123456789abcefABCEF", one_of(g, hex, two)),
                                      one_of(g, "dD", one_of(g, "01234567", two)));
    uint32_t escape =
        sp_grammar_either(g, one_of(g, "\"\\/bfnrt", next), sp_grammar_string(g, "u", code));

    return sp_grammar_either(g, sp_grammar_chars(g, sp_json_plain, SP_JSON_PLAIN, next),
                             sp_grammar_string(g, "\\", escape));
}

/* ---- values ---- */

uint32_t sp_json_whitespace(const struct sp_json_grammar *json, uint32_t next)
{
    return sp_grammar_call(json->g, json->whitespace, 0, 1, next);
}

uint32_t sp_json_comma(const struct sp_json_grammar *json, uint32_t next)
{
    return sp_grammar_string(json->g, ",", sp_json_whitespace(json, next));
}

uint32_t sp_json_text(const struct sp_json_grammar *json, const char *text, size_t len,
                      uint32_t next)
{
    struct sp_grammar *g = json->g;

    next = sp_grammar_string(g, "\"", next);
    while (len > 0) {
        size_t at = sp_utf8_prev(text, len);
        unsigned char c = (unsigned char)text[at];
        bool escape = c < 0x20 || c == '"' || c == '\\';
        next = escape ? escaped(g, c, next) : sp_grammar_text(g, text + at, len - at, next);
        len = at;
    }
    return sp_grammar_string(g, "\"", next);
}

uint32_t sp_json_any_text(const struct sp_json_grammar *json, uint32_t min, uint32_t max,
                          uint32_t next)
{
    struct sp_grammar *g = json->g;
    uint32_t fork;

    next = sp_grammar_string(g, "\"", next);
    if (min > 0 || max != SP_NO_LIMIT)
        return sp_grammar_string(g, "\"", sp_grammar_call(g, json->character, min, max, next));
    fork = sp_grammar_fork(g);
    sp_grammar_join(g, fork, any_char(g, fork), next);
    return sp_grammar_string(g, "\"", fork);
}

uint32_t sp_json_number(const struct sp_json_grammar *json, bool whole, uint32_t next)
{
    struct sp_grammar *g = json->g;
    uint32_t end = next, digits;

    if (!whole) {
        uint32_t exponent = sp_grammar_call(g, json->digit, 1, SP_JSON_EXPONENT_DIGITS, next);
        exponent = sp_grammar_either(g, one_of(g, "+-", exponent), exponent);
        end = sp_grammar_either(g, one_of(g, "eE", exponent), next);
        digits = sp_grammar_call(g, json->digit, 1, SP_JSON_FRACTION_DIGITS, end);
        end = sp_grammar_either(g, sp_grammar_string(g, ".", digits), end);
    }
    digits = sp_grammar_call(g, json->digit, 0, SP_JSON_WHOLE_DIGITS - 1, end);
    digits = sp_grammar_either(g, sp_grammar_string(g, "0", end), one_of(g, "123456789", digits));
    return sp_grammar_either(g, digits, sp_grammar_string(g, "-", digits));
}

uint32_t sp_json_more(const struct sp_json_grammar *json, uint32_t item)
{
    return sp_grammar_group(
        json->g, sp_json_comma(json, sp_grammar_call(json->g, item, 1, 1, SP_GRAMMAR_END)));
}

uint32_t sp_json_list(const struct sp_json_grammar *json, uint32_t item, uint32_t min, uint32_t max,
                      uint32_t end)
{
    uint32_t some;

    if (max == 0) return min ? SP_GRAMMAR_NEVER : end;
    some = sp_grammar_call(json->g, sp_json_more(json, item), min ? min - 1 : 0,
                           max == SP_NO_LIMIT ? max : max - 1, end);
    some = sp_grammar_call(json->g, item, 1, 1, some);
    return min ? some : sp_grammar_either(json->g, some, end);
}

/* `open` ( item ( , item )* )? `close`, with optional whitespace. */
static uint32_t list(const struct sp_json_grammar *json, const char *open, const char *close,
                     uint32_t item)
{
    struct sp_grammar *g = json->g;
    uint32_t end = sp_grammar_text(g, close, 1, SP_GRAMMAR_END), fork = sp_grammar_fork(g), more;

    more = sp_json_comma(json, sp_grammar_call(g, item, 1, 1, fork));
    sp_grammar_join(g, fork, more, sp_json_whitespace(json, end));
    more = sp_grammar_call(g, item, 1, 1, fork);
    more = sp_grammar_either(g, end, sp_json_whitespace(json, sp_grammar_either(g, more, end)));
    return sp_grammar_text(g, open, 1, more);
}

static uint32_t any_value(const struct sp_json_grammar *json)
{
    struct sp_grammar *g = json->g;
    uint32_t choice = sp_json_any_text(json, 0, SP_NO_LIMIT, SP_GRAMMAR_END);

    choice = sp_grammar_either(g, choice, sp_json_number(json, false, SP_GRAMMAR_END));
    choice = sp_grammar_either(g, choice, sp_grammar_string(g, "true", SP_GRAMMAR_END));
    choice = sp_grammar_either(g, choice, sp_grammar_string(g, "false", SP_GRAMMAR_END));
    choice = sp_grammar_either(g, choice, sp_grammar_string(g, "null", SP_GRAMMAR_END));
    choice = sp_grammar_either(g, choice, list(json, "[", "]", json->value));
    return sp_grammar_either(g, choice, sp_grammar_call(g, json->object, 1, 1, SP_GRAMMAR_END));
}

void sp_json_grammar_init(struct sp_json_grammar *json, struct sp_grammar *g)
{
    enum { MAX_INDENT = 20 };
    uint32_t tabs, member;

    *json = (struct sp_json_grammar){.g = g};
    tabs = sp_grammar_group(g, one_of(g, " \t", SP_GRAMMAR_END));
    tabs = sp_grammar_call(g, tabs, 0, MAX_INDENT, SP_GRAMMAR_END);
    json->whitespace =
        sp_grammar_group(g, sp_grammar_either(g, sp_grammar_string(g, " ", SP_GRAMMAR_END),
                                              sp_grammar_string(g, "\n", tabs)));
    json->digit = sp_grammar_group(g, one_of(g, "0123456789", SP_GRAMMAR_END));
    json->character = sp_grammar_group(g, any_char(g, SP_GRAMMAR_END));
    json->value = sp_grammar_rule(g, NULL, 0);
    member = sp_grammar_string(
        g, ":", sp_json_whitespace(json, sp_grammar_call(g, json->value, 1, 1, SP_GRAMMAR_END)));
    member = sp_grammar_group(g, sp_json_any_text(json, 0, SP_NO_LIMIT, member));
    json->object = sp_grammar_group(g, list(json, "{", "}", member));
    sp_grammar_define(g, json->value, any_value(json));
}
