/* A growing list of token ids. */
#ifndef SP_RUNTIME_TOKENIZER_ID_LIST_H
#define SP_RUNTIME_TOKENIZER_ID_LIST_H

#include "format/base/mem.h"

#include <stdint.h>

/* Valid when zeroed. */
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

#endif
