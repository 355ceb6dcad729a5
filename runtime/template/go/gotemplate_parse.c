/* The parser of Go templates.
 *
 * After a failure, which the heap keeps, the parser is at the end of the template, and functions
 * return nodes that nobody reads. */
#include "runtime/template/go/gotemplate_exec.h"
#include "format/base/number_text.h"
#include "format/base/unicode_case.h"

#include <stdarg.h>
#include <string.h>

struct parser {
    struct sp_heap *heap;
    struct sp_gotemplate *tree;
    const struct sp_go_lexeme *at;
    struct sp_value *vars; /* [n_vars] names of the visible variables */
    size_t n_vars, cap_vars;
    unsigned depth, ranges;
    struct sp_go_node no_node; /* stands for a node that could not be made */
};

enum list_end { ENDS_END, ENDS_ELSE, ENDS_TEXT };

static struct sp_go_node *parse_list(struct parser *p, enum list_end *end);
static struct sp_go_node *parse_pipe(struct parser *p, const char *context, enum sp_go_token close);

/* Fails with "template:LINE: " and a message. */
static void SP_PRINTF(3, 4) reject(struct parser *p, uint32_t line, const char *format, ...)
{
    char text[SP_ERR_TEXT];
    va_list args;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    sp_heap_fail(p->heap, SP_E_INPUT, "template:%u: %s", line, text);
    while (p->at->token != SP_G_END)
        p->at++;
}

static void unexpected(struct parser *p, const char *context)
{
    static const char *const names[] = {
        [SP_G_END] = "EOF",    [SP_G_TEXT] = "text", [SP_G_LEFT] = "{{", [SP_G_RIGHT] = "}}",
        [SP_G_LPAREN] = "(",   [SP_G_RPAREN] = ")",  [SP_G_PIPE] = "|",  [SP_G_ASSIGN] = "=",
        [SP_G_DECLARE] = ":=", [SP_G_COMMA] = ",",
    };
    const struct sp_go_lexeme *t = p->at;
    uint32_t len = t->end - t->begin;

    if (t->token < SP_G_OTHER)
        reject(p, t->line, "unexpected %s in %s", names[t->token], context);
    else
        reject(p, t->line, "unexpected <%.*s> in %s", (int)(len < 40 ? len : 40),
               p->tree->text + t->begin, context);
}

static bool at_keyword(const struct parser *p, const char *name)
{
    return p->at->token == SP_G_KEYWORD && sp_text_is(p->at->value, name);
}

static void expect(struct parser *p, enum sp_go_token token, const char *context)
{
    if (p->at->token == token)
        p->at++;
    else
        unexpected(p, context);
}

static void enter(struct parser *p)
{
    if (++p->depth > SP_TEMPLATE_MAX_NESTING)
        reject(p, p->at->line, "nested deeper than %d levels", SP_TEMPLATE_MAX_NESTING);
}

static struct sp_go_node *new_node(struct parser *p, enum sp_go_kind kind)
{
    struct sp_go_node *node = sp_heap_take(p->heap, sizeof *node);

    if (node == NULL) {
        node = &p->no_node;
        *node = (struct sp_go_node){.names = &p->heap->no_list};
    }
    node->kind = (uint8_t)kind;
    node->line = p->at->line;
    node->begin = p->at->begin;
    node->end = p->at->end;
    return node;
}

static void declare(struct parser *p, struct sp_value name)
{
    if (sp_heap_grow(p->heap, &p->vars, p->n_vars, &p->cap_vars, sizeof *p->vars))
        p->vars[p->n_vars++] = name;
}

static struct sp_go_node *parse_term(struct parser *p)
{
    const struct sp_go_lexeme *t = p->at;
    struct sp_go_node *node;
    size_t var = p->n_vars;

