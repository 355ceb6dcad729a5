/* The config of one part of a packed file. */
#ifndef SP_FORMAT_FAMILY_CONFIG_PACKED_H
#define SP_FORMAT_FAMILY_CONFIG_PACKED_H

#include "format/config/config.h"
#include "format/packfile.h"

/* Reads the config of a part, parses it and settles it by the tensors of the part. On failure *out
 * is zeroed. The caller frees it by sp_config_release. */
SP_MUST_CHECK enum sp_status sp_config_of_pack(struct sp_config *out, const struct sp_pack *pack,
                                               enum sp_part part, struct sp_err *err);

#endif
