/* Ids to text, one at a time: what comes out is whole UTF-8 characters at every step.
 *
 * The decoder of a tokenizer is a chain of stages; each keeps what it cannot yet decide (an
 * unfinished character, a run of byte tokens, spaces that may turn out to be the last). The
 * concatenation of everything emitted equals sp_tokenizer_decode of the same ids, which is this
 * very chain, with one exception: a run of byte tokens (<0xE2>) that is complete UTF-8 is emitted
 * at once, although an invalid byte later in the same run would have turned all of the run into
 * U+FFFD. */
#ifndef SP_RUNTIME_TOKENIZER_DETOKENIZE_H
#define SP_RUNTIME_TOKENIZER_DETOKENIZE_H

#include "runtime/tokenizer/tokenizer.h"

struct sp_detokenizer;

/* The tokenizer must outlive it. */
SP_MUST_CHECK enum sp_status sp_detokenizer_open(struct sp_detokenizer **out,
                                                 const struct sp_tokenizer *tok, bool skip_special,
                                                 struct sp_err *err);
void sp_detokenizer_close(struct sp_detokenizer *detok); /* NULL is fine */

/* *text: what this id made certain, maybe nothing; valid UTF-8, not NUL-terminated, borrowed until
 * the next call. */
SP_MUST_CHECK enum sp_status sp_detokenizer_feed(struct sp_detokenizer *detok, uint32_t id,
                                                 const char **text, size_t *size,
                                                 struct sp_err *err);
/* *text: what was held back, an unfinished character as U+FFFD. Begins a new stream. */
SP_MUST_CHECK enum sp_status sp_detokenizer_flush(struct sp_detokenizer *detok, const char **text,
                                                  size_t *size, struct sp_err *err);

#endif
