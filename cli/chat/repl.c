/* The interactive session: reads lines and commands from the terminal and shows the answers.
 *
 * Every prompt is the whole conversation; its cached prefix is reused. An interrupt ends an answer
 * and keeps the text generated so far. A full context is reported; only with --context-full shift
 * are the oldest messages dropped. */
#include "cli/chat/repl.h"
#include "cli/base/signals.h"
#include "cli/base/user_folder.h"
#include "cli/base/out.h"
#include "format/base/clock.h"
#include "format/base/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sp_repl_reply(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    sp_word_wrap_sentence(stdout, 0, format, args);
    va_end(args);
}

/* Returns the three quotes that end a line, trailing whitespace aside; NULL: none do. */
static const char *closing_quotes(const char *line)
{
    size_t len = strlen(line);

    while (len > 0 && strchr(" \t", line[len - 1]) != NULL)
        len--;
    return len >= 3 && strncmp(line + len - 3, "\"\"\"", 3) == 0 ? line + len - 3 : NULL;
}

bool sp_repl_read_message(struct sp_repl *repl, const char *line, struct sp_strbuf *message)
{
    const char *end;
    enum sp_status st;

    line += 3;
    for (bool first = true; (end = closing_quotes(line)) == NULL; first = false) {
        st = sp_strbuf_append(message, line, strlen(line), repl->err);
        if (st == SP_OK && !(first && *line == '\0'))
            st = sp_strbuf_append(message, "\n", 1, repl->err);
        if ((repl->status = st)) return false;
        if ((line = sp_line_edit_read(repl->edit, "... ")) == NULL) {
            putchar('\n');
            repl->ended = true;
            return false;
        }
        if (sp_line_edit_interrupted(repl->edit)) return false;
    }
    repl->status = sp_strbuf_append(message, line, (size_t)(end - line), repl->err);
    return repl->status == SP_OK;
}

/* Says how a full context can be enlarged, if it can. */
static const char *ways_on(const struct sp_loaded_model *m)
{
    return sp_session_n_context(m->session) < m->info.max_positions
               ? "/set num_ctx enlarges it, /clear starts over"
               : "/clear starts over";
}

/* Drops old messages from a full context if the user chose so. */
static enum sp_status shift(struct sp_loaded_model *m, struct sp_err *err)
{
    size_t before = m->conversation.prompt.n, n = 0;
    enum sp_status st = m->shift ? sp_loaded_model_shift(m, &n, err) : SP_OK;

    if (n > 0) {
        sp_repl_reply(
            "The context of %zu tokens is full: the %zu oldest messages are dropped, %zu of %zu "
            "tokens remain.",
            sp_session_n_context(m->session), n, m->conversation.prompt.n, before);
    }
    return st;
}

/* True if the context has space for an answer after the prompt. */
static bool fits(const struct sp_loaded_model *m)
{
    size_t n = m->conversation.prompt.n, context = sp_session_n_context(m->session);

    if (n < context) return true;
    sp_repl_reply(
        "With this message the conversation has %zu tokens and leaves no space for an answer in "
        "the context of %zu; the message is removed. %s.",
        n, context, ways_on(m));
    return false;
}

/* Generates an answer and adds it to the conversation. If there is none, because of a failure or
 * an interrupt, the message is dropped. */
static enum sp_status request(struct sp_loaded_model *m, const char *text, size_t size,
                              struct sp_err *err)
{
    struct sp_conversation *c = &m->conversation;
    struct sp_result result = SP_RESULT_INIT;
    struct sp_chat_reader *reader = NULL;
    enum sp_status st;
    bool answered = false;

    m->style.started = sp_seconds();
    if ((st = sp_conversation_add_user(c, text, size, err))) return st;
    if ((st = shift(m, err))) goto done;
    if (fits(m)) {
        if ((st = sp_loaded_model_answer(&result, &reader, m, &c->prompt, c->rendered, err)))
            goto done;
        answered = result.stop != SP_STOP_CANCELLED || result.text_size > 0;
        if (answered) m->n_used = c->prompt.n + (result.n_ids ? result.n_ids - 1 : 0);
        if (result.stop == SP_STOP_CONTEXT) {
            sp_repl_reply("The context of %zu tokens is full, so the answer ends here; %s.",
                          sp_session_n_context(m->session),
                          m->shift ? "the next message drops the oldest ones" : ways_on(m));
        } else if (result.stop == SP_STOP_MEMORY) {
            sp_repl_reply(
                "The memory for KV caches is used up after %zu tokens, so the answer ends here; "
                "/clear starts over.",
                m->n_used);
        }
    }
    if (answered) st = sp_conversation_add_answer(c, &result, reader, err);
done:
    if (!answered) sp_conversation_withdraw(c);
    sp_chat_reader_close(reader);
    sp_result_release(&result);
    return st;
}

enum sp_status sp_repl_answer(struct sp_repl *repl, const char *text, size_t size)
{
    struct sp_err err = {0};
    bool interrupted;
    enum sp_status st;

    sp_signals_hide_typing(); /* what is typed now is shown when it is read */
    st = request(repl->model, text, size, &err);
    sp_signals_show_typing();
    interrupted = sp_signals_caught();
    sp_signals_clear();
    sp_advise(&err);
    if (st == SP_E_BUG) return sp_fail_as(repl->err, &err);
    if (st && interrupted)
        sp_repl_reply("Interrupted; the message is removed.");
    else if (st)
        sp_repl_reply("%s.", err.text);
    return SP_OK;
}

/* ---- the loop ---- */

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

enum sp_status sp_repl_run(struct sp_loaded_model *model, const struct sp_repl_opener *opener,
                           struct sp_err *err)
{
    enum sp_status st;
    struct sp_repl repl = {.model = model, .opener = opener, .err = err};
    char *history = NULL;

    if (sp_user_file(&history, "XDG_STATE_HOME", ".local/state", "history", NULL))
        history = NULL; /* the lines of this session are not kept */
    if ((st = sp_line_edit_open(&repl.edit, history, err)) == SP_OK) {
        sp_repl_list_completions(&repl);
        sp_repl_reply("/? for help, /bye to end.");
        if (model->conversation.template == NULL)
            sp_repl_reply(
                "Without a chat template the model continues the text instead of answering it.");
        while (turn(&repl))
            fflush(stdout);
        st = repl.status;
        if (st == SP_OK && sp_signals_caught()) st = sp_fail(err, SP_E_CANCELLED, "terminated");
    }
    sp_line_edit_close(repl.edit);
    sp_repl_release_completions(&repl.completions);
    sp_grammar_close(repl.grammar);
    free(history);
    return st;
}
