/* What the parsers of statements and expressions share: the current token, and new nodes. */
#include "format/base/number_text.h"
#include "runtime/template/jinja/jinja_tree.h"

#include <stdarg.h>

void sp_jinja_reject(struct sp_jinja_parser *p, enum sp_status status, uint32_t line,
                     const char *format, ...)
{
    char text[SP_ERR_TEXT];
    va_list args;

    va_start(args, format);
    sp_number_vprint(text, sizeof text, format, args);
    va_end(args);
    sp_heap_fail(p->heap, status, "template:%u: %s", line, text);
    while (p->at->token != SP_T_END)
        p->at++;
}

void sp_jinja_unexpected(struct sp_jinja_parser *p, const char *wanted)
{
    struct sp_value found = sp_value_name(sp_jinja_token_name(p->at->token));

    if (p->at->token == SP_T_NAME || p->at->token == SP_T_STRING) found = p->at->value;
    sp_jinja_reject(p, SP_E_INPUT, p->at->line, "unexpected %.*s, expected %s",
                    (int)(found.len < 60 ? found.len : 60), found.text, wanted);
}

struct sp_jinja_node *sp_jinja_new_node(struct sp_jinja_parser *p, enum sp_jinja_kind kind)
{
    struct sp_jinja_node *node = sp_heap_take(p->heap, sizeof *node);

    if (node == NULL) {
        node = &p->no_node;
        *node = (struct sp_jinja_node){0};
    }
    node->kind = (uint8_t)kind;
    node->line = p->at->line;
    return node;
}

void sp_jinja_expect(struct sp_jinja_parser *p, enum sp_jinja_token token)
{
    if (p->at->token != token)
        sp_jinja_unexpected(p, sp_jinja_token_name(token));
    else if (token != SP_T_END)
        p->at++;
}

bool sp_jinja_is_at(const struct sp_jinja_parser *p, const char *name)
{
    return p->at->token == SP_T_NAME && sp_text_is(p->at->value, name);
}

bool sp_jinja_skip_name(struct sp_jinja_parser *p, const char *name)
{
    if (!sp_jinja_is_at(p, name)) return false;
    p->at++;
    return true;
}

bool sp_jinja_skip(struct sp_jinja_parser *p, enum sp_jinja_token token)
{
    if (p->at->token != token || token == SP_T_END) return false;
    p->at++;
    return true;
}

void sp_jinja_enter(struct sp_jinja_parser *p)
{
    if (++p->depth > SP_TEMPLATE_MAX_NESTING)
        sp_jinja_reject(p, SP_E_INPUT, p->at->line, "nested deeper than %d levels",
                        SP_TEMPLATE_MAX_NESTING);
}
