/* tokenizer.json compiled to the form that packed files hold and that is used in place
 * (format/tokenizer/tokmap.h). */
#ifndef SP_FORMAT_TOKENIZER_TOKMAP_WRITE_H
#define SP_FORMAT_TOKENIZER_TOKMAP_WRITE_H

#include "format/tokenizer/vocab.h"

/* The search trees of added tokens in a compiled tokenizer; used by tokmap_write.c. */

/* The tree, as format/tokenizer/tokmap.h describes it, of the tokens that are sought after
 * normalization, or of those sought before it. *out owned by the caller (free), *size 0 when there
 * are none. */
SP_MUST_CHECK enum sp_status sp_tokmap_make_tree(uint8_t **out, size_t *size,
                                                 const struct sp_vocab *vocab, bool normalized,
                                                 struct sp_err *err);

/* Compiles the text of a tokenizer.json: *blob owned by the caller (free), the same bytes for the
 * same input. *warning (may be NULL): NULL or one sentence for the user, owned by the caller
 * (free). */
SP_MUST_CHECK enum sp_status sp_vocab_compile(uint8_t **blob, size_t *size,
                                              const struct sp_text *json,
                                              const struct sp_text *config, char **warning,
                                              struct sp_err *err);

#endif
