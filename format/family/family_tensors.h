/* The tables of all canonical tensors: one row per tensor, with its dimensions and the condition
 * under which a layer or a model has it. Only family*.c include this header. */
#ifndef SP_FORMAT_FAMILY_FAMILY_TENSORS_H
#define SP_FORMAT_FAMILY_FAMILY_TENSORS_H

#include "format/family/family.h"

/* A dimension of a tensor, which dim_of in family.c turns into a number. */
enum sp_dim {
    SP_DIM_END,
    SP_DIM_HIDDEN,
    SP_DIM_INPUT, /* input of q, k and v: n_hidden, or 2 n_hidden in a layer that reads pairs */
    SP_DIM_VOCAB,
    SP_DIM_Q,       /* queries of all heads */
    SP_DIM_O,       /* attention outputs of all heads */
    SP_DIM_Q_RANK,  /* latent attention: latent of queries */
    SP_DIM_KV_RANK, /* latent attention: latent of keys and values */
    SP_DIM_KV_A,    /* latent attention: that latent and the rotated key */
    SP_DIM_NOPE,    /* latent attention: dims of a query head that do not rotate */
    SP_DIM_VALUE,   /* latent attention: value of one head */
    SP_DIM_KV,      /* n_kv_heads * head_dim */
    SP_DIM_Q_NORM,  /* weights of the norm of queries: of one head, or of all heads */
    SP_DIM_K_NORM,  /* weights of the norm of keys: of one head, or of all heads */
    SP_DIM_HEADS,
    SP_DIM_FFN,
    SP_DIM_EXPERTS,
    SP_DIM_FEATURES, /* input of fc: n_taps * target_hidden; 2 n_hidden in a prediction head */
    SP_DIM_SHARED,   /* width of the dense MLP in parallel to the experts */
    SP_DIM_ONE,
    SP_DIM_CHANNELS,        /* delta layers: q, k and v of all heads */
    SP_DIM_DELTA_VALUES,    /* delta layers: v of all heads */
    SP_DIM_DELTA_HEADS,     /* delta layers: value heads */
    SP_DIM_DELTA_VALUE,     /* delta layers: v of one head */
    SP_DIM_CONV_OUTER,      /* delta layers: 1, or the taps if mlx stored the convolution */
    SP_DIM_CONV_INNER,      /* delta layers: the taps, or 1 if mlx stored the convolution */
    SP_DIM_SHORT_CONV_IN,   /* short convolutions: b, c and x */
    SP_DIM_SHORT_CONV_TAPS, /* short convolutions: taps */
    SP_DIM_MAMBA_VALUES,    /* Mamba-2: x, z or the output of all heads */
    SP_DIM_MAMBA_CHANNELS,  /* Mamba-2: x, B and C */
    SP_DIM_MAMBA_HEADS,     /* Mamba-2: heads */
    SP_DIM_MAMBA_TAPS,      /* Mamba-2: taps */
    SP_DIM_PER_LAYER,       /* per-layer embedding of one layer */
    SP_DIM_ALL_PER_LAYER,   /* per-layer embeddings of all layers */
    SP_DIM_PER_LAYER_VOCAB, /* rows of the table of per-layer embeddings */
    SP_DIM_TWO,
    SP_DIM_CONV_TAPS,    /* DFlash2: taps of one convolution */
    SP_DIM_CONV_DYNAMIC, /* DFlash2: taps of both convolutions of a sublayer, of all groups */
    SP_DIM_SELECTOR,     /* DFlash2: width of the selector's codebooks */
    SP_DIM_MARKOV,       /* DSpark: width of the Markov head */
    SP_DIM_MARKOV_SEEN,  /* DSpark: input of its gate: hidden state and Markov embedding */
    SP_DIM_MARKOV_GATES, /* DSpark: the three outputs of an RNN */
    SP_DIM_MARKOV_JOINT, /* DSpark: input of the RNN: its state, hidden state and embedding */
    SP_DIM_CONFIDENCE,   /* DSpark: input of the confidence head */
    SP_DIM_TARGET,       /* width of the target's hidden states */
    SP_DIM_CLUSTERS,     /* assistants: clusters of tokens */
    SP_DIM_HEAD_ROWS,    /* rows of the output matrix */
    SP_DIM_POSITIONS,    /* rows of the table of learned positions */
    SP_DIM_TOKEN_TYPES,  /* rows of the table of token types */
};

typedef bool sp_wanted_fn(const struct sp_config *c, const struct sp_layer_config *l);

struct sp_tensor_row {
    const char *name; /* after "layers.N." in a layer */
    enum sp_role role;
    enum sp_dim dims[3];
    sp_wanted_fn *wanted; /* NULL: always; the layer is NULL for tensors outside of the layers */
};

/* The tensors of a layer, and those outside of the layers. Each table ends with a row without a
 * name. */
extern const struct sp_tensor_row sp_layer_tensors[], sp_model_tensors[];

#endif
