/* adapter_config.json of a LoRA adapter, as PEFT or mlx-lm write it, or the metadata of a GGUF
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
#ifndef SP_CONVERT_ADAPTER_ADAPTER_CONFIG_H
#define SP_CONVERT_ADAPTER_ADAPTER_CONFIG_H

#include "format/base/err.h"
#include "format/gguf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
