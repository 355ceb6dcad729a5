/* Encoding of one piece (pre-token) of text by the vocabulary's algorithm. Byte pair encoding
 * merges the adjacent pair of lowest rank, the leftmost of equals, until no merge applies;
 * WordPiece cuts off the longest token; Unigram is in runtime/tokenizer/unigram.h. */
#ifndef SP_RUNTIME_TOKENIZER_BPE_H
#define SP_RUNTIME_TOKENIZER_BPE_H

#include "format/tokenizer/tokmap.h"
#include "runtime/tokenizer/id_list.h"

/* The buffers of one encoding, and a cache of the ids of short pieces. */
struct sp_bpe;

/* text_size: length of the whole text, whose pieces follow; it determines the size of the cache. */
SP_MUST_CHECK enum sp_status sp_bpe_open(struct sp_bpe **out, const struct sp_tokmap *map,
                                         size_t text_size, struct sp_err *err);
void sp_bpe_close(struct sp_bpe *bpe); /* NULL is fine */

/* Appends the ids of a non-empty piece. */
SP_MUST_CHECK enum sp_status sp_bpe_encode(struct sp_bpe *bpe, const char *piece, size_t len,
                                           struct sp_id_list *ids, struct sp_err *err);

#endif
