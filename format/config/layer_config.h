/* The layers of a model, and the sizes of their mixers and experts: parts of struct sp_config. */
#ifndef SP_FORMAT_CONFIG_LAYER_CONFIG_H
#define SP_FORMAT_CONFIG_LAYER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum sp_rope_kind {
    SP_ROPE_DEFAULT,
    SP_ROPE_LINEAR,
    SP_ROPE_LLAMA3,
    SP_ROPE_YARN,
    SP_ROPE_LONGROPE,
    SP_ROPE_PROPORTIONAL,
    SP_ROPE_DYNAMIC,
    SP_ROPE_NTK_ALPHA, /* theta times factor^(n_rot / (n_rot - 2)) */
};

/* Rotary position embedding with all defaults resolved. Dims i and i + n_rot / 2 rotate together,
 * i < n_rot / 2. */
struct sp_rope {
    enum sp_rope_kind kind;
    double theta;
    unsigned n_rot;              /* rotated dims of a head, at most head_dim; others stay as is */
    unsigned n_rotated;          /* proportional: pairs with a frequency above 0 */
    double factor;               /* scaling factor; 1 for kinds without one */
    double low_freq_factor;      /* llama3 */
    double high_freq_factor;     /* llama3 */
    double original_positions;   /* llama3, yarn, longrope */
    double beta_fast, beta_slow; /* yarn */
    bool truncate;               /* yarn */
    double amplitude;            /* factor of cos and sin */
    double score_scale;          /* factor of the scores of latent attention */
    float *short_factors;        /* longrope: [n_rot / 2], owned; else NULL */
    float *long_factors;         /* longrope: [n_rot / 2], owned; else NULL */
};

enum sp_activation {
    SP_SILU,
    SP_GELU_TANH,
    SP_GELU_ERF,
    SP_RELU,
    SP_RELU2,
    SP_SWIGLU_CLAMPED,
    SP_SWIGLU_CAPPED, /* cap(gate) sigmoid(gate) cap(up), cap x = c tanh(x / c) (Inkling 2) */
    SP_XIELU
};

/* The token mixers of a layer, as bits: a layer may have several. */
enum sp_mixer {
    SP_MIXER_ATTENTION = 1,
    SP_MIXER_DELTA_NET = 2,
    SP_MIXER_SHORT_CONV = 4,
    SP_MIXER_MAMBA = 8,
    SP_MIXER_CCA = 16, /* beside SP_MIXER_ATTENTION, whose q, k and v it makes */
};

/* What becomes of the residual stream x before a layer, in this order, as bits. */
enum sp_join {
    SP_JOIN_NORM = 1,  /* x is normed as at the end */
    SP_JOIN_FIRST = 2, /* x is kept, and begins anew as the start vector, if there is one */
    SP_JOIN_ADD = 4,   /* the kept rows are added to x */
    SP_JOIN_KEEP = 8,  /* x as it was before that is kept instead of them */
};

/* Where the norms of a layer are. */
enum sp_norms {
    SP_NORM_PRE,      /* on the inputs of attention and MLP */
    SP_NORM_PRE_POST, /* on their inputs, and on the output of the MLP (A.X K1) */
    SP_NORM_SANDWICH, /* on their inputs, and on their outputs before the residual add (Gemma) */
    SP_NORM_POST,     /* on their outputs before the residual add (OLMo 2) */
    SP_NORM_PARALLEL, /* attention and MLP run in parallel on one normed input (Cohere) */
    SP_NORM_TWIN,     /* in parallel, each with a norm of its own of their input (GPT-NeoX) */
    SP_NORM_RESIDUAL, /* on the residual stream after each of their outputs is added (BERT) */
};

/* The norms of queries and keys. */
enum sp_qk_norm {
    SP_QK_PLAIN,   /* none */
    SP_QK_HEADS,   /* per head, with weights that all heads share */
    SP_QK_WHOLE,   /* over all heads of a token (OLMo 2) */
    SP_QK_ROTATED, /* per head with shared weights, after the rotation, if there is one (Hunyuan) */
    SP_QK_OWN,     /* a LayerNorm per head with weights of its own (Cohere) */
    SP_QK_SHARED,  /* a LayerNorm per head with weights and a bias that all share (Persimmon) */
    SP_QK_CLIP,    /* per head, q scaled, shortened to a length (Inkling 2) */
};

/* Queries at position p are multiplied by 1 + beta ln(1 + floor((p + offset) / from)) (Ministral
 * 3). */
