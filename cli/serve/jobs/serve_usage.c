#include "cli/serve/jobs/serve_queue.h"

#include <stdio.h>

void sp_serve_usage_add(struct sp_serve_usage *usage, const struct sp_result *r,
                        const struct sp_chat_answer *message, bool first, size_t period)
{
    if (first) {
        usage->n_prompt += r->n_prompt;
        usage->n_reused += r->n_reused;
    }
    usage->n_ids += r->n_ids;
    usage->prompt_seconds += r->prompt_seconds;
    usage->generation_seconds += r->draft_seconds + r->verify_seconds + r->plain_seconds;
    usage->n_reasoning += message->n_reasoning_tokens;
    usage->drafted += r->drafted;
    usage->accepted += r->accepted;
    if (period == 0) return;
    usage->n_repeating++;
    usage->period = period;
}

/* Returns tokens per second, without the first token, which the prompt's pass generates. */
static double rate(const struct sp_result *r)
{
    double seconds = r->draft_seconds + r->verify_seconds + r->plain_seconds;

    return seconds > 0 && r->n_ids > 0 ? (double)(r->n_ids - 1) / seconds : 0;
}

static const char *describe_json(char text[SP_SERVE_USAGE_TEXT], const struct sp_serve_usage *t,
                                 size_t n, const struct sp_result *last)
{
    snprintf(text, SP_SERVE_USAGE_TEXT,
             "\"answers\": %zu, \"prompt_tokens\": %zu, \"cached_tokens\": %zu, "
             "\"prompt_seconds\": %.4f, \"generated_tokens\": %zu, \"generation_seconds\": %.4f, "
             "\"draft_tokens\": %zu, \"accepted_tokens\": %zu, \"repeating_answers\": %zu, "
             "\"repeated_tokens\": %zu, "
             "\"stop\": \"%s\"",
             n, t->n_prompt, t->n_reused, t->prompt_seconds, t->n_ids, t->generation_seconds,
             t->drafted, t->accepted, t->n_repeating, t->period, sp_stop_name(last->stop));
    return text;
}

/* Several answers have no common rate and stop reason, so these are written for a single answer
 * only. One token, which the prompt's pass generates, has no rate. */
const char *sp_serve_usage_describe(char text[SP_SERVE_USAGE_TEXT], const struct sp_serve_usage *t,
                                    size_t n, const struct sp_result *last, bool json)
{
    char details[96] = "", accepted[64] = "", loop[64] = "", stop[32] = "";

    if (json) return describe_json(text, t, n, last);
    if (n > 1) {
        int len = snprintf(details, sizeof details, " in %zu answers", n);
        if (t->n_repeating > 0) {
            snprintf(details + len, sizeof details - (size_t)len, ", %zu of which repeat%s",
                     t->n_repeating, t->n_repeating == 1 ? "s itself" : " themselves");
        }
    } else {
        if (last->n_ids > 1) snprintf(details, sizeof details, ", %.1f tokens/s", rate(last));
        snprintf(stop, sizeof stop, ", %s", sp_stop_name(last->stop));
        if (t->period > 0) {
            snprintf(loop, sizeof loop, ", repeats its last %zu token%s", t->period,
                     t->period == 1 ? "" : "s");
        }
    }
    if (t->drafted > 0) {
        snprintf(accepted, sizeof accepted, ", %zu of %zu draft tokens accepted", t->accepted,
                 t->drafted);
    }
    snprintf(text, SP_SERVE_USAGE_TEXT, "%zu (%zu cached) + %zu tokens, prompt %.2f s%s%s%s%s",
             t->n_prompt, t->n_reused, t->n_ids, t->prompt_seconds, details, accepted, loop, stop);
    return text;
}
