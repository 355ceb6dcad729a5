/* Equality of JSON values, as JSON Schema defines it (core, 4.2.2). */
#ifndef SP_FORMAT_JSON_JSON_EQUAL_H
#define SP_FORMAT_JSON_JSON_EQUAL_H

#include "format/json/json.h"

/* *equal: both have the same value. 1, 1.0 and 10e-1 are equal, and so are objects whose members
 * have another order. */
SP_MUST_CHECK enum sp_status sp_json_equal(bool *equal, const struct sp_json *a,
                                           const struct sp_json *b, struct sp_err *err);

#endif