struct sp_query_growth {
    double beta, from; /* beta 0: none; from: a whole number */
    unsigned offset;
    bool unrotated_only; /* in layers without rotary embedding (Llama 4) */
    bool power;          /* the factor is (1 + (p + offset) / from)^beta instead (Beam) */
    bool smooth; /* in layers without a window it is 1 + beta ln(max(1, (p + offset) / from)),
                    in others 1 (Inkling) */
};

/* One decoder layer. */
struct sp_layer_config {
    unsigned mixers; /* enum sp_mixer */
    enum sp_norms norms;
    unsigned n_heads, n_kv_heads, head_dim;
    unsigned value_dim; /* dims of a value; 0: head_dim */
    unsigned window;    /* keys that a query sees, its own included; 0: all */
    bool chunked;       /* it sees only keys of its own chunk of `window` positions (Llama 4) */
    bool window_before; /* the window counts keys before the forward pass only */
    int rope;           /* index into sp_config.ropes; -1: no rotation */
    double score_scale; /* factor of the scores q.k; 0: attention_scale */
    unsigned repeats;   /* its weights are those of the layer so many before it; 0: its own */
    unsigned joins;     /* enum sp_join */
    int kv_source;      /* layer whose K/V this one reads, normally its own index; -1: the
                           target's last layer of the same type (drafts) */
    /* Of the mixer and of the MLP: the factor of its normed input, which becomes the residual
     * stream, or 0: the stream is not changed; and the factor of its output (MiniMax). */
    double stream_scales[2], out_scales[2];
    double keep_scales[2]; /* factors of the stream to which these outputs are added (Beam) */
    bool shares_index;     /* attends to the keys that were chosen for the layer before */
    unsigned rate;         /* compressed attention: tokens of an entry; 0: only its window */
    bool overlaps;         /* an entry is made of the tokens of the one before as well, and chosen
                              by an index */
    bool hashes;           /* experts are chosen by a table of tokens */
    unsigned ngrams;       /* number, from 1, of its table of n-grams; 0: it has none */
    bool unindexed;        /* attends to all keys although other layers have an index */
    bool begins_block;     /* the stream that it reads ends a block (sp_config.block_attention) */
    bool restarts; /* the stream begins as before the layers that repeat ran (Inkling 2 Loop) */
    /* k and v read inputs of their own, and their convolutions have taps that these make (Inkling
     * 2). */
    bool own_kv_inputs;
    bool causal;             /* false: rows of a DFlash block see each other */
    bool reads_pair;         /* q, k and v read two rows, 2 H wide: embedding and hidden state
                                (EAGLE-3), or x and the kept rows (sp_layer_has_block) */
    bool other_latent;       /* latent attention has the sizes of sp_config.other_latent */
    bool v_from_k;           /* v is the output of k_proj (Gemma 4 full layers) */
    bool output_gate;        /* the attention output is multiplied by a sigmoid of its own width */
    bool head_gate;          /* each head's output is multiplied by one sigmoid (LFM3) */
    unsigned n_ffn;          /* width of the MLP; of one expert in a layer with experts */
    unsigned n_shared_ffn;   /* width of the dense MLP in parallel to the experts; 0: none */
    unsigned n_experts;      /* 0: the MLP is dense */
    unsigned n_experts_used; /* experts per token */
    double limits[2];    /* of the factors of a SwiGLU: of the experts, and of the dense MLP or the
                            shared expert; 0: none */
    double sparsity;     /* part of a normal distribution of gates that becomes 0 (Gemma 3n) */
    bool defers_experts; /* the sum of the experts is added after the next layer (LongCat) */
};

/* The tokens before a row that a layer reads; 0: all. */
static inline unsigned sp_layer_reach(const struct sp_layer_config *l)
{
    unsigned blocks = l->overlaps ? 2 * l->rate : l->rate;

    return blocks > l->window ? blocks : l->window;
}

/* True if a Mamba layer reads norm(x + out(MLP(norm(attention(norm([x, kept]))))), the embedding
 * being kept. Layers that repeat share all but Mamba, out, and low-rank adapters of the block. */
static inline bool sp_layer_has_block(const struct sp_layer_config *l)
{
    return l->reads_pair && (l->mixers & SP_MIXER_MAMBA);
}

/* Multi-head latent attention. For each token, a layer caches one vector from which the keys and
 * values of all heads follow (the latent), and one rotated key that all heads share. A matrix
 * per head projects a query to the dims of the latent, and another one projects the weighted
 * mean of the latents to the dims of a value. So the layer has one key of kv_rank + rope_dim
 * dims, and its value is the first kv_rank dims of the key. Source: DeepSeek-V2, arXiv
 * 2405.04434, section 2.1. */
