/* The recursive descent parser of expressions. Jinja2's precedences are not Python's: filters and
 * tests bind tighter than any operator, `**` groups to the left and is looser than unary minus,
 * `~` lies between sums and products, `a if b else c` is loosest. */
#include "runtime/template/jinja/jinja_tree.h"
#include "runtime/template/jinja/jinja_machine.h"

static void append(struct sp_jinja_node **list, struct sp_jinja_node *node)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = node;
}

static enum sp_status unexpected(struct sp_jinja_parser *p, const char *wanted)
{
    if (p->at->token == SP_T_NAME || p->at->token == SP_T_STRING) {
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: unexpected %.*s, expected %s",
                       p->at->line, (int)(p->at->value.len < 60 ? p->at->value.len : 60),
                       p->at->value.text, wanted);
    }
    return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: unexpected %s, expected %s", p->at->line,
                   sp_jinja_token_name(p->at->token), wanted);
}

enum sp_status sp_jinja_new_node(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                 enum sp_jinja_kind kind)
{
    enum sp_status st;
    struct sp_jinja_node *node;

    if ((st = sp_heap_take(p->heap, &node, sizeof *node))) return st;
    node->kind = (uint8_t)kind;
    node->line = p->at->line;
    *out = node;
    return SP_OK;
}

enum sp_status sp_jinja_expect(struct sp_jinja_parser *p, enum sp_jinja_token token)
{
    if (p->at->token != token) return unexpected(p, sp_jinja_token_name(token));
    if (token != SP_T_END) p->at++;
    return SP_OK;
}

static bool is_at_name(const struct sp_jinja_parser *p, const char *name)
{
    return p->at->token == SP_T_NAME && sp_text_is(p->at->value, name);
}

bool sp_jinja_skip_name(struct sp_jinja_parser *p, const char *name)
{
    if (!is_at_name(p, name)) return false;
    p->at++;
    return true;
}

bool sp_jinja_skip(struct sp_jinja_parser *p, enum sp_jinja_token token)
{
    if (p->at->token != token || token == SP_T_END) return false;
    p->at++;
    return true;
}

enum sp_status sp_jinja_enter(struct sp_jinja_parser *p)
{
    if (++p->depth <= SP_TEMPLATE_MAX_NESTING) return SP_OK;
    return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: nested deeper than %d levels",
                   p->at->line, SP_TEMPLATE_MAX_NESTING);
}

/* Makes a node with two children. */
static enum sp_status pair_up(struct sp_jinja_parser *p, struct sp_jinja_node **at,
                              enum sp_jinja_kind kind, uint8_t op, struct sp_jinja_node *b)
{
    enum sp_status st;
    struct sp_jinja_node *node;

    if ((st = sp_jinja_new_node(p, &node, kind))) return st;
    node->op = op;
    node->line = (*at)->line;
    node->a = *at;
    node->b = b;
    *at = node;
    return SP_OK;
}

static enum sp_status parse_args(struct sp_jinja_parser *p, struct sp_jinja_node **list)
{
    enum sp_status st;
    struct sp_jinja_node *arg;

    if ((st = sp_jinja_expect(p, SP_T_LPAREN))) return st;
    while (p->at->token != SP_T_RPAREN) {
        if (*list != NULL) {
            if ((st = sp_jinja_expect(p, SP_T_COMMA))) return st;
            if (p->at->token == SP_T_RPAREN) break;
        }
        if ((st = sp_jinja_new_node(p, &arg, SP_J_ARG))) return st;
        if (sp_jinja_skip(p, SP_T_MUL)) {
            arg->op = SP_J_ARG_STAR;
        } else if (sp_jinja_skip(p, SP_T_POW)) {
            arg->op = SP_J_ARG_STARS;
        } else if (p->at->token == SP_T_NAME && p->at[1].token == SP_T_ASSIGN) {
            arg->op = SP_J_ARG_KEYWORD;
            arg->value = p->at->value;
            p->at += 2;
        } else {
            for (const struct sp_jinja_node *n = *list; n != NULL; n = n->next) {
                if (n->op == SP_J_ARG_KEYWORD || n->op == SP_J_ARG_STARS) {
                    return sp_fail(p->heap->err, SP_E_INPUT,
                                   "template:%u: a positional argument after a keyword argument",
                                   p->at->line);
                }
            }
        }
        if ((st = sp_jinja_parse_expression(p, &arg->a))) return st;
        append(list, arg);
    }
    return sp_jinja_expect(p, SP_T_RPAREN);
}

