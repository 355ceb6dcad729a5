/* The objects that describe models in each API. The callers hold sp_serve_models_lock. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_MODEL_LIST_H
#define SP_CLI_SERVE_JOBS_SERVE_MODEL_LIST_H

#include "cli/serve/jobs/serve_model.h"
#include "format/base/json_write.h"

/* Write the list of GET /v1/models, and the entry of GET /v1/models/NAME. models: [n]; name: one of
 * the model's */
void sp_serve_model_list(struct sp_json_out *out, const struct sp_serve_model *models, size_t n);
void sp_serve_model_entry(struct sp_json_out *out, const struct sp_serve_model *model,
                          const char *name);
/* Write the list and the entry of models in the format of Anthropic's API. */
void sp_serve_model_anthropic_list(struct sp_json_out *out, const struct sp_serve_model *models,
                                   size_t n);
void sp_serve_model_anthropic_entry(struct sp_json_out *out, const struct sp_serve_model *model,
                                    const char *name);
/* Write the responses of ollama's GET /api/tags, /api/ps (the open models) and POST /api/show. */
void sp_serve_model_tags(struct sp_json_out *out, const struct sp_serve_model *models, size_t n);
void sp_serve_model_open_list(struct sp_json_out *out, const struct sp_serve_model *models,
                              size_t n);
void sp_serve_model_show(struct sp_json_out *out, const struct sp_serve_model *model);

/* The context length of a session; of a closed model, the longest one that it may get. */
size_t sp_serve_model_context(const struct sp_serve_model *model);

/* Writes a time as "2026-11-22T11:12:33.123456Z" and returns `text`. */
enum { SP_TIME_TEXT = 48 };
const char *sp_serve_time(char text[SP_TIME_TEXT], const struct timespec *at);

#endif
