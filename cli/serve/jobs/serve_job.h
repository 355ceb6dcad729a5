/* Runs a job of the queue: reads the prompt, generates the answer and writes it to the client. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_JOB_H
#define SP_CLI_SERVE_JOBS_SERVE_JOB_H

#include "cli/serve/jobs/serve.h"

/* Generates answers to the jobs of the queue, one after the other, until the queue is stopped.
 * `serve` is the struct sp_serve; returns NULL. Several threads may call it at the same time. */
void *sp_serve_job_run_all(void *serve);

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

/* The HTTP status of a failed request. */
int sp_serve_status_of(enum sp_status st);

#endif
