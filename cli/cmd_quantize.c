/* spectool quantize: converts a packed file to one with other quantization types. */
#include "cli/create_callbacks.h"
#include "cli/packed_checkpoint.h"
#include "convert/source/source_name.h"
#include "format/base/file.h"

#include <stdlib.h>

struct options {
    struct sp_create_options create;
    const char *target, *draft, *head;
    struct sp_opt_list rules;
    int64_t n_threads;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_CHOICE, 'q', "target", "quantize", "TYPE", AT(target), .choices = sp_cmd_types,
     .shown = "copied", .help = "Type of the target's weights"},
    {SP_OPT_CHOICE, 0, "draft", "quantize-draft", "TYPE", AT(draft), .choices = sp_cmd_types,
     .shown = "copied", .help = "Type of the draft's weights"},
    SP_OPT_OUTPUT_TYPE(struct options, "--target"),
    SP_OPT_BUDGET(struct options),
    SP_OPT_RULE(struct options),
    SP_OPT_CALIBRATION(struct options),
    {SP_OPT_FLAG, 0, "requantize", NULL, NULL, AT(create.allow_lossy),
     .help = "Allow converting a quantized tensor to another lossy type"},
    SP_OPT_DRY_RUN(struct options),
    {SP_OPT_FLAG, 0, "force", NULL, NULL, AT(create.force),
     .help = "Overwrite OUT if it is a packed file"},
    SP_OPT_CREATE_THREADS(struct options),
    {.kind = SP_OPT_END},
};

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    const char *in = args->n_operands > 0 ? args->operands[0] : SP_CREATE_OUTPUT;
    const char *out = args->n_operands > 1 ? args->operands[1] : NULL;
    struct sp_create_listener listener = {.command = args->command->name};
    struct sp_create_report report;
    enum sp_status st;
    struct sp_create_options requantize = o->create;

    requantize.from = in;
    requantize.output = out;
    requantize.target_type = sp_create_type(o->target);
    requantize.draft_type = sp_create_type(o->draft);
    requantize.output_type = sp_create_type(o->head);
    requantize.n_threads = (unsigned)o->n_threads;
    if (!o->target && !o->draft && !o->head && o->rules.n == 0 && requantize.budget.size == 0 &&
        !(requantize.budget.bits > 0)) {
        return sp_fail(
            err, SP_E_USAGE,
            "no type is given: expected -q TYPE for the target, as in quantize -q q4 IN OUT; or "
            "--draft TYPE, --quantize-output, --size, --bits or --rule");
    }
    if (args->n_operands == 0 && !sp_file_exists(in))
        return sp_fail(err, SP_E_USAGE, "no file is given, and there is no %s", in);
    if ((st = sp_create_check_budget(&requantize.budget, o->target, err))) return st;
    if (sp_packed_checkpoint_is_needed(in) && (sp_file_exists(in) || !sp_source_name_is_file(in))) {
        return sp_fail(
            err, SP_E_INPUT,
            "%s: not a packed file; spectool create --quantize TYPE %s packs and quantizes it", in,
            in);
    }
    if ((st = sp_create_rules(&requantize.rules, &o->rules, err))) return st;
    sp_create_attach(&requantize.callbacks, &listener);
    st = sp_create_checked(&report, &requantize, true, args->command->name, err);
    sp_progress_end(&listener.progress);
    free(requantize.rules.rules);
    if (st == SP_OK) sp_create_print_report(&report, out ? out : in);
    return st;
}

const struct sp_command sp_cmd_quantize = {
    .name = "quantize",
    .summary = "Quantize the target or the draft model of a packed file",
    .operands = "[IN [OUT]]",
    .min_operands = 0,
    .max_operands = 2,
    .opts = opts,
    .options_size = sizeof(struct options),
    .details =
        "Parts without a new type are copied unchanged. Without OUT, IN is replaced atomically; "
        "without IN, ./packed.bin, the default output of create.",
    .run = run,
};
