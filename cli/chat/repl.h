/* The interactive session of `spectool run`: its state, and what its loop and commands share. */
#ifndef SP_CLI_CHAT_REPL_H
#define SP_CLI_CHAT_REPL_H

#include "cli/chat/loaded_model.h"
#include "format/base/strbuf.h"
#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* The words that Tab completes. */
struct sp_repl_completions {
    char **list; /* [n] texts; owned */
    size_t n, cap;
};

/* Opens the model of a name in the place of *model, whose conversation and settings go on as far
 * as the new model takes them. On failure *model stays as it was. */
struct sp_repl_opener {
    enum sp_status (*open)(void *context, struct sp_loaded_model *model, const char *name,
                           struct sp_err *err);
    void *context;
};

struct sp_repl {
    struct sp_loaded_model *model;
    const struct sp_repl_opener *opener;
    struct sp_line_edit *edit;
    struct sp_repl_completions completions;
    struct sp_grammar *grammar; /* of /set format; owned; NULL: none */
    bool ended;                 /* the input ended within a message of several lines */
    enum sp_status status;      /* not SP_OK: the session ends with the error in `err` */
    struct sp_err *err;
};

/* Prints a sentence, or two, of the session. */
void sp_repl_reply(const char *format, ...) SP_PRINTF(1, 2);

/* Reads a message from the line that begins with """ to the line that ends with it; a first line of
 * the quotes alone is no part of it. False if an interrupt or the end of input came first. */
bool sp_repl_read_message(struct sp_repl *repl, const char *line, struct sp_strbuf *message);

/* Answers a message. An error of one message does not end the session. */
SP_MUST_CHECK enum sp_status sp_repl_answer(struct sp_repl *repl, const char *text, size_t size);

/* Reads messages and commands from the terminal until /bye or the end of input. */
SP_MUST_CHECK enum sp_status sp_repl_run(struct sp_loaded_model *model,
                                         const struct sp_repl_opener *opener, struct sp_err *err);

/* ---- slash commands (repl_commands.c) ----
 *
 * The slash commands of an interactive session. */

/* Runs the command of a line, which begins with a slash and is overwritten. False: the end. */
bool sp_repl_run_command(struct sp_repl *repl, char *line);

/* Makes Tab complete commands, the words after /set and /show, and the names of saved sessions. */
void sp_repl_list_completions(struct sp_repl *repl);
void sp_repl_release_completions(struct sp_repl_completions *completions);

/* ---- /set (repl_set.c) ---- */

/* Returns the first word of *text, which moves to the next word. */
char *sp_repl_next_word(char **text);
/* Returns a value without trailing whitespace and without the quotes around it. */
char *sp_repl_value_of(char *text);
void sp_repl_show_system(const struct sp_conversation *conversation);
bool sp_repl_set(struct sp_repl *repl, char *words); /* a command; returns true */

/* ---- saved sessions (saved_session.c) ----
 *
 * A session in a file: the messages, the system message, the reasoning and the settings, as JSON
 * that a person can read and change. */

/* *path = the file of a session, owned by the caller: a name with a slash is a path, any other is
 * NAME.json in $XDG_DATA_HOME/spectool, by default below ~/.local/share. SP_E_USAGE: the name is
 * empty or begins with a dot. */
SP_MUST_CHECK enum sp_status sp_saved_session_path(char **path, const char *name,
                                                   struct sp_err *err);

/* Writes the session, and replaces a session of the same name; SP_E_USAGE if the file is not a
 * saved session. SP_E_UNSUPPORTED: without a template the conversation has no messages. */
SP_MUST_CHECK enum sp_status
sp_saved_session_write(const char *path, const struct sp_loaded_model *loaded, struct sp_err *err);

/* Replaces conversation and settings by those of the file. On failure they stay as they were; a
 * context that memory cannot hold is a failure, too. *model = the packed file that the session was
 * saved with, owned by the caller; NULL: the present one, or the session does not name it. */
SP_MUST_CHECK enum sp_status sp_saved_session_read(const char *path, struct sp_loaded_model *loaded,
                                                   char **model, struct sp_err *err);

/* Calls `name` for each saved session. */
void sp_saved_session_each(void (*name)(void *context, const char *name), void *context);

/* ---- lines from the user (line_edit.c) ----
 *
 * Reads lines from a terminal, with editing and a history. Only its source uses libedit. */

struct sp_line_edit; /* opaque */

/* Opens the editor. `path`: the file that stores the history; NULL: none. */
SP_MUST_CHECK enum sp_status sp_line_edit_open(struct sp_line_edit **out, const char *path,
                                               struct sp_err *err);
void sp_line_edit_close(struct sp_line_edit *edit); /* accepts NULL; writes the history */

/* Sets the texts to which Tab completes the start of a line: [n], borrowed until close, ASCII. */
void sp_line_edit_complete(struct sp_line_edit *edit, const char *const *texts, size_t n);

/* Returns the next line without its line end, borrowed until the next call; NULL at the end of
 * input or when a signal ends the program. An interrupt returns an empty line. */
const char *sp_line_edit_read(struct sp_line_edit *edit, const char *prompt);
/* True if an interrupt ended the last line. */
bool sp_line_edit_interrupted(const struct sp_line_edit *edit);
/* True if an interrupt ended the last line before anything was typed. */
bool sp_line_edit_interrupted_empty(const struct sp_line_edit *edit);

/* Writes the name and version of the library that is used, for `spectool --version --verbose`. */
void sp_line_edit_library(char *text, size_t size);

#endif
