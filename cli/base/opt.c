/* Parses command lines. */
#include "cli/base/opt.h"
#include "format/base/spelling.h"
#include "format/base/mem.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_NAME = 64 };

struct parser {
    struct sp_args *args;
    int argc, at; /* argv[at] is the current argument */
    char **argv;
    char given[MAX_NAME + 2]; /* the current option as it was given: "-q" or "--quantize" */
    struct sp_err *err;
};

static bool is_option(const struct sp_opt *o)
{
    return o->kind != SP_OPT_HEADING;
}

static const char *nearest(const struct sp_opt *opts, const char *name)
{
    const char *best = NULL;

    for (const struct sp_opt *o = opts; o->kind != SP_OPT_END; o++) {
        if (!is_option(o)) continue;
        best = sp_nearer(best, o->name, name);
        if (o->alias) best = sp_nearer(best, o->alias, name);
    }
    return best;
}

/* The option that an unknown name probably means: a misspelling or a unique prefix; or NULL. */
static const char *probable_name(const struct sp_command *c, const char *name)
{
    const char *best;
    size_t n = 0;

    if (strlen(name) < 3) return NULL;
    if ((best = nearest(c->opts, name)) != NULL) return best;
    for (const struct sp_opt *o = c->opts; o->kind != SP_OPT_END; o++) {
        if (!is_option(o) || strncmp(o->name, name, strlen(name)) != 0) continue;
        best = o->name;
        n++;
    }
    return n == 1 ? best : NULL;
}

static enum sp_status unknown(struct parser *p, const char *dashes, const char *name)
{
    const struct sp_command *c = p->args->command;
    const char *ours, *hint;

    sp_other_option_find(&ours, &hint, c, name);
    if (hint) return sp_fail(p->err, SP_E_USAGE, "unknown option %s%s: %s", dashes, name, hint);
    if (ours == NULL) ours = probable_name(c, name);
    if (c->takes_model && (strcmp(name, "q") == 0 || strcmp(name, "quantize") == 0)) {
        return sp_fail(
            p->err, SP_E_USAGE,
            "unknown option %s%s: spectool create %s%s TYPE MODEL makes a quantized file", dashes,
            name, dashes, name);
    }
    if (ours == NULL) return sp_fail(p->err, SP_E_USAGE, "unknown option %s%s", dashes, name);
    if (*ours == '\0') {
        return sp_fail(p->err, SP_E_USAGE, "unknown option %s%s, expected %s without it", dashes,
                       name, c->operands);
    }
    return sp_fail(p->err, SP_E_USAGE, "unknown option %s%s, did you mean --%s?", dashes, name,
                   ours);
}

static enum sp_status set_int(struct parser *p, const struct sp_opt *o, const char *text, void *to)
{
    char *end;
    long long v;

    if (o->word != NULL && strcasecmp(text, o->word) == 0) {
        memcpy(to, &o->word_value, sizeof o->word_value);
        return SP_OK;
    }
    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || isspace((unsigned char)*text) || errno != 0 ||
        (double)v < o->min || (double)v > o->max) {
        return sp_fail(p->err, SP_E_USAGE, "%s is %s, expected an integer %.0f..%.0f%s%s", p->given,
                       text, o->min, o->max, o->word ? " or " : "", o->word ? o->word : "");
    }
    memcpy(to, &(int64_t){v}, sizeof(int64_t));
    return SP_OK;
}

static enum sp_status set_number(struct parser *p, const struct sp_opt *o, const char *text,
                                 void *to)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end != '\0' || strspn(text, "0123456789+-.eE") != strlen(text) ||
        !(v >= o->min && v <= o->max)) {
        return sp_fail(p->err, SP_E_USAGE, "%s is %s, expected a number %g..%g", p->given, text,
                       o->min, o->max);
    }
    memcpy(to, &v, sizeof v);
    return SP_OK;
}

/* The number of bytes that a unit stands for, with or without B after it; 0: no unit. */
static uint64_t unit_of(const char *text)
{
    static const struct {
        const char *name;
        uint64_t size;
    } units[] = {
        {"", 1},         {"k", 1000},     {"M", 1000000},  {"G", 1000000000},
        {"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30},
    };
    size_t n = strlen(text);

    if (n > 0 && strchr("Bb", text[n - 1])) n--;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i].name) == n && strncasecmp(units[i].name, text, n) == 0)
            return units[i].size;
    return 0;
}

