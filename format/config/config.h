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
#include "format/config/layer_config.h"

#include <limits.h>

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
