/* An adapter: changes to some of a model's weights, in a folder or a file of its own. Read here is
 * what it holds; where that goes in a model is found by convert/adapter/merge.h.
 *
 * PEFT: adapter_config.json and adapter_model.safetensors. mlx-lm: adapter_config.json and
 * adapters.safetensors. llama.cpp: one GGUF file. Tensors are grouped by the module that they
 * change. Opening reads headers, and the whole file once for its digest. */
#ifndef SP_CONVERT_ADAPTER_ADAPTER_H
#define SP_CONVERT_ADAPTER_ADAPTER_H

#include "format/config/config.h"
#include "convert/gguf/gguf_model.h"
#include "format/safetensors.h"

/* ---- adapter_config.json (adapter_config.c) ----
 *
 * adapter_config.json of a LoRA adapter, as PEFT or mlx-lm write it, or the metadata of a GGUF
 * file: how much of each low-rank product is added to the weight of its module.
 *
 *   PEFT     scale = alpha / r, with use_rslora alpha / sqrt(r); rank_pattern and alpha_pattern
 *            give single modules an r or alpha of their own
 *   mlx-lm   scale = lora_parameters.scale
 *   GGUF     scale = adapter.lora.alpha / rank of the factors; 1 if alpha is 0 or absent
 *
 * Which modules there are follows from the adapter's tensors. A key that changes the maths is read
 * here or refused by name, and so is every key that is not known, unless its value switches nothing
 * on (null, false, empty). */

enum sp_adapter_format { SP_ADAPTER_PEFT, SP_ADAPTER_MLX, SP_ADAPTER_GGUF };

enum {
    SP_ADAPTER_MAX_PATTERNS = 4096,
    SP_ADAPTER_MAX_RANK = 1 << 16,
};

/* A value for the modules whose name, or its end after a dot, matches a regular expression. */
struct sp_adapter_pattern {
    char *key;              /* as written; owned */
    struct sp_regex *regex; /* owned */
    double value;
};

struct sp_adapter_patterns {
    struct sp_adapter_pattern *all; /* in the file's order, the first that matches counts; owned */
    size_t n, cap;
};

/* Valid when zeroed. */
struct sp_adapter_config {
    enum sp_adapter_format format;
    double rank, alpha;  /* PEFT; mlx-lm has no alpha, and its rank may be 0: not stated; GGUF files
                            have no rank, and their alpha may be 0: the scale is 1 */
    bool by_root;        /* use_rslora */
    bool has_magnitudes; /* DoRA: rows are given a length of their own */
    bool keeps_tied;     /* ensure_weight_tying */
    double scale;        /* mlx-lm */
    struct sp_adapter_patterns ranks, alphas;
};

/* Parses `size` bytes of text. Zeroed on failure; SP_E_UNSUPPORTED names the key. */
SP_MUST_CHECK enum sp_status sp_adapter_config_parse(struct sp_adapter_config *out,
                                                     const char *text, size_t size,
                                                     struct sp_err *err);
/* Reads the config from the metadata of a GGUF adapter. */
SP_MUST_CHECK enum sp_status sp_adapter_config_of_gguf(struct sp_adapter_config *out,
                                                       const struct sp_gguf *file,
                                                       struct sp_err *err);
void sp_adapter_config_release(struct sp_adapter_config *config);

/* Finds the rank and the scale of a module of PEFT or mlx-lm by its name inside the model, such as
 * "model.layers.0.mlp.up_proj". *rank 0: the config does not state one. */
struct sp_regex_matcher;
SP_MUST_CHECK enum sp_status
sp_adapter_config_find(uint64_t *rank, double *scale, const struct sp_adapter_config *config,
                       const char *module, struct sp_regex_matcher *matcher, struct sp_err *err);

/* ---- tensors (adapter_file.c) ----
 *
 * The tensors of an adapter's file, safetensors or GGUF, and their elements as floats. */

struct sp_adapter_tensor {
    const char *name;      /* in the file; borrowed from it */
    const char *published; /* as a checkpoint would name it; differs in GGUF files; borrowed */
    enum sp_dtype dtype;   /* of a GGUF file the float type that holds the numbers */
    unsigned rank;
    uint64_t shape[SP_MAX_RANK];
    const struct sp_safetensor *plain;    /* borrowed; NULL in a GGUF file */
    const struct sp_gguf_weight *encoded; /* borrowed; NULL in a safetensors file */
};

/* Valid when zeroed. */
struct sp_adapter_file {
    struct sp_safetensors *safetensors; /* owned; one of the two */
    struct sp_gguf_model gguf;          /* owned */
    struct sp_adapter_tensor *tensors;  /* by their names in the file; owned */
    size_t n;
};

/* Opens a safetensors file, or a GGUF file if `is_gguf` of this model. Zeroed on
 * failure. */
SP_MUST_CHECK enum sp_status sp_adapter_file_open(struct sp_adapter_file *out, const char *path,
                                                  bool is_gguf, const struct sp_config *model,
                                                  struct sp_err *err);
void sp_adapter_file_close(struct sp_adapter_file *file);

/* The scratch memory of one reading thread. Valid when zeroed. */
struct sp_adapter_scratch {
    uint8_t *bytes; /* owned by the caller (free) */
    size_t size;
};

/* out[n] = elements first.. of a tensor; of one in blocks of codes they are whole rows. From any
 * number of threads. */
SP_MUST_CHECK enum sp_status
sp_adapter_file_read(float *out, const struct sp_adapter_tensor *tensor, uint64_t first, size_t n,
                     struct sp_adapter_scratch *scratch, struct sp_err *err);

/* A module's low-rank product; the tensors are borrowed from the adapter's file.
 *
 *   W' = W + scale * left right      left [rows][rank], right [rank][cols]
 *   with magnitudes m [rows] (DoRA)  W'[i] = m[i] / |W[i] + ..| * (W[i] + ..)
 *   with a bias b [rows]             bias' = bias + scale * b */
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
