#include "cli/base/out.h"

#include <stdio.h>
#include <string.h>

static const char *const advice[SP_N_TOPICS] = {
    [SP_TOPIC_EXISTING] = ", --force replaces it",
    [SP_TOPIC_CACHES] = " (--num-ctx, --memory and --kv-type bound them)",
    [SP_TOPIC_MEMORY_LIMIT] = " (--memory)",
    [SP_TOPIC_POOLING] = "; --pooling last or mean chooses one",
    [SP_TOPIC_RANKING] = "; --pooling rank takes Qwen3-Reranker's prompt",
    [SP_TOPIC_CACHE_TYPES] =
        "; spectool create --calibration records it, of a calibration that was "
        "made with --sensitivity",
    [SP_TOPIC_CALIBRATION] = ": spectool create and quantize read it as --calibration",
    [SP_TOPIC_OUTPUT] = ": --force replaces it, -o FILE writes another file",
    [SP_TOPIC_NO_DRAFT] = "; --draft-model, or a DRAFT line of the Modelfile, names one",
    [SP_TOPIC_ROUNDED] = ", or use spectool quantize --requantize",
    [SP_TOPIC_RULE] = "; --dry-run lists them",
};

void sp_advise(struct sp_err *err)
{
    size_t n = strlen(err->text);

    if (advice[err->topic]) snprintf(err->text + n, sizeof err->text - n, "%s", advice[err->topic]);
    err->topic = SP_TOPIC_NONE;
}
