/* The parse tree of a Jinja template; private to the jinja_*.c files.
 *
 * One node type for everything: what `a`, `b`, `c`, `list` and `body` hold depends on the kind and
 * is written beside it. Nodes and texts live in the template's heap. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_TREE_H
#define SP_RUNTIME_TEMPLATE_JINJA_TREE_H

#include "runtime/template/jinja.h"

enum jinja_kind {
    /* Expressions */
    J_LITERAL, /* value */
    J_NAME,    /* value: the name */
    J_TUPLE,   /* list */
    J_LIST,    /* list */
    J_DICT,    /* list of J_PAIR */
    J_PAIR,    /* a: key, b: value */
    J_ATTR,    /* a.value */
    J_ITEM,    /* a[b] */
    J_SLICE,   /* a[b:c:body], each may be NULL */
    J_CALL,    /* a(list of J_ARG) */
    J_ARG,     /* a; op: enum jinja_arg; value: the keyword */
    J_FILTER,  /* a|filter(list); a is NULL for the text of a block */
    J_TEST,    /* a is test(list) */
    J_UNARY,   /* op a */
    J_BINARY,  /* a op b */
    J_COMPARE, /* a, then list of J_OPERAND */
    J_OPERAND, /* op a */
    J_AND,     /* a, b */
    J_OR,      /* a, b */
    J_NOT,     /* a */
    J_CONCAT,  /* list, joined by ~ */
    J_COND,    /* b if a else c; c may be NULL */
    /* Statements */
    J_TEXT,         /* value */
    J_OUTPUT,       /* list of expressions */
    J_IF,           /* a: test, body, c: the J_IF of an elif, or list: else */
    J_FOR,          /* a: target, b: iterated, c: test or NULL, body, list: else; op: recursive */
    J_SET,          /* a: target, b: value */
    J_SET_BLOCK,    /* a: target, b: chain of J_FILTER or NULL, body */
    J_WITH,         /* list of J_SET, body */
    J_MACRO,        /* value: name, list of J_PARAM, body; op: what surplus arguments it uses */
    J_PARAM,        /* value: name, a: default or NULL */
    J_CALL_BLOCK,   /* a: the J_CALL, list of J_PARAM, body; op as above */
    J_FILTER_BLOCK, /* b: chain of J_FILTER, body */
    J_SCOPE,        /* body, in a scope of its own */
    J_BREAK,
    J_CONTINUE,
    /* Targets of assignment: J_NAME, J_TUPLE of targets, or */
    J_FIELD, /* value: the variable that holds a namespace, b: J_LITERAL with the field's name */
};

enum { JINJA_TAKES_VARARGS = 1, JINJA_TAKES_KWARGS = 2, JINJA_TAKES_CALLER = 4 };

enum jinja_arg { J_ARG_PLAIN, J_ARG_KEYWORD, J_ARG_STAR, J_ARG_STARS };

/* Operators, and other tokens of expressions. */
enum jinja_token {
    T_END, /* of the template */
    T_TEXT,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_VAR_BEGIN,
    T_VAR_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_DIV,
    T_FLOORDIV,
    T_MUL,
    T_MOD,
    T_POW,
    T_TILDE,
    T_LBRACKET,
    T_RBRACKET,
    T_LPAREN,
    T_RPAREN,
    T_LBRACE,
    T_RBRACE,
    T_EQ,
    T_NE,
    T_GT,
    T_GE,
    T_LT,
    T_LE,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON,
    T_IN,     /* only as an operator of J_OPERAND */
    T_NOT_IN, /* likewise */
};

struct jinja_node {
    uint8_t kind;
    uint8_t op;
    uint32_t line;
    struct sp_value value;
    const struct jinja_filter *filter; /* J_FILTER; NULL: unknown, an error when it is reached */
    const struct jinja_test *test;     /* J_TEST */
    struct jinja_node *a, *b, *c, *list, *body;
    struct jinja_node *next; /* of a list or body */
};

struct sp_jinja {
    struct sp_heap heap;
    struct jinja_node *body;
};

/* One token; its text lies in the heap or in the template. */
struct jinja_lexeme {
    uint8_t token;
    uint32_t line;
    struct sp_value value; /* T_TEXT, T_NAME, T_STRING, T_INT, T_FLOAT */
};

/* All tokens of a template, ending with T_END. */
SP_MUST_CHECK enum sp_status sp_jinja_lex(struct jinja_lexeme **out, size_t *n, const char *text,
                                          size_t size, struct sp_heap *heap);
const char *sp_jinja_token_name(enum jinja_token token);

struct jinja_parser {
    struct sp_heap *heap;
    const struct jinja_lexeme *at; /* the current token */
    unsigned depth;
    unsigned surplus; /* JINJA_TAKES_..: names seen */
    unsigned loops;   /* loops around: break and continue need one */
};

SP_MUST_CHECK enum sp_status sp_jinja_new_node(struct jinja_parser *p, struct jinja_node **out,
                                               enum jinja_kind kind);
SP_MUST_CHECK enum sp_status sp_jinja_expect(struct jinja_parser *p, enum jinja_token token);
bool sp_jinja_at_name(const struct jinja_parser *p, const char *name);
bool sp_jinja_skip_name(struct jinja_parser *p, const char *name);
bool sp_jinja_skip(struct jinja_parser *p, enum jinja_token token);
SP_MUST_CHECK enum sp_status sp_jinja_enter(struct jinja_parser *p);

SP_MUST_CHECK enum sp_status sp_jinja_parse_expression(struct jinja_parser *p,
                                                       struct jinja_node **out);
/* Without `a if b else c`: the iterated of a for, whose own `if` follows. */
SP_MUST_CHECK enum sp_status sp_jinja_parse_plain(struct jinja_parser *p, struct jinja_node **out);
/* One expression, or several with commas as a tuple. `stop`: a name that ends it, or NULL. */
SP_MUST_CHECK enum sp_status sp_jinja_parse_tuple(struct jinja_parser *p, struct jinja_node **out,
                                                  bool with_if, const char *stop);
/* The target of an assignment. */
SP_MUST_CHECK enum sp_status sp_jinja_parse_target(struct jinja_parser *p, struct jinja_node **out,
                                                   bool with_fields);
/* A filter and those piped behind it, applied to `input` (NULL: a block's text). */
SP_MUST_CHECK enum sp_status sp_jinja_parse_filters(struct jinja_parser *p, struct jinja_node **out,
                                                    struct jinja_node *input, bool begun);
/* `(a, b=1)`: the arguments of a call, as a list of J_ARG; or its postfix on `callee`. */
SP_MUST_CHECK enum sp_status sp_jinja_parse_postfix(struct jinja_parser *p, struct jinja_node **at);

SP_MUST_CHECK enum sp_status sp_jinja_parse(struct jinja_node **body, struct jinja_parser *p);

/* Refuses filters and tests that do not exist, wherever they are sure to be reached: Jinja2 too
 * lets them stand in the branch of an if until then. */
SP_MUST_CHECK enum sp_status sp_jinja_check_names(const struct jinja_node *body,
                                                  struct sp_err *err);

#endif
