/* Executes a Go template: actions, control structures, pipelines, fields, variables.
 *
 * Go has two kinds of nil, and templates can see the difference: to access a field of a nil
 * interface (SP_V_NONE, a missing key) is an error, while an invalid value (SP_V_UNDEFINED, the
 * result of a pipeline) stays invalid. Both print as "<no value>". */
#include "runtime/template/go/gotemplate_exec.h"
#include "format/base/number_text.h"

#include <stdarg.h>

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static enum sp_status walk_list(struct sp_go_machine *m, struct sp_value dot,
                                const struct sp_go_node *node, enum flow *flow);
static enum sp_status eval_pipe(struct sp_go_machine *m, struct sp_value *out, struct sp_value dot,
                                const struct sp_go_node *pipe);

enum sp_status sp_go_fail(struct sp_go_machine *m, const char *format, ...)
{
    char text[512];
    va_list args;
    const struct sp_go_node *n = m->at;
    const char *source = m->tree->text;
    uint32_t column = 0, len;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    if (n == NULL) return sp_fail(m->heap->err, SP_E_INPUT, "template: %s", text);
    while (column < n->begin && source[n->begin - column - 1] != '\n')
        column++;
    len = n->end - n->begin;
    return sp_fail(m->heap->err, SP_E_INPUT, "template:%u:%u: at <%.*s%s>: %s", n->line, column,
                   (int)(len < 60 ? len : 60), source + n->begin, len > 60 ? "..." : "", text);
}

static enum sp_status enter(struct sp_go_machine *m)
{
    if (m->depth >= SP_TEMPLATE_MAX_CALLS)
        return sp_go_fail(m, "nested deeper than %d", SP_TEMPLATE_MAX_CALLS);
    m->depth++;
    return sp_heap_charge(m->heap, 8);
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

static enum sp_status push_var(struct sp_go_machine *m, struct sp_value name, struct sp_value value)
{
    enum sp_status st;

    if ((st = sp_heap_grow(m->heap, &m->vars, m->n_vars, &m->cap_vars, sizeof *m->vars))) return st;
    m->vars[m->n_vars++] = (struct sp_go_variable){.name = name, .value = value};
    return SP_OK;
}

static enum sp_status find_var(struct sp_go_variable **out, struct sp_go_machine *m,
                               struct sp_value name)
{
    size_t i = m->n_vars;

    while (i > m->base && sp_text_order(m->vars[i - 1].name, name) != 0)
        i--;
    *out = i > m->base ? &m->vars[i - 1] : NULL;
    if (*out == NULL) return sp_go_fail(m, "undefined variable");
    return sp_heap_charge(m->heap, (m->n_vars - i) / 4 + name.len / 32 + 1);
}

static enum sp_status call(struct sp_go_machine *m, struct sp_value *out, const char *name,
                           struct sp_value arg)
{
    return sp_go_find_function(sp_value_name(name))->run(m, out, &arg, 1);
}

/* Calls a method of one of ollama's types. */
static enum sp_status method(struct sp_go_machine *m, struct sp_value *out, bool *found,
                             struct sp_value receiver, struct sp_value name)
{
    bool prints = (receiver.kind == SP_V_DICT || receiver.kind == SP_V_LIST) &&
                  (receiver.shape == SP_SHAPE_JSON || receiver.shape == SP_SHAPE_JSON_STRUCT ||
                   receiver.shape == SP_SHAPE_TYPE);

    *found = true;
    if (prints && sp_text_is(name, "String")) return call(m, out, "print", receiver);
    if (receiver.kind == SP_V_DICT && receiver.shape == SP_SHAPE_STRUCT &&
        sp_text_is(name, "ToTypeScriptType"))
        return call(m, out, "toTypeScriptType", receiver);
    *found = false;
    return SP_OK;
}

/* Evaluates receiver.name. */
static enum sp_status eval_field(struct sp_go_machine *m, struct sp_value *out,
                                 struct sp_value receiver, struct sp_value name)
{
    enum sp_status st;
    const struct sp_value *item;
    bool found;

