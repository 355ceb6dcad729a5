/* Reranking in the format of Jina's and Cohere's APIs, which llama-server and vLLM have, too. */
#ifndef SP_CLI_SERVE_SERVE_RERANK_H
#define SP_CLI_SERVE_SERVE_RERANK_H

#include "cli/serve/serve_embed.h"

sp_serve_embed_fn sp_serve_rerank; /* POST /v1/rerank, /v1/reranking, /v2/rerank */

#endif
