/* A decoder: one sequence in a stack of layers, and the forward pass over its rows. Target models,
 * autoregressive drafts and block drafts are all such stacks; their differences (masks, windows,
 * norms, biases) are data of the layers.
 *
 * A decoder owns its caches and has a workspace, its own or shared, that is allocated when the
 * decoder is opened; only sp_decoder_grow allocates later. A pass over rows at positions
 * pos..pos+n-1 overwrites the keys of those positions, so a rollback is a smaller pos in the next
 * pass. Recurrent layers keep one state, after the last committed row, and a log of the rows after
 * it. The results of row t depend on row t's input, the weights and the stored positions below its
 * own; not on n, the number of threads or the instruction set.
 *
 * This is the API of decoder.c (caches), recurrent.c (recurrent states), decoder_forward.c (passes)
 * and decoder_logits.c. The struct stands in decoder_internal.h. */
#ifndef SP_RUNTIME_MODEL_DECODER_H
#define SP_RUNTIME_MODEL_DECODER_H

#include "runtime/backend/attention.h"
#include "runtime/backend/cache_budget.h"
#include "runtime/backend/cache_file.h"
#include "runtime/backend/logits.h"
#include "runtime/backend/lora_rows.h"
#include "runtime/backend/prompt_cache.h"
#include "runtime/model/model.h"
#include "runtime/spectool_measure.h"

#include <limits.h>

/* LoRA adapters of a model that stay apart from its weights: low-rank products
 * (runtime/backend/lora_rows.h) by the names of the tensors. */

/* Opens an adapter of a model, which is borrowed and was loaded from `pack`: the work of
 * sp_lora_open. sp_lora_add, which raises the model's max_lora_rank, and sp_lora_close are declared
 * in spectool.h, sp_lora_digest in spectool_measure.h. */
SP_MUST_CHECK enum sp_status sp_lora_new(struct sp_lora **out, struct sp_model *model,
                                         const struct sp_pack *pack, struct sp_err *err);

const struct sp_lora_products *sp_lora_products_of(const struct sp_lora *lora);

struct sp_decoder; /* opaque */

/* The rows of one sequence in a batch. */
struct sp_batch_seq {
    struct sp_decoder *decoder;
    /* The models whose embedding and head are used: the decoder's own, or the target for a draft
     * that borrows them. They are the same in all sequences of a batch. */
    const struct sp_model *embedder, *head;
    const uint32_t *ids; /* [n], borrowed */
    /* [n][width], borrowed; NULL: rows are made of tokens alone. Prediction heads and assistants: a
     * row is a pair of a token and a hidden state of the target, or a feature that
     * sp_decoder_fuse_features returned, or a feature of the decoder itself. */
    const float *hidden;
    size_t n, pos, n_committed;    /* as in sp_decoder_run */
    size_t n_first;                /* tokens of the first type; 0: all of the sequence */
    size_t first_logits, n_logits; /* the rows of the sequence that need logits */
    /* What the sequence needs of them. All sequences of a batch get the most that one needs. */
    enum sp_logits_need needs;
};

struct sp_decoder_options {
    size_t n_positions;             /* capacity of the full caches; selects longrope's factors */
    struct sp_cache_budget *budget; /* the caches take memory from it as they grow; borrowed; NULL:
                                       they have memory for n_positions from the beginning */
    size_t max_rows;                /* most rows of one pass */
    size_t max_logit_rows;          /* most rows of one sp_decoder_logits */
    enum sp_cache_type cache_type;
    const unsigned *taps; /* [n_taps] layers with features, or SP_TAP_*; borrowed until close */
    unsigned n_taps;
    bool checkpoints;                 /* allocate memory for sp_decoder_checkpoint */
    const struct sp_decoder *keys_of; /* the decoder whose keys are read by layers without keys of
                                         their own; must outlive this one */
    /* Decoders of one model may share a workspace and then run as one batch. The decoder that
     * creates it allocates for max_batch decoders (0: one); the others name it in workspace_of and
     * none of their sizes may be larger. */
    size_t max_batch;
    const struct sp_decoder *workspace_of; /* NULL: the decoder creates its own */
    /* Drafts: the model whose head is used, if a shortlist of its rows may be multiplied instead of
     * all (runtime/model/vocab_shortlist.c), which are numbered as tokens are. Such a decoder
     * learns all tokens of the text by sp_decoder_add_tokens; the logits of tokens that were left
     * out are SP_NEVER. */
    const struct sp_model *shortlist_of;
};

/* A tap that is not a layer, like SP_TAP_EMBEDDING: the residual stream after the final norm. */
#define SP_TAP_FINAL UINT_MAX

/* model and backend must outlive the decoder. */
SP_MUST_CHECK enum sp_status sp_decoder_open(struct sp_decoder **out, const struct sp_model *model,
                                             const struct sp_backend *backend,
                                             const struct sp_decoder_options *options,
                                             struct sp_err *err);