enum sp_status sp_jinja_parse_filters(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                      struct sp_jinja_node *input, bool at_name)
{
    enum sp_status st;
    struct sp_jinja_node *node;

    while (at_name || sp_jinja_skip(p, SP_T_PIPE)) {
        at_name = false;
        if ((st = sp_jinja_new_node(p, &node, SP_J_FILTER))) return st;
        node->value = p->at->value;
        if ((st = sp_jinja_expect(p, SP_T_NAME))) return st;
        node->a = input;
        node->function = sp_jinja_find_filter(node->value);
        if (node->function == NULL && p->unknown == NULL) p->unknown = node;
        if (p->at->token == SP_T_LPAREN && (st = parse_args(p, &node->list))) return st;
        input = node;
    }
    *out = input;
    return SP_OK;
}

static bool begins_operand(const struct sp_jinja_parser *p)
{
    switch (p->at->token) {
    case SP_T_NAME:
        return !is_at_name(p, "else") && !is_at_name(p, "or") && !is_at_name(p, "and");
    case SP_T_STRING:
    case SP_T_INT:
    case SP_T_FLOAT:
    case SP_T_LPAREN:
    case SP_T_LBRACKET:
    case SP_T_LBRACE:
        return true;
    default:
        return false;
    }
}

static enum sp_status parse_primary(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                    bool with_fields);

static enum sp_status parse_postfix(struct sp_jinja_parser *p, struct sp_jinja_node **at);

static enum sp_status parse_test(struct sp_jinja_parser *p, struct sp_jinja_node **at)
{
    enum sp_status st;
    struct sp_jinja_node *node, *arg;
    bool negated = sp_jinja_skip_name(p, "not");

    if ((st = sp_jinja_new_node(p, &node, SP_J_TEST))) return st;
    node->value = p->at->value;
    if ((st = sp_jinja_expect(p, SP_T_NAME))) return st;
    node->a = *at;
    node->function = sp_jinja_find_test(node->value);
    if (node->function == NULL && p->unknown == NULL) p->unknown = node;
    if (p->at->token == SP_T_LPAREN) {
        if ((st = parse_args(p, &node->list))) return st;
    } else if (begins_operand(p)) {
        if (is_at_name(p, "is")) return unexpected(p, "one test, not a chain of them");
        if ((st = sp_jinja_new_node(p, &arg, SP_J_ARG))) return st;
        if ((st = parse_primary(p, &arg->a, false))) return st;
        if ((st = parse_postfix(p, &arg->a))) return st;
        node->list = arg;
    }
    *at = node;
    return negated ? pair_up(p, at, SP_J_NOT, 0, NULL) : SP_OK;
}

/* Parses the filters, tests and calls after an operand, in any order. */
static enum sp_status parse_filters_and_tests(struct sp_jinja_parser *p, struct sp_jinja_node **at)
{
    enum sp_status st = SP_OK;

    while (!st) {
        if (p->at->token == SP_T_PIPE) {
            st = sp_jinja_parse_filters(p, at, *at, false);
        } else if (sp_jinja_skip_name(p, "is")) {
            st = parse_test(p, at);
        } else if (p->at->token == SP_T_LPAREN) {
            if (!(st = pair_up(p, at, SP_J_CALL, 0, NULL))) st = parse_args(p, &(*at)->list);
        } else {
            break;
        }
    }
    return st;
}

