/* The interactive session: reads lines and commands from the terminal and shows the answers.
 *
 * Every prompt is the whole conversation; its cached prefix is reused. An interrupt ends an answer
 * and keeps the text generated so far. A full context is reported; only with --context-full shift
 * are the oldest messages dropped. */
#include "cli/chat/repl.h"
#include "cli/chat/line_edit.h"
#include "cli/chat/saved_session.h"
#include "cli/base/out.h"
#include "cli/base/user_folder.h"
#include "cli/base/word_wrap.h"
#include "format/base/clock.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/base/spelling.h"
#include "format/base/strbuf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The words that Tab completes: commands, the words after /set and /show, and names of saved
 * sessions. */
struct completions {
    char **list; /* [n] texts; owned */
    size_t n, cap;
};

struct chat {
    struct sp_generation *generation;
    struct sp_line_edit *edit;
    struct completions completions;
    bool ended;            /* the input ended within a message of several lines */
    enum sp_status status; /* not SP_OK: the session ends with the error in `err` */
    struct sp_err *err;
};

/* A slash command; its function returns false to end the session. `words` is the text after the
 * command's name. */
struct chat_command {
    const char *name, *help; /* help NULL: an alias of a listed command */
    bool (*run)(struct chat *chat, char *words);
};

/* Prints a sentence, or two, of the session. */
static void reply(const char *format, ...) SP_PRINTF(1, 2);
static void reply(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    sp_word_wrap_sentence(stdout, 0, format, args);
    va_end(args);
}

static bool bye(struct chat *chat, char *words)
{
    (void)chat;
    (void)words;
    return false;
}

static bool clear(struct chat *chat, char *words)
{
    (void)words;
    sp_conversation_clear(&chat->generation->conversation);
    chat->generation->n_used = 0;
    reply("The conversation is cleared.");
    return true;
}

/* Returns the first word of *text, which moves to the next word. */
static char *next_word(char **text)
{
    char *word = *text + strspn(*text, " \t"), *end = word + strcspn(word, " \t");

    *text = end + strspn(end, " \t");
    *end = '\0';
    return word;
}

/* Returns a value without trailing whitespace and without the quotes around it. */
static char *value_of(char *text)
{
    size_t len = strlen(text);

    while (len > 0 && strchr(" \t", text[len - 1]) != NULL)
        len--;
    text[len] = '\0';
    if (len < 2 || text[0] != '"' || text[len - 1] != '"') return text;
    text[len - 1] = '\0';
    return text + 1;
}

/* Returns the three quotes that end a line, trailing whitespace aside; NULL: the line does not end
 * so. */
static const char *closing_quotes(const char *line)
{
    size_t len = strlen(line);

    while (len > 0 && strchr(" \t", line[len - 1]) != NULL)
        len--;
    return len >= 3 && strncmp(line + len - 3, "\"\"\"", 3) == 0 ? line + len - 3 : NULL;
}

/* Reads a message from the line that begins with """ to the line that ends with it; a first line
 * of the quotes alone is no part of it. Returns false if an interrupt or the end of input came
 * before. */
static bool read_message(struct chat *chat, const char *line, struct sp_strbuf *message)
{
    const char *end;
    enum sp_status st;

    line += 3;
    for (bool first = true; (end = closing_quotes(line)) == NULL; first = false) {
        st = sp_strbuf_append(message, line, strlen(line), chat->err);
        if (st == SP_OK && !(first && *line == '\0'))
            st = sp_strbuf_append(message, "\n", 1, chat->err);
        if ((chat->status = st)) return false;
        if ((line = sp_line_edit_read(chat->edit, "... ")) == NULL) {
            putchar('\n');
            chat->ended = true;
            return false;
        }
        if (sp_line_edit_interrupted(chat->edit)) return false;
    }
    chat->status = sp_strbuf_append(message, line, (size_t)(end - line), chat->err);
    return chat->status == SP_OK;
}

