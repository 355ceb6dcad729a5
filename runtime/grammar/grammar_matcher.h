/* Reads a text byte by byte and knows at each place which bytes a grammar allows next.
 *
 * A state is the set of all ways in which the text so far can be read: each a place in the grammar
 * and a stack of the calls that led there. Stacks share what they have in common, and a state that
 * was met before is the same number again, so what was once found out of a state is kept: where a
 * byte leads is looked up in a table that fills as it is asked for. A state is a number: it is
 * copied, compared, and returned to for nothing.
 *
 * A text that can be read in more than SP_GRAMMAR_MATCHER_ITEMS ways at once counts as not allowed:
 * a grammar from a stranger must not take memory and time without end. Which texts these are does
 * not depend on what was asked before. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_MATCHER_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_MATCHER_H

#include "runtime/grammar/grammar.h"

enum { SP_GRAMMAR_MATCHER_ITEMS = 4096 };

enum {
    SP_STATE_DEAD = 0,
    SP_STATE_START = 1
}; /* states: after a byte that was not allowed; of "" */

struct sp_grammar_matcher;

/* The grammar is borrowed. SP_E_INPUT: its beginning can be read in too many ways. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_open(struct sp_grammar_matcher **out,
                                                     const struct sp_grammar *grammar,
                                                     struct sp_err *err);
void sp_grammar_matcher_close(struct sp_grammar_matcher *matcher); /* NULL is fine */

/* *state, not SP_STATE_DEAD, becomes the one after a byte. SP_E_INPUT: the states take too much
 * memory altogether. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_step(struct sp_grammar_matcher *matcher,
                                                     uint32_t *state, uint8_t byte,
                                                     struct sp_err *err);

/* The same for several bytes, until one is refused. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_read(struct sp_grammar_matcher *matcher,
                                                     uint32_t *state, const char *text, size_t len,
                                                     struct sp_err *err);
/* And for the token that the grammar has under a number. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_read_own(struct sp_grammar_matcher *matcher,
                                                         uint32_t *state, size_t number,
                                                         struct sp_err *err);

bool sp_grammar_matcher_may_end(const struct sp_grammar_matcher *matcher, uint32_t state);

/* *bytes = those that may follow, *n of them. `most`: more of them are not looked for. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_bytes(struct sp_grammar_matcher *matcher,
                                                      uint32_t state, struct sp_byte_set *bytes,
                                                      size_t *n, size_t most, struct sp_err *err);

/* Did any text count as not allowed for the ways in which it can be read? */
bool sp_grammar_matcher_was_ambiguous(const struct sp_grammar_matcher *matcher);

size_t sp_grammar_matcher_n_states(const struct sp_grammar_matcher *matcher);

/* More has been learned than is worth keeping: sp_grammar_matcher_forget is due. */
bool sp_grammar_matcher_is_full(const struct sp_grammar_matcher *matcher);

/* How much work was done for a question since it began: places looked at on the way from one state
 * to the next, as if nothing had been known when it began. So what a question costs says nothing of
 * what was asked before it. */
void sp_grammar_matcher_begin_probe(struct sp_grammar_matcher *matcher);
uint64_t sp_grammar_matcher_work(const struct sp_grammar_matcher *matcher);

/* The memory that states may take, 256 MiB unless it is said here. */
void sp_grammar_matcher_bound(struct sp_grammar_matcher *matcher, size_t most_bytes);

/* Forgets all states but SP_STATE_DEAD and SP_STATE_START. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_forget(struct sp_grammar_matcher *matcher,
                                                       struct sp_err *err);

#endif
