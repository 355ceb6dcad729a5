#include "cli/base/settings.h"
#include "cli/base/out.h"
#include "format/base/mem.h"
#include "format/base/spelling.h"
#include "format/modelfile/modelfile_check.h"
#include "format/system/macos.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <strings.h>

static const char from_line[] = "command line", from_environment[] = "environment",
                  from_file[] = "Modelfile", from_checkpoint[] = "generation_config.json",
                  from_built_in[] = "built in", from_user[] = "/set", from_random[] = "drawn",
                  from_saved[] = "/load";

const char *const sp_settings_accepts[] = {"coupled", "rejection", NULL};

static const char breakers_name[] = "dry_sequence_breakers";

/* A setting that is no option of sampling: an integer. */
struct row {
    const char *option;    /* --num-ctx */
    const char *parameter; /* PARAMETER num_ctx */
    size_t offset;
    enum sp_setting_kind kind;
    const char *word; /* for integers below `least`; setting it stores `value`; NULL: none */
    int64_t least, value;
};

#define AT(member) offsetof(struct sp_settings, member)

static const struct row rows[] = {
    {"seed", "seed", AT(seed), SP_SETTING_SAMPLING, NULL, 0, 0},
    {"num-predict", "num_predict", AT(n_predict), SP_SETTING_LENGTH, "no limit", 1, 0},
    {"reasoning-budget", "reasoning_budget", AT(reasoning_budget), SP_SETTING_LENGTH, "no limit", 0,
     SP_REASONING_UNLIMITED},
    {"num-ctx", "num_ctx", AT(n_context), SP_SETTING_SESSION, "auto", 1, 0},
    {"threads", "num_thread", AT(n_threads), SP_SETTING_SESSION, "auto", 1, 0},
    {"draft-depth", "draft_num_predict", AT(draft_len), SP_SETTING_SAMPLING, "auto", 0,
     SP_DRAFT_LENGTH_AUTO},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

/* The settings are the options of sampling, whose names and ranges the library has, then `rows`. */
static size_t n_sampling(void)
{
    const struct sp_sampling any = SP_SAMPLING_INIT;
    size_t n = 0;

    while (sp_sampling_get(&any, n, NULL))
        n++;
    assert(n + N_ROWS <= SP_MAX_SETTINGS);
    return n;
}

const char *sp_settings_name(size_t i)
{
    const struct sp_sampling any = SP_SAMPLING_INIT;
    const char *name = sp_sampling_get(&any, i, NULL);
    size_t n = name ? 0 : n_sampling();

    return name ? name : i - n < N_ROWS ? rows[i - n].parameter : NULL;
}

/* The row of a setting; NULL: it is an option of sampling. */
static const struct row *row_of(size_t i)
{
    size_t n = n_sampling();

    return i < n ? NULL : &rows[i - n];
}

/* Finds a setting by its name, in which capitals do not matter; false: there is none. */
static bool find(size_t *i, const char *name)
{
    const char *known;

    for (*i = 0; (known = sp_settings_name(*i)); ++*i)
        if (strcasecmp(known, name) == 0) return true;
    return false;
}

enum sp_setting_kind sp_settings_kind(const char *name)
{
    size_t i;

    if (!find(&i, name) || strcmp(sp_settings_name(i), name) != 0) return SP_SETTING_NONE;
    return row_of(i) ? row_of(i)->kind : SP_SETTING_SAMPLING;
}

/* The long option of a setting. */
static const char *option_of(size_t i, char text[64])
{
    if (row_of(i)) return row_of(i)->option;
    snprintf(text, 64, "%s", sp_settings_name(i));
    for (char *c = text; *c; c++)
        if (*c == '_') *c = '-';
    return text;
}

static enum sp_status set_value(struct sp_settings *s, size_t i, const char *value,
                                struct sp_err *err)
{
    const struct row *row = row_of(i);
    int64_t n;
    enum sp_status st;

    if (row == NULL) return sp_sampling_set(&s->sampling, sp_settings_name(i), value, err);
    n = row->value;
    if (row->word == NULL || strcasecmp(value, row->word) != 0) {
        st = sp_parameter_integer(&n, sp_parameter_find(row->parameter), value, err);
        if (st) return st;
    }
    memcpy((char *)s + row->offset, &n, sizeof n);
    return SP_OK;
}

static enum sp_status add_text(struct sp_setting_texts *t, const char *text, const char *what,
                               struct sp_err *err)
{
    char *copy = NULL;
    enum sp_status st;

    if (t->n == SP_MAX_STOPS)
        return sp_fail(err, SP_E_USAGE, "more than %d %s", SP_MAX_STOPS, what);
    if ((st = sp_copy_text(&copy, text, strlen(text), err))) return st;
    t->at[t->n++] = copy;
    return SP_OK;
}

static void release_texts(struct sp_setting_texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        free((char *)(uintptr_t)t->at[i]);
    *t = (struct sp_setting_texts){0};
}

/* A stop text is tokenized to see whether it is a special token. */
static enum sp_status add_stop(struct sp_settings *s, const char *text, struct sp_err *err)
{
    enum { LONGEST = 4096 };
    size_t size = strlen(text);

    if (size > LONGEST)
        return sp_fail(err, SP_E_USAGE, "stop has a text of %zu bytes, expected at most %d", size,
                       LONGEST);
    return add_text(&s->stops, text, "stop texts, including those of the file", err);
}

/* Adds a breaker, after it has removed those of another origin; "none" adds none. */
static enum sp_status add_breaker(struct sp_settings *s, const char *from, const char *text,
                                  struct sp_err *err)
{
    struct sp_setting_texts *t = &s->breakers;

    if (t->from != from) release_texts(t);
    t->from = from;
    if (strcmp(text, "none") == 0) return SP_OK;
    if (*text == '\0') return sp_fail(err, SP_E_USAGE, "a sequence breaker is empty");
    return add_text(t, text, "sequence breakers", err);
}

static const char **source_of(struct sp_settings *s, const char *name)
{
    size_t i;

    (void)find(&i, name);
    return &s->from[i];
}

/* Draws a random seed if the seed is negative. */
static enum sp_status draw_seed(struct sp_settings *s, struct sp_err *err)
{
    uint32_t seed;

    if (s->seed >= 0) return SP_OK;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return sp_fail(err, SP_E_IO, "a random seed: %s", strerror(errno));
    s->seed = seed;
    *source_of(s, "seed") = from_random;
    return SP_OK;
}

enum sp_status sp_settings_set(struct sp_settings *s, const char *name, const char *value,
                               struct sp_err *err)
{
    const char *near = NULL, *known;
    size_t i;
    enum sp_status st;

    if (find(&i, name)) {
        if (row_of(i) && row_of(i)->offset == AT(n_threads))
            return sp_fail(err, SP_E_USAGE, "%s cannot be changed during a session", name);
        if ((st = set_value(s, i, value, err))) return st;
        s->from[i] = from_user;
        return draw_seed(s, err);
    }
    if (strcasecmp(name, "stop") == 0) {
        if (*value == '\0') release_texts(&s->stops);
        s->stops.from = from_user;
        return *value ? add_stop(s, value, err) : SP_OK;
    }
    if (strcasecmp(name, breakers_name) == 0) return add_breaker(s, from_user, value, err);
    for (i = 0; (known = sp_settings_name(i)); i++)
        near = sp_nearer(near, known, name);
    if (near) return sp_fail(err, SP_E_USAGE, "unknown setting %s, did you mean %s?", name, near);
    return sp_fail(err, SP_E_USAGE, "unknown setting %s, /show parameters lists them", name);
}

/* Takes a setting of the file unless the command line has set it, or the penalty with which
 * generation_config.json sets repeat_last_n. */
static enum sp_status take_setting(struct sp_settings *s, const struct sp_file_setting *setting,
                                   struct sp_err *err)
{
    const char *from = setting->of_checkpoint ? from_checkpoint : from_file;
    size_t i;
    enum sp_status st;

    if (strcmp(setting->name, "stop") == 0) return add_stop(s, setting->value, err);
    if (strcmp(setting->name, breakers_name) == 0) {
        if (s->breakers.from == from_line) return SP_OK;
        return add_breaker(s, from, setting->value, err);
    }
    if (setting->of_checkpoint && strcmp(setting->name, "repeat_last_n") == 0 &&
        *source_of(s, "repeat_penalty") != from_checkpoint)
        return SP_OK;
    if (!find(&i, setting->name) || s->from[i] != NULL) return SP_OK;
    if ((st = set_value(s, i, setting->value, err))) return st;
    s->from[i] = from;
    return SP_OK;
}

static enum sp_status read_biases(struct sp_settings *s, struct sp_err *err)
{
    const struct sp_opt_list *list = &s->bias_options;
    enum sp_status st;

    if ((st = sp_new(&s->biases, list->n, sizeof *s->biases, err))) return st;
    for (; s->n_biases < list->n; s->n_biases++) {
        const char *text = list->items[s->n_biases];
        char *end, *end_of_bias;
        unsigned long long id = strtoull(text, &end, 10);
        float bias = *end == '=' ? strtof(end + 1, &end_of_bias) : 0;
        if (end == text || *text == '-' || *end != '=' || end_of_bias == end + 1 || *end_of_bias ||
            id > UINT32_MAX || !(bias >= -1e9f && bias <= 1e9f))
            return sp_fail(err, SP_E_USAGE, "--logit-bias is %s, expected ID=NUMBER", text);
        s->biases[s->n_biases] = (struct sp_logit_bias){(uint32_t)id, bias};
    }
    return SP_OK;
}

enum sp_status sp_settings_complete(struct sp_settings *s, const struct sp_args *args,
                                    const struct sp_file_settings *file, struct sp_err *err)
{
    char option[64];
    enum sp_status st;

    if (s->stop_options.n > SP_MAX_STOPS)
        return sp_fail(err, SP_E_USAGE, "more than %d stop texts", SP_MAX_STOPS);
    for (size_t i = 0; sp_settings_name(i); i++) {
        if (sp_args_given(args, option_of(i, option))) s->from[i] = from_line;
        if (sp_args_by_environment(args, option_of(i, option))) s->from[i] = from_environment;
    }
    for (size_t i = 0; i < s->stop_options.n; i++) {
        if (*s->stop_options.items[i] == '\0') return sp_fail(err, SP_E_USAGE, "--stop is empty");
        if ((st = add_stop(s, s->stop_options.items[i], err))) return st;
        s->stops.from = from_line;
    }
    for (size_t i = 0; i < s->breaker_options.n; i++)
        if ((st = add_breaker(s, from_line, s->breaker_options.items[i], err))) return st;
    for (size_t i = 0; i < file->n_settings; i++)
        if ((st = take_setting(s, &file->settings[i], err))) return st;
    for (size_t i = 0; sp_settings_name(i); i++)
        if (s->from[i] == NULL) s->from[i] = from_built_in;
    st = read_biases(s, err);
    return st ? st : draw_seed(s, err);
}

static enum sp_status copy_lists(struct sp_settings *out, const struct sp_settings *s,
                                 struct sp_err *err)
{
    enum sp_status st;

    for (size_t i = 0; i < s->stops.n; i++)
        if ((st = add_stop(out, s->stops.at[i], err))) return st;
    out->stops.from = s->stops.from;
    out->breakers.from = s->breakers.from;
    for (size_t i = 0; i < s->breakers.n; i++)
        if ((st = add_breaker(out, s->breakers.from, s->breakers.at[i], err))) return st;
    if ((st = sp_new(&out->biases, s->n_biases, sizeof *s->biases, err))) return st;
    if (s->n_biases > 0) memcpy(out->biases, s->biases, s->n_biases * sizeof *s->biases);
    out->n_biases = s->n_biases;
    return SP_OK;
}

enum sp_status sp_settings_redraw(struct sp_settings *s, bool *drawn, struct sp_err *err)
{
    *drawn = *source_of(s, "seed") == from_random;
    if (!*drawn) return SP_OK;
    s->seed = SP_SEED_FRESH;
    return draw_seed(s, err);
}

enum sp_status sp_settings_copy(struct sp_settings *out, const struct sp_settings *s,
                                struct sp_err *err)
{
    enum sp_status st;
    bool drawn;

    *out = *s;
    out->stops = out->breakers = (struct sp_setting_texts){0};
    out->n_biases = 0;
    out->biases = NULL;
    if ((st = copy_lists(out, s, err))) goto done;
    st = sp_settings_redraw(out, &drawn, err);
done:
    if (st) sp_settings_release(out);
    return st;
}

enum sp_status sp_settings_add_bias(struct sp_settings *s, uint32_t id, float bias,
                                    struct sp_err *err)
{
    size_t cap = s->n_biases;
    enum sp_status st = sp_grow(&s->biases, &cap, s->n_biases + 1, sizeof *s->biases, err);

    if (st) return st;
    s->biases[s->n_biases++] = (struct sp_logit_bias){id, bias};
    return SP_OK;
}

void sp_settings_release(struct sp_settings *s)
{
    free(s->biases);
    release_texts(&s->stops);
    release_texts(&s->breakers);
    *s = (struct sp_settings){0};
}

void sp_settings_sampling(struct sp_sampling *out, const struct sp_settings *s)
{
    bool rejection = s->accept != NULL && strcmp(s->accept, "rejection") == 0;

    *out = s->sampling;
    out->biases = s->biases;
    out->n_biases = s->n_biases;
    out->seed = (uint64_t)s->seed;
    out->accept = rejection ? SP_ACCEPT_REJECTION : SP_ACCEPT_COUPLED;
    out->dry_breakers = s->breakers.from ? s->breakers.at : NULL;
    out->n_dry_breakers = s->breakers.n;
}

/* Writes a setting's value as users see it; true: it is a word. */
static bool show_value(char value[SP_SAMPLING_VALUE_SIZE], const struct sp_settings *s, size_t i)
{
    const struct row *row = row_of(i);
    bool is_word;
    int64_t n;

    if (row == NULL) {
        sp_sampling_get(&s->sampling, i, value);
        return false;
    }
    memcpy(&n, (const char *)s + row->offset, sizeof n);
    is_word = row->word && n < row->least;
    if (is_word)
        snprintf(value, SP_SAMPLING_VALUE_SIZE, "%s", row->word);
    else
        snprintf(value, SP_SAMPLING_VALUE_SIZE, "%" PRId64, n);
    return is_word;
}

/* Prints a text with its line feeds as \n. */
static void print_text(FILE *out, const char *text)
{
    for (size_t len; *text != '\0'; text += len) {
        len = strcspn(text, "\n");
        sp_out_text(out, text, len);
        if (text[len] == '\n') {
            fputs("\\n", out);
            len++;
        }
    }
}

static void print_stops(FILE *out, const struct sp_settings *s)
{
    for (size_t i = 0; i < s->stops.n; i++) {
        fprintf(out, "  %-18s \"", "stop");
        print_text(out, s->stops.at[i]);
        fputs("\"\n", out);
    }
}

bool sp_settings_print_one(FILE *out, const struct sp_settings *s, const char *name)
{
    char value[SP_SAMPLING_VALUE_SIZE];
    size_t i;

    if (strcasecmp(name, "stop") == 0) {
        print_stops(out, s);
        if (s->stops.n == 0) fputs("There are no stop texts.\n", out);
        return true;
    }
    if (!find(&i, name)) return false;
    show_value(value, s, i);
    fprintf(out, "%s is %s.\n", sp_settings_name(i), value);
    return true;
}

void sp_settings_print(FILE *out, const struct sp_settings *s)
{
    char value[SP_SAMPLING_VALUE_SIZE];
    const char *name;

    for (size_t i = 0; (name = sp_settings_name(i)); i++) {
        show_value(value, s, i);
        fprintf(out, "  %-18s %-10s %s\n", name, value, s->from[i]);
    }
    for (size_t i = 0; i < s->breakers.n; i++) {
        fprintf(out, "  %s \"", breakers_name);
        print_text(out, s->breakers.at[i]);
        fprintf(out, "\" %s\n", s->breakers.from);
    }
    if (s->breakers.from && s->breakers.n == 0)
        fprintf(out, "  %s none %s\n", breakers_name, s->breakers.from);
    print_stops(out, s);
}

void sp_settings_sampling_to_json(struct sp_json_out *out, const struct sp_settings *s,
                                  const char *only)
{
    char value[SP_SAMPLING_VALUE_SIZE];
    const char *name;

    for (size_t i = 0; (name = sp_sampling_get(&s->sampling, i, value)); i++)
        if (only == NULL || strcmp(only, name) == 0)
            sp_json_out_written(out, name, value, strlen(value));
}

/* ---- settings of a saved session ---- */

static void write_texts(struct sp_json_out *out, const char *key, const struct sp_setting_texts *t)
{
    sp_json_out_begin(out, key, '[');
    for (size_t i = 0; i < t->n; i++)
        sp_json_out_text(out, NULL, t->at[i]);
    sp_json_out_end(out, ']');
}

/* True for the origin of a setting that the user chose, in this session or for it. */
static bool is_chosen(const char *from)
{
    return from == from_user || from == from_saved || from == from_line || from == from_environment;
}

void sp_settings_to_json(struct sp_json_out *out, const struct sp_settings *s)
{
    char value[SP_SAMPLING_VALUE_SIZE];
    const char *name;

    for (size_t i = 0; (name = sp_settings_name(i)); i++) {
        if ((row_of(i) && row_of(i)->offset == AT(n_threads)) || !is_chosen(s->from[i])) continue;
        if (show_value(value, s, i))
            sp_json_out_text(out, name, value);
        else
            sp_json_out_written(out, name, value, strlen(value));
    }
    if (is_chosen(s->stops.from)) write_texts(out, "stop", &s->stops);
    if (is_chosen(s->breakers.from)) write_texts(out, breakers_name, &s->breakers);
}

/* Takes an array of texts in the place of those of the setting. */
static enum sp_status take_texts(struct sp_settings *s, const char *name,
                                 const struct sp_json *array, struct sp_err *err)
{
    bool stops = strcmp(name, "stop") == 0;
    enum sp_status st = SP_OK;

    if (sp_json_kind(array) != SP_JSON_ARRAY)
        return sp_fail(err, SP_E_INPUT, "%s: expected an array of strings", name);
    release_texts(stops ? &s->stops : &s->breakers);
    *(stops ? &s->stops.from : &s->breakers.from) = from_saved;
    for (size_t i = 0; i < sp_json_len(array) && !st; i++) {
        const char *text = sp_json_to_string(sp_json_at(array, i), NULL);
        if (text == NULL || *text == '\0')
            return sp_fail(err, SP_E_INPUT, "%s[%zu]: expected a text", name, i);
        st = sp_settings_set(s, name, text, err);
    }
    return st;
}

enum sp_status sp_settings_of_json(struct sp_settings *s, const struct sp_json *object,
                                   struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (object != NULL && sp_json_kind(object) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "settings: expected an object");
    for (struct sp_json_iter it = {0}; !st && sp_json_next(object, &it);) {
        const char *text = sp_json_to_string(it.value, NULL);
        char *number = NULL;
        if (strcmp(it.key, "stop") == 0 || strcmp(it.key, breakers_name) == 0) {
            st = take_texts(s, it.key, it.value, err);
            continue;
        }
        if (text == NULL) st = sp_json_print(&number, it.value, err);
        if (!st) st = sp_settings_set(s, it.key, text ? text : number, err);
        free(number);
    }
    for (size_t i = 0; sp_settings_name(i); i++)
        if (s->from[i] == from_user && sp_json_get(object, sp_settings_name(i)))
            s->from[i] = from_saved;
    return st;
}