    if ((st = sp_heap_charge(m->heap, 4))) return st;
    if (receiver.kind == SP_V_UNDEFINED) {
        *out = receiver;
        return SP_OK;
    }
    if (receiver.kind == SP_V_NONE)
        return sp_go_fail(m, "nil pointer evaluating interface {}.%.*s", (int)name.len, name.text);
    if (receiver.kind == SP_V_DICT) {
        if ((st = sp_dict_find(m->heap, &item, receiver.dict, name))) return st;
        if (item != NULL) {
            *out = *item;
            return SP_OK;
        }
    }
    if ((st = method(m, out, &found, receiver, name)) || found) return st;
    if (receiver.kind == SP_V_DICT && !sp_go_is_struct(receiver)) {
        out->kind = m->part != SP_GOTEMPLATE_LAST_TURN ? SP_V_NONE : SP_V_UNDEFINED;
        return SP_OK;
    }
    return sp_go_fail(m, "can't evaluate field %.*s in type %s", (int)name.len, name.text,
                      sp_go_type_name(receiver));
}

static enum sp_status eval_names(struct sp_go_machine *m, struct sp_value *out,
                                 struct sp_value receiver, const struct sp_go_node *node)
{
    enum sp_status st = SP_OK;

    *out = receiver;
    for (size_t i = 0; i < node->names->n && !st; i++)
        st = eval_field(m, out, *out, node->names->at[i]);
    return st;
}

static enum sp_status eval_call(struct sp_go_machine *m, struct sp_value *out, struct sp_value dot,
                                const struct sp_go_node *callee, const struct sp_go_node *args,
                                const struct sp_value *final);

/* Evaluates one argument, or the only word of a command. */
static enum sp_status eval_operand(struct sp_go_machine *m, struct sp_value *out,
                                   struct sp_value dot, const struct sp_go_node *node)
{
    enum sp_status st;
    struct sp_go_variable *var;
    struct sp_value value;

