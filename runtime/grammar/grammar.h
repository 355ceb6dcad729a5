/* What an answer may look like: a language of bytes, as a graph that front ends build and
 * runtime/grammar/grammar_matcher.h walks.
 *
 * A rule is a start node; from a node one goes on by reading a byte out of a set (BYTES), on either
 * of two ways (EITHER), through another rule, which may be run through several times (CALL), or the
 * rule is done (END). Graphs are built from their ends: each function takes the node that follows
 * and returns the one to begin at. So front ends need neither trees nor recursion, and what several
 * ways have for an end is there once.
 *
 * Characters are spelled in UTF-8 here, so that whoever walks need not know of any. A token that
 * stands for no text, such as a mark around a call, is the byte SP_GRAMMAR_TOKEN, which no text
 * has, and its number.
 *
 * While a grammar is built, the first failure is kept and every later call does nothing:
 * sp_grammar_finish tells. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_H

#include "runtime/spectool.h"

enum sp_node_kind { SP_NODE_END, SP_NODE_BYTES, SP_NODE_EITHER, SP_NODE_CALL };

struct sp_node {
    enum sp_node_kind kind;
    uint32_t next;     /* BYTES, EITHER, CALL */
    uint32_t what;     /* BYTES: a set; EITHER: the other way; CALL: a rule */
    uint32_t min, max; /* CALL: times, 1 <= max */
};

enum { SP_GRAMMAR_END = 0, SP_GRAMMAR_NEVER = 1 }; /* nodes that are always there */
enum { SP_GRAMMAR_NODES = 1 << 18, SP_GRAMMAR_SETS = 1 << 12, SP_GRAMMAR_TIMES = 1 << 24 };
enum { SP_GRAMMAR_TEXT = 1 << 19 }; /* bytes of a text that is read as one */
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
    char *name; /* owned; NULL: it has none */
    bool defined;
};

/* Opaque to all but grammar*.c and acceptor.c. */
struct sp_grammar {
    struct sp_node *nodes; /* owned, as everything here */
    size_t n_nodes, cap_nodes;
    struct sp_byte_set *sets; /* 0..255: of one byte each */
    size_t n_sets, cap_sets;
    uint32_t *set_index; /* [2 * SP_GRAMMAR_SETS] set + 1 by hash; 0: free */
    struct sp_grammar_rule *rules;
    size_t n_rules, cap_rules;
    uint32_t *tokens; /* [n_tokens] ids */
    size_t n_tokens, cap_tokens;
    struct sp_err err;
    /* Set by sp_grammar_finish: */
    uint32_t root;
    uint8_t class_of[256]; /* bytes that no set tells apart are of one class */
    uint8_t byte_of[256];  /* [n_classes] one of them */
    uint16_t class_size[256];
    size_t n_classes;
};

SP_MUST_CHECK enum sp_status sp_grammar_new(struct sp_grammar **out, struct sp_err *err);

/* Keeps a failure that a front end has found. */
void sp_grammar_fail(struct sp_grammar *g, enum sp_status status, const char *format, ...)
    SP_PRINTF(3, 4);

/* Rules may be called before they are defined. name: copied, may be NULL; for messages. */
uint32_t sp_grammar_rule(struct sp_grammar *g, const char *name, size_t len);
void sp_grammar_define(struct sp_grammar *g, uint32_t rule, uint32_t start);

uint32_t sp_grammar_text(struct sp_grammar *g, const char *text, size_t len, uint32_t next);
uint32_t sp_grammar_bytes(struct sp_grammar *g, const struct sp_byte_set *set, uint32_t next);
uint32_t sp_grammar_token(struct sp_grammar *g, uint32_t id, uint32_t next);
uint32_t sp_grammar_either(struct sp_grammar *g, uint32_t a, uint32_t b);

/* A way back: a node that can be gone on from before it is known where to. */
uint32_t sp_grammar_fork(struct sp_grammar *g);
void sp_grammar_join(struct sp_grammar *g, uint32_t fork, uint32_t a, uint32_t b);

/* A rule min to max times, at most SP_GRAMMAR_TIMES; max SP_NO_LIMIT: any number. */
uint32_t sp_grammar_call(struct sp_grammar *g, uint32_t rule, uint32_t min, uint32_t max,
                         uint32_t next);

/* A rule for all that a finished grammar, which has no tokens, allows; it is copied. */
uint32_t sp_grammar_include(struct sp_grammar *g, const struct sp_grammar *other);

/* Checks what was built; no change after it. SP_E_INPUT: a rule that is called is not defined, or
 * calls itself before it has read anything (left recursion, which an acceptor could not walk). */
SP_MUST_CHECK enum sp_status sp_grammar_finish(struct sp_grammar *g, uint32_t root,
                                               struct sp_err *err);

#endif
