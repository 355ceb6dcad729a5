#include "cli/chat/conversation.h"
#include "cli/base/template_source.h"
#include "format/modelfile/modelfile.h"
#include "format/base/mem.h"
#include "format/base/unicode.h"
#include "format/pack_contents.h"
#include "runtime/session/session.h"

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

/* All behind the first n. */
static void drop_turns(struct sp_conversation *c, size_t n)
{
    while (c->n_turns > n) {
        free(c->turns[--c->n_turns].content);
        free(c->turns[c->n_turns].reasoning);
    }
}

/* Templates write text, nothing else. */
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

enum sp_status sp_conversation_set_thinking(struct sp_conversation *c, const char *word,
                                            struct sp_err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    bool off = strcmp(word, "false") == 0, level = !off && strcmp(word, "true") != 0;
    size_t len = strlen(word);

    if (level && (len == 0 || len >= sizeof c->think_level || strspn(word, letters) < len)) {
        return sp_fail(err, SP_E_USAGE, "think is \"%s\", expected true, false or a level", word);
    }
    c->thinking = off ? SP_THINK_OFF : SP_THINK_ON;
    memcpy(c->think_level, word, level ? len + 1 : 0);
    if (!level) c->think_level[0] = '\0';
    return SP_OK;
}

static enum sp_status take_records(struct sp_conversation *c, const struct sp_modelfile *file,
                                   bool *unused, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    const struct sp_modelfile_record *system = sp_modelfile_find(file, SP_MODELFILE_SYSTEM, NULL);

    if (c->template == NULL) {
        *unused = system != NULL || sp_modelfile_find(file, SP_MODELFILE_MESSAGE, NULL) != NULL;
        return SP_OK;
    }
    if (system && c->system == NULL) st = sp_conversation_set_system(c, system->value, err);
    for (size_t i = 0; i < file->n_records && !st; i++) {
        const struct sp_modelfile_record *r = file->records + i;
        if (r->command != SP_MODELFILE_MESSAGE) continue;
        st = add_turn(c, r->name, r->value, r->value_size, err);
    }
    c->n_given = c->n_turns;
    return st;
}

enum sp_status sp_conversation_open(struct sp_conversation *c, const struct sp_pack *pack, bool raw,
                                    const char *system, bool *unused, struct sp_err *err)
{
    enum sp_status st;
    struct sp_modelfile file = {0};
    char *records = NULL;
    size_t size = 0;

    *unused = false;
    if (raw) return SP_OK;
    c->now = sp_template_now();
    if ((st = sp_template_source_pack(&c->template, pack, err))) return st;
    if (system && c->template == NULL) {
        return sp_fail(err, SP_E_UNSUPPORTED, "--system requires a chat template, and %s has none",
                       sp_pack_path(pack));
    }
    if (system && (st = sp_conversation_set_system(c, system, err))) return st;
    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &records, &size, err);
    if (st || records == NULL) return st;
    st = sp_modelfile_parse(&file, sp_pack_path(pack), records, size, err);
    if (!st) st = take_records(c, &file, unused, err);
    sp_modelfile_release(&file);
    free(records);
    return st;
}

void sp_conversation_release(struct sp_conversation *c)
{
    drop_turns(c, 0);
    free(c->turns);
    free(c->system);
    sp_ids_release(&c->prompt);
    sp_chat_specials_release(&c->specials);
    sp_template_free(c->template);
    memset(c, 0, sizeof *c);
}

void sp_conversation_attach(struct sp_conversation *c, const struct sp_package *package)
{
    c->package = package;
    if (c->template == NULL) return;
    c->has_end_id = sp_prompt_end_of_turn(&c->end_id, package, c->template);
    /* What is not learned stays in the text. */
    if (sp_chat_format_learn(&c->answers, c->template, package->tokenizer, NULL) ||
        sp_chat_specials_find(&c->specials, &c->answers, package->tokenizer, false, NULL)) {
        c->answers = (struct sp_chat_format){0};
    }
}

static enum sp_status append_ids(struct sp_conversation *c, const uint32_t *ids, size_t n,
                                 struct sp_err *err)
{
    enum sp_status st;

    if (n == 0) return SP_OK;
    st = sp_grow(&c->prompt.at, &c->cap_prompt, c->prompt.n + n, sizeof *ids, err);
    if (st) return st;
    memcpy(c->prompt.at + c->prompt.n, ids, n * sizeof *ids);
    c->prompt.n += n;
    return SP_OK;
}

/* The template writes every special token itself: nothing is added to what it says. */
static enum sp_status render(struct sp_conversation *c, struct sp_err *err)
{
    enum sp_status st;
    struct sp_template_conversation chat = {.system = c->system,
                                            .n_messages = c->n_turns,
                                            .thinking = c->thinking,
                                            .think_level = *c->think_level ? c->think_level : NULL,
                                            .now = c->now};
    struct sp_chat_message *messages = NULL;
    char *text = NULL;
    size_t size;

