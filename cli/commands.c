#include "cli/commands.h"

const struct sp_command *const sp_commands[] = {
    &sp_cmd_create,   &sp_cmd_quantize,    &sp_cmd_export, &sp_cmd_run,
    &sp_cmd_serve,    &sp_cmd_embed,       &sp_cmd_show,   &sp_cmd_verify,
    &sp_cmd_bench,    &sp_cmd_doctor,      &sp_cmd_eval,   &sp_cmd_calibrate,
    &sp_cmd_tokenize, &sp_cmd_detokenize,  &sp_cmd_render, &sp_cmd_logits,
    &sp_cmd_replay,   &sp_cmd_completions, NULL,
};
