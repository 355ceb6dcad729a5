/* Evaluates the expressions of a Jinja template. */
#include "runtime/template/jinja/jinja_machine.h"

struct sorted_args {
    struct sp_jinja_args args;
    struct sp_value positional, names, named; /* lists */
};

static enum sp_status add_dict_args(struct sp_jinja_machine *m, struct sorted_args *s,
                                    struct sp_value value)
{
    enum sp_status st = SP_OK;

    if (value.kind != SP_V_DICT) return sp_jinja_fail(m, "argument after ** must be a mapping");
    for (size_t i = 0; i < value.dict->n && !st; i++) {
        if (value.dict->at[i].key.kind != SP_V_TEXT)
            return sp_jinja_fail(m, "keywords must be strings");
        st = sp_list_push(m->heap, s->names.list, value.dict->at[i].key);
        if (!st) st = sp_list_push(m->heap, s->named.list, value.dict->at[i].value);
    }
    return st;
}

static enum sp_status eval_args(struct sp_jinja_machine *m, struct sorted_args *s,
                                const struct sp_jinja_node *list)
{
    enum sp_status st;
    const struct sp_list *items;

    if ((st = sp_value_list(m->heap, &s->positional, SP_SHAPE_TUPLE, 0))) return st;
    if ((st = sp_value_list(m->heap, &s->names, SP_SHAPE_TUPLE, 0))) return st;
    if ((st = sp_value_list(m->heap, &s->named, SP_SHAPE_TUPLE, 0))) return st;
    for (const struct sp_jinja_node *arg = list; arg != NULL && !st; arg = arg->next) {
        struct sp_value value;
        if ((st = sp_jinja_eval(m, &value, arg->a))) return st;
        switch (arg->op) {
        case SP_J_ARG_STAR:
            if ((st = sp_jinja_items(m, &items, value))) return st;
            for (size_t i = 0; i < items->n && !st; i++)
                st = sp_list_push(m->heap, s->positional.list, items->at[i]);
            break;
        case SP_J_ARG_STARS:
            st = add_dict_args(m, s, value);
            break;
        case SP_J_ARG_KEYWORD:
            if ((st = sp_list_push(m->heap, s->names.list, arg->value))) return st;
            st = sp_list_push(m->heap, s->named.list, value);
            break;
        default:
            st = sp_list_push(m->heap, s->positional.list, value);
        }
    }
    s->args = (struct sp_jinja_args){s->positional.list->at, s->names.list->at, s->named.list->at,
                                     s->positional.list->n, s->names.list->n};
    return st;
}

enum sp_status sp_jinja_eval_call(struct sp_jinja_machine *m, struct sp_value *out,
                                  const struct sp_jinja_node *node, const struct sp_value *caller)
{
    enum sp_status st;
    struct sp_value callee;
    struct sorted_args s;

    if ((st = sp_jinja_eval(m, &callee, node->a))) return st;
    if ((st = eval_args(m, &s, node->list))) return st;
    if (caller != NULL) {
        if ((st = sp_list_push(m->heap, s.names.list, sp_value_name("caller")))) return st;
        if ((st = sp_list_push(m->heap, s.named.list, *caller))) return st;
        s.args.names = s.names.list->at;
        s.args.named = s.named.list->at;
        s.args.n_named++;
    }
    m->line = node->line;
    return sp_jinja_call(m, out, callee, &s.args);
}

enum sp_status sp_jinja_eval_filter(struct sp_jinja_machine *m, struct sp_value *out,
                                    const struct sp_jinja_node *node, const struct sp_value *text)
{
    enum sp_status st;
    struct sp_value in;
    struct sorted_args s;

    if ((st = sp_jinja_step(m))) return st;
    if (node->a == NULL)
        in = *text;
    else if (node->a->kind == SP_J_FILTER)
        st = sp_jinja_eval_filter(m, &in, node->a, text);
    else
        st = sp_jinja_eval(m, &in, node->a);
    if (st || (st = eval_args(m, &s, node->list))) return st;
    m->line = node->line;
    if (node->function == NULL) return sp_jinja_refuse(m, "filter", node->value);
    st = sp_jinja_run(m, out, node->function, in, &s.args);
    m->depth--;
    return st;
}

static enum sp_status eval_test(struct sp_jinja_machine *m, struct sp_value *out,
                                const struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_value in;
    struct sorted_args s;

    if ((st = sp_jinja_eval(m, &in, node->a))) return st;
    if ((st = eval_args(m, &s, node->list))) return st;
    if (node->function == NULL) return sp_jinja_refuse(m, "test", node->value);
    return sp_jinja_run(m, out, node->function, in, &s.args);
}

static enum sp_status eval_list(struct sp_jinja_machine *m, struct sp_value *out,
                                const struct sp_jinja_node *node, enum sp_value_shape shape)
{
    enum sp_status st = sp_value_list(m->heap, out, shape, 0);
    struct sp_value item;

    for (const struct sp_jinja_node *n = node->list; n != NULL && !st; n = n->next) {
        st = sp_jinja_eval(m, &item, n);
        if (!st) st = sp_list_push(m->heap, out->list, item);
    }
    return st;
}