/* Parses the brackets after an operand: one index, a slice, or several indices (a tuple). */
static enum sp_status parse_subscript(struct sp_jinja_parser *p, struct sp_jinja_node **at)
{
    enum sp_status st;
    struct sp_jinja_node *slice, *first = NULL;

    if (p->at->token != SP_T_COLON) {
        if ((st = sp_jinja_parse_tuple(p, &first, true, NULL))) return st;
        if (p->at->token != SP_T_COLON) {
            if ((st = pair_up(p, at, SP_J_ITEM, 0, first))) return st;
            return sp_jinja_expect(p, SP_T_RBRACKET);
        }
    }
    if ((st = pair_up(p, at, SP_J_SLICE, 0, first))) return st;
    slice = *at;
    p->at++;
    if (p->at->token != SP_T_COLON && p->at->token != SP_T_RBRACKET &&
        (st = sp_jinja_parse_expression(p, &slice->c)))
        return st;
    if (sp_jinja_skip(p, SP_T_COLON) && p->at->token != SP_T_RBRACKET &&
        (st = sp_jinja_parse_expression(p, &slice->body)))
        return st;
    return sp_jinja_expect(p, SP_T_RBRACKET);
}

/* Parses the fields, subscripts and calls after an operand. */
static enum sp_status parse_postfix(struct sp_jinja_parser *p, struct sp_jinja_node **at)
{
    enum sp_status st = SP_OK;
    struct sp_jinja_node *index;

    while (!st) {
        if (sp_jinja_skip(p, SP_T_DOT)) {
            if (p->at->token == SP_T_NAME) {
                if ((st = pair_up(p, at, SP_J_ATTR, 0, NULL))) return st;
                (*at)->value = p->at++->value;
            } else if (p->at->token == SP_T_INT) {
                if ((st = sp_jinja_new_node(p, &index, SP_J_LITERAL))) return st;
                index->value = p->at++->value;
                st = pair_up(p, at, SP_J_ITEM, 0, index);
            } else {
                return unexpected(p, "a name after the dot");
            }
        } else if (sp_jinja_skip(p, SP_T_LBRACKET)) {
            st = parse_subscript(p, at);
        } else if (p->at->token == SP_T_LPAREN) {
            if (!(st = pair_up(p, at, SP_J_CALL, 0, NULL))) st = parse_args(p, &(*at)->list);
        } else {
            break;
        }
    }
    return st;
}

/* Parses the items of a list, or the pairs of a dictionary, between their brackets. */
static enum sp_status parse_items(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                  enum sp_jinja_kind kind)
{
    enum sp_status st;
    enum sp_jinja_token close = kind == SP_J_LIST ? SP_T_RBRACKET : SP_T_RBRACE;
    struct sp_jinja_node *item, **end;

    if ((st = sp_jinja_new_node(p, out, kind))) return st;
    end = &(*out)->list;
    p->at++;
    while (p->at->token != close) {
        if ((*out)->list != NULL) {
            if ((st = sp_jinja_expect(p, SP_T_COMMA))) return st;
            if (p->at->token == close) break;
        }
        if (kind == SP_J_LIST) {
            if ((st = sp_jinja_parse_expression(p, &item))) return st;
        } else if ((st = sp_jinja_new_node(p, &item, SP_J_PAIR)) ||
                   (st = sp_jinja_parse_expression(p, &item->a)) ||
                   (st = sp_jinja_expect(p, SP_T_COLON)) ||
                   (st = sp_jinja_parse_expression(p, &item->b))) {
            return st;
        }
        *end = item;
        end = &item->next;
    }
    return sp_jinja_expect(p, close);
}

/* Parses a string; adjacent strings are joined. */
static enum sp_status parse_strings(struct sp_jinja_parser *p, struct sp_jinja_node *node)
{
    enum sp_status st;
    struct sp_builder b = {.heap = p->heap};

