/* Executes a Go template: actions, control structures, pipelines, fields, variables.
 *
 * Go has two kinds of nil, and templates can see the difference: to access a field of a nil
 * interface (SP_V_NONE, a missing key) is an error, while an invalid value (SP_V_UNDEFINED, the
 * result of a pipeline) stays invalid. Both print as "<no value>". */
#include "runtime/template/go/gotemplate_exec.h"
#include "format/base/number_text.h"

#include <stdarg.h>

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static void walk_list(struct sp_go_machine *m, struct sp_value dot, const struct sp_go_node *node,
                      enum flow *flow);
static struct sp_value eval_pipe(struct sp_go_machine *m, struct sp_value dot,
                                 const struct sp_go_node *pipe);

struct sp_value sp_go_fail(struct sp_go_machine *m, const char *format, ...)
{
    char text[512];
    va_list args;
    const struct sp_go_node *n = m->at;
    const char *source = m->tree->text;
    uint32_t column = 0, len;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    if (n == NULL) return sp_heap_fail(m->heap, SP_E_INPUT, "template: %s", text);
    while (column < n->begin && source[n->begin - column - 1] != '\n')
        column++;
    len = n->end - n->begin;
    return sp_heap_fail(m->heap, SP_E_INPUT, "template:%u:%u: at <%.*s%s>: %s", n->line, column,
                        (int)(len < 60 ? len : 60), source + n->begin, len > 60 ? "..." : "", text);
}

static bool enter(struct sp_go_machine *m)
{
    if (m->depth >= SP_TEMPLATE_MAX_CALLS)
        sp_go_fail(m, "nested deeper than %d", SP_TEMPLATE_MAX_CALLS);
    if (!sp_heap_charge(m->heap, 8)) return false;
    m->depth++;
    return true;
}

bool sp_go_is_nil(struct sp_value v)
{
    return v.kind == SP_V_NONE || v.kind == SP_V_UNDEFINED;
}

bool sp_go_is_struct(struct sp_value v)
{
    return v.kind == SP_V_DICT && (v.shape == SP_SHAPE_STRUCT || v.shape == SP_SHAPE_JSON_STRUCT);
}

const char *sp_go_type_name(struct sp_value v)
{
    switch (v.kind) {
    case SP_V_BOOL:
        return "bool";
    case SP_V_INT:
        return "int";
    case SP_V_FLOAT:
        return "float64";
    case SP_V_TEXT:
        return "string";
    case SP_V_LIST:
        return "[]interface {}";
    case SP_V_DICT:
        return sp_go_is_struct(v) ? "struct" : "map[string]interface {}";
    default:
        return "interface {}";
    }
}

bool sp_go_truth(struct sp_value v)
{
    return sp_go_is_struct(v) || sp_value_truth(v);
}

static void push_var(struct sp_go_machine *m, struct sp_value name, struct sp_value value)
{
    if (sp_heap_grow(m->heap, &m->vars, m->n_vars, &m->cap_vars, sizeof *m->vars))
        m->vars[m->n_vars++] = (struct sp_go_variable){.name = name, .value = value};
}

/* The value of a variable; NULL: a failure. */
static struct sp_value *find_var(struct sp_go_machine *m, struct sp_value name)
{
    size_t i = m->n_vars;

    while (i > m->base && sp_text_order(m->vars[i - 1].name, name) != 0)
        i--;
    if (i == m->base) sp_go_fail(m, "undefined variable");
    return sp_heap_charge(m->heap, (m->n_vars - i) / 4 + name.len / 32 + 1) ? &m->vars[i - 1].value
                                                                            : NULL;
}

/* True for what ollama cuts off in the last turn. */
static bool is_cut(const struct sp_go_machine *m, const struct sp_go_node *node)
{
    return m->part == SP_GOTEMPLATE_LAST_TURN && node->cut;
}

static struct sp_value call(struct sp_go_machine *m, const char *name, struct sp_value arg)
{
    return sp_go_find_function(sp_value_name(name))->run(m, &arg, 1);
}

/* Calls a method of one of ollama's types; SP_V_ABSENT: there is none of that name. */
static struct sp_value method(struct sp_go_machine *m, struct sp_value receiver,
                              struct sp_value name)
{
    bool prints = (receiver.kind == SP_V_DICT || receiver.kind == SP_V_LIST) &&
                  (receiver.shape == SP_SHAPE_JSON || receiver.shape == SP_SHAPE_JSON_STRUCT ||
                   receiver.shape == SP_SHAPE_TYPE);

