/* The families of language models, as data: by which names a config.json calls them, the defaults
 * of their transformers class, and what sets one apart from the plain Llama block. Adding a family
 * that needs no new kind of layer is adding a row. Read by config*.c (keys) and family*.c
 * (tensors); everybody else reads struct sp_config. */
#ifndef SP_FORMAT_MODEL_FAMILY_TABLE_H
#define SP_FORMAT_MODEL_FAMILY_TABLE_H

#include "format/model/config.h"

/* What config.json says in plain numbers. In a row: the class defaults. */
struct sp_sizes {
    unsigned n_vocab, n_hidden, n_ffn, n_layers;
    unsigned n_heads;
    unsigned n_kv_heads; /* 0: as many as n_heads */
    unsigned head_dim;   /* 0: n_hidden / n_heads */
    unsigned max_positions;
    unsigned full_head_dim; /* of layers that see everything; 0: head_dim */
};

/* Which layers see a window only, where no layer_types list says so. */
enum sp_windows {
    SP_WINDOWS_NONE,            /* a window is ignored */
    SP_WINDOWS_ALL,             /* every layer */
    SP_WINDOWS_FROM_LAYER,      /* layers from max_window_layers on */
    SP_WINDOWS_EVEN,            /* layers 0, 2, 4, ... */
    SP_WINDOWS_BEFORE_LAYER,    /* ... of those before max_window_layers */
    SP_WINDOWS_PATTERN,         /* all but every sliding_window_pattern-th */
    SP_WINDOWS_SKIP_FIRST_OF_4, /* all but the first of every four */
    SP_WINDOWS_LFM3_PATTERN,    /* layers 4, 8, ...; convolutions are 0, 1, 3, 5, ... (LFM3) */
    SP_WINDOWS_LISTED,          /* none */
    SP_WINDOWS_NOPE_LAYERS,     /* the layers without rotation */
};

enum sp_bias_rule { SP_BIAS_NEVER, SP_BIAS_ALWAYS, SP_BIAS_BY_CONFIG };

/* How a checkpoint stores what is one canonical tensor here; several of them may hold. */
enum sp_storage {
    SP_STORED_PLAIN = 0,            /* under the canonical names */
    SP_STORED_QKV = 1 << 0,         /* qkv_proj, contiguous rows (Phi-3) */
    SP_STORED_EXPERTS = 1 << 1,     /* experts apart, or fused as [E, 2I, H] (Qwen3-MoE) */
    SP_STORED_INTERLEAVED = 1 << 2, /* [E, H, 2I], gate and up alternating (gpt-oss) */
    SP_STORED_GATED = 1 << 3,       /* q_proj holds query and gate rows, head by head (Qwen3.5) */
    SP_STORED_BESIDE = 1 << 4,   /* experts stand beside mlp.*, which is the dense MLP (Gemma 4) */
    SP_STORED_SPARSE = 1 << 5,   /* block_sparse_moe.*; experts have w1, w3, w2 (Mixtral) */
    SP_STORED_LFM2 = 1 << 6,     /* operator_norm, feed_forward.w1, w3, w2, ... */
    SP_STORED_GROUPED = 1 << 7,  /* head by head: in_proj_qkvz, in_proj_ba, kv_b_proj (Qwen3-Next,
                                    DeepSeek) */
    SP_STORED_GATE_UP = 1 << 8,  /* gate_up_proj, contiguous rows (Phi-3) */
    SP_STORED_PAIRED = 1 << 9,   /* neighbouring rows of q and k rotate together (GLM-4) */
    SP_STORED_GLM4 = 1 << 10,    /* post_self_attn_layernorm, post_mlp_layernorm */
    SP_STORED_HUNYUAN = 1 << 11, /* query_layernorm, key_layernorm */
    SP_STORED_ROUTED = 1 << 12,  /* a router's correction, shared_experts (GLM-4.5, ERNIE 4.5) */
    SP_STORED_STATICS = 1 << 13, /* ... the correction as a row of moe_statics (ERNIE 4.5) */
    SP_STORED_C_FC = 1 << 14,    /* mlp.c_fc, mlp.c_proj (StarCoder2) */
    SP_STORED_LINEAR = 1 << 15, /* block_sparse_moe.input_linear, output_linear, router (Granite) */
    SP_STORED_BLOCK = 1 << 16,  /* block_sparse_moe.router, experts.gate_up_proj (Granite SWA) */
    SP_STORED_SHARED_MLP = 1 << 17, /* shared_mlp.input_linear, output_linear (Granite 4) */
    SP_STORED_NEXTN = 1 << 18, /* eh_proj, enorm, hnorm, shared_head: such a layer's own tensors */
    SP_STORED_FEED_FORWARD = 1 << 19, /* pre_ff_layernorm, feed_forward, final_layernorm (Bamba) */
    SP_STORED_MIXER = 1 << 20, /* norm, mixer; embeddings and norm_f around the layers (Mamba-2) */
    SP_STORED_BARE = 1 << 21,  /* ... the correction as mlp.e_score_correction_bias (EXAONE MoE) */
    SP_STORED_MAMBA = 1 << 22, /* mamba.in_proj: rows of z, of x, B and C, and of dt */
    SP_STORED_LFM3 = 1 << 23,  /* as LFM2's, post_operator_norm, post_ffn_norm */
    SP_STORED_FC = 1 << 24,    /* mlp.fc1, mlp.fc2 (Phi, nanochat) */
    SP_STORED_PHI = 1 << 25,   /* self_attn.dense, final_layernorm */
    SP_STORED_BACKWARD = 1 << 26, /* rows of q and k turn the other way round (nanochat) */
    SP_STORED_STABLELM = 1 << 27, /* q_layernorm.norms, k_layernorm.norms: one for each head */
    SP_STORED_APERTUS = 1 << 28,  /* attention_layernorm, feedforward_layernorm */
    SP_STORED_PERI = 1 << 29,     /* post_norm1, post_norm2 (HyperCLOVA X) */
    SP_STORED_AFMOE = 1 << 30,    /* pre_mlp_layernorm, router.gate, expert_bias */
};

