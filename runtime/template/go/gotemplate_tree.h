/* The parse tree of a Go template; private to the gotemplate_*.c files. */
#ifndef SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_TREE_H
#define SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_TREE_H

#include "runtime/template/go/gotemplate.h"

enum sp_go_kind {
    SP_N_TEXT,     /* value */
    SP_N_ACTION,   /* a: pipe */
    SP_N_IF,       /* a: pipe, body, other */
    SP_N_WITH,     /* as SP_N_IF */
    SP_N_RANGE,    /* as SP_N_IF */
    SP_N_TEMPLATE, /* value: name, a: pipe or NULL */
    SP_N_BREAK,
    SP_N_CONTINUE,
    SP_N_PIPE,    /* list of SP_N_COMMAND; declares: names of variables; assigns */
    SP_N_COMMAND, /* list of arguments, the first is the callee */
    SP_N_DOT,
    SP_N_NIL,
    SP_N_LITERAL,  /* value */
    SP_N_FIELD,    /* names: .A.B */
    SP_N_VARIABLE, /* value: $x, names: the .A.B after it */
    SP_N_CHAIN,    /* a: operand, names: those after it */
    SP_N_FUNCTION, /* value: name, function */
};

struct sp_go_node {
    uint8_t kind;
    bool assigns;              /* SP_N_PIPE: = instead of := */
    bool cut;                  /* after the first .Response */
    bool chained;              /* `else if`: this node is the else list of the one before it */
    uint32_t line, begin, end; /* begin, end: byte offsets in the template */
    struct sp_value value;
    const struct sp_go_function *function;
    struct sp_list *names; /* texts */
    struct sp_go_node *a, *list, *body, *other;
    struct sp_go_node *next;
};

struct sp_go_define {
    struct sp_value name;
    struct sp_go_node *body;
    struct sp_go_define *next;
};

struct sp_gotemplate {
    struct sp_heap heap;
    char *text; /* in the heap */
    struct sp_go_node *body;
    struct sp_go_define *defines;
    bool appends_response; /* mentions neither .Messages nor .Response */
};

#endif
