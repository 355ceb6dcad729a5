#include "cli/chat/repl.h"
#include "cli/base/user_folder.h"
#include "format/base/atomic_file.h"
#include "format/base/file.h"
#include "format/json/json_write.h"
#include "format/base/mem.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* Every saved session begins with these bytes; the number is the version of the format. */
static const char beginning[] = "{\n  \"spectool_session\": 1,";
static const char suffix[] = ".json";

static enum sp_status path_in_folder(char **path, const char *name, struct sp_err *err)
{
    return sp_user_file(path, "XDG_DATA_HOME", ".local/share", name, err);
}

enum sp_status sp_saved_session_path(char **path, const char *name, struct sp_err *err)
{
    char file[256];

    if (strchr(name, '/') != NULL) return sp_copy_text(path, name, strlen(name), err);
    if (*name == '\0' || *name == '.' || strlen(name) + sizeof suffix > sizeof file) {
        return sp_fail(
            err, SP_E_USAGE,
            "\"%.64s\" is not a valid session name: expected a name without a dot at its "
            "beginning, or a path",
            name);
    }
    snprintf(file, sizeof file, "%s%s", name, suffix);
    return path_in_folder(path, file, err);
}

void sp_saved_session_each(void (*name)(void *context, const char *name), void *context)
{
    char *folder = NULL;
    DIR *dir = path_in_folder(&folder, "", NULL) == SP_OK ? opendir(folder) : NULL;
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name), end = strlen(suffix);
        if (len <= end || entry->d_name[0] == '.') continue;
        if (strcmp(entry->d_name + len - end, suffix) != 0) continue;
        entry->d_name[len - end] = '\0';
        name(context, entry->d_name);
    }
    if (dir) closedir(dir);
    free(folder);
}

/* ---- writing ---- */

/* Begins a line for the next value. */
static void next_line(struct sp_json_out *out, const char *indent)
{
    sp_json_out_raw(out, out->comma ? ",\n" : "\n");
    sp_json_out_raw(out, indent);
    out->comma = false;
}

static void write_messages(struct sp_json_out *out, const struct sp_conversation *c)
{
    sp_json_out_begin(out, "messages", '[');
    for (size_t i = c->n_given; i < c->n_turns; i++) {
        next_line(out, "    ");
        sp_json_out_put(out, "{role:%s, content:%s", c->turns[i].role, c->turns[i].content);
        if (c->turns[i].reasoning) sp_json_out_text(out, "reasoning", c->turns[i].reasoning);
        sp_json_out_end(out, '}');
    }
    sp_json_out_raw(out, "\n  ");
    sp_json_out_end(out, ']');
}

static void write_session(struct sp_json_out *out, const struct sp_loaded_model *m)
{
    const struct sp_conversation *c = &m->conversation;

    sp_json_out_raw(out, beginning);
    next_line(out, "  ");
    sp_json_out_text(out, "model", m->name);
    if (c->system && *c->system) {
        next_line(out, "  ");
        sp_json_out_text(out, "system", c->system);
    }
    if (c->thinking.mode != SP_THINK_DEFAULT) {
        next_line(out, "  ");
        if (*c->thinking.level)
            sp_json_out_text(out, "think", c->thinking.level);
        else
            sp_json_out_bool(out, "think", c->thinking.mode == SP_THINK_ON);
    }
    next_line(out, "  ");
    sp_json_out_begin(out, "settings", '{');
    sp_settings_to_json(out, m->settings);
    sp_json_out_end(out, '}');
    next_line(out, "  ");
    write_messages(out, c);
    sp_json_out_raw(out, "\n}\n");
}

enum sp_status sp_saved_session_write(const char *path, const struct sp_loaded_model *m,
                                      struct sp_err *err)
{
    struct sp_json_out out = {0};
    enum sp_status st;

    if (m->conversation.template == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED, "saving a session requires a chat template");
    st = sp_atomic_file_check_replaced(path, beginning, strlen(beginning), "saved session", err);
    if (st) return st;
    write_session(&out, m);
    if ((st = sp_json_out_check(&out, err)) == SP_OK)
        st = sp_atomic_file_write_file(path, true, out.text.at, out.text.len, err);
    sp_strbuf_release(&out.text);
    return st;
}

