/* The client's choice of which tools the model may or must call. */
#ifndef SP_CLI_SERVE_REQUEST_SERVE_TOOL_CHOICE_H
#define SP_CLI_SERVE_REQUEST_SERVE_TOOL_CHOICE_H

#include "cli/serve/request/serve_request.h"

/* A tool choice, independent of the API. Valid when zeroed: any number of calls of any tools. */
struct sp_serve_tool_choice {
    bool none;            /* the tools are withheld from the model */
    bool must;            /* the answer must contain a call */
    bool one;             /* the answer contains at most one call */
    const char *function; /* the function to call, once; borrowed from the request; NULL: any */
};

/* Applies the choice and the `strict` members of the tools to the request. */
SP_MUST_CHECK enum sp_status sp_serve_apply_tool_choice(struct sp_serve_request *request,
                                                        const struct sp_serve_tool_choice *choice,
                                                        struct sp_err *err);

/* Applies tool_choice (NULL: "auto") and the body's parallel_tool_calls to the request's tools. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_tool_choice(struct sp_serve_request *request,
                                                              const struct sp_json *json,
                                                              struct sp_err *err);

#endif
