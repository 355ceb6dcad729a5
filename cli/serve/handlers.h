/* Handlers of requests that are answered at once, without the queue: lists, the state of the
 * server, tokens and embeddings. */
#ifndef SP_CLI_SERVE_HANDLERS_H
#define SP_CLI_SERVE_HANDLERS_H

#include "cli/serve/serve_exchange.h"

void sp_handle_root(struct sp_exchange *x);
void sp_handle_page(struct sp_exchange *x);
void sp_handle_health(struct sp_exchange *x);
void sp_handle_ready(struct sp_exchange *x);
void sp_handle_metrics(struct sp_exchange *x);
void sp_handle_props(struct sp_exchange *x);
void sp_handle_slots(struct sp_exchange *x);
void sp_handle_lora_adapters(struct sp_exchange *x);
void sp_handle_lora_scales(struct sp_exchange *x);
void sp_handle_openai_embeddings(struct sp_exchange *x);
void sp_handle_ollama_embed(struct sp_exchange *x);
void sp_handle_ollama_embeddings(struct sp_exchange *x);
void sp_handle_rerank(struct sp_exchange *x);
void sp_handle_tokenize(struct sp_exchange *x);
void sp_handle_detokenize(struct sp_exchange *x);
void sp_handle_apply_template(struct sp_exchange *x);
void sp_handle_version(struct sp_exchange *x);
void sp_handle_tags(struct sp_exchange *x);
void sp_handle_open_models(struct sp_exchange *x);
void sp_handle_show(struct sp_exchange *x);
void sp_handle_models(struct sp_exchange *x);
void sp_handle_model(struct sp_exchange *x);
void sp_handle_count_tokens(struct sp_exchange *x);
void sp_handle_missing(struct sp_exchange *x);

#endif
