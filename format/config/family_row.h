/* A row of the family table: by which names a config.json calls a family, the defaults of its
 * transformers class, and what sets it apart from Llama.
 *
 * A family is a row in the file of its lineage (format/family/families/). A member that a row
 * leaves out, and that is therefore zero, means Llama's way; sp_family_resolve lists these
 * defaults. config*.c reads the keys and family*.c the tensors. All other code reads struct
 * sp_config. */
#ifndef SP_FORMAT_CONFIG_FAMILY_ROW_H
#define SP_FORMAT_CONFIG_FAMILY_ROW_H

#include "format/config/config.h"
#include "format/config/gguf_row.h"

struct sp_alias; /* format/family/tensor_alias.h */
struct sp_config_text;

/* Sizes that config.json states as plain numbers. In a row: the class defaults, in this order. */
struct sp_sizes {
    unsigned n_vocab, n_hidden;
    unsigned n_ffn; /* 0: the family has no MLPs */
    unsigned n_layers;
    unsigned n_heads;
    unsigned n_kv_heads; /* 0: equal to n_heads */
    unsigned head_dim;   /* 0: n_hidden / n_heads */
    unsigned max_positions;
    unsigned full_head_dim; /* of layers without a window; 0: head_dim */
};

/* Which layers have a sliding window when no layer_types list names them. */
enum sp_windows {
    SP_WINDOWS_NONE,            /* none: sliding_window has no effect */
    SP_WINDOWS_ALL,             /* every layer */
    SP_WINDOWS_FROM_LAYER,      /* layers from max_window_layers on */
    SP_WINDOWS_EVEN,            /* layers 0, 2, 4, ... */
    SP_WINDOWS_BEFORE_LAYER,    /* layers 0, 2, 4, ... below max_window_layers */
    SP_WINDOWS_PATTERN,         /* all except every sliding_window_pattern-th layer */
    SP_WINDOWS_SKIP_FIRST_OF_4, /* all except layers 0, 4, 8, ... */
    SP_WINDOWS_LFM3_PATTERN,    /* layers 4, 8, ...; layers 0, 1, 3, 5, ... are convolutions */
    SP_WINDOWS_LISTED,          /* none: only layer_types gives a layer a window */
    SP_WINDOWS_NOPE_LAYERS,     /* the layers without rotary embedding */
};

/* Whether projections have biases. */
enum sp_bias_rule {
    SP_BIAS_BY_CONFIG, /* a key decides */
    SP_BIAS_ALWAYS,
    SP_BIAS_NEVER,
    SP_BIAS_REFUSED, /* a key decides, and true is not supported */
};

/* Keys that a family reads and that would otherwise be ignored or refused (config_refuse.c). */
struct sp_family_reads {
    bool layer_types;    /* layer_types */
    bool bidirectional;  /* use_bidirectional_attention */
    bool attention_cap;  /* attn_logit_softcapping */
    bool logit_cap;      /* final_logit_softcapping */
    bool logit_scale;    /* logit_scale */
    bool query_scalar;   /* query_pre_attn_scalar */
    bool query_growth;   /* llama_4_scaling_beta */
    bool qkv_limit;      /* clip_qkv */
    bool multipliers;    /* attention_, embedding_, residual_multiplier, logits_scaling */
    bool no_rope_layers; /* no_rope_layers, no_rope_layer_interval */
    bool layer_thetas;   /* layer_rope_theta */
    bool chunks;         /* attention_chunk_size; layer_types may be chunked_attention */
    bool experts;        /* num_experts or num_local_experts, num_experts_per_tok */
    bool expert_groups;  /* n_routed_experts, n_shared_experts, n_group, topk_group */
    bool routed_scale;   /* routed_scaling_factor */
};

/* The names of the keys that describe experts. NULL: the usual key, or no key. */
struct sp_expert_keys {
    const char *count;          /* experts of a layer: num_experts or num_local_experts */
    const char *used;           /* experts per token: num_experts_per_tok or experts_per_token */
    const char *step;           /* every step-th layer has experts */
    const char *only;           /* list of layers that have no experts */
    const char *list;           /* list of layers that have experts */
    const char *dense;          /* number of layers at the start that have no experts */
    const char *last;           /* last layer with experts; -1: the last layer of the model */
    const char *shared;         /* number of shared experts, which become one dense MLP */
    const char *shared_width;   /* of a shared expert: that of the others */
    const char *parallel_width; /* of a dense MLP in parallel to the experts; 0: none */
    const char *types;          /* "dense" or "sparse" for each layer */
    const char *scale;          /* factor of the expert weights: routed_scaling_factor */
    const char *corrected;      /* whether the router's scores are corrected */
    const char *width;          /* width of an expert: moe_intermediate_size */
};

