/* The state of the server, the state of one answer that is being sent, and the functions that each
 * API provides.
 *
 * cli/serve/README.md lists the sources in the order in which a request passes through them. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_H
#define SP_CLI_SERVE_JOBS_SERVE_H

#include "cli/serve/request/serve_request.h"
#include "cli/serve/http/serve_http.h"
#include "cli/serve/jobs/serve_model.h"
#include "format/json/json_write.h"
#include "runtime/spectool.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

/* ---- the queue (serve_queue.c) ----
 *
 * The queue of requests for text. The answers of the waiting requests are taken in turn, one of
 * each request, so that a request for many answers does not delay the others.
 *
 * The connection's thread adds a job and reads its output; a generating thread takes the job and
 * writes the output. One lock protects what several threads use. */

/* Numbers of tokens of all answers to a request. The tokens of a prompt are counted once. */
struct sp_serve_usage {
    size_t n_prompt, n_reused, n_ids, n_reasoning, drafted, accepted;
    double prompt_seconds, generation_seconds; /* sums of all answers */
    size_t n_repeating; /* answers that repeat their last tokens without end */
    size_t period;      /* number of tokens that the last of these repeats; 0: none does */
};

/* Adds the tokens of an answer; `first`: it is the first one to its prompt. period: the number of
 * tokens that it repeats without end; 0: it does not. */
void sp_serve_usage_add(struct sp_serve_usage *usage, const struct sp_result *result,
                        const struct sp_chat_answer *message, bool first, size_t period);

struct sp_serve_api;
struct sp_http_connection;

/* A request for one or more answers. Each answer is scheduled by itself, and several may be
 * generated at the same time. */
struct sp_serve_job {
    struct sp_serve_request request;
    const struct sp_serve_api *api;
    const struct sp_http_connection *connection; /* the client's; borrowed; NULL: none */
    double arrived_at; /* when the request arrived, seconds of sp_seconds */
    double polled_at;  /* when the connection was last polled, same clock */
    size_t n_answers;
    /* kept open until the answers have ended, then NULL */
    struct sp_serve_model *model;
    /* [n_answers] output of each answer, written by its thread; owned with the texts; NULL where
     * the API does not combine answers */
    struct sp_strbuf *answers;
    pthread_cond_t changed; /* signalled when a field below changes; from put to leave */
    /* The following fields are protected by the queue's lock. */
    bool is_queued;                      /* some of its answers have not been taken yet */
    size_t n_taken, n_running, n_done;   /* numbers of answers */
    struct sp_serve_usage usage;         /* usage of the answers that are done */
    uint64_t number;                     /* number of the job in the order of starting, from 1 */
    struct timespec began;               /* start of the first answer, wall clock; set once */
    char changes[SP_SERVE_CHANGES_TEXT]; /* of the conversation, for its template; set before the
                                          * status */
    double prompt_seconds;               /* expected; set before the status; 0: not known */
    int status;                          /* HTTP status; 0: not known yet */
    bool failed;               /* an answer has failed; the output describes the failure */
    struct sp_strbuf out;      /* output; owned */
    size_t n_sent;             /* bytes of `out` that were read */
    struct sp_strbuf log_line; /* text for the log; owned */
    struct sp_err failure;     /* why it failed */
    bool aborted;              /* the client has gone or memory ran out: output is dropped */
    struct sp_serve_job *next;
};

struct sp_serve_queue; /* opaque */

/* n_threads: the number of threads that take answers. All but one of them at most generate answers
 * of requests for several; the last one is kept for requests for a single answer. */
SP_MUST_CHECK enum sp_status sp_serve_queue_new(struct sp_serve_queue **out, size_t max_waiting,
                                                size_t n_threads, struct sp_err *err);
void sp_serve_queue_free(struct sp_serve_queue *queue); /* accepts NULL; the queue must be empty */

/* Rejects further jobs. The present ones are completed or, if `now`, end soon: the queue is
 * stopped. */
void sp_serve_queue_close(struct sp_serve_queue *queue, bool now);

/* ---- for the client's thread ---- */

