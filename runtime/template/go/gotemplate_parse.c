/* The parser of Go templates. It also marks the nodes that ollama cuts off for the last turn. */
#include "runtime/template/go/gotemplate_exec.h"

#include <stdlib.h>
#include <string.h>

struct parser {
    struct sp_heap *heap;
    struct sp_gotemplate *tree;
    const struct sp_go_lexeme *at;
    struct sp_value *vars; /* [n_vars] names of the visible variables */
    size_t n_vars, cap_vars;
    unsigned depth, ranges;
};

enum list_end { ENDS_END, ENDS_ELSE, ENDS_TEXT };

static enum sp_status parse_list(struct parser *p, struct sp_go_node **out, enum list_end *end);
static enum sp_status parse_pipe(struct parser *p, struct sp_go_node **out, const char *context,
                                 enum sp_go_token close);

static const char *token_name(const struct sp_go_lexeme *t)
{
    static const char *const names[] = {
        [SP_G_END] = "EOF",
        [SP_G_TEXT] = "text",
        [SP_G_LEFT] = "{{",
        [SP_G_RIGHT] = "}}",
        [SP_G_LPAREN] = "(",
        [SP_G_RPAREN] = ")",
        [SP_G_PIPE] = "|",
        [SP_G_ASSIGN] = "=",
        [SP_G_DECLARE] = ":=",
        [SP_G_COMMA] = ",",
        [SP_G_DOT] = ".",
        [SP_G_NIL] = "nil",
        [SP_G_LITERAL] = "a literal",
        [SP_G_KEYWORD] = "a keyword",
        [SP_G_NAME] = "a function",
        [SP_G_FIELD] = "a field",
        [SP_G_VARIABLE] = "a variable",
        [SP_G_OTHER] = "a character",
    };

    return names[t->token];
}

static enum sp_status unexpected(struct parser *p, const char *context)
{
    const struct sp_go_lexeme *t = p->at;

    if (t->token >= SP_G_LITERAL || t->token == SP_G_OTHER) {
        uint32_t len = t->end - t->begin;
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: unexpected <%.*s> in %s", t->line,
                       (int)(len < 40 ? len : 40), p->tree->text + t->begin, context);
    }
    return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: unexpected %s in %s", t->line,
                   token_name(t), context);
}

static bool at_keyword(const struct parser *p, const char *name)
{
    return p->at->token == SP_G_KEYWORD && sp_text_is(p->at->value, name);
}

static enum sp_status expect(struct parser *p, enum sp_go_token token, const char *context)
{
    if (p->at->token != token) return unexpected(p, context);
    p->at++;
    return SP_OK;
}

static enum sp_status enter(struct parser *p)
{
    if (++p->depth <= SP_TEMPLATE_MAX_NESTING) return SP_OK;
    return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: nested deeper than %d levels",
                   p->at->line, SP_TEMPLATE_MAX_NESTING);
}

static enum sp_status new_node(struct parser *p, struct sp_go_node **out, enum sp_go_kind kind)
{
    enum sp_status st;
    struct sp_go_node *node;

    if ((st = sp_heap_take(p->heap, &node, sizeof *node))) return st;
    node->kind = (uint8_t)kind;
    node->line = p->at->line;
    node->begin = p->at->begin;
    node->end = p->at->end;
    *out = node;
    return SP_OK;
}

static enum sp_status declare(struct parser *p, struct sp_value name)
{
    enum sp_status st;

    if ((st = sp_heap_grow(p->heap, &p->vars, p->n_vars, &p->cap_vars, sizeof *p->vars))) return st;
    p->vars[p->n_vars++] = name;
    return SP_OK;
}

static enum sp_status parse_term(struct parser *p, struct sp_go_node **out)
{
    enum sp_status st;
    const struct sp_go_lexeme *t = p->at;
    struct sp_go_node *node;
    size_t var = p->n_vars;

