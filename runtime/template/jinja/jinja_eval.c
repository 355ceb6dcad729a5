/* Executes the statements of a Jinja template and calls its macros.
 *
 * Scopes: the template has one, and so has every loop iteration, macro call, with and captured
 * block; `if` has none. Names are looked up from the innermost scope outwards, then among the
 * given variables, then among the globals; `set` writes to the innermost scope. A macro runs in
 * the scope of its definition. */
#include "format/base/number_text.h"
#include "runtime/template/jinja/jinja_machine.h"

#include <stdarg.h>

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static void run_body(struct sp_jinja_machine *m, const struct sp_jinja_node *node, enum flow *flow);

struct sp_value sp_jinja_fail(struct sp_jinja_machine *m, const char *format, ...)
{
    char text[SP_ERR_TEXT];
    va_list args;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    return sp_heap_fail(m->heap, SP_E_INPUT, "%s", text);
}

struct sp_value sp_jinja_refuse(struct sp_jinja_machine *m, const char *kind, struct sp_value name)
{
    return sp_heap_fail(m->heap, SP_E_UNSUPPORTED, "%s %.*s is not supported", kind, (int)name.len,
                        name.text);
}

bool sp_jinja_step(struct sp_jinja_machine *m)
{
    if (m->depth >= SP_TEMPLATE_MAX_CALLS)
        sp_jinja_fail(m, "calls and expressions nested deeper than %d", SP_TEMPLATE_MAX_CALLS);
    if (!sp_heap_charge(m->heap, 8)) return false;
    m->depth++;
    return true;
}

static void open_scope(struct sp_jinja_machine *m)
{
    struct sp_jinja_scope *scope = sp_heap_take(m->heap, sizeof *scope);

    if (scope == NULL) return;
    scope->outer = m->scope;
    m->scope = scope;
}

/* The value of a name in a scope; NULL: there is none, or a failure. */
static struct sp_value *find_in(struct sp_jinja_machine *m, const struct sp_jinja_scope *scope,
                                struct sp_value name)
{
    if (!sp_heap_charge(m->heap, scope->n / 4 + name.len / 32 + 1)) return NULL;
    for (size_t i = 0; i < scope->n; i++)
        if (sp_text_order(scope->at[i].name, name) == 0) return &scope->at[i].value;
    return NULL;
}

static void define(struct sp_jinja_machine *m, struct sp_value name, struct sp_value value)
{
    struct sp_jinja_scope *scope = m->scope;
    struct sp_value *found;

    if (m->heap->status) return;
    if ((found = find_in(m, scope, name)) != NULL)
        *found = value;
    else if (sp_heap_grow(m->heap, &scope->at, scope->n, &scope->cap, sizeof *scope->at))
        scope->at[scope->n++] = (struct sp_jinja_binding){.name = name, .value = value};
}

struct sp_value sp_jinja_lookup(struct sp_jinja_machine *m, struct sp_value name)
{
    const struct sp_value *found = NULL;
    struct sp_value global;

    for (const struct sp_jinja_scope *scope = m->scope; scope && !found; scope = scope->outer)
        found = find_in(m, scope, name);
    if (found == NULL) found = sp_dict_find(m->heap, m->vars, name);
    if (found != NULL) return *found;
    global = sp_jinja_global(m, name);
    if (global.kind != SP_V_ABSENT) return global;
    return sp_jinja_undefined(m, "'%.*s' is undefined", (int)name.len, name.text);
}

static void assign_field(struct sp_jinja_machine *m, const struct sp_jinja_node *target,
                         struct sp_value value)
{
    struct sp_value holder = sp_jinja_lookup(m, target->value);
    struct sp_jinja_object *object = holder.kind == SP_V_OBJECT ? holder.object : NULL;

    if (object != NULL && object->kind == SP_JINJA_NAMESPACE)
        sp_dict_set(m->heap, object->dict, target->b->value, value);
    else
        sp_jinja_fail(m, "cannot assign attribute %.*s on %.*s, which is no namespace",
                      (int)target->b->value.len, target->b->value.text, (int)target->value.len,
                      target->value.text);
}