static void set_system(struct sp_conversation *c, const char *text)
{
    struct sp_err err = {0};

    if (c->template == NULL) {
        reply("A system message requires a chat template.");
    } else if (sp_conversation_set_system(c, text, &err)) {
        reply("%s.", err.text);
    } else {
        reply("%s", *text ? "The system message is set." : "The system message is removed.");
    }
}

static void set_thinking(struct sp_conversation *c, const char *word)
{
    struct sp_err err = {0};

    if (sp_conversation_set_thinking(c, word, &err)) {
        reply("%s.", err.text);
    } else if (c->template == NULL) {
        reply("This requires a chat template.");
    } else if (c->thinking == SP_THINK_OFF) {
        reply("Reasoning is off.");
    } else {
        reply("Reasoning is on%s%s.", *c->think_level ? ", level " : "", c->think_level);
    }
}

/* Handles the words of /set that take no value. Returns false for other words. */
static bool set_switch(struct sp_generation *g, const char *name)
{
    bool verbose = strcmp(name, "verbose") == 0;

    if (verbose || strcmp(name, "quiet") == 0) {
        g->style.verbose = verbose;
        reply("%s", verbose ? "All statistics are shown." : "One line of statistics is shown.");
    } else if (strcmp(name, "wordwrap") == 0 || strcmp(name, "nowordwrap") == 0) {
        g->style.wrap = *name == 'w';
        reply("%s", g->style.wrap ? "Lines are broken between words." : "Lines are not broken.");
    } else if (strcmp(name, "think") == 0) {
        set_thinking(&g->conversation, "true");
    } else if (strcmp(name, "nothink") == 0) {
        set_thinking(&g->conversation, "false");
    } else {
        return false;
    }
    return true;
}

static void set_parameter(struct sp_generation *g, const char *name, const char *value)
{
    bool drafts = g->info.draft != NULL && !g->no_draft;
    struct sp_settings before = *g->settings; /* of which a number at most is restored */
    struct sp_err err = {0};

    if (!drafts && strcasecmp(name, "draft_num_predict") == 0) {
        reply("This session does not draft.");
    } else if (sp_settings_set(g->settings, name, value, &err)) {
        reply("%s%s", err.text, err.text[strlen(err.text) - 1] == '?' ? "" : ".");
    } else if (g->settings->n_context != before.n_context &&
               sp_generation_set_context(g, g->settings->n_context, &err)) {
        *g->settings = before;
        reply("%s.", err.text);
    } else if (strcasecmp(name, "stop") == 0) {
        reply("Answers end before \"%s\".", value);
    } else if (strcasecmp(name, "dry_sequence_breakers") == 0) {
        reply("DRY has %zu sequence breakers.", g->settings->breakers.n);
    } else {
        sp_settings_print_one(stdout, g->settings, name);
    }
}

static void set_value(struct sp_generation *g, const char *name, const char *value)
{
    if (strcmp(name, "system") == 0) {
        set_system(&g->conversation, value);
    } else if (strcmp(name, "think") == 0 && *value != '\0') {
        set_thinking(&g->conversation, value);
    } else if (*value != '\0') {
        set_parameter(g, name, value);
    } else if (!set_switch(g, name)) {
        reply("/set NAME VALUE, /set system TEXT, /set verbose, /set quiet, /set think, "
              "/set nothink, /set wordwrap, /set nowordwrap; /show parameters lists the names.");
    }
}

/* Sets a value between triple quotes. If its input is interrupted nothing changes. */
static void set_quoted(struct chat *chat, const char *name, const char *words)
{
    struct sp_strbuf value = {0};

    if (read_message(chat, words, &value)) {
        chat->status = sp_strbuf_append(&value, "", 1, chat->err);
        if (chat->status == SP_OK) set_value(chat->generation, name, value.at);
    }
    sp_strbuf_release(&value);
}

