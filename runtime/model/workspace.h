/* The buffers of a forward pass, which no sequence needs after it.
 *
 * A pass runs the rows of one sequence, or of several sequences whose decoders share a workspace:
 * matrix products take all rows at once; attention and recurrent states are processed sequence by
 * sequence. Each kind of layer has its own buffers, declared in the header of its own source. */
#ifndef SP_RUNTIME_MODEL_WORKSPACE_H
#define SP_RUNTIME_MODEL_WORKSPACE_H

#include "format/base/mem.h"
#include "runtime/backend/attention_job.h"
#include "runtime/model/decoder.h"
#include "runtime/model/vocab_shortlist.h"

/* Cosines and sines of one rotation for the rows of a pass. */
struct sp_rotation {
    float *cos, *sin; /* [max_rows][n_rot / 2] */
};

/* Two mixers of one layer that read the same input; their outputs are added. */
enum { SP_PARALLEL_MIXERS = SP_MIXER_ATTENTION | SP_MIXER_MAMBA };

struct sp_workspace {
    const struct sp_model *model;
    const struct sp_backend *backend;
    size_t n_users;         /* decoders that share it */
    struct sp_arena memory; /* all buffers, also those of the layer kinds */
    size_t max_rows, max_logit_rows, n_positions;
    const struct sp_batch_seq *seqs; /* [n_seqs] of the pass in row order, borrowed */
    size_t n_seqs;
    struct sp_batch_seq single; /* the sequence of a pass that has only one */
    size_t *positions;          /* [max_rows] of the rows in their sequences */
    bool *is_second;            /* [max_rows] the token is of the second type */
    uint32_t *ids;              /* [max_rows] tokens of a batch */
    struct sp_rotation rotations[2];
    struct sp_attention_scratch *attention;
    struct sp_key_range *ranges;             /* [max_rows] */
    struct sp_attention_seq *attention_seqs; /* [max_rows] the caches of a layer */
    float *logits;                           /* [max_logit_rows][ld_logits] */
    size_t ld_logits, n_logits;              /* n_logits: logits of a row of the last product */
    atomic_uint_least64_t *argmax;           /* [max_logit_rows] of the rows of logits */
    struct sp_remote_rows rows;              /* of the last product with the head */
    struct sp_remote_rows corrected;         /* a row that a product was added to */
    /* [max_logit_rows + 1][blocks of a row], the last one of a corrected row; NULL: all logits are
     * computed here */
    struct sp_logits_sum *sums;
    struct sp_vocab_shortlist *shortlist; /* of the head's rows; NULL: none; owned */
    float *x;                             /* [max_rows][ld_x] residual stream */
    float *y;                             /* [max_rows][ld_x] output of a sublayer */
    float
        *deferred; /* [max_rows][ld_x] what the next layer adds at its end; NULL: no layer defers */
    float *mamba_y; /* [max_rows][ld_x] output of Mamba-2 in a layer with two mixers; NULL: none */
    float *q;       /* [max_rows][ld_q] */
    float *k, *v;   /* [max_rows][ld_kv] */
    float *up;      /* [max_rows][ld_ffn] */
    float *gate;    /* [max_rows][ld_q] output gates of attention */
    float *ones;    /* [ld_ffn] the factors of an MLP without a gate; NULL: all MLPs have gates */
    size_t ld_x, ld_q, ld_kv, ld_ffn;
    struct sp_acts hidden; /* [max_rows][H] normed rows, input of q, k, v, gate, up, head */
    struct sp_acts pairs;  /* [max_rows][2 H] embedding and hidden state, normed; the input of q, k,
                              v in a layer that reads pairs */
    struct sp_acts heads;  /* [max_rows][widest q] attention output, input of o */
    struct sp_acts ffn;    /* [max_rows][widest MLP] gated rows, input of down */
    struct sp_acts tapped; /* [max_rows][fc.cols] drafts: features of the target, input of fc */
    /* Scratch of the layer kinds; NULL if the model has no such layer. */
    struct sp_experts_scratch *experts;
    struct sp_latent_attention_scratch *latent_attention;
    struct sp_key_index_scratch *key_index;
    struct sp_gated_norm_scratch *gated_norm;
    struct sp_recurrent_scratch *delta_net, *mamba;
    struct sp_short_conv_scratch *short_conv;
    struct sp_altup_scratch *altup;
    struct sp_per_layer_scratch *per_layer;
    struct sp_block_conv_scratch *block_conv;
    struct sp_lora_rows *lora; /* NULL: sequences have no adapters */
};

struct sp_workspace_options {
    size_t max_rows, max_logit_rows, n_positions;
    enum sp_cache_type cache_type;
    const struct sp_matrix *shortlist_of; /* see struct sp_decoder_options */
};

SP_MUST_CHECK enum sp_status sp_workspace_open(struct sp_workspace **out,
                                               const struct sp_model *model,
                                               const struct sp_backend *backend,
                                               const struct sp_workspace_options *options,
                                               struct sp_err *err);
/* Drops one reference; the last one frees the workspace. NULL is fine. */
void sp_workspace_unref(struct sp_workspace *workspace);

#endif
