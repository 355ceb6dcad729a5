/* spectool, measured: logits, the speed and the quality of a model, calibration. For the commands
 * that measure, and for programs that compare a model with another implementation. Unlike
 * spectool.h, this header comes without a promise: it may change in any version. */
#ifndef SP_RUNTIME_SPECTOOL_MEASURE_H
#define SP_RUNTIME_SPECTOOL_MEASURE_H

#include "runtime/spectool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- logits -------------------------------------------------------------------------------- */

/* Receives the logits [n_vocab] of one row after the other; nonzero: SP_E_CANCELLED. */
typedef int sp_logits_fn(void *context, size_t row, const float *logits, size_t n_vocab);

/* Computes the logits of every position of ids[0..n-1] from an empty cache. [session] */
SP_API_STATUS sp_session_logits(struct sp_session *session, const uint32_t *ids, size_t n,
                                sp_logits_fn *fn, void *context, struct sp_err *err);

/* ---- adapters ------------------------------------------------------------------------------- */

/* The adapter of a session, and the number by which its products are multiplied; NULL: none.
 * [session] */
SP_API const struct sp_lora *sp_session_lora(const struct sp_session *session, float *scale);
/* A digest of all products of an adapter, in any order, and this number: caches and recorded
 * answers belong to an adapter of this digest. [any thread] */
SP_API uint64_t sp_lora_digest(const struct sp_lora *lora, float scale);

/* ---- the reference decoder ------------------------------------------------------------------ */

/* A package whose weights are decoded to float32 and multiplied by OpenBLAS, slowly and on one
 * thread. Everything else is the plain C of the scalar kernels. */
enum sp_reference_mode {
    SP_REFERENCE_FLOAT,   /* activations in float32 */
    SP_REFERENCE_ROUNDED, /* activations rounded to 8 bits where kernels do so */
    SP_REFERENCE_CHECKED, /* the scalar kernels multiply; each product is compared with that of the
                             same rounded activations by OpenBLAS */
};

struct sp_reference_options {
    size_t size;
    const char *module; /* the file spectool-blas.so, found as dlopen(3) finds a library */
    enum sp_reference_mode mode;
};

/* Opens a packed file for the reference decoder. SP_E_UNSUPPORTED: the module, or OpenBLAS, is
 * missing. [any thread] */
SP_API_STATUS sp_package_open_reference(struct sp_package **out, const char *path,
                                        const struct sp_reference_options *options,
                                        struct sp_err *err);

struct sp_reference_check_request {
    size_t size;
    struct sp_package *const *references; /* [3] the same file, in each mode; borrowed */
    const uint32_t *ids;                  /* [n] */
    size_t n;
    size_t n_rows;            /* the logits of the last n_rows ids are compared */
    enum sp_cache_type cache; /* of all but SP_REFERENCE_FLOAT, whose cache is f32 */
    void *context;
    int (*progress)(void *context, size_t done, size_t total); /* in rows; nonzero: stop */
};

/* What a package is worth. The error of a row of logits is the largest difference of an element,
 * relative to the largest magnitude; that of an element of a product, relative to the norms of its
 * weights and its activations. */
struct sp_reference_check {
    size_t size;
    size_t n_rows;
    double error;          /* of the package's logits */
    double rounding_error; /* of the logits with rounded activations and caches */
    double divergence;     /* mean KL(reference || package) */
    bool differs;          /* the most likely token of a row is not the reference's */
    size_t first_different;
    uint32_t token, reference_token; /* of that row */
    double product_error;            /* of the scalar kernels, since the package was opened */
    bool products_agree;             /* it is no more than rounding explains */
    size_t n_equal; /* rows before the first whose bits are not those of the scalar kernels */
};
#define SP_REFERENCE_CHECK_INIT SP_SIZED(struct sp_reference_check)

/* Compares a package with the reference decoder. SP_E_CANCELLED: the callback stopped. SP_E_INPUT:
 * a logit is not finite. [package] */
SP_API_STATUS sp_package_check_reference(struct sp_package *package,
                                         const struct sp_reference_check_request *request,
                                         struct sp_reference_check *result, struct sp_err *err);

/* ---- probabilities of tokens ---------------------------------------------------------------- */

