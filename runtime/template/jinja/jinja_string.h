/* String operations that Jinja's filters and methods share. Lengths and counts are in code
 * points. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_STRING_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_STRING_H

#include "runtime/template/jinja/jinja_machine.h"

/* The byte offset of the first occurrence at or after `from`, or SIZE_MAX; its comparisons count
 * as work. */
SP_MUST_CHECK enum sp_status sp_jinja_find(struct sp_jinja_machine *m, size_t *at,
                                           struct sp_value text, struct sp_value what, size_t from);

enum sp_jinja_sides { SP_JINJA_LEFT = 1, SP_JINJA_RIGHT = 2, SP_JINJA_BOTH = 3 };

/* Strips `chars`, or whitespace if they are SP_V_ABSENT or none. */
SP_MUST_CHECK enum sp_status sp_jinja_strip(struct sp_jinja_machine *m, struct sp_value *out,
                                            struct sp_value text, struct sp_value chars,
                                            enum sp_jinja_sides sides);
SP_MUST_CHECK enum sp_status sp_jinja_replace(struct sp_jinja_machine *m, struct sp_value *out,
                                              struct sp_value text, struct sp_value from,
                                              struct sp_value to, int64_t count);

enum sp_jinja_case {
    SP_JINJA_UPPER,
    SP_JINJA_LOWER,
    SP_JINJA_TITLE,
    SP_JINJA_CAPITALIZE,
    SP_JINJA_SWAP
};

SP_MUST_CHECK enum sp_status sp_jinja_recase(struct sp_jinja_machine *m, struct sp_value *out,
                                             struct sp_value text, enum sp_jinja_case how);
SP_MUST_CHECK enum sp_status sp_jinja_splitlines(struct sp_jinja_machine *m, struct sp_value *out,
                                                 struct sp_value text, bool keep_ends);

#endif
