/* Writing JSON to a stream: commas and escapes are kept right here. Nothing is buffered beyond the
 * stream; whoever wants one object a line writes the line end. */
#ifndef SP_CLI_BASE_JSON_OUT_H
#define SP_CLI_BASE_JSON_OUT_H

#include "format/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sp_json_out {
    FILE *file;
    bool comma; /* the next value follows another */
};

/* `key` is NULL inside arrays and for a lone value. `bracket`: '{' or '[', and its partner. */
void sp_json_out_begin(struct sp_json_out *out, const char *key, char bracket);
void sp_json_out_end(struct sp_json_out *out, char bracket);

/* Bytes that are no UTF-8 become U+FFFD. */
void sp_json_out_string(struct sp_json_out *out, const char *key, const char *text, size_t size);
void sp_json_out_text(struct sp_json_out *out, const char *key, const char *text); /* NULL: null */
void sp_json_out_u64(struct sp_json_out *out, const char *key, uint64_t value);
/* Nine digits; null where it is not finite. */
void sp_json_out_double(struct sp_json_out *out, const char *key, double value);
void sp_json_out_bool(struct sp_json_out *out, const char *key, bool value);

/* A value that is written already. */
void sp_json_out_written(struct sp_json_out *out, const char *key, const char *text, size_t size);

/* A value that was read; NULL: null. */
SP_MUST_CHECK enum sp_status sp_json_out_value(struct sp_json_out *out, const char *key,
                                               const struct sp_json *value, struct sp_err *err);

/* A value that is written, to `out`, in order to be read. */
struct sp_json_draft {
    struct sp_json_out out;
    char *text;
    size_t size;
};
SP_MUST_CHECK enum sp_status sp_json_draft_begin(struct sp_json_draft *draft, struct sp_err *err);
/* `st`: of the writing so far, with its error in `err`. *value is owned by the caller. */
SP_MUST_CHECK enum sp_status sp_json_draft_end(struct sp_json **value, struct sp_json_draft *draft,
                                               enum sp_status st, struct sp_err *err);

#endif
