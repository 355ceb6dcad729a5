/* Which origins may use the server. */
#ifndef SP_CLI_SERVE_SERVE_ORIGIN_H
#define SP_CLI_SERVE_SERVE_ORIGIN_H

#include "cli/serve/serve.h"

/* Has the request another origin than the one that --cors names? A request to a server of this
 * machine alone also counts as one when it names another host. */
bool sp_serve_is_cross_origin(const struct sp_serve *serve, const struct sp_http_request *request);

#endif
