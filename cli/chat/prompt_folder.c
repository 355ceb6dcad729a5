#include "cli/chat/prompt_folder.h"

#include "cli/base/user_folder.h"
#include "cli/base/word_wrap.h"
#include "format/base/file.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

static void note(void *context, const char *sentence)
{
    sp_note(context, "%s", sentence);
}

static enum sp_status find_folder(char **folder, const char *given, struct sp_err *err)
{
    char *cache = NULL;
    enum sp_status st;

    if (given) return sp_copy_text(folder, given, strlen(given), err);
    if ((st = sp_user_folder(&cache, "XDG_CACHE_HOME", ".cache", err))) return st;
    st = sp_file_join(folder, cache, "prompts", err);
    free(cache);
    return st;
}

enum sp_status sp_prompt_folder_open(struct sp_prompt_cache **out, char **folder,
                                     const struct sp_backend_opts *o, const char *command,
                                     struct sp_err *err)
{
    struct sp_prompt_cache_options options = {
        .size = sizeof options, .limit = o->cache_size, .note = note};
    struct sp_err why = {0};
    enum sp_status st;

    options.context = (void *)(uintptr_t)command;
    *out = NULL;
    *folder = NULL;
    if ((st = find_folder(folder, o->cache_dir, &why)) == SP_OK) {
        options.folder = *folder;
        st = sp_prompt_cache_open(out, &options, &why);
    }
    if (st == SP_OK) return SP_OK;
    free(*folder);
    *folder = NULL;
    return o->cache_dir ? sp_fail_as(err, &why) : SP_OK;
}
