/* Tables that two tensors share and that are stored once: an output matrix equal to the embedding,
 * and a draft's embedding equal to the target's. */
#ifndef SP_CONVERT_SOURCE_SHARED_TABLES_H
#define SP_CONVERT_SOURCE_SHARED_TABLES_H

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

#endif
