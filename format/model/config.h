/* What a model is, in one architecture-neutral description that target and draft share.
 *
 * Made from config.json by sp_config_parse: every default resolved, every number checked, nothing
 * left to look up. What differs between families is data here (a trait), never a question
 * `which family is this?` elsewhere. A key that changes the maths and is not implemented is refused
 * by name. The meaning of a key is what transformers' modeling file of that family makes of it. */
#ifndef SP_FORMAT_MODEL_CONFIG_H
#define SP_FORMAT_MODEL_CONFIG_H

#include "format/base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sp_rope_kind {
    SP_ROPE_DEFAULT,
    SP_ROPE_LINEAR,
    SP_ROPE_LLAMA3,
    SP_ROPE_YARN,
    SP_ROPE_LONGROPE,
    SP_ROPE_PROPORTIONAL,
    SP_ROPE_DYNAMIC,
    SP_ROPE_STRETCHED, /* theta times factor^(n_rot / (n_rot - 2)) */
};

/* Rotary position embedding, resolved. Pairs are split-half: (i, i + n_rot/2), i < n_rot/2. */
struct sp_rope {
    enum sp_rope_kind kind;
    double theta;
    unsigned n_rot;              /* rotated dims R <= head_dim; the rest passes through */
    unsigned n_rotated;          /* proportional: pairs that turn; frequency 0 for the rest */
    double factor;               /* 1 where the kind has none */
    double low_freq_factor;      /* llama3 */
    double high_freq_factor;     /* llama3 */
    double original_positions;   /* llama3, yarn, longrope */
    double beta_fast, beta_slow; /* yarn */
    bool truncate;               /* yarn */
    double amplitude;            /* A: multiplies cos and sin */
    double score_scale;          /* multiplies scores of latent attention */
    float *short_factors;        /* longrope: [n_rot/2], owned, else NULL */
    float *long_factors;         /* longrope: [n_rot/2], owned, else NULL */
};

enum sp_activation { SP_SILU, SP_GELU_TANH, SP_GELU_ERF, SP_RELU2, SP_SWIGLU_CLAMPED, SP_XIELU };
/* What mixes the rows of a layer, as bits. */
enum sp_mixer {
    SP_MIXER_ATTENTION = 1,
    SP_MIXER_DELTA_NET = 2,
    SP_MIXER_SHORT_CONV = 4,
    SP_MIXER_MAMBA = 8,
};

/* Where the norms of a layer stand. */
enum sp_norms {
    SP_NORM_PRE,      /* on what attention and MLP read */
    SP_NORM_SANDWICH, /* on what they read and on what they make, before the residual add (Gemma) */
    SP_NORM_POST,     /* on what they make, before the residual add (OLMo 2) */
    SP_NORM_PARALLEL, /* one, on what both read, side by side (Cohere) */
};

/* The norms of queries and keys. */
enum sp_qk_norm {
    SP_QK_PLAIN,   /* none */
    SP_QK_HEADS,   /* each head apart, all with the same weights */
    SP_QK_WHOLE,   /* all heads of a row together (OLMo 2) */
    SP_QK_ROTATED, /* as heads, but after their rotation (Hunyuan) */
    SP_QK_OWN,     /* each head apart with weights of its own, less its mean (Cohere) */
};

/* One decoder layer. */
struct sp_layer_config {
    unsigned mixers; /* enum sp_mixer */
    unsigned n_heads, n_kv_heads, head_dim;
    unsigned window;       /* exactly this many keys including self; 0: all */
    bool window_before;    /* ... or this many in front of the pass, whose own rows come besides */
    int rope;              /* index into sp_config.ropes; -1: no rotation */
    int kv_source;         /* layer whose K/V this one reads; its own index normally; -1: the
                              target's last such layer (drafts) */
    bool causal;           /* false: a DFlash block layer that looks both ways */
    bool reads_pair;       /* q, k and v read [embedding, hidden state], 2 H wide (EAGLE-3) */
    bool v_from_k;         /* v = the raw k projection (Gemma 4 global layers) */
    bool output_gate;      /* attention output times sigmoid of a gate projection, */
    bool head_gate;        /* ... or each head's times that of one number (LFM3) */
    unsigned n_ffn;        /* intermediate size; of one expert in an expert layer */
    unsigned n_shared_ffn; /* of the dense MLP beside the experts; 0: none */
    unsigned n_experts;    /* 0: dense */
    unsigned n_experts_used;
};

