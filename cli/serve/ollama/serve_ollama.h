/* The ollama API: its requests and responses. */
#ifndef SP_CLI_SERVE_OLLAMA_SERVE_OLLAMA_H
#define SP_CLI_SERVE_OLLAMA_SERVE_OLLAMA_H

#include "cli/serve/jobs/serve.h"

/* Writes {"error": "..."}. */
void sp_serve_ollama_fail(struct sp_json_out *out, const struct sp_serve_failure *failure);

/* Writes the response to a request without a prompt, by which ollama loads a model or, with
 * keep_alive 0, unloads it; it has no effect, since the model is always loaded. `chat`: the
 * request is one of /api/chat. Returns false and writes nothing if the request has a prompt. */
bool sp_serve_ollama_loads(struct sp_json_out *out, const struct sp_serve *serve,
                           const struct sp_json *body, bool chat);

#endif
