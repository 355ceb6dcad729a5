/* `create` and `quantize` with --size or --bits: the types that are chosen for the size are
 * measured against one type for all of the target, since a sum over sensitivities only predicts. */
#ifndef SP_CLI_CREATE_CHECK_H
#define SP_CLI_CREATE_CHECK_H

#include "convert/create/create.h"

/* As sp_create or, if `quantizes`, sp_requantize. With a budget, unless its no_check is set, both
 * choices are written to temporary files and run on the calibration's check, or without one on
 * built-in texts, as is the model with its stored types; report->check has the result, and the
 * better choice becomes the output. A model that makes no text, or has neither tokenizer nor check,
 * is not measured. `command`: for progress. */
SP_MUST_CHECK enum sp_status sp_create_checked(struct sp_create_report *report,
                                               const struct sp_create_options *options,
                                               bool quantizes, const char *command,
                                               struct sp_err *err);

#endif
