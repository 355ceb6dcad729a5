/* The conversation that a template renders, from what a client sends of it. */
#include "cli/json_out.h"
#include "cli/serve_ask.h"
#include "format/text.h"

#include <stdlib.h>
#include <string.h>

/* A text part's text; others are refused by their type. */
static enum sp_status part_text(const char **text, size_t *size, const struct sp_json *part,
                                struct sp_err *err)
{
    const char *type = sp_json_to_string(sp_json_get(part, "type"), NULL);

    if (type == NULL) return sp_fail(err, SP_E_INPUT, "a part of its content has no type");
    if (strcmp(type, "text") != 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "content of type %s: only text is read here", type);
    }
    *text = sp_json_to_string(sp_json_get(part, "text"), size);
    return *text ? SP_OK : sp_fail(err, SP_E_INPUT, "a part of its content has no text");
}

/* Contents in parts become one text. */
static enum sp_status write_content(struct sp_json_out *out, const struct sp_json *content,
                                    struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct sp_text joined = {0};
    const char *text;
    size_t size;

    if (content == NULL) {
        sp_json_out_text(out, "content", "");
        return SP_OK;
    }
    if ((text = sp_json_to_string(content, &size)) != NULL) {
        sp_json_out_string(out, "content", text, size);
        return SP_OK;
    }
    if (sp_json_kind(content) != SP_JSON_ARRAY) {
        return sp_fail(err, SP_E_INPUT, "content is %s, expected a text or an array of parts",
                       sp_json_kind_name(sp_json_kind(content)));
    }
    for (size_t i = 0; i < sp_json_len(content) && !st; i++) {
        st = part_text(&text, &size, sp_json_at(content, i), err);
        if (!st) st = sp_text_append(&joined, text, size, err);
    }
    if (!st) sp_json_out_string(out, "content", joined.at ? joined.at : "", joined.len);
    sp_text_release(&joined);
    return st;
}

/* OpenAI writes a call's arguments as JSON in a string; templates expect the JSON itself. */
static enum sp_status write_function(struct sp_json_out *out, const struct sp_json *function,
                                     struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct sp_json_iter it = {0};

    sp_json_out_begin(out, "function", '{');
    while (!st && sp_json_next(function, &it)) {
        struct sp_json *arguments = NULL;
        size_t size;
        const char *text =
            strcmp(it.key, "arguments") == 0 ? sp_json_to_string(it.value, &size) : NULL;

        if (text && sp_json_parse(&arguments, text, size, SP_JSON_STRICT, NULL) == SP_OK &&
            sp_json_kind(arguments) == SP_JSON_OBJECT) {
            st = sp_json_out_value(out, it.key, arguments, err);
        } else {
            st = sp_json_out_value(out, it.key, it.value, err);
        }
        sp_json_free(arguments);
    }
    sp_json_out_end(out, '}');
    return st;
}

static enum sp_status write_call(struct sp_json_out *out, const struct sp_json *call,
                                 struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct sp_json_iter it = {0};

    sp_json_out_begin(out, NULL, '{');
    while (!st && sp_json_next(call, &it)) {
        bool function = strcmp(it.key, "function") == 0 && sp_json_kind(it.value) == SP_JSON_OBJECT;
        st = function ? write_function(out, it.value, err)
                      : sp_json_out_value(out, it.key, it.value, err);
    }
    sp_json_out_end(out, '}');
    return st;
}

static enum sp_status write_calls(struct sp_json_out *out, const struct sp_json *calls,
                                  struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (sp_json_kind(calls) != SP_JSON_ARRAY) {
        return sp_fail(err, SP_E_INPUT, "tool_calls is %s, expected an array",
                       sp_json_kind_name(sp_json_kind(calls)));
    }
    sp_json_out_begin(out, "tool_calls", '[');
    for (size_t i = 0; i < sp_json_len(calls) && !st; i++)
        st = write_call(out, sp_json_at(calls, i), err);
    sp_json_out_end(out, ']');
    return st;
}

/* OpenAI's newer name of the system's role. */
static const char *role_of(const struct sp_json *message)
{
    const char *role = sp_json_to_string(sp_json_get(message, "role"), NULL);

    return role && strcmp(role, "developer") == 0 ? "system" : role;
}

static enum sp_status write_message(struct sp_json_out *out, const struct sp_json *message,
                                    struct sp_err *err)
{
    enum sp_status st;
    struct sp_json_iter it = {0};
    const char *role = role_of(message);

