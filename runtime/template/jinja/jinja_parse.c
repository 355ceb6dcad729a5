/* The parser of Jinja's statements, and the compilation of a template. */
#include "runtime/template/jinja/jinja_tree.h"

#include <stdlib.h>
#include <string.h>

static enum sp_status parse_body(struct sp_jinja_parser *p, struct sp_jinja_node **out);

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
static enum sp_status parse_block(struct sp_jinja_parser *p, struct sp_jinja_node **body,
                                  const char *tag, uint32_t line)
{
    enum sp_status st;

    (void)sp_jinja_skip(p, SP_T_COLON);
    if ((st = sp_jinja_expect(p, SP_T_BLOCK_END))) return st;
    if ((st = parse_body(p, body))) return st;
    if (p->at->token == SP_T_END) {
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: {%% %s %%} is not closed", line,
                       tag);
    }
    return SP_OK;
}

/* Refuses the tag at the parser's position, inside an open block. */
static enum sp_status wrong_tag(struct sp_jinja_parser *p, const char *open, uint32_t line)
{
    return sp_fail(p->heap->err, SP_E_INPUT,
                   "template:%u: unexpected {%% %.*s %%}, {%% %s %%} of line %u is open",
                   p->at->line, (int)p->at->value.len, p->at->value.text, open, line);
}

/* Parses a block whose end tag is `end`, which is consumed. */
static enum sp_status parse_closed(struct sp_jinja_parser *p, struct sp_jinja_node **body,
                                   const char *tag, uint32_t line)
{
    enum sp_status st = parse_block(p, body, tag, line);

    if (st) return st;
    if (p->at->token == SP_T_NAME && p->at->value.len == strlen(tag) + 3 &&
        memcmp(p->at->value.text, "end", 3) == 0 &&
        memcmp(p->at->value.text + 3, tag, strlen(tag)) == 0) {
        p->at++;
        return SP_OK;
    }
    return wrong_tag(p, tag, line);
}

static enum sp_status parse_if(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    enum sp_status st;

    for (;;) {
        struct sp_jinja_node *next;
        if ((st = sp_jinja_parse_tuple(p, &node->a, false, NULL))) return st;
        if ((st = parse_block(p, &node->body, "if", node->line))) return st;
        if (!sp_jinja_skip_name(p, "elif")) break;
        if ((st = sp_jinja_new_node(p, &next, SP_J_IF))) return st;
        node->c = next;
        node = next;
    }
    if (sp_jinja_skip_name(p, "else")) return parse_closed(p, &node->list, "if", node->line);
    if (sp_jinja_skip_name(p, "endif")) return SP_OK;
    return wrong_tag(p, "if", node->line);
}

static enum sp_status parse_for(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    enum sp_status st;

    node->kind = SP_J_FOR;
    if ((st = sp_jinja_parse_target(p, &node->a, false))) return st;
    if (!sp_jinja_skip_name(p, "in")) {
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: {%% for %%} without its in",
                       node->line);
    }
    if ((st = sp_jinja_parse_tuple(p, &node->b, false, "recursive"))) return st;
    if (sp_jinja_skip_name(p, "if") && (st = sp_jinja_parse_expression(p, &node->c))) return st;
    (void)sp_jinja_skip_name(p, "recursive");
    p->loops++;
    st = parse_block(p, &node->body, "for", node->line);
    p->loops--;
    if (st) return st;
    if (sp_jinja_skip_name(p, "else")) return parse_closed(p, &node->list, "for", node->line);
    if (sp_jinja_skip_name(p, "endfor")) return SP_OK;
    return wrong_tag(p, "for", node->line);
}

static enum sp_status parse_set(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    enum sp_status st;

    node->kind = SP_J_SET;
    if ((st = sp_jinja_parse_target(p, &node->a, true))) return st;
    if (sp_jinja_skip(p, SP_T_ASSIGN)) return sp_jinja_parse_tuple(p, &node->b, true, NULL);
    node->kind = SP_J_SET_BLOCK;
    if (p->at->token == SP_T_PIPE && (st = sp_jinja_parse_filters(p, &node->b, NULL, false)))
        return st;
    return parse_closed(p, &node->body, "set", node->line);
}