/* Keys that only some families read; in all others they are refused (config_refuse.c). */
enum sp_family_reads {
    SP_READS_LOGIT_CAP = 1 << 0,    /* final_logit_softcapping */
    SP_READS_QUERY_SCALAR = 1 << 1, /* query_pre_attn_scalar */
    SP_READS_EXPERTS = 1 << 2,      /* num_experts or num_local_experts, num_experts_per_tok */
    SP_READS_NO_ROPE = 1 << 3,      /* no_rope_layers, no_rope_layer_interval */
    SP_READS_GROWTH = 1 << 4,       /* llama_4_scaling_beta */
    SP_READS_SWIGLU = 1 << 5,       /* swiglu_limit, swiglu_alpha */
    SP_READS_SHARED = 1 << 6,       /* shared_expert_intermediate_size, weighted by a gate */
    SP_READS_GEMMA4 = 1 << 7,       /* what config_gemma4.c reads */
    SP_READS_SCORE_CAP = 1 << 8,    /* attn_logit_softcapping */
    SP_READS_MULTIPLIERS = 1 << 9, /* attention_, embedding_, residual_multiplier, logits_scaling */
    SP_READS_LOGIT_SCALE = 1 << 10,  /* logit_scale */
    SP_READS_ROUTED_SCALE = 1 << 11, /* routed_scaling_factor */
    SP_READS_ROUTED = 1 << 12,       /* n_routed_experts, n_shared_experts, n_group, topk_group */
    SP_READS_FALCON_H1 = 1 << 13,    /* what config_falcon_h1.c reads */
    SP_READS_CLIP = 1 << 14,         /* clip_qkv */
    SP_READS_THETAS = 1 << 15,       /* layer_rope_theta */
    SP_READS_LATENT = 1 << 16,       /* what config_latent.c reads */
    SP_READS_ERNIE = 1 << 17,        /* moe_num_experts, moe_num_shared_experts, moe_norm_min */
};

