/* Commands of ollama, llama.cpp, mlx-lm and Hugging Face's hf that spectool does not have, and
 * options in place of a command. */
#ifndef SP_CLI_OTHER_TOOLS_H
#define SP_CLI_OTHER_TOOLS_H

/* Returns what to do here instead of another tool's command, static; NULL: none is known. */
const char *sp_other_tools_hint(const char *command);

#endif