/* Multi-head latent attention: every attention layer stores, in place of the keys and values of its
 * heads, one vector that all of them are made of (the latent) and one rotated key that they share.
 * Matrices of each head take a query to the latent's dims, and the mean of the latents that it has
 * seen to the dims of a value, so a layer has one key of kv_rank + rope_dim dims, whose first
 * kv_rank dims are its value. Source: DeepSeek-V2, arXiv 2405.04434, section 2.1. */
struct sp_latent_config {
    unsigned kv_rank;   /* dims of the latent; 0: no latent attention */
    unsigned q_rank;    /* of a latent that queries are made of; 0: they come from the input */
    unsigned nope_dim;  /* dims of a query that do not rotate, the first of a head, */
    unsigned rope_dim;  /* ... and those that do */
    unsigned value_dim; /* of a head */
    bool rows_paired;   /* in a checkpoint, rows that rotate together are neighbours */
};

/* The norms of latents have an epsilon of their own, whatever a config says: the modeling files
 * leave it to the default of their norm. */
#define SP_LATENT_EPS 1e-6

/* Gated delta-rule layers (SP_MIXER_DELTA_NET): value head h reads key head h / (value / key). */
struct sp_delta_config {
    unsigned n_key_heads, n_value_heads;
    unsigned key_dim, value_dim; /* of one head */
    unsigned kernel;             /* taps of the causal convolution */
    bool converted;              /* stored as mlx does: convolution [channels, kernel, 1] */
};

/* Gated short convolutions (SP_MIXER_SHORT_CONV): y = out(c * conv(b * x)), b, c, x = in(hidden).
 */
struct sp_short_conv_config {
    unsigned kernel; /* taps; 0: no such layers */
    bool bias;       /* of both projections and of the convolution */
};

/* What becomes of z, the gate of a Mamba-2 layer. */
enum sp_mamba_norm {
    SP_MAMBA_GATED_NORM, /* norm(y * silu(z)), each group apart */
    SP_MAMBA_NORM_GATED, /* norm(y) * silu(z) */
    SP_MAMBA_GATED,      /* y * silu(z), without a norm */
};

/* Mamba-2 layers (SP_MIXER_MAMBA): head h reads the keys (B) and queries (C) of group
 * h / (n_heads / n_groups). */
struct sp_mamba_config {
    unsigned n_heads, head_dim;
    unsigned n_groups;
    unsigned state_dim;           /* of a key */
    unsigned kernel;              /* taps of the causal convolution; 0: no such layers */
    bool conv_bias, proj_bias;    /* of the convolution; of both projections */
    double least_step, most_step; /* limits of dt */
    enum sp_mamba_norm norm;
    double z_scale, x_scale, key_scale, query_scale, step_scale; /* multiply z, x, B, C and dt */
};

/* What a router's logits become. */
enum sp_routing_law {
    SP_ROUTE_SOFTMAX,        /* softmax over all experts; the best k are chosen */
    SP_ROUTE_SOFTMAX_CHOSEN, /* the best k are chosen; softmax over these */
    SP_ROUTE_SIGMOID,        /* sigmoid of each; the best k are chosen */
};

/* Which experts a row goes to, and how much each of them counts. */
struct sp_routing {
    enum sp_routing_law law;
    bool biased;    /* the logits have a bias */
    bool corrected; /* what is added to an expert's score has a say in the choice, not in the weight
                     */
    unsigned n_groups;      /* experts lie in so many groups, 0 or 1: in one; */
    unsigned n_groups_used; /* ... those count whose two best scores have the largest sums, */
    bool groups_by_best;    /* ... or whose best scores are the largest (DeepSeek-V2) */
    bool norm;              /* weights are divided by their sum, */
    double norm_eps;        /* ... plus this, */
    double scale;           /* then multiplied by this */
};

