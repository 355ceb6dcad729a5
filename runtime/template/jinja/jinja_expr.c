/* Evaluates the expressions of a Jinja template. */
#include "runtime/template/jinja/jinja_machine.h"

struct sorted_args {
    struct sp_jinja_args args;
    struct sp_value positional, names, named; /* lists */
};

static void add_named(struct sp_jinja_machine *m, struct sorted_args *s, struct sp_value name,
                      struct sp_value value)
{
    sp_list_push(m->heap, s->names.list, name);
    sp_list_push(m->heap, s->named.list, value);
}

static void add_dict_args(struct sp_jinja_machine *m, struct sorted_args *s, struct sp_value value)
{
    if (value.kind != SP_V_DICT) {
        sp_jinja_fail(m, "argument after ** must be a mapping");
        return;
    }
    for (size_t i = 0; i < value.dict->n && !m->heap->status; i++) {
        if (value.dict->at[i].key.kind != SP_V_TEXT) sp_jinja_fail(m, "keywords must be strings");
        add_named(m, s, value.dict->at[i].key, value.dict->at[i].value);
    }
}

/* Evaluates the arguments of a call; `caller`: one more, or NULL. False: a failure. */
static bool eval_args(struct sp_jinja_machine *m, struct sorted_args *s,
                      const struct sp_jinja_node *list, const struct sp_value *caller)
{
    const struct sp_list *items;

    s->positional = sp_value_list(m->heap, SP_SHAPE_TUPLE, 0);
    s->names = sp_value_list(m->heap, SP_SHAPE_TUPLE, 0);
    s->named = sp_value_list(m->heap, SP_SHAPE_TUPLE, 0);
    for (const struct sp_jinja_node *arg = list; arg != NULL && !m->heap->status; arg = arg->next) {
        struct sp_value value = sp_jinja_eval(m, arg->a);
        switch (arg->op) {
        case SP_J_ARG_STAR:
            items = sp_jinja_items(m, value);
            for (size_t i = 0; i < items->n; i++)
                sp_list_push(m->heap, s->positional.list, items->at[i]);
            break;
        case SP_J_ARG_STARS:
            add_dict_args(m, s, value);
            break;
        case SP_J_ARG_KEYWORD:
            add_named(m, s, arg->value, value);
            break;
        default:
            sp_list_push(m->heap, s->positional.list, value);
        }
    }
    if (caller != NULL) add_named(m, s, sp_value_name("caller"), *caller);
    s->args = (struct sp_jinja_args){s->positional.list->at, s->names.list->at, s->named.list->at,
                                     s->positional.list->n, s->names.list->n};
    return !m->heap->status;
}

struct sp_value sp_jinja_eval_call(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                                   const struct sp_value *caller)
{
    struct sp_value callee = sp_jinja_eval(m, node->a);
    struct sorted_args s;

    if (!eval_args(m, &s, node->list, caller)) return SP_VALUE_ABSENT;
    m->line = node->line;
    return sp_jinja_call(m, callee, &s.args);
}

/* Runs the filter or test of a node. */
static struct sp_value run_function(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                                    struct sp_value in)
{
    struct sorted_args s;

    if (!eval_args(m, &s, node->list, NULL)) return SP_VALUE_ABSENT;
    if (node->kind == SP_J_FILTER) m->line = node->line;
    if (node->function == NULL)
        return sp_jinja_refuse(m, node->kind == SP_J_FILTER ? "filter" : "test", node->value);
    return sp_jinja_run(m, node->function, in, &s.args);
}

struct sp_value sp_jinja_eval_filter(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                                     const struct sp_value *text)
{
    struct sp_value in;

    if (!sp_jinja_step(m)) return SP_VALUE_ABSENT;
    if (node->a == NULL)
        in = *text;
    else if (node->a->kind == SP_J_FILTER)
        in = sp_jinja_eval_filter(m, node->a, text);
    else
        in = sp_jinja_eval(m, node->a);
    in = run_function(m, node, in);
    m->depth--;
    return in;
}

static struct sp_value eval_list(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                                 enum sp_value_shape shape)
{
    struct sp_value out = sp_value_list(m->heap, shape, 0);

    for (const struct sp_jinja_node *n = node->list; n != NULL; n = n->next)
        sp_list_push(m->heap, out.list, sp_jinja_eval(m, n));
    return out;
}

