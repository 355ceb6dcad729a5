/* A model of a packed file, bound once: every tensor is found by its canonical name, every shape
 * checked against the configuration, vectors widened to float, matrices left in the mapped file.
 * Nothing is looked up by name later. */
#ifndef SP_RUNTIME_MODEL_MODEL_H
#define SP_RUNTIME_MODEL_MODEL_H

#include "format/config/config.h"
#include "format/packfile.h"
#include "runtime/backend/lora_rows.h"
#include "runtime/spectool.h"

/* Weights of the gate of a norm: [rank, H], [H, rank]. */
struct sp_norm_gate_weights {
    struct sp_matrix down, up;
};

/* A query of head h at position p is multiplied by scale[h] ln(p + 1) + bias[h]. Source:
 * Scalable-Softmax, arXiv 2501.19399. */
struct sp_ssmax_weights {
    const float *scale, *bias; /* [n_heads], or NULL */
};

/* Weights of the index of attention (struct sp_index_config). */
struct sp_index_weights {
    struct sp_matrix q;                        /* [n_heads * head_dim, q_rank, or H] */
    const float *input_norm, *input_norm_bias; /* [H] of the input of q, or NULL */
    struct sp_ssmax_weights ssmax;
    struct sp_matrix k;                /* [head_dim, H] */
    struct sp_matrix weights;          /* [n_heads, H], or empty */
    const float *q_norm;               /* [head_dim], or NULL */
    const float *k_norm, *k_norm_bias; /* [head_dim], or NULL */
    struct sp_matrix pool_gate;        /* [head_dim, H], or empty */
    const float *pool_bias;            /* [pool][head_dim] */
};

/* Weights of latent attention (struct sp_latent_config) besides the layer's q or o. */
struct sp_latent_weights {
    struct sp_matrix q_a;    /* [q_rank, H]; with q_b in place of q, or empty */
    struct sp_matrix q_b;    /* [n_heads * (nope_dim + rope_dim), q_rank, or 2 q_rank] */
    struct sp_matrix gate_b; /* [n_heads * value_dim, 2 q_rank], or empty */
    struct sp_matrix kv_a; /* [kv_rank + rope_dim, H]: the latent, the shared key; empty in a layer
                              that reads those of an earlier one */
    struct sp_matrix k_b;  /* [n_heads][kv_rank, nope_dim]: maps a query to the latent's dims */
    struct sp_matrix v_b;  /* [n_heads][value_dim, kv_rank]: maps the attention output to a value */
    const float *q_bias, *kv_bias; /* of q_a and kv_a, or NULL */
    const float *q_norm, *kv_norm; /* [q_rank], [kv_rank] */
    const float *key_norm;         /* [rope_dim] of the shared key, or NULL */
    struct sp_ssmax_weights ssmax;
};

/* What makes the entries of compressed attention, or the keys of its index. */
struct sp_compressor {
    struct sp_matrix kv, gate; /* [width, H]; width: that of an entry, twice if they overlap */
    const float *bias, *norm;  /* [rate][width], [width of an entry] */
};

/* Weights of compressed attention (struct sp_compressed_config) besides o and the index. */
struct sp_compressed_weights {
    struct sp_matrix q_a, q_b;           /* [q_rank, H], [n_heads * head_dim, q_rank] */
    struct sp_matrix kv;                 /* [head_dim, H] */
    struct sp_matrix o_a;                /* [n_groups][out_rank, heads of a group * head_dim] */
    const float *q_norm, *kv_norm;       /* [q_rank], [head_dim] */
    struct sp_compressor compressors[2]; /* of entries, of keys of the index */
};

/* Weights of a gated delta rule; channels = 2 * key heads * key dim + value heads * its dim. */
struct sp_delta_weights {
    struct sp_matrix qkv;  /* [channels, H]: q, k, v */
    struct sp_matrix z;    /* [value heads * value dim, H]: output gate */
    struct sp_matrix b, a; /* [value heads, H]: strength and decay; by channel, a: [decays, H] */
    /* [.., low rank], with z and a [low rank, H]; or empty */
    struct sp_matrix up_z, up_a;
    struct sp_matrix out; /* [H, value heads * value dim] */
    const float *conv;    /* [kernel][channels] */
    const float *a_log;   /* [value heads] */
    const float *dt_bias; /* [decays] */
    const float *norm;    /* [value dim]; of lightning attention [value heads * value dim] */
    const float *decays;  /* [value heads] of lightning attention, else NULL */
};