    if (t->token == SP_G_LPAREN) {
        p->at++;
        st = parse_pipe(p, out, "parenthesized pipeline", SP_G_RPAREN);
        if (!st) (*out)->begin = t->begin;
        return st;
    }
    if ((st = new_node(p, &node, SP_N_LITERAL))) return st;
    node->value = t->value;
    *out = node;
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
        if (node->function == NULL) {
            return sp_fail(p->heap->err, SP_E_INPUT,
                           "template:%u: function \"%.*s\" is not supported", t->line,
                           (int)t->value.len, t->value.text);
        }
        break;
    case SP_G_VARIABLE:
        node->kind = SP_N_VARIABLE;
        while (var > 0 && sp_text_order(p->vars[var - 1], t->value) != 0)
            var--;
        if (var > 0) break;
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: undefined variable \"%.*s\"",
                       t->line, (int)t->value.len, t->value.text);
    default:
        return unexpected(p, "operand");
    }
    p->at++;
    return SP_OK;
}

/* Parses a term and the fields that follow it without whitespace. */
static enum sp_status parse_operand(struct parser *p, struct sp_go_node **out)
{
    enum sp_status st;
    struct sp_go_node *node, *chain;
    struct sp_value names;

    if ((st = parse_term(p, &node))) return st;
    *out = node;
    if ((st = sp_value_list(p->heap, &names, SP_SHAPE_PLAIN, 0))) return st;
    if (node->kind == SP_N_FIELD && (st = sp_list_push(p->heap, names.list, node->value)))
        return st;
    if (p->at->token == SP_G_FIELD && !p->at->spaced) {
        if (node->kind == SP_N_LITERAL || node->kind == SP_N_NIL || node->kind == SP_N_DOT)
            return unexpected(p, "operand, after a literal");
        if (node->kind != SP_N_FIELD && node->kind != SP_N_VARIABLE) {
            if ((st = new_node(p, &chain, SP_N_CHAIN))) return st;
            chain->a = node;
            chain->begin = node->begin;
            *out = node = chain;
        }
    }
    if (node->kind == SP_N_FIELD || node->kind == SP_N_VARIABLE || node->kind == SP_N_CHAIN)
        node->names = names.list;
    while (p->at->token == SP_G_FIELD && !p->at->spaced) {
        if ((st = sp_list_push(p->heap, names.list, p->at->value))) return st;
        node->end = p->at++->end;
    }
    return SP_OK;
}

static enum sp_status parse_command(struct parser *p, struct sp_go_node **out,
                                    enum sp_go_token close)
{
    enum sp_status st;
    struct sp_go_node *arg, **end;

    if ((st = new_node(p, out, SP_N_COMMAND))) return st;
    end = &(*out)->list;
    for (;;) {
        if ((st = parse_operand(p, &arg))) return st;
        *end = arg;
        end = &arg->next;
        (*out)->end = arg->end;
        if (p->at->token == close) return SP_OK;
        if (p->at->token == SP_G_PIPE) {
            p->at++;
            return SP_OK;
        }
        if (!p->at->spaced) return unexpected(p, "operand");
    }
}

/* Parses `$x :=`, `$x =` or `$i, $x :=` at the start of a pipeline. */
static enum sp_status parse_declarations(struct parser *p, struct sp_go_node *pipe,
                                         const char *context)
{
    enum sp_status st;
    struct sp_value names;

    if ((st = sp_value_list(p->heap, &names, SP_SHAPE_PLAIN, 0))) return st;
    pipe->names = names.list;
    while (p->at->token == SP_G_VARIABLE) {
        uint8_t next = p->at[1].token;
        if (next != SP_G_ASSIGN && next != SP_G_DECLARE && next != SP_G_COMMA) return SP_OK;
        if ((st = sp_list_push(p->heap, names.list, p->at->value))) return st;
        if ((st = declare(p, p->at->value))) return st;
        p->at += 2;
        if (next == SP_G_COMMA) {
            if (strcmp(context, "range") != 0 || names.list->n > 1) {
                p->at--;
                return unexpected(p, context);
            }
            if (p->at->token != SP_G_VARIABLE)
                return unexpected(p, "range, which can only initialize variables");
            continue;
        }
        pipe->assigns = next == SP_G_ASSIGN;
        return SP_OK;
    }
    return SP_OK;
}

static enum sp_status parse_pipe(struct parser *p, struct sp_go_node **out, const char *context,
                                 enum sp_go_token close)
{
    enum sp_status st;
    struct sp_go_node *pipe, *command, **end;