    m->at = node;
    switch (node->kind) {
    case SP_N_LITERAL:
        *out = node->value;
        return SP_OK;
    case SP_N_NIL:
        *out = sp_value_none();
        return SP_OK;
    case SP_N_DOT:
        *out = dot;
        return SP_OK;
    case SP_N_FIELD:
        return eval_names(m, out, dot, node);
    case SP_N_VARIABLE:
        if ((st = find_var(&var, m, node->value))) return st;
        return eval_names(m, out, var->value, node);
    case SP_N_CHAIN:
        if ((st = eval_operand(m, &value, dot, node->a))) return st;
        m->at = node;
        return eval_names(m, out, value, node);
    case SP_N_FUNCTION:
        return eval_call(m, out, dot, node, NULL, NULL);
    default:
        return eval_pipe(m, out, dot, node);
    }
}

/* Evaluates `and` and `or`, which stop at the first argument that decides, and return it. */
static enum sp_status eval_logic(struct sp_go_machine *m, struct sp_value *out, struct sp_value dot,
                                 const struct sp_go_node *callee, const struct sp_go_node *args,
                                 const struct sp_value *final)
{
    enum sp_status st;
    bool is_or = sp_text_is(callee->value, "or");

    for (; args != NULL && !(m->part == SP_GOTEMPLATE_LAST_TURN && args->cut); args = args->next) {
        if ((st = eval_operand(m, out, dot, args))) return st;
        if (sp_go_truth(*out) == is_or) return SP_OK;
    }
    if (final != NULL) *out = *final;
    return SP_OK;
}

static enum sp_status eval_call(struct sp_go_machine *m, struct sp_value *out, struct sp_value dot,
                                const struct sp_go_node *callee, const struct sp_go_node *args,
                                const struct sp_value *final)
{
    enum sp_status st;
    const struct sp_go_function *f = callee->function;
    struct sp_value list;
    int n = final != NULL;

    for (const struct sp_go_node *a = args; a != NULL; a = a->next) {
        if (m->part == SP_GOTEMPLATE_LAST_TURN && a->cut) break;
        n++;
    }
    if (n < f->least || (f->most >= 0 && n > f->most)) {
        return sp_go_fail(m, "wrong number of args for %s: want %s%d got %d", f->name,
                          f->most < 0 ? "at least " : "", f->least, n);
    }
    if (f->run == NULL) return eval_logic(m, out, dot, callee, args, final);
    if ((st = sp_value_list(m->heap, &list, SP_SHAPE_PLAIN, (size_t)n))) return st;
    for (const struct sp_go_node *a = args; a != NULL; a = a->next) {
        struct sp_value value;
        if (m->part == SP_GOTEMPLATE_LAST_TURN && a->cut) break;
        if ((st = eval_operand(m, &value, dot, a))) return st;
        if ((st = sp_list_push(m->heap, list.list, value))) return st;
    }
    if (final != NULL && (st = sp_list_push(m->heap, list.list, *final))) return st;
    m->at = callee;
    return f->run(m, out, list.list->at, list.list->n);
}

/* Evaluates one command of a pipeline; `final` is the result of the command before it, or NULL. */
static enum sp_status eval_command(struct sp_go_machine *m, struct sp_value *out,
                                   struct sp_value dot, const struct sp_go_node *command,
                                   const struct sp_value *final)
{
    const struct sp_go_node *first = command->list;

    m->at = first;
    if (first->kind == SP_N_FUNCTION) return eval_call(m, out, dot, first, first->next, final);
    if (first->next != NULL || final != NULL) {
        if (m->part != SP_GOTEMPLATE_LAST_TURN || final != NULL || !first->next->cut)
            return sp_go_fail(m, "can't give argument to non-function");
    }
    if (first->kind == SP_N_NIL) return sp_go_fail(m, "nil is not a command");
    return eval_operand(m, out, dot, first);
}

static enum sp_status eval_pipe(struct sp_go_machine *m, struct sp_value *out, struct sp_value dot,
                                const struct sp_go_node *pipe)
{
    enum sp_status st;
    struct sp_value value = {.kind = SP_V_UNDEFINED};
    const struct sp_value *final = NULL;

    if ((st = enter(m))) return st;
    for (const struct sp_go_node *command = pipe->list; command != NULL; command = command->next) {
        struct sp_value made;
        if ((st = eval_command(m, &made, dot, command, final))) return st;
        /* A pipeline unwraps interfaces: a nil interface becomes an invalid value. */
        if (made.kind == SP_V_NONE) made.kind = SP_V_UNDEFINED;
        value = made;
        final = &value;
    }
    for (size_t i = 0; i < pipe->names->n; i++) {
        struct sp_go_variable *var;
        if (!pipe->assigns)
            st = push_var(m, pipe->names->at[i], value);
        else if (!(st = find_var(&var, m, pipe->names->at[i])))
            var->value = value;
        if (st) return st;
    }
    m->depth--;
    *out = value;
    return SP_OK;
}

static enum sp_status walk_action(struct sp_go_machine *m, struct sp_value dot,
                                  const struct sp_go_node *node)
{
    enum sp_status st;
    struct sp_value value;

    if ((st = eval_pipe(m, &value, dot, node->a))) return st;
    if (node->a->names->n > 0) return SP_OK;
    m->at = node->a;
    if (value.kind == SP_V_UNDEFINED) return sp_build_text(m->out, "<no value>");
    return sp_go_build(m->out, value);
}

/* Executes if or with. In the last turn an else list after the first .Response is skipped. */
static enum sp_status walk_branch(struct sp_go_machine *m, struct sp_value dot,
                                  const struct sp_go_node *node, enum flow *flow)
{
    enum sp_status st;
    size_t n_outer_vars = m->n_vars;
    struct sp_value value;

    for (;; node = node->other) {
        if ((st = eval_pipe(m, &value, dot, node->a))) return st;
        if (sp_go_truth(value)) {
            st = walk_list(m, node->kind == SP_N_WITH ? value : dot, node->body, flow);
            break;
        }
        if (node->other == NULL || !node->other->chained) {
            st = walk_list(m, dot, node->other, flow);
            break;
        }
        if (m->part == SP_GOTEMPLATE_LAST_TURN && node->other->cut) break;
    }
    m->n_vars = n_outer_vars;
    return st;
}

static enum sp_status walk_item(struct sp_go_machine *m, const struct sp_go_node *node, size_t top,
                                struct sp_value index, struct sp_value item, enum flow *flow)
{
    enum sp_status st;
    const struct sp_list *names = node->a->names;

    /* The last variable is the element; with two, the first one is the index. With `=` no variable
     * was pushed, and Go sets the top of its stack all the same. */
    if (names->n > 0 && top >= 1) m->vars[top - 1].value = item;
    if (names->n > 1 && top >= 2) m->vars[top - 2].value = index;
    *flow = FLOW_ON;
    st = walk_list(m, item, node->body, flow);
    m->n_vars = top;
    return st;
}

/* Executes the body for each item of a list, or of a map in key order; *empty: there are none. */
static enum sp_status walk_items(struct sp_go_machine *m, const struct sp_go_node *node,
                                 struct sp_value over, bool *empty)
{
    enum sp_status st = SP_OK;
    enum flow flow = FLOW_ON;
    size_t top = m->n_vars;
    const struct sp_dict_entry *pairs;