static bool set(struct chat *chat, char *words)
{
    char *name = next_word(&words);

    if (strcmp(name, "parameter") == 0) name = next_word(&words);
    if (strncmp(words, "\"\"\"", 3) == 0)
        set_quoted(chat, name, words);
    else
        set_value(chat->generation, name, value_of(words));
    return true;
}

static void show_info(const struct sp_generation *g)
{
    reply("%s: %u threads, %s kernels, draft %s\ncontext of %zu tokens, %zu used; %s", g->name,
          g->info.n_threads, g->info.kernels, g->info.draft ? g->info.draft : "none",
          sp_session_n_context(g->session), g->n_used,
          g->conversation.template ? "with the chat template" : "raw, no chat template");
}

static void show_text(const char *text)
{
    sp_out_text(stdout, text, strlen(text));
}

static void show_template(const struct sp_conversation *c)
{
    size_t size = 0;
    const char *text = c->template ? sp_template_text(c->template, &size) : "none";

    sp_out_text(stdout, text, c->template ? size : strlen(text));
    putchar('\n');
}

/* Shows the messages, broken between words if answers are. */
static void show_messages(const struct sp_generation *g)
{
    const struct sp_conversation *c = &g->conversation;
    bool wraps = g->style.wrap && sp_out_is_screen(stdout);
    struct sp_word_wrap wrap;

    for (size_t i = 0; i < c->n_turns; i++) {
        const char *const texts[] = {c->turns[i].role, ": ", c->turns[i].content};
        if (wraps) sp_word_wrap_begin(&wrap, stdout);
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            if (wraps)
                sp_word_wrap_text(&wrap, texts[k], strlen(texts[k]));
            else
                show_text(texts[k]);
        }
        putchar('\n');
    }
}

static bool show(struct chat *chat, char *words)
{
    const struct sp_generation *g = chat->generation;
    const struct sp_conversation *c = &g->conversation;
    const char *what = next_word(&words);

    if (strcmp(what, "system") == 0) {
        show_text(c->system && *c->system ? c->system : "none");
        putchar('\n');
    } else if (strcmp(what, "template") == 0) {
        show_template(c);
    } else if (strcmp(what, "messages") == 0) {
        show_messages(g);
    } else if (strcmp(what, "parameters") == 0) {
        sp_settings_print(stdout, g->settings);
    } else if (*what == '\0') {
        show_info(g);
        sp_settings_print(stdout, g->settings);
    } else {
        reply("/show, /show parameters, /show system, /show template, /show messages.");
    }
    return true;
}

static bool undo(struct chat *chat, char *words)
{
    char *text = NULL;

    (void)words;
    sp_conversation_undo(&chat->generation->conversation, &text);
    reply("%s",
          text ? "The last message and its answer are removed." : "There is no message to remove.");
    free(text);
    return true;
}

static enum sp_status answer(struct chat *chat, const char *text, size_t size);

/* Answers the last message again, with another seed if the seed was drawn. */
static bool retry(struct chat *chat, char *words)
{
    struct sp_generation *g = chat->generation;
    char *text = NULL;
    bool drawn;

    (void)words;
    sp_conversation_undo(&g->conversation, &text);
    if (text == NULL) {
        reply("There is no message to answer again.");
        return true;
    }
    chat->status = sp_settings_redraw(g->settings, &drawn, chat->err);
    if (g->settings->temperature <= 0)
        reply("Decoding is greedy, so the answer is the same; /set temperature 0.8 varies it.");
    else if (!drawn)
        reply("The seed is set, so the answer is the same; /set seed -1 draws one.");
    if (chat->status == SP_OK) chat->status = answer(chat, text, strlen(text));
    free(text);
    return chat->status == SP_OK;
}

static void list_completions(struct chat *chat);

/* Adds a name to a list. If memory runs out the list lacks it. */
static void list_name(void *context, const char *name)
{
    struct sp_strbuf *list = context;

    if (list->len > 0) (void)!sp_strbuf_append(list, ", ", 2, NULL);
    (void)!sp_strbuf_append(list, name, strlen(name), NULL);
}

