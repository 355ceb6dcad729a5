#include "format/base/spelling.h"

#include <stdint.h>
#include <string.h>

enum { MOST_BYTES = 64 }; /* of a name */

size_t sp_edit_distance(const char *a, const char *b)
{
    size_t rows[3][MOST_BYTES + 1], n_a = strlen(a), n_b = strlen(b);
    size_t *before = rows[0], *last = rows[1], *now = rows[2];

    if (n_a > MOST_BYTES || n_b > MOST_BYTES) return SIZE_MAX;
    for (size_t j = 0; j <= n_b; j++)
        last[j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *spare = before;
        now[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
        before = last;
        last = now;
        now = spare;
    }
    return last[n_b];
}

const char *sp_nearer(const char *best, const char *candidate, const char *name)
{
    size_t size = strlen(name), most = size <= SP_NEAR ? size : SP_NEAR + 1;
    size_t limit = best ? sp_edit_distance(name, best) : most;

    return sp_edit_distance(name, candidate) < limit ? candidate : best;
}