/* How a family spells what its experts are like. NULL: the usual key, or none. */
struct sp_expert_keys {
    const char *count;     /* experts of a layer: num_experts or num_local_experts */
    const char *used;      /* ... of a row: num_experts_per_tok or experts_per_token */
    const char *step;      /* every so many layers have experts: decoder_sparse_step */
    const char *dense;     /* ... but not the first so many, */
    const char *last;      /* ... nor those behind this one; -1: it is the model's last */
    const char *shared;    /* shared experts: one dense MLP so many times as wide */
    const char *beside;    /* width of a dense MLP beside the experts; 0: there is none */
    const char *types;     /* which layers have them, one by one: "dense" or "sparse" */
    const char *scale;     /* of their weights: routed_scaling_factor */
    const char *corrected; /* whether the router's scores are corrected */
    const char *width;     /* of an expert: moe_intermediate_size */
};

/* How a family spells what its Mamba-2 layers are like, and the defaults. */
struct sp_mamba_family {
    const char *heads, *head_dim, *groups, *state, *kernel, *conv_bias, *proj_bias;
    const char *values;              /* of all heads together; NULL: expand * hidden */
    const char *activation;          /* NULL: hidden_act */
    unsigned n_values;               /* default */
    struct sp_mamba_config defaults; /* head_dim 0: values / heads */
    bool beside;                     /* attention, in every layer (Falcon-H1) */
    bool one_limit;                  /* of dt: time_step_min; time_step_limit is not read */
};

/* What latent attention is like by default. The dims that rotate, qk_rope_head_dim, are the
 * family's sizes.head_dim. */
struct sp_latent_family {
    struct sp_latent_config defaults;
    bool always_paired; /* whatever rope_interleave says */
};

