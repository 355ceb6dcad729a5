/* Strings: length, pattern, format, and strings other than given names. */
#include "runtime/grammar/json_schema.h"

#include "format/base/affix.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"
#include "runtime/grammar/grammar_sequence.h"

#include <stdlib.h>
#include <string.h>

#define LEAP_YEAR "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[048]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"      \
    "02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME                                                                                       \
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]" \
    ")"
#define N "[0-9]{1,4}"
#define DAYS "(" N "Y(" N "M(" N "D)?)?|" N "M(" N "D)?|" N "D)"
#define HOURS "T(" N "H(" N "M(" N "S)?)?|" N "M(" N "S)?|" N "S)"
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define LABEL "[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20}){0,2}"

/* A UUID of a version, as pydantic names its formats (RFC 9562). */
#define UUID(version)                                                                              \
    "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-" version                                                      \
    "[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$"

#define EMAIL "^[A-Za-z0-9_+-]{1,31}(\\.[A-Za-z0-9_+-]{1,31})?@(" LABEL "\\.){1,4}[A-Za-z]{2,24}$"

/* Each pattern matches only valid texts of its format, but not all of them: no minute has a 61st
 * second and no fraction more than nine digits (RFC 3339), e-mail addresses and host names are
 * plain (RFC 5321, RFC 1123), no IPv6 address is shortened (RFC 4291), a URI has an authority
 * (RFC 3986). `min` and `max` bound the lengths of these texts. Other formats are annotations. */
static const struct format {
    const char *name, *pattern;
    uint32_t min, max;
} formats[] = {
    {"date", "^" DATE "$", 10, 10},
    {"time", "^" TIME "$", 9, 24},
    {"date-time", "^" DATE "T" TIME "$", 20, 35},
    {"duration", "^P(" N "W|" DAYS "|(" DAYS ")?" HOURS ")$", 3, 32},
    {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", 36, 36},
    {"uuid1", UUID("1"), 36, 36},
    {"uuid3", UUID("3"), 36, 36},
    {"uuid4", UUID("4"), 36, 36},
    {"uuid5", UUID("5"), 36, 36},
    {"uuid6", UUID("6"), 36, 36},
    {"uuid7", UUID("7"), 36, 36},
    {"uuid8", UUID("8"), 36, 36},
    {"ipv4", "^(" OCTET "\\.){3}" OCTET "$", 7, 15},
    {"ipv6", "^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$", 15, 39},
    {"email", EMAIL, 6, 340},
    {"hostname", "^" LABEL "(\\." LABEL "){0,3}$", 1, 251},
    {"uri",
     "^(https?|ftp)://" LABEL "(\\." LABEL "){0,4}(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~+-]{0,60})"
     "{0,20}(\\?[A-Za-z0-9._~=&+-]{0,300})?(#[A-Za-z0-9._~-]{0,100})?$",
     7, 2048},
};

/* Patterns that look around, as widespread libraries write them (pydantic's Decimal, zod's email),
 * and patterns for texts that match them. */
static const struct {
    const char *pattern, *instead;
} known_patterns[] = {
    {"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", "^[+-]?(\\d+\\.?\\d*|\\.\\d+)$"},
    {"^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-"
     "Za-z]{2,}$",
     EMAIL},
};

/* What a string must match. */
enum { MOST_PATTERNS = 8 };
struct constraints {
    struct sp_text_pattern patterns[MOST_PATTERNS];
    size_t n;
    uint32_t min, max; /* characters */
};

static const char *text_of(struct sp_schema *s, const struct sp_schema_part *part, const char *key,
                           const struct sp_json *value, size_t *len)
{
    const char *text = sp_json_to_string(value, len);

    if (text == NULL) sp_schema_fail(s, part, key, SP_E_INPUT, "expected a string");
    return text;
}

static void add_pattern(struct sp_schema *s, struct constraints *c,
                        const struct sp_schema_part *part, const char *text, size_t len,
                        bool negated)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->patterns[i].len == len && memcmp(c->patterns[i].text, text, len) == 0 &&
            c->patterns[i].negated == negated)
            return;
    if (c->n == MOST_PATTERNS) {
        sp_grammar_fail(s->g, SP_E_UNSUPPORTED, "%s: more than %d patterns",
                        s->places[part->place].path, MOST_PATTERNS);
        return;
    }
    c->patterns[c->n++] =
        (struct sp_text_pattern){text, len, s->places[part->place].path, "pattern", negated};
}

