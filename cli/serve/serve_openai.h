/* The OpenAI API: what it asks (serve_openai.c), and how it is told an answer
 * (serve_openai_out.c). What its Responses API shares with it stands here, too. */
#ifndef SP_CLI_SERVE_SERVE_OPENAI_H
#define SP_CLI_SERVE_SERVE_OPENAI_H

#include "cli/serve/serve.h"
#include "cli/serve/serve_logprobs.h"

enum sp_status sp_serve_openai_read_chat(struct sp_serve_request *request,
                                         const struct sp_serve *serve, struct sp_err *err);
enum sp_status sp_serve_openai_read_text(struct sp_serve_request *request,
                                         const struct sp_serve *serve, struct sp_err *err);

/* ---- shared by its APIs ---- */

/* How to sample, and the length of the answer, by the members of `limits`, which are not 0. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_settings(struct sp_serve_request *request,
                                                           const struct sp_request_setting *limits,
                                                           struct sp_err *err);
/* The body's chat_template_kwargs. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_kwargs(struct sp_serve_request *request,
                                                         struct sp_err *err);
/* A level of thinking, the member `key`. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_effort(struct sp_serve_request *request,
                                                         const struct sp_json *object,
                                                         const char *key, struct sp_err *err);
/* There is a template for conversations. */
SP_MUST_CHECK enum sp_status sp_serve_openai_check_template(const struct sp_serve *serve,
                                                            struct sp_err *err);

#endif
