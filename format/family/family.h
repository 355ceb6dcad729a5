/* The tensors that a model consists of, under canonical names, and the rows of a checkpoint that
 * each of them is made from. The importer uses the list to read and write tensors, the runtime to
 * bind them and check their shapes.
 *
 * Canonical names are those of Hugging Face without prefix: embed_tokens.weight, norm.weight,
 * lm_head.weight, layers.N.input_layernorm.weight, layers.N.self_attn.q_proj.weight, ... Drafts
 * also have fc.weight, hidden_norm.weight, d2t, ... Canonical layouts are:
 *   experts are stacked: layers.N.mlp.experts.gate_proj.weight [E, I, H];
 *   the output gate is separate from the queries: layers.N.self_attn.gate_proj.weight;
 *   row i of a head of q or k rotates with row i + n_rot / 2;
 *   kv_b_proj of latent attention is split by heads: k_b_proj [heads, kv_rank, nope_dim], which is
 *   transposed, and v_b_proj [heads, value_dim, kv_rank].
 * The row spans of a tensor describe how it is made from other layouts of a checkpoint. */
#ifndef SP_FORMAT_FAMILY_FAMILY_H
#define SP_FORMAT_FAMILY_FAMILY_H

#include "format/config/config.h"

/* The role of a tensor, which determines the types that it may have (quantize/policy.h). */
enum sp_role {
    SP_ROLE_NORM,      /* norm weights: stays float */
    SP_ROLE_BIAS,      /* stays float */
    SP_ROLE_SMALL,     /* sinks, scalars, small vectors and tables: stays float */
    SP_ROLE_EMBEDDING, /* [V, H]; also the head when tied */
    SP_ROLE_HEAD,      /* [V, H]; each row gives or corrects the logit of one token */
    SP_ROLE_ATTENTION, /* q, o, and the projections of other mixers */
    SP_ROLE_KEY_VALUE, /* k, v */
    SP_ROLE_MLP,       /* gate, up, down, experts */
    SP_ROLE_ROUTER,    /* stays float */
    SP_ROLE_GATE,      /* a few rows whose results scale whole heads: stays float */
    SP_ROLE_FEATURE,   /* fc of a draft, which projects the target's features; 8 bits or more */
    SP_ROLE_INDEX,     /* integers such as token ids: stored exactly, as f32 */
    SP_ROLE_CODEBOOK,  /* rows of a draft that are looked up by token: stays float */
};

const char *sp_role_name(enum sp_role role);

/* True if a tensor of this role is multiplied or looked up by rows. With two dimensions it is then
 * stored in panels. */
bool sp_role_is_matrix(enum sp_role role);

/* Rows of a source tensor that are copied, in order, to the output. All leading dimensions of the
 * source count as rows of n_cols elements. n_cols is the last dimension of a matrix or the length
 * of a vector; only biases whose elements are interleaved have rows of one element. */
struct sp_row_span {
    const char *source;       /* name in the checkpoint; borrowed from the specs */
    uint64_t first_row, step; /* rows first_row, first_row + step, ... */
    uint64_t n_rows;          /* over all leading dimensions */
    uint64_t n_cols;          /* elements of a row */
    bool transposed;          /* the source is [.., cols, rows] */
    uint64_t pitch; /* transposed: source rows from one matrix to the next, of which the first
                       n_cols are used; 0: n_cols */
};

struct sp_tensor_spec {
    const char *name; /* canonical */
    enum sp_role role;
    unsigned rank;
    uint64_t shape[4];
    size_t first_span, n_spans; /* in sp_specs.spans; they hold all elements of the tensor */
};

/* The tensors of a model, sorted by name. sp_specs_release frees all of it. */
struct sp_specs {
    struct sp_tensor_spec *specs;
    size_t n_specs;
    struct sp_row_span *spans;
    size_t n_spans;
    char **strings; /* the names, owned */
    size_t n_strings, cap_strings, cap_specs, cap_spans;
};

