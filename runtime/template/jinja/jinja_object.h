/* Callable objects of Jinja (global functions, loops, cyclers, joiners), how arguments are bound to
 * parameters, and how values are iterated. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_OBJECT_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_OBJECT_H

#include "runtime/template/jinja/jinja_filter.h"
#include "runtime/template/jinja/jinja_predicate.h"

/* Binds arguments to slots by the names in `params`. `what` names the callee in errors. */
SP_MUST_CHECK enum sp_status sp_jinja_bind(struct sp_jinja_machine *m, const char *what,
                                           const char *params, const struct sp_jinja_args *args,
                                           struct sp_value slot[SP_JINJA_MAX_ARGS]);
/* True if an argument is present and not None. */
static inline bool sp_jinja_given(struct sp_value arg)
{
    return arg.kind != SP_V_ABSENT && arg.kind != SP_V_NONE;
}
/* Reads an argument; *out = `otherwise` if `arg` is absent. */
SP_MUST_CHECK enum sp_status sp_jinja_want_integer(struct sp_jinja_machine *m, struct sp_value arg,
                                                   int64_t otherwise, int64_t *out);
SP_MUST_CHECK enum sp_status sp_jinja_run_filter(struct sp_jinja_machine *m, struct sp_value *out,
                                                 const struct sp_jinja_filter *filter,
                                                 struct sp_value in,
                                                 const struct sp_jinja_args *args);
/* Charges for the bytes of the arguments. */
SP_MUST_CHECK enum sp_status sp_jinja_charge_args(struct sp_jinja_machine *m,
                                                  const struct sp_jinja_args *args);
SP_MUST_CHECK enum sp_status sp_jinja_run_test(struct sp_jinja_machine *m, bool *out,
                                               const struct sp_jinja_test *test, struct sp_value in,
                                               const struct sp_jinja_args *args);

/* The items of an iteration over `v`, as a list, which is borrowed if `v` is one. */
SP_MUST_CHECK enum sp_status sp_jinja_items(struct sp_jinja_machine *m, const struct sp_list **out,
                                            struct sp_value v);
bool sp_jinja_iterable(struct sp_value v);
SP_MUST_CHECK enum sp_status sp_jinja_length(struct sp_jinja_machine *m, size_t *out,
                                             struct sp_value v);
/* Finds the global function `name`; *out is SP_V_ABSENT if there is none. */
SP_MUST_CHECK enum sp_status sp_jinja_global(struct sp_jinja_machine *m, struct sp_value *out,
                                             struct sp_value name);
SP_MUST_CHECK enum sp_status sp_jinja_loop_attribute(struct sp_jinja_machine *m,
                                                     struct sp_value *out,
                                                     struct sp_jinja_object *loop,
                                                     struct sp_value name);

SP_MUST_CHECK enum sp_status sp_jinja_cycler_attribute(struct sp_jinja_machine *m,
                                                       struct sp_value *out,
                                                       struct sp_jinja_object *cycler,
                                                       struct sp_value name);

#endif
