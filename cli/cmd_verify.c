/* spectool verify: checks the digests of a packed file; with --lossless compares generation with
 * and without drafting, with --reference the logits with the reference decoder's. */
#include "cli/commands.h"
#include "cli/chat/response_format.h"
#include "cli/packed_checkpoint.h"
#include "cli/verify_prompts.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "convert/create/create_job.h"
#include "format/json/json_write.h"
#include "format/packfile.h"

#include <inttypes.h>
#include <stdlib.h>

#define AT(member) .offset = offsetof(struct sp_verify_options, member)

static const char lossless_heading[] = "With --lossless";

static const struct sp_opt opts[] = {
    {SP_OPT_HEADING, .help = "Options"},
    {SP_OPT_FLAG, 0, "lossless", NULL, NULL, AT(lossless),
     .help = "Also generate from each PROMPT (or a built-in one) with and without drafting, and "
             "compare the tokens and the bits of the logits"},
    {SP_OPT_FLAG, 0, "reference", NULL, NULL, AT(reference),
     .help = "Also generate from each PROMPT (or a built-in one), and compare the logits with the "
             "reference decoder: weights and activations in float32, products by OpenBLAS"},
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json), .help = "Print the result as JSON"},
    {SP_OPT_HEADING, .help = "With --lossless or --reference"},
    {SP_OPT_LIST, 0, "ids", NULL, "ID,ID,...", AT(ids), .help = "A prompt as token IDs"},
    {SP_OPT_INT, 'n', "num-predict", NULL, "N", AT(n_predict), .min = 1, .max = 1 << 30,
     .shown = "64", .help = "Number of tokens to generate per prompt"},
    SP_OPT_FORMAT(struct sp_verify_options, format),
    SP_OPT_NUM_CTX(struct sp_verify_options, backend),
    SP_OPT_THREADS(struct sp_verify_options, backend),
    SP_OPT_RANKS(struct sp_verify_options, backend),
    SP_OPT_KERNELS(struct sp_verify_options, backend),
    SP_OPT_KV_TYPE(struct sp_verify_options, backend),
    {SP_OPT_HEADING, .help = lossless_heading},
    {SP_OPT_INT, 0, "sessions", NULL, "N", AT(sessions), .min = 2, .max = 64, .shown = "none",
     .help = "Also generate N sequences in one batch, with and without drafting, and compare"},
    SP_OPT_DRAFT_DEPTH(struct sp_verify_options, backend, 1,
                       "Draft tokens per round; auto: as many as the draft can propose"),
    SP_OPT_DRAFT_BY(struct sp_verify_options, backend,
                    "model if the file has a draft, else lookup"),
    {.kind = SP_OPT_END},
};

static bool reads_prompts(const struct sp_verify_options *o)
{
    return o->lossless || o->reference;
}

/* Checks all digests and prints a line to stderr for each mismatch. It prints nothing if all
 * digests match and prompts are to be checked. */
static enum sp_status check_digests(const char *name, const struct sp_pack *pack,
                                    const struct sp_verify_options *o, struct sp_err *err)
{
    size_t n_tensors = sp_pack_n_tensors(pack), n_sections = sp_pack_n_sections(pack), n_bad = 0;
    struct sp_progress progress;
    struct sp_json_out out = {.file = stdout};
    char size[SP_AMOUNT_TEXT];
    uint64_t done = 0;
    enum sp_status st;

    sp_progress_begin(&progress, "checking", NULL);
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
    if (o->json && (n_bad || !reads_prompts(o))) {
        sp_json_out_put(&out, "{file:%s, n_tensors:%zu, n_sections:%zu, size:%zu, n_damaged:%zu}\n",
                        name, n_tensors, n_sections, (size_t)sp_pack_size(pack), n_bad);
    }
    if (n_bad) {
        return sp_fail(err, SP_E_INPUT, "%s: %zu of %zu digests do not match", name, n_bad,
                       n_tensors + n_sections);
    }
    if ((st = sp_pairing_record_check(pack, err))) return st;
    if (!o->json && !reads_prompts(o)) {
        printf("%s: %zu tensors and %zu section%s, %s: every digest matches\n", name, n_tensors,
               n_sections, n_sections == 1 ? "" : "s", sp_out_size(size, sp_pack_size(pack)));
    }
    return SP_OK;
}