/* Lists the tensors of a model with this config, by canonical name and shape, without row spans.
 * The runtime uses it for a packed file, whose tensors have canonical names. */
SP_MUST_CHECK enum sp_status sp_specs_of_config(struct sp_specs *out,
                                                const struct sp_config *config, struct sp_err *err);

/* A checkpoint's tensor as its header states it. */
struct sp_source_tensor {
    const char *name; /* borrowed */
    uint32_t dtype;   /* enum sp_dtype */
    unsigned rank;
    uint64_t shape[8];
};

/* True for a tensor that a text model does not use: a part of a multimodal checkpoint, a buffer of
 * an old file, or a scale of activations or caches. */
bool sp_source_is_skipped(const char *name);

/* Finds the tensors of a model with this config in a checkpoint, whatever their prefix and layout,
 * and settles *config by them (sp_config_settle). Returns SP_E_INPUT with the first missing,
 * unexpected or misshapen tensors in the message. *n_skipped counts the tensors for which
 * sp_source_is_skipped is true. If the config states that the head is tied but the checkpoint has
 * both embedding and head, both are listed and *compare_equal is set: the caller compares their
 * bytes and calls sp_specs_share_head if they are equal. */
SP_MUST_CHECK enum sp_status sp_specs_of_source(struct sp_specs *out, struct sp_config *config,
                                                const struct sp_source_tensor *tensors, size_t n,
                                                bool *compare_equal, size_t *n_skipped,
                                                struct sp_err *err);

/* Finds the tensors of the built-in prediction head in a checkpoint and ignores all others.
 * *config, parsed from the checkpoint's config.json, becomes that of the prediction head. */
SP_MUST_CHECK enum sp_status sp_specs_of_mtp(struct sp_specs *out, struct sp_config *config,
                                             const struct sp_source_tensor *tensors, size_t n,
                                             struct sp_err *err);

/* True if the checkpoint with this config has a built-in prediction head. */
bool sp_source_has_mtp(const struct sp_config *config, const struct sp_source_tensor *tensors,
                       size_t n);

/* Lists the tensors of a checkpoint to export, with the names, ranks and shapes that transformers 5
 * loads, sorted by name. *out has for each canonical tensor the row spans that sp_specs_of_source
 * would find in this checkpoint; together they fill every tensor of it. *config is settled and not
 * changed. `target` is the config of the model of a built-in prediction head, else NULL. *tensors
 * is owned by the caller; its names are borrowed from *out. */
SP_MUST_CHECK enum sp_status sp_specs_publish(struct sp_specs *out,
                                              struct sp_source_tensor **tensors, size_t *n,
                                              struct sp_config *config,
                                              const struct sp_config *target, struct sp_err *err);

/* Removes the head, which equals the embedding, from the list and sets config->tied. */
void sp_specs_share_head(struct sp_specs *specs, struct sp_config *config);

/* Adds a head with the same row spans as the embedding to the list and clears config->tied, so that
 * the two can be stored differently. */
SP_MUST_CHECK enum sp_status sp_specs_untie_head(struct sp_specs *specs, struct sp_config *config,
                                                 struct sp_err *err);

/* Removes the embedding of a draft that has a head of its own from the list, because the embedding
 * equals the target's, and sets draft.borrows_tables. */
void sp_specs_share_embedding(struct sp_specs *specs, struct sp_config *config);

/* The tensor of this name; NULL if there is none. */
const struct sp_tensor_spec *sp_specs_find(const struct sp_specs *specs, const char *name);
/* *out = a copy of the text, borrowed until the specs are released. */
SP_MUST_CHECK enum sp_status sp_specs_add_string(const char **out, struct sp_specs *specs,
                                                 const char *text, struct sp_err *err);

/* Sorts the specs by name. */
void sp_specs_sort(struct sp_specs *specs);

void sp_specs_release(struct sp_specs *specs);

#endif
