/* Converts ids to text, one at a time; every output consists of whole UTF-8 characters.
 *
 * The decoder of a tokenizer is a pipeline of stages; each keeps back what it cannot decide yet
 * (an unfinished character, a run of byte tokens, spaces that may be the last). The concatenation
 * of all outputs equals sp_tokenizer_decode of the same ids, which runs the same pipeline, with
 * one exception: a run of byte tokens (<0xE2>) that is complete UTF-8 is returned at once,
 * although an invalid byte later in the run would have turned the whole run into U+FFFD. */
#ifndef SP_RUNTIME_TOKENIZER_DETOKENIZE_H
#define SP_RUNTIME_TOKENIZER_DETOKENIZE_H

#include "runtime/tokenizer/tokenizer.h"

struct sp_detokenizer;

/* Opens a stream; the tokenizer must outlive it. */
SP_MUST_CHECK enum sp_status sp_detokenizer_open(struct sp_detokenizer **out,
                                                 const struct sp_tokenizer *tok, bool skip_special,
                                                 struct sp_err *err);
void sp_detokenizer_close(struct sp_detokenizer *detok); /* NULL is fine */

/* Feeds one id. *text: the text that became certain, perhaps empty; valid UTF-8, not NUL-
 * terminated, borrowed until the next call. */
SP_MUST_CHECK enum sp_status sp_detokenizer_feed(struct sp_detokenizer *detok, uint32_t id,
                                                 const char **text, size_t *size,
                                                 struct sp_err *err);
/* Ends the text and begins a new one. *text: the text that was kept back, with U+FFFD for an
 * unfinished character; borrowed until the next call. */
SP_MUST_CHECK enum sp_status sp_detokenizer_flush(struct sp_detokenizer *detok, const char **text,
                                                  size_t *size, struct sp_err *err);

#endif
