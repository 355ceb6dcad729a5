/* The description of a model, independent of its family and the same for targets and drafts.
 *
 * sp_config_parse (format/family/config_parse.h) makes it from config.json: every default is
 * resolved and every number is checked.
 * Differences between families are members of struct sp_config, so no other code asks which family
 * a model belongs to. A key that changes the computation and is not implemented is refused by name.
 * The meaning of a key is what the family's modeling file in transformers does with it. */
#ifndef SP_FORMAT_CONFIG_CONFIG_H
#define SP_FORMAT_CONFIG_CONFIG_H

#include "format/base/mem.h"

#include <limits.h>

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

enum sp_draft_kind {
    SP_DRAFT_NONE,      /* a complete language model: a target or an autoregressive draft */
    SP_DRAFT_DFLASH,    /* layers over a block of draft tokens that see the whole block */
    SP_DRAFT_MTP,       /* the multi-token prediction head in its target's checkpoint */
    SP_DRAFT_ASSISTANT, /* Gemma 4 assistant: attends to its target's keys */
    SP_DRAFT_DFLASH2,   /* DFlash with convolutions over the block and a selector of candidates */
    SP_DRAFT_DSPARK,    /* DFlash whose logits are corrected by the preceding token */
    SP_DRAFT_EAGLE3,    /* one layer that reads the target's features and the next token */
    SP_DRAFT_PEAGLE,    /* layers as in EAGLE-3 that make all draft tokens in one forward pass */
};

enum { SP_MAX_STREAMS = 8, SP_MAX_TAPS = 64, SP_MAX_EOS = 16, SP_MAX_BLOCK = 64 };
enum { SP_MAX_NGRAM = 8, SP_MAX_NGRAM_PARTS = 64, SP_MAX_NGRAM_TABLES = 16 };

/* A tap that is not a layer but the embeddings before the first layer. Configs call it layer -1. */
#define SP_TAP_EMBEDDING (UINT_MAX - 1)

static inline int sp_tap_number(unsigned tap)
{
    return tap == SP_TAP_EMBEDDING ? -1 : (int)tap;
}

/* What the Markov head of a DSpark draft computes its correction of the logits from. */
enum sp_markov {
    SP_MARKOV_VANILLA, /* the embedding of the preceding token */
    SP_MARKOV_GATED,   /* that embedding, gated by itself and the hidden state of the row */
    SP_MARKOV_RNN,     /* a recurrent state that runs over the block */
};

struct sp_dspark_config {
    unsigned rank; /* width of the Markov head's embedding; 0: there is no Markov head */
    enum sp_markov markov;
    bool confidence;        /* a head predicts the acceptance of each draft token */
    bool confidence_markov; /* that head reads the Markov embedding and the hidden state */
};

/* "none", "vanilla", "gated" or "rnn". */
const char *sp_markov_name(const struct sp_dspark_config *dspark);

/* The part of a config that only drafts have; zero for a language model. */
struct sp_draft_config {
    enum sp_draft_kind kind;
    unsigned block_size; /* rows of a block, with the row of the anchor */
    uint32_t mask_token; /* the token in rows of a block whose token is not known yet */
    unsigned n_taps;
    unsigned taps[SP_MAX_TAPS]; /* target layers whose outputs fc reads, in order;
                                   or SP_TAP_EMBEDDING */
    unsigned n_target_layers;   /* 0: not stated */
    unsigned target_hidden;     /* width of the target's hidden states */
    bool borrows_tables;        /* uses the target's embedding, and its head unless owns_head */
    bool owns_head;             /* has a head of its own, with or without an embedding */
    bool midlayer;              /* its layer is called midlayer in a checkpoint (EAGLE-3) */
    bool rows_paired;           /* in a checkpoint, neighboring rows of q and k rotate together */
    bool raw_embeddings;        /* reads a borrowed embedding without the target's scale */
    unsigned selector_rank;     /* DFlash2: width of the selector's codebooks */
    unsigned selector_top_k;    /* DFlash2: candidates per row */
    unsigned first_row;         /* first row of a block that gives a draft token: 0, or 1 after the
                                   row of the anchor */
    struct sp_dspark_config dspark;
    unsigned n_head_rows;     /* rows of its own head; 0: n_vocab */
    bool maps_tokens;         /* row i of the head is the target's token i + d2t[i] */
    bool taps_stated;         /* EAGLE-3, P-EAGLE: false if sp_config_fit_target finds the taps */
    bool features_normed;     /* EAGLE-3, P-EAGLE: one norm over all features before fc */
    bool taps_normed;         /* EAGLE-3, P-EAGLE, Laguna's DFlash: one norm per tap before fc */
    bool context_normed;      /* the context passes the input norm of each layer (Laguna) */
    bool normed_residual;     /* EAGLE-3, P-EAGLE: the residual stream begins normed */
    bool unnormed;            /* MTP, Qwen4: there is no norm before the head (ERNIE) */
    bool normed_output;       /* EAGLE-3, P-EAGLE, MTP: the next step reads the normed output */
    unsigned n_clusters;      /* assistants: clusters of tokens, one centroid each; 0: none */
    unsigned n_clusters_used; /* assistants: clusters whose tokens are scored */
};

