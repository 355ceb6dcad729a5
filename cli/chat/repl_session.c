#include "cli/chat/repl_session.h"
#include "cli/base/signals.h"
#include "cli/base/word_wrap.h"
#include "format/base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sp_repl_reply(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    sp_word_wrap_sentence(stdout, 0, format, args);
    va_end(args);
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
    enum sp_status st = request(repl->model, text, size, &err);
    bool interrupted = sp_signals_caught();

    sp_signals_clear();
    if (st == SP_E_BUG) return sp_fail(repl->err, st, "%s", err.text);
    if (st && interrupted)
        sp_repl_reply("Interrupted; the message is removed.");
    else if (st)
        sp_repl_reply("%s.", err.text);
    return SP_OK;
}
