#include "cli/base/other_tools.h"

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
} options[] = {
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
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *same = options[i].ours, *only = options[i].command;
        if (strcmp(options[i].theirs, name) != 0 || (only && strcmp(only, command->name) != 0))
            continue;
        if (same && !(*same ? has_option(command->opts, same) : command->max_operands > 0))
            continue;
        *ours = same;
        *hint = options[i].hint;
        return;
    }
}

#define GENERATES "spectool run FILE [PROMPT] generates text, without PROMPT in a session"
#define MANAGES_FILES                                                                              \
    "models are files: use ls, cp, mv and rm; run keeps what it packed in ~/.cache/spectool"
#define CONVERTS "spectool create packs a model, and spectool run DIR packs a folder by itself"

static const struct {
    const char *command, *hint;
} commands[] = {
    {"pull", "spectool downloads nothing; hf download ORG/NAME, then spectool run ORG/NAME"},
    {"download", "spectool downloads nothing; hf download ORG/NAME, then spectool run ORG/NAME"},
    {"push", "a packed file can be copied to any place, and spectool export writes a checkpoint"},
    {"upload", "a packed file can be copied to any place, and spectool export writes a checkpoint"},
    {"list", MANAGES_FILES "; spectool show FILE... describes them"},
    {"ls", MANAGES_FILES "; spectool show FILE... describes them"},
    {"rm", MANAGES_FILES},
    {"cp", MANAGES_FILES},
    {"ps", "GET /api/ps of spectool serve lists the models that are open"},
    {"stop",
     "Ctrl-C or SIGTERM ends spectool serve; \"keep_alive\": 0 in a request closes a model"},
    {"cli", GENERATES},
    {"chat", GENERATES},
    {"generate", GENERATES},
    {"completion", GENERATES},
    {"server", "spectool serve FILE|DIR... serves models"},
    {"start", "spectool serve FILE|DIR... serves models"},
    {"convert", CONVERTS},
    {"pack", CONVERTS},
    {"import", CONVERTS},
    {"info", "spectool show FILE... describes packed files"},
    {"benchmark", "spectool bench FILE measures speed"},
    {"evaluate", "spectool eval FILE --text TEXTFILE measures perplexity and divergence"},
    {"perplexity", "spectool eval FILE --text TEXTFILE measures perplexity and divergence"},
    {"imatrix", "spectool calibrate FILE TEXTFILE... collects the statistics for --calibration"},
    {"embedding", "spectool embed FILE TEXT computes embeddings"},
    {"-v", "spectool --version prints the version"},
    {"-V", "spectool --version prints the version"},
    {"fuse", "a line ADAPTER ./FOLDER in the Modelfile merges an adapter"},
    {"lora", "a line ADAPTER ./FOLDER in the Modelfile merges an adapter"},
};

const char *sp_other_tools_hint(const char *command)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].command, command) == 0) return commands[i].hint;
    return NULL;
}
