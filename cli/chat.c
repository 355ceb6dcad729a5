/* The interactive session: lines from the terminal, answers to it, and a few commands.
 *
 * The conversation is one growing sequence of ids; what the caches hold of it is reused. An
 * interrupt ends the answer; what was said of it stays. */
#include "cli/generation.h"
#include "cli/line_edit.h"
#include "cli/out.h"
#include "format/file.h"
#include "format/mem.h"
#include "format/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct chat {
    struct sp_generation *generation;
    struct sp_line_edit *edit;
    struct sp_ids ids; /* the conversation */
    size_t cap_ids;
    struct sp_err *err;
};

/* One slash command; false ends the session. `words` is what stands behind the name. */
struct chat_command {
    const char *name, *help;
    bool (*run)(struct chat *chat, char *words);
};

static bool bye(struct chat *chat, char *words)
{
    (void)chat;
    (void)words;
    return false;
}

static bool clear(struct chat *chat, char *words)
{
    (void)words;
    chat->ids.n = 0;
    puts("The conversation begins anew.");
    return true;
}

static bool set(struct chat *chat, char *words)
{
    char *rest = NULL, *name = strtok_r(words, " \t", &rest), *value;
    struct sp_err err = {0};

    if (name && strcmp(name, "parameter") == 0) name = strtok_r(NULL, " \t", &rest);
    value = strtok_r(NULL, " \t", &rest);
    if (name && value == NULL && strcmp(name, "verbose") == 0) {
        chat->generation->style.verbose = true;
    } else if (name && value == NULL && strcmp(name, "quiet") == 0) {
        chat->generation->style.verbose = false;
    } else if (name == NULL || value == NULL) {
        puts("/set NAME VALUE, /set verbose, /set quiet; /show lists the names.");
    } else if (sp_settings_set(chat->generation->settings, name, value, &err)) {
        printf("%s.\n", err.text);
    }
    return true;
}

static bool show(struct chat *chat, char *words)
{
    const struct sp_generation *g = chat->generation;

    (void)words;
    printf("%s: %u threads, %s kernels, draft %s, context %zu, conversation %zu tokens\n", g->path,
           g->info.n_threads, g->info.kernels, g->info.draft ? g->info.draft : "none",
           sp_session_n_context(g->session), chat->ids.n);
    sp_settings_print(stdout, g->settings);
    return true;
}

static bool help(struct chat *chat, char *words);

static const struct chat_command commands[] = {
    {"/set", "change a setting: /set temperature 0.7, /set verbose, /set quiet", set},
    {"/show", "the file, the settings and where they came from", show},
    {"/clear", "forget the conversation", clear},
    {"/bye", "end the session; so does the end of input (Ctrl-D)", bye},
    {"/?", "this", help},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static bool help(struct chat *chat, char *words)
{
    (void)chat;
    (void)words;
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-7s %s\n", commands[i].name, commands[i].help);
    puts("  \"\"\"     begins and ends a message of several lines\n"
         "Ctrl-C stops an answer.");
    return true;
}

static bool run_command(struct chat *chat, char *line)
{
    size_t len = strcspn(line, " \t");

    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strlen(commands[i].name) != len || strncmp(line, commands[i].name, len) != 0) continue;
        return commands[i].run(chat, line + len);
    }
    printf("%.*s is no command, /? lists them.\n", (int)len, line);
    return true;
}

static enum sp_status append_ids(struct chat *chat, const uint32_t *ids, size_t n)
{
    enum sp_status st;

    if (n == 0) return SP_OK;
    st = sp_grow(&chat->ids.at, &chat->cap_ids, chat->ids.n + n, sizeof *ids, chat->err);
    if (st) return st;
    memcpy(chat->ids.at + chat->ids.n, ids, n * sizeof *ids);
    chat->ids.n += n;
    return SP_OK;
}

static enum sp_status answer(struct chat *chat, const char *text, size_t size)
{
    enum sp_status st;
    struct sp_generation *g = chat->generation;
    struct sp_ids ids = {0};
    struct sp_result result = {0};

    if ((st = sp_prompt_raw(&ids, g->package, text, size, chat->ids.n == 0, chat->err))) goto done;
    if ((st = append_ids(chat, ids.at, ids.n))) goto done;
    if (chat->ids.n >= sp_session_n_context(g->session)) {
        printf("The context of %zu tokens is full; /clear makes room.\n",
               sp_session_n_context(g->session));
        chat->ids.n -= ids.n;
        goto done;
    }
    if ((st = sp_generation_answer(&result, g, &chat->ids, chat->err))) goto done;
    st = append_ids(chat, result.ids, result.n_ids);
    sp_signals_clear();
done:
    sp_ids_release(&ids);
    sp_result_release(&result);
    return st;
}

/* From the line that begins with """ to the one that ends with it. False: the input ended before.
 */
static bool read_message(struct chat *chat, const char *line, struct sp_text *message,
                         enum sp_status *st)
{
    const char *end;

    line += 3;
    while ((end = strstr(line, "\"\"\"")) == NULL) {
        if ((*st = sp_text_append(message, line, strlen(line), chat->err))) return false;
        if ((*st = sp_text_append(message, "\n", 1, chat->err))) return false;
        if ((line = sp_line_edit_read(chat->edit, "... ")) == NULL) return false;
    }
    *st = sp_text_append(message, line, (size_t)(end - line), chat->err);
    return *st == SP_OK;
}

/* One turn; false at the end. */
static bool turn(struct chat *chat, enum sp_status *st)
{
    const char *line = sp_line_edit_read(chat->edit, ">>> ");
    struct sp_text message = {0};
    bool more = true;

    if (line == NULL) return false;
    if (line[0] == '\0') return true;
    if (strncmp(line, "\"\"\"", 3) == 0) {
        if (read_message(chat, line, &message, st)) *st = answer(chat, message.at, message.len);
    } else if ((*st = sp_text_append(&message, line, strlen(line) + 1, chat->err)) == SP_OK) {
        if (line[0] == '/')
            more = run_command(chat, message.at);
        else
            *st = answer(chat, message.at, message.len - 1);
    }
    sp_text_release(&message);
    return more && *st == SP_OK;
}

/* $XDG_STATE_HOME/spectool/history, by default below ~/.local/state. NULL where there is no home.
 */
static char *history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *folder = NULL, *path = NULL;
    const char *base = state && *state ? state : home;

    if (base == NULL || *base == '\0') return NULL;
    if (sp_file_join(&folder, base, base == state ? "spectool" : ".local/state/spectool", NULL)) {
        return NULL;
    }
    for (char *slash = folder + strlen(base); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0700);
        *slash = '/';
    }
    mkdir(folder, 0700);
    if (sp_file_join(&path, folder, "history", NULL)) path = NULL;
    free(folder);
    return path;
}

enum sp_status sp_chat(struct sp_generation *generation, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct chat chat = {.generation = generation, .err = err};
    char *history = history_path();

    if ((st = sp_line_edit_open(&chat.edit, history, err)) == SP_OK) {
        puts("/? helps, /bye ends.");
        while (turn(&chat, &st))
            fflush(stdout);
    }
    sp_line_edit_close(chat.edit);
    sp_ids_release(&chat.ids);
    free(history);
    return st;
}
