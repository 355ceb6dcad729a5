/* Writing JSON. */
#ifndef SP_FORMAT_JSON_JSON_WRITE_H
#define SP_FORMAT_JSON_JSON_WRITE_H

#include "format/base/strbuf.h"
#include "format/json/json.h"

#include <stdio.h>

/* *out = the text of a value as compact JSON, owned by the caller (free). Doubles are written as
 * they were read. */
SP_MUST_CHECK enum sp_status sp_json_print(char **out, const struct sp_json *v, struct sp_err *err);

/* Writes values with the commas that they need to `file`, or to `text` if there is none. The writer
 * of lines writes their ends. */
struct sp_json_out {
    FILE *file;
    struct sp_strbuf text; /* owned by the caller */
    bool comma;            /* a comma is due before the next value */
    bool no_memory;        /* `text` lacks something */
};

/* Begins an object or array. `key` is NULL inside arrays and for the outermost value. `bracket` is
 * '{' or '['; end takes the closing one. */
void sp_json_out_begin(struct sp_json_out *out, const char *key, char bracket);
void sp_json_out_end(struct sp_json_out *out, char bracket);
void sp_json_out_end_line(struct sp_json_out *out); /* ends the object of a line, and the line */

/* Writes a string; bytes that are not valid UTF-8 become U+FFFD. */
void sp_json_out_string(struct sp_json_out *out, const char *key, const char *text, size_t size);
void sp_json_out_text(struct sp_json_out *out, const char *key,
                      const char *text); /* text NULL: writes null */
void sp_json_out_u64(struct sp_json_out *out, const char *key, uint64_t value);
/* Writes a number with nine digits; null if it is not finite. */
void sp_json_out_double(struct sp_json_out *out, const char *key, double value);
void sp_json_out_bool(struct sp_json_out *out, const char *key, bool value);

/* Writes members and values by a form, which is JSON without quotes around names: "usage:{n:%zu}".
 * Words (null, true, 0) and 'texts' are written as values, and so are the arguments: %s a text,
 * NULL as null, %zu and %u numbers, %g a double, %d a bool. A form may begin or end what another
 * form or function ends or began. A line feed ends a line. */
void sp_json_out_put(struct sp_json_out *out, const char *form, ...) SP_PRINTF(2, 3);

/* Writes JSON text that was produced elsewhere. */
void sp_json_out_written(struct sp_json_out *out, const char *key, const char *text, size_t size);
/* Writes a parsed value; NULL: writes null. */
void sp_json_out_value(struct sp_json_out *out, const char *key, const struct sp_json *value);
/* Write between values, without commas: text and bytes as they are; what snprintf would print, at
 * most 255 characters, with a decimal point; UTF-8 text as a string with its quotes; a finite
 * number with the fewest digits that give the same f32. */
void sp_json_out_raw(struct sp_json_out *out, const char *text);
void sp_json_out_bytes(struct sp_json_out *out, const void *bytes, size_t size);
void sp_json_out_print(struct sp_json_out *out, const char *format, ...) SP_PRINTF(2, 3);
void sp_json_out_quoted(struct sp_json_out *out, const char *text, size_t len);
void sp_json_out_f32(struct sp_json_out *out, float number);

/* SP_E_NOMEM if `text` lacks something. */
SP_MUST_CHECK enum sp_status sp_json_out_check(const struct sp_json_out *out, struct sp_err *err);
/* Hands over what was written; `text` is empty then. Releases it on failure. */
SP_MUST_CHECK enum sp_status sp_json_out_take(struct sp_text *text, struct sp_json_out *out,
                                              struct sp_err *err);
/* Parses and releases `text`. `st` is the status of the writing so far, with its error in `err`.
 * *value is owned by the caller. */
SP_MUST_CHECK enum sp_status sp_json_out_parse(struct sp_json **value, struct sp_json_out *out,
                                               enum sp_status st, struct sp_err *err);

#endif