    if (prints && sp_text_is(name, "String")) return call(m, "print", receiver);
    if (receiver.kind == SP_V_DICT && receiver.shape == SP_SHAPE_STRUCT &&
        sp_text_is(name, "ToTypeScriptType"))
        return call(m, "toTypeScriptType", receiver);
    return SP_VALUE_ABSENT;
}

/* Evaluates receiver.name. */
static struct sp_value eval_field(struct sp_go_machine *m, struct sp_value receiver,
                                  struct sp_value name)
{
    const struct sp_value *item = NULL;
    struct sp_value called;

    if (!sp_heap_charge(m->heap, 4) || receiver.kind == SP_V_UNDEFINED) return receiver;
    if (receiver.kind == SP_V_NONE)
        return sp_go_fail(m, "nil pointer evaluating interface {}.%.*s", (int)name.len, name.text);
    if (receiver.kind == SP_V_DICT) item = sp_dict_find(m->heap, receiver.dict, name);
    if (item != NULL) return *item;
    called = method(m, receiver, name);
    if (called.kind != SP_V_ABSENT) return called;
    if (receiver.kind == SP_V_DICT && !sp_go_is_struct(receiver)) {
        called.kind = m->part != SP_GOTEMPLATE_LAST_TURN ? SP_V_NONE : SP_V_UNDEFINED;
        return called;
    }
    return sp_go_fail(m, "can't evaluate field %.*s in type %s", (int)name.len, name.text,
                      sp_go_type_name(receiver));
}

static struct sp_value eval_names(struct sp_go_machine *m, struct sp_value receiver,
                                  const struct sp_go_node *node)
{
    for (size_t i = 0; i < node->names->n; i++)
        receiver = eval_field(m, receiver, node->names->at[i]);
    return receiver;
}

static struct sp_value eval_call(struct sp_go_machine *m, struct sp_value dot,
                                 const struct sp_go_node *callee, const struct sp_go_node *args,
                                 const struct sp_value *final);

/* Evaluates one argument, or the only word of a command. */
static struct sp_value eval_operand(struct sp_go_machine *m, struct sp_value dot,
                                    const struct sp_go_node *node)
{
    const struct sp_value *var;
    struct sp_value value;

    if (m->heap->status) return SP_VALUE_ABSENT;
    m->at = node;
    switch (node->kind) {
    case SP_N_LITERAL:
        return node->value;
    case SP_N_NIL:
        return sp_value_none();
    case SP_N_DOT:
        return dot;
    case SP_N_FIELD:
        return eval_names(m, dot, node);
    case SP_N_VARIABLE:
        var = find_var(m, node->value);
        return var ? eval_names(m, *var, node) : SP_VALUE_ABSENT;
    case SP_N_CHAIN:
        value = eval_operand(m, dot, node->a);
        m->at = node;
        return eval_names(m, value, node);
    case SP_N_FUNCTION:
        return eval_call(m, dot, node, NULL, NULL);
    default:
        return eval_pipe(m, dot, node);
    }
}

/* Evaluates `and` and `or`, which stop at the first argument that decides, and return it. */
static struct sp_value eval_logic(struct sp_go_machine *m, struct sp_value dot,
                                  const struct sp_go_node *callee, const struct sp_go_node *args,
                                  const struct sp_value *final)
{
    bool is_or = sp_text_is(callee->value, "or");
    struct sp_value out = SP_VALUE_ABSENT;

    for (; args != NULL && !is_cut(m, args); args = args->next) {
        out = eval_operand(m, dot, args);
        if (sp_go_truth(out) == is_or) return out;
    }
    return final ? *final : out;
}

