/* The parse tree of a Jinja template; private to the jinja_*.c files.
 *
 * All nodes have one type: the meaning of `a`, `b`, `c`, `list` and `body` depends on the kind and
 * is written next to it. Nodes and texts are in the template's heap. */
#ifndef SP_RUNTIME_TEMPLATE_JINJA_JINJA_TREE_H
#define SP_RUNTIME_TEMPLATE_JINJA_JINJA_TREE_H

#include "runtime/template/jinja/jinja.h"

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

struct sp_jinja {
    struct sp_heap heap;
    struct sp_jinja_node *body;
};

#endif
