/* Requests for text wait here for their turn, which they get in the order they came.
 *
 * The connection's thread puts a job in and takes its output; a thread that generates takes jobs
 * out and writes it. What both touch is behind one lock. */
#ifndef SP_CLI_SERVE_QUEUE_H
#define SP_CLI_SERVE_QUEUE_H

#include "cli/serve_ask.h"
#include "format/text.h"

struct sp_serve_dialect;
struct sp_http_connection;

enum sp_serve_turn { SP_SERVE_WAITS, SP_SERVE_RUNS, SP_SERVE_ENDED };

struct sp_serve_job {
    struct sp_serve_ask ask;
    const struct sp_serve_dialect *dialect;
    const struct sp_http_connection *connection; /* of the client; borrowed */
    double asked_at, looked_at; /* seconds; looked_at: whether the client is there */
    /* Under the queue's lock: */
    enum sp_serve_turn turn;
    uint64_t number;      /* of those that had their turn, from 1 */
    int status;           /* of HTTP; 0: not known yet */
    struct sp_text out;   /* owned */
    size_t n_sent;        /* bytes of it that were taken */
    struct sp_text about; /* owned: for the log */
    bool left;            /* nobody takes the output any more */
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

/* Waits for the next job; NULL: stopped, and no job is left. */
struct sp_serve_job *sp_serve_queue_take(struct sp_serve_queue *queue);
/* Is there no use in going on with it? */
bool sp_serve_queue_is_vain(struct sp_serve_queue *queue, const struct sp_serve_job *job);
bool sp_serve_queue_is_stopped(struct sp_serve_queue *queue);
/* The status is known; may be called again with the same. */
void sp_serve_queue_begin(struct sp_serve_queue *queue, struct sp_serve_job *job, int status);
/* Output. Without memory for it the job is vain. */
void sp_serve_queue_write(struct sp_serve_queue *queue, struct sp_serve_job *job, const char *text,
                          size_t size);
void sp_serve_queue_end(struct sp_serve_queue *queue, struct sp_serve_job *job);

#endif
