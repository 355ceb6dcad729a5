/* The figures of `spectool eval`: one or two packed files on one or several texts. */
#ifndef SP_CLI_EVAL_EVAL_H
#define SP_CLI_EVAL_EVAL_H

#include "format/base/hash.h"
#include "runtime/spectool_measure.h"

/* The means over positions that have intervals. */
enum sp_eval_figure {
    SP_EVAL_LOSS,
    SP_EVAL_RIGHT,
    SP_EVAL_REFERENCE_LOSS,
    SP_EVAL_LOSS_CHANGE,
    SP_EVAL_DIVERGENCE,
    SP_EVAL_AGREEMENT,
    SP_EVAL_PROB_CHANGE,
    SP_EVAL_FIGURES
};

struct sp_eval_text {
    const char *name;             /* of its file, without folders; borrowed */
    char digest[SP_HASH128_TEXT]; /* of its bytes; of ids, as 4 bytes each */
    uint32_t *ids;                /* [n_ids] owned */
    size_t n_ids;
};

/* The means of a block of positions. */
struct sp_eval_block {
    double means[SP_EVAL_FIGURES];
};

/* A file on a text. */
struct sp_eval_result {
    struct sp_evaluation text;
    struct sp_eval_block *blocks; /* [n_blocks] owned */
    size_t n_blocks, cap_blocks;
    size_t n_bytes; /* bytes of text of the scored tokens; 0: unknown, without a tokenizer */
    struct sp_draft_eval trial; /* owned */
};

struct sp_eval_file {
    const char *name;               /* what the user calls the file; borrowed */
    struct sp_eval_result *results; /* [n_texts] owned */
    const char *draft;              /* kind of the draft; NULL: it was not tried */
};

enum { SP_EVAL_FILES = 2 };

struct sp_eval {
    struct sp_eval_file files[SP_EVAL_FILES];
    size_t n_files;
    struct sp_eval_text *texts; /* [n_texts] owned */
    size_t n_texts;
    const char *reference; /* name of the file; NULL: none */
    const char *kv_type;
};

SP_MUST_CHECK enum sp_status sp_eval_print(const struct sp_eval *eval, struct sp_err *err);
/* Prints an object for each file and, for two files, one for their difference, a line each. */
void sp_eval_print_json(const struct sp_eval *eval);

/* ---- means over texts and their confidence intervals ---- */

/* A mean, its standard error, and half of its 95 % confidence interval. `error` and `half` are NaN
 * if a text has fewer than two blocks. */
struct sp_eval_estimate {
    double mean, error, half;
};

/* A figure over texts first..first+n-1 of a file. */
struct sp_eval_estimate sp_eval_mean(const struct sp_eval_file *file, enum sp_eval_figure figure,
                                     size_t first, size_t n);
/* A figure of file `a` minus the same figure of file `b`. */
struct sp_eval_estimate sp_eval_difference(const struct sp_eval_file *a,
                                           const struct sp_eval_file *b, enum sp_eval_figure figure,
                                           size_t first, size_t n);
/* The tokens that a round of the draft generates; rounds count as independent of each other. */
struct sp_eval_estimate sp_eval_per_round(const struct sp_eval_file *file, size_t first, size_t n);

/* e^x: the perplexity of a mean loss. The error is to first order. */
struct sp_eval_estimate sp_eval_exp(struct sp_eval_estimate x);

/* Counts over texts first..first+n-1. */
struct sp_eval_counts {
    size_t n_tokens, n_scored, n_bytes, n_windows;
    size_t n_rounds, n_generated, drafted, accepted, n_places; /* of the draft */
    double rms;                                                /* of the change of probability */
};
struct sp_eval_counts sp_eval_count(const struct sp_eval *eval, const struct sp_eval_file *file,
                                    size_t first, size_t n);

/* The factor of a standard error with so many degrees of freedom, at least 1, that gives half of
 * the 95 % interval: Student's quantile 0.975. */
double sp_eval_quantile(double freedom);

#endif
