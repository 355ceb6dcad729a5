/* OpenAI's chat and completions APIs: responses and errors. */
#ifndef SP_CLI_SERVE_OPENAI_SERVE_OPENAI_OUT_H
#define SP_CLI_SERVE_OPENAI_SERVE_OPENAI_OUT_H

#include "cli/serve/jobs/serve.h"

/* Writes {"error": {"message": ...}}. */
void sp_serve_openai_fail(struct sp_json_out *out, const struct sp_serve_failure *failure);

/* Writes "timings" as llama-server does: prompt_n counts the tokens that were not cached. */
void sp_serve_openai_write_timings(struct sp_json_out *out, const struct sp_result *result);

#endif
