/* Filters, tests, methods and operators of Jinja, and the machine they run on; private to the
 * jinja_*.c files.
 *
 * A builtin gets its arguments bound to the parameter names of its table row, an argument that was
 * not given as SP_V_ABSENT. All failures go to the heap's error; the machine puts the line in
 * front. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_BUILTIN_H
#define SP_RUNTIME_TEMPLATE_JINJA_BUILTIN_H

#include "runtime/template/jinja_tree.h"

enum { JINJA_MAX_ARGS = 6 };

/* Arguments as given: `n` positional values, then `n_named` with names. */
struct jinja_args {
    const struct sp_value *at;    /* [n] */
    const struct sp_value *names; /* [n_named], texts */
    const struct sp_value *named; /* [n_named] */
    size_t n, n_named;
};

struct jinja_machine;

struct jinja_filter {
    const char *name;
    const char *params; /* "width first=": names with spaces between, those with = may be absent */
    enum sp_status (*run)(struct jinja_machine *m, struct sp_value *out, struct sp_value in,
                          const struct sp_value *arg);
    /* Instead of `run`, for those that take any arguments. */
    enum sp_status (*run_any)(struct jinja_machine *m, struct sp_value *out, struct sp_value in,
                              const struct jinja_args *args);
};

struct jinja_test {
    const char *name;
    const char *params;
    enum sp_status (*run)(struct jinja_machine *m, bool *out, struct sp_value v,
                          const struct sp_value *arg);
};

/* NULL: there is none of that name. */
const struct jinja_filter *sp_jinja_find_filter(struct sp_value name);
const struct jinja_test *sp_jinja_find_test(struct sp_value name);
extern const struct jinja_filter sp_jinja_text_filters[], sp_jinja_list_filters[];

/* Sorts arguments into slots by the names in `params`. `what` names the callee. */
SP_MUST_CHECK enum sp_status sp_jinja_bind(struct jinja_machine *m, const char *what,
                                           const char *params, const struct jinja_args *args,
                                           struct sp_value slot[JINJA_MAX_ARGS]);
/* Was it given, as something else than None? */
static inline bool sp_jinja_given(struct sp_value arg)
{
    return arg.kind != SP_V_ABSENT && arg.kind != SP_V_NONE;
}
/* *out = `otherwise` where `arg` is absent. */
SP_MUST_CHECK enum sp_status sp_jinja_want_integer(struct jinja_machine *m, struct sp_value arg,
                                                   int64_t otherwise, int64_t *out);
SP_MUST_CHECK enum sp_status sp_jinja_run_filter(struct jinja_machine *m, struct sp_value *out,
                                                 const struct jinja_filter *filter,
                                                 struct sp_value in, const struct jinja_args *args);
SP_MUST_CHECK enum sp_status sp_jinja_run_test(struct jinja_machine *m, bool *out,
                                               const struct jinja_test *test, struct sp_value in,
                                               const struct jinja_args *args);

/* Variables of a macro, a loop's round, a with. */
struct jinja_binding {
    struct sp_value name, value;
};

struct jinja_scope {
    struct jinja_scope *outer;
    struct jinja_binding *at;
    size_t n, cap;
};

enum jinja_object_kind {
    JINJA_FUNCTION,  /* a global: fn */
    JINJA_METHOD,    /* of self: fn, method */
    JINJA_MACRO,     /* node, scope */
    JINJA_LOOP,      /* loop */
    JINJA_NAMESPACE, /* dict */
    JINJA_CYCLER,    /* self: a tuple, position */
    JINJA_JOINER,    /* self: the separator; position: used */
};

struct jinja_object {
    enum jinja_object_kind kind;
    const char *name; /* JINJA_FUNCTION, JINJA_METHOD */
    const struct jinja_method *method;
    enum sp_status (*fn)(struct jinja_machine *m, struct sp_value *out, struct jinja_object *self,
                         const struct jinja_args *args);
    struct sp_value self;
    size_t position;
    const struct jinja_node *node; /* JINJA_MACRO: J_MACRO or J_CALL_BLOCK; JINJA_LOOP: J_FOR */
    struct jinja_scope *scope;
    struct sp_dict *dict;
    const struct sp_list *items; /* JINJA_LOOP: walked; position: the current one */
    size_t depth;                /* JINJA_LOOP: loops of a recursive for around it */
    struct sp_value changed;     /* JINJA_LOOP: what loop.changed() saw last */
};

struct jinja_machine {
    struct sp_heap *heap;
    struct sp_builder *out; /* where text goes: the result, a macro's, a block's */
    struct jinja_scope *scope;
    const struct sp_dict *vars;
    struct sp_template_time now;
    uint32_t line;
    unsigned depth; /* evaluations inside evaluations */
};

SP_MUST_CHECK enum sp_status sp_jinja_fail(struct jinja_machine *m, const char *format, ...)
    SP_PRINTF(2, 3);
/* "int", "str", "dict", ..: the name of a value's Python type. */
const char *sp_jinja_type_name(struct sp_value v);
SP_MUST_CHECK enum sp_status sp_jinja_undefined(struct jinja_machine *m, struct sp_value *out,
                                                const char *format, ...) SP_PRINTF(3, 4);
/* Fails with what is undefined when `v` is. */
SP_MUST_CHECK enum sp_status sp_jinja_defined(struct jinja_machine *m, struct sp_value v);

/* str(v), repr(v), json.dumps. */
SP_MUST_CHECK enum sp_status sp_jinja_build_str(struct sp_builder *b, struct sp_value v);
SP_MUST_CHECK enum sp_status sp_jinja_build_repr(struct sp_builder *b, struct sp_value v);
SP_MUST_CHECK enum sp_status sp_jinja_to_text(struct jinja_machine *m, struct sp_value *out,
                                              struct sp_value v);
