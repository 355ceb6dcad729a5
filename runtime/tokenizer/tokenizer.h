/* Text to ids and back, with a compiled tokenizer (format/tokenizer/tokmap.h).
 *
 * The results equal those of the `tokenizers` library with the same tokenizer.json, id for id and
 * byte for byte. A tokenizer is immutable after open: any number of threads may use it at the same
 * time. The public functions are declared in runtime/spectool.h. Encoding takes linear time in the
 * text, and n log n in its longest word. */
#ifndef SP_RUNTIME_TOKENIZER_TOKENIZER_H
#define SP_RUNTIME_TOKENIZER_TOKENIZER_H

#include "runtime/spectool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_TOKEN_NONE UINT32_MAX /* no token */

/* Opens a block of sp_vocab_compile; borrowed until close, and checked like an untrusted file. */
SP_MUST_CHECK enum sp_status sp_tokenizer_open(struct sp_tokenizer **out, const void *blob,
                                               size_t size, struct sp_err *err);
/* The number of ids, 0 .. n_ids - 1; some of them may have no token. */
uint32_t sp_tokenizer_n_ids(const struct sp_tokenizer *tok);

/* The end-of-sequence token that tokenizer_config.json names, or SP_TOKEN_NONE. */
uint32_t sp_tokenizer_eos(const struct sp_tokenizer *tok);

/* If ids[0..n-1] begins with the tokens that the post-processor puts before a text, returns their
 * number, else 0. */
size_t sp_tokenizer_lead(const struct sp_tokenizer *tok, const uint32_t *ids, size_t n);

/* SP_E_UNSUPPORTED if the tokenizer is NULL, as that of a file without one is. */
SP_MUST_CHECK enum sp_status sp_tokenizer_expect(const struct sp_tokenizer *tok,
                                                 struct sp_err *err);

/* The number of tokens that the post-processor puts after a text. */
size_t sp_tokenizer_n_tail(const struct sp_tokenizer *tok);

/* The token with this spelling in tokenizer.json ("<|im_end|>"), or SP_TOKEN_NONE. */
uint32_t sp_tokenizer_find(const struct sp_tokenizer *tok, const char *content, size_t len);

/* ---- ids to text, one at a time (detokenize.c) ----
 *
 * Every output consists of whole UTF-8 characters.
 *
 * The decoder of a tokenizer is a pipeline of stages; each keeps back what it cannot decide yet
 * (an unfinished character, a run of byte tokens, spaces that may be the last). The concatenation
 * of all outputs equals sp_tokenizer_decode of the same ids, which runs the same pipeline, with
 * one exception: a run of byte tokens (<0xE2>) that is complete UTF-8 is returned at once,
 * although an invalid byte later in the run would have turned the whole run into U+FFFD. */

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
