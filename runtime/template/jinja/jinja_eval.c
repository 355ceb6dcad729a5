/* Executes the statements of a Jinja template and calls its macros.
 *
 * Scopes: the template has one, and so has every loop iteration, macro call, with and captured
 * block; `if` has none. Names are looked up from the innermost scope outwards, then among the
 * given variables, then among the globals; `set` writes to the innermost scope. A macro runs in
 * the scope of its definition. */
#include "format/base/number_text.h"
#include "runtime/template/jinja/jinja_machine.h"

#include <stdarg.h>
#include <string.h>

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static enum sp_status run_body(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                               enum flow *flow);

enum sp_status sp_jinja_fail(struct sp_jinja_machine *m, const char *format, ...)
{
    char text[SP_ERR_TEXT];
    va_list args;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    return sp_fail(m->heap->err, SP_E_INPUT, "%s", text);
}

enum sp_status sp_jinja_refuse(struct sp_jinja_machine *m, const char *kind, struct sp_value name)
{
    return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "%s %.*s is not supported", kind, (int)name.len,
                   name.text);
}

enum sp_status sp_jinja_step(struct sp_jinja_machine *m)
{
    if (m->depth >= SP_TEMPLATE_MAX_CALLS) {
        return sp_jinja_fail(m, "calls and expressions nested deeper than %d",
                             SP_TEMPLATE_MAX_CALLS);
    }
    m->depth++;
    return sp_heap_charge(m->heap, 8);
}

static enum sp_status open_scope(struct sp_jinja_machine *m)
{
    enum sp_status st;
    struct sp_jinja_scope *scope;

    if ((st = sp_heap_take(m->heap, &scope, sizeof *scope))) return st;
    scope->outer = m->scope;
    m->scope = scope;
    return SP_OK;
}

