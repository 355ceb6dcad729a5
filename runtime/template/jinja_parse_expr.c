/* Expressions of Jinja, by recursive descent with Jinja2's own precedences, which are not Python's:
 * filters and tests bind tighter than any operator, `**` groups to the left and is looser than
 * unary minus,
 * `~` stands between sums and products, `a if b else c` is loosest. */
#include "runtime/template/jinja_builtin.h"
#include "runtime/template/jinja_tree.h"

#include <string.h>

static enum sp_status parse_unary(struct jinja_parser *p, struct jinja_node **out,
                                  bool with_filter);

static void append(struct jinja_node **list, struct jinja_node *node)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = node;
}

static enum sp_status unexpected(struct jinja_parser *p, const char *wanted)
{
    if (p->at->token == T_NAME || p->at->token == T_STRING) {
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: unexpected %.*s, expected %s",
                       p->at->line, (int)(p->at->value.len < 60 ? p->at->value.len : 60),
                       p->at->value.text, wanted);
    }
    return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: unexpected %s, expected %s", p->at->line,
                   sp_jinja_token_name(p->at->token), wanted);
}

enum sp_status sp_jinja_new_node(struct jinja_parser *p, struct jinja_node **out,
                                 enum jinja_kind kind)
{
    enum sp_status st;
    struct jinja_node *node;

    if ((st = sp_heap_take(p->heap, &node, sizeof *node))) return st;
    node->kind = (uint8_t)kind;
    node->line = p->at->line;
    *out = node;
    return SP_OK;
}

enum sp_status sp_jinja_expect(struct jinja_parser *p, enum jinja_token token)
{
    if (p->at->token != token) return unexpected(p, sp_jinja_token_name(token));
    if (token != T_END) p->at++;
    return SP_OK;
}

bool sp_jinja_at_name(const struct jinja_parser *p, const char *name)
{
    return p->at->token == T_NAME && sp_text_is(p->at->value, name);
}

bool sp_jinja_skip_name(struct jinja_parser *p, const char *name)
{
    if (!sp_jinja_at_name(p, name)) return false;
    p->at++;
    return true;
}

bool sp_jinja_skip(struct jinja_parser *p, enum jinja_token token)
{
    if (p->at->token != token || token == T_END) return false;
    p->at++;
    return true;
}

enum sp_status sp_jinja_enter(struct jinja_parser *p)
{
    if (++p->depth <= SP_TEMPLATE_MAX_NESTING) return SP_OK;
    return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: nested deeper than %d levels",
                   p->at->line, SP_TEMPLATE_MAX_NESTING);
}

/* A node with two children. */
static enum sp_status pair_up(struct jinja_parser *p, struct jinja_node **at, enum jinja_kind kind,
                              uint8_t op, struct jinja_node *b)
{
    enum sp_status st;
    struct jinja_node *node;

    if ((st = sp_jinja_new_node(p, &node, kind))) return st;
    node->op = op;
    node->line = (*at)->line;
    node->a = *at;
    node->b = b;
    *at = node;
    return SP_OK;
}

static enum sp_status parse_args(struct jinja_parser *p, struct jinja_node **list)
{
    enum sp_status st;
    struct jinja_node *arg;

    if ((st = sp_jinja_expect(p, T_LPAREN))) return st;
    while (p->at->token != T_RPAREN) {
        if (*list != NULL) {
            if ((st = sp_jinja_expect(p, T_COMMA))) return st;
            if (p->at->token == T_RPAREN) break;
        }
        if ((st = sp_jinja_new_node(p, &arg, J_ARG))) return st;
        if (sp_jinja_skip(p, T_MUL)) {
            arg->op = J_ARG_STAR;
        } else if (sp_jinja_skip(p, T_POW)) {
            arg->op = J_ARG_STARS;
        } else if (p->at->token == T_NAME && p->at[1].token == T_ASSIGN) {
            arg->op = J_ARG_KEYWORD;
            arg->value = p->at->value;
            p->at += 2;
        } else {
            for (const struct jinja_node *n = *list; n != NULL; n = n->next) {
                if (n->op == J_ARG_KEYWORD || n->op == J_ARG_STARS) {
                    return sp_fail(p->heap->err, SP_E_INPUT,
                                   "template:%u: a positional argument behind a keyword argument",
                                   p->at->line);
                }
            }
        }
        if ((st = sp_jinja_parse_expression(p, &arg->a))) return st;
        append(list, arg);
    }
    return sp_jinja_expect(p, T_RPAREN);
}

