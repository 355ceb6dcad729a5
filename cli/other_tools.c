#include "cli/other_tools.h"

#include <stddef.h>
#include <string.h>

#define GENERATES "spectool run FILE [PROMPT] generates text, without PROMPT in a session"
#define MANAGES_FILES                                                                              \
    "models are files: use ls, cp, mv and rm; run keeps what it packed in ~/.cache/spectool"
#define CONVERTS "spectool create packs a model, and spectool run DIR packs a folder by itself"

static const struct {
    const char *command, *hint;
} hints[] = {
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
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strcmp(hints[i].command, command) == 0) return hints[i].hint;
    return NULL;
}
