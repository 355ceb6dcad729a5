/* The architectures that GGUF files state and what llama.cpp's converter makes of their tensors:
 * one row a family. */
#ifndef SP_CONVERT_GGUF_GGUF_ARCH_H
#define SP_CONVERT_GGUF_GGUF_ARCH_H

#include <stdbool.h>
#include <stddef.h>

/* How a tensor is stored; unless stated otherwise, its name keeps the ending .weight or .bias. */
enum sp_gguf_form {
    SP_GGUF_AS_IS,
    SP_GGUF_BARE,        /* the published name has no ending */
    SP_GGUF_VECTOR,      /* a vector, which may be stored as a matrix */
    SP_GGUF_BARE_VECTOR, /* BARE and VECTOR */
    SP_GGUF_SCALAR,      /* bare, of rank 0 */
    SP_GGUF_LOG,         /* as BARE_VECTOR; -e^x is stored for x */
    SP_GGUF_UNENDED,     /* as AS_IS, but stored without .weight by some converters */
    SP_GGUF_ROWS,        /* a matrix; one row may be stored as a vector */
    SP_GGUF_CONV,        /* [channels, 1, taps], stored as [channels, taps] */
};

/* "ffn_up" in blk.N.ffn_up.weight and what stands for it in layers.N, or "output_norm" and what
 * stands for it in the model. */
struct sp_gguf_name {
    const char *ggml; /* NULL ends a list */
    const char *published;
    enum sp_gguf_form form;
};

/* Rows of queries and keys that are stored in turned order, so that neighbors rotate together. */
enum sp_gguf_turn {
    SP_GGUF_NOT_TURNED,
    SP_GGUF_TURNED,
    SP_GGUF_TURNED_MATRICES, /* without their biases */
};

struct sp_gguf_arch {
    const char *name;                  /* general.architecture */
    const char *model_type;            /* of config.json */
    const char *architecture;          /* architectures[0] of config.json */
    const struct sp_gguf_name *names;  /* differences from the usual names; NULL: none */
    const struct sp_gguf_name *values; /* tensors [1] of a layer that are numbers of the metadata:
                                          ggml is the whole key; NULL: none */
    const char *norm_key;              /* of the norms' epsilon; NULL: rms_norm_eps */
    const char *layers;                /* in front of a layer's number; NULL: "layers." */
    const char *activation;            /* NULL: silu */
    const char *bias_key;              /* of the biases of q, k and v, always written; NULL:
                                          attention_bias, written if they are there */
    enum sp_gguf_turn turn;
    bool norm_plus;    /* 1 is added to every norm except ssm_norm */
    bool gemma;        /* the embedding is multiplied by a factor that transformers rounds */
    bool encoder;      /* tokens see all tokens without a key of config.json that says so */
    bool partial;      /* a part of each head may rotate */
    bool latent;       /* multi-head latent attention, stated as one K/V head */
    bool by_layer;     /* sizes may differ between layers; the first that is not 0 is written */
    bool tiled_values; /* value heads of the delta rule are in the order of ggml's broadcast */
    bool pure_mamba;   /* no layer has attention or an MLP */
    bool next_layer;   /* the same layers are a prediction head, under layers.* */
    bool mtp;          /* the last nextn_predict_layers layers are a prediction head, mtp.* */
};

/* The row of an architecture; NULL: it is not read. */
const struct sp_gguf_arch *sp_gguf_arch_find(const char *name, size_t len);

/* Whether models whose config.json states this class (architectures[0]) are of the architecture. */
bool sp_gguf_arch_has_class(const struct sp_gguf_arch *arch, const char *name);

/* The published counterpart of a tensor of a layer; NULL: models of the architecture have none. */
const struct sp_gguf_name *sp_gguf_arch_name(const struct sp_gguf_arch *arch, const char *ggml,
                                             size_t len);

#endif