/* Receives ids[index] with its log-probability after those before it; nonzero: SP_E_CANCELLED. */
typedef int sp_logprob_fn(void *context, size_t index, const struct sp_token *token);

/* Computes the log-probabilities of ids[1..n-1], each with the n_top most likely tokens of its
 * position, as a request's `logprobs` gives those of an answer. The caches stay. [session] */
SP_API_STATUS sp_session_logprobs(struct sp_session *session, const uint32_t *ids, size_t n,
                                  unsigned n_top, sp_logprob_fn *fn, void *context,
                                  struct sp_err *err);

/* Computes the logits of the draft model after ids[0..n-1], the last of which the target has not
 * read yet. A block draft has block_size - 1 rows, for the positions after it; an autoregressive
 * draft has one row for each id; heads have `steps` rows, each after the most likely token of the
 * row before. SP_E_USAGE: the session has no draft model. [session] */
SP_API_STATUS sp_session_draft_logits(struct sp_session *session, const uint32_t *ids, size_t n,
                                      size_t steps, sp_logits_fn *fn, void *context,
                                      struct sp_err *err);

/* Receives the seconds of one target pass over n_rows[index] rows with all their logits, and of a
 * proposal of one token less (0 without draft); nonzero: stop, SP_E_CANCELLED. */
typedef int sp_timing_fn(void *context, size_t index, double verify_seconds, double draft_seconds);

/* Times passes of n_rows[0..n-1] rows after n_before tokens. It times one pass of each number in
 * turn, `repeats` times, so that the machine's speed affects all alike. [session] */
SP_API_STATUS sp_session_benchmark(struct sp_session *session, size_t n_before,
                                   const size_t *n_rows, size_t n, size_t repeats, sp_timing_fn *fn,
                                   void *context, struct sp_err *err);

/* The bytes that a target pass of one row reads after n_before tokens: weights (of experts, those
 * that one row uses), keys, values and states; and the weights that the draft model reads to
 * propose draft_len tokens: once for a draft of blocks, else for each token. [session] */
SP_API uint64_t sp_session_read_size(const struct sp_session *session, size_t n_before,
                                     size_t draft_len);
/* The multiply-adds of weights with a row of a target pass; `logits`: those of the output matrix,
 * too. [session] */
SP_API double sp_session_products(const struct sp_session *session, bool logits);

/* ---- the speed of a machine ----------------------------------------------------------------- */

/* Threads, and a buffer that they read. */
struct sp_machine_speed;

/* kernels: the name of a kernel set. read_size: the bytes that a pass reads. The buffer is larger
 * than the CPU caches or, if that is less, four times read_size: a small model is read from the
 * caches itself. [any thread] */
SP_API_STATUS sp_machine_speed_open(struct sp_machine_speed **out, const char *kernels,
                                    unsigned n_threads, uint64_t read_size, struct sp_err *err);
SP_API void sp_machine_speed_close(struct sp_machine_speed *speed); /* NULL is fine */
/* Bytes per second: the best of three reads of the buffer, of fewer if they take long. Three
 * milliseconds of multiply-adds of 8-bit numbers in registers, per second; 0: the kernels are
 * scalar. [one thread at a time] */
SP_API double sp_machine_speed_memory(struct sp_machine_speed *speed);
SP_API double sp_machine_speed_products(struct sp_machine_speed *speed);

/* ---- evaluation ---------------------------------------------------------------------------- */

/* A mean over positions and its standard error, as if positions were independent of each other. */
struct sp_estimate {
    double mean, error;
};

/* e^loss: the perplexity of a mean loss, or the ratio of two perplexities from the mean difference
 * of their losses. The error is to first order. [any thread] */
SP_API struct sp_estimate sp_perplexity(struct sp_estimate loss);

/* Means over consecutive scored ids of a text. The scored ids are divided into as many blocks as
 * the square root of their number says, rounded down, whose sizes differ by at most one. The spread
 * of the blocks' means gives the error of a mean over a text whose positions depend on each other
 * (the method of batch means: Flegal and Jones, Annals of Statistics 38, 2010). */
struct sp_evaluation_block {
    size_t n;           /* ids */
    double loss, right; /* as in struct sp_evaluation */
    double reference_loss, loss_change, divergence, agreement, prob_change; /* 0: no reference */
};

