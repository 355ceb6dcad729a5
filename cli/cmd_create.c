/* spectool create: converts the models of a Modelfile to a packed file. */
#include "cli/base/out.h"
#include "cli/create_callbacks.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/user_folder.h"
#include "format/base/file.h"
#include "format/pack_contents.h"
#include "format/packfile.h"
#include "runtime/spectool.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct options {
    struct sp_create_options create;
    const char *target, *draft, *head;
    struct sp_opt_list rules, draft_texts;
    int64_t n_threads;
};

#define AT(member) .offset = offsetof(struct options, member)

static const char *const draft_types[] = {SP_DTYPE_NAMES, "auto", NULL};

static const struct sp_opt opts[] = {
    {SP_OPT_STRING, 'f', "file", NULL, "MODELFILE", AT(create.modelfile), .path = true,
     .shown = "./Modelfile", .help = "The Modelfile"},
    {SP_OPT_STRING, 0, "draft-model", NULL, "MODEL", AT(create.draft), .path = true,
     .help = "Draft model, where SOURCE is a model: a folder, a GGUF file, or a name"},
    {SP_OPT_STRING, 'o', "output", NULL, "FILE", AT(create.output), .path = true,
     .shown = "./packed.bin", .help = "Packed file to write"},
    {SP_OPT_CHOICE, 'q', "quantize", NULL, "TYPE", AT(target), .choices = sp_cmd_types,
     .shown = "as stored", .help = "Type of the target's weights"},
    {SP_OPT_CHOICE, 0, "quantize-draft", "draft-quantize", "TYPE", AT(draft),
     .choices = draft_types, .shown = "as stored",
     .help = "Type of the draft's weights; auto: the fastest by measured acceptance and the bytes "
             "that a round reads"},
    {SP_OPT_LIST, 0, "draft-text", NULL, "TEXTFILE", AT(draft_texts), .path = true,
     .shown = "built-in texts", .help = "Text to measure acceptance on for auto; repeatable"},
    SP_OPT_OUTPUT_TYPE(struct options, "--quantize"),
    SP_OPT_BUDGET(struct options),
    SP_OPT_RULE(struct options),
    SP_OPT_CALIBRATION(struct options),
    SP_OPT_DRY_RUN(struct options),
    {SP_OPT_FLAG, 0, "force", NULL, NULL, AT(create.force),
     .help = "Overwrite an existing packed file (never any other file)"},
    SP_OPT_CREATE_THREADS(struct options),
    {.kind = SP_OPT_END},
};

/* Prints a note if the checkpoint's template cannot be used. The file is created all the same,
 * since its weights are of use without a template. */
static void note_template(const char *path, const char *command)
{
    struct sp_template *template = NULL;
    struct sp_err err = {0};

    enum sp_status st = sp_template_open_file(&template, path, SP_TEMPLATE_UNKNOWN, &err);

    if (st != SP_OK && st != SP_E_NOMEM && st != SP_E_IO)
        sp_note(command, "%s; use run --raw, or a TEMPLATE line in the Modelfile", err.text);
    sp_template_close(template);
}

/* Prints what the type costs, and how a small model loses less. */
static void print_cost(enum sp_dtype type, const char *output, uint64_t n_weights,
                       bool is_calibrated)
{
    static const uint64_t SMALL = 1000000000;
    const struct sp_block_dtype *cost = sp_block_dtype_find(type);
    const char *advice = "";

    if (cost == NULL) return;
    if (n_weights < SMALL && !is_calibrated && sp_dtype_code_bits(type))
        advice = "; below 1B parameters --calibration is worth it, see spectool calibrate";
    sp_word_wrap_print(stderr, 0,
                       "%s changes the most likely token at about 1 of %s places (KL divergence "
                       "of %s to %s nats) in models of 0.1B to 0.5B parameters, at fewer in "
                       "larger ones; spectool eval %s --against SOURCE --text FILE measures it%s",
                       sp_dtype_info(type)->name, cost->places, cost->kl_from, cost->kl_to, output,
                       advice);
}

/* True if the operand is a model, false if it is the path of a Modelfile, which need not exist. */
static bool is_model(const char *operand)
{
    const char *slash = strrchr(operand, '/');

    if (strncasecmp(slash ? slash + 1 : operand, "Modelfile", strlen("Modelfile")) == 0)
        return sp_file_is_folder(operand);
    return sp_packed_checkpoint_is_model(operand);
}

