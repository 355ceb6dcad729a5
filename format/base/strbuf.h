/* A growing text. Valid when zeroed; `at` is owned and freed by sp_strbuf_release. */
#ifndef SP_FORMAT_BASE_STRBUF_H
#define SP_FORMAT_BASE_STRBUF_H

#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct sp_strbuf {
    char *at;
    size_t len, cap;
};

/* Reserves `more` bytes after the text. */
SP_MUST_CHECK static inline enum sp_status sp_strbuf_reserve(struct sp_strbuf *t, size_t more,
                                                             struct sp_err *err)
{
    size_t want;

    if (t->cap - t->len >= more && t->at != NULL) return SP_OK;
    if (!sp_add(&want, t->len, more)) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: a text of %zu bytes could not grow by %zu",
                       t->len, more);
    }
    return sp_grow(&t->at, &t->cap, want ? want : 1, 1, err);
}

SP_MUST_CHECK static inline enum sp_status sp_strbuf_append(struct sp_strbuf *t, const char *text,
                                                            size_t len, struct sp_err *err)
{
    enum sp_status st = sp_strbuf_reserve(t, len, err);

    if (st) return st;
    if (len) memcpy(t->at + t->len, text, len);
    t->len += len;
    return SP_OK;
}

static inline void sp_strbuf_release(struct sp_strbuf *t)
{
    free(t->at);
    memset(t, 0, sizeof *t);
}

#endif
