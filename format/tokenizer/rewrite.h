/* One step that turns a text into another: normal forms, replacements, prefixes, byte alphabet.
 * Normalizers are chains of these, and pre-tokenizers hold some. */
#ifndef SP_FORMAT_TOKENIZER_REWRITE_H
#define SP_FORMAT_TOKENIZER_REWRITE_H

#include "format/tokenizer/charsmap.h"
#include "format/tokenizer/regex.h"
#include "format/base/strbuf.h"
#include "format/tokenizer/vocab.h"

/* A compiled step; its texts stay with the owner of the step. Valid when zeroed. */
struct sp_rewrite {
    struct sp_step step;
    struct sp_regex *regex;       /* owned; of replacements and splits, else NULL */
    struct sp_charsmap *charsmap; /* owned; of SP_STEP_CHARSMAP, else NULL */
};

/* Compiles a step. One that splits text (SP_STEP_SPLIT) is compiled, too, for its caller. */
SP_MUST_CHECK enum sp_status sp_rewrite_init(struct sp_rewrite *rewrite, const struct sp_step *step,
                                             struct sp_err *err);
void sp_rewrite_release(struct sp_rewrite *rewrite);

/* False for kinds that do not rewrite text: splits, and steps that only decoders have. */
bool sp_rewrite_applies(const struct sp_rewrite *rewrite);

/* The most bytes that the rewriting of one input may write, over all steps and parts. A chain from
 * a stranger that multiplies its input stops there; real ones write a few times what they read. */
size_t sp_rewrite_budget(size_t input_size);

/* Appends what becomes of `text` to *out and takes its length off *budget. *changed false: it stays
 * as it is and nothing was appended. text: valid UTF-8, not empty; at_start: it is the beginning of
 * the input. SP_E_INPUT when the budget is spent. */
SP_MUST_CHECK enum sp_status sp_rewrite_apply(const struct sp_rewrite *rewrite,
                                              struct sp_regex_matcher *matcher, size_t *budget,
                                              bool at_start, const char *text, size_t len,
                                              struct sp_strbuf *out, bool *changed,
                                              struct sp_err *err);

/* A chain applied to one text. Valid when zeroed; results live in it until the next use. */
struct sp_rewritten {
    struct sp_strbuf buffers[2];
};
SP_MUST_CHECK enum sp_status sp_rewrite_all(const struct sp_rewrite *chain, size_t n,
                                            struct sp_regex_matcher *matcher, size_t *budget,
                                            struct sp_rewritten *space, bool at_start,
                                            const char **text, size_t *len, struct sp_err *err);
void sp_rewritten_release(struct sp_rewritten *space);

#endif
