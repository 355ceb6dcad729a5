/* What each token of a vocabulary spells, in the order in which a walk over all of them reads no
 * beginning twice: a tree by bytes, laid out so that a node's children follow it.
 *
 * Takes about 40 bytes a token: 6 MB for the 150 000 of Qwen, and a sixteenth of a second to make.
 */
#ifndef SP_RUNTIME_TOKENIZER_TOKEN_TRIE_H
#define SP_RUNTIME_TOKENIZER_TOKEN_TRIE_H

#include "runtime/tokenizer/tokenizer.h"

struct sp_trie_node {
    uint32_t token; /* one that ends here, or SP_TOKEN_NONE */
    uint32_t after; /* the node behind all that begin with this one */
    uint16_t depth; /* bytes before its own */
    uint8_t byte;
};

struct sp_token_trie {
    struct sp_trie_node *nodes; /* [n_nodes] owned, as everything here */
    size_t n_nodes;
    uint32_t *same; /* [n_ids] another token that spells the same, or SP_TOKEN_NONE */
    char *bytes;
    uint32_t *at; /* [n_ids + 1] token i spells bytes[at[i] .. at[i + 1]) */
    size_t n_ids;
    bool drops_space; /* a text loses the blank that its first token begins with */
};

/* Special tokens spell nothing: they are in no text. So do those of more than 65535 bytes. */
SP_MUST_CHECK enum sp_status sp_token_trie_open(struct sp_token_trie **out,
                                                const struct sp_tokenizer *tokenizer,
                                                struct sp_err *err);
void sp_token_trie_close(struct sp_token_trie *trie); /* NULL is fine */

/* Bytes of memory. */
size_t sp_token_trie_size(const struct sp_token_trie *trie);

#endif