    if (t->token == SP_G_LPAREN) {
        p->at++;
        node = parse_pipe(p, "parenthesized pipeline", SP_G_RPAREN);
        node->begin = t->begin;
        return node;
    }
    node = new_node(p, SP_N_LITERAL);
    node->value = t->value;
    switch (t->token) {
    case SP_G_LITERAL:
        break;
    case SP_G_NIL:
        node->kind = SP_N_NIL;
        break;
    case SP_G_DOT:
        node->kind = SP_N_DOT;
        break;
    case SP_G_FIELD:
        node->kind = SP_N_FIELD;
        break;
    case SP_G_NAME:
        node->kind = SP_N_FUNCTION;
        node->function = sp_go_find_function(t->value);
        if (node->function == NULL)
            reject(p, t->line, "function \"%.*s\" is not supported", (int)t->value.len,
                   t->value.text);
        break;
    case SP_G_VARIABLE:
        node->kind = SP_N_VARIABLE;
        while (var > 0 && sp_text_order(p->vars[var - 1], t->value) != 0)
            var--;
        if (var == 0)
            reject(p, t->line, "undefined variable \"%.*s\"", (int)t->value.len, t->value.text);
        break;
    default:
        unexpected(p, "operand");
    }
    if (!p->heap->status) p->at++;
    return node;
}

/* Parses a term and the fields that follow it without whitespace. ollama does not look for fields
 * inside of parentheses with a field after them. */
static struct sp_go_node *parse_operand(struct parser *p)
{
    struct sp_list *fields = p->tree->fields;
    size_t n_fields = fields->n;
    struct sp_go_node *node = parse_term(p), *term = node;
    struct sp_value names = sp_value_list(p->heap, SP_SHAPE_PLAIN, 0);

    if (node->kind == SP_N_FIELD) sp_list_push(p->heap, names.list, node->value);
    if (p->at->token == SP_G_FIELD && !p->at->spaced) {
        if (node->kind == SP_N_LITERAL || node->kind == SP_N_NIL || node->kind == SP_N_DOT)
            unexpected(p, "operand, after a literal");
        if (node->kind != SP_N_FIELD && node->kind != SP_N_VARIABLE) {
            fields->n = n_fields;
            node = new_node(p, SP_N_CHAIN);
            node->a = term;
            node->begin = term->begin;
        }
    }
    if (node->kind == SP_N_FIELD || node->kind == SP_N_VARIABLE || node->kind == SP_N_CHAIN)
        node->names = names.list;
    while (p->at->token == SP_G_FIELD && !p->at->spaced) {
        sp_list_push(p->heap, names.list, p->at->value);
        node->end = p->at++->end;
    }
    for (size_t i = 0; node->kind != SP_N_CHAIN && i < names.list->n; i++) {
        const struct sp_value name = names.list->at[i];
        sp_list_push(p->heap, fields, sp_value_copy_text(p->heap, name.text, name.len));
    }
    return node;
}

static struct sp_go_node *parse_command(struct parser *p, enum sp_go_token close)
{
    struct sp_go_node *node = new_node(p, SP_N_COMMAND), **end = &node->list;

    for (;;) {
        struct sp_go_node *arg = parse_operand(p);
        *end = arg;
        end = &arg->next;
        node->end = arg->end;
        if (p->at->token == SP_G_PIPE) {
            p->at++;
            return node;
        }
        if (p->at->token == close || p->heap->status) return node;
        if (!p->at->spaced) unexpected(p, "operand");
    }
}

/* Parses `$x :=`, `$x =` or `$i, $x :=` at the start of a pipeline. */
static void parse_declarations(struct parser *p, struct sp_go_node *pipe, const char *context)
{
    pipe->names = sp_value_list(p->heap, SP_SHAPE_PLAIN, 0).list;
    while (p->at->token == SP_G_VARIABLE) {
        uint8_t next = p->at[1].token;
        if (next != SP_G_ASSIGN && next != SP_G_DECLARE && next != SP_G_COMMA) return;
        sp_list_push(p->heap, pipe->names, p->at->value);
        declare(p, p->at->value);
        pipe->assigns = next == SP_G_ASSIGN;
        p->at += 2;
        if (next != SP_G_COMMA) return;
        if (strcmp(context, "range") != 0 || pipe->names->n > 1) {
            p->at--;
            unexpected(p, context);
        } else if (p->at->token != SP_G_VARIABLE) {
            unexpected(p, "range, which can only initialize variables");
        }
    }
}

static struct sp_go_node *parse_pipe(struct parser *p, const char *context, enum sp_go_token close)
{
    struct sp_go_node *pipe = new_node(p, SP_N_PIPE), **end = &pipe->list;

