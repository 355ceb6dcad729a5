#include "cli/chat/loaded_model.h"

enum {
    EVERY = 32, /* tokens between two searches */
    LEAST_SPAN = SP_REPETITION_SPAN / 2,
};

static bool repeats(const struct sp_repetition *r, size_t period)
{
    size_t span = period > LEAST_SPAN / 4 ? 4 * period : LEAST_SPAN;

    if (r->n < span) return false;
    for (size_t i = r->n - span + period; i < r->n; i++)
        if (r->ids[i % SP_REPETITION_SPAN] != r->ids[(i - period) % SP_REPETITION_SPAN])
            return false;
    return true;
}

bool sp_repetition_add(struct sp_repetition *r, uint32_t id)
{
    r->ids[r->n++ % SP_REPETITION_SPAN] = id;
    if (r->period > 0 || r->n < LEAST_SPAN || r->n % EVERY != 0) return false;
    for (size_t period = 1; period <= SP_REPETITION_SPAN / 4; period++) {
        if (!repeats(r, period)) continue;
        r->period = period;
        return true;
    }
    return false;
}