static void assign(struct sp_jinja_machine *m, const struct sp_jinja_node *target,
                   struct sp_value value)
{
    const struct sp_list *items;
    size_t i = 0, n = 0;

    if (m->heap->status) return;
    if (target->kind == SP_J_NAME) {
        define(m, target->value, value);
    } else if (target->kind == SP_J_FIELD) {
        assign_field(m, target, value);
    } else {
        for (const struct sp_jinja_node *t = target->list; t != NULL; t = t->next)
            n++;
        items = sp_jinja_items(m, value);
        if (items->n != n) sp_jinja_fail(m, "%zu values to unpack, expected %zu", items->n, n);
        for (const struct sp_jinja_node *t = target->list; t && !m->heap->status; t = t->next)
            assign(m, t, items->at[i++]);
    }
}

/* Executes a body in a scope of its own, with its output captured as a text. */
static struct sp_value capture(struct sp_jinja_machine *m, const struct sp_jinja_node *body)
{
    struct sp_builder text = {.heap = m->heap};
    struct sp_builder *before = m->out;
    struct sp_jinja_scope *scope = m->scope;
    enum flow flow = FLOW_ON;

    m->out = &text;
    open_scope(m);
    run_body(m, body, &flow);
    m->out = before;
    m->scope = scope;
    return sp_builder_value(&text);
}

/* Applies the filters after a block to its text; `filters` NULL: none. */
static struct sp_value filtered(struct sp_jinja_machine *m, const struct sp_jinja_node *filters,
                                const struct sp_jinja_node *body)
{
    struct sp_value text = capture(m, body);

    return filters == NULL ? text : sp_jinja_eval_filter(m, filters, &text);
}

static void run_if(struct sp_jinja_machine *m, const struct sp_jinja_node *node, enum flow *flow)
{
    while (!sp_value_truth(sp_jinja_eval(m, node->a))) {
        if (node->c == NULL) {
            run_body(m, node->list, flow);
            return;
        }
        node = node->c;
    }
    run_body(m, node->body, flow);
}

/* The items that pass the loop's own `if`, whose test sees the loop's variables. */
static const struct sp_list *filter_items(struct sp_jinja_machine *m, const struct sp_list *items,
                                          const struct sp_jinja_node *node)
{
    struct sp_jinja_scope *outer = m->scope;
    struct sp_value list = sp_value_list(m->heap, SP_SHAPE_PLAIN, 0);

    for (size_t i = 0; i < items->n && !m->heap->status; i++) {
        m->scope = outer;
        open_scope(m);
        assign(m, node->a, items->at[i]);
        if (sp_value_truth(sp_jinja_eval(m, node->c)))
            sp_list_push(m->heap, list.list, items->at[i]);
    }
    m->scope = outer;
    return list.list;
}

static void run_loop(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    struct sp_jinja_scope *outer = m->scope;
    struct sp_value iterated = sp_jinja_eval(m, node->b);
    struct sp_jinja_object *loop = sp_jinja_new_object(m, SP_JINJA_LOOP);
    enum flow flow = FLOW_ON;
    bool finished = false;

    loop->items = sp_jinja_items(m, iterated);
    if (node->c != NULL) loop->items = filter_items(m, loop->items, node);
    for (size_t i = 0; i < loop->items->n && flow != FLOW_BREAK && !m->heap->status; i++) {
        loop->position = i;
        flow = FLOW_ON;
        m->scope = outer;
        open_scope(m);
        define(m, sp_value_name("loop"), sp_value_object(loop));
        assign(m, node->a, loop->items->at[i]);
        run_body(m, node->body, &flow);
        finished = finished || flow == FLOW_ON;
    }
    m->scope = outer;
    /* Unlike in Python, else runs if no iteration reached its end. */
    if (!finished && node->list != NULL) {
        flow = FLOW_ON;
        open_scope(m);
        run_body(m, node->list, &flow);
        m->scope = outer;
    }
}