static enum sp_status eval_dict(struct sp_jinja_machine *m, struct sp_value *out,
                                const struct sp_jinja_node *node)
{
    enum sp_status st = sp_value_dict(m->heap, out);
    struct sp_value key, value;

    for (const struct sp_jinja_node *n = node->list; n != NULL && !st; n = n->next) {
        if ((st = sp_jinja_eval(m, &key, n->a))) return st;
        if ((st = sp_jinja_eval(m, &value, n->b))) return st;
        st = sp_dict_set(m->heap, out->dict, key, value);
    }
    return st;
}

/* Evaluates a < b < c: each operand once, and none after the first comparison that fails. */
static enum sp_status eval_compare(struct sp_jinja_machine *m, struct sp_value *out,
                                   const struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_value left, right;
    bool truth = true;

    if ((st = sp_jinja_eval(m, &left, node->a))) return st;
    for (const struct sp_jinja_node *n = node->list; n != NULL && truth; n = n->next) {
        if ((st = sp_jinja_eval(m, &right, n->a))) return st;
        if ((st = sp_jinja_compare(m, &truth, n->op, left, right))) return st;
        left = right;
    }
    *out = sp_value_bool(truth);
    return SP_OK;
}

static enum sp_status eval_concat(struct sp_jinja_machine *m, struct sp_value *out,
                                  const struct sp_jinja_node *node)
{
    enum sp_status st = SP_OK;
    struct sp_builder b = {.heap = m->heap};
    struct sp_value item;

    for (const struct sp_jinja_node *n = node->list; n != NULL && !st; n = n->next) {
        st = sp_jinja_eval(m, &item, n);
        if (!st) st = sp_jinja_build_str(&b, item);
    }
    *out = sp_builder_value(&b);
    return st;
}

static enum sp_status eval_slice(struct sp_jinja_machine *m, struct sp_value *out,
                                 const struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_value v, bound[3] = {{0}};
    const struct sp_jinja_node *const from[3] = {node->b, node->c, node->body};

    if ((st = sp_jinja_eval(m, &v, node->a))) return st;
    for (int i = 0; i < 3; i++)
        if (from[i] != NULL && (st = sp_jinja_eval(m, &bound[i], from[i]))) return st;
    return sp_jinja_slice(m, out, v, bound);
}

static enum sp_status eval_cond(struct sp_jinja_machine *m, struct sp_value *out,
                                const struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_value test;

    if ((st = sp_jinja_eval(m, &test, node->a))) return st;
    if (sp_value_truth(test)) return sp_jinja_eval(m, out, node->b);
    if (node->c != NULL) return sp_jinja_eval(m, out, node->c);
    return sp_jinja_undefined(m, out,
                              "the inline if-expression on line %u evaluated to false and no "
                              "else section was defined",
                              node->line);
}

static enum sp_status eval_operation(struct sp_jinja_machine *m, struct sp_value *out,
                                     const struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_value a, b;

    if ((st = sp_jinja_eval(m, &a, node->a))) return st;
    switch (node->kind) {
    case SP_J_ATTR:
        m->line = node->line;
        return sp_jinja_attribute(m, out, a, node->value);
    case SP_J_UNARY:
        return sp_jinja_unary(m, out, node->op, a);
    case SP_J_NOT:
        *out = sp_value_bool(!sp_value_truth(a));
        return SP_OK;
    default:
        break;
    }
    if ((st = sp_jinja_eval(m, &b, node->b))) return st;
    m->line = node->line;
    if (node->kind == SP_J_ITEM) return sp_jinja_item(m, out, a, b);
    return sp_jinja_binary(m, out, node->op, a, b);
}

static enum sp_status eval_kind(struct sp_jinja_machine *m, struct sp_value *out,
                                const struct sp_jinja_node *node)
{
    enum sp_status st;

    switch (node->kind) {
    case SP_J_LITERAL:
        *out = node->value;
        return SP_OK;
    case SP_J_NAME:
        return sp_jinja_lookup(m, out, node->value);
    case SP_J_TUPLE:
        return eval_list(m, out, node, SP_SHAPE_TUPLE);
    case SP_J_LIST:
        return eval_list(m, out, node, SP_SHAPE_PLAIN);
    case SP_J_DICT:
        return eval_dict(m, out, node);
    case SP_J_SLICE:
        return eval_slice(m, out, node);
    case SP_J_CALL:
        return sp_jinja_eval_call(m, out, node, NULL);
    case SP_J_FILTER:
        return sp_jinja_eval_filter(m, out, node, NULL);
    case SP_J_TEST:
        return eval_test(m, out, node);
    case SP_J_COMPARE:
        return eval_compare(m, out, node);
    case SP_J_AND:
    case SP_J_OR:
        st = sp_jinja_eval(m, out, node->a);
        if (st || sp_value_truth(*out) != (node->kind == SP_J_AND)) return st;
        return sp_jinja_eval(m, out, node->b);
    case SP_J_CONCAT:
        return eval_concat(m, out, node);
    case SP_J_COND:
        return eval_cond(m, out, node);
    case SP_J_ATTR:
    case SP_J_ITEM:
    case SP_J_UNARY:
    case SP_J_NOT:
    case SP_J_BINARY:
        return eval_operation(m, out, node);
    default:
        return sp_fail(m->heap->err, SP_E_BUG, "expression of kind %d", node->kind);
    }
}

enum sp_status sp_jinja_eval(struct sp_jinja_machine *m, struct sp_value *out,
                             const struct sp_jinja_node *node)
{
    enum sp_status st;

    if ((st = sp_jinja_step(m))) return st;
    m->line = node->line;
    st = eval_kind(m, out, node);
    m->depth--;
    return st;
}