enum sp_serve_entry { SP_SERVE_IN, SP_SERVE_FULL, SP_SERVE_STOPPED };
enum sp_serve_entry sp_serve_queue_put(struct sp_serve_queue *queue, struct sp_serve_job *job);
/* The numbers of running answers, of jobs with waiting answers, and of all these answers. */
struct sp_serve_load {
    size_t n_running, n_waiting, n_pending;
    bool full; /* the queue would refuse another job */
    bool ends; /* the server is shutting down, so that it refuses all further jobs */
};
struct sp_serve_load sp_serve_queue_load(struct sp_serve_queue *queue);
/* Waits until the job's status is known or, also without one, the job has ended; `to_end`: until it
 * has ended. Returns false if the client has gone. */
bool sp_serve_queue_wait(struct sp_serve_queue *queue, struct sp_serve_job *job, bool to_end);
/* Waits for output and reads up to `size` bytes of it. Returns 0 at the end, -1 if the client has
 * gone or memory ran out. */
long sp_serve_queue_read(struct sp_serve_queue *queue, struct sp_serve_job *job, char *to,
                         size_t size);
/* Removes a job that was put into the queue. No other thread uses it when this returns. */
void sp_serve_queue_leave(struct sp_serve_queue *queue, struct sp_serve_job *job);

/* ---- for the threads that generate ---- */

/* Waits for the next answer to generate and returns its job; *answer is its index. NULL: the queue
 * drains or is stopped, and is empty. */
struct sp_serve_job *sp_serve_queue_take(struct sp_serve_queue *queue, size_t *answer);
/* True if the job need not continue: it was aborted, an answer failed, or the queue is stopped. Job
 * NULL: the last of these. */
bool sp_serve_queue_is_abandoned(struct sp_serve_queue *queue, const struct sp_serve_job *job);
/* Tells the client's thread, until the status is known: the changes of the conversation (NULL: not
 * known), and the seconds that the prompt is expected to take (0: not known), of which the first
 * count. */
void sp_serve_queue_tell(struct sp_serve_queue *queue, struct sp_serve_job *job,
                         const char *changes, double seconds);
/* Appends output, unless an answer has failed. Status 0: more of it. 200: its beginning; the text
 * of the first such call is sent, that of later calls is dropped. Others: the failure that was
 * claimed. If memory runs out, or ran out for the text, the job is aborted, which ends the
 * connection: a client must not take the other pieces for the whole. */
void sp_serve_queue_write(struct sp_serve_queue *queue, struct sp_serve_job *job, int status,
                          const struct sp_json_out *text);
/* Records that an answer has failed, and why, which aborts the others. Returns false if another
 * answer failed before: then nothing is to be sent. *started: a stream has started, so that the
 * failure is its end. The caller writes the text of the failure. */
bool sp_serve_queue_claim_failure(struct sp_serve_queue *queue, struct sp_serve_job *job,
                                  const struct sp_err *why, bool *started);
/* Counts a finished answer; `first` and `period` as in sp_serve_usage_add. Returns true if it was
 * the job's last one: then job->usage has the totals. */
bool sp_serve_queue_add(struct sp_serve_queue *queue, struct sp_serve_job *job,
                        const struct sp_result *result, const struct sp_chat_answer *message,
                        bool first, size_t period);
/* Sets what the log shows for the job: a text or, with `json`, members of a JSON object; `last` is
 * the result of its last answer. */
void sp_serve_queue_describe(struct sp_serve_queue *queue, struct sp_serve_job *job,
                             const struct sp_serve_usage *usage, const struct sp_result *last,
                             bool json);
/* Ends the work on an answer that sp_serve_queue_take returned. After the last answer of a job its
 * model is released, and only then is the end of the response sent: the next request of the client
 * finds what was in use free. models: may be NULL if the job has no model. */
void sp_serve_queue_end(struct sp_serve_queue *queue, struct sp_serve_job *job,
                        struct sp_serve_models *models);

/* Counts what the server does, model by model, and writes the counts in the text format of
 * Prometheus.
 *
 * https://prometheus.io/docs/instrumenting/exposition_formats/; the series are those of
 * llama-server by their meaning. */

struct sp_serve;
struct sp_serve_response;

