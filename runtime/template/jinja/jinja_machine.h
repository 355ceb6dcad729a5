/* The state of an execution of a Jinja template, its scopes and its callable objects; private to
 * the jinja_*.c files.
 *
 * The arguments of a filter, test or method are bound to the parameter names of its table row; an
 * absent argument is SP_V_ABSENT. Failures are recorded in the heap's error, with the current
 * line. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_MACHINE_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_MACHINE_H

#include "runtime/template/jinja/jinja_tree.h"

enum { SP_JINJA_MAX_ARGS = 6 };

/* The arguments of a call: `n` positional values, then `n_named` with names. */
struct sp_jinja_args {
    const struct sp_value *at;    /* [n] */
    const struct sp_value *names; /* [n_named], texts */
    const struct sp_value *named; /* [n_named] */
    size_t n, n_named;
};

struct sp_jinja_machine;

/* A variable in a scope: of the template, a macro, a loop iteration, a with. */
struct sp_jinja_binding {
    struct sp_value name, value;
};

struct sp_jinja_scope {
    struct sp_jinja_scope *outer;
    struct sp_jinja_binding *at;
    size_t n, cap;
};

enum sp_jinja_object_kind {
    SP_JINJA_FUNCTION,  /* a global: fn */
    SP_JINJA_METHOD,    /* fn, method, self */
    SP_JINJA_MACRO,     /* node, scope */
    SP_JINJA_LOOP,      /* loop */
    SP_JINJA_NAMESPACE, /* dict */
    SP_JINJA_CYCLER,    /* self: a tuple, position */
    SP_JINJA_JOINER,    /* self: the separator; position: used */
};

struct sp_jinja_object {
    enum sp_jinja_object_kind kind;
    const char *name; /* SP_JINJA_FUNCTION, SP_JINJA_METHOD */
    const struct sp_jinja_method *method;
    enum sp_status (*fn)(struct sp_jinja_machine *m, struct sp_value *out,
                         struct sp_jinja_object *self, const struct sp_jinja_args *args);
    struct sp_value self;
    size_t position;
    /* SP_JINJA_MACRO: the SP_J_MACRO or SP_J_CALL_BLOCK; SP_JINJA_LOOP: the SP_J_FOR. */
    const struct sp_jinja_node *node;
    struct sp_jinja_scope *scope;
    struct sp_dict *dict;
    const struct sp_list *items; /* SP_JINJA_LOOP: the items; position: the current one */
    size_t depth;                /* SP_JINJA_LOOP: loops of a recursive for around it */
    struct sp_value changed;     /* SP_JINJA_LOOP: the last arguments of loop.changed() */
};

struct sp_jinja_machine {
    struct sp_heap *heap;
    struct sp_builder *out; /* output: the result, or the text of a macro or block */
    struct sp_jinja_scope *scope;
    const struct sp_dict *vars;
    struct sp_template_time now;
    uint32_t line;
    unsigned depth; /* nested evaluations */
};

#endif
