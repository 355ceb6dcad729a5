/* The ollama API: its requests and responses. */
#ifndef SP_CLI_SERVE_OLLAMA_SERVE_OLLAMA_H
#define SP_CLI_SERVE_OLLAMA_SERVE_OLLAMA_H

#include "cli/serve/jobs/serve.h"

/* True if the request has a prompt. Without one it loads the model or, with keep_alive 0, unloads
 * it. chat: the request is one of /api/chat. */
bool sp_serve_ollama_has_prompt(const struct sp_json *body, bool chat);
/* Writes the response to a request that has loaded or unloaded the model. */
void sp_serve_ollama_write_load(struct sp_json_out *out, const char *model, bool chat, bool loaded);

#endif