    if ((st = enter(p)) || (st = new_node(p, &pipe, SP_N_PIPE))) return st;
    if ((st = parse_declarations(p, pipe, context))) return st;
    end = &pipe->list;
    while (p->at->token != close) {
        if ((st = parse_command(p, &command, close))) return st;
        if (pipe->list != NULL && command->list->kind != SP_N_FIELD &&
            command->list->kind != SP_N_VARIABLE && command->list->kind != SP_N_CHAIN &&
            command->list->kind != SP_N_FUNCTION && command->list->kind != SP_N_PIPE) {
            return sp_fail(p->heap->err, SP_E_INPUT,
                           "template:%u: non executable command in pipeline", command->line);
        }
        *end = command;
        end = &command->next;
        pipe->end = command->end;
    }
    if (pipe->list == NULL) {
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: missing value for %s", p->at->line,
                       context);
    }
    if (close == SP_G_RPAREN) pipe->end = p->at->end;
    p->at++;
    p->depth--;
    *out = pipe;
    return SP_OK;
}

/* Parses the condition, body and else of if, with and range. `else if` (and `else with`) make a
 * chain with a single end. */
static enum sp_status parse_control(struct parser *p, struct sp_go_node *node, const char *context)
{
    enum sp_status st;
    enum list_end end;
    size_t n_vars = p->n_vars;
    bool range = node->kind == SP_N_RANGE;

    if ((st = parse_pipe(p, &node->a, context, SP_G_RIGHT))) return st;
    p->ranges += range;
    st = parse_list(p, &node->body, &end);
    p->ranges -= range;
    if (st) return st;
    while (end == ENDS_ELSE) {
        bool again = p->at->token == SP_G_KEYWORD && !range && sp_text_is(p->at->value, context);
        if (again) {
            struct sp_go_node *next;
            if ((st = new_node(p, &next, node->kind))) return st;
            p->at++;
            next->chained = true;
            node->other = next;
            node = next;
            if ((st = parse_pipe(p, &node->a, context, SP_G_RIGHT))) return st;
            if ((st = parse_list(p, &node->body, &end))) return st;
            continue;
        }
        if ((st = expect(p, SP_G_RIGHT, "else"))) return st;
        if ((st = parse_list(p, &node->other, &end))) return st;
        if (end == ENDS_END) break;
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: expected end; found else",
                       p->at->line);
    }
    p->n_vars = n_vars;
    return SP_OK;
}

static enum sp_status parse_name(struct parser *p, struct sp_value *out, const char *context)
{
    if (p->at->token != SP_G_LITERAL || p->at->value.kind != SP_V_TEXT)
        return unexpected(p, context);
    *out = p->at++->value;
    return SP_OK;
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
static enum sp_status parse_definition(struct parser *p, struct sp_value name, const char *context)
{
    enum sp_status st;
    struct parser inner = *p;
    struct sp_go_define *define;
    struct sp_go_node *body = NULL;
    enum list_end end;

    inner.vars = NULL;
    inner.n_vars = inner.cap_vars = inner.ranges = 0;
    if ((st = declare(&inner, sp_value_name("$")))) return st;
    if ((st = parse_list(&inner, &body, &end))) return st;
    p->at = inner.at;
    if (end != ENDS_END) return unexpected(p, context);
    for (define = p->tree->defines; define != NULL; define = define->next) {
        if (sp_text_order(define->name, name) != 0) continue;
        if (only_space(body)) return SP_OK;
        if (only_space(define->body)) {
            define->body = body;
            return SP_OK;
        }
        return sp_fail(p->heap->err, SP_E_INPUT,
                       "template:%u: multiple definition of template \"%.*s\"", p->at->line,
                       (int)name.len, name.text);
    }
    if ((st = sp_heap_take(p->heap, &define, sizeof *define))) return st;
    define->name = name;
    define->body = body;
    define->next = p->tree->defines;
    p->tree->defines = define;
    return SP_OK;
}

static enum sp_status parse_template(struct parser *p, struct sp_go_node *node, bool block)
{
    enum sp_status st;
    const char *context = block ? "block clause" : "template clause";

    node->kind = SP_N_TEMPLATE;
    node->end = p->at->end;
    if ((st = parse_name(p, &node->value, context))) return st;
    if (block || p->at->token != SP_G_RIGHT) {
        if ((st = parse_pipe(p, &node->a, context, SP_G_RIGHT))) return st;
        return block ? parse_definition(p, node->value, context) : SP_OK;
    }
    p->at++;
    return SP_OK;
}

static enum sp_status parse_keyword(struct parser *p, struct sp_go_node *node)
{
    const struct sp_value word = p->at->value;
    bool is_break = sp_text_is(word, "break");

