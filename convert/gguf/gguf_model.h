/* A GGUF file presented as a checkpoint: tensors under the names, shapes and with the numbers that
 * transformers' checkpoints of the same family have.
 *
 * llama.cpp's converter renames tensors, reorders rows (gguf_order.c), adds 1 to the norms of some
 * families, takes exponentials and stores rotary scaling as a tensor. All of that is undone while
 * rows are read.
 * The texts of the checkpoint come from gguf_config.c and gguf_tokenizer.h. */
#ifndef SP_CONVERT_GGUF_GGUF_MODEL_H
#define SP_CONVERT_GGUF_GGUF_MODEL_H

#include "format/config/family_row.h"
#include "format/gguf.h"

struct sp_gguf_model;
struct sp_gguf_weight;

/* ---- orders of rows and columns (gguf_order.c) ----
 *
 * The order in which a GGUF file has the rows or columns of a tensor where llama.cpp's converter
 * changes it, and its undoing. */

/* From row `first` on, a group is n * m runs of `run` rows. Run i * m + j of the published order is
 * stored as run j * n + i. Valid when zeroed: run 0 means the published order. */
struct sp_gguf_order {
    uint64_t first, n, m, run;
};

/* Heads of a model, by which rows and columns are ordered. Valid when zeroed. */
struct sp_gguf_heads {
    uint64_t head_dim;           /* rows of a head of queries and keys */
    uint64_t keys, values;       /* numbers of heads of the gated delta rule; 0: no such layers */
    uint64_t key_dim, value_dim; /* their sizes */
};

/* The stored position of a published one. */
uint64_t sp_gguf_stored_at(const struct sp_gguf_order *order, uint64_t i);

/* Sets rows and cols of a weight whose other members are set. A size that the metadata contradicts
 * is an error that names the tensor. */
SP_MUST_CHECK enum sp_status sp_gguf_find_orders(struct sp_gguf_weight *weight,
                                                 const struct sp_gguf_model *model,
                                                 struct sp_err *err);

/* ---- tensors (gguf_weight.c) ----
 *
 * One tensor of a GGUF file as the checkpoint has it, and its rows. */

struct sp_gguf_weight {
    char *name; /* as published; owned */
    const struct sp_gguf_tensor *tensor;
    unsigned rank;
    uint64_t shape[SP_GGUF_MAX_RANK]; /* as published */
    struct sp_gguf_order rows, cols;
    const struct sp_gguf_tensor *scale; /* a factor of the tensor, or of each matrix; or NULL */
    float less;                         /* subtracted from every number */
    bool log;                           /* -e^x is stored for x */
    bool is_value;                      /* a number of the metadata; `tensor` has no bytes */
    float value;
};

/* The float type that holds the numbers exactly. */
enum sp_dtype sp_gguf_weight_float_type(const struct sp_gguf_weight *weight);

/* The type that keeps the codes of the tensor's rows, and the flags of its panels. SP_DTYPE_NONE:
 * none does, or what the converter did to the numbers cannot be undone with codes. */
enum sp_dtype sp_gguf_weight_kept(uint8_t *flags, const struct sp_gguf_weight *weight);

/* Reads the groups of row `row` into lane `lane` of a panel of that type, which is initialized.
 * `bytes` is scratch that holds a row. */
SP_MUST_CHECK enum sp_status sp_gguf_weight_put_row(uint8_t *panel, size_t lane,
                                                    const struct sp_gguf_weight *weight,
                                                    uint64_t row, uint8_t *bytes,
                                                    struct sp_err *err);

/* Least scratch for rows of n_cols elements; false on overflow. */
bool sp_gguf_weight_scratch(size_t *out, const struct sp_gguf_weight *weight, uint64_t n_cols);

/* out[n][n_cols] = rows first, first + step, ... of a tensor seen as rows of n_cols elements, which
 * are whole rows or all elements of a vector or single elements of it. `bytes` is scratch of `size`
 * bytes, at least sp_gguf_weight_scratch. From any number of threads. */
SP_MUST_CHECK enum sp_status sp_gguf_weight_read(float *out, const struct sp_gguf_weight *weight,
                                                 uint64_t n_cols, uint64_t first, uint64_t step,
                                                 uint64_t n, uint8_t *bytes, size_t size,
                                                 struct sp_err *err);

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
 * is refused by name. adapted: NULL, or the model of a LoRA adapter (general.type "adapter"), which
 * is opened the same way: NAME.lora_a and NAME.lora_b are named and permuted as NAME is. An
 * adapter's file does not state the sizes of heads. Zeroed on failure. */
SP_MUST_CHECK enum sp_status sp_gguf_model_open(struct sp_gguf_model *out, const char *path,
                                                const struct sp_config *adapted, char **warnings,
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

/* ---- published names (gguf_names.c) ---- */

enum { SP_GGUF_NAME_SIZE = 128, SP_GGUF_MAX_LAYERS = 99999 };

/* Writes the published name of a tensor of a model whose layers are counted, and how the tensor is
 * stored; false if models of the family have no such tensor. */
bool sp_gguf_publish_name(char out[SP_GGUF_NAME_SIZE], enum sp_gguf_form *form,
                          const struct sp_gguf_model *m, const char *name);

/* Whether some layer has the tensor blk.N.`name`, with or without a further ending. */
bool sp_gguf_has_in_layers(const struct sp_gguf_model *m, const char *name);

/* Whether the family has a name for this tensor of a layer with its whole ending. */
bool sp_gguf_has_own_name(const struct sp_gguf_model *m, const char *name);

/* llama.cpp's name of a key, which may be that of another converter (struct sp_key_name); both
 * without the architecture in front. */
const char *sp_gguf_common_key(const struct sp_family *family, const char *key);
/* Writes the complete key: that of another converter where the file has only that. */
void sp_gguf_stored_key(char *out, size_t size, const struct sp_gguf *file,
                        const struct sp_family *family, const char *arch, const char *key);

/* True for a tensor of rotary scaling, which becomes a part of config.json, and for a scale of
 * activations, which are not quantized here. */
bool sp_gguf_is_ignored(const char *name);
/* True for a tensor of an image or audio encoder, which some files have beside the text model, or
 * of a prediction head under its published name, which is not read. */
bool sp_gguf_is_of_encoder(const char *name);
/* True for a tensor of a prediction head that no reader of the family knows. */
bool sp_gguf_is_of_unread_head(const struct sp_gguf_model *m, const char *name);

/* ---- texts (gguf_config.c, gguf_generation.c, gguf_pooling.c) ----
 *
 * config.json and generation_config.json of a GGUF model, made from its metadata: the keys that the
 * published files of the same model have. */

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
