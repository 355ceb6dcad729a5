/* The handlers of requests, which serve_routes.c finds by the path. */
#ifndef SP_CLI_SERVE_HANDLERS_H
#define SP_CLI_SERVE_HANDLERS_H

#include "cli/serve/http/serve_http.h"
#include "cli/serve/jobs/serve.h"
#include "format/json/json.h"

#include <stdatomic.h>

/* Reads the JSON of a request within the memory budget of all requests, and finds out which of its
 * members nobody read: they are removed, so that they take no memory while the request waits and is
 * answered, and reported to the client. */

enum { SP_SERVE_IGNORED_TEXT = 256 };

/* The JSON of a request. Valid when zeroed. */
struct sp_serve_body {
    struct sp_json *json;           /* an object; owned */
    struct sp_serve_budget *budget; /* that n_charged bytes were taken from; borrowed */
    atomic_size_t n_charged;
    size_t n_tree;               /* the part of n_charged for `json` */
    struct sp_json_marks *marks; /* of `json` and of its `options` while they are read; owned */
};

/* Parses a body, whose text has been taken from the budget. Returns 0, or the HTTP status of the
 * error in `err`: 400, 500, or 503 where the budget does not suffice now. */
int sp_serve_body_read(struct sp_serve_body *out, struct sp_serve_budget *budget, const char *text,
                       size_t size, struct sp_err *err);
/* Takes more memory for the struct sp_serve_body `body` until it is released: take_memory of a
 * request. [any thread] */
SP_MUST_CHECK enum sp_status sp_serve_body_take(void *body, size_t size, struct sp_err *err);
/* Ends the reading of `json`, which is or was that of the body. Removes the members that were not
 * read and writes their names to `ignored`, except those that are null, with ", " between: bytes
 * that a header cannot have become '?', and what does not fit is replaced by "...". */
void sp_serve_body_settle(struct sp_serve_body *body, struct sp_json *json,
                          char ignored[SP_SERVE_IGNORED_TEXT]);
void sp_serve_body_release(struct sp_serve_body *body);

/* ---- requests (serve_exchange.c) ----
 *
 * A request whose response is being made: its body and model, and responses that are an error. */

struct sp_exchange {
    const struct sp_serve *serve;
    const struct sp_http_request *request;
    struct sp_http_response *answer;
    const char *path;              /* path of the request, with its version */
    double arrived_at;             /* seconds of sp_seconds */
    struct sp_serve_body body;     /* of a request that has been read */
    struct sp_serve_model *model;  /* that the request names; NULL: not known yet */
    double keep_alive;             /* seconds that the model stays open after the request */
    bool is_acquired;              /* the model is kept open for this request */
    struct sp_json_out out;        /* body of the response while it is written */
    struct sp_serve_request asked; /* read by the thread of the connection, with its model */
};

extern const char sp_exchange_json_type[]; /* the media type of JSON */

/* Makes what was written to x->out the body of the response. */
void sp_exchange_close_body(struct sp_exchange *x, int status);

/* True for requests with the header that all clients of Anthropic's API send, also to paths that
 * OpenAI's API has too. */
bool sp_exchange_is_anthropic(const struct sp_exchange *x);

/* Adds a text to the log line of a request: a member of its object, or the text alone. */
void sp_exchange_add_to_log(struct sp_strbuf *line, const struct sp_serve *serve, const char *key,
                            const char *value);

/* Writes an error in the format of the requested API, and to the log. `code`: of OpenAI's API;
 * NULL: none. Status 503 means that the request could succeed later. */
void sp_exchange_refuse_as(struct sp_exchange *x, int status, const char *code,
                           const char *sentence);
/* Writes such an error of a member of the request. */
void sp_exchange_refuse_with(struct sp_exchange *x, const struct sp_serve_failure *failure);
/* Writes an error without a code. */
void sp_exchange_refuse(struct sp_exchange *x, int status, const char *sentence);

/* Sets x->model to the model of a name. A request without a name means the only model. Returns
 * false if an error was written. */
bool sp_exchange_find_model(struct sp_exchange *x, const char *name);