    *empty = false;
    if (over.kind == SP_V_LIST && over.list->n > 0) {
        for (size_t i = 0; i < over.list->n && flow != FLOW_BREAK && !st; i++)
            st = walk_item(m, node, top, sp_value_int((int64_t)i), over.list->at[i], &flow);
        return st;
    }
    if (over.kind == SP_V_DICT && !sp_go_is_struct(over) && over.dict->n > 0) {
        if ((st = sp_dict_sorted(m->heap, &pairs, over.dict))) return st;
        for (size_t i = 0; i < over.dict->n && flow != FLOW_BREAK && !st; i++)
            st = walk_item(m, node, top, pairs[i].key, pairs[i].value, &flow);
        return st;
    }
    *empty = true;
    if (over.kind == SP_V_UNDEFINED || over.kind == SP_V_LIST ||
        (over.kind == SP_V_DICT && !sp_go_is_struct(over)))
        return SP_OK;
    return sp_go_fail(m, "range can't iterate over a value of type %s", sp_go_type_name(over));
}

static enum sp_status walk_range(struct sp_go_machine *m, struct sp_value dot,
                                 const struct sp_go_node *node, enum flow *flow)
{
    enum sp_status st;
    size_t n_outer_vars = m->n_vars;
    struct sp_value over;
    bool empty;

    if ((st = eval_pipe(m, &over, dot, node->a))) return st;
    m->at = node->a;
    if ((st = walk_items(m, node, over, &empty))) return st;
    if (empty) st = walk_list(m, dot, node->other, flow);
    /* A break in the else list ends this range, although that is not an iteration of it. */
    if (*flow == FLOW_BREAK) *flow = FLOW_ON;
    m->n_vars = n_outer_vars;
    return st;
}

static enum sp_status walk_template(struct sp_go_machine *m, struct sp_value dot,
                                    const struct sp_go_node *node)
{
    enum sp_status st = SP_OK;
    const struct sp_go_define *define = m->tree->defines;
    struct sp_value data = {.kind = SP_V_UNDEFINED};
    size_t base = m->base;
    enum flow flow = FLOW_ON;

    m->at = node;
    for (; define != NULL && sp_text_order(define->name, node->value) != 0; define = define->next)
        if ((st = sp_heap_charge(m->heap, 1 + node->value.len / 32))) return st;
    if (define == NULL) {
        return sp_go_fail(m, "template \"%.*s\" not defined", (int)node->value.len,
                          node->value.text);
    }
    if (node->a != NULL && (st = eval_pipe(m, &data, dot, node->a))) return st;
    m->base = m->n_vars;
    st = push_var(m, sp_value_name("$"), data);
    if (!st) st = walk_list(m, data, define->body, &flow);
    m->n_vars = m->base;
    m->base = base;
    return st;
}

static enum sp_status walk(struct sp_go_machine *m, struct sp_value dot,
                           const struct sp_go_node *node, enum flow *flow)
{
    switch (node->kind) {
    case SP_N_TEXT:
        return sp_build(m->out, node->value.text, node->value.len);
    case SP_N_ACTION:
        return walk_action(m, dot, node);
    case SP_N_IF:
    case SP_N_WITH:
        return walk_branch(m, dot, node, flow);
    case SP_N_RANGE:
        return walk_range(m, dot, node, flow);
    case SP_N_TEMPLATE:
        return walk_template(m, dot, node);
    case SP_N_BREAK:
        *flow = FLOW_BREAK;
        return SP_OK;
    case SP_N_CONTINUE:
        *flow = FLOW_CONTINUE;
        return SP_OK;
    default:
        return sp_fail(m->heap->err, SP_E_BUG, "template node of kind %d", node->kind);
    }
}

static enum sp_status walk_list(struct sp_go_machine *m, struct sp_value dot,
                                const struct sp_go_node *node, enum flow *flow)
{
    enum sp_status st;

    if ((st = enter(m))) return st;
    for (; node != NULL && *flow == FLOW_ON && !st; node = node->next) {
        if (m->part == SP_GOTEMPLATE_LAST_TURN && node->cut) continue;
        if ((st = sp_heap_charge(m->heap, 4))) break;
        st = walk(m, dot, node, flow);
    }
    m->depth--;
    return st;
}

enum sp_status sp_gotemplate_render(struct sp_builder *out, const struct sp_gotemplate *t,
                                    struct sp_value data, enum sp_gotemplate_part part,
                                    struct sp_template_time now, struct sp_err *err)
{
    enum sp_status st;
    struct sp_go_machine m = {.heap = out->heap, .out = out, .tree = t, .part = part, .now = now};
    const struct sp_value *response;
    enum flow flow = FLOW_ON;

    out->heap->err = err;
    if ((st = push_var(&m, sp_value_name("$"), data))) return st;
    if ((st = walk_list(&m, data, t->body, &flow))) return st;
    if (part == SP_GOTEMPLATE_ALL || !t->appends_response) return SP_OK;
    response = sp_dict_find_name(data.dict, "Response");
    return response ? sp_go_build(out, *response) : SP_OK;
}
