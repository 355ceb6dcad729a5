/* Checks a checkpoint's generation_config.json before it is packed, and returns the values that
 * `run` takes from it. */
#ifndef SP_CONVERT_SOURCE_GENERATION_CONFIG_H
#define SP_CONVERT_SOURCE_GENERATION_CONFIG_H

#include "convert/source/source.h"
#include "format/base/json.h"

/* Returns the value that `run` takes for a Modelfile parameter (such as "top_k"), as text. *out is
 * owned by the caller; it is NULL if the file does not set the parameter. The file's values count
 * only if it sets do_sample; do_sample alone means a temperature of 1, as in transformers. */
SP_MUST_CHECK enum sp_status sp_generation_value(char **out, const struct sp_json *generation,
                                                 const char *parameter, struct sp_err *err);

/* Returns SP_E_INPUT if the target's file has a value that `run` could not read. Unsupported keys
 * that would change the text are reported as warnings. */
SP_MUST_CHECK enum sp_status sp_generation_check(const struct sp_source *target, char **warnings,
                                                 struct sp_err *err);

#endif
