/* config.json and generation_config.json of a GGUF model, made from its metadata: the keys that the
 * published files of the same model have. */
#ifndef SP_CONVERT_GGUF_GGUF_CONFIG_H
#define SP_CONVERT_GGUF_GGUF_CONFIG_H

#include "convert/gguf/gguf_model.h"

/* A key of the architecture that is not read is named in *warnings; one whose value cannot be
 * honoured is an error. */
SP_MUST_CHECK enum sp_status sp_gguf_config_text(struct sp_text *text,
                                                 const struct sp_gguf_model *model, char **warnings,
                                                 struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_gguf_generation_text(struct sp_text *text,
                                                     const struct sp_gguf_model *model,
                                                     struct sp_err *err);

/* *text = the record of the pooling that ARCH.pooling_type states; unchanged with *out if it states
 * none. Embeddings have length 1, as llama.cpp's have by default. max_tokens: of the longest text.
 * Dense layers that the file lacks are named in *warnings. */
SP_MUST_CHECK enum sp_status sp_gguf_pooling_text(struct sp_text *text,
                                                  struct sp_pooling_config *out,
                                                  const struct sp_gguf_model *model,
                                                  unsigned max_tokens, char **warnings,
                                                  struct sp_err *err);
/* Refuses a file with a classification head whose ARCH.pooling_type is neither that of a score nor
 * that of the first token, which the head reads. Most files state none. */
SP_MUST_CHECK enum sp_status sp_gguf_pooling_check_rank(const struct sp_gguf_model *model,
                                                        struct sp_err *err);

#endif
