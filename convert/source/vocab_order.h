/* Puts the rows of a language model's token tables into another order. */
#ifndef SP_CONVERT_SOURCE_VOCAB_ORDER_H
#define SP_CONVERT_SOURCE_VOCAB_ORDER_H

#include "convert/source/source.h"

/* Row id of embedding, output matrix and its bias becomes rows[id], a permutation of
 * 0..config.n_vocab-1, and the tokenizer becomes that of `target`. Returns SP_E_UNSUPPORTED for a
 * packed file, whose rows cannot be moved, and for a model with more tables than these. */
SP_MUST_CHECK enum sp_status sp_source_reorder_vocab(struct sp_source *source, const uint32_t *rows,
                                                     const struct sp_source *target,
                                                     struct sp_err *err);

#endif