    static const struct {
        const char *name;
        enum sp_go_kind kind;
    } controls[] = {{"if", SP_N_IF}, {"with", SP_N_WITH}, {"range", SP_N_RANGE}};

    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
        if (!sp_text_is(word, controls[i].name)) continue;
        node->kind = (uint8_t)controls[i].kind;
        p->at++;
        return parse_control(p, node, controls[i].name);
    }
    if (sp_text_is(word, "template") || sp_text_is(word, "block")) {
        p->at++;
        return parse_template(p, node, word.text[0] == 'b');
    }
    if (is_break || sp_text_is(word, "continue")) {
        node->kind = is_break ? SP_N_BREAK : SP_N_CONTINUE;
        p->at++;
        if (p->ranges == 0) {
            return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: {{%.*s}} outside {{range}}",
                           node->line, (int)word.len, word.text);
        }
        return expect(p, SP_G_RIGHT, is_break ? "{{break}}" : "{{continue}}");
    }
    return unexpected(p, "command");
}

/* Parses one text or action; *end is ENDS_TEXT unless it was an end or else. */
static enum sp_status parse_item(struct parser *p, struct sp_go_node **out, enum list_end *end)
{
    enum sp_status st;
    struct sp_go_node *node;

    *end = ENDS_TEXT;
    if ((st = new_node(p, &node, SP_N_TEXT))) return st;
    *out = node;
    if (p->at->token == SP_G_TEXT) {
        node->value = p->at++->value;
        return SP_OK;
    }
    if ((st = expect(p, SP_G_LEFT, "input"))) return st;
    if (at_keyword(p, "end")) {
        p->at++;
        *end = ENDS_END;
        return expect(p, SP_G_RIGHT, "end");
    }
    if (at_keyword(p, "else")) {
        p->at++;
        *end = ENDS_ELSE;
        /* the next token decides whether this is `else if` */
        return SP_OK;
    }
    node->begin = p->at->begin;
    node->end = p->at->end;
    if (p->at->token == SP_G_KEYWORD) return parse_keyword(p, node);
    node->kind = SP_N_ACTION;
    return parse_pipe(p, &node->a, "command", SP_G_RIGHT);
}

static enum sp_status parse_list(struct parser *p, struct sp_go_node **out, enum list_end *end)
{
    enum sp_status st;
    struct sp_go_node *node;

    if ((st = enter(p))) return st;
    while (p->at->token != SP_G_END) {
        if ((st = parse_item(p, &node, end))) return st;
        if (*end != ENDS_TEXT) {
            p->depth--;
            return SP_OK;
        }
        *out = node;
        out = &node->next;
    }
    return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: unexpected EOF", p->at->line);
}

static enum sp_status parse_top(struct parser *p)
{
    enum sp_status st;
    struct sp_go_node *node, **out = &p->tree->body;
    struct sp_value name;
    enum list_end end;

    if ((st = declare(p, sp_value_name("$")))) return st;
    while (p->at->token != SP_G_END) {
        if (p->at->token == SP_G_LEFT && p->at[1].token == SP_G_KEYWORD &&
            sp_text_is(p->at[1].value, "define")) {
            p->at += 2;
            if ((st = parse_name(p, &name, "define clause"))) return st;
            if ((st = expect(p, SP_G_RIGHT, "define clause"))) return st;
            if ((st = parse_definition(p, name, "define clause"))) return st;
            continue;
        }
        if ((st = parse_item(p, &node, &end))) return st;
        if (end != ENDS_TEXT) {
            return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: unexpected {{%s}}", node->line,
                           end == ENDS_END ? "end" : "else");
        }
        *out = node;
        out = &node->next;
    }
    return SP_OK;
}

/* Marks the arguments of a pipeline after the first .Response. The whole pipeline is marked if one
 * of its commands loses all arguments. */
static void cut_pipe(struct sp_go_node *pipe, bool *cut)
{
    for (struct sp_go_node *command = pipe->list; command != NULL; command = command->next) {
        for (struct sp_go_node *arg = command->list; arg != NULL; arg = arg->next) {
            arg->cut = *cut;
            if (*cut) continue;
            for (size_t i = 0; arg->kind == SP_N_FIELD && i < arg->names->n; i++)
                *cut = *cut || sp_text_is(arg->names->at[i], "Response");
            if (arg->kind == SP_N_PIPE) cut_pipe(arg, cut);
        }
        if (command->list->cut) pipe->cut = true;
    }
}