/* Weights of a gated short convolution. */
struct sp_short_conv_weights {
    struct sp_matrix in;  /* [3 H, H]: b, c, x */
    struct sp_matrix out; /* [H, H] */
    const float *taps;    /* [kernel][H], oldest first */
    const float *in_bias, *bias, *out_bias;
};

/* Weights of compressed convolutional attention; channels = those of all heads of q, then of k. */
struct sp_cca_weights {
    const float *taps, *bias; /* [channels][kernel], oldest first; [channels] */
    struct sp_matrix mix;     /* [heads of q and k][head_dim, head_dim * mix_kernel] */
    const float *mix_bias;    /* [channels] */
    struct sp_matrix delayed; /* [half of the values, H]; v has the other half */
};

/* The MLP of a router: r = w[0] x + (r of the layer before) * scale, and the router's input is
 * gelu(w[2] gelu(w[1] norm(r))), each w with a bias. */
struct sp_router_mlp {
    struct sp_matrix w[3]; /* [n, H], [n, n] twice */
    const float *bias[3];
    const float *scale, *norm; /* [n]; scale NULL: of the first layer */
};

/* Weights of a Mamba-2 layer; channels = values + 2 * groups * state dim, values = heads * dim. */
struct sp_mamba_weights {
    struct sp_matrix z;   /* [values, H]: output gate */
    struct sp_matrix xbc; /* [channels, H]: x, B, C */
    struct sp_matrix dt;  /* [heads, H] */
    struct sp_matrix out; /* [H, values] */
    const float *taps;    /* [kernel][channels] */
    const float *conv_bias, *z_bias, *xbc_bias, *in_dt_bias, *out_bias; /* or NULL */
    const float *a_log, *d, *dt_bias;                                   /* [heads] */
    const float *norm;                                                  /* [values], or NULL */
    /* Mamba-1, whose xbc is [values, H], and whose d and dt_bias are [values]. */
    struct sp_matrix x;                     /* [step_rank + 2 * state dim, values]: dt, B, C */
    struct sp_matrix up;                    /* [values, step_rank]: dt */
    const float *rates;                     /* [values][state dim] -e^A_log */
    const float *dt_norm, *b_norm, *c_norm; /* [step_rank], [state dim] twice, or NULL */
};

/* Taps of the convolutions before and after a sublayer: [2 sides][taps][..]. */
struct sp_conv_weights {
    const float *base;        /* [2 * taps][H] */
    struct sp_matrix dynamic; /* [2 * taps * groups, H]: adds to taps, from the sublayer's input */
};

/* DFlash2: selects which of a row's best tokens follows the previous token. */
struct sp_selector_weights {
    struct sp_matrix hidden;                   /* [rank, H] */
    struct sp_matrix predecessors, successors; /* [V, rank] */
};

/* DSpark: corrects a draft token's logits by the previous token, and estimates its confidence. */
struct sp_dspark_weights {
    struct sp_matrix embedding;  /* [V, rank] */
    struct sp_matrix correction; /* [V, rank] */
    struct sp_matrix gate;       /* gated: [rank, H + rank]; rnn: [3 rank, 2 rank + H] */
    const float *gate_bias;
    struct sp_matrix confidence; /* [1, H + rank], or [1, H] */
    const float *confidence_bias;
};

/* The convolutions that add what they convolve (sp_config.n_residual_taps). */
enum sp_layer_conv { SP_CONV_KEYS, SP_CONV_VALUES, SP_CONV_MIXER, SP_CONV_MLP, SP_LAYER_CONVS };