/* ---- pooling: how the hidden states of a text become one vector, or one score (pooling.h) ---- */

/* Which hidden states of a text, after the final norm, its embedding is made of. */
enum sp_pooling_mode {
    SP_POOL_NONE, /* the model has no pooling */
    SP_POOL_LAST, /* that of the last token */
    SP_POOL_MEAN, /* the mean over all tokens */
    SP_POOL_CLS,  /* that of the first token */
    SP_POOL_RANK, /* no hidden state: a score by the logits after the last token */
};

enum { SP_MAX_DENSE = 8, SP_MAX_PAIR_IDS = 4 };

/* The beginning of the names of the dense layers' tensors, "dense.0.weight", "dense.0.bias". The
 * importer lists those of a checkpoint as "dense.0.linear.weight", "dense.0.linear.bias". */
#define SP_DENSE_PREFIX "dense."

/* y = norm(f(W x + b)) with f the identity, tanh or gelu. The norm is the model's kind of norm,
 * with weights [n_out] "dense.0.norm.weight"; without it y = f(W x + b). */
struct sp_dense_config {
    unsigned n_in, n_out;
    bool bias, tanh, gelu, norm;
};

/* How a classifier reads two texts: ids[0], the first text, ids[1], the second text, ids[2]. */
struct sp_pair_config {
    uint32_t ids[3][SP_MAX_PAIR_IDS];
    unsigned n_ids[3];
    bool second_type; /* the second text and what follows it have the second type of tokens */
};

/* The score of a reranker: the logit of one token, minus that of another, or its sigmoid. */
struct sp_score_config {
    uint32_t true_token, false_token;
    bool two_tokens; /* there is a false_token */
    bool sigmoid;
};

/* Zero: the model has no pooling. */
struct sp_pooling_config {
    enum sp_pooling_mode mode;
    bool normalize;
    unsigned n_dense;
    struct sp_dense_config dense[SP_MAX_DENSE];
    unsigned max_tokens;          /* the longest text, its special tokens included */
    struct sp_score_config score; /* of SP_POOL_RANK, and the sigmoid of a classifier */
    /* A reranker with a classification head: its score is the only number of the last layer. */
    bool classifies;
    struct sp_pair_config pair;
};

