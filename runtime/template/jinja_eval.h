/* The machine's evaluation of expressions and statements; private to jinja_eval.c and jinja_expr.c.
 */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_EVAL_H
#define SP_RUNTIME_TEMPLATE_JINJA_EVAL_H

#include "runtime/template/jinja_builtin.h"

/* One evaluation deeper, and its work; the caller leaves it by m->depth--. */
SP_MUST_CHECK enum sp_status sp_jinja_step(struct jinja_machine *m);
SP_MUST_CHECK enum sp_status sp_jinja_eval(struct jinja_machine *m, struct sp_value *out,
                                           const struct jinja_node *node);
SP_MUST_CHECK enum sp_status sp_jinja_lookup(struct jinja_machine *m, struct sp_value *out,
                                             struct sp_value name);
/* A J_FILTER; `text` (or NULL) stands in for the input of the innermost of a chain. */
SP_MUST_CHECK enum sp_status sp_jinja_eval_filter(struct jinja_machine *m, struct sp_value *out,
                                                  const struct jinja_node *node,
                                                  const struct sp_value *text);
/* A J_CALL; `caller` (or NULL) is passed as the keyword of that name. */
SP_MUST_CHECK enum sp_status sp_jinja_eval_call(struct jinja_machine *m, struct sp_value *out,
                                                const struct jinja_node *node,
                                                const struct sp_value *caller);

#endif