struct sp_serve_metrics; /* opaque */

SP_MUST_CHECK enum sp_status sp_serve_metrics_new(struct sp_serve_metrics **out, size_t n_models,
                                                  struct sp_err *err);
void sp_serve_metrics_free(struct sp_serve_metrics *metrics); /* accepts NULL */

/* ---- [any thread]; `model` is the number of a model, below n_models ---- */

/* Counts a response; status 0: the client had gone. */
void sp_serve_metrics_response(struct sp_serve_metrics *metrics, int status);
/* Counts an answer, complete or cancelled. `seconds`: since the request arrived. */
void sp_serve_metrics_answer(struct sp_serve_metrics *metrics, size_t model,
                             const struct sp_result *result, double seconds);
/* Counts embeddings, and the tokens of their texts. */
void sp_serve_metrics_embeddings(struct sp_serve_metrics *metrics, size_t model, size_t n_texts,
                                 size_t n_tokens);
/* Counts the time from a request's arrival to its first token, or from one token to the next. */
void sp_serve_metrics_token(struct sp_serve_metrics *metrics, size_t model, bool first,
                            double seconds);
/* Reads the counters of energy, as often as sp_energy_keep_up asks. */
void sp_serve_metrics_keep_up(struct sp_serve_metrics *metrics);
/* Writes all series. */
void sp_serve_metrics_write(const struct sp_serve *serve, FILE *out);

/* ---- the tokens of an answer with their log-probabilities (serve_logprobs.c) ---- */

struct sp_serve_logprob {
    struct sp_logprob chosen; /* its log-probability is NAN for the first token of a prompt */
    char *bytes;              /* [size] bytes of the chosen token; owned */
    size_t size;
    size_t at;              /* offset of the token in the answer, in bytes */
    struct sp_logprob *top; /* [n_top] alternatives; owned */
    size_t n_top;
};
void sp_serve_logprob_release(struct sp_serve_logprob *token);

/* *bytes = the bytes that a token adds to a text, owned by the caller. They are not valid UTF-8 if
 * the token is a part of a character. */
SP_MUST_CHECK enum sp_status sp_serve_logprob_bytes(char **bytes, size_t *size,
                                                    const struct sp_package *package, uint32_t id);
SP_MUST_CHECK enum sp_status sp_serve_logprob_read(struct sp_serve_logprob *out,
                                                   const struct sp_package *package,
                                                   const struct sp_token *token);

/* Writes n tokens of an answer with their alternatives as an array, as OpenAI's chats and ollama
 * have them. */
void sp_serve_logprobs_write(struct sp_serve_response *response, const char *key,
                             const struct sp_serve_logprob *tokens, size_t n);

struct sp_serve {
    struct sp_serve_model *all; /* [n_models] */
    size_t n_models;
    struct sp_serve_models *models; /* opens and closes them */
    double keep_alive;              /* seconds that a model stays open; negative: no limit */
    struct sp_serve_queue *queue;
    /* [2] held while a template renders a prompt: [1] for long conversations and the templates of
     * requests, [0] for all others */
    pthread_mutex_t *template_locks;
    struct sp_serve_keys *keys; /* that clients must send */
    struct sp_serve_metrics *metrics;
    size_t n_sessions;
    enum sp_pooling pooling;           /* of embeddings */
    const char *version, *host, *cors; /* cors: the allowed origin; NULL: none */
    struct sp_serve_budget *budget;    /* memory of all requests */
    struct sp_cache_budget *caches;    /* memory of the KV caches of all models */
    size_t cache_limit;                /* bytes that they may take; 0: no limit of its own */
    bool quiet;
    bool log_json; /* lines of the log are JSON objects */
};

/* One answer while it is written in the format of an API. The text in `out` is sent to the client
 * when a function of struct sp_serve_api returns. */
