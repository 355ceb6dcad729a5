/* What a family's row (family_row.h) says of its GGUF files.
 *
 * llama.cpp's converter names the tensors and keys of all families alike, so most of a GGUF file
 * follows from the rest of the row: convert/gguf has the common names, and the aliases of the row
 * turn them into those of a checkpoint. Here stands what the rest of the row does not say. */
#ifndef SP_FORMAT_CONFIG_GGUF_ROW_H
#define SP_FORMAT_CONFIG_GGUF_ROW_H

#include <stdbool.h>

/* A value of general.architecture that stands for the family. Several families may share one. Then
 * a key or a tensor tells them apart, and a row whose condition holds precedes one without any. */
struct sp_gguf_arch {
    const char *name;         /* NULL ends the list */
    const char *with;         /* a key or a tensor of a layer that the file has; NULL: any */
    const char *without;      /* a key that the file does not have; NULL: any */
    const char *class;        /* architectures[0] of config.json; NULL: the family's */
    const char *theta;        /* of a file without rope.freq_base; NULL: 10000.0 */
    const char *scaling;      /* rope.scaling.type where a factor is without it; NULL: linear */
    const char *long_scaling; /* rope_scaling of a file of ollama's converter that has no factor and
                                 a context of 131072 tokens or more; NULL: none */
    bool embeds;              /* an embedding model with dense layers behind its pooling */
};

/* How a tensor is stored; unless stated otherwise, its name keeps the ending .weight or .bias. */
enum sp_gguf_form {
    SP_GGUF_AS_IS,
    SP_GGUF_BARE,            /* the published name has no ending */
    SP_GGUF_VECTOR,          /* a vector, which may be stored as a matrix */
    SP_GGUF_BARE_VECTOR,     /* BARE and VECTOR */
    SP_GGUF_LOG,             /* as BARE_VECTOR; -e^x is stored for x */
    SP_GGUF_OPTIONAL_SUFFIX, /* as AS_IS, but stored without .weight by some converters */
    SP_GGUF_ROWS,            /* a matrix; one row may be stored as a vector */
    SP_GGUF_CONV,            /* [channels, 1, taps], stored as [channels, taps] */
};

/* "ffn_up" in blk.N.ffn_up.weight and the canonical tensor that it is, or "output_norm" and the one
 * outside of the layers. */
struct sp_gguf_name {
    const char *ggml; /* NULL ends a list */
    const char *canonical;
    enum sp_gguf_form form;
};

/* Rows of queries and keys that the converter permutes, so that neighbors rotate together. */
enum sp_gguf_permuted {
    SP_GGUF_PERMUTED_NONE,
    SP_GGUF_PERMUTED,
    SP_GGUF_PERMUTED_MATRICES, /* without their biases */
};

/* How a member of config.json is made. convert/gguf/gguf_members.c implements these rules. */
enum sp_gguf_rule {
    SP_PUT_END,
    SP_PUT_NOTHING,    /* the key is known and needs no member */
    SP_PUT_SIZE,       /* the integer of the key, if it is there */
    SP_PUT_FLOAT,      /* the float of the key, if it is there */
    SP_PUT_WORD,       /* the default */
    SP_PUT_FLAG,       /* the boolean of the key, or the default */
    SP_PUT_UNLESS,     /* whether the integer of the key is not the default */
    SP_PUT_SPARSITY,   /* the parts of a normal distribution below the numbers of the key */
    SP_PUT_HAS,        /* whether a layer has the tensor that `key` names */
    SP_PUT_LACKS,      /* whether no layer has it */
    SP_PUT_ROWS,       /* rows of the tensor that `key` names, if there is one */
    SP_PUT_WINDOW,     /* sliding_window; a key of 0 means that no layer has one */
    SP_PUT_PATTERN,    /* which layers have a window: layer_types or sliding_window_pattern */
    SP_PUT_ROTARY,     /* partial_rotary_factor, 0.5 if the file does not say or as the default */
    SP_PUT_NORM_TOPK,  /* norm_topk_prob, if there are experts */
    SP_PUT_EXPERTS,    /* number and widths of experts and of the shared one, if there are any */
    SP_PUT_ROUTED,     /* experts of DeepSeek's kind, if there are any */
    SP_PUT_SIGMOID,    /* nothing: refuses experts that are not chosen by sigmoids */
    SP_PUT_SELECTION,  /* expert_selection_fn */
    SP_PUT_MLP_TYPES,  /* mlp_layer_types */
    SP_PUT_LAST_MOE,   /* moe_layer_end_index */
    SP_PUT_LATENT,     /* the sizes of latents and heads */
    SP_PUT_DELTA,      /* the sizes of delta layers, and layer_types */
    SP_PUT_MAMBA,      /* the sizes of Mamba-2 layers; `published`: of width / hidden_size */
    SP_PUT_BY_HEADS,   /* layer_types: `published` with K/V heads, the default without */
    SP_PUT_SUBLAYERS,  /* hybrid_override_pattern */
    SP_PUT_ROTATES,    /* position_embedding_type */
    SP_PUT_THETAS,     /* layer_rope_theta */
    SP_PUT_NO_WINDOW,  /* nothing: refuses a window */
    SP_PUT_SCALAR,     /* query_pre_attn_scalar; default: layers of the largest model */
    SP_PUT_EMBEDS,     /* use_bidirectional_attention of an embedding model */
    SP_PUT_GEMMA4,     /* the members of Gemma 4's layers */
    SP_PUT_BERT,       /* the table of token types and the labels of a classification head */
    SP_PUT_MODERNBERT, /* windows, bases of rotary embedding and a classification head */
    SP_PUT_N,
};

/* Members in the order of config.json. */
struct sp_gguf_member {
    enum sp_gguf_rule rule; /* SP_PUT_END ends a list */
    const char *published;  /* the name of the member, or NULL where the rule implies it */
    const char *key;        /* of the metadata, without the architecture in front, or NULL */
    const char *otherwise;  /* the member's value if the key is missing; NULL: no member */
};

/* Another spelling of a key: of config.json, or of GGUF metadata, there without the architecture in
 * front. */
struct sp_key_name {
    const char *other; /* NULL ends a list */
    const char *key;
};

struct sp_gguf_family {
    struct sp_gguf_arch archs[4];
    const struct sp_gguf_member *members;
    const struct sp_gguf_name *names;    /* that overrule the common ones; NULL: none */
    const struct sp_key_name *key_names; /* of ollama's converter; NULL: none */
    const char *bias_key;                /* of the biases of q, k and v, always written; NULL:
                                            attention_bias, written if they are there */
    enum sp_gguf_permuted permuted;
    bool v_heads_tiled;    /* value heads of the delta rule are in the order of ggml's broadcast */
    bool sizes_per_layer;  /* sizes may differ between layers; the first that is not 0 is written */
    bool head_dim_implied; /* config.json has no head_dim */
    bool yarn_untruncated; /* YaRN does not round the dims between which it interpolates */
    bool end_separates;    /* <|end|> separates the parts of an answer and does not end it */
    bool user_tokens_end;  /* a token of the user's kind may end an answer */
};

#endif
