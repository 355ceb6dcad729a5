/* A drafter proposes draft tokens; the target verifies them (runtime/speculate/speculate.h).
 *
 * The state between two rounds, for every kind of drafter (C = n_cached):
 * ids[0..C-1]  committed tokens, which the target's cache holds
 * ids[C]       the anchor, "cur": the newest token, emitted but not yet seen by the target
 *
 * sp_drafter_propose writes draft tokens to ids[C+1..], which begin and next of the kind may leave
 * in the drafter's own caches. commit reports what was accepted, and the drafter drops whatever
 * contradicts it. A drafter can make generation slow, never wrong. Each kind is a struct
 * sp_drafter_ops and a row of the table in drafter.c. */
#ifndef SP_RUNTIME_SPECULATE_DRAFTER_H
#define SP_RUNTIME_SPECULATE_DRAFTER_H

#include "format/base/mem.h"
#include "runtime/sampling/chooser.h"
#include "runtime/speculate/draft_length.h"
#include "runtime/speculate/scheduler.h"

struct sp_constraint; /* runtime/grammar/constraint.h */
struct sp_tokenizer;
struct sp_drafter; /* each kind's own struct begins with struct sp_drafter */

/* What the parts of a sequence have in common: the speculator, its drafter, its prompt pages. */
struct sp_sequence_setup {
    const struct sp_model *target, *draft; /* draft: NULL: none */
    const struct sp_backend *backend;
    struct sp_scheduler *scheduler;       /* outlives the parts, as all of this does */
    struct sp_prompt_cache *prompt_cache; /* NULL: none */
    uint64_t identity;                    /* of the packed file, for the prompt cache */
    /* Of the decoders of target and draft: the context, the type of their caches and what limits
     * them, and the sequences of a batch. A drafter also gets the most rows that one commit brings
     * and a workspace to share, and its kind adds what it needs. */
    struct sp_decoder_options options;
    const struct sp_decoder *decoder; /* for drafters: the target's */
};

/* Rows that the target has just committed, in the order of their positions. */
struct sp_commit {
    const uint32_t *ids;   /* the whole sequence from position 0 */
    size_t first, n;       /* positions first..first+n-1 */
    const float *features; /* [n][n_taps * H] if the drafter wants taps, else NULL */
};

/* How a draft token is chosen from logits, and who decides how many to draft. */
struct sp_proposal {
    const struct sp_chooser *chooser;
    struct sp_draft_length *draft_len; /* considers draft tokens; NULL: all are kept */
    const uint32_t *ends; /* [n_ends] tokens after which nothing is drafted; borrowed */
    size_t n_ends;
};

