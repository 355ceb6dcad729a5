/* Prints the figures of eval as text or as JSON. */
#include "cli/eval_print.h"
#include "cli/eval.h"
#include "cli/base/json_out.h"

#define LN2 0x1.62e42fefa39efp-1

static double bits_per_byte(const struct sp_eval *e)
{
    return e->text.loss.mean * (double)e->text.n_scored / LN2 / (double)e->n_bytes;
}

static double share(size_t part, size_t all)
{
    return all ? (double)part / (double)all : 0;
}

/* ---- as text ----------------------------------------------------------------------------------
 */

static void print_text(const struct sp_eval *e)
{
    const struct sp_evaluation *t = &e->text;
    struct sp_estimate perplexity = sp_perplexity(t->loss);

    printf("%s: %zu tokens, %zu scored, in %zu window%s of at most %zu\n", e->name, e->n_tokens,
           t->n_scored, t->n_windows, t->n_windows == 1 ? "" : "s", t->n_window);
    printf("  perplexity       %.4f +- %.4f\n", perplexity.mean, perplexity.error);
    printf("  bits per token   %.4f +- %.4f\n", t->loss.mean / LN2, t->loss.error / LN2);
    if (e->n_bytes) printf("  bits per byte    %.4f\n", bits_per_byte(e));
    printf("  accuracy         %.2f%% +- %.2f%%\n", 100 * t->right.mean, 100 * t->right.error);
}

static void print_comparison(const struct sp_eval *e)
{
    const struct sp_evaluation *t = &e->text;
    struct sp_estimate reference = sp_perplexity(t->reference_loss);
    struct sp_estimate ratio = sp_perplexity(t->loss_change);

    printf("\nAgainst %s, whose perplexity is %.4f +- %.4f:\n", e->reference, reference.mean,
           reference.error);
    printf("  perplexity ratio %.5f +- %.5f\n", ratio.mean, ratio.error);
    printf("  KL divergence    %.6f +- %.6f nats\n", t->divergence.mean, t->divergence.error);
    printf("    percentiles    50%% %.6f, 90%% %.6f, 99%% %.6f, 99.9%% %.6f, largest %.6f\n",
           t->divergence_50, t->divergence_90, t->divergence_99, t->divergence_999,
           t->divergence_max);
    printf("  same top token   %.2f%% +- %.2f%%\n", 100 * t->agreement.mean,
           100 * t->agreement.error);
    printf("  probability of the text's token: change %+.3f%% +- %.3f%%, root mean square %.3f%%\n",
           100 * t->prob_change.mean, 100 * t->prob_change.error, 100 * t->prob_change_rms);
}

static void print_trial(const struct sp_eval *e)
{
    const struct sp_draft_eval *t = &e->trial;

    printf("\nThe %s draft, %zu token%s per round, generating from %zu position%s of the text:\n",
           e->draft, t->draft_len, t->draft_len == 1 ? "" : "s", t->n_places,
           t->n_places == 1 ? "" : "s");
    printf("  tokens per pass  %.3f +- %.3f (%zu tokens, %zu target passes)\n", t->per_round.mean,
           t->per_round.error, t->n_tokens, t->n_rounds);
    printf("  acceptance       %.2f%% of %zu draft tokens\n", 100 * share(t->accepted, t->drafted),
           t->drafted);
    fputs("  by position     ", stdout);
    for (size_t i = 0; i < t->n_draft_positions; i++)
        printf(" %.0f%%", 100 * share(t->draft_positions[i].accepted, t->draft_positions[i].tried));
    putchar('\n');
}

void sp_eval_print(const struct sp_eval *e)
{
    print_text(e);
    if (e->reference) print_comparison(e);
    if (e->draft) print_trial(e);
}

/* ---- as JSON ----------------------------------------------------------------------------------
 */

