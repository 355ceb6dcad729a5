#include "cli/base/settings.h"
#include "cli/base/out.h"
#include "convert/source/generation_config.h"
#include "format/base/json_write.h"
#include "format/modelfile/modelfile.h"
#include "format/base/mem.h"
#include "format/base/spelling.h"
#include "format/modelfile/modelfile_check.h"
#include "format/pack_contents.h"

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

/* The names of a setting. */
struct row {
    const char *option;    /* --top-k */
    const char *parameter; /* PARAMETER top_k */
    bool integer;
    size_t offset;
};

#define AT(member) offsetof(struct sp_settings, member)

static const struct row rows[SP_N_SETTINGS] = {
    {"temperature", "temperature", false, AT(temperature)},
    {"top-k", "top_k", true, AT(top_k)},
    {"top-p", "top_p", false, AT(top_p)},
    {"min-p", "min_p", false, AT(min_p)},
    {"typical-p", "typical_p", false, AT(typical_p)},
    {"repeat-last-n", "repeat_last_n", true, AT(repeat_last_n)},
    {"repeat-penalty", "repeat_penalty", false, AT(repeat_penalty)},
    {"presence-penalty", "presence_penalty", false, AT(presence_penalty)},
    {"frequency-penalty", "frequency_penalty", false, AT(frequency_penalty)},
    {"top-n-sigma", "top_n_sigma", false, AT(top_n_sigma)},
    {"xtc-probability", "xtc_probability", false, AT(xtc_probability)},
    {"xtc-threshold", "xtc_threshold", false, AT(xtc_threshold)},
    {"dry-multiplier", "dry_multiplier", false, AT(dry_multiplier)},
    {"dry-base", "dry_base", false, AT(dry_base)},
    {"dry-allowed-length", "dry_allowed_length", true, AT(dry_allowed_length)},
    {"dry-penalty-last-n", "dry_penalty_last_n", true, AT(dry_penalty_last_n)},
    {"seed", "seed", true, AT(seed)},
    {"num-predict", "num_predict", true, AT(n_predict)},
    {"reasoning-budget", "reasoning_budget", true, AT(reasoning_budget)},
    {"num-ctx", "num_ctx", true, AT(n_context)},
    {"threads", "num_thread", true, AT(n_threads)},
    {"draft-depth", "draft_num_predict", true, AT(draft_len)},
};

/* The word for integers below `least`; setting the word stores `value`. */
static const struct word {
    size_t offset;
    const char *text;
    int64_t least, value;
} words[] = {
    {AT(n_predict), "no limit", 1, 0},
    {AT(reasoning_budget), "no limit", 0, SP_REASONING_UNLIMITED},
    {AT(n_context), "auto", 1, 0},
    {AT(n_threads), "auto", 1, 0},
    {AT(draft_len), "auto", 0, SP_DRAFT_LENGTH_AUTO},
};

/* Returns the word of a setting; NULL: it takes numbers only. */
static const struct word *word_of(const struct row *row)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].offset == row->offset) return &words[i];
    return NULL;
}

static enum sp_status set_row(struct sp_settings *s, const struct row *row, const char *value,
                              struct sp_err *err)
{
    const struct sp_parameter *parameter = sp_parameter_find(row->parameter);
    const struct word *word = word_of(row);
    void *to = (char *)s + row->offset;
    enum sp_status st;
    int64_t i;
    double d;

    if (word && strcasecmp(value, word->text) == 0) {
        memcpy(to, &word->value, sizeof word->value);
    } else if (row->integer) {
        if ((st = sp_parameter_integer(&i, parameter, value, err))) return st;
        memcpy(to, &i, sizeof i);
    } else {
        if ((st = sp_parameter_number(&d, parameter, value, err))) return st;
        memcpy(to, &d, sizeof d);
    }
    return SP_OK;
}

static enum sp_status add_stop(struct sp_settings *s, const char *text, size_t size,
                               struct sp_err *err)
{
    enum sp_status st;

    if (s->n_stops == SP_MAX_STOPS) {
        return sp_fail(err, SP_E_USAGE, "more than %d stop texts, including those of the file",
                       SP_MAX_STOPS);
    }
    if ((st = sp_copy_text(&s->texts[s->n_stops], text, size, err))) return st;
    s->stops[s->n_stops] = s->texts[s->n_stops];
    s->n_stops++;
    return SP_OK;
}

