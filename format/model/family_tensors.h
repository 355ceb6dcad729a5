/* What models consist of, as tables: one row per tensor, with its sizes by name and the condition
 * under which a layer, or a model, has it. For family*.c only. */
#ifndef SP_FORMAT_MODEL_FAMILY_TENSORS_H
#define SP_FORMAT_MODEL_FAMILY_TENSORS_H

#include "format/model/family.h"

/* A dimension, by what it counts. */
enum sp_dim {
    SP_DIM_END,
    SP_DIM_HIDDEN,
    SP_DIM_INPUT, /* what q, k and v read: hidden; twice as much in a layer that reads pairs */
    SP_DIM_VOCAB,
    SP_DIM_Q,       /* n_heads * head_dim; of latent attention: the queries that are projected, */
    SP_DIM_O,       /* ... what attention makes: the same, or n_heads * value_dim */
    SP_DIM_Q_RANK,  /* latent attention: width of the queries' latent, */
    SP_DIM_KV_RANK, /* ... of that of keys and values, */
    SP_DIM_KV_A,    /* ... with the key beside it, */
    SP_DIM_NOPE,    /* ... of what does not rotate in a query, */
    SP_DIM_VALUE,   /* ... of a head's value */
    SP_DIM_KV,      /* n_kv_heads * head_dim */
    SP_DIM_Q_NORM,  /* weights of the queries' norm, of one head or of all, */
    SP_DIM_K_NORM,  /* ... of the keys' */
    SP_DIM_HEADS,
    SP_DIM_FFN,
    SP_DIM_EXPERTS,
    SP_DIM_FEATURES, /* what fc reads: taps * target hidden; hidden twice in a prediction head */
    SP_DIM_SHARED,   /* intermediate size of the MLP beside the experts */
    SP_DIM_ONE,
    SP_DIM_CHANNELS,        /* delta layers: q, k and v of all heads */
    SP_DIM_DELTA_VALUES,    /* ... v of all heads */
    SP_DIM_DELTA_HEADS,     /* ... value heads */
    SP_DIM_DELTA_VALUE,     /* ... v of one head */
    SP_DIM_CONV_OUTER,      /* ... the convolution as it is stored: 1 and its taps, */
    SP_DIM_CONV_INNER,      /* or the other way round */
    SP_DIM_SHORT_CONV_IN,   /* short convolutions: what opens, what closes, what passes */
    SP_DIM_SHORT_CONV_TAPS, /* ... taps */
    SP_DIM_MAMBA_VALUES,    /* Mamba-2: x, z and what comes out, of all heads, */
    SP_DIM_MAMBA_CHANNELS,  /* ... x, B and C, */
    SP_DIM_MAMBA_HEADS,     /* ... heads, */
    SP_DIM_MAMBA_TAPS,      /* ... taps */
    SP_DIM_PER_LAYER,       /* per-layer embeddings: of one layer, */
    SP_DIM_ALL_PER_LAYER,   /* of all, */
    SP_DIM_PER_LAYER_VOCAB, /* rows of their table */
    SP_DIM_TWO,
    SP_DIM_CONV_TAPS,    /* DFlash2: of one convolution, */
    SP_DIM_CONV_DYNAMIC, /* ... of both around a sublayer, for all groups */
    SP_DIM_SELECTOR,     /* width of the selector's codebooks */
    SP_DIM_MARKOV,       /* DSpark: width of the markov head, */
    SP_DIM_MARKOV_SEEN,  /* ... of what its gate reads: a hidden state and an embedding, */
    SP_DIM_MARKOV_GATES, /* ... of an rnn's three results, */
    SP_DIM_MARKOV_JOINT, /* ... of what the rnn reads: its state as well, */
    SP_DIM_CONFIDENCE,   /* ... of what the confidence head reads */
    SP_DIM_TARGET,       /* width of the target's hidden states */
    SP_DIM_CLUSTERS,
    SP_DIM_HEAD_ROWS, /* of the output matrix */
};

typedef bool sp_wanted_fn(const struct sp_config *c, const struct sp_layer_config *l);

struct sp_tensor_row {
    const char *name; /* after "layers.N." in a layer */
    enum sp_role role;
    enum sp_dim dims[3];
    sp_wanted_fn *wanted; /* NULL: always. The layer is NULL for tensors outside the layers */
};

/* Of each layer, and outside the layers; at the end a row without a name. */
extern const struct sp_tensor_row sp_layer_tensors[], sp_model_tensors[];

#endif
