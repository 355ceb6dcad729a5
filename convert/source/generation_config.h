/* generation_config.json of a checkpoint: which of its values `run` takes, and their check before
 * anything is packed. */
#ifndef SP_CONVERT_SOURCE_GENERATION_CONFIG_H
#define SP_CONVERT_SOURCE_GENERATION_CONFIG_H

#include "convert/source/source.h"
#include "format/base/json.h"

/* The value that `run` takes for a Modelfile parameter ("top_k"), as text; *out owned by the
 * caller, NULL: the file says nothing about it. Its values count only where it says do_sample,
 * which alone means a temperature of 1, as in transformers. */
SP_MUST_CHECK enum sp_status sp_generation_value(char **out, const struct sp_json *generation,
                                                 const char *parameter, struct sp_err *err);

/* SP_E_INPUT where the target's file holds what `run` could not read. Keys that would change the
 * text and that nothing here reads are noted. */
SP_MUST_CHECK enum sp_status sp_generation_check(const struct sp_source *target, char **warnings,
                                                 struct sp_err *err);

#endif