    enter(p);
    parse_declarations(p, pipe, context);
    while (p->at->token != close && !p->heap->status) {
        struct sp_go_node *command = parse_command(p, close);
        uint8_t kind = command->list->kind;
        if (pipe->list != NULL && kind != SP_N_FIELD && kind != SP_N_VARIABLE &&
            kind != SP_N_CHAIN && kind != SP_N_FUNCTION && kind != SP_N_PIPE)
            reject(p, command->line, "non executable command in pipeline");
        *end = command;
        end = &command->next;
        pipe->end = command->end;
    }
    if (pipe->list == NULL) reject(p, p->at->line, "missing value for %s", context);
    if (close == SP_G_RPAREN) pipe->end = p->at->end;
    if (!p->heap->status) p->at++;
    p->depth--;
    return pipe;
}

/* Parses the condition, body and else of if, with and range. `else if` (and `else with`) make a
 * chain with a single end. */
static void parse_control(struct parser *p, struct sp_go_node *node, const char *context)
{
    enum list_end end;
    size_t n_vars = p->n_vars;
    bool range = node->kind == SP_N_RANGE;

    node->a = parse_pipe(p, context, SP_G_RIGHT);
    p->ranges += range;
    node->body = parse_list(p, &end);
    p->ranges -= range;
    while (end == ENDS_ELSE && !p->heap->status) {
        if (!range && at_keyword(p, context)) {
            struct sp_go_node *next = new_node(p, node->kind);
            p->at++;
            next->chained = true;
            node->other = next;
            node = next;
            node->a = parse_pipe(p, context, SP_G_RIGHT);
            node->body = parse_list(p, &end);
            continue;
        }
        expect(p, SP_G_RIGHT, "else");
        node->other = parse_list(p, &end);
        if (end == ENDS_END) break;
        reject(p, p->at->line, "expected end; found else");
    }
    p->n_vars = n_vars;
}

static struct sp_value parse_name(struct parser *p, const char *context)
{
    if (p->at->token == SP_G_LITERAL && p->at->value.kind == SP_V_TEXT) return p->at++->value;
    unexpected(p, context);
    return sp_value_name("");
}

static bool only_space(const struct sp_go_node *node)
{
    for (; node != NULL; node = node->next) {
        if (node->kind != SP_N_TEXT) return false;
        for (uint32_t i = 0; i < node->value.len; i++)
            if (strchr(" \t\r\n\v\f", node->value.text[i]) == NULL) return false;
    }
    return true;
}

/* Parses the body of define and block, and stores it under its name; an empty one replaces none. */
static void parse_definition(struct parser *p, struct sp_value name, const char *context)
{
    struct parser inner = *p;
    struct sp_go_define *define;
    struct sp_go_node *body;
    enum list_end end;

    inner.vars = NULL;
    inner.n_vars = inner.cap_vars = inner.ranges = 0;
    declare(&inner, sp_value_name("$"));
    body = parse_list(&inner, &end);
    p->at = inner.at;
    if (end != ENDS_END) unexpected(p, context);
    if (p->heap->status) return;
    for (define = p->tree->defines; define != NULL; define = define->next) {
        if (sp_text_order(define->name, name) != 0) continue;
        if (only_space(body)) return;
        if (!only_space(define->body))
            reject(p, p->at->line, "multiple definition of template \"%.*s\"", (int)name.len,
                   name.text);
        define->body = body;
        return;
    }
    if ((define = sp_heap_take(p->heap, sizeof *define)) == NULL) return;
    *define = (struct sp_go_define){name, body, p->tree->defines};
    p->tree->defines = define;
}

static void parse_template(struct parser *p, struct sp_go_node *node, bool block)
{
    const char *context = block ? "block clause" : "template clause";

    node->kind = SP_N_TEMPLATE;
    node->end = p->at->end;
    node->value = parse_name(p, context);
    if (!block && p->at->token == SP_G_RIGHT) {
        p->at++;
        return;
    }
    node->a = parse_pipe(p, context, SP_G_RIGHT);
    if (block) parse_definition(p, node->value, context);
}