    node->value = p->at++->value;
    if (p->at->token != SP_T_STRING) return SP_OK;
    if ((st = sp_build(&b, node->value.text, node->value.len))) return st;
    while (p->at->token == SP_T_STRING) {
        if ((st = sp_build(&b, p->at->value.text, p->at->value.len))) return st;
        p->at++;
    }
    node->value = sp_builder_value(&b);
    return SP_OK;
}

static bool constant(struct sp_value name, struct sp_value *out)
{
    if (sp_text_is(name, "true") || sp_text_is(name, "True"))
        *out = sp_value_bool(true);
    else if (sp_text_is(name, "false") || sp_text_is(name, "False"))
        *out = sp_value_bool(false);
    else if (sp_text_is(name, "none") || sp_text_is(name, "None"))
        *out = sp_value_none();
    else
        return false;
    return true;
}

static enum sp_status parse_primary(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                    bool with_fields)
{
    enum sp_status st;
    struct sp_jinja_node *node;

    if (p->at->token == SP_T_LBRACKET) return parse_items(p, out, SP_J_LIST);
    if (p->at->token == SP_T_LBRACE) return parse_items(p, out, SP_J_DICT);
    if (p->at->token == SP_T_LPAREN) {
        p->at++;
        if (p->at->token == SP_T_RPAREN)
            st = sp_jinja_new_node(p, out, SP_J_TUPLE);
        else
            st = sp_jinja_parse_tuple(p, out, true, NULL);
        return st ? st : sp_jinja_expect(p, SP_T_RPAREN);
    }
    if ((st = sp_jinja_new_node(p, &node, SP_J_LITERAL))) return st;
    *out = node;
    switch (p->at->token) {
    case SP_T_INT:
    case SP_T_FLOAT:
        node->value = p->at++->value;
        return SP_OK;
    case SP_T_STRING:
        return parse_strings(p, node);
    case SP_T_NAME:
        if (constant(p->at->value, &node->value)) {
            p->at++;
            return SP_OK;
        }
        node->kind = SP_J_NAME;
        node->value = p->at++->value;
        if (sp_text_is(node->value, "varargs")) p->surplus |= SP_JINJA_TAKES_VARARGS;
        if (sp_text_is(node->value, "kwargs")) p->surplus |= SP_JINJA_TAKES_KWARGS;
        if (sp_text_is(node->value, "caller")) p->surplus |= SP_JINJA_TAKES_CALLER;
        if (!with_fields || p->at->token != SP_T_DOT || p->at[1].token != SP_T_NAME) return SP_OK;
        node->kind = SP_J_FIELD;
        if ((st = sp_jinja_new_node(p, &node->b, SP_J_LITERAL))) return st;
        node->b->value = p->at[1].value;
        p->at += 2;
        return SP_OK;
    default:
        return unexpected(p, "an expression");
    }
}

static enum sp_status parse_unary(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                  bool with_filter)
{
    enum sp_status st;
    uint8_t token = p->at->token;

    if ((st = sp_jinja_enter(p))) return st;
    if (token == SP_T_SUB || token == SP_T_ADD) {
        struct sp_jinja_node *node;
        if ((st = sp_jinja_new_node(p, &node, SP_J_UNARY))) return st;
        node->op = token;
        p->at++;
        if ((st = parse_unary(p, &node->a, false))) return st;
        *out = node;
    } else if ((st = parse_primary(p, out, false))) {
        return st;
    }
    st = parse_postfix(p, out);
    if (!st && with_filter) st = parse_filters_and_tests(p, out);
    p->depth--;
    return st;
}

/* The operators of two operands that group to the left; each level binds tighter than the next. */
enum level { LEVEL_POWER, LEVEL_PRODUCT, LEVEL_SUM, LEVEL_AND, LEVEL_OR };

static enum sp_status parse_level(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                  enum level level);