/* Reads a model that is not packed and has no digests. */
static enum sp_status check_source(const char *name, const struct sp_args *args, struct sp_err *err)
{
    const struct sp_verify_options *o = args->options;
    struct sp_create_report report;
    struct sp_json_out out = {.file = stdout};
    uint64_t n_tensors, size;
    char text[SP_AMOUNT_TEXT];
    enum sp_status st;

    if ((st = sp_packed_checkpoint_read(&report, name, args->command->name, err))) return st;
    n_tensors = report.n_tensors[SP_PART_TARGET] + report.n_tensors[SP_PART_DRAFT];
    size = report.source_size[SP_PART_TARGET] + report.source_size[SP_PART_DRAFT];
    if (!o->json) {
        printf("%s: %" PRIu64 " tensors, %s: every number can be read; only a packed file has "
               "digests\n",
               name, n_tensors, sp_out_size(text, size));
        return SP_OK;
    }
    sp_json_out_put(&out, "{file:%s, n_tensors:%zu, size:%zu, digests:false}\n", name,
                    (size_t)n_tensors, (size_t)size);
    return SP_OK;
}

/* Refuses options that stand below headings of what was not asked for. */
static enum sp_status check_options(const struct sp_args *args, struct sp_err *err)
{
    const struct sp_verify_options *o = args->options;
    const char *required = NULL;

    if (args->n_operands > 1 && !reads_prompts(o))
        return sp_fail(err, SP_E_USAGE, "PROMPT requires --lossless or --reference");
    for (const struct sp_opt *opt = opts + 1; opt->kind != SP_OPT_END; opt++)
        if (opt->help == lossless_heading)
            required = o->lossless ? NULL : "--lossless";
        else if (opt->kind == SP_OPT_HEADING)
            required = reads_prompts(o) ? NULL : "--lossless or --reference";
        else if (required && sp_args_given(args, opt->name))
            return sp_fail(err, SP_E_USAGE, "--%s requires %s", opt->name, required);
    return SP_OK;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct sp_verify_options *o = args->options;
    const char *name = args->operands[0];
    struct sp_pack *pack = NULL;
    char *path = NULL;
    enum sp_status st;

    if ((st = check_options(args, err))) return st;
    sp_signals_catch();
    if (!reads_prompts(o) && sp_packed_checkpoint_is_needed(name))
        return check_source(name, args, err);
    if ((st = sp_packed_checkpoint_find(&path, name, NULL, args->command->name, err))) goto done;
    if ((st = sp_pack_open(&pack, path, err))) goto done;
    if ((st = check_digests(name, pack, o, err))) goto done;
    sp_pack_close(pack);
    pack = NULL;
    if (reads_prompts(o)) st = sp_verify_prompts(path, args, err);
done:
    sp_pack_close(pack);
    free(path);
    return st;
}

static const struct sp_verify_options defaults = {.n_predict = 64, .backend = SP_BACKEND_DEFAULTS};

const struct sp_command sp_cmd_verify = {
    .name = "verify",
    .summary = "Check a packed file, that drafting is lossless, and the kernels",
    .operands = "FILE [PROMPT...]",
    .min_operands = 1,
    .max_operands = 1000,
    SP_COMMAND_OPTIONS(opts, defaults),
    .takes_model = true,
    .details = "Always checks every digest first; of a model that is not packed, and without "
               "prompts, it reads\nevery number instead, in place. Exit code 0: no difference; 1: "
               "drafting changed "
               "the output, or the kernels differ from the reference by more than rounding; 3: the "
               "file is damaged.",
    .group_offset = offsetof(struct sp_verify_options, backend.group),
    .run = run,
};
