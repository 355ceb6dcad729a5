#include "cli/serve/jobs/serve_model.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static enum sp_status read_names(struct sp_serve_model *m, const struct sp_opt_list *names,
                                 const struct sp_serve_adapters *adapters, struct sp_err *err)
{
    size_t n_own = names->n ? names->n : 1;
    enum sp_status st;

    m->n_adapters = adapters->n;
    m->adapter_paths = adapters->paths;
    m->n_names = n_own + adapters->n;
    if ((st = sp_new(&m->names, m->n_names, sizeof *m->names, err))) return st;
    for (size_t i = 0; i < n_own; i++) {
        m->names[i] = names->n ? names->items[i] : m->file_name;
        if (*m->names[i] == '\0') return sp_fail(err, SP_E_USAGE, "--name is empty");
    }
    for (size_t i = 0; i < adapters->n; i++) {
        for (size_t k = 0; k < n_own; k++) {
            if (strcmp(m->names[k], adapters->names[i]) != 0) continue;
            return sp_fail(err, SP_E_USAGE, "--adapter: %s is the name of the model",
                           adapters->names[i]);
        }
        m->names[n_own + i] = adapters->names[i];
    }
    return SP_OK;
}

/* Reads the file's records as a Modelfile, whose FROM is the name of the model itself. */
static enum sp_status read_modelfile(struct sp_serve_file *f, const struct sp_pack *pack,
                                     const char *name, struct sp_err *err)
{
    struct sp_text records, text = {0};
    enum sp_status st;

    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &records, err);
    if (st) return st;
    st = sp_modelfile_recreate(&text, name, f->facts.parts[SP_PART_DRAFT].present ? name : NULL,
                               &records, err);
    f->modelfile = text.at;
    free(records.at);
    return st;
}

/* Reads the limit of the context from the settings, and the chat template. */
static enum sp_status read_settings(struct sp_serve_file *f, const char *path,
                                    const struct sp_serve_model_options *options,
                                    struct sp_err *err)
{
    const size_t max = f->facts.parts[SP_PART_TARGET].config.max_positions;
    struct sp_settings settings = *options->settings;
    struct sp_conversation conversation = {0};
    struct sp_file_settings *file = NULL;
    const char *text;
    size_t size;
    enum sp_status st;

    if ((st = sp_file_settings_open(&file, path, err)) ||
        (st = sp_settings_complete(&settings, options->args, file, err)) ||
        (st = sp_conversation_open(&conversation, file, path, false, options->system, err)))
        goto done;
    f->max_context = max;
    if (settings.n_context > 0 && (size_t)settings.n_context < max)
        f->max_context = (size_t)settings.n_context;
    f->inserts = sp_serve_model_inserts_by(conversation.template);
    if (conversation.template != NULL) {
        text = sp_template_text(conversation.template, &size);
        st = sp_copy_text(&f->template, text, size, err);
    }
done:
    sp_conversation_release(&conversation);
    sp_settings_release(&settings);
    sp_file_settings_close(file);
    return st;
}

/* Sets whether the tokenizer has tokens for filling gaps. */
static enum sp_status read_tokenizer(struct sp_serve_file *f, const char *path, struct sp_err *err)
{
    struct sp_tokenizer *tokenizer = NULL;
    struct sp_infill_tokens infill = {0};
    enum sp_status st;

    if ((st = sp_tokenizer_open_file(&tokenizer, path, err))) return st;
    st = sp_infill_find(&infill, tokenizer, err);
    f->inserts = f->inserts || infill.found;
    sp_tokenizer_close(tokenizer);
    return st;
}

enum sp_status sp_serve_file_read(struct sp_serve_file *out, const char *path, const char *name,
                                  const struct sp_serve_model_options *options, struct sp_err *err)
{
    struct sp_serve_file f = {0};
    struct sp_pack *pack = NULL;
    struct stat info;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, path, err)) || (st = sp_pack_expect_model(pack, err))) goto done;
    if (sp_pack_find_section(pack, SP_PART_TARGET, SP_SECTION_TOKENIZER_MAP) == NULL) {
        st = sp_fail(err, SP_E_UNSUPPORTED, "%s has no tokenizer, which serve requires", path);
        goto done;
    }
    if (stat(path, &info) == 0) f.modified = info.st_mtime;
    snprintf(f.digest, sizeof f.digest, "%016" PRIx64, sp_pack_identity(pack));
    f.size = sp_pack_size(pack);
    st = sp_pack_facts_read(&f.facts, pack, err);
    if (!st) st = read_modelfile(&f, pack, name, err);
    if (!st) st = read_settings(&f, path, options, err);
    if (!st) st = read_tokenizer(&f, path, err);
done:
    sp_pack_close(pack);
    if (st) sp_serve_file_release(&f);
    *out = f;
    return st;
}

void sp_serve_file_release(struct sp_serve_file *f)
{
    sp_pack_facts_release(&f->facts);
    free(f->modelfile);
    free(f->template);
    *f = (struct sp_serve_file){0};
}

enum sp_status sp_serve_model_describe(struct sp_serve_model *out, const struct sp_serve_path *path,
                                       const struct sp_opt_list *names,
                                       const struct sp_serve_model_options *options,
                                       struct sp_err *err)
{
    struct sp_serve_model m = {.given = path->given, .path = path->path};
    enum sp_status st;

