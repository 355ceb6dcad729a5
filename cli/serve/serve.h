/* The server: what it serves, and what its parts know of each other.
 *
 *   serve_http      connections          -> requests
 *   serve_routes    a request's path     -> who answers it
 *   serve_origin    a request's origin   -> whether anybody does
 *   serve_openai,   a request's JSON     -> struct sp_serve_request; and back, an answer's text ->
 * JSON serve_responses, serve_anthropic, serve_ollama serve_ask       what they share of that:
 * settings, stops, refusals; with serve_messages and serve_tools (conversations), serve_form,
 * serve_choice (which calls) serve_queue     asks wait their turn serve_prompt    an ask -> prompt
 *   serve_answer    an ask               -> prompt, session, text
 *   serve_sessions  a prompt             -> the session that has read the most of it
 *   serve_token     tokens one by one    -> log-probabilities
 *   serve_totals    answers' figures     -> those of the request, and the log's words
 *   said            a text               -> content, thoughts, calls of tools
 *   serve_model     what is served, as the APIs list it */
#ifndef SP_CLI_SERVE_SERVE_H
#define SP_CLI_SERVE_SERVE_H

#include "cli/base/json_out.h"
#include "cli/chat/message.h"
#include "cli/serve/serve_http.h"
#include "cli/serve/serve_model.h"
#include "cli/serve/serve_queue.h"
#include "cli/chat/session_pool.h"

#include <pthread.h>
#include <time.h>

struct sp_serve {
    struct sp_generation *generation;
    struct sp_serve_model model;
    struct sp_serve_queue *queue;
    struct sp_session_pool *sessions;
    pthread_mutex_t *reading;          /* by templates and the tokenizer: one prompt at a time */
    const char *version, *host, *cors; /* cors NULL: none */
    bool loopback;                     /* listens to this machine only */
    bool quiet;
};

/* One token, its bytes, and what else it could have been. */
struct sp_serve_alternative {
    uint32_t id;
    float logprob;
};
struct sp_serve_logprob {
    struct sp_serve_alternative chosen;
    char *bytes; /* [size], owned */
    size_t size;
    size_t at;                        /* where they begin, in bytes of the answer */
    struct sp_serve_alternative *top; /* [n_top], owned */
    size_t n_top;
};
void sp_serve_logprob_release(struct sp_serve_logprob *token);

/* An answer on its way into words of an API: `out` goes to the client when a call of the dialect
 * returns. */
struct sp_serve_response {
    const struct sp_serve *serve;
    const struct sp_serve_request *request;
    struct sp_json_out out;
    struct timespec began;                 /* the first answer of the request; wall clock */
    uint64_t number;                       /* of the request, from 1 */
    size_t answer;                         /* which of the request's this is, 0.. */
    double seconds;                        /* since it was asked */
    double waited;                         /* of these, before its turn */
    size_t n_prompt, n_reused;             /* its tokens; of these, those that are cached already */
    const struct sp_message *message;      /* so far, the piece at hand included; borrowed */
    const struct sp_serve_logprob *tokens; /* [n_tokens] those that go with the text; borrowed, */
    size_t n_tokens;
    const struct sp_serve_logprob *all_tokens; /* [n_all_tokens] as is: with those that were told */
    size_t n_all_tokens;
    size_t offset;                      /* characters of tokens that were told */
    const struct sp_serve_usage *usage; /* of all answers, when they are closed; borrowed, as is: */
    const struct sp_strbuf *wholes;     /* [n_answers] what was told of each */
    size_t n_answers;
    /* For APIs whose streams have them: */
    size_t n_events; /* that were told */
    size_t n_begun;  /* parts of what is said that were begun, */
    bool is_open;    /* the last one not ended */
};

/* How an API asks for text, and wants it. */
struct sp_serve_api {
    const char *stream_type; /* Content-Type */
    /* `ask` has the body and a copy of the settings. */
    enum sp_status (*read)(struct sp_serve_request *request, const struct sp_serve *serve,
                           struct sp_err *err);
    /* Streams: before the first piece, a piece, after the last one. */
    void (*begin)(struct sp_serve_response *response);
    void (*wait)(struct sp_serve_response *response); /* while the prompt is read; NULL: nothing */
    void (*piece)(struct sp_serve_response *response, const struct sp_chat_part *piece);
    void (*end)(struct sp_serve_response *response, const struct sp_result *result);
    /* Without streaming: everything, or what is told of one answer. */
    void (*whole)(struct sp_serve_response *response, const struct sp_result *result);
    /* Behind the last of all answers of a request: the end of the stream; without streaming
     * everything, from the `wholes`. Only an API with a `close` is asked for several answers. */
    void (*close)(struct sp_serve_response *response, const struct sp_result *last);
    /* A failure after the stream began. */
    void (*broken)(struct sp_serve_response *response, int status, const char *sentence);
    /* A failure as the whole answer. */
    void (*fail)(struct sp_json_out *out, int status, const char *sentence);
    const char *too_long; /* clients know a prompt that is too long by these words; NULL: by none */
};
extern const struct sp_serve_api sp_serve_anthropic;
extern const struct sp_serve_api sp_serve_openai_chat, sp_serve_openai_text;
extern const struct sp_serve_api sp_serve_responses;
extern const struct sp_serve_api sp_serve_ollama_chat, sp_serve_ollama_text;

/* Is it of another origin than the one that --cors names, or, where the server is this machine's
 * alone, sent to another name than its own? */
bool sp_serve_is_cross_origin(const struct sp_serve *serve, const struct sp_http_request *request);

/* Answers requests; context is the server. */
void sp_serve_handle(void *context, const struct sp_http_request *request,
                     struct sp_http_response *answer);
void sp_serve_log(void *context, const char *method, const char *path, int status,
                  const char *about);

/* The bytes that a token adds to a text, of a part of a character no UTF-8. *bytes owned by the
 * caller. */
SP_MUST_CHECK enum sp_status sp_serve_logprob_bytes(char **bytes, size_t *size,
                                                    const struct sp_package *package, uint32_t id);
SP_MUST_CHECK enum sp_status sp_serve_logprob_read(struct sp_serve_logprob *out,
                                                   const struct sp_package *package,
                                                   const struct sp_token *token);

/* Generates an answer of a job. For several threads at the same time. */
void sp_serve_job_run(const struct sp_serve *serve, struct sp_serve_job *job, size_t answer);

/* Was the answer cut off by a limit of its length, or of the context? */
bool sp_serve_is_truncated(const struct sp_result *result);

/* An id of the reply, another one for every request, with a prefix of a few letters that says of
 * what; returns `id`. */
enum { SP_SERVE_ID_SIZE = 64 };
const char *sp_serve_id(char id[SP_SERVE_ID_SIZE], const char *prefix,
                        const struct sp_serve_response *response);

/* The HTTP status of a failed request. */
int sp_serve_status_of(enum sp_status st);

#endif
