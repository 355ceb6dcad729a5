#include "cli/eval/eval_record.h"

#include "cli/base/receipt_words.h"
#include "cli/eval/eval_stats.h"
#include "cli/base/signals.h"
#include "format/base/mem.h"
#include "format/base/number_text.h"
#include "format/packfile_copy.h"
#include "format/packfile_layout.h"
#include "format/receipts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum sp_status sp_eval_record_check(const struct sp_eval *eval, struct sp_err *err)
{
    if (eval->n_files > 1)
        return sp_fail(err, SP_E_USAGE, "--record takes one FILE; record each in a run of its own");
    for (size_t i = 0; i < eval->n_texts; i++) {
        const char *name = eval->texts[i].name;
        if (!sp_pack_name_valid(name, strlen(name))) {
            return sp_fail(err, SP_E_USAGE,
                           "--record: the name of text %zu is not 1 to %d bytes of printable UTF-8",
                           i + 1, SP_PACK_MAX_NAME);
        }
    }
    return SP_OK;
}

/* ---- the text of a receipt --------------------------------------------------------------------
 *
 * A receipt has no whitespace and every digit of its numbers. */

static void print_number(FILE *out, double x)
{
    char text[40];

    sp_number_print(text, sizeof text, "%.17g", x);
    fputs(text, out);
}

static void print_estimate(FILE *out, const char *name, struct sp_eval_estimate x)
{
    fprintf(out, "\"%s\":[", name);
    print_number(out, x.mean);
    fputc(',', out);
    if (isnan(x.half))
        fputs("null", out);
    else
        print_number(out, x.half);
    fputc(']', out);
}

static void print_texts(FILE *out, const struct sp_eval *eval)
{
    fputs(",\"texts\":[", out);
    for (size_t i = 0; i < eval->n_texts; i++) {
        const struct sp_eval_text *t = &eval->texts[i];
        fputs(i ? ",{\"name\":" : "{\"name\":", out);
        sp_receipt_print_text(out, t->name);
        fprintf(out, ",\"digest\":\"%s\",\"positions\":%zu}", t->digest,
                eval->files[0].results[i].text.n_scored);
    }
    fputs("],\"results\":[", out);
}

static void print_evaluation(FILE *out, const struct sp_eval *eval, uint64_t target,
                             const struct sp_eval_record *record)
{
    const struct sp_eval_file *file = &eval->files[0];
    const struct sp_evaluation *first = &file->results[0].text;

    fprintf(out, "{\"kind\":\"%s\",\"target\":\"%016" PRIx64 "\"", sp_receipt_evaluation, target);
    if (eval->reference) {
        const char *slash = strrchr(eval->reference, '/');
        const char *name = slash ? slash + 1 : eval->reference;

        if (sp_pack_name_valid(name, strlen(name))) {
            fputs(",\"reference_name\":", out);
            sp_receipt_print_text(out, name);
        }
        fprintf(out, ",\"reference\":\"%016" PRIx64 "\"", record->reference_digest);
    }
    fprintf(out, ",\"kv_type\":\"%s\",\"window\":%zu,\"stride\":%zu", eval->kv_type,
            first->n_window, first->stride);
    print_texts(out, eval);
    for (size_t i = 0; i < eval->n_texts; i++) {
        fputs(i ? ",{" : "{", out);
        print_estimate(out, "loss", sp_eval_mean(file, SP_EVAL_LOSS, i, 1));
        if (eval->reference) {
            fputc(',', out);
            print_estimate(out, "divergence", sp_eval_mean(file, SP_EVAL_DIVERGENCE, i, 1));
            fputc(',', out);
            print_estimate(out, "agreement", sp_eval_mean(file, SP_EVAL_AGREEMENT, i, 1));
        }
        fputc('}', out);
    }
    fputs("]}", out);
}

static void print_drafting(FILE *out, const struct sp_eval *eval,
                           const struct sp_part_digests *digests,
                           const struct sp_eval_record *record)
{
    const struct sp_eval_file *file = &eval->files[0];

    fprintf(out,
            "{\"kind\":\"%s\",\"target\":\"%016" PRIx64 "\",\"draft\":\"%016" PRIx64
            "\",\"kv_type\":\"%s\",\"draft_length\":%zu,\"places\":%zu,\"predict\":%zu",
            sp_receipt_drafting, digests->target, digests->draft, eval->kv_type,
            file->results[0].trial.draft_len, record->n_places, record->n_predict);
    print_texts(out, eval);
    for (size_t i = 0; i < eval->n_texts; i++) {
        const struct sp_draft_eval *t = &file->results[i].trial;
        fprintf(out, "%s{\"rounds\":%zu,\"tokens\":%zu,\"drafted\":%zu,\"accepted\":%zu}",
                i ? "," : "", t->n_rounds, t->n_tokens, t->drafted, t->accepted);
    }
    fputs("]}", out);
}

static enum sp_status receipt_text(char **text, const struct sp_eval *eval, bool is_drafting,
                                   const struct sp_part_digests *digests,
                                   const struct sp_eval_record *record, struct sp_err *err)
{
    size_t size = 0;
    FILE *out = open_memstream(text, &size);

    if (out == NULL) return sp_fail(err, SP_E_NOMEM, "no memory for a receipt");
    if (is_drafting)
        print_drafting(out, eval, digests, record);
    else
        print_evaluation(out, eval, digests->target, record);
    return sp_close_text(out, text, err);
}

/* ---- the file ---------------------------------------------------------------------------------
 */

static int show_progress(void *context, uint64_t done, uint64_t total)
{
    sp_progress_show(context, done, total);
    return sp_signals_caught();
}

enum sp_status sp_eval_record_write(const struct sp_eval *eval, const struct sp_eval_record *record,
                                    struct sp_err *err)
{
    const char *path = eval->files[0].path;
    struct sp_part_digests digests = {0};
    struct sp_progress progress = {0};
    struct sp_pack_new_section section = {.part = SP_PART_FILE,
                                          .kind = SP_SECTION_RECEIPTS,
                                          .context = &progress,
                                          .progress = show_progress};
    struct sp_pack *pack = NULL;
    char *text = NULL, *receipt = NULL;
    size_t size = 0;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, path, err))) return st;
    if ((st = sp_part_digests_of(&digests, pack, err))) goto done;
    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_RECEIPTS, &text, &size, err);
    for (int is_drafting = 0; is_drafting <= (eval->files[0].draft != NULL) && !st; is_drafting++) {
        st = receipt_text(&receipt, eval, is_drafting, &digests, record, err);
        if (!st) st = sp_receipts_add(&text, &size, receipt, &digests, err);
        free(receipt);
        receipt = NULL;
    }
    if (st) goto done;
    section.content = text;
    section.size = size;
    sp_progress_begin(&progress, "recording");
    st = sp_pack_copy_with(path, pack, &section, err);
    sp_progress_end(&progress);
done:
    if (st) sp_context(err, "%s: the figures are not recorded", path);
    sp_pack_close(pack);
    free(text);
    return st;
}
