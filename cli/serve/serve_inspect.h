/* Endpoints of llama-server that show the tokenizer, the template and the state of the server. */
#ifndef SP_CLI_SERVE_SERVE_INSPECT_H
#define SP_CLI_SERVE_SERVE_INSPECT_H

#include "cli/serve/jobs/serve.h"

/* Writes members of the response, whose object is open. The request has its model and its body. */
typedef enum sp_status sp_serve_members_fn(struct sp_json_out *out, const struct sp_serve *serve,
                                           struct sp_serve_request *request, struct sp_err *err);

sp_serve_members_fn sp_serve_tokenize;       /* POST /tokenize: `content` as token ids */
sp_serve_members_fn sp_serve_detokenize;     /* POST /detokenize: the text of `tokens` */
sp_serve_members_fn sp_serve_apply_template; /* POST /apply-template: a chat completion's prompt */

/* GET /props: the settings of requests that set none, and the template of an open model. */
void sp_serve_props(struct sp_json_out *out, const struct sp_serve *serve,
                    const struct sp_serve_model *model);

/* GET /slots: writes an array of the sessions. Returns the number of those that are free. */
size_t sp_serve_slots(struct sp_json_out *out, const struct sp_serve *serve,
                      struct sp_serve_model *model);

#endif
