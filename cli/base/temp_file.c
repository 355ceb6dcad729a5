#include "cli/base/temp_file.h"

#include "format/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
