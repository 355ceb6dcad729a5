/* The execution of a Jinja template: its state, its callable objects, and what the jinja_*.c files
 * need of each other; private to them.
 *
 * Filters, tests and methods are rows of tables. The arguments of a call are bound to the parameter
 * names of the row; an absent argument is SP_V_ABSENT. Failures are recorded in the heap, with the
 * current line; a function that fails returns SP_V_ABSENT. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_MACHINE_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_MACHINE_H

#include "runtime/template/jinja/jinja_tree.h"
#include "runtime/template/value/value.h"

enum { SP_JINJA_MAX_ARGS = 6 };

/* The arguments of a call: `n` positional values, then `n_named` with names. */
struct sp_jinja_args {
    const struct sp_value *at;    /* [n] */
    const struct sp_value *names; /* [n_named], texts */
    const struct sp_value *named; /* [n_named] */
    size_t n, n_named;
};

struct sp_jinja_machine;

/* What a filter, test or method makes of a value; `how` distinguishes rows with the same `run`. */
typedef struct sp_value sp_jinja_run_fn(struct sp_jinja_machine *m, struct sp_value in,
                                        const struct sp_value *arg, int how);

/* A filter, test or method. */
struct sp_jinja_function {
    const char *name;
    const char *params; /* "width first=": names separated by spaces, those with = are optional */
    sp_jinja_run_fn *run;
    /* Set instead of `run` for those with any number of arguments. */
    struct sp_value (*run_any)(struct sp_jinja_machine *m, struct sp_value in,
                               const struct sp_jinja_args *args, int how);
    int how;
};

#define SP_JINJA_UNUSED __attribute__((unused))

/* Begins the definition of a function's `run`, and of its `run_any`. */
#define SP_JINJA_FUNCTION(name)                                                                    \
    struct sp_value name(SP_JINJA_UNUSED struct sp_jinja_machine *m,                               \
                         SP_JINJA_UNUSED struct sp_value in,                                       \
                         SP_JINJA_UNUSED const struct sp_value *arg, SP_JINJA_UNUSED int how)
#define SP_JINJA_FUNCTION_ANY(name)                                                                \
    struct sp_value name(struct sp_jinja_machine *m, struct sp_value in,                           \
                         const struct sp_jinja_args *args, SP_JINJA_UNUSED int how)

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
    SP_JINJA_CALLABLE, /* a global or a method: call, function, self */
    SP_JINJA_MACRO,    /* node, scope */
    SP_JINJA_LOOP,     /* items, position */
    SP_JINJA_NAMESPACE /* dict */
};

struct sp_jinja_object {
    enum sp_jinja_object_kind kind;
    const char *name; /* SP_JINJA_CALLABLE */
    struct sp_value (*call)(struct sp_jinja_machine *m, struct sp_jinja_object *self,
                            const struct sp_jinja_args *args);
    const struct sp_jinja_function *function; /* a method's; NULL: it is not supported */
    struct sp_value self;
    const struct sp_jinja_node *node; /* the SP_J_MACRO or SP_J_CALL_BLOCK */
    struct sp_jinja_scope *scope;
    struct sp_dict *dict;
    const struct sp_list *items;
    size_t position; /* SP_JINJA_LOOP: the current item; a joiner: it was called */
};

struct sp_jinja_machine {
    struct sp_heap *heap;
    struct sp_builder *out; /* output: the result, or the text of a macro or block */
    struct sp_jinja_scope *scope;
    const struct sp_dict *vars;
    struct sp_template_time now;
    uint32_t line;
    unsigned depth;                   /* nested evaluations */
    struct sp_jinja_object no_object; /* stands for an object that could not be made */
};

/* ---- statements and expressions ---- */

/* Begins a nested evaluation and counts its work; the caller ends it by m->depth--. False: there
 * was a failure, and nothing began. */