bool sp_schema_takes_pattern(struct sp_schema *s, const struct sp_schema_part *part,
                             const char *key, const char *text, size_t len)
{
    struct sp_grammar *g = NULL;
    bool supported;

    if (s->relaxed == NULL) return true;
    if (sp_grammar_new(&g, &s->g->err)) return false;
    (void)sp_grammar_regex(g, text, len, sp_json_spell, SP_GRAMMAR_END);
    supported = g->err.status != SP_E_UNSUPPORTED;
    sp_grammar_close(g);
    if (!supported) sp_schema_fail(s, part, key, SP_E_UNSUPPORTED, "not supported");
    return supported;
}

static void read_patterns(struct sp_schema *s, const struct sp_schema_view *v,
                          struct constraints *c)
{
    const struct sp_schema_part *part;
    const struct sp_json *value;
    size_t len;

    for (size_t i = 0; (part = sp_schema_next(s, v, "pattern", &i, &value));) {
        const char *text = text_of(s, part, "pattern", value, &len);
        for (size_t k = 0; text && k < sizeof known_patterns / sizeof *known_patterns; k++) {
            if (strcmp(text, known_patterns[k].pattern) != 0) continue;
            text = known_patterns[k].instead;
            len = strlen(text);
            break;
        }
        if (text && sp_schema_takes_pattern(s, part, "pattern", text, len))
            add_pattern(s, c, part, text, len, false);
    }
    for (size_t i = 0; (part = sp_schema_next(s, v, "not", &i, &value));) {
        if (!sp_schema_is_unlike(s->places[part->place].json)) continue;
        add_pattern(s, c, part, "", 0, false); /* any text */
        value = sp_json_get(value, "pattern");
        const char *text = sp_json_to_string(value, &len);
        if (sp_schema_takes_pattern(s, part, "not", text, len))
            add_pattern(s, c, part, text, len, true);
    }
}

/* Adds the patterns of formats. A format is an annotation beside a pattern, which says more, and
 * beside a length that its texts may exceed. */
static void read_formats(struct sp_schema *s, const struct sp_schema_view *v, struct constraints *c)
{
    const struct sp_schema_part *part;
    const struct sp_json *value;
    size_t len, n = c->n;

    for (size_t i = 0; (part = sp_schema_next(s, v, "format", &i, &value));) {
        const char *name = text_of(s, part, "format", value, &len);
        for (size_t k = 0; name && n == 0 && k < sizeof formats / sizeof *formats; k++) {
            const struct format *f = &formats[k];
            if (strcmp(f->name, name) != 0 || f->min < c->min || f->max > c->max) continue;
            add_pattern(s, c, part, f->pattern, strlen(f->pattern), false);
            c->min = 0;
            c->max = SP_NO_LIMIT;
        }
    }
}

uint32_t sp_schema_string(struct sp_schema *s, const struct sp_schema_view *v, uint32_t next)
{
    struct constraints c = {.min = sp_schema_bound(s, v, "minLength", 1, 0),
                            .max = sp_schema_bound(s, v, "maxLength", -1, SP_NO_LIMIT)};

    if (c.min > c.max) return SP_GRAMMAR_NEVER;
    read_patterns(s, v, &c);
    read_formats(s, v, &c);
    if (s->g->err.status) return SP_GRAMMAR_NEVER;
    if (c.n == 0) return sp_json_any_text(&s->json, c.min, c.max, next);
    if (c.n > 1 || c.min > 0 || c.max != SP_NO_LIMIT)
        return sp_grammar_intersection(s->g, c.patterns, c.n, c.min, c.max, next);
    next = sp_grammar_text(s->g, "\"", 1, next);
    next = sp_grammar_regex(s->g, c.patterns[0].text, c.patterns[0].len, sp_json_spell, next);
    if (s->g->err.status) sp_context(&s->g->err, "%s/pattern", c.patterns[0].path);
    return sp_grammar_text(s->g, "\"", 1, next);
}

