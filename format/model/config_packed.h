/* The configuration of a part of a packed file, settled by the tensors that are there. */
#ifndef SP_FORMAT_MODEL_CONFIG_PACKED_H
#define SP_FORMAT_MODEL_CONFIG_PACKED_H

#include "format/model/config.h"
#include "format/packfile.h"

/* Reads, parses and settles it. *out is zeroed on failure; sp_config_release frees it. */
SP_MUST_CHECK enum sp_status sp_config_of_pack(struct sp_config *out, const struct sp_pack *pack,
                                               enum sp_part part, struct sp_err *err);

#endif
