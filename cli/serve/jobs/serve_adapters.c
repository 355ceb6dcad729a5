#include "cli/serve/jobs/serve_adapters.h"

#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

static enum sp_status add(struct sp_serve_adapters *a, const char *value, struct sp_err *err)
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
        st = add(&a, list->items[i], err);
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
