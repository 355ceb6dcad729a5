/* What spectool accepts in a Modelfile: the table of parameters, and the rules that concern single
 * records. A parameter is one row of the table. */
#include "format/modelfile/modelfile_check.h"
#include "format/json/json_write.h"
#include "format/base/mem.h"
#include "format/base/spelling.h"
#include "format/modelfile/modelfile.h"
#include "format/base/number_text.h"
#include "format/base/unicode_case.h"
#include "format/base/warnings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INT_LIMIT 2147483647.0

static const char gpu[] = "everything runs on the CPU";
static const char mapped[] = "weights are mapped and prompts are read in chunks of spectool's own";
static const char removed[] = "ollama has removed it too";

static const struct sp_parameter parameters[] = {
    {"num_ctx", SP_PARAMETER_INT, 0, INT_LIMIT, NULL, NULL},
    {"num_predict", SP_PARAMETER_INT, -2, INT_LIMIT, NULL, NULL},
    {"reasoning_budget", SP_PARAMETER_INT, -1, INT_LIMIT, NULL, NULL},
    {"seed", SP_PARAMETER_INT, -0x1p63, 0x1p63, NULL, NULL},
    {"temperature", SP_PARAMETER_FLOAT, 0, 100, NULL, "temperature"},
    {"top_k", SP_PARAMETER_INT, -INT_LIMIT, INT_LIMIT, NULL, "top_k"},
    {"top_p", SP_PARAMETER_FLOAT, 0, 1, NULL, "top_p"},
    {"min_p", SP_PARAMETER_FLOAT, 0, 1, NULL, "min_p"},
    {"typical_p", SP_PARAMETER_FLOAT, 0, 1, NULL, "typical_p"},
    {"repeat_last_n", SP_PARAMETER_INT, -1, INT_LIMIT, NULL, NULL},
    {"repeat_penalty", SP_PARAMETER_FLOAT, 0.01, 100, NULL, "repetition_penalty"},
    {"presence_penalty", SP_PARAMETER_FLOAT, -100, 100, NULL, NULL},
    {"frequency_penalty", SP_PARAMETER_FLOAT, -100, 100, NULL, NULL},
    {"top_n_sigma", SP_PARAMETER_FLOAT, -1, 100, NULL, NULL},
    {"xtc_probability", SP_PARAMETER_FLOAT, 0, 1, NULL, NULL},
    {"xtc_threshold", SP_PARAMETER_FLOAT, 0, 1, NULL, NULL},
    {"dry_multiplier", SP_PARAMETER_FLOAT, 0, 100, NULL, NULL},
    {"dry_base", SP_PARAMETER_FLOAT, 1, 100, NULL, NULL},
    {"dry_allowed_length", SP_PARAMETER_INT, 0, INT_LIMIT, NULL, NULL},
    {"dry_penalty_last_n", SP_PARAMETER_INT, -1, INT_LIMIT, NULL, NULL},
    {"dry_sequence_breakers", SP_PARAMETER_TEXT, 0, 0, NULL, NULL},
    {"stop", SP_PARAMETER_TEXT, 0, 0, NULL, NULL},
    {"draft_num_predict", SP_PARAMETER_INT, 0, 65536, NULL, NULL},
    {"num_thread", SP_PARAMETER_INT, 0, 256, NULL, NULL},
    {"num_gpu", SP_PARAMETER_INT, -1, INT_LIMIT, gpu, NULL},
    {"main_gpu", SP_PARAMETER_INT, -1, INT_LIMIT, gpu, NULL},
    {"num_batch", SP_PARAMETER_INT, 0, INT_LIMIT, mapped, NULL},
    {"num_keep", SP_PARAMETER_INT, -1, INT_LIMIT, "a full context ends the answer", NULL},
    {"use_mmap", SP_PARAMETER_BOOL, 0, 0, mapped, NULL},
    {"numa", SP_PARAMETER_BOOL, 0, 0, removed, NULL},
    {"num_gqa", SP_PARAMETER_INT, 0, INT_LIMIT, removed, NULL},
    {"use_mlock", SP_PARAMETER_BOOL, 0, 0, removed, NULL},
    {"low_vram", SP_PARAMETER_BOOL, 0, 0, removed, NULL},
    {"f16_kv", SP_PARAMETER_BOOL, 0, 0, removed, NULL},
    {"logits_all", SP_PARAMETER_BOOL, 0, 0, removed, NULL},
    {"vocab_only", SP_PARAMETER_BOOL, 0, 0, removed, NULL},
    {"penalize_newline", SP_PARAMETER_BOOL, 0, 0, removed, NULL},
    {"mirostat", SP_PARAMETER_INT, 0, 2, removed, NULL},
    {"mirostat_tau", SP_PARAMETER_FLOAT, 0, 100, removed, NULL},
    {"mirostat_eta", SP_PARAMETER_FLOAT, 0, 100, removed, NULL},
};