bool sp_jinja_step(struct sp_jinja_machine *m);
struct sp_value sp_jinja_lookup(struct sp_jinja_machine *m, struct sp_value name);
/* Fails with a message that begins with the current line. */
struct sp_value sp_jinja_fail(struct sp_jinja_machine *m, const char *format, ...) SP_PRINTF(2, 3);
/* Refuses a thing of Jinja or Python by its name: "filter groupby is not supported". */
struct sp_value sp_jinja_refuse(struct sp_jinja_machine *m, const char *kind, struct sp_value name);
struct sp_value sp_jinja_eval(struct sp_jinja_machine *m, const struct sp_jinja_node *node);
/* Evaluates an SP_J_FILTER; `text` (or NULL) is the input of the innermost filter of a chain. */
struct sp_value sp_jinja_eval_filter(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                                     const struct sp_value *text);
/* Evaluates an SP_J_CALL; `caller` (or NULL) is passed as the keyword of that name. */
struct sp_value sp_jinja_eval_call(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                                   const struct sp_value *caller);
/* Calls a callable object; a call of any other value fails. */
struct sp_value sp_jinja_call(struct sp_jinja_machine *m, struct sp_value callee,
                              const struct sp_jinja_args *args);

/* ---- operators, with the semantics of Python ---- */

/* "int", "str", "dict", ..: the name of a value's Python type. */
const char *sp_jinja_type_name(struct sp_value v);
struct sp_value sp_jinja_undefined(struct sp_jinja_machine *m, const char *format, ...)
    SP_PRINTF(2, 3);
/* Fails and returns false if `v` is undefined, with the sentence stored in it. */
bool sp_jinja_defined(struct sp_jinja_machine *m, struct sp_value v);
struct sp_value sp_jinja_binary(struct sp_jinja_machine *m, enum sp_jinja_token op,
                                struct sp_value a, struct sp_value b);
struct sp_value sp_jinja_unary(struct sp_jinja_machine *m, enum sp_jinja_token op,
                               struct sp_value a);
bool sp_jinja_compare(struct sp_jinja_machine *m, enum sp_jinja_token op, struct sp_value a,
                      struct sp_value b);
/* Returns a number below, at or above 0; values that Python cannot order are an error. */
int sp_jinja_order(struct sp_jinja_machine *m, struct sp_value a, struct sp_value b);
/* Evaluate v.name and v[index], which are undefined if they do not exist. */
struct sp_value sp_jinja_attribute(struct sp_jinja_machine *m, struct sp_value v,
                                   struct sp_value name);
struct sp_value sp_jinja_item(struct sp_jinja_machine *m, struct sp_value v, struct sp_value index);
/* Evaluates v[from:to:step]; each may be SP_V_ABSENT. */
struct sp_value sp_jinja_slice(struct sp_jinja_machine *m, struct sp_value v,
                               const struct sp_value bound[3]);
/* The items of an iteration over `v`, as a list, which is borrowed if `v` is one; never NULL. */
const struct sp_list *sp_jinja_items(struct sp_jinja_machine *m, struct sp_value v);
bool sp_jinja_iterable(struct sp_value v);
/* Makes the list of a dictionary's keys, values or pairs, by `shape`. */
struct sp_value sp_jinja_view(struct sp_jinja_machine *m, const struct sp_dict *dict,
                              enum sp_value_shape shape);

/* ---- functions and objects ---- */

/* Find a filter or a test; NULL: there is none of that name. */
const struct sp_jinja_function *sp_jinja_find_filter(struct sp_value name);
const struct sp_jinja_function *sp_jinja_find_test(struct sp_value name);
/* Finds a row of a table, which ends with one without a name. */
const struct sp_jinja_function *sp_jinja_find_row(const struct sp_jinja_function *table,
                                                  struct sp_value name);
extern const struct sp_jinja_function sp_jinja_list_filters[];
/* Binds arguments to slots by the names in `params`; false: they do not fit. `what` names the
 * callee in errors. */
