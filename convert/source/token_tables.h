/* Tables with a row or an entry for each token: an output matrix equal to the embedding and a
 * draft's embedding equal to the target's are stored once; a model's tokens may take the order of
 * another vocabulary; and tables of token ids (the order that a clustered head scores by, the map
 * of an EAGLE-3 draft's vocabulary) are checked before anything is written. */
#ifndef SP_CONVERT_SOURCE_TOKEN_TABLES_H
#define SP_CONVERT_SOURCE_TOKEN_TABLES_H

#include "convert/source/source.h"

/* Leaves lm_head.weight out if its numbers equal those of the embedding; if they differ, a warning
 * says that lm_head.weight is used. The weights are compared only if source->compare_heads is set.
 */
SP_MUST_CHECK enum sp_status sp_source_share_head(struct sp_source *source, char **warnings,
                                                  struct sp_err *err);

/* Leaves a draft's embedding out if its numbers equal those of the target's embedding and the
 * draft can read the target's stored table. Compares the weights. */
SP_MUST_CHECK enum sp_status sp_source_share_embedding(struct sp_source *draft,
                                                       const struct sp_source *target,
                                                       char **warnings, struct sp_err *err);

/* Row id of embedding, output matrix and its bias becomes rows[id], a permutation of
 * 0..config.n_vocab-1, and the tokenizer becomes that of `target`. Returns SP_E_UNSUPPORTED for a
 * packed file, whose rows cannot be moved, and for a model with more tables than these. */
SP_MUST_CHECK enum sp_status sp_source_reorder_vocab(struct sp_source *source, const uint32_t *rows,
                                                     const struct sp_source *target,
                                                     struct sp_err *err);

/* SP_E_INPUT unless the tables of token ids that the source has are right: an order that holds each
 * id once, a map to ascending ids. Their type is one that can be read (the source has been
 * planned). */
SP_MUST_CHECK enum sp_status sp_token_tables_verify(const struct sp_source *source,
                                                    struct sp_err *err);

#endif