const struct sp_parameter *sp_parameters(size_t *n)
{
    *n = sizeof parameters / sizeof parameters[0];
    return parameters;
}

const struct sp_parameter *sp_parameter_find(const char *name)
{
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++)
        if (sp_equal_ignoring_case(parameters[i].name, name)) return &parameters[i];
    return NULL;
}

/* Only digits, sign, point, exponent: strtod alone would take hexadecimal, "nan", whitespace. */
static bool is_plain_number(const char *s)
{
    return *s && strspn(s, "+-.0123456789eE") == strlen(s);
}

/* 2^63 stands for the largest number below it. */
static int64_t integer_limit(double limit)
{
    return limit < 0x1p63 ? (int64_t)limit : INT64_MAX;
}

static enum sp_status wrong_value(const struct sp_parameter *parameter, const char *value,
                                  struct sp_err *err)
{
    if (*value == '\0') value = "\"\"";
    switch (parameter->type) {
    case SP_PARAMETER_INT:
        return sp_fail(err, SP_E_INPUT, "%s is %s, expected an integer %" PRId64 "..%" PRId64,
                       parameter->name, value, integer_limit(parameter->min),
                       integer_limit(parameter->max));
    case SP_PARAMETER_FLOAT:
        return sp_fail(err, SP_E_INPUT, "%s is %s, expected a number %.10g..%.10g", parameter->name,
                       value, parameter->min, parameter->max);
    case SP_PARAMETER_BOOL:
        return sp_fail(err, SP_E_INPUT, "%s is %s, expected true or false", parameter->name, value);
    case SP_PARAMETER_TEXT:
        break;
    }
    return sp_fail(err, SP_E_INPUT, "%s is empty", parameter->name);
}

enum sp_status sp_parameter_integer(int64_t *out, const struct sp_parameter *parameter,
                                    const char *value, struct sp_err *err)
{
    char *end;
    long long v;

    if (!is_plain_number(value)) return wrong_value(parameter, value, err);
    errno = 0;
    v = strtoll(value, &end, 10);
    if (errno || *end || (double)v < parameter->min || (double)v > parameter->max)
        return wrong_value(parameter, value, err);
    *out = v;
    return SP_OK;
}

enum sp_status sp_parameter_number(double *out, const struct sp_parameter *parameter,
                                   const char *value, struct sp_err *err)
{
    char *end;
    double v;

    if (!is_plain_number(value)) return wrong_value(parameter, value, err);
    v = sp_number_read(value, &end);
    if (*end || !isfinite(v) || v < parameter->min || v > parameter->max)
        return wrong_value(parameter, value, err);
    *out = v;
    return SP_OK;
}

enum sp_status sp_parameter_bool(bool *out, const struct sp_parameter *parameter, const char *value,
                                 struct sp_err *err)
{
    if (sp_equal_ignoring_case(value, "true") || sp_equal_ignoring_case(value, "t") ||
        strcmp(value, "1") == 0)
        *out = true;
    else if (sp_equal_ignoring_case(value, "false") || sp_equal_ignoring_case(value, "f") ||
             strcmp(value, "0") == 0)
        *out = false;
    else
        return wrong_value(parameter, value, err);
    return SP_OK;
}

static enum sp_status check_value(const struct sp_parameter *parameter, const char *value,
                                  struct sp_err *err)
{
    int64_t integer;
    double number;
    bool flag;

    switch (parameter->type) {
    case SP_PARAMETER_INT:
        return sp_parameter_integer(&integer, parameter, value, err);
    case SP_PARAMETER_FLOAT:
        return sp_parameter_number(&number, parameter, value, err);
    case SP_PARAMETER_BOOL:
        return sp_parameter_bool(&flag, parameter, value, err);
    case SP_PARAMETER_TEXT:
        break;
    }
    return *value ? SP_OK : wrong_value(parameter, value, err);
}