static struct sp_value eval_call(struct sp_go_machine *m, struct sp_value dot,
                                 const struct sp_go_node *callee, const struct sp_go_node *args,
                                 const struct sp_value *final)
{
    const struct sp_go_function *f = callee->function;
    struct sp_value list;
    int n = final != NULL;

    for (const struct sp_go_node *a = args; a != NULL && !is_cut(m, a); a = a->next)
        n++;
    if (n < f->least || (f->most >= 0 && n > f->most)) {
        return sp_go_fail(m, "wrong number of args for %s: want %s%d got %d", f->name,
                          f->most < 0 ? "at least " : "", f->least, n);
    }
    if (f->run == NULL) return eval_logic(m, dot, callee, args, final);
    list = sp_value_list(m->heap, SP_SHAPE_PLAIN, (size_t)n);
    for (const struct sp_go_node *a = args; a != NULL && !is_cut(m, a); a = a->next)
        sp_list_push(m->heap, list.list, eval_operand(m, dot, a));
    if (final != NULL) sp_list_push(m->heap, list.list, *final);
    m->at = callee;
    return m->heap->status ? SP_VALUE_ABSENT : f->run(m, list.list->at, list.list->n);
}

/* Evaluates one command of a pipeline; `final` is the result of the command before it, or NULL. */
static struct sp_value eval_command(struct sp_go_machine *m, struct sp_value dot,
                                    const struct sp_go_node *command, const struct sp_value *final)
{
    const struct sp_go_node *first = command->list;

    m->at = first;
    if (first->kind == SP_N_FUNCTION) return eval_call(m, dot, first, first->next, final);
    if (final != NULL || (first->next != NULL && !is_cut(m, first->next)))
        return sp_go_fail(m, "can't give argument to non-function");
    if (first->kind == SP_N_NIL) return sp_go_fail(m, "nil is not a command");
    return eval_operand(m, dot, first);
}

static struct sp_value eval_pipe(struct sp_go_machine *m, struct sp_value dot,
                                 const struct sp_go_node *pipe)
{
    struct sp_value value = {.kind = SP_V_UNDEFINED};
    const struct sp_value *final = NULL;

    if (!enter(m)) return SP_VALUE_ABSENT;
    for (const struct sp_go_node *command = pipe->list; command != NULL; command = command->next) {
        struct sp_value made = eval_command(m, dot, command, final);
        if (m->heap->status) return SP_VALUE_ABSENT;
        /* A pipeline unwraps interfaces: a nil interface becomes an invalid value. */
        if (made.kind == SP_V_NONE) made.kind = SP_V_UNDEFINED;
        value = made;
        final = &value;
    }
    for (size_t i = 0; i < pipe->names->n; i++) {
        struct sp_value *var;
        if (!pipe->assigns)
            push_var(m, pipe->names->at[i], value);
        else if ((var = find_var(m, pipe->names->at[i])) != NULL)
            *var = value;
    }
    m->depth--;
    return value;
}

static void walk_action(struct sp_go_machine *m, struct sp_value dot, const struct sp_go_node *node)
{
    struct sp_value value = eval_pipe(m, dot, node->a);

    if (m->heap->status || node->a->names->n > 0) return;
    m->at = node->a;
    if (value.kind == SP_V_UNDEFINED)
        sp_build_text(m->out, "<no value>");
    else
        sp_go_build(m->out, value);
}

/* Executes if or with. In the last turn an else list after the first .Response is skipped. */
static void walk_branch(struct sp_go_machine *m, struct sp_value dot, const struct sp_go_node *node,
                        enum flow *flow)
{
    size_t n_outer_vars = m->n_vars;

    for (;; node = node->other) {
        struct sp_value value = eval_pipe(m, dot, node->a);
        if (sp_go_truth(value)) {
            walk_list(m, node->kind == SP_N_WITH ? value : dot, node->body, flow);
            break;
        }
        if (node->other == NULL || !node->other->chained) {
            walk_list(m, dot, node->other, flow);
            break;
        }
        if (is_cut(m, node->other)) break;
    }
    m->n_vars = n_outer_vars;
}

static void walk_item(struct sp_go_machine *m, const struct sp_go_node *node, size_t top,
                      struct sp_value index, struct sp_value item, enum flow *flow)
{
    const struct sp_list *names = node->a->names;

    /* The last variable is the element; with two, the first one is the index. With `=` no variable
     * was pushed, and Go sets the top of its stack all the same. */
    if (names->n > 0 && top >= 1) m->vars[top - 1].value = item;
    if (names->n > 1 && top >= 2) m->vars[top - 2].value = index;
    *flow = FLOW_ON;
    walk_list(m, item, node->body, flow);
    m->n_vars = top;
}

