/* The objects that describe models in each API. The callers hold sp_serve_models_lock. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_MODEL_LIST_H
#define SP_CLI_SERVE_JOBS_SERVE_MODEL_LIST_H

#include "cli/serve/jobs/serve_model.h"
#include "format/json/json_write.h"

/* A list of n models: of GET /v1/models, of Anthropic's API, of ollama's GET /api/tags and, of the
 * open ones, of GET /api/ps. */
typedef void sp_serve_list_fn(struct sp_json_out *out, const struct sp_serve_model *models,
                              size_t n);
sp_serve_list_fn sp_serve_model_list, sp_serve_model_anthropic_list, sp_serve_model_tags,
    sp_serve_model_open_list;
/* The entries of GET /v1/models/NAME, and ollama's POST /api/show. name: one of the model's */
void sp_serve_model_entry(struct sp_json_out *out, const struct sp_serve_model *model,
                          const char *name);
void sp_serve_model_anthropic_entry(struct sp_json_out *out, const struct sp_serve_model *model,
                                    const char *name);
void sp_serve_model_show(struct sp_json_out *out, const struct sp_serve_model *model);

/* The context length of a session; of a closed model, the longest one that it may get. */
size_t sp_serve_model_context(const struct sp_serve_model *model);

/* Writes a time as "2026-11-22T11:12:33.123456Z" and returns `text`. */
enum { SP_TIME_TEXT = 48 };
const char *sp_serve_time(char text[SP_TIME_TEXT], const struct timespec *at);

#endif