static void print_saved(void)
{
    struct sp_strbuf list = {0};

    sp_saved_session_each(list_name, &list);
    if (list.len > 0)
        reply("Saved sessions: %.*s.", (int)list.len, list.at);
    else
        reply("There are no saved sessions.");
    sp_strbuf_release(&list);
}

/* *path = the file of the session that the words name, owned by the caller; NULL: a sentence was
 * printed. */
static char *path_of(char *words, const char *command)
{
    const char *name = value_of(words);
    struct sp_err err = {0};
    char *path = NULL;

    if (*name == '\0')
        reply("%s NAME, or a path such as ./NAME.json.", command);
    else if (sp_saved_session_path(&path, name, &err))
        reply("%s.", err.text);
    return path;
}

static void print_counts(const char *verb, const char *path, const struct sp_generation *g)
{
    size_t n = g->conversation.n_turns - g->conversation.n_given;

    reply("%s %s: %zu message%s, the system message and the settings.", verb, path, n,
          n == 1 ? "" : "s");
}

static bool save(struct chat *chat, char *words)
{
    char *path = path_of(words, "/save");
    struct sp_err err = {0};

    if (path == NULL) return true;
    if (sp_saved_session_write(path, chat->generation, &err))
        reply("%s.", err.text);
    else
        print_counts("Saved as", path, chat->generation);
    free(path);
    list_completions(chat);
    return true;
}

static bool load(struct chat *chat, char *words)
{
    char *path = path_of(words, "/load"), *model = NULL;
    struct sp_err err = {0};

    if (path == NULL || !sp_file_exists(path)) {
        if (path) reply("There is no such session.");
        print_saved();
    } else if (sp_saved_session_read(path, chat->generation, &model, &err)) {
        reply("%s.", err.text);
    } else {
        print_counts("Loaded", path, chat->generation);
        if (model) reply("It was saved with another model: %s.", model);
    }
    free(model);
    free(path);
    return true;
}

static bool help(struct chat *chat, char *words);

static const struct chat_command commands[] = {
    {"/set", "change a setting, such as temperature, num_ctx, think, system: /set temperature 0.7",
     set},
    {"/show", "file and settings, or one of: parameters, system, template, messages", show},
    {"/retry", "answer the last message again", retry},
    {"/undo", "remove the last message and its answer", undo},
    {"/clear", "forget the conversation", clear},
    {"/save", "save conversation and settings: /save NAME, or a path", save},
    {"/load", "go on with a saved session: /load NAME, or a path", load},
    {"/bye", "end the session (also /exit, Ctrl-D)", bye},
    {"/exit", NULL, bye},
    {"/quit", NULL, bye},
    {"/?", "show this help (also /help)", help},
    {"/help", NULL, help},
};

enum {
    N_COMMANDS = sizeof commands / sizeof *commands,
    HELP_COLUMN = 10, /* at which the help of a command begins */
};

static bool help(struct chat *chat, char *words)
{
    (void)chat;
    (void)words;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (commands[i].help)
            sp_word_wrap_print(stdout, HELP_COLUMN, "  %-7s %s", commands[i].name,
                               commands[i].help);
    }
    reply("  \"\"\"     begins and ends a message of several lines\n"
          "Tab completes a command, Ctrl-C stops an answer. Pasted text is one message.");
    return true;
}

/* A blank at the end means that a value follows. */
static const char *const set_words[] = {"stop ",     "dry_sequence_breakers ",
                                        "system ",   "verbose",
                                        "quiet",     "think",
                                        "nothink",   "wordwrap",
                                        "nowordwrap"};
static const char *const show_words[] = {"parameters", "system", "template", "messages"};

enum {
    N_SET_WORDS = sizeof set_words / sizeof *set_words,
    N_SHOW_WORDS = sizeof show_words / sizeof *show_words,
};

static void release_completions(struct completions *c)
{
    while (c->n > 0)
        free(c->list[--c->n]);
    free(c->list);
    *c = (struct completions){0};
}