struct sp_period {
    unsigned period, offset; /* defaults */
};

/* The names of the keys that describe Mamba-2 layers, and their defaults. */
struct sp_mamba_family {
    const char *heads, *head_dim, *groups, *state, *kernel, *conv_bias, *proj_bias;
    const char *values;              /* width of all heads; NULL: expand * n_hidden */
    const char *activation;          /* NULL: hidden_act */
    unsigned n_values;               /* default of `values` */
    struct sp_mamba_config defaults; /* head_dim 0: width of all heads / n_heads */
    const char *rank;                /* key of step_rank, "auto" by default; NULL: Mamba-2 */
    const char *step_eps;            /* key of the epsilon of norms of dt, B, C; NULL: norm_eps */
    bool parallel;                   /* every layer has attention as well (Falcon-H1) */
    bool one_limit; /* dt is limited by time_step_min; time_step_limit is not read */
};

/* Gated delta-rule layers that are not those of Qwen3-Next. */
struct sp_delta_family {
    struct sp_delta_config defaults; /* by_channel, lightning: keys and values have one size */
    unsigned full_interval;          /* default of full_attention_interval */
    unsigned first_full;             /* the first attention layer by it, from 1; 0: full_interval */
    /* Key of an object with the sizes, and the numbers of the layers, from 1, in two lists; or
     * NULL. */
    const char *object;
};

/* Defaults of multi-head latent attention. Its rope_dim, qk_rope_head_dim, is sizes.head_dim. */
struct sp_latent_family {
    struct sp_latent_config defaults;
    bool always_interleaved;      /* rope_interleave may not be false */
    bool partial_of_head;         /* partial_rotary_factor is that of the whole head (Mistral 4) */
    struct sp_index_config index; /* defaults; zero: there is no index */
    bool ropeless;                /* qk_rope_head_dim is 0 (GLM-5.3) */
    bool index_shared;            /* indexer_types and its kin may let layers share a choice */
};

/* A multimodal config that holds the config of a text model under text_config. */
struct sp_wrapper {
    const char *name; /* model_type */
    const char *architecture;
    const char *text_type; /* default of text_config.model_type */
    bool any_text;         /* text_config may be of another family */
    bool may_be_flat;      /* without text_config, the root has its keys */
    bool text_tie_first;   /* tie_word_embeddings of text_config overrules the root's */
};

/* Reads keys into *out, whose other members may be filled already; failures go to t->err. */
typedef void sp_read_fn(struct sp_config *out, const struct sp_config_text *t);

/* Reads sizes->full_head_dim, after all other sizes. */
typedef void sp_read_full_heads_fn(struct sp_sizes *sizes, const struct sp_config_text *t);

/* Writes the beginning of the name that a tensor of a layer has in a checkpoint, "layers.3.", and
 * returns the number that '#' in an alias stands for. `other`: as other checkpoints have it. */
typedef unsigned sp_name_layer_fn(char *out, size_t size, const struct sp_config *config,
                                  unsigned layer, const char *canonical, bool other);

enum { SP_MAX_ALIASES = 5 };

struct sp_family {
    /* ---- names ---- */
    const char *name;             /* model_type of the text config */
    const char *architecture;     /* architectures[0] */
    const char *old_architecture; /* another spelling of architectures[0], or NULL */
    const char *run_as;           /* the class that transformers runs it as, or NULL */

    /* ---- sizes ---- */
    struct sp_sizes sizes; /* n_vocab 0: all of Llama's */
    const char *ffn_key;   /* of sizes.n_ffn; NULL: intermediate_size */
    unsigned ffn_factor;   /* sizes.n_ffn is n_hidden times this; 0: it is stated */
    bool adjusted_ffn;     /* intermediate_size is adjusted by default (LFM2) */
    sp_read_full_heads_fn *read_full_heads; /* full layers have a head_dim of their own; or NULL */

