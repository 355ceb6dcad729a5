#include "cli/base/opt.h"
#include "format/base/affix.h"

#include <string.h>

#define NOT_NEEDED "it is not needed here"

/* Words of other tools, and what they are here. Rows without a command are for all commands that
 * have the option, or the operand. */
static const struct {
    const char *theirs, *ours, *hint; /* ours: "" is an operand, not an option */
    const char *command;
} options[] = {
    {"n n-predict max-tokens", "num-predict", NULL, NULL},
    {"c ctx-size max-kv-size ctx", "num-ctx", NULL, NULL},
    {"imatrix", "calibration", NULL, NULL},
    {"outtype", "quantize", NULL, NULL},
    {"allow-requantize", "requantize", NULL, NULL},
    {"draft md", "draft-model", NULL, NULL},
    {"t", "threads", NULL, NULL},
    {"s", "seed", NULL, NULL},
    {"temp", "temperature", NULL, NULL},
    {"cache-type-k cache-type-v ctk ctv", "kv-type", NULL, NULL},
    {"draft-max num-draft-tokens", "draft-depth", NULL, NULL},
    {"sys system-prompt", "system", NULL, NULL},
    {"ignore-chat-template", "raw", NULL, NULL},
    {"lora adapter-path", "adapter", NULL, NULL},
    {"np parallel", "sessions", NULL, NULL},
    {"a alias", "name", NULL, NULL},
    {"v", "verbose", NULL, NULL},
    {"hf hf-repo m model p ids text prompt", "", NULL, NULL},
    {"ngl n-gpu-layers gpu-layers gpu gpus main-gpu", NULL, "spectool runs on the CPU only", NULL},
    {"fa flash-attn jinja", NULL, NOT_NEEDED, NULL},
    {"no-mmap mlock", NULL, "packed files are always mapped into memory", NULL},
    {"i interactive cnv conversation", NULL,
     "without PROMPT an interactive session starts by itself", "run"},
    {"f file", NULL, "a prompt in a file is read from standard input, <FILE", "run"},
    {"keepalive", NULL, "run closes the model when it ends; serve has --keep-alive", "run"},
    {"api-key", NULL, "the variable SPECTOOL_API_KEY has the key, or --api-key-file FILE", "serve"},
    {"embedding embeddings reranking metrics", NULL, NOT_NEEDED, "serve"},
    {"", NULL, "-q sets the type, as in quantize -q q4 IN OUT", "quantize"},
    {"o output", "", NULL, "quantize"},
    {"parameters system license", NULL, "show FILE --modelfile prints it", "show"},
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
        const char *theirs = options[i].theirs;
        if (!(*theirs ? sp_is_among(name, theirs) : *name == '\0') ||
            (only && strcmp(only, command->name) != 0))
            continue;
        if (same && !(*same ? has_option(command->opts, same) : command->max_operands > 0))
            continue;
        *ours = same;
        *hint = options[i].hint;
        return;
    }
}

#define MANAGES_FILES                                                                              \
    "models are files: use ls, cp, mv and rm; run keeps what it packed in ~/.cache/spectool"

static const struct {
    const char *commands, *hint;
} hints[] = {
    {"pull download",
     "spectool downloads nothing; hf download ORG/NAME, then spectool run ORG/NAME"},
    {"push upload",
     "a packed file can be copied to any place, and spectool export writes a checkpoint"},
    {"list ls", MANAGES_FILES "; spectool show FILE... describes them"},
    {"rm cp", MANAGES_FILES},
    {"ps", "GET /api/ps of spectool serve lists the models that are open"},
    {"stop",
     "Ctrl-C or SIGTERM ends spectool serve; \"keep_alive\": 0 in a request closes a model"},
    {"cli chat generate completion",
     "spectool run FILE [PROMPT] generates text, without PROMPT in a session"},
    {"server start", "spectool serve FILE|DIR... serves models"},
    {"convert pack import",
     "spectool create packs a model, and spectool run DIR packs a folder by itself"},
    {"info", "spectool show FILE... describes packed files"},
    {"benchmark", "spectool bench FILE measures speed"},
    {"evaluate perplexity",
     "spectool eval FILE --text TEXTFILE measures perplexity and divergence"},
    {"imatrix", "spectool calibrate FILE TEXTFILE... collects the statistics for --calibration"},
    {"embedding", "spectool embed FILE TEXT computes embeddings"},
    {"-v -V", "spectool --version prints the version"},
    {"fuse lora", "a line ADAPTER ./FOLDER in the Modelfile merges an adapter"},
};

const char *sp_other_tools_hint(const char *command)
{
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (sp_is_among(command, hints[i].commands)) return hints[i].hint;
    return NULL;
}
