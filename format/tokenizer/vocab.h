/* tokenizer.json as checked data: tokens, merges, added tokens, and the chains of steps that stand
 * before and after the model.
 *
 * The components of the file are reduced to a few primitive steps while they are read, so that
 * nobody after this knows the file's spelling: a Metaspace pre-tokenizer is a replacement, a prefix
 * and a split. What is not supported is refused here, by name. sp_vocab_compile turns the data into
 * the form that is written to packed files and used in place (format/tokenizer/tokmap.h). */
#ifndef SP_FORMAT_TOKENIZER_VOCAB_H
#define SP_FORMAT_TOKENIZER_VOCAB_H

#include "format/base/err.h"
#include "format/json/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_ID_NONE UINT32_MAX

/* The numbers are written to packed files. */
enum sp_step_kind {
    SP_STEP_NFC = 1,
    SP_STEP_NFD = 2,
    SP_STEP_NFKC = 3,
    SP_STEP_NFKD = 4,
    SP_STEP_LOWERCASE = 5,
    SP_STEP_STRIP_ACCENTS = 6, /* combining marks are removed */
    SP_STEP_PREFIX = 7,        /* text, prepended to a part as `a` says */
    SP_STEP_REPLACE = 8,       /* every match of pattern by text */
    SP_STEP_SPLIT = 9,         /* at pattern; a: enum sp_split */
    SP_STEP_FIXED_LENGTH = 10, /* parts of `a` characters */
    SP_STEP_BYTE_LEVEL = 11,   /* spell bytes as printable characters, or in decoders the reverse */
    SP_STEP_METASPACE = 12,    /* decoder: text is a space; a: dropped in the first token */
    SP_STEP_BYTE_FALLBACK = 13, /* decoder: runs of <0xHH> are bytes */
    SP_STEP_FUSE = 14,          /* decoder: all tokens become one */
    SP_STEP_STRIP = 15,         /* decoder: text off both ends, at most a and b times */
    SP_STEP_JOIN = 16,          /* decoder: text between tokens */
    SP_STEP_CHARSMAP = 17,      /* pattern: base64 of a map (format/tokenizer/charsmap.c) */
    SP_STEP_LAST = SP_STEP_CHARSMAP,
};

enum sp_step_flags {
    SP_STEP_REGEX = 1,  /* pattern is a regular expression, else plain text */
    SP_STEP_INVERT = 2, /* what does not match is the match */
    SP_STEP_ALL_FLAGS = 3,
};

enum sp_split {
    SP_SPLIT_ISOLATED = 0,
    SP_SPLIT_REMOVED = 1,
    SP_SPLIT_MERGED_WITH_PREVIOUS = 2,
    SP_SPLIT_MERGED_WITH_NEXT = 3,
    SP_SPLIT_CONTIGUOUS = 4,
    SP_N_SPLITS = 5,
};

/* When SP_STEP_PREFIX applies. */
enum sp_prefix {
    SP_PREFIX_ALWAYS = 0,   /* any part that is not empty */
    SP_PREFIX_UNLESS = 1,   /* any part that does not begin with the text already */
    SP_PREFIX_AT_START = 2, /* only the part at the very start of the input */
    SP_N_PREFIXES = 3,
};

struct sp_step {
    enum sp_step_kind kind;
    unsigned flags;
    uint32_t a, b;
    const char *pattern, *text; /* not NUL-terminated; borrowed from the owner of the step */
    size_t pattern_len, text_len;
};

enum {
    SP_MAX_STEPS = 32,       /* of one chain */
    SP_MAX_STEP_TEXT = 1024, /* bytes of the text of a step */
};

/* One byte in packed files. */
enum sp_token_flags {
    SP_TOKEN_MODEL = 1,        /* an entry of the model's vocabulary */
    SP_TOKEN_ADDED = 2,        /* cut out of the text before the model sees it */
    SP_TOKEN_SPECIAL = 4,      /* left out of text when special tokens are skipped */
    SP_TOKEN_NORMALIZED = 8,   /* sought after normalization, in its normalized form */
    SP_TOKEN_LSTRIP = 16,      /* takes the white space before it along */
    SP_TOKEN_RSTRIP = 32,      /* after the text */
    SP_TOKEN_SINGLE_WORD = 64, /* not inside a word */
    SP_TOKEN_BYTES = 128, /* stored as the bytes that it spells (format/tokenizer/byte_level.h) */
};

struct sp_vocab_token {
    const char *text; /* NULL: no token has this id */
    uint32_t len;
    uint8_t flags;
};

struct sp_vocab_merge {
    uint32_t left, right, merged;
};

/* A chain, in the order in which it is applied. */
struct sp_steps {
    struct sp_step at[SP_MAX_STEPS];
    size_t n;
};

enum sp_vocab_model {
    SP_VOCAB_BPE,
    SP_VOCAB_WORDPIECE, /* has no merges */
    SP_VOCAB_UNIGRAM,   /* has no merges, but scores */
};

struct sp_vocab {
    struct sp_json *json, *config; /* owned; what texts are borrowed from */
    struct sp_vocab_token *tokens; /* [n_ids] */
    size_t n_ids;
    size_t n_model;  /* entries of the model's vocabulary */
    uint32_t *added; /* [n_added] ids of added tokens, in the file's order */
    size_t n_added;
    uint32_t *words; /* [n_words] open addressing, id + 1; see sp_vocab_find */
    size_t n_words;
    struct sp_vocab_merge *merges; /* [n_merges] by rank */
    size_t n_merges;
    double *scores; /* [n_ids] Unigram: log probability of each token of the model; else NULL */
    struct sp_steps normalizer, splitter, decoder;
    uint32_t *prefix, *suffix; /* what the post-processor puts around a text */
    size_t n_prefix, n_suffix;
    uint32_t unk, bos, eos;  /* or SP_ID_NONE */
    const char *missing_unk; /* text of the unknown token if the vocabulary has none */
    bool byte_fallback, fuse_unk, ignore_merges;
    bool has_template; /* the post-processor has one */
    enum sp_vocab_model model;
    char *warning; /* owned; NULL, or what a user should know about a file that was accepted */
};

/* json: tokenizer.json; config: tokenizer_config.json or none. Errors name the place as a JSON
 * path; the caller puts the file's name in front. */
SP_MUST_CHECK enum sp_status sp_vocab_open(struct sp_vocab **out, const struct sp_text *json,
                                           const struct sp_text *config, struct sp_err *err);
void sp_vocab_close(struct sp_vocab *vocab); /* NULL is fine */

/* The model's token with this text, or SP_ID_NONE. */
uint32_t sp_vocab_find(const struct sp_vocab *vocab, const char *text, size_t len);

#endif
