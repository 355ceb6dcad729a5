/* The forward pass of a decoder stack over one sequence: rows of residual stream in, through every
 * layer, logits out. Target models, autoregressive drafts and block drafts are all such stacks;
 * what differs (masks, windows, norms, biases) is data of the layer.
 *
 * A decoder owns its caches, and has room for passes, its own or shared, sized when it is opened:
 * nothing here allocates later. A pass over rows at positions pos..pos+n-1 overwrites whatever keys
 * those positions held; rolling back is passing a smaller pos next time. Recurrent layers keep one
 * state, behind the last committed row, and a log of what an uncertain row would do to it. Row t's
 * results depend on row t's input, the weights, and what is stored below its position: not on n,
 * the threads or the instruction set. */
#ifndef SP_RUNTIME_MODEL_DECODER_H
#define SP_RUNTIME_MODEL_DECODER_H

#include "runtime/model/attention.h"
#include "runtime/model/logits.h"
#include "runtime/model/model.h"
#include "runtime/model/session_file.h"

struct sp_decoder; /* opaque */

/* One sequence's rows in a pass of several. */
struct sp_batch_seq {
    struct sp_decoder *decoder;
    /* Whose tables embed and score: the model's own, or the target's for a draft that borrows them;
     * the same in all shares of a pass. */
    const struct sp_model *embedder, *head;
    const uint32_t *ids; /* [n], borrowed */
    /* Prediction heads and assistants: a row is a pair of its token and a hidden state of the
     * target, or what EAGLE-3 makes of it (sp_decoder_fuse_features), or a feature of the decoder's
     * own. [n][width], borrowed; NULL: of its token alone. */
    const float *hidden;
    size_t n, pos, n_committed;    /* as of sp_decoder_run */
    size_t first_logits, n_logits; /* rows of the share whose logits are wanted */
};

struct sp_decoder_options {
    size_t n_positions;    /* capacity of the full caches */
    size_t max_rows;       /* most rows of one pass */
    size_t max_logit_rows; /* most rows of one sp_decoder_logits */
    enum sp_kv_type kv_type;
    size_t n_planned;     /* length that the longrope regime is chosen for; 0: n_positions */
    const unsigned *taps; /* layers whose output is kept, borrowed until close; SP_TAP_* */
    unsigned n_taps;
    bool checkpoints;                 /* room for sp_decoder_checkpoint */
    const struct sp_decoder *keys_of; /* whose keys layers without any read; must outlive this */
    /* Decoders of one model may share the room that their passes need, and then pass together.
     * The first one has it for max_batch of its like (0: for itself); of the others it is
     * room_of, and none of their sizes may be larger. */
    size_t max_batch;
    const struct sp_decoder *workspace_of; /* NULL: none */
};

/* In place of a layer, like SP_TAP_EMBEDDING: the residual stream after the final norm. */
#define SP_TAP_FINAL UINT_MAX

/* model and engine must outlive the decoder. */
SP_MUST_CHECK enum sp_status sp_decoder_open(struct sp_decoder **out, const struct sp_model *model,
                                             const struct sp_backend *backend,
                                             const struct sp_decoder_options *options,
                                             struct sp_err *err);
void sp_decoder_close(struct sp_decoder *decoder); /* NULL is fine */

/* Bytes of all caches. */
size_t sp_decoder_cache_size(const struct sp_decoder *decoder);

enum sp_kv_type sp_decoder_kv_type(const struct sp_decoder *decoder);

/* Fills rows 0..n-1 with the embeddings of ids, from `source`'s table (the model's own, or the
 * target's for a draft that borrows it). ids are below the table's rows. */
void sp_decoder_embed(struct sp_decoder *decoder, const struct sp_model *source,
                      const uint32_t *ids, size_t n);

/* EAGLE-3: out[n][H] = fc of the target's features, [n][n_taps * target hidden], normed where the
 * draft has norms for them. n <= max_rows. */