static enum sp_status parse_with(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_jinja_node *set, **end = &node->list;

    node->kind = SP_J_WITH;
    while (p->at->token != SP_T_BLOCK_END) {
        if (node->list != NULL && (st = sp_jinja_expect(p, SP_T_COMMA))) return st;
        if ((st = sp_jinja_new_node(p, &set, SP_J_SET))) return st;
        if ((st = sp_jinja_parse_target(p, &set->a, false))) return st;
        if ((st = sp_jinja_expect(p, SP_T_ASSIGN))) return st;
        if ((st = sp_jinja_parse_expression(p, &set->b))) return st;
        *end = set;
        end = &set->next;
    }
    return parse_closed(p, &node->body, "with", node->line);
}

/* Parses `(a, b=1)` of a macro or call block. */
static enum sp_status parse_params(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_jinja_node *param, **end = &node->list;
    bool optional = false;

    if ((st = sp_jinja_expect(p, SP_T_LPAREN))) return st;
    while (p->at->token != SP_T_RPAREN) {
        if (node->list != NULL && (st = sp_jinja_expect(p, SP_T_COMMA))) return st;
        if ((st = sp_jinja_new_node(p, &param, SP_J_PARAM))) return st;
        param->value = p->at->value;
        if ((st = sp_jinja_expect(p, SP_T_NAME))) return st;
        if (sp_jinja_skip(p, SP_T_ASSIGN)) {
            if ((st = sp_jinja_parse_expression(p, &param->a))) return st;
            optional = true;
        } else if (optional) {
            return sp_fail(p->heap->err, SP_E_INPUT,
                           "template:%u: a parameter without default after one with", param->line);
        }
        *end = param;
        end = &param->next;
    }
    return sp_jinja_expect(p, SP_T_RPAREN);
}

/* Parses the body of a macro, which is outside the loops around its definition. */
static enum sp_status parse_function_body(struct sp_jinja_parser *p, struct sp_jinja_node *node,
                                          const char *tag)
{
    enum sp_status st;
    unsigned loops = p->loops, surplus = p->surplus;

    p->loops = p->surplus = 0;
    st = parse_closed(p, &node->body, tag, node->line);
    node->op = (uint8_t)p->surplus;
    p->loops = loops;
    p->surplus |= surplus; /* the outer macro takes them, too */
    return st;
}

static enum sp_status parse_macro(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    enum sp_status st;

    node->kind = SP_J_MACRO;
    node->value = p->at->value;
    if ((st = sp_jinja_expect(p, SP_T_NAME))) return st;
    if ((st = parse_params(p, node))) return st;
    return parse_function_body(p, node, "macro");
}

static enum sp_status parse_call_block(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    enum sp_status st;

    node->kind = SP_J_CALL_BLOCK;
    node->value = sp_value_name("caller");
    if (p->at->token == SP_T_LPAREN && (st = parse_params(p, node))) return st;
    if ((st = sp_jinja_parse_expression(p, &node->a))) return st;
    if (node->a->kind != SP_J_CALL) {
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: {%% call %%} without a call",
                       node->line);
    }
    return parse_function_body(p, node, "call");
}

static enum sp_status parse_jump(struct sp_jinja_parser *p, struct sp_jinja_node *node,
                                 enum sp_jinja_kind kind)
{
    node->kind = (uint8_t)kind;
    if (p->loops > 0) return SP_OK;
    return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: {%% %s %%} outside of a loop",
                   node->line, kind == SP_J_BREAK ? "break" : "continue");
}

static enum sp_status parse_statement(struct sp_jinja_parser *p, struct sp_jinja_node **out)
{
    enum sp_status st;
    struct sp_jinja_node *node;
    const struct sp_value name = p->at->value;

