/* The search trees of added tokens in a compiled tokenizer; used by tokmap_write.c. */
#ifndef SP_FORMAT_TOKENIZER_TOKMAP_TREE_H
#define SP_FORMAT_TOKENIZER_TOKMAP_TREE_H

#include "format/tokenizer/vocab.h"

/* The tree, as format/tokenizer/tokmap.h describes it, of the tokens that are sought after
 * normalization, or of those sought before it. *out owned by the caller (free), *size 0 when there
 * are none. */
SP_MUST_CHECK enum sp_status sp_tokmap_make_tree(uint8_t **out, size_t *size,
                                                 const struct sp_vocab *vocab, bool normalized,
                                                 struct sp_err *err);

#endif
