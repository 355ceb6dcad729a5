/* Fill-in-the-middle: the prompt for the text between a prefix and a suffix, by the tokens that the
 * model's tokenizer has for it. They are found by their names, as in llama.cpp. */
#ifndef SP_CLI_CHAT_INFILL_H
#define SP_CLI_CHAT_INFILL_H

#include "cli/base/ids.h"
#include "runtime/spectool.h"

/* Absent tokens are SP_INFILL_NONE. */
#define SP_INFILL_NONE UINT32_MAX
enum { SP_INFILL_MAX_ENDS = 12 };

struct sp_infill_tokens {
    bool found;                        /* the model fills gaps; else nothing else is set */
    uint32_t prefix, suffix;           /* written before the prefix and before the suffix */
    uint32_t middle;                   /* before the text to generate */
    bool suffix_first;                 /* the suffix precedes the prefix: Codestral */
    uint32_t repository, file;         /* before the names of a repository and of a file */
    uint32_t ends[SP_INFILL_MAX_ENDS]; /* [n_ends] tokens that end the text */
    size_t n_ends;
};

/* Finds the tokens of a tokenizer. */
SP_MUST_CHECK enum sp_status sp_infill_find(struct sp_infill_tokens *out,
                                            const struct sp_tokenizer *tok, struct sp_err *err);

struct sp_infill_text {
    const char *at; /* [size]; NULL if size is 0 */
    size_t size;
};

/* A file, or a part of one, that the model may draw on. */
struct sp_infill_extra {
    struct sp_infill_text name, text;
};

/* A gap to fill. All texts are borrowed. A text that spells a special token stays text. */
struct sp_infill_gap {
    struct sp_infill_text prefix, suffix;
    struct sp_infill_text begun;         /* text with which the answer has begun */
    const struct sp_infill_extra *extra; /* [n_extra] the nearest one last */
    size_t n_extra;
    size_t n_most; /* tokens of the prompt; longer ones lose extras, then the ends that are far from
                      the gap, of the suffix a quarter of the tokens at most; 0: no limit */
};

/* Makes the prompt: [repository and extras] prefix-token prefix suffix-token suffix middle-token.
 * *ids is owned by the caller. SP_E_INPUT: a text is not valid UTF-8. */
SP_MUST_CHECK enum sp_status sp_infill_prompt(struct sp_ids *ids,
                                              const struct sp_infill_tokens *tokens,
                                              const struct sp_tokenizer *tok,
                                              const struct sp_infill_gap *gap, struct sp_err *err);

#endif
