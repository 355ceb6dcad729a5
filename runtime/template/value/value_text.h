/* Numbers to text and back, for both template languages. */
#ifndef SP_RUNTIME_TEMPLATE_VALUE_VALUE_TEXT_H
#define SP_RUNTIME_TEMPLATE_VALUE_VALUE_TEXT_H

#include "runtime/template/value/value.h"

/* Parses an integer (of base 2..36) or a float without a sign, NUL-terminated. A decimal integer
 * beyond 64 bits becomes SP_V_BIG; in other bases it is an error. */
SP_MUST_CHECK enum sp_status sp_number_parse(struct sp_heap *heap, struct sp_value *out,
                                             const char *text, int base, bool real);

/* Appends the fewest decimal digits that parse as `v`, which is finite, with an exponent if that is
 * below `low` or not below `high`. */
SP_MUST_CHECK enum sp_status sp_build_shortest(struct sp_builder *b, double v, int low, int high);
/* Appends Python's repr of a float: 1.0, 1e+16, nan. */
SP_MUST_CHECK enum sp_status sp_build_python_float(struct sp_builder *b, double v);
SP_MUST_CHECK enum sp_status sp_build_integer(struct sp_builder *b, struct sp_value v);

#endif
