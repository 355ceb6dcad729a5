/* Reads a text byte by byte and computes after each byte which bytes a grammar allows next.
 *
 * A state is the set of all parses of the text so far: each is an item, which is a node of the
 * grammar and a stack of the calls that led to it. Stacks share their common parts, and equal
 * states have the same number, so results are cached per state: transitions are looked up in a
 * table that is filled on demand. A state is an integer; to copy, compare or restore one costs
 * nothing.
 *
 * A text with more than SP_GRAMMAR_MATCHER_ITEMS parses at once is refused, so that the grammar of
 * an untrusted client cannot take unlimited memory and time. Which texts are refused does not
 * depend on earlier calls. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_MATCHER_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_MATCHER_H

#include "runtime/grammar/grammar.h"

enum { SP_GRAMMAR_MATCHER_ITEMS = 4096 };

/* The state after a byte that is not allowed, and the state of the empty text. */
enum { SP_STATE_DEAD = 0, SP_STATE_START = 1 };

struct sp_grammar_matcher;

/* Borrows the grammar until close. SP_E_INPUT: the empty text has too many parses. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_open(struct sp_grammar_matcher **out,
                                                     const struct sp_grammar *grammar,
                                                     struct sp_err *err);
void sp_grammar_matcher_close(struct sp_grammar_matcher *matcher); /* NULL is fine */

/* Advances *state, not SP_STATE_DEAD, by one byte. SP_E_INPUT: all states take too much memory. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_step(struct sp_grammar_matcher *matcher,
                                                     uint32_t *state, uint8_t byte,
                                                     struct sp_err *err);

/* Advances *state by `len` bytes, or to SP_STATE_DEAD at the first byte that is not allowed. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_read(struct sp_grammar_matcher *matcher,
                                                     uint32_t *state, const char *text, size_t len,
                                                     struct sp_err *err);
/* Advances *state by the grammar's own token with index `number`. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_read_token(struct sp_grammar_matcher *matcher,
                                                           uint32_t *state, size_t number,
                                                           struct sp_err *err);

bool sp_grammar_matcher_may_end(const struct sp_grammar_matcher *matcher, uint32_t state);

/* *bytes = the bytes that may follow, *n = their number. The search stops once *n > most. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_bytes(struct sp_grammar_matcher *matcher,
                                                      uint32_t state, struct sp_byte_set *bytes,
                                                      size_t *n, size_t most, struct sp_err *err);

/* True if any text was refused because it had too many parses. */
bool sp_grammar_matcher_was_ambiguous(const struct sp_grammar_matcher *matcher);

size_t sp_grammar_matcher_n_states(const struct sp_grammar_matcher *matcher);

/* True if the cached states take so much memory that the caller should forget them. */
bool sp_grammar_matcher_is_full(const struct sp_grammar_matcher *matcher);

/* sp_grammar_matcher_work returns the work since sp_grammar_matcher_begin_probe: the number of
 * items visited by all distinct transitions, counted as if no transition had been cached. So the
 * work of a probe does not depend on earlier probes. */
void sp_grammar_matcher_begin_probe(struct sp_grammar_matcher *matcher);
uint64_t sp_grammar_matcher_work(const struct sp_grammar_matcher *matcher);

/* Limits the memory of all states; without a call the limit is 256 MiB. */
void sp_grammar_matcher_bound(struct sp_grammar_matcher *matcher, size_t most_bytes);

/* Drops all states but SP_STATE_DEAD and SP_STATE_START. */
SP_MUST_CHECK enum sp_status sp_grammar_matcher_forget(struct sp_grammar_matcher *matcher,
                                                       struct sp_err *err);

#endif