void sp_decoder_close(struct sp_decoder *decoder); /* NULL is fine */

enum sp_cache_type sp_decoder_cache_type(const struct sp_decoder *decoder);
/* Gives layer `layer`, which has a cache of its own, an empty one of another type, at a decoder
 * that has no budget. */
SP_MUST_CHECK enum sp_status sp_decoder_set_cache_type(struct sp_decoder *decoder, unsigned layer,
                                                       enum sp_cache_type type, struct sp_err *err);

/* Sets the adapter of the passes that follow, whose first begins at position 0; NULL: none. Its
 * rank is at most sp_decoder_max_lora_rank. Borrowed until another one is set, or close. */
void sp_decoder_set_lora(struct sp_decoder *decoder, const struct sp_lora *lora, float scale);
const struct sp_lora *sp_decoder_lora(const struct sp_decoder *decoder, float *scale);
/* The model's max_lora_rank when the decoder's workspace was allocated. */
size_t sp_decoder_max_lora_rank(const struct sp_decoder *decoder);

/* Gives the caches memory for positions 0..n-1, and some more; n above n_positions means
 * n_positions. SP_E_NOMEM, with the numbers, if the budget or the system has too little: nothing
 * changed then. Passes run only at positions that have memory. */
SP_MUST_CHECK enum sp_status sp_decoder_grow(struct sp_decoder *decoder, size_t n,
                                             struct sp_err *err);
/* The bytes of the caches' memory. */
size_t sp_decoder_cache_size(const struct sp_decoder *decoder);
/* The bytes that the caches hold once they have grown to n positions. */
size_t sp_decoder_cache_size_for(const struct sp_decoder *decoder, size_t n);
/* Returns memory that positions 0..n-1 do not need, if it is much. */
void sp_decoder_shrink(struct sp_decoder *decoder, size_t n);

/* EAGLE-3: out[n][H] = fc of the target's features[n][n_taps * target hidden], normed if the draft
 * has norms for them. n <= max_rows. */
void sp_decoder_fuse_features(struct sp_decoder *decoder, float *out, const float *features,
                              size_t n);

/* Runs the embeddings of ids[n], which are below the rows of the model's table, through all layers
 * at positions pos..pos+n-1; pos + n <= n_positions. The first n_committed rows are committed at
 * once; at most max_logit_rows others may follow. pos == 0 begins anew. */
void sp_decoder_run(struct sp_decoder *decoder, const uint32_t *ids, size_t n, size_t pos,
                    size_t n_committed);

/* Runs rows 0..n-1, the tokens `ids` of a whole sequence, through layers first..end-1. from[n][H]
 * is the residual stream before layer `first`; NULL: the embeddings. to[n][H] receives it after
 * layer end - 1 unless it is NULL; it may be `from`. Layers that read the keys of a layer below
 * `first` find those of the last run there. Layer `first` takes neither the sum of experts that the
 * layer below defers nor its chosen keys. */
void sp_decoder_run_layers(struct sp_decoder *decoder, const uint32_t *ids, size_t n,
                           const float *from, float *to, unsigned first, unsigned end);

/* Checks the results of passes: SP_E_IO with a sentence if a rank is lost or the file was cut
 * short, since they are undefined then. */
SP_MUST_CHECK enum sp_status sp_decoder_check(const struct sp_decoder *decoder, struct sp_err *err);

/* Commits the first n >= n_committed rows of the last run to the recurrent states. A run without
 * committed rows is dropped by not calling this function. */
void sp_decoder_commit(struct sp_decoder *decoder, size_t n);

/* Computes the logits of rows first..first+n-1 of the last run: final norm, head of the model, soft
 * cap. They are valid until the next call for any decoder that shares the workspace. */
void sp_decoder_logits(struct sp_decoder *decoder, size_t first, size_t n);
/* Has the backend's observer see what the head reads of rows 0..n-1 of the last run, without the
 * cost of logits. */
void sp_decoder_observe_head(struct sp_decoder *decoder, size_t n);
/* Row t < n of the logits that sp_decoder_logits or sp_batch_run computed. `row` is NULL if other
 * ranks keep parts of it, which only happens if it is not needed; sp_logits_row receives them. */
struct sp_logits sp_decoder_row(const struct sp_decoder *decoder, size_t t);
/* The largest logits of row t, best first, of which there are at most `room`. Returns their number.
 * `best` of the row tells whether all logits are finite. */
size_t sp_decoder_top(const struct sp_decoder *decoder, size_t t, struct sp_top_logit *top,
                      size_t room);
/* Row t plus the product of w, which has as many rows as the head, with the only row of `in`. y:
 * [sp_matrix_ld(w->rows)], borrowed, receives the sums. The logits are valid until the next call
 * for this workspace, except that y is if it is the row. */
