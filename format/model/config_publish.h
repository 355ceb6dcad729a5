/* config.json of a model that leaves a packed file as a checkpoint: the text as it was read, and
 * only where it is no longer true another one. */
#ifndef SP_FORMAT_MODEL_CONFIG_PUBLISH_H
#define SP_FORMAT_MODEL_CONFIG_PUBLISH_H

#include "format/model/config.h"
#include "format/dtype.h"

/* The type that a config.json says its weights are in: f32, f16 or bf16; SP_DTYPE_NONE where it
 * names none of these. */
SP_MUST_CHECK enum sp_status sp_config_stated_dtype(enum sp_dtype *out, const char *json,
                                                    size_t size, struct sp_err *err);

/* *out = the text for weights of type `dtype`, owned by the caller. `config` is settled. What
 * changes: a stated type that is another one; a stated quantization, for the weights no longer are;
 * whether embedding and output matrix are one; and of a multimodal checkpoint only the language
 * model's config is left (*text_only), with what the root says besides. */
SP_MUST_CHECK enum sp_status sp_config_publish(char **out, size_t *out_size, bool *text_only,
                                               const char *json, size_t size,
                                               const struct sp_config *config, enum sp_dtype dtype,
                                               struct sp_err *err);

#endif
