#include "cli/chat/batch.h"
#include "cli/chat/request_settings.h"
#include "format/base/affix.h"

#include <string.h>

void sp_batch_line_release(struct sp_batch_line *line)
{
    sp_chat_prompt_close(line->rendered);
    sp_ids_release(&line->ids);
    sp_grammar_close(line->grammar);
    sp_settings_release(&line->settings);
    sp_json_free(line->json);
    *line = (struct sp_batch_line){0};
}

static bool is_setting(const char *key)
{
    enum sp_setting_kind kind = sp_settings_kind(key);

    return kind == SP_SETTING_SAMPLING || kind == SP_SETTING_LENGTH;
}

/* Checks that all members are known, since a misspelt member would silently change nothing. */
static enum sp_status check_members(const struct sp_json *line, struct sp_err *err)
{
    static const char known[] = "custom_id prompt messages think format stop dry_sequence_breakers";
    struct sp_json_iter it = {0};

    while (sp_json_next(line, &it)) {
        if (!is_setting(it.key) && !sp_is_among(it.key, known)) {
            const bool is_request = sp_is_among(it.key, "model max_tokens max_completion_tokens");
            return sp_fail(err, SP_E_INPUT, "unknown member %s%s", it.key,
                           strcmp(it.key, "id") == 0 ? ", did you mean custom_id?"
                           : is_request ? "; the body of a request stands in a member body, beside "
                                          "custom_id, method and url"
                                        : "");
        }
    }
    if (sp_json_get(line, "prompt") && sp_json_get(line, "messages"))
        return sp_fail(err, SP_E_INPUT, "prompt and messages cannot be combined");
    return SP_OK;
}

static bool begins_value(const char *text, size_t size)
{
    size_t i = 0;

    while (i < size && strchr(" \t\r", text[i]) != NULL)
        i++;
    return i < size && (text[i] == '"' || text[i] == '[' || text[i] == '{');
}

enum sp_status sp_batch_line_parse(struct sp_batch_line *out, const char *text, size_t size,
                                   struct sp_err *err)
{
    enum sp_status st;

    *out = (struct sp_batch_line){0};
    if (!begins_value(text, size)) {
        return sp_fail(err, SP_E_INPUT,
                       "expected a string in quotes, an array of token IDs or an object, in JSON");
    }
    if ((st = sp_json_parse(&out->json, text, size, SP_JSON_STRICT, err))) return st;
    return sp_json_get_string(out->json, "custom_id", &out->custom_id, err);
}

bool sp_batch_line_is_request(const struct sp_batch_line *line)
{
    return sp_json_has(line->json, "body") || sp_json_has(line->json, "url") ||
           sp_json_has(line->json, "method") || sp_json_has(line->json, "params");
}

enum sp_status sp_batch_line_read(struct sp_batch_line *out, const struct sp_loaded_model *m,
                                  struct sp_err *err)
{
    const struct sp_json *format = sp_json_get(out->json, "format");
    const char *key;
    enum sp_status st;

    if ((st = check_members(out->json, err)) ||
        (st = sp_settings_copy(&out->settings, m->settings, err)) ||
        (st = sp_request_settings_read_named(&out->settings, out->json, SP_SETTING_SAMPLING, &key,
                                             err)) ||
        (st = sp_request_settings_read_named(&out->settings, out->json, SP_SETTING_LENGTH, &key,
                                             err)) ||
        (st = sp_request_settings_read_breakers(&out->settings, out->json, err)) ||
        (st = sp_request_settings_read_stops(&out->settings, sp_json_get(out->json, "stop"), err)))
        return st;
    if (format == NULL) return SP_OK;
    if (m->ignore_eos)
        return sp_fail(err, SP_E_USAGE, "format cannot be combined with --ignore-eos");
    return sp_response_format_of_json(&out->grammar, format, NULL, err);
}

static enum sp_status set_thinking(struct sp_conversation *c, const struct sp_json *think,
                                   struct sp_err *err)
{
    const char *word = sp_json_to_string(think, NULL);
    bool on;

    if (c->template == NULL)
        return sp_fail(err, SP_E_UNSUPPORTED, "think requires a chat template");
    if (sp_json_to_bool(think, &on)) word = on ? "true" : "false";
    if (word == NULL) return sp_fail(err, SP_E_INPUT, "think: expected true, false or a level");
    return sp_conversation_set_thinking(c, word, err);
}

static enum sp_status request_ids(struct sp_conversation *c, const struct sp_json *prompt,
                                  struct sp_err *err)
{
    struct sp_ids ids = {0};
    enum sp_status st = sp_ids_of_json(&ids, prompt, err);

    if (!st) st = sp_conversation_set_ids(c, &ids, err);
    sp_ids_release(&ids);
    return st;
}

/* Makes the prompt of a text, of token ids, or of a conversation. */
static enum sp_status request(struct sp_conversation *c, const struct sp_json *line,
                              struct sp_err *err)
{
    const struct sp_json *messages = sp_json_get(line, "messages");
    const struct sp_json *prompt =
        sp_json_kind(line) == SP_JSON_OBJECT ? sp_json_get(line, "prompt") : line;
    size_t size;
    const char *text = sp_json_to_string(prompt, &size);

    if (messages) return sp_conversation_set_messages(c, messages, err);
    if (sp_json_kind(prompt) == SP_JSON_ARRAY) return request_ids(c, prompt, err);
    if (text != NULL) return size ? sp_conversation_add_user(c, text, size, err) : SP_OK;
    return sp_fail(
        err, SP_E_INPUT,
        "expected a string, an array of token IDs, or an object with prompt or messages");
}

enum sp_status sp_batch_line_request(struct sp_loaded_model *out, struct sp_batch_line *line,
                                     struct sp_loaded_model *m, struct sp_err *err)
{
    struct sp_conversation *c = &m->conversation;
    const struct sp_json *think = sp_json_get(line->json, "think");
    const struct sp_thinking thinking = c->thinking;
    enum sp_status st = SP_OK;

    c->settings = &line->settings;
    if (line->grammar) c->response_format = line->grammar;
    if (think != NULL) st = set_thinking(c, think, err);
    if (st == SP_OK && c->template == NULL && sp_json_has(line->json, "reasoning_budget"))
        st = sp_fail(err, SP_E_UNSUPPORTED, "reasoning_budget requires a chat template");
    if (st == SP_OK) st = request(c, line->json, err);
    if (st == SP_OK) {
        line->ids = c->prompt;
        line->rendered = c->rendered;
        c->prompt = (struct sp_ids){0};
        c->rendered = NULL;
    }
    *out = *m;
    out->settings = &line->settings;
    out->style.custom_id = line->custom_id;
    out->style.started = 0;
    if (line->grammar) out->grammar = line->grammar;
    c->settings = m->settings;
    c->response_format = m->grammar;
    c->thinking = thinking;
    sp_conversation_clear(c);
    if (st == SP_OK && line->ids.n == 0) st = sp_fail(err, SP_E_INPUT, "the prompt is empty");
    return st ? st : sp_loaded_model_check_context(m, line->ids.n, err);
}