    if (p->at->token != SP_T_NAME) return sp_jinja_expect(p, SP_T_NAME);
    if ((st = sp_jinja_new_node(p, &node, SP_J_IF))) return st;
    *out = node;
    p->at++;
    if (sp_text_is(name, "if")) {
        const struct sp_jinja_node *unknown = p->unknown;
        st = parse_if(p, node);
        p->unknown = unknown;
        return st;
    }
    if (sp_text_is(name, "for")) return parse_for(p, node);
    if (sp_text_is(name, "set")) return parse_set(p, node);
    if (sp_text_is(name, "with")) return parse_with(p, node);
    if (sp_text_is(name, "macro")) return parse_macro(p, node);
    if (sp_text_is(name, "call")) return parse_call_block(p, node);
    if (sp_text_is(name, "break")) return parse_jump(p, node, SP_J_BREAK);
    if (sp_text_is(name, "continue")) return parse_jump(p, node, SP_J_CONTINUE);
    if (sp_text_is(name, "generation")) {
        node->kind = SP_J_SCOPE;
        return parse_function_body(p, node, "generation");
    }
    if (sp_text_is(name, "filter")) {
        node->kind = SP_J_FILTER_BLOCK;
        if ((st = sp_jinja_parse_filters(p, &node->b, NULL, true))) return st;
        return parse_closed(p, &node->body, "filter", node->line);
    }
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        if (!sp_text_is(name, missing[i])) continue;
        return sp_fail(p->heap->err, SP_E_UNSUPPORTED, "template:%u: {%% %s %%} is not supported",
                       node->line, missing[i]);
    }
    return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: unknown statement {%% %.*s %%}",
                   node->line, (int)name.len, name.text);
}

static enum sp_status parse_body(struct sp_jinja_parser *p, struct sp_jinja_node **out)
{
    enum sp_status st;
    struct sp_jinja_node *node, **end = out;

    if ((st = sp_jinja_enter(p))) return st;
    while (p->at->token != SP_T_END && !at_end_tag(p)) {
        if (p->at->token == SP_T_BLOCK_BEGIN) {
            p->at++;
            if ((st = parse_statement(p, &node))) return st;
            if ((st = sp_jinja_expect(p, SP_T_BLOCK_END))) return st;
        } else {
            if ((st = sp_jinja_new_node(p, &node, SP_J_TEXT))) return st;
            if (p->at->token == SP_T_VAR_BEGIN) {
                node->kind = SP_J_OUTPUT;
                p->at++;
                if ((st = sp_jinja_parse_tuple(p, &node->list, true, NULL))) return st;
                if ((st = sp_jinja_expect(p, SP_T_VAR_END))) return st;
            } else {
                node->value = p->at++->value;
            }
        }
        *end = node;
        end = &node->next;
    }
    if (p->at->token != SP_T_END) p->at++;
    p->depth--;
    return SP_OK;
}

static enum sp_status parse(struct sp_jinja_node **body, struct sp_jinja_parser *p)
{
    enum sp_status st = parse_body(p, body);

    if (!st && p->at->token == SP_T_END && p->unknown != NULL) {
        return sp_fail(p->heap->err, SP_E_UNSUPPORTED, "template:%u: %s %.*s is not supported",
                       p->unknown->line, p->unknown->kind == SP_J_FILTER ? "filter" : "test",
                       (int)p->unknown->value.len, p->unknown->value.text);
    }
    if (st || p->at->token == SP_T_END) return st;
    return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: {%% %.*s %%} closes nothing",
                   p->at->line, (int)p->at->value.len, p->at->value.text);
}

enum sp_status sp_jinja_compile(struct sp_jinja **out, const char *text, size_t size,
                                struct sp_err *err)
{
    enum sp_status st;
    struct sp_jinja *jinja;
    struct sp_jinja_parser parser = {0};
    struct sp_jinja_lexeme *tokens;
    size_t n;

    if (size > SP_TEMPLATE_MAX_TEXT) {
        return sp_fail(err, SP_E_INPUT, "template of %zu bytes, at most %zu are possible", size,
                       SP_TEMPLATE_MAX_TEXT);
    }
    if ((st = sp_new(&jinja, 1, sizeof *jinja, err))) return st;
    sp_heap_init(&jinja->heap, SP_TEMPLATE_MAX_TREE, SP_TEMPLATE_MAX_WORK, err);
    if ((st = sp_jinja_lex(&tokens, &n, text, size, &jinja->heap))) goto done;
    parser.heap = &jinja->heap;
    parser.at = tokens;
    if ((st = parse(&jinja->body, &parser))) goto done;
    jinja->heap.err = NULL;
    *out = jinja;
    jinja = NULL; /* *out owns it now */
done:
    sp_jinja_free(jinja);
    return st;
}

void sp_jinja_free(struct sp_jinja *jinja)
{
    if (jinja == NULL) return;
    sp_heap_release(&jinja->heap);
    free(jinja);
}
