#include "cli/base/user_folder.h"
#include "format/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <dirent.h>

/* Creates a folder and its parents. */
static enum sp_status make_folders(char *path, struct sp_err *err)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    if (mkdir(path, 0700) == 0 || errno == EEXIST) return SP_OK;
    return sp_fail(err, SP_E_IO, "%s: %s", path, strerror(errno));
}

enum sp_status sp_user_file(char **path, const char *variable, const char *otherwise,
                            const char *name, struct sp_err *err)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    char *folder = NULL, *whole = NULL;
    enum sp_status st;

    if ((base == NULL || *base != '/') && (home == NULL || *home == '\0'))
        return sp_fail(err, SP_E_IO, "neither %s nor HOME is set", variable);
    if (base && *base == '/')
        st = sp_file_join(&whole, base, "spectool", err);
    else if ((st = sp_file_join(&folder, home, otherwise, err)) == SP_OK)
        st = sp_file_join(&whole, folder, "spectool", err);
    free(folder);
    if (st == SP_OK && (st = make_folders(whole, err)) == SP_OK)
        st = sp_file_join(path, whole, name, err);
    free(whole);
    return st;
}

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

/* ---- temporary files ---- */

enum sp_status sp_temp_file_open(struct sp_temp_file *out, const char *name, struct sp_err *err)
{
    const char *tmp = getenv("TMPDIR");
    char *folder = NULL;
    enum sp_status st;

    if (tmp == NULL || *tmp == '\0') tmp = "/tmp";
    if ((st = sp_file_join(&folder, tmp, "spectool.XXXXXX", err))) return st;
    if (mkdtemp(folder) == NULL) {
        st = sp_fail(err, SP_E_IO, "%s: %s", folder, strerror(errno));
        free(folder);
        return st;
    }
    out->folder = folder;
    return sp_file_join(&out->path, folder, name, err);
}

/* Removes the folder and its files: an editor may leave a backup beside the file. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    while (folder && (entry = readdir(folder)) != NULL)
        unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) closedir(folder);
    rmdir(path);
}

void sp_temp_file_remove(struct sp_temp_file *t)
{
    if (t->folder) remove_folder(t->folder);
    free(t->path);
    free(t->folder);
    *t = (struct sp_temp_file){0};
}