static void estimate(struct sp_json_out *out, const char *name, const char *error_name,
                     struct sp_estimate x)
{
    sp_json_out_double(out, name, x.mean);
    sp_json_out_double(out, error_name, x.error);
}

static void comparison_to_json(struct sp_json_out *out, const struct sp_eval *e)
{
    const struct sp_evaluation *t = &e->text;

    sp_json_out_begin(out, "reference", '{');
    sp_json_out_text(out, "file", e->reference);
    estimate(out, "perplexity", "perplexity_error", sp_perplexity(t->reference_loss));
    estimate(out, "loss", "loss_error", t->reference_loss);
    estimate(out, "perplexity_ratio", "perplexity_ratio_error", sp_perplexity(t->loss_change));
    estimate(out, "divergence", "divergence_error", t->divergence);
    sp_json_out_double(out, "divergence_50", t->divergence_50);
    sp_json_out_double(out, "divergence_90", t->divergence_90);
    sp_json_out_double(out, "divergence_99", t->divergence_99);
    sp_json_out_double(out, "divergence_999", t->divergence_999);
    sp_json_out_double(out, "divergence_max", t->divergence_max);
    estimate(out, "agreement", "agreement_error", t->agreement);
    estimate(out, "probability_change", "probability_change_error", t->prob_change);
    sp_json_out_double(out, "probability_change_rms", t->prob_change_rms);
    sp_json_out_end(out, '}');
}

static void trial_to_json(struct sp_json_out *out, const struct sp_eval *e)
{
    const struct sp_draft_eval *t = &e->trial;

    sp_json_out_begin(out, "draft", '{');
    sp_json_out_text(out, "kind", e->draft);
    sp_json_out_u64(out, "depth", t->draft_len);
    sp_json_out_u64(out, "places", t->n_places);
    sp_json_out_u64(out, "tokens", t->n_tokens);
    sp_json_out_u64(out, "passes", t->n_rounds);
    sp_json_out_u64(out, "drafted", t->drafted);
    sp_json_out_u64(out, "accepted", t->accepted);
    sp_json_out_double(out, "acceptance", share(t->accepted, t->drafted));
    estimate(out, "tokens_per_pass", "tokens_per_pass_error", t->per_round);
    sp_json_out_begin(out, "acceptance_by_position", '[');
    for (size_t i = 0; i < t->n_draft_positions; i++)
        sp_json_out_double(out, NULL,
                           share(t->draft_positions[i].accepted, t->draft_positions[i].tried));
    sp_json_out_end(out, ']');
    sp_json_out_end(out, '}');
}

void sp_eval_print_json(const struct sp_eval *e)
{
    const struct sp_evaluation *t = &e->text;
    struct sp_json_out out = {.file = stdout};

    sp_json_out_begin(&out, NULL, '{');
    sp_json_out_text(&out, "file", e->name);
    sp_json_out_text(&out, "kv_type", e->kv_type);
    sp_json_out_u64(&out, "tokens", e->n_tokens);
    sp_json_out_u64(&out, "scored", t->n_scored);
    sp_json_out_u64(&out, "bytes", e->n_bytes);
    sp_json_out_u64(&out, "windows", t->n_windows);
    sp_json_out_u64(&out, "window", t->n_window);
    sp_json_out_u64(&out, "stride", t->stride);
    estimate(&out, "perplexity", "perplexity_error", sp_perplexity(t->loss));
    estimate(&out, "loss", "loss_error", t->loss);
    sp_json_out_double(&out, "bits_per_token", t->loss.mean / LN2);
    sp_json_out_double(&out, "bits_per_byte", bits_per_byte(e));
    estimate(&out, "right", "right_error", t->right);
    if (e->reference)
        comparison_to_json(&out, e);
    else
        sp_json_out_text(&out, "reference", NULL);
    if (e->draft)
        trial_to_json(&out, e);
    else
        sp_json_out_text(&out, "draft", NULL);
    sp_json_out_end(&out, '}');
    putchar('\n');
}