/* Reads a size of at least one byte, rounded down; a fraction requires a unit. */
static bool read_size(uint64_t *out, const char *text)
{
    static const char digits[] = "0123456789";
    enum { MOST_WHOLE = 18, MOST_FRACTION = 9 }; /* digits of which products fit 64 bits */
    size_t n_whole = strspn(text, digits), n_fraction = 0;
    const char *rest = text + n_whole;
    uint64_t unit, n, fraction = 0;

    if (*rest == '.') {
        fraction = strtoull(rest + 1, NULL, 10);
        n_fraction = strspn(rest + 1, digits);
        rest += 1 + n_fraction;
        if (n_fraction == 0) return false;
    }
    unit = unit_of(rest);
    if (n_whole == 0 || n_whole > MOST_WHOLE || n_fraction > MOST_FRACTION || unit == 0 ||
        (unit == 1 && n_fraction > 0))
        return false;
    n = strtoull(text, NULL, 10);
    if (n >= SIZE_MAX / unit) return false;
    fraction *= unit;
    while (n_fraction-- > 0)
        fraction /= 10;
    *out = n * unit + fraction;
    return *out > 0;
}

/* Returns the first number in the name of a type, as in q4, iq2_xxs and float16; 0: none, or above
 * 99, or a name with a hyphen, which is no type. */
static int number_in(const char *word)
{
    long n;

    if (strchr(word, '-')) return 0;
    word += strcspn(word, "0123456789");
    n = strtol(word, NULL, 10);
    return n < 100 ? (int)n : 0;
}

/* Returns the choice that is nearest to another tool's name of a type: the one with the nearest
 * number of bits, the larger of two; of several floats of equal size the one with the same first
 * letter; else the first. Without a number: the nearest word. NULL: none is near. */
static const char *nearest_choice(const char *const *choices, const char *text)
{
    const char *best = NULL;
    int bits = number_in(text), best_distance = INT_MAX;

    for (; *choices != NULL; choices++) {
        int n = number_in(*choices), distance;
        if ((n != 0) != (bits != 0)) continue;
        if (bits == 0) {
            size_t edits = sp_edit_distance(text, *choices);
            if (edits > SP_NEAR) continue;
            distance = (int)edits;
        } else {
            distance = 4 * (n > bits ? n - bits : bits - n) + 2 * (n < bits) +
                       (bits > 8 && tolower((unsigned char)*text) != **choices);
        }
        if (distance >= best_distance) continue;
        best = *choices;
        best_distance = distance;
    }
    return best;
}

enum sp_status sp_opt_choose(const char **out, const char *const *choices, const char *name,
                             const char *text, struct sp_err *err)
{
    char list[256] = "";
    const char *near = nearest_choice(choices, text);

    for (const char *const *word = choices; *word != NULL; word++) {
        if (strcasecmp(*word, text) == 0) {
            *out = *word;
            return SP_OK;
        }
        strncat(list, " ", sizeof list - strlen(list) - 1);
        strncat(list, *word, sizeof list - strlen(list) - 1);
    }
    return sp_fail(err, SP_E_USAGE, "%s is %s, expected one of:%s%s%s%s", name, text, list,
                   near ? "; " : "", near ? near : "", near ? " is the nearest" : "");
}

static enum sp_status set_value(struct parser *p, const struct sp_opt *o, const char *text)
{
    void *to = (char *)p->args->options + o->offset;
    struct sp_opt_list *list = to;
    enum sp_status st;
    int64_t integer;
    double number;

    switch (o->kind) {
    case SP_OPT_INT:
        return set_int(p, o, text, to);
    case SP_OPT_INT32:
        if ((st = set_int(p, o, text, &integer)) == SP_OK) *(int *)to = (int)integer;
        return st;
    case SP_OPT_NUMBER:
        return set_number(p, o, text, to);
    case SP_OPT_FLOAT:
        if ((st = set_number(p, o, text, &number)) == SP_OK) *(float *)to = (float)number;
        return st;
    case SP_OPT_SIZE:
        if (read_size(to, text)) return SP_OK;
        return sp_fail(p->err, SP_E_USAGE, "%s is %s, expected a size such as 500M, 5.5G or 6GiB",
                       p->given, text);
    case SP_OPT_SECONDS:
        if (sp_duration_read(to, text)) return SP_OK;
        return sp_fail(p->err, SP_E_USAGE,
                       "%s is %s, expected seconds or a duration such as 5m or 1h30m", p->given,
                       text);
    case SP_OPT_CHOICE:
        return sp_opt_choose(to, o->choices, p->given, text, p->err);
    case SP_OPT_LIST:
        if (list->items == NULL &&
            (st = sp_new(&list->items, (size_t)p->argc, sizeof *list->items, p->err)))
            return st;
        list->items[list->n++] = text;
        return SP_OK;
    default:
        if (o->path && *text == '\0')
            return sp_fail(p->err, SP_E_USAGE, "%s is empty, expected %s", p->given, o->value);
        memcpy(to, &text, sizeof text);
        return SP_OK;
    }
}

