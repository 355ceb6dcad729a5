#include "cli/chat/conversation.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"

#include <stdlib.h>
#include <string.h>

static enum sp_status add_turn(struct sp_conversation *c, const char *role, const char *text,
                               size_t size, struct sp_err *err)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    enum sp_status st;
    char *content = NULL;

    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(role, roles[i]) != 0) continue;
        st = sp_grow(&c->turns, &c->cap_turns, c->n_turns + 1, sizeof *c->turns, err);
        if (st || (st = sp_copy_text(&content, text, size, err))) return st;
        c->turns[c->n_turns++] = (struct sp_turn){.role = roles[i], .content = content};
        return SP_OK;
    }
    return sp_fail(err, SP_E_INPUT, "role %s: expected system, user or assistant", role);
}

/* Drops the turns first..end-1. */
static void drop_turns(struct sp_conversation *c, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        free(c->turns[i].content);
        free(c->turns[i].reasoning);
    }
    if (c->n_turns > end)
        memmove(c->turns + first, c->turns + end, (c->n_turns - end) * sizeof *c->turns);
    c->n_turns -= end - first;
}

/* Fails if the text is not valid UTF-8, which templates require. */
static enum sp_status check_text(const char *what, const char *text, size_t size,
                                 struct sp_err *err)
{
    size_t valid = sp_utf8_valid(text, size);

    if (valid == size) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s is not valid UTF-8 at byte %zu", what, valid);
}

enum sp_status sp_conversation_set_system(struct sp_conversation *c, const char *text,
                                          struct sp_err *err)
{
    char *copy = NULL;
    enum sp_status st;

    if ((st = check_text("the system message", text, strlen(text), err))) return st;
    if ((st = sp_copy_text(&copy, text, strlen(text), err))) return st;
    free(c->system);
    c->system = copy;
    return SP_OK;
}

const char *const sp_thinking_words[] = {"true", "false",  "on",   "off",
                                         "low",  "medium", "high", NULL};

enum sp_status sp_thinking_read(struct sp_thinking *thinking, const char *word,
                                const struct sp_chat_info *chat, struct sp_err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    bool off = strcmp(word, "false") == 0 || strcmp(word, "off") == 0;
    bool on = strcmp(word, "true") == 0 || strcmp(word, "on") == 0;
    size_t len = off || on ? 0 : strlen(word);

    if (!off && !on && (len == 0 || len >= SP_THINK_LEVEL_SIZE || strspn(word, letters) < len))
        return sp_fail(err, SP_E_USAGE, "think is \"%s\", expected true, false or a level", word);
    if (!off && chat == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED, "think requires a chat template");
    if (!off && !chat->has_reasoning) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "think %s: this model's chat template has no reasoning", word);
    }
    *thinking = (struct sp_thinking){.mode = off ? SP_THINK_OFF : SP_THINK_ON};
    memcpy(thinking->level, word, len);
    return SP_OK;
}

enum sp_status sp_conversation_set_thinking(struct sp_conversation *c, const char *word,
                                            struct sp_err *err)
{
    return sp_thinking_read(&c->thinking, word, c->template ? &c->chat_info : NULL, err);
}

static enum sp_status take_messages(struct sp_conversation *c, const struct sp_file_settings *file,
                                    struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (file->system && c->system == NULL) st = sp_conversation_set_system(c, file->system, err);
    for (size_t i = 0; i < file->n_messages && !st; i++) {
        const struct sp_chat_message *m = &file->messages[i];
        st = add_turn(c, m->role, m->content, strlen(m->content), err);
    }
    c->n_given = c->n_turns;
    return st;
}

enum sp_status sp_conversation_open(struct sp_conversation *c, const struct sp_file_settings *file,
                                    const char *path, bool raw, const char *system,
                                    struct sp_err *err)
{
    enum sp_status st;

    if (raw) return SP_OK;
    c->now = sp_template_now();
    if ((st = sp_template_open_file(&c->template, path, SP_TEMPLATE_UNKNOWN, err))) return st;
    if (c->template == NULL && system == NULL) return SP_OK;
    if (c->template == NULL) {
        return sp_fail(err, SP_E_UNSUPPORTED, "--system requires a chat template, and %s has none",
                       path);
    }
    if (system && (st = sp_conversation_set_system(c, system, err))) return st;
    return take_messages(c, file, err);
}

void sp_conversation_release(struct sp_conversation *c)
{
    drop_turns(c, 0, c->n_turns);
    free(c->turns);
    free(c->system);
    sp_ids_release(&c->prompt);
    sp_chat_prompt_close(c->rendered);
    sp_chat_close(c->chat);
    sp_template_close(c->template);
    memset(c, 0, sizeof *c);
}

