/* Checks a checkpoint's generation_config.json before it is packed. */
#ifndef SP_CONVERT_SOURCE_GENERATION_CONFIG_H
#define SP_CONVERT_SOURCE_GENERATION_CONFIG_H

#include "convert/source/source.h"

/* Returns SP_E_INPUT if the target's file has a value that `run` could not read. Unsupported keys
 * that would change the text are reported as warnings. */
SP_MUST_CHECK enum sp_status sp_generation_check(const struct sp_source *target, char **warnings,
                                                 struct sp_err *err);

#endif
