/* The interactive session: reads lines and commands from the terminal and shows the answers.
 *
 * Every prompt is the whole conversation; its cached prefix is reused. An interrupt ends an answer
 * and keeps the text generated so far. A full context is reported; only with --context-full shift
 * are the oldest messages dropped. */
#include "cli/chat/repl.h"
#include "cli/base/signals.h"
#include "cli/base/user_folder.h"
#include "cli/chat/repl_commands.h"
#include "format/base/file.h"

#include <stdlib.h>
#include <string.h>

/* Handles one input line; returns false at the end of the session. */
static bool turn(struct sp_repl *repl)
{
    const char *line = sp_line_edit_read(repl->edit, ">>> ");
    struct sp_strbuf message = {0};
    bool more = true;

    if (line == NULL) {
        putchar('\n');
        return false;
    }
    if (line[0] == '\0') {
        if (sp_line_edit_interrupted_empty(repl->edit))
            sp_repl_reply("Ctrl-D or /bye ends the session.");
        return true;
    }
    if (strncmp(line, "\"\"\"", 3) == 0) {
        if (sp_repl_read_message(repl, line, &message))
            repl->status = sp_repl_answer(repl, message.at, message.len);
    } else {
        repl->status = sp_strbuf_append(&message, line, strlen(line) + 1, repl->err);
        if (repl->status == SP_OK && line[0] == '/' && strchr(line, '\n') == NULL)
            more = sp_repl_run_command(repl, message.at);
        else if (repl->status == SP_OK)
            repl->status = sp_repl_answer(repl, message.at, message.len - 1);
    }
    sp_strbuf_release(&message);
    return more && !repl->ended && repl->status == SP_OK;
}

/* Returns $XDG_STATE_HOME/spectool/history, by default below ~/.local/state, owned by the caller.
 * NULL: there is no such folder. */
static char *history_path(void)
{
    char *folder = NULL, *path = NULL;

    if (sp_user_folder(&folder, "XDG_STATE_HOME", ".local/state", NULL) == SP_OK &&
        sp_file_join(&path, folder, "history", NULL))
        path = NULL;
    free(folder);
    return path;
}

enum sp_status sp_repl_run(struct sp_loaded_model *model, struct sp_err *err)
{
    enum sp_status st;
    struct sp_repl repl = {.model = model, .err = err};
    char *history = history_path();

    if ((st = sp_line_edit_open(&repl.edit, history, err)) == SP_OK) {
        sp_repl_list_completions(&repl);
        sp_repl_reply("/? for help, /bye to end.");
        if (model->conversation.template == NULL)
            sp_repl_reply(
                "Without a chat template the model continues the text instead of answering it.");
        while (turn(&repl))
            fflush(stdout);
        st = repl.status;
        if (st == SP_OK && sp_signals_caught()) st = sp_fail(err, SP_E_CHECK, "terminated");
    }
    sp_line_edit_close(repl.edit);
    sp_repl_release_completions(&repl.completions);
    free(history);
    return st;
}
