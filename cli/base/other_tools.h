/* Commands and options of other tools (ollama, llama.cpp, mlx-lm, hf), which users try here: what
 * they are called, or what to do instead. */
#ifndef SP_CLI_BASE_OTHER_TOOLS_H
#define SP_CLI_BASE_OTHER_TOOLS_H

#include "cli/base/opt.h"

/* Finds an option of another tool, without its dashes, or "", which is an operand that the command
 * does not take. *ours = the name of the command's option that means the same, "" if an operand
 * does; or *hint = what to know or do instead; both static, NULL if not. */
void sp_other_option_find(const char **ours, const char **hint, const struct sp_command *command,
                          const char *name);

/* Returns what to do here instead of another tool's command, or of an option in place of a command;
 * static; NULL: none is known. */
const char *sp_other_tools_hint(const char *command);

#endif
