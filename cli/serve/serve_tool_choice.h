/* Which tools the model may or must call. */
#ifndef SP_CLI_SERVE_SERVE_TOOL_CHOICE_H
#define SP_CLI_SERVE_SERVE_TOOL_CHOICE_H

#include "cli/serve/serve_request.h"

/* Which tools of the request the model may or must call. Valid when zeroed: any or none. */
struct sp_serve_wanted_calls {
    bool none;            /* the model is not shown the tools */
    bool must;            /* at least one */
    bool one;             /* at most one */
    const char *function; /* this one, once; borrowed from the request */
};

/* Applies `wanted` and the `strict` members of the tools to the request. */
SP_MUST_CHECK enum sp_status sp_serve_choose(struct sp_serve_request *request,
                                             const struct sp_serve_wanted_calls *wanted,
                                             struct sp_err *err);

/* tool_choice (NULL: "auto") and the body's parallel_tool_calls, applied to the tools of the
 * request. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_tool_choice(struct sp_serve_request *request,
                                                              const struct sp_json *choice,
                                                              struct sp_err *err);

#endif