    /* ---- norms ---- */
    double norm_eps;          /* 0: 1e-6 */
    const char *norm_eps_key; /* NULL: rms_norm_eps; "": no key changes it */
    enum sp_norms norms;
    bool sparse_post_norm; /* layers with experts have SP_NORM_PRE_POST */
    enum sp_qk_norm qk_norm;
    const char *qk_norm_key; /* turns qk_norm on; NULL: qk_norm is always on */
    bool qk_normed;          /* default of that key */
    bool norm_shifted, norm_centered, norm_bias, norm_weightless; /* as in struct sp_config */
    bool embedding_normed, inner_norms;                           /* as in struct sp_config */

    /* ---- rotary embedding ---- */
    double theta;             /* 0: 1e4 */
    bool theta_required;      /* there is no default of theta */
    double partial_rotary;    /* default of partial_rotary_factor; 0: it must be 1 */
    bool rotary_dim;          /* rotary_dim / head_dim is the default of that factor */
    bool partial_inside;      /* partial_rotary_factor counts inside a rope dict only (Bamba) */
    double local_theta;       /* theta of sliding layers; 0: that of all layers */
    bool local_unscaled;      /* sliding layers use the same theta without scaling (OLMo 3) */
    bool rope_by_type;        /* rope_parameters may hold one dict per layer type */
    bool rope_alpha;          /* type dynamic with alpha scales theta by a constant (Hunyuan) */
    bool rope_mscales;        /* longrope has amplitudes of its own (PhiMoE) */
    const char *rope_default; /* class default of rope_parameters, JSON; NULL: none */
    bool longrope_only;       /* every scaled rope type means longrope (Phi-3) */
    /* Names of the dicts in rope_parameters by layer type, of ropes[0] and ropes[1]; NULL:
     * full_attention and sliding_attention. */
    const char *rope_dicts[2];
    /* The class's original_max_position_embeddings, which overrules that of a dict; 0: none. */
    unsigned original_positions;
    bool unrotated;       /* no layer has rotary embedding */
    bool rotation_stated; /* layers have it if position_embedding_type is rope (Granite 4) */
    bool full_unrotated;  /* layers without a window have none if others have one (EXAONE 4) */

    /* ---- layers ---- */
    const char *sublayers;      /* default pattern of layers that are one sublayer each; or NULL */
    const char *attention_list; /* key that lists the attention layers by number; or NULL */
    bool delta_layers;          /* layer_types may be linear_attention: gated delta rule */
    const struct sp_delta_family *delta; /* NULL: those of Qwen3-Next */
    bool conv_layers;     /* layer_types may be conv: gated short convolution (LFM2) */
    unsigned conv_kernel; /* default of conv_L_cache */
    /* Which layers are attention, the others being Mamba, and which have experts, without a list:
     * those whose number is offset modulo period. By the keys attn_layer_period, attn_layer_offset,
     * expert_layer_period and expert_layer_offset; zero: there is no such rule (Jamba). */
    struct sp_period attention_period, expert_period;
    const struct sp_mamba_family *mamba;   /* some layers are Mamba-2; or NULL */
    const struct sp_latent_family *latent; /* attention is multi-head latent attention; or NULL */
    const char *own_types; /* names in layer_types that read_own reads, between blanks; or NULL */

    /* ---- sliding windows ---- */
    enum sp_windows windows;
    /* Default layer types: f full, s sliding, d delta attention, m Mamba. Those in parentheses
     * repeat, those behind are of the last layers: "ff(sssf)f". NULL: `windows` and delta_layers
     * state them. */
    const char *layer_pattern;
    unsigned window;         /* default of sliding_window */
    unsigned window_pattern; /* default of sliding_window_pattern */
    const char *pattern_key; /* NULL: sliding_window_pattern */
    unsigned window_layers;  /* default of max_window_layers */
    bool needs_window;       /* sliding_window may not be missing or null */
    bool window_switch;      /* a window takes effect only with use_sliding_window */

    /* ---- attention and MLP ---- */
    enum sp_bias_rule biases; /* of all projections, where a member of the next line is zero */
    enum sp_bias_rule qkv_bias, o_bias, mlp_bias;
    const char *bias_key;           /* one key for all biases; NULL: attention_bias, mlp_bias */
    const char *other_bias_keys[2]; /* other spellings of attention_bias and mlp_bias */
    const char *o_bias_key;         /* key of o_proj's bias, false by default; NULL: as q, k, v */
    bool attention_bias;            /* default of the key for q, k and v */
    bool mlp_biased;                /* default of mlp_bias */
    bool sinks;                     /* attention has sinks */
    bool output_gate;               /* the attention output has a gate of its own width */
    bool gate_in_query;             /* that gate is a part of q_proj, and of its bias */
    bool head_gate;                 /* every attention head has a gate of one number */
    const char *parallel_key;       /* key for attention and MLP in parallel; its default is that of
                                       `norms`; or NULL */
    double attention_cap, logit_cap; /* defaults; 0: none */
    double query_scalar;             /* default of query_pre_attn_scalar; 0: head_dim */
    const char *activation_key;      /* NULL: hidden_act; "": no key changes it */
    const char *activation;          /* default of the key; NULL: silu */
    bool gelu_is_tanh;               /* activation "gelu" means its tanh approximation (Gemma) */
    bool plain_mlp;                  /* the MLP has no gate_proj */

