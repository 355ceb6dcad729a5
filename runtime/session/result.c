/* The result of an answer. */
#include "runtime/session/session.h"

#include <stdlib.h>

const char *sp_stop_name(enum sp_stop stop)
{
    static const char *const names[] = {
        [SP_STOP_EOS] = "eos",       [SP_STOP_TEXT] = "stop",
        [SP_STOP_LENGTH] = "length", [SP_STOP_CONTEXT] = "context",
        [SP_STOP_MEMORY] = "memory", [SP_STOP_CANCELLED] = "cancelled",
    };

    return names[stop];
}

const char *sp_round_reason_name(enum sp_round_reason reason)
{
    static const char *const names[] = {
        [SP_ROUND_GIVEN] = "given",           [SP_ROUND_LIMIT] = "limit",
        [SP_ROUND_CONFIDENCE] = "confidence", [SP_ROUND_MEASURE] = "measure",
        [SP_ROUND_PAUSE] = "pause",           [SP_ROUND_PROBE] = "probe",
        [SP_ROUND_CATCH_UP] = "catch-up",
    };

    return names[reason];
}

void sp_result_release(struct sp_result *result)
{
    struct sp_result r = {0};

    if (sp_copy_in(&r, sizeof r, result, "sp_result", NULL)) return;
    free(r.ids);
    free(r.text);
    free(r.rounds);
    free(r.draft_positions);
    sp_copy_out(result, &(struct sp_result)SP_RESULT_INIT);
}

void sp_result_count_round(struct sp_result *r, const struct sp_round *round)
{
    r->n_shared += round->n_others > 0;
    r->n_proposed += round->made;
    r->drafted += round->drafted;
    r->accepted += round->accepted;
    r->draft_seconds += round->catch_up_seconds + round->draft_seconds;
    if (round->drafted == 0) {
        r->plain_rounds++;
        r->plain_seconds += round->verify_seconds;
        return;
    }
    r->verify_seconds += round->verify_seconds;
    r->all_accepted += round->accepted == round->drafted;
    r->mismatches += round->accepted < round->drafted && round->emitted > round->accepted;
    for (size_t i = 0; i < round->drafted && i <= round->accepted; i++) {
        r->draft_positions[i].tried++;
        r->draft_positions[i].accepted += i < round->accepted;
        if (i == r->n_draft_positions) r->n_draft_positions++;
    }
}
