#include "runtime/drafting.h"

#include <string.h>

void sp_drafting_init(struct sp_drafting *drafting, const struct sp_speculator *s)
{
    sp_depth_init(&drafting->draft, s->max_depth, s->drafter && s->drafter->ops->stepwise);
    sp_depth_init(&drafting->lookup, SP_LOOKUP_DEPTH, true);
}

/* What one drafter makes of its turn; round->drafted = 0: nothing that is worth verifying. */
static enum sp_status ask(struct sp_speculator *s, struct sp_drafter *drafter,
                          struct sp_depth *depth, size_t most, bool automatic,
                          const struct sp_chooser *chooser, struct sp_round *round,
                          struct sp_err *err)
{
    struct sp_guesser guesser = {.chooser = chooser, .depth = automatic ? depth : NULL};
    size_t n = most ? sp_speculator_limit(s, drafter) : 0;

    if (n > most) n = most;
    if (n && automatic) n = sp_depth_choose(depth, n);
    return n ? sp_speculator_propose(s, drafter, n, &guesser, round, err) : SP_OK;
}

static bool promises_more(const struct sp_drafting *d)
{
    return sp_depth_promise(&d->lookup) > sp_depth_rate(&d->draft);
}

static enum sp_status propose(struct sp_drafting *d, struct sp_speculator *s, size_t most,
                              bool automatic, const struct sp_chooser *chooser,
                              struct sp_round *round, bool *lookup, struct sp_err *err)
{
    enum sp_status st = ask(s, s->lookup, &d->lookup, most, automatic, chooser, round, err);

    if (st) return st;
    *lookup = round->drafted > 0;
    if (s->drafter == NULL || (*lookup && (!automatic || promises_more(d)))) return SP_OK;
    *lookup = false;
    memset(round, 0, sizeof *round);
    return ask(s, s->drafter, &d->draft, most, automatic, chooser, round, err);
}

enum sp_status sp_drafting_round(struct sp_drafting *d, struct sp_speculator *s, size_t most,
                                 bool automatic, const struct sp_chooser *chooser, sp_emit_fn *emit,
                                 void *context, struct sp_round *round, bool *lookup,
                                 struct sp_err *err)
{
    enum sp_status st;

    memset(round, 0, sizeof *round);
    if ((st = propose(d, s, most, automatic, chooser, round, lookup, err))) return st;
    if ((st = sp_speculator_verify(s, chooser, emit, context, round, err))) return st;
    if (*lookup) {
        sp_depth_record(&d->lookup, round);
        sp_depth_watch(&d->draft, round);
    } else {
        sp_depth_record(&d->draft, round);
        sp_depth_watch(&d->lookup, round);
        sp_depth_credit(&d->lookup, round);
    }
    return SP_OK;
}
