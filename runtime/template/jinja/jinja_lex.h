/* The tokens of a Jinja template; private to the jinja_*.c files. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_LEX_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_LEX_H

#include "runtime/template/value/value.h"

/* Operators, and other tokens of expressions. */
enum sp_jinja_token {
    SP_T_END, /* end of the template */
    SP_T_TEXT,
    SP_T_BLOCK_BEGIN,
    SP_T_BLOCK_END,
    SP_T_VAR_BEGIN,
    SP_T_VAR_END,
    SP_T_NAME,
    SP_T_STRING,
    SP_T_INT,
    SP_T_FLOAT,
    SP_T_FLOORDIV, /* the operators of two characters come first */
    SP_T_POW,
    SP_T_EQ,
    SP_T_NE,
    SP_T_GE,
    SP_T_LE,
    SP_T_GT,
    SP_T_LT,
    SP_T_ADD,
    SP_T_SUB,
    SP_T_DIV,
    SP_T_MUL,
    SP_T_MOD,
    SP_T_TILDE,
    SP_T_LBRACKET,
    SP_T_RBRACKET,
    SP_T_LPAREN,
    SP_T_RPAREN,
    SP_T_LBRACE,
    SP_T_RBRACE,
    SP_T_ASSIGN,
    SP_T_DOT,
    SP_T_COLON,
    SP_T_PIPE,
    SP_T_COMMA,
    SP_T_SEMICOLON,
    SP_T_IN,     /* only as an operator of SP_J_OPERAND */
    SP_T_NOT_IN, /* only as an operator of SP_J_OPERAND */
};

/* A token; its text is in the heap or in the template. */
struct sp_jinja_lexeme {
    uint8_t token;
    uint32_t line;
    struct sp_value value; /* SP_T_TEXT, SP_T_NAME, SP_T_STRING, SP_T_INT, SP_T_FLOAT */
};

/* Splits a template into tokens; the last one is SP_T_END. */
SP_MUST_CHECK enum sp_status sp_jinja_lex(struct sp_jinja_lexeme **out, size_t *n, const char *text,
                                          size_t size, struct sp_heap *heap);
const char *sp_jinja_token_name(enum sp_jinja_token token);

#endif
