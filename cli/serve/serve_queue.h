/* Requests for text wait here for their turn, which they get in the order they came.
 *
 * The connection's thread puts a job in and takes its output; a thread that generates takes jobs
 * out and writes it. What both touch is behind one lock. */
#ifndef SP_CLI_SERVE_SERVE_QUEUE_H
#define SP_CLI_SERVE_SERVE_QUEUE_H

#include "cli/serve/serve_request.h"
#include "cli/serve/serve_usage.h"
#include "format/base/strbuf.h"

#include <time.h>

struct sp_serve_api;
struct sp_http_connection;

/* A request. Each of its answers has a turn of its own, next to those of the others. */
struct sp_serve_job {
    struct sp_serve_request request;
    const struct sp_serve_api *api;
    const struct sp_http_connection *connection; /* of the client; borrowed */
    double asked_at, looked_at; /* seconds; looked_at: whether the client is there */
    size_t n_answers;
    struct sp_strbuf *answers; /* [n_answers], owned with their texts: each its thread's; where the
                                * dialect puts several together, else NULL */
    /* Under the queue's lock: */
    bool is_queued;                    /* not all of its answers have had their turn */
    size_t n_taken, n_running, n_done; /* answers */
    struct sp_serve_usage usage;       /* of those that are done */
    uint64_t number;        /* of those that had a turn, from 1; and when the first one */
    struct timespec began;  /* began, wall clock: set once */
    int status;             /* of HTTP; 0: not known yet */
    bool failed;            /* one of the answers: the output is about that */
    struct sp_strbuf out;   /* owned */
    size_t n_sent;          /* bytes of it that were taken */
    struct sp_strbuf about; /* owned: for the log */
    bool left;              /* nobody takes the output any more */
    struct sp_serve_job *next;
};

struct sp_serve_queue; /* opaque */

SP_MUST_CHECK enum sp_status sp_serve_queue_new(struct sp_serve_queue **out, size_t max_waiting,
                                                struct sp_err *err);
void sp_serve_queue_free(struct sp_serve_queue *queue); /* NULL is fine; when empty */

/* No job gets in any more, and those that are in are to end soon. */
void sp_serve_queue_stop(struct sp_serve_queue *queue);

/* ---- for the client's thread ---- */

enum sp_serve_entry { SP_SERVE_IN, SP_SERVE_FULL, SP_SERVE_STOPPED };
enum sp_serve_entry sp_serve_queue_put(struct sp_serve_queue *queue, struct sp_serve_job *job);
/* Waits until the job's status is known; 0: the client has gone, or there was no memory. */
int sp_serve_queue_wait(struct sp_serve_queue *queue, struct sp_serve_job *job);
/* Waits until the job has ended; false: the client has gone. */
bool sp_serve_queue_wait_end(struct sp_serve_queue *queue, struct sp_serve_job *job);
/* Waits for output and takes up to `size` bytes of it; 0: that was all; -1: the client has gone. */
long sp_serve_queue_read(struct sp_serve_queue *queue, struct sp_serve_job *job, char *to,
                         size_t size);
/* Takes the job out, wherever it is: nobody else knows it when this returns. */
void sp_serve_queue_leave(struct sp_serve_queue *queue, struct sp_serve_job *job);

/* ---- for the threads that generate ---- */

/* Waits for the next turn, and which answer of the job it is for; NULL: stopped, and no job is
 * left. */
struct sp_serve_job *sp_serve_queue_take(struct sp_serve_queue *queue, size_t *answer);
/* Is there no use in going on with it? */
bool sp_serve_queue_is_abandoned(struct sp_serve_queue *queue, const struct sp_serve_job *job);
bool sp_serve_queue_is_stopped(struct sp_serve_queue *queue);
/* The status is known: 200, unless an answer has failed. The output of the first call goes out,
 * that of later ones does not. */
void sp_serve_queue_begin(struct sp_serve_queue *queue, struct sp_serve_job *job, const char *text,
                          size_t size);
/* Output, unless an answer has failed. Without memory for it the job is vain. */
void sp_serve_queue_write(struct sp_serve_queue *queue, struct sp_serve_job *job, const char *text,
                          size_t size);
/* An answer has failed, and the others are vain. False: one has before, there is nothing to tell.
 * *begun: a stream has, so this is its end. What is to be told goes to the second of the two. */
bool sp_serve_queue_claim_failure(struct sp_serve_queue *queue, struct sp_serve_job *job,
                                  bool *begun);
void sp_serve_queue_fail(struct sp_serve_queue *queue, struct sp_serve_job *job, int status,
                         const char *text, size_t size);
/* An answer is told; first: to its prompt. True: it was the last one, and job->totals are those of
 * all. */
bool sp_serve_queue_add(struct sp_serve_queue *queue, struct sp_serve_job *job,
                        const struct sp_result *result, const struct sp_chat_answer *message,
                        bool first);
/* What the log says of the job. */
void sp_serve_queue_describe(struct sp_serve_queue *queue, struct sp_serve_job *job,
                             const char *text);
/* A turn ends. */
void sp_serve_queue_end(struct sp_serve_queue *queue, struct sp_serve_job *job);

#endif
