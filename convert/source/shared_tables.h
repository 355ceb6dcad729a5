/* Tables that two tensors hold alike and that are stored once: an output matrix that is the
 * embedding, and a draft's embedding that is the target's. */
#ifndef SP_CONVERT_SOURCE_SHARED_TABLES_H
#define SP_CONVERT_SOURCE_SHARED_TABLES_H

#include "convert/source/source.h"

/* Leaves lm_head.weight out where it has the numbers of the embedding; where it has others, a
 * warning says that it is used. Compares the weights, if source->compare_heads. */
SP_MUST_CHECK enum sp_status sp_source_share_head(struct sp_source *source, char **warnings,
                                                  struct sp_err *err);

/* Leaves a draft's embedding out where it is the target's, number for number, and the draft would
 * read the target's as it is stored. Compares the weights. */
SP_MUST_CHECK enum sp_status sp_source_share_embedding(struct sp_source *draft,
                                                       const struct sp_source *target,
                                                       char **warnings, struct sp_err *err);

#endif
