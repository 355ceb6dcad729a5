/* The ollama API: what it asks, and how it is told an answer. */
#ifndef SP_CLI_SERVE_SERVE_OLLAMA_H
#define SP_CLI_SERVE_SERVE_OLLAMA_H

#include "cli/serve/serve.h"

/* {"error": "..."} */
void sp_serve_ollama_fail(struct sp_json_out *out, int status, const char *sentence);

/* A request without a prompt asks that the model be loaded, or with keep_alive 0 that it be
 * dropped: it is there all the time. `chat`: of /api/chat. False: there is a prompt. */
bool sp_serve_ollama_loads(struct sp_json_out *out, const struct sp_serve *serve,
                           const struct sp_json *body, bool chat);

#endif
