/* Writes JSON to a stream with correct commas and escapes. It buffers nothing beyond the stream; a
 * caller that writes one object per line writes the line ends. */
#ifndef SP_CLI_BASE_JSON_OUT_H
#define SP_CLI_BASE_JSON_OUT_H

#include "format/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sp_json_out {
    FILE *file;
    bool comma; /* a comma is due before the next value */
};

/* Begins an object or array. `key` is NULL inside arrays and for the outermost value. `bracket` is
 * '{' or '['; end takes the closing one. */
void sp_json_out_begin(struct sp_json_out *out, const char *key, char bracket);
void sp_json_out_end(struct sp_json_out *out, char bracket);

/* Writes a string; bytes that are not valid UTF-8 become U+FFFD. */
void sp_json_out_string(struct sp_json_out *out, const char *key, const char *text, size_t size);
void sp_json_out_text(struct sp_json_out *out, const char *key,
                      const char *text); /* text NULL: writes null */
void sp_json_out_u64(struct sp_json_out *out, const char *key, uint64_t value);
/* Writes a number with nine digits; null if it is not finite. */
void sp_json_out_double(struct sp_json_out *out, const char *key, double value);
void sp_json_out_bool(struct sp_json_out *out, const char *key, bool value);

/* Writes JSON text that was produced elsewhere. */
void sp_json_out_written(struct sp_json_out *out, const char *key, const char *text, size_t size);

/* Writes a parsed value; NULL: writes null. */
SP_MUST_CHECK enum sp_status sp_json_out_value(struct sp_json_out *out, const char *key,
                                               const struct sp_json *value, struct sp_err *err);

/* A value that is written to `out` and then parsed. */
struct sp_json_draft {
    struct sp_json_out out;
    char *text;
    size_t size;
};
SP_MUST_CHECK enum sp_status sp_json_draft_begin(struct sp_json_draft *draft, struct sp_err *err);
/* Parses the written text. `st` is the status of the writing so far, with its error in `err`.
 * *value is owned by the caller. */
SP_MUST_CHECK enum sp_status sp_json_draft_end(struct sp_json **value, struct sp_json_draft *draft,
                                               enum sp_status st, struct sp_err *err);

#endif