static struct sp_value define_macro(struct sp_jinja_machine *m, const struct sp_jinja_node *node)
{
    struct sp_jinja_object *macro = sp_jinja_new_object(m, SP_JINJA_MACRO);

    macro->node = node;
    macro->scope = m->scope;
    return sp_value_object(macro);
}

static void run_with(struct sp_jinja_machine *m, const struct sp_jinja_node *node, enum flow *flow)
{
    struct sp_jinja_scope *outer = m->scope, *inner;

    open_scope(m);
    inner = m->scope;
    for (const struct sp_jinja_node *set = node->list; set != NULL; set = set->next) {
        struct sp_value value;
        m->scope = outer;
        value = sp_jinja_eval(m, set->b);
        m->scope = inner;
        assign(m, set->a, value);
    }
    run_body(m, node->body, flow);
    m->scope = outer;
}

static void run_statement(struct sp_jinja_machine *m, const struct sp_jinja_node *node,
                          enum flow *flow)
{
    struct sp_value caller;

    switch (node->kind) {
    case SP_J_TEXT:
        sp_build_value(m->out, node->value);
        break;
    case SP_J_OUTPUT:
        sp_jinja_build_str(m->out, sp_jinja_eval(m, node->list));
        break;
    case SP_J_IF:
        run_if(m, node, flow);
        break;
    case SP_J_FOR:
        run_loop(m, node);
        break;
    case SP_J_SET:
        assign(m, node->a, sp_jinja_eval(m, node->b));
        break;
    case SP_J_SET_BLOCK:
        assign(m, node->a, filtered(m, node->b, node->body));
        break;
    case SP_J_FILTER_BLOCK:
        sp_jinja_build_str(m->out, filtered(m, node->b, node->body));
        break;
    case SP_J_SCOPE:
        sp_build_value(m->out, capture(m, node->body));
        break;
    case SP_J_WITH:
        run_with(m, node, flow);
        break;
    case SP_J_MACRO:
        define(m, node->value, define_macro(m, node));
        break;
    case SP_J_CALL_BLOCK:
        caller = define_macro(m, node);
        sp_jinja_build_str(m->out, sp_jinja_eval_call(m, node->a, &caller));
        break;
    case SP_J_BREAK:
    case SP_J_CONTINUE:
        *flow = node->kind == SP_J_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        break;
    default:
        sp_heap_fail(m->heap, SP_E_BUG, "statement of kind %d", node->kind);
    }
}

static void run_body(struct sp_jinja_machine *m, const struct sp_jinja_node *node, enum flow *flow)
{
    if (!sp_jinja_step(m)) return;
    for (; node != NULL && *flow == FLOW_ON && !m->heap->status; node = node->next) {
        m->line = node->line;
        if (sp_heap_charge(m->heap, 4)) run_statement(m, node, flow);
    }
    m->depth--;
}

/* Assigns arguments without a parameter to varargs and kwargs, if the macro uses them. */
static void bind_surplus(struct sp_jinja_machine *m, const struct sp_jinja_object *macro,
                         const struct sp_jinja_args *args, size_t n_params, const bool *taken)
{
    const struct sp_jinja_node *node = macro->node;
    struct sp_value varargs = sp_value_list(m->heap, SP_SHAPE_TUPLE, 0);
    struct sp_value kwargs = sp_value_dict(m->heap);

    for (size_t i = n_params; i < args->n; i++)
        sp_list_push(m->heap, varargs.list, args->at[i]);
    if (node->op & SP_JINJA_TAKES_CALLER)
        define(m, sp_value_name("caller"), sp_jinja_undefined(m, "No caller defined"));
    for (size_t i = 0; i < args->n_named && !m->heap->status; i++) {
        if (taken[i]) continue;
        if (sp_text_is(args->names[i], "caller") && node->op & SP_JINJA_TAKES_CALLER)
            define(m, args->names[i], args->named[i]);
        else
            sp_dict_set(m->heap, kwargs.dict, args->names[i], args->named[i]);
    }
    if (varargs.list->n && !(node->op & SP_JINJA_TAKES_VARARGS)) {
        sp_jinja_fail(m, "macro %.*s takes %zu arguments, not %zu", (int)node->value.len,
                      node->value.text, n_params, args->n);
    }
    if (kwargs.dict->n && !(node->op & SP_JINJA_TAKES_KWARGS)) {
        sp_jinja_fail(m, "macro %.*s takes no keyword argument %.*s", (int)node->value.len,
                      node->value.text, (int)kwargs.dict->at[0].key.len,
                      kwargs.dict->at[0].key.text);
    }
    define(m, sp_value_name("varargs"), varargs);
    define(m, sp_value_name("kwargs"), kwargs);
}

