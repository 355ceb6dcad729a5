/* The parse tree of a Jinja template; private to the jinja_*.c files.
 *
 * All nodes have one type: the meaning of `a`, `b`, `c`, `list` and `body` depends on the kind and
 * is written next to it. Nodes and texts are in the template's heap. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_TREE_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_TREE_H

#include "runtime/template/jinja/jinja.h"
#include "runtime/template/value/value.h"

enum sp_jinja_kind {
    /* Expressions */
    SP_J_LITERAL, /* value */
    SP_J_NAME,    /* value: the name */
    SP_J_TUPLE,   /* list */
    SP_J_LIST,    /* list */
    SP_J_DICT,    /* list of SP_J_PAIR */
    SP_J_PAIR,    /* a: key, b: value */
    SP_J_ATTR,    /* a.value */
    SP_J_ITEM,    /* a[b] */
    SP_J_SLICE,   /* a[b:c:body], each may be NULL */
    SP_J_CALL,    /* a(list of SP_J_ARG) */
    SP_J_ARG,     /* a; op: enum sp_jinja_arg; value: the keyword */
    SP_J_FILTER,  /* a|filter(list); a is NULL for the text of a block */
    SP_J_TEST,    /* a is test(list) */
    SP_J_UNARY,   /* op a */
    SP_J_BINARY,  /* a op b */
    SP_J_COMPARE, /* a, then list of SP_J_OPERAND */
    SP_J_OPERAND, /* op a */
    SP_J_AND,     /* a, b */
    SP_J_OR,      /* a, b */
    SP_J_NOT,     /* a */
    SP_J_CONCAT,  /* list, joined by ~ */
    SP_J_COND,    /* b if a else c; c may be NULL */
    /* Statements */
    SP_J_TEXT,      /* value */
    SP_J_OUTPUT,    /* list of expressions */
    SP_J_IF,        /* a: test, body, c: the SP_J_IF of an elif, or list: else */
    SP_J_FOR,       /* a: target, b: iterated, c: test or NULL, body, list: else */
    SP_J_SET,       /* a: target, b: value */
    SP_J_SET_BLOCK, /* a: target, b: chain of SP_J_FILTER or NULL, body */
    SP_J_WITH,      /* list of SP_J_SET, body */
    SP_J_MACRO, /* value: name, list of SP_J_PARAM, body; op: the surplus arguments that it uses */
    SP_J_PARAM, /* value: name, a: default or NULL */
    SP_J_CALL_BLOCK,   /* a: the SP_J_CALL, list of SP_J_PARAM, body; op as for SP_J_MACRO */
    SP_J_FILTER_BLOCK, /* b: chain of SP_J_FILTER, body */
    SP_J_SCOPE,        /* body, in a scope of its own */
    SP_J_BREAK,
    SP_J_CONTINUE,
    /* Targets of assignments: SP_J_NAME, SP_J_TUPLE of targets, or SP_J_FIELD. */
    SP_J_FIELD, /* value: variable of a namespace, b: SP_J_LITERAL, the field's name */
};

enum { SP_JINJA_TAKES_VARARGS = 1, SP_JINJA_TAKES_KWARGS = 2, SP_JINJA_TAKES_CALLER = 4 };

enum sp_jinja_arg { SP_J_ARG_PLAIN, SP_J_ARG_KEYWORD, SP_J_ARG_STAR, SP_J_ARG_STARS };

struct sp_jinja_node {
    uint8_t kind;
    uint8_t op;
    uint32_t line;
    struct sp_value value;
    /* SP_J_FILTER, SP_J_TEST; NULL: not supported, an error when it is reached */
    const struct sp_jinja_function *function;
    struct sp_jinja_node *a, *b, *c, *list, *body;
    struct sp_jinja_node *next; /* next node of a list or body */
};

/* ---- tokens (jinja_lex.c) ---- */

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

/* Splits a template into tokens, the last of which is SP_T_END; NULL: a failure. */
const struct sp_jinja_lexeme *sp_jinja_lex(const char *text, size_t size, struct sp_heap *heap);
const char *sp_jinja_token_name(enum sp_jinja_token token);

/* ---- the parser, and that of expressions (jinja_parse*.c) ----
 *
 * After a failure, which the heap keeps, the parser is at the end of the template, and functions
 * return nodes that nobody reads. */

struct sp_jinja_parser {
    struct sp_heap *heap;
    const struct sp_jinja_lexeme *at; /* the current token */
    /* The first unknown filter or test that is certainly reached; like Jinja2, the parser accepts
     * one in the branch of an if, until that branch runs. */
    const struct sp_jinja_node *unknown;
    unsigned depth;
    unsigned surplus;             /* SP_JINJA_TAKES_... bits of the names that were used */
    unsigned loops;               /* loops around this place; break and continue need one */
    struct sp_jinja_node no_node; /* stands for a node that could not be made */
};

/* Fails with "template:LINE: " and a message. */
void sp_jinja_reject(struct sp_jinja_parser *p, enum sp_status status, uint32_t line,
                     const char *format, ...) SP_PRINTF(4, 5);
/* Fails by the current token; `wanted` is for the message. */
void sp_jinja_unexpected(struct sp_jinja_parser *p, const char *wanted);
struct sp_jinja_node *sp_jinja_new_node(struct sp_jinja_parser *p, enum sp_jinja_kind kind);
/* Consumes a token; another one is a failure. */
void sp_jinja_expect(struct sp_jinja_parser *p, enum sp_jinja_token token);
bool sp_jinja_is_at(const struct sp_jinja_parser *p, const char *name);
bool sp_jinja_skip_name(struct sp_jinja_parser *p, const char *name);
bool sp_jinja_skip(struct sp_jinja_parser *p, enum sp_jinja_token token);
/* Begins a nested part, which ends by p->depth--. */
void sp_jinja_enter(struct sp_jinja_parser *p);

struct sp_jinja_node *sp_jinja_parse_expression(struct sp_jinja_parser *p);
/* Parses an expression, or several with commas as a tuple. `stop`: a name that ends it, or NULL. */
struct sp_jinja_node *sp_jinja_parse_tuple(struct sp_jinja_parser *p, bool with_if,
                                           const char *stop);
/* Parses the target of an assignment. */
struct sp_jinja_node *sp_jinja_parse_target(struct sp_jinja_parser *p, bool with_fields);
/* Parses a chain of filters on `input` (NULL: a block's text). at_name: after the first pipe. */
struct sp_jinja_node *sp_jinja_parse_filters(struct sp_jinja_parser *p, struct sp_jinja_node *input,
                                             bool at_name);

#endif