/* A text to evaluate, which is read in windows. If the ids begin with the tokens that the tokenizer
 * puts before a text (the lead), every window begins with them. Window k holds the ids from
 * k * stride on. Each id after the lead is scored once, by the first window that holds it and a
 * token before it. */
struct sp_evaluation_request {
    size_t size;
    const uint32_t *ids; /* [n] */
    size_t n;
    size_t n_window; /* ids of a window, the lead included; 0: the model's context, at most 2048 */
    size_t stride;   /* 0: half of what a window holds of the text */
    size_t max_windows;           /* 0: all */
    struct sp_package *reference; /* the model to compare with; NULL: none */
    enum sp_cache_type cache;     /* of the package; the reference has f32 */
    void *context;
    int (*progress)(void *context, size_t done, size_t total); /* in tokens; nonzero: stop */
    void (*block)(void *context, const struct sp_evaluation_block *block); /* in order; or NULL */
};
#define SP_EVALUATION_REQUEST_INIT SP_SIZED(struct sp_evaluation_request)

/* The quality of a model on a text. Logarithms are natural. No number depends on threads or
 * kernels. */
struct sp_evaluation {
    size_t size;
    size_t n_windows, n_window, stride, n_lead; /* as they were chosen */
    size_t first_scored, n_scored;              /* ids[first_scored..first_scored + n_scored - 1] */
    struct sp_estimate loss;  /* -ln of a token's probability; perplexity is e^mean */
    struct sp_estimate right; /* 1 where the most likely token is the text's */
    /* Only with a reference: */
    struct sp_estimate reference_loss;
    struct sp_estimate loss_change; /* loss - reference_loss */
    struct sp_estimate divergence;  /* KL(reference || this), nats */
    double divergence_50, divergence_90, divergence_99, divergence_999; /* percentiles */
    double divergence_max;
    struct sp_estimate agreement;   /* 1 where both models have the same most likely token */
    struct sp_estimate prob_change; /* of the text's token */
    double prob_change_rms;
};
#define SP_EVALUATION_INIT SP_SIZED(struct sp_evaluation)

/* Evaluates a package on a text. Memory is bounded by the window, plus 8 bytes for each token.
 * SP_E_INPUT: a logit is not finite, or the reference has a different vocabulary. SP_E_CANCELLED:
 * the callback stopped. [package], also for the reference. */
SP_API_STATUS sp_package_evaluate(struct sp_package *package,
                                  const struct sp_evaluation_request *request,
                                  struct sp_evaluation *out, struct sp_err *err);

/* ---- calibration --------------------------------------------------------------------------- */

struct sp_calibration_text {
    const uint32_t *ids; /* [n] */
    size_t n;
};

/* Texts to calibrate with. They are read in windows of at most 1024 ids that do not overlap. If a
 * text begins with the tokens that the tokenizer puts before a text, every window does. */
struct sp_calibration_request {
    size_t size;
    const struct sp_calibration_text *texts; /* [n_texts] */
    size_t n_texts;
    const char *path; /* the file to write */
    bool force;       /* replace an existing packed file or calibration */
    void *context;
    int (*progress)(void *context, size_t done, size_t total); /* in tokens that are read, or
                                                                  generated; nonzero: stop */
    bool sensitivity; /* measure how much groups of matrices matter to the output as well; its four
                         windows of up to 128 ids are not in the statistics, unless the texts are
                         shorter than eight times these */
    int (*layer_progress)(void *context, size_t done, size_t total); /* of measuring, in layers
                                                                        run; nonzero: stop */
};
#define SP_CALIBRATION_REQUEST_INIT SP_SIZED(struct sp_calibration_request)

/* The extent of a calibration. */
struct sp_calibration {
    size_t size;
    size_t n_tokens;             /* read by the target, repeated beginnings of windows included */
    size_t n_inputs, n_matrices; /* inputs with statistics; matrices that read them */
    uint64_t n_bytes;            /* of statistics in the file */
    size_t n_groups;             /* groups of matrices whose sensitivity was measured */
};
#define SP_CALIBRATION_INIT SP_SIZED(struct sp_calibration)

