/* The filters of Jinja, as rows of tables: `value | name(arguments)`. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_FILTER_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_FILTER_H

#include "runtime/template/jinja/jinja_machine.h"

struct sp_jinja_filter {
    const char *name;
    const char *params; /* "width first=": names separated by spaces, those with = are optional */
    enum sp_status (*run)(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value in,
                          const struct sp_value *arg);
    /* Set instead of `run` for filters with any number of arguments. */
    enum sp_status (*run_any)(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value in,
                              const struct sp_jinja_args *args);
};

/* Finds a filter; NULL: there is none of that name. */
const struct sp_jinja_filter *sp_jinja_find_filter(struct sp_value name);

/* The filters of texts and of lists; each table ends with a row without a name. */
extern const struct sp_jinja_filter sp_jinja_text_filters[], sp_jinja_list_filters[];

#endif
