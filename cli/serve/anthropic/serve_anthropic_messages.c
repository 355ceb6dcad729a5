/* Converts the conversation of a request of Anthropic's API, whose messages have content blocks,
 * to the messages that serve_messages.c reads: tool calls beside the content of their message, and
 * a message for each tool result.
 *
 * Consecutive messages of one role form one turn, as the API specifies. */
#include "cli/serve/anthropic/serve_anthropic.h"
#include "cli/serve/request/serve_request.h"

/* The content of a turn, collected until the turn ends. */
struct turn {
    const char *role;                 /* NULL: no turn is open */
    struct sp_strbuf text, reasoning; /* texts of the turn; owned */
    /* [n_calls] tool_use blocks; the blocks are borrowed, the array is owned */
    const struct sp_json **calls;
    size_t n_calls, cap_calls;
    bool has_results; /* the turn has tool results, which are messages of their own */
};

/* Appends a text. The assistant's texts are parts of one answer and are joined directly; texts of
 * other roles start on a new line. */
static enum sp_status add_text(struct sp_strbuf *to, const struct sp_json *value, bool parts,
                               struct sp_err *err)
{
    size_t size;
    const char *text = sp_json_to_string(value, &size);
    enum sp_status st = SP_OK;

    if (text == NULL) return sp_fail(err, SP_E_INPUT, "missing text");
    if (!parts && to->len > 0 && to->at[to->len - 1] != '\n' && *text != '\n')
        st = sp_strbuf_append(to, "\n", 1, err);
    return st ? st : sp_strbuf_append(to, text, size, err);
}

static const char *type_of(const struct sp_json *block)
{
    return sp_json_to_string(sp_json_get(block, "type"), NULL);
}

static enum sp_status unreadable(const char *type, struct sp_err *err)
{
    if (type == NULL) return sp_fail(err, SP_E_INPUT, "missing type");
    return sp_fail(err, SP_E_UNSUPPORTED, "content of type %s is not supported, only text", type);
}

static const char blocks[] = "a string or an array of blocks";

/* Appends a content that is a string or consists of text blocks only. */
static enum sp_status join(struct sp_strbuf *to, const struct sp_json *content, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (sp_json_kind(content) == SP_JSON_STRING) return add_text(to, content, false, err);
    if (sp_json_kind(content) != SP_JSON_ARRAY)
        return sp_serve_wrong("content", content, blocks, err);
    for (size_t i = 0; i < sp_json_len(content) && !st; i++) {
        const struct sp_json *block = sp_json_at(content, i);
        const char *type = type_of(block);
        st = type && strcmp(type, "text") == 0
                 ? add_text(to, sp_json_get(block, "text"), false, err)
                 : unreadable(type, err);
        if (st) sp_context(err, "content[%zu]", i);
    }
    return st;
}

/* ---- calls and results ---- */

static enum sp_status add_call(struct turn *turn, const struct sp_json *block, struct sp_err *err)
{
    static const char *const needed[] = {"id", "name"};
    enum sp_status st;

    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const char *text = sp_json_to_string(sp_json_get(block, needed[i]), NULL);
        if (text == NULL || *text == '\0')
            return sp_fail(err, SP_E_INPUT, "tool_use has no %s", needed[i]);
    }
    if (sp_json_kind(sp_json_get(block, "input")) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "tool_use has no input object");
    st = sp_grow(&turn->calls, &turn->cap_calls, turn->n_calls + 1, sizeof *turn->calls, err);
    if (st == SP_OK) turn->calls[turn->n_calls++] = block;
    return st;
}

static void write_call(struct sp_json_out *out, const struct sp_json *block)
{
    sp_json_out_begin(out, NULL, '{');
    sp_json_out_value(out, "id", sp_json_get(block, "id"));
    sp_json_out_put(out, "type:'function', function:{");
    sp_json_out_value(out, "name", sp_json_get(block, "name"));
    sp_json_out_value(out, "arguments", sp_json_get(block, "input"));
    sp_json_out_put(out, "}}");
}

/* Writes a tool result. Its error flag is written as a member, for templates that use it. */
static enum sp_status write_result(struct sp_json_out *out, const struct sp_json *block,
                                   struct sp_err *err)
{
    const struct sp_json *content = sp_json_get(block, "content");
    const struct sp_json *id = sp_json_get(block, "tool_use_id");
    struct sp_strbuf text = {0};
    bool is_error = false;
    enum sp_status st;

    if (sp_json_to_string(id, NULL) == NULL)
        return sp_fail(err, SP_E_INPUT, "tool_result has no tool_use_id");
    st = sp_json_get_bool(block, "is_error", &is_error, err);
    if (!st && content != NULL) st = join(&text, content, err);
    if (!st) {
        sp_json_out_put(out, "{role:'tool'");
        sp_json_out_value(out, "tool_call_id", id);
        sp_json_out_string(out, "content", text.len ? text.at : "", text.len);
        if (is_error) sp_json_out_bool(out, "is_error", true);
        sp_json_out_end(out, '}');
    }
    sp_strbuf_release(&text);
    return st;
}

/* ---- turns ---- */