/* Adds a text to complete; `end`: a blank if another word must follow, else "". If memory runs out
 * Tab does not know it. */
static void add_completion(struct completions *c, const char *command, const char *word,
                           const char *end)
{
    struct sp_strbuf text = {0};

    if (sp_grow(&c->list, &c->cap, c->n + 1, sizeof *c->list, NULL) ||
        sp_strbuf_append(&text, command, strlen(command), NULL) ||
        sp_strbuf_append(&text, " ", *word ? 1 : 0, NULL) ||
        sp_strbuf_append(&text, word, strlen(word), NULL) ||
        sp_strbuf_append(&text, end, strlen(end) + 1, NULL)) {
        sp_strbuf_release(&text);
        return;
    }
    c->list[c->n++] = text.at;
}

static void add_saved(void *completions, const char *name)
{
    add_completion(completions, "/save", name, "");
    add_completion(completions, "/load", name, "");
}

static void list_completions(struct chat *chat)
{
    struct completions *c = &chat->completions;

    release_completions(c);
    for (size_t i = 0; i < N_COMMANDS; i++)
        add_completion(c, commands[i].name, "", "");
    for (size_t i = 0; i < SP_N_SETTINGS; i++)
        add_completion(c, "/set", sp_settings_name(i), " ");
    for (size_t i = 0; i < N_SET_WORDS; i++)
        add_completion(c, "/set", set_words[i], "");
    for (size_t i = 0; i < N_SHOW_WORDS; i++)
        add_completion(c, "/show", show_words[i], "");
    sp_saved_session_each(add_saved, c);
    sp_line_edit_complete(chat->edit, (const char *const *)c->list, c->n);
}

static bool run_command(struct chat *chat, char *line)
{
    char *rest = line, *name = next_word(&rest);
    const char *near = NULL;

    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) return commands[i].run(chat, rest);
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        near = sp_nearer(near, commands[i].name, name);
    if (near && strlen(name) > 2)
        reply("Unknown command %s, did you mean %s?", name, near);
    else
        reply("Unknown command %s, /? lists them.", name);
    return true;
}

/* Says how a full context can be enlarged, if it can. */
static const char *ways_on(const struct sp_generation *g)
{
    return sp_session_n_context(g->session) < g->info.max_positions
               ? "/set num_ctx enlarges it, /clear starts over"
               : "/clear starts over";
}

/* Drops old messages from a full context if the user chose so. */
static enum sp_status shift(struct sp_generation *g, struct sp_err *err)
{
    size_t before = g->conversation.prompt.n, n = 0;
    enum sp_status st = g->shift ? sp_generation_shift(g, &n, err) : SP_OK;

    if (n > 0) {
        reply("The context of %zu tokens is full: the %zu oldest messages are dropped, %zu of %zu "
              "tokens remain.",
              sp_session_n_context(g->session), n, g->conversation.prompt.n, before);
    }
    return st;
}

/* True if the context has space for an answer after the prompt. */
static bool fits(const struct sp_generation *g)
{
    size_t n = g->conversation.prompt.n, context = sp_session_n_context(g->session);

    if (n < context) return true;
    reply("With this message the conversation has %zu tokens and leaves no space for an answer in "
          "the context of %zu; the message is removed. %s.",
          n, context, ways_on(g));
    return false;
}

/* Generates an answer and adds it to the conversation. If there is none, because of a failure or
 * an interrupt, the message is dropped. */
static enum sp_status request(struct sp_generation *g, const char *text, size_t size,
                              struct sp_err *err)
{
    struct sp_conversation *c = &g->conversation;
    struct sp_result result = SP_RESULT_INIT;
    struct sp_chat_reader *reader = NULL;
    enum sp_status st;
    bool answered = false;

