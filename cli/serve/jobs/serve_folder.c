#define _XOPEN_SOURCE 700 /* realpath */

#include "cli/serve/jobs/serve_model.h"
#include "cli/base/out.h"
#include "format/base/affix.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/base/strbuf.h"
#include "format/packfile.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum sp_status sp_serve_name_of(char **out, const char *given, struct sp_err *err)
{
    const bool is_folder = sp_file_is_folder(given);
    char whole[PATH_MAX];
    size_t start, end, dot;

    if (!is_folder && !sp_file_exists(given)) return sp_copy_text(out, given, strlen(given), err);
    /* "." and ".." have names, too. */
    if (given[strspn(given, "./")] == '\0' && realpath(given, whole) != NULL) given = whole;
    end = strlen(given);
    while (end > 1 && given[end - 1] == '/')
        end--;
    for (start = end; start > 0 && given[start - 1] != '/';)
        start--;
    for (dot = end; !is_folder && dot > start && given[dot] != '.';)
        dot--;
    if (!is_folder && dot > start) end = dot;
    return sp_copy_text(out, given + start, end - start, err);
}

enum sp_status sp_serve_paths_add(struct sp_serve_paths *paths, const char *given, const char *path,
                                  bool is_named, struct sp_err *err)
{
    struct sp_serve_path *p;
    enum sp_status st = sp_grow(&paths->at, &paths->cap, paths->n + 1, sizeof *paths->at, err);

    if (st) return st;
    p = &paths->at[paths->n++];
    *p = (struct sp_serve_path){.is_named = is_named};
    if ((st = sp_copy_text(&p->given, given, strlen(given), err))) return st;
    if ((st = sp_serve_name_of(&p->name, given, err))) return st;
    return sp_copy_text(&p->path, path, strlen(path), err);
}

static enum sp_status add_if_packed(struct sp_serve_paths *paths, const char *folder,
                                    const char *name, struct sp_strbuf *others, struct sp_err *err)
{
    char *path = NULL;
    bool is_packed = false;
    struct sp_err own = {0};
    struct stat info;
    enum sp_status st;

    if (name[0] == '.') return SP_OK;
    if ((st = sp_file_join(&path, folder, name, err))) return st;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
        sp_pack_recognize(&is_packed, path, &own))
        sp_note("serve", "%s", own.text);
    if (is_packed) {
        st = sp_serve_paths_add(paths, path, path, false, err);
    } else if (sp_ends_with(name, ".gguf") || sp_file_exists_in(path, "config.json")) {
        if (others->len) st = sp_strbuf_append(others, ", ", 2, err);
        if (!st) st = sp_strbuf_append(others, name, strlen(name), err);
    }
    free(path);
    return st;
}

enum sp_status sp_serve_paths_add_folder(struct sp_serve_paths *paths, const char *folder,
                                         struct sp_err *err)
{
    size_t before = paths->n;
    struct dirent **entries = NULL;
    struct sp_strbuf others = {0};
    enum sp_status st = SP_OK;
    int n = scandir(folder, &entries, NULL, alphasort);

    if (n < 0) return sp_fail(err, SP_E_IO, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (!st) st = add_if_packed(paths, folder, entries[i]->d_name, &others, err);
        free(entries[i]);
    }
    free(entries);
    if (!st && others.len) {
        sp_note("serve", "%s: not served, since not packed: %.*s; named by themselves they are",
                folder, (int)(others.len < 300 ? others.len : 300), others.at);
    }
    sp_strbuf_release(&others);
    if (!st && paths->n == before)
        st = sp_fail(err, SP_E_INPUT,
                     "%s: the folder has no packed file, which spectool create makes of a "
                     "checkpoint",
                     folder);
    return st;
}

void sp_serve_paths_release(struct sp_serve_paths *paths)
{
    while (paths->n > 0) {
        struct sp_serve_path *p = &paths->at[--paths->n];
        free(p->given);
        free(p->name);
        free(p->path);
    }
    free(paths->at);
    *paths = (struct sp_serve_paths){0};
}

/* ---- LoRA adapters ---- */

static enum sp_status add_adapter(struct sp_serve_adapters *a, const char *value,
                                  struct sp_err *err)
{
    const char *at = strchr(value, '=');
    enum sp_status st;

    if (at == NULL || at == value || at[1] == '\0')
        return sp_fail(err, SP_E_USAGE, "--adapter: \"%s\", expected NAME=PATH", value);
    if ((st = sp_copy_text(&a->names[a->n], value, (size_t)(at - value), err))) return st;
    a->paths[a->n++] = at + 1;
    for (size_t i = 0; i + 1 < a->n; i++) {
        if (strcmp(a->names[i], a->names[a->n - 1]) != 0) continue;
        return sp_fail(err, SP_E_USAGE, "--adapter: two adapters have the name %s", a->names[i]);
    }
    return SP_OK;
}

enum sp_status sp_serve_adapters_read(struct sp_serve_adapters *out, const struct sp_opt_list *list,
                                      struct sp_err *err)
{
    struct sp_serve_adapters a = {0};
    enum sp_status st;

    if (!(st = sp_new(&a.names, list->n, sizeof *a.names, err)))
        st = sp_new(&a.paths, list->n, sizeof *a.paths, err);
    for (size_t i = 0; i < list->n && !st; i++)
        st = add_adapter(&a, list->items[i], err);
    if (st) sp_serve_adapters_release(&a);
    *out = a;
    return st;
}

void sp_serve_adapters_release(struct sp_serve_adapters *a)
{
    while (a->n > 0)
        free(a->names[--a->n]);
    free(a->names);
    free(a->paths);
    *a = (struct sp_serve_adapters){0};
}
