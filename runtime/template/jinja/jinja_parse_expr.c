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

/* True before another item of a list that ends with `close`; a comma between items is consumed. */
static bool next_item(struct sp_jinja_parser *p, const struct sp_jinja_node *list,
                      enum sp_jinja_token close)
{
    if (p->at->token != close && list != NULL) sp_jinja_expect(p, SP_T_COMMA);
    return p->at->token != close && !p->heap->status;
}

/* Makes a node with two children. */
static struct sp_jinja_node *pair_up(struct sp_jinja_parser *p, enum sp_jinja_kind kind, uint8_t op,
                                     struct sp_jinja_node *a, struct sp_jinja_node *b)
{
    struct sp_jinja_node *node = sp_jinja_new_node(p, kind);

    node->op = op;
    node->line = a->line;
    node->a = a;
    node->b = b;
    return node;
}

static void parse_args(struct sp_jinja_parser *p, struct sp_jinja_node **list)
{
    sp_jinja_expect(p, SP_T_LPAREN);
    while (next_item(p, *list, SP_T_RPAREN)) {
        struct sp_jinja_node *arg = sp_jinja_new_node(p, SP_J_ARG);
        if (sp_jinja_skip(p, SP_T_MUL)) {
            arg->op = SP_J_ARG_STAR;
        } else if (sp_jinja_skip(p, SP_T_POW)) {
            arg->op = SP_J_ARG_STARS;
        } else if (p->at->token == SP_T_NAME && p->at[1].token == SP_T_ASSIGN) {
            arg->op = SP_J_ARG_KEYWORD;
            arg->value = p->at->value;
            p->at += 2;
        } else {
            for (const struct sp_jinja_node *n = *list; n != NULL; n = n->next)
                if (n->op == SP_J_ARG_KEYWORD || n->op == SP_J_ARG_STARS)
                    sp_jinja_reject(p, SP_E_INPUT, p->at->line,
                                    "a positional argument after a keyword argument");
        }
        arg->a = sp_jinja_parse_expression(p);
        append(list, arg);
    }
    sp_jinja_expect(p, SP_T_RPAREN);
}

struct sp_jinja_node *sp_jinja_parse_filters(struct sp_jinja_parser *p, struct sp_jinja_node *input,
                                             bool at_name)
{
    while (at_name || sp_jinja_skip(p, SP_T_PIPE)) {
        struct sp_jinja_node *node = sp_jinja_new_node(p, SP_J_FILTER);
        at_name = false;
        node->value = p->at->value;
        sp_jinja_expect(p, SP_T_NAME);
        node->a = input;
        node->function = sp_jinja_find_filter(node->value);
        if (node->function == NULL && p->unknown == NULL) p->unknown = node;
        if (p->at->token == SP_T_LPAREN) parse_args(p, &node->list);
        input = node;
    }
    return input;
}