/* ---- other names ---- */

/* A node of the path through the sorted names: what may follow a prefix of a name. */
struct level {
    uint32_t c;    /* the last character of the prefix */
    uint32_t from; /* no name added so far continues with this character or a larger one */
    uint32_t choice;
    bool whole; /* the prefix is a name itself */
};

/* A walk over the sorted names that keeps the levels of the current one: levels[d] belongs to its
 * first d characters. */
struct name_walk {
    struct sp_grammar *g;
    struct level *levels; /* owned */
    size_t n, cap;
    uint32_t free, end; /* node that matches any rest; node of the closing quotation mark */
};

/* Adds the characters level->from..last, after which the text differs from every name. */
static void add_differing(struct name_walk *f, struct level *level, uint32_t last)
{
    for (size_t i = 0; i < SP_JSON_PLAIN; i++) {
        struct sp_char_range r = sp_json_plain[i];
        if (r.first < level->from) r.first = level->from;
        if (r.last > last) r.last = last;
        if (r.first > r.last) continue;
        level->choice =
            sp_grammar_either(f->g, level->choice, sp_grammar_chars(f->g, &r, 1, f->free));
    }
}

static void open_level(struct name_walk *f, uint32_t c)
{
    if (f->g->err.status) return;
    if (sp_grow(&f->levels, &f->cap, f->n + 1, sizeof *f->levels, &f->g->err)) return;
    f->levels[f->n++] = (struct level){.c = c, .choice = SP_GRAMMAR_NEVER};
}

static uint32_t finish_level(struct name_walk *f)
{
    struct level *level = &f->levels[--f->n];

    add_differing(f, level, UINT32_MAX);
    return level->whole ? level->choice : sp_grammar_either(f->g, level->choice, f->end);
}

static void close_level(struct name_walk *f)
{
    uint32_t c = f->levels[f->n - 1].c, choice = finish_level(f);
    struct level *below = &f->levels[f->n - 1];
    char text[SP_UTF8_MAX];
    size_t len = sp_utf8_put(text, c);

    if (c > 0) add_differing(f, below, c - 1);
    below->from = c + 1;
    below->choice =
        sp_grammar_either(f->g, below->choice, sp_grammar_text(f->g, text, len, choice));
}

static bool is_plain(const char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name < 0x20 || *name == '"' || *name == '\\') return false;
    return true;
}

static void add_name(struct name_walk *f, const char *name)
{
    size_t depth = 0, at = 0, len = strlen(name);

    while (at < len && depth + 1 < f->n) {
        size_t next = at;
        if (sp_utf8_next(name, len, &next) != f->levels[depth + 1].c) break;
        at = next;
        depth++;
    }
    while (f->n > depth + 1)
        close_level(f);
    while (at < len)
        open_level(f, sp_utf8_next(name, len, &at));
    if (!f->g->err.status) f->levels[f->n - 1].whole = true;
}

/* Adds all names in order. The order of UTF-8 bytes is that of the characters. */
static void add_names(struct name_walk *f, const char *const *names, size_t n)
{
    const char **sorted = NULL;

    open_level(f, 0);
    if (sp_new(&sorted, n, sizeof *sorted, &f->g->err)) return;
    if (n) {
        memcpy(sorted, names, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, sp_compare_names);
    }
    for (size_t i = 0; i < n && !f->g->err.status; i++)
        if (is_plain(sorted[i])) add_name(f, sorted[i]);
    free(sorted);
}

uint32_t sp_schema_other_name(struct sp_schema *s, const char *const *names, size_t n,
                              uint32_t next)
{
    struct name_walk f = {.g = s->g};
    uint32_t choice = SP_GRAMMAR_NEVER;

    f.end = sp_grammar_text(s->g, "\"", 1, next);
    f.free = sp_grammar_fork(s->g);
    sp_grammar_join(s->g, f.free, sp_grammar_chars(s->g, sp_json_plain, SP_JSON_PLAIN, f.free),
                    f.end);
    add_names(&f, names, n);
    while (f.n > 1 && !s->g->err.status)
        close_level(&f);
    if (!s->g->err.status) choice = finish_level(&f);
    free(f.levels);
    return sp_grammar_text(s->g, "\"", 1, choice);
}
