/* The paths of the APIs. */
#ifndef SP_CLI_SERVE_SERVE_ROUTES_H
#define SP_CLI_SERVE_SERVE_ROUTES_H

#include "cli/serve/jobs/serve.h"

/* `context` of both functions is the struct sp_serve. [any thread] */

/* True if the request has a key that the server accepts, or needs none. */
bool sp_serve_admits(void *context, const char *path, const struct sp_http_connection *connection);

/* Handles a request. */
void sp_serve_handle(void *context, const struct sp_http_request *request,
                     struct sp_http_response *answer);

#endif
