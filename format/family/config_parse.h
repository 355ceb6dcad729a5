/* A config.json becomes a struct sp_config: the family table says which row it is read with, and
 * the readers (format/config/config_readers.h) read it. */
#ifndef SP_FORMAT_FAMILY_CONFIG_PARSE_H
#define SP_FORMAT_FAMILY_CONFIG_PARSE_H

#include "format/config/config.h"

/* Reads the text of a config.json. On failure *out is zeroed. If `warnings` is not NULL, warnings
 * about keys that are ignored are appended to it, one sentence per line; *warnings is NULL or a
 * string, owned by the caller.
 *
 * Members that depend on the tensors are preliminary until sp_config_settle: `tied` is what the
 * config states, a draft borrows its tables, n_taps is 0 if the config lists no taps, and the
 * config of a built-in prediction head is that of the whole model. */
SP_MUST_CHECK enum sp_status sp_config_parse(struct sp_config *out, const char *json, size_t size,
                                             char **warnings, struct sp_err *err);

/* True if the model has a classification head in place of an output matrix. */
bool sp_config_is_classifier(const struct sp_config *config);

#endif
