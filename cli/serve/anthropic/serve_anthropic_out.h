/* Anthropic's Messages API: responses and errors. */
#ifndef SP_CLI_SERVE_ANTHROPIC_SERVE_ANTHROPIC_OUT_H
#define SP_CLI_SERVE_ANTHROPIC_SERVE_ANTHROPIC_OUT_H

#include "cli/serve/jobs/serve.h"

/* Writes {"type": "error", "error": {"type": ..., "message": ...}}. */
void sp_serve_anthropic_fail(struct sp_json_out *out, const struct sp_serve_failure *failure);

/* Writes the error (400) for a request with a `thread`, a conversation that the server would have
 * to store. Its code makes client libraries continue without a thread. */
void sp_serve_anthropic_refuse_thread(struct sp_json_out *out, const char *sentence);

#endif
