#include "format/system/control_group.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Returns true if `name` is one of the words of a comma-separated list. */
static bool has_word(const char *list, size_t len, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list, *end = list + len; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t word = (size_t)((comma ? comma : end) - at);
        if (word == n && memcmp(at, name, n) == 0) return true;
        at += word + 1;
    }
    return false;
}

/* The parts of a line "number:controllers:path"; version 2 has no controllers. */
struct line {
    const char *controllers, *path;
    size_t n_controllers, n_path;
};

static bool split_line(struct line *out, const char *line, size_t len)
{
    const char *first = memchr(line, ':', len), *second;

    if (first == NULL) return false;
    first++;
    second = memchr(first, ':', len - (size_t)(first - line));
    if (second == NULL) return false;
    *out = (struct line){first, second + 1, (size_t)(second - first),
                         len - (size_t)(second + 1 - line)};
    return true;
}

/* A group's folder is root, then in version 1 the controller, then its path. */
static void each_group(const struct line *line, const char *root, const char *controller,
                       sp_control_group_fn *fn, void *context)
{
    bool version_1 = line->n_controllers > 0;
    char folder[PATH_MAX];
    size_t n_root;
    int n;

    if (version_1 && !has_word(line->controllers, line->n_controllers, controller)) return;
    n = snprintf(folder, sizeof folder, "%s%s%s", root, version_1 ? "/" : "",
                 version_1 ? controller : "");
    if (n < 0 || (size_t)n + line->n_path >= sizeof folder) return;
    n_root = (size_t)n;
    memcpy(folder + n_root, line->path, line->n_path);
    folder[n_root + line->n_path] = '\0';
    if (line->n_path == 1) folder[n_root] = '\0'; /* the root: "/" */
    for (char *slash;;) {
        fn(context, folder);
        if ((slash = strrchr(folder + n_root, '/')) == NULL) return;
        *slash = '\0';
    }
}

void sp_each_control_group(const char *list, const char *root, const char *controller,
                           sp_control_group_fn *fn, void *context)
{
    struct line line;

    while (*list) {
        size_t len = strcspn(list, "\n");
        if (split_line(&line, list, len)) each_group(&line, root, controller, fn, context);
        list += len + (list[len] == '\n');
    }
}

void sp_each_own_control_group(const char *controller, sp_control_group_fn *fn, void *context)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    char list[1 << 14];
    size_t size;

    if (f == NULL) return;
    size = fread(list, 1, sizeof list - 1, f);
    list[size] = '\0';
    fclose(f);
    sp_each_control_group(list, "/sys/fs/cgroup", controller, fn, context);
}
