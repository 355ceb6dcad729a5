/* Text to ids and back, from a compiled tokenizer (format/tokenizer/tokmap.h).
 *
 * Everything here equals what the `tokenizers` library does with the same tokenizer.json, id for id
 * and byte for byte. A tokenizer is immutable after open: any number of threads may use one at the
 * same time. Encoding takes linear time in the text, n log n in its longest word. */
#ifndef SP_RUNTIME_TOKENIZER_TOKENIZER_H
#define SP_RUNTIME_TOKENIZER_TOKENIZER_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_tokenizer;

#define SP_TOKEN_NONE UINT32_MAX /* no such token */

/* blob: what sp_vocab_compile made; borrowed until close, never trusted. */
SP_MUST_CHECK enum sp_status sp_tokenizer_open(struct sp_tokenizer **out, const void *blob,
                                               size_t size, struct sp_err *err);
void sp_tokenizer_close(struct sp_tokenizer *tok); /* NULL is fine */

/* Ids are 0 .. n_ids - 1; some of them may name no token. */
uint32_t sp_tokenizer_n_ids(const struct sp_tokenizer *tok);

/* Tokens that tokenizer_config.json names, or SP_TOKEN_NONE. */
uint32_t sp_tokenizer_bos(const struct sp_tokenizer *tok);
uint32_t sp_tokenizer_eos(const struct sp_tokenizer *tok);

/* Does ids[0..n-1] begin with what the post-processor puts before a text? Then how many these are,
 * else 0. */
size_t sp_tokenizer_lead(const struct sp_tokenizer *tok, const uint32_t *ids, size_t n);

/* flags: enum sp_encode_flags (runtime/spectool.h). text must be valid UTF-8 (SP_E_INPUT) and may
 * hold NULs. *ids owned by the caller (free), valid also when *n is 0. */
SP_MUST_CHECK enum sp_status sp_tokenizer_encode(const struct sp_tokenizer *tok, const char *text,
                                                 size_t size, unsigned flags, uint32_t **ids,
                                                 size_t *n, struct sp_err *err);

/* Ids that name no token are skipped (rows of the embedding beyond the vocabulary). *text owned by
 * the caller (free), NUL-terminated, valid UTF-8. */
SP_MUST_CHECK enum sp_status sp_tokenizer_decode(const struct sp_tokenizer *tok,
                                                 const uint32_t *ids, size_t n, bool skip_special,
                                                 char **text, size_t *size, struct sp_err *err);

/* The token spelled like this in tokenizer.json ("<|im_end|>"), or SP_TOKEN_NONE. */
uint32_t sp_tokenizer_find(const struct sp_tokenizer *tok, const char *content, size_t len);

struct sp_token_info {
    const char *bytes; /* the token's own bytes, borrowed; of a byte-level token maybe no UTF-8 */
    size_t len;
    bool special; /* left out by skip_special */
    bool added;   /* cut out of the text whole before anything else happens to it */
};
/* False where the id names no token. */
bool sp_tokenizer_token(const struct sp_tokenizer *tok, uint32_t id, struct sp_token_info *out);

#endif
