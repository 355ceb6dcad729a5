/* The slash commands of an interactive session. */
#ifndef SP_CLI_CHAT_REPL_COMMANDS_H
#define SP_CLI_CHAT_REPL_COMMANDS_H

#include "cli/chat/repl.h"

/* Runs the command of a line, which begins with a slash and is overwritten. False: the end. */
bool sp_repl_run_command(struct sp_repl *repl, char *line);

/* Makes Tab complete commands, the words after /set and /show, and the names of saved sessions. */
void sp_repl_list_completions(struct sp_repl *repl);
void sp_repl_release_completions(struct sp_repl_completions *completions);

#endif
