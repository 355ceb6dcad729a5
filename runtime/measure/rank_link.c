/* Measures the messages between ranks: small ones give the latency, large ones the bandwidth. */
#include "runtime/session/session.h"

#include "format/base/median.h"
#include "format/base/mem.h"
#include "runtime/spectool_measure.h"

#include <stdlib.h>

enum { SMALL = 64, LARGE = 1 << 20, SMALL_REPEATS = 201, LARGE_REPEATS = 11 };

/* The median time of n echoes. */
static enum sp_status time_echo(struct sp_ranks *ranks, void *bytes, size_t size, size_t n,
                                double *seconds, struct sp_err *err)
{
    double samples[SMALL_REPEATS];

    for (size_t i = 0; i < n; i++) {
        if (sp_ranks_echo(ranks, bytes, size, &samples[i])) continue;
        if (!ranks->remote.lost)
            return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes of a message", size);
        return sp_fail(err, SP_E_IO, "%s", ranks->transport->lost);
    }
    *seconds = sp_median(samples, n);
    return SP_OK;
}

enum sp_status sp_package_measure_link(struct sp_package *package, struct sp_rank_link *link,
                                       struct sp_err *err)
{
    struct sp_ranks *ranks = package->ranks;
    struct sp_rank_link all = SP_RANK_LINK_INIT;
    uint8_t *bytes = NULL;
    double large = 0;
    enum sp_status st;

    if (ranks == NULL) return sp_fail(err, SP_E_USAGE, "one rank exchanges no messages");
    if ((st = sp_new(&bytes, LARGE, 1, err))) return st;
    st = time_echo(ranks, bytes, SMALL, SMALL_REPEATS, &all.round_trip, err);
    if (!st) st = time_echo(ranks, bytes, LARGE, LARGE_REPEATS, &large, err);
    free(bytes);
    if (st) return st;
    /* Every other rank receives the bytes and sends them back. */
    large = large > all.round_trip ? large - all.round_trip : large;
    all.bandwidth = 2.0 * LARGE * (ranks->transport->n_ranks - 1) / large;
    sp_copy_out(link, &all);
    return SP_OK;
}