struct jinja_json_style {
    const char *indent; /* text of one level, NULL: all on one line */
    size_t indent_len;
    struct sp_value item_separator, key_separator; /* texts */
    bool sort_keys, ascii;
};
SP_MUST_CHECK enum sp_status sp_jinja_build_json(struct sp_builder *b, struct sp_value v,
                                                 const struct jinja_json_style *style);
SP_MUST_CHECK enum sp_status sp_jinja_escape(struct jinja_machine *m, struct sp_value *out,
                                             struct sp_value v);

/* Items that iterating `v` gives, as a list (borrowed where it is one). */
SP_MUST_CHECK enum sp_status sp_jinja_items(struct jinja_machine *m, const struct sp_list **out,
                                            struct sp_value v);
bool sp_jinja_iterable(struct sp_value v);
SP_MUST_CHECK enum sp_status sp_jinja_length(struct jinja_machine *m, size_t *out,
                                             struct sp_value v);

SP_MUST_CHECK enum sp_status sp_jinja_binary(struct jinja_machine *m, struct sp_value *out,
                                             enum jinja_token op, struct sp_value a,
                                             struct sp_value b);
SP_MUST_CHECK enum sp_status sp_jinja_unary(struct jinja_machine *m, struct sp_value *out,
                                            enum jinja_token op, struct sp_value a);
SP_MUST_CHECK enum sp_status sp_jinja_compare(struct jinja_machine *m, bool *out,
                                              enum jinja_token op, struct sp_value a,
                                              struct sp_value b);
/* *out below, at or above 0; values that Python cannot order are an error. */
SP_MUST_CHECK enum sp_status sp_jinja_order(struct jinja_machine *m, int *out, struct sp_value a,
                                            struct sp_value b);
SP_MUST_CHECK enum sp_status sp_jinja_contains(struct jinja_machine *m, bool *out,
                                               struct sp_value item, struct sp_value in);
/* v.name and v[index], undefined where there is nothing. */
SP_MUST_CHECK enum sp_status sp_jinja_attribute(struct jinja_machine *m, struct sp_value *out,
                                                struct sp_value v, struct sp_value name);
SP_MUST_CHECK enum sp_status sp_jinja_item(struct jinja_machine *m, struct sp_value *out,
                                           struct sp_value v, struct sp_value index);
/* v[from:to:step], each may be SP_V_ABSENT. */
SP_MUST_CHECK enum sp_status sp_jinja_slice(struct jinja_machine *m, struct sp_value *out,
                                            struct sp_value v, const struct sp_value bound[3]);
SP_MUST_CHECK enum sp_status sp_jinja_call(struct jinja_machine *m, struct sp_value *out,
                                           struct sp_value callee, const struct jinja_args *args);
/* The method `name` of a text, list or dictionary as a callable; *found false when it has none. */
SP_MUST_CHECK enum sp_status sp_jinja_method(struct jinja_machine *m, struct sp_value *out,
                                             bool *found, struct sp_value self,
                                             struct sp_value name);
/* The global function `name`; NULL kind SP_V_ABSENT when there is none. */
SP_MUST_CHECK enum sp_status sp_jinja_global(struct jinja_machine *m, struct sp_value *out,
                                             struct sp_value name);
SP_MUST_CHECK enum sp_status sp_jinja_loop_attribute(struct jinja_machine *m, struct sp_value *out,
                                                     struct jinja_object *loop,
                                                     struct sp_value name);

SP_MUST_CHECK enum sp_status sp_jinja_cycler_attribute(struct jinja_machine *m,
                                                       struct sp_value *out,
                                                       struct jinja_object *cycler,
                                                       struct sp_value name);

/* Texts: shared by filters and methods. All take and give code points. */
size_t sp_jinja_text_len(struct sp_value text);
/* Byte offset of the first occurrence at or after `from`, or SIZE_MAX; charged for what it
 * compares. */
SP_MUST_CHECK enum sp_status sp_jinja_find(struct jinja_machine *m, size_t *at,
                                           struct sp_value text, struct sp_value what, size_t from);
enum jinja_sides { JINJA_LEFT = 1, JINJA_RIGHT = 2, JINJA_BOTH = 3 };
/* `chars` SP_V_ABSENT or none: white space. */
SP_MUST_CHECK enum sp_status sp_jinja_strip(struct jinja_machine *m, struct sp_value *out,
                                            struct sp_value text, struct sp_value chars,
                                            enum jinja_sides sides);
SP_MUST_CHECK enum sp_status sp_jinja_replace(struct jinja_machine *m, struct sp_value *out,
                                              struct sp_value text, struct sp_value from,
                                              struct sp_value to, int64_t count);
enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE, JINJA_CAPITALIZE, JINJA_SWAP };
SP_MUST_CHECK enum sp_status sp_jinja_recase(struct jinja_machine *m, struct sp_value *out,
                                             struct sp_value text, enum jinja_case how);
SP_MUST_CHECK enum sp_status sp_jinja_splitlines(struct jinja_machine *m, struct sp_value *out,
                                                 struct sp_value text, bool keep_ends);
/* strftime in the C locale; the time has no zone, so %z and %Z are empty. */
SP_MUST_CHECK enum sp_status sp_jinja_build_time(struct sp_builder *b, struct sp_value format,
                                                 const struct sp_template_time *now);
/* "%d %s" % value, and "{} {a}".format(...). */
SP_MUST_CHECK enum sp_status sp_jinja_percent(struct jinja_machine *m, struct sp_value *out,
                                              struct sp_value format, struct sp_value arg);
SP_MUST_CHECK enum sp_status sp_jinja_format(struct jinja_machine *m, struct sp_value *out,
                                             struct sp_value format, const struct jinja_args *args);

#endif