struct sp_family {
    const char *name;         /* model_type of the text config */
    const char *architecture; /* architectures[0], */
    const char *run_as;       /* ... or that of the class which transformers runs it as; or NULL */
    const char *wrapper;      /* model_type of the multimodal config that may hold it, or NULL */
    struct sp_sizes sizes;
    const char *ffn_key; /* of sizes.n_ffn; NULL: intermediate_size */
    double norm_eps;
    const char *norm_eps_key; /* NULL: rms_norm_eps; "": none, it cannot be another */
    double theta;             /* 0: the config must say */
    double partial_rotary; /* default of partial_rotary_factor; 0: all of a head rotates, always */
    double local_theta;    /* sliding layers have a rotation of their own; 0: one for all */
    bool rope_alpha;       /* rope type dynamic with alpha is a fixed stretch of theta (Hunyuan) */
    bool partial_inside;   /* partial_rotary_factor counts inside a rope dict only (Bamba) */
    bool local_unscaled;   /* sliding layers rotate by the same theta, but unscaled (OLMo 3) */
    bool rope_by_type;     /* rope_parameters may be one dict per layer type */
    const char
        *sublayers;       /* a layer is a mixer or an MLP (Nemotron-H), these by default; or NULL */
    bool unrotated;       /* no layer rotates */
    bool rotation_stated; /* layers rotate if position_embedding_type is rope (Granite 4) */
    bool full_unrotated;  /* beside sliding layers the others do not rotate (EXAONE 4, Cohere 2) */
    const char *rope_default; /* class default of rope_parameters, JSON; NULL: none */
    bool tied;
    const char *tied_key; /* counts before tie_word_embeddings; NULL: there is none */
    enum sp_windows windows;
    unsigned window;         /* default of sliding_window where the key is missing */
    unsigned window_pattern; /* default of sliding_window_pattern, */
    const char *pattern_key; /* ... spelled so; NULL: as is */
    unsigned window_layers;  /* default of max_window_layers */
    bool needs_window;       /* sliding_window must not be missing or null */
    bool window_switch;      /* a window counts only with use_sliding_window */
    bool ignores_layer_types;
    enum sp_bias_rule qkv_bias, o_bias, mlp_bias;
    const char *bias_key;           /* one key for all biases; NULL: attention_bias and mlp_bias */
    const char *other_bias_keys[2]; /* of attention_bias and mlp_bias where these are missing */
    const char *o_bias_key;         /* of o_proj alone, false by default; NULL: as q, k and v */
    bool attention_bias;            /* default of the key for q, k and v */
    bool mlp_biased;                /* default of mlp_bias */
    enum sp_norms norms;
    enum sp_qk_norm qk_norm;
    const char *qk_norm_key; /* says whether they are, false by default; NULL: they always are */
    bool norm_shifted, norm_centered, norm_bias, scaled_embedding, plain_mlp;
    bool norm_weightless, embedding_normed, head_bias; /* as in struct sp_config */
    bool sinks;                                        /* attention has them */
    const char *parallel_key; /* says whether attention and MLP work side by side; or NULL */
    const char *root_key; /* says whether embeddings are scaled by sqrt(H), unrounded; or NULL */
    unsigned reads;       /* enum sp_family_reads */
    double logit_scale;   /* default of the key; 0: not read */
    double attention_cap, logit_cap, query_scalar;    /* defaults; 0: none, head_dim */
    unsigned n_experts, n_experts_used, n_expert_ffn; /* defaults; n_expert_ffn 0: n_ffn */
    const char *activation_key, *activation;          /* the key, if there is one; its default */
    bool gelu_is_tanh; /* activation "gelu" means its approximation by tanh (Gemma) */
    /* logits_scaling multiplies, attention_multiplier defaults to the usual scale (HyperCLOVA X) */
    bool mup;
    bool gpt_oss_mlp;   /* every layer has experts: clamped SwiGLU, biases; attention has sinks */
    bool longrope_only; /* any scaling of rotation is longrope, however it is spelled */
    /* The class's original_max_position_embeddings, which counts before a dict's; 0: it has none */
    unsigned original_positions;
    bool delta_layers; /* layer_types may say linear_attention: gated delta rule (Qwen3.5) */
    bool conv_layers;  /* ... conv: gated short convolution (LFM2) */
    const char *attention_list; /* names all layers but these, without layer_types; or NULL */
    const struct sp_mamba_family *mamba;   /* ... mamba, or linear_attention: Mamba-2; or NULL */
    const struct sp_latent_family *latent; /* NULL: keys and values of their own */
    bool adjusted_ffn; /* intermediate_size is adjusted unless the config says otherwise (LFM2) */
    bool output_gate;  /* attention output is gated, */
    bool head_gate;    /* ... or each head by one number */
    unsigned conv_kernel;      /* default of conv_L_cache */
    struct sp_routing routing; /* class defaults; scale 0: 1 */
    bool router_norm_fixed;    /* norm_topk_prob cannot be another */
    struct sp_expert_keys expert_keys;
    unsigned n_dense, n_shared; /* defaults */
    const char *unread; /* names of a prediction head that no one reads begin like this; or NULL */
    unsigned n_shared_ffn; /* default of expert_keys.beside */
    bool ffn_beside;       /* beside its experts a layer has the MLP of sizes.n_ffn (Granite 4) */
    bool full_heads;       /* full layers have heads of their own size (global_head_dim) */
    bool prediction_head;  /* a checkpoint may hold a built-in draft, mtp.*, */
    bool prediction_layer; /* ... or as a layer behind the last one (GLM-4.5) */
    unsigned storage;      /* enum sp_storage */
};

/* Multimodal checkpoints whose language model stands in text_config. */
struct sp_wrapper {
    const char *name; /* model_type */
    const char *architecture;
    const char *text_type; /* text_config.model_type where it is missing */
    bool text_tie_first;   /* tie_word_embeddings of text_config overrules the root's */
};

/* NULL when there is none of that name; `name` may be NULL. */
const struct sp_family *sp_family_by_type(const char *name);
const struct sp_family *sp_family_by_architecture(const char *name);
const struct sp_wrapper *sp_wrapper_by_type(const char *name);
const struct sp_wrapper *sp_wrapper_by_architecture(const char *name);

/* The rows, each table ending with one without a name. */
extern const struct sp_family sp_families_dense[], sp_families_centered[], sp_families_experts[],
    sp_families_hybrid[], sp_families_latent[];

/* Row i of all tables together, NULL past the last. */
const struct sp_family *sp_family_at(size_t i);

#endif
