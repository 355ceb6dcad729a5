/* The architectures that GGUF files state and what llama.cpp's converter makes of their tensors:
 * one row a family. */
#ifndef SP_CONVERT_GGUF_GGUF_ARCH_H
#define SP_CONVERT_GGUF_GGUF_ARCH_H

#include <stdbool.h>
#include <stddef.h>

/* "ffn_up" in blk.N.ffn_up.weight and what stands for it in layers.N. */
struct sp_gguf_name {
    const char *ggml;      /* NULL ends a list */
    const char *published; /* gets the ending .weight or .bias, unless it is a bare parameter's */
    bool bare;
};

struct sp_gguf_arch {
    const char *name;                 /* general.architecture */
    const char *model_type;           /* of config.json */
    const char *architecture;         /* likewise */
    const struct sp_gguf_name *names; /* differences from the usual names; NULL: none */
    bool turned;    /* rows of q and k are turned so that neighbors rotate together */
    bool norm_plus; /* 1 is added to every norm */
    bool gelu;      /* hidden_activation gelu_pytorch_tanh; else silu */
};

/* The row of an architecture; NULL: it is not read. */
const struct sp_gguf_arch *sp_gguf_arch_find(const char *name, size_t len);

/* Whether models whose config.json states this class (architectures[0]) are of the architecture. */
bool sp_gguf_arch_has_class(const struct sp_gguf_arch *arch, const char *name);

/* The published counterpart of a tensor of a layer; NULL: models of the architecture have none. */
const struct sp_gguf_name *sp_gguf_arch_name(const struct sp_gguf_arch *arch, const char *ggml,
                                             size_t len);

#endif
