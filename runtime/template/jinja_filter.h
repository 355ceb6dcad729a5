/* The filters of Jinja, as rows of tables: `value | name(arguments)`. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_FILTER_H
#define SP_RUNTIME_TEMPLATE_JINJA_FILTER_H

#include "runtime/template/jinja_machine.h"

struct sp_jinja_filter {
    const char *name;
    const char *params; /* "width first=": names with spaces between, those with = may be absent */
    enum sp_status (*run)(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value in,
                          const struct sp_value *arg);
    /* Instead of `run`, for those that take any arguments. */
    enum sp_status (*run_any)(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value in,
                              const struct sp_jinja_args *args);
};

/* Returns NULL where no filter has the name. */
const struct sp_jinja_filter *sp_jinja_find_filter(struct sp_value name);

/* The filters of texts and of lists; a row without a name ends each table. */
extern const struct sp_jinja_filter sp_jinja_text_filters[], sp_jinja_list_filters[];

#endif
