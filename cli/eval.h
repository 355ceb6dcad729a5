/* What `spectool eval` found out, and how it is shown. */
#ifndef SP_CLI_EVAL_H
#define SP_CLI_EVAL_H

#include "runtime/spectool.h"

struct sp_eval {
    const char *name, *reference; /* the files; reference NULL: none */
    const char *kv_type;
    size_t n_tokens;
    size_t n_bytes; /* that the scored tokens stand for; 0: no tokenizer tells */
    struct sp_evaluation text;
    const char *draft; /* its kind; NULL: not tried */
    struct sp_draft_eval trial;
};

#endif
