/* Handlers of requests for text, whose answers the jobs of the queue generate. */
#ifndef SP_CLI_SERVE_SERVE_TEXT_H
#define SP_CLI_SERVE_SERVE_TEXT_H

#include "cli/serve/serve_exchange.h"

void sp_serve_answer_anthropic(struct sp_exchange *x);
void sp_serve_answer_openai_chat(struct sp_exchange *x);
void sp_serve_answer_openai_text(struct sp_exchange *x);
void sp_serve_answer_infill(struct sp_exchange *x);
void sp_serve_answer_openai_responses(struct sp_exchange *x);
void sp_serve_answer_ollama_chat(struct sp_exchange *x);
void sp_serve_answer_ollama_text(struct sp_exchange *x);

#endif