/* Writes the message of the turn and starts the next turn. */
static void write_turn(struct sp_json_out *out, struct turn *turn)
{
    if (turn->role != NULL && (turn->text.len > 0 || !turn->has_results)) {
        sp_json_out_put(out, "{role:%s", turn->role);
        sp_json_out_string(out, "content", turn->text.len ? turn->text.at : "", turn->text.len);
        if (turn->reasoning.len > 0)
            sp_json_out_string(out, "reasoning_content", turn->reasoning.at, turn->reasoning.len);
        if (turn->n_calls > 0) sp_json_out_begin(out, "tool_calls", '[');
        for (size_t i = 0; i < turn->n_calls; i++)
            write_call(out, turn->calls[i]);
        if (turn->n_calls > 0) sp_json_out_end(out, ']');
        sp_json_out_end(out, '}');
    }
    turn->role = NULL;
    turn->text.len = turn->reasoning.len = turn->n_calls = 0;
    turn->has_results = false;
}

/* Adds a content block. Redacted reasoning is skipped, since only its provider can decrypt it. */
static enum sp_status add_block(struct sp_json_out *out, struct turn *turn,
                                const struct sp_json *block, struct sp_err *err)
{
    static const char *const assistants[] = {"tool_use", "thinking", "redacted_thinking"};
    bool assistant = strcmp(turn->role, "assistant") == 0;
    const char *type = type_of(block);

    if (type && strcmp(type, "text") == 0)
        return add_text(&turn->text, sp_json_get(block, "text"), assistant, err);
    if (type && strcmp(type, "tool_result") == 0 && strcmp(turn->role, "user") == 0) {
        turn->has_results = true;
        return write_result(out, block, err);
    }
    for (size_t i = 0; type && i < sizeof assistants / sizeof *assistants; i++) {
        if (strcmp(type, assistants[i]) != 0) continue;
        if (!assistant) {
            return sp_fail(err, SP_E_INPUT, "%s must have the role assistant, found %s", type,
                           turn->role);
        }
        if (i == 0) return add_call(turn, block, err);
        if (i == 2) return SP_OK;
        return add_text(&turn->reasoning, sp_json_get(block, "thinking"), false, err);
    }
    return unreadable(type, err);
}

static enum sp_status add_message(struct sp_json_out *out, struct turn *turn,
                                  const struct sp_json *message, struct sp_err *err)
{
    const char *role = sp_json_to_string(sp_json_get(message, "role"), NULL);
    const struct sp_json *content = sp_json_get(message, "content");
    enum sp_status st = SP_OK;

    if (role == NULL || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 &&
                         strcmp(role, "system") != 0)) {
        return sp_fail(err, SP_E_INPUT, "role is %s, expected user or assistant",
                       role == NULL ? "missing"
                       : *role      ? role
                                    : "empty");
    }
    if (turn->role && strcmp(turn->role, role) != 0) write_turn(out, turn);
    turn->role = role;
    if (sp_json_kind(content) == SP_JSON_STRING)
        return add_text(&turn->text, content, strcmp(role, "assistant") == 0, err);
    if (sp_json_kind(content) != SP_JSON_ARRAY)
        return sp_serve_wrong("content", content, blocks, err);
    for (size_t i = 0; i < sp_json_len(content) && !st; i++) {
        st = add_block(out, turn, sp_json_at(content, i), err);
        if (st) sp_context(err, "content[%zu]", i);
    }
    return st;
}

/* Makes the model continue the assistant's message that ends the conversation. */
static enum sp_status begin_answer(struct sp_serve_request *request, struct turn *turn,
                                   struct sp_err *err)
{
    if (turn->n_calls > 0)
        return sp_fail(err, SP_E_INPUT, "the last message has tool calls without results");
    if (turn->reasoning.len > 0) {
        return sp_fail(
            err, SP_E_UNSUPPORTED,
            "the last message is a partial answer with thinking: only text can be continued");
    }
    request->partial = turn->text;
    turn->text = (struct sp_strbuf){0};
    turn->role = NULL;
    return SP_OK;
}

static enum sp_status write_messages(struct sp_json_out *out, struct turn *turn,
                                     struct sp_serve_request *request, struct sp_err *err)
{
    const struct sp_json *system = sp_json_get(request->body, "system");
    const struct sp_json *messages = sp_json_get(request->body, "messages");
    enum sp_status st;

    if (system != NULL) {
        turn->role = "system";
        if ((st = join(&turn->text, system, err))) {
            sp_context(err, "system");
            return st;
        }
    }
    for (size_t i = 0; i < sp_json_len(messages); i++) {
        if ((st = add_message(out, turn, sp_json_at(messages, i), err))) {
            sp_context(err, "messages[%zu]", i);
            return st;
        }
    }
    if (turn->role && strcmp(turn->role, "assistant") == 0) return begin_answer(request, turn, err);
    write_turn(out, turn);
    return SP_OK;
}

enum sp_status sp_serve_anthropic_read_messages(struct sp_serve_request *request,
                                                struct sp_err *err)
{
    const struct sp_json *messages = sp_json_get(request->body, "messages");
    struct sp_json *converted = NULL;
    struct turn turn = {.role = NULL};
    struct sp_json_out out = {0};
    enum sp_status st;

    if (sp_json_kind(messages) != SP_JSON_ARRAY || sp_json_len(messages) == 0)
        return sp_serve_wrong("messages", messages, "an array of messages", err);
    sp_json_out_begin(&out, NULL, '[');
    st = write_messages(&out, &turn, request, err);
    sp_json_out_end(&out, ']');
    st = sp_json_out_parse(&converted, &out, st, err);
    if (!st) st = sp_serve_read_messages(request, converted, err);
    sp_json_free(converted);
    sp_strbuf_release(&turn.text);
    sp_strbuf_release(&turn.reasoning);
    free(turn.calls);
    return st;
}
