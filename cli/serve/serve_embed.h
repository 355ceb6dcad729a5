/* Embeddings in the formats of OpenAI's and ollama's APIs. They are computed in the thread of the
 * connection; the library lets them share the model with the answers that are generated. */
#ifndef SP_CLI_SERVE_SERVE_EMBED_H
#define SP_CLI_SERVE_SERVE_EMBED_H

#include "cli/serve/jobs/serve.h"

/* A request for embeddings. */
struct sp_serve_embed {
    const struct sp_serve *serve;
    const struct sp_serve_request *request; /* its body and its model */
    const struct sp_http_connection *connection;
    const char *code; /* OpenAI's code of the error; NULL: none */
};

/* Each writes the members of the response, whose object is open. After a failure nothing useful has
 * been written. */
typedef enum sp_status sp_serve_embed_fn(struct sp_json_out *out, struct sp_serve_embed *embed,
                                         struct sp_err *err);

sp_serve_embed_fn sp_serve_openai_embeddings; /* POST /v1/embeddings */
sp_serve_embed_fn sp_serve_ollama_embed;      /* POST /api/embed */
sp_serve_embed_fn sp_serve_ollama_embeddings; /* POST /api/embeddings, its earlier form */

#endif
