/* A compiled tokenizer: one flat block of little-endian numbers, written once by sp_vocab_compile
 * and used where it is mapped. Opening it is a handful of range checks, whatever the vocabulary's
 * size: hash tables and search trees lie there ready.
 *
 *   0   8  "SPTOKMAP"
 *   8   4  version, SP_TOKMAP_VERSION
 *  12   4  number of areas, SP_N_TOKMAP_AREAS
 *  16   8  bytes of the whole
 *  24      areas: offset (8), bytes (8) each; in order, at multiples of 8, zeros between them
 *
 *   area       content
 *   numbers    u32 each: enum sp_tokmap_number
 *   offsets    u32[n_ids + 1]: where each token's bytes begin; equal to the next: no token
 *   flags      u8[n_ids]: enum sp_token_flags
 *   bytes      of all tokens
 *   words      {u32 id + 1, u32 hash}: open addressing by the bytes of the model's tokens
 *   merges     {u32 left, u32 right, u32 rank + 1}: open addressing by the pair
 *   merged     u32[n_merges]: id that the merge of this rank makes; Unigram: f64[n_ids + 1], the
 *              scores of all ids, and last that of a character that is not in the vocabulary
 *   byte_ids   u32[256]: ids of single bytes: the alphabet's, or else those spelled <0xHH>
 *   pairs      u8[8192]: bit (first << 8 | second): some merge joins these two bytes
 *   raw, normal  trees of added tokens as sought before and after normalization:
 *              u32[n_nodes + 1] first edge of a node, u32[n_nodes] id + 1, u8[n_nodes - 1] bytes of
 *              the edges; edge e leads to node e + 1, edges of a node ascend
 *   steps      32 bytes each: kind, flags, a, b, text offset, text bytes, pattern offset, pattern
 *              bytes; normalizer, then splitter, then decoder
 *   strings    texts and patterns of the steps
 *   template   u32 ids: what goes before a text, then what goes after it
 *
 * Nothing in the block is trusted: what open does not check is checked at each use, so that a
 * damaged block gives wrong ids at worst. */
#ifndef SP_FORMAT_TOKENIZER_TOKMAP_H
#define SP_FORMAT_TOKENIZER_TOKMAP_H

#include "format/base/bytes.h"
#include "format/tokenizer/vocab.h"
#include "format/tokenizer/word_hash.h"

enum {
    SP_TOKMAP_VERSION = 1,
    SP_TOKMAP_HEADER = 24,
    SP_TOKMAP_STEP = 32,
    SP_TREE_MAX_DEPTH = 1024, /* bytes of the longest added token that is found */
};

enum sp_tokmap_number {
    SP_TOKMAP_N_IDS,
    SP_TOKMAP_FLAGS, /* enum sp_tokmap_flags */
    /* Ids; SP_ID_NONE: there is no such token. */
    SP_TOKMAP_UNK,
    SP_TOKMAP_BOS,
    SP_TOKMAP_EOS,
    SP_TOKMAP_WORD_PROBES,                      /* longest chain in words */
    SP_TOKMAP_MERGE_PROBES,                     /* longest chain in merges */
    SP_TOKMAP_LONGEST = SP_TOKMAP_MERGE_PROBES, /* Unigram: bytes of the longest token */
    SP_TOKMAP_N_NORMALIZER,                     /* steps */
    SP_TOKMAP_N_SPLITTER,
    SP_TOKMAP_N_DECODER,
    SP_TOKMAP_N_PREFIX, /* ids */
    SP_TOKMAP_N_SUFFIX,
    SP_N_TOKMAP_NUMBERS,
};

/* What WordPiece puts before a token inside a word, and the most characters of a word. */
#define SP_WORDPIECE_PREFIX "##"
enum { SP_WORDPIECE_MAX = 100 };

/* The most bytes of a token of a Unigram model. */
enum { SP_UNIGRAM_MAX = 256 };