enum sp_status sp_conversation_attach(struct sp_conversation *c, const struct sp_package *package,
                                      struct sp_err *err)
{
    const struct sp_chat_options options = {.size = sizeof options, .chat_template = c->template};
    enum sp_status st;

    c->package = package;
    if (c->template == NULL) return SP_OK;
    if ((st = sp_chat_open(&c->chat, package, &options, err))) return st;
    c->chat_info = (struct sp_chat_info)SP_CHAT_INFO_INIT;
    sp_chat_describe(c->chat, &c->chat_info);
    return SP_OK;
}

bool sp_conversation_separates_reasoning(const struct sp_conversation *c,
                                         const struct sp_chat_prompt *prompt)
{
    struct sp_chat_prompt_info info = {.size = sizeof info};

    sp_chat_prompt_describe(prompt, &info);
    return c->chat_info.has_reasoning && !info.content_only;
}

/* Makes c->rendered and c->prompt of the whole conversation. */
static enum sp_status render(struct sp_conversation *c, struct sp_err *err)
{
    struct sp_chat_prompt_info info = {.size = sizeof info};
    uint32_t stop_ids[SP_MAX_STOPS];
    struct sp_chat_request request = {
        .size = sizeof request,
        .is_think_set = c->thinking.mode != SP_THINK_DEFAULT,
        .think = c->thinking.mode == SP_THINK_ON,
        .think_level = *c->thinking.level ? c->thinking.level : NULL,
        .now = &c->now,
        .response_format = c->response_format,
        .ignore_eos = c->ignore_eos,
        .end_ids = stop_ids,
    };
    struct sp_chat_message *messages = NULL;
    enum sp_status st;

    sp_chat_prompt_close(c->rendered);
    c->rendered = NULL;
    if ((st = sp_new(&messages, c->n_turns + 1, sizeof *messages, err))) return st;
    if (c->system != NULL && *c->system)
        messages[request.n_turns++] = (struct sp_chat_message){"system", c->system, NULL};
    for (size_t i = 0; i < c->n_turns; i++) {
        messages[request.n_turns++] =
            (struct sp_chat_message){c->turns[i].role, c->turns[i].content, c->turns[i].reasoning};
    }
    request.turns = messages;
    if (c->settings) {
        request.n_end_ids = sp_prompt_stop_ids(stop_ids, c->package, c->settings);
        sp_prompt_limit_reasoning(&request, c->settings);
    }
    st = sp_chat_prompt_open(&c->rendered, c->chat, &request, err);
    free(messages);
    if (st) return st;
    sp_chat_prompt_describe(c->rendered, &info);
    c->prompt.n = 0;
    return sp_ids_append(&c->prompt, info.ids, info.n_ids, err);
}

static enum sp_status make_raw_prompt(struct sp_conversation *c, const char *text, size_t size,
                                      struct sp_err *err)
{
    enum sp_status st;
    struct sp_ids ids = {0};

    if ((st = sp_prompt_raw(&ids, c->package, text, size, c->n_kept == 0, err))) return st;
    c->prompt.n = c->n_kept;
    st = sp_ids_append(&c->prompt, ids.at, ids.n, err);
    sp_ids_release(&ids);
    return st;
}

enum sp_status sp_conversation_add_user(struct sp_conversation *c, const char *text, size_t size,
                                        struct sp_err *err)
{
    enum sp_status st;

    if (c->template == NULL) return make_raw_prompt(c, text, size, err);
    if (memchr(text, '\0', size) != NULL)
        return sp_fail(err, SP_E_INPUT, "the prompt contains a NUL, which only --raw accepts");
    if ((st = check_text("the prompt", text, size, err))) return st;
    if ((st = add_turn(c, "user", text, size, err))) return st;
    if ((st = render(c, err))) sp_conversation_withdraw(c);
    return st;
}

static enum sp_status restore_message(struct sp_conversation *c, const struct sp_json *message,
                                      struct sp_err *err)
{
    const char *role = NULL, *content = NULL, *reasoning = NULL;
    enum sp_status st;

    if ((st = sp_json_get_string(message, "role", &role, err))) return st;
    if ((st = sp_json_get_string(message, "content", &content, err))) return st;
    if ((st = sp_json_get_string(message, "reasoning", &reasoning, err))) return st;
    if (role == NULL || content == NULL)
        return sp_fail(err, SP_E_INPUT, "expected an object with a role and a content");
    if ((st = add_turn(c, role, content, strlen(content), err)) || reasoning == NULL) return st;
    return sp_copy_text(&c->turns[c->n_turns - 1].reasoning, reasoning, strlen(reasoning), err);
}

