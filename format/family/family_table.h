/* The table of model families (format/config/family_row.h), and how a family is found in it. */
#ifndef SP_FORMAT_FAMILY_FAMILY_TABLE_H
#define SP_FORMAT_FAMILY_FAMILY_TABLE_H

#include "format/config/family_row.h"

#include <stddef.h>

/* The arrays of rows, one per lineage; each ends with a row without a name, and NULL is the last
 * array. Defined in format/family/families/families.c. */
extern const struct sp_family *const sp_lineages[];
/* The multimodal configs; the last one has no name. Defined in families/wrappers.c. */
extern const struct sp_wrapper sp_wrappers[];

/* *out = the row with Llama's way in place of every member that is zero. */
void sp_family_resolve(struct sp_family *out, const struct sp_family *row);

/* Lookup by model_type or architecture. NULL if there is no such row; `name` may be NULL. */
const struct sp_family *sp_family_by_type(const char *name);
const struct sp_family *sp_family_by_architecture(const char *name);
const struct sp_wrapper *sp_wrapper_by_type(const char *name);
const struct sp_wrapper *sp_wrapper_by_architecture(const char *name);

/* Row i of all lineages, NULL after the last. */
const struct sp_family *sp_family_at(size_t i);

#endif