    if (!(st = sp_copy_text(&m.file_name, path->name, strlen(path->name), err)) &&
        !(st = read_names(&m, names, &options->adapters, err)))
        st = sp_serve_file_read(&m.file, m.path, m.names[0], options, err);
    if (st) sp_serve_model_release(&m);
    *out = m;
    return st;
}

enum sp_status sp_serve_model_attach(struct sp_serve_model *out, struct sp_loaded_model *loaded,
                                     struct sp_session_pool *sessions, struct sp_err *err)
{
    struct sp_serve_model m = {.given = loaded->name,
                               .path = loaded->path,
                               .loaded = loaded,
                               .sessions = sessions,
                               .n_context = sp_session_n_context(loaded->session)};
    enum sp_status st;

    snprintf(m.file.digest, sizeof m.file.digest, "%016" PRIx64, loaded->info.identity);
    if (!(st = sp_serve_name_of(&m.file_name, m.given, err)))
        st = read_names(&m, &(struct sp_opt_list){0}, &(struct sp_serve_adapters){0}, err);
    if (st) sp_serve_model_release(&m);
    *out = m;
    return st;
}

void sp_serve_model_release(struct sp_serve_model *m)
{
    sp_serve_file_release(&m->file);
    free(m->names);
    free(m->file_name);
    *m = (struct sp_serve_model){0};
}

enum sp_status sp_serve_model_open(struct sp_serve_model *m, const struct sp_serve_model_options *o,
                                   struct sp_err *err)
{
    struct sp_loaded_model *loaded = NULL;
    enum sp_status st;

    if ((st = sp_new(&loaded, 1, sizeof *loaded, err))) return st;
    m->loaded = loaded;
    if ((st = sp_new(&loaded->settings, 1, sizeof *loaded->settings, err))) goto done;
    *loaded->settings = *o->settings;
    loaded->name = m->given;
    loaded->path = m->path;
    loaded->adapters = o->adapters.paths;
    loaded->n_adapters = o->adapters.n;
    loaded->no_draft = o->no_draft;
    loaded->record = o->record;
    if ((st = sp_loaded_model_read(loaded, o->args, false, o->system, err))) goto done;
    if (loaded->settings->draft_len == 0) loaded->no_draft = true;
    if ((st = sp_loaded_model_open(loaded, o->args, &o->backend, err))) goto done;
    m->n_context = sp_session_n_context(loaded->session);
    st = sp_session_pool_new(&m->sessions, loaded->session, o->n_sessions, err);
done:
    if (st) sp_serve_model_close(m);
    return st;
}

void sp_serve_model_close(struct sp_serve_model *m)
{
    struct sp_loaded_model *loaded = m->loaded;

    if (loaded == NULL) return;
    sp_session_pool_free(m->sessions);
    m->sessions = NULL;
    if (loaded->settings != NULL) sp_loaded_model_close(loaded);
    free(loaded->settings);
    free(loaded);
    m->loaded = NULL;
}

bool sp_serve_model_inserts_by(const struct sp_template *t)
{
    size_t size;

    return t != NULL && sp_template_language(t) == SP_TEMPLATE_GO &&
           strstr(sp_template_text(t, &size), ".Suffix") != NULL;
}

enum sp_status sp_serve_model_check_infill(const struct sp_serve_model *m, const char *key,
                                           struct sp_err *err)
{
    if (m->loaded->infill.found) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "%s: the tokenizer of %s has no tokens for filling a gap (fill-in-the-middle)",
                   key, m->names[0]);
}

enum sp_status sp_serve_check_template(const struct sp_serve_member *m, struct sp_err *err)
{
    const struct sp_serve_model *model = m->request->model;

    if (model->loaded->conversation.template) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "%s has no chat template: use /v1/completions, which needs none",
                   model->names[0]);
}

/* The number of the model's name that is `name`, except for ollama's ":latest"; or SIZE_MAX. */
static size_t find_name(const struct sp_serve_model *m, const char *name)
{
    static const char latest[] = ":latest";
    size_t len = strlen(name), tail = strlen(latest);

    for (size_t i = 0; i < m->n_names; i++) {
        size_t own = strlen(m->names[i]);
        if (strncmp(m->names[i], name, own) != 0) continue;
        if (len == own || (len == own + tail && strcmp(name + own, latest) == 0)) return i;
    }
    return SIZE_MAX;
}

const char *sp_serve_model_find_name(const struct sp_serve_model *m, const char *name)
{
    size_t i = find_name(m, name);

    return i == SIZE_MAX ? NULL : m->names[i];
}

const struct sp_lora *sp_serve_model_lora(const struct sp_serve_model *m, const char *name)
{
    size_t i = name ? find_name(m, name) : SIZE_MAX, n_own = m->n_names - m->n_adapters;

    return i == SIZE_MAX || i < n_own ? m->loaded->lora : m->loaded->loras[i - n_own];
}

enum sp_status sp_serve_model_check_base(const struct sp_serve_model *m, const char *name,
                                         struct sp_err *err)
{
    if (sp_serve_model_lora(m, name) == NULL) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "model %s: embeddings and reranking use no adapter, expected %s", name,
                   m->names[0]);
}