/* Marks the nodes that follow the first .Response in document order, as ollama does; conditions
 * are not searched. The parser limits nesting; a chain of else-if is walked in a loop. */
static void cut_list(struct sp_go_node *node, bool *cut)
{
    for (; node != NULL; node = node->next) {
        node->cut = *cut;
        if (*cut) continue;
        if (node->kind == SP_N_ACTION) {
            cut_pipe(node->a, cut);
            node->cut = node->a->cut;
        }
        if (node->kind != SP_N_IF && node->kind != SP_N_WITH && node->kind != SP_N_RANGE) continue;
        for (struct sp_go_node *n = node; n != NULL; n = n->other) {
            n->cut = n != node && *cut;
            cut_list(n->body, cut);
            if (n->other == NULL || n->other->chained) continue;
            cut_list(n->other, cut);
            break;
        }
    }
}

static bool equals_ignoring_case(struct sp_value a, const char *b)
{
    if (strlen(b) != a.len) return false;
    for (uint32_t i = 0; i < a.len; i++) {
        char c = a.text[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c | 0x20);
        if (c != b[i]) return false;
    }
    return true;
}

static bool list_mentions(const struct sp_go_node *node, const char *field);

static bool node_mentions(const struct sp_go_node *node, const char *field)
{
    if (node == NULL) return false;
    if ((node->kind == SP_N_FIELD || node->kind == SP_N_VARIABLE) && node->names != NULL) {
        for (size_t i = 0; i < node->names->n; i++)
            if (equals_ignoring_case(node->names->at[i], field)) return true;
    }
    if (node->kind == SP_N_CHAIN) return false;
    return node_mentions(node->a, field) || list_mentions(node->list, field) ||
           list_mentions(node->body, field);
}

static bool list_mentions(const struct sp_go_node *node, const char *field)
{
    for (; node != NULL; node = node->next) {
        for (const struct sp_go_node *n = node; n != NULL; n = n->other) {
            if (node_mentions(n, field)) return true;
            if (n->other == NULL || n->other->chained) continue;
            if (list_mentions(n->other, field)) return true;
            break;
        }
    }
    return false;
}

bool sp_gotemplate_mentions(const struct sp_gotemplate *t, const char *field)
{
    if (list_mentions(t->body, field)) return true;
    for (const struct sp_go_define *d = t->defines; d != NULL; d = d->next)
        if (list_mentions(d->body, field)) return true;
    return false;
}

enum sp_status sp_gotemplate_compile(struct sp_gotemplate **out, const char *text, size_t size,
                                     struct sp_err *err)
{
    enum sp_status st;
    struct sp_gotemplate *t;
    struct sp_go_lexeme *tokens;
    struct parser p = {0};
    bool cut = false;

    if (size > SP_TEMPLATE_MAX_TEXT) {
        return sp_fail(err, SP_E_INPUT, "template of %zu bytes, at most %zu are possible", size,
                       SP_TEMPLATE_MAX_TEXT);
    }
    if ((st = sp_new(&t, 1, sizeof *t, err))) return st;
    sp_heap_init(&t->heap, SP_TEMPLATE_MAX_TREE, SP_TEMPLATE_MAX_WORK, err);
    if ((st = sp_heap_take(&t->heap, &t->text, size + 1))) goto done;
    if (size) memcpy(t->text, text, size);
    if ((st = sp_go_lex(&tokens, t->text, size, &t->heap))) goto done;
    p.heap = &t->heap;
    p.tree = t;
    p.at = tokens;
    if ((st = parse_top(&p))) goto done;
    t->appends_response =
        !sp_gotemplate_mentions(t, "messages") && !sp_gotemplate_mentions(t, "response");
    cut_list(t->body, &cut);
    t->heap.err = NULL;
    *out = t;
    t = NULL; /* *out owns it now */
done:
    sp_gotemplate_free(t);
    return st;
}

void sp_gotemplate_free(struct sp_gotemplate *t)
{
    if (t == NULL) return;
    sp_heap_release(&t->heap);
    free(t);
}
