/* Merging an adapter into a source. */
#ifndef SP_CONVERT_SOURCE_SOURCE_ADAPTER_H
#define SP_CONVERT_SOURCE_SOURCE_ADAPTER_H

#include "convert/source/source.h"

/* Finds the places of the changes of the adapter at `path` in a target, as source->merge, and
 * leaves its texts as they are. At most once; the source is released by the caller on failure, too.
 */
SP_MUST_CHECK enum sp_status sp_source_place(struct sp_source *source, const char *path,
                                             char **warnings, struct sp_err *err);

/* Merges the adapter at `path` into a target: its weights are then the merged ones, and its texts
 * record the adapter. At most once, before anything is planned; the source is released by the
 * caller on failure, too. */
SP_MUST_CHECK enum sp_status sp_source_merge(struct sp_source *source, const char *path,
                                             char **warnings, struct sp_err *err);

#endif
