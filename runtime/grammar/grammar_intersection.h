/* JSON strings that match several regular expressions and have a bounded length. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_INTERSECTION_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_INTERSECTION_H

#include "runtime/grammar/grammar.h"

struct sp_text_pattern {
    const char *text; /* [len] borrowed */
    size_t len;
    const char *path; /* of its schema, for messages; borrowed */
};

/* A string in quotation marks of min to max characters (SP_NO_LIMIT: any number) that matches all n
 * patterns, followed by `next`. SP_E_UNSUPPORTED is recorded where that takes too many states. */
uint32_t sp_grammar_intersection(struct sp_grammar *g, const struct sp_text_pattern *patterns,
                                 size_t n, uint32_t min, uint32_t max, uint32_t next);

#endif
