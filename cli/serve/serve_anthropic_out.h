/* Anthropic's Messages API: answers and errors. */
#ifndef SP_CLI_SERVE_SERVE_ANTHROPIC_OUT_H
#define SP_CLI_SERVE_SERVE_ANTHROPIC_OUT_H

#include "cli/serve/serve.h"

/* {"type": "error", "error": {"type": ..., "message": ...}} */
void sp_serve_anthropic_fail(struct sp_json_out *out, int status, const char *sentence);

/* The error (400) of a request with a `thread`, a conversation that the server keeps: with the code
 * that tells client libraries to go on without. */
void sp_serve_anthropic_refuse_thread(struct sp_json_out *out, const char *sentence);

#endif