    if ((st = sp_new(&messages, c->n_turns, sizeof *messages, err))) return st;
    for (size_t i = 0; i < c->n_turns; i++)
        messages[i] =
            (struct sp_chat_message){c->turns[i].role, c->turns[i].content, c->turns[i].reasoning};
    chat.messages = messages;
    st = sp_template_chat(&text, &size, c->template, &chat, err);
    free(messages);
    if (st) {
        sp_context(err, "the chat template");
        return st;
    }
    sp_ids_release(&c->prompt);
    c->cap_prompt = 0;
    c->thinks = sp_reasoning_mode_of(&c->answers, text, size, c->thinking != SP_THINK_OFF);
    st = sp_prompt_raw(&c->prompt, c->package, text, size, false, err);
    free(text);
    return st;
}

static enum sp_status ask_raw(struct sp_conversation *c, const char *text, size_t size,
                              struct sp_err *err)
{
    enum sp_status st;
    struct sp_ids ids = {0};

    if ((st = sp_prompt_raw(&ids, c->package, text, size, c->n_kept == 0, err))) return st;
    c->prompt.n = c->n_kept;
    st = append_ids(c, ids.at, ids.n, err);
    sp_ids_release(&ids);
    return st;
}

enum sp_status sp_conversation_ask(struct sp_conversation *c, const char *text, size_t size,
                                   struct sp_err *err)
{
    enum sp_status st;

    if (c->template == NULL) return ask_raw(c, text, size, err);
    if (memchr(text, '\0', size) != NULL) {
        return sp_fail(err, SP_E_INPUT, "the prompt contains a NUL, which only --raw accepts");
    }
    if ((st = check_text("the prompt", text, size, err))) return st;
    if ((st = add_turn(c, "user", text, size, err))) return st;
    if ((st = render(c, err))) sp_conversation_withdraw(c);
    return st;
}

/* "user" and what he said; false: that is no message. */
static bool read_message(const struct sp_json *message, const char **role, const char **text,
                         size_t *size)
{
    *role = sp_json_to_string(sp_json_get(message, "role"), NULL);
    *text = sp_json_to_string(sp_json_get(message, "content"), size);
    return *role && *text && sp_json_len(message) == 2;
}

static enum sp_status add_message(struct sp_conversation *c, const struct sp_json *message,
                                  struct sp_err *err)
{
    const char *role, *text;
    size_t size;

    if (!read_message(message, &role, &text, &size)) {
        return sp_fail(err, SP_E_INPUT,
                       "a message is not an object with a role and a content, both strings");
    }
    if (memchr(text, '\0', size) != NULL)
        return sp_fail(err, SP_E_INPUT, "a message contains a NUL");
    return add_turn(c, role, text, size, err);
}

enum sp_status sp_conversation_ask_all(struct sp_conversation *c, const struct sp_json *messages,
                                       struct sp_err *err)
{
    char *system = c->system;
    const char *role = NULL, *text;
    enum sp_status st = SP_OK;
    size_t size;

    if (c->template == NULL) {
        return sp_fail(err, SP_E_UNSUPPORTED, "messages require a chat template");
    }
    if (sp_json_kind(messages) != SP_JSON_ARRAY || sp_json_len(messages) == 0) {
        return sp_fail(err, SP_E_INPUT, "messages is not an array");
    }
    if (read_message(sp_json_at(messages, 0), &role, &text, &size) && strcmp(role, "system") == 0) {
        c->system = NULL;
    }
    for (size_t i = 0; i < sp_json_len(messages) && !st; i++) {
        st = add_message(c, sp_json_at(messages, i), err);
        if (st) sp_context(err, "messages[%zu]", i);
    }
    if (!st) st = render(c, err);
    c->system = system;
    return st;
}

static enum sp_status add_answer(struct sp_conversation *c, const struct sp_message *message,
                                 struct sp_err *err)
{
    const struct sp_strbuf *content = &message->content, *reasoning = &message->reasoning;
    enum sp_status st =
        add_turn(c, "assistant", content->len ? content->at : "", content->len, err);

    if (st || reasoning->len == 0) return st;
    return sp_copy_text(&c->turns[c->n_turns - 1].reasoning, reasoning->at, reasoning->len, err);
}

enum sp_status sp_conversation_answered(struct sp_conversation *c, const struct sp_result *result,
                                        const struct sp_message *message, struct sp_err *err)
{
    enum sp_status st;

    if (c->template != NULL && message != NULL) return add_answer(c, message, err);
    if (c->template != NULL) {
        return add_turn(c, "assistant", result->text, result->text_size, err);
    }
    if ((st = append_ids(c, result->ids, result->n_ids, err))) return st;
    c->n_kept = c->prompt.n;
    return SP_OK;
}

void sp_conversation_withdraw(struct sp_conversation *c)
{
    c->prompt.n = c->n_kept;
    if (c->n_turns > c->n_given) drop_turns(c, c->n_turns - 1);
}

void sp_conversation_clear(struct sp_conversation *c)
{
    c->prompt.n = c->n_kept = 0;
    drop_turns(c, c->n_given);
}