/* The bias by distance (sp_config.rel_dim). */
struct sp_relative_weights {
    struct sp_matrix mix;  /* [n_heads * rel_dim, H], or empty */
    const float *scales;   /* [n_heads][rel_dim] of the product, before it is shortened; or NULL */
    const float *profiles; /* [rel_dim][extent], from the largest distance to 0 */
    size_t extent;
};

/* AltUp and LAuReL (runtime/model/altup.c). */
struct sp_altup_weights {
    struct sp_matrix router, left, right; /* [n_streams, H], [rank, H], [H, rank] */
    const float *router_norm, *laurel_norm, *output_scale; /* [H] */
    const float *predict, *correct; /* [n_streams^2][n_streams], [n_streams][n_streams] */
    float cutoff; /* deviations from the mean below which a gate is 0; 0: there is none */
};

/* What a sublayer, or the head, reads of k streams and writes to them (runtime/model/hyper.c). */
struct sp_hyper_weights {
    struct sp_matrix fn;       /* [2 k, or 2 k + k^2, k H]; of the head: [k, k H], or empty */
    const float *base, *scale; /* [rows of fn], [3], [2] or [1] */
    /* If streams are gated, in place of these: fn is [k, k H], or empty. */
    const float *norm;                /* [k H], divided by k */
    struct sp_norm_gate_weights gate; /* [rank, k H], [k H, rank] */
};

/* Embeddings of n-grams (struct sp_ngram_config), for k streams. */
struct sp_ngram_weights {
    struct sp_matrix table;      /* [rows of all parts, dims of a head], or empty */
    struct sp_matrix key, value; /* [k H, width], [H, width] */
    const float *key_norm, *query_norm, *conv_norm; /* [k H] */
    const float *taps;                              /* [kernel][k H] */
    uint64_t factors[SP_MAX_NGRAM];                 /* of the tokens of an n-gram, the last first */
    unsigned rows[SP_MAX_NGRAM_PARTS];              /* of each part */
};

/* x becomes (x + bias) * scale; NULL: it stays. */
struct sp_affine {
    const float *bias, *scale; /* [H] */
};

/* Of one input of a layer that repeats (runtime/model/block_attention.c). */
struct sp_message_weights {
    struct sp_matrix down, forget, gain; /* [rank, 2 H], [H, rank] twice */
    const float *query;                  /* [H]; NULL: the layer gets no messages */
};

/* Limits of the factors of a SwiGLU (struct sp_product); 0: none. */
struct sp_factor_limits {
    float up, gate;
};

/* Weights of one decoder layer. A pointer is NULL and a matrix is empty (rows 0) if the layer has
 * none. Vectors are owned by the model. */