    /* ---- embedding and head ---- */
    bool tied;             /* default of tie_word_embeddings */
    const char *tied_key;  /* overrules tie_word_embeddings; NULL: there is no such key */
    bool scaled_embedding; /* embeddings are multiplied by sqrt(n_hidden), rounded (Gemma) */
    const char *root_key;  /* key for embeddings times sqrt(n_hidden), unrounded; or NULL */
    bool head_bias;        /* as in struct sp_config */
    double logit_scale;    /* default of logit_scale */
    /* logits_scaling multiplies, and the default of attention_multiplier is 1 / sqrt(head_dim)
     * (muP) */
    bool mup;

    /* ---- experts ---- */
    struct sp_expert_keys expert_keys;
    unsigned n_experts, n_experts_used; /* defaults */
    unsigned n_expert_ffn;              /* default; 0: n_ffn */
    unsigned n_dense, n_shared;         /* defaults of expert_keys.dense and .shared */
    unsigned n_shared_ffn;              /* default of expert_keys.parallel_width */
    bool parallel_ffn;         /* an expert layer has the dense MLP of sizes.n_ffn as well */
    bool shared_gate;          /* the dense MLP in parallel to the experts is gated (Qwen) */
    bool clamped_swiglu;       /* every layer has experts with clamped SwiGLU (gpt-oss) */
    struct sp_routing routing; /* class defaults; scale 0: 1 */
    bool router_norm_fixed;    /* norm_topk_prob may not differ from routing.norm */

    /* ---- reading config.json ---- */
    struct sp_family_reads reads;
    const struct sp_key_name *key_names; /* other spellings of keys; NULL: none */
    const char *nested;   /* an object whose keys count like those of the config; or NULL */
    sp_read_fn *read_own; /* reads keys that no shared reader reads, after all others; or NULL */
    const char *own_keys; /* keys of read_own that config_refuse.c lists, between blanks */
    bool assistants;      /* text_config of an assistant draft may name this family */

    /* ---- tensors ---- */
    /* Lists that may name the same tensor come in order of precedence; unused ones are NULL. */
    const struct sp_alias *aliases[SP_MAX_ALIASES];
    const char *layers;           /* beginning of the names of layers; NULL: "layers." */
    sp_name_layer_fn *name_layer; /* writes that beginning and the number instead; or NULL */
    /* A layer of a checkpoint is two layers here, each with attention and an MLP: num_layers counts
     * those of the checkpoint. */
    bool halves;
    const char *old_layers; /* the same in old checkpoints; NULL: no other */
    const char *prefix;     /* of the text model in an exported checkpoint; NULL: "model." */
    const char *head;       /* name of the output matrix; NULL: "lm_head.weight" */
    bool padded_head;       /* it may have a row for each row of the embedding */
    const char *unread;     /* tensors whose names begin so are ignored; or NULL */
    /* A checkpoint may hold a built-in draft: under mtp.*, as one more layer (GLM-4.5), or under
     * prediction_path. */
    bool prediction_head, prediction_layer;
    bool prediction_normed;       /* which reads its own normed output, of final_layernorm (HY 3) */
    const char *prediction_path;  /* of the model, or NULL */
    const char *prediction_block; /* path of its decoder layer there; NULL: it has none (ERNIE) */
    const struct sp_alias *prediction_names; /* of its other tensors; NULL: as GLM-4.5 has them */
    bool prediction_unnormed; /* no norm is between its layer and the output matrix (ERNIE) */
    bool prediction_windowed; /* its layer has a window, unless mtp_layer_types says otherwise */

    /* ---- GGUF files ---- */
    struct sp_gguf_family gguf; /* zero: they are not read */
};

/* True if a checkpoint may hold a built-in draft. */
static inline bool sp_family_predicts(const struct sp_family *f)
{
    return f->prediction_head || f->prediction_layer || f->prediction_path;
}

#endif
