/* Reads the JSON of a request within the memory budget of all requests, and finds out which of its
 * members nobody read: they are removed, so that they take no memory while the request waits and is
 * answered, and reported to the client. */
#ifndef SP_CLI_SERVE_SERVE_BODY_H
#define SP_CLI_SERVE_SERVE_BODY_H

#include "cli/serve/http/serve_budget.h"
#include "format/json/json.h"

enum { SP_SERVE_IGNORED_TEXT = 256 };

#include <stdatomic.h>

/* The JSON of a request. Valid when zeroed. */
struct sp_serve_body {
    struct sp_json *json;           /* an object; owned */
    struct sp_serve_budget *budget; /* that n_charged bytes were taken from; borrowed */
    atomic_size_t n_charged;
    size_t n_tree;               /* the part of n_charged for `json` */
    struct sp_json_marks *marks; /* of `json` and of its `options` while they are read; owned */
};

/* Parses a body, whose text has been taken from the budget. Returns 0, or the HTTP status of the
 * error in `err`: 400, 500, or 503 where the budget does not suffice now. */
int sp_serve_body_read(struct sp_serve_body *out, struct sp_serve_budget *budget, const char *text,
                       size_t size, struct sp_err *err);
/* Takes more memory for the struct sp_serve_body `body` until it is released: take_memory of a
 * request. [any thread] */
SP_MUST_CHECK enum sp_status sp_serve_body_take(void *body, size_t size, struct sp_err *err);
/* Ends the reading of `json`, which is or was that of the body. Removes the members that were not
 * read and writes their names to `ignored`, except those that are null, with ", " between: bytes
 * that a header cannot have become '?', and what does not fit is replaced by "...". */
void sp_serve_body_settle(struct sp_serve_body *body, struct sp_json *json,
                          char ignored[SP_SERVE_IGNORED_TEXT]);
void sp_serve_body_release(struct sp_serve_body *body);

#endif