void sp_decoder_fuse_features(struct sp_decoder *decoder, float *out, const float *features,
                              size_t n);

/* Runs rows 0..n-1 through all layers at positions pos..pos+n-1; pos + n <= n_positions. The first
 * n_certain of them will be committed whatever happens; more than max_logit_rows others need not be
 * possible. pos == 0 begins a new sequence. */
void sp_decoder_run(struct sp_decoder *decoder, size_t n, size_t pos, size_t n_committed);

/* The first n >= n_certain rows of the last run became true: recurrent states follow. Not calling
 * it is dropping the run, if no row of it was certain. */
void sp_decoder_commit(struct sp_decoder *decoder, size_t n);

/* Has a layer a recurrent state? Then a sequence can only go on from what was committed. */
bool sp_decoder_is_recurrent(const struct sp_decoder *decoder);

/* The keys and values that a layer reads (drafts that attend to the target's). */
const struct sp_kv *sp_decoder_cache(const struct sp_decoder *decoder, unsigned layer);

/* Logits of rows first..first+n-1 of the last run: final norm, head, soft cap. The head may be
 * borrowed (`source`). Valid until the next call, of a decoder that shares the room too. */
void sp_decoder_logits(struct sp_decoder *decoder, const struct sp_model *source, size_t first,
                       size_t n);
/* ... and row t < n of them. */
struct sp_logits sp_decoder_row(const struct sp_decoder *decoder, size_t t);

/* Passes of several sequences: makes the shares' input rows, runs them through all layers together,
 * and makes the logits they want (sp_decoder_row of each decoder). What comes out is the same to
 * the bit as that of one pass after another. No two shares are of one decoder; they fit: */
void sp_batch_run(const struct sp_batch_seq *seqs, size_t n_seqs);
/* Do the decoders share a room, and are its rows enough? n_shares >= 1. */
bool sp_batch_fits(const struct sp_batch_seq *seqs, size_t n_seqs);

/* Tapped residual streams of the last run: [rows][n_taps * H], row after row without gap. */
const float *sp_decoder_features(const struct sp_decoder *decoder);

/* Block drafts: stores keys and values of n context rows at positions pos.., made from the target's
 * features ([n][n_taps * target hidden]): c = norm(fc f), then each layer's k and v of c. */
void sp_decoder_add_context(struct sp_decoder *decoder, const float *features, size_t n,
                            size_t pos);

/* Having stored positions 0..len-1 (and up to max_rows guesses beyond): is everything that a pass
 * at `to` <= len reads still there? Windows forget. */
bool sp_decoder_can_rewind(const struct sp_decoder *decoder, size_t len, size_t to);

/* Keeps a copy of what recurrent layers remember, behind the len positions that are committed: the
 * last run's rows were all certain. The two newest copies are kept. Nothing where there is no room
 * for marks, or no such layer. */
void sp_decoder_checkpoint(struct sp_decoder *decoder, size_t len);
/* The longest prefix of the len positions stored, `most` at most, from which a sequence can go on:
 * where windows allow it and, with recurrent layers, where there is a mark. */
size_t sp_decoder_rewind_point(const struct sp_decoder *decoder, size_t len, size_t most);
/* Goes back to such a prefix; marks behind it are dropped. */
void sp_decoder_rewind(struct sp_decoder *decoder, size_t len, size_t to);

/* What the len positions that are committed left in the layers, and the marks. Read: into a decoder
 * of the same model; what it held is gone, on failure too, and the sequence to be begun anew. */
SP_MUST_CHECK enum sp_status sp_decoder_state(struct sp_decoder *decoder, struct sp_state *state,
                                              size_t len, struct sp_err *err);

/* Digest of everything that positions 0..len-1 left in the caches (tests of exact rollback). */
uint64_t sp_decoder_digest(struct sp_decoder *decoder, size_t len);

#endif
