/* spectool create: converts the models of a Modelfile to a packed file. */
#include "cli/create_callbacks.h"
#include "format/packfile.h"
#include "runtime/spectool.h"

#include <stdlib.h>
#include <unistd.h>

struct options {
    const char *modelfile, *output, *target, *draft, *head, *calibration;
    struct sp_opt_list rules;
    struct sp_budget budget;
    int64_t n_threads;
    bool dry_run, force;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_STRING, 'f', "file", NULL, "MODELFILE", AT(modelfile), .path = true,
     .shown = "./Modelfile", .help = "The Modelfile"},
    {SP_OPT_STRING, 'o', "output", NULL, "FILE", AT(output), .path = true, .shown = "./packed.bin",
     .help = "Packed file to write"},
    {SP_OPT_CHOICE, 'q', "quantize", NULL, "TYPE", AT(target), .choices = sp_cmd_types,
     .shown = "as stored", .help = "Type of the target's weights"},
    {SP_OPT_CHOICE, 0, "quantize-draft", "draft-quantize", "TYPE", AT(draft),
     .choices = sp_cmd_types, .shown = "as stored", .help = "Type of the draft's weights"},
    SP_OPT_OUTPUT_TYPE(struct options, "--quantize"),
    SP_OPT_BUDGET(struct options),
    SP_OPT_RULE(struct options),
    SP_OPT_CALIBRATION(struct options),
    SP_OPT_DRY_RUN(struct options),
    {SP_OPT_FLAG, 0, "force", NULL, NULL, AT(force),
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
    char sentence[2 * SP_ERR_TEXT];

    enum sp_status st = sp_template_open_file(&template, path, SP_TEMPLATE_UNKNOWN, &err);

    if (st != SP_OK && st != SP_E_NOMEM && st != SP_E_IO) {
        snprintf(sentence, sizeof sentence,
                 "%s; use run --raw, or a TEMPLATE line in the Modelfile", err.text);
        sp_out_note(command, sentence);
    }
    sp_template_free(template);
}

enum { FOLDER_SIZE = 4096 };

/* `variable`, with `below` behind it, if it is set and fits; else NULL. */
static const char *folder_of(char out[FOLDER_SIZE], const char *variable, const char *below)
{
    const char *value = getenv(variable);
    int n = value && *value ? snprintf(out, FOLDER_SIZE, "%s%s", value, below) : 0;

    return n > 0 && n < FOLDER_SIZE ? out : NULL;
}

/* The folders that Hugging Face's tools and ollama use, by their environment variables. */
static struct sp_source_stores find_stores(char hub[FOLDER_SIZE], char ollama[FOLDER_SIZE])
{
    static const char system_models[] = "/usr/share/ollama/.ollama/models";
    struct sp_source_stores stores;

    stores.hub = folder_of(hub, "HF_HUB_CACHE", "");
    if (!stores.hub) stores.hub = folder_of(hub, "HF_HOME", "/hub");
    if (!stores.hub) stores.hub = folder_of(hub, "XDG_CACHE_HOME", "/huggingface/hub");
    if (!stores.hub) stores.hub = folder_of(hub, "HOME", "/.cache/huggingface/hub");
    stores.ollama = folder_of(ollama, "OLLAMA_MODELS", "");
    if (stores.ollama) return stores;
    stores.ollama = folder_of(ollama, "HOME", "/.ollama/models");
    if (stores.ollama == NULL || access(stores.ollama, F_OK) != 0) stores.ollama = system_models;
    return stores;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    char hub[FOLDER_SIZE], ollama[FOLDER_SIZE];
    const char *modelfile = args->n_operands ? args->operands[0] : o->modelfile;
    struct sp_create_listener listener = {.command = args->command->name};
    const char *output = o->output ? o->output : "packed.bin";
    struct sp_create_report report;
    enum sp_status st;
    struct sp_create_options create = {
        .modelfile = modelfile,
        .output = o->output,
        .home = getenv("HOME"),
        .stores = find_stores(hub, ollama),
        .check_template = sp_template_check,
        .target_type = sp_create_type(o->target),
        .draft_type = sp_create_type(o->draft),
        .output_type = sp_create_type(o->head),
        .budget = o->budget,
        .calibration = o->calibration,
        .n_threads = (unsigned)o->n_threads,
        .force = o->force,
        .dry_run = o->dry_run,
    };

    if (o->modelfile && args->n_operands) {
        return sp_fail(err, SP_E_USAGE, "--file and MODELFILE cannot be combined");
    }
    if ((st = sp_create_check_budget(&o->budget, o->target, err))) return st;
    if ((st = sp_create_rules(&create.rules, &o->rules, err))) return st;
    sp_create_attach(&create.callbacks, &listener);
    st = sp_create(&report, &create, err);
    free(create.rules.rules);
    sp_progress_end(&listener.progress);
    if (st) return st;
    if (!o->dry_run) note_template(output, args->command->name);
    sp_create_print_report(&report, output);
    return SP_OK;
}

static const struct options defaults = {0};

const struct sp_command sp_cmd_create = {
    .name = "create",
    .summary = "Create a packed file from a Modelfile",
    .operands = "[MODELFILE]",
    .max_operands = 1,
    .opts = opts,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .run = run,
};