struct sp_serve_response {
    const struct sp_serve *serve;
    const struct sp_serve_request *request;
    const struct sp_serve_api *api;
    struct sp_json_out out;
    struct timespec began;      /* start of the request's first answer, wall clock */
    uint64_t number;            /* number of the request in the order of starting, from 1 */
    size_t answer;              /* index of this answer in its request, from 0 */
    double seconds;             /* time since the request arrived */
    double waited;              /* time from arrival to the start of generation */
    size_t n_prompt, n_reused;  /* tokens of the prompt; those of them that were cached */
    size_t n_processed;         /* tokens of the prompt that are done, those included */
    double prompt_seconds;      /* since the prompt began to be processed */
    double first_token_seconds; /* from the start of generation to the first token */
    uint64_t seed;
    const struct sp_chat_prompt *rendered; /* the prompt; borrowed; NULL: it is raw */
    /* the answer so far, including the current part; borrowed */
    const struct sp_chat_answer *message;
    /* if the request echoes the prompt: its text, and that of the whole answer; borrowed */
    const struct sp_strbuf *echo;
    const struct sp_serve_logprob *tokens; /* [n_tokens] tokens of the current part; borrowed */
    size_t n_tokens;
    bool is_drafted; /* the last token of the current part was proposed by the draft */
    const struct sp_serve_logprob *all_tokens; /* [n_all_tokens] all tokens so far; borrowed */
    size_t n_all_tokens;
    size_t offset;                      /* number of characters of the tokens already sent */
    const struct sp_serve_usage *usage; /* totals of all answers, set for close(); borrowed */
    /* [n_answers] output of each answer, set for close(); borrowed */
    const struct sp_strbuf *outputs;
    size_t n_answers;
    /* These fields serve APIs whose streams consist of numbered events. */
    size_t n_events;  /* events sent */
    size_t n_started; /* parts of the message whose first event was sent */
    bool is_open;     /* the last of those parts has not ended */
};

/* Why a request has no answer. */
struct sp_serve_failure {
    int status;        /* HTTP status */
    const char *code;  /* OpenAI's code, such as "context_length_exceeded"; NULL: none */
    const char *param; /* OpenAI's path of the member, such as "messages[0].role"; NULL: none */
    const char *sentence;
};

/* The functions that read the requests of an API and write its answers. */
struct sp_serve_api {
    const char *stream_type; /* Content-Type */
    bool is_chat;            /* answers are messages, for APIs that answer with texts, too */
    const struct sp_serve_field *fields; /* of requests, and what they add to responses */
    /* In a stream, begin() is called once before the first part, part() for each part and end()
     * after the last part. begin is NULL where nothing comes before the parts. */
    void (*begin)(struct sp_serve_response *response);
    /* Writes something without effect during prompt processing, so that no proxy closes a stream
     * that is silent for long; or, if the request asks for it, what is processed so far. */
    void (*keep_alive)(struct sp_serve_response *response);
    void (*part)(struct sp_serve_response *response, const struct sp_chat_part *part);
    void (*end)(struct sp_serve_response *response, const struct sp_result *result);
    /* Without streaming, writes the response or, where the request has several answers, this
     * answer's share of it. */
    void (*whole)(struct sp_serve_response *response, const struct sp_result *result);
    /* Called after the last of all answers of a request: writes the end of the stream or, without
     * streaming, the whole response from `outputs`. Only an API with a `close` accepts requests for
     * several answers. */
    void (*close)(struct sp_serve_response *response, const struct sp_result *last);
    /* Writes a failure into a stream that has started. */
    void (*fail_stream)(struct sp_serve_response *response, const struct sp_serve_failure *failure);
    /* Writes a failure as the body of the response. NULL: the owner of the job does so. */
    void (*fail)(struct sp_json_out *out, const struct sp_serve_failure *failure);
    /* Of ollama, NULL elsewhere: whether the request has a prompt. Without one it loads the model
     * or, with keep_alive 0, unloads it, and write_load() writes the response. */
    bool (*has_prompt)(const struct sp_json *body, bool chat);
    void (*write_load)(struct sp_json_out *out, const char *model, bool chat, bool loaded);
    /* the words by which clients recognize a prompt that is too long; NULL: none */
    const char *too_long;
};
extern const struct sp_serve_api sp_serve_anthropic;
extern const struct sp_serve_api sp_serve_openai_chat, sp_serve_openai_text;
extern const struct sp_serve_api sp_serve_responses, sp_serve_infill;
extern const struct sp_serve_api sp_serve_ollama_chat, sp_serve_ollama_text;

