/* Handlers of requests for text. A handler reads its request into a job and puts it into the queue;
 * the other half, which generates the answer, runs in a thread of jobs/serve_job.c. */
#ifndef SP_CLI_SERVE_HANDLERS_GENERATE_H
#define SP_CLI_SERVE_HANDLERS_GENERATE_H

#include "cli/serve/serve_exchange.h"

void sp_handle_anthropic(struct sp_exchange *x);
void sp_handle_openai_chat(struct sp_exchange *x);
void sp_handle_openai_text(struct sp_exchange *x);
void sp_handle_infill(struct sp_exchange *x);
void sp_handle_openai_responses(struct sp_exchange *x);
void sp_handle_ollama_chat(struct sp_exchange *x);
void sp_handle_ollama_text(struct sp_exchange *x);

#endif