bool sp_jinja_bind(struct sp_jinja_machine *m, const char *what, const char *params,
                   const struct sp_jinja_args *args, struct sp_value slot[SP_JINJA_MAX_ARGS]);
/* Binds the arguments of a filter, test or method and runs it. */
struct sp_value sp_jinja_run(struct sp_jinja_machine *m, const struct sp_jinja_function *function,
                             struct sp_value in, const struct sp_jinja_args *args);
/* True if an argument is present and not None. */
static inline bool sp_jinja_given(struct sp_value arg)
{
    return arg.kind != SP_V_ABSENT && arg.kind != SP_V_NONE;
}
/* Reads an argument; `otherwise` if it is absent. */
int64_t sp_jinja_want_integer(struct sp_jinja_machine *m, struct sp_value arg, int64_t otherwise);
/* Fails and returns false if `v` is no text. */
bool sp_jinja_want_text(struct sp_jinja_machine *m, struct sp_value v);

/* Makes an object, which is never NULL. */
struct sp_jinja_object *sp_jinja_new_object(struct sp_jinja_machine *m,
                                            enum sp_jinja_object_kind kind);
/* Finds the method `name` of a text, list or dictionary as a callable; SP_V_ABSENT: none. */
struct sp_value sp_jinja_method(struct sp_jinja_machine *m, struct sp_value self,
                                struct sp_value name);
/* Finds the global function `name`; SP_V_ABSENT: there is none. */
struct sp_value sp_jinja_global(struct sp_jinja_machine *m, struct sp_value name);
/* Finds an attribute of a loop; SP_V_ABSENT: there is none. */
struct sp_value sp_jinja_loop_attribute(struct sp_jinja_machine *m, struct sp_jinja_object *loop,
                                        struct sp_value name);

/* ---- texts (jinja_text.c, jinja_string.c) ----
 *
 * Texts in Jinja: string operations that filters and methods share, and values written as Python's
 * str and repr, as JSON, and as escaped HTML. Lengths and counts are in code points. */

/* Append str(v) and repr(v). */
void sp_jinja_build_str(struct sp_builder *b, struct sp_value v);
void sp_jinja_build_repr(struct sp_builder *b, struct sp_value v);
struct sp_value sp_jinja_to_text(struct sp_jinja_machine *m, struct sp_value v);

struct sp_jinja_json_style {
    struct sp_value indent; /* a text, of one level; ABSENT: all on one line */
    struct sp_value item_separator, key_separator; /* texts */
    enum sp_json_text text;
    bool sort_keys;
};

/* Appends json.dumps(v). */
void sp_jinja_build_json(struct sp_builder *b, struct sp_value v,
                         const struct sp_jinja_json_style *style);

/* The byte offset of the first occurrence from `from` on, or SIZE_MAX; comparisons are work. */
size_t sp_jinja_find(struct sp_jinja_machine *m, struct sp_value text, struct sp_value what,
                     size_t from);

enum sp_jinja_sides { SP_JINJA_LEFT = 1, SP_JINJA_RIGHT = 2, SP_JINJA_BOTH = 3 };

struct sp_value sp_jinja_replace(struct sp_jinja_machine *m, struct sp_value text,
                                 struct sp_value from, struct sp_value to, int64_t count);

enum sp_jinja_case { SP_JINJA_UPPER, SP_JINJA_LOWER, SP_JINJA_TITLE, SP_JINJA_CAPITALIZE };

/* Make of any value, as a text: the text in another case (how: enum sp_jinja_case); whether it has
 * letters with case and all of them that one; the text without the characters of arg[0], or without
 * whitespace, at its ends (how: enum sp_jinja_sides); its escaped HTML. */
sp_jinja_run_fn sp_jinja_recase, sp_jinja_has_case, sp_jinja_strip, sp_jinja_escape;
/* Makes the list of a text's lines, with their ends if arg[0] is true. */
sp_jinja_run_fn sp_jinja_splitlines;

#endif
