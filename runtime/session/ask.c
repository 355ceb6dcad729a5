/* The simple API: one answer with the file's own settings, by other functions of the library. */
#include "format/base/mem.h"
#include "runtime/session/session.h"

#include <stdlib.h>
#include <string.h>

/* What an answer needs; everything is owned. */
struct question {
    struct sp_file_settings *file;
    const struct sp_answer_settings *settings; /* those of `file` */
    struct sp_chat_message *turns;
    uint32_t *end_ids;
    struct sp_session *session;
    struct sp_chat *chat;
    struct sp_chat_prompt *prompt;
    struct sp_request request;
};

/* Puts the file's system message, unless the turns have one, and its messages before the turns. */
static enum sp_status add_messages(struct question *q, struct sp_chat_request *chat,
                                   struct sp_err *err)
{
    const struct sp_file_settings *file = q->file;
    bool has_system = chat->n_turns > 0 && strcmp(chat->turns[0].role, "system") == 0;
    enum sp_status st;
    size_t n = 0;

    if (chat->n_turns == 0) return SP_OK;
    if ((st = sp_new(&q->turns, file->n_messages + chat->n_turns + 1, sizeof *q->turns, err)))
        return st;
    if (has_system)
        q->turns[n++] = chat->turns[0];
    else if (file->system)
        q->turns[n++] = (struct sp_chat_message){"system", file->system, NULL};
    for (size_t i = 0; i < file->n_messages; i++)
        q->turns[n++] = file->messages[i];
    for (size_t i = has_system; i < chat->n_turns; i++)
        q->turns[n++] = chat->turns[i];
    chat->turns = q->turns;
    chat->n_turns = n;
    return SP_OK;
}

/* Adds the stop texts that are special tokens to the ids that end the answer, since the text of an
 * answer contains no such token. */
static enum sp_status add_ends(struct question *q, struct sp_chat_request *chat,
                               const struct sp_tokenizer *tokenizer, struct sp_err *err)
{
    size_t n = chat->n_end_ids, size;
    enum sp_status st;

    if ((st = sp_new(&q->end_ids, n + q->settings->n_stops + 1, sizeof *q->end_ids, err)))
        return st;
    if (n > 0) memcpy(q->end_ids, chat->end_ids, n * sizeof *q->end_ids);
    for (size_t i = 0; tokenizer && i < q->settings->n_stops; i++) {
        const char *text = q->settings->stops[i];
        if (sp_tokenizer_leading_special(tokenizer, text, &q->end_ids[n], &size))
            n += size == strlen(text);
    }
    chat->end_ids = q->end_ids;
    chat->n_end_ids = n;
    return SP_OK;
}

static enum sp_status open_session(struct question *q, struct sp_package *package,
                                   struct sp_err *err)
{
    struct sp_session_options options = SP_SESSION_OPTIONS_INIT;
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;

    sp_package_describe(package, &info);
    if (q->settings->n_context > 0) options.n_context = (size_t)q->settings->n_context;
    if (options.n_context > info.max_positions) options.n_context = info.max_positions;
    return sp_session_open(&q->session, package, &options, err);
}

enum sp_status sp_ask(struct sp_package *package, const struct sp_chat_request *conversation,
                      int (*part)(void *context, const struct sp_chat_part *part), void *context,
                      struct sp_result *result, struct sp_err *err)
{
    const struct sp_chat_reader_options reading = {
        .size = sizeof reading, .part = part, .context = context};
    struct question q = {.request = SP_REQUEST_INIT};
    struct sp_chat_request chat = {0};
    struct sp_result own = SP_RESULT_INIT;
    enum sp_status st;

    if ((st = sp_copy_in(&chat, sizeof chat, conversation, "sp_chat_request", err))) return st;
    if ((st = sp_package_settings(package, &q.file, err))) goto done;
    q.settings = (const struct sp_answer_settings *)q.file;
    if ((st = sp_file_settings_apply(q.file, &q.request, err))) goto done;
    if ((st = add_messages(&q, &chat, err))) goto done;
    if ((st = add_ends(&q, &chat, sp_package_tokenizer(package), err))) goto done;
    if (!chat.limit_reasoning && q.settings->reasoning_budget >= 0) {
        chat.limit_reasoning = true;
        chat.max_reasoning_tokens = (size_t)q.settings->reasoning_budget;
    }
    if ((st = open_session(&q, package, err))) goto done;
    if ((st = sp_chat_open(&q.chat, package, NULL, err))) goto done;
    if ((st = sp_chat_prompt_open(&q.prompt, q.chat, &chat, err))) goto done;
    if ((st = sp_chat_reader_open(&q.request.reader, q.prompt, &reading, err))) goto done;
    sp_chat_prompt_apply(q.prompt, &q.request);
    st = sp_session_generate(q.session, &q.request, result ? result : &own, err);
done:
    sp_result_release(&own);
    sp_chat_reader_close(q.request.reader);
    sp_chat_prompt_close(q.prompt);
    sp_chat_close(q.chat);
    sp_session_close(q.session);
    sp_file_settings_close(q.file);
    free(q.turns);
    free(q.end_ids);
    return st;
}
