/* Numbers as text and back, for both template languages. */
#ifndef SP_RUNTIME_TEMPLATE_VALUE_TEXT_H
#define SP_RUNTIME_TEMPLATE_VALUE_TEXT_H

#include "runtime/template/value.h"

enum { SP_DIGITS_MAX = 17 };

/* The fewest decimal digits that read back as `v`, which is finite and not below 0; returns their
 * number. v = 0.d1 d2 d3 ... * 10^*point. */
size_t sp_shortest_digits(char digits[SP_DIGITS_MAX + 1], int *point, double v);

/* An integer (of base 2..36) or a float without sign, NUL-terminated, as a value. An integer beyond
 * 64 bits becomes SP_V_BIG when it is decimal, else an error. */
SP_MUST_CHECK enum sp_status sp_number_parse(struct sp_heap *heap, struct sp_value *out,
                                             const char *text, int base, bool real);

/* Python's repr of a float: 1.0, 1e+16, nan. */
SP_MUST_CHECK enum sp_status sp_build_python_float(struct sp_builder *b, double v);
SP_MUST_CHECK enum sp_status sp_build_integer(struct sp_builder *b, struct sp_value v);

#endif
