/* The figures of `spectool eval` as tables and as JSON. */
#ifndef SP_CLI_EVAL_PRINT_H
#define SP_CLI_EVAL_PRINT_H

#include "cli/eval.h"

void sp_eval_print(const struct sp_eval *eval);
void sp_eval_print_json(const struct sp_eval *eval);

#endif
