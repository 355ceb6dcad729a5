#include "cli/chat/loaded_model.h"

#include "format/base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct slot {
    struct sp_session *session; /* NULL: not open yet */
    uint64_t used_at;
    bool taken;
};

struct sp_session_pool {
    /* [n] open sessions first; owned with their sessions, except the first one */
    struct slot *slots;
    size_t n, n_used;
    uint64_t now; /* number of requests so far */
    pthread_mutex_t lock;
    pthread_cond_t given;
};

enum sp_status sp_session_pool_new(struct sp_session_pool **out, struct sp_session *first, size_t n,
                                   struct sp_err *err)
{
    struct sp_session_pool *s = NULL;
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) goto done;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->given, NULL);
    if ((st = sp_new(&s->slots, n, sizeof *s->slots, err))) goto done;
    s->slots[0].session = first;
    s->n = n;
    s->n_used = 1;
    *out = s;
    s = NULL;
done:
    sp_session_pool_free(s);
    return st;
}

bool sp_session_pool_is_taken(struct sp_session_pool *s, size_t number)
{
    bool taken;

    pthread_mutex_lock(&s->lock);
    taken = s->slots[number].taken;
    pthread_mutex_unlock(&s->lock);
    return taken;
}

void sp_session_pool_free(struct sp_session_pool *s)
{
    if (s == NULL) return;
    for (size_t i = 1; i < s->n_used; i++)
        sp_session_close(s->slots[i].session);
    pthread_cond_destroy(&s->given);
    pthread_mutex_destroy(&s->lock);
    free(s->slots);
    free(s);
}

/* Returns the cost of using a session: the tokens to process plus the cached tokens that are lost,
 * which count half as much after each request to other sessions. */
static size_t cost_of(const struct sp_session_pool *s, const struct slot *slot,
                      const struct sp_lora *lora, float scale, const uint32_t *prompt,
                      size_t n_prompt)
{
    bool fits = sp_session_has_lora(slot->session, lora, scale);
    size_t same = fits ? sp_session_match_prefix(slot->session, prompt, n_prompt) : 0;
    size_t lost = sp_session_n_cached(slot->session) - same;
    uint64_t age = s->now - slot->used_at;

    return n_prompt - same + (age < 32 ? lost >> age : 0);
}

/* Returns the best free slot; NULL: none is free. */
static struct slot *find(struct sp_session_pool *s, const struct sp_lora *lora, float scale,
                         const uint32_t *prompt, size_t n_prompt)
{
    struct slot *best = NULL;
    size_t least = SIZE_MAX;

    for (size_t i = 0; i < s->n_used; i++) {
        size_t cost;
        if (s->slots[i].taken) continue;
        cost = cost_of(s, &s->slots[i], lora, scale, prompt, n_prompt);
        if (best != NULL && cost >= least) continue;
        least = cost;
        best = &s->slots[i];
    }
    if (n_prompt < least && s->n_used < s->n &&
        sp_session_open_shared(&s->slots[s->n_used].session, s->slots[0].session, NULL) == SP_OK)
        best = &s->slots[s->n_used++];
    return best;
}

struct sp_session *sp_session_pool_take(struct sp_session_pool *s, const struct sp_lora *lora,
                                        float scale, const uint32_t *prompt, size_t n_prompt)
{
    struct slot *slot;
    enum sp_status st;

    pthread_mutex_lock(&s->lock);
    while ((slot = find(s, lora, scale, prompt, n_prompt)) == NULL)
        pthread_cond_wait(&s->given, &s->lock);
    slot->used_at = s->now++;
    slot->taken = true;
    st = sp_session_set_lora(slot->session, lora, scale, NULL);
    assert(st == SP_OK); /* adapters are opened before sessions, and the scale is finite */
    pthread_mutex_unlock(&s->lock);
    return slot->session;
}

void sp_session_pool_give(struct sp_session_pool *s, struct sp_session *session)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_used; i++)
        if (s->slots[i].session == session) s->slots[i].taken = false;
    pthread_cond_signal(&s->given);
    pthread_mutex_unlock(&s->lock);
}

bool sp_session_pool_clear_oldest(struct sp_session_pool *s)
{
    struct slot *oldest = NULL;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_used; i++) {
        struct slot *slot = &s->slots[i];
        if (slot->taken || sp_session_cache_memory(slot->session) == 0) continue;
        if (oldest == NULL || slot->used_at < oldest->used_at) oldest = slot;
    }
    if (oldest) sp_session_clear(oldest->session);
    pthread_mutex_unlock(&s->lock);
    return oldest != NULL;
}
