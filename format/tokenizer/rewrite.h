/* One step that turns a text into another: normal forms, replacements, prefixes, byte alphabet.
 * Normalizers are chains of these, and pre-tokenizers hold some. */
#ifndef SP_FORMAT_TOKENIZER_REWRITE_H
#define SP_FORMAT_TOKENIZER_REWRITE_H

#include "format/base/err.h"
#include "format/base/strbuf.h"
#include "format/tokenizer/regex.h"
#include "format/tokenizer/vocab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Unicode normalization forms. Together with unicode.c the only user of utf8proc, of which it takes
 * the tables: the library's own reordering of marks is quadratic in the length of a run. */

enum sp_normal_form { SP_NFC, SP_NFD, SP_NFKC, SP_NFKD };

/* Appends the normal form of `text` (valid UTF-8) to *out. *changed false: it is text itself, and
 * nothing was appended. */
SP_MUST_CHECK enum sp_status sp_normalize(struct sp_strbuf *out, bool *changed,
                                          enum sp_normal_form form, const char *text, size_t len,
                                          struct sp_err *err);

/* Returns true if normalization can change this character in Unicode 9, the version that models
 * were trained with; combining marks of later versions do not count as such. */
bool sp_normal_knows(uint32_t c);

/* Appends text in lower case, character by character, as Rust's char::to_lowercase. */
SP_MUST_CHECK enum sp_status sp_lowercase(struct sp_strbuf *out, const char *text, size_t len,
                                          struct sp_err *err);

/* The character map of SentencePiece's normalizers (the component Precompiled of tokenizer.json):
 * replacements of short byte sequences, found by a double-array trie.
 *
 * The map is base64 of a little-endian u32, the trie's size in bytes; the trie's units, u32 each;
 * and the replacements, each of which ends in a zero byte. Layout of the units: Darts-clone, which
 * SentencePiece uses. */

/* Decodes whole groups of four digits, of which the last may end in one or two '='. `out` has room
 * for len / 4 * 3 bytes. False: other characters. */
bool sp_base64_decode(uint8_t *out, size_t *out_len, const char *text, size_t len);

struct sp_charsmap; /* immutable: any number of threads may use it */

/* SP_E_INPUT if the text is not base64 or the sizes are wrong. */
SP_MUST_CHECK enum sp_status sp_charsmap_open(struct sp_charsmap **out, const char *base64,
                                              size_t len, struct sp_err *err);
void sp_charsmap_close(struct sp_charsmap *map); /* NULL is fine */

/* The replacement of the shortest key that text[0..len-1] begins with; *replacement is borrowed
 * from the map. Returns false if there is none. */
bool sp_charsmap_find(const struct sp_charsmap *map, const char *text, size_t len,
                      const char **replacement, size_t *replacement_len);

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