/* True if the next argument is a value of an option whose value may be left out. */
static bool word_follows(const struct parser *p, const struct sp_opt *o)
{
    const char *const *word = o->words;

    while (p->at + 1 < p->argc && *word && strcmp(*word, p->argv[p->at + 1]) != 0)
        word++;
    return p->at + 1 < p->argc && *word;
}

/* Stores the value of an option, which was given by `name`. `text`: the value that followed it
 * after a '='; NULL: none. */
static enum sp_status take(struct parser *p, const struct sp_opt *o, const char *dashes,
                           const char *name, const char *text)
{
    snprintf(p->given, sizeof p->given, "%s%s", dashes, name);
    p->args->given[o - p->args->command->opts] = true;
    if (o->kind == SP_OPT_FLAG) {
        if (text != NULL) return sp_fail(p->err, SP_E_USAGE, "%s takes no value", p->given);
        *((bool *)p->args->options + o->offset) = true;
        return SP_OK;
    }
    if (text == NULL && o->words && !word_follows(p, o)) text = o->words[0];
    if (text == NULL && p->at + 1 == p->argc)
        return sp_fail(p->err, SP_E_USAGE, "%s needs a value: %s %s", p->given, p->given, o->value);
    return set_value(p, o, text ? text : p->argv[++p->at]);
}

static enum sp_status take_long(struct parser *p, const char *word)
{
    char name[MAX_NAME];
    size_t len = strcspn(word, "=");

    if (len >= sizeof name) return sp_fail(p->err, SP_E_USAGE, "unknown option --%.40s...", word);
    memcpy(name, word, len);
    name[len] = '\0';
    if (strcmp(name, "help") == 0) {
        p->args->help = true;
        return SP_OK;
    }
    for (const struct sp_opt *o = p->args->command->opts; o->kind != SP_OPT_END; o++) {
        if (!is_option(o)) continue;
        if (strcmp(o->name, name) == 0 || (o->alias && strcmp(o->alias, name) == 0))
            return take(p, o, "--", name, word[len] ? word + len + 1 : NULL);
    }
    return unknown(p, "--", name);
}

static enum sp_status take_short(struct parser *p, const char *word)
{
    if (strcmp(word, "h") == 0) {
        p->args->help = true;
        return SP_OK;
    }
    for (const struct sp_opt *o = p->args->command->opts; o->kind != SP_OPT_END; o++)
        if (is_option(o) && o->letter == word[0] && word[1] == '\0')
            return take(p, o, "-", word, NULL);
    return unknown(p, "-", word);
}

static enum sp_status take_words(struct parser *p)
{
    enum sp_status st = SP_OK;
    bool only_operands = false;

    for (; p->at < p->argc && st == SP_OK && !p->args->help; p->at++) {
        char *word = p->argv[p->at];
        if (only_operands || word[0] != '-' || word[1] == '\0')
            p->args->operands[p->args->n_operands++] = word;
        else if (strcmp(word, "--") == 0)
            only_operands = true;
        else
            st = word[1] == '-' ? take_long(p, word + 2) : take_short(p, word + 1);
    }
    return st;
}

/* ---- the environment ---- */

enum { VARIABLE_SIZE = 128 };

/* Writes the name of an option's variable: SPECTOOL_SERVE_MAX_QUEUE. */
static void name_variable(char name[VARIABLE_SIZE], const struct sp_command *c,
                          const struct sp_opt *o)
{
    int len = snprintf(name, VARIABLE_SIZE, "SPECTOOL_%s_%s", c->name, o->name);

    assert(len > 0 && len < VARIABLE_SIZE);
    for (; *name; name++)
        *name = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
}

enum sp_status sp_opt_flag(bool *to, const char *text, struct sp_err *err)
{
    static const char *const words[2][4] = {{"false", "0", "no", "off"},
                                            {"true", "1", "yes", "on"}};

    for (int value = 0; value < 2; value++) {
        for (size_t i = 0; i < sizeof words[0] / sizeof *words[0]; i++) {
            if (strcasecmp(words[value][i], text) != 0) continue;
            *to = value == 1;
            return SP_OK;
        }
    }
    return sp_fail(err, SP_E_USAGE, "\"%s\", expected true or false", text);
}

/* Takes the lines of a text, except for empty ones, as the values of a list. */
static enum sp_status set_lines(struct sp_opt_list *list, const char *text, struct sp_err *err)
{
    size_t n = 1;
    enum sp_status st;

    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        n++;
    if ((st = sp_copy_text(&list->text, text, strlen(text), err))) return st;
    if ((st = sp_new(&list->items, n, sizeof *list->items, err))) return st;
    for (char *at = list->text; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        bool last = at[len] == '\0';
        if (len > 0) list->items[list->n++] = at;
        at[len] = '\0';
        at += len + !last;
    }
    return SP_OK;
}

