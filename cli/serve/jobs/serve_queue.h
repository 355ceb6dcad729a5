/* The queue of requests for text. The answers of the waiting requests are taken in turn, one of
 * each request, so that a request for many answers does not delay the others.
 *
 * The connection's thread adds a job and reads its output; a generating thread takes the job and
 * writes the output. One lock protects what several threads use. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_QUEUE_H
#define SP_CLI_SERVE_JOBS_SERVE_QUEUE_H

#include "cli/serve/request/serve_request.h"
#include "format/base/strbuf.h"

#include <time.h>

/* ---- numbers of tokens ----
 *
 * The numbers of tokens of all answers to a request. */

/* Numbers of tokens. The tokens of a prompt are counted once. */
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

/* Writes the text that the log shows for n answers, or with `json` members of a JSON object; `last`
 * is the result of the last one. Returns `text`. */
enum { SP_SERVE_USAGE_TEXT = 512 };
const char *sp_serve_usage_describe(char text[SP_SERVE_USAGE_TEXT],
                                    const struct sp_serve_usage *usage, size_t n,
                                    const struct sp_result *last, bool json);

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

/* Rejects further jobs; the present ones are completed. */
void sp_serve_queue_drain(struct sp_serve_queue *queue);
/* Rejects further jobs and makes the present ones end soon. */
void sp_serve_queue_stop(struct sp_serve_queue *queue);

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
/* Waits until the job's status is known and returns it; 0: the client has gone, or no memory. */
int sp_serve_queue_wait(struct sp_serve_queue *queue, struct sp_serve_job *job);
/* Waits until the job has ended. Returns false if the client has gone. */
bool sp_serve_queue_wait_end(struct sp_serve_queue *queue, struct sp_serve_job *job);
/* Waits for output and reads up to `size` bytes of it. Returns 0 at the end, -1 if the client has
 * gone or memory ran out. */
long sp_serve_queue_read(struct sp_serve_queue *queue, struct sp_serve_job *job, char *to,
                         size_t size);
/* Removes the job from the queue. No other thread uses the job when this returns. */
void sp_serve_queue_leave(struct sp_serve_queue *queue, struct sp_serve_job *job);

/* ---- for the threads that generate ---- */

/* Waits for the next answer to generate and returns its job; *answer is its index. NULL: the queue
 * drains or is stopped, and is empty. */
struct sp_serve_job *sp_serve_queue_take(struct sp_serve_queue *queue, size_t *answer);
/* True if the job need not continue: it was aborted, an answer failed, or the queue is stopped. */
bool sp_serve_queue_is_abandoned(struct sp_serve_queue *queue, const struct sp_serve_job *job);
bool sp_serve_queue_is_stopped(struct sp_serve_queue *queue);
/* Sets the changes of the conversation, until the status is known. */
void sp_serve_queue_set_changes(struct sp_serve_queue *queue, struct sp_serve_job *job,
                                const char *changes);
/* Sets the seconds that the prompt is expected to take, until the status is known; the first call
 * counts. */
void sp_serve_queue_set_seconds(struct sp_serve_queue *queue, struct sp_serve_job *job,
                                double seconds);
/* Sets the status: 200, unless an answer has failed. The text of the first call is sent, that of
 * later calls is dropped. */
void sp_serve_queue_begin(struct sp_serve_queue *queue, struct sp_serve_job *job, const char *text,
                          size_t size);
/* Appends output, unless an answer has failed. If memory runs out the job is aborted. */
void sp_serve_queue_write(struct sp_serve_queue *queue, struct sp_serve_job *job, const char *text,
                          size_t size);
/* Drops the output of the job, for which memory has run out. */
void sp_serve_queue_abort(struct sp_serve_queue *queue, struct sp_serve_job *job);
/* Records that an answer has failed, and why, which aborts the others. Returns false if another
 * answer failed before: then nothing is to be sent. *started: a stream has started, so that the
 * failure is its end. The caller passes the text of the failure to sp_serve_queue_fail. */
bool sp_serve_queue_claim_failure(struct sp_serve_queue *queue, struct sp_serve_job *job,
                                  const struct sp_err *why, bool *started);
void sp_serve_queue_fail(struct sp_serve_queue *queue, struct sp_serve_job *job, int status,
                         const char *text, size_t size);
/* Counts a finished answer; `first` and `period` as in sp_serve_usage_add. Returns true if it was
 * the job's last one: then job->usage has the totals. */
bool sp_serve_queue_add(struct sp_serve_queue *queue, struct sp_serve_job *job,
                        const struct sp_result *result, const struct sp_chat_answer *message,
                        bool first, size_t period);
/* Sets the text that the log shows for the job. */
void sp_serve_queue_describe(struct sp_serve_queue *queue, struct sp_serve_job *job,
                             const char *text);
/* Ends the work on an answer that sp_serve_queue_take returned. Returns the model of the job after
 * its last answer, which the caller releases; otherwise NULL. */
struct sp_serve_model *sp_serve_queue_end(struct sp_serve_queue *queue, struct sp_serve_job *job);

#endif