enum sp_draft_kind {
    SP_DRAFT_NONE, /* a language model of its own: target, or autoregressive draft */
    SP_DRAFT_DFLASH,
    SP_DRAFT_MTP,       /* a prediction head out of its target's own checkpoint (mtp.*) */
    SP_DRAFT_ASSISTANT, /* Gemma 4 assistant: attends to its target's keys */
    SP_DRAFT_DFLASH2,   /* DFlash with convolutions over the block and a selector of candidates */
    SP_DRAFT_DSPARK,    /* DFlash whose rows are corrected by the token before them */
    SP_DRAFT_EAGLE3,    /* one layer on pairs of the target's features and the next token */
    SP_DRAFT_PEAGLE,    /* such layers that make all guesses in one pass, as a block does */
};

enum { SP_MAX_TAPS = 64, SP_MAX_EOS = 16, SP_MAX_BLOCK = 64 };

/* In place of a layer: the embeddings, before the first layer. Configs call it layer -1. */
#define SP_TAP_EMBEDDING (UINT_MAX - 1)

static inline int sp_tap_number(unsigned tap)
{
    return tap == SP_TAP_EMBEDDING ? -1 : (int)tap;
}

/* How a DSpark draft turns the token before a guess into a correction of its logits. */
enum sp_markov {
    SP_MARKOV_VANILLA, /* by that token's embedding */
    SP_MARKOV_GATED,   /* ... gated by it and the row's hidden state */
    SP_MARKOV_RNN,     /* by a state that walks along the block */
};

struct sp_dspark_config {
    unsigned rank; /* width of the embedding; 0: no correction */
    enum sp_markov markov;
    bool confidence;        /* a head says how sure each guess is */
    bool confidence_markov; /* ... and reads the embedding besides the hidden state */
};

/* "none", "vanilla", "gated" or "rnn". */
const char *sp_markov_name(const struct sp_dspark_config *dspark);

/* What only drafts have; zero for a language model. */
struct sp_draft_config {
    enum sp_draft_kind kind;
    unsigned block_size; /* rows of a block, the anchor's included */
    uint32_t mask_token;
    unsigned n_taps;
    unsigned taps[SP_MAX_TAPS]; /* the target's residual stream after these layers, in fc's order;
                                   SP_TAP_EMBEDDING */
    unsigned n_target_layers;   /* 0: not stated */
    unsigned target_hidden;     /* width of one tap */
    bool borrows_tables;        /* the embedding is the target's, and the head, but for owns_head */
    bool owns_head;             /* a head of its own, whosever the embedding is */
    bool midlayer;              /* in a checkpoint, its layer is called so (EAGLE-3) */
    bool rows_paired;    /* in a checkpoint, rows of q and k that rotate together are neighbours */
    bool raw_embeddings; /* reads a borrowed embedding as it is stored, without its scale */
    unsigned selector_rank;  /* DFlash2: width of the selector's codebooks */
    unsigned selector_top_k; /* ... candidates of a row */
    unsigned first_row;      /* of a block that guesses: 1, behind the anchor's, or 0 */
    struct sp_dspark_config dspark;
    unsigned n_head_rows;     /* rows of its own head, each a token of the target's; 0: n_vocab */
    bool maps_tokens;         /* ... by the table d2t: row i is token i + d2t[i] */
    bool taps_stated;         /* EAGLE-3, P-EAGLE: else sp_config_fit_target finds them */
    bool features_normed;     /* ... all features together, before fc */
    bool taps_normed;         /* ... each tap's apart, before fc */
    bool normed_residual;     /* ... the residual stream begins with the normed hidden state */
    bool normed_output;       /* ... and heads: what it feeds back to itself is normed */
    unsigned n_clusters;      /* assistants: of tokens, each with a centroid; 0: plain head */
    unsigned n_clusters_used; /* ... whose tokens are scored */
};

