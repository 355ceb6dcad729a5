#include "cli/chat/repl.h"
#include "cli/base/out.h"
#include "cli/base/user_folder.h"
#include "format/base/atomic_file.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/base/spelling.h"

#include <stdlib.h>
#include <string.h>

/* A slash command; its function returns false to end the session. `words`: what follows it. */
struct command {
    const char *name, *help; /* help NULL: an alias of a listed command */
    bool (*run)(struct sp_repl *repl, char *words);
    bool takes_words;
};

static bool bye(struct sp_repl *repl, char *words)
{
    (void)repl;
    (void)words;
    return false;
}

static bool clear(struct sp_repl *repl, char *words)
{
    (void)words;
    sp_conversation_clear(&repl->model->conversation);
    repl->model->n_used = 0;
    sp_repl_reply("The conversation is cleared.");
    return true;
}

/* ---- messages from files ---- */

/* Answers the text of a file, followed by an empty line and `words` if there are any. */
static bool answer_file(struct sp_repl *repl, const char *path, const char *words)
{
    enum { MOST_BYTES = 16 << 20 };
    struct sp_strbuf message;
    struct sp_text text;
    struct sp_err err = {0};

    if (sp_file_read_text(&text, path, MOST_BYTES, &err)) {
        sp_repl_reply("%s.", err.text);
        return true;
    }
    message = (struct sp_strbuf){text.at, text.size, text.size};
    while (message.len > 0 && strchr(" \t\r\n", message.at[message.len - 1]))
        message.len--;
    if (*words) repl->status = sp_strbuf_append(&message, "\n\n", 2, repl->err);
    if (!repl->status) repl->status = sp_strbuf_append(&message, words, strlen(words), repl->err);
    if (!repl->status && message.len > 0)
        repl->status = sp_repl_answer(repl, message.at, message.len);
    sp_strbuf_release(&message);
    return repl->status == SP_OK;
}

static bool read_file(struct sp_repl *repl, char *words)
{
    const char *path = sp_repl_next_word(&words);

    if (*path) return answer_file(repl, path, words);
    sp_repl_reply("/read FILE, or /read FILE MESSAGE.");
    return true;
}

/* Answers what the user writes in an editor, which begins with the words. */
static bool edit(struct sp_repl *repl, char *words)
{
    struct sp_temp_file file = {0};
    struct sp_err err = {0};

    if (sp_temp_file_open(&file, "message.txt", &err) ||
        sp_atomic_file_write_file(file.path, false, words, strlen(words), &err))
        sp_repl_reply("%s.", err.text);
    else if (setenv("SPECTOOL_MESSAGE", file.path, 1) == 0 &&
             system("exec ${VISUAL:-${EDITOR:-vi}} \"$SPECTOOL_MESSAGE\"") == 0)
        answer_file(repl, file.path, "");
    else
        sp_repl_reply("The editor failed, so there is no message.");
    sp_temp_file_remove(&file);
    return repl->status == SP_OK;
}

static void show_info(const struct sp_loaded_model *m)
{
    sp_repl_reply("%s: %u thread%s, %s kernels, draft %s\ncontext of %zu tokens, %zu used; %s",
                  m->name, m->info.n_threads, m->info.n_threads == 1 ? "" : "s", m->info.kernels,
                  m->info.draft ? m->info.draft : "none", sp_session_n_context(m->session),
                  m->n_used,
                  m->conversation.template ? "with the chat template" : "raw, no chat template");
}

static void show_template(const struct sp_conversation *c)
{
    size_t size = 0;
    const char *text = c->template ? sp_template_text(c->template, &size) : "none";

    sp_out_text(stdout, text, c->template ? size : strlen(text));
    putchar('\n');
}

/* Shows the messages, broken between words if answers are. */
static void show_messages(const struct sp_loaded_model *m)
{
    const struct sp_conversation *c = &m->conversation;
    struct sp_word_wrap wrap = {.file = stdout};

    if (c->n_turns == 0) puts("none");
    for (size_t i = 0; i < c->n_turns; i++) {
        const char *const texts[] = {c->turns[i].role, ": ", c->turns[i].content};
        if (m->style.wrap) sp_word_wrap_begin(&wrap, stdout);
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
            sp_word_wrap_text(&wrap, texts[k], strlen(texts[k]));
        putchar('\n');
    }
}

