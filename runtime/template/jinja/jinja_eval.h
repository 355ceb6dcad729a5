/* The execution of a Jinja template: statements, variables and calls. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_EVAL_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_EVAL_H

#include "runtime/template/jinja/jinja_machine.h"

/* Begins a nested evaluation and counts its work; the caller ends it by m->depth--. */
SP_MUST_CHECK enum sp_status sp_jinja_step(struct sp_jinja_machine *m);
SP_MUST_CHECK enum sp_status sp_jinja_lookup(struct sp_jinja_machine *m, struct sp_value *out,
                                             struct sp_value name);

/* Fails with a message that begins with the current line. */
SP_MUST_CHECK enum sp_status sp_jinja_fail(struct sp_jinja_machine *m, const char *format, ...)
    SP_PRINTF(2, 3);
/* Calls a callable object; a call of any other value fails. */
SP_MUST_CHECK enum sp_status sp_jinja_call(struct sp_jinja_machine *m, struct sp_value *out,
                                           struct sp_value callee,
                                           const struct sp_jinja_args *args);

#endif