struct sp_logits sp_decoder_correct_row(const struct sp_decoder *decoder, size_t t,
                                        const struct sp_matrix *w, const struct sp_acts *in,
                                        float *y);
/* Copies the first n logits of row t to `kept`. Returns logits that refer to the copy. n: at most
 * the rows of the head. */
struct sp_logits sp_decoder_keep_row(const struct sp_decoder *decoder, size_t t, float *kept,
                                     size_t n);
/* Learns the next tokens of the text for the shortlist, if there is one. */
void sp_decoder_add_tokens(struct sp_decoder *decoder, const uint32_t *ids, size_t n);

/* Runs several sequences as one batch: makes their input rows, runs these through all layers, and
 * computes the logits that the sequences need (sp_decoder_row of each decoder). The results have
 * the same bits as one pass per sequence. The decoders are distinct and sp_batch_fits is true. */
void sp_batch_run(const struct sp_batch_seq *seqs, size_t n_seqs);
/* True if the decoders share a workspace that has enough rows for the batch. n_seqs >= 1. */
bool sp_batch_fits(const struct sp_batch_seq *seqs, size_t n_seqs);

/* Tapped residual streams of the last run: [rows][n_taps * H] without gaps. */
const float *sp_decoder_features(const struct sp_decoder *decoder);

/* Block drafts: stores keys and values of n context rows at positions pos.., computed from the
 * target's features[n][n_taps * target hidden]: c = norm(fc f), then k and v of c in each layer. */
void sp_decoder_add_context(struct sp_decoder *decoder, const float *features, size_t n,
                            size_t pos);

/* A digest of what the contents of caches depend on beside model, adapter and tokens: their type
 * and the rotations, some of which depend on the planned context. */
uint64_t sp_decoder_cache_digest(const struct sp_decoder *decoder);

/* True if the caches keep every position, and a block of theirs those of one span alone: spans can
 * be transferred in any order. No layer has a sliding window. */
bool sp_decoder_keeps_all(const struct sp_decoder *decoder);

/* Writes or reads the keys and values of positions span * SP_SPAN and the SP_SPAN - 1 after it. The
 * caches have memory for them; reading requires a decoder of the same model and cache digest. */
SP_MUST_CHECK enum sp_status sp_decoder_transfer(struct sp_decoder *decoder,
                                                 struct sp_cache_file *file, size_t span,
                                                 struct sp_err *err);
/* Has the caches share the keys and values of a span, which they hold, with decoders of the same
 * model and cache digest that call this with the same name, as prompt_cache.h says. Private are
 * rings of windows, which later tokens overwrite; rows of several tokens; rows that are no whole
 * pages of memory (q8 values of an odd number of small heads); recurrent states; and all rows of a
 * decoder that computes with other ranks. */
void sp_decoder_share(struct sp_decoder *decoder, struct sp_prompt_cache *cache, const char *name,
                      size_t span);
/* Writes or reads the recurrent states after the last committed row. A decoder that has none writes
 * nothing. */
SP_MUST_CHECK enum sp_status sp_decoder_transfer_state(struct sp_decoder *decoder,
                                                       struct sp_cache_file *file,
                                                       struct sp_err *err);
/* The bytes of these states; 0: no layer is recurrent. A decoder with any continues only from a
 * committed position. */
size_t sp_decoder_state_size(const struct sp_decoder *decoder);

/* ---- going back to an earlier position of a sequence ----
 *
 * Keys and values stay where they are when a sequence goes on, recurrent states do not. A
 * checkpoint is a copy of the recurrent states at some position; a new prompt that shares a prefix
 * with the cached sequence continues from the newest checkpoint within that prefix. Layers with
 * sliding windows also limit how far a decoder can go back: their caches overwrite old keys. */

/* True if no sliding window has overwritten keys that a pass at `to` reads, of len positions. */
bool sp_decoder_keeps_windows(const struct sp_decoder *d, size_t len, size_t to);

/* True if a decoder that stores positions 0..len-1, and up to max_rows draft tokens after them, can
 * continue after `to` <= len positions without a checkpoint: no sliding window has overwritten what
 * it would read, and no recurrent state is in the way. */
bool sp_decoder_can_rewind(const struct sp_decoder *d, size_t len, size_t to);

/* Saves a checkpoint after the len committed positions; all rows of the last run were committed.
 * The two newest checkpoints are kept. Does nothing if the decoder has no checkpoints. */
void sp_decoder_checkpoint(struct sp_decoder *d, size_t len);

/* The longest prefix of the len stored positions, at most `most`, from which the sequence can
 * continue: sliding windows allow it and, with recurrent layers, a checkpoint exists. */
size_t sp_decoder_rewind_point(const struct sp_decoder *d, size_t len, size_t most);

/* Goes back to a prefix that sp_decoder_rewind_point returned; drops later checkpoints. */
void sp_decoder_rewind(struct sp_decoder *d, size_t len, size_t to);

#endif