static const char **source_of(struct sp_settings *s, size_t offset)
{
    size_t i = 0;

    while (rows[i].offset != offset)
        i++;
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
    *source_of(s, AT(seed)) = from_random;
    return SP_OK;
}

enum sp_status sp_settings_set(struct sp_settings *s, const char *name, const char *value,
                               struct sp_err *err)
{
    const char *near = NULL;
    enum sp_status st;

    for (size_t i = 0; i < SP_N_SETTINGS; i++) {
        if (strcasecmp(rows[i].parameter, name) != 0) continue;
        if (rows[i].offset == AT(n_threads))
            return sp_fail(err, SP_E_USAGE, "%s cannot be changed during a session", name);
        if ((st = set_row(s, rows + i, value, err))) return st;
        s->from[i] = from_user;
        return draw_seed(s, err);
    }
    if (strcasecmp(name, "stop") == 0) return add_stop(s, value, strlen(value), err);
    if (strcasecmp(name, breakers_name) == 0)
        return sp_dry_texts_add(&s->breakers, from_user, value, err);
    for (size_t i = 0; i < SP_N_SETTINGS; i++)
        near = sp_nearer(near, rows[i].parameter, name);
    if (near) return sp_fail(err, SP_E_USAGE, "unknown setting %s, did you mean %s?", name, near);
    return sp_fail(err, SP_E_USAGE, "unknown setting %s, /show parameters lists them", name);
}

/* Takes from the records what the command line did not set. */
static enum sp_status take_records(struct sp_settings *s, const struct sp_modelfile *file,
                                   struct sp_err *err)
{
    enum sp_status st;
    const struct sp_modelfile_record *record;

    for (size_t i = 0; i < SP_N_SETTINGS; i++) {
        record = sp_modelfile_find(file, SP_MODELFILE_PARAMETER, rows[i].parameter);
        if (s->from[i] != NULL || record == NULL) continue;
        if ((st = set_row(s, rows + i, record->value, err))) return st;
        s->from[i] = from_file;
    }
    for (size_t i = 0; i < file->n_records; i++) {
        record = file->records + i;
        if (record->command != SP_MODELFILE_PARAMETER || strcmp(record->name, "stop") != 0)
            continue;
        if ((st = add_stop(s, record->value, record->value_size, err))) return st;
    }
    for (size_t i = 0; i < file->n_records && s->breakers.from != from_line; i++) {
        record = file->records + i;
        if (record->command != SP_MODELFILE_PARAMETER || strcmp(record->name, breakers_name) != 0)
            continue;
        if ((st = sp_dry_texts_add(&s->breakers, from_file, record->value, err))) return st;
    }
    return SP_OK;
}

static enum sp_status read_records(struct sp_settings *s, const struct sp_pack *pack,
                                   struct sp_err *err)
{
    enum sp_status st;
    struct sp_modelfile file = {0};
    char *text = NULL;
    size_t size = 0;

    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &text, &size, err);
    if (st || text == NULL) return st;
    st = sp_modelfile_parse(&file, sp_pack_path(pack), text, size, err);
    if (st == SP_OK) st = take_records(s, &file, err);
    sp_modelfile_release(&file);
    free(text);
    return st;
}

/* Takes settings from generation_config.json. Hugging Face's repetition penalty covers the whole
 * context, hence repeat_last_n becomes -1 with it. */
static enum sp_status take_generation(struct sp_settings *s, const struct sp_json *json,
                                      struct sp_err *err)
{
    enum sp_status st;
    char *text = NULL;

    for (size_t i = 0; i < SP_N_SETTINGS; i++) {
        if (s->from[i] != NULL) continue;
        if ((st = sp_generation_value(&text, json, rows[i].parameter, err))) return st;
        if (text == NULL) continue;
        st = set_row(s, rows + i, text, err);
        free(text);
        if (st) return st;
        s->from[i] = from_checkpoint;
    }
    if (*source_of(s, AT(repeat_penalty)) == from_checkpoint &&
        *source_of(s, AT(repeat_last_n)) == NULL) {
        s->repeat_last_n = -1;
        *source_of(s, AT(repeat_last_n)) = from_checkpoint;
    }
    return SP_OK;
}

static enum sp_status read_generation(struct sp_settings *s, const struct sp_pack *pack,
                                      struct sp_err *err)
{
    enum sp_status st;
    struct sp_json *json = NULL;
    char *text = NULL;
    size_t size = 0;

