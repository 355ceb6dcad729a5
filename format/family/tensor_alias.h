/* How a checkpoint names and lays out the tensors of a model where it differs from the canonical
 * list (format/family/family.h).
 *
 * A family lists such differences as aliases: arrays of struct sp_alias that end with {0}. Sets of
 * aliases that several families use are declared here and defined in tensor_alias.c; a set that
 * only one lineage uses is in the file of that lineage (format/family/families/). */
#ifndef SP_FORMAT_FAMILY_TENSOR_ALIAS_H
#define SP_FORMAT_FAMILY_TENSOR_ALIAS_H

#include "format/base/err.h"
#include "format/config/family_row.h"

#include <stddef.h>

/* The layouts in which a tensor of a checkpoint holds a canonical one: unchanged, as rows of a
 * fused matrix, one expert at a time, alternating, transposed. Aliases
 * (format/family/tensor_alias.h) name them. A layout is a function, so that a family with a layout
 * of its own can bring it along. */

struct sp_layer_config;
struct sp_tensor_match;
struct sp_tensor_spec;

/* The tensor of a checkpoint that holds a canonical tensor. */
struct sp_alias_source {
    struct sp_tensor_match *match;
    struct sp_tensor_spec *spec;         /* the canonical tensor */
    const char *name;                    /* full name; "%u" stands for an expert or a head */
    const struct sp_layer_config *layer; /* NULL outside the layers */
    unsigned part;                       /* sp_alias.part */
};

/* Adds the row spans that make the canonical tensor out of its source, and claims the source in the
 * shape that the config gives it. A missing or misshapen source is reported in the match. */
typedef enum sp_status sp_layout_fn(const struct sp_alias_source *source);

sp_layout_fn sp_layout_whole;              /* the source unchanged */
sp_layout_fn sp_layout_one_row;            /* a vector stored as a matrix of one row */
sp_layout_fn sp_layout_scalar;             /* one element stored without dimensions */
sp_layout_fn sp_layout_qkv;                /* rows of q, k, v; parts 0, 1, 2 */
sp_layout_fn sp_layout_gate_qkv;           /* rows of the output gate, q, k, v; parts 0 to 3 */
sp_layout_fn sp_layout_grouped_qkv;        /* rows of q, k, v of each K/V head; parts 0, 1, 2 */
sp_layout_fn sp_layout_gate_up;            /* rows of gate, up; parts 0, 1 */
sp_layout_fn sp_layout_query_gate;         /* [2 n, H]: query, gate rows per head; parts 0, 1 */
sp_layout_fn sp_layout_each_expert;        /* one source per expert */
sp_layout_fn sp_layout_expert_gate_up;     /* [E, 2I, H]: gate, up rows per expert; parts 0, 1 */
sp_layout_fn sp_layout_transposed;         /* [E, cols, rows] */
sp_layout_fn sp_layout_transposed_gate_up; /* [E, H, 2I]: gate, up columns; parts 0, 1 */
sp_layout_fn sp_layout_alternating_cols;   /* [E, H, 2I]: gate, up, gate, up, ...; parts 0, 1 */
sp_layout_fn sp_layout_alternating_rows;   /* [.., 2I, H]: gate, up, gate, up, ...; parts 0, 1 */
sp_layout_fn sp_layout_alternating_biases; /* [E, 2I]: gate, up, gate, up, ...; parts 0, 1 */
sp_layout_fn sp_layout_each_head;          /* one vector per head, each in a source of its own */
sp_layout_fn sp_layout_interleaved_heads;  /* neighboring rows of a head rotate together */
sp_layout_fn sp_layout_swapped_halves;     /* the second half of a head's rows comes first */
sp_layout_fn sp_layout_query_tails;        /* the last rows of each query head may interleave */
sp_layout_fn sp_layout_key_tail;           /* the last rows of kv_a_proj may interleave */
sp_layout_fn sp_layout_index_heads;        /* the first rows of each index head may interleave */
sp_layout_fn sp_layout_latent_keys;        /* the key rows of each head of kv_b_proj, transposed */
sp_layout_fn sp_layout_latent_values;      /* the value rows of each head of kv_b_proj */
sp_layout_fn sp_layout_delta_qkv;          /* q, k, v rows of in_proj_qkvz, per key head */
sp_layout_fn sp_layout_delta_z;            /* z rows of in_proj_qkvz, per key head */
sp_layout_fn sp_layout_delta_ba;           /* b, a rows per key head; parts 0, 1 */
sp_layout_fn sp_layout_delta_heads;        /* q, k, v rows of qkv_proj, per head */
sp_layout_fn sp_layout_delta_each;         /* q, k, v rows in three sources, that of q named */
sp_layout_fn sp_layout_mamba_in_proj;      /* rows of z, of x, B and C, of dt; parts 0, 1, 2 */

