/* spectool export: converts a packed file to checkpoints in the Hugging Face format. */
#include "cli/create_callbacks.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/user_folder.h"
#include "convert/export/export.h"

struct options {
    struct sp_create_options export;
    const char *type;
    int64_t n_threads;
};

#define AT(member) .offset = offsetof(struct options, member)

static const char *const types[] = {"f32", "f16", "bf16", NULL};

static const struct sp_opt opts[] = {
    {SP_OPT_CHOICE, 0, "type", NULL, "TYPE", AT(type), .choices = types,
     .shown = "the type that config.json gives, or bf16",
     .help = "Type to which quantized tensors are dequantized; others keep their type"},
    {SP_OPT_SIZE, 0, "shard-size", NULL, "SIZE", AT(export.shard_size), .shown = "5G",
     .help = "Maximum size of one weights file in bytes, or with k, M, G, Ki, Mi or Gi"},
    {SP_OPT_FLAG, 0, "dry-run", NULL, NULL, AT(export.dry_run),
     .help = "Print what would be written, one tensor per line, and exit"},
    {SP_OPT_FLAG, 0, "force", NULL, NULL, AT(export.force),
     .help = "Overwrite DIR if it holds nothing but an export"},
    SP_OPT_CREATE_THREADS(struct options),
    {.kind = SP_OPT_END},
};

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_create_listener listener = {.command = args->command->name};
    struct sp_create_report report;
    struct sp_user_stores user;
    enum sp_status st;
    struct sp_create_options export = o->export;

    export.from = args->operands[0];
    export.output = args->operands[1];
    export.target_type = sp_create_type(o->type);
    export.n_threads = (unsigned)o->n_threads;
    sp_create_attach(&export.callbacks, &listener);
    sp_user_stores_find(&user);
    export.stores = user.stores;
    if ((st = sp_packed_checkpoint_check_name(args->operands[0], err))) return st;
    st = sp_export(&report, &export, err);
    sp_progress_end(&listener.progress);
    if (st == SP_OK) sp_create_print_report(&report, args->operands[1]);
    return st;
}

const struct sp_command sp_cmd_export = {
    .name = "export",
    .summary = "Export a packed file as Hugging Face checkpoints",
    .operands = "FILE DIR",
    .min_operands = 2,
    .max_operands = 2,
    .opts = opts,
    .options_size = sizeof(struct options),
    .takes_model = true,
    .in_place = true,
    .details = "Writes the checkpoints DIR/target and DIR/draft, and a DIR/Modelfile from which "
               "spectool\ncreate packs them again.",
    .run = run,
};