struct sp_config {
    char family[32];       /* row of the family table: "llama", "qwen3", ... */
    char architecture[64]; /* architectures[0] as read */
    unsigned n_vocab;      /* tokens that have logits */
    unsigned n_inputs;     /* rows of the embedding; those behind n_vocab are of input only */
    unsigned n_hidden;
    unsigned n_layers;
    struct sp_layer_config *layers; /* [n_layers], owned */
    struct sp_rope ropes[2];
    unsigned n_ropes;
    unsigned max_positions;
    double norm_eps;
    bool norm_shifted;    /* norms multiply by 1 + w (Gemma) */
    bool norm_bias;       /* norms of the residual stream have biases */
    bool norm_centered;   /* norms of the residual stream subtract the mean first (LayerNorm) */
    bool norm_weightless; /* no norm has weights (OLMo 1, nanochat) */
    /* All norms make vectors of length 1, a sublayer moves the stream towards its output by a rate
     * for each dim, and q, gates, factors and logits have scales, all stored times init (Dory).
     * rate: the rates of init; init 0: none of it. */
    struct {
        double init, rate;
    } unit;
    bool starts;                /* there is a start vector (SP_JOIN_FIRST) */
    bool embedding_normed;      /* the embedding passes a norm without weights (nanochat) */
    unsigned n_positions_table; /* rows of a table of learned positions; 0: none (BERT) */
    bool sinusoidal;            /* that table is made of sines and cosines (XGLM) */
    unsigned first_position;    /* row of the first token in it */
    unsigned n_token_types;  /* rows of a table of token types, of which every token has the first
                              * (BERT); 0: none */
    bool normed_input;       /* the embedding passes a norm with weights */
    bool first_unnormed;     /* the attention of layer 0 has no norm (ModernBERT) */
    unsigned norm_gate_rank; /* rank of the gates of input norms, and of the norms before experts
                                (A.X K2); 0: there are none */
    bool head_bias;          /* logits have a bias (Phi) */
    bool head_dense;         /* a square matrix, GELU and a norm are before the head (ModernBERT) */
    double qkv_limit;        /* q, k and v are clamped to this after their projection; 0: none */
    enum sp_norms norms;     /* of most layers; each layer states its own */
    enum sp_qk_norm qk_norm;
    bool qk_norm_weightless; /* those norms have no weights */
    bool final_unshifted;    /* norm_shifted does not count for the last norm (Muse Glimmer) */
    double post_norm_eps;    /* epsilon of norms on outputs of sublayers */
    bool gate_softplus;      /* the output gates are softplus instead of sigmoid (Laguna) */
    bool qkv_bias, o_bias, mlp_bias;
    bool gate_bias;   /* the projection of the output gates has a bias */
    bool gate_biases; /* output gates have a bias for each head (Beam) */
    bool plain_mlp;   /* the MLP has no gate: down(act(up(x))) */
    enum sp_activation activation;
    double attention_scale;     /* factor of the scores q.k */
    double attention_cap;       /* soft cap of scores; 0: none */
    double logit_cap;           /* soft cap of logits; 0: none */
    double logit_scale;         /* factor of the logits, before the cap */
    double residual_scale;      /* factor of the output of a sublayer */
    double attention_out_scale; /* factor of the attention output in a layer with Mamba-2 as well */
    double mamba_out_scale;     /* factor of the Mamba-2 output in such a layer */
    double ffn_in_scale;        /* factor of the input of an MLP */
    double ffn_out_scale;       /* factor of the output of an MLP */
    double embedding_scale;     /* factor of embeddings out of this model's table */
    double input_scale;         /* factor of embeddings out of any table */
    /* ALiBi (arXiv 2108.12409): scores decrease with the distance of a key, in head h of n by
     * 2^(-alibi (h + 1) / n) for each position; 0: none. */
    double alibi;
    bool alibi_rounded; /* 2^(..) times the position of a key instead, both rounded to bfloat16, is
                           added before `attention_scale` (Falcon) */
    bool attention_sinks; /* the softmax has one more learned logit per head (gpt-oss) */
    bool window_sinks;    /* only in layers with a window */
    double value_scale;   /* factor of values */
    struct sp_query_growth query_growth;
    bool ssmax; /* queries have a factor that grows with their position, learned for each head
                   of latent attention and of its index (struct sp_ssmax_weights) */
    bool learned_rope; /* each frequency of ropes[0] has a learned factor (Mistral Large 4) */
    struct sp_routing routing;
    bool silu_capped; /* the limit of a gate counts after its silu (Step 3.5) */
    struct sp_latent_config latent, other_latent;
    struct sp_index_config index;
    struct sp_compressed_config compressed;
    struct sp_delta_config delta; /* zero: no such layers */
    struct sp_short_conv_config short_conv;
    struct sp_cca_config cca;
    struct sp_mamba_config mamba;
    unsigned block_rank;   /* of the adapters of blocks (sp_layer_has_block); 0: none */
    bool block_adapts_qkv; /* q, k and v have adapters too */
    /* Taps of the causal convolutions of k, v and the outputs of both sublayers, to which what they
     * convolve is added (Inkling); 0: there are none. */
    unsigned n_residual_taps;
    bool residual_normed; /* the sums are divided by the root of the number of their terms
                             (Inkling 2); else the output of an MLP has a scale (Inkling) */
    /* A query has weights of rel_dim profiles, whose sum at the distance of a key is added to the
     * score: of distances below rel_extent, or below the window (Inkling). 0: there are none. */
    unsigned rel_dim, rel_extent;
    double rel_clip;    /* what a query mixes is scaled and shortened to this length; 0: not */
    double qk_clip;     /* the length of SP_QK_CLIP */
    bool row_sinks;     /* attention has sinks that each row makes (Inkling 2) */
    double softcaps[2]; /* of SP_SWIGLU_CAPPED: of gates, of their factors */
    /* Layers first_looped.. of the first run of those that repeat, whose inputs in further runs get
     * messages of the run before; message_rank: of their gates, 0: there are none. */
    unsigned first_looped, n_looped, message_rank;
    bool block_attention; /* sublayers read the stream and the states of blocks of layers by
                             attention (Inkling 2, runtime/model/block_attention.c) */
    unsigned n_conv_taps; /* taps of the convolutions around sublayers (DFlash2); 0: none */
    unsigned conv_group;  /* neighboring channels of them that share their dynamic taps */
    bool shared_gate;     /* the dense MLP in parallel to the experts is gated (Qwen) */
    unsigned n_latent;    /* width of what experts read and write, projected; 0: n_hidden */
    bool expert_norms;    /* that MLP and the sum of the experts are each normed (Gemma 4) */
    bool inner_norms;     /* the inputs of o_proj and down_proj are normed (BitNet) */
    bool v_norm;          /* v is normed per head without weights (Gemma 4) */
    bool layer_scalars;   /* each layer multiplies the residual stream by a scalar (Gemma 4) */
    /* The terms of residual adds, and the embedding, become (x + bias) * scale (ZAYA1). */
    bool affine_residuals;
    unsigned n_per_layer; /* width of the per-layer embeddings of tokens (Gemma 4 E); 0: none */
    unsigned n_per_layer_vocab; /* rows of their table */
    unsigned n_streams;         /* streams of AltUp (Gemma 3n); 0: there is only the residual one */
    struct sp_hyper_config hyper;
    struct sp_ngram_config ngrams;
    unsigned laurel_rank;  /* width of the matrices beside attention (Gemma 3n) */
    unsigned n_mtp_layers; /* layers of the built-in prediction head that the config states */
    double mtp_limit;      /* of the factors of its SwiGLU; 0: as in the model; negative: none */
    bool mtp_windowed;     /* the layer of that head has a window */
    bool mtp_tables;       /* that head has an embedding and an output matrix of its own */
    bool tied;             /* the embedding matrix is the output matrix as well */
    bool padded_head;      /* the output matrix has a row for each row of the embedding (Inkling) */
    bool tied_stated;      /* the config has the key of `tied` */
    struct sp_draft_config draft;
    bool bidirectional; /* every token sees all tokens of the text, so the model cannot generate */
    bool headless;      /* there is no output matrix, only pooling */
    /* Zero after sp_config_parse: other files than config.json state it. */
    struct sp_pooling_config pooling;
};