struct sp_layer {
    const struct sp_layer_config *config;
    const float *input_norm;        /* [H] before attention */
    const float *kv_input_norms[2]; /* [H] of the inputs of k and v */
    const float *queries[2];        /* [1 or 3][H], [H] of the inputs of mixer and MLP, or NULL
                                     * (sp_config.block_attention) */
    const float *input_norm_bias, *ffn_norm_bias; /* [H] of LayerNorms */
    const float *attention_post; /* [H] after attention, before the residual add, or after it
                                  * (SP_NORM_RESIDUAL) */
    const float *ffn_norm;       /* [H] before the MLP */
    const float *ffn_post;       /* [H] after the MLP, likewise */
    const float *attention_post_bias, *ffn_post_bias; /* [H] of LayerNorms */
    struct sp_affine affine[2][2]; /* of the mixer, of the MLP: its output, the stream */
    struct sp_norm_gate_weights input_gate, ffn_gate; /* of input_norm and ffn_norm, or empty */
    const float *o_norm, *down_norm; /* [cols] of the inputs of o and down, or NULL */
    const float *hidden_norm;        /* [H] of the hidden state in a pair (config.reads_pair) */
    const float *q_norm, *k_norm;    /* [head_dim], or of all heads one after another */
    const float *q_norm_bias, *k_norm_bias;         /* [head_dim], or NULL */
    const float *q_bias, *k_bias, *v_bias, *o_bias; /* [rows of the matrix] */
    const float *gate_bias, *up_bias,
        *down_bias;                    /* [rows of the matrix], of all experts one after another */
    const float *sinks;                /* [n_heads] */
    struct sp_xielu xielu;             /* of the MLP (SP_XIELU) */
    struct sp_factor_limits limits[2]; /* of the experts; of the dense MLP or the shared expert */
    struct sp_matrix q, k, v, o;
    /* Of sp_config.unit: [H] of the mixer and of the MLP; [rows of q], twice; [n_ffn], twice. With
     * SP_MIXER_CCA, q_scales are those of the keys. */
    const float *rates[2], *q_scales, *output_gate_scales, *gate_scales, *up_scales;
    const float *pair_norm;        /* [2 H], and */
    struct sp_matrix block_out;    /* [H, H], of a block (sp_layer_has_block) */
    struct sp_matrix output_gate;  /* [n_heads * head_dim, H]; config.head_gate: [n_heads, H] */
    const float *output_gate_bias; /* [rows of output_gate], or NULL */
    struct sp_message_weights messages[4]; /* of the inputs of q, k, v and the MLP */
    struct sp_conv_weights attention_conv, ffn_conv;
    /* [taps][channels], oldest first; the last one includes the addition, and those of the MLP the
     * scale of its output. */
    const float *residual_taps[SP_LAYER_CONVS];
    struct sp_matrix dynamic_taps[2]; /* [n_kv_heads * taps, H] of k and v, added to the taps of
                                       * their heads, the last one first */
    struct sp_matrix sink_proj;       /* [n_heads, H] (sp_config.row_sinks) */
    struct sp_relative_weights relative;
    struct sp_latent_weights latent;         /* in place of k and v */
    struct sp_compressed_weights compressed; /* in place of q, k and v */
    struct sp_index_weights index;           /* empty: the layer has none */
    struct sp_delta_weights delta;           /* in place of attention */
    struct sp_short_conv_weights short_conv; /* in place of attention */
    struct sp_cca_weights cca;               /* beside q, k and v */
    struct sp_mamba_weights mamba;           /* in place of attention, or parallel to it */
    struct sp_matrix gate, up, down; /* of all experts, stacked, if the layer has experts; no gate
                                        if config.plain_mlp */
    struct sp_matrix latent_in, latent_out; /* [n_latent, H], [H, n_latent]: around the experts */
    struct sp_matrix shared_gate, shared_up, shared_down; /* the shared expert */
    struct sp_matrix shared_weight;                       /* [1, H] its weight before the sigmoid */
    const float *shared_post, *experts_norm, *experts_post; /* [H] norms (config.expert_norms) */
    const float *router_scale;       /* [H] multiplies the router's normed input */
    const float *expert_scale;       /* [n_experts] multiplies routing weights, or NULL */
    struct sp_matrix per_layer_gate; /* [n_per_layer, H] */
    struct sp_matrix per_layer_out;  /* [H, n_per_layer] */
    const float *per_layer_post;     /* [H] */
    struct sp_altup_weights altup;
    struct sp_hyper_weights hyper[2]; /* of the mixer, of the MLP */
    struct sp_ngram_weights ngrams;
    float scalar;                    /* multiplies the residual stream after the layer; 1: none */
    struct sp_router_mlp router_mlp; /* before the router, or empty */
    struct sp_matrix router;         /* [n_experts, H, or routing.n_hidden] */
    const float *router_bias;        /* [n_experts] */
    const float *router_correction;  /* [n_experts] added to scores for the selection alone */
    const float *token_experts; /* [n_vocab][n_experts_used] the experts of each token, or NULL */
};

/* A matrix, or a stack of them, and its tensor in the packed file. */
struct sp_bound_matrix {
    const struct sp_pack_tensor *tensor; /* borrowed from the pack */
    struct sp_matrix *w;                 /* a member of the model */
};