static bool show(struct sp_repl *repl, char *words)
{
    const struct sp_loaded_model *m = repl->model;
    const struct sp_conversation *c = &m->conversation;
    const char *what = sp_repl_next_word(&words);

    if (strcmp(what, "system") == 0) {
        sp_repl_show_system(c);
    } else if (strcmp(what, "template") == 0) {
        show_template(c);
    } else if (strcmp(what, "messages") == 0) {
        show_messages(m);
    } else if (strcmp(what, "parameters") == 0) {
        sp_settings_print(stdout, m->settings);
    } else if (strcmp(what, "info") == 0) {
        show_info(m);
    } else if (*what == '\0') {
        show_info(m);
        sp_settings_print(stdout, m->settings);
    } else {
        sp_repl_reply("/show, /show info, /show parameters, /show system, /show template, /show "
                      "messages.");
    }
    return true;
}

static bool undo(struct sp_repl *repl, char *words)
{
    char *text = NULL;

    (void)words;
    sp_conversation_undo(&repl->model->conversation, &text);
    sp_repl_reply("%s", text ? "The last message and its answer are removed."
                             : "There is no message to remove.");
    free(text);
    return true;
}

/* Answers the last message again, with another seed if the seed was drawn. */
static bool retry(struct sp_repl *repl, char *words)
{
    struct sp_loaded_model *m = repl->model;
    char *text = NULL;
    bool drawn;

    (void)words;
    sp_conversation_undo(&m->conversation, &text);
    if (text == NULL) {
        sp_repl_reply("There is no message to answer again.");
        return true;
    }
    repl->status = sp_settings_redraw(m->settings, &drawn, repl->err);
    if (m->settings->sampling.temperature <= 0)
        sp_repl_reply(
            "Decoding is greedy, so the answer is the same; /set temperature 0.8 varies it.");
    else if (!drawn)
        sp_repl_reply("The seed is set, so the answer is the same; /set seed -1 draws one.");
    if (repl->status == SP_OK) repl->status = sp_repl_answer(repl, text, strlen(text));
    free(text);
    return repl->status == SP_OK;
}

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
        sp_repl_reply("Saved sessions: %.*s.", (int)list.len, list.at);
    else
        sp_repl_reply("There are no saved sessions.");
    sp_strbuf_release(&list);
}

/* *path = the file of the session that the words name, owned; NULL: a sentence was printed. */
static char *path_of(char *words, const char *command)
{
    const char *name = sp_repl_value_of(words);
    struct sp_err err = {0};
    char *path = NULL;

    if (*name == '\0')
        sp_repl_reply("%s NAME, or a path such as ./NAME.json.", command);
    else if (sp_saved_session_path(&path, name, &err))
        sp_repl_reply("%s.", err.text);
    return path;
}

static void print_counts(const char *verb, const char *path, const struct sp_loaded_model *m)
{
    size_t n = m->conversation.n_turns - m->conversation.n_given;

    sp_repl_reply("%s %s: %zu message%s, the system message and the settings.", verb, path, n,
                  n == 1 ? "" : "s");
}

static bool save(struct sp_repl *repl, char *words)
{
    char *path = path_of(words, "/save");
    struct sp_err err = {0};

    if (path == NULL) return true;
    if (sp_saved_session_write(path, repl->model, &err))
        sp_repl_reply("%s.", err.text);
    else
        print_counts("Saved as", path, repl->model);
    free(path);
    sp_repl_list_completions(repl);
    return true;
}

/* True for JSON, as saved sessions are; models are not. */
static bool begins_object(const char *path)
{
    FILE *file = fopen(path, "r");
    bool begins = file && fgetc(file) == '{';

    if (file) fclose(file);
    return begins;
}

/* Goes on with another model, where no session has the name. */
static void load_model(struct sp_repl *repl, const char *name)
{
    const struct sp_repl_opener *opener = repl->opener;
    struct sp_err err = {0};

    if (opener->open(opener->context, repl->model, name, &err)) {
        bool absent = err.topic == SP_TOPIC_NO_MODEL;
        sp_advise(&err);
        sp_repl_reply("%s%s.", absent ? "There is no such session, and no model: " : "", err.text);
        if (absent) print_saved();
    } else {
        sp_repl_reply("The model is %s; the conversation has %zu message%s.", name,
                      repl->model->conversation.n_turns,
                      repl->model->conversation.n_turns == 1 ? "" : "s");
    }
}