struct sp_latent_config {
    unsigned kv_rank;         /* dims of the latent; 0: no latent attention */
    unsigned q_rank;          /* dims of the latent of queries; 0: queries come from the input */
    unsigned nope_dim;        /* dims of a query head that do not rotate; they come first */
    unsigned rope_dim;        /* dims of a query head that rotate */
    unsigned value_dim;       /* dims of a value head */
    bool rows_paired;         /* in a checkpoint, neighboring rows rotate together */
    bool key_norm;            /* the rotated key is normed before its rotation (dots 3) */
    double norm_eps;          /* of the norms of the latents and of that key */
    double scale;             /* factor of the scores */
    double q_scale, kv_scale; /* factors of the normed latents, of queries and of keys and values;
                                 0: none (LongCat) */
    bool gated; /* queries, and a gate for each value of a head, are made of the latent of
                   queries and of that latent before its norm (A.X K2) */
};

/* Compressed attention (runtime/model/compressed_attention.c). Its index has the sizes of
 * sp_config.index. */
struct sp_compressed_config {
    unsigned q_rank;   /* dims of the latent of queries; 0: no compressed attention */
    unsigned n_groups; /* of heads, each of which has a matrix to out_rank dims of its own */
    unsigned out_rank;
};

/* Hyper-connections (runtime/model/hyper.c). */
struct sp_hyper_config {
    unsigned n_streams;  /* 0: there is only the residual stream */
    double strength;     /* largest weight of a sublayer's output, without eps */
    double eps, out_eps; /* added to the weights of what is read, and of what is written */
    unsigned n_balance; /* steps that balance the matrix by which streams mix; 0: they do not mix */
    bool mean;          /* the head reads the mean of the streams */
    /* Every sublayer, and the head, reads the mean of the normed streams, each dim gated by two
     * matrices of this rank; there is no other norm. 0: as above. */
    unsigned rank;
};

/* Embeddings of n-grams, which layers with a table of them add to their streams
 * (runtime/model/ngrams.c). */
struct sp_ngram_config {
    unsigned longest;    /* tokens of the longest n-gram; the shortest has two */
    unsigned n_parts;    /* of a table, as many for n-grams of each length */
    unsigned dim;        /* of a row of a table; a token has a row of each part */
    unsigned kernel;     /* taps of the convolution, `longest` tokens apart */
    unsigned least_rows; /* of a part of a table */
    unsigned multiple;   /* of which the rows of a table are one */
    unsigned n_shards;   /* tensors of a table in a checkpoint */
    unsigned separator;  /* token that stands for itself and all before it, also of a text */
    uint64_t seed;       /* of the factors of tokens */
};

/* The index of latent attention, which chooses the keys that a row attends to. Its first rope_dim
 * dims rotate. Source: DeepSeek-V3.2. */
struct sp_index_config {
    unsigned top_k; /* keys of a row; 0: there is no index, a row attends to all */
    unsigned n_heads, head_dim;
    bool rows_paired;  /* as in struct sp_latent_config */
    unsigned pool;     /* tokens of a pool, of which one key is made; 0: each token has its own */
    bool rotates_last; /* its last rope_dim dims rotate instead (HY 4) */
    double norm_eps;   /* of its norms */
    bool normed_input; /* its queries are made of the layer's input, normed (Mistral Large 4) */
    /* Tokens of a block. Each head of the index chooses blocks for the same number of heads of keys
     * and values, by queries made of the layer's input. 0: there are no blocks. */
    unsigned block;
    unsigned n_local; /* the last blocks, which are always chosen */
    /* The key of a pool is the norm of the mean of its tokens' keys, rotated as the first; scores
     * of heads have no weights, and queries are made of the layer's input. */
    bool mean;
};

/* The epsilon of the norms of latents where no config changes it, because the modeling file uses
 * the default of its norm. */
#define SP_LATENT_EPS 1e-6

/* Gated delta-rule layers (SP_MIXER_DELTA_NET), or, without a rule, lightning attention. Value head
 * h reads key head h / (n_value_heads / n_key_heads). */
struct sp_delta_config {
    unsigned n_key_heads, n_value_heads;
    unsigned key_dim, value_dim; /* dims of one head */
    unsigned kernel;             /* taps of the causal convolution */
    /* Lightning attention: what a head adds to its state is v itself, its decay is a constant,
     * nothing is convolved, and the norm of the output is over all heads. */
    bool lightning;
    double strength; /* factor of the sigmoid that writes to the state */
    double norm_eps; /* epsilon of the norm of the output */
    bool converted;  /* stored as mlx does it: convolution [channels, kernel, 1] */
    /* Kimi delta attention: each channel of a key has a decay of its own, and the output is gated
     * by a sigmoid instead of silu. */
    bool by_channel;
    double decay_floor; /* of by_channel: the lowest logarithm of a decay; 0: there is none */
    bool sigmoid_gate;  /* the gate of the output is a sigmoid, as that of by_channel */
    unsigned low_rank; /* width between the two matrices that make the gates, and between those that
                          make the decays; 0: one matrix each */
};