struct sp_config {
    char family[32];       /* row of the family table: "llama", "qwen3", ... */
    char architecture[64]; /* architectures[0] as read */
    unsigned n_vocab;      /* rows of the embedding */
    unsigned n_hidden;
    unsigned n_layers;
    struct sp_layer_config *layers; /* [n_layers], owned */
    struct sp_rope ropes[2];
    unsigned n_ropes;
    unsigned max_positions;
    double norm_eps;
    bool norm_shifted;     /* norms multiply by 1 + w (Gemma) */
    bool norm_bias;        /* ... and have a bias */
    bool norm_centered;    /* norms of the residual stream take its mean off first (LayerNorm) */
    bool norm_weightless;  /* no norm has weights (OLMo 1, nanochat) */
    bool embedding_normed; /* the residual stream begins with a norm, without weights (nanochat) */
    bool head_bias;        /* logits have a bias (Phi) */
    double qkv_limit;      /* clamps q, k and v as they are projected; 0: none */
    enum sp_norms norms;
    enum sp_qk_norm qk_norm;
    bool qkv_bias, o_bias, mlp_bias;
    bool plain_mlp; /* without a gate: down(act(up(x))) */
    enum sp_activation activation;
    double attention_scale; /* multiplies q.k */
    double attention_cap;   /* soft cap of scores; 0: none */
    double logit_cap;       /* soft cap of logits; 0: none */
    double logit_scale;     /* multiplies logits, before the cap; 1: none */
    double residual_scale;  /* multiplies what a sublayer adds to the residual stream; 1: none */
    double attention_part;  /* multiplies what attention makes beside Mamba-2, */
    double mamba_part;      /* ... and what Mamba-2 makes there */
    double ffn_in_scale;    /* multiplies what an MLP reads, */
    double ffn_out_scale;   /* ... and what it makes */
    double embedding_scale; /* multiplies embeddings of this model's table; 1: none */
    double input_scale;     /* multiplies embeddings, whosever table they are from; 1: none */
    bool attention_sinks;   /* a learned logit per head joins the softmax (gpt-oss) */
    double query_growth; /* beta of q *= 1 + beta ln(1 + floor(p / query_growth_from)); 0: none */
    double query_growth_from;
    struct sp_routing routing;
    double swiglu_limit;
    struct sp_latent_config latent;
    struct sp_delta_config delta; /* zero: no such layers */
    struct sp_short_conv_config short_conv;
    struct sp_mamba_config mamba;
    unsigned n_conv_taps; /* of the convolutions around sublayers (DFlash2); 0: none */
    unsigned conv_group;  /* ... neighbouring channels that share their dynamic taps */
    bool shared_gate;     /* the MLP beside the experts is weighted by sigmoid(w . x) (Qwen3.5) */
    bool expert_norms;  /* ... or normed, like the experts' sum, before both are added (Gemma 4) */
    bool v_norm;        /* v is normed per head, without weight (Gemma 4) */
    bool layer_scalars; /* the residual stream is scaled after each layer (Gemma 4) */
    unsigned n_per_layer;       /* width of a layer's own token embeddings (Gemma 4 E); 0: none */
    unsigned n_per_layer_vocab; /* rows of their table */
    unsigned n_mtp_layers;      /* of a built-in prediction head, as the config states them */
    bool mtp_tables;            /* ... which would have an embedding and a head of its own */
    bool tied;                  /* no head of its own: logits come from the embedding matrix */
    bool tied_stated;           /* the config has the key */
    struct sp_draft_config draft;
};

/* Reads config.json's text. On failure *out is zeroed. Warnings (ignored but notable keys) are
 * appended to `notes`, one sentence a line, if notes is not NULL: *notes is owned by the caller,
 * NULL or a string. What only the tensors can tell is preliminary until sp_config_settle: `tied` is
 * the config's own word, a draft borrows its tables, n_taps is 0 where the config leaves the taps
 * to their default, and a built-in prediction head still looks like the whole model. */
SP_MUST_CHECK enum sp_status sp_config_parse(struct sp_config *out, const char *json, size_t size,
                                             char **warnings, struct sp_err *err);

