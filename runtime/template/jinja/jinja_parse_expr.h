/* The parser's state, and the parser of expressions; private to the sources jinja_parse*.c. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_PARSE_EXPR_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_PARSE_EXPR_H

#include "runtime/template/jinja/jinja_lex.h"
#include "runtime/template/jinja/jinja_tree.h"

struct sp_jinja_parser {
    struct sp_heap *heap;
    const struct sp_jinja_lexeme *at; /* the current token */
    /* The first unknown filter or test that is certainly reached; like Jinja2, the parser accepts
     * one in the branch of an if, until that branch runs. */
    const struct sp_jinja_node *unknown;
    unsigned depth;
    unsigned surplus; /* SP_JINJA_TAKES_... bits of the names that were used */
    unsigned loops;   /* loops around this place; break and continue need one */
};

SP_MUST_CHECK enum sp_status sp_jinja_new_node(struct sp_jinja_parser *p,
                                               struct sp_jinja_node **out, enum sp_jinja_kind kind);
SP_MUST_CHECK enum sp_status sp_jinja_expect(struct sp_jinja_parser *p, enum sp_jinja_token token);
bool sp_jinja_skip_name(struct sp_jinja_parser *p, const char *name);
bool sp_jinja_skip(struct sp_jinja_parser *p, enum sp_jinja_token token);
SP_MUST_CHECK enum sp_status sp_jinja_enter(struct sp_jinja_parser *p);

SP_MUST_CHECK enum sp_status sp_jinja_parse_expression(struct sp_jinja_parser *p,
                                                       struct sp_jinja_node **out);
/* Parses one expression, or several with commas as a tuple. `stop`: a name that ends it, or NULL.
 */
SP_MUST_CHECK enum sp_status sp_jinja_parse_tuple(struct sp_jinja_parser *p,
                                                  struct sp_jinja_node **out, bool with_if,
                                                  const char *stop);
/* Parses the target of an assignment. */
SP_MUST_CHECK enum sp_status sp_jinja_parse_target(struct sp_jinja_parser *p,
                                                   struct sp_jinja_node **out, bool with_fields);
/* Parses a chain of filters on `input` (NULL: a block's text). at_name: after the first pipe. */
SP_MUST_CHECK enum sp_status sp_jinja_parse_filters(struct sp_jinja_parser *p,
                                                    struct sp_jinja_node **out,
                                                    struct sp_jinja_node *input, bool at_name);

#endif
