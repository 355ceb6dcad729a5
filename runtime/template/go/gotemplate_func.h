/* The functions of Go templates, as rows of a table. */
#ifndef SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_FUNC_H
#define SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_FUNC_H

#include "runtime/template/go/gotemplate_exec.h"

struct sp_go_function {
    const char *name;
    int least, most; /* arguments; most -1: any number */
    enum sp_status (*run)(struct sp_go_machine *m, struct sp_value *out, const struct sp_value *arg,
                          size_t n);
};

/* Finds a function; NULL: there is none. `and` and `or` have no `run`, because they do not
 * evaluate all arguments. */
const struct sp_go_function *sp_go_find_function(struct sp_value name);

#endif
