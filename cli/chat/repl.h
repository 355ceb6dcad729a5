/* The interactive session of `spectool run`. */
#ifndef SP_CLI_CHAT_REPL_H
#define SP_CLI_CHAT_REPL_H

#include "cli/chat/loaded_model.h"

/* Reads messages and commands from the terminal until /bye or the end of input. */
SP_MUST_CHECK enum sp_status sp_repl_run(struct sp_loaded_model *model, struct sp_err *err);

#endif
