/* Adapters by number and scale, as llama-server has them: the number of an adapter is its place on
 * the command line. A request for an adapter by its name needs none of this. */
#ifndef SP_CLI_SERVE_OPENAI_SERVE_LORA_H
#define SP_CLI_SERVE_OPENAI_SERVE_LORA_H

#include "cli/serve/request/serve_request.h"
#include "format/base/json_write.h"

/* Reads the member `lora`, [{"id", "scale"}], of which one scale may differ from 0. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_lora(struct sp_serve_request *request,
                                                       struct sp_err *err);

/* GET /lora-adapters: writes an array of the adapters of a model. Their scale is 0, because a
 * request that names none is answered without. */
void sp_serve_lora_list(struct sp_json_out *out, const struct sp_serve_model *model);

#endif