/* Which of the telling tensors there are, in a checkpoint or a packed file. */
struct sp_tables {
    bool embedding, head;
    bool layer_scalars; /* layers.0.layer_scalar */
    uint64_t fc_cols;   /* columns of a draft's fc.weight; 0: there is none */
    uint64_t conv_taps; /* last dimension of a delta layer's conv1d.weight; 0: there is none */
    bool mtp;           /* pre_fc_norm_hidden.weight: this is a built-in prediction head */
    bool mtp_ffn;       /* ... whose layer has an MLP */
    bool d2t;           /* a draft's own vocabulary */
};

/* Completes a parsed config by what is there: tied or not, borrowed tables or own, default taps; a
 * prediction head's config becomes that of its one layer.
 * sp_specs_of_source does it for a checkpoint; a reader of packed files calls it before
 * sp_specs_of_config. SP_E_INPUT when config and tensors contradict each other. */
SP_MUST_CHECK enum sp_status sp_config_settle(struct sp_config *config,
                                              const struct sp_tables *found, struct sp_err *err);

/* Completes a settled draft by what its target is like: the default taps of EAGLE-3 and P-EAGLE.
 * For every reader that wants to know the taps. */
SP_MUST_CHECK enum sp_status
sp_config_fit_target(struct sp_config *draft, const struct sp_config *target, struct sp_err *err);

/* Is this a draft whose layers read pairs: EAGLE-3 or P-EAGLE? */
bool sp_draft_is_eagle(enum sp_draft_kind kind);

/* How messages call a draft of this kind: "eagle3", "peagle", "assistant", or "dflash" for every
 * block draft. */
const char *sp_draft_name(enum sp_draft_kind kind);

/* The name of a kind of draft model for users: "dflash", "autoregressive", "mtp", ...; static. */
const char *sp_draft_kind_name(enum sp_draft_kind kind);

/* Does this EAGLE-3 or P-EAGLE draft, which has met the target, fit it? Every reason why not is a
 * sentence. */
SP_MUST_CHECK enum sp_status sp_config_check_eagle3(const struct sp_config *draft,
                                                    const struct sp_config *target,
                                                    struct sp_err *err);

/* Are i + d2t[i], i < n, ascending ids below n_vocab? SP_E_INPUT when they are not, naming the kind
 * of draft. */
SP_MUST_CHECK enum sp_status sp_config_check_token_map(enum sp_draft_kind kind, const float *d2t,
                                                       size_t n, size_t n_vocab,
                                                       struct sp_err *err);

/* Dims of a value that an attention layer stores for each of its n_kv_heads; keys have head_dim. */
unsigned sp_config_value_dim(const struct sp_config *config, const struct sp_layer_config *layer);

/* The last layer with keys of its own, among those with a window or those without; n_layers when
 * there is none. */
unsigned sp_config_last_keys(const struct sp_config *config, bool windowed);

/* Can this assistant attend to the keys of that target, and read its hidden states? Every reason
 * why not is a sentence. */
SP_MUST_CHECK enum sp_status sp_config_check_assistant(const struct sp_config *assistant,
                                                       const struct sp_config *target,
                                                       struct sp_err *err);

/* Is this each id below n once? SP_E_INPUT when it is not. */
SP_MUST_CHECK enum sp_status sp_config_check_token_order(const float *order, size_t n,
                                                         struct sp_err *err);

/* The first layer with this mixer; n_layers when there is none. */
unsigned sp_config_first_layer(const struct sp_config *config, enum sp_mixer mixer);

/* Has a layer a state that a sequence cannot step back in? */
bool sp_config_is_recurrent(const struct sp_config *config);

void sp_config_release(struct sp_config *config);

/* End-of-sequence ids by the precedence generation_config, config (root, then text_config). Texts
 * may be NULL. *n 0 when none of them states any (the caller then asks the tokenizer). */
SP_MUST_CHECK enum sp_status sp_config_eos(uint32_t ids[SP_MAX_EOS], size_t *n, const char *config,
                                           size_t config_size, const char *generation,
                                           size_t generation_size, struct sp_err *err);

#endif
