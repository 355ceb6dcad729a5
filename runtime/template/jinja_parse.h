/* The parser of statements; private to jinja_parse.c and jinja_parse_expr.c. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_PARSE_H
#define SP_RUNTIME_TEMPLATE_JINJA_PARSE_H

#include "runtime/template/jinja_parse_expr.h"

SP_MUST_CHECK enum sp_status sp_jinja_parse(struct sp_jinja_node **body, struct sp_jinja_parser *p);

/* Refuses unknown filters and tests wherever they are certainly reached; like Jinja2, it accepts
 * them in the branch of an if until that branch runs. */
SP_MUST_CHECK enum sp_status sp_jinja_check_names(const struct sp_jinja_node *body,
                                                  struct sp_err *err);

#endif
