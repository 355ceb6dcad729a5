/* The evaluation of Jinja's expressions; private to jinja_eval.c and jinja_expr.c. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_EXPR_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_EXPR_H

#include "runtime/template/jinja/jinja_machine.h"

SP_MUST_CHECK enum sp_status sp_jinja_eval(struct sp_jinja_machine *m, struct sp_value *out,
                                           const struct sp_jinja_node *node);
/* Evaluates an SP_J_FILTER; `text` (or NULL) is the input of the innermost filter of a chain. */
SP_MUST_CHECK enum sp_status sp_jinja_eval_filter(struct sp_jinja_machine *m, struct sp_value *out,
                                                  const struct sp_jinja_node *node,
                                                  const struct sp_value *text);
/* Evaluates an SP_J_CALL; `caller` (or NULL) is passed as the keyword of that name. */
SP_MUST_CHECK enum sp_status sp_jinja_eval_call(struct sp_jinja_machine *m, struct sp_value *out,
                                                const struct sp_jinja_node *node,
                                                const struct sp_value *caller);

#endif
