/* The OpenAI API: what it asks (serve_openai.c), and how it is told an answer
 * (serve_openai_out.c). */
#ifndef SP_CLI_SERVE_OPENAI_H
#define SP_CLI_SERVE_OPENAI_H

#include "cli/serve.h"

enum sp_status sp_serve_openai_read_chat(struct sp_serve_ask *ask, const struct sp_serve *serve,
                                         struct sp_err *err);
enum sp_status sp_serve_openai_read_text(struct sp_serve_ask *ask, const struct sp_serve *serve,
                                         struct sp_err *err);

/* {"error": {"message": ...}} */
void sp_serve_openai_fail(struct sp_json_out *out, int status, const char *sentence);

#endif
