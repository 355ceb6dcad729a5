/* The handlers of requests, which serve_routes.c finds by the path. */
#ifndef SP_CLI_SERVE_HANDLERS_H
#define SP_CLI_SERVE_HANDLERS_H

#include "cli/serve/serve_embed.h"
#include "cli/serve/serve_exchange.h"
#include "cli/serve/serve_inspect.h"

void sp_handle_root(struct sp_exchange *x);
void sp_handle_page(struct sp_exchange *x);
void sp_handle_health(struct sp_exchange *x);
void sp_handle_ready(struct sp_exchange *x);
void sp_handle_metrics(struct sp_exchange *x);
void sp_handle_props(struct sp_exchange *x);
void sp_handle_slots(struct sp_exchange *x);
void sp_handle_lora_adapters(struct sp_exchange *x);
void sp_handle_lora_scales(struct sp_exchange *x);
void sp_handle_version(struct sp_exchange *x);
void sp_handle_show(struct sp_exchange *x);
void sp_handle_models(struct sp_exchange *x);
void sp_handle_model(struct sp_exchange *x);
void sp_handle_count_tokens(struct sp_exchange *x);
void sp_handle_missing(struct sp_exchange *x);

/* Answer with members that a function makes of the body, with embeddings or scores, and with what a
 * function writes about all models; or with the function's error. */
void sp_handle_members(struct sp_exchange *x, sp_serve_members_fn *write);
void sp_handle_embed(struct sp_exchange *x, sp_serve_embed_fn *fn);
void sp_handle_list(struct sp_exchange *x, sp_serve_list_fn *write);

/* ---- requests for text, which the queue answers (handlers_generate.c) ----
 *
 * A handler reads its request into a job and puts it into the queue; the other half, which
 * generates the answer, runs in a thread of jobs/serve_job.c. */
void sp_handle_text(struct sp_exchange *x, const struct sp_serve_api *api);
void sp_handle_anthropic(struct sp_exchange *x);
void sp_handle_ollama_chat(struct sp_exchange *x);
void sp_handle_ollama_text(struct sp_exchange *x);

#endif
