/* The figures of `spectool eval` as tables and as JSON. */
#ifndef SP_CLI_EVAL_EVAL_PRINT_H
#define SP_CLI_EVAL_EVAL_PRINT_H

#include "cli/eval/eval.h"

SP_MUST_CHECK enum sp_status sp_eval_print(const struct sp_eval *eval, struct sp_err *err);
/* Prints an object for each file and, for two files, one for their difference, a line each. */
void sp_eval_print_json(const struct sp_eval *eval);

#endif
