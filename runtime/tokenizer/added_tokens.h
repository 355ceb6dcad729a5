/* Finds added tokens in a text, before and after normalization. */
#ifndef SP_RUNTIME_TOKENIZER_ADDED_TOKENS_H
#define SP_RUNTIME_TOKENIZER_ADDED_TOKENS_H

#include "format/tokenizer/tokmap.h"

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

#endif