static enum sp_status take_variable(struct parser *p, const struct sp_opt *o)
{
    const size_t i = (size_t)(o - p->args->command->opts);
    void *to = (char *)p->args->options + o->offset;
    char name[VARIABLE_SIZE];
    const char *text;
    enum sp_status st;

    if (!is_option(o) || p->args->given[i]) return SP_OK;
    name_variable(name, p->args->command, o);
    snprintf(p->given, sizeof p->given, "--%s", o->name);
    text = getenv(name);
    if (text == NULL || *text == '\0') return SP_OK;
    p->args->given[i] = p->args->by_environment[i] = true;
    st = o->kind == SP_OPT_FLAG   ? sp_opt_flag(to, text, p->err)
         : o->kind == SP_OPT_LIST ? set_lines(to, text, p->err)
                                  : set_value(p, o, text);
    if (st) sp_context(p->err, "%s", name);
    return st;
}

static enum sp_status take_environment(struct parser *p)
{
    const struct sp_command *c = p->args->command;
    enum sp_status st = SP_OK;

    if (!c->reads_environment || p->args->help) return SP_OK;
    for (const struct sp_opt *o = c->opts; o->kind != SP_OPT_END && !st; o++)
        st = take_variable(p, o);
    return st;
}

/* ---- the command line ---- */

static enum sp_status check_operands(struct parser *p)
{
    const struct sp_command *c = p->args->command;
    size_t n = p->args->n_operands;
    const char *unused, *hint;

    if (p->args->help) return SP_OK;
    if (n < c->min_operands) return sp_fail(p->err, SP_E_USAGE, "expected %s", c->operands);
    if (n > 0 && *p->args->operands[0] == '\0')
        return sp_fail(p->err, SP_E_USAGE, "the first argument is empty, expected %s", c->operands);
    if (n <= c->max_operands) return SP_OK;
    if (c->text_operand != NULL) {
        return sp_fail(p->err, SP_E_USAGE, "unexpected argument %s: quote a %s of several words",
                       p->args->operands[c->max_operands], c->text_operand);
    }
    sp_other_option_find(&unused, &hint, c, "");
    return sp_fail(p->err, SP_E_USAGE, "unexpected argument %s%s%s",
                   p->args->operands[c->max_operands], hint ? ": " : "", hint ? hint : "");
}

enum sp_status sp_args_parse(struct sp_args *out, const struct sp_command *command, int argc,
                             char **argv, struct sp_err *err)
{
    enum sp_status st;
    struct sp_args args = {.command = command};
    struct parser p = {.args = &args, .argc = argc, .argv = argv, .err = err};

    if ((st = sp_new(&args.operands, (size_t)argc + 1, sizeof *args.operands, err))) goto done;
    if ((st = sp_new(&args.options, command->options_size, 1, err))) goto done;
    if (command->defaults) memcpy(args.options, command->defaults, command->options_size);
    if ((st = take_words(&p)) || (st = take_environment(&p))) goto done;
    st = check_operands(&p);
done:
    if (st) sp_args_release(&args);
    *out = args;
    return st;
}

void sp_args_release(struct sp_args *args)
{
    const struct sp_opt *o = args->options ? args->command->opts : NULL;

    for (; o != NULL && o->kind != SP_OPT_END; o++) {
        if (o->kind == SP_OPT_LIST) {
            struct sp_opt_list *list = (struct sp_opt_list *)((char *)args->options + o->offset);
            free(list->items);
            free(list->text);
        }
    }
    free(args->options);
    free(args->operands);
    *args = (struct sp_args){0};
}

const char *sp_args_text(const struct sp_args *args)
{
    const char *text = args->n_operands > 1 ? args->operands[1] : NULL;

    return text && strcmp(text, "-") == 0 ? NULL : text;
}

/* Returns the row of an option in its table. */
static size_t row_of(const struct sp_args *args, const char *name)
{
    const struct sp_opt *o = args->command->opts;

    while (o->kind != SP_OPT_END && !(is_option(o) && strcmp(o->name, name) == 0))
        o++;
    assert(o->kind != SP_OPT_END);
    return (size_t)(o - args->command->opts);
}

bool sp_args_given(const struct sp_args *args, const char *name)
{
    return args->given[row_of(args, name)];
}

bool sp_args_by_environment(const struct sp_args *args, const char *name)
{
    return args->by_environment[row_of(args, name)];
}
