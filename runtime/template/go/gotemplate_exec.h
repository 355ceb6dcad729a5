/* The parse tree of a Go template and its execution: state, functions, data, and how values are
 * printed; private to the gotemplate_*.c files. */
#ifndef SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_EXEC_H
#define SP_RUNTIME_TEMPLATE_GO_GOTEMPLATE_EXEC_H

#include "runtime/template/go/gotemplate.h"
#include "runtime/template/value/value.h"

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
    const char *text; /* borrowed */
    struct sp_go_node *body;
    struct sp_go_define *defines;
    struct sp_list *fields; /* names of the fields that it mentions, with a NUL */
    bool appends_response;  /* mentions neither .Messages nor .Response */
};

struct sp_go_variable {
    struct sp_value name, value;
};

struct sp_go_machine {
    struct sp_heap *heap;
    struct sp_builder *out;
    const struct sp_gotemplate *tree;
    enum sp_gotemplate_part part;
    struct sp_template_time now;
    struct sp_go_variable *vars;   /* [n_vars], a stack */
    size_t n_vars, cap_vars, base; /* base: the first variable of the current template */
    unsigned depth;
    const struct sp_go_node *at; /* current node, for errors */
};

/* Fails with a message that begins with the place of the current node; returns an absent value. */
struct sp_value sp_go_fail(struct sp_go_machine *m, const char *format, ...) SP_PRINTF(2, 3);
bool sp_go_truth(struct sp_value v);
bool sp_go_is_nil(struct sp_value v);
bool sp_go_is_struct(struct sp_value v);
const char *sp_go_type_name(struct sp_value v);

/* A row of the table of functions. */
struct sp_go_function {
    const char *name;
    int least, most; /* arguments; most -1: any number */
    struct sp_value (*run)(struct sp_go_machine *m, const struct sp_value *arg, size_t n);
};

/* Finds a function; NULL: there is none. `and` and `or` have no `run`, because they do not
 * evaluate all arguments. */
const struct sp_go_function *sp_go_find_function(struct sp_value name);

/* Append fmt.Fprint of one value, Sprint or (line) Sprintln, Sprintf, and json.Marshal. */
void sp_go_build(struct sp_builder *b, struct sp_value v);
void sp_go_print(struct sp_builder *b, const struct sp_value *arg, size_t n, bool line);
void sp_go_printf(struct sp_builder *b, struct sp_value format, const struct sp_value *arg,
                  size_t n);
void sp_go_json(struct sp_builder *b, struct sp_value v);

/* Make the values that ollama passes to a template, from JSON with Go's or JSON's field names. */
struct sp_value sp_go_message(struct sp_heap *heap, const struct sp_json *json);
struct sp_value sp_go_tools(struct sp_heap *heap, const struct sp_json *json);

/* Sets `cut` in the nodes that ollama cuts off for the last turn (gotemplate_cut.c). */
void sp_gotemplate_cut(struct sp_go_node *body);

/* ---- tokens (gotemplate_lex.c) ---- */

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

/* Splits a template into tokens, the last of which is SP_G_END; NULL: a failure. */
const struct sp_go_lexeme *sp_go_lex(const char *text, size_t size, struct sp_heap *heap);

#endif
