/* The tests of Jinja, as rows of a table: `value is name(arguments)`. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_PREDICATE_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_PREDICATE_H

#include "runtime/template/jinja/jinja_machine.h"

struct sp_jinja_test {
    const char *name;
    const char *params;
    enum sp_status (*run)(struct sp_jinja_machine *m, bool *out, struct sp_value v,
                          const struct sp_value *arg);
};

/* Finds a test; NULL: there is none of that name. */
const struct sp_jinja_test *sp_jinja_find_test(struct sp_value name);

#endif
