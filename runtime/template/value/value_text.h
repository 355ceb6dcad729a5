/* Numbers to text and back, and texts with escapes, for both template languages. */
#ifndef SP_RUNTIME_TEMPLATE_VALUE_VALUE_TEXT_H
#define SP_RUNTIME_TEMPLATE_VALUE_VALUE_TEXT_H

#include "runtime/template/value/value.h"

/* Parses a decimal integer of at most 64 bits or a float, without a sign and NUL-terminated; false:
 * the text is none. */
bool sp_number_parse(struct sp_value *out, const char *text);

/* Reads the escape after a backslash at text[*pos]: \n and the like, \xHH, \uHHHH, \UHHHHHHHH.
 * *known is false, and nothing is read, if it is another one. */
SP_MUST_CHECK enum sp_status sp_build_escape(struct sp_builder *b, bool *known, const char *text,
                                             size_t size, size_t *pos);

/* Appends the fewest decimal digits that parse as `v`, which is finite, with an exponent if that is
 * below `low` or not below `high`. */
SP_MUST_CHECK enum sp_status sp_build_shortest(struct sp_builder *b, double v, int low, int high);
/* Appends Python's repr of a float: 1.0, 1e+16, nan. */
SP_MUST_CHECK enum sp_status sp_build_python_float(struct sp_builder *b, double v);
SP_MUST_CHECK enum sp_status sp_build_integer(struct sp_builder *b, struct sp_value v);

/* Python's json.dumps, the same with ensure_ascii, Go's encoding/json. */
enum sp_json_text { SP_JSON_TEXT_PYTHON, SP_JSON_TEXT_ASCII, SP_JSON_TEXT_GO };

/* Appends a text as a JSON string. */
SP_MUST_CHECK enum sp_status sp_build_json_text(struct sp_builder *b, struct sp_value v,
                                                enum sp_json_text how);

#endif