static bool load(struct sp_repl *repl, char *words)
{
    char *name = sp_repl_value_of(words), *path = path_of(name, "/load"), *model = NULL;
    struct sp_err err = {0};

    if (path == NULL) {
        print_saved();
    } else if (!begins_object(path)) {
        load_model(repl, name);
    } else if (sp_saved_session_read(path, repl->model, &model, &err)) {
        sp_advise(&err);
        sp_repl_reply("%s.", err.text);
    } else {
        print_counts("Loaded", path, repl->model);
        if (model) sp_repl_reply("It was saved with another model: %s.", model);
    }
    free(model);
    free(path);
    return true;
}

static bool help(struct sp_repl *repl, char *words);

static const struct command commands[] = {
    {"/set", "change a setting, such as temperature, num_ctx, think, system: /set temperature 0.7",
     sp_repl_set, true},
    {"/show", "info and parameters, or one of: info, parameters, system, template, messages", show,
     true},
    {"/read", "send the text of a file: /read FILE, or /read FILE MESSAGE", read_file, true},
    {"/edit", "write the message in $VISUAL, $EDITOR or vi", edit, true},
    {"/retry", "answer the last message again", retry, false},
    {"/regen", NULL, retry, false}, /* as in llama.cpp */
    {"/undo", "remove the last message and its answer", undo, false},
    {"/clear", "forget the conversation", clear, false},
    {"/save", "save conversation and settings: /save NAME, or a path", save, true},
    {"/load", "go on with a saved session or another model: /load NAME, or a path", load, true},
    {"/bye", "end the session (also /exit, Ctrl-D)", bye, false},
    {"/exit", NULL, bye, false},
    {"/quit", NULL, bye, false},
    {"/?", "show this help (also /help)", help, false},
    {"/help", NULL, help, false},
};

enum {
    N_COMMANDS = sizeof commands / sizeof *commands,
    HELP_COLUMN = 10, /* at which the help of a command begins */
};

static bool help(struct sp_repl *repl, char *words)
{
    (void)repl;
    (void)words;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (commands[i].help)
            sp_word_wrap_print(stdout, HELP_COLUMN, "  %-7s %s", commands[i].name,
                               commands[i].help);
    }
    sp_repl_reply("  \"\"\"     begins and ends a message of several lines\n"
                  "Tab completes a command, Ctrl-C stops an answer. Pasted text is one message.");
    return true;
}

/* A blank at the end means that a value follows. */
static const char *const set_words[] = {"stop ",    "dry_sequence_breakers ",
                                        "system ",  "format ",
                                        "verbose",  "quiet",
                                        "think",    "nothink",
                                        "wordwrap", "nowordwrap"};
static const char *const show_words[] = {"info", "parameters", "system", "template", "messages"};

void sp_repl_release_completions(struct sp_repl_completions *c)
{
    while (c->n > 0)
        free(c->list[--c->n]);
    free(c->list);
    *c = (struct sp_repl_completions){0};
}

/* Adds a text to complete; `end`: a blank if another word must follow, else "". If memory runs out
 * Tab does not know it. */
static void add_completion(struct sp_repl_completions *c, const char *command, const char *word,
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

void sp_repl_list_completions(struct sp_repl *repl)
{
    struct sp_repl_completions *c = &repl->completions;

    sp_repl_release_completions(c);
    for (size_t i = 0; i < N_COMMANDS; i++)
        add_completion(c, commands[i].name, "", commands[i].takes_words ? " " : "");
    for (size_t i = 0; sp_settings_name(i); i++)
        add_completion(c, "/set", sp_settings_name(i), " ");
    for (size_t i = 0; i < sizeof set_words / sizeof *set_words; i++)
        add_completion(c, "/set", set_words[i], "");
    for (size_t i = 0; i < sizeof show_words / sizeof *show_words; i++)
        add_completion(c, "/show", show_words[i], "");
    sp_saved_session_each(add_saved, c);
    sp_line_edit_complete(repl->edit, (const char *const *)c->list, c->n);
}

bool sp_repl_run_command(struct sp_repl *repl, char *line)
{
    char *rest = line, *name = sp_repl_next_word(&rest);
    const char *near = NULL;

    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) return commands[i].run(repl, rest);
    for (size_t i = 0; i < N_COMMANDS; i++)
        near = sp_nearer(near, commands[i].name, name);
    if (near && strlen(name) > 2)
        sp_repl_reply("Unknown command %s, did you mean %s?", name, near);
    else
        sp_repl_reply("Unknown command %s, /? lists them.", name);
    return true;
}
