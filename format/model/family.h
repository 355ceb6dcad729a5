/* Which tensors a model consists of, under spectool's own canonical names, and where each comes
 * from in a checkpoint. One list serves three readers: the importer (what to read and write), the
 * runtime (what to bind, which shape to insist on) and the pair check.
 *
 * Canonical names are Hugging Face's without prefix: embed_tokens.weight, norm.weight,
 * lm_head.weight, layers.N.input_layernorm.weight, layers.N.self_attn.q_proj.weight, ...; experts
 * are stacked: layers.N.mlp.experts.gate_proj.weight [E, I, H]; output gates stand apart from the
 * queries: layers.N.self_attn.gate_proj.weight. Row i of a head of q or k rotates with row
 * i + n_rot / 2, whichever rows do so in the checkpoint. Latent attention has kv_b_proj by heads:
 * k_b_proj [heads, latent, still dims of a query], transposed, and v_b_proj [heads, value, latent].
 * Drafts: fc.weight, hidden_norm.weight, d2t, ... A tensor that a checkpoint stores fused or apart
 * is described by its pieces. */
#ifndef SP_FORMAT_MODEL_FAMILY_H
#define SP_FORMAT_MODEL_FAMILY_H

#include "format/model/config.h"

/* What a tensor is for: decides which type it may take (quantize/policy.h). */
enum sp_role {
    SP_ROLE_NORM,      /* norm weights: stays float */
    SP_ROLE_BIAS,      /* stays float */
    SP_ROLE_SMALL,     /* sinks, scalars, small vectors and tables: stays float */
    SP_ROLE_EMBEDDING, /* [V, H]; also the head when tied */
    SP_ROLE_HEAD,      /* [V, H]; rows that give, or add to, the logits of a token */
    SP_ROLE_ATTENTION, /* q, o, and what mixes rows in place of attention */
    SP_ROLE_KEY_VALUE, /* k, v */
    SP_ROLE_MLP,       /* gate, up, down, experts */
    SP_ROLE_ROUTER,    /* stays float */
    SP_ROLE_GATE,      /* a few rows whose results steer whole heads: stays float */
    SP_ROLE_FEATURE,   /* a draft's fc: projects the target's features; 8 bits or more */
    SP_ROLE_INDEX,     /* whole numbers, such as token ids: kept exactly, as f32 */
    SP_ROLE_CODEBOOK,  /* a draft's rows by token, looked up one at a time: stays float */
};

const char *sp_role_name(enum sp_role role);

/* Rows that are multiplied or looked up, and so lie in panels if there are two dimensions? */
bool sp_role_is_matrix(enum sp_role role);

/* Rows of a source tensor that go, in order, into the output. The source counts as rows of `n_cols`
 * elements over all its leading dimensions. A matrix's n_cols is its last dimension, a vector is
 * one row of its length; only biases whose elements are interleaved have rows of one element. */
struct sp_row_span {
    const char *source;       /* name in the checkpoint; borrowed from the specs' arena */
    uint64_t first_row, step; /* rows first_row, first_row + step, ... */
    uint64_t n_rows;          /* over all leading dimensions */
    uint64_t n_cols;          /* elements of a row */
    bool transposed;          /* the source is [.., cols, rows] */
    uint64_t pitch; /* transposed: rows of the source from one such matrix to the next, n_cols of
                       them its own; 0: all are */
};

struct sp_tensor_spec {
    const char *name; /* canonical */
    enum sp_role role;
    unsigned rank;
    uint64_t shape[4];
    size_t first_span, n_spans; /* into sp_specs.pieces; together they give the shape's elements */
};

/* Sorted by name. Owned: release frees everything. */
struct sp_specs {
    struct sp_tensor_spec *specs;
    size_t n_specs;
    struct sp_row_span *spans;
    size_t n_spans;
    char **strings; /* the names, owned */
    size_t n_strings, cap_strings, cap_specs, cap_pieces;
};

/* The tensors that `config` calls for, by canonical name and shape; pieces are left empty. Used by
 * the runtime on a packed file, whose tensors have canonical names already. */
SP_MUST_CHECK enum sp_status sp_specs_of_config(struct sp_specs *out,
                                                const struct sp_config *config, struct sp_err *err);

/* A checkpoint's tensor as its header states it. */
struct sp_source_tensor {
    const char *name; /* borrowed */
    uint32_t dtype;   /* enum sp_dtype */
    unsigned rank;
    uint64_t shape[8];
};

/* Parts of a multimodal checkpoint that a text model does not need, buffers of old files, and
 * scales of activations and caches. */
bool sp_source_is_skipped(const char *name);

/* Matches the specs of `config` with what a checkpoint holds: finds the prefix, splits fused
 * tensors, and settles in *config what only tensors can tell (sp_config_settle). Names missing,
 * unexpected and misshapen tensors, the first few in one sentence. Skipped tensors (vision towers,
 * rotary buffers) are counted in *n_skipped. Where the config says tied but the file holds both
 * embedding and head, *compare_equal is set and both are listed: the caller compares their bytes
 * and calls sp_specs_share_head if they are equal. */
SP_MUST_CHECK enum sp_status sp_specs_of_source(struct sp_specs *out, struct sp_config *config,
                                                const struct sp_source_tensor *tensors, size_t n,
                                                bool *compare_equal, size_t *n_skipped,
                                                struct sp_err *err);

/* The same for the built-in prediction head in a checkpoint (other tensors are not looked at):
 * *config, parsed from the checkpoint's config.json, becomes that of the head. */
SP_MUST_CHECK enum sp_status sp_specs_of_mtp(struct sp_specs *out, struct sp_config *config,
                                             const struct sp_source_tensor *tensors, size_t n,
                                             struct sp_err *err);

/* Does the checkpoint of this config hold a built-in prediction head? */
bool sp_source_has_mtp(const struct sp_config *config, const struct sp_source_tensor *tensors,
                       size_t n);

/* The way back: the tensors of a checkpoint of this model (names, ranks and shapes, by name), as
 * transformers 5 loads them, and for each canonical tensor the pieces that sp_specs_of_source would
 * find there; together they fill every one of them. *config is settled and stays as it is; target:
 * of a built-in prediction head its model's config, else NULL. *tensors is owned by the caller, its
 * names are borrowed from *out. */
SP_MUST_CHECK enum sp_status sp_specs_publish(struct sp_specs *out,
                                              struct sp_source_tensor **tensors, size_t *n,
                                              struct sp_config *config,
                                              const struct sp_config *target, struct sp_err *err);

/* Drops the head from the list: it equals the embedding. Sets config->tied. */
void sp_specs_share_head(struct sp_specs *specs, struct sp_config *config);

/* The way back, for tables that are about to differ: lists a head that is cut from what the
 * embedding is cut from. Clears config->tied. */
SP_MUST_CHECK enum sp_status sp_specs_part_head(struct sp_specs *specs, struct sp_config *config,
                                                struct sp_err *err);

/* Drops the embedding of a draft with a head of its own: it equals the target's. Sets
 * draft.borrows_tables. */
void sp_specs_share_embedding(struct sp_specs *specs, struct sp_config *config);

/* By binary search; NULL when there is none of that name. */
const struct sp_tensor_spec *sp_specs_find(const struct sp_specs *specs, const char *name);
void sp_specs_release(struct sp_specs *specs);

#endif
