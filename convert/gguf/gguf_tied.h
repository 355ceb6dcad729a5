/* Embedding and head of a GGUF file. For gguf_model.c. */
#ifndef SP_CONVERT_GGUF_GGUF_TIED_H
#define SP_CONVERT_GGUF_GGUF_TIED_H

#include "convert/gguf/gguf_model.h"

/* Sets `tied` of a model whose tensors are listed. llama-quantize stores the one matrix of a tied
 * model twice, in two types; the finer one is both then, and a warning says so. */
SP_MUST_CHECK enum sp_status sp_gguf_tie_head(struct sp_gguf_model *model, char **warnings,
                                              struct sp_err *err);

#endif
