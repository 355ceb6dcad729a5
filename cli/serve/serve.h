/* The server: what it serves, an answer on its way to a client, and the functions of an API.
 *
 * cli/serve/README.md lists the sources from the connection to the answer. */
#ifndef SP_CLI_SERVE_SERVE_H
#define SP_CLI_SERVE_SERVE_H

#include "cli/base/json_out.h"
#include "cli/serve/serve_http.h"
#include "cli/serve/serve_logprobs.h"
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
    const struct sp_chat_answer *message;  /* so far, the piece at hand included; borrowed */
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

#endif
