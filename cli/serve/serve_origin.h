/* Checks which origins may use the server. */
#ifndef SP_CLI_SERVE_SERVE_ORIGIN_H
#define SP_CLI_SERVE_SERVE_ORIGIN_H

#include "cli/serve/jobs/serve.h"

/* Checks the value of --cors: *, or origins (SCHEME://HOST[:PORT]) between commas; SP_E_USAGE. */
SP_MUST_CHECK enum sp_status sp_serve_cors_check(const char *origins, struct sp_err *err);

/* The origin that a response to this request allows: *, or the request's own if --cors names it;
 * NULL: none. Borrowed from the request or static. */
const char *sp_serve_allowed_origin(const struct sp_serve *serve,
                                    const struct sp_http_request *request);

/* Returns why a request is refused, static; NULL: it is not. It is refused if its origin is neither
 * the server's own nor one that --cors names, and on the loopback interface also if its Host is
 * neither this machine nor the host of such an origin. */
const char *sp_serve_check_origin(const struct sp_serve *serve,
                                  const struct sp_http_request *request);

#endif