/* Completes a settled draft from its target: sets the default taps of EAGLE-3 and P-EAGLE. Must be
 * called before the taps are used. Fails if layers of this target cannot be tapped. */
SP_MUST_CHECK enum sp_status
sp_config_fit_target(struct sp_config *draft, const struct sp_config *target, struct sp_err *err);

/* True for EAGLE-3 and P-EAGLE. */
bool sp_draft_is_eagle(enum sp_draft_kind kind);

/* The name of a draft kind in messages: "eagle3", "peagle", "assistant", or "dflash" for every
 * kind that drafts a block. */
const char *sp_draft_name(enum sp_draft_kind kind);

/* The name of a kind of draft model for users: "dflash", "autoregressive", "mtp", ...; static. */
const char *sp_draft_kind_name(enum sp_draft_kind kind);

/* Checks that this EAGLE-3 or P-EAGLE draft, after sp_config_fit_target, can draft for the target.
 * Returns SP_E_INPUT with the reason if it cannot. */
SP_MUST_CHECK enum sp_status sp_config_check_eagle3(const struct sp_config *draft,
                                                    const struct sp_config *target,
                                                    struct sp_err *err);

/* Checks that i + d2t[i], i < n, are ascending token ids below n_vocab. Returns SP_E_INPUT if they
 * are not, with the kind of draft in the message. */
