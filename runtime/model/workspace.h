/* The buffers of a forward pass, which no sequence needs after it.
 *
 * A pass runs the rows of one sequence, or of several sequences whose decoders share a workspace:
 * matrix products take all rows at once; attention and recurrent states are processed sequence by
 * sequence. Each kind of layer has its own buffers, which its source declares (sublayers.h). */
#ifndef SP_RUNTIME_MODEL_WORKSPACE_H
#define SP_RUNTIME_MODEL_WORKSPACE_H

#include "format/base/mem.h"
#include "runtime/backend/attention_job.h"
#include "runtime/backend/backend.h"
#include "runtime/model/decoder.h"

/* The tokens that a draft's head scores when its vocabulary is large: frequent ones, and those that
 * occurred lately. The head of a small draft is a third and more of the bytes that a step reads,
 * and most of its rows belong to tokens that hardly occur (FR-Spec, Zhao et al. 2025; shortlists of
 * machine translation, Jean et al. 2015). A token that is not scored cannot be drafted; the target
 * still writes it, so no text changes.
 *
 * Byte-pair vocabularies are numbered in the order of their merges, the most frequent first, so the
 * first 32768 tokens are the frequent ones. They are multiplied where they lie. Panels of 16 rows
 * with other tokens of the text are copied behind each other; the oldest makes way. A text with
 * many rare tokens, such as one in a script that the vocabulary represents poorly, is drafted with
 * the whole head. The choice depends on the tokens alone.
 *
 * [held by one thread at a time: sequences that share a workspace share a scheduler] */

enum {
    SP_SHORTLIST_FREQUENT = 32768, /* tokens */
    SP_SHORTLIST_RECENT = 512,     /* panels of other tokens */
};

struct sp_vocab_shortlist; /* opaque */

/* A shortlist of the rows of `head`, which is borrowed, in memory of an arena. NULL if that has
 * none, or if `head` has fewer than twice as many rows as there are frequent tokens. */
struct sp_vocab_shortlist *sp_vocab_shortlist_new(struct sp_arena *memory,
                                                  const struct sp_matrix *head);

/* Learns the next tokens of a text. */
void sp_vocab_shortlist_add(struct sp_vocab_shortlist *list, const uint32_t *ids, size_t n);

/* products[0] is the product with the whole head. Replaces it by those with the listed rows and
 * returns their number; 0: the whole head is to be multiplied. They are valid until the next token
 * is added; their results lie in the rows of the whole product, without order until
 * sp_vocab_shortlist_spread. */
size_t sp_vocab_shortlist_products(const struct sp_vocab_shortlist *list,
                                   struct sp_product products[2]);

/* Brings a row of the last products into the order of the tokens: logits[rows of the head]. Tokens
 * that are not listed get SP_NEVER. Several threads may each bring a row into order. */
void sp_vocab_shortlist_spread(const struct sp_vocab_shortlist *list, float *logits);

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
    unsigned most_heads;             /* the most query heads of a layer */
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
    float *kept,   /* [max_rows][ld_x] rows for a later layer (enum sp_join); NULL: none is kept */
        *deferred; /* [max_rows][ld_x] what the next layer adds at its end; NULL: no layer defers */
    float *mamba_y; /* [max_rows][ld_x] output of Mamba-2 in a layer with two mixers; NULL: none */
    float *q;       /* [max_rows][ld_q] */
    float *k, *v;   /* [max_rows][ld_kv] */
    float *up;      /* [max_rows][ld_ffn] */
    float *gate;    /* [max_rows][ld_q] output gates of attention */
    float *mix;     /* [max_rows][ld_mix] what queries mix (sp_relative_bias); NULL: no such bias */
    float *sinks;   /* [max_rows][ld_sinks] of each row (sp_config.row_sinks); NULL: none */
    float *dynamic; /* [max_rows][ld_dynamic] taps that rows make (own_kv_inputs); NULL: none */
    /* [taps - 1 + max_rows][ld_convolved] input of convolutions that add what they convolve */
    float *convolved;
    float *ones; /* [ld_ffn] the factors of an MLP without a gate; NULL: all MLPs have gates */
    size_t ld_x, ld_q, ld_kv, ld_ffn, ld_mix, ld_convolved, ld_sinks, ld_dynamic;
    struct sp_acts hidden; /* [max_rows][H] normed rows, input of q, k, v, gate, up, head */
    struct sp_acts pairs;  /* [max_rows][2 H] embedding and hidden state, normed; the input of q, k,
                              v in a layer that reads pairs */
    struct sp_acts kv_inputs[2]; /* [max_rows][H] of k and v in layers where they differ from q's */
    struct sp_acts heads;        /* [max_rows][widest q] attention output, input of o */
    struct sp_acts ffn;          /* [max_rows][widest MLP] gated rows, input of down */
    struct sp_acts tapped; /* [max_rows][fc.cols] drafts: features of the target, input of fc */
    /* Scratch of the layer kinds; NULL if the model has no such layer. */
    struct sp_experts_scratch *experts;
    struct sp_latent_attention_scratch *latent_attention;
    struct sp_compressed_scratch *compressed;
    struct sp_key_index_scratch *key_index;
    struct sp_gated_norm_scratch *gated_norm;
    struct sp_recurrent_scratch *delta_net, *mamba; /* recurrent.h */
    struct sp_short_conv_scratch *short_conv;
    struct sp_cca_scratch *cca;
    struct sp_altup_scratch *altup;
    struct sp_hyper_scratch *hyper;
    struct sp_block_attention_scratch *block_attention;
    struct sp_ngrams_scratch *ngrams;
    struct sp_per_layer_scratch *per_layer;
    struct sp_block_conv_scratch *block_conv;
    struct sp_kv gathered; /* keys and values of one row that attends to chosen ones, or unused */
    struct sp_lora_rows *lora; /* NULL: sequences have no adapters */
};

/* For max_batch decoders of these options. */
SP_MUST_CHECK enum sp_status sp_workspace_open(struct sp_workspace **out,
                                               const struct sp_model *model,
                                               const struct sp_backend *backend,
                                               const struct sp_decoder_options *options,
                                               struct sp_err *err);
/* Drops one reference; the last one frees the workspace. NULL is fine. */
void sp_workspace_unref(struct sp_workspace *workspace);

#endif