/* Gated short convolution (SP_MIXER_SHORT_CONV): y = out(c * conv(b * x)), b, c, x = in(hidden). */
struct sp_short_conv_config {
    unsigned kernel; /* taps; 0: no such layers */
    bool bias;       /* both projections and the convolution have biases */
};

/* Compressed convolutional attention (SP_MIXER_CCA; runtime/model/cca.c). */
struct sp_cca_config {
    unsigned kernel;     /* taps of the convolution of each channel */
    unsigned mix_kernel; /* taps of the convolution behind it, of all channels of a head */
};

/* How a Mamba-2 layer applies its gate z to its output y. */
enum sp_mamba_norm {
    SP_MAMBA_GATED_NORM, /* norm(y * silu(z)), the norm per group */
    SP_MAMBA_NORM_GATED, /* norm(y) * silu(z) */
    SP_MAMBA_GATED,      /* y * silu(z) without a norm */
};

/* Mamba-2 layers (SP_MIXER_MAMBA). Head h reads the keys (B) and queries (C) of group
 * h / (n_heads / n_groups). Mamba-1 has one group and a dt for each value, made of step_rank dims;
 * its heads are any division of the values. */
struct sp_mamba_config {
    unsigned n_heads, head_dim;
    unsigned n_groups;
    unsigned state_dim;        /* dims of a key */
    unsigned kernel;           /* taps of the causal convolution; 0: no such layers */
    bool conv_bias, proj_bias; /* of the convolution; of both projections */
    double min_step, max_step; /* lower and upper limit of dt */
    enum sp_mamba_norm norm;
    unsigned step_rank;            /* 0: Mamba-2 */
    bool step_norms, step_weights; /* of Mamba-1: dt, B and C are normed, and by weights */
    double step_eps;
    double z_scale, x_scale, key_scale, query_scale, step_scale; /* multiply z, x, B, C and dt */
};

/* How the weights of experts follow from the logits of the router. */
enum sp_routing_law {
    SP_ROUTE_SOFTMAX,        /* softmax over all experts, then the best k are chosen */
    SP_ROUTE_SOFTMAX_CHOSEN, /* the best k are chosen, then softmax over the chosen ones */
    SP_ROUTE_SQRT_SOFTPLUS, /* the root of the softplus of each logit, then the best k are chosen */
    SP_ROUTE_SIGMOID,       /* sigmoid of each logit, then the best k are chosen */
    SP_ROUTE_SIGMOID_CHOSEN, /* the best k are chosen, then sigmoid of the chosen ones */
    /* The best k are chosen. The weight of each is its softmax over those not chosen before it
     * whose logit l is near its own, m: (m - l) / max(|l|, m) <= jitter (PhiMoE). */
    SP_ROUTE_NEAR,
};

/* How the experts of a token and their weights are chosen. */
struct sp_routing {
    enum sp_routing_law law;
    unsigned n_zero;   /* choices behind the experts that return their input */
    bool zero_skips;   /* those choices return nothing instead (ZAYA1) */
    unsigned n_hidden; /* width of the router's MLP (struct sp_router_mlp); 0: it has none */
    bool biased;       /* the logits have a bias */
    double logit_cap;  /* soft cap of the logits; 0: none */
    bool corrected;    /* a correction is added to the scores for the choice, not for the weights */
    unsigned n_groups; /* groups of experts; 0 or 1: there are no groups */
    unsigned n_groups_used; /* only experts of the n_groups_used best groups can be chosen; the
                               score of a group is the sum of its two best scores */
    bool groups_zeroed;     /* experts of other groups have a score of 0 instead (A.X K2) */
    bool groups_by_best;    /* the score of a group is its best score (DeepSeek-V2) */
    bool norm;              /* weights are divided by (their sum + norm_eps) */
    bool shared_half;       /* the MLP in parallel to the experts counts half (Cohere 2 MoE) */
    double norm_eps;
    double scale;      /* the weights are multiplied by this, after `norm` */
    double jitter;     /* of SP_ROUTE_NEAR */
    bool weighs_input; /* a weight multiplies the input of its expert, not the output (Llama 4) */
    unsigned n_always; /* the last experts of a layer, which every row has beside those that are
                          chosen; they count among the experts that a row uses (Inkling) */
};

#endif
