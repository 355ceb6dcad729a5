#include "cli/user_stores.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Writes the value of `variable`, followed by `below`. false: it is unset or does not fit. */
static bool print_folder(char *out, size_t size, const char *variable, const char *below)
{
    const char *value = getenv(variable);
    int n = value && *value ? snprintf(out, size, "%s%s", value, below) : 0;

    return n > 0 && (size_t)n < size;
}

void sp_user_stores_find(struct sp_user_stores *out)
{
    static const char system_models[] = "/usr/share/ollama/.ollama/models";
    char *hub = out->hub, *ollama = out->ollama;
    const size_t size = sizeof out->hub;

    out->stores = (struct sp_source_stores){NULL, ollama};
    if (print_folder(hub, size, "HF_HUB_CACHE", "") || print_folder(hub, size, "HF_HOME", "/hub") ||
        print_folder(hub, size, "XDG_CACHE_HOME", "/huggingface/hub") ||
        print_folder(hub, size, "HOME", "/.cache/huggingface/hub"))
        out->stores.hub = hub;
    if (print_folder(ollama, size, "OLLAMA_MODELS", "")) return;
    if (!print_folder(ollama, size, "HOME", "/.ollama/models") || access(ollama, F_OK) != 0)
        out->stores.ollama = system_models;
}
