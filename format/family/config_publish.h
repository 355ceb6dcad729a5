/* The config.json of a model that is exported from a packed file to a checkpoint. It is the text
 * that was packed, changed only where it no longer describes the checkpoint. */
#ifndef SP_FORMAT_FAMILY_CONFIG_PUBLISH_H
#define SP_FORMAT_FAMILY_CONFIG_PUBLISH_H

#include "format/config/config.h"
#include "format/dtype.h"

/* The type of the weights that a config.json states: f32, f16 or bf16; SP_DTYPE_NONE if it states
 * none of these. */
SP_MUST_CHECK enum sp_status sp_config_stated_dtype(enum sp_dtype *out, const struct sp_text *json,
                                                    struct sp_err *err);

/* *out = the text for weights of type `dtype`. `config` is settled. These
 * parts of the text may change: the stated type; a stated quantization, which is removed; and
 * whether embedding and output matrix are tied. Of a multimodal config, only that of the text model
 * remains, together with the keys of the root that apply to it; *text_only is set then. */
SP_MUST_CHECK enum sp_status sp_config_publish(struct sp_text *out, bool *text_only,
                                               const struct sp_text *json,
                                               const struct sp_config *config, enum sp_dtype dtype,
                                               struct sp_err *err);

#endif