/* Executes the body for each item of a list, or of a map in key order; false: there are none. */
static bool walk_items(struct sp_go_machine *m, const struct sp_go_node *node, struct sp_value over)
{
    bool is_map = over.kind == SP_V_DICT && !sp_go_is_struct(over);
    size_t top = m->n_vars, n = over.kind == SP_V_LIST ? over.list->n : is_map ? over.dict->n : 0;
    enum flow flow = FLOW_ON;
    const struct sp_dict_entry *pairs = is_map && n ? sp_dict_sorted(m->heap, over.dict) : NULL;

    if (over.kind != SP_V_UNDEFINED && over.kind != SP_V_LIST && !is_map)
        sp_go_fail(m, "range can't iterate over a value of type %s", sp_go_type_name(over));
    for (size_t i = 0; i < n && flow != FLOW_BREAK && !m->heap->status; i++)
        walk_item(m, node, top, pairs ? pairs[i].key : sp_value_int((int64_t)i),
                  pairs ? pairs[i].value : over.list->at[i], &flow);
    return n > 0;
}

static void walk_range(struct sp_go_machine *m, struct sp_value dot, const struct sp_go_node *node,
                       enum flow *flow)
{
    size_t n_outer_vars = m->n_vars;
    struct sp_value over = eval_pipe(m, dot, node->a);

    m->at = node->a;
    if (!walk_items(m, node, over)) walk_list(m, dot, node->other, flow);
    /* A break in the else list ends this range, although that is not an iteration of it. */
    if (*flow == FLOW_BREAK) *flow = FLOW_ON;
    m->n_vars = n_outer_vars;
}

static void walk_template(struct sp_go_machine *m, struct sp_value dot,
                          const struct sp_go_node *node)
{
    const struct sp_go_define *define = m->tree->defines;
    struct sp_value data = {.kind = SP_V_UNDEFINED};
    size_t base = m->base;
    enum flow flow = FLOW_ON;

    m->at = node;
    for (; define != NULL && sp_text_order(define->name, node->value) != 0; define = define->next)
        if (!sp_heap_charge(m->heap, 1 + node->value.len / 32)) return;
    if (define == NULL) {
        sp_go_fail(m, "template \"%.*s\" not defined", (int)node->value.len, node->value.text);
        return;
    }
    if (node->a != NULL) data = eval_pipe(m, dot, node->a);
    m->base = m->n_vars;
    push_var(m, sp_value_name("$"), data);
    walk_list(m, data, define->body, &flow);
    m->n_vars = m->base;
    m->base = base;
}

static void walk(struct sp_go_machine *m, struct sp_value dot, const struct sp_go_node *node,
                 enum flow *flow)
{
    switch (node->kind) {
    case SP_N_TEXT:
        sp_build_value(m->out, node->value);
        break;
    case SP_N_ACTION:
        walk_action(m, dot, node);
        break;
    case SP_N_IF:
    case SP_N_WITH:
        walk_branch(m, dot, node, flow);
        break;
    case SP_N_RANGE:
        walk_range(m, dot, node, flow);
        break;
    case SP_N_TEMPLATE:
        walk_template(m, dot, node);
        break;
    case SP_N_BREAK:
    case SP_N_CONTINUE:
        *flow = node->kind == SP_N_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        break;
    default:
        sp_heap_fail(m->heap, SP_E_BUG, "template node of kind %d", node->kind);
    }
}

static void walk_list(struct sp_go_machine *m, struct sp_value dot, const struct sp_go_node *node,
                      enum flow *flow)
{
    if (!enter(m)) return;
    for (; node != NULL && *flow == FLOW_ON && !m->heap->status; node = node->next) {
        if (is_cut(m, node)) continue;
        if (sp_heap_charge(m->heap, 4)) walk(m, dot, node, flow);
    }
    m->depth--;
}

enum sp_status sp_gotemplate_render(struct sp_builder *out, const struct sp_gotemplate *t,
                                    struct sp_value data, enum sp_gotemplate_part part,
                                    struct sp_template_time now)
{
    struct sp_go_machine m = {.heap = out->heap, .out = out, .tree = t, .part = part, .now = now};
    const struct sp_value *response = NULL;
    enum flow flow = FLOW_ON;

    push_var(&m, sp_value_name("$"), data);
    walk_list(&m, data, t->body, &flow);
    if (part != SP_GOTEMPLATE_ALL && t->appends_response)
        response = sp_dict_find_name(data.dict, "Response");
    if (response != NULL) sp_go_build(out, *response);
    return out->heap->status;
}
