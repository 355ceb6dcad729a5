/* spectool verify: checks the digests of a packed file; with --lossless compares generation with
 * and without drafting. */
#include "cli/commands.h"
#include "cli/chat/response_format.h"
#include "cli/lossless.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "convert/create/pairing_record.h"
#include "format/base/json_write.h"
#include "format/packfile.h"

#include <inttypes.h>
#include <stdlib.h>

#define AT(member) .offset = offsetof(struct sp_lossless_options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_HEADING, .help = "Options"},
    {SP_OPT_FLAG, 0, "lossless", NULL, NULL, AT(lossless),
     .help = "Also generate from each PROMPT (or a built-in one) with and without drafting, and "
             "compare the tokens and the bits of the logits"},
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json), .help = "Print the result as JSON"},
    {SP_OPT_HEADING, .help = "With --lossless"},
    {SP_OPT_LIST, 0, "ids", NULL, "ID,ID,...", AT(ids), .help = "A prompt as token IDs"},
    {SP_OPT_INT, 0, "num-predict", NULL, "N", AT(n_predict), .min = 1, .max = 1 << 30,
     .shown = "64", .help = "Number of tokens to generate per prompt"},
    {SP_OPT_INT, 0, "sessions", NULL, "N", AT(sessions), .min = 2, .max = 64, .shown = "none",
     .help = "Also generate N sequences in one batch, with and without drafting, and compare"},
    SP_OPT_FORMAT(struct sp_lossless_options, format),
    SP_OPT_NUM_CTX(struct sp_lossless_options, backend),
    SP_OPT_DRAFT_DEPTH(struct sp_lossless_options, backend, 1,
                       "Draft tokens per round; auto: as many as the draft can propose"),
    SP_OPT_DRAFT_BY(struct sp_lossless_options, backend,
                    "model if the file has a draft, else lookup"),
    SP_OPT_THREADS(struct sp_lossless_options, backend),
    SP_OPT_RANKS(struct sp_lossless_options, backend),
    SP_OPT_KERNELS(struct sp_lossless_options, backend),
    SP_OPT_KV_TYPE(struct sp_lossless_options, backend),
    {.kind = SP_OPT_END},
};

/* Checks all digests and prints a line to stderr for each mismatch. With --lossless it prints
 * nothing if all digests match. */
static enum sp_status check_digests(const char *name, const struct sp_pack *pack,
                                    const struct sp_lossless_options *o, struct sp_err *err)
{
    size_t n_tensors = sp_pack_n_tensors(pack), n_sections = sp_pack_n_sections(pack), n_bad = 0;
    struct sp_progress progress;
    struct sp_json_out out = {.file = stdout};
    char size[SP_AMOUNT_TEXT];
    uint64_t done = 0;
    enum sp_status st;

    sp_progress_begin(&progress, "checking");
    for (size_t i = 0; i < n_tensors + n_sections && !sp_signals_caught(); i++) {
        struct sp_err bad = {0};
        bool tensor = i < n_tensors;
        st = tensor ? sp_pack_check_tensor(pack, i, &bad)
                    : sp_pack_check_section(pack, i - n_tensors, &bad);
        done +=
            tensor ? sp_pack_tensor(pack, i)->size : sp_pack_section(pack, i - n_tensors)->stored;
        sp_progress_show(&progress, done, sp_pack_size(pack));
        if (st == SP_OK) continue;
        sp_progress_end(&progress);
        if (st != SP_E_INPUT) return sp_fail_as(err, &bad); /* nothing about the file */
        fprintf(stderr, "%s\n", bad.text);
        n_bad++;
    }
    sp_progress_end(&progress);
    if (sp_signals_caught()) return sp_fail(err, SP_E_CANCELLED, "interrupted");
    if (o->json && (n_bad || !o->lossless)) {
        sp_json_out_begin(&out, NULL, '{');
        sp_json_out_text(&out, "file", name);
        sp_json_out_u64(&out, "n_tensors", n_tensors);
        sp_json_out_u64(&out, "n_sections", n_sections);
        sp_json_out_u64(&out, "size", sp_pack_size(pack));
        sp_json_out_u64(&out, "n_damaged", n_bad);
        sp_json_out_end(&out, '}');
        putchar('\n');
    }
    if (n_bad) {
        return sp_fail(err, SP_E_INPUT, "%s: %zu of %zu digests do not match", name, n_bad,
                       n_tensors + n_sections);
    }
    if ((st = sp_pairing_record_check(pack, err))) return st;
    if (!o->json && !o->lossless) {
        printf("%s: %zu tensors and %zu section%s, %s: every digest matches\n", name, n_tensors,
               n_sections, n_sections == 1 ? "" : "s", sp_out_size(size, sp_pack_size(pack)));
    }
    return SP_OK;
}

static enum sp_status refuse_lossless_only(const struct sp_args *args, struct sp_err *err)
{
    if (args->n_operands > 1) return sp_fail(err, SP_E_USAGE, "PROMPT requires --lossless");
    for (const struct sp_opt *opt = opts; opt->kind != SP_OPT_END; opt++) {
        if (opt->kind == SP_OPT_HEADING ||
            opt->offset == offsetof(struct sp_lossless_options, json))
            continue;
        if (!sp_args_given(args, opt->name)) continue;
        return sp_fail(err, SP_E_USAGE, "--%s requires --lossless", opt->name);
    }
    return SP_OK;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct sp_lossless_options *o = args->options;
    const char *name = args->operands[0];
    struct sp_pack *pack = NULL;
    char *path = NULL;
    enum sp_status st;

    if (!o->lossless && (st = refuse_lossless_only(args, err))) return st;
    sp_signals_catch();
    if ((st = sp_packed_checkpoint_find(&path, name, args->command->name, err))) goto done;
    if ((st = sp_pack_open(&pack, path, err))) goto done;
    if ((st = check_digests(name, pack, o, err))) goto done;
    sp_pack_close(pack);
    pack = NULL;
    if (o->lossless) st = sp_lossless_verify(path, args, err);
done:
    sp_pack_close(pack);
    free(path);
    return st;
}

static const struct sp_lossless_options defaults = {.n_predict = 64,
                                                    .backend = SP_BACKEND_DEFAULTS};

const struct sp_command sp_cmd_verify = {
    .name = "verify",
    .summary = "Check a packed file, or check that drafting is lossless",
    .operands = "FILE [PROMPT...]",
    .min_operands = 1,
    .max_operands = 1000,
    .opts = opts,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .takes_model = true,
    .details = "Always checks every digest first. Exit code 0: no difference; 1: drafting changed "
               "the output; 3: the file is damaged.",
    .group_offset = offsetof(struct sp_lossless_options, backend.group),
    .run = run,
};
