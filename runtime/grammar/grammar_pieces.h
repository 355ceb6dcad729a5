/* A sequence that is read from left to right, for a graph that is built from right to left: front
 * ends whose notation is a text (GBNF, regular expressions) lay pieces down as they read them, and
 * join them when the sequence is over. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_PIECES_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_PIECES_H

#include "format/base/strbuf.h"
#include "runtime/grammar/grammar.h"
#include "runtime/grammar/grammar_chars.h"

enum sp_grammar_piece_kind { SP_GRAMMAR_PIECE_CHARS, SP_GRAMMAR_PIECE_TEXT, SP_GRAMMAR_PIECE_RULE };

struct sp_grammar_piece {
    enum sp_grammar_piece_kind kind;
    size_t first, n; /* of ranges or bytes */
    uint32_t rule;
    uint32_t min, max; /* times */
};

/* How characters become nodes: sp_grammar_chars, or something that escapes some of them. */
typedef uint32_t sp_spell_fn(struct sp_grammar *g, const struct sp_char_range *ranges, size_t n,
                             uint32_t next);

/* Sequences lie behind each other: one that is begun inside another is joined before it. Valid when
 * zeroed but for the first two. */
struct sp_grammar_pieces {
    struct sp_grammar *g; /* borrowed; told of failures */
    sp_spell_fn *spell;
    struct sp_grammar_piece *at; /* [n] owned */
    size_t n, cap;
    struct sp_char_range *ranges; /* owned */
    size_t n_ranges, cap_ranges;
    struct sp_strbuf text;
};
void sp_grammar_pieces_release(struct sp_grammar_pieces *pieces);

/* Each once. Of ranges that are given as what they are not, `negated`. */
void sp_grammar_pieces_add_chars(struct sp_grammar_pieces *pieces,
                                 const struct sp_char_range *ranges, size_t n, bool negated);
void sp_grammar_pieces_add_text(struct sp_grammar_pieces *pieces, const char *text, size_t len);
void sp_grammar_pieces_add_rule(struct sp_grammar_pieces *pieces, uint32_t rule);

/* The last one so many times. */
void sp_grammar_pieces_repeat(struct sp_grammar_pieces *pieces, uint32_t min, uint32_t max);

/* The node at which pieces first.. begin; they are gone. */
uint32_t sp_grammar_pieces_join(struct sp_grammar_pieces *pieces, size_t first, uint32_t next);

#endif