static enum sp_status parse_concat(struct sp_jinja_parser *p, struct sp_jinja_node **out)
{
    enum sp_status st = parse_level(p, out, LEVEL_PRODUCT);
    struct sp_jinja_node *node, *item;

    if (st || p->at->token != SP_T_TILDE) return st;
    if ((st = sp_jinja_new_node(p, &node, SP_J_CONCAT))) return st;
    node->list = item = *out;
    while (!st && sp_jinja_skip(p, SP_T_TILDE)) {
        st = parse_level(p, &item->next, LEVEL_PRODUCT);
        if (!st) item = item->next;
    }
    *out = node;
    return st;
}

/* Consumes a comparison operator and returns it; 0: there is none. */
static uint8_t take_comparison(struct sp_jinja_parser *p)
{
    if (p->at->token >= SP_T_EQ && p->at->token <= SP_T_LT) return p->at++->token;
    if (sp_jinja_skip_name(p, "in")) return SP_T_IN;
    if (is_at_name(p, "not") && p->at[1].token == SP_T_NAME && sp_text_is(p->at[1].value, "in")) {
        p->at += 2;
        return SP_T_NOT_IN;
    }
    return 0;
}

static enum sp_status parse_comparison(struct sp_jinja_parser *p, struct sp_jinja_node **out)
{
    enum sp_status st = parse_level(p, out, LEVEL_SUM);
    struct sp_jinja_node *operand, **end = NULL;
    uint8_t op;

    while (!st && (op = take_comparison(p)) != 0) {
        if (end == NULL) {
            if ((st = pair_up(p, out, SP_J_COMPARE, 0, NULL))) return st;
            end = &(*out)->list;
        }
        if ((st = sp_jinja_new_node(p, &operand, SP_J_OPERAND))) return st;
        operand->op = op;
        st = parse_level(p, &operand->a, LEVEL_SUM);
        *end = operand;
        end = &operand->next;
    }
    return st;
}

static enum sp_status parse_not(struct sp_jinja_parser *p, struct sp_jinja_node **out)
{
    enum sp_status st;
    unsigned negations = 0;

    while (sp_jinja_skip_name(p, "not"))
        negations++;
    st = parse_comparison(p, out);
    /* two negations are not none: they make a truth value */
    if (negations > 2) negations = 2 - (negations & 1);
    while (!st && negations-- > 0)
        st = pair_up(p, out, SP_J_NOT, 0, NULL);
    return st;
}

static bool take_operator(struct sp_jinja_parser *p, enum level level, uint8_t *op)
{
    *op = p->at->token;
    switch (level) {
    case LEVEL_POWER:
        return sp_jinja_skip(p, SP_T_POW);
    case LEVEL_PRODUCT:
        return sp_jinja_skip(p, SP_T_MUL) || sp_jinja_skip(p, SP_T_DIV) ||
               sp_jinja_skip(p, SP_T_FLOORDIV) || sp_jinja_skip(p, SP_T_MOD);
    case LEVEL_SUM:
        return sp_jinja_skip(p, SP_T_ADD) || sp_jinja_skip(p, SP_T_SUB);
    case LEVEL_AND:
        return sp_jinja_skip_name(p, "and");
    case LEVEL_OR:
        return sp_jinja_skip_name(p, "or");
    }
    return false;
}

static enum sp_status parse_operand(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                    enum level level)
{
    switch (level) {
    case LEVEL_POWER:
        return parse_unary(p, out, true);
    case LEVEL_SUM:
        return parse_concat(p, out);
    case LEVEL_AND:
        return parse_not(p, out);
    default:
        return parse_level(p, out, level - 1);
    }
}

static enum sp_status parse_level(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                  enum level level)
{
    enum sp_status st = parse_operand(p, out, level);
    enum sp_jinja_kind kind = level == LEVEL_AND  ? SP_J_AND
                              : level == LEVEL_OR ? SP_J_OR
                                                  : SP_J_BINARY;
    struct sp_jinja_node *right;
    uint8_t op;