/* A filter's or test's name: names with dots between. */
static enum sp_status parse_dotted(struct jinja_parser *p, struct sp_value *out)
{
    enum sp_status st;
    struct sp_builder b = {.heap = p->heap};

    for (;;) {
        if (p->at->token != T_NAME) return unexpected(p, "a name");
        if (b.len == 0 && p->at[1].token != T_DOT) {
            *out = p->at++->value;
            return SP_OK;
        }
        if ((st = sp_build(&b, p->at->value.text, p->at->value.len))) return st;
        p->at++;
        if (!sp_jinja_skip(p, T_DOT)) break;
        if ((st = sp_build(&b, ".", 1))) return st;
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

enum sp_status sp_jinja_parse_filters(struct jinja_parser *p, struct jinja_node **out,
                                      struct jinja_node *input, bool begun)
{
    enum sp_status st;
    struct jinja_node *node;

    while (begun || sp_jinja_skip(p, T_PIPE)) {
        begun = false;
        if ((st = sp_jinja_new_node(p, &node, J_FILTER))) return st;
        if ((st = parse_dotted(p, &node->value))) return st;
        node->a = input;
        node->filter = sp_jinja_find_filter(node->value);
        if (p->at->token == T_LPAREN && (st = parse_args(p, &node->list))) return st;
        input = node;
    }
    *out = input;
    return SP_OK;
}

static bool begins_operand(const struct jinja_parser *p)
{
    switch (p->at->token) {
    case T_NAME:
        return !sp_jinja_at_name(p, "else") && !sp_jinja_at_name(p, "or") &&
               !sp_jinja_at_name(p, "and");
    case T_STRING:
    case T_INT:
    case T_FLOAT:
    case T_LPAREN:
    case T_LBRACKET:
    case T_LBRACE:
        return true;
    default:
        return false;
    }
}

static enum sp_status parse_primary(struct jinja_parser *p, struct jinja_node **out,
                                    bool with_fields);

static enum sp_status parse_test(struct jinja_parser *p, struct jinja_node **at)
{
    enum sp_status st;
    struct jinja_node *node, *arg;
    bool negated = sp_jinja_skip_name(p, "not");

    if ((st = sp_jinja_new_node(p, &node, J_TEST))) return st;
    if ((st = parse_dotted(p, &node->value))) return st;
    node->a = *at;
    node->test = sp_jinja_find_test(node->value);
    if (p->at->token == T_LPAREN) {
        if ((st = parse_args(p, &node->list))) return st;
    } else if (begins_operand(p)) {
        if (sp_jinja_at_name(p, "is")) return unexpected(p, "one test, not a chain of them");
        if ((st = sp_jinja_new_node(p, &arg, J_ARG))) return st;
        if ((st = parse_primary(p, &arg->a, false))) return st;
        if ((st = sp_jinja_parse_postfix(p, &arg->a))) return st;
        node->list = arg;
    }
    *at = node;
    return negated ? pair_up(p, at, J_NOT, 0, NULL) : SP_OK;
}

/* Filters, tests and calls behind an operand, in any order. */
static enum sp_status parse_filters_and_tests(struct jinja_parser *p, struct jinja_node **at)
{
    enum sp_status st = SP_OK;

    while (!st) {
        if (p->at->token == T_PIPE) {
            st = sp_jinja_parse_filters(p, at, *at, false);
        } else if (sp_jinja_skip_name(p, "is")) {
            st = parse_test(p, at);
        } else if (p->at->token == T_LPAREN) {
            if (!(st = pair_up(p, at, J_CALL, 0, NULL))) st = parse_args(p, &(*at)->list);
        } else {
            break;
        }
    }
    return st;
}

/* What stands in brackets behind an operand: one index, a slice, or several indices (a tuple). */
static enum sp_status parse_subscript(struct jinja_parser *p, struct jinja_node **at)
{
    enum sp_status st;
    struct jinja_node *slice, *first = NULL;

    if (p->at->token != T_COLON) {
        if ((st = sp_jinja_parse_tuple(p, &first, true, NULL))) return st;
        if (p->at->token != T_COLON) {
            if ((st = pair_up(p, at, J_ITEM, 0, first))) return st;
            return sp_jinja_expect(p, T_RBRACKET);
        }
    }
    if ((st = pair_up(p, at, J_SLICE, 0, first))) return st;
    slice = *at;
    p->at++;
    if (p->at->token != T_COLON && p->at->token != T_RBRACKET &&
        (st = sp_jinja_parse_expression(p, &slice->c))) {
        return st;
    }
    if (sp_jinja_skip(p, T_COLON) && p->at->token != T_RBRACKET &&
        (st = sp_jinja_parse_expression(p, &slice->body))) {
        return st;
    }
    return sp_jinja_expect(p, T_RBRACKET);
}

enum sp_status sp_jinja_parse_postfix(struct jinja_parser *p, struct jinja_node **at)
{
    enum sp_status st = SP_OK;
    struct jinja_node *index;

    while (!st) {
        if (sp_jinja_skip(p, T_DOT)) {
            if (p->at->token == T_NAME) {
                if ((st = pair_up(p, at, J_ATTR, 0, NULL))) return st;
                (*at)->value = p->at++->value;
            } else if (p->at->token == T_INT) {
                if ((st = sp_jinja_new_node(p, &index, J_LITERAL))) return st;
                index->value = p->at++->value;
                st = pair_up(p, at, J_ITEM, 0, index);
            } else {
                return unexpected(p, "a name behind the dot");
            }
        } else if (sp_jinja_skip(p, T_LBRACKET)) {
            st = parse_subscript(p, at);
        } else if (p->at->token == T_LPAREN) {
            if (!(st = pair_up(p, at, J_CALL, 0, NULL))) st = parse_args(p, &(*at)->list);
        } else {
            break;
        }
    }
    return st;
}

static enum sp_status parse_list(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st;
    struct jinja_node *item, **end;

    if ((st = sp_jinja_new_node(p, out, J_LIST))) return st;
    end = &(*out)->list;
    p->at++;
    while (p->at->token != T_RBRACKET) {
        if ((*out)->list != NULL) {
            if ((st = sp_jinja_expect(p, T_COMMA))) return st;
            if (p->at->token == T_RBRACKET) break;
        }
        if ((st = sp_jinja_parse_expression(p, &item))) return st;
        *end = item;
        end = &item->next;
    }
    return sp_jinja_expect(p, T_RBRACKET);
}

static enum sp_status parse_dict(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st;
    struct jinja_node *pair, **end;

    if ((st = sp_jinja_new_node(p, out, J_DICT))) return st;
    end = &(*out)->list;
    p->at++;
    while (p->at->token != T_RBRACE) {
        if ((*out)->list != NULL) {
            if ((st = sp_jinja_expect(p, T_COMMA))) return st;
            if (p->at->token == T_RBRACE) break;
        }
        if ((st = sp_jinja_new_node(p, &pair, J_PAIR))) return st;
        if ((st = sp_jinja_parse_expression(p, &pair->a))) return st;
        if ((st = sp_jinja_expect(p, T_COLON))) return st;
        if ((st = sp_jinja_parse_expression(p, &pair->b))) return st;
        *end = pair;
        end = &pair->next;
    }
    return sp_jinja_expect(p, T_RBRACE);
}

/* Strings side by side are one. */
static enum sp_status parse_strings(struct jinja_parser *p, struct jinja_node *node)
{
    enum sp_status st;
    struct sp_builder b = {.heap = p->heap};

    node->value = p->at++->value;
    if (p->at->token != T_STRING) return SP_OK;
    if ((st = sp_build(&b, node->value.text, node->value.len))) return st;
    while (p->at->token == T_STRING) {
        if ((st = sp_build(&b, p->at->value.text, p->at->value.len))) return st;
        p->at++;
    }
    node->value = sp_builder_value(&b);
    return SP_OK;
}

static bool constant(struct sp_value name, struct sp_value *out)
{
    if (sp_text_is(name, "true") || sp_text_is(name, "True")) {
        *out = sp_value_bool(true);
    } else if (sp_text_is(name, "false") || sp_text_is(name, "False")) {
        *out = sp_value_bool(false);
    } else if (sp_text_is(name, "none") || sp_text_is(name, "None")) {
        *out = sp_value_none();
    } else {
        return false;
    }
    return true;
}

static enum sp_status parse_primary(struct jinja_parser *p, struct jinja_node **out,
                                    bool with_fields)
{
    enum sp_status st;
    struct jinja_node *node;

    if (p->at->token == T_LBRACKET) return parse_list(p, out);
    if (p->at->token == T_LBRACE) return parse_dict(p, out);
    if (p->at->token == T_LPAREN) {
        p->at++;
        if (p->at->token == T_RPAREN) {
            st = sp_jinja_new_node(p, out, J_TUPLE);
        } else {
            st = sp_jinja_parse_tuple(p, out, true, NULL);
        }
        return st ? st : sp_jinja_expect(p, T_RPAREN);
    }
    if ((st = sp_jinja_new_node(p, &node, J_LITERAL))) return st;
    *out = node;
    switch (p->at->token) {
    case T_INT:
    case T_FLOAT:
        node->value = p->at++->value;
        return SP_OK;
    case T_STRING:
        return parse_strings(p, node);
    case T_NAME:
        if (constant(p->at->value, &node->value)) {
            p->at++;
            return SP_OK;
        }
        node->kind = J_NAME;
        node->value = p->at++->value;
        if (sp_text_is(node->value, "varargs")) p->surplus |= JINJA_TAKES_VARARGS;
        if (sp_text_is(node->value, "kwargs")) p->surplus |= JINJA_TAKES_KWARGS;
        if (sp_text_is(node->value, "caller")) p->surplus |= JINJA_TAKES_CALLER;
        if (!with_fields || p->at->token != T_DOT || p->at[1].token != T_NAME) return SP_OK;
        node->kind = J_FIELD;
        if ((st = sp_jinja_new_node(p, &node->b, J_LITERAL))) return st;
        node->b->value = p->at[1].value;
        p->at += 2;
        return SP_OK;
    default:
        return unexpected(p, "an expression");
    }
}

static enum sp_status parse_unary(struct jinja_parser *p, struct jinja_node **out, bool with_filter)
{
    enum sp_status st;
    uint8_t token = p->at->token;

    if ((st = sp_jinja_enter(p))) return st;
    if (token == T_SUB || token == T_ADD) {
        struct jinja_node *node;

        if ((st = sp_jinja_new_node(p, &node, J_UNARY))) return st;
        node->op = token;
        p->at++;
        if ((st = parse_unary(p, &node->a, false))) return st;
        *out = node;
    } else if ((st = parse_primary(p, out, false))) {
        return st;
    }
    st = sp_jinja_parse_postfix(p, out);
    if (!st && with_filter) st = parse_filters_and_tests(p, out);
    p->depth--;
    return st;
}

static enum sp_status parse_power(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st = parse_unary(p, out, true);
    struct jinja_node *right;

    while (!st && sp_jinja_skip(p, T_POW)) {
        st = parse_unary(p, &right, true);
        if (!st) st = pair_up(p, out, J_BINARY, T_POW, right);
    }
    return st;
}

static enum sp_status parse_product(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st = parse_power(p, out);
    struct jinja_node *right;

    while (!st && (p->at->token == T_MUL || p->at->token == T_DIV || p->at->token == T_FLOORDIV ||
                   p->at->token == T_MOD)) {
        uint8_t op = p->at++->token;

        st = parse_power(p, &right);
        if (!st) st = pair_up(p, out, J_BINARY, op, right);
    }
    return st;
}

static enum sp_status parse_concat(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st = parse_product(p, out);
    struct jinja_node *node, *item;

    if (st || p->at->token != T_TILDE) return st;
    if ((st = sp_jinja_new_node(p, &node, J_CONCAT))) return st;
    node->list = item = *out;
    while (!st && sp_jinja_skip(p, T_TILDE)) {
        st = parse_product(p, &item->next);
        if (!st) item = item->next;
    }
    *out = node;
    return st;
}

static enum sp_status parse_sum(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st = parse_concat(p, out);
    struct jinja_node *right;

    while (!st && (p->at->token == T_ADD || p->at->token == T_SUB)) {
        uint8_t op = p->at++->token;

        st = parse_concat(p, &right);
        if (!st) st = pair_up(p, out, J_BINARY, op, right);
    }
    return st;
}

/* The comparison operator here, consumed; 0 when there is none. */
static uint8_t take_comparison(struct jinja_parser *p)
{
    if (p->at->token >= T_EQ && p->at->token <= T_LE) return p->at++->token;
    if (sp_jinja_skip_name(p, "in")) return T_IN;
    if (sp_jinja_at_name(p, "not") && p->at[1].token == T_NAME &&
        sp_text_is(p->at[1].value, "in")) {
        p->at += 2;
        return T_NOT_IN;
    }
    return 0;
}

static enum sp_status parse_comparison(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st = parse_sum(p, out);
    struct jinja_node *operand, **end = NULL;
    uint8_t op;

    while (!st && (op = take_comparison(p)) != 0) {
        if (end == NULL) {
            if ((st = pair_up(p, out, J_COMPARE, 0, NULL))) return st;
            end = &(*out)->list;
        }
        if ((st = sp_jinja_new_node(p, &operand, J_OPERAND))) return st;
        operand->op = op;
        st = parse_sum(p, &operand->a);
        *end = operand;
        end = &operand->next;
    }
    return st;
}

static enum sp_status parse_not(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st;
    unsigned negations = 0;

    while (sp_jinja_skip_name(p, "not"))
        negations++;
    st = parse_comparison(p, out);
    /* An even number of them still makes a truth value. */
    if (negations > 2) negations = 2 - (negations & 1);
    while (!st && negations-- > 0)
        st = pair_up(p, out, J_NOT, 0, NULL);
    return st;
}

static enum sp_status parse_and(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st = parse_not(p, out);
    struct jinja_node *right;

    while (!st && sp_jinja_skip_name(p, "and")) {
        st = parse_not(p, &right);
        if (!st) st = pair_up(p, out, J_AND, 0, right);
    }
    return st;
}

enum sp_status sp_jinja_parse_plain(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st = sp_jinja_enter(p);
    struct jinja_node *right;

    if (!st) st = parse_and(p, out);
    while (!st && sp_jinja_skip_name(p, "or")) {
        st = parse_and(p, &right);
        if (!st) st = pair_up(p, out, J_OR, 0, right);
    }
    p->depth--;
    return st;
}

enum sp_status sp_jinja_parse_expression(struct jinja_parser *p, struct jinja_node **out)
{
    enum sp_status st;
    struct jinja_node *node;

    if ((st = sp_jinja_enter(p))) return st;
    st = sp_jinja_parse_plain(p, out);
    while (!st && sp_jinja_skip_name(p, "if")) {
        if ((st = sp_jinja_new_node(p, &node, J_COND))) return st;
        node->b = *out;
        if ((st = sp_jinja_parse_plain(p, &node->a))) return st;
        if (sp_jinja_skip_name(p, "else")) st = sp_jinja_parse_expression(p, &node->c);
        *out = node;
    }
    p->depth--;
    return st;
}

/* Does a tuple end here, after a comma? */
static bool tuple_ends(const struct jinja_parser *p, const char *stop)
{
    switch (p->at->token) {
    case T_VAR_END:
    case T_BLOCK_END:
    case T_RPAREN:
    case T_END:
        return true;
    default:
        return stop != NULL && sp_jinja_at_name(p, stop);
    }
}

enum sp_status sp_jinja_parse_tuple(struct jinja_parser *p, struct jinja_node **out, bool with_if,
                                    const char *stop)
{
    enum sp_status st;
    struct jinja_node *tuple, *item, **end;

    st = with_if ? sp_jinja_parse_expression(p, out) : sp_jinja_parse_plain(p, out);
    if (st || p->at->token != T_COMMA) return st;
    if ((st = sp_jinja_new_node(p, &tuple, J_TUPLE))) return st;
    tuple->list = *out;
    end = &(*out)->next;
    while (sp_jinja_skip(p, T_COMMA) && !tuple_ends(p, stop)) {
        st = with_if ? sp_jinja_parse_expression(p, &item) : sp_jinja_parse_plain(p, &item);
        if (st) return st;
        *end = item;
        end = &item->next;
    }
    *out = tuple;
    return SP_OK;
}

static enum sp_status check_target(struct jinja_parser *p, const struct jinja_node *node, int depth)
{
    enum sp_status st = SP_OK;

    if (node->kind == J_NAME || node->kind == J_FIELD) return SP_OK;
    if (node->kind != J_TUPLE || depth > 8) {
        return sp_fail(p->heap->err, SP_E_INPUT, "template:%u: cannot assign to this expression",
                       node->line);
    }
    for (const struct jinja_node *n = node->list; n != NULL && !st; n = n->next) {
        st = check_target(p, n, depth + 1);
    }
    return st;
}

enum sp_status sp_jinja_parse_target(struct jinja_parser *p, struct jinja_node **out,
                                     bool with_fields)
{
    enum sp_status st;
    struct jinja_node *tuple, *item, **end;

    if ((st = parse_primary(p, out, with_fields))) return st;
    if (p->at->token == T_COMMA) {
        if ((st = sp_jinja_new_node(p, &tuple, J_TUPLE))) return st;
        tuple->list = *out;
        end = &(*out)->next;
        while (sp_jinja_skip(p, T_COMMA) && !tuple_ends(p, "in")) {
            if ((st = parse_primary(p, &item, with_fields))) return st;
            *end = item;
            end = &item->next;
        }
        *out = tuple;
    }
    return check_target(p, *out, 0);
}
