/* The commands, each defined as a row in its cmd_*.c. */
#ifndef SP_CLI_COMMANDS_H
#define SP_CLI_COMMANDS_H

#include "cli/base/opt.h"

/* Summary of the command `help`, which main.c handles itself. */
#define SP_HELP_SUMMARY "Describe a command"

/* The quantization types for option tables, such as that of --quantize. */
extern const char *const sp_cmd_types[];

extern const struct sp_command sp_cmd_bench;
extern const struct sp_command sp_cmd_completions;
extern const struct sp_command sp_cmd_create;
extern const struct sp_command sp_cmd_detokenize;
extern const struct sp_command sp_cmd_calibrate;
extern const struct sp_command sp_cmd_embed;
extern const struct sp_command sp_cmd_eval;
extern const struct sp_command sp_cmd_logits;
extern const struct sp_command sp_cmd_quantize;
extern const struct sp_command sp_cmd_export;
extern const struct sp_command sp_cmd_render;
extern const struct sp_command sp_cmd_replay;
extern const struct sp_command sp_cmd_run;
extern const struct sp_command sp_cmd_serve;
extern const struct sp_command sp_cmd_doctor;
extern const struct sp_command sp_cmd_show;
extern const struct sp_command sp_cmd_tokenize;
extern const struct sp_command sp_cmd_verify;

/* All commands in the order of `spectool help`; ends with NULL. */
extern const struct sp_command *const sp_commands[];

#endif