static void bind_params(struct sp_jinja_machine *m, const struct sp_jinja_object *macro,
                        const struct sp_jinja_args *args)
{
    size_t n = 0;
    bool *taken = sp_heap_take(m->heap, args->n_named + 1);

    for (const struct sp_jinja_node *p = macro->node->list; p != NULL; p = p->next, n++) {
        struct sp_value value = SP_VALUE_ABSENT;
        if (!sp_heap_charge(m->heap, args->n_named / 4)) return;
        if (n < args->n) value = args->at[n];
        for (size_t i = 0; i < args->n_named; i++) {
            if (sp_text_order(args->names[i], p->value) != 0) continue;
            if (n < args->n) continue; /* the argument goes to kwargs, if the macro uses it */
            value = args->named[i];
            taken[i] = true;
        }
        if (value.kind == SP_V_ABSENT && p->a != NULL)
            value = sp_jinja_eval(m, p->a);
        else if (value.kind == SP_V_ABSENT)
            value = sp_jinja_undefined(m, "parameter '%.*s' was not provided", (int)p->value.len,
                                       p->value.text);
        define(m, p->value, value);
    }
    bind_surplus(m, macro, args, n, taken);
}

static struct sp_value call_macro(struct sp_jinja_machine *m, const struct sp_jinja_object *macro,
                                  const struct sp_jinja_args *args)
{
    struct sp_builder text = {.heap = m->heap}, *before = m->out;
    struct sp_jinja_scope *scope = m->scope;
    uint32_t line = m->line;
    enum flow flow = FLOW_ON;

    if (!sp_jinja_step(m)) return SP_VALUE_ABSENT;
    m->out = &text;
    m->scope = macro->scope;
    open_scope(m);
    bind_params(m, macro, args);
    run_body(m, macro->node->body, &flow);
    m->out = before;
    m->scope = scope;
    if (!m->heap->status) m->line = line;
    m->depth--;
    return sp_builder_value(&text);
}

struct sp_value sp_jinja_call(struct sp_jinja_machine *m, struct sp_value callee,
                              const struct sp_jinja_args *args)
{
    struct sp_jinja_object *object = callee.object;

    if (m->heap->status || !sp_jinja_defined(m, callee)) return SP_VALUE_ABSENT;
    if (callee.kind == SP_V_OBJECT) {
        if (object->kind == SP_JINJA_CALLABLE) return object->call(m, object, args);
        if (object->kind == SP_JINJA_MACRO) return call_macro(m, object, args);
        if (object->kind == SP_JINJA_LOOP)
            return sp_jinja_refuse(m, "the call of", sp_value_name("loop"));
    }
    return sp_jinja_fail(m, "'%s' object is not callable", sp_jinja_type_name(callee));
}

enum sp_status sp_jinja_render(struct sp_builder *out, const struct sp_jinja_node *body,
                               struct sp_value vars, struct sp_template_time now)
{
    struct sp_jinja_machine m = {
        .heap = out->heap, .out = out, .vars = vars.dict, .now = now, .line = 1};
    enum flow flow = FLOW_ON;

    open_scope(&m);
    run_body(&m, body, &flow);
    if (out->heap->status) sp_context(out->heap->err, "template:%u", m.line);
    return out->heap->status;
}
