/* The parser of Jinja's statements, and the compilation of a template. */
#include "runtime/template/jinja/jinja_tree.h"

#include <string.h>

static struct sp_jinja_node *parse_body(struct sp_jinja_parser *p);

/* Statements of Jinja2 that are not supported, for a clear error message. */
static const char *const missing[] = {"extends",    "include", "import", "from",      "block", "do",
                                      "autoescape", "trans",   "debug",  "pluralize", "print"};

static bool at_end_tag(const struct sp_jinja_parser *p)
{
    static const char *const ends[] = {"endfor",        "endif",   "else",     "elif",
                                       "endset",        "endwith", "endmacro", "endfilter",
                                       "endgeneration", "endcall"};

    if (p->at->token != SP_T_BLOCK_BEGIN || p->at[1].token != SP_T_NAME) return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (sp_text_is(p->at[1].value, ends[i])) return true;
    return false;
}

/* Parses `%}`, statements, `{% end`; the parser is then at the end tag's name. */
static struct sp_jinja_node *parse_block(struct sp_jinja_parser *p, const char *tag, uint32_t line)
{
    struct sp_jinja_node *body;

    (void)sp_jinja_skip(p, SP_T_COLON);
    sp_jinja_expect(p, SP_T_BLOCK_END);
    body = parse_body(p);
    if (p->at->token == SP_T_END)
        sp_jinja_reject(p, SP_E_INPUT, line, "{%% %s %%} is not closed", tag);
    return body;
}

/* Refuses the tag at the parser's position, inside an open block. */
static void wrong_tag(struct sp_jinja_parser *p, const char *open, uint32_t line)
{
    sp_jinja_reject(p, SP_E_INPUT, p->at->line,
                    "unexpected {%% %.*s %%}, {%% %s %%} of line %u is open", (int)p->at->value.len,
                    p->at->value.text, open, line);
}

/* Parses a block whose end tag is `end`, which is consumed. */
static struct sp_jinja_node *parse_closed(struct sp_jinja_parser *p, const char *tag, uint32_t line)
{
    struct sp_jinja_node *body = parse_block(p, tag, line);

    if (p->at->token == SP_T_NAME && p->at->value.len == strlen(tag) + 3 &&
        memcmp(p->at->value.text, "end", 3) == 0 &&
        memcmp(p->at->value.text + 3, tag, strlen(tag)) == 0)
        p->at++;
    else
        wrong_tag(p, tag, line);
    return body;
}

/* Parses the end of an if or for: its end tag, or else and then the end tag. */
static void parse_else(struct sp_jinja_parser *p, struct sp_jinja_node *node, const char *tag,
                       const char *end)
{
    if (sp_jinja_skip_name(p, "else"))
        node->list = parse_closed(p, tag, node->line);
    else if (!sp_jinja_skip_name(p, end))
        wrong_tag(p, tag, node->line);
}

static void parse_if(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    for (;;) {
        struct sp_jinja_node *next;
        node->a = sp_jinja_parse_tuple(p, false, NULL);
        node->body = parse_block(p, "if", node->line);
        if (!sp_jinja_skip_name(p, "elif")) break;
        next = sp_jinja_new_node(p, SP_J_IF);
        node->c = next;
        node = next;
    }
    parse_else(p, node, "if", "endif");
}

static void parse_for(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    node->a = sp_jinja_parse_target(p, false);
    if (!sp_jinja_skip_name(p, "in"))
        sp_jinja_reject(p, SP_E_INPUT, node->line, "{%% for %%} without its in");
    node->b = sp_jinja_parse_tuple(p, false, "recursive");
    if (sp_jinja_skip_name(p, "if")) node->c = sp_jinja_parse_expression(p);
    (void)sp_jinja_skip_name(p, "recursive");
    p->loops++;
    node->body = parse_block(p, "for", node->line);
    p->loops--;
    parse_else(p, node, "for", "endfor");
}

static void parse_set(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    node->a = sp_jinja_parse_target(p, true);
    if (sp_jinja_skip(p, SP_T_ASSIGN)) {
        node->b = sp_jinja_parse_tuple(p, true, NULL);
        return;
    }
    node->kind = SP_J_SET_BLOCK;
    if (p->at->token == SP_T_PIPE) node->b = sp_jinja_parse_filters(p, NULL, false);
    node->body = parse_closed(p, "set", node->line);
}

static void parse_with(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    struct sp_jinja_node **end = &node->list;

    while (p->at->token != SP_T_BLOCK_END && !p->heap->status) {
        struct sp_jinja_node *set;
        if (node->list != NULL) sp_jinja_expect(p, SP_T_COMMA);
        set = sp_jinja_new_node(p, SP_J_SET);
        set->a = sp_jinja_parse_target(p, false);
        sp_jinja_expect(p, SP_T_ASSIGN);
        set->b = sp_jinja_parse_expression(p);
        *end = set;
        end = &set->next;
    }
    node->body = parse_closed(p, "with", node->line);
}

/* Parses `(a, b=1)` of a macro or call block. */
static void parse_params(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    struct sp_jinja_node **end = &node->list;
    bool optional = false;

    sp_jinja_expect(p, SP_T_LPAREN);
    while (p->at->token != SP_T_RPAREN && !p->heap->status) {
        struct sp_jinja_node *param;
        if (node->list != NULL) sp_jinja_expect(p, SP_T_COMMA);
        param = sp_jinja_new_node(p, SP_J_PARAM);
        param->value = p->at->value;
        sp_jinja_expect(p, SP_T_NAME);
        if (sp_jinja_skip(p, SP_T_ASSIGN)) {
            param->a = sp_jinja_parse_expression(p);
            optional = true;
        } else if (optional) {
            sp_jinja_reject(p, SP_E_INPUT, param->line,
                            "a parameter without default after one with");
        }
        *end = param;
        end = &param->next;
    }
    sp_jinja_expect(p, SP_T_RPAREN);
}

