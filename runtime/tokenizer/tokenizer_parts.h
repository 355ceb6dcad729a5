/* The struct of a tokenizer, private to runtime/tokenizer. */
#ifndef SP_RUNTIME_TOKENIZER_TOKENIZER_PARTS_H
#define SP_RUNTIME_TOKENIZER_TOKENIZER_PARTS_H

#include "format/tokenizer/rewrite.h"
#include "format/tokenizer/tokmap.h"
#include "runtime/tokenizer/tokenizer.h"

#include <pthread.h>

/* A growing list of token ids. Valid when zeroed. */
struct sp_id_list {
    uint32_t *at; /* owned */
    size_t n, cap;
};

SP_MUST_CHECK static inline enum sp_status sp_id_list_append(struct sp_id_list *ids, uint32_t id,
                                                             struct sp_err *err)
{
    enum sp_status st;

    if (ids->n == ids->cap && (st = sp_grow(&ids->at, &ids->cap, ids->n + 1, sizeof id, err)))
        return st;
    ids->at[ids->n++] = id;
    return SP_OK;
}

/* The token with these bytes, or SP_ID_NONE. */
static inline uint32_t sp_token_find(const struct sp_tokmap *map, const char *text, size_t len)
{
    return sp_tokmap_find(map, text, len, sp_word_hash(text, len));
}

/* The byte that a token such as "<0xE2>" stands for in a decoder with byte fallback; -1: none. Like
 * the number parser of the reference implementation it accepts "+H". */
int sp_fallback_byte(const char *token, size_t len);

/* Finds added tokens in a text, before and after normalization. */

/* A search tree with an index of the root's children. */
struct sp_added {
    const struct sp_tokmap *map; /* borrowed */
    const struct sp_tokmap_tree *tree;
    uint32_t first[256]; /* child of the root; 0: no added token begins with this byte */
};

void sp_added_init(struct sp_added *added, const struct sp_tokmap *map,
                   const struct sp_tokmap_tree *tree);

/* A walk over a text, which returns spans of plain text and added tokens alternately. */
struct sp_added_walk {
    const struct sp_added *added;
    const char *text; /* valid UTF-8 */
    size_t len;
    bool parse_special; /* false: special tokens are plain text */
    size_t pos;         /* where the search continues; zero at first, like all members below */
    size_t returned;    /* end of the text that has been returned */
    size_t space_begin, space_end; /* the last run of whitespace that was scanned */
    uint32_t next_id; /* id + 1 of the token after the plain span just returned; 0: none */
    size_t waiting_end;
};

/* Returns the next span; *id is SP_ID_NONE for plain text. False at the end. */
bool sp_added_next(struct sp_added_walk *walk, size_t *begin, size_t *end, uint32_t *id);

/* Encoding of one piece (pre-token) of text by the vocabulary's algorithm. Byte pair encoding
 * merges the adjacent pair of lowest rank, the leftmost of equals, until no merge applies;
 * WordPiece cuts off the longest token; Unigram is in runtime/tokenizer/unigram.c. */

/* The Unigram model of SentencePiece: of all ways to cut a piece into tokens, the one whose scores
 * (log probabilities) have the largest sum.
 *
 * Source: T. Kudo, "Subword Regularization", 2018, section 3.2; found by the Viterbi algorithm, in
 * time proportional to the piece and to the longest token. */

/* The buffer of one encoding, which later pieces use again. Valid when zeroed. */
struct sp_unigram {
    struct sp_unigram_node *nodes; /* owned */
    size_t cap;
};

void sp_unigram_release(struct sp_unigram *unigram);

/* Appends the ids of a piece of valid UTF-8. Adjacent characters that are not in the vocabulary
 * become one unknown token, or the tokens of their bytes if all of these exist. */
SP_MUST_CHECK enum sp_status sp_unigram_encode(struct sp_unigram *unigram,
                                               const struct sp_tokmap *map, const char *piece,
                                               size_t len, struct sp_id_list *ids,
                                               struct sp_err *err);

/* The buffers of one encoding, and a cache of the ids of short pieces. */
struct sp_bpe;

/* text_size: length of the whole text, whose pieces follow; it determines the size of the cache. */
SP_MUST_CHECK enum sp_status sp_bpe_open(struct sp_bpe **out, const struct sp_tokmap *map,
                                         size_t text_size, struct sp_err *err);
void sp_bpe_close(struct sp_bpe *bpe); /* NULL is fine */

/* Appends the ids of a non-empty piece. */
SP_MUST_CHECK enum sp_status sp_bpe_encode(struct sp_bpe *bpe, const char *piece, size_t len,
                                           struct sp_id_list *ids, struct sp_err *err);

/* Pre-tokenization: cuts a normalized text into the pieces that the model encodes separately, and
 * has them encoded in order. */

struct sp_pretoken {
    const struct sp_rewrite *steps; /* [n], borrowed */
    size_t n;
    struct sp_regex_matcher *matcher;      /* borrowed */
    size_t *budget;                        /* remaining work of rewriting steps; borrowed */
    struct sp_strbuf spaces[SP_MAX_STEPS]; /* [i] output of step i; owned, zero at first */
    struct sp_bpe *bpe;                    /* encodes the pieces; borrowed */
    struct sp_id_list *ids;                /* of the pieces; borrowed */
};

/* Applies all steps to `text`; at_start: it is at the very start of the input. */
SP_MUST_CHECK enum sp_status sp_pretoken_run(struct sp_pretoken *p, const char *text, size_t len,
                                             bool at_start, struct sp_err *err);
void sp_pretoken_release(struct sp_pretoken *p); /* releases the outputs of the steps */

/* A sequence of opened steps. Valid when zeroed. */
struct sp_chain {
    struct sp_rewrite at[SP_MAX_STEPS];
    size_t n;
};

struct sp_tokenizer {
    struct sp_tokmap map; /* views into the block, which is borrowed */
    struct sp_chain normalizer, splitter, decoder;
    struct sp_added raw, normal;
    pthread_mutex_t *lock;    /* held while a long text is encoded; owned */
    size_t max_token_bytes;   /* most bytes of a text that become one token; 0: not known */
    struct sp_pack *own_pack; /* packed file that contains the block, owned; NULL: the caller's */
    uint8_t *own_blob;        /* block compiled from a tokenizer.json, owned; NULL: none */
};

#endif
