/* Checks which origins may use the server. */
#ifndef SP_CLI_SERVE_SERVE_ORIGIN_H
#define SP_CLI_SERVE_SERVE_ORIGIN_H

#include "cli/serve/jobs/serve.h"

/* True if the request has another origin than the one that --cors names. On a server that listens
 * on the loopback interface only, a request whose Host header names another host also counts as
 * cross-origin. */
bool sp_serve_is_cross_origin(const struct sp_serve *serve, const struct sp_http_request *request);

#endif