/* *out = `pattern` with the number of an expert or a head in place of "%u". */
void sp_layout_numbered_name(char *out, size_t size, const char *pattern, unsigned number);

/* Where a checkpoint stores one canonical tensor. If several aliases name the same tensor, the
 * first one whose source exists is used; an exported checkpoint uses the first one. A '*' at the
 * end of `canonical` matches any rest, which replaces a '*' at the end of `source`. */
struct sp_alias {
    const char *canonical; /* without "layers.N." for a tensor of a layer; NULL ends the list */
    const char *source;    /* likewise; NULL: the canonical name */
    sp_layout_fn *layout;  /* NULL: the source holds the canonical tensor unchanged */
    unsigned part;         /* which part of the source the layout takes */
};

/* True if the alias is of this canonical tensor. */
bool sp_alias_matches(const struct sp_alias *alias, const char *canonical);

/* out[size] = `prefix` and the source of an alias that matches. */
void sp_alias_source_name(char *out, size_t size, const char *prefix, const struct sp_alias *alias,
                          const char *canonical);

/* The same for the first alias of a family with this layout; false if there is none. NULL stands
 * for a source that holds the tensor alone or, if the family has no such alias, for its first one
 * or the canonical name. */
bool sp_alias_stored_name(char *out, size_t size, const char *prefix,
                          const struct sp_family *family, const char *canonical,
                          sp_layout_fn *layout);

/* Tensors of one source: q, k and v, `end` being ".*" or ".weight"; gate and up of an MLP, `own`
 * being "mlp", "mlp.experts" or "mlp.shared_expert". */
#define SP_ALIAS_QKV(end, source, layout)                                                          \
    {"self_attn.q_proj" end, (source), (layout), 0},                                               \
        {"self_attn.k_proj" end, (source), (layout), 1},                                           \
    {                                                                                              \
        "self_attn.v_proj" end, (source), (layout), 2                                              \
    }
#define SP_ALIAS_GATE_UP(own, source, layout)                                                      \
    {own ".gate_proj.weight", (source), (layout), 0},                                              \
    {                                                                                              \
        own ".up_proj.weight", (source), (layout), 1                                               \
    }
/* The matrices of such an MLP in sources of their own, under the usual names, or as Mixtral names
 * them. */
#define SP_ALIAS_MLP(own, source, layout)                                                          \
    {own ".gate_proj.weight", source ".gate_proj.weight", (layout), 0},                            \
        {own ".up_proj.weight", source ".up_proj.weight", (layout), 0},                            \
    {                                                                                              \
        own ".down_proj.weight", source ".down_proj.weight", (layout), 0                           \
    }
#define SP_ALIAS_W123(own, source, layout)                                                         \
    {own ".gate_proj.weight", source ".w1.weight", (layout), 0},                                   \
        {own ".up_proj.weight", source ".w3.weight", (layout), 0},                                 \
    {                                                                                              \
        own ".down_proj.weight", source ".w2.weight", (layout), 0                                  \
    }

/* ---- sets of aliases that several lineages share ---- */

extern const struct sp_alias sp_aliases_gate_up[]; /* mlp.gate_up_proj */
extern const struct sp_alias sp_aliases_fc[];      /* mlp.fc1, mlp.fc2 */
/* q_proj, k_proj and their norms, of whose rows neighbors rotate together. */
extern const struct sp_alias sp_aliases_interleaved_heads[];
/* mlp.gate and mlp.experts: one tensor per expert, fused, or as mlx stores them. */
extern const struct sp_alias sp_aliases_experts[];
extern const struct sp_alias sp_aliases_block_sparse[]; /* block_sparse_moe (Mixtral) */
/* mlp.shared_experts, and the correction of the router's scores as mlp.gate stores it. */
extern const struct sp_alias sp_aliases_shared_experts[];
/* Multi-head latent attention: kv_b_proj, and rows of rotated dims that may be interleaved. */
extern const struct sp_alias sp_aliases_latent[];
extern const struct sp_alias sp_aliases_mamba[];        /* mamba.in_proj */
extern const struct sp_alias sp_aliases_mixer[];        /* every sublayer is called mixer */
extern const struct sp_alias sp_aliases_feed_forward[]; /* pre_ff_layernorm, feed_forward */
/* A prediction head that is stored as one more layer: eh_proj, enorm, hnorm, shared_head. */
extern const struct sp_alias sp_aliases_next_layer[];
extern const struct sp_alias sp_aliases_next_final[]; /* final_layernorm instead of shared_head */

#endif
