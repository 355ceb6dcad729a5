/* The options of sampling by name, with their ranges. */
#include "format/base/number_text.h"
#include "format/modelfile/modelfile_check.h"
#include "runtime/sampling/logit_transforms.h"

#include <math.h>
#include <string.h>

#define AT(member) offsetof(struct sp_sampling, member)

/* The options by their names in a Modelfile, whose table has their types and ranges. */
static const struct {
    const char *name;
    size_t offset;
    bool is_integer; /* an int, otherwise a float */
} options[] = {
    {"temperature", AT(temperature), false},
    {"top_k", AT(top_k), true},
    {"top_p", AT(top_p), false},
    {"min_p", AT(min_p), false},
    {"typical_p", AT(typical_p), false},
    {"repeat_last_n", AT(repeat_last_n), true},
    {"repeat_penalty", AT(repeat_penalty), false},
    {"presence_penalty", AT(presence_penalty), false},
    {"frequency_penalty", AT(frequency_penalty), false},
    {"top_n_sigma", AT(top_n_sigma), false},
    {"xtc_probability", AT(xtc_probability), false},
    {"xtc_threshold", AT(xtc_threshold), false},
    {"dry_multiplier", AT(dry_multiplier), false},
    {"dry_base", AT(dry_base), false},
    {"dry_allowed_length", AT(dry_allowed_length), true},
    {"dry_penalty_last_n", AT(dry_penalty_last_n), true},
};

enum { N_OPTIONS = sizeof options / sizeof *options };

static double value_of(const struct sp_sampling *s, size_t i)
{
    const void *at = (const char *)s + options[i].offset;

    return options[i].is_integer ? *(const int *)at : (double)*(const float *)at;
}

enum sp_status sp_sampling_set(struct sp_sampling *s, const char *name, const char *value,
                               struct sp_err *err)
{
    const struct sp_parameter *parameter = sp_parameter_find(name);
    enum sp_status st = SP_OK;
    int64_t integer;
    double number;
    size_t i = 0;
    void *to;

    while (i < N_OPTIONS && (parameter == NULL || strcmp(options[i].name, parameter->name) != 0))
        i++;
    if (i == N_OPTIONS || options[i].offset + sizeof(int) > s->size)
        return sp_fail(err, SP_E_USAGE, "unknown sampling option %s", name);
    to = (char *)s + options[i].offset;
    if (parameter->type == SP_PARAMETER_INT) {
        if (!(st = sp_parameter_integer(&integer, parameter, value, err)))
            *(int *)to = (int)integer;
    } else if (!(st = sp_parameter_number(&number, parameter, value, err))) {
        *(float *)to = (float)number;
    }
    return st;
}

const char *sp_sampling_get(const struct sp_sampling *s, size_t i,
                            char value[SP_SAMPLING_VALUE_SIZE])
{
    int digits = i < N_OPTIONS && options[i].is_integer ? 10 : 6;
    double number, read;

    if (i >= N_OPTIONS || options[i].offset + sizeof(int) > s->size) return NULL;
    if (value == NULL) return options[i].name;
    number = value_of(s, i);
    do {
        sp_number_print(value, SP_SAMPLING_VALUE_SIZE, "%.*g", digits, number);
        read = (double)(float)sp_number_read(value, NULL);
    } while (++digits < 10 && (read < number || read > number));
    return options[i].name;
}

bool sp_sampling_same(const struct sp_sampling *a, const struct sp_sampling *b)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        double x = value_of(a, i), y = value_of(b, i);
        if (x < y || x > y) return false;
    }
    return true;
}

enum sp_status sp_sampling_check(const struct sp_sampling *s, size_t n_vocab, struct sp_err *err)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct sp_parameter *p = sp_parameter_find(options[i].name);
        double value = value_of(s, i);
        bool is_unused = options[i].offset == AT(dry_base) && !sp_dry_is_on(s);
        if (is_unused || (value >= (double)(float)p->min && value <= p->max)) continue;
        return sp_fail(err, SP_E_USAGE, "%s is %g, expected %g to %g", p->name, value,
                       (double)(float)p->min, p->max);
    }
    for (size_t i = 0; i < s->n_biases; i++) {
        if (s->biases[i].id >= n_vocab) {
            return sp_fail(err, SP_E_USAGE,
                           "logit_bias: token ID %u: the vocabulary has %zu tokens",
                           (unsigned)s->biases[i].id, n_vocab);
        }
        if (!isfinite(s->biases[i].bias)) {
            return sp_fail(err, SP_E_USAGE, "logit_bias of token %u is not a finite number",
                           (unsigned)s->biases[i].id);
        }
    }
    return SP_OK;
}
