/* LoRA adapters of a model that stay apart from its weights: low-rank products
 * (runtime/backend/lora_rows.h) by the names of the tensors. */
#ifndef SP_RUNTIME_MODEL_LORA_H
#define SP_RUNTIME_MODEL_LORA_H

#include "runtime/backend/lora_rows.h"
#include "runtime/model/model.h"
#include "runtime/spectool_measure.h"

/* Opens an adapter of a model, which is borrowed and was loaded from `pack`: the work of
 * sp_lora_open. sp_lora_add, which raises the model's max_lora_rank, and sp_lora_close are declared
 * in spectool.h, sp_lora_digest in spectool_measure.h. */
SP_MUST_CHECK enum sp_status sp_lora_new(struct sp_lora **out, struct sp_model *model,
                                         const struct sp_pack *pack, struct sp_err *err);

const struct sp_lora_products *sp_lora_products_of(const struct sp_lora *lora);

#endif
