/* The records of a Modelfile that spectool accepts, and the table of parameters. */
#ifndef SP_FORMAT_MODELFILE_MODELFILE_CHECK_H
#define SP_FORMAT_MODELFILE_MODELFILE_CHECK_H

#include "format/json/json.h"
#include "format/modelfile/modelfile.h"

/* Checks the rules of `create`: exactly one FROM, at most one DRAFT and one ADAPTER, known
 * parameters with values of their type and range, and those of the other records. `note` (may be
 * NULL) gets one sentence for each record that has no effect or is probably not meant. */
SP_MUST_CHECK enum sp_status sp_modelfile_check(const struct sp_modelfile *file,
                                                void (*note)(void *context, const char *sentence),
                                                void *context, struct sp_err *err);

/* A parameter that a Modelfile may set. */
struct sp_parameter {
    const char *name;
    enum sp_parameter_type type;
    double min, max;            /* inclusive, of numbers */
    const char *instead;        /* NULL: it is honoured; else why it has no effect here; static */
    const char *generation_key; /* its name in generation_config.json; NULL: it has none there */
};

/* The parameters, *n rows; static. */
const struct sp_parameter *sp_parameters(size_t *n);
/* The parameter of this name, in any case; NULL: there is none. */
const struct sp_parameter *sp_parameter_find(const char *name);

/* A value of a JSON file as the text that a Modelfile has for it; *out is owned by the caller and
 * is NULL for null. 4096.0 is 4096. SP_E_INPUT names a value that the parameter cannot have. */
SP_MUST_CHECK enum sp_status sp_parameter_of_json(char **out, const struct sp_parameter *parameter,
                                                  const struct sp_json *value, struct sp_err *err);

/* The value of the parameter in a checkpoint's generation_config.json, as text. *out is owned by
 * the caller; it is NULL if the file does not set the parameter, or with a value that it cannot
 * have, which *warnings (see sp_warn) then names. As in
 * transformers, the file's values count only if it sets do_sample, except for the penalty, which
 * greedy decoding obeys, too; do_sample alone means a temperature of 1. */
SP_MUST_CHECK enum sp_status sp_parameter_of_generation(char **out,
                                                        const struct sp_parameter *parameter,
                                                        const struct sp_json *generation,
                                                        char **warnings, struct sp_err *err);

/* A value as its parameter's type. SP_E_INPUT names parameter, value and what was expected. */
SP_MUST_CHECK enum sp_status sp_parameter_integer(int64_t *out,
                                                  const struct sp_parameter *parameter,
                                                  const char *value, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_parameter_number(double *out, const struct sp_parameter *parameter,
                                                 const char *value, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_parameter_bool(bool *out, const struct sp_parameter *parameter,
                                               const char *value, struct sp_err *err);

#endif