enum sp_tokmap_flags {
    SP_TOKMAP_BYTE_FALLBACK = 1,
    SP_TOKMAP_FUSE_UNK = 2,
    SP_TOKMAP_IGNORE_MERGES = 4,
    /* The splitter ends in the byte alphabet: the model works on bytes, that step is left out, and
     * tokens spelled in the alphabet are stored as bytes (SP_TOKEN_BYTES). */
    SP_TOKMAP_BYTES = 8,
    /* Every character of any text has tokens, so a text may be divided wherever `pairs` shows that
     * no merge crosses. */
    SP_TOKMAP_CUT = 16,
    /* The model is WordPiece: a piece is cut into the longest tokens from its start, of which those
     * after the first begin with SP_WORDPIECE_PREFIX; it is the unknown token if that fails. */
    SP_TOKMAP_WORDPIECE = 32,
    /* The model is Unigram: a piece is cut into the tokens whose scores have the largest sum. */
    SP_TOKMAP_UNIGRAM = 64,
    SP_TOKMAP_ALL_FLAGS = 127,
};

enum sp_tokmap_area {
    SP_AREA_NUMBERS,
    SP_AREA_OFFSETS,
    SP_AREA_FLAGS,
    SP_AREA_BYTES,
    SP_AREA_WORDS,
    SP_AREA_MERGES,
    SP_AREA_MERGED,
    SP_AREA_BYTE_IDS,
    SP_AREA_PAIRS,
    SP_AREA_RAW,
    SP_AREA_NORMAL,
    SP_AREA_STEPS,
    SP_AREA_STRINGS,
    SP_AREA_TEMPLATE,
    SP_N_TOKMAP_AREAS,
};

struct sp_tokmap_tree {
    size_t n_nodes; /* 0: empty */
    const uint8_t *first, *ids, *edges;
};

/* A view: every pointer is borrowed from the block. */
struct sp_tokmap {
    uint32_t numbers[SP_N_TOKMAP_NUMBERS];
    uint32_t n_ids, flags;
    const uint8_t *offsets, *token_flags, *bytes;
    size_t n_bytes;
    const uint8_t *words, *merges, *merged, *byte_ids, *pairs, *template;
    const uint8_t *scores;             /* of a Unigram model, else NULL */
    size_t n_words, n_slots, n_merges; /* slots of words and merges, and merges */
    struct sp_tokmap_tree raw, normal;
    struct sp_steps normalizer, splitter, decoder;
};

/* SP_E_INPUT names the area that is damaged. */
SP_MUST_CHECK enum sp_status sp_tokmap_open(struct sp_tokmap *map, const void *blob, size_t size,
                                            struct sp_err *err);

extern const uint8_t sp_tokmap_magic[8];

/* False where the id names no token. *bytes borrowed. */
static inline bool sp_tokmap_token(const struct sp_tokmap *map, uint32_t id, const char **bytes,
                                   size_t *len)
{
    if (id >= map->n_ids) return false;
    uint32_t begin = sp_get32(map->offsets + 4 * (size_t)id);
    uint32_t end = sp_get32(map->offsets + 4 * (size_t)id + 4);
    if (begin >= end || end > map->n_bytes) return false;
    *bytes = (const char *)map->bytes + begin;
    *len = end - begin;
    return true;
}

/* The model's token with these bytes (SP_TOKMAP_BYTES: stored as bytes), or SP_ID_NONE. */
uint32_t sp_tokmap_find(const struct sp_tokmap *map, const char *bytes, size_t len, uint64_t hash);

/* The rank of a merge, or SP_ID_NONE. */
static inline uint32_t sp_tokmap_rank(const struct sp_tokmap *map, uint32_t left, uint32_t right)
{
    size_t slot = sp_hash_slot(sp_merge_hash(left, right), map->n_slots);

    for (uint32_t i = 0; i <= map->numbers[SP_TOKMAP_MERGE_PROBES]; i++) {
        const uint8_t *p = map->merges + 12 * slot;
        uint32_t rank = sp_get32(p + 8);
        if (rank == 0) break;
        if (sp_get32(p) == left && sp_get32(p + 4) == right)
            return rank <= map->n_merges ? rank - 1 : SP_ID_NONE;
        if (++slot == map->n_slots) slot = 0;
    }
    return SP_ID_NONE;
}

/* True if a merge may join two tokens of which one ends in `first` and the next begins with
 * `second`. */
static inline bool sp_tokmap_joins(const struct sp_tokmap *map, uint8_t first, uint8_t second)
{
    unsigned bit = (unsigned)first << 8 | second;

    return map->pairs[bit >> 3] >> (bit & 7) & 1;
}

#endif