    g->style.started = sp_seconds();
    if ((st = sp_conversation_add_user(c, text, size, err))) return st;
    if ((st = shift(g, err))) goto done;
    if (fits(g)) {
        if ((st = sp_generation_answer(&result, &reader, g, &c->prompt, c->rendered, err))) {
            goto done;
        }
        answered = result.stop != SP_STOP_CANCELLED || result.text_size > 0;
        if (answered) g->n_used = c->prompt.n + (result.n_ids ? result.n_ids - 1 : 0);
        if (result.stop == SP_STOP_CONTEXT) {
            reply("The context of %zu tokens is full, so the answer ends here; %s.",
                  sp_session_n_context(g->session),
                  g->shift ? "the next message drops the oldest ones" : ways_on(g));
        } else if (result.stop == SP_STOP_MEMORY) {
            reply("The memory for KV caches is used up after %zu tokens, so the answer ends here; "
                  "/clear starts over.",
                  g->n_used);
        }
    }
    if (answered) st = sp_conversation_add_answer(c, &result, reader, err);
done:
    if (!answered) sp_conversation_withdraw(c);
    sp_chat_reader_close(reader);
    sp_result_release(&result);
    return st;
}

/* Answers a message. An error of one message does not end the session. */
static enum sp_status answer(struct chat *chat, const char *text, size_t size)
{
    struct sp_err err = {0};
    enum sp_status st = request(chat->generation, text, size, &err);
    bool interrupted = sp_signals_caught();

    sp_signals_clear();
    if (st == SP_E_BUG) return sp_fail(chat->err, st, "%s", err.text);
    if (st && interrupted)
        reply("Interrupted; the message is removed.");
    else if (st)
        reply("%s.", err.text);
    return SP_OK;
}

/* Handles one input line; returns false at the end of the session. */
static bool turn(struct chat *chat)
{
    const char *line = sp_line_edit_read(chat->edit, ">>> ");
    struct sp_strbuf message = {0};
    bool more = true;

    if (line == NULL) {
        putchar('\n');
        return false;
    }
    if (line[0] == '\0') {
        if (sp_line_edit_interrupted_empty(chat->edit)) reply("Ctrl-D or /bye ends the session.");
        return true;
    }
    if (strncmp(line, "\"\"\"", 3) == 0) {
        if (read_message(chat, line, &message))
            chat->status = answer(chat, message.at, message.len);
    } else {
        chat->status = sp_strbuf_append(&message, line, strlen(line) + 1, chat->err);
        if (chat->status == SP_OK && line[0] == '/' && strchr(line, '\n') == NULL)
            more = run_command(chat, message.at);
        else if (chat->status == SP_OK)
            chat->status = answer(chat, message.at, message.len - 1);
    }
    sp_strbuf_release(&message);
    return more && !chat->ended && chat->status == SP_OK;
}

/* Returns $XDG_STATE_HOME/spectool/history, by default below ~/.local/state, owned by the caller.
 * NULL: there is no such folder. */
static char *history_path(void)
{
    char *folder = NULL, *path = NULL;

    if (sp_user_folder(&folder, "XDG_STATE_HOME", ".local/state", NULL) == SP_OK &&
        sp_file_join(&path, folder, "history", NULL)) {
        path = NULL;
    }
    free(folder);
    return path;
}

enum sp_status sp_repl_run(struct sp_generation *generation, struct sp_err *err)
{
    enum sp_status st;
    struct chat chat = {.generation = generation, .err = err};
    char *history = history_path();

    if ((st = sp_line_edit_open(&chat.edit, history, err)) == SP_OK) {
        list_completions(&chat);
        reply("/? for help, /bye to end.");
        if (generation->conversation.template == NULL)
            reply(
                "The file has no chat template: the model continues the text instead of answering "
                "it.");
        while (turn(&chat))
            fflush(stdout);
        st = chat.status;
        if (st == SP_OK && sp_signals_caught()) st = sp_fail(err, SP_E_CHECK, "terminated");
    }
    sp_line_edit_close(chat.edit);
    release_completions(&chat.completions);
    free(history);
    return st;
}
