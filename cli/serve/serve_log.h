/* The lines that the server prints to standard error: its address and models, then its log. */
#ifndef SP_CLI_SERVE_SERVE_LOG_H
#define SP_CLI_SERVE_SERVE_LOG_H

#include "cli/serve/jobs/serve.h"

/* Prints the address and the model or, if there are several, their names. */
void sp_serve_announce(const struct sp_serve *s, const char *url);

/* Counts a request and prints its line of the log; the callback `log` of struct sp_http_options,
 * with the server as its context. */
void sp_serve_log_request(void *context, const char *method, const char *path, int status,
                          const char *log_line, const char *ignored);

/* Logs that a model was opened or closed, if there are several. `what`: "opened" or "closed". */
void sp_serve_log_model(const struct sp_serve *s, const struct sp_serve_model *m, const char *what,
                        double seconds);

/* Logs that the server shuts down if answers are pending, for `seconds`; negative: no limit. */
void sp_serve_log_shutdown(const struct sp_serve *s, double seconds);

#endif