/* Parses the body of a macro, which is outside the loops around its definition. */
static void parse_function_body(struct sp_jinja_parser *p, struct sp_jinja_node *node,
                                const char *tag)
{
    unsigned loops = p->loops, surplus = p->surplus;

    p->loops = p->surplus = 0;
    node->body = parse_closed(p, tag, node->line);
    node->op = (uint8_t)p->surplus;
    p->loops = loops;
    p->surplus |= surplus; /* the outer macro takes them, too */
}

static void parse_macro(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    node->value = p->at->value;
    sp_jinja_expect(p, SP_T_NAME);
    parse_params(p, node);
    parse_function_body(p, node, "macro");
}

static void parse_call_block(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    node->value = sp_value_name("caller");
    if (p->at->token == SP_T_LPAREN) parse_params(p, node);
    node->a = sp_jinja_parse_expression(p);
    if (node->a->kind != SP_J_CALL)
        sp_jinja_reject(p, SP_E_INPUT, node->line, "{%% call %%} without a call");
    parse_function_body(p, node, "call");
}

static void parse_jump(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    if (p->loops > 0) return;
    sp_jinja_reject(p, SP_E_INPUT, node->line, "{%% %s %%} outside of a loop",
                    node->kind == SP_J_BREAK ? "break" : "continue");
}

static void parse_generation(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    parse_function_body(p, node, "generation");
}

static void parse_filter_block(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    node->b = sp_jinja_parse_filters(p, NULL, true);
    node->body = parse_closed(p, "filter", node->line);
}

static const struct {
    const char *name;
    enum sp_jinja_kind kind;
    void (*parse)(struct sp_jinja_parser *p, struct sp_jinja_node *node);
} statements[] = {
    {"if", SP_J_IF, parse_if},
    {"for", SP_J_FOR, parse_for},
    {"set", SP_J_SET, parse_set},
    {"with", SP_J_WITH, parse_with},
    {"macro", SP_J_MACRO, parse_macro},
    {"call", SP_J_CALL_BLOCK, parse_call_block},
    {"break", SP_J_BREAK, parse_jump},
    {"continue", SP_J_CONTINUE, parse_jump},
    {"generation", SP_J_SCOPE, parse_generation},
    {"filter", SP_J_FILTER_BLOCK, parse_filter_block},
};

static struct sp_jinja_node *parse_statement(struct sp_jinja_parser *p)
{
    const struct sp_value name = p->at->value;
    const struct sp_jinja_node *unknown = p->unknown;
    struct sp_jinja_node *node = sp_jinja_new_node(p, SP_J_IF);

    sp_jinja_expect(p, SP_T_NAME);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!sp_text_is(name, statements[i].name)) continue;
        node->kind = (uint8_t)statements[i].kind;
        statements[i].parse(p, node);
        if (statements[i].kind == SP_J_IF) p->unknown = unknown;
        return node;
    }
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
        if (sp_text_is(name, missing[i]))
            sp_jinja_reject(p, SP_E_UNSUPPORTED, node->line, "{%% %s %%} is not supported",
                            missing[i]);
    sp_jinja_reject(p, SP_E_INPUT, node->line, "unknown statement {%% %.*s %%}", (int)name.len,
                    name.text);
    return node;
}

static struct sp_jinja_node *parse_body(struct sp_jinja_parser *p)
{
    struct sp_jinja_node *body = NULL, **end = &body;

    sp_jinja_enter(p);
    while (p->at->token != SP_T_END && !at_end_tag(p)) {
        struct sp_jinja_node *node;
        if (sp_jinja_skip(p, SP_T_BLOCK_BEGIN)) {
            node = parse_statement(p);
            sp_jinja_expect(p, SP_T_BLOCK_END);
        } else {
            node = sp_jinja_new_node(p, SP_J_TEXT);
            if (sp_jinja_skip(p, SP_T_VAR_BEGIN)) {
                node->kind = SP_J_OUTPUT;
                node->list = sp_jinja_parse_tuple(p, true, NULL);
                sp_jinja_expect(p, SP_T_VAR_END);
            } else {
                node->value = p->at++->value;
            }
        }
        *end = node;
        end = &node->next;
    }
    if (p->at->token != SP_T_END) p->at++;
    p->depth--;
    return body;
}

const struct sp_jinja_node *sp_jinja_compile(struct sp_heap *heap, const char *text, size_t size)
{
    struct sp_jinja_parser p = {.heap = heap, .at = sp_jinja_lex(text, size, heap)};
    const struct sp_jinja_node *body;

    if (heap->status) return NULL;
    body = parse_body(&p);
    if (p.at->token != SP_T_END)
        sp_jinja_reject(&p, SP_E_INPUT, p.at->line, "{%% %.*s %%} closes nothing",
                        (int)p.at->value.len, p.at->value.text);
    else if (p.unknown != NULL && !heap->status)
        sp_jinja_reject(&p, SP_E_UNSUPPORTED, p.unknown->line, "%s %.*s is not supported",
                        p.unknown->kind == SP_J_FILTER ? "filter" : "test",
                        (int)p.unknown->value.len, p.unknown->value.text);
    return body;
}