/* Returns the JSON of a request for a model, owned by x->body, and sets x->model and x->keep_alive;
 * NULL: an error was written. */
const struct sp_json *sp_exchange_read_body(struct sp_exchange *x);

/* Opens x->model and keeps it open until the end of the request; false: an error was written. */
bool sp_exchange_open_model(struct sp_exchange *x);

/* ---- requests that the thread of the connection answers ---- */

/* Each writes members of the response, whose object is open; after a failure they are useless. */
typedef enum sp_status sp_serve_members_fn(struct sp_json_out *out, struct sp_exchange *x,
                                           struct sp_err *err);

/* Embeddings in the formats of OpenAI's and ollama's APIs (serve_embed.c). The library lets them
 * share the model with the answers that are generated. */
sp_serve_members_fn sp_serve_openai_embeddings; /* POST /v1/embeddings */
sp_serve_members_fn sp_serve_ollama_embed;      /* POST /api/embed */
sp_serve_members_fn sp_serve_ollama_embeddings; /* POST /api/embeddings, its earlier form */
/* Reranking in the format of Jina's and Cohere's APIs, which llama-server and vLLM have, too: POST
 * /v1/rerank, /v1/reranking, /v2/rerank (serve_rerank.c). */
sp_serve_members_fn sp_serve_rerank;

/* A callback of the library: nonzero if the client has gone or the server shuts down. context: the
 * struct sp_exchange. */
int sp_serve_embed_is_abandoned(void *context, size_t done, size_t total);

/* POST /v1/messages/count_tokens: the number of tokens of a conversation's prompt. */
sp_serve_members_fn sp_serve_count_tokens;

/* Endpoints of llama-server that show the tokenizer, the template and the state of the server
 * (serve_inspect.c). */
sp_serve_members_fn sp_serve_tokenize;       /* POST /tokenize: `content` as token ids */
sp_serve_members_fn sp_serve_detokenize;     /* POST /detokenize: the text of `tokens` */
sp_serve_members_fn sp_serve_apply_template; /* POST /apply-template: a chat completion's prompt */

/* ---- requests for text, which the queue answers (handlers_generate.c) ----
 *
 * A handler reads its request into a job and puts it into the queue; the other half, which
 * generates the answer, runs in a thread of jobs/serve_job.c. */
void sp_handle_text(struct sp_exchange *x, const struct sp_serve_api *api);

/* ---- paths of the APIs (serve_routes.c) ---- */

/* `context` of both functions is the struct sp_serve. [any thread] */

/* True if the request has a key that the server accepts, or needs none. */
bool sp_serve_admits(void *context, const char *path, const struct sp_http_connection *connection);

/* Handles a request. */
void sp_serve_handle(void *context, const struct sp_http_request *request,
                     struct sp_http_response *answer);

/* ---- origins that may use the server (serve_origin.c) ---- */

/* Checks the value of --cors: *, or origins (SCHEME://HOST[:PORT]) between commas; SP_E_USAGE. */
SP_MUST_CHECK enum sp_status sp_serve_cors_check(const char *origins, struct sp_err *err);

/* The origin that a response to this request allows: *, or the request's own if --cors names it;
 * NULL: none. Borrowed from the request or static. */
const char *sp_serve_allowed_origin(const struct sp_serve *serve,
                                    const struct sp_http_request *request);

/* Returns why a request is refused, static; NULL: it is not. It is refused if its origin is neither
 * the server's own nor one that --cors names, and on the loopback interface also if its Host is
 * neither this machine nor the host of such an origin. */
const char *sp_serve_check_origin(const struct sp_serve *serve,
                                  const struct sp_http_request *request);

/* ---- the page (page/) ----
 *
 * The page for browsers: the files of cli/serve/page/, which CMake turns into arrays. */

struct sp_page_file {
    const char *path; /* of the URL; all of these are static */
    const char *type; /* media type */
    const char *text; /* [size] */
    size_t size;
};

extern const struct sp_page_file sp_page_files[];
extern const size_t sp_n_page_files;

#endif
