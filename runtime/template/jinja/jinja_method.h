/* Methods of Jinja values: rows of tables, like filters; private to the jinja_method*.c files. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_METHOD_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_METHOD_H

#include "runtime/template/jinja/jinja_machine.h"

struct sp_jinja_method {
    const char *name;
    const char *params; /* like those of a filter */
    /* NULL: str.format, which takes any number of arguments. */
    enum sp_status (*run)(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value self,
                          const struct sp_value *arg);
};

#define SP_METHOD(name)                                                                            \
    static enum sp_status name(struct sp_jinja_machine *m, struct sp_value *out,                   \
                               struct sp_value self, const struct sp_value *arg)

/* The methods of texts; each table ends with a row without a name. */
extern const struct sp_jinja_method sp_jinja_text_methods[], sp_jinja_find_methods[],
    sp_jinja_is_methods[];

SP_MUST_CHECK enum sp_status sp_jinja_want_text(struct sp_jinja_machine *m, struct sp_value v);

/* Finds the method `name` of a text, list or dictionary as a callable; *found is false if there is
 * none. */
SP_MUST_CHECK enum sp_status sp_jinja_method(struct sp_jinja_machine *m, struct sp_value *out,
                                             bool *found, struct sp_value self,
                                             struct sp_value name);

#endif
