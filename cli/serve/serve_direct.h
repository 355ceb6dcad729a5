/* Handlers of requests that are answered at once, without the queue: lists, the state of the
 * server, tokens and embeddings. */
#ifndef SP_CLI_SERVE_SERVE_DIRECT_H
#define SP_CLI_SERVE_SERVE_DIRECT_H

#include "cli/serve/serve_exchange.h"

void sp_serve_answer_root(struct sp_exchange *x);
void sp_serve_answer_page(struct sp_exchange *x);
void sp_serve_answer_health(struct sp_exchange *x);
void sp_serve_answer_ready(struct sp_exchange *x);
void sp_serve_answer_metrics(struct sp_exchange *x);
void sp_serve_answer_props(struct sp_exchange *x);
void sp_serve_answer_slots(struct sp_exchange *x);
void sp_serve_answer_lora_adapters(struct sp_exchange *x);
void sp_serve_answer_lora_scales(struct sp_exchange *x);
void sp_serve_answer_openai_embeddings(struct sp_exchange *x);
void sp_serve_answer_ollama_embed(struct sp_exchange *x);
void sp_serve_answer_ollama_embeddings(struct sp_exchange *x);
void sp_serve_answer_rerank(struct sp_exchange *x);
void sp_serve_answer_tokenize(struct sp_exchange *x);
void sp_serve_answer_detokenize(struct sp_exchange *x);
void sp_serve_answer_apply_template(struct sp_exchange *x);
void sp_serve_answer_version(struct sp_exchange *x);
void sp_serve_answer_tags(struct sp_exchange *x);
void sp_serve_answer_open_models(struct sp_exchange *x);
void sp_serve_answer_show(struct sp_exchange *x);
void sp_serve_answer_models(struct sp_exchange *x);
void sp_serve_answer_model(struct sp_exchange *x);
void sp_serve_answer_count_tokens(struct sp_exchange *x);
void sp_serve_answer_missing(struct sp_exchange *x);

#endif
