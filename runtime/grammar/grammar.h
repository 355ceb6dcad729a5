/* A grammar: a language of bytes, as a graph that front ends build and
 * runtime/grammar/grammar_matcher.h walks.
 *
 * A rule is a start node. A node reads a byte out of a set (BYTES), continues at either of two
 * nodes (EITHER), runs through another rule a number of times (CALL), or ends the rule (END).
 * Graphs are built backwards: each function takes the node that follows and returns the node to
 * begin at. Front ends therefore need neither trees nor recursion, and a common tail of several
 * alternatives exists once.
 *
 * Characters are stored as their bytes in UTF-8. A token without text, such as a tag around a tool
 * call, is stored as the byte SP_GRAMMAR_TOKEN, which valid UTF-8 never contains, and the index of
 * the token.
 *
 * The first failure while a grammar is built is kept, and all later calls do nothing;
 * sp_grammar_finish returns it. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_H

#include "runtime/spectool.h"

enum sp_node_kind { SP_NODE_END, SP_NODE_BYTES, SP_NODE_EITHER, SP_NODE_CALL };

struct sp_node {
    enum sp_node_kind kind;
    uint32_t next;     /* BYTES, EITHER, CALL */
    uint32_t operand;  /* BYTES: a set; EITHER: the other node; CALL: a rule */
    uint32_t min, max; /* CALL: number of repetitions, 1 <= max */
};

enum { SP_GRAMMAR_END = 0, SP_GRAMMAR_NEVER = 1 }; /* nodes of every grammar */
enum { SP_GRAMMAR_NODES = 1 << 18, SP_GRAMMAR_SETS = 1 << 12, SP_GRAMMAR_TIMES = 1 << 24 };
enum { SP_GRAMMAR_TEXT = 1 << 19 }; /* most bytes of a grammar or schema in text form */
enum { SP_GRAMMAR_TOKEN = 0xFF, SP_GRAMMAR_TOKENS = 256 };
#define SP_NO_LIMIT UINT32_MAX

struct sp_byte_set {
    uint64_t bits[4];
};

static inline bool sp_byte_set_has(const struct sp_byte_set *set, uint8_t byte)
{
    return (set->bits[byte / 64] >> byte % 64 & 1) != 0;
}

struct sp_grammar_rule {
    uint32_t start;
    char *name; /* owned; NULL: no name */
    bool defined;
};

/* Private to the grammar*.c files, except for the counts, `tokens`, `err` and `is_narrowed`. */
struct sp_grammar {
    struct sp_node *nodes; /* owned, like all arrays of this struct */
    size_t n_nodes, cap_nodes;
    struct sp_byte_set *sets; /* sets 0..255 have one byte each */
    size_t n_sets, cap_sets;
    uint32_t *set_index; /* [2 * SP_GRAMMAR_SETS] set + 1 by hash; 0: free */
    struct sp_grammar_rule *rules;
    size_t n_rules, cap_rules;
    uint32_t *tokens; /* [n_tokens] ids */
    size_t n_tokens, cap_tokens;
    struct sp_err err;
    bool is_narrowed; /* texts were left out that cannot be said: that none is left is
                       * SP_E_UNSUPPORTED */
    /* sp_grammar_finish sets the members from here on. */
    uint32_t root;
    uint8_t class_of[256]; /* bytes that belong to the same sets have one class */
    uint8_t byte_of[256];  /* [n_classes] one byte of the class */
    uint16_t class_size[256];
    size_t n_classes;
};

SP_MUST_CHECK enum sp_status sp_grammar_new(struct sp_grammar **out, struct sp_err *err);

/* Records a failure of a front end. */
void sp_grammar_fail(struct sp_grammar *g, enum sp_status status, const char *format, ...)
    SP_PRINTF(3, 4);

/* Creates a rule, which may be called before sp_grammar_define sets its start. `name`: copied, may
 * be NULL; for messages. */
uint32_t sp_grammar_rule(struct sp_grammar *g, const char *name, size_t len);
void sp_grammar_define(struct sp_grammar *g, uint32_t rule, uint32_t start);
/* Creates a rule without a name. */
uint32_t sp_grammar_group(struct sp_grammar *g, uint32_t start);

/* Forgets a failure, and the nodes and rules that were created since there were so many. */
void sp_grammar_shrink(struct sp_grammar *g, size_t n_nodes, size_t n_rules);

uint32_t sp_grammar_text(struct sp_grammar *g, const char *text, size_t len, uint32_t next);
uint32_t sp_grammar_string(struct sp_grammar *g, const char *text, uint32_t next); /* with a NUL */
uint32_t sp_grammar_bytes(struct sp_grammar *g, const struct sp_byte_set *set, uint32_t next);
uint32_t sp_grammar_token(struct sp_grammar *g, uint32_t id, uint32_t next);
uint32_t sp_grammar_either(struct sp_grammar *g, uint32_t a, uint32_t b);

/* A node for loops: sp_grammar_fork returns it; sp_grammar_join sets its two successors later. */
uint32_t sp_grammar_fork(struct sp_grammar *g);
void sp_grammar_join(struct sp_grammar *g, uint32_t fork, uint32_t a, uint32_t b);

/* Runs through a rule min to max times, at most SP_GRAMMAR_TIMES; max SP_NO_LIMIT: any number. */
uint32_t sp_grammar_call(struct sp_grammar *g, uint32_t rule, uint32_t min, uint32_t max,
                         uint32_t next);

/* Copies a finished grammar without tokens of its own and returns the rule that matches it. */
uint32_t sp_grammar_include(struct sp_grammar *g, const struct sp_grammar *other);

/* Checks the grammar, which must not change afterwards. SP_E_INPUT: a called rule is not defined,
 * a rule calls itself before it reads a byte (left recursion, which the matcher cannot walk), or no
 * text ends. Ways without an end are removed. */
SP_MUST_CHECK enum sp_status sp_grammar_finish(struct sp_grammar *g, uint32_t root,
                                               struct sp_err *err);

/* Removes from a grammar the ways that no text leads to an end on, so that every prefix that the
 * matcher allows can be completed. */

/* *root becomes SP_GRAMMAR_NEVER if the grammar has no text; *endless = then the first named rule
 * that has none, NULL if none has a name. */
SP_MUST_CHECK enum sp_status sp_grammar_prune(struct sp_grammar *g, uint32_t *root,
                                              const char **endless, struct sp_err *err);

#endif