/* Collects statistics of what the matrices of the target read, and those of the draft while it
 * drafts, which weigh the errors of quantizing them to q2 to q6 and tell how to smooth the target's
 * norms for q5 to q8, and writes them to a file. The file depends on the package and the ids alone.
 * It cannot replace the file of the package (SP_E_USAGE). SP_E_CANCELLED: the callback
 * stopped. Sensitivities that were measured until then stay in a file named `path`.sensitivity,
 * from which the same request continues, and which is removed at the end. [package] */
SP_API_STATUS sp_package_calibrate(struct sp_package *package,
                                   const struct sp_calibration_request *request,
                                   struct sp_calibration *out, struct sp_err *err);

/* Evaluation of a draft on a text: at places spread evenly over the ids, the session generates
 * greedily after at most SP_DRAFT_EVAL_PROMPT of them, with the same draft length in each round. */
enum { SP_DRAFT_EVAL_PROMPT = 512, SP_DRAFT_EVAL_LENGTH = 16 };

struct sp_draft_eval_request {
    size_t size;
    const uint32_t *ids; /* [n] */
    size_t n;
    size_t n_places;
    size_t n_predict; /* tokens to generate at each place; the last round may exceed it */
    int draft_len;    /* draft tokens of a round; SP_DRAFT_LENGTH_AUTO: as many as the draft
                         proposes, at most SP_DRAFT_EVAL_LENGTH */
    void *context;
    int (*progress)(void *context, size_t done, size_t total); /* in tokens; nonzero: stop */
};
#define SP_DRAFT_EVAL_REQUEST_INIT SP_SIZED(struct sp_draft_eval_request)

/* The acceptance of a draft on a text. The caller calls sp_draft_eval_release. */
struct sp_draft_eval {
    size_t size;
    size_t n_places, draft_len;
    size_t n_tokens;                           /* generated by rounds */
    size_t n_rounds;                           /* target passes that generated them */
    size_t drafted, accepted;                  /* draft tokens verified; of these, accepted */
    struct sp_position_count *draft_positions; /* [n_draft_positions] of the first, second, ...
                                                  draft token of a round; owned */
    size_t n_draft_positions;
    struct sp_estimate per_round; /* tokens that a round generates */
};
#define SP_DRAFT_EVAL_INIT SP_SIZED(struct sp_draft_eval)

/* Evaluates the draft model of a session (SP_E_USAGE: it has none). The numbers depend on the file,
 * the cache type and the request alone. On failure *out is empty. [session] */
SP_API_STATUS sp_session_eval_draft(struct sp_session *session,
                                    const struct sp_draft_eval_request *request,
                                    struct sp_draft_eval *out, struct sp_err *err);
/* Frees what it owns, and empties it. [one thread] */
SP_API void sp_draft_eval_release(struct sp_draft_eval *eval);

/* ---- simulation ----------------------------------------------------------------------------- */

/* For measurements of speed: each draft token is accepted with this probability, whatever the
 * target would have chosen. The text has no meaning. */
struct sp_simulation {
    double acceptance; /* 0..1 */
    uint64_t seed;
};

/* ---- ranks ---------------------------------------------------------------------------------- */

/* The messages so far of the processes that compute a package. */
struct sp_rank_info {
    size_t size;
    unsigned n_numa_nodes;   /* of this machine, that this process may use */
    uint64_t messages;       /* to each of the other ranks */
    uint64_t sent, received; /* bytes to and from all of them */
    double seconds;          /* spent on messages, and on waiting for answers */
    double product_seconds;  /* that, and on this process's part of products and attention */
};
#define SP_RANK_INFO_INIT SP_SIZED(struct sp_rank_info)
/* [any thread] */
SP_API void sp_package_describe_ranks(const struct sp_package *package, struct sp_rank_info *info);

/* Costs of the messages between the ranks of a package. */
struct sp_rank_link {
    size_t size;
    double round_trip; /* seconds of a message of 64 bytes to all other ranks and their answers */
    double bandwidth;  /* bytes per second, of large messages and answers */
};
#define SP_RANK_LINK_INIT SP_SIZED(struct sp_rank_link)
/* Measures them, in some milliseconds, while nothing generates. SP_E_USAGE: there is one rank.
 * SP_E_IO: a rank is lost. [package] */
SP_API_STATUS sp_package_measure_link(struct sp_package *package, struct sp_rank_link *link,
                                      struct sp_err *err);

#ifdef __cplusplus
}
#endif

#endif