enum sp_status sp_parameter_of_json(char **out, const struct sp_parameter *parameter,
                                    const struct sp_json *value, struct sp_err *err)
{
    enum sp_status st;
    char *text = NULL, whole[24];
    size_t len;
    double number;
    const char *string = sp_json_to_string(value, &len);

    *out = NULL;
    if (value == NULL || sp_json_kind(value) == SP_JSON_NULL) return SP_OK;
    if (string && strlen(string) != len)
        return sp_fail(err, SP_E_INPUT, "%s contains a NUL", parameter->name);
    if (string)
        st = sp_copy_text(&text, string, len, err);
    else if (parameter->type == SP_PARAMETER_INT && sp_json_to_double(value, &number) &&
             fabs(number) < 0x1p53 && !(number > floor(number))) {
        snprintf(whole, sizeof whole, "%" PRId64, (int64_t)number);
        st = sp_copy_text(&text, whole, strlen(whole), err);
    } else
        st = sp_json_print(&text, value, err);
    if (!st && (st = check_value(parameter, text, err))) free(text);
    if (!st) *out = text;
    return st;
}

enum sp_status sp_parameter_of_generation(char **out, const struct sp_parameter *parameter,
                                          const struct sp_json *generation, char **warnings,
                                          struct sp_err *err)
{
    struct sp_parameter published = *parameter;
    const struct sp_json *value;
    struct sp_err unusable = {0};
    bool sample = false, greedy = strcmp(parameter->name, "repeat_penalty") == 0;
    enum sp_status st;

    *out = NULL;
    if ((st = sp_json_get_bool(generation, "do_sample", &sample, err))) return st;
    if (parameter->generation_key == NULL || !(sample || greedy)) return SP_OK;
    value = sp_json_get(generation, parameter->generation_key);
    published.name = parameter->generation_key; /* what a message calls it */
    if (value == NULL && strcmp(parameter->name, "temperature") == 0)
        return sp_copy_text(out, "1", 1, err);
    st = sp_parameter_of_json(out, &published, value, &unusable);
    if (st == SP_E_INPUT) {
        return sp_warn(warnings, err, "generation_config.json: %s; it has no effect",
                       unusable.text);
    }
    if (st) *err = unusable;
    return st;
}

/* What a check carries along. */
struct check {
    const struct sp_modelfile *file;
    void (*note)(void *context, const char *sentence);
    void *context;
};

SP_PRINTF(3, 4)
static void note(const struct check *c, const struct sp_modelfile_record *r, const char *format,
                 ...)
{
    char text[512], line[640];
    va_list args;

    if (c->note == NULL) return;
    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    snprintf(line, sizeof line, "%s:%lu: %s", c->file->path, r->line, text);
    c->note(c->context, line);
}

static enum sp_status check_parameter(const struct check *c, const struct sp_modelfile_record *r,
                                      struct sp_err *err)
{
    const struct sp_parameter *p = sp_parameter_find(r->name);
    struct sp_err inner = {0};
    const char *near = NULL;

    if (p == NULL) {
        for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++)
            near = sp_nearer(near, parameters[i].name, r->name);
        return sp_modelfile_fail(c->file, r->first, err, "unknown parameter %s%s%s%s", r->name,
                                 near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
    }
    if (check_value(p, r->value, &inner))
        return sp_modelfile_fail(c->file, r->value_first, err, "PARAMETER %s", inner.text);
    if (p->instead) note(c, r, "PARAMETER %s is stored without effect: %s", p->name, p->instead);
    return SP_OK;
}

/* [v]MAJOR[.MINOR[.PATCH[-anything]]] */
static bool is_version(const char *s)
{
    if (*s == 'v' || *s == 'V') s++;
    for (int part = 0; part < 3; part++) {
        size_t digits = strspn(s, "0123456789");
        if (digits == 0 || digits > 9) return false;
        s += digits;
        if (*s != '.') break;
        s++;
    }
    return *s == 0 || ((*s == '-' || *s == '+') && s[1]);
}

static enum sp_status check_record(const struct check *c, const struct sp_modelfile_record *r,
                                   struct sp_err *err)
{
    const char *name = sp_modelfile_command_name(r->command);