static bool begins_operand(const struct sp_jinja_parser *p)
{
    switch (p->at->token) {
    case SP_T_NAME:
        return !sp_jinja_is_at(p, "else") && !sp_jinja_is_at(p, "or") && !sp_jinja_is_at(p, "and");
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

static struct sp_jinja_node *parse_primary(struct sp_jinja_parser *p, bool with_fields);

static struct sp_jinja_node *parse_postfix(struct sp_jinja_parser *p, struct sp_jinja_node *at);

static struct sp_jinja_node *parse_test(struct sp_jinja_parser *p, struct sp_jinja_node *a)
{
    bool negated = sp_jinja_skip_name(p, "not");
    struct sp_jinja_node *node = sp_jinja_new_node(p, SP_J_TEST), *arg;

    node->value = p->at->value;
    sp_jinja_expect(p, SP_T_NAME);
    node->a = a;
    node->function = sp_jinja_find_test(node->value);
    if (node->function == NULL && p->unknown == NULL) p->unknown = node;
    if (p->at->token == SP_T_LPAREN) {
        parse_args(p, &node->list);
    } else if (begins_operand(p)) {
        if (sp_jinja_is_at(p, "is")) sp_jinja_unexpected(p, "one test, not a chain of them");
        node->list = arg = sp_jinja_new_node(p, SP_J_ARG);
        arg->a = parse_postfix(p, parse_primary(p, false));
    }
    return negated ? pair_up(p, SP_J_NOT, 0, node, NULL) : node;
}

/* Parses the arguments of a call of an operand. */
static struct sp_jinja_node *parse_call(struct sp_jinja_parser *p, struct sp_jinja_node *callee)
{
    struct sp_jinja_node *node = pair_up(p, SP_J_CALL, 0, callee, NULL);

    parse_args(p, &node->list);
    return node;
}

/* Parses the filters, tests and calls after an operand, in any order. */
static struct sp_jinja_node *parse_filters_and_tests(struct sp_jinja_parser *p,
                                                     struct sp_jinja_node *at)
{
    for (;;)
        if (p->at->token == SP_T_PIPE)
            at = sp_jinja_parse_filters(p, at, false);
        else if (sp_jinja_skip_name(p, "is"))
            at = parse_test(p, at);
        else if (p->at->token == SP_T_LPAREN)
            at = parse_call(p, at);
        else
            return at;
}

/* Parses the brackets after an operand: one index, a slice, or several indices (a tuple). */
static struct sp_jinja_node *parse_subscript(struct sp_jinja_parser *p, struct sp_jinja_node *at)
{
    struct sp_jinja_node *first = NULL;

    if (p->at->token != SP_T_COLON) first = sp_jinja_parse_tuple(p, true, NULL);
    if (!sp_jinja_skip(p, SP_T_COLON)) {
        at = pair_up(p, SP_J_ITEM, 0, at, first);
    } else {
        at = pair_up(p, SP_J_SLICE, 0, at, first);
        if (p->at->token != SP_T_COLON && p->at->token != SP_T_RBRACKET)
            at->c = sp_jinja_parse_expression(p);
        if (sp_jinja_skip(p, SP_T_COLON) && p->at->token != SP_T_RBRACKET)
            at->body = sp_jinja_parse_expression(p);
    }
    sp_jinja_expect(p, SP_T_RBRACKET);
    return at;
}

/* Parses the fields, subscripts and calls after an operand. */
static struct sp_jinja_node *parse_postfix(struct sp_jinja_parser *p, struct sp_jinja_node *at)
{
    for (;;) {
        if (sp_jinja_skip(p, SP_T_DOT)) {
            if (p->at->token == SP_T_NAME) {
                at = pair_up(p, SP_J_ATTR, 0, at, NULL);
                at->value = p->at++->value;
            } else if (p->at->token == SP_T_INT) {
                struct sp_jinja_node *index = sp_jinja_new_node(p, SP_J_LITERAL);
                index->value = p->at++->value;
                at = pair_up(p, SP_J_ITEM, 0, at, index);
            } else {
                sp_jinja_unexpected(p, "a name after the dot");
            }
        } else if (sp_jinja_skip(p, SP_T_LBRACKET)) {
            at = parse_subscript(p, at);
        } else if (p->at->token == SP_T_LPAREN) {
            at = parse_call(p, at);
        } else {
            return at;
        }
    }
}

/* Parses the items of a list, or the pairs of a dictionary, between their brackets. */
static struct sp_jinja_node *parse_items(struct sp_jinja_parser *p, enum sp_jinja_kind kind)
{
    enum sp_jinja_token close = kind == SP_J_LIST ? SP_T_RBRACKET : SP_T_RBRACE;
    struct sp_jinja_node *node = sp_jinja_new_node(p, kind), **end = &node->list;

    p->at++;
    while (next_item(p, node->list, close)) {
        struct sp_jinja_node *item;
        if (kind == SP_J_LIST) {
            item = sp_jinja_parse_expression(p);
        } else {
            item = sp_jinja_new_node(p, SP_J_PAIR);
            item->a = sp_jinja_parse_expression(p);
            sp_jinja_expect(p, SP_T_COLON);
            item->b = sp_jinja_parse_expression(p);
        }
        *end = item;
        end = &item->next;
    }
    sp_jinja_expect(p, close);
    return node;
}

/* Parses a string; adjacent strings are joined. */
static struct sp_value parse_strings(struct sp_jinja_parser *p)
{
    struct sp_builder b = {.heap = p->heap};
    struct sp_value first = p->at++->value;

    if (p->at->token != SP_T_STRING) return first;
    sp_build_value(&b, first);
    while (p->at->token == SP_T_STRING)
        sp_build_value(&b, p->at++->value);
    return sp_builder_value(&b);
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

/* Parses a name that is no constant: a variable, or a field of one. */
static void parse_variable(struct sp_jinja_parser *p, struct sp_jinja_node *node, bool with_fields)
{
    node->kind = SP_J_NAME;
    node->value = p->at++->value;
    if (sp_text_is(node->value, "varargs")) p->surplus |= SP_JINJA_TAKES_VARARGS;
    if (sp_text_is(node->value, "kwargs")) p->surplus |= SP_JINJA_TAKES_KWARGS;
    if (sp_text_is(node->value, "caller")) p->surplus |= SP_JINJA_TAKES_CALLER;
    if (!with_fields || p->at->token != SP_T_DOT || p->at[1].token != SP_T_NAME) return;
    node->kind = SP_J_FIELD;
    node->b = sp_jinja_new_node(p, SP_J_LITERAL);
    node->b->value = p->at[1].value;
    p->at += 2;
}

static struct sp_jinja_node *parse_primary(struct sp_jinja_parser *p, bool with_fields)
{
    struct sp_jinja_node *node;

    if (p->at->token == SP_T_LBRACKET) return parse_items(p, SP_J_LIST);
    if (p->at->token == SP_T_LBRACE) return parse_items(p, SP_J_DICT);
    if (sp_jinja_skip(p, SP_T_LPAREN)) {
        node = p->at->token == SP_T_RPAREN ? sp_jinja_new_node(p, SP_J_TUPLE)
                                           : sp_jinja_parse_tuple(p, true, NULL);
        sp_jinja_expect(p, SP_T_RPAREN);
        return node;
    }
    node = sp_jinja_new_node(p, SP_J_LITERAL);
    if (p->at->token == SP_T_INT || p->at->token == SP_T_FLOAT)
        node->value = p->at++->value;
    else if (p->at->token == SP_T_STRING)
        node->value = parse_strings(p);
    else if (p->at->token == SP_T_NAME && constant(p->at->value, &node->value))
        p->at++;
    else if (p->at->token == SP_T_NAME)
        parse_variable(p, node, with_fields);
    else
        sp_jinja_unexpected(p, "an expression");
    return node;
}

static struct sp_jinja_node *parse_unary(struct sp_jinja_parser *p, bool with_filter)
{
    struct sp_jinja_node *node;

    sp_jinja_enter(p);
    if (p->at->token == SP_T_SUB || p->at->token == SP_T_ADD) {
        node = sp_jinja_new_node(p, SP_J_UNARY);
        node->op = p->at++->token;
        node->a = parse_unary(p, false);
    } else {
        node = parse_primary(p, false);
    }
    node = parse_postfix(p, node);
    if (with_filter) node = parse_filters_and_tests(p, node);
    p->depth--;
    return node;
}

/* The operators of two operands that group to the left; each level binds tighter than the next. */
enum level { LEVEL_POWER, LEVEL_PRODUCT, LEVEL_SUM, LEVEL_AND, LEVEL_OR };

static struct sp_jinja_node *parse_level(struct sp_jinja_parser *p, enum level level);

static struct sp_jinja_node *parse_concat(struct sp_jinja_parser *p)
{
    struct sp_jinja_node *item = parse_level(p, LEVEL_PRODUCT), *node;

    if (p->at->token != SP_T_TILDE) return item;
    node = sp_jinja_new_node(p, SP_J_CONCAT);
    node->list = item;
    while (sp_jinja_skip(p, SP_T_TILDE)) {
        item->next = parse_level(p, LEVEL_PRODUCT);
        item = item->next;
    }
    return node;
}

/* Consumes a comparison operator and returns it; 0: there is none. */
static uint8_t take_comparison(struct sp_jinja_parser *p)
{
    if (p->at->token >= SP_T_EQ && p->at->token <= SP_T_LT) return p->at++->token;
    if (sp_jinja_skip_name(p, "in")) return SP_T_IN;
    if (sp_jinja_is_at(p, "not") && p->at[1].token == SP_T_NAME &&
        sp_text_is(p->at[1].value, "in")) {
        p->at += 2;
        return SP_T_NOT_IN;
    }
    return 0;
}

static struct sp_jinja_node *parse_comparison(struct sp_jinja_parser *p)
{
    struct sp_jinja_node *node = parse_level(p, LEVEL_SUM), **end = NULL;
    uint8_t op;

    while ((op = take_comparison(p)) != 0) {
        struct sp_jinja_node *operand;
        if (end == NULL) {
            node = pair_up(p, SP_J_COMPARE, 0, node, NULL);
            end = &node->list;
        }
        operand = sp_jinja_new_node(p, SP_J_OPERAND);
        operand->op = op;
        operand->a = parse_level(p, LEVEL_SUM);
        *end = operand;
        end = &operand->next;
    }
    return node;
}

static struct sp_jinja_node *parse_not(struct sp_jinja_parser *p)
{
    struct sp_jinja_node *node;
    unsigned negations = 0;

    while (sp_jinja_skip_name(p, "not"))
        negations++;
    node = parse_comparison(p);
    /* two negations are not none: they make a truth value */
    if (negations > 2) negations = 2 - (negations & 1);
    while (negations-- > 0)
        node = pair_up(p, SP_J_NOT, 0, node, NULL);
    return node;
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

static struct sp_jinja_node *parse_operand(struct sp_jinja_parser *p, enum level level)
{
    switch (level) {
    case LEVEL_POWER:
        return parse_unary(p, true);
    case LEVEL_SUM:
        return parse_concat(p);
    case LEVEL_AND:
        return parse_not(p);
    default:
        return parse_level(p, level - 1);
    }
}

static struct sp_jinja_node *parse_level(struct sp_jinja_parser *p, enum level level)
{
    struct sp_jinja_node *node = parse_operand(p, level);
    enum sp_jinja_kind kind = level == LEVEL_AND  ? SP_J_AND
                              : level == LEVEL_OR ? SP_J_OR
                                                  : SP_J_BINARY;
    uint8_t op;

    while (take_operator(p, level, &op)) {
        struct sp_jinja_node *right = parse_operand(p, level);
        node = pair_up(p, kind, op, node, right);
    }
    return node;
}

/* Parses an expression without `a if b else c`: the value of a for, whose own `if` follows. */
static struct sp_jinja_node *parse_plain(struct sp_jinja_parser *p)
{
    struct sp_jinja_node *node;

    sp_jinja_enter(p);
    node = parse_level(p, LEVEL_OR);
    p->depth--;
    return node;
}

struct sp_jinja_node *sp_jinja_parse_expression(struct sp_jinja_parser *p)
{
    const struct sp_jinja_node *unknown = p->unknown;
    struct sp_jinja_node *value;

    sp_jinja_enter(p);
    value = parse_plain(p);
    while (sp_jinja_skip_name(p, "if")) {
        struct sp_jinja_node *node = sp_jinja_new_node(p, SP_J_COND);
        node->b = value;
        node->a = parse_plain(p);
        if (sp_jinja_skip_name(p, "else")) node->c = sp_jinja_parse_expression(p);
        p->unknown = unknown;
        value = node;
    }
    p->depth--;
    return value;
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
        return stop != NULL && sp_jinja_is_at(p, stop);
    }
}

struct sp_jinja_node *sp_jinja_parse_tuple(struct sp_jinja_parser *p, bool with_if,
                                           const char *stop)
{
    struct sp_jinja_node *item = with_if ? sp_jinja_parse_expression(p) : parse_plain(p), *tuple;

    if (p->at->token != SP_T_COMMA) return item;
    tuple = sp_jinja_new_node(p, SP_J_TUPLE);
    tuple->list = item;
    while (sp_jinja_skip(p, SP_T_COMMA) && !tuple_ends(p, stop)) {
        item->next = with_if ? sp_jinja_parse_expression(p) : parse_plain(p);
        item = item->next;
    }
    return tuple;
}

static void check_target(struct sp_jinja_parser *p, const struct sp_jinja_node *node, int depth)
{
    if (node->kind == SP_J_NAME || node->kind == SP_J_FIELD) return;
    if (node->kind != SP_J_TUPLE || depth > 8)
        sp_jinja_reject(p, SP_E_INPUT, node->line, "cannot assign to this expression");
    for (const struct sp_jinja_node *n = node->list; n != NULL && !p->heap->status; n = n->next)
        check_target(p, n, depth + 1);
}

struct sp_jinja_node *sp_jinja_parse_target(struct sp_jinja_parser *p, bool with_fields)
{
    struct sp_jinja_node *item = parse_primary(p, with_fields), *target = item;

    if (p->at->token == SP_T_COMMA) {
        target = sp_jinja_new_node(p, SP_J_TUPLE);
        target->list = item;
        while (sp_jinja_skip(p, SP_T_COMMA) && !tuple_ends(p, "in")) {
            item->next = parse_primary(p, with_fields);
            item = item->next;
        }
    }
    check_target(p, target, 0);
    return target;
}
