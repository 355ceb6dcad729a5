/* How a checkpoint names and lays out the tensors of a model where it differs from the canonical
 * list (format/family/family.h).
 *
 * A family lists such differences as aliases: arrays of struct sp_alias that end with {0}. Sets of
 * aliases that several families use are declared here and defined in tensor_alias.c; a set that
 * only one lineage uses is in the file of that lineage (format/family/families/). */
#ifndef SP_FORMAT_FAMILY_TENSOR_ALIAS_H
#define SP_FORMAT_FAMILY_TENSOR_ALIAS_H

#include "format/config/family_row.h"
#include "format/family/tensor_layout.h"

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

/* q, k and v of one source; `end` is ".*" or ".weight". */
#define SP_ALIAS_QKV(end, source, layout)                                                          \
    {"self_attn.q_proj" end, (source), (layout), 0},                                               \
        {"self_attn.k_proj" end, (source), (layout), 1},                                           \
    {                                                                                              \
        "self_attn.v_proj" end, (source), (layout), 2                                              \
    }
/* The matrices of each expert as Mixtral names them. */
#define SP_ALIAS_EXPERTS(source)                                                                   \
    {"mlp.experts.gate_proj.weight", source ".w1.weight", sp_layout_each_expert, 0},               \
        {"mlp.experts.up_proj.weight", source ".w3.weight", sp_layout_each_expert, 0},             \
    {                                                                                              \
        "mlp.experts.down_proj.weight", source ".w2.weight", sp_layout_each_expert, 0              \
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

#endif
