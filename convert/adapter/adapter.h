/* An adapter: changes to some of a model's weights, in a folder or a file of its own. Read here is
 * what it holds; where that goes in a model is found by convert/adapter/merge.h.
 *
 * PEFT: adapter_config.json and adapter_model.safetensors. mlx-lm: adapter_config.json and
 * adapters.safetensors. llama.cpp: one GGUF file. Tensors are grouped by the module that they
 * change. Opening reads headers, and the whole file once for its digest. */
#ifndef SP_CONVERT_ADAPTER_ADAPTER_H
#define SP_CONVERT_ADAPTER_ADAPTER_H

#include "convert/adapter/adapter_config.h"
#include "convert/adapter/adapter_file.h"
#include "format/config/config.h"

/* A module's low-rank product; the tensors are borrowed from the adapter's file.
 *
 *   W' = W + scale * left right      left [rows][rank], right [rank][cols]
 *   with magnitudes m [rows] (DoRA)  W'[i] = m[i] / |W[i] + ..| * (W[i] + ..)
 *   with a bias b [rows]             bias' = bias + scale * b
 */
struct sp_adapter_product {
    char *module;                          /* "model.layers.0.self_attn.q_proj"; owned */
    const struct sp_adapter_tensor *a, *b; /* as they are named */
    const struct sp_adapter_tensor *magnitudes, *bias; /* or NULL */
    bool embeds;   /* PEFT marks it in tensor names; else it follows from the place */
    bool experts;  /* mlx-lm, GGUF: a matrix for each expert, [experts] in front of both shapes */
    uint64_t rank; /* as stated; 0: not */
    double scale;
};

/* A tensor that takes the place of one of the model's. */
struct sp_adapter_whole {
    char *name; /* "lm_head.weight"; owned */
    const struct sp_adapter_tensor *tensor;
};

struct sp_adapter {
    char *path;                          /* of the tensors' file; owned */
    struct sp_adapter_config config;     /* owned */
    struct sp_adapter_file file;         /* owned */
    uint64_t digest;                     /* XXH3-64 of that file */
    struct sp_adapter_product *products; /* by module; owned */
    size_t n_products, cap_products;
    struct sp_adapter_whole *wholes; /* by name; owned */
    size_t n_wholes, cap_wholes;
    size_t n_skipped; /* tensors for parts that text generation does not use */
};

/* path: the adapter's folder, or a .safetensors file next to its adapter_config.json, or a GGUF
 * file, which must be for the architecture of `model`. *out is zeroed on failure. */
SP_MUST_CHECK enum sp_status sp_adapter_open(struct sp_adapter *out, const char *path,
                                             const struct sp_config *model, struct sp_err *err);
void sp_adapter_release(struct sp_adapter *adapter);

/* A product's factors, left [rows][rank] and right [rank][cols], or stored transposed. Which of its
 * two tensors comes first differs between matrices and embeddings. */
struct sp_adapter_factors {
    const struct sp_adapter_tensor *left, *right;
    bool left_transposed, right_transposed;
    uint64_t rank; /* 0: the left one is of no shape that has one */
};
struct sp_adapter_factors sp_adapter_factors(const struct sp_adapter *adapter,
                                             const struct sp_adapter_product *product);

#endif