    while (!st && take_operator(p, level, &op)) {
        st = parse_operand(p, &right, level);
        if (!st) st = pair_up(p, out, kind, op, right);
    }
    return st;
}

/* Parses an expression without `a if b else c`: the value of a for, whose own `if` follows. */
static enum sp_status parse_plain(struct sp_jinja_parser *p, struct sp_jinja_node **out)
{
    enum sp_status st = sp_jinja_enter(p);

    if (!st) st = parse_level(p, out, LEVEL_OR);
    p->depth--;
    return st;
}

enum sp_status sp_jinja_parse_expression(struct sp_jinja_parser *p, struct sp_jinja_node **out)
{
    enum sp_status st;
    struct sp_jinja_node *node;
    const struct sp_jinja_node *unknown = p->unknown;

    if ((st = sp_jinja_enter(p))) return st;
    st = parse_plain(p, out);
    while (!st && sp_jinja_skip_name(p, "if")) {
        if ((st = sp_jinja_new_node(p, &node, SP_J_COND))) return st;
        node->b = *out;
        if ((st = parse_plain(p, &node->a))) return st;
        if (sp_jinja_skip_name(p, "else")) st = sp_jinja_parse_expression(p, &node->c);
        p->unknown = unknown;
        *out = node;
    }
    p->depth--;
    return st;
}

/* True if a tuple ends at the current token, which follows a comma. */
static bool tuple_ends(const struct sp_jinja_parser *p, const char *stop)
{
    switch (p->at->token) {
    case SP_T_VAR_END:
    case SP_T_BLOCK_END:
    case SP_T_RPAREN:
    case SP_T_END:
        return true;
    default:
        return stop != NULL && is_at_name(p, stop);
    }
}

enum sp_status sp_jinja_parse_tuple(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                    bool with_if, const char *stop)
{
    struct sp_jinja_node *tuple, *item, **end;
    enum sp_status st = with_if ? sp_jinja_parse_expression(p, out) : parse_plain(p, out);

    if (st || p->at->token != SP_T_COMMA) return st;
    if ((st = sp_jinja_new_node(p, &tuple, SP_J_TUPLE))) return st;
    tuple->list = *out;
    end = &(*out)->next;
    while (sp_jinja_skip(p, SP_T_COMMA) && !tuple_ends(p, stop)) {
        if ((st = with_if ? sp_jinja_parse_expression(p, &item) : parse_plain(p, &item))) return st;
        *end = item;
        end = &item->next;
    }
    *out = tuple;
    return SP_OK;
}

static enum sp_status check_target(struct sp_jinja_parser *p, const struct sp_jinja_node *node,
                                   int depth)
{
    enum sp_status st = SP_OK;

    if (node->kind == SP_J_NAME || node->kind == SP_J_FIELD) return SP_OK;
    if (node->kind != SP_J_TUPLE || depth > 8) {
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: cannot assign to this expression",
                       node->line);
    }
    for (const struct sp_jinja_node *n = node->list; n != NULL && !st; n = n->next)
        st = check_target(p, n, depth + 1);
    return st;
}

enum sp_status sp_jinja_parse_target(struct sp_jinja_parser *p, struct sp_jinja_node **out,
                                     bool with_fields)
{
    enum sp_status st;
    struct sp_jinja_node *tuple, *item, **end;

    if ((st = parse_primary(p, out, with_fields))) return st;
    if (p->at->token == SP_T_COMMA) {
        if ((st = sp_jinja_new_node(p, &tuple, SP_J_TUPLE))) return st;
        tuple->list = *out;
        end = &(*out)->next;
        while (sp_jinja_skip(p, SP_T_COMMA) && !tuple_ends(p, "in")) {
            if ((st = parse_primary(p, &item, with_fields))) return st;
            *end = item;
            end = &item->next;
        }
        *out = tuple;
    }
    return check_target(p, *out, 0);
}