    switch (r->command) {
    case SP_MODELFILE_FROM:
    case SP_MODELFILE_DRAFT:
    case SP_MODELFILE_ADAPTER:
        if (r->value_size == 0)
            return sp_modelfile_fail(c->file, r->value_first, err, "%s is empty", name);
        if (strstr(r->value, " #")) note(c, r, "\" #\" is part of the path: comments begin a line");
        break;
    case SP_MODELFILE_PARAMETER:
        return check_parameter(c, r, err);
    case SP_MODELFILE_RENDERER:
        note(c, r,
             "RENDERER is stored without effect: the template of the Modelfile or of the "
             "model is used instead");
        break;
    case SP_MODELFILE_PARSER:
        note(c, r, "PARSER is stored without effect: answers are printed as they are");
        break;
    case SP_MODELFILE_REQUIRES:
        if (!is_version(r->value)) {
            return sp_modelfile_fail(c->file, r->value_first, err,
                                     "REQUIRES is %s, expected a version such as 1.2.3", r->value);
        }
        note(c, r, "REQUIRES is stored without effect: it names a version of ollama");
        break;
    case SP_MODELFILE_TEMPLATE:
    case SP_MODELFILE_SYSTEM:
    case SP_MODELFILE_MESSAGE:
    case SP_MODELFILE_LICENSE:
    case SP_N_MODELFILE_COMMANDS:
        break;
    }
    return SP_OK;
}

static bool is_text(const struct sp_modelfile_record *r, const char *name)
{
    return r->command == SP_MODELFILE_PARAMETER && strcmp(r->name, name) == 0;
}

/* Returns true if a record of this kind may be repeated. */
static bool accumulates(const struct sp_modelfile_record *r)
{
    return r->command == SP_MODELFILE_MESSAGE || r->command == SP_MODELFILE_LICENSE ||
           is_text(r, "stop") || is_text(r, "dry_sequence_breakers");
}

/* Each stop text is compared after every token, and each breaker with every token of the
 * vocabulary; their number is limited. */
static enum sp_status check_number(const struct check *c, const char *name, const char *what,
                                   struct sp_err *err)
{
    size_t n = 0;

    for (size_t i = 0; i < c->file->n_records; i++) {
        const struct sp_modelfile_record *r = &c->file->records[i];
        if (!is_text(r, name) || ++n <= SP_MODELFILE_MAX_STOPS) continue;
        return sp_modelfile_fail(c->file, r->first, err, "PARAMETER %s: more than %d %s", name,
                                 SP_MODELFILE_MAX_STOPS, what);
    }
    return SP_OK;
}

/* A repeated source is an error. Of other repeated records the last one counts, with a warning. */
static enum sp_status check_repeats(const struct check *c, struct sp_err *err)
{
    for (size_t i = 0; i < c->file->n_records; i++) {
        const struct sp_modelfile_record *r = &c->file->records[i];
        const struct sp_modelfile_record *last = sp_modelfile_find(
            c->file, r->command, r->command == SP_MODELFILE_PARAMETER ? r->name : NULL);
        const char *name = sp_modelfile_command_name(r->command);
        if (last == r || accumulates(r)) continue;
        if (sp_modelfile_names_source(r->command)) {
            return sp_modelfile_fail(c->file, last->first, err, "a second %s, after line %lu", name,
                                     r->line);
        }
        note(c, r, "%s%s%s is replaced by a later one", name, r->name ? " " : "",
             r->name ? r->name : "");
    }
    return SP_OK;
}

enum sp_status sp_modelfile_check(const struct sp_modelfile *file,
                                  void (*sink)(void *context, const char *sentence), void *context,
                                  struct sp_err *err)
{
    enum sp_status st;
    struct check c = {file, sink, context};

    for (size_t i = 0; i < file->n_records; i++)
        if ((st = check_record(&c, &file->records[i], err))) return st;
    if (sp_modelfile_find(file, SP_MODELFILE_FROM, NULL) == NULL)
        return sp_modelfile_fail(file, file->size, err, "no FROM line names the model to read");
    if ((st = check_number(&c, "stop", "stop texts", err))) return st;
    if ((st = check_number(&c, "dry_sequence_breakers", "sequence breakers", err))) return st;
    return check_repeats(&c, err);
}
