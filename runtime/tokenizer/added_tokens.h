/* Finding added tokens in a text, before and after normalization. */
#ifndef SP_RUNTIME_TOKENIZER_ADDED_TOKENS_H
#define SP_RUNTIME_TOKENIZER_ADDED_TOKENS_H

#include "format/tokenizer/tokmap.h"

/* One search tree, made ready: where the root's edges lead. */
struct sp_added {
    const struct sp_tokmap *map; /* borrowed */
    const struct sp_tokmap_tree *tree;
    uint32_t first[256]; /* node, 0: no added token begins with this byte */
};

void sp_added_init(struct sp_added *added, const struct sp_tokmap *map,
                   const struct sp_tokmap_tree *tree);

/* A walk over a text: spans of plain text and added tokens in turn. */
struct sp_added_walk {
    const struct sp_added *added;
    const char *text; /* valid UTF-8 */
    size_t len;
    bool parse_special;            /* else special tokens are plain text */
    size_t pos;                    /* where the search goes on; zero at first, as what follows */
    size_t taken;                  /* text before this has been handed out */
    size_t space_begin, space_end; /* the run of white space looked through last */
    uint32_t waiting;              /* id + 1 found behind the plain span just handed out */
    size_t waiting_end;
};

/* The next span: *id is SP_ID_NONE for plain text. False at the end. */
bool sp_added_next(struct sp_added_walk *walk, size_t *begin, size_t *end, uint32_t *id);

#endif
