/* The tokens of a Go template; private to the gotemplate_*.c files. */
#ifndef SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_LEX_H
#define SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_LEX_H

#include "runtime/template/value/value.h"

enum sp_go_token {
    SP_G_END,
    SP_G_TEXT,
    SP_G_LEFT,  /* {{ */
    SP_G_RIGHT, /* }} */
    SP_G_LPAREN,
    SP_G_RPAREN,
    SP_G_PIPE,
    SP_G_ASSIGN,
    SP_G_DECLARE,
    SP_G_COMMA,
    SP_G_OTHER, /* another ASCII character */
    SP_G_LITERAL,
    SP_G_NIL,
    SP_G_DOT,
    SP_G_FIELD,
    SP_G_VARIABLE, /* with its $ */
    SP_G_NAME,     /* of a function */
    SP_G_KEYWORD,
};

struct sp_go_lexeme {
    uint8_t token;
    bool spaced;               /* whitespace precedes it */
    uint32_t line, begin, end; /* begin, end: byte offsets in the template */
    struct sp_value value;     /* value of a text, name or literal */
};

SP_MUST_CHECK enum sp_status sp_go_lex(struct sp_go_lexeme **out, const char *text, size_t size,
                                       struct sp_heap *heap);

#endif