/* ---- jobs (serve_job.c) ---- */

/* Reads the request of a job that has its API, and in the request the body and the open model. */
SP_MUST_CHECK enum sp_status sp_serve_job_read(struct sp_serve_job *job, struct sp_err *err);
/* Releases all but the model of a job that no other thread uses. */
void sp_serve_job_release(struct sp_serve_job *job);

/* Generates one answer of a job, by the thread that took it from the queue (serve_answer.c). */
void sp_serve_answer_run(const struct sp_serve *serve, struct sp_serve_job *job, size_t answer);

/* Generates answers to the jobs of the queue, one after the other, until the queue is stopped.
 * `serve` is the struct sp_serve; returns NULL. Several threads may call it at the same time. */
void *sp_serve_job_run_all(void *serve);

/* ---- what the writers of the APIs share (serve_write.c) ---- */

/* True if a length limit or the end of the context cut off the answer. */
bool sp_serve_is_truncated(const struct sp_result *result);

enum { SP_SERVE_ID_SIZE = 64 };

/* Writes an id that is unique to the request: a prefix that names the kind of object, then the
 * request's time and number. Returns `id`. */
const char *sp_serve_id(char id[SP_SERVE_ID_SIZE], const char *prefix,
                        const struct sp_serve_response *response);

/* The name of the model in a response: that of the request, if it has one. */
const char *sp_serve_model_name(const struct sp_serve_request *request);

/* Begins a server-sent event of this type, whose data is an object that has the type, too; ends the
 * object of one. */
void sp_serve_begin_event(struct sp_serve_response *response, const char *type);
void sp_serve_end_event(struct sp_serve_response *response);

/* Writes the arguments of a call as JSON; those that a cut left invalid are an empty object. */
void sp_serve_write_arguments(struct sp_json_out *out, const char *key,
                              const struct sp_chat_call *call);

/* The members that the requests of every API have. */
extern const struct sp_serve_field sp_serve_common_fields[];

/* Writes what members of the request add to the response or, if `in_choice`, to a choice of a chunk
 * that has a part of the answer. */
void sp_serve_write_fields(struct sp_serve_response *response, bool in_choice);
/* The function `write` of a field that the response repeats as the request has it. */
void sp_serve_repeat(struct sp_serve_response *response, const struct sp_serve_field *field,
                     const struct sp_json *value);

/* The HTTP status of a failed request. */
int sp_serve_status_of(enum sp_status st);
/* The failure of a request, which borrows from it: of the member that the request's fault names or,
 * if it names none, that the sentence begins with. */
struct sp_serve_failure sp_serve_failure_of(struct sp_serve_request *request, int status,
                                            const char *sentence);

/* ---- the prompt of a request as token ids (serve_prompt.c) ---- */

/* The prompt of a request. Valid when zeroed. */
struct sp_serve_prompt {
    const uint32_t *ids; /* [n_ids] the prompt; borrowed from `raw` or `rendered` */
    size_t n_ids;
    struct sp_ids raw;    /* a prompt without a template; owned */
    struct sp_chat *chat; /* chat of the request's own template; owned; NULL: the file's */
    struct sp_chat_prompt *rendered; /* the rendered prompt; owned; NULL: the prompt is raw */
};
void sp_serve_prompt_release(struct sp_serve_prompt *prompt);

/* Reads the prompt; `which` is its index among several raw prompts. A text that cannot fit into the
 * context is refused before it is encoded; a prompt that is too long is SP_E_USAGE. [any thread] */
SP_MUST_CHECK enum sp_status sp_serve_prompt_read(struct sp_serve_prompt *out,
                                                  const struct sp_serve *serve,
                                                  const struct sp_serve_request *request,
                                                  size_t which, struct sp_err *err);

/* *n_tokens = the number of tokens of a conversation. [any thread] */
SP_MUST_CHECK enum sp_status sp_serve_prompt_count(size_t *n_tokens, const struct sp_serve *serve,
                                                   const struct sp_serve_request *request,
                                                   struct sp_err *err);

#endif
