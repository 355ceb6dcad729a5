/* The state of an execution of a Go template; private to the gotemplate_*.c files. */
#ifndef SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_EXEC_H
#define SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_EXEC_H

#include "runtime/template/go/gotemplate_tree.h"

struct sp_go_variable {
    struct sp_value name, value;
};

struct sp_go_machine {
    struct sp_heap *heap;
    struct sp_builder *out;
    const struct sp_gotemplate *tree;
    enum sp_gotemplate_part part;
    struct sp_template_time now;
    struct sp_go_variable *vars;   /* [n_vars], a stack */
    size_t n_vars, cap_vars, base; /* base: the first variable of the current template */
    unsigned depth;
    const struct sp_go_node *at; /* current node, for errors */
};

SP_MUST_CHECK enum sp_status sp_go_fail(struct sp_go_machine *m, const char *format, ...)
    SP_PRINTF(2, 3);
bool sp_go_truth(struct sp_value v);
const char *sp_go_type_name(struct sp_value v);

#endif