    st = sp_pack_read_section(pack, SP_PART_TARGET, SP_SECTION_GENERATION, &text, &size, err);
    if (st || text == NULL) return st;
    st = sp_json_parse_within(&json, text, size, SP_JSON_LENIENT, SP_JSON_SETTINGS, err);
    if (st == SP_OK) st = take_generation(s, json, err);
    if (st) sp_context(err, "%s: generation_config.json", sp_pack_path(pack));
    sp_json_free(json);
    free(text);
    return st;
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
                                    const struct sp_pack *pack, struct sp_err *err)
{
    enum sp_status st;

    if (s->stop_options.n > SP_MAX_STOPS)
        return sp_fail(err, SP_E_USAGE, "more than %d stop texts", SP_MAX_STOPS);
    for (size_t i = 0; i < SP_N_SETTINGS; i++) {
        if (sp_args_given(args, rows[i].option)) s->from[i] = from_line;
        if (sp_args_by_environment(args, rows[i].option)) s->from[i] = from_environment;
    }
    for (; s->n_stops < s->stop_options.n; s->n_stops++) {
        s->stops[s->n_stops] = s->stop_options.items[s->n_stops];
        if (*s->stops[s->n_stops] == '\0') return sp_fail(err, SP_E_USAGE, "--stop is empty");
    }
    for (size_t i = 0; i < s->breaker_options.n; i++)
        if ((st = sp_dry_texts_add(&s->breakers, from_line, s->breaker_options.items[i], err)))
            return st;
    if ((st = read_records(s, pack, err))) return st;
    if ((st = read_generation(s, pack, err))) return st;
    for (size_t i = 0; i < SP_N_SETTINGS; i++)
        if (s->from[i] == NULL) s->from[i] = from_built_in;
    st = read_biases(s, err);
    return st ? st : draw_seed(s, err);
}

static enum sp_status copy_lists(struct sp_settings *out, const struct sp_settings *s,
                                 struct sp_err *err)
{
    enum sp_status st;

    for (size_t i = 0; i < s->n_stops; i++)
        if ((st = add_stop(out, s->stops[i], strlen(s->stops[i]), err))) return st;
    if ((st = sp_new(&out->biases, s->n_biases, sizeof *s->biases, err))) return st;
    if (s->n_biases > 0) memcpy(out->biases, s->biases, s->n_biases * sizeof *s->biases);
    out->n_biases = s->n_biases;
    return sp_dry_texts_copy(&out->breakers, &s->breakers, err);
}

enum sp_status sp_settings_redraw(struct sp_settings *s, bool *drawn, struct sp_err *err)
{
    *drawn = *source_of(s, AT(seed)) == from_random;
    if (!*drawn) return SP_OK;
    s->seed = SP_SEED_FRESH;
    return draw_seed(s, err);
}

const char *sp_settings_name(size_t i)
{
    return rows[i].parameter;
}

enum sp_status sp_settings_copy(struct sp_settings *out, const struct sp_settings *s,
                                struct sp_err *err)
{
    enum sp_status st;
    bool drawn;

    *out = *s;
    memset(out->texts, 0, sizeof out->texts);
    out->n_stops = out->n_biases = 0;
    out->breakers = (struct sp_dry_texts){0};
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
    for (size_t i = 0; i < SP_MAX_STOPS; i++)
        free(s->texts[i]);
    free(s->biases);
    sp_dry_texts_release(&s->breakers);
    *s = (struct sp_settings){0};
}

void sp_settings_sampling(struct sp_sampling *out, const struct sp_settings *s)
{
    bool rejection = s->accept != NULL && strcmp(s->accept, "rejection") == 0;

    *out = (struct sp_sampling){
        .size = sizeof(struct sp_sampling),
        .temperature = (float)s->temperature,
        .top_k = (int)s->top_k,
        .top_p = (float)s->top_p,
        .min_p = (float)s->min_p,
        .typical_p = (float)s->typical_p,
        .repeat_last_n = (int)s->repeat_last_n,
        .repeat_penalty = (float)s->repeat_penalty,
        .presence_penalty = (float)s->presence_penalty,
        .frequency_penalty = (float)s->frequency_penalty,
        .biases = s->biases,
        .n_biases = s->n_biases,
        .seed = (uint64_t)s->seed,
        .accept = rejection ? SP_ACCEPT_REJECTION : SP_ACCEPT_COUPLED,
        .top_n_sigma = (float)s->top_n_sigma,
        .xtc_probability = (float)s->xtc_probability,
        .xtc_threshold = (float)s->xtc_threshold,
        .dry_multiplier = (float)s->dry_multiplier,
        .dry_base = (float)s->dry_base,
        .dry_allowed_length = (int)s->dry_allowed_length,
        .dry_penalty_last_n = (int)s->dry_penalty_last_n,
    };
    sp_dry_texts_apply(&s->breakers, out);
}