struct sp_drafter_ops {
    enum sp_draft_kind kind;
    bool stepwise; /* each draft token costs a pass; otherwise a whole block comes from one */
    size_t max_draft_len; /* tokens that any proposal can hold; 0: the draft's block says it */
    /* commit() receives the target's hidden states after its final norm; else the output of those
     * of its layers that the draft names, if it names any. */
    bool reads_output;
    enum sp_status (*check)(const struct sp_model *target, const struct sp_model *draft,
                            struct sp_err *err);
    size_t size; /* of the kind's own struct */
    /* Opens a drafter that sp_drafter_open has made; what it opens before a failure is closed, and
     * memory is checked afterwards. Called without holding the scheduler: must not run a pass. */
    enum sp_status (*open)(struct sp_drafter *drafter, const struct sp_sequence_setup *setup,
                           struct sp_err *err);
    /* The most tokens that a proposal after ids[0..n_cached] can hold; 0: none is possible. NULL:
     * always the most of any. */
    size_t (*limit)(struct sp_drafter *drafter, const uint32_t *ids, size_t n_cached);
    /* Reads the tokens of ids[0..n_cached - 1] that the draft has not seen, if they are more than
     * one round leaves: a prompt, or the output of plain steps. Called before a proposal so that
     * the proposal's time is not distorted. Other threads may hold the scheduler meanwhile. NULL:
     * the kind never lags behind. */
    void (*catch_up)(struct sp_drafter *drafter, const uint32_t *ids, size_t n_cached);
    /* The number of tokens that catch_up would read. NULL: none. */
    size_t (*n_unread)(const struct sp_drafter *drafter, size_t n_cached);
    /* Begins a proposal of *n draft tokens, 1 <= *n <= limit, or of fewer. NULL: nothing to do. */
    void (*begin)(struct sp_drafter *drafter, uint32_t *ids, size_t n_cached, size_t *n,
                  const struct sp_proposal *proposal);
    /* The logits of draft token i of the proposal, while those before it are in ids[n_cached
     * + 1..]; a draft that states its confidence in the token that is chosen from them, 0..1, sets
     * it. Without rows (n is 0) the token is in ids[n_cached + 1 + i], chosen by no logits, and the
     * confidence is set. Only in begin, next and catch_up may other threads hold the scheduler
     * meanwhile. */
    struct sp_logits (*next)(struct sp_drafter *drafter, uint32_t *ids, size_t n_cached, size_t i,
                             double *confidence);
    /* The logits that chose draft token i of the last proposal, over the rows of the draft's head;
     * `best` is not set. The chooser of that proposal needs rows. NULL: the draft is a language
     * model of its own, whose logits any pass computes. */
    struct sp_logits (*logits)(const struct sp_drafter *drafter, size_t i);
    /* This and truncate are NULL for the drafter of one answer, which reads it in limit. */
    void (*commit)(struct sp_drafter *drafter, const struct sp_commit *commit);
    /* Forgets everything from position len on. The tokens ids[0..n_same-1], n_same >= len, stay
     * the same. Returns false and changes nothing if a sliding window no longer holds what a
     * proposal at len would read; len 0 always succeeds. */
    bool (*truncate)(struct sp_drafter *drafter, size_t len, size_t n_same);
    /* Writes or reads what the draft has of the target's positions span * SP_SPAN and the SP_SPAN -
     * 1 after it. Reading with `resumes`: the sequence goes on after them, and those before are
     * read, too. NULL: the next commit brings everything that the draft needs, or it reads by
     * itself what it has not seen. */
    enum sp_status (*page)(struct sp_drafter *drafter, struct sp_cache_file *file, size_t span,
                           bool resumes, struct sp_err *err);
    /* Closes what sp_drafter_close does not; NULL: nothing. */
    void (*close)(struct sp_drafter *drafter);
};

/* The time of a drafter's passes, as sp_drafter_pass adds it up. */
struct sp_pass_time {
    double away;    /* including the wait for the batch */
    double seconds; /* of the batches that held a pass of this drafter */
    double part;    /* `seconds` with each batch divided among its rows */
};

struct sp_drafter {
    const struct sp_drafter_ops *ops; /* static */
    struct sp_scheduler *scheduler;   /* borrowed; NULL: the kind runs no passes */
    /* The models whose embedding and head are used: the draft, for what it has, or the target. */
    const struct sp_model *embedder, *head;
    struct sp_decoder *decoder; /* the draft's, whose caches grow with the sequence; owned;
                                 * NULL: none */
    struct sp_arena memory;     /* of the kind's members */
    struct sp_pass_time time;
};

/* Opens a drafter of this kind. */
SP_MUST_CHECK enum sp_status sp_drafter_open(struct sp_drafter **out,
                                             const struct sp_drafter_ops *ops,
                                             const struct sp_sequence_setup *setup,
                                             struct sp_err *err);
void sp_drafter_close(struct sp_drafter *drafter); /* NULL is fine */

/* Runs these rows through the draft, batched with those of other threads that draft at the same
 * time. Decoder, embedder and head are those of the drafter. */
void sp_drafter_pass(struct sp_drafter *drafter, struct sp_batch_seq seq,
                     enum sp_priority priority);

/* The greatest number of tokens that any proposal of this draft can hold. */
size_t sp_drafter_max_draft_len(const struct sp_model *draft);
/* The taps of the target that commit() receives; borrowed from the draft, or static. */
const unsigned *sp_drafter_taps(const struct sp_model *draft, unsigned *n_taps);

/* Checks that the draft's shapes fit this target, so that opening a drafter is safe. The pair of a
 * packed file was checked in full when the file was created; a file from a stranger gets this
 * check at every opening. */
SP_MUST_CHECK enum sp_status sp_drafter_check(const struct sp_model *target,
                                              const struct sp_model *draft, struct sp_err *err);

/* What a proposal needs of logits of which the draft itself reads `own`: SP_LOGITS_PROBABILITY if a
 * probability is its confidence, SP_LOGITS_BEST if it states that otherwise, SP_LOGITS_ROWS if it
 * makes those of the target's tokens from them. */
enum sp_logits_need sp_proposal_needs(const struct sp_proposal *proposal, enum sp_logits_need own);

/* Writes draft tokens to ids[n_cached + 1 .. n_cached + *n], 1 <= *n <= limit, until the proposal
 * asks for no more; *n becomes their number. A token that the target can never choose is none. */
