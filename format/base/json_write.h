/* Writing JSON into a growing text. */
#ifndef SP_FORMAT_BASE_JSON_WRITE_H
#define SP_FORMAT_BASE_JSON_WRITE_H

#include "format/base/strbuf.h"

/* Appends text, which is UTF-8, as a string with its quotes. */
SP_MUST_CHECK enum sp_status sp_json_put_string(struct sp_strbuf *out, const char *text, size_t len,
                                                struct sp_err *err);
/* Appends what snprintf would print, at most 255 characters, with a decimal point. */
SP_MUST_CHECK enum sp_status sp_json_put(struct sp_strbuf *out, struct sp_err *err,
                                         const char *format, ...) SP_PRINTF(3, 4);
/* Appends a finite number with the fewest digits that give the same f32. */
SP_MUST_CHECK enum sp_status sp_json_put_f32(struct sp_strbuf *out, float number,
                                             struct sp_err *err);

#endif
