#include "cli/serve/serve_start.h"
#include "cli/base/out.h"
#include "cli/chat/loaded_model.h"
#include "format/base/clock.h"
#include "format/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Reads the description of a file that was replaced after it had been read. */
static enum sp_status update(const struct sp_serve_opener *o, struct sp_serve_model *m,
                             struct sp_err *err)
{
    struct sp_serve_file fresh = {0}, old;
    char digest[17];
    enum sp_status st;

    snprintf(digest, sizeof digest, "%016" PRIx64, m->loaded->info.identity);
    if (strcmp(digest, m->file.digest) == 0) return SP_OK;
    if ((st = sp_serve_file_read(&fresh, m->path, m->names[0], &o->options, err))) return st;
    sp_serve_models_lock(o->serve->models);
    old = m->file;
    m->file = fresh;
    sp_serve_models_unlock(o->serve->models);
    sp_serve_file_release(&old);
    return SP_OK;
}

/* True if the statistics of drafting with the open model are kept. */
static bool caches_drafting(const struct sp_serve_opener *o, const struct sp_serve_model *m)
{
    return !o->no_cache && m->loaded->info.draft && !m->loaded->no_draft;
}

static enum sp_status open_model(void *context, struct sp_serve_model *m, struct sp_err *err)
{
    const struct sp_serve_opener *o = context;
    double began = sp_seconds();
    enum sp_status st = sp_serve_model_open(m, &o->options, err);

    if (st) return st;
    if ((st = update(o, m, err))) {
        sp_serve_model_close(m);
        return st;
    }
    if (caches_drafting(o, m)) sp_drafting_cache_load(m->loaded->package);
    if (o->verbose) {
        const struct sp_chat_info *chat = &m->loaded->conversation.chat_info;
        sp_settings_print(stderr, m->loaded->settings);
        fprintf(stderr, "reasoning: %s\ntool calls: %s\n", chat->reasoning, chat->tool_calls);
    }
    sp_serve_log_model(o->serve, m, "opened", sp_seconds() - began);
    return SP_OK;
}

static void close_model(void *context, struct sp_serve_model *m)
{
    const struct sp_serve_opener *o = context;
    double began = sp_seconds();

    if (caches_drafting(o, m)) sp_drafting_cache_save(m->loaded->package);
    sp_serve_model_close(m);
    sp_serve_log_model(o->serve, m, "closed", sp_seconds() - began);
}

static bool trim_model(void *context, struct sp_serve_model *m)
{
    (void)context;
    return sp_session_pool_clear_oldest(m->sessions);
}

static enum sp_status check_names(const struct sp_serve *s, struct sp_err *err)
{
    for (size_t i = 0; i < s->n_models; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(s->all[i].names[0], s->all[k].names[0]) != 0) continue;
            return sp_fail(err, SP_E_USAGE, "%s and %s: both models have the name %s",
                           s->all[k].given, s->all[i].given, s->all[i].names[0]);
        }
    }
    return SP_OK;
}

/* Describes the model of a file. One of a folder that cannot be served is left out with a note. */
static enum sp_status describe(struct sp_serve_opener *o, const struct sp_serve_path *path,
                               const struct sp_opt_list *names, struct sp_err *err)
{
    struct sp_serve *s = o->serve;
    struct sp_serve_model *m = &s->all[s->n_models];
    struct sp_err own = {0};
    enum sp_status st = sp_serve_model_describe(m, path, names, &o->options, &own);

    if (st == SP_OK) {
        m->number = s->n_models++;
        return SP_OK;
    }
    if (path->is_named || st == SP_E_NOMEM || st == SP_E_USAGE) return sp_fail_as(err, &own);
    sp_advise(&own);
    sp_note("serve", "not served: %s", own.text);
    return SP_OK;
}

enum sp_status sp_serve_opener_open(struct sp_serve_opener *o, const struct sp_opt_list *names,
                                    struct sp_err *err)
{
    struct sp_serve *s = o->serve;
    enum sp_status st;

    if ((st = sp_new(&s->all, o->paths.n, sizeof *s->all, err))) return st;
    for (size_t i = 0; i < o->paths.n; i++)
        if ((st = describe(o, &o->paths.at[i], names, err))) return st;
    if (s->n_models == 0) return sp_fail(err, SP_E_INPUT, "none of the files can be served");
    if ((st = check_names(s, err))) return st;
    o->models.models = s->all;
    o->models.n_models = s->n_models;
    o->models.open = open_model;
    o->models.close = close_model;
    o->models.trim = trim_model;
    o->models.context = o;
    return sp_serve_models_new(&s->models, &o->models, err);
}

void sp_serve_opener_close(struct sp_serve_opener *o)
{
    struct sp_serve *s = o->serve;

    sp_serve_models_free(s->models);
    while (s->n_models > 0)
        sp_serve_model_release(&s->all[--s->n_models]);
    free(s->all);
    sp_serve_paths_release(&o->paths);
}
