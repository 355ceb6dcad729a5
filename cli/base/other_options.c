#include "cli/base/other_options.h"

#include <string.h>

#define CPU_ONLY "spectool runs on the CPU only"
#define NOT_NEEDED "it is not needed here"
#define MAPPED "packed files are always mapped into memory"
#define SESSION "without PROMPT an interactive session starts by itself"
#define PROMPT_FILE "a prompt in a file is read from standard input, <FILE"
#define SHOWS "show FILE --modelfile prints it"

/* Rows without a command are for all commands that have the option, or the operand. */
static const struct {
    const char *theirs, *ours, *hint; /* "" is an operand, not an option */
    const char *command;
} rows[] = {
    {"n", "num-predict", NULL, NULL},
    {"n-predict", "num-predict", NULL, NULL},
    {"max-tokens", "num-predict", NULL, NULL},
    {"c", "num-ctx", NULL, NULL},
    {"ctx-size", "num-ctx", NULL, NULL},
    {"max-kv-size", "num-ctx", NULL, NULL},
    {"ctx", "num-ctx", NULL, NULL},
    {"imatrix", "calibration", NULL, NULL},
    {"outtype", "quantize", NULL, NULL},
    {"allow-requantize", "requantize", NULL, NULL},
    {"draft", "draft-model", NULL, NULL},
    {"md", "draft-model", NULL, NULL},
    {"t", "threads", NULL, NULL},
    {"s", "seed", NULL, NULL},
    {"temp", "temperature", NULL, NULL},
    {"cache-type-k", "kv-type", NULL, NULL},
    {"cache-type-v", "kv-type", NULL, NULL},
    {"ctk", "kv-type", NULL, NULL},
    {"ctv", "kv-type", NULL, NULL},
    {"draft-max", "draft-depth", NULL, NULL},
    {"num-draft-tokens", "draft-depth", NULL, NULL},
    {"sys", "system", NULL, NULL},
    {"system-prompt", "system", NULL, NULL},
    {"ignore-chat-template", "raw", NULL, NULL},
    {"lora", "adapter", NULL, NULL},
    {"adapter-path", "adapter", NULL, NULL},
    {"np", "sessions", NULL, NULL},
    {"parallel", "sessions", NULL, NULL},
    {"a", "name", NULL, NULL},
    {"alias", "name", NULL, NULL},
    {"v", "verbose", NULL, NULL},
    {"hf", "", NULL, NULL},
    {"hf-repo", "", NULL, NULL},
    {"m", "", NULL, NULL},
    {"model", "", NULL, NULL},
    {"p", "", NULL, NULL},
    {"ids", "", NULL, NULL},
    {"text", "", NULL, NULL},
    {"prompt", "", NULL, NULL},
    {"ngl", NULL, CPU_ONLY, NULL},
    {"n-gpu-layers", NULL, CPU_ONLY, NULL},
    {"gpu-layers", NULL, CPU_ONLY, NULL},
    {"gpu", NULL, CPU_ONLY, NULL},
    {"gpus", NULL, CPU_ONLY, NULL},
    {"main-gpu", NULL, CPU_ONLY, NULL},
    {"fa", NULL, NOT_NEEDED, NULL},
    {"flash-attn", NULL, NOT_NEEDED, NULL},
    {"jinja", NULL, NOT_NEEDED, NULL},
    {"no-mmap", NULL, MAPPED, NULL},
    {"mlock", NULL, MAPPED, NULL},
    {"i", NULL, SESSION, "run"},
    {"interactive", NULL, SESSION, "run"},
    {"cnv", NULL, SESSION, "run"},
    {"conversation", NULL, SESSION, "run"},
    {"f", NULL, PROMPT_FILE, "run"},
    {"file", NULL, PROMPT_FILE, "run"},
    {"keepalive", NULL, "run closes the model when it ends; serve has --keep-alive", "run"},
    {"api-key", NULL, "the variable SPECTOOL_API_KEY has the key, or --api-key-file FILE", "serve"},
    {"embedding", NULL, NOT_NEEDED, "serve"},
    {"embeddings", NULL, NOT_NEEDED, "serve"},
    {"reranking", NULL, NOT_NEEDED, "serve"},
    {"metrics", NULL, NOT_NEEDED, "serve"},
    {"", NULL, "-q sets the type, as in quantize -q q4 IN OUT", "quantize"},
    {"o", "", NULL, "quantize"},
    {"output", "", NULL, "quantize"},
    {"parameters", NULL, SHOWS, "show"},
    {"system", NULL, SHOWS, "show"},
    {"license", NULL, SHOWS, "show"},
};

static bool has_option(const struct sp_opt *o, const char *name)
{
    while (o->kind != SP_OPT_END && (o->kind == SP_OPT_HEADING || strcmp(o->name, name) != 0))
        o++;
    return o->kind != SP_OPT_END;
}

void sp_other_option_find(const char **ours, const char **hint, const struct sp_command *command,
                          const char *name)
{
    *ours = *hint = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *same = rows[i].ours, *only = rows[i].command;
        if (strcmp(rows[i].theirs, name) != 0 || (only && strcmp(only, command->name) != 0))
            continue;
        if (same && !(*same ? has_option(command->opts, same) : command->max_operands > 0))
            continue;
        *ours = same;
        *hint = rows[i].hint;
        return;
    }
}