enum { VALUE_SIZE = 32 };

/* Writes a setting's value as users see it. */
static void show_value(char value[VALUE_SIZE], const struct sp_settings *s, const struct row *row)
{
    const void *at = (const char *)s + row->offset;
    const struct word *word = word_of(row);
    int64_t integer;
    double number;

    memcpy(&integer, at, sizeof integer);
    memcpy(&number, at, sizeof number);
    if (!row->integer)
        snprintf(value, VALUE_SIZE, "%g", number);
    else if (word && integer < word->least)
        snprintf(value, VALUE_SIZE, "%s", word->text);
    else
        snprintf(value, VALUE_SIZE, "%" PRId64, integer);
}

bool sp_settings_print_one(FILE *out, const struct sp_settings *s, const char *name)
{
    char value[VALUE_SIZE];

    for (size_t i = 0; i < SP_N_SETTINGS; i++) {
        if (strcasecmp(rows[i].parameter, name) != 0) continue;
        show_value(value, s, &rows[i]);
        fprintf(out, "%s is %s.\n", rows[i].parameter, value);
        return true;
    }
    return false;
}

void sp_settings_print(FILE *out, const struct sp_settings *s)
{
    for (size_t i = 0; i < SP_N_SETTINGS; i++) {
        char value[VALUE_SIZE];
        show_value(value, s, &rows[i]);
        fprintf(out, "  %-18s %-10s %s\n", rows[i].parameter, value, s->from[i]);
    }
    sp_dry_texts_print(out, &s->breakers);
    for (size_t i = 0; i < s->n_stops; i++) {
        fprintf(out, "  %-18s \"", "stop");
        sp_out_text(out, s->stops[i], strlen(s->stops[i]));
        fputs("\"\n", out);
    }
}

/* ---- settings of a saved session --------------------------------------------------------------
 */

static void write_texts(struct sp_json_out *out, const char *key, const char *const *texts,
                        size_t n)
{
    sp_json_out_begin(out, key, '[');
    for (size_t i = 0; i < n; i++)
        sp_json_out_text(out, NULL, texts[i]);
    sp_json_out_end(out, ']');
}

void sp_settings_to_json(struct sp_json_out *out, const struct sp_settings *s)
{
    for (size_t i = 0; i < SP_N_SETTINGS; i++) {
        const struct word *word = word_of(&rows[i]);
        const void *at = (const char *)s + rows[i].offset;
        char value[VALUE_SIZE];
        int64_t integer;
        double number;

        if (rows[i].offset == AT(n_threads) || s->from[i] == from_random) continue;
        memcpy(&integer, at, sizeof integer);
        memcpy(&number, at, sizeof number);
        show_value(value, s, &rows[i]);
        if (!rows[i].integer)
            sp_json_out_double(out, rows[i].parameter, number);
        else if (word && integer < word->least)
            sp_json_out_text(out, rows[i].parameter, word->text);
        else
            sp_json_out_written(out, rows[i].parameter, value, strlen(value));
    }
    write_texts(out, "stop", s->stops, s->n_stops);
    if (s->breakers.from) write_texts(out, breakers_name, s->breakers.at, s->breakers.n);
}

/* Takes an array of texts in the place of those of the setting. */
static enum sp_status take_texts(struct sp_settings *s, const char *name,
                                 const struct sp_json *array, struct sp_err *err)
{
    bool stops = strcmp(name, "stop") == 0;
    enum sp_status st = SP_OK;

    if (sp_json_kind(array) != SP_JSON_ARRAY)
        return sp_fail(err, SP_E_INPUT, "%s: expected an array of strings", name);
    while (stops && s->n_stops > 0) {
        free(s->texts[--s->n_stops]);
        s->texts[s->n_stops] = NULL;
    }
    if (!stops) {
        sp_dry_texts_release(&s->breakers);
        st = sp_dry_texts_add(&s->breakers, from_user, "none", err);
    }
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
    for (size_t i = 0; i < SP_N_SETTINGS; i++)
        if (s->from[i] == from_user && sp_json_get(object, rows[i].parameter))
            s->from[i] = from_saved;
    return st;
}