enum sp_status sp_conversation_restore(struct sp_conversation *c, const char *system,
                                       const struct sp_json *messages, struct sp_err *err)
{
    size_t before = c->n_turns;
    enum sp_status st = SP_OK;

    if (sp_json_kind(messages) != SP_JSON_ARRAY)
        return sp_fail(err, SP_E_INPUT, "messages: expected an array");
    for (size_t i = 0; i < sp_json_len(messages) && !st; i++) {
        st = restore_message(c, sp_json_at(messages, i), err);
        if (st) sp_context(err, "messages[%zu]", i);
    }
    if (!st) st = sp_conversation_set_system(c, system ? system : "", err);
    if (st) {
        drop_turns(c, before, c->n_turns);
        return st;
    }
    drop_turns(c, c->n_given, before);
    return SP_OK;
}

static enum sp_status add_answer(struct sp_conversation *c, const struct sp_chat_reader *reader,
                                 struct sp_err *err)
{
    struct sp_chat_answer answer = {.size = sizeof answer};
    enum sp_status st;

    sp_chat_reader_answer(reader, &answer);
    st = add_turn(c, "assistant", answer.content.at, answer.content.len, err);
    if (st || answer.reasoning.len == 0) return st;
    return sp_copy_text(&c->turns[c->n_turns - 1].reasoning, answer.reasoning.at,
                        answer.reasoning.len, err);
}

enum sp_status sp_conversation_add_answer(struct sp_conversation *c, const struct sp_result *result,
                                          const struct sp_chat_reader *reader, struct sp_err *err)
{
    enum sp_status st;

    if (c->template != NULL && reader != NULL) return add_answer(c, reader, err);
    if (c->template != NULL) return add_turn(c, "assistant", result->text, result->text_size, err);
    if ((st = sp_ids_append(&c->prompt, result->ids, result->n_ids, err))) return st;
    c->n_kept = c->prompt.n;
    return SP_OK;
}

enum sp_status sp_conversation_drop_oldest(struct sp_conversation *c, size_t *n, struct sp_err *err)
{
    size_t first = c->n_given, end = first + 1;

    *n = 0;
    while (end < c->n_turns && strcmp(c->turns[end].role, "user") != 0)
        end++;
    if (end >= c->n_turns) return SP_OK;
    drop_turns(c, first, end);
    *n = end - first;
    return render(c, err);
}

void sp_conversation_undo(struct sp_conversation *c, char **text)
{
    size_t last = c->n_turns;

    *text = NULL;
    while (last > c->n_given && strcmp(c->turns[last - 1].role, "user") != 0)
        last--;
    if (last == c->n_given) return;
    *text = c->turns[last - 1].content;
    c->turns[last - 1].content = NULL;
    drop_turns(c, last - 1, c->n_turns);
}

void sp_conversation_withdraw(struct sp_conversation *c)
{
    c->prompt.n = c->n_kept;
    if (c->n_turns > c->n_given) drop_turns(c, c->n_turns - 1, c->n_turns);
}

void sp_conversation_clear(struct sp_conversation *c)
{
    c->prompt.n = c->n_kept = 0;
    drop_turns(c, c->n_given, c->n_turns);
}

/* ---- prompts ---- */

enum sp_status sp_prompt_raw(struct sp_ids *ids, const struct sp_package *package, const char *text,
                             size_t size, bool first, struct sp_err *err)
{
    unsigned flags = SP_ENCODE_PARSE_SPECIAL | (first ? SP_ENCODE_ADD_SPECIAL : 0);

    return sp_tokenizer_encode(sp_package_tokenizer(package), text, size, flags, &ids->at, &ids->n,
                               err);
}

size_t sp_prompt_stop_ids(uint32_t ids[SP_MAX_STOPS], const struct sp_package *package,
                          const struct sp_settings *settings)
{
    const struct sp_tokenizer *tokenizer = sp_package_tokenizer(package);
    size_t n = 0, size;

    for (size_t i = 0; tokenizer && i < settings->stops.n; i++) {
        const char *stop = settings->stops.at[i];
        if (sp_tokenizer_leading_special(tokenizer, stop, &ids[n], &size))
            n += size == strlen(stop);
    }
    return n;
}

void sp_prompt_limit_reasoning(struct sp_chat_request *request, const struct sp_settings *settings)
{
    request->limit_reasoning = settings->reasoning_budget >= 0;
    if (request->limit_reasoning)
        request->max_reasoning_tokens = (size_t)settings->reasoning_budget;
}
