/* A GGUF file presented as a checkpoint: tensors under the names, shapes and with the numbers that
 * transformers' checkpoints of the same family have.
 *
 * llama.cpp's converter renames tensors, reorders rows (gguf_order.h), adds 1 to the norms of some
 * families, takes exponentials and stores rotary scaling as a tensor. All of that is undone while
 * rows are read.
 * The texts of the checkpoint come from gguf_config.h and gguf_tokenizer.h. */
#ifndef SP_CONVERT_GGUF_GGUF_MODEL_H
#define SP_CONVERT_GGUF_GGUF_MODEL_H

#include "convert/gguf/gguf_weight.h"
#include "format/config/family_row.h"

/* Valid when zeroed. */
struct sp_gguf_model {
    struct sp_gguf *file;            /* owned */
    const struct sp_gguf_arch *arch; /* what the file states, of the family's row */
    struct sp_family family;         /* resolved */
    uint64_t n_layers;               /* without those of a prediction head, n_predicting */
    uint64_t n_predicting;
    bool is_adapter;                /* names may end with .lora_a or .lora_b */
    struct sp_gguf_heads heads;     /* adapters: those of the model that it is for */
    struct sp_gguf_weight *weights; /* [n], sorted by name; owned */
    size_t n;
    bool tied;        /* one matrix is embedding and head */
    size_t n_skipped; /* tensors of image and audio encoders, which are not listed */
};

/* Opens the file, finds its family and names its tensors. A tensor that no model of the family has
 * is refused by name. Zeroed on failure. */
SP_MUST_CHECK enum sp_status sp_gguf_model_open(struct sp_gguf_model *out, const char *path,
                                                char **warnings, struct sp_err *err);
/* Opens a LoRA adapter (general.type "adapter") of a model the same way: NAME.lora_a and
 * NAME.lora_b are named and permuted as NAME is. The file does not state the sizes of heads. */
SP_MUST_CHECK enum sp_status sp_gguf_adapter_open(struct sp_gguf_model *out, const char *path,
                                                  const struct sp_config *adapted,
                                                  struct sp_err *err);
/* The heads of a model, of which files beside it do not state the sizes. */
struct sp_gguf_heads sp_gguf_heads_of(const struct sp_config *model);
void sp_gguf_model_release(struct sp_gguf_model *model);

/* By binary search; NULL: there is none. */
const struct sp_gguf_weight *sp_gguf_weight_find(const struct sp_gguf_model *model,
                                                 const char *name);
/* The table of tokens; NULL: there is none. */
const struct sp_gguf_weight *sp_gguf_embedding(const struct sp_gguf_model *model);
/* True if the file has a layer of an encoder's classification head. */
bool sp_gguf_is_classifier(const struct sp_gguf_model *model);

#endif
