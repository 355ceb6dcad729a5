#include "runtime/remote/ranks.h"

#include "format/base/clock.h"
#include "format/base/mem.h"
#include "runtime/remote/remote_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void prefetch(struct sp_remote *remote, const uint8_t *weights, size_t size)
{
    sp_weight_pages_need(sp_ranks_of(remote)->pages, weights, size);
}

static const struct sp_remote_ops ops = {
    .multiply = sp_remote_multiply,
    .attend = sp_remote_attend,
    .row = sp_remote_row,
    .top = sp_remote_top,
    .prefetch = prefetch,
    .open_cache = sp_remote_cache_open,
    .change_cache = sp_remote_cache_change,
    .transfer_cache = sp_remote_cache_transfer,
};

enum sp_status sp_ranks_new(struct sp_ranks **out, const struct sp_ranks *with, struct sp_err *err)
{
    struct sp_ranks *ranks = NULL;
    enum sp_status st = sp_new(&ranks, 1, sizeof *ranks, err);

    if (st) return st;
    *ranks = *with;
    ranks->remote.ops = &ops;
    if ((st = sp_weight_pages_open(&ranks->pages, with->file.bytes, with->file.size, err))) {
        free(ranks);
        return st;
    }
    pthread_mutex_init(&ranks->lock, NULL);
    *out = ranks;
    return SP_OK;
}

void sp_ranks_close(struct sp_ranks *ranks)
{
    if (ranks == NULL) return;
    if (ranks->close)
        ranks->close(ranks);
    else if (ranks->transport)
        ranks->transport->ops->close(ranks->transport);
    sp_weight_pages_close(ranks->pages);
    pthread_mutex_destroy(&ranks->lock);
    free(ranks);
}

enum sp_status sp_ranks_check(const struct sp_ranks *ranks, struct sp_err *err)
{
    const char *lost = ranks->remote.lost;

    return lost ? sp_fail(err, SP_E_IO, "%s", lost) : SP_OK;
}

void sp_ranks_look(struct sp_ranks *ranks)
{
    struct sp_transport *transport = ranks->transport;

    if (pthread_mutex_trylock(&ranks->lock)) return;
    if (!ranks->remote.lost && transport->ops->look && !transport->ops->look(transport))
        sp_ranks_lose(ranks, "a rank is lost");
    pthread_mutex_unlock(&ranks->lock);
}

void sp_ranks_lose(struct sp_ranks *ranks, const char *why)
{
    char *text = ranks->transport->lost;

    if (ranks->remote.lost) return;
    if (*text == '\0') snprintf(text, sizeof ranks->transport->lost, "%s", why);
    ranks->remote.lost = text;
    if (ranks->on_lost) ranks->on_lost(ranks->context, text);
}

bool sp_ranks_send(struct sp_ranks *ranks, size_t size, size_t max_answer)
{
    struct sp_transport *transport = ranks->transport;

    if (!transport->ops->send(transport, size, max_answer)) return false;
    ranks->traffic.n_messages++;
    ranks->traffic.sent += size * (transport->n_ranks - 1);
    return true;
}

void *sp_ranks_receive(struct sp_ranks *ranks, unsigned rank, size_t size)
{
    void *answer = ranks->transport->ops->receive(ranks->transport, rank);

    if (answer) ranks->traffic.received += size;
    return answer;
}

enum sp_status sp_rank_statuses(struct sp_transport *transport, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (unsigned rank = 1; rank < transport->n_ranks; rank++) {
        const struct sp_remote_status *a = transport->ops->receive(transport, rank);
        if (a == NULL) return sp_fail(err, SP_E_IO, "%s", transport->lost);
        if (a->status == SP_OK || st) continue;
        st = sp_fail(err, (enum sp_status)a->status, "rank %u of %u: %s", rank, transport->n_ranks,
                     a->text);
    }
    return st;
}

static bool echo(struct sp_ranks *ranks, void *bytes, size_t size, double *seconds)
{
    struct sp_transport *transport = ranks->transport;
    uint32_t kind = SP_MESSAGE_ECHO;
    double start = sp_seconds();
    uint8_t *message;

    if (ranks->remote.lost ||
        !(message = transport->ops->buffer(transport, SP_REMOTE_ALIGNMENT + size)))
        return false;
    memcpy(message, &kind, sizeof kind);
    memcpy(message + SP_REMOTE_ALIGNMENT, bytes, size);
    if (!transport->ops->send(transport, SP_REMOTE_ALIGNMENT + size, size)) return false;
    for (unsigned rank = 1; rank < transport->n_ranks; rank++) {
        const void *answer = transport->ops->receive(transport, rank);
        if (answer == NULL) {
            sp_ranks_lose(ranks, "a rank is lost");
            return false;
        }
        memcpy(bytes, answer, size);
    }
    *seconds = sp_seconds() - start;
    return true;
}

bool sp_ranks_echo(struct sp_ranks *ranks, void *bytes, size_t size, double *seconds)
{
    bool done;

    pthread_mutex_lock(&ranks->lock);
    done = echo(ranks, bytes, size, seconds);
    pthread_mutex_unlock(&ranks->lock);
    return done;
}