struct sp_model {
    struct sp_config config; /* owned */
    enum sp_part part;
    struct sp_layer *layers;     /* [config.n_layers] */
    struct sp_matrix embedding;  /* [V, H]; empty: borrowed from the target (drafts) */
    struct sp_matrix head;       /* [V, H]; the embedding if tied; empty as above;
                                    of a draft's own vocabulary: [head rows, H] */
    const float *head_bias;      /* [V] */
    const float *head_scales;    /* [V] of sp_config.unit, or NULL */
    struct sp_matrix head_dense; /* [H, H], with head_norm and its bias [H] (config.head_dense) */
    const float *head_norm, *head_norm_bias;
    const float *message_queries[2]; /* [2 n_looped][H] of q and MLP, and of k and v, of each layer
                                      * in turn; or NULL */
    const float *final_query;        /* [H] of the input of the last norm, or NULL */
    const float *start;              /* [H] (SP_JOIN_FIRST), or NULL */
    const float *norm, *norm_bias;   /* [H] final */
    const float *embedding_norm, *embedding_norm_bias; /* [H] of the embedding (normed_input) */
    struct sp_affine embedding_affine;
    const float *slopes;     /* [n_heads] of ALiBi, or NULL */
    const float *rope_alpha; /* [n_rot / 2] logarithms of the factors of frequencies, or NULL */
    const float *positions;  /* [n_positions_table, or 1][H] learned, plus the token type */
    const float *second_positions; /* the same with the second token type; NULL: no text has it */
    struct sp_matrix per_layer_embedding;  /* [n_per_layer_vocab, n_layers * n_per_layer] */
    struct sp_matrix per_layer_projection; /* [n_layers * n_per_layer, H] */
    const float *per_layer_norm;           /* [n_per_layer] */
    struct sp_matrix streams_in[SP_MAX_STREAMS], streams_out[SP_MAX_STREAMS]; /* [H, H] of AltUp */
    struct sp_hyper_weights hyper;
    struct sp_matrix fc;        /* drafts: [H, n_taps * target hidden]; heads: [H, 2 H];
                                   assistants: [H, 2 * target hidden] */
    struct sp_matrix post;      /* assistants: [target hidden, H] */
    struct sp_matrix centroids; /* assistants: [clusters, H] */
    const float *token_order;   /* [V] ids, cluster by cluster */
    const float *feature_norm;  /* EAGLE-3: [n_taps * target hidden] before fc; of all
                                   together, or each tap's (config.draft) */
    const float *mask_hidden;   /* P-EAGLE: [n_taps * target hidden] before fc */
    const float *token_map;     /* [head rows] d2t: row i is token i + d2t[i]; or NULL */
    const float *hidden_norm;   /* drafts: [H] after fc */
    const float *pair_norms[2]; /* heads: [H] of embedding and hidden, before fc */
    struct sp_selector_weights selector;
    struct sp_dspark_weights dspark;
    struct sp_matrix dense[SP_MAX_DENSE];  /* of the pooling: [n_out, n_in] */
    const float *dense_bias[SP_MAX_DENSE]; /* [n_out], or NULL */
    const float *dense_norm[SP_MAX_DENSE]; /* [n_out], or NULL */
    struct sp_bound_matrix *matrices;      /* [n_matrices] all matrices; owned */
    size_t n_matrices, cap_matrices;
    struct sp_lora_products adapters; /* of blocks, which every row of a pass has */
    enum sp_cache_type *cache_types;  /* [n_layers] with SP_CACHE_AUTO; NULL: there is no choice */
    double cache_divergence;          /* that was measured with these */
    size_t max_lora_rank;   /* the largest rank of its adapters (runtime/model/lora.c); 0: none */
    struct sp_arena memory; /* of the layers and all widened vectors */
};

/* Binds `part` of the pack, which must outlive the model. */
SP_MUST_CHECK enum sp_status sp_model_open(struct sp_model **out, const struct sp_pack *pack,
                                           enum sp_part part, struct sp_err *err);
void sp_model_close(struct sp_model *model); /* NULL is fine */

/* Replaces matrix i, and the head if it is tied to it, by one of the same shape, whose panels are
 * borrowed. No pass may run meanwhile. */
void sp_model_set_matrix(struct sp_model *model, size_t i, struct sp_matrix w);

#endif
