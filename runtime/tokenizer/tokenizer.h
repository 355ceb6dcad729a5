/* Text to ids and back, from a compiled tokenizer (format/tokenizer/tokmap.h).
 *
 * Everything here equals what the `tokenizers` library does with the same tokenizer.json, id for id
 * and byte for byte. A tokenizer is immutable after open: any number of threads may use one at the
 * same time. What other programs use is declared in runtime/spectool.h. Encoding takes linear time
 * in the text, n log n in its longest word. */
#ifndef SP_RUNTIME_TOKENIZER_TOKENIZER_H
#define SP_RUNTIME_TOKENIZER_TOKENIZER_H

#include "runtime/spectool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_TOKEN_NONE UINT32_MAX /* no such token */

/* blob: what sp_vocab_compile made; borrowed until close, never trusted. */
SP_MUST_CHECK enum sp_status sp_tokenizer_open(struct sp_tokenizer **out, const void *blob,
                                               size_t size, struct sp_err *err);
/* Ids are 0 .. n_ids - 1; some of them may name no token. */
uint32_t sp_tokenizer_n_ids(const struct sp_tokenizer *tok);

/* Tokens that tokenizer_config.json names, or SP_TOKEN_NONE. */
uint32_t sp_tokenizer_bos(const struct sp_tokenizer *tok);
uint32_t sp_tokenizer_eos(const struct sp_tokenizer *tok);

/* Does ids[0..n-1] begin with what the post-processor puts before a text? Then how many these are,
 * else 0. */
size_t sp_tokenizer_lead(const struct sp_tokenizer *tok, const uint32_t *ids, size_t n);

/* The token spelled like this in tokenizer.json ("<|im_end|>"), or SP_TOKEN_NONE. */
uint32_t sp_tokenizer_find(const struct sp_tokenizer *tok, const char *content, size_t len);

#endif
