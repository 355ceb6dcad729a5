#include "cli/base/receipt_words.h"

#include "cli/base/out.h"

#include <inttypes.h>
#include <string.h>

size_t sp_receipt_n_lines(const struct sp_json *receipt)
{
    size_t n = sp_json_len(sp_json_get(receipt, "texts"));

    if (strcmp(sp_json_get_text(receipt, "kind"), sp_receipt_draft_type) == 0)
        return sp_json_len(sp_json_get(receipt, "results")) > 1 ? 2 : 1;
    return n ? n : 1;
}

static uint64_t count_of(const struct sp_json *object, const char *name)
{
    uint64_t n = 0;

    return sp_json_to_u64(sp_json_get(object, name), &n) ? n : 0;
}

/* "NAME 1.23 +- 0.12", the numbers with `digits` behind the point and times `factor`. */
static void estimate_words(char out[128], const char *name, const struct sp_json *estimate,
                           int digits, double factor, const char *unit)
{
    double mean = 0, half = 0;

    (void)sp_json_to_double(sp_json_at(estimate, 0), &mean);
    if (sp_json_to_double(sp_json_at(estimate, 1), &half)) {
        snprintf(out, 128, "%s %.*f%s +- %.*f%s", name, digits, factor * mean, unit, digits,
                 factor * half, unit);
    } else {
        snprintf(out, 128, "%s %.*f%s", name, digits, factor * mean, unit);
    }
}

static void evaluation_words(char *text, const struct sp_json *receipt,
                             const struct sp_json *subject, const struct sp_json *result)
{
    const char *reference = sp_json_get_text(receipt, "reference_name");
    const struct sp_json *divergence = sp_json_get(result, "divergence"),
                         *agreement = sp_json_get(result, "agreement");
    char loss[128], lost[128] = "", same[128] = "";

    estimate_words(loss, "loss", sp_json_get(result, "loss"), 4, 1, "");
    if (divergence) estimate_words(lost, ", KL divergence", divergence, 6, 1, "");
    if (agreement) estimate_words(same, ", same top token", agreement, 2, 100, "%");
    snprintf(text, SP_RECEIPT_WORDS, "%s: %s%s%s%s%s (%" PRIu64 " positions)",
             sp_json_get_text(subject, "name"), loss, lost, same, reference ? ", against " : "",
             reference ? reference : "", count_of(subject, "positions"));
}

static void drafting_words(char *text, const struct sp_json *receipt, const struct sp_json *subject,
                           const struct sp_json *result)
{
    double rounds = (double)count_of(result, "rounds"),
           drafted = (double)count_of(result, "drafted");

    snprintf(text, SP_RECEIPT_WORDS,
             "%s: %.3f tokens per pass, acceptance %.2f%% (%" PRIu64 " draft tokens per round)",
             sp_json_get_text(subject, "name"),
             rounds > 0 ? (double)count_of(result, "tokens") / rounds : 0,
             drafted > 0 ? 100 * (double)count_of(result, "accepted") / drafted : 0,
             count_of(receipt, "draft_length"));
}

static void types_words(char *text, const struct sp_json *receipt)
{
    double bits = 0, kl = 0;
    char size[SP_AMOUNT_TEXT], predicted[80] = "";

    if (sp_json_to_double(sp_json_get(receipt, "predicted_kl"), &kl))
        snprintf(predicted, sizeof predicted, ", predicted KL divergence %.4g nats per token", kl);
    if (sp_json_to_double(sp_json_get(receipt, "bits"), &bits)) {
        snprintf(text, SP_RECEIPT_WORDS, "chosen for %g bits per weight%s", bits, predicted);
    } else {
        snprintf(text, SP_RECEIPT_WORDS, "chosen for a file of at most %s%s",
                 sp_out_size(size, count_of(receipt, "size")), predicted);
    }
}

static void draft_type_words(char *text, const struct sp_json *receipt)
{
    const struct sp_json *results = sp_json_get(receipt, "results"), *result = NULL;
    const char *chosen = sp_json_get_text(receipt, "type");
    double speed_up = 0, tokens = 0;

    for (size_t i = 0; i < sp_json_len(results); i++)
        if (strcmp(sp_json_get_text(sp_json_at(results, i), "type"), chosen) == 0)
            result = sp_json_at(results, i);
    (void)sp_json_to_double(sp_json_get(result, "speed_up"), &speed_up);
    (void)sp_json_to_double(sp_json_get(result, "tokens_per_round"), &tokens);
    snprintf(text, SP_RECEIPT_WORDS,
             "chosen %s by the bytes read: %.3f tokens per round at draft depth %" PRIu64
             ", speed-up %.2f",
             chosen, tokens, count_of(result, "draft_length"), speed_up);
}

static void other_types_words(char *text, const struct sp_json *receipt)
{
    const struct sp_json *results = sp_json_get(receipt, "results");
    const char *chosen = sp_json_get_text(receipt, "type"), *before = "";
    size_t len = (size_t)snprintf(text, SP_RECEIPT_WORDS, "speed-up of the others:");

    for (size_t i = 0; i < sp_json_len(results) && len < SP_RECEIPT_WORDS; i++) {
        const char *type = sp_json_get_text(sp_json_at(results, i), "type");
        double speed_up = 0;

        if (strcmp(type, chosen) == 0) continue;
        (void)sp_json_to_double(sp_json_get(sp_json_at(results, i), "speed_up"), &speed_up);
        len += (size_t)snprintf(text + len, SP_RECEIPT_WORDS - len, "%s %s %.2f", before, type,
                                speed_up);
        before = ",";
    }
}

void sp_receipt_print_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

void sp_receipt_words(char text[SP_RECEIPT_WORDS], const struct sp_json *receipt, size_t line)
{
    const char *kind = sp_json_get_text(receipt, "kind");
    const struct sp_json *subject = sp_json_at(sp_json_get(receipt, "texts"), line);
    const struct sp_json *result = sp_json_at(sp_json_get(receipt, "results"), line);

    if (strcmp(kind, sp_receipt_types) == 0)
        types_words(text, receipt);
    else if (strcmp(kind, sp_receipt_draft_type) == 0 && line > 0)
        other_types_words(text, receipt);
    else if (strcmp(kind, sp_receipt_draft_type) == 0)
        draft_type_words(text, receipt);
    else if (strcmp(kind, sp_receipt_drafting) == 0)
        drafting_words(text, receipt, subject, result);
    else
        evaluation_words(text, receipt, subject, result);
}
