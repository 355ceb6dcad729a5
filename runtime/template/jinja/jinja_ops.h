/* The operators of Jinja, with the semantics of Python. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_OPS_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_OPS_H

#include "runtime/template/jinja/jinja_machine.h"
#include "runtime/template/jinja/jinja_lex.h"

/* "int", "str", "dict", ..: the name of a value's Python type. */
const char *sp_jinja_type_name(struct sp_value v);
SP_MUST_CHECK enum sp_status sp_jinja_undefined(struct sp_jinja_machine *m, struct sp_value *out,
                                                const char *format, ...) SP_PRINTF(3, 4);
/* Fails if `v` is undefined, with the sentence stored in it. */
SP_MUST_CHECK enum sp_status sp_jinja_defined(struct sp_jinja_machine *m, struct sp_value v);

SP_MUST_CHECK enum sp_status sp_jinja_binary(struct sp_jinja_machine *m, struct sp_value *out,
                                             enum sp_jinja_token op, struct sp_value a,
                                             struct sp_value b);
SP_MUST_CHECK enum sp_status sp_jinja_unary(struct sp_jinja_machine *m, struct sp_value *out,
                                            enum sp_jinja_token op, struct sp_value a);
SP_MUST_CHECK enum sp_status sp_jinja_compare(struct sp_jinja_machine *m, bool *out,
                                              enum sp_jinja_token op, struct sp_value a,
                                              struct sp_value b);
/* Sets *out below, at or above 0; values that Python cannot order are an error. */
SP_MUST_CHECK enum sp_status sp_jinja_order(struct sp_jinja_machine *m, int *out, struct sp_value a,
                                            struct sp_value b);
SP_MUST_CHECK enum sp_status sp_jinja_contains(struct sp_jinja_machine *m, bool *out,
                                               struct sp_value item, struct sp_value in);
/* Evaluate v.name and v[index], which are undefined if they do not exist. */
SP_MUST_CHECK enum sp_status sp_jinja_attribute(struct sp_jinja_machine *m, struct sp_value *out,
                                                struct sp_value v, struct sp_value name);
SP_MUST_CHECK enum sp_status sp_jinja_item(struct sp_jinja_machine *m, struct sp_value *out,
                                           struct sp_value v, struct sp_value index);
/* Evaluates v[from:to:step]; each may be SP_V_ABSENT. */
SP_MUST_CHECK enum sp_status sp_jinja_slice(struct sp_jinja_machine *m, struct sp_value *out,
                                            struct sp_value v, const struct sp_value bound[3]);

#endif