SP_MUST_CHECK enum sp_status sp_config_check_token_map(enum sp_draft_kind kind, const float *d2t,
                                                       size_t n, size_t n_vocab,
                                                       struct sp_err *err);

/* Dims of the value that an attention layer caches for each of its n_kv_heads; a key has
 * head_dim. */
unsigned sp_config_value_dim(const struct sp_config *config, const struct sp_layer_config *layer);

/* The sizes of a layer's latent attention. */
const struct sp_latent_config *sp_config_latent(const struct sp_config *config,
                                                const struct sp_layer_config *layer);

/* The last layer with keys of its own among the layers with a window, or among those without one;
 * n_layers if there is none. */
unsigned sp_config_last_keys(const struct sp_config *config, bool windowed);

/* Checks that an assistant can attend to the keys of this target and read its hidden states.
 * Returns SP_E_INPUT with the reason if it cannot. */
SP_MUST_CHECK enum sp_status sp_config_check_assistant(const struct sp_config *assistant,
                                                       const struct sp_config *target,
                                                       struct sp_err *err);

/* Checks that `order` is a permutation of the ids below n. Returns SP_E_INPUT if it is not. */
SP_MUST_CHECK enum sp_status sp_config_check_token_order(const float *order, size_t n,
                                                         struct sp_err *err);

/* The first layer with this mixer; n_layers if there is none. */
unsigned sp_config_first_layer(const struct sp_config *config, enum sp_mixer mixer);

/* The layer whose tensor of this name, without "layers.N.", layer i has. */
unsigned sp_config_tensor_layer(const struct sp_config *config, unsigned i, const char *name);

/* What a sum of a convolution and of what it convolves is multiplied by (residual_normed): the root
 * of the number of its terms, inverted. `dynamic`: rows make taps, too. */
float sp_residual_factor(const struct sp_config *config, bool dynamic);

/* Sets the rows of the parts of a table of n-grams, by its number, unless `rows` is NULL: the
 * primes from least_rows on, over all tables. Returns the rows of the table. */
uint64_t sp_ngram_rows(unsigned *rows, const struct sp_ngram_config *config, unsigned table);

/* True if rows are kept for a later layer (enum sp_join). */
bool sp_config_joins(const struct sp_config *config);

/* Makes layers first..first+n-1 run `times` times, each time with caches of their own. */
SP_MUST_CHECK enum sp_status sp_config_repeat_layers(struct sp_config *config, unsigned first,
                                                     unsigned n, unsigned times,
                                                     struct sp_err *err);

/* True if a layer has recurrent state, which cannot be rolled back position by position. */
bool sp_config_is_recurrent(const struct sp_config *config);

void sp_config_release(struct sp_config *config);

/* True if the key is one of the words, each of which ends with a blank; a star is any text. */
bool sp_config_names(const char *words, const char *key);

/* End-of-sequence ids. The first source that states any counts: generation_config, the root of
 * config, text_config. Both texts may be none. *n is 0 if no source states any; the caller then
 * uses those of the tokenizer. */
SP_MUST_CHECK enum sp_status sp_config_eos(uint32_t ids[SP_MAX_EOS], size_t *n,
                                           const struct sp_text *config,
                                           const struct sp_text *generation, struct sp_err *err);

#endif