SP_MUST_CHECK enum sp_status sp_drafter_propose(struct sp_drafter *drafter, uint32_t *ids,
                                                size_t n_cached, size_t *n,
                                                const struct sp_proposal *proposal,
                                                struct sp_err *err);

/* The operations of a kind of draft; NULL if there are none. */
const struct sp_drafter_ops *sp_drafter_find(enum sp_draft_kind kind);

/* ---- the vocabulary of a draft ----
 *
 * The vocabulary of a draft whose head scores a subset of the target's tokens: row i is token i +
 * d2t[i]. Choosers know a single vocabulary: the largest logit gets the target's id, and the row is
 * spread over the target's ids for those that read it; tokens without a row are never drafted. */

struct sp_draft_vocab {
    uint32_t *tokens; /* [head rows] ids of the target, ascending; NULL: row i is token i */
    float *scores;    /* [n_vocab] logits by the target's ids, SP_NEVER for tokens without a row */
    size_t n_vocab;
    struct sp_logits scored; /* over the head's rows, the last ones */
};

/* Opens the vocabulary of a draft that passed sp_draft_vocab_check, in `memory`, which the caller
 * checks. */
void sp_draft_vocab_init(struct sp_draft_vocab *map, struct sp_arena *memory,
                         const struct sp_model *draft, size_t n_vocab);

/* Checks that each row of the draft's head is one of the target's n_vocab tokens. */
SP_MUST_CHECK enum sp_status sp_draft_vocab_check(const struct sp_model *draft, size_t n_vocab,
                                                  struct sp_err *err);

/* The logits in the order of the target's ids, valid until the next call and as long as those of
 * the head's rows; equal logits keep their order. Probabilities are those of the head's rows. */
struct sp_logits sp_draft_vocab_spread(struct sp_draft_vocab *map, struct sp_logits logits);

extern const struct sp_drafter_ops sp_draft_lm_ops, sp_draft_dflash_ops, sp_draft_mtp_ops,
    sp_draft_dflash2_ops, sp_draft_assistant_ops, sp_draft_dspark_ops, sp_draft_eagle3_ops,
    sp_draft_peagle_ops;

/* N-gram drafting without a model: draft tokens are what followed the last tokens where these
 * stood in the text before (prompt lookup decoding, Saxena 2023). It works well for an answer that
 * repeats its question, an edited file or a list of similar lines, and a search costs nothing
 * compared with a pass.
 *
 * Every token of the committed text and every pair of neighbors is indexed under a hash, in a
 * chain from the newest place to the oldest. A search walks the chain of the last two tokens and
 * takes the place that matches the end of the text for longest, the newest of equals. The longer
 * the match, the higher the confidence. If no two tokens match, the draft token is what last
 * followed the last token: it is seldom right, but one more row of a pass costs little. Such a
 * token is only proposed where the draft length is chosen by what pays, not where it is given. */

/* The longest proposal: with the anchor it fills a pass of 16 rows; more rows are not cheaper. */
enum { SP_DRAFT_NGRAM_MAX = 15 };

#define SP_LOOKUP_NAME "lookup"

/* n_positions: the session's context. The drafter belongs to no file: its operations
 * check, open and logits are NULL. */
SP_MUST_CHECK enum sp_status sp_draft_ngram_open(struct sp_drafter **out, size_t n_positions,
                                                 struct sp_err *err);

/* Jump-forward decoding as a drafter (draft_grammar.c): text that the grammar leaves no choice
 * about, such as the name of the next property, spelled in the tokens that the tokenizer would give
 * it.
 *
 * Where a grammar only leaves a choice of whitespace, as JSON does, the answer's own style
 * decides: what came after a comma is expected after the next one. The text is certain but for
 * whitespace, its tokens are not: a model may spell it otherwise, and its last token may reach
 * beyond the certain text. So they are verified as draft tokens like any others. */

/* The longest proposal: with the anchor it fills a pass of 16 rows. */
enum { SP_DRAFT_GRAMMAR_MAX = 15 };

/* Opens a drafter for one answer; constraint and tokenizer are borrowed. It belongs to no file:
 * its operations check, open and logits are NULL. */
SP_MUST_CHECK enum sp_status sp_draft_grammar_open(struct sp_drafter **out,
                                                   struct sp_constraint *constraint,
                                                   const struct sp_tokenizer *tokenizer,
                                                   struct sp_err *err);

#endif