static bool same_name(struct sp_value a, struct sp_value b)
{
    return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

static enum sp_status define(struct sp_jinja_machine *m, struct sp_value name,
                             struct sp_value value)
{
    enum sp_status st;
    struct sp_jinja_scope *scope = m->scope;

    if ((st = sp_heap_charge(m->heap, scope->n / 4 + name.len / 32 + 1))) return st;
    for (size_t i = 0; i < scope->n; i++) {
        if (same_name(scope->at[i].name, name)) {
            scope->at[i].value = value;
            return SP_OK;
        }
    }
    if ((st = sp_heap_grow(m->heap, &scope->at, scope->n, &scope->cap, sizeof *scope->at)))
        return st;
    scope->at[scope->n++] = (struct sp_jinja_binding){.name = name, .value = value};
    return SP_OK;
}

enum sp_status sp_jinja_lookup(struct sp_jinja_machine *m, struct sp_value *out,
                               struct sp_value name)
{
    enum sp_status st;
    const struct sp_value *found;

    for (const struct sp_jinja_scope *scope = m->scope; scope != NULL; scope = scope->outer) {
        if ((st = sp_heap_charge(m->heap, scope->n / 4 + name.len / 32 + 1))) return st;
        for (size_t i = 0; i < scope->n; i++) {
            if (!same_name(scope->at[i].name, name)) continue;
            *out = scope->at[i].value;
            return SP_OK;
        }
    }
    if ((st = sp_dict_find(m->heap, &found, m->vars, name))) return st;
    if (found != NULL) {
        *out = *found;
        return SP_OK;
    }
    if ((st = sp_jinja_global(m, out, name))) return st;
    if (out->kind != SP_V_ABSENT) return SP_OK;
    return sp_jinja_undefined(m, out, "'%.*s' is undefined", (int)name.len, name.text);
}

static enum sp_status assign_field(struct sp_jinja_machine *m, const struct sp_jinja_node *target,
                                   struct sp_value value)
{
    enum sp_status st;
    struct sp_value holder;
    struct sp_jinja_object *object;

    if ((st = sp_jinja_lookup(m, &holder, target->value))) return st;
    object = holder.kind == SP_V_OBJECT ? holder.object : NULL;
    if (object == NULL || object->kind != SP_JINJA_NAMESPACE) {
        return sp_jinja_fail(m, "cannot assign attribute %.*s on %.*s, which is no namespace",
                             (int)target->b->value.len, target->b->value.text,
                             (int)target->value.len, target->value.text);
    }
    return sp_dict_set(m->heap, object->dict, target->b->value, value);
}

static enum sp_status assign(struct sp_jinja_machine *m, const struct sp_jinja_node *target,
                             struct sp_value value)
{
    enum sp_status st;
    const struct sp_list *items;
    size_t i = 0, n = 0;

    if (target->kind == SP_J_NAME) return define(m, target->value, value);
    if (target->kind == SP_J_FIELD) return assign_field(m, target, value);
    for (const struct sp_jinja_node *t = target->list; t != NULL; t = t->next)
        n++;
    if ((st = sp_jinja_items(m, &items, value))) return st;
    if (items->n != n) return sp_jinja_fail(m, "%zu values to unpack, expected %zu", items->n, n);
    for (const struct sp_jinja_node *t = target->list; t != NULL && !st; t = t->next)
        st = assign(m, t, items->at[i++]);
    return st;
}

/* Executes a body in a scope of its own, with its output captured as a text. */
static enum sp_status capture(struct sp_jinja_machine *m, struct sp_value *out,
                              const struct sp_jinja_node *body)
{
    enum sp_status st;
    struct sp_builder text = {.heap = m->heap};
    struct sp_builder *before = m->out;
    struct sp_jinja_scope *scope = m->scope;
    enum flow flow = FLOW_ON;

    m->out = &text;
    if (!(st = open_scope(m))) st = run_body(m, body, &flow);
    m->out = before;
    m->scope = scope;
    *out = sp_builder_value(&text);
    return st;
}

/* Applies the filters after a block to its text; `filters` NULL: none. */
static enum sp_status filtered(struct sp_jinja_machine *m, struct sp_value *out,
                               const struct sp_jinja_node *filters,
                               const struct sp_jinja_node *body)
{
    enum sp_status st = capture(m, out, body);

    if (st || filters == NULL) return st;
    return sp_jinja_eval_filter(m, out, filters, out);
}

static enum sp_status run_if(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                             enum flow *flow)
{
    enum sp_status st;
    struct sp_value test;

    for (;; node = node->c) {
        if ((st = sp_jinja_eval(m, &test, node->a))) return st;
        if (sp_value_truth(test)) return run_body(m, node->body, flow);
        if (node->c == NULL) return run_body(m, node->list, flow);
    }
}

/* Replaces *items by those that pass the loop's own `if`, whose test sees the loop's variables. */
static enum sp_status filter_items(struct sp_jinja_machine *m, const struct sp_list **items,
                                   const struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_jinja_scope *outer = m->scope;
    struct sp_value list, test;

    if ((st = sp_value_list(m->heap, &list, SP_SHAPE_PLAIN, 0))) return st;
    for (size_t i = 0; i < (*items)->n; i++) {
        m->scope = outer;
        if ((st = open_scope(m))) return st;
        if ((st = assign(m, node->a, (*items)->at[i]))) return st;
        if ((st = sp_jinja_eval(m, &test, node->c))) return st;
        if (!sp_value_truth(test)) continue;
        if ((st = sp_list_push(m->heap, list.list, (*items)->at[i]))) return st;
    }
    m->scope = outer;
    *items = list.list;
    return SP_OK;
}

static enum sp_status run_loop(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_jinja_scope *outer = m->scope;
    struct sp_jinja_object *loop;
    struct sp_value iterated;
    enum flow flow = FLOW_ON;
    bool finished = false;

    if ((st = sp_jinja_eval(m, &iterated, node->b))) return st;
    if ((st = sp_heap_take(m->heap, &loop, sizeof *loop))) return st;
    loop->kind = SP_JINJA_LOOP;
    if ((st = sp_jinja_items(m, &loop->items, iterated))) return st;
    if (node->c != NULL && (st = filter_items(m, &loop->items, node))) return st;
    for (size_t i = 0; i < loop->items->n && flow != FLOW_BREAK; i++) {
        loop->position = i;
        flow = FLOW_ON;
        m->scope = outer;
        if ((st = open_scope(m))) return st;
        if ((st = define(m, sp_value_name("loop"), sp_value_object(loop)))) return st;
        if ((st = assign(m, node->a, loop->items->at[i]))) return st;
        if ((st = run_body(m, node->body, &flow))) return st;
        finished = finished || flow == FLOW_ON;
    }
    m->scope = outer;
    /* Unlike in Python, else runs if no iteration reached its end. */
    if (!finished && node->list != NULL) {
        flow = FLOW_ON;
        if ((st = open_scope(m))) return st;
        st = run_body(m, node->list, &flow);
        m->scope = outer;
    }
    return st;
}

static enum sp_status define_macro(struct sp_jinja_machine *m, struct sp_value *out,
                                   const struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_jinja_object *macro;

    if ((st = sp_heap_take(m->heap, &macro, sizeof *macro))) return st;
    macro->kind = SP_JINJA_MACRO;
    macro->node = node;
    macro->scope = m->scope;
    *out = sp_value_object(macro);
    return SP_OK;
}

static enum sp_status run_with(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                               enum flow *flow)
{
    enum sp_status st;
    struct sp_jinja_scope *outer = m->scope, *inner;

    if ((st = open_scope(m))) return st;
    inner = m->scope;
    for (const struct sp_jinja_node *set = node->list; set != NULL; set = set->next) {
        struct sp_value value;
        m->scope = outer;
        if ((st = sp_jinja_eval(m, &value, set->b))) return st;
        m->scope = inner;
        if ((st = assign(m, set->a, value))) return st;
    }
    st = run_body(m, node->body, flow);
    m->scope = outer;
    return st;
}

static enum sp_status run_statement(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                                    enum flow *flow)
{
    enum sp_status st;
    struct sp_value value, caller;

    switch (node->kind) {
    case SP_J_TEXT:
        return sp_build(m->out, node->value.text, node->value.len);
    case SP_J_OUTPUT:
        if ((st = sp_jinja_eval(m, &value, node->list))) return st;
        return sp_jinja_build_str(m->out, value);
    case SP_J_IF:
        return run_if(m, node, flow);
    case SP_J_FOR:
        return run_loop(m, node);
    case SP_J_SET:
        if ((st = sp_jinja_eval(m, &value, node->b))) return st;
        return assign(m, node->a, value);
    case SP_J_SET_BLOCK:
        if ((st = filtered(m, &value, node->b, node->body))) return st;
        return assign(m, node->a, value);
    case SP_J_FILTER_BLOCK:
        if ((st = filtered(m, &value, node->b, node->body))) return st;
        return sp_jinja_build_str(m->out, value);
    case SP_J_SCOPE:
        if ((st = capture(m, &value, node->body))) return st;
        return sp_build(m->out, value.text, value.len);
    case SP_J_WITH:
        return run_with(m, node, flow);
    case SP_J_MACRO:
        if ((st = define_macro(m, &value, node))) return st;
        return define(m, node->value, value);
    case SP_J_CALL_BLOCK:
        if ((st = define_macro(m, &caller, node))) return st;
        if ((st = sp_jinja_eval_call(m, &value, node->a, &caller))) return st;
        return sp_jinja_build_str(m->out, value);
    case SP_J_BREAK:
        *flow = FLOW_BREAK;
        return SP_OK;
    case SP_J_CONTINUE:
        *flow = FLOW_CONTINUE;
        return SP_OK;
    default:
        return sp_fail(m->heap->err, SP_E_BUG, "statement of kind %d", node->kind);
    }
}

static enum sp_status run_body(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                               enum flow *flow)
{
    enum sp_status st;

    if ((st = sp_jinja_step(m))) return st;
    for (; node != NULL && *flow == FLOW_ON && !st; node = node->next) {
        m->line = node->line;
        if ((st = sp_heap_charge(m->heap, 4))) break;
        st = run_statement(m, node, flow);
    }
    m->depth--;
    return st;
}

/* Assigns arguments without a parameter to varargs and kwargs, if the macro uses them. */
static enum sp_status bind_surplus(struct sp_jinja_machine *m, const struct sp_jinja_object *macro,
                                   const struct sp_jinja_args *args, size_t n_params,
                                   const bool *taken)
{
    enum sp_status st;
    struct sp_value varargs, kwargs;
    const struct sp_jinja_node *node = macro->node;

    if ((st = sp_value_list(m->heap, &varargs, SP_SHAPE_TUPLE, 0))) return st;
    for (size_t i = n_params; i < args->n; i++)
        if ((st = sp_list_push(m->heap, varargs.list, args->at[i]))) return st;
    if (node->op & SP_JINJA_TAKES_CALLER) {
        struct sp_value caller;
        if ((st = sp_jinja_undefined(m, &caller, "No caller defined"))) return st;
        if ((st = define(m, sp_value_name("caller"), caller))) return st;
    }
    if ((st = sp_value_dict(m->heap, &kwargs))) return st;
    for (size_t i = 0; i < args->n_named; i++) {
        if (taken[i]) continue;
        if (sp_text_is(args->names[i], "caller") && node->op & SP_JINJA_TAKES_CALLER) {
            if ((st = define(m, args->names[i], args->named[i]))) return st;
            continue;
        }
        if ((st = sp_dict_set(m->heap, kwargs.dict, args->names[i], args->named[i]))) return st;
    }
    if (varargs.list->n && !(node->op & SP_JINJA_TAKES_VARARGS)) {
        return sp_jinja_fail(m, "macro %.*s takes %zu arguments, not %zu", (int)node->value.len,
                             node->value.text, n_params, args->n);
    }
    if (kwargs.dict->n && !(node->op & SP_JINJA_TAKES_KWARGS)) {
        return sp_jinja_fail(m, "macro %.*s takes no keyword argument %.*s", (int)node->value.len,
                             node->value.text, (int)kwargs.dict->at[0].key.len,
                             kwargs.dict->at[0].key.text);
    }
    if ((st = define(m, sp_value_name("varargs"), varargs))) return st;
    return define(m, sp_value_name("kwargs"), kwargs);
}

static enum sp_status bind_params(struct sp_jinja_machine *m, const struct sp_jinja_object *macro,
                                  const struct sp_jinja_args *args)
{
    enum sp_status st;
    size_t n = 0;
    bool *taken;

    if ((st = sp_heap_take(m->heap, &taken, args->n_named + 1))) return st;
    for (const struct sp_jinja_node *p = macro->node->list; p != NULL; p = p->next, n++) {
        struct sp_value value = {.kind = SP_V_ABSENT};
        if ((st = sp_heap_charge(m->heap, args->n_named / 4))) return st;
        if (n < args->n) value = args->at[n];
        for (size_t i = 0; i < args->n_named; i++) {
            if (!same_name(args->names[i], p->value)) continue;
            if (n < args->n) continue; /* the argument goes to kwargs, if the macro uses it */
            value = args->named[i];
            taken[i] = true;
        }
        if (value.kind == SP_V_ABSENT && p->a != NULL) {
            if ((st = sp_jinja_eval(m, &value, p->a))) return st;
        } else if (value.kind == SP_V_ABSENT) {
            st = sp_jinja_undefined(m, &value, "parameter '%.*s' was not provided",
                                    (int)p->value.len, p->value.text);
            if (st) return st;
        }
        if ((st = define(m, p->value, value))) return st;
    }
    return bind_surplus(m, macro, args, n, taken);
}

static enum sp_status call_macro(struct sp_jinja_machine *m, struct sp_value *out,
                                 const struct sp_jinja_object *macro,
                                 const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_builder text = {.heap = m->heap}, *before = m->out;
    struct sp_jinja_scope *scope = m->scope;
    uint32_t line = m->line;
    enum flow flow = FLOW_ON;

    if ((st = sp_jinja_step(m))) return st;
    m->out = &text;
    m->scope = macro->scope;
    st = open_scope(m);
    if (!st) st = bind_params(m, macro, args);
    if (!st) st = run_body(m, macro->node->body, &flow);
    m->out = before;
    m->scope = scope;
    if (!st) m->line = line;
    m->depth--;
    *out = sp_builder_value(&text);
    return st;
}

enum sp_status sp_jinja_call(struct sp_jinja_machine *m, struct sp_value *out,
                             struct sp_value callee, const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_jinja_object *object = callee.object;

    if ((st = sp_jinja_defined(m, callee))) return st;
    if (callee.kind == SP_V_OBJECT) {
        if (object->kind == SP_JINJA_CALLABLE) return object->call(m, out, object, args);
        if (object->kind == SP_JINJA_MACRO) return call_macro(m, out, object, args);
        if (object->kind == SP_JINJA_LOOP)
            return sp_jinja_refuse(m, "the call of", sp_value_name("loop"));
    }
    return sp_jinja_fail(m, "'%s' object is not callable", sp_jinja_type_name(callee));
}

enum sp_status sp_jinja_render(struct sp_builder *out, const struct sp_jinja *jinja,
                               struct sp_value vars, struct sp_template_time now,
                               struct sp_err *err)
{
    enum sp_status st;
    struct sp_jinja_machine m = {
        .heap = out->heap, .out = out, .vars = vars.dict, .now = now, .line = 1};
    enum flow flow = FLOW_ON;

    out->heap->err = err;
    st = open_scope(&m);
    if (!st) st = run_body(&m, jinja->body, &flow);
    if (st) sp_context(err, "template:%u", m.line);
    return st;
}
