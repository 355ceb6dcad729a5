#include "runtime/backend/logits.h"

/* Adds a logit behind those that are not smaller, in a full list for the last; the new number. */
static size_t add(struct sp_top_logit *top, size_t n_top, size_t room, struct sp_top_logit added)
{
    size_t at = n_top;

    if (n_top == room && (room == 0 || !(added.logit > top[room - 1].logit))) return n_top;
    if (n_top == room) at--;
    n_top = at + 1;
    for (; at > 0 && added.logit > top[at - 1].logit; at--)
        top[at] = top[at - 1];
    top[at] = added;
    return n_top;
}

size_t sp_top_logits_add(struct sp_top_logit *top, size_t n_top, size_t room, const float *part,
                         size_t n, size_t first)
{
    for (size_t i = 0; i < n; i++)
        n_top = add(top, n_top, room, (struct sp_top_logit){(uint32_t)(first + i), part[i]});
    return n_top;
}

size_t sp_top_logits_merge(struct sp_top_logit *top, size_t n_top, size_t room,
                           const struct sp_top_logit *part, size_t n, size_t first)
{
    for (size_t i = 0; i < n; i++) {
        struct sp_top_logit l = {(uint32_t)(first + part[i].index), part[i].logit};
        n_top = add(top, n_top, room, l);
    }
    return n_top;
}