/* Refuses a packed file, which needs no packing, and a calibration. */
static enum sp_status refuse_packed(const char *path, struct sp_err *err)
{
    struct sp_pack *pack = NULL;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, path, err))) return st;
    st = sp_pack_expect_model(pack, err);
    sp_pack_close(pack);
    if (st) return st;
    return sp_fail(err, SP_E_USAGE,
                   "%s is a packed file already: spectool quantize changes its types, "
                   "--draft-model gives its target another draft",
                   path);
}

/* Refuses what is neither a Modelfile nor a model. */
static enum sp_status check_operand(const struct options *o, const struct sp_args *args,
                                    const char *operand, bool is_from, struct sp_err *err)
{
    if (args->n_operands > 1) {
        return sp_fail(err, SP_E_USAGE, "unexpected argument %s; -o %s names the output",
                       args->operands[1], args->operands[1]);
    }
    if (o->create.modelfile && operand)
        return sp_fail(err, SP_E_USAGE,
                       "--file and %s cannot be combined; -o %s.bin names the output", operand,
                       operand);
    if (o->create.draft && !is_from) {
        return sp_fail(err, SP_E_USAGE,
                       "--draft-model requires a model as SOURCE; in a Modelfile write DRAFT %s",
                       o->create.draft);
    }
    if (operand && o->create.draft == NULL && sp_pack_is_file(operand))
        return refuse_packed(operand, err);
    return operand ? sp_packed_checkpoint_check(operand, err) : SP_OK;
}

/* Says that only the target was quantized, where the draft is large. */
static void note_types(const struct options *o, const struct sp_create_report *report,
                       const char *command)
{
    bool has_type = o->target || o->rules.n || o->create.budget.size || o->create.budget.bits > 0;

    if (has_type && o->draft == NULL && sp_create_is_large(report, SP_PART_DRAFT)) {
        sp_note(command, "only the target was quantized; --quantize-draft q4 makes the draft "
                         "smaller and faster, too");
    }
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_user_stores user;
    const char *operand = args->n_operands ? args->operands[0] : NULL;
    const bool is_from = operand && is_model(operand);
    struct sp_create_listener listener = {.command = args->command->name};
    const char *output = o->create.output ? o->create.output : SP_CREATE_OUTPUT;
    struct sp_create_report report;
    const bool is_auto = o->draft && strcmp(o->draft, "auto") == 0;
    enum sp_status st;
    struct sp_create_options create = o->create;

    if ((st = check_operand(o, args, operand, is_from, err))) return st;
    if (o->draft_texts.n && !is_auto)
        return sp_fail(err, SP_E_USAGE, "--draft-text requires --quantize-draft auto");
    if ((st = sp_create_check_budget(&create.budget, o->target, err))) return st;
    if (operand) create.modelfile = is_from ? NULL : operand;
    if (is_from) create.from = operand;
    create.home = getenv("HOME");
    create.check_template = sp_create_check_template;
    create.target_type = sp_create_type(o->target);
    create.draft_type = is_auto ? SP_DTYPE_NONE : sp_create_type(o->draft);
    create.output_type = sp_create_type(o->head);
    create.n_threads = (unsigned)o->n_threads;
    if ((st = sp_create_rules(&create.rules, &o->rules, err))) return st;
    sp_user_stores_find(&user);
    create.stores = user.stores;
    sp_create_attach(&create.callbacks, &listener);
    st = is_auto ? sp_create_auto_draft(&report, &create, &o->draft_texts, args->command->name, err)
                 : sp_create_checked(&report, &create, false, args->command->name, err);
    free(create.rules.rules);
    sp_progress_end(&listener.progress);
    if (st) return st;
    if (!create.dry_run) note_template(output, args->command->name);
    sp_create_print_report(&report, output);
    note_types(o, &report, args->command->name);
    if (o->target && report.n_blocks)
        print_cost(create.target_type, output, report.n_weights[SP_PART_TARGET],
                   create.calibration != NULL);
    if (!create.dry_run && sp_out_is_terminal(stderr)) {
        fprintf(stderr,
                report.embeds ? "next: spectool embed %s TEXT\n" : "next: spectool run %s\n",
                output);
    }
    return SP_OK;
}

const struct sp_command sp_cmd_create = {
    .name = "create",
    .summary = "Create a packed file from a Modelfile or a model",
    .operands = "[SOURCE]",
    .max_operands = 2, /* the second is refused with what to write instead */
    .opts = opts,
    .options_size = sizeof(struct options),
    .details =
        "SOURCE is a Modelfile, or a model that needs none: a checkpoint folder, a GGUF file, or "
        "the name of a model in the Hugging Face cache or ollama's store.",
    .run = run,
};
