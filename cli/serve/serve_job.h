/* A job of the queue: the prompt, the answer that is generated, and its way to the client. */
#ifndef SP_CLI_SERVE_SERVE_JOB_H
#define SP_CLI_SERVE_SERVE_JOB_H

#include "cli/serve/serve.h"

/* Generates one answer of a job. Several threads may call it at the same time. */
void sp_serve_job_run(const struct sp_serve *serve, struct sp_serve_job *job, size_t answer);

/* Was the answer cut off by a limit of its length, or of the context? */
bool sp_serve_is_truncated(const struct sp_result *result);

enum { SP_SERVE_ID_SIZE = 64 };

/* Writes an id that no other request has: a prefix, which names the kind of object, and the number
 * of the request. Returns `id`. */
const char *sp_serve_id(char id[SP_SERVE_ID_SIZE], const char *prefix,
                        const struct sp_serve_response *response);

/* The HTTP status of a failed request. */
int sp_serve_status_of(enum sp_status st);

#endif