/* ---- reading ---- */

/* The content of a saved session. */
struct saved {
    struct sp_json *json;                /* owned */
    struct sp_settings settings;         /* owned */
    char think[SP_THINK_LEVEL_SIZE + 8]; /* empty: left to the template */
};

static enum sp_status read_thinking(struct saved *s, struct sp_err *err)
{
    const struct sp_json *think = sp_json_get(s->json, "think");
    const char *level = sp_json_to_string(think, NULL);
    bool on = false;

    if (think == NULL) return SP_OK;
    if (level ? *level == '\0' || strlen(level) >= sizeof s->think : !sp_json_to_bool(think, &on))
        return sp_fail(err, SP_E_INPUT, "think: expected true, false or a level");
    snprintf(s->think, sizeof s->think, "%s", level ? level : on ? "true" : "false");
    return SP_OK;
}

static enum sp_status read_saved(struct saved *s, const char *path, const struct sp_loaded_model *m,
                                 struct sp_err *err)
{
    int64_t version = 0;
    struct sp_text text;
    enum sp_status st;

    if ((st = sp_file_read_text(&text, path, SP_JSON_SETTINGS, err))) return st;
    st = sp_json_parse_within(&s->json, text.at, text.size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
    free(text.at);
    if (st) return st;
    if (!sp_json_to_i64(sp_json_get(s->json, "spectool_session"), &version))
        return sp_fail(err, SP_E_INPUT, "not a saved session: spectool_session is missing");
    if (version != 1) {
        return sp_fail(err, SP_E_UNSUPPORTED, "version %lld of saved sessions, expected 1",
                       (long long)version);
    }
    if ((st = read_thinking(s, err))) return st;
    if ((st = sp_settings_copy(&s->settings, m->settings, err))) return st;
    return sp_settings_of_json(&s->settings, sp_json_get(s->json, "settings"), err);
}

/* Puts the saved session in the place of the present one. */
static enum sp_status apply(struct saved *s, struct sp_loaded_model *m, struct sp_err *err)
{
    struct sp_conversation *c = &m->conversation;
    struct sp_settings before = *m->settings;
    bool resized = s->settings.n_context != before.n_context;
    const struct sp_thinking thinking = c->thinking;
    enum sp_status st;

    if (*s->think && (st = sp_conversation_set_thinking(c, s->think, err))) return st;
    st = resized ? sp_loaded_model_set_context(m, s->settings.n_context, err) : SP_OK;
    if (st) goto done;
    st = sp_conversation_restore(c, sp_json_get_text(s->json, "system"),
                                 sp_json_get(s->json, "messages"), err);
    if (st && resized && sp_loaded_model_set_context(m, before.n_context, NULL))
        m->settings->n_context = s->settings.n_context; /* memory does not suffice to go back */
done:
    if (st) {
        c->thinking = thinking;
        return st;
    }
    if (*s->think == '\0') c->thinking = (struct sp_thinking){SP_THINK_DEFAULT, ""};
    *m->settings = s->settings;
    s->settings = before;
    m->n_used = 0;
    return SP_OK;
}

/* *out = the name of the packed file in the session if it is another than that of `m`. */
static enum sp_status other_model(char **out, const struct saved *s,
                                  const struct sp_loaded_model *m, struct sp_err *err)
{
    const char *model = sp_json_get_text(s->json, "model");

    *out = NULL;
    if (model == NULL || strcmp(model, m->name) == 0 || sp_file_same(model, m->path)) return SP_OK;
    return sp_copy_text(out, model, strlen(model), err);
}

enum sp_status sp_saved_session_read(const char *path, struct sp_loaded_model *m, char **model,
                                     struct sp_err *err)
{
    struct saved s = {.json = NULL};
    char *other = NULL;
    enum sp_status st;

    if (m->conversation.template == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED, "loading a session requires a chat template");
    if ((st = read_saved(&s, path, m, err)) == SP_OK) st = other_model(&other, &s, m, err);
    if (st == SP_OK) st = apply(&s, m, err);
    if (st) {
        sp_context(err, "%s", path);
        free(other);
    } else {
        *model = other;
    }
    sp_settings_release(&s.settings);
    sp_json_free(s.json);
    return st;
}
