/* Reads the JSON of a request within the memory budget of all requests. */
#ifndef SP_CLI_SERVE_SERVE_BODY_H
#define SP_CLI_SERVE_SERVE_BODY_H

#include "cli/serve/http/serve_budget.h"
#include "cli/serve/request/serve_members.h"

/* The JSON of a request. Valid when zeroed. */
struct sp_serve_body {
    struct sp_json *json;           /* an object with the members that the endpoint reads; owned */
    struct sp_serve_budget *budget; /* that n_charged bytes were taken from; borrowed */
    size_t n_charged;
    char ignored[SP_SERVE_IGNORED_TEXT]; /* names of members that the endpoint does not know */
};

/* Parses a body, whose text has been taken from the budget. Returns 0, or the HTTP status of the
 * error in `err`: 400, 500, or 503 where the budget does not suffice now. */
int sp_serve_body_read(struct sp_serve_body *out, struct sp_serve_budget *budget,
                       const struct sp_serve_members *members, const char *text, size_t size,
                       struct sp_err *err);
/* Takes more memory for the struct sp_serve_body `body` until it is released: take_memory of a
 * request. */
SP_MUST_CHECK enum sp_status sp_serve_body_take(void *body, size_t size, struct sp_err *err);
void sp_serve_body_release(struct sp_serve_body *body);

#endif
