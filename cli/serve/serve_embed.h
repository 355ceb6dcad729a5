/* Embeddings in the formats of OpenAI's and ollama's APIs. They are computed in the thread of the
 * connection; the library lets them share the model with the answers that are generated. */
#ifndef SP_CLI_SERVE_SERVE_EMBED_H
#define SP_CLI_SERVE_SERVE_EMBED_H

#include "cli/serve/jobs/serve.h"

/* A request for embeddings, or for scores. */
struct sp_serve_embed {
    const struct sp_serve *serve;
    const struct sp_serve_request *request; /* its body and its model */
    const struct sp_http_connection *connection;
    double arrived_at; /* when the request arrived, seconds of sp_seconds */
    const char *code;  /* OpenAI's code of the error; NULL: none */
};

/* Each writes members of the response, whose object is open; after a failure they are useless. */
typedef enum sp_status sp_serve_embed_fn(struct sp_json_out *out, struct sp_serve_embed *embed,
                                         struct sp_err *err);

sp_serve_embed_fn sp_serve_openai_embeddings; /* POST /v1/embeddings */
sp_serve_embed_fn sp_serve_ollama_embed;      /* POST /api/embed */
sp_serve_embed_fn sp_serve_ollama_embeddings; /* POST /api/embeddings, its earlier form */
/* Reranking in the format of Jina's and Cohere's APIs, which llama-server and vLLM have, too: POST
 * /v1/rerank, /v1/reranking, /v2/rerank. */
sp_serve_embed_fn sp_serve_rerank;

/* ---- shared with reranking ---- */

/* The name that the response shows: that of the request, or of the model. */
const char *sp_serve_embed_model(const struct sp_serve_embed *embed);
/* A callback of the library: nonzero if the client has gone or the server shuts down. context: the
 * struct sp_serve_embed. */
int sp_serve_embed_is_abandoned(void *context, size_t done, size_t total);

#endif