static struct sp_value eval_dict(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    struct sp_value out = sp_value_dict(m->heap);

    for (const struct sp_jinja_node *n = node->list; n != NULL; n = n->next) {
        struct sp_value key = sp_jinja_eval(m, n->a);
        sp_dict_set(m->heap, out.dict, key, sp_jinja_eval(m, n->b));
    }
    return out;
}

/* Evaluates a < b < c: each operand once, and none after the first comparison that fails. */
static struct sp_value eval_compare(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    struct sp_value left = sp_jinja_eval(m, node->a);
    bool truth = true;

    for (const struct sp_jinja_node *n = node->list; n != NULL && truth; n = n->next) {
        struct sp_value right = sp_jinja_eval(m, n->a);
        truth = sp_jinja_compare(m, n->op, left, right);
        left = right;
    }
    return sp_value_bool(truth);
}

static struct sp_value eval_concat(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    struct sp_builder b = {.heap = m->heap};

    for (const struct sp_jinja_node *n = node->list; n != NULL; n = n->next)
        sp_jinja_build_str(&b, sp_jinja_eval(m, n));
    return sp_builder_value(&b);
}

static struct sp_value eval_slice(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    const struct sp_jinja_node *const from[3] = {node->b, node->c, node->body};
    struct sp_value v = sp_jinja_eval(m, node->a), bound[3] = {{0}};

    for (int i = 0; i < 3; i++)
        if (from[i] != NULL) bound[i] = sp_jinja_eval(m, from[i]);
    return sp_jinja_slice(m, v, bound);
}

static struct sp_value eval_cond(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    if (sp_value_truth(sp_jinja_eval(m, node->a))) return sp_jinja_eval(m, node->b);
    if (node->c != NULL) return sp_jinja_eval(m, node->c);
    return sp_jinja_undefined(m,
                              "the inline if-expression on line %u evaluated to false and no "
                              "else section was defined",
                              node->line);
}

static struct sp_value eval_operation(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    struct sp_value a = sp_jinja_eval(m, node->a), b = SP_VALUE_ABSENT;

    if (node->kind == SP_J_UNARY) return sp_jinja_unary(m, node->op, a);
    if (node->kind == SP_J_NOT) return sp_value_bool(!sp_value_truth(a));
    if (node->b != NULL) b = sp_jinja_eval(m, node->b);
    if (!m->heap->status) m->line = node->line;
    if (node->kind == SP_J_ATTR) return sp_jinja_attribute(m, a, node->value);
    if (node->kind == SP_J_ITEM) return sp_jinja_item(m, a, b);
    return sp_jinja_binary(m, node->op, a, b);
}

static struct sp_value eval_kind(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    struct sp_value left;

    switch (node->kind) {
    case SP_J_LITERAL:
        return node->value;
    case SP_J_NAME:
        return sp_jinja_lookup(m, node->value);
    case SP_J_TUPLE:
        return eval_list(m, node, SP_SHAPE_TUPLE);
    case SP_J_LIST:
        return eval_list(m, node, SP_SHAPE_PLAIN);
    case SP_J_DICT:
        return eval_dict(m, node);
    case SP_J_SLICE:
        return eval_slice(m, node);
    case SP_J_CALL:
        return sp_jinja_eval_call(m, node, NULL);
    case SP_J_FILTER:
        return sp_jinja_eval_filter(m, node, NULL);
    case SP_J_TEST:
        return run_function(m, node, sp_jinja_eval(m, node->a));
    case SP_J_COMPARE:
        return eval_compare(m, node);
    case SP_J_AND:
    case SP_J_OR:
        left = sp_jinja_eval(m, node->a);
        return sp_value_truth(left) == (node->kind == SP_J_AND) ? sp_jinja_eval(m, node->b) : left;
    case SP_J_CONCAT:
        return eval_concat(m, node);
    case SP_J_COND:
        return eval_cond(m, node);
    case SP_J_ATTR:
    case SP_J_ITEM:
    case SP_J_UNARY:
    case SP_J_NOT:
    case SP_J_BINARY:
        return eval_operation(m, node);
    default:
        return sp_heap_fail(m->heap, SP_E_BUG, "expression of kind %d", node->kind);
    }
}

struct sp_value sp_jinja_eval(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    struct sp_value out;

    if (!sp_jinja_step(m)) return SP_VALUE_ABSENT;
    m->line = node->line;
    out = eval_kind(m, node);
    m->depth--;
    return out;
}
