/* The parse tree of a Go template, and the machine that walks it; private to the gotemplate_*.c
 * files. */
#ifndef SP_RUNTIME_TEMPLATE_GOTEMPLATE_TREE_H
#define SP_RUNTIME_TEMPLATE_GOTEMPLATE_TREE_H

#include "runtime/template/gotemplate.h"

enum go_token {
    G_END,
    G_TEXT,
    G_LEFT,  /* {{ */
    G_RIGHT, /* }} */
    G_LPAREN,
    G_RPAREN,
    G_PIPE,
    G_ASSIGN,
    G_DECLARE,
    G_COMMA,
    G_OTHER, /* another ASCII character */
    G_LITERAL,
    G_NIL,
    G_DOT,
    G_FIELD,
    G_VARIABLE, /* with its $ */
    G_NAME,     /* of a function */
    G_KEYWORD,
};

struct go_lexeme {
    uint8_t token;
    bool spaced;               /* white space before it */
    uint32_t line, begin, end; /* bytes in the template */
    struct sp_value value;     /* text, name, literal */
};

enum go_kind {
    N_TEXT,     /* value */
    N_ACTION,   /* a: pipe */
    N_IF,       /* a: pipe, body, other */
    N_WITH,     /* as N_IF */
    N_RANGE,    /* as N_IF */
    N_TEMPLATE, /* value: name, a: pipe or NULL */
    N_BREAK,
    N_CONTINUE,
    N_PIPE,    /* list of N_COMMAND; declares: names of variables; assigns */
    N_COMMAND, /* list of arguments, the first is the callee */
    N_DOT,
    N_NIL,
    N_LITERAL,  /* value */
    N_FIELD,    /* names: .A.B */
    N_VARIABLE, /* value: $x, names: .A.B behind it */
    N_CHAIN,    /* a: operand, names behind it */
    N_FUNCTION, /* value: name, function */
};

struct go_node {
    uint8_t kind;
    bool assigns;              /* N_PIPE: = instead of := */
    bool cut;                  /* behind the first .Response */
    bool chained;              /* `else if`: stands for the else list of the one before */
    uint32_t line, begin, end; /* bytes in the template */
    struct sp_value value;
    const struct go_function *function;
    struct sp_list *names; /* texts */
    struct go_node *a, *list, *body, *other;
    struct go_node *next;
};

struct go_define {
    struct sp_value name;
    struct go_node *body;
    struct go_define *next;
};

struct sp_gotemplate {
    struct sp_heap heap;
    char *text; /* in the heap */
    struct go_node *body;
    struct go_define *defines;
    bool appends_response; /* mentions neither .Messages nor .Response */
};

SP_MUST_CHECK enum sp_status sp_go_lex(struct go_lexeme **out, const char *text, size_t size,
                                       struct sp_heap *heap);

struct go_variable {
    struct sp_value name, value;
};

struct go_machine {
    struct sp_heap *heap;
    struct sp_builder *out;
    const struct sp_gotemplate *tree;
    enum sp_gotemplate_part part;
    struct sp_template_time now;
    struct go_variable *vars;      /* [n_vars], a stack */
    size_t n_vars, cap_vars, base; /* base: where those of this template begin */
    unsigned depth;
    const struct go_node *at; /* for errors */
};

struct go_function {
    const char *name;
    int least, most; /* arguments; most -1: any number */
    enum sp_status (*run)(struct go_machine *m, struct sp_value *out, const struct sp_value *arg,
                          size_t n);
};

/* NULL: there is none. `and` and `or` have no `run`: they do not evaluate all arguments. */
const struct go_function *sp_go_find_function(struct sp_value name);

SP_MUST_CHECK enum sp_status sp_go_fail(struct go_machine *m, const char *format, ...)
    SP_PRINTF(2, 3);
bool sp_go_truth(struct sp_value v);
const char *sp_go_type_name(struct sp_value v);
/* Keys in Go's order for printing and ranging: sorted. */
SP_MUST_CHECK enum sp_status sp_go_sorted(struct sp_heap *heap, const struct sp_draft_compat **out,
                                          const struct sp_dict *dict);

/* fmt.Fprint of one value, Sprint, Sprintln and Sprintf, json.Marshal. */
SP_MUST_CHECK enum sp_status sp_go_build(struct sp_builder *b, struct sp_value v);
SP_MUST_CHECK enum sp_status sp_go_print(struct sp_builder *b, const struct sp_value *arg, size_t n,
                                         bool line);
SP_MUST_CHECK enum sp_status sp_go_printf(struct sp_builder *b, struct sp_value format,
                                          const struct sp_value *arg, size_t n);
SP_MUST_CHECK enum sp_status sp_go_json(struct sp_builder *b, struct sp_value v);
SP_MUST_CHECK enum sp_status sp_go_build_json_float(struct sp_builder *b, double v);
SP_MUST_CHECK enum sp_status sp_go_quote(struct sp_builder *b, struct sp_value text, bool ascii);

#endif