    if (sp_json_kind(message) != SP_JSON_OBJECT) return sp_fail(err, SP_E_INPUT, "is no object");
    if (role == NULL || *role == '\0') return sp_fail(err, SP_E_INPUT, "has no role");
    if (sp_json_len(sp_json_get(message, "images")) > 0) {
        return sp_fail(err, SP_E_UNSUPPORTED, "images: only text is read here");
    }
    sp_json_out_begin(out, NULL, '{');
    sp_json_out_text(out, "role", role);
    st = write_content(out, sp_json_get(message, "content"), err);
    while (!st && sp_json_next(message, &it)) {
        if (strcmp(it.key, "role") == 0 || strcmp(it.key, "content") == 0) continue;
        if (strcmp(it.key, "images") == 0 || it.value == NULL) continue;
        st = strcmp(it.key, "tool_calls") == 0 ? write_calls(out, it.value, err)
                                               : sp_json_out_value(out, it.key, it.value, err);
    }
    sp_json_out_end(out, '}');
    return st;
}

static void write_turn(struct sp_json_out *out, const char *role, const char *text, size_t size)
{
    sp_json_out_begin(out, NULL, '{');
    sp_json_out_text(out, "role", role);
    sp_json_out_string(out, "content", text, size);
    sp_json_out_end(out, '}');
}

/* What the file says before the conversation. */
static void write_given(struct sp_json_out *out, const struct sp_conversation *c)
{
    for (size_t i = 0; i < c->n_given; i++)
        write_turn(out, c->turns[i].role, c->turns[i].content, strlen(c->turns[i].content));
}

static enum sp_status write_messages(struct sp_json_out *out, const struct sp_conversation *c,
                                     const struct sp_json *from, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    const char *role = role_of(sp_json_at(from, 0));
    size_t n_first = role && strcmp(role, "system") == 0 ? 1 : 0;

    if (n_first == 0 && c->system != NULL && *c->system) {
        write_turn(out, "system", c->system, strlen(c->system));
    }
    for (size_t i = 0; i < sp_json_len(from) && !st; i++) {
        if (i == n_first) write_given(out, c);
        st = write_message(out, sp_json_at(from, i), err);
        if (st) sp_context(err, "messages[%zu]", i);
    }
    return st;
}

/* Array of messages that `write` writes. */
struct writing {
    struct sp_json_out out;
    char *text;
    size_t size;
};

static enum sp_status begin(struct writing *w, struct sp_err *err)
{
    *w = (struct writing){0};
    w->out.file = open_memstream(&w->text, &w->size);
    if (w->out.file == NULL) return sp_fail(err, SP_E_NOMEM, "no memory for the messages");
    sp_json_out_begin(&w->out, NULL, '[');
    return SP_OK;
}

/* `st`: of the writing so far. */
static enum sp_status end(struct sp_json **messages, struct writing *w, enum sp_status st,
                          struct sp_err *err)
{
    sp_json_out_end(&w->out, ']');
    if (fclose(w->out.file) != 0 && !st) st = sp_fail(err, SP_E_NOMEM, "no memory for messages");
    if (!st) st = sp_json_parse(messages, w->text, w->size, SP_JSON_STRICT, err);
    free(w->text);
    return st;
}

enum sp_status sp_serve_read_messages(struct sp_serve_ask *ask,
                                      const struct sp_conversation *conversation,
                                      const struct sp_json *from, struct sp_err *err)
{
    struct writing w;
    enum sp_status st;

    if (sp_json_kind(from) != SP_JSON_ARRAY || sp_json_len(from) == 0) {
        return sp_fail(err, SP_E_INPUT, "messages is %s, expected an array of messages",
                       from ? "empty or something else" : "missing");
    }
    if ((st = begin(&w, err))) return st;
    st = write_messages(&w.out, conversation, from, err);
    return end(&ask->messages, &w, st, err);
}

enum sp_status sp_serve_read_prompt(struct sp_serve_ask *ask,
                                    const struct sp_conversation *conversation,
                                    const struct sp_json *system, const struct sp_json *prompt,
                                    struct sp_err *err)
{
    size_t n_said = 0, size;
    const char *said = sp_json_to_string(system, &n_said);
    const char *text = sp_json_to_string(prompt, &size);
    struct writing w;
    enum sp_status st;

    if (said == NULL && (said = conversation->system) != NULL) n_said = strlen(said);
    if ((st = begin(&w, err))) return st;
    if (n_said > 0) write_turn(&w.out, "system", said, n_said);
    write_given(&w.out, conversation);
    write_turn(&w.out, "user", text, size);
    return end(&ask->messages, &w, SP_OK, err);
}