static void parse_keyword(struct parser *p, struct sp_go_node *node)
{
    static const struct {
        const char *name;
        enum sp_go_kind kind;
    } controls[] = {{"if", SP_N_IF}, {"with", SP_N_WITH}, {"range", SP_N_RANGE}};
    const struct sp_value word = p->at->value;
    bool is_break = sp_text_is(word, "break");

    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
        if (!sp_text_is(word, controls[i].name)) continue;
        node->kind = (uint8_t)controls[i].kind;
        p->at++;
        parse_control(p, node, controls[i].name);
        return;
    }
    if (sp_text_is(word, "template") || sp_text_is(word, "block")) {
        p->at++;
        parse_template(p, node, word.text[0] == 'b');
    } else if (is_break || sp_text_is(word, "continue")) {
        node->kind = is_break ? SP_N_BREAK : SP_N_CONTINUE;
        p->at++;
        if (p->ranges == 0)
            reject(p, node->line, "{{%.*s}} outside {{range}}", (int)word.len, word.text);
        expect(p, SP_G_RIGHT, is_break ? "{{break}}" : "{{continue}}");
    } else {
        unexpected(p, "command");
    }
}

/* Parses one text or action; *end is ENDS_TEXT unless it was an end or else. */
static struct sp_go_node *parse_item(struct parser *p, enum list_end *end)
{
    struct sp_go_node *node = new_node(p, SP_N_TEXT);

    *end = ENDS_TEXT;
    if (p->at->token == SP_G_TEXT) {
        node->value = p->at++->value;
        return node;
    }
    expect(p, SP_G_LEFT, "input");
    if (at_keyword(p, "end")) {
        p->at++;
        *end = ENDS_END;
        expect(p, SP_G_RIGHT, "end");
        return node;
    }
    if (at_keyword(p, "else")) {
        p->at++;
        *end = ENDS_ELSE;
        /* the next token decides whether this is `else if` */
        return node;
    }
    node->begin = p->at->begin;
    node->end = p->at->end;
    if (p->at->token == SP_G_KEYWORD) {
        parse_keyword(p, node);
    } else {
        node->kind = SP_N_ACTION;
        node->a = parse_pipe(p, "command", SP_G_RIGHT);
    }
    return node;
}

static struct sp_go_node *parse_list(struct parser *p, enum list_end *end)
{
    struct sp_go_node *list = NULL, **out = &list;

    *end = ENDS_TEXT;
    enter(p);
    while (p->at->token != SP_G_END) {
        struct sp_go_node *node = parse_item(p, end);
        if (*end != ENDS_TEXT) {
            p->depth--;
            return list;
        }
        *out = node;
        out = &node->next;
    }
    reject(p, p->at->line, "unexpected EOF");
    return list;
}

static void parse_top(struct parser *p)
{
    struct sp_go_node **out = &p->tree->body;
    enum list_end end;

    declare(p, sp_value_name("$"));
    while (p->at->token != SP_G_END) {
        struct sp_go_node *node;
        if (p->at->token == SP_G_LEFT && p->at[1].token == SP_G_KEYWORD &&
            sp_text_is(p->at[1].value, "define")) {
            struct sp_value name;
            p->at += 2;
            name = parse_name(p, "define clause");
            expect(p, SP_G_RIGHT, "define clause");
            parse_definition(p, name, "define clause");
            continue;
        }
        node = parse_item(p, &end);
        if (end != ENDS_TEXT)
            reject(p, node->line, "unexpected {{%s}}", end == ENDS_END ? "end" : "else");
        *out = node;
        out = &node->next;
    }
}

bool sp_gotemplate_mentions(const struct sp_gotemplate *t, const char *field)
{
    for (size_t i = 0; i < t->fields->n; i++)
        if (sp_equal_ignoring_case(t->fields->at[i].text, field)) return true;
    return false;
}

const struct sp_gotemplate *sp_gotemplate_compile(struct sp_heap *heap, const char *text,
                                                  size_t size)
{
    struct sp_gotemplate *t = sp_heap_take(heap, sizeof *t);
    struct parser p = {.heap = heap, .tree = t, .at = sp_go_lex(text, size, heap)};

    if (heap->status) return NULL;
    t->text = text;
    t->fields = sp_value_list(heap, SP_SHAPE_PLAIN, 0).list;
    parse_top(&p);
    if (heap->status) return NULL;
    t->appends_response =
        !sp_gotemplate_mentions(t, "messages") && !sp_gotemplate_mentions(t, "response");
    sp_gotemplate_cut(t->body);
    return t;
}
