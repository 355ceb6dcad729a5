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
    char *path;                     /* of the packed file; owned */
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

#endif
